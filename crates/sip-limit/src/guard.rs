//! Who asks too much, and who guesses passwords.
//!
//! # Sources
//! A stranger is known by his address (of IPv6 the first 64 bits), apart for
//! datagrams, whose source can be forged, and streams, whose cannot. What is
//! refused him, by a challenge or otherwise, is his debt, and a challenge that
//! is answered well is forgiven: so users owe nothing, however many share one
//! address, and peers are not asked. Who owes too much is told 503 a few
//! times and then nothing for a while ([`Verdict`]). Meanwhile what may go on,
//! what bears credentials, and the flows of users who proved lately who they
//! are pass ([`Guard::is_shut`]): a forged source shuts nobody out who is in.
//!
//! # Guesses
//! A wrong password is a debt of three: the user at that source, the user, and the
//! source. Past the bound of one of them, no look-up is made for whoever it is
//! about, and the answer is the challenge that a wrong password gets: nobody
//! can tell. A flow by which the user proved himself lately is judged by
//! nothing but its own failures; a user who was seen at that source is not held up by
//! what others do there, or to him elsewhere. A nonce is good for
//! [`NONCE_FAILURES_MAX`] failures. And a failure is answered late, later each time.
//!
//! What is under way counts like what has failed, so that a burst gets no further; what
//! is beyond that waits until it has ended ([`LookUp::Later`]).
//!
//! Each nonce bears the mark of the place it was sent to ([`Guard::mark`]). Whoever
//! answers with one from there can be reached there: the challenge is forgiven, right or
//! wrong, and the refusal of his answer is another debt, past which answers to guesses
//! end and nothing else does. With a nonce from elsewhere the source may be forged:
//! nothing is forgiven, and a failure is on the account of where the nonce was sent.
//!
//! All is in tables of a fixed size ([`crate::debts`]), behind locks that are taken
//! for what is refused and for credentials, and for nothing else.

#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use siphasher::sip::SipHasher13;

use crate::striped::Striped;

/// Failures for which a nonce is good.
pub const NONCE_FAILURES_MAX: u64 = 3;
/// One unit of debt.
const ONE: u64 = 1_000;
/// Entries of each table of strangers and failures, and of known flows.
const ENTRIES_MAX: usize = 65_536;
const KNOWN_MAX: usize = 131_072;
/// Refusals in words for one source before silence.
const WORDS_MAX: u64 = 20;
/// Bytes that weigh as much as one more request.
const BYTES_PER_REQUEST: usize = 1_500;
/// How long a flow is known by which a user proved who he is, and how long a
/// user is known at a source: two of the longest usual registrations.
const KNOWN_MS: u64 = 2 * 3_600_000;
/// Failures of one user from anywhere, and of one source for anybody, past
/// which only who is known is looked up; and how many are forgotten a second.
const USER_FAILURES_MAX: u64 = 20;
const USER_FAILURES_PER_S: f64 = 0.2;
const SOURCE_FAILURES_MAX: u64 = 100;
const SOURCE_FAILURES_PER_S: f64 = 1.0;
/// Failures of one user at one source are forgotten one in so many seconds.
const PAIR_FAILURE_S: f64 = 20.0;
/// The first failure is answered at once, the second after this.
const DELAY_FIRST_MS: u64 = 250;
/// When a look-up that had no room is tried again.
pub const LATER_MS: u64 = 20;
/// A place that nobody gave back is free after so long.
const UNDER_WAY_S: f64 = 1.0;
/// One line of log for each subject in this time.
const TELL_MS: u64 = 1_000;

/// How much is too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Refusals of one source that are forgotten in a second; 0 is no limit.
    pub refusals_per_s: u32,
    /// Refusals of one source that are put up with.
    pub refusals_max: u32,
    /// How long a source is left without answers that asks for more.
    pub silence_ms: u64,
    /// Failures of one user at one source; 0 is no limit on guesses at all.
    pub failures_max: u32,
    /// The longest time before a failure is answered.
    pub delay_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            refusals_per_s: 100,
            refusals_max: 10_000,
            silence_ms: 30_000,
            failures_max: 5,
            delay_ms_max: 4_000,
        }
    }
}

/// What is to be done with a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it.
    Served,
    /// Send 503 with Retry-After in its place.
    TooMany,
    /// Send nothing.
    Silence,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How long its answer is to be held back.
    pub delay_ms: u64,
    /// Whether the operator is to be told.
    pub is_to_be_told: bool,
}

/// Whether credentials are looked up.
#[derive(Debug, PartialEq, Eq)]
pub enum LookUp {
    /// Yes; until it is over ([`Guard::looked_up`]) it counts like a failure.
    Now(Reserved),
    /// Not before one that is under way has ended: it is to be asked again in
    /// [`LATER_MS`].
    Later,
    /// No: the answer is a challenge.
    Never,
}

