//! The entries of one stripe, of three kinds with a bound each.

use hashbrown::HashTable;
use invariant::broken;
use sip_auth::{Secrets, Subject};

use super::CacheConfig;

/// No entry.
const NIL: u32 = u32::MAX;

/// Whose entry it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of somebody who has shown his password.
    User,
    /// Of a name that exists.
    Stranger,
    /// Of a name that does not.
    Negative,
}

const KINDS: usize = 3;

impl Kind {
    const fn nth(self) -> usize {
        self as usize
    }
}

/// The bounds of a stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    counts: [usize; KINDS],
    bytes: usize,
    /// What each kind has of `bytes` where there is not enough for all.
    shares: [usize; KINDS],
}

impl Bounds {
    /// The share of one of `stripes`.
    pub(super) fn of(config: &CacheConfig, stripes: usize) -> Self {
        let strangers = config.strangers_max.min(config.entries_max);
        let counts = [
            config.entries_max - strangers,
            strangers,
            config.negatives_max,
        ];
        let bytes = config.bytes_max / stripes.max(1);
        let all: u128 = counts.iter().map(|&count| count as u128).sum();
        let share = |count: usize| bytes as u128 * count as u128 / all.max(1);
        Self {
            counts: counts.map(|count| count / stripes.max(1)),
            bytes,
            shares: counts.map(|count| share(count) as usize),
        }
    }
}

/// What is held of a name.
pub(super) struct Entry {
    subject: Subject,
    hash: u64,
    /// In a box, which is wiped where it stands: moving an entry leaves no copy behind.
    pub(super) secrets: Option<Box<Secrets>>,
    pub(super) until_us: u64,
    pub(super) doubted_until_us: u64,
    pub(super) is_refreshing: bool,
    kind: Kind,
    newer: u32,
    older: u32,
}

impl Entry {
    fn bytes(&self) -> usize {
        let secrets = self.secrets.as_ref().map_or(0, |_| size_of::<Secrets>());
        // A long name is kept apart; the table has a word for each entry.
        size_of::<Option<Self>>() + secrets + self.subject.user().len() + 8
    }
}

#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
    len: usize,
    bytes: usize,
}

/// Entries, found by their names, in three lists by their last use.
pub(super) struct Entries {
    by_name: HashTable<u32>,
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    lists: [List; KINDS],
    bounds: Bounds,
    bytes: usize,
    swept: usize,
}

impl Entries {
    pub(super) const fn new(bounds: Bounds) -> Self {
        let list = List {
            newest: NIL,
            oldest: NIL,
            len: 0,
            bytes: 0,
        };
        Self {
            by_name: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            lists: [list; KINDS],
            bounds,
            bytes: 0,
            swept: 0,
        }
    }

