//! The server: its shards, and a store that takes its time.

use crate::Dice;
use crate::plan::{Plan, Store};
use sip_auth::{AuthConfig, Authenticator, Ha1, Ha1Set};
use sip_engine::settings::Listener;
use sip_engine::shard::{Seed, shard_of};
use sip_engine::{
    Binding, BindingChange, Effect, Location, Now, Outputs, ParkId, Settings, Shard, Shared,
};
use sip_limit::Guard;
use sip_msg::{ConnId, Flow, Limits, Transport};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// The domain of all users.
pub(crate) const DOMAIN: &str = "sim.test";

/// When the virtual clocks begin, in milliseconds since 1970.
const UNIX_START_MS: u64 = 1_800_000_000_000;

/// What the store will say.
#[derive(Debug)]
pub(crate) enum Answer {
    Credential {
        shard: usize,
        park: ParkId,
        answer: Result<Option<Ha1>, ()>,
    },
    Saved {
        shard: usize,
        park: ParkId,
        answer: Result<(), ()>,
    },
    Resolved {
        shard: usize,
        park: ParkId,
    },
}

/// What an input led to, besides messages.
pub(crate) enum Consequence {
    Answer(u64, Answer),
    Close(ConnId),
}

pub(crate) struct Server {
    pub(crate) shards: Vec<Shard>,
    hash_key: [u8; 16],
    users: HashMap<Vec<u8>, Ha1Set>,
    store: Store,
    dice: Dice,
    /// When the store's last answer to a save is due: saves are a queue.
    saved_ms: u64,
    location: Arc<Location>,
    /// What the store was asked to save.
    saves: HashMap<(usize, ParkId), Vec<BindingChange>>,
    found: Vec<Arc<Binding>>,
}

pub(crate) fn now(now_ms: u64) -> Now {
    Now {
        mono_ms: now_ms,
        unix_ms: UNIX_START_MS + now_ms,
    }
}

