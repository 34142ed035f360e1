//! Levels, and what they are levels of.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// How much something is worth, from 0 to 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Level(u8);

impl Level {
    /// Worth nothing.
    pub const ZERO: Self = Self(0);
    /// As much as can be.
    pub const TEN: Self = Self(10);

    /// The level of this number, if there is one.
    pub const fn new(number: u8) -> Option<Self> {
        if number <= 10 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The level next to a number that may lie outside.
    pub(crate) fn nearest(number: f64) -> Self {
        // NaN becomes 0: what cannot be told is worth nothing.
        Self(number.round().clamp(0.0, 10.0) as u8)
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse::<u8>().ok();
        number
            .and_then(Self::new)
            .ok_or_else(|| format!("`{text}` is no level\nwrite a whole number from 0 to 10"))
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let given = i64::deserialize(from)?;
        let number = u8::try_from(given).ok();
        number.and_then(Self::new).ok_or_else(|| {
            D::Error::custom(format!(
                "{given} is out of range\nwrite a number from 0 to 10"
            ))
        })
    }
}

/// What a protection protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// That nobody else reads it.
    Confidentiality,
    /// That it comes from whom it seems to, as he sent it.
    Authentication,
    /// That who gets a key later does not read what was recorded before.
    ForwardSecrecy,
}

impl Aspect {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::Confidentiality,
        Self::Authentication,
        Self::ForwardSecrecy,
    ];

    /// In a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confidentiality => "confidentiality",
            Self::Authentication => "authentication",
            Self::ForwardSecrecy => "forward secrecy",
        }
    }

    /// The requirement of it, as a configuration writes it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Confidentiality => "min_confidentiality",
            Self::Authentication => "min_authentication",
            Self::ForwardSecrecy => "min_forward_secrecy",
        }
    }
}

/// A level of each aspect. `None` is for an aspect to which something does not
/// contribute: a cipher without a tag says nothing of authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Protection {
    /// Of confidentiality.
    pub confidentiality: Option<Level>,
    /// Of authentication.
    pub authentication: Option<Level>,
    /// Of forward secrecy.
    pub forward_secrecy: Option<Level>,
}

impl Protection {
    /// What lowers no level of what it is put together with ([`Protection::with`]).
    pub const WHOLE: Self = Self {
        confidentiality: Some(Level::TEN),
        authentication: Some(Level::TEN),
        forward_secrecy: Some(Level::TEN),
    };

    /// The level of one aspect.
    pub const fn of(&self, aspect: Aspect) -> Option<Level> {
        match aspect {
            Aspect::Confidentiality => self.confidentiality,
            Aspect::Authentication => self.authentication,
            Aspect::ForwardSecrecy => self.forward_secrecy,
        }
    }

    /// Both together: of each aspect the lower level.
    pub fn with(self, other: Self) -> Self {
        let lower = |one: Option<Level>, other: Option<Level>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            confidentiality: lower(self.confidentiality, other.confidentiality),
            authentication: lower(self.authentication, other.authentication),
            forward_secrecy: lower(self.forward_secrecy, other.forward_secrecy),
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for aspect in Aspect::ALL {
            if let Some(level) = self.of(aspect) {
                let comma = if is_first { "" } else { ", " };
                write!(f, "{comma}{} {level}", aspect.name())?;
                is_first = false;
            }
        }
        if is_first {
            f.write_str("no protection")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_from_0_to_10() {
        assert_eq!("7".parse(), Ok(Level(7)));
        assert_eq!("10".parse(), Ok(Level::TEN));
        for wrong in ["11", "-1", "7.5", "", "high", "256"] {
            let error = wrong.parse::<Level>().unwrap_err();
            assert!(error.contains("from 0 to 10"), "{error}");
        }
        assert_eq!(Level::nearest(f64::NAN), Level::ZERO);
        assert_eq!(Level::nearest(1e9), Level::TEN);
        assert_eq!(Level::nearest(-3.0), Level::ZERO);
        assert_eq!(Level::nearest(6.5), Level(7));
    }

    #[test]
    fn the_weakest_part_counts() {
        let cipher = Protection {
            confidentiality: Level::new(8),
            ..Protection::default()
        };
        let mac = Protection {
            authentication: Level::new(5),
            ..Protection::default()
        };
        let both = cipher.with(mac);
        assert_eq!(both.to_string(), "confidentiality 8, authentication 5");
        let weak = Protection {
            confidentiality: Level::new(3),
            ..Protection::default()
        };
        assert_eq!(both.with(weak).confidentiality, Level::new(3));
        assert_eq!(Protection::WHOLE.with(both).authentication, Level::new(5));
        assert_eq!(Protection::default().to_string(), "no protection");
    }
}
