//! Pseudo-random numbers from a seed: what a scenario needs chance for is no
//! secret.

/// Draws that repeat from their seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    rng: fastrand::Rng,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// From 0, to 1 exclusive.
    pub(crate) fn unit(&mut self) -> f64 {
        self.rng.f64()
    }

    /// From 0 exclusive, to 1.
    pub(crate) fn open_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// Below `end`; 0 where there is nothing below.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.rng.u64(..end) }
    }

    /// A draw from the standard normal distribution (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.open_unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}
