//! Secrets near at hand, for those who have the password.
//!
//! # What a hit may tell
//! [`Cache::get`] gives a secret and nothing else. Whoever sent a digest that matches it is
//! answered on the spot. A digest that does not match is answered by a look-up
//! ([`crate::Why::DigestAgain`]), as is one for a name that is not held, and one for a
//! name that is known not to exist ([`crate::Why::DigestUncached`], after the same steps): all
//! of them wait for a statement that left after they
//! came. So the cache shows in how long an answer takes to nobody but who has the password.
//! The argument is carried on in docs/decisions/0110.
//!
//! # Who has a place
//! *Users* have shown their password ([`Cache::confirm`]). *Strangers* were found in the
//! store, because somebody asked, and have not. *Negatives* were not found. Each kind has
//! its own bound and makes room among its own kind by least recent use, so that whoever
//! asks for names takes no place from a user. What is taken out is wiped.
//!
//! # What is true
//! A row counts for its lifetime; a hit in the last part of it has the row asked for anew
//! meanwhile, once. A row that was read before a change was announced does not come in
//! after it. While no replica can be asked, rows count for a while longer.

mod entries;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sip_auth::{Algorithm, Reply, Secrets, Subject};

use crate::figures::CacheFigures;
use crate::keyed::Keyed;
use entries::{Bounds, Entries, Entry, Kind};

/// Stripes of a large cache; a small one has one, so that its bounds are exact.
const STRIPES: usize = 16;
const STRIPED_FROM: usize = 1_024;
/// Rows of one stripe that wait to be asked for anew.
const REFRESHES_MAX: usize = 64;
/// Of each stripe, groups of names whose changes are counted together: a row that was asked for
/// before a change in its group is not taken in. One announcement costs few others theirs.
const GROUPS: usize = 256;
/// Entries of a stripe that one look for what is too old goes through.
const SWEPT: usize = 64;

/// The bounds of a [`Cache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Names held that exist, users and strangers.
    pub entries_max: usize,
    /// Memory of all entries.
    pub bytes_max: usize,
    /// Of `entries_max`, what is left to those who have not shown their password.
    pub strangers_max: usize,
    /// Names held that do not exist, beside `entries_max`.
    pub negatives_max: usize,
    /// How long a secret counts.
    pub lifetime_us: u64,
    /// How long it counts that a name does not exist.
    pub negative_lifetime_us: u64,
    /// A hit in the last such part of a secret's lifetime has it asked for anew.
    pub refresh_ahead_us: u64,
    /// How much longer a secret counts while no replica can be asked; 0: no longer.
    pub stale_us: u64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            entries_max: 100_000,
            bytes_max: 64 << 20,
            strangers_max: 20_000,
            negatives_max: 10_000,
            lifetime_us: 60_000_000,
            negative_lifetime_us: 10_000_000,
            refresh_ahead_us: 12_000_000,
            stale_us: 3_600_000_000,
        }
    }
}

/// When a row was asked for, as changes go: it comes into the cache only if none was
/// announced since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    stale: AtomicU64,
    misses: AtomicU64,
    negative: AtomicU64,
    evicted: AtomicU64,
    invalidated: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

struct Stripe {
    /// Of the whole cache; here, so that a look takes one lock and no more.
    config: CacheConfig,
    entries: Entries,
    /// How many changes were announced: of any user, and of one of each group of names.
    changes: u64,
    group_changes: Box<[u64]>,
    refreshes: Vec<Subject>,
}

/// Secrets that threads share.
pub struct Cache {
    hash: Keyed,
    stripes: Box<[Mutex<Stripe>]>,
    /// No replica can be asked.
    is_outage: AtomicBool,
    counters: Counters,
}

