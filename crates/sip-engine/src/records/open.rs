//! Calls that were answered and whose end is waited for: one entry for each record that goes
//! on. The table is bounded, and each entry has a timer.

use std::collections::VecDeque;
use std::net::IpAddr;

use hashbrown::HashMap;
use invariant::broken;
use sip_msg::{HeaderName, Message, Method};
use wheel::{TimerId, Wheel};

use super::refresh::MIN_SE_S;
use super::{EndedBy, Followed, Why, expires_s, printable};
use crate::Now;
use crate::calls::End;
use crate::dialog_hash::dialog_hash;
use crate::proxy::record_route::makes_dialogs;
use crate::timer::Timer;

/// Calls of one shard whose end is waited for.
const OPEN_MAX: usize = 65_536;

/// How long a call whose BYE did not reach the other side has its places, in milliseconds.
const UNREACHED_MS: u64 = 3_600_000;
/// Calls of one shard of which nothing was heard for that long, and whose true end is waited for
/// all the same. They are mostly over: where phones are often out of reach, they must not take
/// the room of others.
const UNREACHED_MAX: usize = 8_192;

/// Who ended a call, and when.
struct Hung {
    at: Now,
    by: EndedBy,
    reason: Box<str>,
    /// Whether it was a part of the dialog by what it bore.
    is_proven: bool,
    /// The final answer to the BYE, where it does not say that the call is over.
    refused: Option<u16>,
    /// When the call's places are given back, where the BYE did not reach the other side.
    frees_ms: Option<u64>,
    /// Whether they were.
    is_given_up: bool,
}

impl Hung {
    fn now(at: Now, by: EndedBy) -> Self {
        Self {
            at,
            by,
            reason: Box::default(),
            is_proven: true,
            refused: None,
            frees_ms: None,
            is_given_up: false,
        }
    }

    /// The record of a call that ended so.
    fn end(self, mut record: Followed) -> Followed {
        record.ended = Some(self.at);
        record.ended_by = self.by;
        if let Some(status) = self.refused {
            record.bye_status = Some(status);
            record.why = Some(Why::ByeUnconfirmed);
        }
        if !self.reason.is_empty() {
            record.reason = self.reason;
        }
        record
    }
}

/// What a request says in its own words of why the call ends.
fn reason_of(request: &Message) -> Box<str> {
    let reason = request.first_named("Reason");
    reason.map_or_else(Box::default, |field| printable(field.value))
}

/// What names the dialogs that an INVITE makes, on its sender's side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'n> {
    pub(super) call_id: &'n [u8],
    /// The tag in From.
    pub(super) caller_tag: &'n [u8],
}

impl<'n> Names<'n> {
    /// Those of a request; `None` where it has no tag in From.
    pub(crate) fn of(request: &'n Message) -> Option<Self> {
        Some(Self {
            call_id: request.call_id(),
            caller_tag: request.from().ok()?.tag()?,
        })
    }
}

/// By what a request that refreshes a session was found to be of its dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchedBy {
    /// The dialog's token.
    Token,
    /// Call-ID and tags alone, which others than the two sides may know.
    Names,
}

/// Why a call that was answered is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfollowed {
    /// There is no room, or no telling which dialog it is.
    NoRoom,
    /// A call of its names goes on.
    NamesTaken,
}

/// Machines of one call, beside its other side's, that are remembered to have a place: others take
/// one each time.
const ELSEWHERE_MAX: usize = 16;

/// A call that was answered.
struct Open {
    record: Followed,
    /// The tag in the caller's From: it tells the sides apart.
    caller_tag: Box<[u8]>,
    /// Whether there may be another dialog of its names, with tokens of its own: whoever bears
    /// one says nothing of this call, then, unless its other side has it so.
    has_namesake: bool,
    /// Where else it was taken by its names, with a place: it need not have another there.
    elsewhere: Vec<IpAddr>,
    hung: Option<Hung>,
    /// The session timer by which it is over, where one counts, in seconds.
    timer_s: Option<u32>,
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

