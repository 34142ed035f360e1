//! The tables of a configuration and their defaults.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sip_engine::settings::{self, ContactsFull, ProxySettings, RegistrarSettings};
use sip_msg::network::IpNet;

use super::care::{self, FailoverAnswer};
use super::lenient::Lenient;
use super::memory::MemoryMax;
use super::mirror::mirror;
use super::neighbours::ConnectionUse;
use super::numbers::When;
use super::peers::PeerSecurity;
use super::tls::ListenSecurity;
use super::values::{
    Advertised, DigestAlgorithm, Domain, HopUri, ListenAt, Network, NumberPrefix, networks,
    some_within, within,
};
use super::websocket::ListenWebSocket;
use crate::trace::Filter;

/// A listener.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Where.
    pub on: ListenAt,
    /// What it is called. One that offers the suites of the legacy engine must
    /// be called `legacy`.
    pub name: Option<String>,
    /// The host and port that stand in Via and Record-Route.
    pub advertise: Option<Advertised>,
    /// Where phones are reached that register or call here.
    #[serde(default)]
    pub nat: settings::Nat,
    /// Whether an engine relays the media of calls that come or go here.
    #[serde(default)]
    pub media: settings::MediaUse,
    /// The listener's own security.
    #[serde(default)]
    pub security: ListenSecurity,
    /// What a WebSocket listener takes.
    #[serde(default)]
    pub websocket: ListenWebSocket,
}

/// Digest authentication.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Authentication {
    /// Whether users prove who they are.
    pub required: bool,
    /// The realm; without one, the domain of the request.
    pub realm: Option<Domain>,
    /// The algorithms that are offered and accepted, most preferred first.
    pub algorithms: Vec<DigestAlgorithm>,
    /// Beginnings of the User-Agent of phones that are offered MD5 alone.
    pub md5_only_agents: Vec<String>,
    /// Phones of which less is asked.
    pub lenient: Vec<Lenient>,
    /// Whether `auth-int` is offered beside `auth`.
    pub offer_auth_int: bool,
    /// Whether a 2xx carries Authentication-Info.
    pub authentication_info: bool,
    /// How long a nonce is good for.
    #[serde(deserialize_with = "within::<_, _, 5, 86_400>")]
    pub nonce_lifetime_s: u64,
    /// Nonces whose counts are remembered, against replay.
    #[serde(deserialize_with = "within::<_, _, 1_024, 100_000_000>")]
    pub replay_entries_max: usize,
    /// How long a request waits for the store.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub lookup_timeout_ms: u64,
    /// Requests of one worker that wait for the store at a time.
    #[serde(deserialize_with = "within::<_, _, 1, 10_000_000>")]
    pub lookups_max: usize,
    /// Wrong passwords of one user from one source, before they are not even
    /// looked up; 0 is without limit.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000>")]
    pub failures_max: u32,
    /// How long the answer to a wrong password is held back at most.
    #[serde(deserialize_with = "within::<_, _, 0, 16_000>")]
    pub failure_delay_max_ms: u64,
}

impl Default for Authentication {
    fn default() -> Self {
        let engine = sip_engine::settings::AuthSettings::default();
        let auth = sip_auth::AuthConfig::default();
        Self {
            required: true,
            realm: None,
            algorithms: auth
                .algorithms
                .iter()
                .map(|algorithm| DigestAlgorithm(*algorithm))
                .collect(),
            md5_only_agents: auth.md5_only_agents,
            lenient: Vec::new(),
            offer_auth_int: auth.offer_auth_int,
            authentication_info: auth.authentication_info,
            nonce_lifetime_s: auth.nonce_lifetime_ms / 1_000,
            replay_entries_max: auth.replay_entries_max,
            lookup_timeout_ms: engine.lookup_timeout_ms,
            lookups_max: engine.lookups_max,
            failures_max: sip_limit::Limits::default().failures_max,
            failure_delay_max_ms: sip_limit::Limits::default().delay_ms_max,
        }
    }
}

