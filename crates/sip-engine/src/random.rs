//! Keys and chance, all from the shard's seed.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::shard::Seed;

/// A secret of its own for each purpose: both halves of the seed are needed to
/// know one, and one tells nothing of another.
pub(crate) fn derive(seed: &Seed, purpose: &[u8]) -> [u8; 16] {
    let (first, second) = seed.0.split_at(16);
    let hash = |key: &[u8], number: u8, before: u64| {
        let mut k = [0; 16];
        k.copy_from_slice(key);
        let mut hasher = SipHasher24::new_with_key(&k);
        hasher.write_u8(number);
        hasher.write_u64(before);
        hasher.write(purpose);
        hasher.finish()
    };
    let mut derived = [0; 16];
    for (number, part) in (0..).zip(derived.chunks_exact_mut(8)) {
        let half = hash(second, number, hash(first, number, 0));
        part.copy_from_slice(&half.to_be_bytes());
    }
    derived
}

/// Chance that nobody needs to be unable to guess: which gateway comes first.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let mut hasher = SipHasher24::new_with_key(key);
        hasher.write(b"dice");
        Self(hasher.finish())
    }

    /// A number below `bound`; 0 for 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_purpose_has_its_own_key() {
        let seed = Seed([7; 32]);
        let mut keys: Vec<_> = [&b"a"[..], b"b", b"c"]
            .into_iter()
            .map(|p| derive(&seed, p))
            .collect();
        keys.push(derive(&Seed([8; 32]), b"a"));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 4);
    }

    #[test]
    fn dice_stay_below_their_bound_and_meet_every_number() {
        let mut dice = Dice::new(&[1; 16]);
        let mut seen = [0_u32; 5];
        for _ in 0..1_000 {
            seen[dice.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
        assert_eq!(dice.below(0), 0);
    }
}
