//! Algorithms by name, what each needs, and which go together.

use std::fmt;

/// How ESP encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cipher {
    /// Nothing is encrypted (RFC 2410).
    Null,
    /// AES in CBC mode, 128 bits (RFC 3602).
    Aes128Cbc,
    /// AES in CBC mode, 192 bits (RFC 3602).
    Aes192Cbc,
    /// AES in CBC mode, 256 bits (RFC 3602).
    Aes256Cbc,
    /// Triple DES in CBC mode, three keys (RFC 2451).
    TripleDesCbc,
    /// DES in CBC mode (RFC 2405).
    DesCbc,
    /// Blowfish in CBC mode, 128 bits (RFC 2451).
    Blowfish128Cbc,
    /// Blowfish in CBC mode, 192 bits (RFC 2451).
    Blowfish192Cbc,
    /// AES in Galois/Counter mode, 128 bits, ICV of 16 octets (RFC 4106).
    Aes128Gcm,
    /// AES in Galois/Counter mode, 256 bits, ICV of 16 octets (RFC 4106).
    Aes256Gcm,
    /// ChaCha20 with Poly1305 (RFC 7634).
    ChaCha20Poly1305,
}

impl Cipher {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Null,
        Self::Aes128Cbc,
        Self::Aes192Cbc,
        Self::Aes256Cbc,
        Self::TripleDesCbc,
        Self::DesCbc,
        Self::Blowfish128Cbc,
        Self::Blowfish192Cbc,
        Self::Aes128Gcm,
        Self::Aes256Gcm,
        Self::ChaCha20Poly1305,
    ];

    /// Its name: `aes-128-cbc`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Aes128Cbc => "aes-128-cbc",
            Self::Aes192Cbc => "aes-192-cbc",
            Self::Aes256Cbc => "aes-256-cbc",
            Self::TripleDesCbc => "3des-cbc",
            Self::DesCbc => "des-cbc",
            Self::Blowfish128Cbc => "blowfish-128-cbc",
            Self::Blowfish192Cbc => "blowfish-192-cbc",
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.name() == name)
    }

    /// Octets of its key, without [`Cipher::salt_bytes`].
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::DesCbc => 8,
            Self::Aes128Cbc | Self::Blowfish128Cbc | Self::Aes128Gcm => 16,
            Self::Aes192Cbc | Self::TripleDesCbc | Self::Blowfish192Cbc => 24,
            Self::Aes256Cbc | Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Octets of salt that follow the key (RFC 4106 8.1, RFC 7634 2).
    pub fn salt_bytes(self) -> usize {
        if self.is_aead() { 4 } else { 0 }
    }

    /// Octets of IV in each packet.
    pub fn iv_bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Aes128Cbc | Self::Aes192Cbc | Self::Aes256Cbc => 16,
            _ => 8,
        }
    }

    /// What its input is a multiple of; 1 where it takes any.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::Aes128Cbc | Self::Aes192Cbc | Self::Aes256Cbc => 16,
            Self::TripleDesCbc | Self::DesCbc | Self::Blowfish128Cbc | Self::Blowfish192Cbc => 8,
            Self::Null | Self::Aes128Gcm | Self::Aes256Gcm | Self::ChaCha20Poly1305 => 1,
        }
    }

    /// Whether it authenticates too.
    pub fn is_aead(self) -> bool {
        matches!(
            self,
            Self::Aes128Gcm | Self::Aes256Gcm | Self::ChaCha20Poly1305
        )
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How AH, or ESP beside a cipher, authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Auth {
    /// HMAC with MD5, ICV of 12 octets (RFC 2403).
    HmacMd5_96,
    /// HMAC with SHA-1, ICV of 12 octets (RFC 2404).
    HmacSha1_96,
    /// HMAC with SHA-256, ICV of 16 octets (RFC 4868).
    HmacSha256_128,
}

impl Auth {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::HmacMd5_96, Self::HmacSha1_96, Self::HmacSha256_128];

    /// Its name: `hmac-sha1-96`.
    pub fn name(self) -> &'static str {
        match self {
            Self::HmacMd5_96 => "hmac-md5-96",
            Self::HmacSha1_96 => "hmac-sha1-96",
            Self::HmacSha256_128 => "hmac-sha-256-128",
        }
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|auth| auth.name() == name)
    }

    /// Octets of its key.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::HmacMd5_96 => 16,
            Self::HmacSha1_96 => 20,
            Self::HmacSha256_128 => 32,
        }
    }

    /// Octets of its ICV.
    pub fn icv_bytes(self) -> usize {
        match self {
            Self::HmacMd5_96 | Self::HmacSha1_96 => 12,
            Self::HmacSha256_128 => 16,
        }
    }
}

