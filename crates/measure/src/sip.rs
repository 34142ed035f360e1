//! The metrics of RFC 6076, and why calls failed.
//!
//! All are taken at the originating side. One attempt counts once, its
//! challenge (401, 407) and the request with credentials included: the RFC
//! counts "new session INVITE requests", and calls a challenge no failure.
//! A timer that runs out counts as a 408 and a transport that fails as a 503,
//! because RFC 3261 8.1.3.1 says so: "When a timeout error is received from the
//! transaction layer, it MUST be treated as if a 408 (Request Timeout) status
//! code has been received. If a fatal transport error is reported by the
//! transport layer [...] the condition MUST be treated as a 503 (Service
//! Unavailable) status code."

mod causes;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::latency::Latency;

pub use causes::{Causes, Failure};

/// The times of one attempt to set up a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// When the arrival was due.
    pub intended_ns: u64,
    /// When the first INVITE was sent, before any challenge.
    pub sent_ns: u64,
    /// When the first response other than 100 and a challenge came, if a
    /// provisional one came before the final one.
    pub first_status_ns: Option<u64>,
    /// When the final response came.
    pub done_ns: u64,
}

/// Counters and delays of RFC 6076, of one thread or of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SipFigures {
    /// Attempts to register.
    pub registers: u64,
    /// Those answered 200.
    pub registers_ok: u64,
    /// Those that failed: a final response that is neither 2xx nor a challenge, or none.
    pub registers_failed: u64,
    /// New INVITEs sent.
    pub invites: u64,
    /// Those answered 2xx.
    pub invites_ok: u64,
    /// Those answered 3xx: neither success nor failure.
    pub invites_redirected: u64,
    /// With which statuses: added by whoever counts causes, and allocates for them as for those.
    #[serde(skip_serializing_if = "Causes::is_empty")]
    pub redirects: Causes,
    /// Those that failed, answered or not.
    pub invites_failed: u64,
    /// Those answered 480, 486, 600 or 603: the network worked, the user declined.
    pub invites_declined: u64,
    /// Those answered 408, 500, 503 or 504, or that ended by a timer or a failed transport.
    pub invites_ineffective: u64,
    /// BYEs sent.
    pub byes: u64,
    /// Sessions that ended with a BYE answered 2xx.
    pub completed: u64,
    /// Sessions whose BYE failed.
    pub byes_failed: u64,
    /// Registration Request Delay (RFC 6076 4.1): first REGISTER to its 200, the
    /// challenge included; successes only.
    pub rrd: Latency,
    /// Session Request Delay (4.3.1): INVITE to the first response other than
    /// 100, of attempts that were answered 2xx.
    pub srd: Latency,
    /// Session Request Delay of failures (4.3.2): INVITE to the failing
    /// response (4xx to 6xx, challenges apart). An attempt without a
    /// response has none.
    pub srd_failed: Latency,
    /// INVITE to the final 2xx. Not of the RFC: with it a ringing time and a
    /// set-up time can be told apart.
    pub setup: Latency,
    /// Session Disconnect Delay (4.4.1): BYE to its 2xx.
    pub sdd: Latency,
    /// Session Disconnect Delay of failures (4.4.2): BYE to the timer that ran out.
    pub sdd_failed: Latency,
    /// Session Duration Time (4.5.1): 200 to the INVITE, to the BYE.
    pub sdt: Latency,
    /// Session Duration Time of failures (4.5.2): 200 to the INVITE, to the
    /// timer that ran out.
    pub sdt_failed: Latency,
    /// Attempts of any kind whose transport failed, whatever its name among the causes.
    pub transport_failed: u64,
    /// Other requests (OPTIONS, MESSAGE, re-registrations, ...) by name.
    pub requests: BTreeMap<Cow<'static, str>, RequestFigures>,
}

/// Figures of one kind of request outside RFC 6076.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestFigures {
    /// Sent.
    pub sent: u64,
    /// Answered 2xx.
    pub ok: u64,
    /// Answered otherwise, or not at all.
    pub failed: u64,
    /// Request to 2xx.
    pub delay: Latency,
}

