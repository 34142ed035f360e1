//! Requests that wait for an answer from outside (a credential, a name, a durable
//! write), each with a deadline.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use invariant::broken;
use wheel::{TimerId, Wheel};

use crate::effect::ParkId;
use crate::hook::Told;
use crate::media::{MediaWait, NewBody};
use crate::permit::{Pending, Permit, Refusal};
use crate::proxy::context::{Candidate, Key};
use crate::proxy::route::Routed;
use crate::records::Followed;
use crate::relay::{Came, ChosenBy};
use crate::sender::Sender;
use crate::shard::probes::Probed;
use crate::timer::Timer;
use crate::trunk::register::Wanted;
use sip_msg::Message;
use sip_txn::ServerId;

/// A request on its way through the server.
pub(crate) struct Job {
    pub(crate) request: Box<Message>,
    pub(crate) sender: Sender,
    /// `None` where it is handled without state.
    pub(crate) server: Option<ServerId>,
    pub(crate) routed: Routed,
    /// Max-Breadth that may be given to its copies.
    pub(crate) breadth: u32,
    pub(crate) loop_hash: u64,
    /// Who chose its destination, once the gate let it in.
    pub(crate) chosen_by: ChosenBy,
    /// Whether its sender is known to be where it came from, once the gate let it in.
    pub(crate) is_known: bool,
    /// The record of the call that it begins, where one is made.
    pub(crate) record: Option<Followed>,
    /// What the operator's hook made of it, where it was asked.
    pub(crate) told: Option<Box<Told>>,
    /// What an ACK has in the place of its session description.
    pub(crate) body: Option<Box<NewBody>>,
}

impl Job {
    /// How it came, and who chose where it goes.
    pub(crate) fn came(&self) -> Came<'_> {
        Came {
            by: &self.sender.flow,
            is_known: self.is_known,
            chosen_by: self.chosen_by,
        }
    }
}

/// How a request waits until others of its account, or of its source, were looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// When it is refused.
    pub(crate) until_ms: u64,
    /// How long it waits before it is looked at again.
    pub(crate) wait_ms: u64,
    /// How many look-ups had ended by then.
    pub(crate) ended: u64,
}

/// What is parked, by what it waits for.
pub(crate) enum Parked {
    /// A request, for a stored credential.
    Credential(Job, Pending),
    /// A request, until there is room among the look-ups of its user and source, or
    /// until that time.
    Held(Job, Pending, Held),
    /// A request with a wrong password, for the time at which it is answered.
    Guess(Job, Refusal),
    /// A request, for the answer whether its user exists.
    User(Job),
    /// A request that was let in, for the answer of the operator's hook.
    Hook(Job, Permit),
    /// A context's target, for addresses.
    Resolve(Key, u16, Option<Asker>),
    /// A request that is forwarded without state, for addresses.
    Single(Job, Permit, Candidate, Option<Asker>),
    /// A next hop that is to be probed, for its addresses.
    Probe(Arc<Probed>),
    /// A member of a trunk, for its addresses.
    Trunk(Wanted),
    /// What waits for a media engine.
    Media(Box<MediaWait>),
}

/// Whose limit counts the resolution of a name that is not configured: a hash of the
/// user or of the stranger's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asker(pub(crate) u64);

/// The most names of one asker that are resolved at the same time.
pub(crate) const RESOLVES_PER_ASKER_MAX: u16 = 32;

struct Slot {
    generation: u32,
    timer: TimerId,
    parked: Option<Parked>,
}

/// Everything that is parked.
#[derive(Default)]
pub(crate) struct Parks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// What the next that is parked is told apart by, whatever its slot: slots come and go,
    /// and an answer that is late finds nobody.
    next_generation: u32,
    live: usize,
    lookups: usize,
    guesses: usize,
    hooks: usize,
    held: usize,
    /// How many names are resolved on account of each asker.
    resolves: BTreeMap<Asker, u16>,
    /// The memory of the requests that wait.
    messages_bytes: usize,
}

const GENERATION_BITS: u32 = 30;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

