//! Rate limits for requests that the gate lets in: of authenticated users, of listed
//! peers and, where nobody has to authenticate, of each source.
//!
//! Each party has a bucket for each [`Kind`] of request and one for the bytes of all.
//! A bucket holds time: at 10 calls per second, a call takes a tenth of a second, which
//! drains as time passes. So one table serves every rate, and a rate can change while
//! requests come. Only the requests over the rate are refused: there is no ban that would
//! have to end, and a refused request costs its party nothing.
//!
//! The table has a fixed size ([`crate::debts`]) and forgets the smallest debts first.

use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use invariant::broken;
use siphasher::sip::SipHasher13;

use crate::concurrent::Concurrent;
use crate::guard::is_due;
use crate::names::folded;
use crate::striped::Striped;

/// Buckets that are not full, of all together.
const ENTRIES_MAX: usize = 65_536;
/// Debts are in nanoseconds.
const SECOND: u64 = 1_000_000_000;
const PER_MS: f64 = 1_000_000.0;
/// Tells the buckets of one party apart. The first byte of a hash stays as it is: it
/// chooses the stripe, so that all of them are behind one lock.
const BUCKET: u64 = 0x009e_3779_b97f_4a7d;

/// By what the sender of a request is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// As an authenticated user.
    User,
    /// As a listed peer.
    Peer,
    /// By the address alone, where nobody has to authenticate.
    Source,
}

impl Party {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::User, Self::Peer, Self::Source];

    /// Its name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Peer => "peer",
            Self::Source => "source",
        }
    }
}

/// The kinds of requests that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call.
    Call,
    /// A registration, or the end of one.
    Registration,
    /// MESSAGE, PUBLISH, NOTIFY, INFO.
    Message,
    /// Anything else.
    Other,
}

/// A rate that has a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Requests of one kind.
    Requests(Kind),
    /// The bytes of all kinds.
    Bytes,
}

impl Rate {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Requests(Kind::Call),
        Self::Requests(Kind::Registration),
        Self::Requests(Kind::Message),
        Self::Requests(Kind::Other),
        Self::Bytes,
    ];

    /// Its name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests(Kind::Call) => "calls",
            Self::Requests(Kind::Registration) => "registrations",
            Self::Requests(Kind::Message) => "messages",
            Self::Requests(Kind::Other) => "others",
            Self::Bytes => "bytes",
        }
    }

    const fn place(self) -> usize {
        match self {
            Self::Requests(Kind::Call) => 0,
            Self::Requests(Kind::Registration) => 1,
            Self::Requests(Kind::Message) => 2,
            Self::Requests(Kind::Other) => 3,
            Self::Bytes => 4,
        }
    }
}

/// The rates of one party; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Calls.
    pub calls_per_s: u32,
    /// Registrations.
    pub registrations_per_s: u32,
    /// Messages and the like.
    pub messages_per_s: u32,
    /// Other requests.
    pub others_per_s: u32,
    /// Bytes of all of these.
    pub bytes_per_s: u32,
}

impl Allowance {
    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// The limit of one rate; 0 is none.
    pub const fn per_s(&self, rate: Rate) -> u32 {
        match rate {
            Rate::Requests(Kind::Call) => self.calls_per_s,
            Rate::Requests(Kind::Registration) => self.registrations_per_s,
            Rate::Requests(Kind::Message) => self.messages_per_s,
            Rate::Requests(Kind::Other) => self.others_per_s,
            Rate::Bytes => self.bytes_per_s,
        }
    }
}

/// The rates of all parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// Each user.
    pub user: Allowance,
    /// Each peer.
    pub peer: Allowance,
    /// Each source.
    pub source: Allowance,
    /// The seconds whose worth may come at once.
    pub burst_s: u32,
}

impl RateLimits {
    /// What one of these may begin.
    pub const fn of(&self, party: Party) -> &Allowance {
        match party {
            Party::User => &self.user,
            Party::Peer => &self.peer,
            Party::Source => &self.source,
        }
    }
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            user: Allowance {
                calls_per_s: 50,
                registrations_per_s: 20,
                messages_per_s: 50,
                others_per_s: 50,
                bytes_per_s: 1_000_000,
            },
            peer: Allowance::default(),
            source: Allowance::default(),
            burst_s: 10,
        }
    }
}

/// Names one party, whose requests are counted together; the table keeps no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartyKey {
    party: Party,
    hash: u64,
}

