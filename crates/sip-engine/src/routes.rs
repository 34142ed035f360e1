//! Routing of requests that are not for our users: tables by domain and by number
//! prefix, and groups of gateways with priorities.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use sip_msg::Transport;

use crate::media::MediaUse;

/// A configured next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// A name or an address (an IPv6 reference without brackets).
    pub host: Arc<str>,
    /// The port, where given.
    pub port: Option<u16>,
    /// The transport, where given.
    pub transport: Option<Transport>,
    /// Over which connections, where the transport has any.
    pub connections: Connections,
}

/// How many connections lead to a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// This number, opened when they are needed and kept; calls are spread over them.
    Kept(NonZeroU8),
    /// One for each call, opened with its INVITE and closed at its end.
    PerCall,
}

impl Default for Connections {
    fn default() -> Self {
        Self::Kept(NonZeroU8::MIN)
    }
}

/// A gateway of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Where it is.
    pub next_hop: NextHop,
    /// Lower is tried first.
    pub priority: u16,
    /// The share of calls among those with the same priority (RFC 2782).
    pub weight: u16,
}

/// When the next gateway of a group is tried, and how its gateways are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Care {
    /// How long a gateway may take to its first response to an INVITE that begins a call,
    /// where another is left to be tried; 0 for as long as timer B (RFC 3261 17.1.1.2).
    pub timeout_ms: u64,
    /// The answers after which the next gateway is tried.
    pub failover: Failover,
    /// How long a gateway that asks for a pause by Retry-After (RFC 3261 20.33) is passed
    /// over at most; 0 where its wish does not count.
    pub retry_after_max_s: u64,
    /// How its gateways are probed, if they are.
    pub probing: Option<Probing>,
    /// Whether the media of calls to them is led through an engine; `None` for what both ends
    /// make of it.
    pub media: Option<MediaUse>,
}

/// How gateways are probed by OPTIONS (RFC 3261 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    /// The time from one probe to the next; it varies by a tenth.
    pub interval_ms: u64,
    /// So many in a row without a good answer, and the gateway is passed over.
    pub fails_max: u32,
    /// So many good answers in a row, and it is used again.
    pub goods_min: u32,
}

impl Care {
    /// What is done where nothing else was written.
    pub const USUAL: Self = Self {
        timeout_ms: 4_000,
        failover: Failover::USUAL,
        retry_after_max_s: 300,
        probing: None,
        media: None,
    };
}

impl Default for Care {
    fn default() -> Self {
        Self::USUAL
    }
}

/// A set of final answers, from 400 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// From 400 to 527.
    low: u128,
    /// From 528 on.
    high: u128,
}

impl Failover {
    /// No answer at all.
    pub const NONE: Self = Self { low: 0, high: 0 };
    /// 503 alone, as RFC 3263 4.3 has it.
    pub const USUAL: Self = Self::NONE.with(503);

    /// Whether an answer may be in such a set. Challenges are the caller's to answer, and
    /// 487 says that he has cancelled. RFC 3261 16.7 allows no new branch after a 6xx.
    pub const fn may_have(status: u16) -> bool {
        matches!(status, 400..=599) && !matches!(status, 401 | 407 | 487)
    }

    /// The same set with an answer that it may have.
    #[must_use]
    pub const fn with(self, status: u16) -> Self {
        if !Self::may_have(status) {
            return self;
        }
        match status - 400 {
            at @ 0..=127 => Self {
                low: self.low | 1 << at,
                ..self
            },
            at => Self {
                high: self.high | 1 << (at - 128),
                ..self
            },
        }
    }

    /// Whether an answer is in it.
    pub const fn has(self, status: u16) -> bool {
        match status {
            400..=527 => self.low & 1 << (status - 400) != 0,
            528..=599 => self.high & 1 << (status - 528) != 0,
            _ => false,
        }
    }
}

/// A group of gateways, and how numbers are rewritten for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayGroup {
    /// The group's name in the configuration.
    pub name: Arc<str>,
    /// Its members.
    pub gateways: Vec<Gateway>,
    /// Digits to cut from the front of the number.
    pub strip: u8,
    /// Digits to put in front after that.
    pub prepend: Arc<str>,
    /// How its gateways are cared for; `None` for [`Care::USUAL`].
    pub care: Option<Arc<Care>>,
}

/// The routing tables. Indices are into `groups`.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// The groups of gateways.
    pub groups: Vec<GatewayGroup>,
    /// By the domain of the Request-URI, in lower case.
    pub domains: BTreeMap<Arc<str>, usize>,
    /// By the longest prefix of the number (`+49`, `0`), for numbers at our own domains.
    pub prefixes: BTreeMap<Arc<str>, usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it_and_may_be() {
        let all = (0..=700).fold(Failover::NONE, Failover::with);
        for status in 0..=700 {
            assert_eq!(all.has(status), Failover::may_have(status), "{status}");
            assert_eq!(Failover::USUAL.has(status), status == 503, "{status}");
            let one = Failover::NONE.with(status);
            let alone = (0..=700).filter(|other| one.has(*other)).count();
            assert_eq!(alone, usize::from(Failover::may_have(status)), "{status}");
        }
        for never in [200, 302, 401, 407, 487, 600, 603] {
            assert!(!all.has(never), "{never}");
        }
    }
}
