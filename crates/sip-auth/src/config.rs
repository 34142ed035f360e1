//! How users are challenged, by whom, and what came of it.

use std::net::IpAddr;

use sip_msg::HeaderName;

use crate::{Algorithm, Lenient};

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
    /// Phones of which less is asked; of several entries that fit the first counts.
    pub lenient: Vec<Lenient>,
    /// Whether `auth-int` is offered beside `auth`. It is accepted in any case.
    pub offer_auth_int: bool,
    /// Whether a successful answer can carry Authentication-Info (RFC 7616 3.5). It is left
    /// out where the store verifies, since only who has the HA1 can sign it.
    pub authentication_info: bool,
    /// Whether the store verifies digests by itself and gives no HA1 away (RFC 5090).
    pub store_verifies: bool,
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
            lenient: Vec::new(),
            offer_auth_int: false,
            authentication_info: false,
            store_verifies: false,
            nonce_lifetime_ms: 300_000,
            node_id: 0,
            replay_entries_max: 1 << 20,
        }
    }
}

/// None of the algorithms that are to be offered is one that the store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingToOffer {
    held: Vec<Algorithm>,
}

impl AuthConfig {
    /// The algorithm that a user has an HA1 for if he has any: the one that is preferred
    /// least, and is there for those who have no other.
    pub fn commonest(&self) -> Algorithm {
        self.algorithms.last().copied().unwrap_or(Algorithm::Md5)
    }

    /// What is asked of a phone at that address that gives that user's name, where that is
    /// less than what is asked of all.
    pub fn lenient_for(&self, source: Option<IpAddr>, user: &[u8]) -> Option<&Lenient> {
        self.lenient.iter().find(|entry| entry.is_for(source, user))
    }

    /// Every algorithm that is accepted from somebody.
    pub fn accepted(&self) -> impl Iterator<Item = Algorithm> {
        let is_accepted = move |algorithm: &Algorithm| {
            let mut lenient = self.lenient.iter();
            self.algorithms.contains(algorithm)
                || lenient.any(|entry| entry.algorithms.contains(algorithm))
        };
        Algorithm::ALL.into_iter().filter(is_accepted)
    }

    /// Keeps those of the algorithms that the store holds, in their order: a phone that is
    /// offered another would be refused with the right password.
    pub fn keep_held(&mut self, held: &[Algorithm]) -> Result<(), NothingToOffer> {
        self.algorithms.retain(|algorithm| held.contains(algorithm));
        for entry in &mut self.lenient {
            entry.algorithms.retain(|of| held.contains(of));
        }
        match self.algorithms.is_empty() {
            true => Err(NothingToOffer {
                held: held.to_vec(),
            }),
            false => Ok(()),
        }
    }
}

impl std::fmt::Display for NothingToOffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held: Vec<&str> = self.held.iter().map(|of| of.as_str()).collect();
        match held.is_empty() {
            true => f.write_str("the store holds no digests at all"),
            false => write!(
                f,
                "the store holds digests for {} alone, and none of these is offered",
                held.join(" and ")
            ),
        }
    }
}

impl std::error::Error for NothingToOffer {}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_store_holds_is_offered_and_nothing_is_an_error() {
        use Algorithm::{Md5, Sha256, Sha512_256};
        for (configured, held, offered) in [
            (&[Sha256, Md5][..], &[Md5][..], &[Md5][..]),
            (&[Sha256, Md5], &[Md5, Sha512_256, Sha256], &[Sha256, Md5]),
            (&[Sha256], &[Md5], &[]),
            (&[Sha256], &[], &[]),
        ] {
            let mut config = AuthConfig {
                algorithms: configured.to_vec(),
                ..AuthConfig::default()
            };
            let kept = config.keep_held(held);
            assert_eq!(kept.is_ok(), !offered.is_empty());
            assert_eq!(config.algorithms, offered);
        }
        let said = AuthConfig {
            algorithms: vec![Sha256],
            ..AuthConfig::default()
        }
        .keep_held(&[Md5]);
        let said = said.map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("MD5 alone")));
    }
}
