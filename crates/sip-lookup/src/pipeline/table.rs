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
/// most the last has not been sent, but of those that joined when their name was lost alone.
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

/// With whom a look-up shares its statements, and so the queue that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// With all others.
    Shared,
    /// With those of its part, or nobody.
    Apart,
    /// With nobody, and it is taken never to be answered: it is asked while no other of its
    /// subject is under way, and few such are.
    Hung,
}

impl Line {
    pub(super) const ALL: [Self; 3] = [Self::Shared, Self::Apart, Self::Hung];
}

/// A row to be asked for, and who waits for it.
pub(super) struct Lookup {
    pub(super) what: What,
    pub(super) place: LookupStage,
    /// The oldest question.
    pub(super) since_us: u64,
    /// How often its batch has failed.
    pub(super) failures: u8,
    pub(super) line: Line,
    /// The part of a refused batch that it is asked again with; `None` where it goes by itself.
    pub(super) part: Option<u64>,
    /// What the cache was told before it was sent.
    pub(super) ticket: Ticket,
    waiters: SmallVec<[Name; 2]>,
    /// Of these, how many still wait.
    waiting: usize,
    is_chained: bool,
}

impl Lookup {
    /// Whether it waits in that line to be sent.
    fn stands_in(&self, line: Line) -> bool {
        self.place == LookupStage::Queued && self.line == line
    }
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
    /// Look-ups by their lines, and those that nobody waits for. Some names in them are stale, or
    /// of look-ups that have moved.
    queues: [VecDeque<Name>; 3],
    pub(super) refreshes: VecDeque<Name>,
    /// Look-ups in each line.
    queued: [usize; 3],
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
    pub(super) line: Line,
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
            queues: Default::default(),
            refreshes: VecDeque::new(),
            queued: [0; 3],
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

    /// Look-ups of a line that have not been sent.
    pub(super) const fn queued(&self, line: Line) -> usize {
        self.queued[line as usize]
    }

    /// Whether nothing waits to be sent.
    pub(super) fn is_settled(&self) -> bool {
        self.queued == [0; 3] && self.refreshes.is_empty()
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
            lookup.line = lookup.line.max(asking.line);
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
            line: match what {
                What::Secrets(_) => Line::Shared,
                What::Verify(_) => Line::Apart,
            },
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
        let queue = &mut self.queues[lookup.line as usize];
        self.queued[lookup.line as usize] += 1;
        match is_first {
            true => queue.push_front(name),
            false => queue.push_back(name),
        }
    }

    /// The oldest question at the front of a queue. What has moved or ended is dropped.
    pub(super) fn front_since_us(&mut self, line: Line) -> Option<u64> {
        let queue = &mut self.queues[line as usize];
        loop {
            let name = *queue.front()?;
            match self.lookups.get(name) {
                Some(lookup) if lookup.stands_in(line) => return Some(lookup.since_us),
                _ => {
                    queue.pop_front();
                }
            }
        }
    }

    /// The same of those that share batches, without dropping anything.
    pub(super) fn oldest_us(&self) -> Option<u64> {
        let names = self.queues[Line::Shared as usize].iter();
        let mut lookups = names.filter_map(|name| self.lookups.get(*name));
        let first = lookups.find(|lookup| lookup.stands_in(Line::Shared))?;
        Some(first.since_us)
    }

    /// Takes the next look-up out of a queue, to be sent.
    pub(super) fn pop(&mut self, line: Line) -> Option<Name> {
        self.front_since_us(line)?;
        let name = self.queues[line as usize].pop_front()?;
        self.set_sent(name);
        Some(name)
    }

    /// Takes the next look-up out of the queue of those that go apart, with those of its part
    /// that stand behind it: at most `max`.
    pub(super) fn pop_part(&mut self, max: usize) -> Vec<Name> {
        let mut names = Vec::new();
        let Some(first) = self.pop(Line::Apart) else {
            return names;
        };
        names.push(first);
        let part = self.lookups.get(first).and_then(|lookup| lookup.part);
        while part.is_some() && names.len() < max && self.front_part() == part {
            names.extend(self.pop(Line::Apart));
        }
        names
    }

    /// The part of the look-up at the front of the queue of those that go apart.
    fn front_part(&mut self) -> Option<u64> {
        self.front_since_us(Line::Apart)?;
        let front = self.queues[Line::Apart as usize].front()?;
        self.lookups.get(*front)?.part
    }

    /// The first look-up of those that are taken never to be answered, of whose subject none is
    /// under way: its place in the queue, and its oldest question.
    pub(super) fn next_hung(&mut self) -> Option<(usize, u64)> {
        self.front_since_us(Line::Hung)?;
        let mut names = self.queues[Line::Hung as usize].iter().enumerate();
        names.find_map(|(at, &name)| {
            let lookup = self.lookups.get(name)?;
            let may = lookup.stands_in(Line::Hung) && self.is_first(name);
            may.then_some((at, lookup.since_us))
        })
    }

    /// Takes the one at that place, to be sent.
    pub(super) fn pop_hung(&mut self, at: usize) -> Option<Name> {
        let name = self.queues[Line::Hung as usize].remove(at)?;
        self.set_sent(name);
        Some(name)
    }

    /// Has a look-up stand in a line that shares less, wherever it is. One of a name that is taken
    /// never to be answered joins the others of its subject, though it did not when it was made.
    pub(super) fn move_to(&mut self, name: Name, line: Line) {
        let Some(lookup) = self.lookups.get_mut(name) else {
            return broken!("what is moved is there");
        };
        if line <= lookup.line {
            return;
        }
        if line == Line::Hung
            && !lookup.is_chained
            && let What::Secrets(subject) = &lookup.what
        {
            lookup.is_chained = true;
            self.chains.entry(subject.clone()).or_default().push(name);
        }
        let from = std::mem::replace(&mut lookup.line, line);
        if lookup.place == LookupStage::Queued {
            self.queued[from as usize] -= 1;
            self.queued[line as usize] += 1;
            self.queues[line as usize].push_back(name);
        }
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
            self.queued[lookup.line as usize] -= 1;
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
            self.queued[lookup.line as usize] -= 1;
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
