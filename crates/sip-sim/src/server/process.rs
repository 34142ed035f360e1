//! A process of the server: its workers, and all that is gone when it ends.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sip_auth::{AuthConfig, Authenticator};
use sip_engine::budget::Share;
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{BindingChange, Budget, Location, ParkId, Shard, Shared, SharedGateways};
use sip_limit::{Guard, Rates};
use sip_lookup::{Cache, CacheConfig};
use sip_media::SharedEngines;
use sip_worker::{Control, Mailbox, Parts, Severities, StoreAnswer, Worker};

use super::{Arrival, Server, now};
use crate::Dice;
use crate::distant::Distant;
use crate::environment::{Bell, Front, Kept, Questions, Silent, Simulated, Sockets};
use crate::hook::Hook;

/// The process: what is gone when it ends.
pub(super) struct Process {
    pub(super) seats: Vec<Seat>,
    pub(super) control: Arc<Control<(), Bell>>,
    pub(super) mailboxes: Vec<Arc<Mailbox<Bell>>>,
    pub(super) location: Arc<Location>,
    pub(super) gateways: Arc<SharedGateways>,
    pub(super) budget: Arc<Budget>,
    /// What shards hold that have seen nothing yet.
    pub(super) fresh_bytes: u64,
    /// When the store's last answer to a change is due: they are a queue.
    pub(super) saved_ms: u64,
    /// The database of users, where it is not on this machine.
    pub(super) distant: Option<Distant>,
    /// The operator's hook.
    pub(super) hook: Option<Hook>,
    /// What the store was asked to save and no worker was told yet.
    pub(super) saves: HashMap<(usize, ParkId), Vec<BindingChange>>,
}

/// A worker with what is its own.
pub(super) struct Seat {
    pub(super) worker: Worker<Simulated>,
    pub(super) sockets: Sockets,
    pub(super) bell: Bell,
    pub(super) asked: Questions,
    pub(super) records: Kept,
    pub(super) arrivals: VecDeque<Arrival>,
    /// When it wants to be woken.
    pub(super) due_ms: Option<u64>,
    /// When it will look at what has come.
    pub(super) look_ms: Option<u64>,
    /// What the store tells it in its next turn.
    pub(super) told: Vec<(ParkId, bool)>,
}

impl Seat {
    /// The store tells its worker something.
    pub(super) fn is_told(&mut self, answer: StoreAnswer) {
        self.asked.with(|asked| asked.answers.push(answer));
        sip_worker::Wake::wake(&self.bell);
    }

    /// The hook tells its worker something.
    pub(super) fn is_told_by_hook(&mut self, park: ParkId, outcome: sip_hook::Outcome) {
        self.asked.with(|asked| asked.told.push((park, outcome)));
        sip_worker::Wake::wake(&self.bell);
    }
}

/// A database at a distance, and the cache before it.
struct Far {
    dice: Dice,
    cache: Option<Arc<Cache>>,
    distant: Option<Distant>,
}

/// What the workers of a process have in common.
struct Common {
    shared: Arc<Shared>,
    mailboxes: Vec<Arc<Mailbox<Bell>>>,
    control: Arc<Control<(), Bell>>,
    budget: Arc<Budget>,
    severities: Severities,
    shard_key: [u8; 16],
    engines: Arc<SharedEngines>,
}

impl Server {
    /// A process begins with what is durable.
    pub(crate) fn start(&mut self, now_ms: u64) {
        self.starts += 1;
        let unix_ms = now(now_ms).unix_ms;
        let found = self.durable.values();
        let found = found.filter(|binding| binding.expires_unix_ms > unix_ms);
        self.figures.restored += found.count() as u64;
        let location = self.location();
        let shared = self.shared(Arc::clone(&location));
        let workers = self.plan.workers;
        let bells: Vec<Bell> = (0..workers).map(|_| Bell::default()).collect();
        let mailboxes: Vec<_> = bells
            .iter()
            .map(|bell| Mailbox::new(self.plan.handover_max, bell.clone()))
            .collect();
        let control = Arc::new(Control::new(workers));
        control.set_mailboxes(mailboxes.clone());
        let one = Shard::new(
            Arc::clone(&self.settings),
            Arc::clone(&shared),
            Seed([0; 32]),
        );
        let fresh_bytes = (one.held_bytes() * workers) as u64;
        let memory_bytes = fresh_bytes + self.plan.memory_bytes * workers as u64;
        let common = Common {
            shared,
            mailboxes,
            control,
            budget: Arc::new(Budget::new(memory_bytes)),
            severities: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            shard_key: self.dice.bytes(),
            engines: Arc::default(),
        };
        let gateways = Arc::clone(&common.shared.gateways);
        let mut far = self.far(now_ms);
        let seats = bells
            .into_iter()
            .enumerate()
            .map(|(index, bell)| self.seat((index, bell), &common, &mut far, now_ms))
            .collect();
        self.process = Some(Process {
            fresh_bytes,
            seats,
            control: common.control,
            mailboxes: common.mailboxes,
            location,
            gateways,
            budget: common.budget,
            saved_ms: 0,
            distant: far.distant,
            hook: self.plan.hook.map(|hook| {
                let own = Dice::new(self.plan.seed ^ u64::from(self.starts), 12);
                Hook::new(hook, self.plan.users, own)
            }),
            saves: HashMap::new(),
        });
    }

