//! The sessions that a server remembers, or seals into tickets.
//!
//! A session of a client that showed a certificate is no proof for ever: with
//! each session goes the place of the certificates in it, and before it is
//! resumed they are verified again, as of now. If they fail, the session is
//! not found, and a full handshake follows in which the client is told why.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{ProducesTickets, StoresServerSessions};
use zeroize::Zeroizing;

use crate::context::{Context, current};
use crate::fault::CertificateFault;
use crate::resumption::Resumption;
use crate::tickets::TicketKeys;
use crate::verify::ClientVerifier;

/// How long a session in the cache may be resumed.
const SESSION_LIFETIME_S: u64 = 6 * 3_600;
/// The longest session that is kept in the cache. With a client's chain of usual length it
/// has a few thousand bytes; one with a longer chain is not resumed by its id.
const SESSION_BYTES_MAX: usize = 16 * 1024;
/// Parts of the cache, each with its own lock.
const PARTS: usize = 16;
/// Certificates of one chain whose places are kept.
const CHAIN_MAX: usize = 16;

/// Sessions of TLS 1.2 for clients without tickets, by their id. Cheap to
/// clone; all clones are one cache.
#[derive(Clone)]
pub struct SessionCache {
    parts: Arc<[Mutex<Part>; PARTS]>,
    part_max: usize,
}

#[derive(Default)]
struct Part {
    sessions: HashMap<Vec<u8>, Zeroizing<Vec<u8>>>,
    order: VecDeque<Vec<u8>>,
}

impl SessionCache {
    /// A cache for this many sessions; past it the oldest are forgotten.
    pub fn new(sessions_max: usize) -> Self {
        Self {
            parts: Arc::default(),
            part_max: sessions_max.div_ceil(PARTS).max(1),
        }
    }

    /// Sessions in it.
    pub fn len(&self) -> usize {
        self.parts
            .iter()
            .map(|part| lock(part).sessions.len())
            .sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn part(&self, id: &[u8]) -> Option<&Mutex<Part>> {
        // Ids are our own random bytes; a stranger's only looks in vain.
        let last = id.last().copied().unwrap_or(0);
        self.parts.get(usize::from(last) % PARTS)
    }

    fn put(&self, id: Vec<u8>, session: Zeroizing<Vec<u8>>) {
        let Some(part) = self.part(&id) else { return };
        let mut part = lock(part);
        if part.sessions.insert(id.clone(), session).is_none() {
            part.order.push_back(id);
        }
        while part.sessions.len() > self.part_max
            && let Some(oldest) = part.order.pop_front()
        {
            part.sessions.remove(&oldest);
        }
    }

    fn get(&self, id: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        lock(self.part(id)?).sessions.get(id).cloned()
    }
}

fn lock(part: &Mutex<Part>) -> std::sync::MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

// Secrets are inside: nothing of them is shown.
impl std::fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionCache")
            .field("sessions", &self.len())
            .finish_non_exhaustive()
    }
}

/// What decides whether a session may be resumed at a listener.
pub(crate) struct Gate {
    /// Sessions of one scope are not resumed in another: a listener that asks
    /// for certificates must not take a session of one that does not.
    pub(crate) scope: [u8; 32],
    pub(crate) verifier: Option<Arc<ClientVerifier>>,
}

impl Gate {
    /// Looks at a session once more; gives what the library stored.
    fn pass(&self, session: &Session<'_>, how: Resumption) -> Option<Vec<u8>> {
        let mut not_after_unix_s = None;
        let mut chain = Vec::new();
        if let Some(verifier) = &self.verifier {
            chain.extend(
                session
                    .chain()
                    .map(|certificate| CertificateDer::from(certificate.to_vec())),
            );
            if !chain.is_empty() && !current(Context::may_verify_chain) {
                return None;
            }
            match verifier.check(&chain, UnixTime::now()) {
                Ok(end) => not_after_unix_s = (!chain.is_empty()).then_some(end),
                Err(fault) => {
                    current(|context| context.refused = Some(fault));
                    return None;
                }
            }
        }
        current(|context| {
            context.chain = chain;
            context.not_after_unix_s = not_after_unix_s;
            context.found = Some(how);
        });
        Some(session.inner.to_vec())
    }
}

/// A session as it is stored: when it ends, where in it the certificates of
/// the client are, and the bytes of the library.
struct Session<'a> {
    expires_unix_s: u64,
    places: &'a [u8],
    inner: &'a [u8],
}

/// Bytes of a certificate's place: where it begins, and how long it is.
const PLACE_BYTES: usize = 8;

