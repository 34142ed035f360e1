//! How scenarios are played: what SIPp's command line says.

use std::net::{IpAddr, SocketAddr};

use sip_msg::Transport;

/// What is done without being in the scenario (`-default_behaviors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviors {
    /// An aborted call is ended with a BYE or a CANCEL, and a BYE or a CANCEL
    /// that nobody expects is answered.
    pub bye: bool,
    /// A message that nobody expects aborts its call.
    pub abort_unexpected: bool,
    /// A PING is answered.
    pub ping_reply: bool,
}

impl Default for Behaviors {
    fn default() -> Self {
        Self {
            bye: true,
            abort_unexpected: true,
            ping_reply: true,
        }
    }
}

/// How scenarios are played.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[service]`.
    pub service: Vec<u8>,
    /// `[remote_host]`, as it was given.
    pub remote_host: String,
    /// `[remote_ip]` and `[remote_port]`; `None` for a server.
    pub remote: Option<SocketAddr>,
    /// Where calls that others begin send to (`-rsa`, or another instance is told of them);
    /// `None` is back to where they came from.
    pub answers_to: Option<SocketAddr>,
    /// `[local_ip]` and `[local_port]` of each listener.
    pub locals: Vec<SocketAddr>,
    /// Whether calls have addresses of their own, given when they are begun.
    pub own_addresses: bool,
    /// The field of the first injection file that holds a call's own local
    /// address, one of `locals` (`-ip_field`).
    pub ip_field: Option<usize>,
    /// `[media_ip]`.
    pub media_ip: IpAddr,
    /// `[media_port]`.
    pub media_port: u16,
    /// `[transport]`, which also says whether messages are sent again.
    pub transport: Transport,
    /// `[pid]`.
    pub pid: u32,
    /// The number of users (`-users`), each of which has one call at a time; no
    /// more than `calls_max`.
    pub users: Option<u32>,
    /// How long a pause without a time of its own is, in milliseconds (`-d`).
    pub pause_ms: u64,
    /// The first `[cseq]` of a call.
    pub base_cseq: u32,
    /// The Call-ID: `%u` is the call's number, `%p` the process, `%s` the
    /// local address.
    pub call_id: String,
    /// The user in answers to challenges (`-au`); `[service]` if not given.
    pub auth_user: Option<String>,
    /// The password in answers to challenges (`-ap`).
    pub auth_password: String,
    /// The URI in answers to challenges (`-auth_uri`), without `sip:`.
    pub auth_uri: Option<String>,
    /// Whether messages are sent again over UDP.
    pub retransmits: bool,
    /// How often an INVITE is sent again at most.
    pub invite_retransmissions_max: u32,
    /// How often any other message is sent again at most.
    pub retransmissions_max: u32,
    /// The longest time between two copies of a message that is no INVITE.
    pub t2_ms: u64,
    /// How long a message is waited for where the scenario does not say.
    pub recv_timeout_ms: Option<u64>,
    /// Whether INFO, NOTIFY, OPTIONS and UPDATE are answered 200 (`-aa`).
    pub answers: bool,
    /// What is done without being in the scenario.
    pub behaviors: Behaviors,
    /// The share of messages that is lost where the scenario does not say.
    pub lost: f64,
    /// Whether messages are ignored during a pause.
    pub pauses_deaf: bool,
    /// Whether `///` in a Call-ID has no meaning.
    pub slashes_plain: bool,
    /// Calls at a time; past it a call is refused and counted.
    pub calls_max: usize,
    /// How long messages of an ended call are known as such.
    pub dead_call_ms: u64,
    /// First, last and step of `[dynamic_id]`.
    pub dynamic_id: (u32, u32, u32),
    /// Where chance begins.
    pub seed: u64,
    /// Microseconds since 1970 at the time 0 of the caller's clock.
    pub epoch_unix_us: u64,
    /// Whether each response time is reported as an event.
    pub tells_rtts: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let any = IpAddr::from([127, 0, 0, 1]);
        Self {
            service: b"service".to_vec(),
            remote_host: String::new(),
            remote: None,
            answers_to: None,
            locals: vec![SocketAddr::new(any, 5_060)],
            own_addresses: false,
            ip_field: None,
            media_ip: any,
            media_port: 6_000,
            transport: Transport::Udp,
            pid: 0,
            users: None,
            pause_ms: 0,
            base_cseq: 1,
            call_id: "%u-%p@%s".to_owned(),
            auth_user: None,
            auth_password: "password".to_owned(),
            auth_uri: None,
            retransmits: true,
            invite_retransmissions_max: 5,
            retransmissions_max: 9,
            t2_ms: 4_000,
            recv_timeout_ms: None,
            answers: false,
            behaviors: Behaviors::default(),
            lost: 0.0,
            pauses_deaf: false,
            slashes_plain: false,
            calls_max: 1_000_000,
            dead_call_ms: 33_000,
            dynamic_id: (10_000, 12_000, 4),
            seed: 1,
            epoch_unix_us: 0,
            tells_rtts: false,
        }
    }
}

/// An address as SIP writes it: IPv6 in brackets.
pub(crate) fn ip_text(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}
