//! The settings of a run: plain values, checked before the first packet.

use std::net::SocketAddr;
use std::time::Duration;

use measure::Schedule;
use sip_msg::Transport;
use sip_net::WebSocketRequest;

use crate::tls::OWN_NAME;
use crate::{CalledTls, Local, Mix, Server, SmimeSettings, Span, TlsSettings, Users};

/// Whom calls, OPTIONS and MESSAGE are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// Always this URI.
    Uri(String),
    /// Another of the agents: the next one, the last calls the first.
    Ring,
    /// Another of the agents, drawn for each call.
    Random,
}

impl Called {
    /// Whether agents call each other.
    pub const fn is_pairs(&self) -> bool {
        matches!(self, Self::Ring | Self::Random)
    }
}

/// How long a connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// One connection for each thread, for all that it does.
    One,
    /// A connection for so many calls or requests, one after the other.
    Calls(u32),
    /// Each agent has a connection of its own and keeps it.
    Agent,
}

/// How a connection ends that this side ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// With a close_notify and a FIN.
    Clean,
    /// With a reset.
    Abrupt,
}

/// How a WebSocket is asked for, where the transport is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketSettings {
    /// The path, here and at the server.
    pub path: String,
    /// The page that the calling side says it is, as browsers do.
    pub origin: Option<String>,
}

impl Default for WebSocketSettings {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            origin: None,
        }
    }
}

/// What the called side does.
#[derive(Clone, Debug)]
pub struct Answering {
    /// Where it listens.
    pub listen: Vec<(Transport, SocketAddr)>,
    /// How long it rings before it answers.
    pub ring: Span,
    /// With which status it refuses instead of answering.
    pub reject: Option<u16>,
    /// Whether it takes REGISTER.
    pub is_registrar: bool,
    /// How the called side speaks TLS.
    pub tls: CalledTls,
}

impl Default for Answering {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            ring: Span::NONE,
            reject: None,
            is_registrar: false,
            tls: CalledTls::default(),
        }
    }
}

/// Which part of a load this process drives, where several drive it together: every
/// `of`-th arrival of the schedule, from number `index` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of the part, from 0.
    pub index: u64,
    /// How many parts there are.
    pub of: u64,
}

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}

/// A run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What arrives.
    pub mix: Mix,
    /// When it arrives. `None` for a called side, which runs until it is interrupted.
    pub schedule: Option<Schedule>,
    /// The part of the schedule that is driven here.
    pub share: Share,
    /// Where it is sent. `None` for a called side, and where the load goes
    /// straight to this process's own called side.
    pub server: Option<Server>,
    /// The transport of a load that goes straight to the called side.
    pub direct: Option<Transport>,
    /// Whom calls are for.
    pub called: Called,
    /// The domain of the agents' addresses-of-record.
    pub domain: String,
    /// The realm whose challenges the agents answer.
    pub realm: String,
    /// Who the agents are; with none, calls come from one nameless user.
    pub users: Users,
    /// Whether the agents register before the run begins, and stay registered.
    pub register_first: bool,
    /// Registrations and connections a second while the run is prepared.
    pub setup_rate_per_s: f64,
    /// What a REGISTER asks for, in seconds.
    pub expires_s: u32,
    /// Whether requests within a dialog go where its routes and the peer's
    /// contact lead; otherwise everything goes to the server.
    pub follow_routes: bool,
    /// How long a call is held after it was answered.
    pub hold: Span,
    /// The called side in this process; it listens nowhere where there is none.
    pub answering: Answering,
    /// How many threads drive the load.
    pub threads: usize,
    /// Where the load comes from.
    pub local: Local,
    /// Whether each agent has a UDP port of its own.
    pub own_ports: bool,
    /// How long connections live.
    pub lifetime: Lifetime,
    /// How connections end that this side ends.
    pub close: Close,
    /// TLS.
    pub tls: TlsSettings,
    /// WebSocket.
    pub websocket: WebSocketSettings,
    /// S/MIME; bodies are sent as they are where there is none.
    pub smime: Option<SmimeSettings>,
    /// Whether a request bears credentials as soon as there is a nonce.
    pub credentials_first: bool,
    /// The timers of RFC 3261 17.
    pub timers: sip_txn::Timers,
    /// After how long a call that rings is cancelled.
    pub answer_timeout: Duration,
    /// How long a connection may take to be opened.
    pub connect_timeout: Duration,
    /// Threads that do TLS handshakes.
    pub handshake_threads: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long calls may take to end after the last one began; `None` for as
    /// long as the timers and the hold time say.
    pub drain_timeout: Option<Duration>,
    /// The kernel's buffers of a UDP socket.
    pub udp_buffer_bytes: usize,
    /// Calls and requests under way that each thread has room for.
    pub jobs_max: usize,
    /// After how long a called side alone ends; `None` for when it is interrupted.
    pub answer_for: Option<Duration>,
    /// When all agents break their connections off and open them anew, after
    /// the beginning of the run.
    pub storm_at: Option<Duration>,
    /// What every choice is drawn from: the same seed draws the same.
    pub seed: u64,
}

