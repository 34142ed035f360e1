//! How a content is encrypted: the cipher, its key and what goes with it.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    self, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand;
use zeroize::Zeroizing;

use crate::der::{self, INTEGER, OCTET_STRING, Reader, SEQUENCE};
use crate::error::OpenError;
use crate::oid;

/// The cipher of an encrypted body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cipher {
    /// AES with 128 bits in CBC: what every implementation has (RFC 5751). A change on the way
    /// is not noticed unless the body is signed as well.
    Aes128Cbc,
    /// AES with 128 bits in GCM (RFC 5084): a change on the way is noticed.
    Aes128Gcm,
    /// AES with 256 bits in CBC.
    Aes256Cbc,
    /// AES with 256 bits in GCM.
    #[default]
    Aes256Gcm,
}

/// The bytes of GCM's nonce and of its tag (RFC 5084 3.2).
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;

impl Cipher {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Aes128Cbc,
        Self::Aes128Gcm,
        Self::Aes256Cbc,
        Self::Aes256Gcm,
    ];

    /// The name as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Cbc => "aes128-cbc",
            Self::Aes128Gcm => "aes128-gcm",
            Self::Aes256Cbc => "aes256-cbc",
            Self::Aes256Gcm => "aes256-gcm",
        }
    }

    /// Whether a change on the way is noticed: then the message is AuthEnvelopedData.
    pub const fn is_authenticated(self) -> bool {
        matches!(self, Self::Aes128Gcm | Self::Aes256Gcm)
    }

    pub(crate) const fn key_len(self) -> usize {
        match self {
            Self::Aes128Cbc | Self::Aes128Gcm => 16,
            Self::Aes256Cbc | Self::Aes256Gcm => 32,
        }
    }

    const fn oid(self) -> &'static [u8] {
        match self {
            Self::Aes128Cbc => oid::AES_128_CBC,
            Self::Aes128Gcm => oid::AES_128_GCM,
            Self::Aes256Cbc => oid::AES_256_CBC,
            Self::Aes256Gcm => oid::AES_256_GCM,
        }
    }

    fn from_oid(found: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.oid() == found)
    }

    fn block(self) -> &'static cipher::Algorithm {
        if self.key_len() == 16 {
            &cipher::AES_128
        } else {
            &cipher::AES_256
        }
    }

    fn aead(self) -> &'static aead::Algorithm {
        if self.key_len() == 16 {
            &aead::AES_128_GCM
        } else {
            &aead::AES_256_GCM
        }
    }
}

impl std::str::FromStr for Cipher {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|cipher| cipher.name() == wanted);
        found.ok_or_else(|| {
            format!("there is no cipher '{text}'; write aes128-cbc, aes128-gcm, aes256-cbc or aes256-gcm")
        })
    }
}

/// A key for one content.
pub(crate) type ContentKey = Zeroizing<Vec<u8>>;

/// A key of this length from the system's random numbers.
pub(crate) fn random_key(length: usize) -> Result<ContentKey, Unspecified> {
    let mut key = Zeroizing::new(vec![0; length]);
    rand::fill(&mut key)?;
    Ok(key)
}

/// A content that was encrypted.
pub(crate) struct Encrypted {
    /// The algorithm with its parameters, as an element.
    pub(crate) algorithm: Vec<u8>,
    pub(crate) text: Vec<u8>,
    /// The tag of an authenticated cipher; empty with others.
    pub(crate) tag: Vec<u8>,
}

/// Encrypts a content.
pub(crate) fn encrypt(
    cipher: Cipher,
    key: &ContentKey,
    content: &[u8],
) -> Result<Encrypted, Unspecified> {
    let mut text = Vec::with_capacity(content.len() + 16);
    text.extend_from_slice(content);
    let mut algorithm = Vec::with_capacity(32);
    let mut tag = Vec::new();
    if cipher.is_authenticated() {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let key = LessSafeKey::new(UnboundKey::new(cipher.aead(), key)?);
        // The key is for this content alone.
        let made = key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::empty(),
            &mut text,
        )?;
        tag.extend_from_slice(made.as_ref());
        der::write(&mut algorithm, SEQUENCE, |out| {
            der::oid(out, cipher.oid());
            // RFC 5084 3.2: GCMParameters, whose default of 12 is not the length of the tag here.
            der::write(out, SEQUENCE, |out| {
                der::value(out, OCTET_STRING, &nonce);
                der::value(out, INTEGER, &[TAG_LEN as u8]);
            });
        });
    } else {
        let key = UnboundCipherKey::new(cipher.block(), key)?;
        let context = PaddedBlockEncryptingKey::cbc_pkcs7(key)?.encrypt(&mut text)?;
        let iv: &[u8] = (&context).try_into()?;
        der::write(&mut algorithm, SEQUENCE, |out| {
            der::oid(out, cipher.oid());
            der::value(out, OCTET_STRING, iv);
        });
    }
    Ok(Encrypted {
        algorithm,
        text,
        tag,
    })
}

/// The cipher of a content that came, and what it needs beside the key.
pub(crate) struct Parameters {
    pub(crate) cipher: Cipher,
    /// IV or nonce.
    start: Vec<u8>,
}

impl Parameters {
    /// Reads a ContentEncryptionAlgorithmIdentifier.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, OpenError> {
        let (algorithm, mut parameters) = reader.algorithm()?;
        let cipher =
            Cipher::from_oid(algorithm).ok_or(OpenError::Unsupported("this cipher of a body"))?;
        let start = if cipher.is_authenticated() {
            let mut gcm = parameters.expect(SEQUENCE)?.inside();
            let nonce = gcm.expect(OCTET_STRING)?.contents;
            let tag_len = gcm.optional(INTEGER)?.map_or(12, |length| {
                length.contents.first().copied().unwrap_or_default()
            });
            if nonce.len() != NONCE_LEN || usize::from(tag_len) != TAG_LEN {
                return Err(OpenError::Unsupported("a nonce or tag of another length"));
            }
            nonce
        } else {
            parameters.expect(OCTET_STRING)?.contents
        };
        Ok(Self {
            cipher,
            start: start.to_vec(),
        })
    }

    /// Decrypts a content. `attributes` are what an authenticated cipher covers beside it.
    pub(crate) fn decrypt(
        &self,
        key: &ContentKey,
        mut text: Vec<u8>,
        attributes: &[u8],
        tag: &[u8],
    ) -> Result<Vec<u8>, Unspecified> {
        let length = if self.cipher.is_authenticated() {
            if tag.len() != TAG_LEN {
                return Err(Unspecified);
            }
            let key = LessSafeKey::new(UnboundKey::new(self.cipher.aead(), key)?);
            let nonce = Nonce::try_assume_unique_for_key(&self.start)?;
            key.open_in_place_separate_tag(nonce, Aad::from(attributes), tag, &mut text)?
                .len()
        } else {
            let iv = FixedLength::try_from(self.start.as_slice())?;
            let key = UnboundCipherKey::new(self.cipher.block(), key)?;
            PaddedBlockDecryptingKey::cbc_pkcs7(key)?
                .decrypt(&mut text, DecryptionContext::Iv128(iv))?
                .len()
        };
        text.truncate(length);
        Ok(text)
    }
}
