//! The configuration of a shard, as plain data. It was checked before it gets here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip_limit::RateLimits;
use sip_msg::network::IpNet;
use sip_msg::{Limits, Transport};

use crate::hook::HookSettings;
pub use crate::media::{MediaNetwork, MediaSettings, MediaUse, WhenGone};
pub use crate::nat::{KeepAlive, Nat, NatRule, NatSettings};
use crate::numbers::NumberRules;
use crate::people::Directory;
use crate::records::RecordSettings;
use crate::routes::{NextHop, Routes};

/// The settings of a shard. Immutable: a reload replaces the whole.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The domains that this server is responsible for (RFC 3261 16.4, 16.5),
    /// in lower case; the first is the default. A listener's own address is
    /// always ours and is not in this list.
    pub domains: Vec<Arc<str>>,
    /// The listeners, in the order of their [`sip_msg::ListenerId`].
    pub listeners: Vec<Listener>,
    /// How requests are treated.
    pub mode: Mode,
    /// Digest authentication of users. `None` is `--no-auth`.
    pub authenticate: Option<AuthSettings>,
    /// Peers whose requests need no credentials: gateways and neighbours.
    pub trusted: Vec<TrustedPeer>,
    /// Which calls from other domains to our users are let in.
    pub inbound: Inbound,
    /// Where requests go that are for none of our users.
    pub routes: Routes,
    /// `--forward`: the next hop of all that is not for a local user.
    pub forward: Option<NextHop>,
    /// The registrar.
    pub registrar: RegistrarSettings,
    /// Where phones are reached.
    pub nat: NatSettings,
    /// The proxy.
    pub proxy: ProxySettings,
    /// Transaction timers.
    pub timers: sip_txn::Timers,
    /// Bounds on a message.
    pub limits: Limits,
    /// Bounds on a shard.
    pub bounds: Bounds,
    /// The rate limits of users, peers and sources.
    pub rates: RateLimits,
    /// The value of the Server header; empty for none.
    pub server_header: String,
    /// Whether every refusal is recorded, and not of each source a few for each reason: for
    /// a log at its lowest level.
    pub tells_all_refusals: bool,
    /// Call records.
    pub records: RecordSettings,
    /// What the operator's hook is asked about; `None` without one.
    pub hook: Option<HookSettings>,
    /// How numbers are read, and who may call which.
    pub numbers: NumberRules,
    /// Aliases, and what each user may do.
    pub people: Arc<Directory>,
    /// Media engines, where there are any.
    pub media: Option<Arc<MediaSettings>>,
}

/// A listener as the protocol sees it.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The transport.
    pub transport: Transport,
    /// The address that it is bound to.
    pub bound: SocketAddr,
    /// The host that stands in Via and Record-Route (an IPv6 reference has its
    /// brackets), where the operator gave one; else the flow's local address.
    pub advertised_host: Option<Arc<str>>,
    /// The port that stands in Via and Record-Route.
    pub advertised_port: u16,
    /// Whether a client certificate with a user's SIP URI authenticates that user, in
    /// place of a password.
    pub certificates_authenticate: bool,
}

/// Whether what a listener bound to `bound` receives may come to `local`, an address of this machine.
pub fn is_bound_at(bound: SocketAddr, local: SocketAddr) -> bool {
    bound.port() == local.port()
        && bound.is_ipv4() == local.is_ipv4()
        && (bound.ip().is_unspecified() || bound.ip() == local.ip())
}

/// How requests are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Mode {
    /// A stateful proxy (RFC 3261 16.2).
    Stateful,
    /// A stateless proxy (RFC 3261 16.11).
    Stateless,
    /// A redirect server: 302 with the targets (RFC 3261 8.3).
    Redirect,
}

/// Digest authentication.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// The realm; `None` for the domain of the request.
    pub realm: Option<Arc<str>>,
    /// How long a request waits for the store before 503.
    pub lookup_timeout_ms: u64,
    /// Requests parked for a look-up; past it 503.
    pub lookups_max: usize,
    /// Whether the store tells a user who does not exist from a digest that is wrong. Where
    /// it does not, nobody can ask whether there is a user: a call to one without contacts
    /// is answered 480, and no certificate stands for a password
    /// ([`Settings::takes_certificates_of_unknown_users`]).
    pub tells_unknown_users: bool,
    /// Whether the store is told who has proved himself, by
    /// [`Effect::Proved`](crate::Effect::Proved): for a cache, which keeps his place.
    pub tells_who_is_proved: bool,
    /// Whether wrong credentials are refused no sooner than the longest look-up of late would
    /// have ended, so that how long their own look-up took does not show: for stores at a
    /// distance.
    pub evens_refusals: bool,
    /// Whether all domains of this server are known. Until they are, nobody is told that he is
    /// foreign: he may be of one of the others, and is to come again.
    pub knows_all_domains: bool,
}