/// The ratios of RFC 6076, in percent. `None` where nothing was attempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ratios {
    /// Ineffective Registration Attempts (4.2): failed registrations / all.
    pub ira_percent: Option<f64>,
    /// Session Establishment Ratio (4.6): INVITEs answered 200 / (INVITEs - 3xx).
    pub ser_percent: Option<f64>,
    /// Session Establishment Effectiveness Ratio (4.7): INVITEs answered 200,
    /// 480, 486, 600 or 603 / (INVITEs - 3xx).
    pub seer_percent: Option<f64>,
    /// Ineffective Session Attempts (4.8): 408, 500, 503 or 504 / INVITEs.
    pub isa_percent: Option<f64>,
    /// Session Completion Ratio (4.9): completed sessions / INVITEs.
    pub scr_percent: Option<f64>,
}

impl SipFigures {
    /// Empty; allocates what the hot path needs.
    pub fn new() -> Self {
        Self::default()
    }

    /// A REGISTER of a new attempt was sent.
    pub fn register_sent(&mut self) {
        self.registers += 1;
    }

    /// Its 200 came.
    pub fn register_ok(&mut self, intended_ns: u64, sent_ns: u64, done_ns: u64) {
        self.registers_ok += 1;
        self.rrd.record(intended_ns, sent_ns, done_ns);
    }

    /// The 200 came for a REGISTER that is no attempt of a load: who takes part in it registers
    /// before and keeps that fresh. Its delay counts (RFC 6076 4.1), and no ratio has it.
    pub fn upkeep_registered(&mut self, sent_ns: u64, done_ns: u64) {
        self.rrd.record(sent_ns, sent_ns, done_ns);
    }

    /// It failed. A challenge that is answered is no failure.
    pub fn register_failed(&mut self) {
        self.registers_failed += 1;
    }

    /// An INVITE of a new attempt was sent.
    pub fn invite_sent(&mut self) {
        self.invites += 1;
    }

    /// Its final response came. A challenge that is answered is none.
    pub fn invite_answered(&mut self, status: u16, times: &Setup) {
        let Setup {
            intended_ns,
            sent_ns,
            first_status_ns,
            done_ns,
        } = *times;
        match status {
            200..=299 => {
                self.invites_ok += 1;
                let first_ns = first_status_ns.unwrap_or(done_ns);
                self.srd.record(intended_ns, sent_ns, first_ns);
                self.setup.record(intended_ns, sent_ns, done_ns);
            }
            300..=399 => self.invites_redirected += 1,
            _ => {
                self.invites_failed += 1;
                // RFC 6076 4.3.2 leaves out "401, 402, and 407".
                if !matches!(status, 401 | 402 | 407) {
                    self.srd_failed.record(intended_ns, sent_ns, done_ns);
                }
                match status {
                    480 | 486 | 600 | 603 => self.invites_declined += 1,
                    408 | 500 | 503 | 504 => self.invites_ineffective += 1,
                    _ => {}
                }
            }
        }
    }

    /// It ended without a final response that counts.
    pub fn invite_failed(&mut self, failure: Failure) {
        self.invites_failed += 1;
        if failure.is_ineffective() {
            self.invites_ineffective += 1;
        }
    }

    /// A BYE was sent.
    pub fn bye_sent(&mut self) {
        self.byes += 1;
    }

    /// Its 2xx came. `answered_ns` is the time of the 2xx to the INVITE,
    /// `intended_ns` the end of the hold time.
    pub fn bye_ok(&mut self, answered_ns: u64, intended_ns: u64, sent_ns: u64, done_ns: u64) {
        self.completed += 1;
        self.sdd.record(intended_ns, sent_ns, done_ns);
        self.sdt.record(answered_ns, answered_ns, sent_ns);
    }

    /// It failed, or its timer ran out, at `done_ns`.
    pub fn bye_failed(&mut self, answered_ns: u64, intended_ns: u64, sent_ns: u64, done_ns: u64) {
        self.byes_failed += 1;
        self.sdd_failed.record(intended_ns, sent_ns, done_ns);
        self.sdt_failed.record(answered_ns, answered_ns, done_ns);
    }

