//! A certificate chain with its private key.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::{RsaSigningKey, any_supported_type};
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
        Self::of_files((chain, pems.0.as_slice()), (key, pems.1.as_slice()))
    }

    /// Of files that were read.
    pub(crate) fn of_files(chain: (&Path, &[u8]), key: (&Path, &[u8])) -> Result<Self, TlsError> {
        Self::new(chain.1, key.1, Some(chain.0), Some(key.0))
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
        // Another one beside the key may be.
        let is_encrypted = is_encrypted(key_pem);
        let mut der = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| {
            let why = match is_encrypted {
                true => IS_ENCRYPTED.to_owned(),
                false => {
                    format!("has no private key that can be read, unencrypted and in PEM: {error}")
                }
            };
            TlsError::new(key_file, why)
        })?;
        let key = any_supported_type(&der).map_err(|_| match is_encrypted {
            true => IS_ENCRYPTED,
            false => unusable(&der),
        });
        der.zeroize();
        let key = key.map_err(|reason| TlsError::new(key_file, reason))?;
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

/// What is told of one that is.
const IS_ENCRYPTED: &str =
    "the private key is encrypted; write it without a passphrase: openssl pkey -in KEY -out NEW";

/// How PEM says that a key is encrypted, in its first line or in one of its headers (RFC 7468 11,
/// RFC 1421 4.6.1.1).
const ENCRYPTED: [&[u8]; 2] = [
    b"-----BEGIN ENCRYPTED PRIVATE KEY-----",
    b"Proc-Type: 4,ENCRYPTED",
];

fn is_encrypted(pem: &[u8]) -> bool {
    ENCRYPTED
        .iter()
        .any(|mark| pem.windows(mark.len()).any(|part| part == *mark))
}

/// Why a key that was read is of no use, and what to do.
fn unusable(key: &PrivateKeyDer<'_>) -> &'static str {
    let error = RsaSigningKey::new(key).err().map(|error| error.to_string());
    match error.is_some_and(|error| error.ends_with("TooSmall")) {
        true => {
            "RSA below 2,048 bits is refused; make a longer key, and have its certificate issued"
        }
        false => {
            "the private key is of no kind that is known here; give RSA from 2,048 to 8,192 bits, ECDSA on P-256, P-384 or P-521, or Ed25519"
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestCa;

    /// A key of RSA with 1,024 bits, of no other use.
    const RSA_1024: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIICeAIBADANBgkqhkiG9w0BAQEFAASCAmIwggJeAgEAAoGBAM93LQ3pJQWNcBhj\n\
lU1Mw+RJJZQf1WP9EXWI289cX151KS9wlQoRYJm7UiZMfhDhZ48K7HIRSTs0Omf4\n\
fTBOHBJTZ4iIdvoJ4OkAOR3UlnoGpgCZ6dqQBteIic/bQ5OpGr+eX4Yox9QsrhNm\n\
7Cn8xdRykHy44iQY5UyakURQV21BAgMBAAECgYEAii0ky8wJRU5zZzsEGIzVN3lk\n\
Vuhw1nyZoT96rvwl5KKBwL/p89+pCBrT1wBBQnrt3z52Rm6u6Iibkd3Ve1O6q2K7\n\
u+rxAK7Nw0tTTSh0WUom1k6EAqQvjNWnDACIbveU+bWFeeiIQhPJ4Bqg4Ez9I4Iw\n\
c99SXBPlkwGQGhJMoAECQQDvma/+xJVt5QXNNBt2IZ0VXPYuHyvQqXfloCjFtW5d\n\
psBqfO12iagLXPOITtuaona/GJkuoJkgVE260iB7rxvBAkEA3apq6Wth1hjoIxe6\n\
NrTl9bxv6AoKevdjNPr91d1xZ4Lu6amyqRGu2qlyF+7UZI7MLvMYBuigqfpUvIDf\n\
rWqxgQJBAOOL8bjiuYdEmd3oPqxR//zp7GKg99uTFmrdT9t0EvyeAN8hBeQtl4oz\n\
HJW3Tpfs8xlJIzFFFCe/6JIkPPU5uAECQQC5ihPDHabe1io4dXvgnrp9XiUtTHpJ\n\
Qxk/F3ews5Jg2i+wVeK9sZdyX7KoZbhSE1TFV6Uc40rX/DlBL34KYewBAkBqxBqA\n\
nusU3fx9GKWhqNmbR72+z8LB+b755kBXA0r1SKcwQPxIaOM2hpcOhFUgn4143QSC\n\
25yZvlwsP14O6x4j\n\
-----END PRIVATE KEY-----\n\
";

    #[test]
    fn a_key_that_cannot_be_used_is_told_with_its_remedy() {
        let (chain, key) = TestCa::new().issue(&["example.com"]);
        let sealed = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let sealed_rsa = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
             DEK-Info: AES-128-CBC,73FC615FBE8FB304E9BE9C092CF5C87A\n\nAAAA\n\
             -----END RSA PRIVATE KEY-----\n";
        let unknown = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (key, words) in [
            (&*sealed, "openssl pkey -in KEY -out NEW"),
            (sealed_rsa, "openssl pkey -in KEY -out NEW"),
            (RSA_1024, "RSA below 2,048 bits is refused"),
            (unknown, "no kind that is known here; give RSA from 2,048"),
            ("nothing", "has no private key that can be read"),
        ] {
            let error = KeyPair::from_pem(chain.as_bytes(), key.as_bytes()).err();
            let error = error.unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(KeyPair::from_pem(chain.as_bytes(), key.as_bytes()).is_ok());
    }
}
