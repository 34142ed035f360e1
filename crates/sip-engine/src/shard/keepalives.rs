//! Keep-alives to phones behind address translations, so that the translation does not
//! forget them, and so that it is known when it has
//! (`docs/decisions/0205-keep-alives-from-here.md`).
//!
//! Each contact that is reached by datagrams to where it came from has an entry and a timer
//! in the shard of its user. An entry names the binding as it was when it was made, weakly:
//! one that was replaced or removed is gone, and its entry ends when its timer fires. So
//! nothing has to be found when somebody registers again, and no table is gone through.

use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use invariant::broken;
use sip_msg::{Flow, Method, Target};
use sip_txn::ClientId;
use slots::{Name, Slots};
use wheel::TimerId;

use super::spread::shard_of_user;
use crate::budget::Room;
use crate::location::{Binding, Location};
use crate::nat::KeepAlive;
use crate::proxy::context::Owner;
use crate::registrar::{EndedFlow, FlowEnd, RegistrarContext};
use crate::timer::Timer;
use crate::{Now, Outputs, Shard};

mod tally;

use tally::Tally;

/// Contacts that one shard keeps the way open to, at most so many.
const PHONES_MAX: usize = 1 << 20;
/// Phones that are asked at the same time: client transactions that calls do not have.
const ASKED_MAX: usize = 4_096;
/// Keep-alives that leave at once, where many are due because this server stood still.
const AT_ONCE_MAX: u32 = 256;
/// Those past it leave within so long.
const CATCH_UP_MS: u32 = 1_000;
/// How long an answer to OPTIONS may take: it is repeated three times in it.
const TIMEOUT_MS: u64 = 4_000;
/// After so long a phone is asked whose keep-alive came back. A host sends no two ICMP
/// errors within a second.
const DOUBT_MS: u64 = 2_000;
/// So many keep-alives that came back in a row, and the flow has ended. The last of them was
/// an OPTIONS, whose branch in the error nobody guesses.
const CAME_BACK_MAX: u8 = 2;
/// Parts of the location table that are looked through at a time, after a start or a reload.
const PARTS_AT_ONCE: usize = 32;
/// Bindings in these parts after which the rest of them wait for the next time.
const LOOKED_AT_MAX: u64 = 1_000;
/// For each so many bindings that were looked at, a millisecond passes before the next time.
const LOOKED_AT_PER_MS: u64 = 100;
/// Entries whose timers are set anew with each part, where a reload made the interval shorter.
/// All that there can be are through with the last part.
const RETIMED_PER_PART: usize = PHONES_MAX / Location::PARTS;
/// What tells the cookies of line ends from others.
const COOKIE: u64 = 1 << 63;

/// A contact whose way is kept open.
struct Kept {
    aor: Arc<[u8]>,
    binding: Weak<Binding>,
    timer: TimerId,
    /// When that fires.
    due_ms: u64,
    /// The number of the OPTIONS that is under way; 0 for none.
    asking: u32,
    /// OPTIONS in a row without an answer.
    unanswered: u8,
    /// Keep-alives in a row that came back.
    came_back: u8,
    /// Whether it has answered since it registered.
    has_answered: bool,
}

impl Kept {
    /// Whether it is asked, and is not sent line ends alone. Who never answers is asked a few
    /// times: there are phones that know no OPTIONS, and addresses from which nobody has
    /// registered but who forged them.
    fn is_asked(&self, how: KeepAlive, fail: u32) -> bool {
        let may_not_know = !self.has_answered && u32::from(self.unanswered) >= fail;
        let is_wanted = how == KeepAlive::Options || self.unanswered > 0;
        self.came_back > 0 || (is_wanted && !may_not_know)
    }
}

/// An OPTIONS that is under way.
struct Asked {
    name: Name,
    client: ClientId,
}

