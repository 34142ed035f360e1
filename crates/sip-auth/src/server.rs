//! The server's side: who is it?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sip_msg::{Message, MessageWriter, Uri};
use smallvec::SmallVec;
use subtle::ConstantTimeEq;

use crate::config::{AuthConfig, AuthCounters, Side};
use crate::credentials::{self, CNONCE_MAX, Credentials, Malformed, USERNAME_MAX};
use crate::hash::{self, Hex, Raw};
use crate::key::{CredentialKey, UserName};
use crate::nonce::{Nonce, NonceKey, TEXT_LEN};
use crate::replay::{Admission, ReplayWindow};
use crate::{Algorithm, Ha1, Qop};

/// How far ahead of this shard's clock the one that issued a nonce may be:
/// shards read the clock once for each batch.
const CLOCK_SKEW_MS: u64 = 1_000;

/// What a request's credentials are worth before the store was asked.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and boxing it would allocate"
)]
pub enum Check {
    /// Answer 401 or 407 with [`Authenticator::add_challenge`].
    Challenge {
        /// Whether the user's credentials may be good and only the nonce is not.
        stale: bool,
    },
    /// Answer 400.
    Malformed(Malformed),
    /// Look up [`Pending::key`], then [`Authenticator::finish`].
    Lookup(Pending),
}

/// A request that waits for its user's HA1. It owns all that is needed; the
/// message is not read again.
pub struct Pending {
    key: CredentialKey,
    nonce: Nonce,
    nc: u32,
    qop: Qop,
    /// `nonce:nc:cnonce:qop` as it came: what stands between HA1 and HA2.
    between: SmallVec<[u8; 128]>,
    /// H(method:uri) or H(method:uri:H(body)).
    ha2: Raw,
    /// H(:uri) or H(:uri:H("")), where the answer is to be signed too.
    answer_ha2: Option<Raw>,
    response: Raw,
}

impl Pending {
    /// Whose HA1 is to be looked up.
    pub fn key(&self) -> &CredentialKey {
        &self.key
    }

    /// Tells the nonces of one process apart.
    pub const fn nonce_serial(&self) -> u64 {
        self.nonce.serial
    }

    /// The mark of its nonce, as it was given to [`Authenticator::add_challenge`].
    pub const fn nonce_mark(&self) -> u16 {
        self.nonce.mark
    }

    fn expected(&self, ha1: &Ha1) -> Raw {
        self.keyed(ha1, &self.ha2)
    }

    /// KD(H(A1), between ":" H(A2)) (RFC 7616 3.4.1).
    fn keyed(&self, ha1: &Ha1, ha2: &Raw) -> Raw {
        let algorithm = self.key.algorithm;
        let ha2 = hex(algorithm, ha2);
        hash::joined(
            algorithm,
            &[ha1.hex().as_bytes(), &self.between, ha2.as_bytes()],
        )
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pending({:?})", self.key)
    }
}

/// Proof that the sender of a request knows the password of `user` in
/// `realm`. Only [`Authenticator::finish`] makes one.
#[derive(Clone, Debug)]
pub struct Authenticated {
    user: UserName,
    realm: Arc<str>,
    info: Option<Box<[u8]>>,
}

impl Authenticated {
    /// The user's name, unescaped, as it is stored.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// The realm.
    pub fn realm(&self) -> &Arc<str> {
        &self.realm
    }

    /// Appends the value of an Authentication-Info header for a 2xx without a
    /// body (RFC 7616 3.5); false, and nothing written, where it is not
    /// configured.
    pub fn write_authentication_info(&self, out: &mut Vec<u8>) -> bool {
        let Some(info) = &self.info else { return false };
        out.extend_from_slice(info);
        true
    }
}

/// The end of an authentication.
#[derive(Debug)]
pub enum Verdict {
    /// He is who he says.
    Ok(Authenticated),
    /// Answer 401 or 407: unknown users and wrong passwords alike, and replays.
    Challenge {
        /// Whether only the nonce, or its count, was not good.
        stale: bool,
    },
}

