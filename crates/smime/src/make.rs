//! Certificates made on the spot, for loads, measurements and tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, RsaKeySize, SanType,
};

use crate::certificate::Identity;

/// The kind of key that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ECDSA and ECDH on P-256.
    P256,
    /// RSA with 2,048 bits.
    Rsa2048,
}

impl Kind {
    /// The name as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::P256 => "p256",
            Self::Rsa2048 => "rsa2048",
        }
    }
}

/// Why nothing could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MakeError(String);

impl std::fmt::Display for MakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot make a certificate: {}", self.0)
    }
}

impl std::error::Error for MakeError {}

impl From<rcgen::Error> for MakeError {
    fn from(error: rcgen::Error) -> Self {
        Self(error.to_string())
    }
}

/// A private key for certificates of the same kind: making one with RSA takes long.
pub struct Key {
    pair: KeyPair,
    kind: Kind,
}

impl Key {
    /// Makes a key.
    ///
    /// # Errors
    /// The library refused.
    pub fn new(kind: Kind) -> Result<Self, MakeError> {
        let pair = match kind {
            Kind::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?,
            Kind::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?,
        };
        Ok(Self { pair, kind })
    }

    /// It as PEM, in PKCS#8.
    pub fn pem(&self) -> String {
        self.pair.serialize_pem()
    }
}

/// An authority with a key on P-256.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Makes one.
    ///
    /// # Errors
    /// The library refused.
    pub fn make() -> Result<Self, MakeError> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "S/MIME of this run");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let issuer = CertifiedIssuer::self_signed(params, key)?;
        Ok(Self { issuer })
    }

    /// Its own certificate, as PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate of this key for these addresses-of-record, as PEM.
    ///
    /// # Errors
    /// An address is not ASCII, or the library refused.
    pub fn certify(&self, key: &Key, addresses: &[&str]) -> Result<String, MakeError> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "S/MIME user");
        for address in addresses {
            let uri = (*address).try_into()?;
            params.subject_alt_names.push(SanType::URI(uri));
        }
        // With the identifier of its key, by which it may be named too.
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            match key.kind {
                Kind::P256 => KeyUsagePurpose::KeyAgreement,
                Kind::Rsa2048 => KeyUsagePurpose::KeyEncipherment,
            },
        ];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
        Ok(params.signed_by(&key.pair, &self.issuer)?.pem())
    }

    /// An identity with this key for these addresses-of-record.
    ///
    /// # Errors
    /// An address is not ASCII, or the library refused.
    pub fn identity(&self, key: &Key, addresses: &[&str]) -> Result<Identity, MakeError> {
        let chain = self.certify(key, addresses)?;
        Identity::from_pem(chain.as_bytes(), key.pem().as_bytes())
            .map_err(|error| MakeError(error.to_string()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
impl Authority {
    pub(crate) fn new() -> Self {
        Self::make().unwrap()
    }

    pub(crate) fn issue_pem(&self, kind: Kind, addresses: &[&str]) -> (String, String) {
        let key = Key::new(kind).unwrap();
        (self.certify(&key, addresses).unwrap(), key.pem())
    }

    pub(crate) fn issue(&self, kind: Kind, addresses: &[&str]) -> Identity {
        let key = Key::new(kind).unwrap();
        self.identity(&key, addresses).unwrap()
    }
}