impl Settings {
    /// The settings of `signet load call` without any option.
    pub fn new(mix: Mix) -> Self {
        Self {
            mix,
            schedule: None,
            share: Share::WHOLE,
            server: None,
            direct: None,
            called: Called::Uri(String::new()),
            domain: "example.org".to_owned(),
            realm: "example.org".to_owned(),
            users: Users::default(),
            register_first: false,
            setup_rate_per_s: 2_000.0,
            expires_s: 3_600,
            follow_routes: false,
            hold: Span::NONE,
            answering: Answering::default(),
            threads: 1,
            local: Local::one(std::net::IpAddr::from([127, 0, 0, 1])),
            own_ports: false,
            lifetime: Lifetime::One,
            close: Close::Clean,
            tls: TlsSettings::default(),
            websocket: WebSocketSettings::default(),
            smime: None,
            credentials_first: true,
            timers: sip_txn::Timers::default(),
            answer_timeout: Duration::from_secs(180),
            connect_timeout: Duration::from_secs(4),
            handshake_threads: 0,
            handshake_timeout: Duration::from_secs(10),
            drain_timeout: None,
            udp_buffer_bytes: 8 * 1024 * 1024,
            jobs_max: 1 << 20,
            answer_for: None,
            storm_at: None,
            seed: 1,
        }
    }

    /// The transport towards the server; `None` for a called side alone.
    pub fn transport(&self) -> Option<Transport> {
        self.server
            .as_ref()
            .map(|server| server.transport)
            .or(self.direct)
    }

    /// The highest rate of what is driven here.
    pub fn rate_max_per_s(&self) -> f64 {
        let whole = self.schedule.as_ref().map_or(0.0, Schedule::rate_max_per_s);
        whole / self.share.of.max(1) as f64
    }

    /// The request that makes WebSockets of connections to the server; `None` over
    /// other transports.
    pub(crate) fn websocket_request(&self) -> Result<Option<WebSocketRequest>, String> {
        if !self.transport().is_some_and(Transport::is_websocket) {
            return Ok(None);
        }
        let authority = match &self.server {
            Some(server) => server.authority(),
            None => OWN_NAME.to_owned(),
        };
        let WebSocketSettings { path, origin } = &self.websocket;
        WebSocketRequest::new(&authority, path, origin.as_deref()).map(Some)
    }

    /// Says what does not go together.
    ///
    /// # Errors
    /// The first contradiction, with its remedy.
    pub fn check(&self) -> Result<(), String> {
        let agents = self.users.count();
        let udp = self.transport() == Some(Transport::Udp);
        if self.called.is_pairs() && agents < 2 {
            return Err(
                "agents that call each other must be at least two; write --agents 2 or more"
                    .to_owned(),
            );
        }
        if self.called.is_pairs() && self.direct.is_some() {
            return Err(
                "agents call each other through a server; leave out --self, or --pairs".to_owned(),
            );
        }
        if agents == 0 && (self.register_first || self.mix.flows().any(crate::Flow::is_register)) {
            return Err(
                "nobody is there to register; write --agents N, --user PATTERN or --users FILE"
                    .to_owned(),
            );
        }
        if agents == 0 && self.lifetime == Lifetime::Agent && !udp {
            return Err("a connection per agent needs agents; write --agents N".to_owned());
        }
        if self.storm_at.is_some() && (self.lifetime != Lifetime::Agent || udp) {
            return Err(
                "a storm needs connections that agents keep; write --transport tls --connection per-agent"
                    .to_owned(),
            );
        }
        if let (Some(at), Some(schedule)) = (self.storm_at, &self.schedule) {
            let ends = Duration::from_nanos(schedule.ends_ns());
            if at >= ends {
                return Err(format!(
                    "a storm after {at:?} does not come, because the load ends after {ends:?}; write an \
                     earlier --storm-at, or a longer --duration"
                ));
            }
        }
        if self.own_ports && agents == 0 {
            return Err("a port for each agent needs agents; write --agents N".to_owned());
        }
        if self.mix.flows().any(crate::Flow::needs_registration) && !self.register_first {
            return Err(
                "reregister and deregister need agents that are registered; write --register-first"
                    .to_owned(),
            );
        }
        if self.threads == 0 || self.threads > 64 {
            return Err("write --threads 1 to 64".to_owned());
        }
        // A thread without an agent would have a share of the arrivals and nobody to begin them.
        if agents > 0 && agents < self.threads {
            return Err(format!(
                "{agents} agents are too few for {0} threads, each of which has its own; write \
                 --threads {agents}, or --agents {0} or more",
                self.threads
            ));
        }
        if let Called::Uri(uri) = &self.called
            && self.schedule.is_some()
            && !uri.is_empty()
        {
            self.check_called(uri)?;
        }
        self.websocket_request()?;
        if self.lifetime == Lifetime::Calls(0) {
            return Err(
                "a connection serves at least one call; write --connection per-call".to_owned(),
            );
        }
        Ok(())
    }

    /// Says why that URI cannot be called over this transport.
    fn check_called(&self, uri: &str) -> Result<(), String> {
        let called = sip_msg::Uri::parse(uri.as_bytes()).filter(|uri| uri.is_sip());
        let Some(called) = called else {
            return Err(format!(
                "'{uri}' is no SIP URI; write --called sip:bob@example.org"
            ));
        };
        if called.has_param("method") {
            return Err(format!("'{uri}' names a method; leave that parameter out"));
        }
        let has_tls = self.transport().is_some_and(Transport::is_secure);
        if called.scheme == sip_msg::uri::Scheme::Sips && !has_tls {
            return Err(format!(
                "'{uri}' may be called over TLS alone; write --transport tls, or sip: for sips:"
            ));
        }
        Ok(())
    }
}