    /// Where the side of the dialog is that is not this one.
    fn other_end(&self, side: EndedBy) -> Option<End> {
        match side {
            EndedBy::Caller => self.record.callee_end,
            _ => Some(self.record.caller_end),
        }
    }

    /// It goes on, by a timer that is no shorter than before, or by none.
    fn prolong(&mut self, now: Now, lifetime_s: u64, agreed_s: Option<u32>) {
        let due_ms = self.due_ms;
        self.timer_s = self.timer_s.and_then(|was_s| Some(was_s.max(agreed_s?)));
        self.seen(now, lifetime_s);
        self.due_ms = self.due_ms.max(due_ms);
    }

    /// A session timer is agreed on, or there is none any more. It counts where the callee ends the
    /// call by it. One that the caller alone keeps he may let run out while the call goes on, and
    /// neither its record nor its places must end by that.
    fn agree(&mut self, agreed_s: Option<u32>, callee_keeps_it: bool) {
        self.record.session_expires_s = agreed_s;
        self.timer_s = agreed_s.filter(|_| callee_keeps_it);
    }

    /// A sign of life: it is over so long after this one.
    fn seen(&mut self, now: Now, lifetime_s: u64) {
        self.record.seen = now;
        let timer_s = self.timer_s;
        let lasts_s = timer_s.map_or(lifetime_s, |expires_s| u64::from(expires_s.max(MIN_SE_S)));
        self.due_ms = now.mono_ms + lasts_s.saturating_mul(1_000);
    }

    /// When its timer is to fire.
    fn next_ms(&self) -> u64 {
        let frees_ms = self.hung.as_ref().and_then(|hung| hung.frees_ms);
        frees_ms.map_or(self.due_ms, |frees_ms| frees_ms.min(self.due_ms))
    }

    /// Gives its places back if it is time, because nothing was heard after a BYE that reached
    /// nobody. Whether it was.
    fn give_up(&mut self, now: Now) -> bool {
        let Some(hung) = &mut self.hung else {
            return false;
        };
        let is_time = hung
            .frees_ms
            .is_some_and(|frees_ms| frees_ms <= now.mono_ms);
        if is_time {
            (hung.frees_ms, hung.is_given_up) = (None, true);
            self.record.free();
            self.elsewhere.clear();
        }
        is_time
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
    /// Those whose BYE reached nobody, and whose places were given back: the oldest first. One
    /// that has ended, or was heard of, may still stand there.
    given_up: VecDeque<u64>,
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
            given_up: VecDeque::new(),
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
        self.held_bytes
            + self.entries.capacity() * size_of::<(u64, Box<Open>)>()
            + self.given_up.capacity() * size_of::<u64>()
    }

