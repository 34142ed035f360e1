//! A worker: one thread with its sockets, its agents, its share of the
//! arrivals and its own figures. It never waits for anything but its sockets
//! and its clock.

mod arrivals;
mod called;
mod hear;
mod jobs;
mod record;
mod seats;
mod setup;
mod storm;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use measure::{Pacer, SecondPart};
use sip_dialog::{CallKey, Config, Event, Live, RequestKey, UserAgents};
use sip_msg::{ConnId, Flow as Path, Limits, ListenerId, Outbox, Target, Transport};
use sip_net::{ClientTls, Counters, Net, NetEvent};
use wheel::Wheel;

use crate::cause::{of_close, of_handshake, of_send};
use crate::clock::{Clock, NS_PER_MS, to_ms};
use crate::dice::Dice;
use crate::mix::Dealer;
use crate::settings::{Close, Lifetime, Settings};
use crate::tls::Client;
use jobs::Jobs;
pub(crate) use record::Recorder;
pub use record::{CalledCounts, Upkeep};
use seats::Seats;
pub use storm::StormCounts;

/// Arrivals begun in one turn; past it what was received meanwhile comes first.
const ARRIVALS_MAX: usize = 64;
/// The longest wait, so that the commands of the main thread are seen.
const WAIT_MAX_NS: u64 = 20 * NS_PER_MS;
/// How long a nap is when something is due within the millisecond that is the
/// shortest wait of the sockets.
const NAP_NS: u64 = 60_000;
/// How long a called side waits for the calls that it has to be ended.
const CALLED_DRAIN: Duration = Duration::from_secs(2);
/// How often the main thread is told.
const TELL_NS: u64 = 200 * NS_PER_MS;
/// How long connections may take to close at the end.
const CLOSING_NS: u64 = 2_000 * NS_PER_MS;

/// What a worker is asked to do.
pub(crate) mod orders {
    /// Go on.
    pub(crate) const RUN: u8 = 0;
    /// Begin nothing more and let what is under way end.
    pub(crate) const DRAIN: u8 = 1;
    /// End at once.
    pub(crate) const STOP: u8 = 2;
}

/// What all workers and the main thread have in common.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    /// When the run begins; `u64::MAX` until all workers are ready.
    pub(crate) start_ns: AtomicU64,
    /// One of [`orders`], for those who call.
    pub(crate) order: AtomicU8,
    /// One of [`orders`], for those who are only called.
    pub(crate) order_called: AtomicU8,
}

/// Which worker this is, and where its messages go.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Among all threads.
    pub(crate) number: usize,
    /// Among those that do the same.
    pub(crate) index: usize,
    pub(crate) of: usize,
    /// Where requests go; `None` for a called side alone.
    pub(crate) target: Option<Target>,
    /// Listeners from which this worker sends: the first of them and how many.
    pub(crate) senders: u16,
    /// The first listener of the called side, if there is one.
    pub(crate) answering: Option<ListenerId>,
}

/// What a worker tells the main thread while it runs.
pub(crate) enum Report {
    /// It is ready, or as ready as it will be.
    Ready { worker: usize, upkeep: Upkeep },
    /// How it stands.
    Tick(Tick),
    /// It is over.
    Done(Box<Final>),
    /// It cannot go on.
    Failed { error: String },
}

/// How a worker stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tick {
    pub(crate) worker: usize,
    pub(crate) started: u64,
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    pub(crate) in_flight: u64,
    pub(crate) ready: u64,
    pub(crate) part: Option<SecondPart>,
    pub(crate) causes: Vec<(String, u64)>,
    pub(crate) called: CalledCounts,
    pub(crate) kernel_drops: u64,
    pub(crate) late_p99_us: u64,
}

