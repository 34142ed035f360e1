//! The server: its workers, as they are in service, and what of it outlives the process.

mod finish;
mod process;
mod settings;
mod turn;

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use sip_auth::Ha1Set;
use sip_engine::{Binding, BindingChange, Now, ParkId, Settings};
use sip_locate::{Hop, LocateError};
use sip_msg::{ConnId, Flow, Outbox};
use sip_worker::{Phase, SendFailure, StoreAnswer};

use crate::Dice;
use crate::distant::{Distant, Tag, Users};
use crate::dns::Lookup;
use crate::hook::Hook;
use crate::media::{Engines, Said};
use crate::plan::Plan;
use crate::warden::{Bindings, MALLORY};

use process::Process;
use settings::settings;
pub(crate) use settings::{CARRIERS, DOMAIN, GATEWAY, NEIGHBOUR, SERVER, carrier, foreign};

/// When the virtual clocks begin, in milliseconds since 1970.
const UNIX_START_MS: u64 = 1_800_000_000_000;

/// An address-of-record and a contact's identity: what names a row of the database.
type Row = (Arc<[u8]>, Arc<[u8]>);

/// What arrives at a worker's sockets.
#[derive(Debug)]
pub(crate) enum Arrival {
    Message {
        flow: Flow,
        bytes: Vec<u8>,
    },
    SendFailed {
        cookie: u64,
        failure: SendFailure,
    },
    Closed(ConnId),
    Unreachable {
        remote: SocketAddr,
        quoted: Vec<u8>,
    },
    /// A media engine says this; nothing where nobody listens there.
    Engine {
        from: SocketAddr,
        bytes: Option<Vec<u8>>,
    },
}

/// What the store, the resolver and the media engines do.
pub(crate) enum Answer {
    /// Told to a worker.
    Store(usize, StoreAnswer),
    /// A change is durable from now on.
    Durable(Vec<BindingChange>),
    /// A resolution goes on.
    Lookup(Lookup),
    /// A resolution is over.
    Resolved(usize, ParkId, Result<Vec<Hop>, LocateError>),
    /// An engine speaks.
    Engine(Said),
}

/// What a worker's turn led to.
#[derive(Default)]
pub(crate) struct Turned {
    pub(crate) worker: usize,
    pub(crate) outbox: Outbox,
    pub(crate) closes: Vec<ConnId>,
    pub(crate) ended_calls: Vec<u64>,
    pub(crate) answers: Vec<(u64, Answer)>,
    pub(crate) faults: Vec<String>,
    /// Whether the store had told something, so that the table may have changed.
    pub(crate) was_told: bool,
}

pub(crate) struct Server {
    plan: Plan,
    /// The settings in force.
    settings: Arc<Settings>,
    users: Arc<Users>,
    node_secret: [u8; 32],
    token_secret: [u8; 32],
    /// The table of the database, by address-of-record and contact.
    durable: BTreeMap<Row, Arc<Binding>>,
    /// Contacts that were removed from it of late.
    removed: Vec<(Arc<[u8]>, Arc<Binding>)>,
    dice: Dice,
    engines: Option<Engines>,
    process: Option<Process>,
    starts: u32,
    /// What all processes counted.
    pub(crate) figures: Figures,
}

/// What the workers of all processes have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) handed_over: u64,
    pub(crate) refused: u64,
    pub(crate) malformed: u64,
    pub(crate) resolved: u64,
    /// Names that did not lead anywhere.
    pub(crate) unresolved: u64,
    /// Changes that the store did not make.
    pub(crate) unsaved: u64,
    /// Contacts that processes found in the store when they began.
    pub(crate) restored: u64,
    /// Look-ups that a cache answered.
    pub(crate) cached: u64,
    /// Answers of databases at a distance.
    pub(crate) batches: u64,
    /// Probes of gateways that had a good answer.
    pub(crate) probed: u64,
    /// Calls that left a gateway for its silence.
    pub(crate) left: u64,
    /// Keep-alives to phones behind translations.
    pub(crate) kept: u64,
    /// Flows that were found to have ended.
    pub(crate) flows_ended: u64,
    /// Answers of the operator's hook that could be used.
    pub(crate) hooked: u64,
    /// Requests about which it had none.
    pub(crate) undecided: u64,
    /// Calls that were refused because no media engine took them.
    pub(crate) unled: u64,
}

pub(crate) fn now(now_ms: u64) -> Now {
    Now {
        mono_ms: now_ms,
        unix_ms: UNIX_START_MS + now_ms,
    }
}