/// Digest authentication, shared by all shards.
pub struct Authenticator {
    config: AuthConfig,
    key: NonceKey,
    boot_id: u32,
    serial: AtomicU64,
    window: ReplayWindow,
    /// What an unknown user's digest is compared with.
    dummy: Raw,
}

impl Authenticator {
    /// `nonce_key` is the node's secret. `boot_id` is random and new in each
    /// process, so that a nonce of the process before is told apart even
    /// where the clock was set back.
    pub fn new(config: AuthConfig, nonce_key: &[u8; 32], boot_id: u32) -> Self {
        let key = NonceKey::new(nonce_key);
        let [
            fingerprint_key @ ..,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
        ] = key.derive(b"replay window");
        Self {
            window: ReplayWindow::new(
                config.replay_entries_max,
                config.nonce_lifetime_ms,
                fingerprint_key,
            ),
            dummy: key.derive(b"unknown user"),
            config,
            key,
            boot_id,
            serial: AtomicU64::new(0),
        }
    }

    /// How users are challenged.
    pub fn config(&self) -> &AuthConfig {
        &self.config
    }

    /// Reads the credentials for `realm`. Keeps no state.
    ///
    /// Not for ACK and CANCEL: they cannot be challenged (RFC 3261 22.1), and
    /// an ACK repeats the credentials of its INVITE, nonce count and all.
    // RFC 3261 26.3.1: "Proxy servers, redirect servers, registrars, and UAs MUST implement Digest
    // Authorization, encompassing all of the aspects required in 22."
    pub fn check(&self, unix_ms: u64, message: &Message, side: Side, realm: &Arc<str>) -> Check {
        match credentials::find(message, side, realm) {
            Ok(None) => Check::Challenge { stale: false },
            Ok(Some(credentials)) => self
                .read(unix_ms, message, realm, &credentials)
                .unwrap_or_else(Check::Malformed),
            Err(malformed) => Check::Malformed(malformed),
        }
    }

    /// Verifies against what the store said; `None` for an unknown user, which
    /// costs as much. (A store that could not say is the caller's matter: 503.)
    pub fn finish(&self, unix_ms: u64, pending: Pending, answer: Option<&Ha1>) -> Verdict {
        let algorithm = pending.key.algorithm;
        // An unknown user's digest is computed all the same, against a secret
        // that nobody knows: the answer comes no sooner and looks no other.
        let dummy = Ha1::from_raw(algorithm, &self.dummy);
        let known = answer.filter(|ha1| ha1.algorithm() == algorithm);
        let ha1 = known.unwrap_or(&dummy);
        let is_right = bool::from(pending.expected(ha1).ct_eq(&pending.response));
        if !is_right || known.is_none() {
            return Verdict::Challenge { stale: false };
        }
        if !self.is_fresh(unix_ms, &pending.nonce) {
            return Verdict::Challenge { stale: true };
        }
        match self
            .window
            .admit(unix_ms, &pending.nonce, &pending.key.user, pending.nc)
        {
            Admission::Admitted => {}
            // The digest was right, so the sender or somebody who listened to
            // him has the right password: a new nonce tells them apart.
            Admission::Replayed | Admission::Forgotten => {
                return Verdict::Challenge { stale: true };
            }
        }
        let info = pending
            .answer_ha2
            .map(|ha2| self.authentication_info(unix_ms, &pending, ha1, &ha2));
        let CredentialKey { user, realm, .. } = pending.key;
        Verdict::Ok(Authenticated { user, realm, info })
    }

