//! For tests: certificates made on the spot, and a listener's side without a socket.
//! What cannot be done here ends the test: these are the only functions of the
//! crate that panic.
#![allow(clippy::expect_used)]

mod accept;

use std::net::IpAddr;
use std::ops::Range;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SanType, date_time_ymd,
};

pub use accept::TlsAccept;

/// A private certificate authority.
pub struct TestCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}

impl TestCa {
    /// Makes one.
    pub fn new() -> Self {
        Self::named("Test CA")
    }

    /// Makes one with this common name.
    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a root certificate");
        Self { issuer }
    }

    /// Its certificate, in PEM.
    pub fn root_pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for these names: DNS names, addresses, or URIs
    /// that begin with `sip:` or `sips:`. Gives chain and key, in PEM.
    pub fn issue(&self, names: &[&str]) -> (String, String) {
        self.issue_between(names, 2020, 2099)
    }

    /// The same with a key of this kind.
    pub fn issue_with(&self, names: &[&str], kind: KeyKind) -> (String, String) {
        self.issue_from(&params(names, 2020, 2099), &kind.generate())
    }

    /// The same for a certificate that is valid from the beginning of one year
    /// to that of another.
    pub fn issue_between(&self, names: &[&str], from_year: i32, to_year: i32) -> (String, String) {
        self.issue_from(
            &params(names, from_year, to_year),
            &KeyKind::P256.generate(),
        )
    }

    /// A certificate with every field as the caller wants it.
    pub fn issue_from(&self, params: &CertificateParams, key: &KeyPair) -> (String, String) {
        let certificate = params.signed_by(key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// A list of the certificates that it revoked, by their serial numbers, in PEM.
    pub fn revoke(&self, serials: &[u64]) -> String {
        self.revoke_in(serials, 1, 2024..2099)
    }

    /// The same by the list with this number, issued at the beginning of the first of these
    /// years and out of date at that of the other.
    pub fn revoke_in(&self, serials: &[u64], number: u64, years: Range<i32>) -> String {
        let day = date_time_ymd(years.start, 1, 1);
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: day,
            reason_code: None,
            invalidity_date: None,
        };
        CertificateRevocationListParams {
            this_update: day,
            next_update: date_time_ymd(years.end, 1, 1),
            crl_number: number.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        }
        .signed_by(&self.issuer)
        .expect("a revocation list")
        .pem()
        .expect("a revocation list in PEM")
    }

    /// What signs with its key.
    pub fn issuer(&self) -> &CertifiedIssuer<'static, KeyPair> {
        &self.issuer
    }
}

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA with 2,048 bits.
    Rsa2048,
    /// Ed25519.
    Ed25519,
}

impl KeyKind {
    /// Makes a key of this kind.
    pub fn generate(self) -> KeyPair {
        match self {
            Self::P256 => KeyPair::generate(),
            Self::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
            Self::Rsa2048 => {
                KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
            }
        }
        .expect("a key")
    }
}

/// The fields of an ordinary certificate for these names.
pub fn params(names: &[&str], from_year: i32, to_year: i32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names.iter().map(|name| subject(name)).collect();
    params
        .distinguished_name
        .push(DnType::CommonName, "Test certificate");
    params.not_before = date_time_ymd(from_year, 1, 1);
    params.not_after = date_time_ymd(to_year, 1, 1);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

impl std::fmt::Debug for TestCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestCa").finish_non_exhaustive()
    }
}

fn subject(name: &str) -> SanType {
    let text = || Ia5String::try_from(name).expect("an ASCII name");
    match name.parse::<IpAddr>() {
        Ok(ip) => SanType::IpAddress(ip),
        Err(_) if name.starts_with("sip:") || name.starts_with("sips:") => SanType::URI(text()),
        Err(_) => SanType::DnsName(text()),
    }
}
