//! The server: its shards, and a store that takes its time.

use crate::Dice;
use crate::plan::{Hostility, Plan, Standing, Store};
use crate::warden::{Bindings, EVIL, MALLORY};
use sip_auth::{AuthConfig, Authenticator, Ha1, Ha1Set};
use sip_engine::routes::{Connections, Gateway, GatewayGroup, NextHop};
use sip_engine::sender::Sender;
use sip_engine::settings::{Inbound, Listener, TrustedPeer};
use sip_engine::shard::{Seed, shard_of};
use sip_engine::token::TokenKeys;
use sip_engine::{
    Binding, BindingChange, Effect, Location, Now, Outputs, ParkId, Settings, Shard, Shared,
};
use sip_limit::{Guard, Rates};
use sip_locate::Hop;
use sip_msg::{ConnId, Flow, Limits, Transport};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// The domain of all users.
pub(crate) const DOMAIN: &str = "sim.test";

/// The gateway behind the numbers, and the neighbour behind a domain.
pub(crate) const GATEWAY: ([u8; 4], u16) = ([10, 0, 2, 1], 5060);
pub(crate) const NEIGHBOUR: ([u8; 4], u16) = ([10, 0, 3, 1], 5060);

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
        hops: Vec<Hop>,
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
    contacts_max: usize,
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
        let mut settings = Settings {
            domains: vec![DOMAIN.into()],
            listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
            ..Settings::default()
        };
        if let Some(hostility) = &plan.hostility {
            add_neighbours(&mut settings, hostility, addr);
        }
        let settings = Arc::new(settings);
        let location = Arc::new(Location::new(10_000, dice.bytes()));
        let shared = Arc::new(Shared {
            location: Arc::clone(&location),
            authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &dice.bytes(), 1)),
            guard: Arc::new(Guard::new(dice.bytes(), sip_limit::Limits::default())),
            token_keys: Arc::new(TokenKeys::of(dice.bytes(), 1)),
            gateways: Arc::default(),
            rates: Arc::new(Rates::new([10; 16])),
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
        let honest = users.iter().map(|user| (user.as_str(), "secret"));
        let hostile = plan.hostility.map(|_| (MALLORY, "mallory's own"));
        let sets = honest.chain(hostile).map(|(user, password)| {
            let set = Ha1Set::compute(user.as_bytes(), DOMAIN.as_bytes(), password.as_bytes());
            (user.as_bytes().to_vec(), set)
        });
        Self {
            shards,
            hash_key: dice.bytes(),
            users: sets.collect(),
            contacts_max: settings.registrar.contacts_max,
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

    /// Contacts that an address-of-record may have.
    pub(crate) fn contacts_max(&self) -> usize {
        self.contacts_max
    }

    /// All bindings, and the time at which they are.
    pub(crate) fn bindings(&self, now_ms: u64) -> (u64, Bindings) {
        let unix_ms = now(now_ms).unix_ms;
        let mut all = Vec::new();
        self.location.for_each(unix_ms, |aor, bindings| {
            all.push((Arc::clone(aor), bindings.to_vec()));
        });
        (unix_ms, all)
    }

    /// Gives a message to the shard that it belongs to; `None` where it does
    /// not parse, and the first shard was told so.
    pub(crate) fn take_message(
        &mut self,
        now_ms: u64,
        flow: &Flow,
        bytes: &[u8],
        out: &mut Outputs,
    ) -> Option<usize> {
        let first = self.shards.first_mut()?;
        let mut message = first.spare_message();
        if let Err(error) = message.fill(bytes, &Limits::default()) {
            first.handle_malformed(now(now_ms), &Sender::unproved(*flow), message, &error, out);
            return None;
        }
        let index = shard_of(&message, self.shards.len(), &self.hash_key);
        self.shards.get_mut(index)?.handle_message(
            now(now_ms),
            &Sender::unproved(*flow),
            message,
            out,
        );
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
                Answer::Resolved { park, hops, .. } => found.handle_resolved(now, park, hops, out),
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
                Effect::Resolve { park, query } => {
                    let hops = resolve(&query.host);
                    Consequence::Answer(due_ms, Answer::Resolved { shard, park, hops })
                }
                Effect::Close(conn) => Consequence::Close(conn),
                // Every flow here is a connection of its own.
                Effect::EndCall(_) => continue,
                // Nobody here sends so many.
                Effect::Odd(_) => continue,
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

/// The gateway, by its table, and the neighbour as the plan has it.
fn add_neighbours(settings: &mut Settings, hostility: &Hostility, own: SocketAddr) {
    let (gateway, neighbour) = (SocketAddr::from(GATEWAY), SocketAddr::from(NEIGHBOUR));
    settings.trusted.push(TrustedPeer::at(gateway.ip(), 32));
    if hostility.neighbour != Standing::Unlisted {
        settings.trusted.push(TrustedPeer {
            speaks_for: Some(vec![EVIL.into()]),
            may_relay: hostility.neighbour == Standing::Relays,
            ..TrustedPeer::at(neighbour.ip(), 32)
        });
    }
    if hostility.trusts_own_network {
        settings.trusted.push(TrustedPeer::at(own.ip(), 24));
    }
    if hostility.is_open_to_strangers {
        settings.inbound = Inbound::Anyone;
    }
    let next_hop = NextHop {
        host: gateway.ip().to_string().into(),
        port: Some(gateway.port()),
        transport: Some(Transport::Udp),
        connections: Connections::default(),
    };
    settings.routes.groups.push(GatewayGroup {
        name: "numbers".into(),
        gateways: vec![Gateway {
            next_hop,
            priority: 1,
            weight: 1,
        }],
        ..GatewayGroup::default()
    });
    settings.routes.prefixes.insert("+".into(), 0);
}

/// The names that there are. Those of the neighbour lead where he wants.
fn resolve(host: &str) -> Vec<Hop> {
    let hop = |addr: ([u8; 4], u16)| Hop {
        transport: Transport::Udp,
        addr: addr.into(),
        tls_name: None,
    };
    let Some(name) = host.strip_suffix(EVIL) else {
        return Vec::new();
    };
    vec![hop(match name {
        "self." => ([10, 0, 0, 1], 5060),
        "loop." => ([127, 0, 0, 1], 5060),
        "gw." => GATEWAY,
        _ => NEIGHBOUR,
    })]
}
