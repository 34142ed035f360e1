//! What is under way at engines: cookies, repetition and deadlines.

use std::hash::Hasher;
use std::sync::Arc;

use invariant::broken;
use siphasher::sip::SipHasher13;
use wheel::TimerId;

use super::{Client, Due, Failure, Transmit};
use crate::ask::write_ping;
use crate::engines::Engine;
use crate::{Ask, Command, EngineId, Why};

/// When a command is repeated first, where that leaves time for more; the next time after
/// twice as long, and so on.
const REPEAT_MS: u64 = 100;
/// Into how many parts the shortest patience is divided: a command, and the ping that goes with
/// its repetition, may each be lost once.
const PARTS: u64 = 4;
/// Digits of a cookie.
pub(super) const COOKIE_LEN: usize = 16;

/// What an engine was asked.
pub(crate) enum Asked {
    /// Whether it is there.
    Ping,
    /// A command, for somebody who waits or for nobody; and the engines that were asked.
    Command(Option<u64>, Box<Ask>, Vec<EngineId>),
}

pub(super) struct Pending {
    pub(super) asked: Asked,
    pub(super) engine: Arc<Engine>,
    pub(super) datagram: Vec<u8>,
    pub(super) repeats: u32,
    pub(super) since_ms: u64,
    pub(super) until_ms: u64,
    pub(super) timer: TimerId,
}

impl Client {
    /// Sends a command and does not wait for what the engine says to it.
    pub(super) fn send_once(&mut self, ask: &Ask, engine: &Engine) {
        let mut datagram = format!("{:016x} ", self.next_cookie()).into_bytes();
        self.count_command(ask.command);
        ask.write(&self.config.flags, &mut datagram);
        self.transmits.push_back(Transmit {
            to: engine.address,
            bytes: datagram,
        });
    }

    fn count_command(&mut self, command: Command) {
        let place = match command {
            Command::Choose | Command::Offer => 0,
            Command::Answer => 1,
            Command::Delete => 2,
        };
        if let Some(count) = self.counters.commands.get_mut(place) {
            *count += 1;
        }
    }

    pub(crate) fn send(&mut self, now_ms: u64, asked: Asked, engine: Arc<Engine>) {
        let cookie = self.next_cookie();
        let mut datagram = format!("{cookie:016x} ").into_bytes();
        match &asked {
            Asked::Ping => {
                if let Some(known) = self.known(engine.id) {
                    known.pings += 1;
                }
                write_ping(&mut datagram);
            }
            Asked::Command(_, ask, _) => {
                self.count_command(ask.command);
                self.of_calls.insert((self.call(&ask.call_id), cookie));
                ask.write(&self.config.flags, &mut datagram);
            }
        }
        self.transmits.push_back(Transmit {
            to: engine.address,
            bytes: datagram.clone(),
        });
        let until_ms = now_ms + self.config.timeout_ms;
        let repeat_ms = now_ms + self.first_repeat_ms();
        let pending = Pending {
            asked,
            engine,
            datagram,
            repeats: 0,
            since_ms: now_ms,
            until_ms,
            timer: self.wheel.start(repeat_ms, Due::Repeat(cookie)),
        };
        self.held_bytes += pending.held_bytes();
        self.pending.insert(cookie, pending);
    }

    fn first_repeat_ms(&self) -> u64 {
        REPEAT_MS.min(self.config.timeout_ms / PARTS).max(1)
    }

    /// A command has had no reply so far.
    pub(super) fn repeat(&mut self, now_ms: u64, cookie: u64) {
        let first_ms = self.first_repeat_ms();
        // It may have had one with the same tick.
        let Some(pending) = self.pending.get_mut(&cookie) else {
            return;
        };
        if now_ms < pending.until_ms {
            pending.repeats += 1;
            let wait_ms = first_ms << pending.repeats.min(10);
            let next_ms = pending.until_ms.min(now_ms + wait_ms);
            pending.timer = self.wheel.start(next_ms, Due::Repeat(cookie));
            self.counters.repeated += 1;
            self.transmits.push_back(Transmit {
                to: pending.engine.address,
                bytes: pending.datagram.clone(),
            });
            let engine = Arc::clone(&pending.engine);
            if self.known(engine.id).is_some_and(|known| known.pings == 0) {
                self.send(now_ms, Asked::Ping, engine);
            }
            return;
        }
        let Some(pending) = self.take(cookie) else {
            return broken!("what was just found is there");
        };
        self.counters.timed_out += 1;
        // Who sends what an engine cannot answer is not to have it left by everybody: one that
        // has said anything since is there.
        let since_ms = pending.since_ms;
        let known = self.known(pending.engine.id);
        let is_there = known.is_some_and(|of| of.heard_ms.is_some_and(|at| at > since_ms));
        if !is_there {
            self.failed(now_ms, &pending.engine, Why::Silent);
        }
        self.go_on(now_ms, pending, Failure::Gone);
    }

