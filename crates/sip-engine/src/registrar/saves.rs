//! The changes that the store has, and what waits behind them, REGISTERs and orders of
//! the operator: one line for each address-of-record.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashMap;
use invariant::broken;
use siphasher::sip::SipHasher13;
use slab::Slab;
use wheel::{TimerId, Wheel};

use super::{EndedFlow, Registration, Removal};
use crate::{BindingChange, ParkId};

/// What may wait behind a change that the store has.
pub(super) const LINE_MAX: usize = 8;
/// Addresses-of-record with a change under way.
pub(super) const SAVES_MAX: usize = 16_384;

/// An address-of-record with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(usize);

/// Why bindings are to change.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are of the big kind, and a box would cost each an allocation"
)]
pub(super) enum Cause {
    /// A phone asks for it.
    Register(Registration),
    /// The operator has ordered it.
    Order(Removal),
    /// The flow to a phone has ended. It never stands in a line.
    Flow(EndedFlow),
}

impl Cause {
    fn held_bytes(&self) -> usize {
        match self {
            Self::Register(registration) => registration.request.held_bytes(),
            Self::Order(_) | Self::Flow(_) => 0,
        }
    }
}

pub(super) struct Saves {
    by_aor: HashMap<Arc<[u8]>, usize, Keyed>,
    lines: Slab<Line>,
    wheel: Wheel<usize>,
    /// Lines whose first is to be looked at, because no save is under way.
    free: VecDeque<usize>,
    /// Numbers the saves, so that a second answer to one finds nobody.
    serial: u32,
    waiting: usize,
    /// The memory of the requests that wait.
    waiting_bytes: usize,
}

/// What waits for an address-of-record.
struct Line {
    aor: Arc<[u8]>,
    save: Option<Save>,
    waiting: VecDeque<(Cause, u64)>,
    timer: TimerId,
}

/// A change that the store has. It stays until the store has answered, however late that is: what
/// it has stored must be in memory too, and what comes for the same user is to be planned by it.
pub(super) struct Save {
    serial: u32,
    /// `None` once it was answered that it took too long.
    pub(super) cause: Option<Cause>,
    pub(super) changes: Vec<BindingChange>,
    /// How many of the contacts that are removed make room for others.
    pub(super) replaced: u64,
    deadline_ms: u64,
}

impl Saves {
    pub(super) fn new(hash_key: [u8; 16]) -> Self {
        Self {
            by_aor: HashMap::with_hasher(Keyed(hash_key)),
            lines: Slab::new(),
            wheel: Wheel::new(0),
            free: VecDeque::new(),
            serial: 0,
            waiting: 0,
            waiting_bytes: 0,
        }
    }

    /// The line of an address-of-record, if it has one.
    pub(super) fn slot_of(&self, aor: &[u8]) -> Option<Slot> {
        self.by_aor.get(aor).copied().map(Slot)
    }