/// The keep-alives of one shard.
pub(super) struct KeepAlives {
    kept: Slots<Kept>,
    asked: HashMap<u32, Asked>,
    last: u32,
    /// Which shard this is, how many there are, and by which key users are theirs.
    home: (usize, usize, [u8; 16]),
    /// The part of the location table that is looked at next, and when.
    part: usize,
    timer: TimerId,
    /// Whether entries that are there keep an interval that is longer than the one now.
    retimes: bool,
    /// How many have left at that time.
    at_once: (u64, u32),
    tally: Tally,
    /// Whether what fails just now came back from the network, and was not refused here.
    came_back: bool,
}

impl KeepAlives {
    pub(super) fn new() -> Self {
        Self {
            kept: Slots::new(PHONES_MAX),
            asked: HashMap::new(),
            last: 0,
            home: (0, 0, [0; 16]),
            part: 0,
            timer: TimerId::NONE,
            retimes: false,
            at_once: (0, 0),
            tally: Tally::default(),
            came_back: false,
        }
    }

    pub(super) const fn set_home(&mut self, index: usize, shards: usize, hash_key: [u8; 16]) {
        self.home = (index, shards, hash_key);
    }

    /// Frees memory that was not needed since the last call.
    pub(super) fn trim(&mut self) {
        self.kept.trim();
    }

    /// Whether one more may leave now.
    const fn may_leave(&mut self, now_ms: u64) -> bool {
        if self.at_once.0 != now_ms {
            self.at_once = (now_ms, 0);
        }
        self.at_once.1 += 1;
        self.at_once.1 <= AT_ONCE_MAX
    }
}

impl Shard {
    /// Begins anew: forgets all entries, and looks through the location table for contacts
    /// that are to be kept, where any are.
    pub(super) fn plan_keepalives(&mut self) {
        for (_, asked) in self.keepalives.asked.drain() {
            self.txns.release_client(asked.client);
        }
        for slot in 0.. {
            if self.keepalives.kept.is_empty() {
                break;
            }
            let name = self.keepalives.kept.at(slot).map(|(name, _)| name);
            if let Some(kept) = name.and_then(|name| self.keepalives.kept.remove(name)) {
                self.wheel.cancel(kept.timer);
            }
        }
        self.counters.phones_kept = 0;
        self.keepalives.retimes = false;
        self.look_through();
    }

    /// Follows a reload. Ways that are kept open stay so: an entry that is to be kept no more
    /// ends when its timer fires.
    pub(super) fn replan_keepalives(&mut self, interval_before_ms: u64) {
        if !self.settings.nat.keeps_any() {
            return self.plan_keepalives();
        }
        let interval_ms = self.settings.nat.keepalive_interval_ms;
        // A reload may follow before the last one has been through.
        self.keepalives.retimes |= interval_ms < interval_before_ms;
        self.look_through();
    }

    fn look_through(&mut self) {
        self.wheel
            .cancel(std::mem::take(&mut self.keepalives.timer));
        self.keepalives.part = 0;
        if self.settings.nat.keeps_any() {
            // With the next timers, which know the time.
            self.keepalives.timer = self.wheel.start(0, Timer::KeepAlives);
        }
    }

    /// Looks through the location table for contacts that were bound before this shard kept
    /// any, as far as it goes without a stop.
    pub(super) fn find_phones(&mut self, now: Now) {
        let (first, mut looked_at) = (self.keepalives.part, 0);
        let mut part = first;
        while part < Location::PARTS.min(first + PARTS_AT_ONCE) && looked_at < LOOKED_AT_MAX {
            looked_at += self.find_phones_in(now, part);
            part += 1;
        }
        self.keepalives.part = part;
        self.keepalives.timer = match part < Location::PARTS {
            true => {
                let at_ms = now.mono_ms + 1 + looked_at / LOOKED_AT_PER_MS;
                self.wheel.start(at_ms, Timer::KeepAlives)
            }
            false => {
                self.keepalives.retimes = false;
                TimerId::NONE
            }
        };
    }