impl Cache {
    /// An empty cache. Strangers choose the names, so the key is secret.
    pub fn new(hash_key: [u8; 16], config: CacheConfig) -> Self {
        let stripes = match config.entries_max >= STRIPED_FROM {
            true => STRIPES,
            false => 1,
        };
        let bounds = Bounds::of(&config, stripes);
        let stripe = || {
            Mutex::new(Stripe {
                config,
                entries: Entries::new(bounds),
                changes: 0,
                group_changes: vec![0; GROUPS].into(),
                refreshes: Vec::new(),
            })
        };
        Self {
            hash: Keyed(hash_key),
            stripes: (0..stripes).map(|_| stripe()).collect(),
            is_outage: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// The HA1 of a user, where it is held: always [`Reply::Cached`]. `None`: the pipeline
    /// is to be asked, once a digest has been compared with nobody's secret
    /// ([`Reply::NotCached`]). It is asked too of a digest that does not match what this gave.
    pub fn get(&self, now_us: u64, subject: &Subject, algorithm: Algorithm) -> Option<Reply> {
        let is_outage = self.is_outage.load(Ordering::Relaxed);
        let hash = self.hash.hash_one(subject);
        let mut guard = self.stripe(hash);
        let stripe = &mut *guard;
        let found = stripe.entries.find(hash, subject);
        let found = found.map(|entry| look(now_us, entry, algorithm, is_outage, &stripe.config));
        let Some(Look::Secret(reply, is_stale, is_due)) = found else {
            drop(guard);
            count(&self.counters.misses, 1);
            if matches!(found, Some(Look::Negative)) {
                count(&self.counters.negative, 1);
            }
            return None;
        };
        stripe.entries.touch(hash, subject);
        if is_due && stripe.refreshes.len() < REFRESHES_MAX {
            stripe.refreshes.push(subject.clone());
            if let Some(entry) = stripe.entries.find(hash, subject) {
                entry.is_refreshing = true;
            }
        }
        drop(guard);
        count(&self.counters.hits, 1);
        count(&self.counters.stale, u64::from(is_stale));
        Some(reply)
    }

    /// A digest matched what the cache or the pipeline said of him: he keeps his place
    /// among the users.
    pub fn confirm(&self, subject: &Subject) {
        let hash = self.hash.hash_one(subject);
        let evicted = self.stripe(hash).entries.confirm(hash, subject);
        count(&self.counters.evicted, evicted);
    }

    /// A user was added, changed or removed: nothing that was read before counts.
    pub fn invalidate(&self, subject: &Subject) {
        let hash = self.hash.hash_one(subject);
        let mut stripe = self.stripe(hash);
        if let Some(changes) = stripe.group_changes.get_mut(group(hash)) {
            *changes += 1;
        }
        let was_held = stripe.entries.remove(hash, subject);
        drop(stripe);
        count(&self.counters.invalidated, u64::from(was_held));
    }

    /// Any user may have been changed: nothing that was read before counts.
    pub fn invalidate_all(&self) {
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            stripe.changes += 1;
            let gone = stripe.entries.take_all();
            drop(stripe);
            count(&self.counters.invalidated, gone.len() as u64);
        }
    }

    /// Takes new bounds and lifetimes. What is held stays for the time it was to stay, up
    /// to the new bounds.
    pub fn reload(&self, config: CacheConfig) {
        let bounds = Bounds::of(&config, self.stripes.len());
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            stripe.config = config;
            let evicted = stripe.entries.rebound(bounds);
            drop(stripe);
            count(&self.counters.evicted, evicted);
        }
    }