impl<'a> Session<'a> {
    /// Wraps what the library stores. `None` if the client's certificates are
    /// not in it as they came: then they could not be verified again.
    fn wrap(
        inner: &[u8],
        lifetime_s: u64,
        now_unix_s: u64,
        context: &Context,
    ) -> Option<Zeroizing<Vec<u8>>> {
        if context.chain.len() > CHAIN_MAX {
            return None;
        }
        // RFC 5280 4.1.2.5: a certificate is valid up to notAfter, inclusive;
        // past it what was proved by it is proved no longer.
        let expires_unix_s = (now_unix_s + lifetime_s).min(
            context
                .not_after_unix_s
                .map_or(u64::MAX, |end| end.saturating_add(1)),
        );
        let mut out = Zeroizing::new(Vec::with_capacity(
            9 + context.chain.len() * PLACE_BYTES + inner.len(),
        ));
        out.extend_from_slice(&expires_unix_s.to_be_bytes());
        out.push(u8::try_from(context.chain.len()).ok()?);
        let mut from = 0;
        for certificate in &context.chain {
            let place = from + find(inner.get(from..)?, certificate)?;
            out.extend_from_slice(&u32::try_from(place).ok()?.to_be_bytes());
            out.extend_from_slice(&u32::try_from(certificate.len()).ok()?.to_be_bytes());
            from = place + certificate.len();
        }
        out.extend_from_slice(inner);
        Some(out)
    }

    fn unwrap(stored: &'a [u8]) -> Option<Self> {
        let (expires, rest) = stored.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first()?;
        let (places, inner) = rest.split_at_checked(usize::from(*count) * PLACE_BYTES)?;
        Some(Self {
            expires_unix_s: u64::from_be_bytes(*expires),
            places,
            inner,
        })
    }

    fn chain(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.places.chunks_exact(PLACE_BYTES).filter_map(|place| {
            let number = |at: usize| -> Option<usize> {
                let bytes = place.get(at..at + 4)?.try_into().ok()?;
                usize::try_from(u32::from_be_bytes(bytes)).ok()
            };
            let (from, len) = (number(0)?, number(4)?);
            self.inner.get(from..from.checked_add(len)?)
        })
    }
}

/// Where `what` begins in `within`.
fn find(within: &[u8], what: &[u8]) -> Option<usize> {
    within
        .windows(what.len().max(1))
        .position(|window| window == what)
}

/// Seals sessions into tickets and opens them.
pub(crate) struct Ticketer {
    pub(crate) keys: TicketKeys,
    pub(crate) gate: Arc<Gate>,
}

impl Ticketer {
    /// Whether a ticket is one of ours and still good, its certificate aside.
    pub(crate) fn knows(&self, ticket: &[u8]) -> bool {
        let now = UnixTime::now().as_secs();
        self.keys
            .open(now, &self.gate.scope, ticket)
            .is_some_and(|stored| {
                Session::unwrap(&stored).is_some_and(|session| now < session.expires_unix_s)
            })
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.keys.lifetime_s()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let now = UnixTime::now().as_secs();
        let lifetime_s = u64::from(self.keys.lifetime_s());
        let stored = current(|context| Session::wrap(plain, lifetime_s, now, context))?;
        self.keys.seal(now, &self.gate.scope, &stored)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let now = UnixTime::now().as_secs();
        let stored = self.keys.open(now, &self.gate.scope, cipher)?;
        let session = Session::unwrap(&stored)?;
        if now >= session.expires_unix_s {
            return None;
        }
        self.gate.pass(&session, Resumption::Ticket)
    }
}

impl std::fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticketer").finish_non_exhaustive()
    }
}

/// The cache as one listener sees it.
pub(crate) struct Sessions {
    pub(crate) cache: SessionCache,
    pub(crate) gate: Arc<Gate>,
}

impl Sessions {
    /// Whether there is a session with this id that is still good, its
    /// certificate aside.
    pub(crate) fn knows(&self, id: &[u8]) -> bool {
        let now = UnixTime::now().as_secs();
        self.cache.get(&self.key(id)).is_some_and(|stored| {
            Session::unwrap(&stored).is_some_and(|session| now < session.expires_unix_s)
        })
    }

