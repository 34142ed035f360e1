//! Limits what strangers may have refused, and how often passwords may be
//! guessed.
//!
//! # Sources
//! A stranger is known by his address (for IPv6, the first 64 bits). Datagrams,
//! whose source can be forged, are counted apart from streams, whose source cannot.
//! Each request that is refused, a challenge included, adds to the debt of its
//! source; a challenge that is answered correctly is taken off again. So users cost
//! their source nothing, however many share one address; peers are not counted.
//! A source whose debt is too large gets 503 a few times, then no answer for a while
//! ([`Verdict`]). Meanwhile these still pass ([`Guard::is_shut`]): requests within
//! dialogs and responses, requests with credentials, and flows over which a user
//! authenticated lately. So a forged source locks out nobody who is already in.
//!
//! # Guesses
//! A wrong password is charged to three accounts: the user at that source, the user,
//! and the source. A user is a name in a realm. Once one of them is at its bound, the stored password is not looked
//! up any more; the answer is the same challenge that a wrong password gets, so that
//! nobody can tell the difference. A flow over which the user authenticated lately is
//! judged by its own failures alone; a user who was seen at that source is not affected
//! by the failures of others there, or by failures in his name elsewhere. A nonce is
//! good for [`NONCE_FAILURES_MAX`] failures, and for none once a guess with it was not
//! looked up. One by which the user has proved himself is judged by these alone, whatever the
//! port that it comes from: his neighbour, who has seen it on the wire, gets no more out of it.
//! The answer to a failure is delayed, longer
//! each time.
//!
//! What is known of users protects them, so none of them may push out what is known of others
//! ([`known`]).
//!
//! What a cache has of a user is compared with no more digests than that, on accounts of
//! their own ([`Guard::may_compare`]): in this way a guess is made before the store has
//! answered, and also where it never will.
//!
//! A look-up under way counts as a failure until it ends, so that a burst of guesses
//! does not get past the bound; those beyond it wait ([`LookUp::Later`]).
//!
//! Each nonce carries a mark of the origin that it was sent to ([`Guard::mark`]).
//! Whoever returns it from there does receive at that address: the challenge is taken
//! off his source's debt, whether the password is right or wrong, and a refusal is
//! charged to a separate account, whose bound ends the answers to guesses and nothing
//! else. Where a nonce comes back from another origin, the source may be forged: nothing
//! is taken off, and a failure is charged to the origin that the nonce was sent to.
//!
//! The tables have a fixed size ([`crate::debts`]). Their locks are taken only for
//! refusals and for credentials.

mod bans;
mod known;
mod mismatches;
#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use invariant::broken;
use siphasher::sip::SipHasher13;

use crate::names::write_user;
use crate::striped::Striped;
use crate::told::{Matter, Note, Told};

pub use bans::Ban;

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
/// A reservation that nobody gave back ends after this.
const UNDER_WAY_S: f64 = 1.0;
/// One line of log for each subject in this time.
const TELL_MS: u64 = 1_000;

/// The bounds of a [`Guard`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Refusals per second that are taken off the debt of a source; 0 is no limit.
    pub refusals_per_s: u32,
    /// Refusals to one source before its requests are limited.
    pub refusals_max: u32,
    /// How long a source that goes on past its limit gets no answers.
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

/// How a request that is refused is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With the refusal itself.
    Served,
    /// With 503 and Retry-After instead.
    TooMany,
    /// Not at all.
    Silence,
}

/// Whether the stored credentials are looked up.
#[derive(Debug, PartialEq, Eq)]
pub enum LookUp {
    /// Yes; until it is over ([`Guard::looked_up`]) it counts like a failure.
    Now(Reserved),
    /// Not before a look-up under way has ended: ask again after [`LATER_MS`].
    Later,
    /// No: the answer is a challenge.
    Never,
}

/// What a look-up has reserved while it is under way. It cannot be copied, so that it
/// is given back once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reserved([u64; 3]);

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The address.
    pub remote: SocketAddr,
    /// Whether it came over a stream, so that the address cannot be forged.
    pub is_stream: bool,
}

/// Whose answer shows by the mark of its nonce that the nonce was sent to him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    /// That of whoever is at that address, whatever the port, which may change.
    Host,
    /// That of whoever is at that very address and port.
    Place,
    /// Nobody's: others may read what is sent there.
    Nobody,
}

