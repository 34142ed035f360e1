//! Choices in words.

use std::fmt;
use std::fmt::Write as _;

use crate::choice::{Choice, Fallen, Pair, Reason};
use crate::price::time;
use crate::unmet::{Unmet, Written, both};

/// Alternatives that are told; the rest is counted.
const ALTERNATIVES_TOLD: usize = 5;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHere => f.write_str("this program does not have it"),
            Self::NotOffered => f.write_str("the peer does not offer it"),
            Self::Version { version } => write!(f, "TLS {version} is not among the versions"),
            Self::BelowTheFloor(floor) if floor.source.is_empty() => {
                write!(f, "{} is never chosen: {}", floor.part, floor.why)
            }
            Self::BelowTheFloor(floor) => write!(
                f,
                "{} is never chosen: {} ({})",
                floor.part, floor.why, floor.source
            ),
            Self::Below {
                aspect,
                level,
                least,
                by,
            } => write!(f, "{} {level} is less than {least}: {by}", aspect.name()),
            Self::NoPrice => f.write_str("what it costs is not known"),
            Self::TooDear {
                cost_ns,
                max_ns,
                with,
            } => {
                if !with.is_empty() {
                    write!(f, "with {with} ")?;
                }
                write!(
                    f,
                    "it costs {}, more than {}",
                    time(*cost_ns),
                    time(*max_ns)
                )
            }
            Self::NoPartner => f.write_str("nothing that is left goes with it"),
            Self::GoesWithNone { of } => {
                write!(f, "no {of} that both sides may use goes with it")
            }
        }
    }
}

impl fmt::Display for Fallen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        for (nth, reason) in self.reasons.iter().enumerate() {
            let comma = if nth > 0 { "; " } else { "" };
            write!(f, "{comma}{reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = match self.cost_ns {
            Some(ns) => time(ns),
            None => "cost not known".to_owned(),
        };
        write!(f, "{}: {}; {cost}", both(self), self.protection)
    }
}

impl Choice {
    /// For people: the choice, the alternatives, and why the others fell out.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut pairs = self.pairs.iter();
        if let Some(best) = pairs.next() {
            let _ = writeln!(text, "choose {best}");
        }
        let alternatives = pairs.as_slice();
        if !alternatives.is_empty() {
            let _ = writeln!(text, "\nalternatives");
        }
        for pair in alternatives.iter().take(ALTERNATIVES_TOLD) {
            let _ = writeln!(text, "  {pair}");
        }
        if let Some(more @ 1..) = alternatives.len().checked_sub(ALTERNATIVES_TOLD) {
            let _ = writeln!(text, "  and {more} more");
        }
        fallen_lines(&mut text, &self.fallen);
        text
    }

    /// For programs.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Unmet {
    /// For people: what is wrong, what to write instead, and what is not taken in any case.
    pub fn text(&self, written: Written) -> String {
        let mut text = format!("{}\n  {}\n", self.what(), self.remedy(written));
        fallen_lines(&mut text, &self.fallen);
        text
    }
}

fn fallen_lines(text: &mut String, fallen: &[Fallen]) {
    if !fallen.is_empty() {
        let _ = writeln!(text, "\nnot taken");
    }
    for fallen in fallen {
        let _ = writeln!(text, "  {fallen}");
    }
}