/// A group of gateways.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayGroup {
    /// Its name, for a route's `group`.
    pub name: String,
    /// Digits to cut from the front of the number.
    #[serde(default, deserialize_with = "within::<_, _, 0, 32>")]
    pub strip: u8,
    /// Digits to put in front after that.
    pub prepend: Option<NumberPrefix>,
    /// What the path to each of its gateways must have.
    #[serde(default)]
    pub security: PeerSecurity,
    /// Connections to each gateway that the calls are spread over, where the
    /// gateway itself does not say.
    #[serde(default, deserialize_with = "some_within::<_, _, 1, 64>")]
    pub connections: Option<u8>,
    /// Whether calls share them, where the gateway itself does not say.
    pub connection: Option<ConnectionUse>,
    /// How long a gateway may take to its first response before the next one is tried.
    #[serde(
        default = "care::timeout_ms",
        deserialize_with = "within::<_, _, 0, 60_000>"
    )]
    pub timeout_ms: u64,
    /// The answers after which the next one is tried.
    #[serde(default = "care::failover")]
    pub failover: Vec<FailoverAnswer>,
    /// How long a gateway is passed over at most because it asks for a pause.
    #[serde(
        default = "care::retry_after_max_s",
        deserialize_with = "within::<_, _, 0, 86_400>"
    )]
    pub retry_after_max_s: u64,
    /// The time from one probe to the next; 0 for none.
    #[serde(default, deserialize_with = "within::<_, _, 0, 3_600>")]
    pub probe_interval_s: u64,
    /// After so many failed probes in a row a gateway is passed over.
    #[serde(default, deserialize_with = "some_within::<_, _, 1, 100>")]
    pub probe_fail: Option<u32>,
    /// After so many good ones in a row it is used again.
    #[serde(default, deserialize_with = "some_within::<_, _, 1, 100>")]
    pub probe_ok: Option<u32>,
    /// How many calls may go on over it at a time; 0 for any number.
    #[serde(default, deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub calls_max: u32,
    /// Whether an engine relays the media of calls to them; without it what both ends make
    /// of it.
    pub media: Option<settings::MediaUse>,
    /// Its members.
    pub gateways: Vec<Gateway>,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Where it is.
    pub uri: HopUri,
    /// Lower is tried first.
    #[serde(default, deserialize_with = "within::<_, _, 0, 65_535>")]
    pub priority: u16,
    /// Its share of the calls among those of the same priority.
    #[serde(default = "one", deserialize_with = "within::<_, _, 0, 65_535>")]
    pub weight: u16,
    /// Connections that its calls are spread over.
    #[serde(default, deserialize_with = "some_within::<_, _, 1, 64>")]
    pub connections: Option<u8>,
    /// Whether calls share connections.
    pub connection: Option<ConnectionUse>,
}

/// A row of the routing tables: for a domain or for a prefix, one of the two.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The domain of the Request-URI.
    pub domain: Option<Domain>,
    /// The front of the number.
    pub prefix: Option<NumberPrefix>,
    /// The group that it goes to; for one that is a trunk, by that word as well.
    #[serde(alias = "trunk")]
    pub group: String,
    /// What it costs beside others for the same: the cheapest is tried first.
    #[serde(default, deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub cost: u32,
    /// When it is there; without it always.
    pub when: Option<When>,
}

/// The registrar.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Registrar {
    /// Seconds below which a registration is refused with 423.
    #[serde(deserialize_with = "within::<_, _, 1, 3_600>")]
    pub expires_min_s: u32,
    /// Seconds granted where none are asked for.
    #[serde(deserialize_with = "within::<_, _, 1, 31_536_000>")]
    pub expires_default_s: u32,
    /// Seconds granted at most.
    #[serde(deserialize_with = "within::<_, _, 1, 31_536_000>")]
    pub expires_max_s: u32,
    /// Contacts of one user.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000>")]
    pub contacts_max: usize,
    /// What becomes of one contact more.
    pub contacts_full: ContactsFull,
    /// Users with bindings.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000_000>")]
    pub aors_max: usize,
    /// Whether 200 waits until the bindings are on disk.
    pub durable: bool,
    /// How long a registration waits for the store.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub save_timeout_ms: u64,
    /// The Service-Route handed to phones.
    pub service_route: Vec<String>,
    /// Whether a phone that asks for an outbound flow is refused where the proxy before this
    /// server does not say that it keeps one.
    pub outbound_needs_ob: bool,
}

