//! Digests of strings joined by colons, and their hexadecimal form.

use md5::Md5;
use sha2::{Digest, Sha256, Sha512_256};
use zeroize::Zeroize;

use crate::Algorithm;

/// The longest digest, in bytes.
pub(crate) const DIGEST_MAX: usize = 32;

/// A digest; bytes past the algorithm's length are zero.
pub(crate) type Raw = [u8; DIGEST_MAX];

/// A digest in lower-case hexadecimal digits. Some are secrets (an HA1 is
/// hashed in this form), so all are wiped.
pub(crate) struct Hex {
    digits: [u8; 2 * DIGEST_MAX],
    len: usize,
}

impl Hex {
    pub(crate) fn new(digest: &[u8]) -> Self {
        let mut hex = Self {
            digits: [0; 2 * DIGEST_MAX],
            len: 0,
        };
        for (pair, &byte) in hex.digits.chunks_exact_mut(2).zip(digest) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            hex.len += 2;
        }
        hex
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.digits.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Hex {
    fn drop(&mut self) {
        self.digits.zeroize();
    }
}

/// H(parts, joined by colons).
pub(crate) fn joined(algorithm: Algorithm, parts: &[&[u8]]) -> Raw {
    match algorithm {
        Algorithm::Md5 => run::<Md5>(parts),
        Algorithm::Sha256 => run::<Sha256>(parts),
        Algorithm::Sha512_256 => run::<Sha512_256>(parts),
    }
}

/// Reads exactly `2 * len` hexadecimal digits of either case.
pub(crate) fn unhex(digits: &[u8], len: usize) -> Option<Raw> {
    if digits.len() != 2 * len || len > DIGEST_MAX {
        return None;
    }
    let mut raw = [0; DIGEST_MAX];
    for (byte, pair) in raw.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(raw)
}

/// Reads exactly eight hexadecimal digits: a nonce count.
pub(crate) fn unhex_u32(digits: &[u8]) -> Option<u32> {
    if digits.len() != 8 {
        return None;
    }
    digits
        .iter()
        .try_fold(0u32, |sum, &d| Some(sum << 4 | u32::from(value(d)?)))
}

fn run<D: Digest>(parts: &[&[u8]]) -> Raw {
    let mut hasher = D::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            hasher.update(b":");
        }
        hasher.update(part);
    }
    let digest = hasher.finalize();
    let mut raw = [0; DIGEST_MAX];
    for (to, from) in raw.iter_mut().zip(digest.iter()) {
        *to = *from;
    }
    raw
}

fn digit(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' + nibble
    } else {
        b'a' + nibble - 10
    }
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_there_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in all.chunks(32) {
            let hex = Hex::new(bytes);
            let expected: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex.as_bytes(), expected.as_bytes());
            assert_eq!(
                unhex(hex.as_bytes(), 32).as_ref().map(|r| &r[..]),
                Some(bytes)
            );
            assert_eq!(
                unhex(expected.to_uppercase().as_bytes(), 32)
                    .as_ref()
                    .map(|r| &r[..]),
                Some(bytes)
            );
        }
        assert_eq!(unhex(b"0g", 1), None);
        assert_eq!(unhex(b"00", 2), None);
        assert_eq!(unhex(&[b'0'; 66], 33), None);
    }

    #[test]
    fn nonce_counts() {
        assert_eq!(unhex_u32(b"00000001"), Some(1));
        assert_eq!(unhex_u32(b"fFffFFff"), Some(u32::MAX));
        for bad in [
            "",
            "1",
            "0000001",
            "000000001",
            "0000000x",
            "-0000001",
            "+0000001",
        ] {
            assert_eq!(unhex_u32(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn known_answers() {
        // RFC 1321 A.5; FIPS 180-4 example vectors.
        let hex = |algorithm| {
            let raw = joined(algorithm, &[b"abc"]);
            String::from_utf8_lossy(Hex::new(&raw[..algorithm.digest_len()]).as_bytes())
                .into_owned()
        };
        assert_eq!(hex(Algorithm::Md5), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            hex(Algorithm::Sha256),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(Algorithm::Sha512_256),
            "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"
        );
    }
}