/// Everything that a worker found out.
pub(crate) struct Final {
    pub(crate) worker: usize,
    pub(crate) record: Recorder,
    pub(crate) sockets: Counters,
    pub(crate) agents: sip_dialog::Counters,
    pub(crate) transactions: sip_txn::Counters,
    /// What was still alive when all had ended.
    pub(crate) live: Live,
    pub(crate) connections: usize,
    /// TLS handshakes that failed on connections that were opened.
    pub(crate) handshakes_failed: u64,
    /// When the last arrival was over.
    pub(crate) end_ns: u64,
    /// CPU time during the run.
    pub(crate) cpu_ns: u64,
    /// Time during the run in which it was ready and had no CPU.
    pub(crate) waited_ns: u64,
}

/// What will be under way at the same time, by the rate that is asked for.
struct Room {
    calls: usize,
    clients: usize,
    servers: usize,
}

impl Room {
    /// More is never taken at once, however high the rate.
    const MAX: f64 = 1_000_000.0;

    fn of(settings: &Settings, place: &Place) -> Self {
        let rate_per_s = match (&settings.schedule, &place.target) {
            (Some(schedule), Some(_)) => schedule.rate_max_per_s() / place.of as f64,
            _ => 0.0,
        };
        let lasting = |seconds: f64| (rate_per_s * seconds * 1.25).min(Self::MAX) as usize;
        let held_s =
            settings.hold.mean().as_secs_f64() + settings.answering.ring.mean().as_secs_f64();
        let kept_s = settings.timers.t4_ms as f64 / 1e3;
        let sides = if place.answering.is_some() { 2.0 } else { 1.0 };
        Self {
            calls: lasting(held_s * sides + 0.1),
            clients: lasting(held_s + kept_s),
            servers: if sides > 1.0 {
                lasting(held_s + 2.0 * kept_s)
            } else {
                0
            },
        }
    }
}

/// What the kernel's scheduler says of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTime {
    cpu_ns: u64,
    waited_ns: u64,
}

impl CpuTime {
    fn of_this_thread() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut figures = text
            .split_ascii_whitespace()
            .map_while(|figure| figure.parse().ok());
        Self {
            cpu_ns: figures.next().unwrap_or(0),
            waited_ns: figures.next().unwrap_or(0),
        }
    }
}

/// What is due at a time.
#[derive(Clone, Copy)]
enum Due {
    HangUp(CallKey),
    Answer(CallKey),
    Refresh(u32),
    Reopen(u32),
    Storm,
}

/// What happened, and when it was seen.
enum Heard {
    Sip {
        at_ns: u64,
        event: Event,
        /// What the sockets said, where this is its consequence.
        why: Option<&'static str>,
    },
    Opened {
        at_ns: u64,
        flow: Path,
    },
    Closed {
        conn: ConnId,
        why: &'static str,
    },
}

/// What stands in the outbox and is to know when it was written.
#[derive(Clone, Copy)]
enum Unsent {
    Invite(CallKey),
    Bye(CallKey),
    Request(RequestKey),
}

/// Where the run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    SetUp,
    /// Ready; waits for the others.
    Waiting,
    Running,
    Draining,
    Closing,
}

