//! The proof that is asked of a peer's certificate, on either side.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, ExtendedKeyUsageValidator, KeyPurposeId,
    KeyPurposeIdIter, KeyUsage, OwnedCertRevocationList, RequiredEkuNotFoundContext,
    RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy,
};
use x509_parser::num_bigint::BigUint;
use x509_parser::oid_registry::{
    OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER, OID_X509_EXT_ISSUER_DISTRIBUTION_POINT,
};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

use crate::constraints::check_sip_uris;
use crate::context::current;
use crate::engine::TlsEngine;
use crate::error::TlsError;
use crate::fault::CertificateFault;
use crate::identity::{bears_sip_domain, not_after_unix_s};
use crate::pem::parse_certificates;

/// What extendedKeyUsage a peer's certificate must have. A certificate without
/// that extension may be used for anything, except under `SipDomain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum KeyUsagePolicy {
    /// serverAuth or clientAuth, whichever side the peer is on: public
    /// authorities no longer issue certificates with clientAuth, and a SIP
    /// server is on both sides.
    #[default]
    Lenient,
    /// What its side of the connection asks for: serverAuth of a server,
    /// clientAuth of a client.
    Strict,
    /// id-kp-sipDomain, and nothing else will do (RFC 5924).
    SipDomain,
}

impl KeyUsagePolicy {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lenient => "lenient",
            Self::Strict => "strict",
            Self::SipDomain => "sip-domain",
        }
    }
}

/// What is asked of revocation lists, where there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum RevocationPolicy {
    /// A certificate in a list is refused; one of an authority without a list,
    /// or with a list out of date, is not.
    #[default]
    Lenient,
    /// Every certificate of the chain must be covered by a list that is not
    /// out of date.
    Strict,
}

impl RevocationPolicy {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lenient => "lenient",
            Self::Strict => "strict",
        }
    }
}

/// The shortest RSA key that is accepted.
const RSA_BITS_MIN: usize = 2_048;

// RFC 5280 4.2.1.12 and RFC 5924.
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
const SIP_DOMAIN: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 20];
const ANY: &[u8] = &[0x55, 0x1d, 0x25, 0];

/// Which side of the connection the peer is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Server,
    Client,
}

/// Whom we trust, and how far.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    pub(crate) roots: RootCertStore,
    /// The same whole, in a build with the second engine.
    pub(crate) root_ders: Vec<CertificateDer<'static>>,
    /// The newest first: of several lists of one authority the library takes the first.
    crls: Vec<Crl>,
    pub(crate) usage: KeyUsagePolicy,
    pub(crate) revocation: RevocationPolicy,
}

/// A revocation list.
#[derive(Clone, Debug)]
struct Crl {
    list: Arc<CertRevocationList<'static>>,
    /// Whose list it is: the authority, its key, and which part of the list this is. A newer one
    /// takes the place of an older one of these alone.
    series: Vec<u8>,
    /// When it was issued, in seconds since 1970, and which one of its authority it is.
    issued: (i64, Option<BigUint>),
}

impl Crl {
    fn read(der: &[u8], file: Option<&Path>) -> Result<Self, TlsError> {
        let unreadable = |error: String| {
            TlsError::new(
                file,
                format!("no revocation list that can be read: {error}"),
            )
        };
        let list = OwnedCertRevocationList::from_der(der)
            .map_err(|error| unreadable(error.to_string()))?;
        let (_, parsed) = CertificateRevocationList::from_der(der)
            .map_err(|error| unreadable(error.to_string()))?;
        let mut series = parsed.issuer().as_raw().to_vec();
        for extension in parsed.extensions() {
            let tells = [
                OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER,
                OID_X509_EXT_ISSUER_DISTRIBUTION_POINT,
            ];
            if tells.contains(&extension.oid) {
                series.extend_from_slice(extension.oid.as_bytes());
                series.extend_from_slice(extension.value);
            }
        }
        Ok(Self {
            list: Arc::new(list.into()),
            series,
            issued: (
                parsed.last_update().timestamp(),
                parsed.crl_number().cloned(),
            ),
        })
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            roots: RootCertStore::empty(),
            root_ders: Vec::new(),
            crls: Vec::new(),
            usage: KeyUsagePolicy::default(),
            revocation: RevocationPolicy::default(),
        }
    }
}

