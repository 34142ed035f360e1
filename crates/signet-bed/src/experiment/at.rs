//! Which of a case's loads is meant.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::case::Load;

/// Which of a case's loads is meant: `"rates"`, `"peak"`, or a rate as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum At {
    /// Every rate that is held.
    #[default]
    Rates,
    /// The peak.
    Peak,
    /// One rate, a second.
    Rate(f64),
}

impl At {
    /// Whether it means this load.
    pub fn fits(self, load: &Load) -> bool {
        match (self, load) {
            (Self::Rates, Load::Rate { for_check, .. }) => !for_check,
            (Self::Peak, Load::Peak { .. }) => true,
            (Self::Rate(rate), Load::Rate { per_s, .. }) => rate == *per_s,
            (Self::Rates | Self::Rate(_), Load::Peak { .. }) | (Self::Peak, Load::Rate { .. }) => {
                false
            }
        }
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AtVisitor)
    }
}

struct AtVisitor;

impl Visitor<'_> for AtVisitor {
    type Value = At;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"peak\", \"rates\", or a rate as a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<At, E> {
        match text {
            "peak" => Ok(At::Peak),
            "rates" => Ok(At::Rates),
            _ => Err(E::unknown_variant(text, &["peak", "rates"])),
        }
    }

    fn visit_f64<E>(self, rate: f64) -> Result<At, E> {
        Ok(At::Rate(rate))
    }

    fn visit_i64<E>(self, rate: i64) -> Result<At, E> {
        Ok(At::Rate(rate as f64))
    }
}
