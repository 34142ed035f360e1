//! Calls that were answered and whose end is waited for: one entry for each record that goes
//! on. The table is bounded, and each entry has a timer.

use std::hash::Hasher;

use hashbrown::HashMap;
use sip_msg::Message;
use siphasher::sip::SipHasher13;
use wheel::{TimerId, Wheel};

use super::{EndedBy, Followed, Why, expires_s, printable};
use crate::Now;
use crate::timer::Timer;

/// Calls of one shard whose end is waited for.
const OPEN_MAX: usize = 65_536;

/// Who ended a call, and when.
struct Hung {
    at: Now,
    by: EndedBy,
    reason: Box<str>,
}

impl Hung {
    fn now(at: Now, by: EndedBy) -> Self {
        Self {
            at,
            by,
            reason: Box::default(),
        }
    }

    /// The record of a call that ended so.
    fn end(self, mut record: Followed) -> Followed {
        record.ended = Some(self.at);
        record.ended_by = self.by;
        if !self.reason.is_empty() {
            record.reason = self.reason;
        }
        record
    }
}

/// A call that was answered.
struct Open {
    record: Followed,
    /// The tag in the caller's From: it tells the sides apart.
    caller_tag: Box<[u8]>,
    hung: Option<Hung>,
    /// When it is taken to be over, by the clock that only goes forward.
    due_ms: u64,
    timer: TimerId,
}

impl Open {
    /// The side that sent a request of the dialog.
    fn sender(&self, request: &Message) -> EndedBy {
        let from = request.from().ok();
        let tag = from.as_ref().and_then(|from| from.tag());
        match tag == Some(&*self.caller_tag) {
            true => EndedBy::Caller,
            false => EndedBy::Callee,
        }
    }

    /// A sign of life: it is over so long after this one.
    fn seen(&mut self, now: Now, lifetime_s: u64) {
        self.record.seen = now;
        let lasts_s = (self.record.session_expires_s).map_or(lifetime_s, u64::from);
        self.due_ms = now.mono_ms + lasts_s.saturating_mul(1_000);
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.caller_tag.len() + self.record.held_bytes()
    }
}

/// The calls of a shard that were answered.
pub(crate) struct OpenCalls {
    key: [u8; 16],
    /// What tells the numbers of this shard and process from all others.
    prefix: u64,
    last: u64,
    /// By a hash of Call-ID and both tags.
    entries: HashMap<u64, Box<Open>>,
    held_bytes: usize,
}

impl OpenCalls {
    /// None yet. The key is secret, because phones choose what is hashed.
    pub(crate) fn new(key: [u8; 16], prefix: [u8; 16]) -> Self {
        Self {
            key,
            prefix: (u128::from_be_bytes(prefix) >> 64) as u64,
            last: 0,
            entries: HashMap::new(),
            held_bytes: 0,
        }
    }

    /// The number of another record.
    pub(crate) fn next_id(&mut self) -> u128 {
        self.last += 1;
        u128::from(self.prefix) << 64 | u128::from(self.last)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes + self.entries.capacity() * size_of::<(u64, Box<Open>)>()
    }

