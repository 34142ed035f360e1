//! Seeded draws, so that every run and every test can be repeated.

/// Draws that repeat from their seed. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    rng: fastrand::Rng,
}

impl Random {
    /// The same seed gives the same draws.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// Uniform over (0, 1], so that its logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        1.0 - self.rng.f64()
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Uniform over `0..below`; 0 when `below` is 0.
    pub fn below(&mut self, below: usize) -> usize {
        if below == 0 {
            0
        } else {
            self.rng.usize(..below)
        }
    }
}
