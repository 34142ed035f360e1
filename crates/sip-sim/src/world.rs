//! Server, network and hosts on one clock, in one thread.

mod carrier;
mod deliver;
mod operator;
mod others;

use crate::Dice;
use crate::audit::{Audit, Report};
use crate::host::{Act, Host, Later, Made};
use crate::network::{Delivery, End, Network, Sent};
use crate::plan::Plan;
use crate::server::{Answer, SERVER, Server, Turned};
use sip_msg::{ConnId, Outbox, Target};
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use carrier::Carrier;
use operator::Order;
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
    Answer(Answer),
    Person(usize, Act),
    NextCall(u64),
    Other(Turn),
    Carrier(usize, carrier::Act),
    Operator(Order),
}

/// When a server that was drained is told to stop.
const STOP_MS: u64 = COOL_DOWN_MS - 1_000;

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
    carrier: Carrier,
    audit: Audit,
    dice: Dice,
    /// Users whose changes were under way when the server died.
    unsure: HashSet<Vec<u8>>,
    outbox: Outbox,
    later: Later,
    /// Whether nothing goes wrong in this world and nobody means harm.
    is_dutiful: bool,
    /// The settings that were ordered last.
    reloaded: u64,
    /// Whether nobody begins anything any more.
    is_over: bool,
    /// Since when.
    over_ms: u64,
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
        let server_addr = SocketAddr::from(SERVER);
        let users: Vec<String> = (0..plan.users).map(|n| format!("user{n}")).collect();
        let addrs: Vec<SocketAddr> = (0..plan.hosts)
            .map(|n| SocketAddr::from(([10, 0, 1, n as u8 + 1], 5060)))
            .collect();
        let others = Others::new(plan, others::places(server_addr, &addrs), &users);
        let all_addrs = addrs
            .iter()
            .copied()
            .chain(others.iter().flat_map(Others::addrs))
            .chain(carrier::addrs(plan))
            .collect();
        let mut network = Network::new(
            plan.seed,
            plan.weather,
            server_addr,
            all_addrs,
            plan.workers,
        );
        let is_dutiful = nothing_goes_wrong(plan);
        let mut hosts = hosts_of(plan, &addrs, is_dutiful, &mut dice, &mut network);
        add_phones(&mut hosts, &users, &mut dice, &mut network);
        add_impostors(plan, &mut hosts, &users, &mut network);
        for host in &mut hosts {
            host.counts_on_friends = plan.hostility.is_some() && plan.restarts == 0;
            host.strangers = match plan.hostility {
                Some(_) => (others::strangers(), 500),
                None => (carrier::strangers(is_dutiful), plan.outward),
            };
        }
        let server = Server::new(plan, &users);
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
            carrier: Carrier::new(plan),
            audit: Audit::new(keeps_history, plan.memory_bytes < 1 << 30),
            dice,
            unsure: HashSet::new(),
            outbox: Outbox::default(),
            later: Later::new(),
            is_dutiful: is_dutiful && plan.hostility.is_none(),
            reloaded: 0,
            is_over: false,
            over_ms: 0,
        };
        world.audit.has_engines = plan.media.is_some();
        world.begin();
        world
    }

    /// Plans what is due without anybody's doing: registrations, calls and misfortunes.
    fn begin(&mut self) {
        for host in 0..self.hosts.len() {
            for phone in 0..self.hosts.get(host).map_or(0, |host| host.phones.len()) {
                let at_ms = self.dice.below(5_000);
                self.plan_for(at_ms, Due::Person(host, Act::Register(phone)));
            }
        }
        for addr in self.others.iter().flat_map(Others::addrs) {
            self.audit.distrust(addr);
        }
        self.plan_for(WARM_UP_MS, Due::NextCall(0));
        self.begin_others(WARM_UP_MS);
        let span_ms = self.plan.calls * self.plan.call_interval_ms + 10_000;
        self.begin_carrier(WARM_UP_MS, span_ms);
        for _ in 0..self.plan.restarts {
            let at_ms = WARM_UP_MS + self.dice.below(span_ms);
            self.plan_for(at_ms, Due::Operator(Order::Kill));
        }
        for generation in 1..=self.plan.reloads {
            let at_ms = WARM_UP_MS + self.dice.below(span_ms);
            self.plan_for(at_ms, Due::Operator(Order::Reload(generation)));
        }
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
            if self.is_over && end_ms == u64::MAX {
                end_ms = self.now_ms + COOL_DOWN_MS;
                self.network.calm();
                // Calls may be under way then, or not.
                let drain_ms = self.now_ms + 5_000 + self.dice.below(2) * 300_000;
                self.plan_for(drain_ms, Due::Operator(Order::Drain));
                self.plan_for(self.now_ms + STOP_MS, Due::Operator(Order::Stop));
            }
        }
    }

    fn next_ms(&mut self) -> Option<u64> {
        let agenda = self.agenda.first_key_value().map(|((at_ms, _), _)| *at_ms);
        let server = self.server.next_deadline_ms(self.now_ms);
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
        let distant = self.server.step_distant(now_ms);
        for fault in distant.into_iter().chain(self.server.step_hook(now_ms)) {
            self.audit.fault(fault);
        }
        if let Some(turned) = self.server.turn(now_ms) {
            return self.after_server(turned);
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
            Due::Answer(answer) => {
                if let Some((at_ms, answer)) = self.server.take_answer(now_ms, answer) {
                    self.plan_for(at_ms, Due::Answer(answer));
                }
                let removed = self.server.take_removed().into_iter();
                for (aor, binding) in removed.filter(|_| self.plan.nat.is_some()) {
                    self.audit.removed(&aor, &binding.uri);
                }
            }
            Due::Person(host, act) => self.act(host, act),
            Due::NextCall(number) => self.next_call(number),
            Due::Other(turn) => self.take_turn(turn),
            Due::Carrier(who, act) => self.carrier_acts(who, act),
            Due::Operator(order) => self.operate(order),
        }
    }

    fn next_call(&mut self, number: u64) {
        if number >= self.plan.calls {
            for host in &mut self.hosts {
                host.is_busy = false;
            }
            self.is_over = true;
            self.over_ms = self.now_ms;
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
                let conn = self.connect(at);
                let Some(host) = self.hosts.get_mut(at) else {
                    return;
                };
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

    /// Sends what a worker wants sent, and has done what it asks.
    fn after_server(&mut self, turned: Turned) {
        self.send(End::Server(turned.worker), &turned.outbox);
        for conn in turned.closes {
            self.close(conn);
        }
        for call in turned.ended_calls {
            let deliveries = self.network.end_call(self.now_ms, turned.worker, call);
            self.plan_deliveries(deliveries);
        }
        for (at_ms, answer) in turned.answers {
            self.plan_for(at_ms, Due::Answer(answer));
        }
        for fault in turned.faults {
            self.audit.fault(fault);
        }
        if turned.was_told {
            self.look_at_bindings();
        }
        self.network.accepts = self.server.accepts();
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
            self.audit.event(self.now_ms, at, &event, self.is_dutiful);
            if host.is_let_in_falsely(&event) {
                self.audit
                    .fault(format!("let in by a wrong password: {event:?}"));
            }
            if let Some(cause) = host.is_let_down(&event) {
                self.audit
                    .fault(format!("a call between friends failed: {cause:?}"));
            }
            host.handle_event(self.now_ms, &event, &mut self.later);
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
            if let End::Server(worker) = from
                && send.to.conn.is_some()
                && send.to.conn.worker() != worker
            {
                self.audit
                    .fault(format!("worker {worker} sends on a connection of another"));
            }
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
                let conn = self.connect(at);
                let to = Target {
                    conn,
                    ..send.to.clone()
                };
                sent = self
                    .network
                    .send(self.now_ms, from, &to, send.cookie, bytes);
            }
            if matches!(sent, Sent::Failed(_)) {
                self.audit.failed(addr, bytes);
                self.audit.report.unsent += u64::from(matches!(from, End::Server(_)));
            }
            self.plan_sent(sent);
        }
    }

    fn plan_sent(&mut self, sent: Sent) {
        match sent {
            Sent::Copies(copies) => self.plan_deliveries(copies),
            Sent::Failed(failure) => self.plan_deliveries(failure.into_iter().collect()),
            Sent::NeedsConnection => {}
        }
    }

    /// A stream from a host to the server. Where nobody takes it the host hears of it.
    fn connect(&mut self, at: usize) -> ConnId {
        let conn = self.network.open(at);
        if !self.network.is_open(conn) {
            let to = End::Host(at);
            let closed = Delivery::Closed { to, conn };
            self.plan_for(self.now_ms + 1, Due::Network(closed));
        }
        conn
    }

    /// Holds the end of the run to what must be true of it.
    fn finish(mut self) -> Result<Report, Box<Failure>> {
        self.audit.finish();
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
        if self.others.is_none() && self.server.figures.malformed > 0 {
            self.audit
                .fault("a message does not parse at the server".to_owned());
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
        let figures = self.server.figures;
        Ok(Report {
            forks: report.forks,
            challenges: report.challenges,
            lost: self.network.lost,
            repeated: self.network.repeated,
            broken: self.network.broken,
            handed_over: figures.handed_over,
            refused: figures.refused,
            resolved: figures.resolved,
            unresolved: figures.unresolved,
            unsaved: figures.unsaved,
            restored: figures.restored,
            cached: figures.cached,
            batches: figures.batches,
            probed: figures.probed,
            left: figures.left,
            kept: figures.kept,
            flows_ended: figures.flows_ended,
            hooked: figures.hooked,
            undecided: figures.undecided,
            led: self.server.led(),
            unled: figures.unled,
            virtual_ms: self.now_ms,
            ..audit
        })
    }
}

