//! How long a call rings or is held: a constant, or drawn for each call.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;

/// A duration that may differ from call to call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// Always the same.
    Constant(Duration),
    /// Anything from the first to the second, each as likely as the other.
    Uniform(Duration, Duration),
    /// Exponential with this mean, cut at [`Span::EXPONENTIAL_MAX`] means.
    Exponential(Duration),
}

impl Span {
    /// No time at all.
    pub const NONE: Self = Self::Constant(Duration::ZERO);
    /// Past so many means an exponential duration is cut: one draw in three
    /// million, which would keep the whole run waiting.
    pub const EXPONENTIAL_MAX: u32 = 15;

    /// The longest that can be drawn.
    pub fn longest(self) -> Duration {
        match self {
            Self::Constant(span) | Self::Uniform(_, span) => span,
            Self::Exponential(mean) => mean.saturating_mul(Self::EXPONENTIAL_MAX),
        }
    }

    /// The mean.
    pub fn mean(self) -> Duration {
        match self {
            Self::Constant(span) | Self::Exponential(span) => span,
            Self::Uniform(from, to) => (from + to) / 2,
        }
    }

    pub(crate) fn draw_ms(self, dice: &mut Rng) -> u64 {
        let span = match self {
            Self::Constant(span) => span,
            Self::Uniform(from, to) => from + to.saturating_sub(from).mul_f64(dice.f64()),
            Self::Exponential(mean) => {
                let means = -(1.0 - dice.f64()).ln();
                mean.mul_f64(means.min(f64::from(Self::EXPONENTIAL_MAX)))
            }
        };
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help =
            || format!("'{text}' is no duration; write 0, 500ms, 2s, uniform:1s..5s or exp:3s");
        if let Some(range) = text.strip_prefix("uniform:") {
            let (from, to) = range.split_once("..").ok_or_else(help)?;
            let (from, to) = (
                duration(from).ok_or_else(help)?,
                duration(to).ok_or_else(help)?,
            );
            if from > to {
                return Err(format!(
                    "'{text}' ends before it begins; write uniform:{}..{}",
                    show(to),
                    show(from)
                ));
            }
            return Ok(Self::Uniform(from, to));
        }
        if let Some(mean) = text.strip_prefix("exp:") {
            return duration(mean).map(Self::Exponential).ok_or_else(help);
        }
        duration(text).map(Self::Constant).ok_or_else(help)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => f.write_str(&show(*span)),
            Self::Uniform(from, to) => write!(f, "uniform:{}..{}", show(*from), show(*to)),
            Self::Exponential(mean) => write!(f, "exp:{}", show(*mean)),
        }
    }
}

/// Reads `0`, `250ms`, `1.5s`, `2m`, `1h`; `None` where it is none of these.
pub fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at_checked(digits)?;
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

/// A duration as [`duration`] reads it.
pub fn show(span: Duration) -> String {
    if span.is_zero() {
        "0".to_owned()
    } else if !span.subsec_micros().is_multiple_of(1_000) {
        format!("{}us", span.as_micros())
    } else if span.subsec_millis() != 0 {
        format!("{}ms", span.as_millis())
    } else {
        format!("{}s", span.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_shown_again() {
        for text in ["0", "500ms", "2s", "uniform:1s..5s", "exp:3s", "15us"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string(), text);
        }
        assert_eq!(
            "1.5s".parse(),
            Ok(Span::Constant(Duration::from_millis(1_500)))
        );
        assert_eq!("2m".parse(), Ok(Span::Constant(Duration::from_secs(120))));
        for bad in [
            "",
            "2",
            "s",
            "2 s",
            "-1s",
            "uniform:5s..1s",
            "uniform:5s",
            "exp:",
            "1e400s",
        ] {
            let error = bad.parse::<Span>().unwrap_err();
            assert!(error.contains("write "), "{error}");
        }
    }

    #[test]
    fn draws_stay_in_their_range_and_near_their_mean() {
        let mut dice = Rng::with_seed(1);
        let mut mean = |span: Span| {
            let draws: Vec<u64> = (0..20_000).map(|_| span.draw_ms(&mut dice)).collect();
            let longest = u64::try_from(span.longest().as_millis()).unwrap();
            assert!(draws.iter().all(|&ms| ms <= longest));
            draws.iter().sum::<u64>() as f64 / draws.len() as f64
        };
        assert_eq!(mean(Span::Constant(Duration::from_millis(7))), 7.0);
        let uniform = mean(Span::Uniform(
            Duration::from_secs(1),
            Duration::from_secs(5),
        ));
        assert!((2_950.0..3_050.0).contains(&uniform), "{uniform}");
        let exponential = mean(Span::Exponential(Duration::from_secs(3)));
        assert!((2_900.0..3_100.0).contains(&exponential), "{exponential}");
    }
}