    /// A call is answered by this 2xx: its record goes on, or is given back. What names the dialog
    /// is the caller's, but for the tag of who answers, who could name another's else. `is_routed`
    /// where it went to a number or a name of ours, and not to a contact as within a dialog.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        lifetime_s: u64,
        (mut record, is_routed): (Followed, bool),
        (names, response): (Option<Names<'_>>, &Message),
        wheel: &mut Wheel<Timer>,
    ) -> Result<(), (Followed, Unfollowed)> {
        let other = response.to().ok().and_then(|to| to.tag());
        let (Some(names), Some(other)) = (names, other) else {
            return Err((record, Unfollowed::NoRoom));
        };
        let tag = names.caller_tag;
        let id = self.id_of(names.call_id, tag, other);
        if let Some(open) = self.entries.get_mut(&id) {
            open.has_namesake = true;
            let side = match *open.caller_tag == *tag {
                true => EndedBy::Caller,
                false => EndedBy::Callee,
            };
            // Its end is not waited for: its places are given back with those of the first. Else
            // whoever has none left would call on by the names of a call that has one. Who is asked
            // anew in the same call, on another port or where he has moved to, takes no second one.
            let ip = |end: Option<End>| end.map(|(_, at)| at.ip());
            let there = ip(record.callee_end);
            let is_moved = there != ip(open.other_end(side))
                && there.is_some_and(|ip| !open.elsewhere.contains(&ip));
            if is_routed || is_moved {
                let has_place = is_moved && record.has_places();
                let is_kept = has_place && open.elsewhere.len() < ELSEWHERE_MAX;
                open.elsewhere.extend(there.filter(|_| is_kept));
                open.record.add(std::mem::take(&mut record.places));
            }
            return Err((record, Unfollowed::NamesTaken));
        }
        if self.entries.len() >= OPEN_MAX {
            return Err((record, Unfollowed::NoRoom));
        }
        let agreed_s = record.session_expires_s;
        let mut open = Box::new(Open {
            record,
            caller_tag: tag.into(),
            has_namesake: false,
            elsewhere: Vec::new(),
            hung: None,
            timer_s: None,
            due_ms: 0,
            timer: TimerId::NONE,
        });
        open.agree(agreed_s, expires_s(response).is_some());
        open.seen(now, lifetime_s);
        open.timer = wheel.start(open.due_ms, Timer::Record(id));
        self.held_bytes += open.held_bytes();
        self.entries.insert(id, open);
        Ok(())
    }

    /// Where the other side is of the open call whose names a request bears.
    pub(crate) fn other_end(&self, request: &Message) -> Option<End> {
        let open = self.entries.get(&self.id(request)?)?;
        open.other_end(open.sender(request))
    }

    /// A request within a dialog was let in; `is_proven` where it is a part of it by what it
    /// bears, and not by its names alone.
    pub(crate) fn request(
        &mut self,
        now: Now,
        lifetime_s: u64,
        request: &Message,
        is_proven: bool,
    ) {
        let id = self.id(request);
        let Some(open) = id.and_then(|id| self.entries.get_mut(&id)) else {
            return;
        };
        // Whoever answers it, and he may be anybody, makes a dialog of these names, for which both
        // get tokens.
        open.has_namesake |= !is_proven && makes_dialogs(request.method());
        let is_proven = is_proven && !open.has_namesake;
        // A session timer is put back by what refreshes it alone.
        match open.timer_s {
            _ if !is_proven => {}
            Some(_) => open.record.seen = now,
            None => open.seen(now, lifetime_s),
        }
        let counts = |before: &Hung| before.refused.is_some() || (is_proven && !before.is_proven);
        if request.method() == Method::Bye && open.hung.as_ref().is_none_or(counts) {
            open.hung = Some(Hung {
                reason: reason_of(request),
                is_proven,
                ..Hung::now(now, open.sender(request))
            });
        }
    }

    /// A 2xx passes to an INVITE or UPDATE within a dialog, with the session timer that is
    /// agreed on from now on. Without one there is no timer any more. `went_to` says where the
    /// request was sent. One that is of the dialog by its names alone makes a call last longer
    /// where the other side has it so, and never less long: else its record, and its place, would
    /// end while it goes on.
    pub(crate) fn refreshed(
        &mut self,
        now: Now,
        lifetime_s: u64,
        (request, response): (&Message, &Message),
        added_s: Option<u32>,
        (by, went_to): (MatchedBy, impl Fn(End) -> bool),
        wheel: &mut Wheel<Timer>,
    ) {
        if let Some(id) = self.id(request)
            && let Some(open) = self.entries.get_mut(&id)
        {
            let said_s = expires_s(response);
            let agreed_s = said_s.or(added_s);
            let sender = open.sender(request);
            // RFC 4028 7.2, 9: whoever asks with `timer` keeps what the answer says, and so does
            // whoever writes it into his answer.
            let callee_keeps_it = match sender {
                EndedBy::Caller => said_s.is_some(),
                _ => request.has_option(HeaderName::Supported, "timer"),
            };
            if by == MatchedBy::Names || open.has_namesake {
                if open.other_end(sender).is_some_and(went_to) {
                    open.prolong(now, lifetime_s, agreed_s.filter(|_| callee_keeps_it));
                    // Nor is it over by a BYE that did not reach who agrees on it.
                    open.hung = open.hung.take().filter(|hung| hung.refused.is_none());
                    wheel.cancel(open.timer);
                    open.timer = wheel.start(open.next_ms(), Timer::Record(id));
                }
                return;
            }
            open.agree(agreed_s, callee_keeps_it);
            open.seen(now, lifetime_s);
            // Whoever agrees on it has not hung up.
            open.hung = open.hung.take().filter(|hung| hung.refused.is_none());
            // It may be due sooner than before.
            wheel.cancel(open.timer);
            open.timer = wheel.start(open.next_ms(), Timer::Record(id));
        }
    }