    /// Looks at a part of the table; how many bindings it has.
    fn find_phones_in(&mut self, now: Now, part: usize) -> u64 {
        let (index, shards, hash_key) = self.keepalives.home;
        let nat = &self.settings.nat;
        let (mut found, mut looked_at) = (Vec::new(), 0);
        self.shared
            .location
            .for_each_in(part, now.unix_ms, |aor, bindings| {
                looked_at += bindings.len() as u64;
                let user = user_of(aor);
                if shards > 1 && shard_of_user(user, shards, &hash_key) != index {
                    return;
                }
                // Nobody but an entry names a binding weakly.
                let missed = bindings.iter().filter(|binding| {
                    Arc::weak_count(binding) == 0 && nat.kept_flow(binding).is_some()
                });
                found.extend(missed.map(|binding| (Arc::clone(aor), Arc::clone(binding))));
            });
        // Before new ones are there, whose timers are right.
        if self.keepalives.retimes {
            self.retime(now, part);
        }
        for (aor, binding) in found {
            self.keep(now, &aor, &binding);
        }
        looked_at
    }

    /// Spreads a part of the entries over the new interval, which is shorter: none becomes due
    /// later than it was. A phone that is being asked has its time to answer, and what follows
    /// keeps the new interval.
    fn retime(&mut self, now: Now, part: usize) {
        let first = part * RETIMED_PER_PART;
        for slot in first..first + RETIMED_PER_PART {
            let slot = slot as u32;
            let Some((name, kept)) = self.keepalives.kept.at(slot) else {
                continue;
            };
            let (is_asked, due_ms) = (kept.asking != 0, kept.due_ms);
            if !is_asked {
                let after_ms = self.part_of(self.settings.nat.keepalive_interval_ms);
                self.set_keepalive(name, due_ms.min(now.mono_ms + after_ms));
            }
        }
    }

    /// Begins to keep the contacts that were just bound.
    pub(super) fn keep_bound(&mut self, now: Now) {
        for (aor, binding) in self.registrar.take_bound() {
            self.keep(now, &aor, &binding);
        }
    }

    fn keep(&mut self, now: Now, aor: &Arc<[u8]>, binding: &Arc<Binding>) {
        if self.settings.nat.kept_flow(binding).is_none() {
            return;
        }
        let name = self.keepalives.kept.insert(Kept {
            aor: Arc::clone(aor),
            binding: Arc::downgrade(binding),
            timer: TimerId::NONE,
            due_ms: 0,
            asking: 0,
            unanswered: 0,
            came_back: 0,
            has_answered: false,
        });
        let Some(name) = name else {
            self.counters.keepalives_full += 1;
            return;
        };
        self.counters.phones_kept = self.keepalives.kept.len() as u64;
        // Many may register at once: they are spread over the first interval.
        let after_ms = self.part_of(self.settings.nat.keepalive_interval_ms);
        self.set_keepalive(name, now.mono_ms + after_ms);
    }

    /// An entry's timer has fired.
    pub(super) fn keepalive_due(&mut self, now: Now, name: Name, out: &mut Outputs) {
        // What forgot it may have come with the same timers.
        let Some(kept) = self.keepalives.kept.get_mut(name) else {
            return;
        };
        let asking = std::mem::take(&mut kept.asking);
        if let Some(asked) = self.keepalives.asked.remove(&asking) {
            self.txns.release_client(asked.client);
            return self.keepalive_unanswered(now, name, out);
        }
        let nat = &self.settings.nat;
        let bound = kept.binding.upgrade();
        let alive = bound.filter(|binding| binding.expires_unix_ms > now.unix_ms);
        let to = alive.and_then(|binding| Some((nat.kept_flow(&binding)?, binding)));
        let Some(((flow, how), binding)) = to else {
            self.keepalives.kept.remove(name);
            self.counters.phones_kept = self.keepalives.kept.len() as u64;
            return;
        };
        let is_asked = kept.is_asked(how, nat.keepalive_fail);
        if !self.keepalives.may_leave(now.mono_ms) {
            let later_ms = 1 + u64::from(self.dice.below(CATCH_UP_MS));
            return self.set_keepalive(name, now.mono_ms + later_ms);
        }
        let interval_ms = self.settings.nat.keepalive_interval_ms;
        self.keepalives.tally.sent(now.mono_ms, interval_ms);
        match is_asked.then(|| self.reserve_to_ask()).flatten() {
            Some(client) => self.ask_phone(now, name, client, &flow, &binding.uri, out),
            None => {
                self.counters.keepalives_plain += u64::from(is_asked);
                self.send_line_ends(now, name, &flow, out);
            }
        }
    }