    /// Takes out all that is under way and wanted, in the order in which it was asked.
    pub(super) fn take_where(&mut self, is_wanted: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        let all = self.pending.iter();
        let wanted = all.filter(|(_, pending)| is_wanted(pending));
        let wanted = wanted.map(|(cookie, of)| (of.until_ms, *cookie)).collect();
        self.take_in_order(wanted)
    }

    /// Takes out the commands about a call that are wanted, in the order in which they were asked.
    pub(super) fn take_of_call(
        &mut self,
        call_id: &[u8],
        is_wanted: impl Fn(&Ask) -> bool,
    ) -> Vec<Pending> {
        let call = self.call(call_id);
        let about_it = self.of_calls.range((call, 0)..=(call, u64::MAX));
        let about_it = about_it.filter_map(|(_, cookie)| match self.pending.get(cookie) {
            Some(pending) => Some((*cookie, pending)),
            None => broken!("what a call is listed with is under way", None),
        });
        let wanted = about_it.filter(|(_, of)| match &of.asked {
            Asked::Command(_, ask, _) => *ask.call_id == *call_id && is_wanted(ask),
            Asked::Ping => false,
        });
        let wanted = wanted.map(|(cookie, of)| (of.until_ms, cookie)).collect();
        self.take_in_order(wanted)
    }

    /// Takes out what is under way by these times and cookies.
    fn take_in_order(&mut self, mut wanted: Vec<(u64, u64)>) -> Vec<Pending> {
        wanted.sort_unstable();
        let taken = wanted.into_iter();
        taken.filter_map(|(_, cookie)| self.take(cookie)).collect()
    }

    /// Takes out what is under way by that cookie.
    pub(super) fn take(&mut self, cookie: u64) -> Option<Pending> {
        let pending = self.pending.remove(&cookie)?;
        self.wheel.cancel(pending.timer);
        self.held_bytes -= pending.held_bytes();
        match &pending.asked {
            Asked::Ping => {
                if let Some(known) = self.known(pending.engine.id) {
                    known.pings = known.pings.saturating_sub(1);
                }
            }
            Asked::Command(_, ask, _) => {
                let call = self.call(&ask.call_id);
                if !self.of_calls.remove(&(call, cookie)) {
                    broken!("a command under way is found by its call");
                }
            }
        }
        Some(pending)
    }

    /// A call's name in a hash that nobody can aim at.
    fn call(&self, call_id: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(call_id);
        hasher.finish()
    }

    /// A number that nobody guesses, and that no other client has: rtpengine answers a cookie
    /// that it knows with what it has answered before.
    fn next_cookie(&mut self) -> u64 {
        loop {
            self.last += 1;
            let mut hasher = SipHasher13::new_with_key(&self.key);
            hasher.write_u64(self.last);
            let cookie = hasher.finish();
            if !self.pending.contains_key(&cookie) {
                return cookie;
            }
        }
    }
}

impl Pending {
    fn held_bytes(&self) -> usize {
        let ask = match &self.asked {
            Asked::Ping => 0,
            Asked::Command(_, ask, _) => ask.held_bytes() + size_of::<(u64, u64)>(),
        };
        size_of::<Self>() + self.datagram.len() + ask
    }
}

pub(super) fn read_cookie(text: &[u8]) -> Option<u64> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_ours = text.len() == COOKIE_LEN && text.iter().all(is_hex);
    let text = str::from_utf8(text).ok().filter(|_| is_ours)?;
    u64::from_str_radix(text, 16).ok()
}
