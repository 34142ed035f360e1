//! The search of RFC 7502 (section 4.10), and its report form (section 5).
//!
//! The largest attempt rate without a failure over `N` attempts, where a session that is
//! set up later than the establishment threshold time of the report has failed too:
//!
//! ```text
//! N=50000; r=100; w=0.10; d=max(0.10,w/2); old=0; count=0
//! loop: s=send_traffic(r,N)
//!   if s==N: if r>old: old=r  else: count++; if count>=10: return max(r,old)
//!            r=floor(r+w*r)
//!   else:    r=floor(r-d*r); d=max(0.10,d/2); w=max(0.10,w/2)
//! ```
//!
//! It is slow, and below 10 it stands still, because `floor(1.1*r)` is `r`: seed
//! it with the result of a [`super::PeakSearch`] ([`Rfc7502::seeded`]).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Ending, Outcome, Peak, Step, Try};

/// The parameters of RFC 7502's search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rfc7502Config {
    /// `r`, the first rate.
    pub initial_per_s: f64,
    /// `N`, the attempts of every try.
    pub attempts: u64,
    /// `w`, the share by which the rate grows, between 0 and 1.
    pub increase: f64,
    /// How often a rate must hold without being a new best before the search ends.
    pub settled: u32,
    /// Most tries. Not of the RFC, which may run for ever.
    pub tries_max: u32,
}

impl Default for Rfc7502Config {
    fn default() -> Self {
        Self {
            initial_per_s: 100.0,
            attempts: 50_000,
            increase: 0.10,
            settled: 10,
            tries_max: 200,
        }
    }
}

/// What the search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rfc7502Peak {
    /// `R`, attempts a second.
    pub rate_per_s: f64,
    /// Why it ended.
    pub ending: Ending,
    /// Every try, in order.
    pub tries: Vec<Try>,
}

/// RFC 7502's search as a state machine.
#[derive(Clone, Debug)]
pub struct Rfc7502 {
    config: Rfc7502Config,
    rate: f64,
    best: f64,
    settled: u32,
    increase: f64,
    decrease: f64,
    tries: Vec<Try>,
    ending: Option<Ending>,
}

/// Neither factor falls below it.
const FACTOR_MIN: f64 = 0.10;

impl Rfc7502 {
    /// At its beginning.
    pub fn new(config: Rfc7502Config) -> Self {
        let increase = if config.increase > 0.0 && config.increase < 1.0 {
            config.increase
        } else {
            FACTOR_MIN
        };
        Self {
            rate: config
                .initial_per_s
                .clamp(1.0, crate::pace::RATE_MAX_PER_S)
                .floor(),
            best: 0.0,
            settled: 0,
            increase,
            decrease: FACTOR_MIN.max(increase / 2.0),
            tries: Vec::new(),
            ending: None,
            config,
        }
    }

    /// Begins a little below a peak that is already known, so that the first
    /// tries hold and few are needed.
    pub fn seeded(mut config: Rfc7502Config, peak: &Peak) -> Self {
        if peak.peak_cps > 0.0 {
            config.initial_per_s = peak.peak_cps * 0.9;
        }
        Self::new(config)
    }