counters::counters! {
    /// What was counted.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GuardCounters {
        /// Credentials that were not looked up, because too many before them were wrong.
        pub guesses_refused: u64 = counter("signet_auth_guesses_refused_total"),
        /// Refusals, and answers to OPTIONS of strangers, sent as 503 or not at all: their source
        /// had too many.
        pub refusals_limited: u64 = counter("signet_refusals_limited_total"),
        /// Times that a source was left without answers for a while.
        pub sources_shut: u64 = counter("signet_sources_shut_total"),
    }
}

/// What is remembered of refusals and failures; shared by all workers.
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
    /// Nonces by which users proved who they are.
    proved: Striped,
    /// How much of each user in these two is new.
    news: Striped,
    /// Until when some source is shut.
    shut_until_ms: AtomicU64,
    told_shut_ms: AtomicU64,
    /// Which sources are shut, to be shown: the debts themselves decide.
    bans: bans::Bans,
    /// By [`crate::Table`], and by whether the source is proved: those that may be forged take no
    /// place from those that are not.
    told: [[Told; 2]; 3],
    /// A [`Wish`].
    tells_all: AtomicU8,
    refusals_limited: AtomicU64,
    sources_shut: AtomicU64,
    guesses_refused: AtomicU64,
    looked_up: AtomicU64,
}

/// What was wished of the log since the start.
#[derive(Clone, Copy)]
enum Wish {
    None,
    Some,
    All,
}

/// Whose password an attempt claims to know.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The user's name as it was sent.
    pub name: &'a [u8],
    /// The same without a domain of ours behind it: with his domain a name may be the same
    /// user's, and is no guess more.
    pub user: &'a [u8],
    /// The realm: users of one name in two realms have nothing to do with each other.
    pub realm: &'a str,
}

/// An attempt to authenticate: the hashes of the accounts that it is charged to.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// By the name as it was sent: what he is known by.
    flow: u64,
    known_pair: u64,
    /// By the name without his domain: what failures are charged to.
    pair: u64,
    user: u64,
    source: u64,
    nonce: u64,
    /// The nonce in the hands of that user, by the name as it was sent.
    proved: u64,
    remote: u64,
    refusals: u64,
    /// How many new places of the name as it was sent are remembered, how many are renewed, and
    /// how many nonces are remembered.
    places: u64,
    renewals: u64,
    nonces: u64,
    is_answer: bool,
    was_held: bool,
}

impl Attempt {
    /// Whether its nonce was sent to the origin that it comes from: then the
    /// source is not forged.
    pub const fn is_answer(&self) -> bool {
        self.is_answer
    }

    /// The same attempt, after it had to wait.
    pub const fn held(mut self) -> Self {
        self.was_held = true;
        self
    }
}

