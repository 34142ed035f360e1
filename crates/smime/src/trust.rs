//! Whom to believe: authorities, and whose certificate is for whom.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::certificate::{Certificate, address};
use crate::error::{IdentityError, OpenError};
use crate::oid;

/// The authorities whose users are believed. A certificate that somebody signed
/// himself is believed if it is one of these.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    anchors: Vec<TrustAnchor<'static>>,
    /// All that were listed: who signed himself is known by his whole certificate.
    listed: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// The certificates of authorities in a PEM text, and of users who signed their own: one that
    /// is no authority's is believed itself and vouches for no other.
    ///
    /// # Errors
    /// It has none, or one that cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Self, IdentityError> {
        let mut this = Self::default();
        for certificate in Certificate::from_pem(pem)? {
            let anchor = anchor_from_trusted_cert(&certificate.der).map_err(|_| {
                IdentityError::new(
                    "this certificate can be no authority's",
                    "name the PEM file of the authority",
                )
            })?;
            if certificate.may_certify() {
                this.anchors.push(anchor.to_owned());
            }
            this.listed.push(certificate.der);
        }
        Ok(this)
    }

    /// Whether a chain leads from the signer to an authority at this time
    /// (RFC 5280 6.1). `others` came with it.
    pub(crate) fn check(
        &self,
        signer: &Certificate,
        others: &[CertificateDer<'_>],
        now_unix_s: u64,
    ) -> Result<(), OpenError> {
        // RFC 8550 4.4.2: who signs has digitalSignature or nonRepudiation, where anything is said.
        if !signer.may_sign() {
            return Err(OpenError::WrongUse);
        }
        let anchors = self.anchors_for(signer);
        let leaf = EndEntityCert::try_from(&signer.der).map_err(|_| OpenError::Certificate)?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_unix_s));
        leaf.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            others,
            now,
            KeyUsage::required_if_present(oid::EMAIL_PROTECTION),
            None,
            None,
        )
        .map(drop)
        .or_else(|error| match error {
            webpki::Error::RequiredEkuNotFoundContext(_) => Err(OpenError::WrongUse),
            // RFC 3261 23.1: "Implementations may also use pre-configured certificates in deployments in
            // which a previous trust relationship exists between all SIP entities." One that its user
            // signed is often an authority's as well, and webpki takes none of those for a user's. It
            // has looked at the time before it says so, and not at what the key is for.
            webpki::Error::CaUsedAsEndEntity if self.lists(signer) => signer
                .may_protect_mail()
                .then_some(())
                .ok_or(OpenError::WrongUse),
            _ => Err(OpenError::Untrusted),
        })
    }

    /// What a chain from this signer may end at. webpki takes a certificate that its user signed
    /// only if it is an anchor: it is one for that user alone.
    fn anchors_for(&self, signer: &Certificate) -> Cow<'_, [TrustAnchor<'static>]> {
        if !self.lists(signer) || signer.may_certify() {
            return Cow::Borrowed(&self.anchors);
        }
        let own = anchor_from_trusted_cert(&signer.der).map(|own| own.to_owned());
        Cow::Owned(self.anchors.iter().cloned().chain(own).collect())
    }

    /// Whether this very certificate was named as one to be believed.
    fn lists(&self, signer: &Certificate) -> bool {
        self.listed.contains(&signer.der)
    }
}

/// The certificates of those whom we may write to, by address-of-record.
///
/// RFC 3261 23.1: "Each user agent that supports S/MIME MUST contain a keyring specifically for
/// end-users' certificates.  This keyring should map between addresses of record and corresponding
/// certificates."
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    by_address: HashMap<Vec<u8>, Arc<Certificate>>,
    of_anybody: Option<Arc<Certificate>>,
}

impl Keyring {
    /// Adds a certificate for every address in it; false where there is none.
    pub fn add(&mut self, certificate: &Arc<Certificate>) -> bool {
        let addresses: Vec<_> = certificate.uris().filter_map(address).collect();
        let has_any = !addresses.is_empty();
        for address in addresses {
            self.by_address.insert(address, Arc::clone(certificate));
        }
        has_any
    }

    /// Sets the certificate for every address that has none of its own: for loads, where
    /// one called side answers for all.
    pub fn set_for_anybody(&mut self, certificate: Arc<Certificate>) {
        self.of_anybody = Some(certificate);
    }

    /// The certificate to encrypt with for this address-of-record.
    pub fn find(&self, address_of_record: &str) -> Option<&Certificate> {
        let address = address(address_of_record);
        let found = address.and_then(|address| self.by_address.get(&address));
        found.or(self.of_anybody.as_ref()).map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
        KeyPair, KeyUsagePurpose, SanType,
    };

    use super::*;
    use crate::make::{Authority, Kind};

