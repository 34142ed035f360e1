//! Server, network and hosts on one clock, in one thread.

mod deliver;
mod others;

use crate::Dice;
use crate::audit::{Audit, Report};
use crate::host::{Act, Host, Later, Made};
use crate::network::{Delivery, End, Network, Sent};
use crate::plan::Plan;
use crate::server::{Answer, Consequence, Server, now};
use sip_engine::Outputs;
use sip_msg::{ConnId, Outbox, Target};
use std::collections::BTreeMap;
use std::net::SocketAddr;

use others::{Others, Turn};

/// How long everybody may take to register before the calls begin.
const WARM_UP_MS: u64 = 20_000;
/// After the last call: long enough for every timer of RFC 3261, timer C and
/// a patient user included.
const COOL_DOWN_MS: u64 = 700_000;
/// Steps on one instant of the clock, after which the clock is stuck.
const STEPS_MAX: u64 = 2_000_000;

/// Something that is due.
enum Due {
    Network(Delivery),
    Store(Answer),
    Person(usize, Act),
    NextCall(u64),
    Other(Turn),
}

struct World {
    plan: Plan,
    now_ms: u64,
    number: u64,
    agenda: BTreeMap<(u64, u64), Due>,
    server: Server,
    hosts: Vec<Host>,
    users: Vec<String>,
    network: Network,
    others: Option<Others>,
    audit: Audit,
    dice: Dice,
    outputs: Outputs,
    outbox: Outbox,
    later: Later,
}

/// What went wrong in a run, with all that is needed to see it again.
#[derive(Debug)]
pub struct Failure {
    /// The run.
    pub plan: Plan,
    /// What was not as it must be.
    pub faults: Vec<String>,
    /// Every message, where that was asked for.
    pub history: Option<String>,
}

/// Runs a plan to its end.
pub fn run(plan: &Plan, keeps_history: bool) -> Result<Report, Box<Failure>> {
    let mut world = World::new(plan, keeps_history);
    world.play();
    world.finish()
}

impl World {
    fn new(plan: &Plan, keeps_history: bool) -> Self {
        let mut dice = Dice::new(plan.seed, 4);
        let server_addr = SocketAddr::from(([10, 0, 0, 1], 5060));
        let users: Vec<String> = (0..plan.users).map(|n| format!("user{n}")).collect();
        let addrs: Vec<SocketAddr> = (0..plan.hosts)
            .map(|n| SocketAddr::from(([10, 0, 1, n as u8 + 1], 5060)))
            .collect();
        let others = Others::new(plan, others::places(server_addr, &addrs), &users);
        let all_addrs = addrs
            .iter()
            .copied()
            .chain(others.iter().flat_map(Others::addrs))
            .collect();
        let mut network = Network::new(plan.seed, plan.weather, server_addr, all_addrs);
        let is_dutiful =
            plan.weather.loss == 0 && plan.weather.breakage == 0 && plan.store.failure == 0;
        let mut hosts: Vec<Host> = addrs
            .iter()
            .enumerate()
            .map(|(n, &addr)| {
                let uses_streams = dice.thousandths(plan.streams);
                Host::new(plan.seed, n, addr, server_addr, uses_streams, is_dutiful)
            })
            .collect();
        for (user, name) in users.iter().enumerate() {
            for _ in 0..dice.between(1, 2) {
                let at = dice.below(hosts.len() as u64) as usize;
                if let Some(host) = hosts.get_mut(at) {
                    let conn = if host.uses_streams {
                        network.open(at)
                    } else {
                        ConnId::NONE
                    };
                    host.add_phone(user, name, conn);
                }
            }
        }
        if plan.hostility.is_some() {
            for host in &mut hosts {
                host.strangers = others::strangers();
            }
        }
        let server = Server::new(plan, server_addr, &users);
        let mut world = Self {
            plan: plan.clone(),
            now_ms: 0,
            number: 0,
            agenda: BTreeMap::new(),
            server,
            hosts,
            users,
            network,
            others,
            audit: Audit::new(keeps_history),
            dice,
            outputs: Outputs::default(),
            outbox: Outbox::default(),
            later: Later::new(),
        };
        for host in 0..world.hosts.len() {
            for phone in 0..world.hosts.get(host).map_or(0, |host| host.phones.len()) {
                let at_ms = world.dice.below(5_000);
                world.plan_for(at_ms, Due::Person(host, Act::Register(phone)));
            }
        }
        for addr in world.others.iter().flat_map(Others::addrs) {
            world.audit.distrust(addr);
        }
        world.plan_for(WARM_UP_MS, Due::NextCall(0));
        world.begin_others(WARM_UP_MS);
        world
    }

