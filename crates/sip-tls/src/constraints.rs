//! What name constraints say of the hosts in `sip` URIs.
//!
//! The library holds constraints of DNS names against DNS names alone. A `sip` URI is the
//! identity that counts before those (RFC 5922 7.1), and its host a domain like theirs: an
//! authority that must not give a domain must not give a URI of it.

use std::borrow::Cow;

use webpki::{Error, VerifiedPath};
use x509_parser::asn1_rs::{Sequence, ToDer};
use x509_parser::prelude::{
    FromDer, GeneralName, GeneralSubtree, NameConstraints, X509Certificate,
};

use crate::identity::sip_uri_host;

/// Whether every authority of a path allows the hosts in the `sip` and `sips` URIs of its leaf.
pub(crate) fn check_sip_uris(path: &VerifiedPath<'_>) -> Result<(), Error> {
    let uris = path.end_entity().valid_uri_names();
    let hosts: Vec<&str> = uris.filter_map(sip_uri_host).collect();
    if hosts.is_empty() {
        return Ok(());
    }
    if let Some(content) = &path.anchor().name_constraints {
        let der = Sequence::new(Cow::Borrowed(content.as_ref()))
            .to_der_vec()
            .map_err(|_| Error::MalformedNameConstraint)?;
        let (_, constraints) =
            NameConstraints::from_der(&der).map_err(|_| Error::MalformedNameConstraint)?;
        check(&constraints, &hosts)?;
    }
    for authority in path.intermediate_certificates() {
        let der = authority.der();
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| Error::BadDer)?;
        let constraints = certificate
            .name_constraints()
            .map_err(|_| Error::MalformedNameConstraint)?;
        if let Some(constraints) = constraints {
            check(constraints.value, &hosts)?;
        }
    }
    Ok(())
}

fn check(constraints: &NameConstraints<'_>, hosts: &[&str]) -> Result<(), Error> {
    let (permitted, excluded) = (
        constraints.permitted_subtrees.as_deref(),
        constraints.excluded_subtrees.as_deref(),
    );
    // RFC 5280 4.2.1.10: "either the permittedSubtrees field or the excludedSubtrees MUST be
    // present." The parser leaves out what it cannot read.
    if permitted.is_none() && excluded.is_none() {
        return Err(Error::MalformedNameConstraint);
    }
    let permitted = dns_names(permitted.unwrap_or_default())?;
    let excluded = dns_names(excluded.unwrap_or_default())?;
    let is_allowed = |host: &&str| {
        let is_of = |base: &&str| is_within(host, base);
        (permitted.is_empty() || permitted.iter().any(is_of)) && !excluded.iter().any(is_of)
    };
    if hosts.iter().all(is_allowed) {
        Ok(())
    } else {
        Err(Error::NameConstraintViolation)
    }
}

