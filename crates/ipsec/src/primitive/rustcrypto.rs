//! The crates of RustCrypto: all algorithms, in Rust.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::{AeadInOut, Nonce, Tag};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use blowfish::Blowfish;
use cbc::cipher::{
    Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit,
    KeyInit,
};
use chacha20poly1305::ChaCha20Poly1305;
use des::{Des, TdesEde3};
use hmac::Hmac;
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;

use super::{Aead, Cbc, Mac, NONCE_BYTES, Refused, TAG_BYTES, Unavailable};
use crate::algorithm::{Auth, Cipher};

/// The lengths of keys were checked; what else a cipher may have against one is said so.
const REFUSED: &str = "rustcrypto refuses the key";

pub(super) fn cbc(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Cbc>, Unavailable> {
    match cipher {
        Cipher::Aes128Cbc => boxed::<Aes128>(cipher, key),
        Cipher::Aes192Cbc => boxed::<Aes192>(cipher, key),
        Cipher::Aes256Cbc => boxed::<Aes256>(cipher, key),
        Cipher::TripleDesCbc => boxed::<TdesEde3>(cipher, key),
        Cipher::DesCbc => boxed::<Des>(cipher, key),
        Cipher::Blowfish128Cbc | Cipher::Blowfish192Cbc => boxed::<Blowfish>(cipher, key),
        Cipher::Null | Cipher::Aes128Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => Err(
            Unavailable::new(cipher.name(), "it is no cipher in CBC mode"),
        ),
    }
}

fn boxed<C>(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Cbc>, Unavailable>
where
    C: KeyInit + BlockCipherEncrypt + BlockCipherDecrypt + Send + 'static,
{
    match C::new_from_slice(key) {
        Ok(keyed) => Ok(Box::new(Blocks(keyed))),
        Err(_) => Err(Unavailable::new(cipher.name(), REFUSED)),
    }
}

pub(super) fn mac(auth: Auth, key: &[u8]) -> Result<Box<dyn Mac>, Unavailable> {
    let refused = |_| Unavailable::new(auth.name(), REFUSED);
    Ok(match auth {
        Auth::HmacMd5_96 => Box::new(Hash(Hmac::<Md5>::new_from_slice(key).map_err(refused)?)),
        Auth::HmacSha1_96 => Box::new(Hash(Hmac::<Sha1>::new_from_slice(key).map_err(refused)?)),
        Auth::HmacSha256_128 => {
            Box::new(Hash(Hmac::<Sha256>::new_from_slice(key).map_err(refused)?))
        }
    })
}

pub(super) fn aead(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, Unavailable> {
    let refused = |_| Unavailable::new(cipher.name(), REFUSED);
    Ok(match cipher {
        Cipher::Aes128Gcm => Box::new(Both(Aes128Gcm::new_from_slice(key).map_err(refused)?)),
        Cipher::Aes256Gcm => Box::new(Both(Aes256Gcm::new_from_slice(key).map_err(refused)?)),
        Cipher::ChaCha20Poly1305 => Box::new(Both(
            ChaCha20Poly1305::new_from_slice(key).map_err(refused)?,
        )),
        _ => return Err(Unavailable::new(cipher.name(), "it does not authenticate")),
    })
}

struct Blocks<C>(C);

impl<C> Cbc for Blocks<C>
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + Send,
{
    fn encrypt(&mut self, iv: &[u8], blocks: &mut [u8]) -> Result<(), Refused> {
        let iv = <&Block<C>>::try_from(iv).map_err(|_| Refused)?;
        let (blocks, rest) = Block::<C>::slice_as_chunks_mut(blocks);
        if !rest.is_empty() {
            return Err(Refused);
        }
        cbc::Encryptor::inner_iv_init(&self.0, iv).encrypt_blocks(blocks);
        Ok(())
    }

    fn decrypt(&mut self, iv: &[u8], blocks: &mut [u8]) -> Result<(), Refused> {
        let iv = <&Block<C>>::try_from(iv).map_err(|_| Refused)?;
        let (blocks, rest) = Block::<C>::slice_as_chunks_mut(blocks);
        if !rest.is_empty() {
            return Err(Refused);
        }
        cbc::Decryptor::inner_iv_init(&self.0, iv).decrypt_blocks(blocks);
        Ok(())
    }
}

struct Hash<M>(M);

impl<M: hmac::Mac + Clone + Send> Mac for Hash<M> {
    fn compute(&mut self, parts: &[&[u8]], icv: &mut [u8]) -> Result<(), Refused> {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        let whole = mac.finalize().into_bytes();
        icv.copy_from_slice(whole.get(..icv.len()).ok_or(Refused)?);
        Ok(())
    }
}

struct Both<A>(A);

impl<A: AeadInOut + Send> Aead for Both<A> {
    fn seal(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), Refused> {
        let nonce = <&Nonce<A>>::try_from(nonce.as_slice()).map_err(|_| Refused)?;
        let sealed = self.0.encrypt_inout_detached(nonce, aad, data.into());
        let whole = sealed.map_err(|_| Refused)?;
        tag.copy_from_slice(whole.get(..TAG_BYTES).ok_or(Refused)?);
        Ok(())
    }

    fn open(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), Refused> {
        let nonce = <&Nonce<A>>::try_from(nonce.as_slice()).map_err(|_| Refused)?;
        let tag = <&Tag<A>>::try_from(tag.as_slice()).map_err(|_| Refused)?;
        let opened = self.0.decrypt_inout_detached(nonce, aad, data.into(), tag);
        opened.map_err(|_| Refused)
    }
}
