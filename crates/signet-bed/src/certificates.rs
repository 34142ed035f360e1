//! The certificates of an experiment: one authority and one certificate of each kind
//! of key, for 127.0.0.1.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RSA with 2,048 bits.
    Rsa2048,
    /// ECDSA on P-256.
    P256,
    /// Ed25519.
    Ed25519,
}

impl Kind {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Rsa2048, Self::P256, Self::Ed25519];

    /// Its name, with which the names of its files begin.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa2048",
            Self::P256 => "p256",
            Self::Ed25519 => "ed25519",
        }
    }

    fn generate(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            Self::Rsa2048 => {
                KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
            }
            Self::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
        }
    }
}

/// The certificates of an experiment, all in one folder.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes them in this folder, for 127.0.0.1.
    ///
    /// # Errors
    /// A file that cannot be written, or a missing `openssl`.
    pub fn make(folder: &Path) -> Result<Self, String> {
        Self::make_for(folder, &[Ipv4Addr::LOCALHOST])
    }

    /// The same for these addresses.
    ///
    /// # Errors
    /// As [`Certificates::make`].
    pub fn make_for(folder: &Path, addresses: &[Ipv4Addr]) -> Result<Self, String> {
        let made = Self {
            folder: folder.to_owned(),
        };
        made.issue(addresses)
            .map_err(|error| format!("cannot make certificates: {error}"))?;
        Ok(made)
    }

    /// The path of the authority's certificate.
    pub fn root(&self) -> String {
        self.file("root.pem")
    }

    /// The path of the certificate with this kind of key.
    pub fn chain(&self, kind: Kind) -> String {
        self.file(&format!("{}.pem", kind.name()))
    }

    /// The path of that certificate's key.
    pub fn key(&self, kind: Kind) -> String {
        self.file(&format!("{}.key", kind.name()))
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn make_key(&self, kind: Kind, file: &str) -> Result<KeyPair, Box<dyn std::error::Error>> {
        if kind == Kind::Ed25519 {
            // OpenSSL 3.0, with which Kamailio is built, does not read the
            // newer form of PKCS #8 (RFC 5958) that the library writes for it.
            let words = ["genpkey", "-algorithm", "ed25519", "-out", file];
            let output = std::process::Command::new("openssl").args(words).output()?;
            if !output.status.success() {
                return Err(format!(
                    "openssl genpkey: {}",
                    String::from_utf8_lossy(&output.stderr)
                )
                .into());
            }
            return Ok(KeyPair::from_pem(&std::fs::read_to_string(file)?)?);
        }
        let key = kind.generate()?;
        std::fs::write(file, key.serialize_pem())?;
        Ok(key)
    }

    fn issue(&self, addresses: &[Ipv4Addr]) -> Result<(), Box<dyn std::error::Error>> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Signet bench");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, Kind::P256.generate()?)?;
        std::fs::write(self.root(), issuer.pem())?;
        for kind in Kind::ALL {
            let mut params = CertificateParams::default();
            params
                .distinguished_name
                .push(DnType::CommonName, "127.0.0.1");
            params.subject_alt_names = addresses
                .iter()
                .map(|address| SanType::IpAddress(IpAddr::V4(*address)))
                .collect();
            params.extended_key_usages = vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ];
            let file = self.key(kind);
            let key = self.make_key(kind, &file)?;
            let certificate = params.signed_by(&key, &issuer)?;
            std::fs::write(self.chain(kind), certificate.pem())?;
            // A key that others can read is refused.
            let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&file, own)?;
        }
        Ok(())
    }
}