/// The places that a look-up takes while it is under way. There is one of a kind, so
/// that they are given back once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reserved([u64; 3]);

/// Where something comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address.
    pub remote: SocketAddr,
    /// Whether it came by a stream, so that the address is true.
    pub is_stream: bool,
}

counters::counters! {
    /// What was counted.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GuardCounters {
        /// Credentials that were wrong.
        pub failures: u64 = counter("signet_auth_failures_total"),
        /// Credentials that were not looked up, because too many before them were wrong.
        pub guesses_refused: u64 = counter("signet_auth_guesses_refused_total"),
        /// Refusals put as 503 or left out, because their source was refused too often.
        pub refusals_limited: u64 = counter("signet_refusals_limited_total"),
        /// Times that a source was left without answers for a while.
        pub sources_shut: u64 = counter("signet_sources_shut_total"),
    }
}

/// All that is remembered of strangers and of failures; shared by all workers.
pub struct Guard {
    key: [u8; 16],
    limits: Limits,
    refusals: Striped,
    pairs: Striped,
    users: Striped,
    sources: Striped,
    nonces: Striped,
    /// Look-ups of users, sources and both that have not ended.
    under_way: Striped,
    known: Striped,
    /// Until when some source is shut.
    shut_until_ms: AtomicU64,
    told_shut_ms: AtomicU64,
    told_failure_ms: AtomicU64,
    refusals_limited: AtomicU64,
    sources_shut: AtomicU64,
    failures: AtomicU64,
    guesses_refused: AtomicU64,
}

/// An attempt to prove who one is, by the hashes of what it is about.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    flow: u64,
    pair: u64,
    user: u64,
    source: u64,
    nonce: u64,
    remote: u64,
    refusals: u64,
    is_answer: bool,
    was_held: bool,
}

impl Attempt {
    /// Whether its nonce was sent to the place it comes from, so that nobody
    /// forged that.
    pub const fn is_answer(&self) -> bool {
        self.is_answer
    }

    /// The same once more, after it had to wait.
    pub const fn held(mut self) -> Self {
        self.was_held = true;
        self
    }
}

impl Guard {
    /// One that has seen nothing yet. The key is secret and new in each process.
    pub fn new(key: [u8; 16], limits: Limits) -> Self {
        let striped = |entries, per_s| Striped::new(entries, per_s);
        Self {
            key,
            limits,
            refusals: striped(ENTRIES_MAX, f64::from(limits.refusals_per_s)),
            pairs: striped(ENTRIES_MAX, 1.0 / PAIR_FAILURE_S),
            users: striped(ENTRIES_MAX, USER_FAILURES_PER_S),
            sources: striped(ENTRIES_MAX, SOURCE_FAILURES_PER_S),
            // As long as nonces live, about.
            nonces: striped(ENTRIES_MAX, 0.01),
            under_way: striped(ENTRIES_MAX, 1.0 / UNDER_WAY_S),
            // A debt of as many thousandths as it is known for in milliseconds.
            known: striped(KNOWN_MAX, 1.0),
            shut_until_ms: AtomicU64::new(0),
            told_shut_ms: AtomicU64::new(0),
            told_failure_ms: AtomicU64::new(0),
            refusals_limited: AtomicU64::new(0),
            sources_shut: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            guesses_refused: AtomicU64::new(0),
        }
    }

