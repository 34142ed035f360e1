//! Commands under way: cookies, repetition, deadlines, and the way from one engine to the next.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use invariant::broken;
use siphasher::sip::SipHasher13;
use wheel::{TimerId, Wheel};

use crate::ask::write_ping;
use crate::engines::Engine;
use crate::reply::{Reply, parse, split};
use crate::{Ask, Command, EngineId, SharedEngines, Why};

/// When a command is repeated first; the next time after twice as long, and so on.
const REPEAT_MS: u64 = 100;
/// Digits of a cookie.
const COOKIE_LEN: usize = 16;
/// The longest datagram: what IPv4 carries behind its header and that of UDP.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// More than what a command says beside its texts and flags.
const COMMAND_BYTES: usize = 1_024;
/// More than what is written beside a flag.
const FLAG_BYTES: usize = 8;
/// The most streams of one session description. For each an engine opens up to four ports of some
/// thousands, and has half a kilobyte to tell at the end, in one datagram.
const STREAMS_MAX: usize = 16;

/// What is asked of whom, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the engines are.
    pub engines: Vec<SocketAddr>,
    /// How long one engine may take.
    pub timeout_ms: u64,
    /// Engines that are asked for one offer, one after the other.
    pub tries_max: usize,
    /// The time from one ping to the next. One that has failed is pinged each second.
    pub ping_interval_ms: u64,
    /// Commands under way; past it an offer or an answer fails at once.
    pub commands_max: usize,
    /// The longest session description that an engine is given, or that is taken from one.
    pub sdp_bytes_max: usize,
    /// Flags that go with each offer and answer.
    pub flags: Vec<Box<str>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            engines: Vec::new(),
            timeout_ms: 1_000,
            tries_max: 2,
            ping_interval_ms: 5_000,
            commands_max: 4_096,
            sdp_bytes_max: 16_384,
            flags: Vec::new(),
        }
    }
}

/// Which of the clients of a process this is: they share the pings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Its number.
    pub index: usize,
    /// How many there are; 0 and 1 mean that there is no other.
    pub clients: usize,
}

/// A datagram for an engine.
#[derive(Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where it goes.
    pub to: SocketAddr,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// What an engine gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which it is.
    pub engine: EngineId,
    /// The session description as it is to be sent on.
    pub sdp: Option<Box<[u8]>>,
}

/// Why nothing was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No engine answers, or none takes calls.
    Gone,
    /// Too much is under way, here or at the engines.
    Busy,
    /// The engine refuses, in its words.
    Refused(Box<str>),
}

/// The answer to somebody who waits.
#[derive(Debug)]
pub struct Answered {
    /// Who waits.
    pub waiter: u64,
    /// What was asked.
    pub ask: Box<Ask>,
    /// What came of it.
    pub result: Result<Given, Failure>,
}

/// An engine is left, or is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where it is.
    pub address: SocketAddr,
    /// Why it is left; none where it is used again.
    pub why: Option<Why>,
}

counters::counters! {
    /// What was asked of media engines, and what came of it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Commands sent to media engines, repetitions aside.
        pub commands: [u64; 3] = counter("signet_media_commands_total", command: ["offer", "answer", "delete"]),
        /// Commands sent again because no reply had come.
        pub repeated: u64 = counter("signet_media_repeated_total"),
        /// Commands to which a media engine did not reply in time.
        pub timed_out: u64 = counter("signet_media_timeouts_total"),
        /// Commands that a media engine refused.
        pub refused: u64 = counter("signet_media_engine_refusals_total"),
        /// Offers that went on to another media engine.
        pub failovers: u64 = counter("signet_media_failovers_total"),
        /// Commands not sent because too many were under way.
        pub full: u64 = counter("signet_media_full_total"),
        /// Commands not sent because their session description is longer than is taken, or has more streams.
        pub unfit: u64 = counter("signet_media_unfit_total"),
        /// Replies to nothing that is under way: they came twice, or too late.
        pub replies_late: u64 = counter("signet_media_replies_late_total"),
        /// Replies that cannot be read, or come from another than was asked.
        pub replies_bad: u64 = counter("signet_media_replies_bad_total"),
    }
}