/// Whether nothing goes wrong in a world of that plan by itself; some may mean harm.
fn nothing_goes_wrong(plan: &Plan) -> bool {
    plan.weather.loss == 0
        && plan.weather.breakage == 0
        && plan.store.failure == 0
        && plan.deaths == 0
        && (plan.restarts == 0 || plan.hostility.is_some())
        && plan.store.full == 0
        && plan.nat.is_none_or(|nat| nat.is_kept_open())
}

/// The hosts, without phones yet.
fn hosts_of(
    plan: &Plan,
    addrs: &[SocketAddr],
    is_dutiful: bool,
    dice: &mut Dice,
    network: &mut Network,
) -> Vec<Host> {
    let server = SocketAddr::from(SERVER);
    addrs
        .iter()
        .enumerate()
        .map(|(n, &addr)| {
            let uses_streams = dice.thousandths(plan.streams);
            let translation = plan.nat.filter(|_| !uses_streams);
            // Behind a translation it knows itself by another address.
            let own = match translation {
                Some(translation) => {
                    network.translate(n, translation);
                    SocketAddr::from(([192, 168, 0, n as u8 + 1], 5060))
                }
                None => addr,
            };
            Host::new(plan.seed, n, own, server, uses_streams, is_dutiful)
        })
        .collect()
}

/// Gives each user one phone or two, anywhere.
fn add_phones(hosts: &mut [Host], users: &[String], dice: &mut Dice, network: &mut Network) {
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
}

/// Gives those phones who would like to be a user.
fn add_impostors(plan: &Plan, hosts: &mut [Host], users: &[String], network: &mut Network) {
    let impostors = plan.distance.map_or(0, |distance| distance.impostors);
    let mut far = Dice::new(plan.seed, 10);
    for _ in 0..impostors {
        let user = far.below(users.len() as u64) as usize;
        let at = far.below(hosts.len() as u64) as usize;
        if let (Some(host), Some(name)) = (hosts.get_mut(at), users.get(user)) {
            let conn = match host.uses_streams {
                true => network.open(at),
                false => ConnId::NONE,
            };
            host.add_impostor(user, name, conn);
        }
    }
}