mirror! { Registrar of RegistrarSettings:
    expires_min_s, expires_default_s, expires_max_s, contacts_max, contacts_full, aors_max, durable,
    save_timeout_ms, service_route, outbound_needs_ob;
}

/// The proxy.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Proxy {
    /// Whether dialogs stay on this server's path.
    pub record_route: bool,
    /// Timer C, which RFC 3261 16.6 wants above three minutes.
    #[serde(deserialize_with = "within::<_, _, 180_001, 86_400_000>")]
    pub timer_c_ms: u64,
    /// Max-Breadth where a request has none, or more.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000>")]
    pub max_breadth: u32,
    /// Whether 100 is sent at once, and not only when nothing else came within 200 ms.
    pub trying_at_once: bool,
    /// Branches of one request in all.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000>")]
    pub branches_max: usize,
    /// How long one branch of a serial search rings.
    #[serde(deserialize_with = "within::<_, _, 1_000, 600_000>")]
    pub serial_timeout_ms: u64,
    /// How long a request waits for DNS.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub resolve_timeout_ms: u64,
    /// How long a hop that failed is passed over.
    #[serde(deserialize_with = "within::<_, _, 0, 3_600_000>")]
    pub dead_hop_ms: u64,
    /// Networks to which nothing is relayed because somebody named an address there.
    #[serde(deserialize_with = "networks")]
    pub relay_denied: Vec<IpNet>,
    /// How long the tokens of a dialog are valid after the last request within it that was answered
    /// with a 2xx.
    #[serde(deserialize_with = "within::<_, _, 3_600, 2_592_000>")]
    pub dialog_token_lifetime_s: u64,
}

mirror! { Proxy of ProxySettings:
    record_route, timer_c_ms, max_breadth, trying_at_once, branches_max, serial_timeout_ms,
    resolve_timeout_ms, dead_hop_ms, relay_denied, dialog_token_lifetime_s;
}

/// Transaction timers (RFC 3261 17).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timers {
    /// T1: the estimate of the round-trip time.
    #[serde(deserialize_with = "within::<_, _, 10, 10_000>")]
    pub t1_ms: u64,
    /// T2: the longest interval between retransmissions.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub t2_ms: u64,
    /// T4: how long the network may hold a message.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub t4_ms: u64,
    /// Timer D: how long answers to a refused INVITE are acknowledged.
    #[serde(deserialize_with = "within::<_, _, 32_000, 600_000>")]
    pub d_ms: u64,
}

mirror! { Timers of sip_txn::Timers: t1_ms, t2_ms, t4_ms, d_ms; }

/// Bounds on a message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of the whole message.
    #[serde(deserialize_with = "within::<_, _, 1_300, 1_048_576>")]
    pub message_bytes: usize,
    /// Header fields.
    #[serde(deserialize_with = "within::<_, _, 16, 4_096>")]
    pub header_count: usize,
    /// Bytes of one header line.
    #[serde(deserialize_with = "within::<_, _, 256, 65_535>")]
    pub header_bytes: usize,
    /// Bytes of the Request-URI.
    #[serde(deserialize_with = "within::<_, _, 64, 65_535>")]
    pub uri_bytes: usize,
    /// Bytes of the body.
    #[serde(deserialize_with = "within::<_, _, 0, 1_048_576>")]
    pub body_bytes: usize,
}

mirror! { Limits of sip_msg::Limits:
    message_bytes, header_count, header_bytes, uri_bytes, body_bytes;
}