impl Trust {
    pub(crate) fn add_roots(&mut self, pem: &[u8], file: Option<&Path>) -> Result<(), TlsError> {
        for root in parse_certificates(pem, file)? {
            if TlsEngine::Legacy.is_here() {
                self.root_ders.push(root.clone());
            }
            self.roots
                .add(root)
                .map_err(|error| TlsError::new(file, error.to_string()))?;
        }
        Ok(())
    }

    pub(crate) fn add_crls(&mut self, pem: &[u8], file: Option<&Path>) -> Result<(), TlsError> {
        let before = self.crls.len();
        for crl in CertificateRevocationListDer::pem_slice_iter(pem) {
            let crl =
                crl.map_err(|error| TlsError::new(file, format!("is no PEM file: {error}")))?;
            let crl = Crl::read(&crl, file)?;
            // The library goes by the first that is the authority's.
            let is_older = |known: &Crl| known.series == crl.series && known.issued < crl.issued;
            let place = self.crls.iter().position(is_older);
            self.crls.insert(place.unwrap_or(self.crls.len()), crl);
        }
        if self.crls.len() == before {
            return Err(TlsError::new(
                file,
                "has no revocation list in it (-----BEGIN X509 CRL-----)",
            ));
        }
        Ok(())
    }

    /// Verifies a chain, and what the library leaves to others: keyUsage, the
    /// length of the key, RFC 5924. Names are another matter. Gives when the first
    /// certificate ends of those that lead to a root, in seconds since 1970: what
    /// else came proves nothing, and its end ends nothing.
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        side: Side,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<u64, CertificateFault> {
        let certificate = EndEntityCert::try_from(end_entity)
            .map_err(|error| CertificateFault::of_chain(&error))?;
        let crls: Vec<&CertRevocationList<'_>> =
            self.crls.iter().map(|crl| crl.list.as_ref()).collect();
        let revocation = RevocationOptionsBuilder::new(&crls).ok().map(|options| {
            let options = options.with_depth(RevocationCheckDepth::Chain);
            match self.revocation {
                RevocationPolicy::Lenient => options
                    .with_status_policy(UnknownStatusPolicy::Allow)
                    .with_expiration_policy(ExpirationPolicy::Ignore),
                RevocationPolicy::Strict => options
                    .with_status_policy(UnknownStatusPolicy::Deny)
                    .with_expiration_policy(ExpirationPolicy::Enforce),
            }
            .build()
        });
        if revocation.is_none() && self.revocation == RevocationPolicy::Strict {
            return Err(CertificateFault::RevocationUnknown);
        }
        let path = certificate
            .verify_for_usage(
                algorithms.all,
                &self.roots.roots,
                intermediates,
                now,
                Usage {
                    policy: self.usage,
                    side,
                },
                revocation,
                Some(&check_sip_uris),
            )
            .map_err(|error| CertificateFault::of_chain(&error))?;
        let above = path.intermediate_certificates();
        let ends = above.filter_map(|above| not_after_unix_s(&above.der()));
        let end = ends.min().unwrap_or(u64::MAX);
        Ok(self.verify_leaf(end_entity)?.min(end))
    }

