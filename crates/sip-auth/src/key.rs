//! The question that the store is asked.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::Algorithm;

/// A user's name, kept in place where it is as short as most are.
pub(crate) type UserName = SmallVec<[u8; 32]>;

/// What the store is asked.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CredentialKey {
    pub(crate) user: UserName,
    pub(crate) realm: Arc<str>,
    pub(crate) algorithm: Algorithm,
}

impl CredentialKey {
    /// A key; the user's name is unescaped.
    pub fn new(user: &[u8], realm: Arc<str>, algorithm: Algorithm) -> Self {
        Self {
            user: UserName::from_slice(user),
            realm,
            algorithm,
        }
    }

    /// The user's name, unescaped; any bytes.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// The realm.
    pub fn realm(&self) -> &Arc<str> {
        &self.realm
    }

    /// Which HA1 is wanted.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl std::fmt::Debug for CredentialKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "CredentialKey({} in {}, {})",
            self.user.escape_ascii(),
            self.realm,
            self.algorithm.as_str()
        )
    }
}