    /// The counters.
    pub fn counters(&self) -> GuardCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GuardCounters {
            refusals_limited: read(&self.refusals_limited),
            sources_shut: read(&self.sources_shut),
            failures: read(&self.failures),
            guesses_refused: read(&self.guesses_refused),
        }
    }

    /// Whether any source is shut, for a look before each message.
    pub fn is_any_shut(&self, now_ms: u64) -> bool {
        now_ms < self.shut_until_ms.load(Ordering::Relaxed)
    }

    /// Whether what comes from there is to be dropped unread, unless it
    /// [`crate::may_go_on`].
    pub fn is_shut(&self, now_ms: u64, place: &Place) -> bool {
        self.is_any_shut(now_ms)
            && self.refusals.owed(self.source(b"refusals", place), now_ms) > self.refusals_max()
            && self.known.owed(self.remote(place), now_ms) == 0
    }

    /// A message of so many bytes from there is refused. Whether the operator is
    /// to be told comes with the verdict.
    pub fn refused(&self, now_ms: u64, place: &Place, bytes: usize) -> (Verdict, bool) {
        let (verdict, is_first) = self.limit(now_ms, place, b"refusals", bytes);
        if !is_first {
            return (verdict, false);
        }
        self.sources_shut.fetch_add(1, Ordering::Relaxed);
        let until_ms = now_ms + self.limits.silence_ms;
        self.shut_until_ms.fetch_max(until_ms, Ordering::Relaxed);
        (verdict, is_due(&self.told_shut_ms, now_ms))
    }

    /// The same of credentials that came with a nonce that was sent there. It shuts
    /// nobody out: whoever sent them can be reached, and others there ask for
    /// challenges.
    pub fn refused_answer(&self, now_ms: u64, place: &Place, bytes: usize) -> Verdict {
        self.limit(now_ms, place, b"answers", bytes).0
    }

    /// Charges a refusal to one debt of a source. Whether silence begins with it
    /// comes with the verdict.
    fn limit(&self, now_ms: u64, place: &Place, debt: &[u8], bytes: usize) -> (Verdict, bool) {
        if self.limits.refusals_per_s == 0 || self.known.owed(self.remote(place), now_ms) > 0 {
            return (Verdict::Served, false);
        }
        let hash = self.source(debt, place);
        let weight = ONE + (bytes / BYTES_PER_REQUEST) as u64 * ONE;
        let max = self.refusals_max();
        let silence = self.limits.silence_ms * u64::from(self.limits.refusals_per_s);
        let mut table = self.refusals.stripe(hash);
        let before = table.owed(hash, now_ms);
        // A silence ends by itself: what comes meanwhile does not make it longer.
        if before > max + WORDS_MAX * ONE {
            drop(table);
            self.refusals_limited.fetch_add(1, Ordering::Relaxed);
            return (Verdict::Silence, false);
        }
        let owed = table.charge(hash, now_ms, weight, u64::MAX);
        if owed <= max {
            return (Verdict::Served, false);
        }
        self.refusals_limited.fetch_add(1, Ordering::Relaxed);
        if owed <= max + WORDS_MAX * ONE {
            return (Verdict::TooMany, false);
        }
        table.charge(hash, now_ms, silence, max + WORDS_MAX * ONE + silence);
        (Verdict::Silence, true)
    }

    /// The mark that a nonce bears that is sent there. It tells an address from
    /// another only for whoever holds the key.
    pub fn mark(&self, place: &Place) -> u16 {
        self.source(b"mark", place) as u16
    }

    /// What an attempt is about. `nonce` tells nonces apart, and `mark` is what
    /// it bears.
    pub fn attempt(&self, place: &Place, user: &[u8], nonce: u64, mark: u16) -> Attempt {
        let is_answer = mark == self.mark(place);
        let (pair, source) = if is_answer {
            (
                self.hash(b"pair", place, None, user),
                self.source(b"failures", place),
            )
        } else {
            let mark = u64::from(mark).to_be_bytes();
            let account = self.hash_of(b"failures elsewhere", &mark);
            (account ^ self.hash_of(b"pair elsewhere", user), account)
        };
        Attempt {
            flow: self.hash(b"flow", place, Some(place.remote.port()), user),
            pair,
            user: self.hash_of(b"user", user),
            source,
            nonce: self.hash_of(b"nonce", &nonce.to_be_bytes()),
            remote: self.remote(place),
            refusals: self.source(b"refusals", place),
            is_answer,
            was_held: false,
        }
    }

    /// Whether credentials are worth a look-up.
    pub fn take_up(&self, now_ms: u64, attempt: &Attempt) -> LookUp {
        let failures = self.nonces.owed(attempt.nonce, now_ms);
        if attempt.is_answer && !attempt.was_held && failures == 0 {
            // Once for each challenge: what fails is charged to its nonce.
            let mut refusals = self.refusals.stripe(attempt.refusals);
            refusals.forgive(attempt.refusals, now_ms, ONE);
        }
        if self.limits.failures_max == 0 {
            return LookUp::Now(Reserved::default());
        }
        let is_spent = failures > (NONCE_FAILURES_MAX - 1) * ONE;
        let look_up = if is_spent {
            LookUp::Never
        } else if attempt.is_answer && self.known.owed(attempt.flow, now_ms) > 0 {
            LookUp::Now(Reserved::default())
        } else {
            self.reserve(now_ms, attempt)
        };
        if look_up == LookUp::Never {
            let most = NONCE_FAILURES_MAX * ONE;
            self.nonces.charge(attempt.nonce, now_ms, ONE, most);
            self.guesses_refused.fetch_add(1, Ordering::Relaxed);
        }
        look_up
    }

    /// Takes a place for a look-up wherever failures are counted. What has failed and
    /// what is under way never exceed a bound together; what is under way may
    /// still turn out to be right.
    fn reserve(&self, now_ms: u64, attempt: &Attempt) -> LookUp {
        let pair_max = u64::from(self.limits.failures_max);
        let pair = (&self.pairs, attempt.pair, pair_max);
        let user = (&self.users, attempt.user, USER_FAILURES_MAX);
        let source = (&self.sources, attempt.source, SOURCE_FAILURES_MAX);
        let of_all = [pair, user, source];
        let is_known = self.known.owed(attempt.pair, now_ms) > 0;
        let bounds = of_all.get(..if is_known { 1 } else { 3 });
        let mut reserved = Reserved::default();
        let places = reserved.0.iter_mut();
        for (&(table, hash, max), place) in bounds.unwrap_or_default().iter().zip(places) {
            // The whole of one more failure must find room.
            let failed = table.owed(hash, now_ms) + ONE;
            if failed > max * ONE {
                self.looked_up(now_ms, reserved);
                return LookUp::Never;
            }
            let under_way = self.under_way.charge(hash, now_ms, ONE, u64::MAX);
            *place = hash;
            if failed - ONE + under_way > max * ONE {
                self.looked_up(now_ms, reserved);
                return LookUp::Later;
            }
        }
        LookUp::Now(reserved)
    }

    /// A look-up is over, whatever came of it: its places are free. Whoever was wrong is
    /// charged before ([`Guard::failed`]), or another thread would see neither.
    pub fn looked_up(&self, now_ms: u64, reserved: Reserved) {
        for hash in reserved.0.into_iter().filter(|hash| *hash != 0) {
            self.under_way.forgive(hash, now_ms, ONE);
        }
    }

    /// The credentials were wrong.
    pub fn failed(&self, now_ms: u64, attempt: &Attempt) -> Failure {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let most = |max: u64| max * ONE;
        self.nonces
            .charge(attempt.nonce, now_ms, ONE, most(NONCE_FAILURES_MAX));
        let failures_max = u64::from(self.limits.failures_max.max(1));
        let owed = self
            .pairs
            .charge(attempt.pair, now_ms, ONE, most(failures_max));
        self.users
            .charge(attempt.user, now_ms, ONE, most(USER_FAILURES_MAX));
        self.sources
            .charge(attempt.source, now_ms, ONE, most(SOURCE_FAILURES_MAX));
        if attempt.is_answer {
            // Whoever sits there is judged like everybody from now on.
            self.known.forgive(attempt.flow, now_ms, u64::MAX);
        }
        let before = (owed.saturating_sub(ONE)).div_ceil(ONE);
        let delay_ms = match before {
            0 => 0,
            nth => DELAY_FIRST_MS << (nth - 1).min(16),
        };
        Failure {
            delay_ms: delay_ms.min(self.limits.delay_ms_max),
            is_to_be_told: is_due(&self.told_failure_ms, now_ms),
        }
    }

    /// The credentials were right: what was refused on the way here is
    /// forgiven, and the flow is known.
    pub fn succeeded(&self, now_ms: u64, place: &Place, attempt: &Attempt) {
        for hash in [attempt.flow, attempt.pair, attempt.remote] {
            self.known.raise(hash, now_ms, KNOWN_MS);
        }
        if self.limits.refusals_per_s > 0 {
            let hash = self.source(b"refusals", place);
            self.refusals.stripe(hash).forgive(hash, now_ms, 2 * ONE);
        }
    }

    fn refusals_max(&self) -> u64 {
        u64::from(self.limits.refusals_max) * ONE
    }

    fn remote(&self, place: &Place) -> u64 {
        self.hash(b"remote", place, Some(place.remote.port()), b"")
    }

    fn source(&self, kind: &[u8], place: &Place) -> u64 {
        self.hash(kind, place, None, b"")
    }

    fn hash(&self, kind: &[u8], place: &Place, port: Option<u16>, user: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(kind);
        hasher.write_u8(u8::from(place.is_stream));
        match place.remote.ip().to_canonical() {
            IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
            IpAddr::V6(ip) => hasher.write_u64((ip.to_bits() >> 64) as u64),
        }
        hasher.write_u32(port.map_or(u32::MAX, u32::from));
        hasher.write(user);
        hasher.finish()
    }

    fn hash_of(&self, kind: &[u8], bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(kind);
        hasher.write(bytes);
        hasher.finish()
    }
}

/// Whether it is time to tell of it again.
pub(crate) fn is_due(told_ms: &AtomicU64, now_ms: u64) -> bool {
    let last_ms = told_ms.load(Ordering::Relaxed);
    (last_ms == 0 || now_ms >= last_ms.saturating_add(TELL_MS))
        && told_ms
            .compare_exchange(last_ms, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}