/// A peer whose requests need no credentials: known by its address, by its
/// certificate, or by both. An entry with neither matches nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedPeer {
    /// The network that its address must be in.
    pub network: Option<IpNet>,
    /// The domain that its certificate must prove (RFC 5922), in lower case.
    pub identity: Option<Arc<str>>,
    /// The domains that it may use in From and in headers that name a caller or a payer,
    /// in lower case; `*` is every domain but ours. Without it: the domains of its
    /// certificate where `identity` is set, else any.
    pub speaks_for: Option<Vec<Arc<str>>>,
    /// Whether its requests are relayed to other domains and to gateways, and not to our
    /// users alone.
    pub may_relay: bool,
    /// Whether TLS is required.
    pub secure_only: bool,
    /// Calls per second of each peer of this entry, 0 for no limit; without it the limit
    /// of all peers.
    pub calls_per_s: Option<u32>,
    /// The trunk that brings this entry, if one does.
    pub trunk: Option<Arc<str>>,
}

impl TrustedPeer {
    /// A peer known by its address, over any transport, that may speak for any domain.
    ///
    /// # Panics
    /// Where the prefix is longer than an address.
    pub const fn at(addr: IpAddr, prefix_len: u8) -> Self {
        Self {
            network: Some(IpNet::new_assert(addr, prefix_len)),
            identity: None,
            speaks_for: None,
            may_relay: true,
            secure_only: false,
            calls_per_s: None,
            trunk: None,
        }
    }

    /// A peer known by a domain of its certificate, that may speak for the domains in it.
    pub const fn proven(identity: Arc<str>) -> Self {
        Self {
            network: None,
            identity: Some(identity),
            speaks_for: None,
            may_relay: true,
            secure_only: true,
            calls_per_s: None,
            trunk: None,
        }
    }
}

/// Calls from foreign domains to our users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Inbound {
    /// Refused with 403 unless the peer is trusted.
    Trusted,
    /// Let in from peers whose certificate proves the domain in From (RFC 5922).
    Proven,
    /// Let in.
    Anyone,
}

/// The registrar (RFC 3261 10.3).
#[derive(Clone, Debug)]
pub struct RegistrarSettings {
    /// Seconds below which a registration is refused with 423.
    pub expires_min_s: u32,
    /// Seconds granted where none are asked for.
    pub expires_default_s: u32,
    /// Seconds granted at most.
    pub expires_max_s: u32,
    /// Contacts of one address-of-record; past it see `contacts_full`.
    pub contacts_max: usize,
    /// What happens to another contact past that.
    pub contacts_full: ContactsFull,
    /// Addresses-of-record in memory; past it 503.
    pub aors_max: usize,
    /// Whether 200 waits until the bindings are durable.
    pub durable: bool,
    /// How long a registration waits for the store before 500.
    pub save_timeout_ms: u64,
    /// The Service-Route (RFC 3608) handed to phones; empty for none.
    pub service_route: Vec<String>,
    /// Whether a phone that asks for an outbound flow is refused (439) where the proxy before
    /// this server does not say that it keeps one (RFC 5626 6), and not bound without.
    pub outbound_needs_ob: bool,
}

/// What happens when an address-of-record has the most contacts and registers another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum ContactsFull {
    /// The oldest contact of the same kind is removed; 403 where there is none.
    ReplaceOldest,
    /// The registration is refused with 403.
    Refuse,
}

/// The proxy (RFC 3261 16).
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// Whether this server stays on the path of dialogs, by Record-Route.
    pub record_route: bool,
    /// Timer C (RFC 3261 16.6 step 11): more than three minutes.
    pub timer_c_ms: u64,
    /// Max-Breadth where a request has none, or more (RFC 5393 5.3.3.1).
    pub max_breadth: u32,
    /// Branches that one request may have in all; past it the rest is not tried.
    pub branches_max: usize,
    /// Whether 100 is sent to an INVITE as soon as it is let in, and not only
    /// when nothing else came within 200 ms (RFC 3261 17.2.1).
    pub trying_at_once: bool,
    /// How long one branch of a serial search may ring before the next is tried.
    pub serial_timeout_ms: u64,
    /// How long a request waits for DNS before the branch fails.
    pub resolve_timeout_ms: u64,
    /// How long a hop that failed is passed over, where it did not say itself for how long.
    pub dead_hop_ms: u64,
    /// Networks to which requests are not relayed when a sender names an address there.
    /// Addresses of this server's listeners are never relayed to, listed or not.
    pub relay_denied: Vec<IpNet>,
    /// How long the tokens of a dialog are valid after the last request within it that was answered
    /// with a 2xx.
    pub dialog_token_lifetime_s: u64,
}