    /// A BYE has its final answer; the record of its call, if it is over. `went_to` says where
    /// the BYE was sent.
    // RFC 3261 15.1.1 has whoever sends a BYE end the session there. That is his duty, and whether
    // he keeps it the other side alone can tell: one that refuses his BYE, for a CSeq that is too
    // low perhaps, goes on, and so may he.
    pub(crate) fn bye_answered(
        &mut self,
        now: Now,
        bye: &Message,
        status: u16,
        is_proven: bool,
        went_to: impl Fn(End) -> bool,
        wheel: &mut Wheel<Timer>,
    ) -> Option<Followed> {
        let id = self.id(bye)?;
        let open = self.entries.get_mut(&id)?;
        let by = open.sender(bye);
        // Whoever is in the dialog by its names alone may have asked anybody.
        let is_there = open.other_end(by).is_some_and(went_to);
        let noted = open.hung.as_ref();
        let is_proven = is_proven && !open.has_namesake && noted.is_some_and(|hung| hung.is_proven);
        // Both sides may hang up at once, and one BYE is noted: that of the other side says nothing
        // of this one, which counts where it was taken.
        if !is_proven && noted.is_none_or(|hung| hung.by != by) {
            if !is_there || !matches!(status, 200..=299) {
                return None;
            }
            open.hung = Some(Hung {
                reason: reason_of(bye),
                ..Hung::now(now, by)
            });
        }
        let hung = open.hung.as_mut()?;
        let is_others = is_proven || is_there;
        let says = match ByeSays::of(status) {
            // What he asked there may be for somebody beyond it, as another number of the same
            // provider is, and who has never heard of the call says the same as who has forgotten
            // it: that the call goes on it does not say either.
            ByeSays::Over if !is_proven && status == 481 => ByeSays::Unreached,
            says => says,
        };
        match says {
            _ if !is_others => {
                open.hung = open.hung.take().filter(|hung| hung.is_proven);
                return None;
            }
            ByeSays::Over => {}
            ByeSays::Again => {
                open.hung = None;
                return None;
            }
            says @ (ByeSays::Unreached | ByeSays::GoesOn) => {
                hung.refused = Some(status);
                if says == ByeSays::Unreached {
                    hung.frees_ms = Some(now.mono_ms + UNREACHED_MS);
                    wheel.cancel(open.timer);
                    open.timer = wheel.start(open.next_ms(), Timer::Record(id));
                }
                return None;
            }
        }
        hung.refused = None;
        let Some((record, Some(hung))) = self.take(id, wheel) else {
            return broken!("a call whose BYE was just looked at is open", None);
        };
        let mut record = hung.end(record);
        record.bye_status = Some(status);
        record.seen = now;
        Some(record)
    }