    /// Adds one challenge for each algorithm, most preferred first; for a
    /// user agent of [`AuthConfig::md5_only_agents`] only the one that it bears.
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
        mark: u16,
        user_agent: &[u8],
        writer: &mut MessageWriter<'_>,
    ) {
        let nonce = self.new_nonce(unix_ms, realm, mark);
        // RFC 3261 22.2: "The WWW-Authenticate response-header field MUST be included in 401
        // (Unauthorized) response messages."
        // RFC 3261 22.3: "The proxy MUST populate the 407 (Proxy Authentication Required) message with
        // a Proxy-Authenticate header field value applicable to the proxy for the requested resource."
        for &algorithm in self.offered(user_agent) {
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

    /// The counters.
    pub fn counters(&self) -> AuthCounters {
        let window = self.window.counters();
        AuthCounters {
            nonces: self.serial.load(Ordering::Relaxed),
            replays: window.replayed,
            forgotten: window.forgotten,
            replay_evictions: window.evicted,
            replay_entries: window.entries,
        }
    }

    fn read(
        &self,
        unix_ms: u64,
        message: &Message,
        realm: &Arc<str>,
        credentials: &Credentials<'_>,
    ) -> Result<Check, Malformed> {
        const CHALLENGE: Check = Check::Challenge { stale: false };
        let malformed = |reason| Malformed { reason };
        let algorithm = match credentials.algorithm {
            // RFC 7616 3.3: a challenge, and so an answer, without one means MD5.
            None => Some(Algorithm::Md5),
            Some(token) => Algorithm::from_token(token.raw),
        };
        let Some(algorithm) = algorithm.filter(|a| self.config.algorithms.contains(a)) else {
            return Ok(CHALLENGE);
        };
        let username = credentials
            .username
            .ok_or(malformed("Digest Username Missing"))?;
        let nonce_text = credentials.nonce.ok_or(malformed("Digest Nonce Missing"))?;
        let uri = credentials.uri.ok_or(malformed("Digest URI Missing"))?;
        let response = credentials
            .response
            .ok_or(malformed("Digest Response Missing"))?;
        if credentials
            .userhash
            .is_some_and(|hashed| hashed.raw.eq_ignore_ascii_case(b"true"))
        {
            return Err(malformed("Digest Userhash Was Not Offered"));
        }
        let qop = match credentials.qop {
            // RFC 3261 22.4: "These mechanisms MUST be used by a server to determine if the client
            // supports the new mechanisms in RFC 2617 that were not specified in RFC 2069."
            // Without qop there is no nonce count, and so no guard against
            // replay: the form of RFC 2069 is not good enough.
            None => return Ok(CHALLENGE),
            Some(qop) => {
                Qop::from_token(qop.raw).ok_or(malformed("Digest Quality Of Protection Unknown"))?
            }
        };
        let nc_text = credentials
            .nc
            .ok_or(malformed("Digest Nonce Count Missing"))?;
        let cnonce = credentials
            .cnonce
            .ok_or(malformed("Digest Client Nonce Missing"))?;
        let nc = hash::unhex_u32(nc_text.raw).ok_or(malformed("Digest Nonce Count Malformed"))?;
        if cnonce.raw.len() > CNONCE_MAX {
            return Err(malformed("Digest Client Nonce Too Long"));
        }
        let response = hash::unhex(response.raw, algorithm.digest_len())
            .ok_or(malformed("Digest Response Malformed"))?;
        // The bound is on the name: the backslashes before quotes in it do not count.
        if username.raw.len() > USERNAME_MAX && username.bytes().nth(USERNAME_MAX).is_some() {
            return Err(malformed("Digest Username Too Long"));
        }
        // RFC 7616 3.4.6: the uri and the Request-URI must name the same
        // resource, or credentials for one request would serve for another.
        if !is_same_uri(uri.raw, message) {
            return Err(malformed("Digest URI Is Not The Request-URI"));
        }
        let Some(nonce) = self.key.verify(nonce_text.raw, realm) else {
            return Ok(CHALLENGE);
        };
        if !self.is_fresh(unix_ms, &nonce) {
            return Ok(Check::Challenge { stale: true });
        }
        let mut between = SmallVec::new();
        for (at, part) in [
            nonce_text.raw,
            nc_text.raw,
            cnonce.raw,
            qop.as_str().as_bytes(),
        ]
        .into_iter()
        .enumerate()
        {
            if at > 0 {
                between.push(b':');
            }
            between.extend_from_slice(part);
        }
        let answer_ha2 = self
            .config
            .authentication_info
            .then(|| ha2(algorithm, qop, b"", uri.raw, b""));
        Ok(Check::Lookup(Pending {
            key: CredentialKey {
                user: username.bytes().collect(),
                realm: realm.clone(),
                algorithm,
            },
            nonce,
            nc,
            qop,
            between,
            ha2: ha2(
                algorithm,
                qop,
                message.method_token(),
                uri.raw,
                message.body(),
            ),
            answer_ha2,
            response,
        }))
    }

    fn is_fresh(&self, unix_ms: u64, nonce: &Nonce) -> bool {
        nonce.node_id == self.config.node_id
            && nonce.boot_id == self.boot_id
            && nonce.issued_unix_ms <= unix_ms.saturating_add(CLOCK_SKEW_MS)
            && unix_ms.saturating_sub(nonce.issued_unix_ms) < self.config.nonce_lifetime_ms
    }

    fn new_nonce(&self, unix_ms: u64, realm: &str, mark: u16) -> [u8; TEXT_LEN] {
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
    fn offered(&self, user_agent: &[u8]) -> &[Algorithm] {
        let only_md5 = |agents: &[String]| {
            agents
                .iter()
                .any(|prefix| user_agent.starts_with(prefix.as_bytes()))
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

    fn authentication_info(
        &self,
        unix_ms: u64,
        pending: &Pending,
        ha1: &Ha1,
        ha2: &Raw,
    ) -> Box<[u8]> {
        // `between` is the nonce, eight digits of count, the client's nonce, the qop.
        let qop = pending.qop.as_str().as_bytes();
        let cnonce_start = TEXT_LEN + 1 + 8 + 1;
        let cnonce_end = pending.between.len().saturating_sub(1 + qop.len());
        let nc = pending
            .between
            .get(TEXT_LEN + 1..cnonce_start - 1)
            .unwrap_or_default();
        let cnonce = pending
            .between
            .get(cnonce_start..cnonce_end)
            .unwrap_or_default();
        let rspauth = hex(pending.key.algorithm, &pending.keyed(ha1, ha2));
        let mut out = Vec::with_capacity(256);
        let age_ms = unix_ms.saturating_sub(pending.nonce.issued_unix_ms);
        if age_ms >= self.config.nonce_lifetime_ms / 2 {
            out.extend_from_slice(b"nextnonce=\"");
            out.extend_from_slice(&self.new_nonce(unix_ms, &pending.key.realm, pending.nonce.mark));
            out.extend_from_slice(b"\", ");
        }
        for (name, value) in [
            (&b"qop="[..], qop),
            (b", rspauth=\"", rspauth.as_bytes()),
            (b"\", cnonce=\"", cnonce),
            (b"\", nc=", nc),
        ] {
            out.extend_from_slice(name);
            out.extend_from_slice(value);
        }
        out.into_boxed_slice()
    }
}

/// H(A2) (RFC 7616 3.4.3).
pub(crate) fn ha2(algorithm: Algorithm, qop: Qop, method: &[u8], uri: &[u8], body: &[u8]) -> Raw {
    match qop {
        Qop::Auth => hash::joined(algorithm, &[method, uri]),
        Qop::AuthInt => {
            let body = hex(algorithm, &hash::joined(algorithm, &[body]));
            hash::joined(algorithm, &[method, uri, body.as_bytes()])
        }
    }
}

pub(crate) fn hex(algorithm: Algorithm, raw: &Raw) -> Hex {
    Hex::new(raw.get(..algorithm.digest_len()).unwrap_or_default())
}

fn is_same_uri(given: &[u8], message: &Message) -> bool {
    if given == message.request_uri() {
        return true;
    }
    match (Uri::parse(given), message.uri()) {
        (Some(given), Ok(uri)) => given.equals(&uri),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
