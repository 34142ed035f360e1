//! The certificates of a listener, and which of them a client gets.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use crate::error::TlsError;
use crate::hello::Hello;
use crate::identity::sip_uri_domain;

/// What is signed in some tens of microseconds. RSA takes ten times as long, the
/// longer curves several times.
const QUICK: [SignatureScheme; 2] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ED25519,
];

/// Certificates by the names in them.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificates {
    all: Vec<Arc<CertifiedKey>>,
    /// Places in `all`: one name may have certificates of several kinds.
    by_name: HashMap<String, Vec<usize>>,
    /// The same by the domains in `sip` URIs, for whom no other name fits: browsers and many phones
    /// know DNS names alone.
    by_uri: HashMap<String, Vec<usize>>,
}

impl Certificates {
    pub(super) fn add(
        &mut self,
        pair: Arc<CertifiedKey>,
        file: Option<&Path>,
    ) -> Result<(), TlsError> {
        let leaf = pair
            .end_entity_cert()
            .map_err(|error| TlsError::new(file, error.to_string()))?;
        let certificate = EndEntityCert::try_from(leaf).map_err(|error| {
            TlsError::new(file, format!("no certificate that can be read: {error}"))
        })?;
        let domains = certificate.valid_uri_names().filter_map(sip_uri_domain);
        for name in each_once(certificate.valid_dns_names()) {
            self.by_name.entry(name).or_default().push(self.all.len());
        }
        for name in each_once(domains) {
            self.by_uri.entry(name).or_default().push(self.all.len());
        }
        self.all.push(pair);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether whoever says this hello gets a signature that costs no more than
    /// a few messages do. One who chooses between certificates by something
    /// else than name and scheme may prove us wrong.
    pub(super) fn signs_quickly(&self, hello: &Hello<'_>) -> bool {
        let is_quick = |key: &Arc<CertifiedKey>| key.key.choose_scheme(&QUICK).is_some();
        if self.all.iter().all(is_quick) {
            return true;
        }
        if !self.all.iter().any(is_quick) {
            return false;
        }
        let schemes: Vec<SignatureScheme> = hello.schemes().collect();
        let name = std::str::from_utf8(hello.server_name).ok();
        self.choose(name, &schemes).is_some_and(is_quick)
    }

    /// The certificate for a client that asks for this name and verifies these
    /// signatures; the first where none fits.
    fn choose(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<&Arc<CertifiedKey>> {
        let fits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        let named = name.and_then(|name| self.named(&name.to_ascii_lowercase()));
        let mut named = named
            .into_iter()
            .flatten()
            .filter_map(|place| self.all.get(*place));
        named
            .find(fits)
            .or_else(|| self.all.iter().find(fits))
            // With one that does not fit the library finds nothing in common
            // and says so; with none it would say that access is denied.
            .or_else(|| self.all.first())
    }
}

impl Certificates {
    /// Those that bear a name: itself, or else a wildcard in the place of its first label, which
    /// browsers take (RFC 9525 6.3) though peers that speak SIP do not (RFC 5922 7.2), or else in
    /// a `sip` URI (RFC 5922 7.1).
    fn named(&self, name: &str) -> Option<&Vec<usize>> {
        let by_wildcard = || {
            let (_, parent) = name.split_once('.')?;
            self.by_name.get(&format!("*.{parent}"))
        };
        let by_name = self.by_name.get(name).or_else(by_wildcard);
        by_name.or_else(|| self.by_uri.get(name))
    }
}

fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    names.map(str::to_ascii_lowercase).collect()
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name(), hello.signature_schemes())
            .cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_pair::KeyPair;
    use crate::testing::TestCa;

    #[test]
    fn a_certificate_is_chosen_by_every_name_that_it_bears() {
        let ca = TestCa::new();
        let mut certificates = Certificates::default();
        for names in [
            &["a.example"][..],
            &["sip:B.example:5061", "c.example"],
            &["sip:user@d.example"],
            &["sip:a.example", "e.example"],
            &["*.w.example"],
            &["sip:x.w.example"],
        ] {
            let (chain, key) = ca.issue(names);
            let pair = KeyPair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
            certificates.add(pair.modern, None).unwrap();
        }
        for (name, place) in [
            ("a.example", 0),
            ("b.example", 1),
            ("c.example", 1),
            ("e.example", 3),
            ("x.w.example", 4),
            // No certificate bears these.
            ("d.example", 0),
            ("f.example", 0),
        ] {
            let chosen = certificates.choose(Some(name), &QUICK).unwrap();
            assert!(Arc::ptr_eq(chosen, &certificates.all[place]), "{name}");
        }
    }
}