/// Bounds on what a shard holds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Server transactions; past it 503.
    pub server_transactions_max: usize,
    /// Client transactions; past it 503.
    pub client_transactions_max: usize,
    /// Response contexts; past it 503.
    pub contexts_max: usize,
    /// Dialogs of which something is remembered beside their tokens; past it the oldest
    /// is forgotten.
    pub dialogs_max: usize,
    /// Seconds in the Retry-After of this server's own 503.
    pub retry_after_s: u32,
}

impl Settings {
    /// Whether anything is written of numbers and people: else nobody looks for it.
    pub(crate) fn has_people(&self) -> bool {
        self.numbers.matter()
            || !self.people.is_empty()
            || self.routes.groups.iter().any(|group| group.calls_max > 0)
    }

    /// The first listener on which a certificate stands for a password, where the store does
    /// not tell whether its user still exists: these settings are not to be used.
    pub fn takes_certificates_of_unknown_users(&self) -> Option<&Listener> {
        let auth = self.authenticate.as_ref()?;
        let mut listeners = self.listeners.iter();
        listeners.find(|listener| listener.certificates_authenticate && !auth.tells_unknown_users)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            domains: Vec::new(),
            listeners: Vec::new(),
            mode: Mode::Stateful,
            authenticate: Some(AuthSettings::default()),
            trusted: Vec::new(),
            inbound: Inbound::Trusted,
            routes: Routes::default(),
            forward: None,
            registrar: RegistrarSettings::default(),
            nat: NatSettings::default(),
            proxy: ProxySettings::default(),
            timers: sip_txn::Timers::default(),
            limits: Limits::default(),
            bounds: Bounds::default(),
            rates: RateLimits::default(),
            server_header: "Signet".to_owned(),
            tells_all_refusals: false,
            records: RecordSettings::default(),
            hook: None,
            numbers: NumberRules::default(),
            people: Arc::default(),
            media: None,
        }
    }
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self {
            realm: None,
            lookup_timeout_ms: 4_000,
            lookups_max: 16_384,
            tells_unknown_users: true,
            tells_who_is_proved: false,
            evens_refusals: false,
            knows_all_domains: true,
        }
    }
}

impl Default for RegistrarSettings {
    fn default() -> Self {
        Self {
            expires_min_s: 60,
            expires_default_s: 3_600,
            expires_max_s: 86_400,
            contacts_max: 10,
            contacts_full: ContactsFull::ReplaceOldest,
            aors_max: 1_000_000,
            durable: true,
            save_timeout_ms: 4_000,
            service_route: Vec::new(),
            outbound_needs_ob: false,
        }
    }
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            record_route: true,
            timer_c_ms: 185_000,
            max_breadth: 60,
            trying_at_once: false,
            branches_max: 32,
            serial_timeout_ms: 20_000,
            resolve_timeout_ms: 5_000,
            dead_hop_ms: 30_000,
            relay_denied: relay_denied(),
            dialog_token_lifetime_s: 86_400,
        }
    }
}

/// Loopback, link-local, multicast, and reserved addresses. Private networks are not
/// among them: the phones of an enterprise are there.
fn relay_denied() -> Vec<IpNet> {
    use std::net::{Ipv4Addr, Ipv6Addr};
    let v4 = |a, b, len| IpNet::new_assert(Ipv4Addr::new(a, b, 0, 0).into(), len);
    let v6 = |first, len| IpNet::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(), len);
    vec![
        v4(127, 0, 8),
        IpAddr::V6(Ipv6Addr::LOCALHOST).into(),
        v4(169, 254, 16),
        v6(0xfe80, 10),
        v4(224, 0, 4),
        v6(0xff00, 8),
        v4(0, 0, 8),
        v6(0, 128),
        IpAddr::V4(Ipv4Addr::BROADCAST).into(),
    ]
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            server_transactions_max: 1_000_000,
            client_transactions_max: 1_000_000,
            contexts_max: 500_000,
            dialogs_max: 65_536,
            retry_after_s: 5,
        }
    }
}
