//! Whom a certificate speaks for (RFC 5922).

use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use sip_msg::VerifiedPeer;
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The identities in a certificate whose chain was verified.
///
/// RFC 5922 7.1 and 7.2: they are the `sip` URIs in subjectAltName that have
/// no user part; only where there is none of these, its DNS names. They are
/// compared whole and without regard to case. A wildcard matches nothing, and
/// the common name is not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The domains that the peer speaks for, in lower case.
    pub domains: Vec<Box<str>>,
    /// Every URI in subjectAltName, as it stands there.
    pub uris: Vec<Box<str>>,
    /// The end of the certificate's validity, in seconds since 1970.
    pub not_after_unix_s: u64,
}

impl PeerIdentity {
    /// Reads the identities of a certificate; `None` if it is none that can be
    /// read. That the certificate is to be believed must be known already.
    pub fn from_der(certificate: &[u8]) -> Option<Self> {
        let der = CertificateDer::from(certificate);
        let parsed = EndEntityCert::try_from(&der).ok()?;
        let not_after_unix_s = not_after_unix_s(certificate)?;
        let uris: Vec<Box<str>> = parsed.valid_uri_names().map(Box::from).collect();
        let mut domains: Vec<Box<str>> = uris
            .iter()
            .filter_map(|uri| sip_uri_domain(uri))
            .map(lower)
            .collect();
        if domains.is_empty() {
            domains = parsed
                .valid_dns_names()
                .filter(|name| !name.contains('*'))
                .map(lower)
                .collect();
        }
        Some(Self {
            domains,
            uris,
            not_after_unix_s,
        })
    }

    /// Whether the peer speaks for `domain`.
    pub fn speaks_for(&self, domain: &str) -> bool {
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        self.domains
            .iter()
            .any(|known| known.eq_ignore_ascii_case(domain))
    }
}

/// Whom a chain proves that was verified in the handshake that just ended, or
/// again for the session that it resumed, and until when. To be called for no other.
pub(crate) fn attest(
    chain: &[CertificateDer<'_>],
    not_after_unix_s: u64,
    is_client: bool,
) -> Option<Arc<VerifiedPeer>> {
    let identity = PeerIdentity::from_der(chain.first()?)?;
    // What a session was made by may have been followed by a newer certificate since.
    let end_unix_s = not_after_unix_s.min(identity.not_after_unix_s);
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    let peer = VerifiedPeer::attest(identity.domains, identity.uris, end_unix_s, is_client);
    Some(Arc::new(peer))
}

/// Whether a certificate that was verified bears `domain`, in the order of
/// RFC 5922 7.2.
pub(super) fn bears_sip_domain(certificate: &EndEntityCert<'_>, domain: &str) -> bool {
    let mut has_sip_uri = false;
    for uri in certificate.valid_uri_names() {
        if let Some(host) = sip_uri_domain(uri) {
            has_sip_uri = true;
            if host.eq_ignore_ascii_case(domain) {
                return true;
            }
        }
    }
    !has_sip_uri
        && certificate
            .valid_dns_names()
            .any(|name| name.eq_ignore_ascii_case(domain))
}

/// The domain in a `sip` URI without a user part.
pub(super) fn sip_uri_domain(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("sip") || rest.contains('@') {
        return None;
    }
    Some(before_port(rest)).filter(|host| !host.is_empty() && !host.contains('*'))
}

/// The host in a `sip` or `sips` URI, with a user part or without.
pub(super) fn sip_uri_host(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("sip") && !scheme.eq_ignore_ascii_case("sips") {
        return None;
    }
    let host = before_port(rest.rsplit_once('@').map_or(rest, |(_, behind)| behind));
    Some(host.strip_suffix('.').unwrap_or(host))
}

/// What stands before port, parameters and headers.
fn before_port(rest: &str) -> &str {
    rest.split([':', ';', '?']).next().unwrap_or(rest)
}

/// The end of a certificate's validity, in seconds since 1970.
pub(super) fn not_after_unix_s(certificate: &[u8]) -> Option<u64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0))
}

fn lower(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into_boxed_str()
}

/// The name that a peer must prove: the one given, or else its address.
pub(crate) fn server_name(name: Option<&str>, ip: IpAddr) -> Option<ServerName<'static>> {
    let Some(name) = name else {
        return Some(ServerName::IpAddress(ip.into()));
    };
    let name = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_ascii_lowercase()).ok()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::testing::TestCa;

    fn identity(names: &[&str]) -> PeerIdentity {
        let (chain, _) = TestCa::new().issue(names);
        let der = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
        PeerIdentity::from_der(&der).unwrap()
    }

    #[test]
    fn a_sip_uri_names_a_domain_only_without_a_user() {
        for (uri, domain) in [
            ("sip:example.com", Some("example.com")),
            ("SIP:example.com:5061;transport=tls", Some("example.com")),
            ("sip:alice@example.com", None),
            ("sips:example.com", None),
            ("https://example.com", None),
            ("sip:*.example.com", None),
            ("sip:", None),
            ("example.com", None),
        ] {
            assert_eq!(sip_uri_domain(uri), domain, "{uri}");
        }
    }

    #[test]
    fn sip_uris_come_first_and_dns_names_only_without_them() {
        // What is in the certificate, and whom it speaks for.
        let matrix: &[(&[&str], &[&str])] = &[
            (
                &["a.example.com", "B.example.com"],
                &["a.example.com", "b.example.com"],
            ),
            (&["sip:example.com", "other.com"], &["example.com"]),
            (
                &["sip:example.com", "sip:example.org"],
                &["example.com", "example.org"],
            ),
            (&["sip:user@example.com", "other.com"], &["other.com"]),
            (&["*.example.com", "example.net"], &["example.net"]),
            (&["*.example.com"], &[]),
            (&["127.0.0.1"], &[]),
        ];
        for (names, domains) in matrix {
            let identity = identity(names);
            let found: Vec<&str> = identity.domains.iter().map(|name| &**name).collect();
            assert_eq!(&found, domains, "{names:?}");
            for domain in *domains {
                assert!(identity.speaks_for(&domain.to_ascii_uppercase()));
                assert!(identity.speaks_for(&format!("{domain}.")));
            }
            assert!(!identity.speaks_for("sub.example.com"));
            assert!(!identity.speaks_for(""));
        }
    }

    #[test]
    fn uris_are_kept_as_they_stand_and_the_end_is_told() {
        let identity = identity(&["sip:Example.com", "sips:example.com"]);
        assert_eq!(
            &*identity.uris,
            ["sip:Example.com".into(), "sips:example.com".into()]
        );
        // The first of January 2099.
        assert_eq!(identity.not_after_unix_s, 4_070_908_800);
        assert!(PeerIdentity::from_der(b"no certificate").is_none());
    }

    #[test]
    fn a_peer_is_named_by_its_domain_or_by_its_address() {
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let text = |name| server_name(name, ip).map(|name| name.to_str().into_owned());
        assert_eq!(text(None).as_deref(), Some("192.0.2.1"));
        assert_eq!(text(Some("Example.COM.")).as_deref(), Some("example.com"));
        assert_eq!(text(Some("[2001:db8::1]")).as_deref(), Some("2001:db8::1"));
        assert_eq!(text(Some("not a name")), None);
    }
}