impl fmt::Display for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A cipher and an authentication that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Esp {
    cipher: Cipher,
    auth: Option<Auth>,
}

impl Esp {
    /// Joins them.
    ///
    /// # Errors
    /// What does not go together.
    pub fn new(cipher: Cipher, auth: Option<Auth>) -> Result<Self, Impossible> {
        match (cipher, auth) {
            // RFC 4303 5: "although integrity and encryption may each be "NULL" under the
            // circumstances noted above, they MUST NOT both be "NULL"."
            (Cipher::Null, None) => Err(Impossible::Nothing),
            (cipher, Some(auth)) if cipher.is_aead() => Err(Impossible::Twice { cipher, auth }),
            (cipher, auth) => Ok(Self { cipher, auth }),
        }
    }

    /// Every one there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let auths = [None].into_iter().chain(Auth::ALL.map(Some));
        auths.flat_map(|auth| {
            let ciphers = Cipher::ALL.into_iter();
            ciphers.filter_map(move |cipher| Self::new(cipher, auth).ok())
        })
    }

    /// How it encrypts.
    pub fn cipher(self) -> Cipher {
        self.cipher
    }

    /// How it authenticates where the cipher does not.
    pub fn auth(self) -> Option<Auth> {
        self.auth
    }

    /// Octets of ICV at the end of a packet.
    pub fn icv_bytes(self) -> usize {
        match self.auth {
            Some(auth) => auth.icv_bytes(),
            None if self.cipher.is_aead() => 16,
            None => 0,
        }
    }

    /// Whether a receiver knows that a packet is the sender's.
    pub fn is_authenticated(self) -> bool {
        self.icv_bytes() > 0
    }
}

/// What is done to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Encapsulating security payload (RFC 4303).
    Esp(Esp),
    /// Authentication header (RFC 4302).
    Ah(Auth),
}

/// Algorithms that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// Neither encryption nor authentication.
    Nothing,
    /// A cipher that authenticates, and an authentication.
    Twice {
        /// The cipher.
        cipher: Cipher,
        /// The authentication.
        auth: Auth,
    },
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(
                f,
                "null encryption without authentication protects nothing: add {}",
                Auth::HmacSha256_128
            ),
            Self::Twice { cipher, auth } => {
                write!(f, "{cipher} authenticates by itself: leave {auth} out")
            }
        }
    }
}

impl std::error::Error for Impossible {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for cipher in Cipher::ALL {
            assert_eq!(Cipher::of_name(cipher.name()), Some(cipher));
        }
        for auth in Auth::ALL {
            assert_eq!(Auth::of_name(auth.name()), Some(auth));
        }
        assert_eq!(Cipher::of_name("rot13"), None);
    }

    #[test]
    fn what_does_not_go_together_is_said() {
        assert_eq!(Esp::new(Cipher::Null, None), Err(Impossible::Nothing));
        let twice = Esp::new(Cipher::Aes128Gcm, Some(Auth::HmacSha1_96)).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "aes-128-gcm authenticates by itself: leave hmac-sha1-96 out"
        );
        // Seven that encrypt alone, those with NULL with each of three, and three that do both.
        assert_eq!(Esp::all().count(), 7 + 8 * 3 + 3);
    }
}