impl Server {
    pub(crate) fn new(plan: &Plan, users: &[String]) -> Self {
        let mut dice = Dice::new(plan.seed, 3);
        let honest = users.iter().map(|user| (user.as_str(), "secret"));
        let hostile = plan.hostility.map(|_| (MALLORY, "mallory's own"));
        let sets = honest.chain(hostile).map(|(user, password)| {
            let set = Ha1Set::compute(user.as_bytes(), DOMAIN.as_bytes(), password.as_bytes());
            (user.as_bytes().to_vec(), set)
        });
        let mut server = Self {
            plan: plan.clone(),
            settings: Arc::new(settings(plan, 0)),
            users: Arc::new(sets.collect()),
            node_secret: dice.bytes(),
            token_secret: dice.bytes(),
            durable: BTreeMap::new(),
            removed: Vec::new(),
            dice,
            engines: plan.media.map(|media| {
                let span_ms = plan.calls * plan.call_interval_ms + 30_000;
                Engines::new(media, Dice::new(plan.seed, 11), span_ms)
            }),
            process: None,
            starts: 0,
            figures: Figures::default(),
        };
        server.start(0);
        server
    }

    /// The process is killed. Returned are the users whose changes were under way.
    pub(crate) fn kill(&mut self) -> HashSet<Vec<u8>> {
        self.count();
        let process = self.process.take();
        let saves = process.iter().flat_map(|process| process.saves.values());
        saves
            .flatten()
            .map(|change| change.aor().to_vec())
            .collect()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// Whether something is under way.
    pub(crate) fn is_busy(&self) -> bool {
        let process = self.process.as_ref();
        let mut seats = process.iter().flat_map(|process| &process.seats);
        seats.any(|seat| seat.worker.shard().in_flight() > 0)
    }

    /// All workers are given other settings.
    pub(crate) fn reload(&mut self, generation: u64) {
        self.settings = Arc::new(settings(&self.plan, generation));
        if let Some(process) = &self.process {
            process.control.reload(Arc::clone(&self.settings));
            process.hook.iter().for_each(Hook::forget);
        }
    }

    /// Whether all workers go by the newest settings.
    pub(crate) fn is_taken_over(&self) -> bool {
        let process = self.process.as_ref();
        process.is_none_or(|process| process.control.is_taken_over())
    }

    pub(crate) fn order(&mut self, phase: Phase) {
        if let Some(process) = &self.process {
            process.control.order(phase);
        }
    }

    /// Whether the listeners are closed.
    pub(crate) fn accepts(&self) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| process.seats.iter().all(|seat| !seat.sockets.has_stopped))
    }

    /// Something arrives at a worker's sockets.
    pub(crate) fn arrive(&mut self, worker: usize, arrival: Arrival) {
        let process = self.process.as_mut();
        if let Some(seat) = process.and_then(|process| process.seats.get_mut(worker)) {
            seat.arrivals.push_back(arrival);
        }
    }

    /// The store or the resolver does something; perhaps with something to follow.
    pub(crate) fn take_answer(&mut self, now_ms: u64, answer: Answer) -> Option<(u64, Answer)> {
        let worker = match answer {
            Answer::Durable(changes) => {
                for change in changes {
                    match change {
                        BindingChange::Put { aor, key, binding } => {
                            self.durable.insert((aor, key), binding);
                        }
                        BindingChange::Remove { aor, key } => {
                            let gone = self.durable.remove(&(Arc::clone(&aor), key));
                            self.removed.extend(gone.map(|binding| (aor, binding)));
                        }
                    }
                }
                return None;
            }
            Answer::Lookup(lookup) => {
                let (worker, park) = (lookup.worker, lookup.park);
                return Some(match lookup.step(now_ms, &self.plan.dns, &mut self.dice) {
                    crate::dns::Stepped::Waits(at_ms, lookup) => (at_ms, Answer::Lookup(lookup)),
                    crate::dns::Stepped::Done(at_ms, result) => {
                        (at_ms, Answer::Resolved(worker, park, result))
                    }
                });
            }
            Answer::Engine(Said {
                worker,
                from,
                bytes,
                ..
            }) => {
                self.arrive(worker, Arrival::Engine { from, bytes });
                return None;
            }
            Answer::Store(worker, _) | Answer::Resolved(worker, ..) => worker,
        };
        let seat = self.process.as_mut()?.seats.get_mut(worker)?;
        match answer {
            Answer::Store(_, answer) => {
                if let StoreAnswer::Saved(park, result) = &answer {
                    seat.told.push((*park, result.is_ok()));
                }
                seat.asked.with(|asked| asked.answers.push(answer));
            }
            Answer::Resolved(_, park, result) => {
                self.figures.resolved += u64::from(result.is_ok());
                self.figures.unresolved += u64::from(result.is_err());
                seat.asked
                    .with(|asked| asked.names.push_back((park, result)));
            }
            Answer::Durable(_) | Answer::Lookup(_) | Answer::Engine(_) => {}
        }
        sip_worker::Wake::wake(&seat.bell);
        None
    }

    /// The contacts that were removed from the database since the last call.
    pub(crate) fn take_removed(&mut self) -> Vec<(Arc<[u8]>, Arc<Binding>)> {
        std::mem::take(&mut self.removed)
    }

    /// When a worker has something to do next.
    pub(crate) fn next_deadline_ms(&mut self, now_ms: u64) -> Option<u64> {
        let distant = self.process.as_ref().and_then(|of| of.distant.as_ref());
        let distant_ms = distant.and_then(Distant::next_deadline_ms);
        let hook = self.process.as_ref().and_then(|of| of.hook.as_ref());
        let hook_ms = hook.and_then(Hook::next_deadline_ms);
        let slack_ms = self.plan.wake_max_ms;
        let dice = &mut self.dice;
        let seats = self
            .process
            .iter_mut()
            .flat_map(|process| &mut process.seats);
        seats
            .filter_map(|seat| {
                if seat.bell.has_rung() || !seat.arrivals.is_empty() {
                    seat.look_ms
                        .get_or_insert_with(|| now_ms + dice.between(0, slack_ms));
                }
                seat.look_ms.into_iter().chain(seat.due_ms).min()
            })
            .chain(distant_ms)
            .chain(hook_ms)
            .min()
    }

    /// The database at a distance does what is due; what is wrong with it.
    pub(crate) fn step_distant(&mut self, now_ms: u64) -> Vec<String> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        let Some(distant) = &mut process.distant else {
            return Vec::new();
        };
        for (Tag { worker, park, .. }, outcome) in distant.step(now_ms) {
            if let Some(seat) = process.seats.get_mut(worker) {
                seat.is_told(StoreAnswer::Credential(park, outcome));
            }
        }
        std::mem::take(&mut distant.faults)
    }

    /// The operator's hook does what is due; what is wrong with it.
    pub(crate) fn step_hook(&mut self, now_ms: u64) -> Vec<String> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        let Some(hook) = &mut process.hook else {
            return Vec::new();
        };
        for ((worker, park), outcome) in hook.step(now_ms) {
            if let Some(seat) = process.seats.get_mut(worker) {
                seat.is_told_by_hook(park, outcome);
            }
        }
        std::mem::take(&mut hook.faults)
    }

    /// Contacts that an address-of-record may have.
    pub(crate) fn contacts_max(&self) -> usize {
        self.settings.registrar.contacts_max
    }

    /// Session descriptions that engines have given.
    pub(crate) fn led(&self) -> u64 {
        self.engines.as_ref().map_or(0, |engines| engines.given)
    }

    /// All bindings, and the time at which they are.
    pub(crate) fn bindings(&self, now_ms: u64) -> (u64, Bindings) {
        let unix_ms = now(now_ms).unix_ms;
        let mut all = Vec::new();
        if let Some(process) = &self.process {
            process.location.for_each(unix_ms, |aor, bindings| {
                all.push((Arc::clone(aor), bindings.to_vec()));
            });
        }
        (unix_ms, all)
    }

    /// Addresses of gateways that are passed over.
    pub(crate) fn gateways_out(&self, now_ms: u64) -> Vec<String> {
        let process = self.process.iter();
        let all = process.flat_map(|process| process.gateways.health(now_ms));
        let out = all.filter(|(_, _, shown)| shown.out_for_ms > 0);
        out.map(|(transport, addr, shown)| format!("{transport:?} {addr}: {shown:?}"))
            .collect()
    }

    /// Adds up what the workers have counted so far.
    fn count(&mut self) {
        if let Some(process) = &self.process {
            let all = process.gateways.health(0);
            let good = all.iter().map(|(_, _, shown)| shown.probes_good);
            self.figures.probed += good.sum::<u64>();
        }
        for seat in self.process.iter().flat_map(|process| &process.seats) {
            let (own, shard) = (seat.worker.figures(), seat.worker.shard());
            self.figures.handed_over += own.handed_over;
            self.figures.refused += own.handover_refused + own.store_refused + own.dns_refused;
            self.figures.malformed += shard.counters().malformed;
            self.figures.left += shard.counters().gateways_silent;
            self.figures.kept += shard.counters().keepalives.iter().sum::<u64>();
            let ended = shard.registrar_counters().flows_ended;
            self.figures.flows_ended += ended.iter().sum::<u64>();
            self.figures.undecided += shard.counters().hook_undecided;
            self.figures.unled += shard.counters().media_refused;
            self.figures.cached += seat
                .asked
                .with(|asked| asked.front.as_ref().map_or(0, |front| front.hits));
        }
        let distant = self.process.as_ref().and_then(|of| of.distant.as_ref());
        self.figures.batches += distant.map_or(0, Distant::batches);
        let hook = self.process.as_ref().and_then(|of| of.hook.as_ref());
        self.figures.hooked += hook.map_or(0, |hook| hook.used);
    }
}

#[cfg(test)]
mod tests;
