//! Challenges: what a sender without good credentials is asked for.

use std::sync::atomic::Ordering;

use sip_msg::MessageWriter;

use super::Authenticator;
use crate::Algorithm;
use crate::config::Side;
use crate::lenient::Claimant;
use crate::nonce::{Nonce, TEXT_LEN};

impl Authenticator {
    /// Adds one challenge for each algorithm, most preferred first: those of the entry of
    /// [`AuthConfig::lenient`](crate::AuthConfig::lenient) that is for the claimant; for a
    /// user agent of [`AuthConfig::md5_only_agents`](crate::AuthConfig::md5_only_agents)
    /// only the one that it bears.
    /// The nonce bears `mark`, by which [`Pending::nonce_mark`] tells where it was sent.
    #[allow(
        clippy::too_many_arguments,
        reason = "each is one part of the challenge, and all callers have all"
    )]
    pub fn add_challenge(
        &self,
        unix_ms: u64,
        side: Side,
        realm: &str,
        stale: bool,
        mark: u64,
        claimant: &Claimant<'_>,
        writer: &mut MessageWriter<'_>,
    ) {
        let nonce = self.new_nonce(unix_ms, realm, mark);
        // RFC 3261 22.2: "The WWW-Authenticate response-header field MUST be included in 401
        // (Unauthorized) response messages."
        // RFC 3261 22.3: "The proxy MUST populate the 407 (Proxy Authentication Required) message with
        // a Proxy-Authenticate header field value applicable to the proxy for the requested resource."
        for &algorithm in self.offered(claimant) {
            writer.header_with(side.challenge_header().as_str(), |out| {
                self.write_challenge_value(algorithm, realm, &nonce, stale, out);
            });
        }
    }

    /// Like [`Authenticator::add_challenge`] for a user agent that is not named,
    /// as header lines with their line ends.
    pub fn write_challenge(
        &self,
        unix_ms: u64,
        side: Side,
        realm: &str,
        stale: bool,
        out: &mut Vec<u8>,
    ) {
        let nonce = self.new_nonce(unix_ms, realm, 0);
        for &algorithm in &self.config.algorithms {
            out.extend_from_slice(side.challenge_header().as_str().as_bytes());
            out.extend_from_slice(b": ");
            self.write_challenge_value(algorithm, realm, &nonce, stale, out);
            out.extend_from_slice(b"\r\n");
        }
    }

    pub(super) fn new_nonce(&self, unix_ms: u64, realm: &str, mark: u64) -> [u8; TEXT_LEN] {
        let nonce = Nonce {
            issued_unix_ms: unix_ms,
            node_id: self.config.node_id,
            boot_id: self.boot_id,
            mark,
            // Above the watermark with which the replay window begins.
            serial: self.serial.fetch_add(1, Ordering::Relaxed) + 1,
        };
        self.key.sign(&nonce, realm)
    }

    /// What a user agent is offered. Who offers MD5 to everybody loses nothing
    /// by offering nothing else to a phone that says it cannot do more.
    fn offered(&self, claimant: &Claimant<'_>) -> &[Algorithm] {
        let lenient = self.config.lenient_for(claimant.source, claimant.user);
        if let Some(entry) = lenient.filter(|entry| !entry.algorithms.is_empty()) {
            return &entry.algorithms;
        }
        let only_md5 = |agents: &[String]| {
            agents
                .iter()
                .any(|prefix| claimant.user_agent.starts_with(prefix.as_bytes()))
        };
        let algorithms = &self.config.algorithms;
        match algorithms.iter().position(|a| *a == Algorithm::Md5) {
            Some(md5) if only_md5(&self.config.md5_only_agents) => {
                algorithms.get(md5..=md5).unwrap_or(algorithms)
            }
            _ => algorithms,
        }
    }

    fn write_challenge_value(
        &self,
        algorithm: Algorithm,
        realm: &str,
        nonce: &[u8],
        stale: bool,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"Digest realm=\"");
        crate::write_quoted(realm.as_bytes(), out);
        out.extend_from_slice(b"\", nonce=\"");
        out.extend_from_slice(nonce);
        out.extend_from_slice(b"\", algorithm=");
        out.extend_from_slice(algorithm.as_str().as_bytes());
        // RFC 3261 22.4: "However, servers MUST always send a "qop" parameter in WWW-Authenticate and
        // Proxy-Authenticate header field values."
        out.extend_from_slice(if self.config.offer_auth_int {
            b", qop=\"auth,auth-int\""
        } else {
            b", qop=\"auth\""
        });
        if stale {
            out.extend_from_slice(b", stale=true");
        }
    }
}
