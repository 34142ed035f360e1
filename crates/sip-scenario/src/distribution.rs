//! The distributions that pauses and samples are drawn from.

use crate::random::Random;

/// How a value is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Distribution {
    Fixed(f64),
    Uniform {
        min: f64,
        max: f64,
    },
    Normal {
        mean: f64,
        stdev: f64,
    },
    LogNormal {
        mean: f64,
        stdev: f64,
    },
    Exponential {
        mean: f64,
    },
    Weibull {
        lambda: f64,
        k: f64,
    },
    Pareto {
        k: f64,
        x_m: f64,
    },
    GeneralPareto {
        shape: f64,
        scale: f64,
        location: f64,
    },
    Gamma {
        k: f64,
        theta: f64,
    },
    /// Failures before the `n`-th success of probability `p`.
    NegativeBinomial {
        p: f64,
        n: f64,
    },
}

/// Successes that a negative binomial draw waits for: each takes a logarithm,
/// and all calls wait while one draws.
pub(crate) const SUCCESSES_MAX: f64 = 10_000.0;

/// Tries of a gamma draw: fewer than one in twenty fails.
const TRIALS_MAX: usize = 1_000;

impl Distribution {
    /// What 99 of 100 draws stay below; for a gamma draw nearly so. A negative
    /// binomial draw counts as nothing, as in SIPp.
    pub(crate) fn usual_max(&self) -> f64 {
        /// The share of draws that may be above.
        const ABOVE: f64 = 0.01;
        /// Where that share of the standard normal distribution begins.
        const NORMAL: f64 = 2.326_347_874_040_841;
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => max - (max - min) * ABOVE,
            Self::Normal { mean, stdev } => mean + stdev * NORMAL,
            Self::LogNormal { mean, stdev } => (mean + stdev * NORMAL).exp(),
            Self::Exponential { mean } => mean * -ABOVE.ln(),
            Self::Weibull { lambda, k } => lambda * (-ABOVE.ln()).powf(1.0 / k),
            Self::Pareto { k, x_m } => x_m / ABOVE.powf(1.0 / k),
            Self::GeneralPareto {
                shape,
                scale,
                location,
            } => {
                if shape == 0.0 {
                    location - scale * ABOVE.ln()
                } else {
                    location + scale * (ABOVE.powf(-shape) - 1.0) / shape
                }
            }
            // Wilson and Hilferty: the cube root is nearly normal.
            Self::Gamma { k, theta } => {
                let spread = 1.0 / (9.0 * k);
                theta * k * (1.0 - spread + NORMAL * spread.sqrt()).powi(3)
            }
            Self::NegativeBinomial { .. } => 0.0,
        }
    }

    /// Draws a value.
    pub(crate) fn draw(&self, random: &mut Random) -> f64 {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => min + (max - min) * random.unit(),
            Self::Normal { mean, stdev } => mean + stdev * random.normal(),
            Self::LogNormal { mean, stdev } => (mean + stdev * random.normal()).exp(),
            Self::Exponential { mean } => mean * -random.open_unit().ln(),
            Self::Weibull { lambda, k } => lambda * (-random.open_unit().ln()).powf(1.0 / k),
            Self::Pareto { k, x_m } => x_m / random.open_unit().powf(1.0 / k),
            Self::GeneralPareto {
                shape,
                scale,
                location,
            } => {
                let u = random.open_unit();
                if shape == 0.0 {
                    location - scale * u.ln()
                } else {
                    location + scale * (u.powf(-shape) - 1.0) / shape
                }
            }
            Self::Gamma { k, theta } => theta * gamma(k, random),
            Self::NegativeBinomial { p, n } => negative_binomial(p, n, random),
        }
    }
}

/// For a shape below 1, of the shape above with a power of a uniform draw.
fn gamma(k: f64, random: &mut Random) -> f64 {
    if k < 1.0 {
        gamma_from_one(k + 1.0, random) * random.open_unit().powf(1.0 / k)
    } else {
        gamma_from_one(k, random)
    }
}

/// Marsaglia and Tsang's method, for a shape from 1 on.
fn gamma_from_one(k: f64, random: &mut Random) -> f64 {
    let d = k - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    for _ in 0..TRIALS_MAX {
        let x = random.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && random.open_unit().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
    d
}

/// The failures before each success are drawn at once, so that a rare success
/// takes no longer than another.
fn negative_binomial(p: f64, n: f64, random: &mut Random) -> f64 {
    if p >= 1.0 {
        return 0.0;
    }
    let log_failure = (-p).ln_1p();
    let successes = n.min(SUCCESSES_MAX).ceil() as u32;
    (0..successes)
        .map(|_| (random.open_unit().ln() / log_failure).floor())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_draw_of_a_hundred_is_above_the_usual_maximum() {
        let mut random = Random::new(11);
        for distribution in [
            Distribution::Uniform { min: 2.0, max: 6.0 },
            Distribution::Normal {
                mean: 9.0,
                stdev: 2.0,
            },
            Distribution::LogNormal {
                mean: 1.0,
                stdev: 0.5,
            },
            Distribution::Exponential { mean: 5.0 },
            Distribution::Weibull {
                lambda: 3.0,
                k: 2.0,
            },
            Distribution::Pareto { k: 5.0, x_m: 4.0 },
            Distribution::GeneralPareto {
                shape: 0.2,
                scale: 4.0,
                location: 1.0,
            },
            Distribution::Gamma { k: 4.0, theta: 2.0 },
        ] {
            let (draws, max) = (40_000, distribution.usual_max());
            let above = (0..draws)
                .filter(|_| distribution.draw(&mut random) > max)
                .count();
            assert!((300..500).contains(&above), "{distribution:?}: {above}");
        }
        assert_eq!(Distribution::Fixed(7.0).usual_max(), 7.0);
    }

    #[test]
    fn the_means_are_what_they_should_be() {
        let mut random = Random::new(7);
        for (distribution, mean) in [
            (Distribution::Fixed(3.0), 3.0),
            (Distribution::Uniform { min: 2.0, max: 6.0 }, 4.0),
            (
                Distribution::Normal {
                    mean: 9.0,
                    stdev: 2.0,
                },
                9.0,
            ),
            (
                Distribution::LogNormal {
                    mean: 1.0,
                    stdev: 0.5,
                },
                (1.125f64).exp(),
            ),
            (Distribution::Exponential { mean: 5.0 }, 5.0),
            (
                Distribution::Weibull {
                    lambda: 3.0,
                    k: 1.0,
                },
                3.0,
            ),
            (Distribution::Pareto { k: 5.0, x_m: 4.0 }, 5.0),
            (
                Distribution::GeneralPareto {
                    shape: 0.2,
                    scale: 4.0,
                    location: 1.0,
                },
                6.0,
            ),
            (Distribution::Gamma { k: 4.0, theta: 2.0 }, 8.0),
            (Distribution::Gamma { k: 0.5, theta: 2.0 }, 1.0),
            (Distribution::NegativeBinomial { p: 0.25, n: 3.0 }, 9.0),
            (Distribution::NegativeBinomial { p: 1.0, n: 3.0 }, 0.0),
            // More trials than anybody would wait for.
            (
                Distribution::NegativeBinomial {
                    p: 1.0e-7,
                    n: 100.0,
                },
                1.0e9,
            ),
        ] {
            let draws = 40_000;
            let sum: f64 = (0..draws).map(|_| distribution.draw(&mut random)).sum();
            let found = sum / f64::from(draws);
            assert!(
                (found - mean).abs() < 0.05 * mean.max(1.0),
                "{distribution:?}: {found}, not {mean}"
            );
        }
    }
}
