//! OpenSSL 3: all but DES and Blowfish, which it keeps in its legacy provider.

use openssl::cipher::{Cipher as Evp, CipherRef};
use openssl::cipher_ctx::CipherCtx;
use openssl::md::{Md, MdRef};
use openssl::md_ctx::MdCtx;
use openssl::pkey::{PKey, Private};

use super::{Aead, Cbc, Mac, NONCE_BYTES, Refused, TAG_BYTES, Unavailable};
use crate::algorithm::{Auth, Cipher};

const LEGACY: &str = "OpenSSL 3 keeps it in its legacy provider, which this build is without";
const REFUSED: &str = "OpenSSL refuses the key";
/// More than any block.
const SPARE_BYTES: usize = 32;

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
    let md = match auth {
        Auth::HmacMd5_96 => Md::md5(),
        Auth::HmacSha1_96 => Md::sha1(),
        Auth::HmacSha256_128 => Md::sha256(),
    };
    let refused = |_| Unavailable::new(auth.name(), REFUSED);
    Ok(Box::new(Hash {
        context: MdCtx::new().map_err(refused)?,
        md,
        key: PKey::hmac(key).map_err(refused)?,
    }))
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

struct Hash {
    context: MdCtx,
    md: &'static MdRef,
    key: PKey<Private>,
}

impl Mac for Hash {
    fn compute(&mut self, parts: &[&[u8]], icv: &mut [u8]) -> Result<(), Refused> {
        let refused = |_| Refused;
        self.context.reset().map_err(refused)?;
        self.context
            .digest_sign_init(Some(self.md), &self.key)
            .map_err(refused)?;
        for part in parts {
            self.context.digest_sign_update(part).map_err(refused)?;
        }
        let mut whole = [0; 64];
        let bytes = self
            .context
            .digest_sign_final(Some(&mut whole))
            .map_err(refused)?;
        let whole = whole.get(..bytes).and_then(|whole| whole.get(..icv.len()));
        icv.copy_from_slice(whole.ok_or(Refused)?);
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
