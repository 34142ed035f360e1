//! The server's side: who is it?

mod challenge;
mod given;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sip_msg::Message;
use sip_msg::header::AuthValue;
use smallvec::SmallVec;
use subtle::ConstantTimeEq;

use crate::config::{AuthConfig, AuthCounters, Side};
use crate::credentials::{self, JUDGED_MAX, Malformed};
use crate::hash::{self, Hex, Raw};
use crate::key::{CredentialKey, UserName};
use crate::nonce::{Nonce, NonceKey, TEXT_LEN};
use crate::replay::{Admission, ReplayWindow};
use crate::{Algorithm, DigestRequest, Failure, Ha1, Qop, Reply};

use given::Bad;

/// How far ahead of this shard's clock that of another may be, as of the one that issued a nonce:
/// shards read the clock once for each batch.
pub(crate) const CLOCK_SKEW_MS: u64 = 1_000;

/// What a request's credentials are worth before the store was asked.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and boxing it would allocate"
)]
pub enum Check {
    /// Answer 401 or 407 with [`Authenticator::add_challenge`]; `None` where there are no
    /// credentials for the realm.
    Challenge(Option<Failure>),
    /// Answer 400.
    Malformed(Malformed),
    /// Look up [`Pending::key`], with [`Pending::digest`], then
    /// [`Authenticator::finish`].
    Lookup(Pending),
}

/// A request that waits for its user's HA1. It owns all that is needed; the
/// message is not read again.
pub struct Pending {
    key: CredentialKey,
    nonce: Nonce,
    nc: u32,
    /// `None` for the form of RFC 2069.
    qop: Option<Qop>,
    /// `nonce:nc:cnonce:qop` as it came, or `nonce`: what stands between HA1 and HA2.
    between: SmallVec<[u8; 128]>,
    /// H(method:uri) or H(method:uri:H(body)).
    ha2: Raw,
    /// H(:uri) or H(:uri:H("")), where the answer is to be signed too.
    answer_ha2: Option<Raw>,
    response: Raw,
    /// The digest as it came, for a store that verifies it.
    digest: Option<Box<DigestRequest>>,
}

impl Pending {
    /// Whose HA1 is to be looked up.
    pub fn key(&self) -> &CredentialKey {
        &self.key
    }

    /// The digest as it came, where the store verifies it ([`AuthConfig::store_verifies`]):
    /// a copy for each question, since a store may have to be asked again.
    pub fn digest(&self) -> Option<Box<DigestRequest>> {
        self.digest.clone()
    }

    /// Tells the nonces of one process apart.
    pub const fn nonce_serial(&self) -> u64 {
        self.nonce.serial
    }

    /// The mark of its nonce, as it was given to [`Authenticator::add_challenge`].
    pub const fn nonce_mark(&self) -> u64 {
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

/// What an answer of the store makes of a request.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one goes back to where it came from, and boxing it would allocate"
)]
pub enum Verdict {
    /// He is who he says.
    Ok(Authenticated),
    /// Answer 401 or 407: unknown users and wrong passwords alike, and replays.
    Challenge(Failure),
    /// What a cache had does not match, or it had nothing: the store itself must be asked, and
    /// until it has answered nobody is told anything.
    AskAgain(Pending),
}