impl PartyKey {
    /// By what it is known.
    pub const fn party(&self) -> Party {
        self.party
    }
}

/// A request is over the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateExceeded {
    /// Which rate.
    pub rate: Rate,
    /// Whether to log it: once in a while, however many there are.
    pub is_to_be_logged: bool,
}

/// The buckets of all parties; shared by all workers.
pub struct Rates {
    key: [u8; 16],
    buckets: Striped,
    calls: Arc<Concurrent>,
    limited: [[AtomicU64; 5]; 3],
    told_ms: AtomicU64,
}

impl Rates {
    /// With an empty table. The key is secret and new in each process.
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            buckets: Striped::new(ENTRIES_MAX, PER_MS),
            calls: Arc::new(Concurrent::new(key)),
            limited: Default::default(),
            told_ms: AtomicU64::new(0),
        }
    }

    /// The calls that go on at a time.
    pub fn calls(&self) -> &Arc<Concurrent> {
        &self.calls
    }

    /// An authenticated user, by name and realm, however the name is spelt.
    pub fn user(&self, name: &[u8], realm: &[u8]) -> PartyKey {
        let name = &*folded(name);
        let mut hasher = self.hasher(Party::User);
        hasher.write_usize(name.len());
        hasher.write(name);
        hasher.write(realm);
        PartyKey {
            party: Party::User,
            hash: hasher.finish(),
        }
    }

    /// A peer that is known by a name.
    pub fn peer(&self, name: &[u8]) -> PartyKey {
        let mut hasher = self.hasher(Party::Peer);
        hasher.write_u8(0);
        hasher.write(name);
        PartyKey {
            party: Party::Peer,
            hash: hasher.finish(),
        }
    }

    /// A party that is known by its address, for IPv6 by the first 64 bits.
    pub fn at(&self, party: Party, addr: IpAddr) -> PartyKey {
        let mut hasher = self.hasher(party);
        hasher.write_u8(1);
        match addr.to_canonical() {
            IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
            IpAddr::V6(ip) => hasher.write_u64((ip.to_bits() >> 64) as u64),
        }
        PartyKey {
            party,
            hash: hasher.finish(),
        }
    }

    /// Charges a request of `bytes`. An error where it is over a rate; then nothing is
    /// charged.
    pub fn charge(
        &self,
        now_ms: u64,
        key: PartyKey,
        allowance: &Allowance,
        burst_s: u32,
        kind: Kind,
        bytes: usize,
    ) -> Result<(), RateExceeded> {
        let burst = u64::from(burst_s) * SECOND;
        let requests = Rate::Requests(kind);
        let mut table = self.buckets.stripe(key.hash);
        let take = |rate: Rate, amount: u64| {
            let per_s = u64::from(allowance.per_s(rate));
            let nth = rate.place() as u64 + 1;
            let hash = key.hash ^ (BUCKET.wrapping_mul(nth) & !(0xff << 56));
            (rate, hash, (amount * SECOND).checked_div(per_s))
        };
        let takes = [take(requests, 1), take(Rate::Bytes, bytes as u64)];
        let mut debt = [None; 2];
        for (&(rate, hash, cost), debt) in takes.iter().zip(&mut debt) {
            let Some(cost) = cost else { continue };
            let before = table.debt(hash, now_ms);
            // What is more than a whole bucket passes when the bucket is full.
            if before + cost.min(burst) > burst {
                drop(table);
                return Err(self.exceeded(now_ms, key, rate));
            }
            *debt = Some((hash, before + cost));
        }
        for (hash, debt) in debt.into_iter().flatten() {
            table.put(hash, now_ms, debt);
        }
        Ok(())
    }

    /// How many requests were over that rate.
    pub fn limited(&self, party: Party, rate: Rate) -> u64 {
        self.counter(party, rate)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn exceeded(&self, now_ms: u64, key: PartyKey, rate: Rate) -> RateExceeded {
        match self.counter(key.party, rate) {
            Some(count) => _ = count.fetch_add(1, Ordering::Relaxed),
            None => broken!("there is a count for each party and each kind"),
        }
        RateExceeded {
            rate,
            is_to_be_logged: is_due(&self.told_ms, now_ms),
        }
    }

    fn counter(&self, party: Party, rate: Rate) -> Option<&AtomicU64> {
        self.limited.get(party as usize)?.get(rate.place())
    }

    fn hasher(&self, party: Party) -> SipHasher13 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u8(party as u8);
        hasher
    }
}

#[cfg(test)]
mod tests;
