//! Keys and certificates for handshakes, made on the spot.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, RsaKeySize, SanType,
};
use signet_bed::Error;

use super::fault;

/// The name in every certificate.
pub(super) const NAME: &str = "price.test";

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA with 2,048 bits.
    Rsa2048,
    /// RSA with 3,072 bits.
    Rsa3072,
    /// ECDSA on P-256.
    P256,
    /// Ed25519.
    Ed25519,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rsa2048, Self::Rsa3072, Self::P256, Self::Ed25519];

    /// The name in items.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa-2048",
            Self::Rsa3072 => "rsa-3072",
            Self::P256 => "p-256",
            Self::Ed25519 => "ed25519",
        }
    }

    fn generate(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            Self::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
            Self::Rsa3072 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072),
            Self::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
        }
    }
}

/// An authority and a certificate of it, both with keys of one kind: what verifying a chain
/// costs depends on the authority's.
pub(super) struct Made {
    pub(super) root: String,
    pub(super) chain: String,
    pub(super) key: String,
}

impl Made {
    pub(super) fn new(kind: KeyKind) -> Result<Self, Error> {
        Self::make(kind).map_err(|error| fault("a certificate cannot be made", error))
    }

    fn make(kind: KeyKind) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Signet price");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, kind.generate()?)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.subject_alt_names = vec![SanType::DnsName(NAME.try_into()?)];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = kind.generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Self {
            root: issuer.pem(),
            chain: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}