/// What became of a digest's comparison.
enum Compared<'a> {
    /// It is right, and this is what it was compared with, if that was done here.
    Right(Option<&'a Ha1>),
    Wrong(Failure),
    /// A cache had something else, or nothing.
    Outdated,
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

    /// [`Authenticator::check_from`] for a request whose source does not count.
    pub fn check(&self, unix_ms: u64, message: &Message, side: Side, realm: &Arc<str>) -> Check {
        self.check_from(unix_ms, message, side, realm, None)
    }

    /// Reads the credentials for `realm` of a request from `source`, and takes the first
    /// that are good in themselves. Keeps no state.
    ///
    /// Not for ACK and CANCEL: they cannot be challenged (RFC 3261 22.1), and
    /// an ACK repeats the credentials of its INVITE, nonce count and all.
    // RFC 3261 26.3.1: "Proxy servers, redirect servers, registrars, and UAs MUST implement Digest
    // Authorization, encompassing all of the aspects required in 22."
    pub fn check_from(
        &self,
        unix_ms: u64,
        message: &Message,
        side: Side,
        realm: &Arc<str>,
        source: Option<IpAddr>,
    ) -> Check {
        let mut bad = None;
        let is_ours = |given: AuthValue<'_>| given.is(realm.as_bytes());
        for found in credentials::all(message, side, is_ours).take(JUDGED_MAX) {
            let read = found.map_err(Bad::Malformed);
            match read.and_then(|read| self.read(unix_ms, message, realm, source, &read)) {
                Ok(pending) => return Check::Lookup(pending),
                Err(this) => bad = Some(this.or_before(bad)),
            }
        }
        match bad {
            None => Check::Challenge(None),
            Some(Bad::Refused(failure)) => Check::Challenge(Some(failure)),
            Some(Bad::Malformed(malformed)) => Check::Malformed(malformed),
        }
    }

    /// Verifies by what the store said. An unknown user costs as much as a known one. (A
    /// store that could not say is the caller's matter: 503.)
    pub fn finish(&self, unix_ms: u64, pending: Pending, reply: &Reply) -> Verdict {
        let ha1 = match self.compare(&pending, reply) {
            Compared::Right(ha1) => ha1,
            Compared::Wrong(failure) => return Verdict::Challenge(failure),
            Compared::Outdated => return Verdict::AskAgain(pending),
        };
        if !self.is_fresh(unix_ms, &pending.nonce) {
            return Verdict::Challenge(Failure::Stale);
        }
        match self
            .window
            .admit(unix_ms, &pending.nonce, &pending.key.user, pending.nc)
        {
            Admission::Admitted => {}
            // Without counts a phone uses its nonce again, as RFC 2069 has it: it is
            // given another each time.
            Admission::Replayed if pending.qop.is_none() => {
                return Verdict::Challenge(Failure::Stale);
            }
            // The digest was right, so the sender or somebody who listened to
            // him has the right password: a new nonce tells them apart.
            Admission::Replayed => return Verdict::Challenge(Failure::Replay),
            Admission::Forgotten => return Verdict::Challenge(Failure::Stale),
        }
        let info = match (ha1, &pending.answer_ha2) {
            (Some(ha1), Some(ha2)) => Some(self.authentication_info(unix_ms, &pending, ha1, ha2)),
            _ => None,
        };
        let CredentialKey { user, realm, .. } = pending.key;
        Verdict::Ok(Authenticated { user, realm, info })
    }

    /// Compares a digest with what the store said, and marks nothing as used.
    fn compare<'a>(&self, pending: &Pending, reply: &'a Reply) -> Compared<'a> {
        let algorithm = pending.key.algorithm;
        let known = match reply {
            Reply::Secret(ha1) | Reply::Cached(ha1) => Some(ha1),
            Reply::Unknown | Reply::NotCached => None,
            // Nobody's word is taken who was not given the digest.
            Reply::Verified(is_right) => {
                return match *is_right && self.config.store_verifies {
                    true => Compared::Right(None),
                    false => Compared::Wrong(Failure::WrongPassword),
                };
            }
        };
        let known = known.filter(|ha1| ha1.algorithm() == algorithm);
        // An unknown user's digest is computed all the same, against a secret
        // that nobody knows: the answer comes no sooner and looks no other.
        let dummy = Ha1::from_raw(algorithm, &self.dummy);
        let expected = pending.expected(known.unwrap_or(&dummy));
        let is_right = bool::from(expected.ct_eq(&pending.response));
        match (known, reply) {
            (Some(_), _) if is_right => Compared::Right(known),
            (_, Reply::Cached(_) | Reply::NotCached) => Compared::Outdated,
            (Some(_), _) => Compared::Wrong(Failure::WrongPassword),
            (None, _) => Compared::Wrong(Failure::UnknownUser),
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

    fn is_fresh(&self, unix_ms: u64, nonce: &Nonce) -> bool {
        nonce.node_id == self.config.node_id
            && nonce.boot_id == self.boot_id
            && nonce.issued_unix_ms <= unix_ms.saturating_add(CLOCK_SKEW_MS)
            && unix_ms.saturating_sub(nonce.issued_unix_ms) < self.config.nonce_lifetime_ms
    }

    fn authentication_info(
        &self,
        unix_ms: u64,
        pending: &Pending,
        ha1: &Ha1,
        ha2: &Raw,
    ) -> Box<[u8]> {
        // `between` is the nonce, eight digits of count, the client's nonce, the qop.
        let qop = pending.qop.map_or(&b""[..], |qop| qop.as_str().as_bytes());
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
            let body = body_digest(algorithm, body);
            hash::joined(algorithm, &[method, uri, body.as_bytes()])
        }
    }
}

/// H(body).
fn body_digest(algorithm: Algorithm, body: &[u8]) -> Hex {
    hex(algorithm, &hash::joined(algorithm, &[body]))
}

pub(crate) fn hex(algorithm: Algorithm, raw: &Raw) -> Hex {
    Hex::new(raw.get(..algorithm.digest_len()).unwrap_or_default())
}

#[cfg(test)]
mod tests;
