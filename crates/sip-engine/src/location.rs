//! The location table: the one structure that shards share.
//!
//! A table in 256 parts, each behind a lock that is held for the time of one
//! look-up or change and never across anything else; the keyed hash of the
//! address-of-record says which part. `docs/decisions/0001-location.md` has
//! the forms that were measured against it.
//!
//! A binding that expires makes no event: [`Location::find`] skips it, and
//! [`Location::sweep`] frees it, a few at a time.
//!
//! Written only by the shard of the address-of-record (a REGISTER is given to
//! the shard of its To, not of its Call-ID, so that the changes of one
//! address-of-record have an order without a lock held across them); read by
//! every shard for every call.

mod stripe;
#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use invariant::broken;
use sip_msg::{Flow, Transport};
use siphasher::sip::SipHasher13;

pub(crate) use stripe::Entry;
use stripe::Stripe;

/// Parts of the table with a lock each. Two cores meet on one of 256 once in
/// so many look-ups that more would only cost memory.
const STRIPES: usize = 256;

/// One contact of an address-of-record.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The contact's URI as it was registered.
    pub uri: Box<[u8]>,
    /// Preference in thousandths, 0 to 1000 (RFC 3261 20.10).
    pub q: u16,
    /// When it ends, in milliseconds since 1970.
    pub expires_unix_ms: u64,
    /// The Call-ID of the registration (RFC 3261 10.3 step 7).
    pub call_id: Box<[u8]>,
    /// Its CSeq number.
    pub cseq: u32,
    /// `+sip.instance` (RFC 5626 4.1), where given.
    pub instance: Option<Box<[u8]>>,
    /// `reg-id` (RFC 5626 4.2), where given.
    pub reg_id: Option<u32>,
    /// Path (RFC 3327), the values in order, comma-separated; or empty.
    pub path: Box<[u8]>,
    /// The flow that it was registered over. After a restart a datagram's
    /// flow is still good, a connection's is not.
    pub flow: Option<Flow>,
    /// User-Agent, for the operator's list; cut to a bound.
    pub user_agent: Box<[u8]>,
    /// The node whose flow it is (clusters), or empty.
    pub node: Arc<str>,
    /// When this contact was first bound, in milliseconds since 1970; 0 where that is not
    /// known. A refresh leaves it as it is.
    pub since_unix_ms: u64,
    /// By which transport and from where its last REGISTER came, for the operator's list, and as
    /// the proof of where its URI was named. Calls go by `flow` and `uri`.
    pub source: Option<(Transport, SocketAddr)>,
    /// Whether its last REGISTER showed an address translation before the phone, which may have
    /// learnt since from where it is seen, and have written that as its URI.
    pub is_translated: bool,
    /// Whether a flow was kept of its last REGISTER, if only as a proof: then it is the phone itself
    /// that was at `source`, and no proxy before it. A connection's flow is gone after a restart,
    /// and this is not.
    pub had_flow: bool,
}

/// A change to one contact of an address-of-record.
#[derive(Clone, Debug, PartialEq)]
pub enum BindingChange {
    /// Add or replace the contact with the same identity (instance and reg-id
    /// where given, the URI's equality otherwise); `key` names the row.
    Put {
        /// The address-of-record, canonical.
        aor: Arc<[u8]>,
        /// The contact's identity, unique within the address-of-record.
        key: Arc<[u8]>,
        /// The new state.
        binding: Arc<Binding>,
    },
    /// Remove the contact.
    Remove {
        /// The address-of-record, canonical.
        aor: Arc<[u8]>,
        /// The contact's identity.
        key: Arc<[u8]>,
    },
}

/// The shared table: address-of-record to bindings.
// RFC 3261 10.1: "The only requirement is that a registrar for some domain MUST be able to read and
// write data to the location service, and a proxy or a redirect server for that domain MUST be capable
// of reading that same data."
pub struct Location {
    stripes: Box<[Mutex<Stripe>]>,
    hash_key: [u8; 16],
    aors_max: usize,
    totals: Totals,
    /// The stripe at which the next sweep begins.
    sweep_at: AtomicUsize,
}

