//! What a running relay can be told.

use crate::direction::Conditions;
use crate::units::{bit_rate, duration, share};

/// What a running relay can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RelayCommand {
    /// Change the path from now on; what is already under way arrives as before.
    Change(Change),
    /// Report what passed so far.
    Report,
    /// Stop relaying.
    Stop,
}

/// A change of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// The round trip.
    Rtt {
        /// Of both ways together, in nanoseconds.
        ns: u64,
    },
    /// The jitter.
    Jitter {
        /// The most that is added each way, in nanoseconds.
        ns: u64,
    },
    /// The loss.
    Loss {
        /// The share of packets, 0 to below 1.
        share: f64,
    },
    /// The rate; `None` for no limit.
    Rate {
        /// Bits a second each way.
        bits_per_s: Option<u64>,
    },
}

impl Change {
    pub(crate) fn apply(self, conditions: &mut Conditions) {
        match self {
            Self::Rtt { ns } => conditions.rtt_ns = ns,
            Self::Jitter { ns } => conditions.jitter_ns = ns,
            Self::Loss { share } => conditions.loss = share,
            Self::Rate { bits_per_s } => conditions.rate_bits_per_s = bits_per_s,
        }
    }
}

impl RelayCommand {
    /// Reads a line: `rtt 100ms`, `jitter 2ms`, `loss 1%`, `rate 100mbit`, `rate none`,
    /// `report`, `stop`.
    ///
    /// # Errors
    /// Says what can be written.
    pub fn parse(line: &str) -> Result<Self, String> {
        let line = line.trim();
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let change = match (name, value.trim()) {
            ("report", "") => return Ok(Self::Report),
            ("stop", "") => return Ok(Self::Stop),
            ("rtt", value) => Change::Rtt {
                ns: duration(value)?,
            },
            ("jitter", value) => Change::Jitter {
                ns: duration(value)?,
            },
            ("loss", value) => Change::Loss {
                share: share(value)?,
            },
            ("rate", "none") => Change::Rate { bits_per_s: None },
            ("rate", value) => Change::Rate {
                bits_per_s: Some(bit_rate(value)?),
            },
            _ => {
                return Err(format!(
                    "'{line}' is no command; write rtt 100ms, jitter 2ms, loss 1%, rate 100mbit, rate none, report or stop"
                ));
            }
        };
        Ok(Self::Change(change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands() {
        let rtt = Change::Rtt { ns: 100_000_000 };
        assert_eq!(
            RelayCommand::parse(" rtt  100ms\n"),
            Ok(RelayCommand::Change(rtt))
        );
        assert_eq!(RelayCommand::parse("report"), Ok(RelayCommand::Report));
        assert_eq!(RelayCommand::parse("stop"), Ok(RelayCommand::Stop));
        for wrong in ["", "rtt", "rtt 5", "loss 100%", "report now", "exit"] {
            assert!(RelayCommand::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_change_leaves_the_rest_as_it_is() {
        let mut conditions = Conditions {
            rtt_ns: 1,
            jitter_ns: 2,
            loss: 0.3,
            rate_bits_per_s: Some(4_000),
        };
        for line in ["rtt 100ms", "rate none", "loss 0", "jitter 1us"] {
            match RelayCommand::parse(line) {
                Ok(RelayCommand::Change(change)) => change.apply(&mut conditions),
                other => panic!("{line}: {other:?}"),
            }
        }
        let expected = Conditions {
            rtt_ns: 100_000_000,
            jitter_ns: 1_000,
            loss: 0.0,
            rate_bits_per_s: None,
        };
        assert_eq!(conditions, expected);
    }
}