/// Something that is due.
#[derive(Clone, Copy)]
enum Due {
    /// A command is to be repeated, or given up.
    Repeat(u64),
    /// It is time to look who is to be pinged.
    Pings,
}

/// What an engine was asked.
pub(crate) enum Asked {
    /// Whether it is there.
    Ping,
    /// A command, for somebody who waits or for nobody; and the engines that were asked.
    Command(Option<u64>, Box<Ask>, Vec<EngineId>),
}

struct Pending {
    asked: Asked,
    engine: Arc<Engine>,
    datagram: Vec<u8>,
    repeats: u32,
    since_ms: u64,
    until_ms: u64,
    timer: TimerId,
}

/// An engine, as one client knows it.
pub(crate) struct Known {
    pub(crate) engine: Arc<Engine>,
    /// When it was pinged last in its turn.
    pub(crate) pinged_ms: Option<u64>,
    /// When it said something last, whatever that was.
    heard_ms: Option<u64>,
    /// Pings from here that are under way.
    pings: u32,
}

impl Known {
    fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            pinged_ms: None,
            heard_ms: None,
            pings: 0,
        }
    }
}

/// One worker's end of the engines.
pub struct Client {
    pub(crate) config: Config,
    pub(crate) place: Place,
    shared: Arc<SharedEngines>,
    pub(crate) engines: Vec<Known>,
    key: [u8; 16],
    last: u64,
    pending: HashMap<u64, Pending>,
    held_bytes: usize,
    wheel: Wheel<Due>,
    ping_timer: TimerId,
    due: Vec<Due>,
    transmits: VecDeque<Transmit>,
    answers: VecDeque<Answered>,
    changes: VecDeque<Change>,
    counters: Counters,
}

impl Client {
    /// A client at that time. The key is secret and another for each client: cookies come of it.
    pub fn new(
        now_ms: u64,
        key: [u8; 16],
        place: Place,
        shared: Arc<SharedEngines>,
        config: Config,
    ) -> Self {
        let mut client = Self {
            config: Config::default(),
            place,
            shared,
            engines: Vec::new(),
            key,
            last: 0,
            pending: HashMap::new(),
            held_bytes: 0,
            wheel: Wheel::new(now_ms),
            ping_timer: TimerId::NONE,
            due: Vec::new(),
            transmits: VecDeque::new(),
            answers: VecDeque::new(),
            changes: VecDeque::new(),
            counters: Counters::default(),
        };
        client.reload(now_ms, config);
        client
    }

    /// Goes by another configuration from now on. What is under way at an engine that is not in
    /// it any more has failed.
    pub fn reload(&mut self, now_ms: u64, config: Config) {
        let mut before = std::mem::take(&mut self.engines);
        for at in &config.engines {
            let place = before.iter().position(|known| known.engine.address == *at);
            let mut known = match place {
                Some(place) => before.swap_remove(place),
                None => Known::new(self.shared.at(*at)),
            };
            // Its turn may be another client's now, or be sooner.
            known.pinged_ms = None;
            self.engines.push(known);
        }
        self.config = config;
        let own: Vec<EngineId> = self.engines.iter().map(|known| known.engine.id).collect();
        let is_gone = |of: &Pending| !own.contains(&of.engine.id);
        for pending in self.take_where(is_gone) {
            self.go_on(now_ms, pending, Failure::Gone);
        }
        self.wheel.cancel(std::mem::take(&mut self.ping_timer));
        if self.pings_any() {
            self.ping_timer = self.wheel.start(now_ms, Due::Pings);
        }
    }

