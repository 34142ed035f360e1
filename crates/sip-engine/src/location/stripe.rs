//! One part of the table, behind one lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashTable;
use invariant::broken;
use slab::Slab;
use smallvec::SmallVec;
use wheel::{TimerId, Wheel};

use super::{Binding, BindingChange, Totals};

/// Bindings expire in seconds: finer ticks would buy nothing.
const TICK_MS: u64 = 1_000;

/// The bindings of one address-of-record.
type Bindings = SmallVec<[Arc<Binding>; 1]>;

/// A binding under its identity.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Unique within the address-of-record.
    pub(crate) key: Arc<[u8]>,
    /// The binding.
    pub(crate) binding: Arc<Binding>,
}

/// An address-of-record.
pub(crate) struct Record {
    aor: Arc<[u8]>,
    hash: u64,
    /// In the order of their last change. Most users have one phone.
    entries: SmallVec<[Entry; 1]>,
    /// Set for no later than the first expiry; a refresh leaves it where it is,
    /// and it is set anew when it fires. [`TimerId::NONE`] while in `due`.
    timer: TimerId,
    timer_unix_ms: u64,
}

pub(crate) struct Stripe {
    table: HashTable<usize>,
    records: Slab<Record>,
    wheel: Wheel<usize>,
    /// Records whose timer fired and that were not looked at yet. The slot may
    /// be another's by then, which its timer tells.
    due: Vec<usize>,
}

impl Default for Stripe {
    fn default() -> Self {
        Self {
            table: HashTable::new(),
            records: Slab::new(),
            wheel: Wheel::with_tick(0, TICK_MS),
            due: Vec::new(),
        }
    }
}

impl Record {
    pub(crate) fn aor(&self) -> &Arc<[u8]> {
        &self.aor
    }

    pub(crate) fn alive(&self, unix_ms: u64) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(move |entry| entry.binding.expires_unix_ms > unix_ms)
    }
}

impl Stripe {
    pub(crate) fn record(&self, hash: u64, aor: &[u8]) -> Option<&Record> {
        let slot = self.slot(hash, aor)?;
        self.records.get(slot)
    }

    /// Appends the bindings that are alive, the latest first.
    pub(crate) fn find(&self, hash: u64, aor: &[u8], unix_ms: u64, found: &mut Vec<Arc<Binding>>) {
        if let Some(record) = self.record(hash, aor) {
            found.extend(
                record
                    .alive(unix_ms)
                    .rev()
                    .map(|entry| Arc::clone(&entry.binding)),
            );
        }
    }

    /// Applies changes of one address-of-record.
    pub(crate) fn apply(&mut self, hash: u64, changes: &[BindingChange], totals: &Totals) {
        for change in changes {
            match change {
                BindingChange::Put { aor, key, binding } => {
                    self.put(hash, aor, key, binding, totals)
                }
                BindingChange::Remove { aor, key } => self.remove(hash, aor, key, totals),
            }
        }
        if let Some(slot) = changes
            .first()
            .and_then(|change| self.slot(hash, change.aor()))
            && self
                .records
                .get(slot)
                .is_some_and(|record| record.entries.is_empty())
        {
            self.forget(slot, totals);
        }
    }

    /// Frees what has expired, as far as the budget goes.
    pub(crate) fn sweep(&mut self, unix_ms: u64, budget: &mut usize, totals: &Totals) -> usize {
        let mut freed = 0;
        while *budget > 0 {
            let Some(slot) = self.due.pop() else {
                // One tick's timers at a time, so that a jump of the clock is no burst.
                match self.wheel.next_deadline_ms() {
                    Some(deadline_ms) if deadline_ms <= unix_ms => {
                        self.advance(deadline_ms);
                        continue;
                    }
                    _ => return freed,
                }
            };
            *budget -= 1;
            freed += self.look_at_due(slot, unix_ms, totals);
        }
        freed
    }

    /// A copy of what is alive.
    pub(crate) fn alive(&self, unix_ms: u64) -> Vec<(Arc<[u8]>, Bindings)> {
        let records = self.records.iter().map(|(_, record)| record);
        let bindings = |record: &Record| {
            record
                .alive(unix_ms)
                .map(|entry| entry.binding.clone())
                .collect()
        };
        let mut alive: Vec<(_, Bindings)> = records.map(|r| (r.aor.clone(), bindings(r))).collect();
        alive.retain(|(_, bindings)| !bindings.is_empty());
        alive
    }