    /// The bindings that are durable, as a store gives them back: a connection's flow has ended with
    /// the process that held it.
    fn location(&mut self) -> Arc<Location> {
        let location = Arc::new(Location::new(10_000, self.dice.bytes()));
        for ((aor, key), binding) in &self.durable {
            let mut binding = Arc::clone(binding);
            let of = Arc::make_mut(&mut binding);
            of.flow = of.flow.filter(|flow| !flow.transport.is_reliable());
            of.is_translated = of.flow.is_some();
            location.apply(&[BindingChange::Put {
                aor: Arc::clone(aor),
                key: Arc::clone(key),
                binding,
            }]);
        }
        location
    }

    fn shared(&mut self, location: Arc<Location>) -> Arc<Shared> {
        let limits = sip_limit::Limits::default();
        let guard = Arc::new(Guard::new(self.dice.bytes(), limits));
        let epoch = self.starts;
        Arc::new(Shared {
            location,
            authenticator: Arc::new(Authenticator::new(
                AuthConfig::default(),
                &self.node_secret,
                epoch,
            )),
            guard,
            token_keys: Arc::new(TokenKeys::of(self.token_secret, epoch)),
            gateways: Arc::default(),
            rates: Arc::new(Rates::new([10; 16])),
        })
    }

    /// A worker's end of the media engines.
    fn media(&self, index: usize, common: &Common, now_ms: u64) -> sip_media::Client {
        let salt = u64::from(self.starts) << 8 | index as u64;
        let mut dice = Dice::new(self.plan.seed ^ salt, 12);
        let place = sip_media::ClientNumber {
            index,
            clients: self.plan.workers,
        };
        let media = self.settings.media.as_ref();
        let config = media.map(|media| media.client.clone()).unwrap_or_default();
        let engines = Arc::clone(&common.engines);
        sip_media::Client::new(now_ms, dice.bytes(), place, engines, config)
    }

    /// Dice of its own: the same worlds come about with it and without.
    fn far(&self, now_ms: u64) -> Far {
        let mut dice = Dice::new(self.plan.seed ^ u64::from(self.starts), 8);
        let distance = self.plan.distance;
        let cache = distance.filter(|of| of.has_cache).map(|_| {
            let config = CacheConfig {
                lifetime_us: dice.between(1, 60) * 1_000_000,
                ..CacheConfig::default()
            };
            Arc::new(Cache::new(dice.bytes(), config))
        });
        let distant = distance.map(|distance| {
            let own = Dice::new(dice.throw(), 9);
            let users = Arc::clone(&self.users);
            Distant::new(now_ms, distance, own, users, cache.clone())
        });
        Far {
            dice,
            cache,
            distant,
        }
    }

    fn seat(
        &mut self,
        (index, bell): (usize, Bell),
        common: &Common,
        far: &mut Far,
        now_ms: u64,
    ) -> Seat {
        let cache = far.cache.clone();
        let front = cache.map(|cache| Front::new(cache, far.dice.bytes()));
        let own = Dice::new(self.dice.throw(), 7);
        let asked = Questions::new(own, self.plan.store.full, front);
        let records = Kept::default();
        let parts = Parts {
            index,
            shard: Shard::new(
                Arc::clone(&self.settings),
                Arc::clone(&common.shared),
                Seed(self.dice.bytes()),
            ),
            limits: self.settings.limits,
            mailboxes: common.mailboxes.clone(),
            shard_key: common.shard_key,
            store: asked.clone(),
            resolver: asked.clone(),
            hook: asked.clone(),
            media: self.media(index, common, now_ms),
            control: Arc::clone(&common.control),
            trace: Silent,
            records: records.clone(),
            memory: Share::new(Arc::clone(&common.budget)),
            queue_ms_max: 100,
            guard: Arc::clone(&common.shared.guard),
            uses_aliases: false,
            severities: Arc::clone(&common.severities),
        };
        Seat {
            worker: Worker::new(parts, now(now_ms)),
            sockets: Sockets::default(),
            bell,
            asked,
            records,
            arrivals: VecDeque::new(),
            // Nobody has to call before gateways are probed, contacts looked for, or engines
            // pinged.
            due_ms: (self.plan.probes || self.plan.nat.is_some() || self.plan.media.is_some())
                .then_some(now_ms),
            look_ms: None,
            told: Vec::new(),
        }
    }
}