    /// Asks. Who waits has an answer from [`Client::poll_answer`], perhaps at once.
    pub fn ask(&mut self, now_ms: u64, waiter: Option<u64>, ask: Box<Ask>) {
        match self.choose(&ask, &[]) {
            None => self.answer(waiter, ask, Err(Failure::Gone)),
            Some(engine) if ask.command == Command::Choose => {
                let given = Given {
                    engine: engine.id,
                    sdp: None,
                };
                self.answer(waiter, ask, Ok(given));
            }
            Some(_) if self.pending.len() >= self.config.commands_max => {
                self.counters.full += 1;
                self.answer(waiter, ask, Err(Failure::Busy));
            }
            Some(_) if !self.is_fit(&ask) => {
                self.counters.unfit += 1;
                let words = "the description is longer than is taken, or has more streams";
                self.answer(waiter, ask, Err(Failure::Refused(words.into())));
            }
            Some(engine) => {
                let asked = Asked::Command(waiter, ask, vec![engine.id]);
                self.send(now_ms, asked, engine);
            }
        }
    }

    /// Takes a datagram that came from there.
    pub fn receive(&mut self, now_ms: u64, from: SocketAddr, datagram: &[u8]) {
        let cookie = split(datagram).and_then(|(cookie, text)| Some((read_cookie(cookie)?, text)));
        let Some((cookie, text)) = cookie else {
            self.counters.replies_bad += 1;
            return;
        };
        let Some(pending) = self.pending.get(&cookie) else {
            self.counters.replies_late += 1;
            return;
        };
        if pending.engine.address != from {
            self.counters.replies_bad += 1;
            return;
        }
        let Some(pending) = self.pending.remove(&cookie) else {
            return broken!("what was just found is there");
        };
        self.forget(&pending);
        if let Some(known) = self.known(pending.engine.id) {
            known.heard_ms = Some(now_ms);
        }
        if pending.engine.heard(now_ms) {
            self.changes.push_back(Change {
                address: from,
                why: None,
            });
        }
        // Who does not see what is sent there does not know the cookie either: it is the engine that
        // speaks, and would say the same again.
        let reply = parse(text).unwrap_or_else(|| {
            self.counters.replies_bad += 1;
            Reply::No("its reply cannot be read".into())
        });
        match reply {
            // Whatever it says, it is there.
            _ if matches!(pending.asked, Asked::Ping) => pending.engine.pinged(now_ms, true),
            Reply::Done(sdp) => self.done(now_ms, pending, sdp),
            Reply::Full => self.go_on(now_ms, pending, Failure::Busy),
            Reply::No(words) => {
                self.counters.refused += 1;
                self.go_on(now_ms, pending, Failure::Refused(words));
            }
            Reply::Pong => {
                self.counters.replies_bad += 1;
                let words = "it answered another question".into();
                self.go_on(now_ms, pending, Failure::Refused(words));
            }
        }
    }

    /// A datagram to that engine came back: nobody listens there.
    pub fn unreachable(&mut self, now_ms: u64, to: SocketAddr) {
        let is_there = |of: &Pending| of.engine.address == to;
        for pending in self.take_where(is_there) {
            self.failed(now_ms, &pending.engine, Why::Unreachable);
            self.go_on(now_ms, pending, Failure::Gone);
        }
    }