    /// What to do next: a try until its outcome is given, the result for ever.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Step<Rfc7502Peak> {
        match self.ending {
            Some(ending) => Step::Done(Rfc7502Peak {
                rate_per_s: self.best,
                ending,
                tries: self.tries.clone(),
            }),
            None => Step::Try {
                rate_per_s: self.rate,
                attempts: self.config.attempts.max(1),
            },
        }
    }

    /// How the last try went.
    pub fn give(&mut self, outcome: Outcome) {
        if self.ending.is_some() {
            return;
        }
        let held = outcome.failures == 0
            && outcome.slow == 0
            && outcome.attempts >= self.config.attempts.max(1)
            && !outcome.doubtful
            && !outcome.interrupted;
        self.tries.push(Try {
            rate_per_s: self.rate,
            outcome,
            held,
            repeat: 0,
        });
        if outcome.interrupted {
            self.ending = Some(Ending::Interrupted);
        } else if outcome.doubtful {
            self.ending = Some(Ending::GeneratorLimit);
        } else if held {
            if self.rate > self.best {
                self.best = self.rate;
            } else {
                self.settled += 1;
                if self.settled >= self.config.settled {
                    self.ending = Some(Ending::Found);
                }
            }
            self.rate = (self.rate + self.increase * self.rate)
                .floor()
                .min(crate::pace::RATE_MAX_PER_S);
        } else if self.rate <= 1.0 {
            self.ending = Some(Ending::NothingHeld);
        } else {
            self.rate = (self.rate - self.decrease * self.rate).floor().max(1.0);
            self.decrease = FACTOR_MIN.max(self.decrease / 2.0);
            self.increase = FACTOR_MIN.max(self.increase / 2.0);
        }
        if self.ending.is_none() && self.tries.len() >= self.config.tries_max as usize {
            self.ending = Some(Ending::TooManyTries);
        }
    }
}

/// The report form of RFC 7502 section 5. An empty text or `None` prints as
/// "not measured".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rfc7502Report {
    /// The device under test, with its version.
    pub device: String,
    /// Transport from the caller to the device.
    pub transport_caller: String,
    /// Transport from the device to the called side.
    pub transport_called: String,
    /// The first rate of the search.
    pub initial_per_s: f64,
    /// How long each session lasts, in seconds.
    pub session_s: f64,
    /// `N`.
    pub attempts: u64,
    /// Media streams per session; 0 for none.
    pub media_streams: u64,
    /// Time within which a session must be established, in milliseconds.
    pub establishment_threshold_ms: f64,
    /// TLS version and cipher suite, where a leg uses TLS.
    pub tls_suite: String,
    /// IPsec profile, where a leg uses IPsec.
    pub ipsec_profile: String,
    /// The session establishment rate.
    pub session_rate_per_s: Option<f64>,
    /// The registration rate: an empty database, every user once.
    pub registration_rate_per_s: Option<f64>,
    /// The re-registration rate: the same users again, 5 to 10 minutes later.
    pub reregistration_rate_per_s: Option<f64>,
    /// Why a figure is not the device's, if so.
    pub remarks: Vec<String>,
}

impl fmt::Display for Rfc7502Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &str| {
            if value.is_empty() {
                "none".to_owned()
            } else {
                value.to_owned()
            }
        };
        let rate = |value: Option<f64>| {
            value.map_or_else(
                || "not measured".to_owned(),
                |rate| format!("{rate:.0} per second"),
            )
        };
        let mut row = |name: &str, value: String| {
            if value.is_empty() {
                writeln!(f, "{name}")
            } else {
                writeln!(f, "{name:<44} {value}")
            }
        };
        row("Test setup (RFC 7502 5.1)", String::new())?;
        row("  Device under test", text(&self.device))?;
        row(
            "  SIP transport, caller to device",
            text(&self.transport_caller),
        )?;
        row(
            "  SIP transport, device to called side",
            text(&self.transport_called),
        )?;
        row(
            "  Session attempt rate, initial",
            format!("{:.0} per second", self.initial_per_s),
        )?;
        row("  Session duration", format!("{} s", self.session_s))?;
        row(
            "  Total sessions attempted in a try",
            self.attempts.to_string(),
        )?;
        row(
            "  Media streams per session",
            self.media_streams.to_string(),
        )?;
        row(
            "  Establishment threshold time",
            format!("{} ms", self.establishment_threshold_ms),
        )?;
        row("  TLS version and cipher suite", text(&self.tls_suite))?;
        row("  IPsec profile", text(&self.ipsec_profile))?;
        row("Session set-up (RFC 7502 5.2)", String::new())?;
        row(
            "  Session establishment rate",
            rate(self.session_rate_per_s),
        )?;
        row("Registration (RFC 7502 5.3)", String::new())?;
        row("  Registration rate", rate(self.registration_rate_per_s))?;
        row(
            "  Re-registration rate",
            rate(self.reregistration_rate_per_s),
        )?;
        for remark in &self.remarks {
            row("Remark", remark.clone())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
