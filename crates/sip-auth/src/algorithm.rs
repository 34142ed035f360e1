//! The hash functions of RFC 7616 and RFC 8760, and the qualities of protection.

/// A digest algorithm (RFC 8760 2.1). The `-sess` variants are not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// `MD5`, which a challenge without an algorithm means too.
    Md5,
    /// `SHA-256`.
    Sha256,
    /// `SHA-512-256`: SHA-512/256 of FIPS 180-4.
    Sha512_256,
}

/// The quality of protection (RFC 7616 3.3, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Qop {
    /// `auth`: the method and the URI are protected.
    Auth,
    /// `auth-int`: the body too.
    AuthInt,
}

impl Algorithm {
    /// All, strongest first.
    pub const ALL: [Self; 3] = [Self::Sha512_256, Self::Sha256, Self::Md5];

    /// The token: `MD5`, `SHA-256`, `SHA-512-256`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
            Self::Sha512_256 => "SHA-512-256",
        }
    }

    /// Reads a token, whatever its case.
    pub fn from_token(token: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|a| a.as_str().as_bytes().eq_ignore_ascii_case(token))
    }

    /// The length of a digest, in bytes.
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 | Self::Sha512_256 => 32,
        }
    }
}

impl Qop {
    /// The token: `auth` or `auth-int`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }

    /// Reads a token, in the spelling that is hashed.
    pub fn from_token(token: &[u8]) -> Option<Self> {
        [Self::Auth, Self::AuthInt]
            .into_iter()
            .find(|q| q.as_str().as_bytes() == token)
    }
}