    fn key(&self, id: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.gate.scope.len() + id.len());
        key.extend_from_slice(&self.gate.scope);
        key.extend_from_slice(id);
        key
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        let value = Zeroizing::new(value);
        let now = UnixTime::now().as_secs();
        let stored = current(|context| Session::wrap(&value, SESSION_LIFETIME_S, now, context));
        match stored.filter(|stored| stored.len() <= SESSION_BYTES_MAX) {
            Some(stored) => {
                self.cache.put(self.key(&id), stored);
                true
            }
            None => false,
        }
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let stored = self.cache.get(&self.key(id))?;
        let session = Session::unwrap(&stored)?;
        if UnixTime::now().as_secs() >= session.expires_unix_s {
            return None;
        }
        self.gate.pass(&session, Resumption::SessionId)
    }

    /// Sessions with an id may be resumed many times; what may be resumed once
    /// are stateful tickets of TLS 1.3, which are not issued.
    fn take(&self, _id: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// Whether a session that was resumed without passing the gate may go on: it
/// cannot happen, and must not.
pub(crate) fn check_resumed(
    gate: &Gate,
    chain: &[CertificateDer<'_>],
) -> Result<(), CertificateFault> {
    match &gate.verifier {
        Some(verifier) => verifier.check(chain, UnixTime::now()).map(|_| ()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Trust;

    fn context(chain: &[&'static [u8]], end: Option<u64>) -> Context {
        Context {
            chain: chain.iter().map(|der| CertificateDer::from(*der)).collect(),
            not_after_unix_s: end,
            ..Context::default()
        }
    }

    #[test]
    fn certificates_are_found_again_where_they_lie() {
        let with = context(&[b"leaf", b"issuer"], None);
        let stored = Session::wrap(b"..leaf..issuer..", 100, 1_000, &with).unwrap();
        let session = Session::unwrap(&stored).unwrap();
        assert_eq!(session.expires_unix_s, 1_100);
        assert_eq!(session.inner, b"..leaf..issuer..");
        assert!(session.chain().eq([&b"leaf"[..], b"issuer"]));
        // In another form they could not be verified again.
        assert!(Session::wrap(b"..le..af..issuer", 100, 1_000, &with).is_none());
        assert!(Session::wrap(b"..issuer..leaf..", 100, 1_000, &with).is_none());
    }

    #[test]
    fn a_session_does_not_outlive_the_certificate() {
        for (end, expires) in [(Some(1_050), 1_051), (Some(2_000), 1_100), (None, 1_100)] {
            let with = context(&[b"leaf"], end);
            let stored = Session::wrap(b"leaf", 100, 1_000, &with).unwrap();
            assert_eq!(Session::unwrap(&stored).unwrap().expires_unix_s, expires);
        }
    }

    #[test]
    fn a_session_is_good_until_its_end_and_in_its_scope_alone() {
        let now = UnixTime::now().as_secs();
        let keys = TicketKeys::random().unwrap();
        let cache = SessionCache::new(64);
        let gate = |scope: u8| {
            Arc::new(Gate {
                scope: [scope; 32],
                verifier: None,
            })
        };
        let ticketer_of = |scope| Ticketer {
            keys: keys.clone(),
            gate: gate(scope),
        };
        let sessions_of = |scope| Sessions {
            cache: cache.clone(),
            gate: gate(scope),
        };
        for (end, is_good) in [(now + 1_000, true), (now, false), (now - 1, false)] {
            let stored = Session::wrap(b"session", 0, end, &context(&[], None)).unwrap();
            let ticket = keys.seal(now, &[1; 32], &stored).unwrap();
            let id = end.to_be_bytes();
            cache.put(sessions_of(1).key(&id), stored);
            for scope in [1, 2] {
                let is_found = is_good && scope == 1;
                let (ticketer, sessions) = (ticketer_of(scope), sessions_of(scope));
                assert_eq!(ticketer.knows(&ticket), is_found, "{end} {scope}");
                assert_eq!(ticketer.decrypt(&ticket).is_some(), is_found);
                assert_eq!(sessions.knows(&id), is_found, "{end} {scope}");
                assert_eq!(sessions.get(&id).is_some(), is_found);
            }
        }
    }

    #[test]
    fn what_is_no_session_is_none() {
        assert!(Session::unwrap(b"").is_none());
        assert!(Session::unwrap(&[0; 8]).is_none());
        assert!(Session::unwrap(&[0, 0, 0, 0, 0, 0, 0, 0, 200, 1, 2]).is_none());
        let wild = [
            0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 7,
        ];
        assert_eq!(Session::unwrap(&wild).unwrap().chain().count(), 0);
    }

    #[test]
    fn the_cache_holds_no_more_than_it_may() {
        let cache = SessionCache::new(64);
        for number in 0..1_000u32 {
            cache.put(number.to_be_bytes().to_vec(), Zeroizing::new(vec![1]));
            assert!(cache.len() <= 64);
        }
        assert!(cache.get(&999u32.to_be_bytes()).is_some());
        assert!(cache.get(&0u32.to_be_bytes()).is_none());
        assert!(!cache.is_empty());
    }

    #[test]
    fn a_session_that_is_too_long_is_not_kept() {
        let sessions = Sessions {
            cache: SessionCache::new(64),
            gate: Arc::new(Gate {
                scope: [0; 32],
                verifier: None,
            }),
        };
        for (length, is_kept) in [
            (SESSION_BYTES_MAX - 9, true),
            (SESSION_BYTES_MAX - 8, false),
        ] {
            let id = length.to_be_bytes().to_vec();
            assert_eq!(sessions.put(id.clone(), vec![1; length]), is_kept);
            assert_eq!(sessions.get(&id).is_some(), is_kept);
        }
    }

    /// A client may offer as many sessions as fit into its hello.
    #[test]
    fn two_chains_of_stored_sessions_are_verified_for_a_handshake_and_no_more() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let verifier = ClientVerifier::new(Trust::default(), false, &provider);
        let gate = Gate {
            scope: [0; 32],
            verifier: Some(verifier),
        };
        let stored = Session::wrap(b"leaf", 100, 1_000, &context(&[b"leaf"], None)).unwrap();
        let session = Session::unwrap(&stored).unwrap();
        let mut handshake = Context::default();
        for is_verified in [true, true, false] {
            handshake.refused = None;
            let passed = handshake.within(|| gate.pass(&session, Resumption::Psk));
            assert!(passed.is_none());
            assert_eq!(handshake.refused.is_some(), is_verified);
        }
    }
}
