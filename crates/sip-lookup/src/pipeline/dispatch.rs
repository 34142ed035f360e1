//! When a batch leaves, and what is in it.

use invariant::broken;
use slots::Name;

use super::table::{Line, Lookup, What};
use super::{Flight, Passenger, Pipeline};
use crate::cache::Ticket;
use crate::config::Mode;
use crate::figures::size_class;
use crate::model::Setting;
use crate::question::{Batch, BatchId, Replica, Rows};

/// What leaves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// One look-up by itself, or a part of a batch that was refused.
    Single,
    /// The look-up at that place of those that are taken never to be answered.
    Hung(usize),
    /// As many as may share a statement.
    Shared,
}

/// What was gathered for a statement.
#[derive(Default)]
struct Gathered {
    lookups: Vec<Name>,
    passengers: Vec<Passenger>,
    is_hung: bool,
}

/// The part of the statements in flight that may ask for names that are taken never to be
/// answered: each holds its place until it is given up.
const HUNG_PART: usize = 4;

impl<T> Pipeline<T> {
    pub(super) fn dispatch(&mut self, now_us: u64) -> Option<Batch> {
        if let Some(decision) = self.tuner.poll_decision(now_us)
            && self.config.mode == Mode::Tuned
            && let Some(count) = self.figures.decisions.get_mut(decision.reason as usize)
        {
            *count += 1;
        }
        if let Some(batch) = self.probe(now_us) {
            return Some(batch);
        }
        let replica = self.replicas.healthy()?;
        if self.asked.is_some_and(|asked| asked != replica) {
            self.tuner.restart(now_us);
        }
        self.asked = Some(replica);
        let setting = self.setting();
        let (interval_us, rows_max, in_flight_max) = bounds(&setting);
        if self.in_flight >= in_flight_max {
            return None;
        }
        let rows_max = rows_max.min(self.config.batch_max.max(1));
        let gathered = match self.next(now_us, &setting)? {
            Next::Single => Gathered {
                lookups: self.table.pop_part(rows_max),
                ..Gathered::default()
            },
            Next::Hung(at) => Gathered {
                lookups: self.table.pop_hung(at).into_iter().collect(),
                is_hung: true,
                ..Gathered::default()
            },
            Next::Shared => {
                self.next_batch_us = now_us.saturating_add(interval_us);
                self.gather(now_us, rows_max)
            }
        };
        self.send(now_us, replica, gathered)
    }

    /// When the next batch leaves, as far as that is a matter of time.
    pub(super) fn leaves_us(&self) -> Option<u64> {
        self.replicas.healthy()?;
        let setting = self.setting();
        let (.., in_flight_max) = bounds(&setting);
        if self.in_flight >= in_flight_max {
            return None;
        }
        let oldest_us = self.table.oldest_us();
        match setting {
            Setting::Paced { .. } => {
                let is_wanted = oldest_us.is_some() || !self.table.refreshes.is_empty();
                is_wanted.then_some(self.next_batch_us)
            }
            Setting::Blocking { .. } => Some(oldest_us?.saturating_add(Setting::PATIENCE_US)),
        }
    }

    fn next(&mut self, now_us: u64, setting: &Setting) -> Option<Next> {
        let single = self.table.front_since_us(Line::Apart);
        let single = single.map(|since_us| (since_us, Next::Single));
        let hung = self.next_hung(setting);
        let hung = hung.map(|(at, since_us)| (since_us, Next::Hung(at)));
        let alone = single.into_iter().chain(hung);
        let alone = alone.min_by_key(|&(since_us, _)| since_us);
        let shared_us = self.table.front_since_us(Line::Shared);
        let queued = self.table.queued(Line::Shared);
        let is_due = match *setting {
            Setting::Paced { batch_max, .. } => {
                now_us >= self.next_batch_us || queued >= batch_max.max(1)
            }
            Setting::Blocking { batch, .. } => {
                let waited_us = shared_us.map(|since_us| now_us.saturating_sub(since_us));
                queued >= batch.max(1) || waited_us.is_some_and(|us| us >= Setting::PATIENCE_US)
            }
        };
        match (alone, shared_us.filter(|_| is_due)) {
            (Some((alone_us, _)), Some(shared_us)) if shared_us <= alone_us => Some(Next::Shared),
            (Some((_, next)), _) => Some(next),
            (None, Some(_)) => Some(Next::Shared),
            // Nobody waits: what the cache wants renewed has the statement to itself.
            (None, None) => {
                let is_theirs = shared_us.is_none() && now_us >= self.next_batch_us;
                (is_theirs && !self.table.refreshes.is_empty()).then_some(Next::Shared)
            }
        }
    }

    /// The next look-up of those that are taken never to be answered, while few of them are under
    /// way: its place in its queue, and its oldest question.
    fn next_hung(&mut self, setting: &Setting) -> Option<(usize, u64)> {
        if self.table.queued(Line::Hung) == 0 {
            return None;
        }
        let (.., in_flight_max) = bounds(setting);
        let under_way = self.flights.values().filter(|flight| flight.is_hung);
        if under_way.count() >= (in_flight_max / HUNG_PART).max(1) {
            return None;
        }
        self.table.next_hung()
    }