/// Bounds on what one worker has under way, and of what all hold together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// The memory that messages may hold, over all workers.
    pub memory_max: MemoryMax,
    /// Server transactions.
    #[serde(deserialize_with = "within::<_, _, 1, 100_000_000>")]
    pub server_transactions_max: usize,
    /// Client transactions.
    #[serde(deserialize_with = "within::<_, _, 1, 100_000_000>")]
    pub client_transactions_max: usize,
    /// Requests being forwarded.
    #[serde(deserialize_with = "within::<_, _, 1, 100_000_000>")]
    pub contexts_max: usize,
    /// Messages handed from one worker to another and not yet taken.
    #[serde(deserialize_with = "within::<_, _, 16, 10_000_000>")]
    pub handover_max: usize,
    /// How long arriving messages may wait before a worker refuses a part of what begins; 0 is for
    /// ever.
    #[serde(deserialize_with = "within::<_, _, 0, 10_000>")]
    pub queue_ms_max: u64,
    /// Seconds in the Retry-After of a 503.
    #[serde(deserialize_with = "within::<_, _, 1, 3_600>")]
    pub retry_after_s: u32,
}

mirror! { Bounds of settings::Bounds:
    server_transactions_max, client_transactions_max, contexts_max, retry_after_s;
    memory_max = MemoryMax::Percent(50), handover_max = 16_384,
    queue_ms_max = sip_limit::overload::QUEUE_MS
}

/// What strangers of one source are put up with.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sources {
    /// Refusals that are forgotten in a second; 0 is without limit.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub refusals_per_s: u32,
    /// Refusals tolerated at once.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub refusals_max: u32,
    /// How long a source is left without answers that asks for more.
    #[serde(deserialize_with = "within::<_, _, 1, 3_600>")]
    pub silence_s: u64,
}

impl Default for Sources {
    fn default() -> Self {
        let limits = sip_limit::Limits::default();
        Self {
            refusals_per_s: limits.refusals_per_s,
            refusals_max: limits.refusals_max,
            silence_s: limits.silence_ms / 1_000,
        }
    }
}

/// Bounds and deadlines of one worker's sockets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connections {
    /// Connections; without it what the limit of open files leaves.
    #[serde(deserialize_with = "some_within::<_, _, 1, 1_000_000>")]
    pub connections_max: Option<usize>,
    /// Whether a neighbour may be reached by a connection that it opened, where
    /// its certificate proves who it is (RFC 5923).
    pub alias: bool,
    /// Connections from one source: an IPv4 address, an IPv6 /64.
    #[serde(deserialize_with = "within::<_, _, 1, 10_000_000>")]
    pub connections_per_source_max: usize,
    /// Connections that a source may open in a second; at once, four times as many; 0 for no limit.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub opened_per_source_per_s: u32,
    /// Bytes waiting for a peer, past which one that takes nothing is closed.
    #[serde(deserialize_with = "within::<_, _, 65_536, 1_073_741_824>")]
    pub write_queue_bytes_max: usize,
    /// Datagrams waiting because a socket is full.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub udp_queue_max: usize,
    /// Whether STUN Binding requests are answered on UDP listeners.
    pub stun: bool,
    /// How long a message may take from its first byte to its last.
    #[serde(deserialize_with = "within::<_, _, 100, 600_000>")]
    pub message_timeout_ms: u64,
    /// How long a connection may be silent.
    #[serde(deserialize_with = "within::<_, _, 1_000, 604_800_000>")]
    pub idle_timeout_ms: u64,
    /// How long a connection of one call's own may be silent.
    #[serde(deserialize_with = "within::<_, _, 1_000, 604_800_000>")]
    pub call_idle_timeout_ms: u64,
    /// Connections of one call each; past it calls share one.
    #[serde(deserialize_with = "within::<_, _, 0, 10_000_000>")]
    pub call_connections_max: usize,
    /// How long a peer to which none could be opened is left alone, at most; 0
    /// for not at all.
    #[serde(deserialize_with = "within::<_, _, 0, 60_000>")]
    pub reopen_backoff_max_ms: u64,
    /// How long the request to make a WebSocket of a connection may take.
    #[serde(deserialize_with = "within::<_, _, 100, 60_000>")]
    pub upgrade_timeout_ms: u64,
    /// How long a WebSocket may be silent before it is pinged; 0 for never.
    #[serde(deserialize_with = "within::<_, _, 0, 3_600_000>")]
    pub websocket_ping_ms: u64,
    /// How long a connection may take to open.
    #[serde(deserialize_with = "within::<_, _, 100, 60_000>")]
    pub connect_timeout_ms: u64,
    /// How long the last bytes may take to leave.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub linger_ms: u64,
    /// The kernel's receive buffer of a UDP socket.
    #[serde(deserialize_with = "within::<_, _, 4_096, 1_073_741_824>")]
    pub udp_receive_buffer_bytes: usize,
    /// How long messages, and look-ups of users, may gather while there is traffic, so that
    /// one wake-up serves them all; 0 for never.
    #[serde(deserialize_with = "within::<_, _, 0, 10_000>")]
    pub gather_us: u64,
}

