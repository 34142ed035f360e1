//! Who waits for what: waiters, the look-ups that they share, and the order of both.

mod endings;

use std::collections::{HashMap, VecDeque};

use invariant::broken;
use sip_auth::{Algorithm, DigestRequest, Subject};
use slots::{Name, Slots};
use smallvec::SmallVec;
use wheel::{TimerId, Wheel};

use crate::cache::Ticket;
use crate::keyed::Keyed;
use crate::question::Outcome;

/// Answers on their way out.
pub(super) type Answers<T> = VecDeque<Answered<T>>;

/// An answer on its way out.
pub(super) struct Answered<T> {
    /// The place of its question among all that came.
    pub(super) nth: u64,
    pub(super) tag: T,
    pub(super) outcome: Outcome,
}

/// The look-ups of one subject that are not over, in the order in which they were made: at
/// most the last has not been sent.
type Chain = SmallVec<[Name; 2]>;

struct Waiter<T> {
    tag: T,
    nth: u64,
    algorithm: Algorithm,
    since_us: u64,
    deadline_us: u64,
    timer: TimerId,
    lookup: Name,
}

/// What a look-up asks.
#[derive(Clone, Debug)]
pub(super) enum What {
    Secrets(Subject),
    Verify(Box<DigestRequest>),
}

/// Where a look-up is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupStage {
    /// In a queue, and somebody waits for it.
    Queued,
    /// To renew what the cache holds; nobody waits for it.
    Refresh,
    /// In a batch in flight.
    Sent,
}

/// A row to be asked for, and who waits for it.
pub(super) struct Lookup {
    pub(super) what: What,
    pub(super) place: LookupStage,
    /// The oldest question.
    pub(super) since_us: u64,
    /// How often its batch has failed.
    pub(super) failures: u8,
    /// It goes in a batch of its own, or of its part.
    pub(super) is_alone: bool,
    /// The part of a refused batch that it is asked again with; `None` where it goes by itself.
    pub(super) part: Option<u64>,
    /// What the cache was told before it was sent.
    pub(super) ticket: Ticket,
    waiters: SmallVec<[Name; 2]>,
    /// Of these, how many still wait.
    waiting: usize,
    is_chained: bool,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It has a look-up of its own.
    Alone,
    /// It shares another's.
    Joined,
    /// There is no room.
    Full,
}

/// Numbers of waiters, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expired {
    pub(super) unasked: u64,
    pub(super) asked: u64,
}

/// Waiters and look-ups.
pub(super) struct Table<T> {
    waiters: Slots<Waiter<T>>,
    pub(super) lookups: Slots<Lookup>,
    chains: HashMap<Subject, Chain, Keyed>,
    deadlines: Wheel<Name>,
    /// Look-ups that share batches, those that do not, and those that nobody waits for.
    /// Some names in them are stale, or of look-ups that have moved.
    pub(super) queue: VecDeque<Name>,
    pub(super) singles: VecDeque<Name>,
    pub(super) refreshes: VecDeque<Name>,
    /// Look-ups in the first two.
    queued: [usize; 2],
    /// How many parts of refused batches there were.
    parts: u64,
    waiters_max: usize,
    /// How many questions came.
    asked: u64,
}

/// A question on its way in.
pub(super) struct Asking<T> {
    pub(super) tag: T,
    pub(super) algorithm: Algorithm,
    pub(super) what: What,
    pub(super) deadline_us: u64,
    /// It may share a look-up with others.
    pub(super) joins: bool,
    /// It goes in a batch of its own.
    pub(super) is_alone: bool,
}

/// What became of a look-up that was sent in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The next one of its subject has its waiters.
    Merged,
    /// It will be sent again.
    Queued,
    /// It is not to be sent again.
    Over,
}

/// More waiters than any bound allows: the bound itself can be set anew.
const WAITERS_MAX: usize = 1 << 24;

impl<T> Table<T> {
    pub(super) fn new(now_us: u64, hash: Keyed, waiters_max: usize) -> Self {
        Self {
            waiters: Slots::new(WAITERS_MAX),
            lookups: Slots::new(2 * WAITERS_MAX),
            chains: HashMap::with_hasher(hash),
            deadlines: Wheel::with_tick(now_us / 1_000, 1),
            queue: VecDeque::new(),
            singles: VecDeque::new(),
            refreshes: VecDeque::new(),
            queued: [0; 2],
            parts: 0,
            waiters_max: waiters_max.clamp(1, WAITERS_MAX),
            asked: 0,
        }
    }

    pub(super) fn set_waiters_max(&mut self, waiters_max: usize) {
        self.waiters_max = waiters_max.clamp(1, WAITERS_MAX);
    }