impl Parks {
    /// Parks something until `deadline_ms`.
    pub(crate) fn park(
        &mut self,
        parked: Parked,
        deadline_ms: u64,
        wheel: &mut Wheel<Timer>,
    ) -> ParkId {
        if is_lookup(&parked) {
            self.lookups += 1;
        }
        self.guesses += usize::from(matches!(parked, Parked::Guess(..)));
        self.hooks += usize::from(matches!(parked, Parked::Hook(..)));
        self.held += usize::from(matches!(parked, Parked::Held(..)));
        if let Some(asker) = asker(&parked) {
            *self.resolves.entry(asker).or_default() += 1;
        }
        self.live += 1;
        self.messages_bytes += messages_bytes(&parked);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                timer: TimerId::NONE,
                parked: None,
            });
            (self.slots.len() - 1) as u32
        });
        let Some(entry) = self.slots.get_mut(slot as usize) else {
            return broken!("a free slot is one of the table's", ParkId(0));
        };
        entry.generation = self.next_generation;
        self.next_generation = (self.next_generation + 1) & GENERATION_MASK;
        let id = ParkId(u64::from(slot) << GENERATION_BITS | u64::from(entry.generation));
        entry.timer = wheel.start(deadline_ms, Timer::Park(id));
        entry.parked = Some(parked);
        id
    }

    /// Takes out what was parked; `None` when it is not there any more.
    pub(crate) fn take(&mut self, id: ParkId, wheel: &mut Wheel<Timer>) -> Option<Parked> {
        let slot = (id.0 >> GENERATION_BITS) as usize;
        let generation = (id.0 & u64::from(GENERATION_MASK)) as u32;
        let entry = self.slots.get_mut(slot)?;
        if entry.generation != generation {
            return None;
        }
        let parked = entry.parked.take()?;
        wheel.cancel(entry.timer);
        self.free.push(slot as u32);
        self.live -= 1;
        if is_lookup(&parked) {
            self.lookups -= 1;
        }
        self.guesses -= usize::from(matches!(parked, Parked::Guess(..)));
        self.hooks -= usize::from(matches!(parked, Parked::Hook(..)));
        self.held -= usize::from(matches!(parked, Parked::Held(..)));
        match asker(&parked).map(|asker| self.resolves.entry(asker)) {
            Some(Entry::Occupied(mut count)) => {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
            Some(Entry::Vacant(_)) => broken!("an asker is counted while names are resolved"),
            None => {}
        }
        self.messages_bytes -= messages_bytes(&parked);
        Some(parked)
    }

    /// Gives memory back where a crowd has gone, half of it at a time.
    pub(crate) fn trim(&mut self) {
        while self.slots.last().is_some_and(|slot| slot.parked.is_none()) {
            self.slots.pop();
        }
        let len = self.slots.len();
        self.free.retain(|slot| (*slot as usize) < len);
        if self.slots.capacity() > 2 * len {
            self.slots.shrink_to(len.max(self.slots.capacity() / 2));
            self.free.shrink_to(len.max(self.free.capacity() / 2));
        }
    }

    /// What is parked there.
    pub(crate) fn get(&self, id: ParkId) -> Option<&Parked> {
        let entry = self.slots.get((id.0 >> GENERATION_BITS) as usize)?;
        if u64::from(entry.generation) != id.0 & u64::from(GENERATION_MASK) {
            return None;
        }
        entry.parked.as_ref()
    }

    /// Names what is parked and wanted, in the order in which it was parked. Looks at everything.
    pub(crate) fn find_all(&self, is_wanted: impl Fn(&Parked) -> bool) -> Vec<ParkId> {
        let slots = self.slots.iter().enumerate();
        let wanted = slots.filter(|(_, entry)| entry.parked.as_ref().is_some_and(&is_wanted));
        let mut wanted: Vec<(u32, ParkId)> = wanted
            .map(|(slot, entry)| {
                let id = (slot as u64) << GENERATION_BITS | u64::from(entry.generation);
                // Generations begin anew: the next one is further ahead than any that waits.
                let age = entry.generation.wrapping_sub(self.next_generation) & GENERATION_MASK;
                (age, ParkId(id))
            })
            .collect();
        wanted.sort_unstable_by_key(|(age, _)| *age);
        wanted.into_iter().map(|(_, id)| id).collect()
    }

    /// Takes the records of the calls that wait. Looks at everything.
    pub(crate) fn take_records(&mut self) -> impl Iterator<Item = Followed> {
        self.slots
            .iter_mut()
            .filter_map(|slot| match &mut slot.parked {
                Some(Parked::User(job) | Parked::Hook(job, _)) => job.record.take(),
                _ => None,
            })
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// How many wrong guesses wait for their answers.
    pub(crate) fn guesses(&self) -> usize {
        self.guesses
    }

    /// How many wait for the operator's hook.
    pub(crate) fn hooks(&self) -> usize {
        self.hooks
    }

    /// The memory of what waits, and of the requests in it.
    pub(crate) fn held_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.messages_bytes
    }

    /// Whether another name may be resolved on that account.
    pub(crate) fn may_resolve(&self, asker: Option<Asker>) -> bool {
        let count = asker.and_then(|asker| self.resolves.get(&asker));
        count.is_none_or(|count| *count < RESOLVES_PER_ASKER_MAX)
    }

    /// How many wait until others of their account have been looked up.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// How many wait for the store.
    pub(crate) fn lookups(&self) -> usize {
        self.lookups
    }
}