    /// One side does not know the dialog any more of which this request was: it has answered
    /// 481.
    pub(crate) fn gone(
        &mut self,
        now: Now,
        request: &Message,
        wheel: &mut Wheel<Timer>,
    ) -> Option<Followed> {
        let id = self.id(request)?;
        let open = self.entries.get(&id).filter(|open| !open.has_namesake)?;
        let by = match open.sender(request) {
            EndedBy::Caller => EndedBy::Callee,
            _ => EndedBy::Caller,
        };
        let (record, hung) = self.take(id, wheel)?;
        Some(hung.unwrap_or_else(|| Hung::now(now, by)).end(record))
    }

    /// The timer of an entry fires; the record of a call that is over by it, or that makes room
    /// for the one at hand.
    pub(crate) fn timer_fired(
        &mut self,
        now: Now,
        id: u64,
        wheel: &mut Wheel<Timer>,
    ) -> Option<Followed> {
        let open = self.entries.get_mut(&id)?;
        open.timer = TimerId::NONE;
        if open.due_ms > now.mono_ms {
            let is_given_up = open.give_up(now);
            // It was followed for its places alone.
            if is_given_up && !open.record.is_told {
                let (record, _) = self.take(id, wheel)?;
                return Some(record);
            }
            open.timer = wheel.start(open.next_ms(), Timer::Record(id));
            if !is_given_up {
                return None;
            }
            // It may stand there from a BYE after which something was heard of it.
            self.given_up.retain(|other| *other != id);
            self.given_up.push_back(id);
            return self.take_surplus(wheel);
        }
        let timer_s = open.timer_s;
        let (mut record, hung) = self.take(id, wheel)?;
        if hung.is_none() {
            record.why = Some(match timer_s {
                Some(_) => Why::SessionExpired,
                None => Why::NoBye,
            });
        }
        Some(
            hung.unwrap_or_else(|| Hung::now(now, EndedBy::Timer))
                .end(record),
        )
    }

    /// The oldest of those whose BYE reached nobody, where there are too many.
    fn take_surplus(&mut self, wheel: &mut Wheel<Timer>) -> Option<Followed> {
        if self.given_up.len() <= UNREACHED_MAX {
            return None;
        }
        // Some are over, or something was heard of them since: they take nobody's room.
        let entries = &self.entries;
        self.given_up.retain(|id| {
            let hung = entries.get(id).and_then(|open| open.hung.as_ref());
            hung.is_some_and(|hung| hung.is_given_up)
        });
        if self.given_up.len() <= UNREACHED_MAX {
            return None;
        }
        let id = self.given_up.pop_front()?;
        let Some((record, Some(hung))) = self.take(id, wheel) else {
            return broken!("a call that is given up is open, and was hung up", None);
        };
        Some(hung.end(record))
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
                broken!("each key of the table is of an open call");
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
        Some(self.id_of(message.call_id(), from.tag()?, to.tag()?))
    }

    fn id_of(&self, call_id: &[u8], one: &[u8], other: &[u8]) -> u64 {
        dialog_hash(&self.key, call_id, one, other)
    }
}

/// What the final answer to a BYE says of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByeSays {
    /// The other side has ended it too, or does not know it.
    Over,
    /// Nothing: the other side was not reached.
    Unreached,
    /// Nothing yet: it comes again, with credentials.
    Again,
    /// The other side goes on.
    GoesOn,
}

impl ByeSays {
    pub(crate) const fn of(status: u16) -> Self {
        match status {
            200..=299 | 481 => Self::Over,
            401 | 407 => Self::Again,
            408 | 430 | 480 | 502..=504 => Self::Unreached,
            _ => Self::GoesOn,
        }
    }
}

#[cfg(test)]
mod tests {
    use sip_msg::Transport;

    use super::*;
    use crate::records::CallRecord;
    use crate::testing::{NOW, parse, request};

    const LIFETIME_S: u64 = 86_400;

