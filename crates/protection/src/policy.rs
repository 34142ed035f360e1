//! What an operator asks of a protection.

use std::fmt;

use serde::Serialize;

use crate::level::{Aspect, Level};
use crate::price::time;

/// Requirements. What is not said is not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Policy {
    /// The least level of confidentiality.
    pub min_confidentiality: Option<Level>,
    /// The least level of authentication.
    pub min_authentication: Option<Level>,
    /// The least level of forward secrecy.
    pub min_forward_secrecy: Option<Level>,
    /// What a use may cost at most, in nanoseconds.
    pub max_cost_ns: Option<f64>,
}

impl Policy {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The least level of an aspect.
    pub fn least(&self, aspect: Aspect) -> Option<Level> {
        match aspect {
            Aspect::Confidentiality => self.min_confidentiality,
            Aspect::Authentication => self.min_authentication,
            Aspect::ForwardSecrecy => self.min_forward_secrecy,
        }
    }

    /// These, and from `other` what they do not ask for.
    pub fn or(self, other: Self) -> Self {
        Self {
            min_confidentiality: self.min_confidentiality.or(other.min_confidentiality),
            min_authentication: self.min_authentication.or(other.min_authentication),
            min_forward_secrecy: self.min_forward_secrecy.or(other.min_forward_secrecy),
            max_cost_ns: self.max_cost_ns.or(other.max_cost_ns),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("the cheapest");
        }
        let mut comma = "";
        for aspect in Aspect::ALL {
            if let Some(level) = self.least(aspect) {
                write!(f, "{comma}{} {level} or more", aspect.name())?;
                comma = ", ";
            }
        }
        if let Some(max_ns) = self.max_cost_ns {
            write!(f, "{comma}{} at most", time(max_ns))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_as_a_sentence() {
        assert_eq!(Policy::default().to_string(), "the cheapest");
        let all = Policy {
            min_confidentiality: Level::new(7),
            max_cost_ns: Some(20_000.0),
            ..Policy::default()
        };
        assert_eq!(
            all.to_string(),
            "confidentiality 7 or more, 20.00 us at most"
        );
        let own = Policy {
            min_confidentiality: Level::new(9),
            ..Policy::default()
        };
        let merged = own.or(all);
        assert_eq!(merged.min_confidentiality, Level::new(9));
        assert_eq!(merged.max_cost_ns, Some(20_000.0));
    }
}