const fn asker(parked: &Parked) -> Option<Asker> {
    match parked {
        Parked::Resolve(_, _, asker) | Parked::Single(_, _, _, asker) => *asker,
        Parked::Credential(..)
        | Parked::Held(..)
        | Parked::Guess(..)
        | Parked::User(_)
        | Parked::Hook(..)
        | Parked::Media(_)
        | Parked::Probe(_)
        | Parked::Trunk(_) => None,
    }
}

fn messages_bytes(parked: &Parked) -> usize {
    match parked {
        Parked::Credential(job, _)
        | Parked::Held(job, ..)
        | Parked::Guess(job, _)
        | Parked::User(job)
        | Parked::Single(job, _, _, _) => job.request.held_bytes(),
        // Its question is about as large.
        Parked::Hook(job, _) => 2 * job.request.held_bytes(),
        // Its context counts it.
        Parked::Resolve(..) | Parked::Probe(_) | Parked::Trunk(_) => 0,
        Parked::Media(wait) => wait.held_bytes(),
    }
}

const fn is_lookup(parked: &Parked) -> bool {
    matches!(parked, Parked::Credential(..) | Parked::User(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_after_a_crowd_and_late_answers_find_nobody() {
        let mut wheel = Wheel::new(0);
        let mut parks = Parks::default();
        let key = Key {
            slot: 1,
            generation: 2,
        };
        let mut ids = Vec::new();
        for round in 0..3 {
            let parked: Vec<ParkId> = (0..1_000)
                .map(|_| parks.park(Parked::Resolve(key, round, None), 100, &mut wheel))
                .collect();
            assert!(parks.held_bytes() >= 1_000 * size_of::<Slot>());
            // One of the first stays.
            for id in parked.iter().skip(usize::from(round)) {
                assert!(parks.take(*id, &mut wheel).is_some());
            }
            for _ in 0..20 {
                parks.trim();
            }
            assert!(parks.held_bytes() < 20 * size_of::<Slot>());
            assert!(ids.iter().all(|id| parks.get(*id).is_none()));
            for id in parked.iter().take(usize::from(round)) {
                assert!(parks.take(*id, &mut wheel).is_some());
            }
            ids.extend(parked);
        }
        assert_eq!(parks.len(), 0);
    }

    #[test]
    fn all_that_is_wanted_is_found_in_the_order_in_which_it_was_parked() {
        let key = Key {
            slot: 1,
            generation: 2,
        };
        for next_generation in [0, GENERATION_MASK] {
            let mut wheel = Wheel::new(0);
            let mut parks = Parks {
                next_generation,
                ..Parks::default()
            };
            let mut park = |parks: &mut Parks, nth| {
                parks.park(Parked::Resolve(key, nth, None), 100, &mut wheel)
            };
            let first = park(&mut parks, 0);
            let second = park(&mut parks, 1);
            parks.take(first, &mut Wheel::new(0));
            // It has the slot of the first.
            let third = park(&mut parks, 2);
            assert_eq!(parks.find_all(|_| true), [second, third]);
        }
    }

    #[test]
    fn what_was_taken_is_gone() {
        let mut wheel = Wheel::new(0);
        let mut parks = Parks::default();
        let key = Key {
            slot: 1,
            generation: 2,
        };
        let first = parks.park(Parked::Resolve(key, 0, None), 100, &mut wheel);
        let second = parks.park(Parked::Resolve(key, 1, None), 100, &mut wheel);
        assert!(matches!(
            parks.take(first, &mut wheel),
            Some(Parked::Resolve(_, 0, _))
        ));
        assert!(parks.take(first, &mut wheel).is_none());
        let third = parks.park(Parked::Resolve(key, 2, None), 100, &mut wheel);
        assert_ne!(first, third);
        assert!(parks.take(first, &mut wheel).is_none());
        assert!(parks.get(third).is_some());
        let mut fired = 0;
        wheel.advance(1_000, |timer| {
            assert!(matches!(timer, Timer::Park(id) if id == second || id == third));
            fired += 1;
        });
        assert_eq!((fired, parks.len()), (2, 2));
    }
}