fn dns_names<'a>(subtrees: &'a [GeneralSubtree<'a>]) -> Result<Vec<&'a str>, Error> {
    let mut names = Vec::new();
    for subtree in subtrees {
        match &subtree.base {
            GeneralName::DNSName(name) => names.push(*name),
            GeneralName::Invalid(..) => return Err(Error::MalformedNameConstraint),
            _ => {}
        }
    }
    Ok(names)
}

/// RFC 5280 4.2.1.10: "Any DNS name that can be constructed by simply adding zero or more labels
/// to the left-hand side of the name satisfies the name constraint." With a dot in front it asks
/// for one at least, as the library takes it.
fn is_within(host: &str, base: &str) -> bool {
    let at = host.len().checked_sub(base.len());
    let parts = at.and_then(|at| host.as_bytes().split_at_checked(at));
    parts.is_some_and(|(labels, end)| {
        let is_whole = base.is_empty() || labels.is_empty() || labels.ends_with(b".");
        end.eq_ignore_ascii_case(base.as_bytes()) && (base.starts_with('.') || is_whole)
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, GeneralSubtree as Subtree,
        IsCa, KeyPair, NameConstraints as Constraints,
    };
    use rustls::pki_types::{ServerName, UnixTime};

    use crate::fault::CertificateFault;
    use crate::pem::parse_certificates;
    use crate::testing::{KeyKind, params};
    use crate::verify::Trust;

    type Issuer = CertifiedIssuer<'static, KeyPair>;

    fn authority(
        name: &str,
        permitted: &[&str],
        excluded: &[&str],
        above: Option<&Issuer>,
    ) -> Issuer {
        let subtrees = |names: &[&str]| {
            let names = names.iter().map(|name| Subtree::DnsName((*name).into()));
            names.collect::<Vec<_>>()
        };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.name_constraints =
            (!permitted.is_empty() || !excluded.is_empty()).then(|| Constraints {
                permitted_subtrees: subtrees(permitted),
                excluded_subtrees: subtrees(excluded),
            });
        let key = KeyKind::P256.generate();
        match above {
            None => CertifiedIssuer::self_signed(params, key),
            Some(above) => CertifiedIssuer::signed_by(params, key, above),
        }
        .unwrap()
    }

    /// Of a certificate with this name, under an authority with these constraints: one that is
    /// trusted itself, or one beneath such a one.
    fn verdict(
        uri: &str,
        permitted: &[&str],
        excluded: &[&str],
        is_root: bool,
    ) -> Result<(), CertificateFault> {
        let (root, between) = if is_root {
            (authority("Root", permitted, excluded, None), None)
        } else {
            let root = authority("Root", &[], &[], None);
            let between = authority("Between", permitted, excluded, Some(&root));
            (root, Some(between))
        };
        let issuer = between.as_ref().unwrap_or(&root);
        let key = KeyKind::P256.generate();
        // The address is what it is called by: no constraint is about it.
        let leaf = params(&[uri, "192.0.2.1"], 2020, 2099)
            .signed_by(&key, issuer)
            .unwrap();
        let chain = leaf.pem() + &issuer.pem();
        let chain = parse_certificates(chain.as_bytes(), None).unwrap();
        let mut trust = Trust::default();
        trust.add_roots(root.pem().as_bytes(), None).unwrap();
        let name = ServerName::try_from("192.0.2.1").unwrap();
        trust.check_server(&chain, &name, UnixTime::now())
    }

    #[test]
    fn a_sip_uri_is_bound_like_a_dns_name() {
        let matrix: &[(&str, &[&str], &[&str], bool)] = &[
            ("sip:example.com", &["example.com"], &[], true),
            (
                "sip:EXAMPLE.com:5061;transport=tls",
                &["example.com"],
                &[],
                true,
            ),
            (
                "sips:a.example.com",
                &["example.net", "example.com"],
                &[],
                true,
            ),
            ("sip:a.example.com", &[".example.com"], &[], true),
            ("sip:alice@example.com", &["example.com"], &[], true),
            ("sip:example.com", &["example.net"], &[], false),
            ("sip:badexample.com", &["example.com"], &[], false),
            ("sip:example.com", &[".example.com"], &[], false),
            ("sip:alice@example.com", &["example.net"], &[], false),
            ("sips:alice@example.com", &["example.net"], &[], false),
            ("sip:example.net@example.com", &["example.net"], &[], false),
            ("sip:192.0.2.1", &["example.net"], &[], false),
            ("sip:example.com", &[], &["example.net"], true),
            ("sip:example.com", &[], &["example.com"], false),
            (
                "sip:a.example.com",
                &["example.com"],
                &["a.example.com"],
                false,
            ),
            ("sip:example.com.", &[], &["example.com"], false),
        ];
        for (uri, permitted, excluded, may) in matrix {
            let expected = if *may {
                Ok(())
            } else {
                Err(CertificateFault::NameConstraint)
            };
            for is_root in [false, true] {
                let said = verdict(uri, permitted, excluded, is_root);
                assert_eq!(said, expected, "{uri} {permitted:?} {excluded:?} {is_root}");
            }
        }
    }
}
