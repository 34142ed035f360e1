//! A worker's end of the engines: which is asked, what comes of it, and the way from one to the
//! next.

mod config;
mod counters;
mod fit;
mod outputs;
mod pending;

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use invariant::broken;
use siphasher::sip::SipHasher13;
use wheel::{TimerId, Wheel};

use crate::engines::Engine;
use crate::reply::{Reply, parse, split};
use crate::{Ask, Command, EngineId, SharedEngines, Why};

pub use config::{ClientNumber, Config};
pub use counters::Counters;
pub use outputs::{Answered, Change, Failure, Given, Transmit};
pub(crate) use pending::Asked;

use pending::{Pending, read_cookie};

/// Something that is due.
#[derive(Clone, Copy)]
enum Due {
    /// A command is to be repeated, or given up.
    Repeat(u64),
    /// It is time to look who is to be pinged.
    Pings,
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
    pub(crate) place: ClientNumber,
    shared: Arc<SharedEngines>,
    pub(crate) engines: Vec<Known>,
    key: [u8; 16],
    last: u64,
    pending: HashMap<u64, Pending>,
    /// The cookies of commands under way, by the call that they are about: its name in a hash.
    of_calls: BTreeSet<(u64, u64)>,
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
        place: ClientNumber,
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
            of_calls: BTreeSet::new(),
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
        self.end_with(&ask);
        match self.choose(&ask, &[]) {
            None => self.answer(waiter, ask, Err(Failure::Gone)),
            Some(engine) if ask.command == Command::Choose => {
                let given = Given {
                    engine: engine.id,
                    sdp: None,
                };
                self.answer(waiter, ask, Ok(given));
            }
            Some(_) if !self.is_fit(&ask) => {
                self.counters.unfit += 1;
                let words = "the description is longer than is taken, or has more streams";
                self.answer(waiter, ask, Err(Failure::Refused(words.into())));
            }
            Some(engine) if waiter.is_none() => self.tell(now_ms, ask, engine),
            Some(_) if self.is_full() => {
                self.counters.full += 1;
                self.answer(waiter, ask, Err(Failure::Busy));
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
        let Some(pending) = self.take(cookie) else {
            return broken!("what was just found is there");
        };
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
            Reply::Unknown => {
                self.counters.refused += 1;
                self.go_on(now_ms, pending, Failure::Unknown);
            }
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

    /// Sends what nobody waits for. Where places are few it takes none from who does wait, and is
    /// not repeated: an engine that loses it keeps a call until nobody sends media.
    fn tell(&mut self, now_ms: u64, ask: Box<Ask>, engine: Arc<Engine>) {
        let is_full = self.is_full();
        self.counters.full += u64::from(is_full);
        match is_full || (engine.is_out() && self.is_busy()) {
            true => self.send_once(&ask, &engine),
            false => {
                let asked = Asked::Command(None, ask, vec![engine.id]);
                self.send(now_ms, asked, engine);
            }
        }
    }

    /// Whether all places are taken.
    fn is_full(&self) -> bool {
        self.pending.len() >= self.config.commands_max
    }

    /// Whether half of the places are taken.
    fn is_busy(&self) -> bool {
        self.pending.len() >= self.config.commands_max / 2
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
            hasher.write(ask.call_id.get(..ask.chosen_by).unwrap_or(&ask.call_id));
            hasher.finish()
        };
        let fit = engines.filter(|engine| engine.takes_calls());
        fit.max_by_key(|engine| lot(engine.id)).cloned()
    }

    /// What is under way about a call or a dialog that ends is asked no more: an engine would hear
    /// of it again after its end, and begin anew what an offer is about. Where a branch ends its
    /// call does.
    fn end_with(&mut self, ask: &Ask) {
        let is_of_branch = ask.to_tag.is_empty();
        if ask.command != Command::Delete || (is_of_branch && ask.branch.is_empty()) {
            return;
        }
        let is_over = |own: &Ask| match is_of_branch {
            true => own.command != Command::Delete,
            false => own.command == Command::Offer && is_one_dialog(own, ask),
        };
        for pending in self.take_of_call(&ask.call_id, is_over) {
            if let Asked::Command(waiter, own, _) = pending.asked {
                self.answer(waiter, own, Err(Failure::Gone));
            }
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
        let may_go_on =
            ask.command == Command::Offer && tried.len() < self.config.tries_max && !self.is_full();
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
        if !is_beginning || self.known(engine.id).is_none() {
            return;
        }
        let mut delete = Ask::new(Command::Delete, &ask.call_id, &ask.from_tag);
        delete.branch = ask.branch.clone();
        delete.engine = Some(engine.id);
        self.tell(now_ms, Box::new(delete), Arc::clone(engine));
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

    /// An engine of the configuration.
    fn known(&mut self, id: EngineId) -> Option<&mut Known> {
        self.engines.iter_mut().find(|known| known.engine.id == id)
    }
}

/// Whether two commands of one call are about one dialog; either side may have the tag that
/// stands first.
fn is_one_dialog(one: &Ask, other: &Ask) -> bool {
    let (from, to) = (&other.from_tag, &other.to_tag);
    let tags = (&one.from_tag, &one.to_tag);
    tags == (from, to) || tags == (to, from)
}

#[cfg(test)]
mod tests;
