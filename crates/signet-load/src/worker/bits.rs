//! A bit for each seat.

/// As many bits as were set; those beyond them are 0.
#[derive(Default)]
pub(super) struct Bits(Vec<u64>);

/// Bits of a word.
pub(super) const WORD: usize = u64::BITS as usize;

impl Bits {
    pub(super) fn get(&self, at: usize) -> bool {
        self.word(at / WORD) >> (at % WORD) & 1 == 1
    }

    pub(super) fn set(&mut self, at: usize, is_set: bool) {
        if self.0.len() <= at / WORD {
            self.0.resize(at / WORD + 1, 0);
        }
        if let Some(word) = self.0.get_mut(at / WORD) {
            *word = *word & !(1 << (at % WORD)) | u64::from(is_set) << (at % WORD);
        }
    }

    pub(super) fn words(&self) -> usize {
        self.0.len()
    }

    /// 64 of them.
    pub(super) fn word(&self, number: usize) -> u64 {
        self.0.get(number).copied().unwrap_or(0)
    }
}

/// The first bit from `start` on that is set in these words, going round.
pub(super) fn first_from(start: usize, words: usize, word: impl Fn(usize) -> u64) -> Option<usize> {
    let begin = start / WORD;
    // The word of the start is looked at twice: from the start on, and as a whole at the end.
    for step in 0..=words {
        let number = (begin + step) % words.max(1);
        let seen = if step == 0 {
            word(number) & u64::MAX << (start % WORD)
        } else {
            word(number)
        };
        if seen != 0 {
            return Some(number * WORD + seen.trailing_zeros() as usize);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_bit_is_found_wherever_it_is() {
        for set in [0, 1, 63, 64, 100, 199] {
            let mut bits = Bits::default();
            bits.set(199, false);
            bits.set(set, true);
            for start in [0, 1, 62, 63, 64, 65, 127, 128, 198, 199] {
                let found = first_from(start, bits.words(), |number| bits.word(number));
                assert_eq!(found, Some(set), "from {start}");
            }
            assert!(bits.get(set) && !bits.get(2) && !bits.get(1_000));
            bits.set(set, false);
            assert_eq!(
                first_from(7, bits.words(), |number| bits.word(number)),
                None
            );
        }
        assert_eq!(first_from(0, 0, |_| 0), None);
    }
}