    /// What it has done, and what it holds.
    pub fn figures(&self) -> CacheFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut figures = CacheFigures {
            hits: read(&self.counters.hits),
            stale: read(&self.counters.stale),
            misses: read(&self.counters.misses),
            negative: read(&self.counters.negative),
            evicted: read(&self.counters.evicted),
            invalidated: read(&self.counters.invalidated),
            ..CacheFigures::default()
        };
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            figures.users += stripe.entries.count(Kind::User) as u64;
            figures.strangers += stripe.entries.count(Kind::Stranger) as u64;
            figures.negatives += stripe.entries.count(Kind::Negative) as u64;
            figures.bytes += stripe.entries.bytes() as u64;
        }
        figures
    }

    /// A row is asked for now.
    pub(crate) fn ticket(&self, subject: &Subject) -> Ticket {
        let hash = self.hash.hash_one(subject);
        self.stripe(hash).ticket(hash)
    }

    /// Whether it is known that there is no such name, and the ticket of that knowledge.
    pub(crate) fn negative(&self, now_us: u64, subject: &Subject) -> Option<Ticket> {
        let hash = self.hash.hash_one(subject);
        let mut stripe = self.stripe(hash);
        let entry = stripe.entries.find(hash, subject)?;
        (entry.secrets.is_none() && now_us < entry.until_us).then(|| stripe.ticket(hash))
    }

    /// The store has said this of a name.
    pub(crate) fn fill(
        &self,
        now_us: u64,
        subject: &Subject,
        ticket: Ticket,
        row: Option<&Secrets>,
    ) {
        let secrets = row.filter(|secrets| !secrets.is_empty());
        let hash = self.hash.hash_one(subject);
        let mut stripe = self.stripe(hash);
        if stripe.ticket(hash) != ticket {
            // It may be too old to be held. What is held may be older still.
            stripe.entries.remove(hash, subject);
            return;
        }
        let lifetime_us = match secrets {
            Some(_) => stripe.config.lifetime_us,
            None => stripe.config.negative_lifetime_us,
        };
        let until_us = now_us.saturating_add(lifetime_us);
        let evicted = stripe.entries.put(hash, subject, secrets, until_us);
        drop(stripe);
        count(&self.counters.evicted, evicted);
    }

    /// What the store has of a name is no good: what it had before counts no more, and is not to
    /// count again while it is away.
    pub(crate) fn forget(&self, subject: &Subject) {
        let hash = self.hash.hash_one(subject);
        self.stripe(hash).entries.remove(hash, subject);
    }

    /// Somebody's digest did not match what is held, and the store is being asked: until
    /// it has answered, or until then, questions about him are the pipeline's too.
    pub(crate) fn doubt(&self, subject: &Subject, until_us: u64) {
        let hash = self.hash.hash_one(subject);
        if let Some(entry) = self.stripe(hash).entries.find(hash, subject) {
            entry.doubted_until_us = entry.doubted_until_us.max(until_us);
        }
    }

    /// The rows to be asked for anew, at most `max`.
    pub(crate) fn take_refreshes(&self, max: usize, into: &mut Vec<Subject>) {
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            let room = max.saturating_sub(into.len());
            let taken = stripe.refreshes.len().min(room);
            into.extend(stripe.refreshes.drain(..taken));
        }
    }

    /// A row that was to be asked for anew was not answered: the next hit asks again.
    pub(crate) fn refresh_failed(&self, subject: &Subject) {
        let hash = self.hash.hash_one(subject);
        if let Some(entry) = self.stripe(hash).entries.find(hash, subject) {
            entry.is_refreshing = false;
        }
    }

    /// Whether replicas can be asked.
    pub(crate) fn set_outage(&self, is_outage: bool) {
        self.is_outage.store(is_outage, Ordering::Relaxed);
    }

    /// Takes out some of what is too old to count in any case.
    pub(crate) fn sweep(&self, now_us: u64) {
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            let stale_us = stripe.config.stale_us;
            stripe.entries.sweep(now_us, stale_us, SWEPT);
        }
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, Stripe> {
        // There is one at least.
        let nth = (hash >> 56) as usize % self.stripes.len();
        lock(&self.stripes[nth])
    }
}

impl Stripe {
    fn ticket(&self, hash: u64) -> Ticket {
        let of_group = self.group_changes.get(group(hash)).copied();
        // Neither of the two ever falls, so the sum changes with each of them.
        Ticket(self.changes + of_group.unwrap_or(0))
    }
}

/// The group of a name in its stripe, by other bits than those that say which stripe it is.
const fn group(hash: u64) -> usize {
    (hash >> 32) as usize % GROUPS
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    // The tables of a stripe are whole whenever its lock is free: a panic ends the process.
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an entry says.
enum Look {
    /// An HA1; whether it is past its lifetime; whether it is to be asked for anew.
    Secret(Reply, bool, bool),
    Negative,
    Nothing,
}

fn look(
    now_us: u64,
    entry: &Entry,
    algorithm: Algorithm,
    is_outage: bool,
    config: &CacheConfig,
) -> Look {
    let Some(secrets) = &entry.secrets else {
        return match now_us < entry.until_us {
            true => Look::Negative,
            false => Look::Nothing,
        };
    };
    let is_stale = now_us >= entry.until_us;
    let counts = match is_outage {
        true => now_us < entry.until_us.saturating_add(config.stale_us) || !is_stale,
        false => !is_stale && now_us >= entry.doubted_until_us,
    };
    match secrets.get(algorithm) {
        Some(ha1) if counts => {
            let is_due = now_us >= entry.until_us.saturating_sub(config.refresh_ahead_us);
            let is_due = is_due && !entry.is_refreshing && !is_outage;
            Look::Secret(Reply::Cached(ha1.clone()), is_stale, is_due)
        }
        _ => Look::Nothing,
    }
}