    fn advance(&mut self, unix_ms: u64) {
        let (records, due) = (&mut self.records, &mut self.due);
        self.wheel.advance(unix_ms, |slot| {
            let Some(record) = records.get_mut(slot) else {
                return broken!("a record's timer is cancelled with it");
            };
            record.timer = TimerId::NONE;
            due.push(slot);
        });
    }

    fn slot(&self, hash: u64, aor: &[u8]) -> Option<usize> {
        let is_it = |&slot: &usize| match self.records.get(slot) {
            Some(record) => *record.aor == *aor,
            None => broken!("the table names only records that are there", false),
        };
        self.table.find(hash, is_it).copied()
    }

    fn put(
        &mut self,
        hash: u64,
        aor: &Arc<[u8]>,
        key: &Arc<[u8]>,
        binding: &Arc<Binding>,
        totals: &Totals,
    ) {
        let slot = match self.slot(hash, aor) {
            Some(slot) => slot,
            None => self.make(hash, aor, totals),
        };
        let Some(record) = self.records.get_mut(slot) else {
            return broken!("a record that was just found or made is there");
        };
        let entry = Entry {
            key: Arc::clone(key),
            binding: Arc::clone(binding),
        };
        match record.entries.iter().position(|entry| entry.key == *key) {
            Some(at) => {
                if let Some(later) = record.entries.get_mut(at..) {
                    later.rotate_left(1);
                }
                if let Some(last) = record.entries.last_mut() {
                    *last = entry;
                }
            }
            None => {
                record.entries.push(entry);
                totals.bindings.fetch_add(1, Ordering::Relaxed);
            }
        }
        if record.timer == TimerId::NONE || binding.expires_unix_ms < record.timer_unix_ms {
            self.wheel.cancel(record.timer);
            record.timer = self.wheel.start(binding.expires_unix_ms, slot);
            record.timer_unix_ms = binding.expires_unix_ms;
        }
    }

    fn remove(&mut self, hash: u64, aor: &[u8], key: &[u8], totals: &Totals) {
        let Some(record) = self
            .slot(hash, aor)
            .and_then(|slot| self.records.get_mut(slot))
        else {
            return;
        };
        if let Some(at) = record.entries.iter().position(|entry| *entry.key == *key) {
            record.entries.remove(at);
            totals.bindings.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn make(&mut self, hash: u64, aor: &Arc<[u8]>, totals: &Totals) -> usize {
        let slot = self.records.insert(Record {
            aor: Arc::clone(aor),
            hash,
            entries: SmallVec::new(),
            timer: TimerId::NONE,
            timer_unix_ms: 0,
        });
        let records = &self.records;
        let hash_of = |&slot: &usize| match records.get(slot) {
            Some(record) => record.hash,
            None => broken!("the table names only records that are there", 0),
        };
        self.table.insert_unique(hash, slot, hash_of);
        totals.aors.fetch_add(1, Ordering::Relaxed);
        slot
    }

    fn forget(&mut self, slot: usize, totals: &Totals) {
        let Some(record) = self.records.try_remove(slot) else {
            return broken!("only a record that is there is forgotten");
        };
        self.wheel.cancel(record.timer);
        match self.table.find_entry(record.hash, |&other| other == slot) {
            Ok(found) => _ = found.remove(),
            Err(_) => broken!("a record is in the table until it is forgotten"),
        }
        totals.aors.fetch_sub(1, Ordering::Relaxed);
        totals
            .bindings
            .fetch_sub(record.entries.len(), Ordering::Relaxed);
    }

    /// A record whose timer fired: frees its expired bindings, sets it anew.
    fn look_at_due(&mut self, slot: usize, unix_ms: u64, totals: &Totals) -> usize {
        let Some(record) = self.records.get_mut(slot) else {
            return 0;
        };
        // Forgotten meanwhile, or changed, and its slot has a timer of its own.
        if record.timer != TimerId::NONE {
            return 0;
        }
        let before = record.entries.len();
        record
            .entries
            .retain(|entry| entry.binding.expires_unix_ms > unix_ms);
        let freed = before - record.entries.len();
        totals.bindings.fetch_sub(freed, Ordering::Relaxed);
        match record
            .entries
            .iter()
            .map(|entry| entry.binding.expires_unix_ms)
            .min()
        {
            Some(next_unix_ms) => {
                record.timer = self.wheel.start(next_unix_ms, slot);
                record.timer_unix_ms = next_unix_ms;
            }
            None => self.forget(slot, totals),
        }
        freed
    }
}