    /// Puts something at the end of a line; gives it back where the line is full.
    #[allow(
        clippy::result_large_err,
        reason = "it is the caller's own value that comes back"
    )]
    pub(super) fn wait(&mut self, slot: Slot, cause: Cause, deadline_ms: u64) -> Result<(), Cause> {
        match self.lines.get_mut(slot.0) {
            Some(line) if line.waiting.len() < LINE_MAX => {
                self.waiting += 1;
                self.waiting_bytes += cause.held_bytes();
                line.waiting.push_back((cause, deadline_ms));
                self.set_timer(slot.0);
                Ok(())
            }
            Some(_) => Err(cause),
            None => broken!(
                "an address-of-record names a line that is there",
                Err(cause)
            ),
        }
    }

    /// Notes that the store is given `changes`; gives their cause back where
    /// there is no room.
    #[allow(
        clippy::result_large_err,
        reason = "it is the caller's own value that comes back"
    )]
    pub(super) fn begin(
        &mut self,
        slot: Option<Slot>,
        aor: &Arc<[u8]>,
        cause: Cause,
        changes: Vec<BindingChange>,
        replaced: u64,
        deadline_ms: u64,
    ) -> Result<ParkId, Cause> {
        let at = match slot {
            Some(Slot(at)) => at,
            None if self.lines.len() >= SAVES_MAX => return Err(cause),
            None => {
                let line = Line {
                    aor: aor.clone(),
                    save: None,
                    waiting: VecDeque::new(),
                    timer: TimerId::NONE,
                };
                let at = self.lines.insert(line);
                self.by_aor.insert(aor.clone(), at);
                at
            }
        };
        let Some(line) = self.lines.get_mut(at) else {
            return broken!("a line whose turn it is stays", Err(cause));
        };
        self.serial = self.serial.wrapping_add(1);
        self.waiting += 1;
        self.waiting_bytes += cause.held_bytes();
        line.save = Some(Save {
            serial: self.serial,
            cause: Some(cause),
            changes,
            replaced,
            deadline_ms,
        });
        self.set_timer(at);
        Ok(ParkId(u64::from(self.serial) << 32 | at as u64))
    }

    /// Ends a save.
    pub(super) fn end(&mut self, park: ParkId) -> Option<Save> {
        let at = usize::try_from(park.0 & u64::from(u32::MAX)).ok()?;
        let serial = (park.0 >> 32) as u32;
        let line = self.lines.get_mut(at)?;
        let save = line.save.take_if(|save| save.serial == serial)?;
        if let Some(cause) = &save.cause {
            self.waiting -= 1;
            self.waiting_bytes -= cause.held_bytes();
        }
        self.free.push_back(at);
        self.set_timer(at);
        Some(save)
    }

    /// What has its turn next. Its line stays until it is empty and no save was
    /// begun for it.
    pub(super) fn next_in_line(&mut self) -> Option<(Slot, Cause)> {
        while let Some(&at) = self.free.front() {
            let next = match self.lines.get_mut(at) {
                // The one before began another save: the rest waits on.
                Some(line) if line.save.is_some() => None,
                Some(line) => line.waiting.pop_front(),
                None => broken!("a line stays until it was looked at", None),
            };
            if let Some((cause, _)) = next {
                self.waiting -= 1;
                self.waiting_bytes -= cause.held_bytes();
                return Some((Slot(at), cause));
            }
            self.free.pop_front();
            self.close_if_empty(at);
        }
        None
    }

    /// Hands over what has waited too long.
    pub(super) fn handle_timers(&mut self, now_ms: u64, mut late: impl FnMut(Cause)) {
        let mut due = VecDeque::new();
        self.wheel.advance(now_ms, |at| due.push_back(at));
        for at in due {
            let Some(line) = self.lines.get_mut(at) else {
                broken!("a line's timer is cancelled with it");
                continue;
            };
            line.timer = TimerId::NONE;
            if let Some(save) = &mut line.save
                && save.deadline_ms <= now_ms
                && let Some(cause) = save.cause.take()
            {
                self.waiting -= 1;
                self.waiting_bytes -= cause.held_bytes();
                late(cause);
            }
            while line
                .waiting
                .front()
                .is_some_and(|(_, deadline_ms)| *deadline_ms <= now_ms)
            {
                if let Some((cause, _)) = line.waiting.pop_front() {
                    self.waiting -= 1;
                    self.waiting_bytes -= cause.held_bytes();
                    late(cause);
                }
            }
            self.set_timer(at);
        }
    }

    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.wheel.next_deadline_ms()
    }

    /// What is in all lines, what the store has included.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The memory of those requests.
    pub(super) fn held_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// One timer for a line: whatever in it is due first.
    fn set_timer(&mut self, at: usize) {
        let Some(line) = self.lines.get_mut(at) else {
            return broken!("only a line that is there has a timer");
        };
        let save = line.save.as_ref().filter(|save| save.cause.is_some());
        let save_ms = save.map(|save| save.deadline_ms);
        let first = line.waiting.front().map(|(_, deadline_ms)| *deadline_ms);
        self.wheel.cancel(line.timer);
        line.timer = match save_ms.into_iter().chain(first).min() {
            Some(deadline_ms) => self.wheel.start(deadline_ms, at),
            None => TimerId::NONE,
        };
    }

    fn close_if_empty(&mut self, at: usize) {
        if self
            .lines
            .get(at)
            .is_some_and(|line| line.save.is_none() && line.waiting.is_empty())
        {
            let line = self.lines.remove(at);
            self.wheel.cancel(line.timer);
            if self.by_aor.remove(&line.aor).is_none() {
                broken!("a line is found by its address-of-record");
            }
        }
    }
}

/// Users choose what is hashed.
struct Keyed([u8; 16]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}
