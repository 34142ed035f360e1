//! ESP (RFC 4303): what is encrypted and authenticated, and in which order.

use std::ops::Range;

use invariant::broken;
use subtle::ConstantTimeEq;

use crate::algorithm::{Cipher, Esp};
use crate::error::{OpenError, SealError, SetupError};
use crate::framing::{Begun, Number};
use crate::ip::{self, Head};
use crate::keys::Keys;
use crate::primitive::{Aead, Cbc, Mac, NONCE_BYTES, Provider, Refused, TAG_BYTES, length};

/// Octets of SPI and sequence number.
const HEADER_BYTES: usize = 8;
/// Octets of pad length and next header.
const TRAILER_BYTES: usize = 2;
const SALT_BYTES: usize = 4;
/// RFC 4303 2.4: "The Padding bytes are initialized with a series of (unsigned, 1-byte) integer
/// values."
const PADDING: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// The keyed algorithms of one association.
pub(crate) struct Engine {
    transform: Esp,
    spi: u32,
    keyed: Keyed,
}

enum Keyed {
    Null(Box<dyn Mac>),
    Cbc(Box<dyn Cbc>, Option<Box<dyn Mac>>),
    Aead(Box<dyn Aead>, [u8; SALT_BYTES]),
}

/// Where the parts of an ESP packet lie in the whole packet.
struct Parts {
    esp_at: usize,
    data_at: usize,
    icv_at: usize,
}

impl Engine {
    pub(crate) fn new(
        transform: Esp,
        spi: u32,
        keys: &Keys,
        provider: Provider,
    ) -> Result<Self, SetupError> {
        let cipher = transform.cipher();
        let whole = cipher.key_bytes() + cipher.salt_bytes();
        length(cipher.name(), whole, keys.cipher())?;
        let mac = match transform.auth() {
            Some(auth) => Some(provider.mac(auth, keys.auth())?),
            None => {
                length("a transform without authentication", 0, keys.auth())?;
                None
            }
        };
        let keyed = match (cipher, mac) {
            (Cipher::Null, Some(mac)) => Keyed::Null(mac),
            (cipher, None) if cipher.is_aead() => {
                let (key, salt) = keys.cipher().split_at(cipher.key_bytes());
                let salt = <[u8; SALT_BYTES]>::try_from(salt).unwrap_or_default();
                Keyed::Aead(provider.aead(cipher, key)?, salt)
            }
            (cipher, mac) => Keyed::Cbc(provider.cbc(cipher, keys.cipher())?, mac),
        };
        Ok(Self {
            transform,
            spi,
            keyed,
        })
    }

    pub(crate) fn transform(&self) -> Esp {
        self.transform
    }

    /// Writes header, payload and trailer behind what `out` holds, and protects them.
    pub(crate) fn seal(
        &mut self,
        begun: &Begun<'_>,
        number: Number,
        iv: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let icv_bytes = self.transform.icv_bytes();
        let align = self.transform.cipher().block_bytes().max(4);
        // RFC 4303 2.4: the ciphertext ends on a boundary of 4 octets, and of the cipher's block.
        let pad = (align - (begun.payload.len() + TRAILER_BYTES) % align) % align;
        let Some(padding) = PADDING.get(..pad) else {
            return broken!("no block is longer than 16 octets", Err(SealError::Refused));
        };
        let esp_at = out.len();
        let data_at = esp_at + HEADER_BYTES + iv.len();
        let icv_at = data_at + begun.payload.len() + pad + TRAILER_BYTES;
        let total_bytes = icv_at + icv_bytes;
        out.reserve(total_bytes - esp_at);
        out.extend_from_slice(&self.spi.to_be_bytes());
        out.extend_from_slice(&number.low().to_be_bytes());
        out.extend_from_slice(iv);
        out.extend_from_slice(begun.payload);
        out.extend_from_slice(padding);
        out.extend_from_slice(&[pad as u8, begun.next]);
        out.resize(total_bytes, 0);
        ip::finish(out, begun.is_v6, total_bytes).ok_or(SealError::TooLong)?;
        let parts = Parts {
            esp_at,
            data_at,
            icv_at,
        };
        self.protect(&parts, number, out)
            .map_err(|Refused| SealError::Refused)
    }

    fn protect(&mut self, parts: &Parts, number: Number, out: &mut [u8]) -> Result<(), Refused> {
        let (protected, icv) = out.split_at_mut_checked(parts.icv_at).ok_or(Refused)?;
        let (front, data) = protected
            .split_at_mut_checked(parts.data_at)
            .ok_or(Refused)?;
        let iv = front.get(parts.esp_at + HEADER_BYTES..).ok_or(Refused)?;
        match &mut self.keyed {
            Keyed::Null(mac) => authenticate(&mut **mac, parts, number, protected, icv),
            Keyed::Cbc(cbc, mac) => {
                cbc.encrypt(iv, data)?;
                match mac {
                    Some(mac) => authenticate(&mut **mac, parts, number, protected, icv),
                    None => Ok(()),
                }
            }
            Keyed::Aead(aead, salt) => {
                let nonce = nonce(*salt, iv).ok_or(Refused)?;
                let tag = <&mut [u8; TAG_BYTES]>::try_from(icv).map_err(|_| Refused)?;
                let (aad, aad_bytes) = number.aad(self.spi);
                aead.seal(&nonce, aad.get(..aad_bytes).ok_or(Refused)?, data, tag)
            }
        }
    }