    /// A transaction for an OPTIONS, where there is room.
    fn reserve_to_ask(&mut self) -> Option<ClientId> {
        let has_room = self.room == Room::Enough && self.keepalives.asked.len() < ASKED_MAX;
        match has_room {
            true => self.txns.reserve_client(),
            false => None,
        }
    }

    fn send_line_ends(&mut self, now: Now, name: Name, flow: &Flow, out: &mut Outputs) {
        let start = out.outbox.bytes.len();
        out.outbox.bytes.extend_from_slice(b"\r\n\r\n");
        let cookie = COOKIE | u64::from(name.slot) << 32 | u64::from(name.generation);
        out.outbox.send_since(start, Target::back(flow), cookie);
        let [line_ends, _] = &mut self.counters.keepalives;
        *line_ends += 1;
        self.wait_an_interval(now, name);
    }

    // RFC 3261 11.1: "An OPTIONS request is constructed using the standard rules for a SIP
    // request as discussed in Section 8.1.1."
    fn ask_phone(
        &mut self,
        now: Now,
        name: Name,
        client: ClientId,
        flow: &Flow,
        uri: &[u8],
        out: &mut Outputs,
    ) {
        let start = out.outbox.bytes.len();
        self.write_question(client, flow, uri, &mut out.outbox.bytes);
        let number = self.keepalives.last.wrapping_add(1).max(1);
        self.keepalives.last = number;
        self.keepalives.asked.insert(number, Asked { name, client });
        let Some(kept) = self.keepalives.kept.get_mut(name) else {
            return broken!("an entry stays while its phone is asked");
        };
        kept.asking = number;
        let (owner, method) = (Owner::KeepAlive(number).encode(), Method::Options);
        let (to, outbox) = (Target::back(flow), &mut out.outbox);
        self.txns
            .start_client(now.mono_ms, client, method, to, owner, start, outbox);
        let [_, options] = &mut self.counters.keepalives;
        *options += 1;
        let timeout_ms = TIMEOUT_MS.min(self.settings.nat.keepalive_interval_ms);
        self.set_keepalive(name, now.mono_ms + timeout_ms);
    }

    fn write_question(&mut self, client: ClientId, flow: &Flow, uri: &[u8], text: &mut Vec<u8>) {
        let (call_id, tag) = (self.probe_call_id(), self.dice.below(u32::MAX));
        let mut place = Vec::new();
        self.own
            .write_host_port(flow.listener, &flow.local, &mut place);
        let place = place.as_slice();
        let from = match self.settings.domains.first() {
            Some(domain) => domain.as_bytes(),
            None => place,
        };
        for part in [
            &b"OPTIONS "[..],
            uri,
            b" SIP/2.0\r\nVia: SIP/2.0/UDP ",
            place,
            b";branch=",
        ] {
            text.extend_from_slice(part);
        }
        self.txns.write_branch(client, text);
        let tag = format!(">;tag={tag:08x}\r\nTo: <");
        for part in [
            &b"\r\nMax-Forwards: 70\r\nFrom: <sip:"[..],
            from,
            tag.as_bytes(),
            uri,
            b">\r\nCall-ID: ",
            call_id.as_bytes(),
            b"\r\nCSeq: 1 OPTIONS\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n",
        ] {
            text.extend_from_slice(part);
        }
    }