/// How much is in all stripes. Touched where something comes or goes, not by a refresh.
#[derive(Default)]
struct Totals {
    aors: AtomicUsize,
    bindings: AtomicUsize,
}

impl Location {
    /// In how many parts the table is.
    pub const PARTS: usize = STRIPES;

    /// An empty table of at most `aors_max` addresses-of-record; `hash_key` is
    /// secret, because phones choose what is hashed.
    pub fn new(aors_max: usize, hash_key: [u8; 16]) -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hash_key,
            aors_max,
            totals: Totals::default(),
            sweep_at: AtomicUsize::new(0),
        }
    }

    /// Appends the bindings of `aor` that are alive at `unix_ms` to `found`,
    /// highest q first, the latest first among equals. Flows of one instance
    /// stand together, the latest first: see [`Binding::is_same_instance`].
    ///
    /// `aor` is in the registrar's canonical form.
    pub fn find(&self, aor: &[u8], unix_ms: u64, found: &mut Vec<Arc<Binding>>) {
        let start = found.len();
        self.with(aor, |stripe, hash| stripe.find(hash, aor, unix_ms, found));
        let Some(found) = found.get_mut(start..) else {
            return;
        };
        if found.len() > 1 {
            found.sort_by_key(|binding| std::cmp::Reverse(binding.q));
            gather_instances(found);
        }
    }

    /// Whether `aor` has an entry, alive or not yet swept.
    pub fn contains(&self, aor: &[u8]) -> bool {
        self.with(aor, |stripe, hash| stripe.record(hash, aor).is_some())
    }

    /// Whether there is room for `aor`: it has an entry, or there are fewer
    /// than `aors_max`.
    ///
    /// To be asked before a registration is accepted: [`Location::apply`] takes every
    /// change, because it was answered or stored already. So the table may exceed its
    /// bound by the registrations under way.
    pub fn has_room(&self, aor: &[u8]) -> bool {
        self.aors() < self.aors_max || self.contains(aor)
    }

    /// Applies changes that are durable, or need not be. Changes of one
    /// address-of-record that follow each other are seen together or not at all.
    pub fn apply(&self, changes: &[BindingChange]) {
        for same in changes.chunk_by(|a, b| a.aor() == b.aor()) {
            if let Some(aor) = same.first().map(BindingChange::aor) {
                self.with(aor, |stripe, hash| stripe.apply(hash, same, &self.totals));
            }
        }
    }

    /// Takes the store's bindings at start-up, the expired ones left out, the
    /// bound left aside (they were answered 200); how many were taken.
    pub fn load(&self, bindings: impl IntoIterator<Item = BindingChange>, unix_ms: u64) -> usize {
        let mut taken = 0;
        for change in bindings {
            let is_alive = matches!(&change, BindingChange::Put { binding, .. } if binding.expires_unix_ms > unix_ms);
            if is_alive {
                self.apply(std::slice::from_ref(&change));
                taken += 1;
            }
        }
        taken
    }

    /// Frees bindings that have expired; returns how many. Cheap, to be called
    /// by each shard whenever its timers run: `budget` bounds the parts of the
    /// table and the addresses-of-record that are looked at, and a part that
    /// another shard is using is passed over.
    pub fn sweep(&self, unix_ms: u64, budget: usize) -> usize {
        let mut left = budget;
        let mut freed = 0;
        for _ in 0..STRIPES.min(budget) {
            let at = self.sweep_at.fetch_add(1, Ordering::Relaxed) % STRIPES;
            let Some(Ok(mut stripe)) = self.stripes.get(at).map(Mutex::try_lock) else {
                continue;
            };
            freed += stripe.sweep(unix_ms, &mut left, &self.totals);
            left = left.saturating_sub(1);
            if left == 0 {
                break;
            }
        }
        freed
    }

    /// Shows every address-of-record with its bindings that are alive, in no
    /// order. Copies one part of the table at a time: `show` runs without a lock.
    pub fn for_each(&self, unix_ms: u64, mut show: impl FnMut(&Arc<[u8]>, &[Arc<Binding>])) {
        for part in 0..Self::PARTS {
            self.for_each_in(part, unix_ms, &mut show);
        }
    }

    /// The same for one of the [`Location::PARTS`], so that a long list can be given in pieces.
    pub fn for_each_in(
        &self,
        part: usize,
        unix_ms: u64,
        mut show: impl FnMut(&Arc<[u8]>, &[Arc<Binding>]),
    ) {
        let alive = self.stripes.get(part).map(|part| lock(part).alive(unix_ms));
        for (aor, bindings) in alive.iter().flatten() {
            show(aor, bindings);
        }
    }

    /// Addresses-of-record in memory.
    pub fn aors(&self) -> usize {
        self.totals.aors.load(Ordering::Relaxed)
    }

    /// Bindings in memory, expired ones that are not yet swept included.
    pub fn bindings(&self) -> usize {
        self.totals.bindings.load(Ordering::Relaxed)
    }

    /// Appends all entries of `aor` that are alive, the latest last, and gives
    /// the table's own copy of `aor`.
    pub(crate) fn entries(
        &self,
        aor: &[u8],
        unix_ms: u64,
        entries: &mut Vec<Entry>,
    ) -> Option<Arc<[u8]>> {
        self.with(aor, |stripe, hash| {
            let record = stripe.record(hash, aor)?;
            entries.extend(record.alive(unix_ms).cloned());
            Some(record.aor().clone())
        })
    }

    fn with<R>(&self, aor: &[u8], act: impl FnOnce(&mut Stripe, u64) -> R) -> R {
        let mut hasher = SipHasher13::new_with_key(&self.hash_key);
        hasher.write(aor);
        let hash = hasher.finish();
        // The table inside a stripe uses the hash's low and top bits.
        let at = (hash >> 32) as usize % STRIPES;
        match self.stripes.get(at) {
            Some(stripe) => act(&mut lock(stripe), hash),
            None => broken!(
                "there are STRIPES of them",
                act(&mut Stripe::default(), hash)
            ),
        }
    }
}