    /// Takes what shares the next statement, at most `max` rows.
    ///
    /// A name that is known not to exist needs no row; a statement without it would be
    /// shorter by a row's time than one with a name that does exist. So its row is given to
    /// a name that the cache wants renewed, and without such a name it is asked for after
    /// all: how many rows a statement has says nothing of the names that were asked for.
    /// Rows stand in the order in which they were taken, so that neither does their place.
    fn gather(&mut self, now_us: u64, max: usize) -> Gathered {
        let mut taken: Vec<(Name, Option<Ticket>)> = Vec::new();
        while taken.len() < max
            && let Some(name) = self.table.pop(Line::Shared)
        {
            match self.same(name, taken.iter().map(|&(name, _)| name)) {
                Some(same) => self.table.merge(name, same),
                None => taken.push((name, self.absent(now_us, name))),
            }
        }
        let absent = taken.iter().filter(|(_, ticket)| ticket.is_some()).count();
        let mut renewed = Vec::new();
        while taken.len() + renewed.len() - absent.min(renewed.len()) < max
            && let Some(name) = self.table.pop_refresh()
        {
            let others = taken.iter().map(|&(name, _)| name);
            match self.same(name, others.chain(renewed.iter().copied())) {
                Some(same) => self.table.merge(name, same),
                None => renewed.push(name),
            }
        }
        let mut gathered = Gathered::default();
        for (name, ticket) in taken {
            let is_paid = gathered.passengers.len() < renewed.len();
            match ticket.filter(|_| is_paid) {
                Some(ticket) => gathered.passengers.push(Passenger {
                    name,
                    ticket,
                    rows_before: gathered.lookups.len(),
                }),
                None => gathered.lookups.push(name),
            }
        }
        gathered.lookups.extend(renewed);
        gathered
    }

    /// The look-up among those that asks for the same name. There is none but for questions
    /// that did not join.
    fn same(&self, name: Name, mut among: impl Iterator<Item = Name>) -> Option<Name> {
        if !self.has_unjoined {
            return None;
        }
        let subject = |name: Name| match self.table.lookups.get(name) {
            Some(Lookup {
                what: What::Secrets(subject),
                ..
            }) => Some(subject),
            _ => None,
        };
        let wanted = subject(name)?;
        among.find(|&other| subject(other) == Some(wanted))
    }

    /// The ticket of the knowledge that there is no such name. A look-up that has failed
    /// once is asked for in any case.
    fn absent(&self, now_us: u64, name: Name) -> Option<Ticket> {
        let cache = self.cache.as_ref().filter(|_| !self.has_unjoined)?;
        let lookup = self.table.lookups.get(name)?;
        match &lookup.what {
            // A row that is under way for an earlier question may say that there is one now.
            What::Secrets(subject) if lookup.failures == 0 && self.table.is_first(name) => {
                cache.negative(now_us, subject)
            }
            _ => None,
        }
    }

    fn send(&mut self, now_us: u64, replica: Replica, gathered: Gathered) -> Option<Batch> {
        let mut subjects = Vec::with_capacity(gathered.lookups.len());
        let mut digest = None;
        for &name in &gathered.lookups {
            let (waited_us, waiting) = self.table.waits_us(now_us, name);
            self.figures.wait_us += waited_us;
            self.figures.waits += waiting;
            self.figures.refreshes += u64::from(waiting == 0);
            let Some(lookup) = self.table.lookups.get_mut(name) else {
                return broken!("what is gathered is there", None);
            };
            // Nobody may wait for it any more when a replica is left alone for it.
            if self.probe.is_empty() {
                self.probe.sent(&lookup.what);
            }
            match &lookup.what {
                What::Secrets(subject) => {
                    if let Some(cache) = &self.cache {
                        lookup.ticket = cache.ticket(subject);
                    }
                    subjects.push(subject.clone());
                }
                What::Verify(asked) => digest = Some(asked.clone()),
            }
        }
        for passenger in &gathered.passengers {
            let (waited_us, waiting) = self.table.waits_us(now_us, passenger.name);
            self.figures.wait_us += waited_us;
            self.figures.waits += waiting;
        }
        let (rows, is_verify, count) = match digest {
            Some(digest) => (Rows::Verify(digest), true, 1),
            None if subjects.is_empty() => return None,
            None => {
                let count = subjects.len();
                (Rows::Secrets(subjects), false, count)
            }
        };
        if let Some(sent) = self.figures.batches.get_mut(size_class(count)) {
            *sent += 1;
        }
        self.figures.rows += count as u64;
        self.figures.passengers += gathered.passengers.len() as u64;
        self.in_flight += 1;
        let id = self.fly(Flight {
            replica,
            sent_us: now_us,
            lookups: gathered.lookups,
            passengers: gathered.passengers,
            rows: count,
            is_verify,
            is_hung: gathered.is_hung,
            probe: None,
        });
        Some(Batch { id, replica, rows })
    }

    /// A statement for a replica that is left alone, whose time to be tried has come.
    fn probe(&mut self, now_us: u64) -> Option<Batch> {
        if self.probe.is_empty() {
            return None;
        }
        let replica = self.replicas.take_probe(now_us)?;
        let tries = self.replicas.tries(replica);
        let is_outage = self.replicas.healthy().is_none();
        let Some(rows) = self.probe.rows(tries, is_outage) else {
            return broken!("what is not empty has something to ask", None);
        };
        self.figures.probes += 1;
        let id = self.fly(Flight {
            replica,
            sent_us: now_us,
            lookups: Vec::new(),
            passengers: Vec::new(),
            rows: 1,
            is_verify: matches!(rows, Rows::Verify(_)),
            is_hung: false,
            probe: Some(rows.clone()),
        });
        Some(Batch { id, replica, rows })
    }

    fn fly(&mut self, flight: Flight) -> BatchId {
        let id = BatchId(self.next_id);
        self.next_id += 1;
        self.flights.insert(id, flight);
        id
    }
}

/// Interval, rows and statements in flight; there is always room for one.
fn bounds(setting: &Setting) -> (u64, usize, usize) {
    match *setting {
        Setting::Paced {
            interval_us,
            batch_max,
            in_flight_max,
        } => (interval_us, batch_max.max(1), in_flight_max.max(1)),
        Setting::Blocking { processes, batch } => (0, batch.max(1), processes.max(1)),
    }
}