    /// Verifies the chain of a server, and that its certificate bears this name. Gives when
    /// the first certificate ends, as `verify` does.
    fn verify_server(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<u64, CertificateFault> {
        let end = self.verify(end_entity, intermediates, now, Side::Server, algorithms)?;
        let certificate =
            EndEntityCert::try_from(end_entity).map_err(|_| CertificateFault::Malformed)?;
        // RFC 3261 26.3.2.1: "If the certificate is invalid, revoked, or if it does not identify the
        // appropriate party, the UA MUST NOT send the REGISTER message and otherwise proceed with the
        // registration."
        let bears = match name {
            ServerName::DnsName(domain) => bears_sip_domain(&certificate, domain.as_ref()),
            other => certificate.verify_is_valid_for_subject_name(other).is_ok(),
        };
        if bears {
            Ok(end)
        } else {
            Err(CertificateFault::WrongName)
        }
    }

    /// Verifies a server whose session is resumed, or whose connection is up.
    pub(crate) fn check_server(
        &self,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), CertificateFault> {
        let (end_entity, above) = chain.split_first().ok_or(CertificateFault::Missing)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let algorithms = provider.signature_verification_algorithms;
        self.verify_server(end_entity, above, name, now, &algorithms)
            .map(|_| ())
    }

    /// Gives the end of the certificate's validity, in seconds since 1970.
    fn verify_leaf(&self, end_entity: &CertificateDer<'_>) -> Result<u64, CertificateFault> {
        let (_, certificate) =
            X509Certificate::from_der(end_entity).map_err(|_| CertificateFault::Malformed)?;
        // RFC 5280 4.2.1.3: where keyUsage is there, a key may sign only if it
        // has the bit digitalSignature. In every suite that we have the key of
        // the certificate signs the handshake.
        match certificate.key_usage() {
            Ok(Some(usage)) if !usage.value.digital_signature() => {
                return Err(CertificateFault::WrongUsage);
            }
            Ok(_) => {}
            Err(_) => return Err(CertificateFault::Malformed),
        }
        if let Ok(PublicKey::RSA(key)) = certificate.public_key().parsed()
            && key.key_size() < RSA_BITS_MIN
        {
            return Err(CertificateFault::WeakKey);
        }
        if self.usage == KeyUsagePolicy::SipDomain {
            let purposes = certificate
                .extended_key_usage()
                .map_err(|_| CertificateFault::Malformed)?;
            let is_sip = purposes.is_some_and(|purposes| {
                purposes
                    .value
                    .other
                    .iter()
                    .any(|oid| oid.as_bytes() == SIP_DOMAIN)
            });
            if !is_sip {
                return Err(CertificateFault::WrongUsage);
            }
        }
        let end = certificate.validity().not_after.timestamp();
        Ok(u64::try_from(end).unwrap_or(0))
    }
}

/// The extendedKeyUsage of every certificate of a chain.
struct Usage {
    policy: KeyUsagePolicy,
    side: Side,
}

impl ExtendedKeyUsageValidator for Usage {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let accepted: &[&[u8]] = match (self.policy, self.side) {
            // RFC 5924: a certificate with id-kp-sipDomain is good for SIP,
            // whatever else it is good for.
            (KeyUsagePolicy::Lenient | KeyUsagePolicy::SipDomain, _) => {
                &[SIP_DOMAIN, ANY, SERVER_AUTH, CLIENT_AUTH]
            }
            (KeyUsagePolicy::Strict, Side::Server) => &[SIP_DOMAIN, ANY, SERVER_AUTH],
            (KeyUsagePolicy::Strict, Side::Client) => &[SIP_DOMAIN, ANY, CLIENT_AUTH],
        };
        let mut present = Vec::new();
        for purpose in purposes {
            let purpose = purpose?;
            if accepted
                .iter()
                .any(|known| purpose == KeyPurposeId::new(known))
            {
                return Ok(());
            }
            present.push(purpose.to_decoded_oid());
        }
        if present.is_empty() {
            return Ok(());
        }
        let required = match self.side {
            Side::Server => KeyUsage::server_auth(),
            Side::Client => KeyUsage::client_auth(),
        };
        Err(webpki::Error::RequiredEkuNotFoundContext(
            RequiredEkuNotFoundContext { required, present },
        ))
    }
}

/// The signatures of handshakes, which either verifier checks by its algorithms.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signature, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