    /// A call is answered by this 2xx: its record goes on. It is given back where there is no
    /// room, or no telling which dialog it is.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        lifetime_s: u64,
        record: Followed,
        response: &Message,
        wheel: &mut Wheel<Timer>,
    ) -> Result<(), Followed> {
        let tag = response.from().ok();
        let tag = tag.as_ref().and_then(|from| from.tag());
        let (Some(id), Some(tag)) = (self.id(response), tag) else {
            return Err(record);
        };
        if self.entries.len() >= OPEN_MAX || self.entries.contains_key(&id) {
            return Err(record);
        }
        let mut open = Box::new(Open {
            record,
            caller_tag: tag.into(),
            hung: None,
            due_ms: 0,
            timer: TimerId::NONE,
        });
        open.seen(now, lifetime_s);
        open.timer = wheel.start(open.due_ms, Timer::Record(id));
        self.held_bytes += open.held_bytes();
        self.entries.insert(id, open);
        Ok(())
    }

    /// A request within a dialog was let in.
    pub(crate) fn request(&mut self, now: Now, lifetime_s: u64, request: &Message, is_bye: bool) {
        let id = self.id(request);
        let Some(open) = id.and_then(|id| self.entries.get_mut(&id)) else {
            return;
        };
        // A session timer is put back by what refreshes it alone.
        match open.record.session_expires_s {
            Some(_) => open.record.seen = now,
            None => open.seen(now, lifetime_s),
        }
        if is_bye && open.hung.is_none() {
            let reason = request.first_named("Reason");
            open.hung = Some(Hung {
                at: now,
                by: open.sender(request),
                reason: reason.map_or_else(Box::default, |field| printable(field.value)),
            });
        }
    }

    /// A 2xx to an INVITE or UPDATE within a dialog passes, with the session timer that is
    /// agreed on from now on. Without one there is no timer any more.
    pub(crate) fn refreshed(
        &mut self,
        now: Now,
        lifetime_s: u64,
        response: &Message,
        added_s: Option<u32>,
        wheel: &mut Wheel<Timer>,
    ) {
        if let Some(id) = self.id(response)
            && let Some(open) = self.entries.get_mut(&id)
        {
            open.record.session_expires_s = expires_s(response).or(added_s);
            open.seen(now, lifetime_s);
            // It may be due sooner than before.
            wheel.cancel(open.timer);
            open.timer = wheel.start(open.due_ms, Timer::Record(id));
        }
    }

    /// A BYE has its final answer; the record of its call, which is over.
    pub(crate) fn bye_answered(
        &mut self,
        now: Now,
        bye: &Message,
        status: u16,
        wheel: &mut Wheel<Timer>,
    ) -> Option<Followed> {
        let id = self.id(bye)?;
        let open = self.entries.get_mut(&id)?;
        // It comes again, with credentials.
        if matches!(status, 401 | 407) {
            open.hung = None;
        }
        open.hung.as_ref()?;
        let (record, hung) = self.take(id, wheel)?;
        let mut record = hung?.end(record);
        record.bye_status = Some(status);
        record.seen = now;
        Some(record)
    }

    /// One side does not know the dialog any more: it has answered 481 or 408.
    pub(crate) fn gone(
        &mut self,
        now: Now,
        response: &Message,
        wheel: &mut Wheel<Timer>,
    ) -> Option<Followed> {
        let id = self.id(response)?;
        let by = match self.entries.get(&id)?.sender(response) {
            // Who asked is in From; the other has answered.
            EndedBy::Caller => EndedBy::Callee,
            _ => EndedBy::Caller,
        };
        let (record, hung) = self.take(id, wheel)?;
        Some(hung.unwrap_or_else(|| Hung::now(now, by)).end(record))
    }

    /// The timer of an entry fires; the record of a call that is over by it.
    pub(crate) fn timer_fired(
        &mut self,
        now: Now,
        id: u64,
        wheel: &mut Wheel<Timer>,
    ) -> Option<Followed> {
        let open = self.entries.get_mut(&id)?;
        open.timer = TimerId::NONE;
        if open.due_ms > now.mono_ms {
            open.timer = wheel.start(open.due_ms, Timer::Record(id));
            return None;
        }
        let (mut record, hung) = self.take(id, wheel)?;
        if hung.is_none() {
            record.why = Some(match record.session_expires_s {
                Some(_) => Why::SessionExpired,
                None => Why::NoBye,
            });
        }
        Some(
            hung.unwrap_or_else(|| Hung::now(now, EndedBy::Timer))
                .end(record),
        )
    }

    /// All records that go on: the process ends.
    pub(crate) fn stop(
        &mut self,
        now: Now,
        wheel: &mut Wheel<Timer>,
        mut done: impl FnMut(Followed),
    ) {
        let mut ids: Vec<u64> = self.entries.keys().copied().collect();
        // In the order of their beginning, and not of their hashes.
        ids.sort_unstable_by_key(|id| self.entries.get(id).map(|open| open.record.id));
        for id in ids {
            let Some((mut record, hung)) = self.take(id, wheel) else {
                continue;
            };
            if hung.is_none() {
                record.why = Some(Why::ServerStopped);
            }
            done(
                hung.unwrap_or_else(|| Hung::now(now, EndedBy::Server))
                    .end(record),
            );
        }
    }

    /// Takes a call out, and how it ended, if a BYE was let in.
    fn take(&mut self, id: u64, wheel: &mut Wheel<Timer>) -> Option<(Followed, Option<Hung>)> {
        let open = self.entries.remove(&id)?;
        self.held_bytes = self.held_bytes.saturating_sub(open.held_bytes());
        let Open {
            record,
            hung,
            timer,
            ..
        } = *open;
        wheel.cancel(timer);
        Some((record, hung))
    }

    /// A dialog's name, the same from either side.
    fn id(&self, message: &Message) -> Option<u64> {
        let (from, to) = (message.from().ok()?, message.to().ok()?);
        let (from, to) = (from.tag()?, to.tag()?);
        let mut hasher = SipHasher13::new_with_key(&self.key);
        for part in [message.call_id(), from.min(to), from.max(to)] {
            hasher.write_u32(part.len() as u32);
            hasher.write(part);
        }
        Some(hasher.finish())
    }
}