    fn followed(id: u128) -> Followed {
        let record = CallRecord {
            id,
            call_id: Box::default(),
            started: NOW,
            rang: None,
            answered: Some(NOW),
            ended: None,
            seen: NOW,
            caller_user: Box::default(),
            caller_class: "user",
            caller_from: Box::default(),
            caller_end: (Transport::Udp, "192.0.2.9:5060".parse().unwrap()),
            request_uri: Box::default(),
            called_to: Box::default(),
            callee_target: Box::default(),
            callee_trunk: Box::default(),
            callee_end: None,
            status: Some(200),
            ended_by: EndedBy::Server,
            why: None,
            reason: Box::default(),
            bye_status: None,
            session_expires_s: None,
            tries: Vec::new(),
            tries_total: 1,
            payer_user: Box::default(),
        };
        Followed {
            record: Box::new(record),
            places: Vec::new(),
            is_told: true,
            within: None,
        }
    }

    /// The BYE of the caller of one of many calls.
    fn bye(n: usize) -> Message {
        let (alice, bob) = ("<sip:a@example.org>;tag=a", "<sip:b@example.org>;tag=b");
        let bye = request("BYE", "sip:b@192.0.2.9", alice, bob, "");
        parse(bye.replace("call-1", &format!("call-{n}")).as_bytes())
    }

    /// A call that was answered, and whose BYE reaches nobody.
    fn hang_up_in_vain(open: &mut OpenCalls, now: Now, n: usize, wheel: &mut Wheel<Timer>) {
        let bye = bye(n);
        let call = followed(n as u128);
        let dialog = (Names::of(&bye), &bye);
        let call = (call, false);
        assert!(open.begin(now, LIFETIME_S, call, dialog, wheel).is_ok());
        open.request(now, LIFETIME_S, &bye, true);
        let over = open.bye_answered(now, &bye, 408, true, |_| false, wheel);
        assert!(over.is_none());
    }

    /// What comes out by the timers that are due.
    fn fire(open: &mut OpenCalls, now: Now, wheel: &mut Wheel<Timer>) -> Vec<Followed> {
        let mut fired = Vec::new();
        wheel.advance(now.mono_ms, |timer| fired.push(timer));
        let mut told = Vec::new();
        for timer in fired {
            if let Timer::Record(id) = timer {
                told.extend(open.timer_fired(now, id, wheel));
            }
        }
        told
    }

    fn an_hour_after(now: Now) -> Now {
        Now {
            mono_ms: now.mono_ms + UNREACHED_MS + 1_000,
            ..now
        }
    }

    #[test]
    fn those_whose_bye_reached_nobody_leave_room_for_others() {
        let mut open = OpenCalls::new([1; 16], [2; 16]);
        let mut wheel = Wheel::new(NOW.mono_ms);
        for n in 0..UNREACHED_MAX + 10 {
            hang_up_in_vain(&mut open, NOW, n, &mut wheel);
        }
        let late = an_hour_after(NOW);
        let told = fire(&mut open, late, &mut wheel);
        assert_eq!((told.len(), open.len()), (10, UNREACHED_MAX));
        assert_eq!(open.given_up.len(), UNREACHED_MAX);
        let mut ids: Vec<u128> = told.iter().map(|record| record.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..10).collect::<Vec<_>>(), "the oldest");
        let mut whys = told.iter().map(|record| (record.why, record.bye_status));
        assert!(whys.all(|why| why == (Some(Why::ByeUnconfirmed), Some(408))));

        // Those that are over leave room, too.
        for n in 100..120 {
            open.request(late, LIFETIME_S, &bye(n), true);
            let over = open.bye_answered(late, &bye(n), 200, true, |_| false, &mut wheel);
            assert!(over.is_some_and(|record| record.why.is_none()));
        }
        hang_up_in_vain(&mut open, late, UNREACHED_MAX + 10, &mut wheel);
        assert!(fire(&mut open, an_hour_after(late), &mut wheel).is_empty());
        assert_eq!(open.len(), UNREACHED_MAX - 19);
        assert_eq!(open.given_up.len(), UNREACHED_MAX - 19);
    }
}
