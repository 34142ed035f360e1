//! Chance from a seed: the same seed throws the same numbers for ever.

/// A small generator (xorshift64*), good enough for weather.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Dice for a seed and a purpose: two purposes throw unlike each other.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03)
                | 1,
        };
        for _ in 0..8 {
            dice.throw();
        }
        dice
    }

    /// The next number.
    pub fn throw(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.throw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in so many of a thousand throws.
    pub fn thousandths(&mut self, chance: u64) -> bool {
        self.below(1_000) < chance
    }

    /// Fills an array with random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.throw() as u8)
    }
}
