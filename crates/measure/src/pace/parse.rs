//! Schedules, rates and durations as text.

use std::fmt;

use super::{DURATION_MAX_NS, PHASES_MAX, Phase, RATE_MAX_PER_S};

/// A schedule, rate or duration that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaceError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for PaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for PaceError {}

/// Reads `2000/s`, `1.5k/s`, `600/min` or `10/h`. A bare number is per second.
///
/// # Errors
/// Says what was expected.
pub fn parse_rate_per_s(text: &str) -> Result<f64, PaceError> {
    let mut reader = Reader::new(text);
    let number = reader.number("a rate such as 2000/s")?;
    let per_s = if reader.at_end() { 1.0 } else { reader.per()? };
    reader.end("a rate such as 2000/s")?;
    reader.bounded_rate(number, per_s)
}

/// Reads `30s`, `1.5s`, `250ms`, `100us`, `5min`, `5m`, `1h` or a sum such as `1m30s`.
///
/// # Errors
/// Says what was expected; a number without a unit is refused.
pub fn parse_duration_ns(text: &str) -> Result<u64, PaceError> {
    let mut reader = Reader::new(text);
    let duration_ns = reader.duration()?;
    reader.end("a duration such as 30s")?;
    Ok(duration_ns)
}

pub(super) fn schedule(text: &str) -> Result<Vec<Phase>, PaceError> {
    let mut reader = Reader::new(text);
    let mut phases = Vec::new();
    loop {
        reader.phase(&mut phases)?;
        if phases.len() > PHASES_MAX {
            return reader.fail(format!("more than {PHASES_MAX} phases; use a ramp"));
        }
        if reader.at_end() {
            return Ok(phases);
        }
        if !reader.mark(';') && !reader.mark(',') {
            return reader.fail("expected \";\" and another phase, or the end".to_owned());
        }
        if reader.at_end() {
            return Ok(phases);
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Where the last item began, for errors about its value.
    began: usize,
}

const PHASE_FORMS: &str = "\"2000/s for 30s\", \"ramp 100..2000/s over 60s\", \
     \"steps 100,200,400/s each 10s\" or \"pause 5s\"";

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            began: 0,
        }
    }

    fn phase(&mut self, phases: &mut Vec<Phase>) -> Result<(), PaceError> {
        self.spaces();
        if self.word("ramp") {
            let from = self.number("the first rate, as in \"ramp 100..2000/s over 60s\"")?;
            if !self.text_mark("..") {
                return self.fail("expected \"..\" and the last rate".to_owned());
            }
            let to = self.number("the last rate, as in \"ramp 100..2000/s over 60s\"")?;
            let per_s = self.per()?;
            let (from_per_s, to_per_s) = (
                self.bounded_rate(from, per_s)?,
                self.bounded_rate(to, per_s)?,
            );
            self.keyword("over")?;
            phases.push(Phase {
                duration_ns: self.duration()?,
                from_per_s,
                to_per_s,
            });
        } else if self.word("steps") {
            let mut steps = vec![self.number("a rate, as in \"steps 100,200/s each 10s\"")?];
            while self.mark(',') {
                steps.push(self.number("the next step's rate")?);
                if steps.len() > PHASES_MAX {
                    return self.fail(format!("more than {PHASES_MAX} steps; use a ramp"));
                }
            }
            let per_s = self.per()?;
            for step in &mut steps {
                *step = self.bounded_rate(*step, per_s)?;
            }
            self.keyword("each")?;
            let duration_ns = self.duration()?;
            phases.extend(steps.iter().map(|&rate| Phase {
                duration_ns,
                from_per_s: rate,
                to_per_s: rate,
            }));
        } else if self.word("pause") {
            phases.push(Phase {
                duration_ns: self.duration()?,
                from_per_s: 0.0,
                to_per_s: 0.0,
            });
        } else {
            let number = self.number(PHASE_FORMS)?;
            let per_s = self.per()?;
            let rate = self.bounded_rate(number, per_s)?;
            self.keyword("for")?;
            phases.push(Phase {
                duration_ns: self.duration()?,
                from_per_s: rate,
                to_per_s: rate,
            });
        }
        Ok(())
    }

    /// A decimal number with an optional `k`; not `1..2`.
    fn number(&mut self, expected: &str) -> Result<f64, PaceError> {
        self.spaces();
        self.began = self.at;
        let rest = self.rest();
        let mut len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let fraction = rest.get(len..).unwrap_or("");
        if fraction.starts_with('.') && !fraction.starts_with("..") {
            len += 1 + fraction
                .bytes()
                .skip(1)
                .take_while(u8::is_ascii_digit)
                .count();
        }
        let Some(number) = rest
            .get(..len)
            .and_then(|digits| digits.parse::<f64>().ok())
        else {
            return self.fail(format!("expected {expected}"));
        };
        self.at += len;
        if self.rest().starts_with('k') {
            self.at += 1;
            return Ok(number * 1_000.0);
        }
        Ok(number)
    }

    /// `/s`, `/min`, `/m` or `/h` as a factor.
    fn per(&mut self) -> Result<f64, PaceError> {
        if !self.mark('/') {
            return self.fail("expected \"/s\" after the rate".to_owned());
        }
        let began = self.at;
        let factor = match self.letters() {
            "s" => 1.0,
            "m" | "min" => 1.0 / 60.0,
            "h" => 1.0 / 3_600.0,
            _ => {
                self.at = began;
                return self.fail("expected \"s\", \"min\" or \"h\" after \"/\"".to_owned());
            }
        };
        Ok(factor)
    }

    fn bounded_rate(&self, number: f64, per_s: f64) -> Result<f64, PaceError> {
        let rate = number * per_s;
        if rate > RATE_MAX_PER_S {
            return Err(PaceError {
                column: self.column(self.began),
                message: format!("{rate}/s is above the highest rate, {RATE_MAX_PER_S}/s"),
            });
        }
        Ok(rate)
    }

    fn duration(&mut self) -> Result<u64, PaceError> {
        self.spaces();
        let start = self.at;
        let mut total_ns = 0.0;
        loop {
            let number = self.number("a duration such as 30s")?;
            let unit_at = self.at;
            total_ns += number
                * match self.letters() {
                    "ns" => 1.0,
                    "us" => 1e3,
                    "ms" => 1e6,
                    "s" => 1e9,
                    "m" | "min" => 60e9,
                    "h" => 3_600e9,
                    _ => {
                        self.at = unit_at;
                        return self.fail(format!(
                            "a duration needs a unit: write {number}s, {number}ms, {number}min or {number}h"
                        ));
                    }
                };
            if !self.rest().starts_with(|c: char| c.is_ascii_digit()) {
                break;
            }
        }
        let column = self.column(start);
        if total_ns < 1.0 {
            return Err(PaceError {
                column,
                message: "a duration of nothing; write at least 1ms".to_owned(),
            });
        }
        if total_ns > DURATION_MAX_NS as f64 {
            return Err(PaceError {
                column,
                message: "longer than a hundred days".to_owned(),
            });
        }
        Ok(total_ns.round() as u64)
    }

    fn keyword(&mut self, word: &str) -> Result<(), PaceError> {
        self.spaces();
        if self.word(word) {
            return Ok(());
        }
        self.fail(format!(
            "expected \"{word}\" and a duration, such as \"{word} 30s\""
        ))
    }

    fn word(&mut self, word: &str) -> bool {
        let begin = self.at;
        if self.letters() == word {
            return true;
        }
        self.at = begin;
        false
    }

    fn letters(&mut self) -> &'a str {
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        self.at += len;
        rest.get(..len).unwrap_or("")
    }

    fn mark(&mut self, mark: char) -> bool {
        self.spaces();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len_utf8();
        }
        found
    }

    fn text_mark(&mut self, mark: &str) -> bool {
        self.spaces();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len();
        }
        found
    }

    fn spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn at_end(&mut self) -> bool {
        self.spaces();
        self.at == self.text.len()
    }

    fn end(&mut self, expected: &str) -> Result<(), PaceError> {
        if self.at_end() {
            return Ok(());
        }
        self.fail(format!("expected {expected} and nothing after it"))
    }

    fn column(&self, at: usize) -> usize {
        self.text
            .get(..at)
            .map_or(1, |before| before.chars().count() + 1)
    }

    fn fail<T>(&self, message: String) -> Result<T, PaceError> {
        Err(PaceError {
            column: self.column(self.at),
            message,
        })
    }
}
