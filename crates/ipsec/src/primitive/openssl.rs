//! OpenSSL 3: all but DES and Blowfish, which it keeps in its legacy provider.

use openssl::cipher::{Cipher as Evp, CipherRef};
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::hash::{Hasher, MessageDigest};
use zeroize::Zeroizing;

use super::{Aead, Cbc, Mac, NONCE_BYTES, Refused, TAG_BYTES, Unavailable};
use crate::algorithm::{Auth, Cipher};

const LEGACY: &str = "OpenSSL 3 keeps it in its legacy provider, which this build is without";
const REFUSED: &str = "OpenSSL refuses the key";
/// More than any block.
const SPARE_BYTES: usize = 32;
/// Of MD5, SHA-1 and SHA-256 alike (RFC 2104 calls it B).
const BLOCK_BYTES: usize = 64;

pub(super) fn cbc(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Cbc>, Unavailable> {
    let evp = match cipher {
        Cipher::Aes128Cbc => Evp::aes_128_cbc(),
        Cipher::Aes192Cbc => Evp::aes_192_cbc(),
        Cipher::Aes256Cbc => Evp::aes_256_cbc(),
        Cipher::TripleDesCbc => Evp::des_ede3_cbc(),
        _ => return Err(Unavailable::new(cipher.name(), LEGACY)),
    };
    Blocks::new(evp, key)
        .map(|blocks| Box::new(blocks) as Box<dyn Cbc>)
        .ok_or(Unavailable::new(cipher.name(), REFUSED))
}

pub(super) fn mac(auth: Auth, key: &[u8]) -> Result<Box<dyn Mac>, Unavailable> {
    let digest = match auth {
        Auth::HmacMd5_96 => MessageDigest::md5(),
        Auth::HmacSha1_96 => MessageDigest::sha1(),
        Auth::HmacSha256_128 => MessageDigest::sha256(),
    };
    Hmac::new(digest, key)
        .map(|hmac| Box::new(hmac) as Box<dyn Mac>)
        .map_err(|_| Unavailable::new(auth.name(), REFUSED))
}

pub(super) fn aead(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, Unavailable> {
    let evp = match cipher {
        Cipher::Aes128Gcm => Evp::aes_128_gcm(),
        Cipher::Aes256Gcm => Evp::aes_256_gcm(),
        Cipher::ChaCha20Poly1305 => Evp::chacha20_poly1305(),
        _ => return Err(Unavailable::new(cipher.name(), "it does not authenticate")),
    };
    Blocks::new(evp, key)
        .map(|blocks| Box::new(Both(blocks)) as Box<dyn Aead>)
        .ok_or(Unavailable::new(cipher.name(), REFUSED))
}

/// A context for each direction, keyed once; a packet sets its IV alone.
struct Blocks {
    encrypting: CipherCtx,
    decrypting: CipherCtx,
    iv_bytes: usize,
    /// OpenSSL wants room for a block beyond what it writes.
    scratch: Vec<u8>,
}

impl Blocks {
    fn new(evp: &'static CipherRef, key: &[u8]) -> Option<Self> {
        let mut blocks = Self {
            encrypting: CipherCtx::new().ok()?,
            decrypting: CipherCtx::new().ok()?,
            iv_bytes: evp.iv_length(),
            scratch: Vec::new(),
        };
        blocks
            .encrypting
            .encrypt_init(Some(evp), Some(key), None)
            .ok()?;
        blocks
            .decrypting
            .decrypt_init(Some(evp), Some(key), None)
            .ok()?;
        blocks.encrypting.set_padding(false);
        blocks.decrypting.set_padding(false);
        Some(blocks)
    }
}

/// Runs `data` through a context, which must give as much as it took.
fn update(context: &mut CipherCtx, data: &mut [u8], scratch: &mut Vec<u8>) -> Result<(), Refused> {
    scratch.resize(data.len() + SPARE_BYTES, 0);
    let done = context
        .cipher_update(data, Some(scratch))
        .map_err(|_| Refused)?;
    let rest = scratch.get_mut(done..).ok_or(Refused)?;
    let last = context.cipher_final(rest).map_err(|_| Refused)?;
    if done + last != data.len() {
        return Err(Refused);
    }
    data.copy_from_slice(scratch.get(..data.len()).ok_or(Refused)?);
    Ok(())
}

impl Cbc for Blocks {
    fn encrypt(&mut self, iv: &[u8], blocks: &mut [u8]) -> Result<(), Refused> {
        if iv.len() != self.iv_bytes {
            return Err(Refused);
        }
        self.encrypting
            .encrypt_init(None, None, Some(iv))
            .map_err(|_| Refused)?;
        update(&mut self.encrypting, blocks, &mut self.scratch)
    }

    fn decrypt(&mut self, iv: &[u8], blocks: &mut [u8]) -> Result<(), Refused> {
        if iv.len() != self.iv_bytes {
            return Err(Refused);
        }
        self.decrypting
            .decrypt_init(None, None, Some(iv))
            .map_err(|_| Refused)?;
        update(&mut self.decrypting, blocks, &mut self.scratch)
    }
}

/// HMAC (RFC 2104) of OpenSSL's hashes. Both have taken their key when it is made, and each packet
/// begins with a copy of them, which is what OpenSSL's own does from packet to packet; that one
/// cannot be had through the crate without keying it anew for each.
struct Hmac {
    inner: Hasher,
    outer: Hasher,
}

impl Hmac {
    fn new(digest: MessageDigest, key: &[u8]) -> Result<Self, ErrorStack> {
        // Every key here is of the length of its hash, so shorter than a block (RFC 2404, section 3).
        let mut block = Zeroizing::new([0; BLOCK_BYTES]);
        block[..key.len()].copy_from_slice(key);
        let keyed = |pad: u8| {
            let mut padded = Zeroizing::new(*block);
            for octet in padded.iter_mut() {
                *octet ^= pad;
            }
            let mut hasher = Hasher::new(digest)?;
            hasher.update(padded.as_slice())?;
            Ok(hasher)
        };
        Ok(Self {
            inner: keyed(0x36)?,
            outer: keyed(0x5c)?,
        })
    }
}

impl Mac for Hmac {
    fn compute(&mut self, parts: &[&[u8]], icv: &mut [u8]) -> Result<(), Refused> {
        let refused = |_| Refused;
        let mut inner = self.inner.clone();
        for part in parts {
            inner.update(part).map_err(refused)?;
        }
        let mut outer = self.outer.clone();
        outer
            .update(&inner.finish().map_err(refused)?)
            .map_err(refused)?;
        let whole = outer.finish().map_err(refused)?;
        icv.copy_from_slice(whole.get(..icv.len()).ok_or(Refused)?);
        Ok(())
    }
}

/// The same of a cipher that gives an octet for each octet.
fn in_place(context: &mut CipherCtx, data: &mut [u8]) -> Result<(), Refused> {
    let bytes = data.len();
    let done = context
        .cipher_update_inplace(data, bytes)
        .map_err(|_| Refused)?;
    let last = context.cipher_final(&mut []).map_err(|_| Refused)?;
    if done + last == bytes {
        Ok(())
    } else {
        Err(Refused)
    }
}

struct Both(Blocks);

impl Aead for Both {
    fn seal(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> Result<(), Refused> {
        let encrypting = &mut self.0.encrypting;
        encrypting
            .encrypt_init(None, None, Some(nonce))
            .map_err(|_| Refused)?;
        encrypting.cipher_update(aad, None).map_err(|_| Refused)?;
        in_place(encrypting, data)?;
        encrypting.tag(tag).map_err(|_| Refused)
    }

    fn open(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), Refused> {
        let decrypting = &mut self.0.decrypting;
        decrypting
            .decrypt_init(None, None, Some(nonce))
            .map_err(|_| Refused)?;
        decrypting.set_tag(tag).map_err(|_| Refused)?;
        decrypting.cipher_update(aad, None).map_err(|_| Refused)?;
        in_place(decrypting, data)
    }
}