    pub(super) fn find(&mut self, hash: u64, subject: &Subject) -> Option<&mut Entry> {
        let at = self.at(hash, subject)?;
        self.slots.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.lists.get(kind.nth()).map_or(0, |list| list.len)
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// It was used just now.
    pub(super) fn touch(&mut self, hash: u64, subject: &Subject) {
        if let Some(at) = self.at(hash, subject) {
            let kind = self.unlink(at);
            self.link(at, kind);
        }
    }

    /// Takes a row in. How many made room for it.
    pub(super) fn put(
        &mut self,
        hash: u64,
        subject: &Subject,
        secrets: Option<&Secrets>,
        until_us: u64,
    ) -> u64 {
        let was = self.find(hash, subject).map(|entry| entry.kind);
        let kind = match (secrets, was) {
            (None, _) => Kind::Negative,
            (Some(_), Some(Kind::User)) => Kind::User,
            (Some(_), _) => Kind::Stranger,
        };
        self.remove(hash, subject);
        let entry = Entry {
            subject: subject.clone(),
            hash,
            secrets: secrets.map(|secrets| Box::new(secrets.clone())),
            until_us,
            doubted_until_us: 0,
            is_refreshing: false,
            kind,
            newer: NIL,
            older: NIL,
        };
        self.bytes += entry.bytes();
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        let Some(slot) = self.slots.get_mut(at as usize) else {
            return broken!("a free slot is one of the table's", 0);
        };
        *slot = Some(entry);
        let slots = &self.slots;
        self.by_name.insert_unique(hash, at, |&at| {
            slots
                .get(at as usize)
                .and_then(Option::as_ref)
                .map_or(0, |entry| entry.hash)
        });
        self.link(at, kind);
        self.make_room()
    }

    /// Makes a stranger a user. How many made room for him.
    pub(super) fn confirm(&mut self, hash: u64, subject: &Subject) -> u64 {
        let Some(at) = self.at(hash, subject) else {
            return 0;
        };
        let Some(entry) = self.slots.get_mut(at as usize).and_then(Option::as_mut) else {
            return broken!("a name leads to an entry", 0);
        };
        if entry.kind != Kind::Stranger {
            return 0;
        }
        self.unlink(at);
        self.link(at, Kind::User);
        self.make_room()
    }

    /// Takes an entry out and wipes it. Whether there was one.
    pub(super) fn remove(&mut self, hash: u64, subject: &Subject) -> bool {
        match self.at(hash, subject) {
            Some(at) => {
                self.take(at);
                true
            }
            None => false,
        }
    }

    /// Takes all out and gives it back: to wipe and free it takes long, and is not to be done
    /// while others wait for the stripe.
    pub(super) fn take_all(&mut self) -> Self {
        let empty = Self::new(self.bounds);
        std::mem::replace(self, empty)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Takes new bounds. How many had to leave.
    pub(super) fn rebound(&mut self, bounds: Bounds) -> u64 {
        self.bounds = bounds;
        self.make_room()
    }

    /// Goes through the next few and takes out what is too old.
    pub(super) fn sweep(&mut self, now_us: u64, stale_us: u64, many: usize) {
        for _ in 0..many.min(self.slots.len()) {
            let at = self.swept % self.slots.len();
            self.swept = at + 1;
            let Some(entry) = self.slots.get(at).and_then(Option::as_ref) else {
                continue;
            };
            let kept_us = match entry.secrets {
                Some(_) => stale_us,
                None => 0,
            };
            if now_us >= entry.until_us.saturating_add(kept_us) {
                self.take(at as u32);
            }
        }
    }

    fn at(&self, hash: u64, subject: &Subject) -> Option<u32> {
        let is_it = |at: &u32| {
            let entry = self.slots.get(*at as usize).and_then(Option::as_ref);
            entry.is_some_and(|entry| entry.subject == *subject)
        };
        self.by_name.find(hash, is_it).copied()
    }

    /// Takes out what is beyond the bounds: of each kind, and of the memory. There the least
    /// useful kind makes room first that has more than its share: no kind is without a place
    /// because another has all the memory, and so strangers can become users.
    fn make_room(&mut self) -> u64 {
        let mut evicted = 0;
        for kind in [Kind::User, Kind::Stranger, Kind::Negative] {
            let max = self.bounds.counts.get(kind.nth()).copied().unwrap_or(0);
            while self.count(kind) > max {
                self.take_oldest(kind);
                evicted += 1;
            }
        }
        while self.bytes > self.bounds.bytes {
            let kinds = [Kind::Negative, Kind::Stranger, Kind::User];
            let Some(kind) = kinds.into_iter().find(|&kind| self.has_too_much(kind)) else {
                return broken!("where all is too much, one kind has too much", evicted);
            };
            self.take_oldest(kind);
            evicted += 1;
        }
        evicted
    }

    fn has_too_much(&self, kind: Kind) -> bool {
        let bytes = self.lists.get(kind.nth()).map(|list| list.bytes);
        bytes > self.bounds.shares.get(kind.nth()).copied()
    }

    fn take_oldest(&mut self, kind: Kind) {
        match self.lists.get(kind.nth()).map(|list| list.oldest) {
            Some(at) if at != NIL => self.take(at),
            _ => broken!("a list that is too long has an oldest entry"),
        }
    }

    fn take(&mut self, at: u32) {
        self.unlink(at);
        let Some(entry) = self.slots.get_mut(at as usize).and_then(Option::take) else {
            return broken!("what is taken out is there");
        };
        self.bytes -= entry.bytes();
        match self.by_name.find_entry(entry.hash, |&other| other == at) {
            Ok(found) => {
                found.remove();
            }
            Err(_) => broken!("an entry is found by its name"),
        }
        self.free.push(at);
    }

    fn entry(&mut self, at: u32) -> Option<&mut Entry> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    /// Makes it the newest of its kind.
    fn link(&mut self, at: u32, kind: Kind) {
        let bytes = self.entry(at).map_or(0, |entry| entry.bytes());
        let Some(list) = self.lists.get_mut(kind.nth()) else {
            return broken!("each kind has a list");
        };
        let older = std::mem::replace(&mut list.newest, at);
        list.len += 1;
        list.bytes += bytes;
        if older == NIL {
            list.oldest = at;
        }
        if let Some(entry) = self.entry(at) {
            (entry.kind, entry.newer, entry.older) = (kind, NIL, older);
        }
        if let Some(entry) = self.entry(older) {
            entry.newer = at;
        }
    }

    /// Takes it out of its list, whose kind is given back.
    fn unlink(&mut self, at: u32) -> Kind {
        let Some(entry) = self.entry(at) else {
            return broken!("what is in a list is there", Kind::Negative);
        };
        let (kind, newer, older) = (entry.kind, entry.newer, entry.older);
        let bytes = entry.bytes();
        if let Some(entry) = self.entry(newer) {
            entry.older = older;
        }
        if let Some(entry) = self.entry(older) {
            entry.newer = newer;
        }
        if let Some(list) = self.lists.get_mut(kind.nth()) {
            list.len -= 1;
            list.bytes -= bytes;
            if list.newest == at {
                list.newest = older;
            }
            if list.oldest == at {
                list.oldest = newer;
            }
        }
        kind
    }
}