impl Binding {
    /// By which transport and from where the phone itself has registered, where that is known, also
    /// when its flow is gone: the proof of who named its URI.
    pub(crate) fn registered_from(&self) -> Option<(Transport, SocketAddr)> {
        let flow = self.flow.map(|flow| (flow.transport, flow.remote));
        flow.or(self.source.filter(|_| self.had_flow))
    }

    /// Whether both are flows of one phone (RFC 5626 4.2): only one of them is
    /// to be tried at a time, and the next when that one's flow is dead.
    pub fn is_same_instance(&self, other: &Self) -> bool {
        self.reg_id.is_some()
            && other.reg_id.is_some()
            && self.instance.is_some()
            && self.instance == other.instance
    }
}

impl BindingChange {
    /// The address-of-record whose contact changes.
    pub fn aor(&self) -> &Arc<[u8]> {
        match self {
            Self::Put { aor, .. } | Self::Remove { aor, .. } => aor,
        }
    }
}

/// Moves the flows of one instance behind the first of them.
fn gather_instances(found: &mut [Arc<Binding>]) {
    let mut rest = found;
    while let Some((first, others)) = rest.split_first_mut() {
        let mut gathered = 0;
        for at in 0..others.len() {
            let is_same = others.get(at).is_some_and(|b| first.is_same_instance(b));
            if is_same && let Some(between) = others.get_mut(gathered..=at) {
                between.rotate_right(1);
                gathered += 1;
            }
        }
        rest = others.get_mut(gathered..).unwrap_or_default();
    }
}

/// A panic while a stripe was locked leaves it usable: each change is whole or
/// not begun.
fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}
