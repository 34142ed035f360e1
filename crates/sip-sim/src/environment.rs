//! What a worker of the simulated server works with: sockets that write down what they
//! were told, and ends of a store and a resolver whose answers the world brings.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sip_auth::{Reply, Subject};
use sip_engine::{BindingChange, CallRecord, ParkId};
use sip_limit::Shares;
use sip_locate::{Hop, LocateError, Query};
use sip_lookup::{Cache, Question as LookUp, Unavailable, Why};
use sip_msg::{ConnId, Outbox, Target, Transport};
use sip_worker::{AtOnce, Environment, Passing, StoreAnswer};

use crate::Dice;

/// Datagrams that are remembered, so that one which comes back is known again.
const RECENT_MAX: usize = 256;
/// How much of a datagram comes back.
pub(crate) const QUOTED_BYTES: usize = 96;

/// The environment of a simulated worker.
pub(crate) enum Simulated {}

impl Environment for Simulated {
    type Sockets = Sockets;
    type Store = Questions;
    type Resolver = Questions;
    type Hook = Questions;
    type Trace = Silent;
    type Records = Kept;
    type Waker = Bell;
}

/// Whether a worker is to look around.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<AtomicBool>);

impl Bell {
    pub(crate) fn has_rung(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn quiet(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl sip_worker::Wake for Bell {
    fn wake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Shows nothing.
pub(crate) struct Silent;

impl sip_worker::Trace for Silent {
    fn is_on(&self) -> bool {
        false
    }

    fn message(&self, _: &Passing<'_>) {}
}

/// The call records of a worker.
#[derive(Clone, Default)]
pub(crate) struct Kept(Rc<RefCell<Vec<CallRecord>>>);

impl Kept {
    pub(crate) fn take(&self) -> Vec<CallRecord> {
        self.0.take()
    }
}

impl sip_worker::Records for Kept {
    fn give(&mut self, record: Box<CallRecord>) {
        self.0.borrow_mut().push(*record);
    }
}

/// A worker's sockets.
#[derive(Default)]
pub(crate) struct Sockets {
    pub(crate) outbox: Outbox,
    /// Datagrams for media engines.
    pub(crate) to_engines: Vec<(SocketAddr, Vec<u8>)>,
    pub(crate) closes: Vec<ConnId>,
    pub(crate) ended_calls: Vec<u64>,
    /// Cookies of datagrams that came back to another worker.
    pub(crate) returned: Vec<u64>,
    pub(crate) messages_in: u64,
    pub(crate) has_stopped: bool,
    recent: VecDeque<(SocketAddr, Box<[u8]>, u64)>,
}

impl Sockets {
    /// The cookie of a datagram that came back, if it was sent here.
    pub(crate) fn take_recent(&mut self, remote: SocketAddr, quoted: &[u8]) -> Option<u64> {
        let at = self
            .recent
            .iter()
            .position(|(to, head, _)| *to == remote && **head == *quoted)?;
        self.recent.remove(at).map(|(_, _, cookie)| cookie)
    }
}

impl sip_worker::Sockets for Sockets {
    type Figures = ();

    fn send(&mut self, to: &Target, bytes: &[u8], cookie: u64) {
        if to.transport == Transport::Udp && cookie != 0 {
            let head = bytes.get(..QUOTED_BYTES).unwrap_or(bytes);
            self.recent.push_back((to.remote, head.into(), cookie));
            if self.recent.len() > RECENT_MAX {
                self.recent.pop_front();
            }
        }
        self.outbox.send_copy(bytes, to.clone(), cookie);
    }

    fn send_outbox(&mut self, outbox: &Outbox) {
        for send in &outbox.sends {
            if let Some(bytes) = outbox.bytes.get(send.start..send.end) {
                self.send(&send.to, bytes, send.cookie);
            }
        }
    }

    fn send_to_engine(&mut self, to: SocketAddr, bytes: &[u8]) {
        self.to_engines.push((to, bytes.to_vec()));
    }

    fn close(&mut self, conn: ConnId) {
        self.closes.push(conn);
    }

    fn end_call(&mut self, call: u64) {
        self.ended_calls.push(call);
    }

    fn stop_accepting(&mut self) {
        self.has_stopped = true;
    }

    fn find_unreachable(&mut self, remote: SocketAddr, quoted: &[u8]) {
        let cookie = self.take_recent(remote, quoted);
        self.returned.extend(cookie);
    }

    fn messages_in(&self) -> u64 {
        self.messages_in
    }

    fn ends_for(&mut self, _: &Target) -> Option<(SocketAddr, SocketAddr)> {
        None
    }

    fn is_drained(&self) -> bool {
        true
    }

    fn waiting_ms(&self) -> Option<u64> {
        None
    }

    fn may_more_wait(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn name_aliases(&self, _: &mut Outbox, _: u64) -> u64 {
        0
    }

    // What is sent leaves with the turn; there is room for all; nobody sends so much that
    // is wrong that it counts; and TLS is not played.
    fn flush(&mut self) {}
    fn count_odd(&mut self, _: ConnId) {}
    fn keep_for(&mut self, _: ConnId, _: u64) {}
    fn alias(&mut self, _: ConnId, _: &str, _: Option<u16>) {}
    fn settings_changed(&mut self) {}
    fn trim(&mut self) {}
    fn time_datagrams(&mut self, _: bool) {}
    fn shed(&mut self, _: Option<&Shares>) {}
    fn figures(&self) {}
}

/// Something that a worker asks.
pub(crate) enum Question {
    /// With the time until which it waits.
    Credential(ParkId, LookUp, u64),
    Save(ParkId, Vec<BindingChange>),
    Name(ParkId, Query),
    /// With the time until which it waits.
    Hook(ParkId, Box<sip_hook::Question>, u64),
}

/// A worker's end of the store and of the resolver: what it has asked, and what it was told.
#[derive(Clone)]
pub(crate) struct Questions(Rc<RefCell<Asked>>);

pub(crate) struct Asked {
    pub(crate) questions: Vec<Question>,
    pub(crate) answers: Vec<StoreAnswer>,
    pub(crate) names: VecDeque<(ParkId, Result<Vec<Hop>, LocateError>)>,
    pub(crate) told: Vec<(ParkId, sip_hook::Outcome)>,
    pub(crate) refused: u64,
    /// The cache before a database at a distance.
    pub(crate) front: Option<Front>,
    dice: Dice,
    /// Questions that find no room, in thousandths.
    full: u64,
}

/// A worker's view of the cache that all share.
pub(crate) struct Front {
    pub(crate) cache: Arc<Cache>,
    /// Whose questions are under way, so that no hit overtakes them.
    under_way: sip_lookup::Asked,
    subjects: HashMap<ParkId, Subject>,
    pub(crate) now_us: u64,
    pub(crate) hits: u64,
}

impl Front {
    pub(crate) fn new(cache: Arc<Cache>, hash_key: [u8; 16]) -> Self {
        Self {
            cache,
            under_way: sip_lookup::Asked::new(hash_key),
            subjects: HashMap::new(),
            now_us: 0,
            hits: 0,
        }
    }

    /// What the cache knows, or the note that the database is asked.
    fn know(&mut self, park: ParkId, question: &LookUp) -> Option<Reply> {
        let subject = &question.subject;
        if question.why == Why::Existence {
            return None;
        }
        if question.why == Why::Digest {
            let known = match self.under_way.holds(subject) {
                true => None,
                false => self.cache.get(self.now_us, subject, question.algorithm),
            };
            self.hits += u64::from(known.is_some());
            return Some(known.unwrap_or(Reply::NotCached));
        }
        self.under_way.begin(subject);
        self.subjects.insert(park, subject.clone());
        None
    }

    fn answered(&mut self, park: ParkId) {
        if let Some(subject) = self.subjects.remove(&park) {
            self.under_way.end(&subject);
        }
    }
}

impl Questions {
    pub(crate) fn new(dice: Dice, full: u64, front: Option<Front>) -> Self {
        Self(Rc::new(RefCell::new(Asked {
            questions: Vec::new(),
            answers: Vec::new(),
            names: VecDeque::new(),
            told: Vec::new(),
            refused: 0,
            front,
            dice,
            full,
        })))
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Asked) -> T) -> T {
        act(&mut self.0.borrow_mut())
    }

    fn put(&self, question: Question) -> bool {
        self.with(|asked| {
            let full = asked.full;
            let is_refused = asked.dice.thousandths(full);
            match is_refused {
                true => asked.refused += 1,
                false => asked.questions.push(question),
            }
            !is_refused
        })
    }
}

impl sip_worker::Store for Questions {
    fn find_credential(&mut self, park: ParkId, question: LookUp, until_ms: u64) -> AtOnce {
        let known = self.with(|asked| asked.front.as_mut()?.know(park, &question));
        if let Some(reply) = known {
            return AtOnce::Known(reply);
        }
        if self.put(Question::Credential(park, question, until_ms)) {
            return AtOnce::Pending;
        }
        self.with(|asked| asked.front.as_mut().map(|front| front.answered(park)));
        AtOnce::Refused(Unavailable {
            retry_after_s: None,
        })
    }

    fn proved(&mut self, subject: &Subject) {
        self.with(|asked| {
            if let Some(front) = &asked.front {
                front.cache.confirm(subject);
            }
        });
    }

    fn save_bindings(&mut self, park: ParkId, changes: Vec<BindingChange>) -> bool {
        self.put(Question::Save(park, changes))
    }

    fn take_answers(&mut self, into: &mut Vec<StoreAnswer>) {
        self.with(|asked| {
            std::mem::swap(into, &mut asked.answers);
            if let Some(front) = &mut asked.front {
                for answer in into.iter() {
                    if let StoreAnswer::Credential(park, _) = answer {
                        front.answered(*park);
                    }
                }
            }
        });
    }
}

impl sip_worker::Hook for Questions {
    fn ask(
        &mut self,
        park: ParkId,
        question: Box<sip_hook::Question>,
        until_ms: u64,
    ) -> Option<sip_hook::Outcome> {
        let is_taken = self.put(Question::Hook(park, question, until_ms));
        (!is_taken).then_some(Err(sip_hook::Failure::Full))
    }

    fn take_answers(&mut self, into: &mut Vec<(ParkId, sip_hook::Outcome)>) {
        self.with(|asked| std::mem::swap(into, &mut asked.told));
    }
}

impl sip_worker::Resolver for Questions {
    fn ask(&mut self, park: ParkId, query: Query) -> bool {
        self.put(Question::Name(park, query))
    }

    fn next_answer(&mut self) -> Option<(ParkId, Result<Vec<Hop>, LocateError>)> {
        self.with(|asked| asked.names.pop_front())
    }
}