    /// A phone that was asked has answered, whatever it is: it is there.
    pub(super) fn keepalive_answered(&mut self, now: Now, number: u32, status: u16) {
        if status < 200 {
            return;
        }
        let Some(asked) = self.keepalives.asked.remove(&number) else {
            return;
        };
        let Some(kept) = self.keepalives.kept.get_mut(asked.name) else {
            return broken!("an entry stays while its phone is asked");
        };
        (kept.asking, kept.unanswered, kept.came_back) = (0, 0, 0);
        kept.has_answered = true;
        self.wait_an_interval(now, asked.name);
    }

    /// The transaction of an OPTIONS has ended without an answer, before its time was up:
    /// it came back, or did not leave.
    pub(super) fn keepalive_failed(&mut self, now: Now, number: u32, out: &mut Outputs) {
        let Some(asked) = self.keepalives.asked.remove(&number) else {
            return;
        };
        match self.keepalives.kept.get_mut(asked.name) {
            Some(kept) => kept.asking = 0,
            None => broken!("an entry stays while its phone is asked"),
        }
        match self.keepalives.came_back {
            true => self.keepalive_came_back(now, asked.name, true, out),
            // What is wrong here says nothing of the phone.
            false => self.wait_an_interval(now, asked.name),
        }
    }

    /// Whether what fails from now on came back from the network.
    pub(super) const fn set_came_back(&mut self, came_back: bool) {
        self.keepalives.came_back = came_back;
    }

    /// Line ends did not arrive, by their cookie.
    pub(super) fn line_ends_failed(&mut self, now: Now, cookie: u64, out: &mut Outputs) {
        let name = Name {
            slot: ((cookie & !COOKIE) >> 32) as u32,
            generation: cookie as u32,
        };
        let is_known = cookie & COOKIE != 0 && self.keepalives.kept.get(name).is_some();
        if is_known && self.keepalives.came_back {
            self.keepalive_came_back(now, name, false, out);
        }
    }

    /// A keep-alive came back. An error that quotes line ends may be of anybody who knows
    /// both addresses; one that quotes an OPTIONS is of who was on its way.
    fn keepalive_came_back(&mut self, now: Now, name: Name, is_proof: bool, out: &mut Outputs) {
        self.counters.keepalives_came_back += 1;
        let interval_ms = self.settings.nat.keepalive_interval_ms;
        self.keepalives.tally.lost(now.mono_ms, interval_ms);
        let Some(kept) = self.keepalives.kept.get_mut(name) else {
            return broken!("an entry stays while its keep-alive is under way");
        };
        kept.came_back = match is_proof {
            true => kept.came_back.saturating_add(1),
            false => kept.came_back.max(1),
        };
        if is_proof && kept.came_back >= CAME_BACK_MAX {
            return self.end_flow(now, name, FlowEnd::CameBack, out);
        }
        // It may be asked at this moment, and its answer says more.
        if kept.asking == 0 {
            self.set_keepalive(name, now.mono_ms + DOUBT_MS.min(interval_ms));
        }
    }

    fn keepalive_unanswered(&mut self, now: Now, name: Name, out: &mut Outputs) {
        self.counters.keepalives_unanswered += 1;
        let nat = &self.settings.nat;
        self.keepalives
            .tally
            .lost(now.mono_ms, nat.keepalive_interval_ms);
        let Some(kept) = self.keepalives.kept.get_mut(name) else {
            return broken!("an entry stays while its phone is asked");
        };
        kept.came_back = 0;
        kept.unanswered = kept.unanswered.saturating_add(1);
        // Who never answered may have never heard of OPTIONS.
        if kept.has_answered && u32::from(kept.unanswered) >= nat.keepalive_fail {
            return self.end_flow(now, name, FlowEnd::Unanswered, out);
        }
        self.wait_an_interval(now, name);
    }

