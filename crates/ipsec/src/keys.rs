//! Secrets of an association.

use std::fmt;

use zeroize::Zeroizing;

/// Keys of one association; they are wiped when it is done with them, and not printed.
#[derive(Clone)]
pub struct Keys {
    cipher: Zeroizing<Vec<u8>>,
    auth: Zeroizing<Vec<u8>>,
}

impl Keys {
    /// A key for the cipher, with its salt behind it where it has one, and one for the
    /// authentication; empty where there is none.
    pub fn new(cipher: &[u8], auth: &[u8]) -> Self {
        Self {
            cipher: Zeroizing::new(cipher.to_vec()),
            auth: Zeroizing::new(auth.to_vec()),
        }
    }

    pub(crate) fn cipher(&self) -> &[u8] {
        &self.cipher
    }

    pub(crate) fn auth(&self) -> &[u8] {
        &self.auth
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(…)")
    }
}
