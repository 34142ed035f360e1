//! aws-lc, which TLS uses here.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::hmac;

use super::{Aead, Mac, NONCE_BYTES, Refused, TAG_BYTES, Unavailable};
use crate::algorithm::{Auth, Cipher};

/// aws-lc-rs adds a padding of its own (PKCS #7) to CBC, which ESP has not.
pub(super) fn no_cbc(cipher: Cipher) -> Unavailable {
    Unavailable::new(
        cipher.name(),
        "aws-lc-rs offers CBC with PKCS #7 padding alone, which ESP does not use",
    )
}

pub(super) fn mac(auth: Auth, key: &[u8]) -> Result<Box<dyn Mac>, Unavailable> {
    let algorithm = match auth {
        Auth::HmacMd5_96 => return Err(Unavailable::new(auth.name(), "aws-lc-rs has no MD5")),
        Auth::HmacSha1_96 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Auth::HmacSha256_128 => hmac::HMAC_SHA256,
    };
    Ok(Box::new(Hash(hmac::Key::new(algorithm, key))))
}

pub(super) fn aead(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, Unavailable> {
    let algorithm = match cipher {
        Cipher::Aes128Gcm => &AES_128_GCM,
        Cipher::Aes256Gcm => &AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        _ => return Err(Unavailable::new(cipher.name(), "it does not authenticate")),
    };
    match UnboundKey::new(algorithm, key) {
        Ok(key) => Ok(Box::new(Both(LessSafeKey::new(key)))),
        Err(_) => Err(Unavailable::new(cipher.name(), "aws-lc refuses the key")),
    }
}

struct Hash(hmac::Key);

impl Mac for Hash {
    fn compute(&mut self, parts: &[&[u8]], icv: &mut [u8]) -> Result<(), Refused> {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part);
        }
        let whole = context.sign();
        icv.copy_from_slice(whole.as_ref().get(..icv.len()).ok_or(Refused)?);
        Ok(())
    }
}

struct Both(LessSafeKey);

impl Aead for Both {
    fn seal(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), Refused> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let sealed = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(aad), data);
        let whole = sealed.map_err(|_| Refused)?;
        tag.copy_from_slice(whole.as_ref().get(..TAG_BYTES).ok_or(Refused)?);
        Ok(())
    }

    fn open(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), Refused> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self
            .0
            .open_in_place_separate_tag(nonce, Aad::from(aad), tag, data);
        opened.map(|_| ()).map_err(|_| Refused)
    }
}
