//! Pseudo-random numbers from a seed: what a scenario needs chance for is no
//! secret.

/// A generator (xorshift64*, Vigna 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Zero is the one state that it never leaves.
        Self {
            state: seed ^ 0x9e37_79b9_7f4a_7c15 | 1,
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0, to 1 exclusive.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 exclusive, to 1.
    pub(crate) fn open_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// Below `end`; 0 where there is nothing below.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// A draw from the standard normal distribution (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.open_unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}