impl Guard {
    /// With empty tables. The key is secret and new in each process.
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
            proved: striped(ENTRIES_MAX, 1.0),
            news: striped(ENTRIES_MAX, 1.0 / known::NEWS_S),
            shut_until_ms: AtomicU64::new(0),
            told_shut_ms: AtomicU64::new(0),
            bans: bans::Bans::default(),
            told: Default::default(),
            tells_all: AtomicU8::new(Wish::None as u8),
            refusals_limited: AtomicU64::new(0),
            sources_shut: AtomicU64::new(0),
            guesses_refused: AtomicU64::new(0),
            looked_up: AtomicU64::new(0),
        }
    }

    /// Its bounds.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The counters.
    pub fn counters(&self) -> GuardCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GuardCounters {
            refusals_limited: read(&self.refusals_limited),
            sources_shut: read(&self.sources_shut),
            guesses_refused: read(&self.guesses_refused),
        }
    }

    /// Whether any source is cut off: cheap enough to be asked for each message.
    pub fn is_any_shut(&self, now_ms: u64) -> bool {
        now_ms < self.shut_until_ms.load(Ordering::Relaxed)
    }

    /// Whether messages from there are dropped unread, except those that
    /// [`crate::may_go_on`].
    pub fn is_shut(&self, now_ms: u64, origin: &Origin) -> bool {
        self.is_any_shut(now_ms)
            && self.refusals.debt(self.source(b"refusals", origin), now_ms) > self.refusals_max()
            && self.known.debt(self.remote(origin), now_ms) == 0
    }

    /// A message of `bytes` from there is refused: how it is answered, and whether
    /// to log that the source was cut off.
    pub fn refused(&self, now_ms: u64, origin: &Origin, bytes: usize) -> (Verdict, bool) {
        let (verdict, is_first) = self.limit(now_ms, origin, b"refusals", bytes);
        if !is_first {
            return (verdict, false);
        }
        self.sources_shut.fetch_add(1, Ordering::Relaxed);
        self.bans.begin(now_ms, origin);
        let until_ms = now_ms + self.limits.silence_ms;
        self.shut_until_ms.fetch_max(until_ms, Ordering::Relaxed);
        (verdict, is_due(&self.told_shut_ms, now_ms))
    }

    /// The same for wrong credentials with a nonce that was sent there. This never
    /// cuts the source off: whoever sent them does receive at that address, and others
    /// at the same address may still ask for challenges.
    pub fn refused_answer(&self, now_ms: u64, origin: &Origin, bytes: usize) -> Verdict {
        self.limit(now_ms, origin, b"answers", bytes).0
    }

    /// A message of `bytes` from there has an answer that anybody gets: it is bounded like a
    /// refusal, on a debt of its own, and this never cuts the source off either. Else whoever
    /// forges sources would have them sent an answer for each message.
    pub fn answered_anybody(&self, now_ms: u64, origin: &Origin, bytes: usize) -> Verdict {
        self.limit(now_ms, origin, b"anybody", bytes).0
    }

    /// Charges a refusal to one debt of a source. Whether silence begins with it
    /// comes with the verdict.
    fn limit(&self, now_ms: u64, origin: &Origin, debt: &[u8], bytes: usize) -> (Verdict, bool) {
        if self.limits.refusals_per_s == 0 || self.known.debt(self.remote(origin), now_ms) > 0 {
            return (Verdict::Served, false);
        }
        let hash = self.source(debt, origin);
        let weight = ONE + (bytes / BYTES_PER_REQUEST) as u64 * ONE;
        let max = self.refusals_max();
        let silence = self.limits.silence_ms * u64::from(self.limits.refusals_per_s);
        let mut table = self.refusals.stripe(hash);
        let before = table.debt(hash, now_ms);
        // A silence ends by itself: what comes meanwhile does not make it longer.
        if before > max + WORDS_MAX * ONE {
            drop(table);
            self.refusals_limited.fetch_add(1, Ordering::Relaxed);
            return (Verdict::Silence, false);
        }
        let debt = table.charge(hash, now_ms, weight, u64::MAX);
        if debt <= max {
            return (Verdict::Served, false);
        }
        self.refusals_limited.fetch_add(1, Ordering::Relaxed);
        if debt <= max + WORDS_MAX * ONE {
            return (Verdict::TooMany, false);
        }
        table.charge(hash, now_ms, silence, max + WORDS_MAX * ONE + silence);
        (Verdict::Silence, true)
    }

    /// The mark of a nonce that is sent there. Only who holds the key can tell from
    /// it which address that is. It is read by whoever gets the nonce, so it is long enough that
    /// who gets many nonces gets none with the mark of another place.
    pub fn mark(&self, origin: &Origin, fits: Fits) -> u64 {
        let (ip, port) = (origin.remote.ip().to_canonical(), origin.remote.port());
        // For IPv6 the whole address, not its network alone.
        let whole = match ip {
            IpAddr::V4(_) => 0,
            IpAddr::V6(ip) => ip.to_bits(),
        };
        match fits {
            Fits::Host => self.source(b"mark", origin),
            Fits::Place => self.hash(b"mark of a place", origin, Some(port), &whole.to_be_bytes()),
            Fits::Nobody => self.source(b"mark of nobody", origin),
        }
    }

    /// Names the accounts of an attempt. `nonce` is the nonce's serial number and the mark in it,
    /// which shows that the nonce was sent there if it `fits`. A user has the same however his name is spelt: where a store takes
    /// `ALICE` for `alice`, each spelling would be as many guesses more.
    /// What he is known by has the name as it was sent: it may be another user's with his
    /// domain, and who is known is judged more mildly.
    pub fn attempt(
        &self,
        origin: &Origin,
        claim: Claim<'_>,
        (nonce, mark): (u64, u64),
        fits: Fits,
    ) -> Attempt {
        let of = |mut hasher: SipHasher13, name: &[u8]| {
            write_user(&mut hasher, name, claim.realm.as_bytes());
            hasher.finish()
        };
        let is_answer = fits != Fits::Nobody && mark == self.mark(origin, fits);
        let (pair, source) = if is_answer {
            (
                of(self.hasher_at(b"pair", origin, None), claim.user),
                self.source(b"failures", origin),
            )
        } else {
            let account = self.hash_of(b"failures elsewhere", &mark.to_be_bytes());
            let of_user = of(self.hasher(b"pair elsewhere"), claim.user);
            (account ^ of_user, account)
        };
        let port = Some(origin.remote.port());
        Attempt {
            flow: of(self.hasher_at(b"flow", origin, port), claim.name),
            known_pair: of(self.hasher_at(b"known", origin, None), claim.name),
            pair,
            user: of(self.hasher(b"user"), claim.user),
            source,
            nonce: self.hash_of(b"nonce", &nonce.to_be_bytes()),
            proved: of(self.hasher_of(b"proved", &nonce.to_be_bytes()), claim.name),
            remote: self.remote(origin),
            refusals: self.source(b"refusals", origin),
            places: of(self.hasher(b"places"), claim.name),
            renewals: of(self.hasher(b"renewals"), claim.name),
            nonces: of(self.hasher(b"nonces"), claim.name),
            is_answer,
            was_held: false,
        }
    }

    /// Whether the stored credentials are looked up for this attempt.
    pub fn take_up(&self, now_ms: u64, attempt: &Attempt) -> LookUp {
        let failures = self.nonces.debt(attempt.nonce, now_ms);
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
        } else if attempt.is_answer && self.known.debt(attempt.flow, now_ms) > 0 {
            LookUp::Now(Reserved::default())
        } else {
            self.reserve(now_ms, attempt)
        };
        if look_up == LookUp::Never {
            // No transaction remembers the refusal: the same request, come again, must not be
            // let in, or it would have two final answers.
            let spent = NONCE_FAILURES_MAX * ONE;
            self.nonces.charge(attempt.nonce, now_ms, spent, spent);
            self.guesses_refused.fetch_add(1, Ordering::Relaxed);
        }
        look_up
    }

    /// Reserves a look-up in each account that failures are charged to, and that counts for this
    /// attempt. Failures and look-ups under way never exceed a bound together; a look-up under way
    /// may still turn out to be right.
    fn reserve(&self, now_ms: u64, attempt: &Attempt) -> LookUp {
        let pair_max = u64::from(self.limits.failures_max);
        let pair = (&self.pairs, attempt.pair, pair_max);
        let user = (&self.users, attempt.user, USER_FAILURES_MAX);
        let source = (&self.sources, attempt.source, SOURCE_FAILURES_MAX);
        let of_all = [pair, user, source];
        let of_nonce = [(&self.nonces, attempt.nonce, NONCE_FAILURES_MAX)];
        let is_proved = attempt.is_answer && self.proved.debt(attempt.proved, now_ms) > 0;
        let bounds = match is_proved {
            true => Some(&of_nonce[..]),
            false if self.known.debt(attempt.known_pair, now_ms) > 0 => of_all.get(..1),
            false => Some(&of_all[..]),
        };
        let mut reserved = Reserved::default();
        let slots = reserved.0.iter_mut();
        for (&(table, hash, max), slot) in bounds.unwrap_or_default().iter().zip(slots) {
            // The whole of one more failure must find room.
            let failed = table.debt(hash, now_ms) + ONE;
            if failed > max * ONE {
                self.give_back(now_ms, &reserved);
                return LookUp::Never;
            }
            let under_way = self.under_way.charge(hash, now_ms, ONE, u64::MAX);
            *slot = hash;
            if failed - ONE + under_way > max * ONE {
                self.give_back(now_ms, &reserved);
                return LookUp::Later;
            }
        }
        LookUp::Now(reserved)
    }

    /// A look-up has ended: gives its reservations back. A failure is charged before
    /// ([`Guard::failed`]), or another thread could see neither.
    pub fn looked_up(&self, now_ms: u64, reserved: Reserved) {
        if reserved != Reserved::default() {
            self.give_back(now_ms, &reserved);
            self.looked_up.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives the reservations of a look-up back that was not made.
    pub fn give_back(&self, now_ms: u64, reserved: &Reserved) {
        for hash in reserved.0.iter().filter(|hash| **hash != 0) {
            self.under_way.forgive(*hash, now_ms, ONE);
        }
    }

    /// How many look-ups that had something reserved have ended: whoever waits for room sees
    /// whether others move.
    pub fn looked_up_count(&self) -> u64 {
        self.looked_up.load(Ordering::Relaxed)
    }

    /// The credentials were wrong: for how many milliseconds the answer is delayed.
    pub fn failed(&self, now_ms: u64, attempt: &Attempt) -> u64 {
        let most = |max: u64| max * ONE;
        self.nonces
            .charge(attempt.nonce, now_ms, ONE, most(NONCE_FAILURES_MAX));
        let failures_max = u64::from(self.limits.failures_max.max(1));
        let debt = self
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
        let before = (debt.saturating_sub(ONE)).div_ceil(ONE);
        let delay_ms = match before {
            0 => 0,
            nth => DELAY_FIRST_MS << (nth - 1).min(16),
        };
        delay_ms.min(self.limits.delay_ms_max)
    }

    /// Whether every refusal is told from now on, whatever the settings say.
    pub fn set_tells_all(&self, tells_all: bool) {
        let wish = match tells_all {
            true => Wish::All,
            false => Wish::Some,
        };
        self.tells_all.store(wish as u8, Ordering::Relaxed);
    }

    /// Whether every refusal is told; nothing where nobody has said so since the start.
    pub fn tells_all(&self) -> Option<bool> {
        let wish = self.tells_all.load(Ordering::Relaxed);
        (wish != Wish::None as u8).then_some(wish == Wish::All as u8)
    }

    /// What becomes of a refusal to that source, beside that it is counted.
    pub fn note(&self, now_ms: u64, origin: &Origin, matter: &Matter) -> Note {
        let kind = [matter.group, u8::from(matter.is_proven)];
        let source = self.hash(b"told", origin, None, &kind);
        let told = self.told.get(matter.table as usize);
        match told.and_then(|told| told.get(usize::from(matter.is_proven))) {
            Some(told) => told.note(now_ms, source, matter.records_max),
            None => broken!("each table is there", Note::Count),
        }
    }

    /// The credentials were right, and he may begin what he asks for: takes the challenges off
    /// the source's debt and remembers the flow and the nonce.
    pub fn succeeded(&self, now_ms: u64, origin: &Origin, attempt: &Attempt) {
        self.remember_place(now_ms, attempt);
        self.remember_nonce(now_ms, attempt);
        if self.limits.refusals_per_s > 0 {
            let hash = self.source(b"refusals", origin);
            self.refusals.stripe(hash).forgive(hash, now_ms, 2 * ONE);
        }
    }

    fn refusals_max(&self) -> u64 {
        u64::from(self.limits.refusals_max) * ONE
    }

    fn remote(&self, origin: &Origin) -> u64 {
        self.hash(b"remote", origin, Some(origin.remote.port()), b"")
    }

    fn source(&self, kind: &[u8], origin: &Origin) -> u64 {
        self.hash(kind, origin, None, b"")
    }

    fn hash(&self, kind: &[u8], origin: &Origin, port: Option<u16>, more: &[u8]) -> u64 {
        let mut hasher = self.hasher_at(kind, origin, port);
        hasher.write(more);
        hasher.finish()
    }

    fn hash_of(&self, kind: &[u8], bytes: &[u8]) -> u64 {
        self.hasher_of(kind, bytes).finish()
    }

    fn hasher_of(&self, kind: &[u8], bytes: &[u8]) -> SipHasher13 {
        let mut hasher = self.hasher(kind);
        hasher.write(bytes);
        hasher
    }

    fn hasher(&self, kind: &[u8]) -> SipHasher13 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(kind);
        hasher
    }

    fn hasher_at(&self, kind: &[u8], origin: &Origin, port: Option<u16>) -> SipHasher13 {
        let mut hasher = self.hasher(kind);
        hasher.write_u8(u8::from(origin.is_stream));
        match origin.remote.ip().to_canonical() {
            IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
            IpAddr::V6(ip) => hasher.write_u64((ip.to_bits() >> 64) as u64),
        }
        hasher.write_u32(port.map_or(u32::MAX, u32::from));
        hasher
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
