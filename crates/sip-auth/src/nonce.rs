//! Nonces that the server need not remember: it signs them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A nonce as text: 42 bytes in base64url.
pub(crate) const TEXT_LEN: usize = 56;
const HEAD_LEN: usize = 26;
const MAC_LEN: usize = 16;

/// What a nonce says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce {
    /// When it was issued; 48 bits are kept.
    pub(crate) issued_unix_ms: u64,
    /// By which server of a cluster.
    pub(crate) node_id: u16,
    /// By which process of that server.
    pub(crate) boot_id: u32,
    /// The issuer's mark of where it was sent.
    pub(crate) mark: u64,
    /// Its serial number among the nonces of that process; 48 bits are kept.
    pub(crate) serial: u64,
}

/// The node's secret.
///
/// HMAC-SHA-256, cut to 128 bits, and not SipHash: a nonce is shown to
/// everybody and forging one must stay out of reach for as long as a node
/// keeps its key, which is what HMAC's proof is about and SipHash's is not.
/// It costs two compressions, since the keyed states are kept: less than
/// parsing the request does.
#[derive(Clone)]
pub(crate) struct NonceKey {
    mac: Hmac<Sha256>,
}

impl NonceKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        // HMAC pads a key that is shorter than a block with zeros.
        let mut block = Zeroizing::new([0; 64]);
        for (to, from) in block.iter_mut().zip(key) {
            *to = *from;
        }
        Self {
            mac: Hmac::new((&*block).into()),
        }
    }

    /// The text of a nonce for that realm.
    pub(crate) fn sign(&self, nonce: &Nonce, realm: &str) -> [u8; TEXT_LEN] {
        let head = nonce.to_bytes();
        let mut signed = [0; HEAD_LEN + MAC_LEN];
        let tag = self.tag(&head, realm);
        for (to, from) in signed.iter_mut().zip(head.iter().chain(&tag)) {
            *to = *from;
        }
        let mut text = [0; TEXT_LEN];
        // 42 bytes make 56 digits, always.
        let _ = URL_SAFE_NO_PAD.encode_slice(signed, &mut text);
        text
    }

    /// What `text` says, if a holder of the key wrote it for that realm.
    pub(crate) fn verify(&self, text: &[u8], realm: &str) -> Option<Nonce> {
        if text.len() != TEXT_LEN {
            return None;
        }
        let mut signed = [0; HEAD_LEN + MAC_LEN];
        if URL_SAFE_NO_PAD.decode_slice(text, &mut signed) != Ok(signed.len()) {
            return None;
        }
        let (head, tag) = signed.split_first_chunk::<HEAD_LEN>()?;
        bool::from(self.tag(head, realm).ct_eq(tag)).then(|| Nonce::from_bytes(head))
    }

    /// A secret of its own for another purpose.
    pub(crate) fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let mut mac = self.mac.clone();
        // No nonce's head begins so: it would have been issued after the year 8000.
        mac.update(&[0xff; HEAD_LEN]);
        mac.update(purpose);
        mac.finalize().into_bytes().into()
    }

    fn tag(&self, head: &[u8; HEAD_LEN], realm: &str) -> [u8; MAC_LEN] {
        let mut mac = self.mac.clone();
        mac.update(head);
        mac.update(realm.as_bytes());
        let full: [u8; 32] = mac.finalize().into_bytes().into();
        let mut tag = [0; MAC_LEN];
        for (to, from) in tag.iter_mut().zip(full) {
            *to = from;
        }
        tag
    }
}

impl Nonce {
    fn to_bytes(self) -> [u8; HEAD_LEN] {
        let [_, _, time @ ..] = self.issued_unix_ms.to_be_bytes();
        let node = self.node_id.to_be_bytes();
        let boot = self.boot_id.to_be_bytes();
        let mark = self.mark.to_be_bytes();
        let [_, _, serial @ ..] = self.serial.to_be_bytes();
        let mut head = [0; HEAD_LEN];
        for (to, from) in head.iter_mut().zip(
            time.into_iter()
                .chain(node)
                .chain(boot)
                .chain(mark)
                .chain(serial),
        ) {
            *to = from;
        }
        head
    }

    fn from_bytes(head: &[u8; HEAD_LEN]) -> Self {
        let number = |from: usize, to: usize| {
            head.get(from..to)
                .unwrap_or_default()
                .iter()
                .fold(0u64, |sum, &b| sum << 8 | u64::from(b))
        };
        Self {
            issued_unix_ms: number(0, 6),
            node_id: number(6, 8) as u16,
            boot_id: number(8, 12) as u32,
            mark: number(12, 20),
            serial: number(20, 26),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = Nonce {
        issued_unix_ms: 1_790_000_000_123,
        node_id: 0xabcd,
        boot_id: 0xdead_beef,
        mark: 0x1234_5678_9abc_def0,
        serial: (1 << 48) - 2,
    };

    #[test]
    fn signed_and_verified() {
        let key = NonceKey::new(&[7; 32]);
        let text = key.sign(&NONCE, "example.org");
        assert!(
            text.iter()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b))
        );
        assert_eq!(key.verify(&text, "example.org"), Some(NONCE));
        assert_eq!(key.verify(&text, "example.com"), None);
        assert_eq!(NonceKey::new(&[8; 32]).verify(&text, "example.org"), None);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let key = NonceKey::new(&[7; 32]);
        let text = key.sign(&NONCE, "example.org");
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut forged = text;
                forged[at] ^= 1 << bit;
                assert_eq!(
                    key.verify(&forged, "example.org"),
                    None,
                    "byte {at} bit {bit}"
                );
            }
            assert_eq!(key.verify(&text[..at], "example.org"), None);
        }
    }

    #[test]
    fn derived_keys_differ_by_purpose() {
        let key = NonceKey::new(&[7; 32]);
        assert_ne!(key.derive(b"a"), key.derive(b"b"));
    }
}