    #[test]
    fn only_a_chain_to_an_authority_is_believed_and_only_in_its_time() {
        let (ours, other) = (Authority::new(), Authority::new());
        let trust = Trust::from_pem(ours.pem().as_bytes()).unwrap();
        let now = 1_800_000_000;
        let good = ours.issue(Kind::P256, &["sip:a@b"]);
        let bad = other.issue(Kind::P256, &["sip:a@b"]);
        let check = |identity: &crate::Identity, now| trust.check(identity.certificate(), &[], now);
        assert_eq!(check(&good, now), Ok(()));
        assert_eq!(check(&bad, now), Err(OpenError::Untrusted));
        // rcgen's certificates are good from 1975 to 4096.
        assert_eq!(check(&good, 1), Err(OpenError::Untrusted));
        let nobody = Trust::default();
        let told = nobody.check(good.certificate(), &[], now);
        assert_eq!(told, Err(OpenError::Untrusted));
    }

    /// A certificate that is signed with its own key, with what `change` makes of it.
    fn by_himself(change: impl FnOnce(&mut CertificateParams)) -> (Certificate, String) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let uri = "sip:user1@example.org".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
        change(&mut params);
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let certificate = Certificate::from_pem(pem.as_bytes()).unwrap().remove(0);
        (certificate, pem)
    }

    #[test]
    fn who_signed_himself_is_believed_where_his_certificate_is_listed_and_in_its_time() {
        let now = 1_800_000_000;
        for is_ca in [
            IsCa::Ca(BasicConstraints::Unconstrained),
            IsCa::ExplicitNoCa,
            IsCa::NoCa,
        ] {
            let of_kind = || by_himself(|params| params.is_ca = is_ca);
            let ((his, pem), (other, _)) = (of_kind(), of_kind());
            let trust = Trust::from_pem(pem.as_bytes()).unwrap();
            assert_eq!(trust.check(&his, &[], now), Ok(()), "{is_ca:?}");
            assert_eq!(trust.check(&his, &[], 1), Err(OpenError::Untrusted));
            let told = trust.check(&other, &[], now);
            assert_eq!(told, Err(OpenError::Untrusted), "{is_ca:?}");
            let told = Trust::default().check(&his, &[], now);
            assert_eq!(told, Err(OpenError::Untrusted), "{is_ca:?}");
        }
    }

    #[test]
    fn who_signed_himself_vouches_for_nobody_else_unless_he_is_an_authority() {
        let now = 1_800_000_000;
        let authority = IsCa::Ca(BasicConstraints::Unconstrained);
        let sign = KeyUsagePurpose::DigitalSignature;
        for (is_ca, key_usages, expected) in [
            (authority, vec![], Ok(())),
            (authority, vec![KeyUsagePurpose::KeyCertSign], Ok(())),
            (authority, vec![sign], Err(OpenError::Untrusted)),
            (IsCa::ExplicitNoCa, vec![], Err(OpenError::Untrusted)),
            (IsCa::NoCa, vec![], Err(OpenError::Untrusted)),
        ] {
            let mut params = CertificateParams::default();
            params.is_ca = is_ca;
            params.key_usages = key_usages;
            let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
            let his = CertifiedIssuer::self_signed(params, key).unwrap();
            let mut params = CertificateParams::default();
            let uri = "sip:boss@example.org".try_into().unwrap();
            params.subject_alt_names.push(SanType::URI(uri));
            let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
            let other = params.signed_by(&key, &his).unwrap();
            let other = Certificate::from_der(other.der()).unwrap();
            let trust = Trust::from_pem(his.pem().as_bytes()).unwrap();
            assert_eq!(trust.check(&other, &[], now), expected, "{is_ca:?}");
            let chain = [his.der().clone()];
            assert_eq!(trust.check(&other, &chain, now), expected, "{is_ca:?}");
        }
    }

    #[test]
    fn who_signed_himself_for_another_use_is_not_believed() {
        let now = 1_800_000_000;
        let told = |purposes: Vec<ExtendedKeyUsagePurpose>| {
            let (his, pem) = by_himself(|params| params.extended_key_usages = purposes);
            let trust = Trust::from_pem(pem.as_bytes()).unwrap();
            trust.check(&his, &[], now)
        };
        let [server, mail] = [
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::EmailProtection,
        ];
        assert_eq!(told(vec![server.clone()]), Err(OpenError::WrongUse));
        assert_eq!(told(vec![server, mail]), Ok(()));
    }

    #[test]
    fn a_keyring_finds_whom_it_knows_and_anybody_where_it_may() {
        let authority = Authority::new();
        let of = |aor| Arc::new(authority.issue(Kind::P256, &[aor]).certificate().clone());
        let (alice, any) = (of("sip:alice@example.org"), of("sip:any@example.org"));
        let mut keyring = Keyring::default();
        assert!(keyring.add(&alice));
        assert!(!keyring.add(&of("https://example.org")));
        assert_eq!(keyring.find("sips:alice@EXAMPLE.org:5061"), Some(&*alice));
        assert_eq!(keyring.find("sip:bob@example.org"), None);
        keyring.set_for_anybody(Arc::clone(&any));
        assert_eq!(keyring.find("sip:bob@example.org"), Some(&*any));
        assert_eq!(keyring.find("sip:alice@example.org"), Some(&*alice));
    }
}
