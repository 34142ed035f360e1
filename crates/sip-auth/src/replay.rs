//! The nonce counts that were used: no digest is accepted twice.
//!
//! An entry is made only after a digest was verified, so neither a stranger's
//! flood nor a wrong digest with a high count leaves a trace. It is kept for a
//! nonce *and* a user: who sees another's nonce cannot burn its counts with
//! his own password.
//!
//! # Bounds
//! The window is cut into stripes by a keyed hash, each with a lock of its
//! own and four generations of entries. New entries go to the youngest
//! generation. When that is full, or a third of a nonce's life old, the
//! oldest generation is emptied and becomes the youngest, and the stripe's
//! watermark rises to the highest serial that it held. A nonce that has no
//! entry and whose serial is not above the watermark may have had one: it is
//! answered as stale and never accepted. So every step costs a constant time,
//! the memory has a bound, and no bound loosens the check.
//!
//! The watermark is a serial number, not a time, so that it holds when the
//! clock is set back.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use invariant::broken;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::nonce::Nonce;
use crate::server::CLOCK_SKEW_MS;

/// How far behind the highest count a count may come and still be told from a
/// used one: requests of one client overtake each other on the way.
pub(crate) const WINDOW: u32 = 64;

const STRIPES: usize = 64;
const GENERATIONS: usize = 4;

/// What the window says of a verified request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The count is new, and is now used.
    Admitted,
    /// The count was used, or is too old to tell.
    Replayed,
    /// The nonce may have been used and forgotten.
    Forgotten,
}

pub(crate) struct ReplayWindow {
    stripes: Vec<Mutex<Stripe>>,
    fingerprint_key: [u8; 16],
    generation_entries_max: usize,
    generation_ms: u64,
}

/// What the window has been through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayCounters {
    pub(crate) replayed: u64,
    pub(crate) forgotten: u64,
    pub(crate) evicted: u64,
    pub(crate) entries: u64,
}

#[derive(Default)]
struct Stripe {
    generations: [Generation; GENERATIONS],
    /// The index of the generation that takes new entries; the one after it,
    /// around the ring, is the oldest.
    youngest: usize,
    opened_unix_ms: u64,
    /// No entry is made for a serial that is not above it.
    watermark: u64,
    counters: ReplayCounters,
}

#[derive(Default)]
struct Generation {
    used: HashMap<Fingerprint, Counts, BuildHasherDefault<Passing>>,
    serial_max: u64,
}

/// The counts of one nonce and user: the highest, and which of those before it.
#[derive(Clone, Copy)]
struct Counts {
    highest: u32,
    /// Bit n is set when `highest - n` was used.
    seen: u64,
}

/// A keyed hash of nonce and user, so good as unique.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fingerprint([u64; 2]);