pub(crate) struct Worker {
    shared: Arc<Shared>,
    clock: Clock,
    place: Place,
    net: Net,
    tls: Option<Client>,
    /// Each agent's own certificate and sessions, by its seat, where they have any.
    identities: Vec<Arc<ClientTls>>,
    agents: UserAgents,
    outbox: Outbox,
    pacer: Option<Pacer>,
    dealer: Dealer,
    dice: Dice,
    seats: Seats,
    /// The connection that all agents use, where they use one.
    shared_conn: ConnId,
    shared_conn_local: Option<std::net::SocketAddr>,
    jobs: Jobs,
    agenda: Wheel<Due>,
    record: Recorder,
    heard: Vec<Heard>,
    due: Vec<Due>,
    unsent: Vec<Unsent>,
    /// A URI while it is written.
    uri: String,
    stage: Stage,
    setup: setup::SetUp,
    start_ns: u64,
    /// When the storm broke out.
    storm_ns: u64,
    stage_deadline_ns: u64,
    /// When the last arrival was over.
    end_ns: u64,
    told_ns: u64,
    is_idle: bool,
    /// CPU time and waiting for a CPU when the run began, and when it ended.
    cpu: [CpuTime; 2],
    /// Connections that have served, to be closed once what is for them is queued.
    closing: Vec<ConnId>,
    /// Seats whose connections have just come up, and from which address.
    newly_open: Vec<(u32, std::net::SocketAddr)>,
    reports: SyncSender<Report>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        place: Place,
        net: Net,
        tls: Option<Client>,
        keys: [[u8; 16]; 3],
        reports: SyncSender<Report>,
    ) -> Self {
        let settings = &shared.settings;
        let clock = shared.clock;
        let now_ms = to_ms(clock.now_ns());
        let [hash_key, branch_key, key] = keys;
        let mut config = Config::new(hash_key, branch_key, key);
        config.transactions.timers = settings.timers;
        config.transactions.client_max = 1 << 22;
        config.transactions.server_max = 1 << 22;
        config.calls_max = settings.jobs_max;
        config.requests_max = settings.jobs_max;
        config.setup_timeout_ms =
            u64::try_from(settings.answer_timeout.as_millis()).unwrap_or(u64::MAX);
        config.credentials_first = settings.credentials_first;
        config.linger = false;
        config.keep_answers_ms = Some(settings.timers.t4_ms);
        config.always_proxy = !settings.follow_routes;
        config.is_registrar = settings.answering.is_registrar;
        config.user_agent = "signet-load".to_owned();
        let mut agents = UserAgents::new(config, now_ms);
        let Room {
            calls,
            clients,
            servers,
        } = Room::of(settings, &place);
        agents.reserve(calls, clients, servers);
        let seats = Seats::new(setup::seat_count(settings, &place));
        let pacer = settings
            .schedule
            .as_ref()
            // Who is only called begins nothing.
            .filter(|_| place.target.is_some())
            .map(|schedule| Pacer::share(schedule, place.index as u64, place.of as u64));
        Self {
            dealer: Dealer::new(&settings.mix),
            dice: Dice::new(settings.seed ^ (place.index as u64) << 32),
            agents,
            agenda: Wheel::with_tick(now_ms, 1),
            outbox: Outbox::default(),
            pacer,
            seats,
            shared_conn: ConnId::NONE,
            shared_conn_local: None,
            jobs: Jobs::default(),
            record: Recorder::new(),
            heard: Vec::new(),
            due: Vec::new(),
            unsent: Vec::new(),
            uri: String::new(),
            stage: Stage::SetUp,
            setup: setup::SetUp::default(),
            start_ns: u64::MAX,
            storm_ns: 0,
            stage_deadline_ns: u64::MAX,
            end_ns: 0,
            told_ns: 0,
            is_idle: false,
            cpu: [CpuTime::default(); 2],
            closing: Vec::new(),
            newly_open: Vec::new(),
            clock,
            place,
            net,
            tls,
            identities: Vec::new(),
            shared,
            reports,
        }
    }

    /// Runs to the end, and tells of it.
    pub(crate) fn run(mut self) {
        let reports = self.reports.clone();
        let report = match self.work() {
            Ok(()) => Report::Done(Box::new(self.conclude())),
            Err(error) => Report::Failed { error },
        };
        // The main thread is gone when this fails: then nobody wants it.
        let _ = reports.send(report);
    }

    fn work(&mut self) -> Result<(), String> {
        self.begin_setup()?;
        loop {
            let now_ns = self.clock.now_ns();
            if !self.step(now_ns)? {
                return Ok(());
            }
            self.send();
            self.close_spent();
            self.exchange()?;
        }
    }

    /// What this stage asks for; false when the last one is over.
    fn step(&mut self, now_ns: u64) -> Result<bool, String> {
        let order = self.order();
        self.tell(now_ns);
        match self.stage {
            Stage::SetUp if order != orders::RUN => self.close(now_ns),
            Stage::SetUp => {
                if self.go_on_setting_up(now_ns)? {
                    self.stage = Stage::Waiting;
                    let ready = Report::Ready {
                        worker: self.place.number,
                        upkeep: self.record.upkeep.clone(),
                    };
                    self.reports
                        .send(ready)
                        .map_err(|_| "nobody listens".to_owned())?;
                }
            }
            Stage::Waiting if order != orders::RUN => self.close(now_ns),
            Stage::Waiting => {
                let start_ns = self.shared.start_ns.load(Ordering::Acquire);
                if start_ns != u64::MAX {
                    self.start_ns = start_ns;
                    self.stage = Stage::Running;
                    self.cpu = [CpuTime::of_this_thread(); 2];
                    self.plan_storm();
                }
            }
            Stage::Running if order == orders::STOP => self.close(now_ns),
            Stage::Running if order == orders::DRAIN => {
                self.hang_up_all(now_ns);
                self.drain(now_ns);
            }
            Stage::Running => {
                self.begin_arrivals();
                if self
                    .pacer
                    .as_ref()
                    .is_some_and(|pacer| pacer.next_due_ns().is_none())
                {
                    self.drain(now_ns);
                }
            }
            Stage::Draining => {
                let is_done = if self.place.target.is_some() {
                    self.jobs.in_flight == 0
                } else {
                    self.jobs.calls().next().is_none()
                };
                let is_over = is_done || now_ns >= self.stage_deadline_ns;
                if is_over || order == orders::STOP {
                    self.close(now_ns);
                } else if order == orders::DRAIN {
                    self.hang_up_all(now_ns);
                }
            }
            Stage::Closing => {
                if self.net.connection_count() == 0 {
                    return Ok(false);
                }
                if now_ns >= self.stage_deadline_ns {
                    // A peer that does not read does not let us close in order.
                    self.net.close_all(false);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// What the main thread asks of this worker.
    fn order(&self) -> u8 {
        let order = if self.place.target.is_some() {
            &self.shared.order
        } else {
            &self.shared.order_called
        };
        order.load(Ordering::Relaxed)
    }

    fn drain(&mut self, now_ns: u64) {
        self.stage = Stage::Draining;
        let settings = &self.shared.settings;
        let is_called_only = self.place.target.is_none();
        let patience = settings.drain_timeout.unwrap_or_else(|| {
            if is_called_only {
                return CALLED_DRAIN;
            }
            // A transaction for the INVITE, one for its CANCEL or for the BYE,
            // and what lies between them.
            let transactions = Duration::from_millis(2 * 64 * settings.timers.t1_ms);
            settings.hold.longest()
                + settings.answering.ring.longest()
                + settings.connect_timeout
                + transactions
                + Duration::from_secs(1)
        });
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        self.stage_deadline_ns = now_ns.saturating_add(patience_ns);
    }

    /// What is under way now stays unfinished; connections are closed.
    fn close(&mut self, now_ns: u64) {
        self.give_up_all();
        self.end_ns = now_ns;
        let [_, end] = &mut self.cpu;
        *end = CpuTime::of_this_thread();
        self.stage = Stage::Closing;
        self.stage_deadline_ns = now_ns.saturating_add(CLOSING_NS);
        self.send();
        match self.shared.settings.close {
            Close::Clean => self.net.close_all(true),
            Close::Abrupt => {
                for seat in self.seats.all().filter(|seat| seat.conn.is_some()) {
                    self.net.abort(seat.conn);
                }
                self.net.close_all(false);
            }
        }
    }

    /// Sends what is in the outbox, and notes when.
    fn send(&mut self) {
        if self.outbox.sends.is_empty() {
            return;
        }
        self.net.send_outbox(&self.outbox);
        self.outbox.clear();
        // Before the kernel has it: what it takes to hand over a batch counts
        // as the server's, never the other way round.
        let now_ns = self.clock.now_ns();
        self.net.flush();
        for unsent in self.unsent.drain(..) {
            match unsent {
                Unsent::Invite(call) => {
                    if let Some(slot) = self.jobs.call(call) {
                        slot.sent_ns = now_ns;
                    }
                }
                Unsent::Bye(call) => {
                    if let Some(slot) = self.jobs.call(call) {
                        slot.bye_sent_ns = now_ns;
                    }
                }
                Unsent::Request(request) => {
                    if let Some(slot) = self.jobs.request(request) {
                        slot.sent_ns = now_ns;
                    }
                }
            }
        }
    }

    /// Waits until something arrives or is due, and does what follows of it.
    fn exchange(&mut self) -> Result<(), String> {
        let wait_ns = self.wait_ns();
        let timeout = if wait_ns >= NS_PER_MS {
            Duration::from_millis(to_ms(wait_ns))
        } else {
            // The sockets wait in whole milliseconds. An arrival must not be
            // late by one, so the rest is slept away in naps, between which the
            // sockets are looked at.
            if self.is_idle && wait_ns > 0 {
                std::thread::sleep(Duration::from_nanos(wait_ns.min(NAP_NS)));
            }
            Duration::ZERO
        };
        let clock = self.clock;
        let (agents, outbox, heard) = (&mut self.agents, &mut self.outbox, &mut self.heard);
        let record = &mut self.record;
        let mut is_idle = true;
        let mut handshake = "handshake";
        let mut deaf = Vec::new();
        let result = self.net.poll(Some(timeout), |event| {
            let at_ns = clock.now_ns();
            is_idle = false;
            let now_ms = to_ms(at_ns);
            let mut why = None;
            match event {
                NetEvent::Datagram { flow, bytes } | NetEvent::Message { flow, bytes } => {
                    let mut message = agents.spare_message();
                    if message.fill(bytes, &Limits::default()).is_ok() {
                        agents.handle_message(now_ms, &flow, message, outbox);
                    } else {
                        record.rubbish += 1;
                    }
                }
                NetEvent::Opened { flow } => heard.push(Heard::Opened { at_ns, flow }),
                // Before what failed for it, and before its end, are told.
                NetEvent::HandshakeFailed { error, .. } => handshake = of_handshake(&error),
                NetEvent::Closed { conn, reason } => {
                    let named = of_close(reason, handshake);
                    why = Some(named);
                    heard.push(Heard::Closed { conn, why: named });
                    agents.handle_closed(now_ms, conn, outbox);
                }
                NetEvent::SendFailed { cookie, error } => {
                    why = Some(of_send(error, handshake));
                    agents.handle_send_failed(now_ms, cookie, outbox);
                }
                // Nothing more can be read there: it is closed at once, so that
                // what waits for an answer on it fails with that cause.
                NetEvent::Malformed { flow, .. } => {
                    record.rubbish += 1;
                    deaf.push(flow.conn);
                }
                _ => {}
            }
            while let Some(event) = agents.poll_event() {
                heard.push(Heard::Sip { at_ns, event, why });
            }
        });
        result.map_err(|error| format!("the network failed: {error}"))?;
        for conn in deaf {
            self.net.close(conn, false);
        }
        let now_ns = self.clock.now_ns();
        self.is_idle = is_idle;
        let now_ms = to_ms(now_ns);
        self.handle_timers(now_ms);
        while let Some(event) = self.agents.poll_event() {
            self.heard.push(Heard::Sip {
                at_ns: now_ns,
                event,
                why: None,
            });
        }
        let mut heard = std::mem::take(&mut self.heard);
        for what in heard.drain(..) {
            self.hear(what);
        }
        self.heard = heard;
        self.welcome(now_ns);
        let mut due = std::mem::take(&mut self.due);
        self.agenda.advance(now_ms, |what| due.push(what));
        for what in due.drain(..) {
            self.do_due(now_ns, what);
        }
        self.due = due;
        Ok(())
    }

    /// Does what is due in the transactions, and says of what is sent again
    /// whose fault that is.
    fn handle_timers(&mut self, now_ms: u64) {
        let sent_again = |agents: &UserAgents| {
            let transactions = agents.transaction_counters();
            transactions.request_retransmitted
                + transactions.response_retransmitted
                + agents.counters().answers_retransmitted
        };
        let before = sent_again(&self.agents);
        let due_ms = self.agents.next_deadline_ms().unwrap_or(u64::MAX);
        self.agents.handle_timers(now_ms, &mut self.outbox);
        let again = sent_again(&self.agents) - before;
        // The answer may have waited here for as long as this worker was late.
        if now_ms.saturating_sub(due_ms) > self.shared.settings.timers.t1_ms / 2 {
            self.record.ours_late += again;
        }
        for _ in 0..again {
            self.record.second.retransmitted();
        }
    }

    /// How long nothing is due.
    fn wait_ns(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        let mut until_ns = now_ns + WAIT_MAX_NS;
        if self.stage == Stage::Running
            && let Some(due_ns) = self.pacer.as_ref().and_then(Pacer::next_due_ns)
        {
            until_ns = until_ns.min(self.start_ns.saturating_add(due_ns));
        }
        let seats = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
        if self.stage == Stage::SetUp
            && !self.waits_for_shared_conn()
            && let Some(due_ns) = self.setup.next_due_ns(seats)
        {
            until_ns = until_ns.min(due_ns);
        }
        let timers = [
            self.agents.next_deadline_ms(),
            self.agenda.next_deadline_ms(),
        ];
        for due_ms in timers.into_iter().flatten() {
            until_ns = until_ns.min(due_ms.saturating_mul(NS_PER_MS));
        }
        until_ns.saturating_sub(now_ns)
    }

    /// Tells the main thread how it stands, a few times a second. It must not
    /// wait for it: what does not fit is told the next time.
    fn tell(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.told_ns) < TELL_NS {
            return;
        }
        self.told_ns = now_ns;
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        let is_running = matches!(self.stage, Stage::Running | Stage::Draining);
        let part = if is_running {
            self.record.second.turn(elapsed_ns, self.jobs.in_flight)
        } else {
            None
        };
        let tick = self.tick(part);
        let _ = self.reports.try_send(Report::Tick(tick));
    }

    fn tick(&self, part: Option<SecondPart>) -> Tick {
        Tick {
            worker: self.place.number,
            started: self.record.started,
            ended: self.record.ended,
            failed: self.record.failed,
            in_flight: self.jobs.in_flight,
            ready: self.record.upkeep.ready,
            part,
            causes: self.record.causes.ranked(),
            called: self.record.called,
            kernel_drops: self.net.counters().udp_kernel_drops,
            late_p99_us: self.record.lateness.actual_us(99.0),
        }
    }

    fn conclude(mut self) -> Final {
        let part = self.record.second.finish(self.jobs.in_flight);
        let tick = self.tick(Some(part));
        let _ = self.reports.send(Report::Tick(tick));
        let [begin, end] = self.cpu;
        Final {
            worker: self.place.number,
            sockets: self.net.counters(),
            agents: *self.agents.counters(),
            transactions: *self.agents.transaction_counters(),
            live: self.agents.live(),
            connections: self.net.connection_count(),
            end_ns: self.end_ns.saturating_sub(self.start_ns),
            cpu_ns: end.cpu_ns.saturating_sub(begin.cpu_ns),
            waited_ns: end.waited_ns.saturating_sub(begin.waited_ns),
            handshakes_failed: self.net.opened_tls().failed.iter().sum(),
            record: self.record,
        }
    }

    /// Whether each agent's connection serves one job at a time.
    fn is_exclusive(&self) -> bool {
        self.is_stream() && matches!(self.shared.settings.lifetime, Lifetime::Calls(_))
    }

    /// Whether there are connections at all.
    fn is_stream(&self) -> bool {
        self.place
            .target
            .as_ref()
            .is_some_and(|target| target.transport != Transport::Udp)
    }
}