    fn plan_for(&mut self, at_ms: u64, due: Due) {
        self.number += 1;
        self.agenda
            .insert((at_ms.max(self.now_ms), self.number), due);
    }

    /// Runs until nothing is due any more.
    fn play(&mut self) {
        let mut steps = 0;
        let mut end_ms = u64::MAX;
        while let Some(next_ms) = self.next_ms().filter(|&next_ms| next_ms <= end_ms) {
            if next_ms > self.now_ms {
                self.now_ms = next_ms;
                steps = 0;
            }
            steps += 1;
            if steps > STEPS_MAX {
                self.audit
                    .fault(format!("the clock stands still at {} ms", self.now_ms));
                return;
            }
            self.step();
            let is_over = self.hosts.iter().all(|host| !host.is_busy);
            if is_over && end_ms == u64::MAX {
                end_ms = self.now_ms + COOL_DOWN_MS;
                self.network.calm();
            }
        }
    }

    fn next_ms(&self) -> Option<u64> {
        let agenda = self.agenda.first_key_value().map(|((at_ms, _), _)| *at_ms);
        let server = self.server.next_deadline_ms();
        let hosts = self
            .hosts
            .iter()
            .filter_map(|host| host.agents.next_deadline_ms())
            .min();
        agenda
            .into_iter()
            .chain(server)
            .chain(hosts)
            .min()
            .map(|at_ms| at_ms.max(self.now_ms))
    }

    /// Does one thing that is due now.
    fn step(&mut self) {
        let now_ms = self.now_ms;
        for shard in 0..self.server.shards.len() {
            let Some(found) = self.server.shards.get_mut(shard) else {
                continue;
            };
            if found
                .next_deadline_ms()
                .is_some_and(|at_ms| at_ms <= now_ms)
            {
                found.handle_timers(now(now_ms), &mut self.outputs);
                self.after_server(shard);
            }
        }
        for at in 0..self.hosts.len() {
            let Some(host) = self.hosts.get_mut(at) else {
                continue;
            };
            if host
                .agents
                .next_deadline_ms()
                .is_some_and(|at_ms| at_ms <= now_ms)
            {
                host.agents.handle_timers(now_ms, &mut self.outbox);
                self.after_host(at);
            }
        }
        let Some(entry) = self
            .agenda
            .first_entry()
            .filter(|entry| entry.key().0 <= now_ms)
        else {
            return;
        };
        match entry.remove() {
            Due::Network(delivery) => self.deliver(delivery),
            Due::Store(answer) => {
                let saved = match &answer {
                    Answer::Saved {
                        shard,
                        park,
                        answer,
                    } => Some(((*shard, *park), answer.is_ok())),
                    _ => None,
                };
                let is_save = matches!(answer, Answer::Saved { .. });
                let shard = self.server.take_answer(now_ms, answer, &mut self.outputs);
                if is_save {
                    self.look_at_bindings();
                }
                if let Some((save, is_durable)) = saved
                    && let Some(fault) = self.server.check_saved(now_ms, save, is_durable)
                {
                    self.audit.fault(fault);
                }
                self.after_server(shard);
            }
            Due::Person(host, act) => self.act(host, act),
            Due::NextCall(number) => self.next_call(number),
            Due::Other(turn) => self.take_turn(turn),
        }
    }

    fn next_call(&mut self, number: u64) {
        if number >= self.plan.calls {
            for host in &mut self.hosts {
                host.is_busy = false;
            }
            return;
        }
        let at = self.dice.below(self.hosts.len() as u64) as usize;
        let phones = self
            .hosts
            .get(at)
            .map_or(0, |host| host.phones.len() as u64);
        if phones == 0 {
            // Nobody lives there; somebody else calls.
            return self.plan_for(self.now_ms, Due::NextCall(number));
        }
        let phone = self.dice.below(phones) as usize;
        self.act(at, Act::Call(phone));
        if self.dice.below(20) == 0 {
            self.act(at, Act::Ask(phone));
        }
        let wait_ms = self.dice.between(0, 2 * self.plan.call_interval_ms);
        self.plan_for(self.now_ms + wait_ms, Due::NextCall(number + 1));
    }

    fn act(&mut self, at: usize, act: Act) {
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        match act {
            Act::Register(_) | Act::Unregister(_) if !host.is_busy => return,
            Act::Reconnect(phone) => {
                let conn = self.network.open(at);
                host.connect(phone, conn);
                if host.is_busy {
                    self.plan_for(self.now_ms, Due::Person(at, Act::Register(phone)));
                }
                return;
            }
            _ => {}
        }
        match host.act(
            self.now_ms,
            act,
            &self.users,
            &mut self.outbox,
            &mut self.later,
        ) {
            Made::Nothing => {}
            Made::Call(call) => self.audit.call_made(at, call),
            Made::Request(request) => self.audit.request_made(at, request),
        }
        self.after_host(at);
    }

