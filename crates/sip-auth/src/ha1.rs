//! HA1: what is stored in the place of a password.

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::Algorithm;
use crate::hash::{self, Hex, Raw};

/// `H(user ":" realm ":" password)` (RFC 7616 3.4.2). As good as the password
/// within its realm: it is wiped when dropped, never printed, and compared in
/// constant time.
#[derive(Clone)]
pub struct Ha1 {
    algorithm: Algorithm,
    digest: Raw,
}

/// The HA1 of one user for each algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ha1Set {
    md5: Ha1,
    sha256: Ha1,
    sha512_256: Ha1,
}

impl Ha1 {
    /// Computes it from the password.
    pub fn compute(algorithm: Algorithm, user: &[u8], realm: &[u8], password: &[u8]) -> Self {
        Self {
            algorithm,
            digest: hash::joined(algorithm, &[user, realm, password]),
        }
    }

    /// Takes a digest of the algorithm's length; `None` for another length.
    pub fn from_bytes(algorithm: Algorithm, digest: &[u8]) -> Option<Self> {
        if digest.len() != algorithm.digest_len() {
            return None;
        }
        let mut ha1 = Self {
            algorithm,
            digest: Raw::default(),
        };
        ha1.digest.get_mut(..digest.len())?.copy_from_slice(digest);
        Some(ha1)
    }

    /// Reads hexadecimal digits of the algorithm's length.
    pub fn from_hex(algorithm: Algorithm, digits: &[u8]) -> Option<Self> {
        let digest = hash::unhex(digits, algorithm.digest_len())?;
        Some(Self { algorithm, digest })
    }

    /// Cuts what the algorithm needs from `raw`.
    pub(crate) fn from_raw(algorithm: Algorithm, raw: &Raw) -> Self {
        let mut digest = *raw;
        for byte in digest.iter_mut().skip(algorithm.digest_len()) {
            *byte = 0;
        }
        Self { algorithm, digest }
    }

    /// For which algorithm it is.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digest itself, to be stored and shown nowhere.
    pub fn expose(&self) -> &[u8] {
        self.digest
            .get(..self.algorithm.digest_len())
            .unwrap_or_default()
    }

    /// The form in which it is hashed on.
    pub(crate) fn hex(&self) -> Hex {
        Hex::new(self.expose())
    }
}

impl Drop for Ha1 {
    fn drop(&mut self) {
        self.digest.zeroize();
    }
}

impl PartialEq for Ha1 {
    fn eq(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && bool::from(self.digest.ct_eq(&other.digest))
    }
}

impl Eq for Ha1 {}

impl std::fmt::Debug for Ha1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ha1({}, ***)", self.algorithm.as_str())
    }
}

impl Ha1Set {
    /// Computes all three from the password.
    pub fn compute(user: &[u8], realm: &[u8], password: &[u8]) -> Self {
        let ha1 = |algorithm| Ha1::compute(algorithm, user, realm, password);
        Self {
            md5: ha1(Algorithm::Md5),
            sha256: ha1(Algorithm::Sha256),
            sha512_256: ha1(Algorithm::Sha512_256),
        }
    }

    /// Puts three together; `None` where one is not of its algorithm.
    pub fn from_parts(md5: Ha1, sha256: Ha1, sha512_256: Ha1) -> Option<Self> {
        let are = [&md5, &sha256, &sha512_256].map(Ha1::algorithm);
        (are == [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512_256]).then_some(Self {
            md5,
            sha256,
            sha512_256,
        })
    }

    /// The one for `algorithm`.
    pub fn get(&self, algorithm: Algorithm) -> &Ha1 {
        match algorithm {
            Algorithm::Md5 => &self.md5,
            Algorithm::Sha256 => &self.sha256,
            Algorithm::Sha512_256 => &self.sha512_256,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_printed() {
        let set = Ha1Set::compute(b"alice", b"example.org", b"secret");
        for algorithm in Algorithm::ALL {
            let ha1 = set.get(algorithm);
            let hex = String::from_utf8_lossy(ha1.hex().as_bytes()).into_owned();
            assert_eq!(hex.len(), 2 * algorithm.digest_len());
            for printed in [format!("{ha1:?}"), format!("{ha1:#?}"), format!("{set:?}")] {
                assert!(
                    !printed.contains(&hex) && printed.contains("***"),
                    "{printed}"
                );
            }
        }
    }

    #[test]
    fn stored_and_read_again() {
        for algorithm in Algorithm::ALL {
            let ha1 = Ha1::compute(algorithm, b"alice", b"example.org", b"secret");
            assert_eq!(Ha1::from_bytes(algorithm, ha1.expose()), Some(ha1.clone()));
            assert_eq!(
                Ha1::from_hex(algorithm, ha1.hex().as_bytes()),
                Some(ha1.clone())
            );
            assert_ne!(
                ha1,
                Ha1::compute(algorithm, b"alice", b"example.org", b"Secret")
            );
            assert_eq!(Ha1::from_bytes(algorithm, &ha1.expose()[1..]), None);
        }
    }
}