    /// Does what is due.
    pub fn handle_timers(&mut self, now_ms: u64) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(now_ms, |of| due.push(of));
        for of in due.drain(..) {
            match of {
                Due::Repeat(cookie) => self.repeat(now_ms, cookie),
                Due::Pings => {
                    let next_ms = self.ping(now_ms);
                    self.ping_timer = self.wheel.start(next_ms, Due::Pings);
                }
            }
        }
        self.due = due;
    }

    /// When [`Client::handle_timers`] is to be called next.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.wheel.next_deadline_ms()
    }

    /// What is to be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// An answer that is there.
    pub fn poll_answer(&mut self) -> Option<Answered> {
        self.answers.pop_front()
    }

    /// An engine that has failed, or has returned.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// The engines of its configuration.
    pub fn engines(&self) -> &[SocketAddr] {
        &self.config.engines
    }

    /// Commands under way, pings among them.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The memory of what is under way.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The engine for a command: the one that it names, else the one that its Call-ID leads to
    /// among those that take calls and were not tried.
    fn choose(&self, ask: &Ask, tried: &[EngineId]) -> Option<Arc<Engine>> {
        let untried = |engine: &&Arc<Engine>| !tried.contains(&engine.id);
        let engines = self.engines.iter().map(|known| &known.engine);
        let engines = engines.filter(untried);
        if let Some(id) = ask.engine {
            let mut engines = engines;
            return engines.find(|engine| engine.id == id).cloned();
        }
        // The same for every client and at every node: branches of one call meet.
        let lot = |id: EngineId| {
            let mut hasher = SipHasher13::new();
            hasher.write_u32(id.0);
            hasher.write(&ask.call_id);
            hasher.finish()
        };
        let fit = engines.filter(|engine| engine.takes_calls());
        fit.max_by_key(|engine| lot(engine.id)).cloned()
    }

    /// Whether a command may be given to an engine. One call is not to have all of its ports, nor
    /// replies that no datagram carries.
    fn is_fit(&self, ask: &Ask) -> bool {
        let flags = self.config.flags.iter().map(|flag| flag.len() + FLAG_BYTES);
        let length = ask.held_bytes() + COMMAND_BYTES + flags.sum::<usize>();
        ask.sdp.len() <= self.config.sdp_bytes_max
            && length <= DATAGRAM_BYTES_MAX
            && streams(&ask.sdp) <= STREAMS_MAX
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
                let place = match ask.command {
                    Command::Choose | Command::Offer => 0,
                    Command::Answer => 1,
                    Command::Delete => 2,
                };
                if let Some(count) = self.counters.commands.get_mut(place) {
                    *count += 1;
                }
                ask.write(&self.config.flags, &mut datagram);
            }
        }
        self.transmits.push_back(Transmit {
            to: engine.address,
            bytes: datagram.clone(),
        });
        let until_ms = now_ms + self.config.timeout_ms;
        let repeat_ms = until_ms.min(now_ms + REPEAT_MS);
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

    /// A command has had no reply so far.
    fn repeat(&mut self, now_ms: u64, cookie: u64) {
        // It may have had one with the same tick.
        let Some(pending) = self.pending.get_mut(&cookie) else {
            return;
        };
        if now_ms < pending.until_ms {
            pending.repeats += 1;
            let wait_ms = REPEAT_MS << pending.repeats.min(10);
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
        if let Some(pending) = self.pending.remove(&cookie) {
            self.forget(&pending);
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
    }

    /// An engine has done what it was asked.
    fn done(&mut self, now_ms: u64, pending: Pending, sdp: Option<&[u8]>) {
        let Asked::Command(waiter, ask, tried) = pending.asked else {
            return;
        };
        let max = self.config.sdp_bytes_max;
        let sdp = sdp.filter(|sdp| sdp.starts_with(b"v=") && sdp.len() <= max);
        if sdp.is_none() && ask.command != Command::Delete {
            self.counters.replies_bad += 1;
            let words = "its reply has no session description, or a longer one than is taken";
            let asked = Asked::Command(waiter, ask, tried);
            let failure = Failure::Refused(words.into());
            return self.go_on(now_ms, Pending { asked, ..pending }, failure);
        }
        let given = Given {
            engine: pending.engine.id,
            sdp: sdp.map(Into::into),
        };
        self.answer(waiter, ask, Ok(given));
    }

    /// An engine has not done it: on to the next where there may be one.
    fn go_on(&mut self, now_ms: u64, pending: Pending, failure: Failure) {
        let Asked::Command(waiter, ask, mut tried) = pending.asked else {
            pending.engine.pinged(now_ms, false);
            return;
        };
        let has_heard = matches!(failure, Failure::Refused(_))
            || (failure == Failure::Gone && !pending.engine.is_out());
        if has_heard {
            self.let_go(now_ms, &ask, &pending.engine);
        }
        let may_go_on = ask.command == Command::Offer
            && tried.len() < self.config.tries_max
            && self.pending.len() < self.config.commands_max;
        let next = match may_go_on {
            true => self.choose(&ask, &tried),
            false => None,
        };
        match next {
            Some(engine) => {
                self.counters.failovers += 1;
                tried.push(engine.id);
                let asked = Asked::Command(waiter, ask, tried);
                self.send(now_ms, asked, engine);
            }
            None => self.answer(waiter, ask, Err(failure)),
        }
    }

    /// An engine that has refused an offer, or has not answered it, may have begun a call for it:
    /// one without media, which it would keep.
    fn let_go(&mut self, now_ms: u64, ask: &Ask, engine: &Arc<Engine>) {
        let is_beginning =
            ask.command == Command::Offer && ask.engine.is_none() && !ask.branch.is_empty();
        let has_room = self.pending.len() < self.config.commands_max;
        if !is_beginning || !has_room || self.known(engine.id).is_none() {
            return;
        }
        let mut delete = Ask::new(Command::Delete, &ask.call_id, &ask.from_tag);
        delete.branch = ask.branch.clone();
        delete.engine = Some(engine.id);
        let asked = Asked::Command(None, Box::new(delete), vec![engine.id]);
        self.send(now_ms, asked, Arc::clone(engine));
    }

    fn failed(&mut self, now_ms: u64, engine: &Engine, why: Why) {
        if engine.failed(now_ms, why) {
            self.changes.push_back(Change {
                address: engine.address,
                why: Some(why),
            });
        }
    }

    fn answer(&mut self, waiter: Option<u64>, ask: Box<Ask>, result: Result<Given, Failure>) {
        if let Some(waiter) = waiter {
            self.answers.push_back(Answered {
                waiter,
                ask,
                result,
            });
        }
    }

    /// Takes out all that is under way and wanted, in the order in which it was asked.
    fn take_where(&mut self, is_wanted: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        let all = self.pending.iter();
        let wanted = all.filter(|(_, pending)| is_wanted(pending));
        let mut wanted: Vec<_> = wanted.map(|(cookie, of)| (of.until_ms, *cookie)).collect();
        wanted.sort_unstable();
        let mut taken = Vec::with_capacity(wanted.len());
        for (_, cookie) in wanted {
            if let Some(pending) = self.pending.remove(&cookie) {
                self.forget(&pending);
                taken.push(pending);
            }
        }
        taken
    }

    /// What was under way has ended.
    fn forget(&mut self, pending: &Pending) {
        self.wheel.cancel(pending.timer);
        self.held_bytes -= pending.held_bytes();
        if let (Asked::Ping, Some(known)) = (&pending.asked, self.known(pending.engine.id)) {
            known.pings = known.pings.saturating_sub(1);
        }
    }

    /// An engine of the configuration.
    fn known(&mut self, id: EngineId) -> Option<&mut Known> {
        self.engines.iter_mut().find(|known| known.engine.id == id)
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
            Asked::Command(_, ask, _) => ask.held_bytes(),
        };
        size_of::<Self>() + self.datagram.len() + ask
    }
}

/// The streams of a session description, as its writer says: an engine opens two ports or four
/// for each, and tells of each when the call ends.
// RFC 8866 5.14: "m=<media> <port>/<number of ports> <proto> <fmt> ..."
fn streams(sdp: &[u8]) -> usize {
    let lines = sdp.split(|byte| matches!(byte, b'\n' | b'\r'));
    let lines = lines.filter_map(|line| line.strip_prefix(b"m="));
    let counts = lines.map(|line| {
        let port = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let count = port.splitn(2, |byte| *byte == b'/').nth(1);
        let digits = count.unwrap_or_default().iter();
        let digits = digits.take_while(|byte| byte.is_ascii_digit());
        let count = digits.fold(0_usize, |sum, digit| {
            sum.saturating_mul(10)
                .saturating_add(usize::from(digit - b'0'))
        });
        count.max(1)
    });
    counts.fold(0, usize::saturating_add)
}

fn read_cookie(text: &[u8]) -> Option<u64> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_ours = text.len() == COOKIE_LEN && text.iter().all(is_hex);
    let text = str::from_utf8(text).ok().filter(|_| is_ours)?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests;
