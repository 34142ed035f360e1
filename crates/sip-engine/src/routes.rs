//! Routing of requests that are not for our users: tables by domain and by number
//! prefix, and groups of gateways with priorities.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use sip_msg::Transport;
use smallvec::SmallVec;

use crate::hours::{Hours, Zone};
use crate::trunk::Trunk;

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
    /// When its next gateway is tried, and how its gateways are watched; `None` for
    /// [`Care::USUAL`].
    pub care: Option<Arc<Care>>,
    /// What makes a trunk of it, where a provider is behind it.
    pub trunk: Option<Arc<Trunk>>,
    /// How many calls may go on over it at a time; 0 for any number.
    pub calls_max: u32,
}

/// One of several ways for the same numbers, or for the same domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOption {
    /// The group; an index into [`Routes::groups`].
    pub group: usize,
    /// What it costs beside the others; they are in this order.
    pub cost: u32,
    /// When it is there; `None` for always.
    pub when: Option<Hours>,
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
    /// The same for domains with several ways, or with one that is not always there: the
    /// cheapest first.
    pub domain_options: BTreeMap<Arc<str>, Vec<RouteOption>>,
    /// The same for prefixes.
    pub prefix_options: BTreeMap<Arc<str>, Vec<RouteOption>>,
    /// Whose hours those are.
    pub zone: Zone,
}

/// The groups that are tried one after the other, by their indices.
pub(crate) type Groups = SmallVec<[usize; 1]>;

impl Routes {
    /// The groups for a domain in lower case.
    pub(crate) fn for_domain(&self, domain: &str, unix_ms: u64) -> Groups {
        let one = self.domains.get(domain).copied();
        match self.domain_options.get(domain) {
            Some(options) => one.into_iter().chain(self.open(options, unix_ms)).collect(),
            None => one.into_iter().collect(),
        }
    }

    /// The groups for a number: those of its longest prefix that has any now.
    pub(crate) fn for_number(&self, number: &str, unix_ms: u64) -> Groups {
        for length in (0..=number.len()).rev() {
            let Some(prefix) = number.get(..length) else {
                continue;
            };
            if let Some(one) = self.prefixes.get(prefix) {
                return [*one].into_iter().collect();
            }
            if !self.prefix_options.is_empty()
                && let Some(options) = self.prefix_options.get(prefix)
            {
                let open: Groups = self.open(options, unix_ms).collect();
                if !open.is_empty() {
                    return open;
                }
            }
        }
        Groups::new()
    }

    /// Whether there is any route for numbers.
    pub(crate) fn has_numbers(&self) -> bool {
        !self.prefixes.is_empty() || !self.prefix_options.is_empty()
    }

    /// Whether there is any for domains.
    pub(crate) fn has_domains(&self) -> bool {
        !self.domains.is_empty() || !self.domain_options.is_empty()
    }

    fn open<'w>(
        &self,
        options: &'w [RouteOption],
        unix_ms: u64,
    ) -> impl Iterator<Item = usize> + 'w {
        let minute = self.zone.minute_of_week(unix_ms);
        let is_open = move |option: &&RouteOption| {
            option.when.as_ref().is_none_or(|hours| hours.have(minute))
        };
        options.iter().filter(is_open).map(|option| option.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_closed_is_as_if_it_were_not_there() {
        let option = |group, when| RouteOption {
            group,
            cost: 0,
            when,
        };
        let monday = Hours::new(vec![(0, 24 * 60)]);
        let routes = Routes {
            prefixes: [("0".into(), 9)].into(),
            prefix_options: [
                (
                    "03".into(),
                    vec![option(1, Some(monday.clone())), option(2, None)],
                ),
                ("04".into(), vec![option(3, Some(monday.clone()))]),
            ]
            .into(),
            domain_options: [("x.example".into(), vec![option(4, Some(monday))])].into(),
            ..Routes::default()
        };
        let (monday, tuesday) = (4 * 86_400_000, 5 * 86_400_000);
        let of = |number: &str, unix_ms| routes.for_number(number, unix_ms).to_vec();
        assert_eq!(of("030", monday), [1, 2]);
        assert_eq!(of("030", tuesday), [2]);
        assert_eq!(of("040", monday), [3]);
        assert_eq!(of("040", tuesday), [9], "the next shorter prefix");
        assert_eq!(of("1", monday), [0; 0]);
        assert_eq!(routes.for_domain("x.example", monday).to_vec(), [4]);
        assert!(routes.for_domain("x.example", tuesday).is_empty());
    }

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