mirror! { Connections of sip_net::NetConfig:
    connections_per_source_max, opened_per_source_per_s, write_queue_bytes_max, udp_queue_max,
    stun = true,
    message_timeout_ms, idle_timeout_ms, call_idle_timeout_ms, call_connections_max,
    reopen_backoff_max_ms = 1_000, upgrade_timeout_ms, websocket_ping_ms, connect_timeout_ms,
    linger_ms, udp_receive_buffer_bytes, gather_us = 1_000;
    connections_max = None, alias = true
}

/// The resolver (RFC 3263).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dns {
    /// The name servers; when there is none, those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// How long one question may take before it is repeated.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub timeout_ms: u64,
    /// How often a question is asked.
    #[serde(deserialize_with = "within::<_, _, 1, 10>")]
    pub attempts: usize,
    /// How long a whole resolution may take.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub deadline_ms: u64,
    /// Resolutions under way.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub queries_max: usize,
    /// Places to try, of one host.
    #[serde(deserialize_with = "within::<_, _, 1, 256>")]
    pub hops_max: usize,
}

mirror! { Dns of sip_net::DnsConfig:
    servers, timeout_ms, attempts, deadline_ms, queries_max;
    hops_max = sip_locate::Options::default().hops_max
}

/// Figures and health, over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// The address that answers; without it there is none.
    pub listen: Option<SocketAddr>,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// The least severe level that is logged.
    pub level: LogLevel,
    /// How a line is written.
    pub format: LogFormat,
    /// Whether whole messages are printed, secrets masked.
    pub trace_sip: bool,
    /// The file that they are written to, for Wireshark.
    pub trace_pcap: Option<PathBuf>,
    /// How large it grows before it is kept as another and begun anew.
    #[serde(deserialize_with = "within::<_, _, 65_536, 1_000_000_000_000>")]
    pub trace_pcap_bytes_max: u64,
    /// Only messages of this user.
    pub trace_user: Option<String>,
    /// Only those with peers there.
    pub trace_address: Option<Network>,
    /// Only those whose Call-ID begins so.
    pub trace_call: Option<String>,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: LogLevel::default(),
            format: LogFormat::default(),
            trace_sip: false,
            trace_pcap: None,
            trace_pcap_bytes_max: crate::trace::FILE_BYTES_MAX,
            trace_user: None,
            trace_address: None,
            trace_call: None,
        }
    }
}

impl Log {
    /// Which messages are shown.
    pub(crate) fn trace_filter(&self) -> Filter {
        Filter {
            user: self.trace_user.clone(),
            address: self.trace_address,
            call: self.trace_call.clone(),
        }
    }
}

/// The forms of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: an object a line, with `timestamp`, `level`, `message` and what belongs
    /// to it.
    Json,
}

/// The levels of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

impl LogLevel {
    /// All of them, the quietest first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// As it stands in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

impl std::str::FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let known = all.find(|level| level.name() == text);
        known.ok_or_else(|| "write error, warn, info or debug".to_owned())
    }
}

const fn one() -> u16 {
    1
}
