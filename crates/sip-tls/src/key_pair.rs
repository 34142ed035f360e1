//! A certificate chain with its private key.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use zeroize::{Zeroize, Zeroizing};

use crate::error::TlsError;
use crate::legacy::Pair;
use crate::pem::{parse_certificates, read};
use crate::signing::OwnKey;

/// A chain and the key of its first certificate, as each engine takes them.
#[derive(Clone)]
pub(crate) struct KeyPair {
    pub(crate) modern: Arc<CertifiedKey>,
    pub(crate) legacy: Pair,
}

impl KeyPair {
    pub(crate) fn from_files(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let pems = (read(chain)?, read(key).map(Zeroizing::new)?);
        Self::new(&pems.0, &pems.1, Some(chain), Some(key))
    }

    pub(crate) fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::new(chain, key, None, None)
    }

    fn new(
        chain_pem: &[u8],
        key_pem: &[u8],
        chain_file: Option<&Path>,
        key_file: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let chain = parse_certificates(chain_pem, chain_file)?;
        let mut der = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| {
            TlsError::new(
                key_file,
                format!("has no private key that can be read, unencrypted and in PEM: {error}"),
            )
        })?;
        let key = any_supported_type(&der);
        der.zeroize();
        let key = key.map_err(|error| TlsError::new(key_file, error.to_string()))?;
        let pair = CertifiedKey::new(chain, Arc::new(OwnKey(key)));
        pair.keys_match()
            .map_err(|error| TlsError::new(chain_file, mismatch(&error)))?;
        Ok(Self {
            modern: Arc::new(pair),
            legacy: Pair::from_pem(chain_pem, key_pem)?,
        })
    }

    /// Shows it to whoever asks.
    pub(crate) fn resolver(&self) -> SingleCertAndKey {
        SingleCertAndKey::from(CertifiedKey::clone(&self.modern))
    }
}

/// Why a chain and a key are no pair, and what to do.
fn mismatch(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InconsistentKeys(_) => {
            "the key does not belong to the first certificate of the chain; give that certificate's own key".to_owned()
        }
        Error::InvalidCertificate(CertificateError::BadEncoding) => {
            "the first certificate cannot be read; give the chain with the server's own certificate first".to_owned()
        }
        Error::InvalidCertificate(_) => {
            "its first certificate is of no use for TLS, as those of X.509 version 1 are; issue one of version 3, with its names in subjectAltName".to_owned()
        }
        other => format!("{other}; give the chain's own key and certificate, the server's own first"),
    }
}