/// Verifies the certificate of a server that we connect to: RFC 5922 7.3 asks
/// for a chain to a root that we trust, and the SIP domain in it.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    /// Without it anyone is believed.
    trust: Option<Trust>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    pub(crate) fn new(trust: Option<Trust>, provider: &CryptoProvider) -> Arc<Self> {
        Arc::new(Self {
            trust,
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ServerCertVerifier for ServerVerifier {
    // RFC 3261 26.3.1: "All SIP elements that support TLS MUST have a mechanism for validating
    // certificates received during TLS negotiation; this entails possession of one or more root
    // certificates issued by certificate authorities (preferably well-known distributors of site
    // certificates comparable to those that issue root certificates for web browsers)."
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let end = trust
            .verify_server(
                end_entity,
                intermediates,
                server_name,
                now,
                &self.algorithms,
            )
            .map_err(CertificateFault::into_error)?;
        current(|context| context.not_after_unix_s = Some(end));
        Ok(ServerCertVerified::assertion())
    }

    signatures!();
}

/// Verifies the certificates of clients: their chain. Whom they may speak for
/// is decided above, by [`crate::PeerIdentity`].
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    trust: Trust,
    mandatory: bool,
    subjects: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    pub(crate) fn new(trust: Trust, mandatory: bool, provider: &CryptoProvider) -> Arc<Self> {
        Arc::new(Self {
            subjects: trust.roots.subjects(),
            trust,
            mandatory,
            algorithms: provider.signature_verification_algorithms,
        })
    }

    /// Verifies a chain, of a handshake or of a session that is resumed, and
    /// gives when the first of its certificates ends.
    pub(crate) fn check(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<u64, CertificateFault> {
        match chain.split_first() {
            Some((end_entity, intermediates)) => self.trust.verify(
                end_entity,
                intermediates,
                now,
                Side::Client,
                &self.algorithms,
            ),
            None if self.mandatory => Err(CertificateFault::Missing),
            None => Ok(u64::MAX),
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain: Vec<CertificateDer<'static>> = std::iter::once(end_entity)
            .chain(intermediates)
            .map(|certificate| certificate.clone().into_owned())
            .collect();
        let not_after_unix_s = self
            .check(&chain, now)
            .map_err(CertificateFault::into_error)?;
        current(|context| {
            context.chain = chain;
            context.not_after_unix_s = Some(not_after_unix_s);
        });
        Ok(ClientCertVerified::assertion())
    }

    signatures!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{KeyKind, TestCa, params};

    /// Of a certificate with the serial number 5, by these lists in this order.
    fn verdict(
        ca: &TestCa,
        lists: &[&String],
        revocation: RevocationPolicy,
    ) -> Result<(), CertificateFault> {
        let mut leaf = params(&["example.com"], 2020, 2099);
        leaf.serial_number = Some(5u64.into());
        let (chain, _) = ca.issue_from(&leaf, &KeyKind::P256.generate());
        let chain = parse_certificates(chain.as_bytes(), None).unwrap();
        let mut trust = Trust {
            revocation,
            ..Trust::default()
        };
        trust.add_roots(ca.root_pem().as_bytes(), None).unwrap();
        for list in lists {
            trust.add_crls(list.as_bytes(), None).unwrap();
        }
        let name = ServerName::try_from("example.com").unwrap();
        trust.check_server(&chain, &name, UnixTime::now())
    }

    #[test]
    fn of_two_lists_of_an_authority_the_newer_counts_wherever_it_stands() {
        let ca = TestCa::new();
        let older = ca.revoke_in(&[4], 1, 2023..2099);
        let newer = ca.revoke_in(&[4, 5], 2, 2024..2099);
        let next = ca.revoke_in(&[4, 5], 3, 2023..2099);
        let bundle = [&*older, &*newer].concat();
        let revoked = Err(CertificateFault::Revoked);
        for policy in [RevocationPolicy::Lenient, RevocationPolicy::Strict] {
            assert_eq!(verdict(&ca, &[&older], policy), Ok(()));
            assert_eq!(verdict(&ca, &[&older, &newer], policy), revoked);
            assert_eq!(verdict(&ca, &[&newer, &older], policy), revoked);
            assert_eq!(verdict(&ca, &[&bundle], policy), revoked);
            // Issued at the same time, the number tells.
            assert_eq!(verdict(&ca, &[&older, &next], policy), revoked);
            assert_eq!(verdict(&ca, &[&next, &older], policy), revoked);
        }
    }

    #[test]
    fn the_newer_list_of_another_key_stands_where_it_was_written() {
        let (ca, before) = (TestCa::new(), TestCa::new());
        let list = ca.revoke_in(&[4], 1, 2023..2099);
        let of_other_key = before.revoke_in(&[4], 9, 2024..2099);
        for policy in [RevocationPolicy::Lenient, RevocationPolicy::Strict] {
            assert_eq!(verdict(&ca, &[&list, &of_other_key], policy), Ok(()));
        }
    }

    #[test]
    fn a_list_out_of_date_does_not_stand_before_one_that_is_not() {
        let ca = TestCa::new();
        let over = ca.revoke_in(&[4], 1, 2021..2022);
        let current = ca.revoke_in(&[4], 2, 2024..2099);
        let strict = RevocationPolicy::Strict;
        let unknown = Err(CertificateFault::RevocationUnknown);
        assert_eq!(verdict(&ca, &[&over], strict), unknown);
        assert_eq!(verdict(&ca, &[&over, &current], strict), Ok(()));
        assert_eq!(verdict(&ca, &[&current, &over], strict), Ok(()));
    }
}