impl ReplayWindow {
    /// A window of at most `entries_max` entries (at least one in each
    /// generation of each stripe).
    pub(crate) fn new(
        entries_max: usize,
        nonce_lifetime_ms: u64,
        fingerprint_key: [u8; 16],
    ) -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            fingerprint_key,
            generation_entries_max: (entries_max / (STRIPES * GENERATIONS)).max(1),
            // Three generations closed for a third of a lifetime each: what is
            // in the oldest has expired when its turn comes.
            generation_ms: (nonce_lifetime_ms / 3).max(1),
        }
    }

    /// Uses up a count of a nonce, on behalf of a user whose digest was verified.
    pub(crate) fn admit(&self, unix_ms: u64, nonce: &Nonce, user: &[u8], nc: u32) -> Admission {
        let fingerprint = self.fingerprint(nonce, user);
        let Some(stripe) = self.stripes.get(fingerprint.stripe()) else {
            return broken!("there are STRIPES of them", Admission::Forgotten);
        };
        // A thread that panicked held no half-made change: each is one store.
        let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
        let admission = self.admit_in(&mut stripe, unix_ms, nonce.serial, fingerprint, nc);
        match admission {
            Admission::Admitted => {}
            Admission::Replayed => stripe.counters.replayed += 1,
            Admission::Forgotten => stripe.counters.forgotten += 1,
        }
        admission
    }

    /// The sum over all stripes.
    pub(crate) fn counters(&self) -> ReplayCounters {
        let mut sum = ReplayCounters::default();
        for stripe in &self.stripes {
            let stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            sum.replayed += stripe.counters.replayed;
            sum.forgotten += stripe.counters.forgotten;
            sum.evicted += stripe.counters.evicted;
            sum.entries += stripe
                .generations
                .iter()
                .map(|g| g.used.len() as u64)
                .sum::<u64>();
        }
        sum
    }

    fn admit_in(
        &self,
        stripe: &mut Stripe,
        unix_ms: u64,
        serial: u64,
        fingerprint: Fingerprint,
        nc: u32,
    ) -> Admission {
        for generation in &mut stripe.generations {
            if let Some(counts) = generation.used.get_mut(&fingerprint) {
                return if counts.admit(nc) {
                    Admission::Admitted
                } else {
                    Admission::Replayed
                };
            }
        }
        if serial <= stripe.watermark {
            return Admission::Forgotten;
        }
        stripe.make_room(unix_ms, self.generation_ms, self.generation_entries_max);
        // The room may have been made at this very nonce's cost.
        if serial <= stripe.watermark {
            return Admission::Forgotten;
        }
        let youngest = stripe.youngest;
        let Some(generation) = stripe.generations.get_mut(youngest) else {
            return broken!("the youngest is one of GENERATIONS", Admission::Forgotten);
        };
        generation.serial_max = generation.serial_max.max(serial);
        generation.used.insert(
            fingerprint,
            Counts {
                highest: nc,
                seen: 1,
            },
        );
        Admission::Admitted
    }

    fn fingerprint(&self, nonce: &Nonce, user: &[u8]) -> Fingerprint {
        let mut hasher = SipHasher13::new_with_key(&self.fingerprint_key);
        // The serial alone names the nonce: those of other processes never get here.
        hasher.write(&nonce.serial.to_be_bytes());
        hasher.write(user);
        let hash = hasher.finish128();
        Fingerprint([hash.h1, hash.h2])
    }
}

impl Stripe {
    /// Makes the oldest generation the youngest, if the youngest is full or old.
    fn make_room(&mut self, unix_ms: u64, generation_ms: u64, entries_max: usize) {
        let Some(generation) = self.generations.get(self.youngest) else {
            return broken!("the youngest is one of GENERATIONS");
        };
        let len = generation.used.len();
        // A clock that was set back must not keep a generation open for long; one that is a little
        // behind the clock of the shard that opened it was not.
        let was_set_back = unix_ms.saturating_add(CLOCK_SKEW_MS) < self.opened_unix_ms;
        let is_old = was_set_back || unix_ms.saturating_sub(self.opened_unix_ms) >= generation_ms;
        if len < entries_max && !is_old {
            return;
        }
        self.youngest = (self.youngest + 1) % GENERATIONS;
        self.opened_unix_ms = unix_ms;
        let Some(oldest) = self.generations.get_mut(self.youngest) else {
            return broken!("the youngest is one of GENERATIONS");
        };
        self.watermark = self.watermark.max(oldest.serial_max);
        if !is_old {
            self.counters.evicted += oldest.used.len() as u64;
        }
        oldest.used.clear();
        // As large as the last one came to be: memory grows and shrinks with
        // the load, and a steady load never allocates.
        if oldest.used.capacity() > 4 * len.max(16) {
            oldest.used.shrink_to(len);
        }
        oldest.serial_max = 0;
    }
}

impl Counts {
    fn admit(&mut self, nc: u32) -> bool {
        if nc > self.highest {
            let ahead = nc - self.highest;
            self.seen = if ahead < WINDOW {
                self.seen << ahead
            } else {
                0
            } | 1;
            self.highest = nc;
            return true;
        }
        let behind = self.highest - nc;
        if behind >= WINDOW || self.seen & (1 << behind) != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

impl Fingerprint {
    fn stripe(&self) -> usize {
        let Self([_, high]) = self;
        *high as usize % STRIPES
    }
}

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self([low, _]) = self;
        state.write_u64(*low);
    }
}

/// Takes a number that is a hash already as the hash.
#[derive(Default)]
struct Passing(u64);

impl Hasher for Passing {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
}

#[cfg(test)]
mod tests;