    /// Removes the contact of a flow that has ended, unless most are silent at once: then what
    /// they have in common is nearer than they are.
    fn end_flow(&mut self, now: Now, name: Name, why: FlowEnd, out: &mut Outputs) {
        // If it is there then, it could not be removed.
        self.wait_an_interval(now, name);
        if self.keepalives.tally.is_widespread() {
            self.counters.flows_spared += 1;
            return;
        }
        let Some(kept) = self.keepalives.kept.get_mut(name) else {
            return broken!("a flow that has ended was kept");
        };
        // It may have registered again while it was asked.
        let Some(binding) = kept.binding.upgrade() else {
            return;
        };
        let ended = EndedFlow {
            aor: Arc::clone(&kept.aor),
            binding,
            why,
        };
        let cx = RegistrarContext {
            now,
            settings: &self.settings,
            location: &self.shared.location,
            own: &self.own,
            gateways: &self.gateways,
        };
        self.registrar.flow_ended(&cx, ended, out);
    }

    /// Has the next one leave after an interval, or up to a fifth sooner: so those that were
    /// due together are not due together for ever.
    fn wait_an_interval(&mut self, now: Now, name: Name) {
        let interval_ms = self.settings.nat.keepalive_interval_ms;
        let after_ms = interval_ms - self.part_of(interval_ms / 5);
        self.set_keepalive(name, now.mono_ms + after_ms);
    }

    fn set_keepalive(&mut self, name: Name, at_ms: u64) {
        let Some(kept) = self.keepalives.kept.get_mut(name) else {
            return broken!("only an entry has a timer");
        };
        self.wheel.cancel(kept.timer);
        kept.timer = self.wheel.start(at_ms, Timer::KeepAlive(name));
        kept.due_ms = at_ms;
    }

    fn part_of(&mut self, of_ms: u64) -> u64 {
        let most = u32::try_from(of_ms).unwrap_or(u32::MAX);
        u64::from(self.dice.below(most))
    }
}

/// The user in a canonical address-of-record.
fn user_of(aor: &[u8]) -> &[u8] {
    let user = aor.strip_prefix(b"sip:").unwrap_or(aor);
    let at = memchr::memrchr(b'@', user).unwrap_or(user.len());
    user.get(..at).unwrap_or(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(unanswered: u8, came_back: u8, has_answered: bool) -> Kept {
        Kept {
            aor: b"sip:bob@example.org".as_slice().into(),
            binding: Weak::new(),
            timer: TimerId::NONE,
            due_ms: 0,
            asking: 0,
            unanswered,
            came_back,
            has_answered,
        }
    }

    #[test]
    fn who_is_asked_and_who_is_sent_line_ends() {
        use KeepAlive::{Crlf, Options};
        for (how, unanswered, came_back, has_answered, is_asked) in [
            (Crlf, 0, 0, false, false),
            (Crlf, 0, 1, false, true),
            (Crlf, 1, 0, false, true),
            (Crlf, 3, 0, false, false),
            (Crlf, 2, 0, true, true),
            (Options, 0, 0, false, true),
            (Options, 2, 0, false, true),
            (Options, 3, 0, false, false),
            (Options, 3, 1, false, true),
            (Options, 3, 0, true, true),
        ] {
            let kept = kept(unanswered, came_back, has_answered);
            assert_eq!(
                kept.is_asked(how, 3),
                is_asked,
                "{how:?} {unanswered} {came_back} {has_answered}"
            );
        }
    }

    #[test]
    fn a_user_is_what_stands_before_the_last_at() {
        assert_eq!(user_of(b"sip:bob@example.org"), b"bob");
        assert_eq!(user_of(b"sip:a@b@example.org"), b"a@b");
        assert_eq!(user_of(b"sip:bob"), b"bob");
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Kept>() <= 48, "{}", size_of::<Kept>());
    }
}
