//! Why attempts failed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Why one attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A final response that is no success.
    Status(u16),
    /// No final response within the transaction's timer.
    Timeout,
    /// The transport could not send, or the connection broke.
    Transport,
    /// The same by a short name such as `"reset"`.
    Broken(&'static str),
    /// Anything else, by a short name such as `"tls handshake"`.
    Other(&'static str),
}

impl Failure {
    /// Counts in RFC 6076's Ineffective Session Attempts (4.8).
    pub fn is_ineffective(self) -> bool {
        let is_408_or_5xx = matches!(self, Self::Timeout | Self::Status(408 | 500 | 503 | 504));
        is_408_or_5xx || self.is_of_transport()
    }

    /// The transport failed.
    pub fn is_of_transport(self) -> bool {
        matches!(self, Self::Transport | Self::Broken(_))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Transport => f.write_str("transport"),
            Self::Broken(name) | Self::Other(name) => f.write_str(name),
        }
    }
}

/// Failures counted by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, u64>", into = "BTreeMap<String, u64>")]
pub struct Causes {
    statuses: BTreeMap<u16, u64>,
    named: BTreeMap<Cow<'static, str>, u64>,
}

impl Causes {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one failure. Allocates for a cause's first time only.
    pub fn add(&mut self, failure: Failure) {
        match failure {
            Failure::Status(status) => *self.statuses.entry(status).or_default() += 1,
            Failure::Timeout => self.add_named("timeout"),
            Failure::Transport => self.add_named("transport"),
            Failure::Broken(name) | Failure::Other(name) => self.add_named(name),
        }
    }

    fn add_named(&mut self, name: &'static str) {
        *self.named.entry(Cow::Borrowed(name)).or_default() += 1;
    }

    /// Adds another thread's counts to these.
    pub fn merge(&mut self, other: &Self) {
        for (&status, count) in &other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (name, count) in &other.named {
            *self.named.entry(name.clone()).or_default() += count;
        }
    }

    /// Failures with this status.
    pub fn status(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// Failures with this name (`timeout`, `transport`, ...).
    pub fn named(&self, name: &str) -> u64 {
        self.named.get(name).copied().unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty() && self.named.is_empty()
    }

    /// All failures.
    pub fn total(&self) -> u64 {
        self.statuses.values().chain(self.named.values()).sum()
    }

    /// Name and count, most frequent first.
    pub fn ranked(&self) -> Vec<(String, u64)> {
        let mut ranked: Vec<(String, u64)> = BTreeMap::from(self.clone()).into_iter().collect();
        ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        ranked
    }
}

impl From<Causes> for BTreeMap<String, u64> {
    fn from(causes: Causes) -> Self {
        let statuses = causes
            .statuses
            .iter()
            .map(|(&status, &count)| (Failure::Status(status).to_string(), count));
        let named = causes
            .named
            .iter()
            .map(|(name, &count)| (name.to_string(), count));
        statuses.chain(named).collect()
    }
}

impl From<BTreeMap<String, u64>> for Causes {
    fn from(counts: BTreeMap<String, u64>) -> Self {
        let mut causes = Self::default();
        for (name, count) in counts {
            match name.strip_prefix("status ").and_then(|s| s.parse().ok()) {
                Some(status) => *causes.statuses.entry(status).or_default() += count,
                None => *causes.named.entry(Cow::Owned(name)).or_default() += count,
            }
        }
        causes
    }
}
