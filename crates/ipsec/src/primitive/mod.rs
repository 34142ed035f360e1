//! Ciphers and authentications without packets around them, by each provider: what AH and ESP
//! are built on, and what a packet's cost is held against.

mod aws_lc;
#[cfg(feature = "legacy-tls")]
mod openssl;
mod rustcrypto;

use std::fmt;

use crate::algorithm::{Auth, Cipher};
use crate::error::SetupError;

/// Octets of an AEAD's ICV.
pub const TAG_BYTES: usize = 16;
/// Octets of an AEAD's nonce: salt and IV.
pub const NONCE_BYTES: usize = 12;

/// A provider's code refused: a length that it does not take, or an ICV that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A block cipher in CBC mode.
pub trait Cbc: Send {
    /// Encrypts whole blocks in place.
    ///
    /// # Errors
    /// An IV of another length, or a part of a block.
    fn encrypt(&mut self, iv: &[u8], blocks: &mut [u8]) -> Result<(), Refused>;

    /// Decrypts whole blocks in place.
    ///
    /// # Errors
    /// As [`Cbc::encrypt`].
    fn decrypt(&mut self, iv: &[u8], blocks: &mut [u8]) -> Result<(), Refused>;
}

/// A keyed hash.
pub trait Mac: Send {
    /// The hash over all parts, cut to the length of `icv`.
    ///
    /// # Errors
    /// An `icv` that is longer than the hash.
    fn compute(&mut self, parts: &[&[u8]], icv: &mut [u8]) -> Result<(), Refused>;
}

/// A cipher that authenticates too.
pub trait Aead: Send {
    /// Encrypts in place, and writes what authenticates it and `aad`.
    ///
    /// # Errors
    /// More than the cipher takes.
    fn seal(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), Refused>;

    /// Decrypts in place, if the tag is right.
    ///
    /// # Errors
    /// It is not; what `data` holds then is of no use.
    fn open(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), Refused>;
}

/// Whose code does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// The crates of RustCrypto.
    RustCrypto,
    /// aws-lc, which TLS uses here.
    AwsLc,
    /// OpenSSL, in a build that has it.
    #[cfg(feature = "legacy-tls")]
    OpenSsl,
}

impl Provider {
    /// Those of this build.
    pub const ALL: &'static [Self] = &[
        Self::RustCrypto,
        Self::AwsLc,
        #[cfg(feature = "legacy-tls")]
        Self::OpenSsl,
    ];

    /// Its name: `aws-lc`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RustCrypto => "rustcrypto",
            Self::AwsLc => "aws-lc",
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl => "openssl",
        }
    }

    /// The version that runs, where the provider says it.
    pub fn version(self) -> Option<&'static str> {
        match self {
            Self::RustCrypto | Self::AwsLc => None,
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl => Some(::openssl::version::version()),
        }
    }

    /// A block cipher with its key.
    ///
    /// # Errors
    /// A key of another length, or that the provider has no such cipher.
    pub fn cbc(self, cipher: Cipher, key: &[u8]) -> Result<Box<dyn Cbc>, SetupError> {
        length(cipher.name(), cipher.key_bytes(), key)?;
        match self {
            Self::RustCrypto => rustcrypto::cbc(cipher, key),
            Self::AwsLc => Err(aws_lc::no_cbc(cipher)),
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl => openssl::cbc(cipher, key),
        }
        .map_err(SetupError::Unavailable)
    }

    /// A keyed hash with its key.
    ///
    /// # Errors
    /// As [`Provider::cbc`].
    pub fn mac(self, auth: Auth, key: &[u8]) -> Result<Box<dyn Mac>, SetupError> {
        length(auth.name(), auth.key_bytes(), key)?;
        match self {
            Self::RustCrypto => rustcrypto::mac(auth, key),
            Self::AwsLc => aws_lc::mac(auth, key),
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl => openssl::mac(auth, key),
        }
        .map_err(SetupError::Unavailable)
    }

    /// A cipher that authenticates, with its key and without its salt.
    ///
    /// # Errors
    /// As [`Provider::cbc`].
    pub fn aead(self, cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, SetupError> {
        length(cipher.name(), cipher.key_bytes(), key)?;
        match self {
            Self::RustCrypto => rustcrypto::aead(cipher, key),
            Self::AwsLc => aws_lc::aead(cipher, key),
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl => openssl::aead(cipher, key),
        }
        .map_err(SetupError::Unavailable)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A provider lacks an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    what: &'static str,
    why: &'static str,
}

impl Unavailable {
    fn new(what: &'static str, why: &'static str) -> Self {
        Self { what, why }
    }

    /// The reason, without the algorithm's name.
    pub fn why(&self) -> &'static str {
        self.why
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Unavailable {}

pub(crate) fn length(of: &'static str, wanted: usize, key: &[u8]) -> Result<(), SetupError> {
    if key.len() == wanted {
        Ok(())
    } else {
        Err(SetupError::KeyLength {
            of,
            wanted,
            given: key.len(),
        })
    }
}