    /// Checks and decrypts in place; where the payload lies in the packet then, and what it is.
    /// `packet` is as long as it says itself.
    pub(crate) fn open(
        &mut self,
        packet: &mut [u8],
        head: &Head,
        number: Number,
    ) -> Result<(Range<usize>, u8), OpenError> {
        let cipher = self.transform.cipher();
        let data_at = head.bytes + HEADER_BYTES + cipher.iv_bytes();
        let icv_at = packet.len().checked_sub(self.transform.icv_bytes());
        let icv_at = icv_at.filter(|icv_at| *icv_at >= data_at + TRAILER_BYTES);
        let parts = Parts {
            esp_at: head.bytes,
            data_at,
            icv_at: icv_at.ok_or(OpenError::Length)?,
        };
        if !(parts.icv_at - data_at).is_multiple_of(cipher.block_bytes().max(4)) {
            return Err(OpenError::Length);
        }
        self.unprotect(&parts, number, packet)?;
        let data = packet.get(data_at..parts.icv_at).ok_or(OpenError::Length)?;
        let (next, bytes) = trailer(data).ok_or(OpenError::Padding)?;
        Ok((data_at..data_at + bytes, next))
    }

    fn unprotect(
        &mut self,
        parts: &Parts,
        number: Number,
        packet: &mut [u8],
    ) -> Result<(), OpenError> {
        const SHORT: OpenError = OpenError::Length;
        let (protected, icv) = packet.split_at_mut_checked(parts.icv_at).ok_or(SHORT)?;
        // RFC 4303 3.4.4.1: the ICV is checked first, and nothing is decrypted that fails.
        if let Keyed::Null(mac) | Keyed::Cbc(_, Some(mac)) = &mut self.keyed {
            let mut wanted = [0; TAG_BYTES];
            let wanted = wanted.get_mut(..icv.len()).ok_or(SHORT)?;
            authenticate(&mut **mac, parts, number, protected, wanted)
                .map_err(|Refused| OpenError::Icv)?;
            if !bool::from((*wanted).ct_eq(icv)) {
                return Err(OpenError::Icv);
            }
        }
        let (front, data) = protected.split_at_mut_checked(parts.data_at).ok_or(SHORT)?;
        let iv = front.get(parts.esp_at + HEADER_BYTES..).ok_or(SHORT)?;
        match &mut self.keyed {
            Keyed::Null(_) => Ok(()),
            Keyed::Cbc(cbc, _) => cbc.decrypt(iv, data).map_err(|Refused| SHORT),
            Keyed::Aead(aead, salt) => {
                let nonce = nonce(*salt, iv).ok_or(SHORT)?;
                let tag = <&[u8; TAG_BYTES]>::try_from(&*icv).map_err(|_| SHORT)?;
                let (aad, aad_bytes) = number.aad(self.spi);
                let aad = aad.get(..aad_bytes).ok_or(SHORT)?;
                aead.open(&nonce, aad, data, tag)
                    .map_err(|Refused| OpenError::Icv)
            }
        }
    }
}

/// RFC 4303 2.8: the ICV covers the packet from the SPI on, and the upper half of an extended
/// number that is not sent.
fn authenticate(
    mac: &mut dyn Mac,
    parts: &Parts,
    number: Number,
    protected: &[u8],
    icv: &mut [u8],
) -> Result<(), Refused> {
    let covered = protected.get(parts.esp_at..).ok_or(Refused)?;
    match number.high() {
        Some(high) => mac.compute(&[covered, &high.to_be_bytes()], icv),
        None => mac.compute(&[covered], icv),
    }
}

/// RFC 4106 4, RFC 7634 2: the salt and the IV.
fn nonce(salt: [u8; SALT_BYTES], iv: &[u8]) -> Option<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    let (front, back) = nonce.split_at_mut(SALT_BYTES);
    front.copy_from_slice(&salt);
    back.copy_from_slice(iv.get(..NONCE_BYTES - SALT_BYTES)?);
    Some(nonce)
}

/// What follows, and how many octets are payload; RFC 4303 2.4: "the receiver SHOULD inspect the
/// Padding field."
fn trailer(data: &[u8]) -> Option<(u8, usize)> {
    let (rest, [pad, next]) = data.split_last_chunk::<TRAILER_BYTES>()?;
    let bytes = rest.len().checked_sub(usize::from(*pad))?;
    let padding = rest.get(bytes..)?;
    let is_right = padding
        .iter()
        .zip(1..=u8::MAX)
        .all(|(octet, wanted)| *octet == wanted);
    is_right.then_some((*next, bytes))
}