    /// Whether no more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiters.len() >= self.waiters_max
    }

    /// Look-ups that have not been sent, of those that share batches or of the others.
    pub(super) const fn queued(&self, singles: bool) -> usize {
        self.queued[singles as usize]
    }

    /// Whether nothing waits to be sent.
    pub(super) fn is_settled(&self) -> bool {
        self.queued == [0; 2] && self.refreshes.is_empty()
    }

    /// Whether nothing is held at all.
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.lookups.is_empty() && self.chains.is_empty()
    }

    /// When the next waiter's time is up.
    pub(super) fn next_deadline_us(&self) -> Option<u64> {
        let deadline_ms = self.deadlines.next_deadline_ms()?;
        Some(deadline_ms.saturating_mul(1_000))
    }

    /// Takes a question in, by the look-up of its subject that has not been sent, or by a
    /// new one.
    pub(super) fn ask(&mut self, now_us: u64, asking: Asking<T>) -> Taken {
        if self.is_full() {
            return Taken::Full;
        }
        let open = match &asking.what {
            What::Secrets(subject) if asking.joins => self.open(subject),
            _ => None,
        };
        let taken = match open {
            Some(_) => Taken::Joined,
            None => Taken::Alone,
        };
        let (what, joins) = (asking.what, asking.joins);
        let Some(name) =
            open.or_else(|| self.new_lookup(now_us, what, LookupStage::Refresh, joins))
        else {
            return Taken::Full;
        };
        let nth = self.asked;
        self.asked += 1;
        let waiter = self.waiters.insert(Waiter {
            tag: asking.tag,
            nth,
            algorithm: asking.algorithm,
            since_us: now_us,
            deadline_us: asking.deadline_us,
            timer: TimerId::NONE,
            lookup: name,
        });
        let Some(waiter) = waiter else {
            return broken!("there is room below the bound", Taken::Full);
        };
        let deadline_ms = asking.deadline_us.div_ceil(1_000);
        let timer = self.deadlines.start(deadline_ms, waiter);
        if let Some(waiter) = self.waiters.get_mut(waiter) {
            waiter.timer = timer;
        }
        let Some(lookup) = self.lookups.get_mut(name) else {
            return broken!("a look-up that was found is there", Taken::Full);
        };
        lookup.waiters.push(waiter);
        lookup.waiting += 1;
        // It is new, or nobody has waited for it until now.
        if lookup.place == LookupStage::Refresh {
            lookup.is_alone |= asking.is_alone;
            lookup.since_us = now_us;
            self.enqueue(name, false);
        }
        taken
    }

    /// Has a row asked for that nobody waits for. Whether it will be.
    pub(super) fn refresh(&mut self, now_us: u64, subject: Subject) -> bool {
        if self.chains.contains_key(&subject) {
            return false;
        }
        let what = What::Secrets(subject);
        match self.new_lookup(now_us, what, LookupStage::Refresh, true) {
            Some(name) => {
                self.refreshes.push_back(name);
                true
            }
            None => false,
        }
    }

    /// The look-up of a subject that has not been sent.
    fn open(&self, subject: &Subject) -> Option<Name> {
        let last = *self.chains.get(subject)?.last()?;
        let lookup = self.lookups.get(last)?;
        (lookup.place != LookupStage::Sent).then_some(last)
    }

    fn new_lookup(
        &mut self,
        now_us: u64,
        what: What,
        place: LookupStage,
        is_chained: bool,
    ) -> Option<Name> {
        let subject = match &what {
            What::Secrets(subject) if is_chained => Some(subject.clone()),
            _ => None,
        };
        let name = self.lookups.insert(Lookup {
            is_alone: matches!(what, What::Verify(_)),
            what,
            place,
            since_us: now_us,
            failures: 0,
            part: None,
            ticket: Ticket::default(),
            waiters: SmallVec::new(),
            waiting: 0,
            is_chained: subject.is_some(),
        })?;
        if let Some(subject) = subject {
            self.chains.entry(subject).or_default().push(name);
        }
        Some(name)
    }

    /// Puts a look-up into the queue that it belongs to.
    fn enqueue(&mut self, name: Name, is_first: bool) {
        let Some(lookup) = self.lookups.get_mut(name) else {
            return broken!("what is put into a queue is there");
        };
        lookup.place = LookupStage::Queued;
        let queue = match lookup.is_alone {
            true => &mut self.singles,
            false => &mut self.queue,
        };
        self.queued[usize::from(lookup.is_alone)] += 1;
        match is_first {
            true => queue.push_front(name),
            false => queue.push_back(name),
        }
    }

    /// The oldest question at the front of a queue. What has moved or ended is dropped.
    pub(super) fn front_since_us(&mut self, singles: bool) -> Option<u64> {
        loop {
            let queue = match singles {
                true => &mut self.singles,
                false => &mut self.queue,
            };
            let name = *queue.front()?;
            match self.lookups.get(name) {
                Some(lookup)
                    if lookup.place == LookupStage::Queued && lookup.is_alone == singles =>
                {
                    return Some(lookup.since_us);
                }
                _ => {
                    queue.pop_front();
                }
            }
        }
    }

    /// The same, without dropping anything.
    pub(super) fn oldest_us(&self) -> Option<u64> {
        let mut lookups = self.queue.iter().filter_map(|name| self.lookups.get(*name));
        let first =
            lookups.find(|lookup| lookup.place == LookupStage::Queued && !lookup.is_alone)?;
        Some(first.since_us)
    }

    /// Takes the next look-up out of a queue, to be sent.
    pub(super) fn pop(&mut self, singles: bool) -> Option<Name> {
        self.front_since_us(singles)?;
        let name = match singles {
            true => self.singles.pop_front(),
            false => self.queue.pop_front(),
        }?;
        self.set_sent(name);
        Some(name)
    }

    /// Takes the next look-up out of the queue of those that share no batch, with those of its
    /// part that stand behind it: at most `max`.
    pub(super) fn pop_part(&mut self, max: usize) -> Vec<Name> {
        let mut names = Vec::new();
        let Some(first) = self.pop(true) else {
            return names;
        };
        names.push(first);
        let part = self.lookups.get(first).and_then(|lookup| lookup.part);
        while part.is_some() && names.len() < max && self.front_part() == part {
            names.extend(self.pop(true));
        }
        names
    }

    /// The part of the look-up at the front of the queue of those that share no batch.
    fn front_part(&mut self) -> Option<u64> {
        self.front_since_us(true)?;
        self.lookups.get(*self.singles.front()?)?.part
    }

    /// Numbers for so many parts of a refused batch: the first of them.
    pub(super) fn new_parts(&mut self, many: usize) -> u64 {
        let first = self.parts;
        self.parts += many as u64;
        first
    }

    fn set_sent(&mut self, name: Name) {
        let Some(lookup) = self.lookups.get_mut(name) else {
            return broken!("what is sent is there");
        };
        if lookup.place == LookupStage::Queued {
            self.queued[usize::from(lookup.is_alone)] -= 1;
        }
        lookup.place = LookupStage::Sent;
    }

    /// Takes the next row that nobody waits for.
    pub(super) fn pop_refresh(&mut self) -> Option<Name> {
        loop {
            let name = self.refreshes.pop_front()?;
            match self.lookups.get(name) {
                Some(lookup) if lookup.place == LookupStage::Refresh => {
                    self.set_sent(name);
                    return Some(name);
                }
                _ => {}
            }
        }
    }

    /// Whether no earlier look-up of its subject is under way.
    pub(super) fn is_first(&self, name: Name) -> bool {
        let chain = self
            .lookups
            .get(name)
            .and_then(|lookup| match &lookup.what {
                What::Secrets(subject) if lookup.is_chained => self.chains.get(subject),
                _ => None,
            });
        chain.is_none_or(|chain| chain.first() == Some(&name))
    }

    /// How many wait for a look-up.
    pub(super) fn waiting(&self, name: Name) -> usize {
        self.lookups.get(name).map_or(0, |lookup| lookup.waiting)
    }

    /// Takes a look-up out of everything but the queues, which find out.
    pub(super) fn remove(&mut self, name: Name) -> Option<Lookup> {
        let lookup = self.lookups.remove(name)?;
        if lookup.place == LookupStage::Queued {
            self.queued[usize::from(lookup.is_alone)] -= 1;
        }
        if lookup.is_chained
            && let What::Secrets(subject) = &lookup.what
        {
            match self.chains.get_mut(subject) {
                Some(chain) => {
                    chain.retain(|other| *other != name);
                    if chain.is_empty() {
                        self.chains.remove(subject);
                    }
                }
                None => broken!("a look-up is in the chain of its subject"),
            }
        }
        Some(lookup)
    }

    /// How long its waiters have waited, together, and how many they are.
    pub(super) fn waits_us(&self, now_us: u64, name: Name) -> (u64, u64) {
        let Some(lookup) = self.lookups.get(name) else {
            return (0, 0);
        };
        let waiters = lookup
            .waiters
            .iter()
            .filter_map(|name| self.waiters.get(*name));
        let sum_us = waiters
            .map(|waiter| now_us.saturating_sub(waiter.since_us))
            .sum();
        (sum_us, lookup.waiting as u64)
    }
}