    /// Sends what a shard wants sent, and has its effects done.
    fn after_server(&mut self, shard: usize) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.send(End::Server(shard), &outputs.outbox);
        for consequence in self
            .server
            .consequences(self.now_ms, shard, &mut outputs.effects)
        {
            match consequence {
                Consequence::Answer(at_ms, answer) => self.plan_for(at_ms, Due::Store(answer)),
                Consequence::Close(conn) => {
                    for (at_ms, delivery) in self.network.break_stream(self.now_ms, conn) {
                        self.plan_for(at_ms, Due::Network(delivery));
                    }
                }
            }
        }
        outputs.clear();
        self.outputs = outputs;
    }

    /// Sends what a host wants sent, and tells its people what happened.
    fn after_host(&mut self, at: usize) {
        let mut outbox = std::mem::take(&mut self.outbox);
        self.send(End::Host(at), &outbox);
        outbox.clear();
        self.outbox = outbox;
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        while let Some(event) = host.agents.poll_event() {
            self.audit.event(self.now_ms, at, &event);
            if let Some(cause) = host.is_let_down(&event) {
                self.audit
                    .fault(format!("a call between friends failed: {cause:?}"));
            }
            host.hear(self.now_ms, &event, &mut self.later);
        }
        let mut later = std::mem::take(&mut self.later);
        for (at_ms, act) in later.drain(..) {
            self.plan_for(at_ms, Due::Person(at, act));
        }
        self.later = later;
    }

    fn server_addr(&self) -> SocketAddr {
        self.network.addr(End::Server(0))
    }

    fn send(&mut self, from: End, outbox: &Outbox) {
        let addr = self.network.addr(from);
        for send in &outbox.sends {
            let bytes = outbox.bytes.get(send.start..send.end).unwrap_or_default();
            self.audit.sent(self.now_ms, addr, send.to.remote, bytes);
            if let Some(others) = &mut self.others {
                match from {
                    End::Server(_) => others.warden.server_sent(send.to.remote, bytes),
                    End::Host(_) => others.warden.emitted(addr, bytes),
                }
                self.take_objections();
            }
            let mut sent = self
                .network
                .send(self.now_ms, from, &send.to, send.cookie, bytes);
            if let (Sent::NeedsConnection, End::Host(at)) = (&sent, from) {
                let conn = self.network.open(at);
                let to = Target {
                    conn,
                    ..send.to.clone()
                };
                sent = self
                    .network
                    .send(self.now_ms, from, &to, send.cookie, bytes);
            }
            if let Sent::Copies(copies) = sent {
                for (at_ms, delivery) in copies {
                    self.plan_for(at_ms, Due::Network(delivery));
                }
            }
        }
    }

    /// Holds the end of the run to what must be true of it.
    fn finish(mut self) -> Result<Report, Box<Failure>> {
        self.look_at_bindings();
        self.audit.finish();
        let in_flight = self.server.in_flight();
        if in_flight != 0 {
            let live: Vec<String> = self
                .server
                .shards
                .iter()
                .map(|s| format!("{:?}", s.live_transactions()))
                .collect();
            self.audit.fault(format!(
                "the server still has {in_flight} things under way: {live:?}"
            ));
        }
        let mut report = Report::default();
        for (at, host) in self.hosts.iter().enumerate() {
            let live = host.agents.live();
            if (live.calls, live.requests, live.transactions) != (0, 0, 0) {
                self.audit.fault(format!("host {at} still has {live:?}"));
            }
            let counters = host.agents.counters();
            if counters.malformed + counters.full + counters.events_dropped > 0 {
                self.audit
                    .fault(format!("host {at} dropped things: {counters:?}"));
            }
            report.forks += counters.forks_ended;
            report.challenges += counters.challenges;
        }
        let history = self.audit.history().map(str::to_owned);
        let faults = std::mem::take(&mut self.audit.faults);
        if !faults.is_empty() {
            let plan = self.plan;
            return Err(Box::new(Failure {
                plan,
                faults,
                history,
            }));
        }
        let audit = self.audit.report;
        Ok(Report {
            forks: report.forks,
            challenges: report.challenges,
            lost: self.network.lost,
            broken: self.network.broken,
            virtual_ms: self.now_ms,
            ..audit
        })
    }
}
