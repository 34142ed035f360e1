//! IVs that nobody can foretell, without a source of randomness on the path of packets.

use aes::Aes128;
use cbc::cipher::{Block, BlockCipherEncrypt, KeyInit};

/// Sequence numbers under a block cipher of its own: no value comes twice, whether or not there
/// was a restart in between, and without the key none can be told from chance. RFC 3602 2: "The
/// IV MUST be chosen at random, and MUST be unpredictable."
pub(crate) struct IvSource {
    cipher: Aes128,
}

impl IvSource {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            cipher: Aes128::new(&key.into()),
        }
    }

    /// That of the packet with this number.
    pub(crate) fn of(&self, number: u64) -> [u8; 16] {
        let mut block = Block::<Aes128>::from(u128::from(number).to_be_bytes());
        self.cipher.encrypt_block(&mut block);
        block.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_iv_comes_twice_and_keys_tell_them_apart() {
        let (one, other) = (IvSource::new([1; 16]), IvSource::new([2; 16]));
        let ivs: std::collections::BTreeSet<[u8; 16]> = (1..=1_000)
            .flat_map(|number| [one.of(number), other.of(number)])
            .collect();
        assert_eq!(ivs.len(), 2_000);
    }
}