    /// Figures of another kind of request. Allocates for a name's first use
    /// only: ask once before the run starts.
    pub fn request(&mut self, name: &'static str) -> &mut RequestFigures {
        self.requests.entry(Cow::Borrowed(name)).or_default()
    }

    /// Adds another thread's figures to these.
    pub fn merge(&mut self, other: &Self) {
        self.registers += other.registers;
        self.registers_ok += other.registers_ok;
        self.registers_failed += other.registers_failed;
        self.invites += other.invites;
        self.invites_ok += other.invites_ok;
        self.invites_redirected += other.invites_redirected;
        self.redirects.merge(&other.redirects);
        self.invites_failed += other.invites_failed;
        self.invites_declined += other.invites_declined;
        self.invites_ineffective += other.invites_ineffective;
        self.byes += other.byes;
        self.completed += other.completed;
        self.byes_failed += other.byes_failed;
        self.transport_failed += other.transport_failed;
        for (mine, theirs) in [
            (&mut self.rrd, &other.rrd),
            (&mut self.srd, &other.srd),
            (&mut self.srd_failed, &other.srd_failed),
            (&mut self.setup, &other.setup),
            (&mut self.sdd, &other.sdd),
            (&mut self.sdd_failed, &other.sdd_failed),
            (&mut self.sdt, &other.sdt),
            (&mut self.sdt_failed, &other.sdt_failed),
        ] {
            mine.merge(theirs);
        }
        for (name, theirs) in &other.requests {
            let mine = self.requests.entry(name.clone()).or_default();
            mine.sent += theirs.sent;
            mine.ok += theirs.ok;
            mine.failed += theirs.failed;
            mine.delay.merge(&theirs.delay);
        }
    }

    /// Attempts of any kind that came to an end, each counted once: a call
    /// whose BYE failed is one attempt.
    pub fn ended(&self) -> u64 {
        self.registers_ok
            + self.registers_failed
            + self.invites_ok
            + self.invites_redirected
            + self.invites_failed
            + self.requests.values().map(|r| r.ok + r.failed).sum::<u64>()
    }

    /// Attempts that ended well: registrations and other requests that succeeded, and calls
    /// that were set up and whose BYE did not fail.
    pub fn succeeded(&self) -> u64 {
        self.registers_ok
            + self.invites_ok.saturating_sub(self.byes_failed)
            + self.requests.values().map(|r| r.ok).sum::<u64>()
    }

    /// Attempts that failed: registrations, set-ups, calls by their BYE, and other requests.
    /// With those that ended well and those that were redirected they are all that
    /// [`SipFigures::ended`].
    pub fn failed(&self) -> u64 {
        self.registers_failed
            + self.invites_failed
            + self.byes_failed
            + self.requests.values().map(|r| r.failed).sum::<u64>()
    }

    /// The 99th percentile of the delay of what succeeded, from the send: of a
    /// registration, of a set-up, or of another request, whichever is the shortest,
    /// since the generator's own lateness weighs the most beside that one.
    pub fn delay_p99_us(&self) -> Option<u64> {
        let others = self.requests.values().map(|request| &request.delay);
        [self.attempts_rrd(), Some(&self.srd)]
            .into_iter()
            .flatten()
            .chain(others)
            .filter(|delay| delay.count() > 0)
            .map(|delay| delay.actual_us(99.0))
            .min()
    }

    /// The delays of registrations where some were attempts of the load: whoever only registers
    /// to take part has no time at which he was due.
    pub fn attempts_rrd(&self) -> Option<&Latency> {
        (self.registers_ok > 0).then_some(&self.rrd)
    }

    /// The ratios of RFC 6076, in percent.
    pub fn ratios(&self) -> Ratios {
        let not_redirected = self.invites.saturating_sub(self.invites_redirected);
        Ratios {
            ira_percent: percent(self.registers_failed, self.registers),
            ser_percent: percent(self.invites_ok, not_redirected),
            seer_percent: percent(self.invites_ok + self.invites_declined, not_redirected),
            isa_percent: percent(self.invites_ineffective, self.invites),
            scr_percent: percent(self.completed, self.invites),
        }
    }
}

/// A share in percent; `None` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests;
