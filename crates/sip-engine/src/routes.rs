//! Routing of requests that are not for our users: tables by domain and by number
//! prefix, and groups of gateways with priorities.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use sip_msg::Transport;

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
