//! How users are challenged, by whom, and what came of it.

use sip_msg::HeaderName;

use crate::Algorithm;

/// How users are challenged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// The algorithms that are offered and accepted, most preferred first
    /// (RFC 8760 2.3).
    pub algorithms: Vec<Algorithm>,
    /// Beginnings of the User-Agent of phones that give up at a challenge that
    /// they do not know instead of going on to the next: where MD5 is among
    /// the algorithms, they are offered nothing else.
    pub md5_only_agents: Vec<String>,
    /// Whether `auth-int` is offered beside `auth`. It is accepted in any case.
    pub offer_auth_int: bool,
    /// Whether a successful answer can carry Authentication-Info (RFC 7616 3.5).
    pub authentication_info: bool,
    /// How long a nonce is good for.
    pub nonce_lifetime_ms: u64,
    /// This server's number in its cluster; a nonce of another is stale here.
    pub node_id: u16,
    /// Nonces in use at once that the replay window remembers, at 33 to 66
    /// bytes each; past it the oldest are forgotten and answered as stale.
    pub replay_entries_max: usize,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
            md5_only_agents: vec!["baresip v0.".to_owned(), "baresip v1.".to_owned()],
            offer_auth_int: false,
            authentication_info: false,
            nonce_lifetime_ms: 300_000,
            node_id: 0,
            replay_entries_max: 1 << 20,
        }
    }
}

/// Who challenges (RFC 3261 22.2, 22.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// A registrar, redirect server or user agent server: 401,
    /// WWW-Authenticate, Authorization.
    Registrar,
    /// A proxy: 407, Proxy-Authenticate, Proxy-Authorization.
    Proxy,
}

impl Side {
    /// The status of a challenge: 401 or 407.
    pub const fn status(self) -> u16 {
        // RFC 3261 22.1: "registrars and redirect servers MAY make use of 401 (Unauthorized) responses
        // for authentication, but proxies MUST NOT, and instead MAY use the 407 (Proxy Authentication
        // Required) response."
        match self {
            Self::Registrar => 401,
            Self::Proxy => 407,
        }
    }

    /// The header that challenges.
    pub const fn challenge_header(self) -> HeaderName {
        match self {
            Self::Registrar => HeaderName::WwwAuthenticate,
            Self::Proxy => HeaderName::ProxyAuthenticate,
        }
    }

    /// The header that answers.
    pub const fn credentials_header(self) -> HeaderName {
        match self {
            Self::Registrar => HeaderName::Authorization,
            Self::Proxy => HeaderName::ProxyAuthorization,
        }
    }
}

counters::counters! {
    /// What was counted since the start.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AuthCounters {
        /// Nonces issued.
        pub nonces: u64 = counter("signet_auth_nonces_total"),
        /// Credentials refused because they were used before.
        pub replays: u64 = counter("signet_auth_replays_total"),
        /// Good credentials refused because their nonce may have been forgotten.
        pub forgotten: u64 = counter("signet_auth_forgotten_total"),
        /// Nonces forgotten because too many were in use.
        pub replay_evictions: u64 = counter("signet_auth_replay_evictions_total"),
        /// Nonces in use.
        pub replay_entries: u64 = gauge("signet_auth_replay_entries"),
    }
}
