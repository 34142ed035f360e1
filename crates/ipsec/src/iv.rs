//! IVs that nobody can foretell, without a source of randomness on the path of packets.

use aes::Aes128;
use cbc::cipher::{Block, BlockCipherEncrypt, KeyInit};

/// A counter under a block cipher of its own: no value comes twice, and without the key none
/// can be told from chance. RFC 3602 2: "The IV MUST be chosen at random, and MUST be
/// unpredictable."
pub(crate) struct IvSource {
    cipher: Aes128,
    counter: u128,
}

impl IvSource {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            cipher: Aes128::new(&key.into()),
            counter: 0,
        }
    }

    pub(crate) fn next(&mut self) -> [u8; 16] {
        self.counter = self.counter.wrapping_add(1);
        let mut block = Block::<Aes128>::from(self.counter.to_be_bytes());
        self.cipher.encrypt_block(&mut block);
        block.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_iv_comes_twice_and_keys_tell_them_apart() {
        let (mut one, mut other) = (IvSource::new([1; 16]), IvSource::new([2; 16]));
        let ivs: std::collections::BTreeSet<[u8; 16]> = (0..1_000)
            .flat_map(|_| [one.next(), other.next()])
            .collect();
        assert_eq!(ivs.len(), 2_000);
    }
}