impl Server {
    pub(crate) fn new(plan: &Plan, addr: SocketAddr, users: &[String]) -> Self {
        let mut dice = Dice::new(plan.seed, 3);
        let listener = |transport| Listener {
            transport,
            bound: addr,
            advertised_host: None,
            advertised_port: addr.port(),
            certificates_authenticate: false,
        };
        let settings = Arc::new(Settings {
            domains: vec![DOMAIN.into()],
            listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
            ..Settings::default()
        });
        let location = Arc::new(Location::new(10_000, dice.bytes()));
        let shared = Arc::new(Shared {
            location: Arc::clone(&location),
            authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &dice.bytes(), 1)),
            guard: Arc::new(Guard::new(dice.bytes(), sip_limit::Limits::default())),
            token_key: dice.bytes(),
        });
        let shards = (0..plan.shards)
            .map(|_| {
                Shard::new(
                    Arc::clone(&settings),
                    Arc::clone(&shared),
                    Seed(dice.bytes()),
                )
            })
            .collect();
        let sets = users.iter().map(|user| {
            let set = Ha1Set::compute(user.as_bytes(), DOMAIN.as_bytes(), b"secret");
            (user.as_bytes().to_vec(), set)
        });
        Self {
            shards,
            hash_key: dice.bytes(),
            users: sets.collect(),
            store: plan.store,
            dice,
            saved_ms: 0,
            location,
            saves: HashMap::new(),
            found: Vec::new(),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.shards.iter().map(Shard::in_flight).sum()
    }

    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.shards.iter().filter_map(Shard::next_deadline_ms).min()
    }

    /// Gives a message to the shard that it belongs to; `None` where it does
    /// not parse.
    pub(crate) fn take_message(
        &mut self,
        now_ms: u64,
        flow: &Flow,
        bytes: &[u8],
        out: &mut Outputs,
    ) -> Option<usize> {
        let first = self.shards.first_mut()?;
        let mut message = first.spare_message();
        message.fill(bytes, &Limits::default()).ok()?;
        let index = shard_of(&message, self.shards.len(), &self.hash_key);
        self.shards
            .get_mut(index)?
            .handle_message(now(now_ms), flow, message, out);
        Some(index)
    }

    pub(crate) fn take_answer(&mut self, now_ms: u64, answer: Answer, out: &mut Outputs) -> usize {
        let now = now(now_ms);
        let shard = match &answer {
            Answer::Credential { shard, .. }
            | Answer::Saved { shard, .. }
            | Answer::Resolved { shard, .. } => *shard,
        };
        if let Some(found) = self.shards.get_mut(shard) {
            match answer {
                Answer::Credential { park, answer, .. } => {
                    found.handle_credential(now, park, answer, out)
                }
                Answer::Saved { park, answer, .. } => found.handle_saved(now, park, answer, out),
                Answer::Resolved { park, .. } => found.handle_resolved(now, park, Vec::new(), out),
            }
        }
        shard
    }

    /// Whether calls see exactly what the store acknowledged: to be asked
    /// right after the shard was told of it.
    pub(crate) fn check_saved(
        &mut self,
        now_ms: u64,
        saved: (usize, ParkId),
        is_durable: bool,
    ) -> Option<String> {
        let changes = self.saves.remove(&saved)?;
        let unix_ms = now(now_ms).unix_ms;
        for change in &changes {
            let BindingChange::Put { aor, binding, .. } = change else {
                continue;
            };
            self.found.clear();
            self.location.find(aor, unix_ms, &mut self.found);
            let is_seen = self.found.iter().any(|seen| **seen == **binding);
            if is_seen != is_durable && binding.expires_unix_ms > unix_ms {
                let (aor, uri) = (aor.escape_ascii(), binding.uri.escape_ascii());
                return Some(format!(
                    "{aor} at {uri}: durable {is_durable}, seen by calls {is_seen}"
                ));
            }
        }
        None
    }

    /// What the store and the sockets make of a shard's effects.
    pub(crate) fn consequences(
        &mut self,
        now_ms: u64,
        shard: usize,
        effects: &mut Vec<Effect>,
    ) -> Vec<Consequence> {
        let mut consequences = Vec::new();
        for effect in effects.drain(..) {
            let due_ms = now_ms + self.delay_ms();
            let fails = self.dice.thousandths(self.store.failure);
            consequences.push(match effect {
                Effect::FindCredential { park, key } => {
                    let found = self
                        .users
                        .get(key.user())
                        .map(|set| set.get(key.algorithm()).clone());
                    let answer = if fails { Err(()) } else { Ok(found) };
                    Consequence::Answer(
                        due_ms,
                        Answer::Credential {
                            shard,
                            park,
                            answer,
                        },
                    )
                }
                Effect::SaveBindings { park, changes } => {
                    self.saves.insert((shard, park), changes);
                    self.saved_ms = self.saved_ms.max(due_ms);
                    let answer = if fails { Err(()) } else { Ok(()) };
                    Consequence::Answer(
                        self.saved_ms,
                        Answer::Saved {
                            shard,
                            park,
                            answer,
                        },
                    )
                }
                Effect::Resolve { park, .. } => {
                    Consequence::Answer(due_ms, Answer::Resolved { shard, park })
                }
                Effect::Close(conn) => Consequence::Close(conn),
                // Every flow here is a connection of its own.
                Effect::EndCall(_) => continue,
                Effect::IdentityRefused { .. } | Effect::Limited { .. } => continue,
                // There is room for all.
                Effect::KeepFor { .. } => continue,
            });
        }
        consequences
    }

    fn delay_ms(&mut self) -> u64 {
        if self.dice.thousandths(self.store.stall) {
            return self.dice.between(3_000, 12_000);
        }
        self.dice.between(0, self.store.delay_max_ms)
    }
}
