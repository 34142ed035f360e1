//! What stores of users are asked, and what they say.

use std::sync::Arc;

use crate::key::UserName;
use crate::{Algorithm, CredentialKey, Ha1, Ha1Set, Qop};

/// A user of a realm. Look-ups of one subject are one look-up, whatever their
/// algorithms.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    user: UserName,
    realm: Arc<str>,
}

impl Subject {
    /// A subject; the user's name is unescaped.
    pub fn new(user: &[u8], realm: Arc<str>) -> Self {
        Self {
            user: UserName::from_slice(user),
            realm,
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

    /// The same with the HA1 that is wanted.
    pub fn into_key(self, algorithm: Algorithm) -> CredentialKey {
        let Self { user, realm } = self;
        CredentialKey {
            user,
            realm,
            algorithm,
        }
    }
}

impl From<&CredentialKey> for Subject {
    fn from(key: &CredentialKey) -> Self {
        Self {
            user: key.user.clone(),
            realm: key.realm.clone(),
        }
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {}", self.user.escape_ascii(), self.realm)
    }
}

/// What a store holds of a user: an HA1 for some of the algorithms. Each is
/// wiped when dropped and never printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    md5: Option<Ha1>,
    sha256: Option<Ha1>,
    sha512_256: Option<Ha1>,
}

impl Secrets {
    /// Takes an HA1 in the place of its algorithm.
    pub fn insert(&mut self, ha1: Ha1) {
        let place = match ha1.algorithm() {
            Algorithm::Md5 => &mut self.md5,
            Algorithm::Sha256 => &mut self.sha256,
            Algorithm::Sha512_256 => &mut self.sha512_256,
        };
        *place = Some(ha1);
    }

    /// The HA1 for `algorithm`, where the store has it.
    pub fn get(&self, algorithm: Algorithm) -> Option<&Ha1> {
        match algorithm {
            Algorithm::Md5 => self.md5.as_ref(),
            Algorithm::Sha256 => self.sha256.as_ref(),
            Algorithm::Sha512_256 => self.sha512_256.as_ref(),
        }
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.md5.is_none() && self.sha256.is_none() && self.sha512_256.is_none()
    }
}

impl From<Ha1Set> for Secrets {
    fn from(set: Ha1Set) -> Self {
        let mut secrets = Self::default();
        for algorithm in Algorithm::ALL {
            secrets.insert(set.get(algorithm).clone());
        }
        secrets
    }
}

/// A digest as it came, for a store that verifies it by itself (RFC 5090).
#[derive(Clone, PartialEq, Eq)]
pub struct DigestRequest {
    /// The user's name as it was sent, unescaped.
    pub user: Vec<u8>,
    /// The realm.
    pub realm: Arc<str>,
    /// The nonce.
    pub nonce: Vec<u8>,
    /// The method of the request.
    pub method: Vec<u8>,
    /// The digest's URI.
    pub uri: Vec<u8>,
    /// The quality of protection.
    pub qop: Qop,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The client's nonce.
    pub cnonce: Vec<u8>,
    /// The nonce count, eight hexadecimal digits.
    pub nonce_count: Vec<u8>,
    /// The digest, in hexadecimal digits.
    pub response: Vec<u8>,
    /// H(body) in hexadecimal digits, with [`Qop::AuthInt`] only.
    pub body_digest: Option<Vec<u8>>,
}

impl std::fmt::Debug for DigestRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "DigestRequest({} in {}, {})",
            self.user.escape_ascii(),
            self.realm,
            self.algorithm.as_str()
        )
    }
}

/// What a store says to a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// There is no such user, or none with the algorithm that was asked for.
    Unknown,
    /// The user's HA1.
    Secret(Ha1),
    /// The user's HA1 as a cache has it, so it may be one that he had. It lets him in whose
    /// digest it matches, and tells nobody else anything: where it does not match the store
    /// itself is asked.
    Cached(Ha1),
    /// A cache has nothing of the user. The digest is compared all the same, with a secret that
    /// nobody has, and then the store itself is asked: the way of a digest that does not match
    /// what a cache has, step by step.
    NotCached,
    /// The store verified the digest by itself: whether it is right.
    Verified(bool),
}
