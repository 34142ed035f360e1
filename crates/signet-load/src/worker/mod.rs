//! A worker: one thread with its sockets, its agents, its share of the
//! arrivals and its own figures. It never waits for anything but its sockets
//! and its clock.

mod arrivals;
mod bits;
mod called;
mod connections;
mod ending;
mod exchange;
mod inputs;
mod jobs;
mod record;
mod report;
mod room;
mod seats;
mod setup;
mod storm;
mod waiting;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};

use measure::{Pacer, SecondPart};
use sip_dialog::{CallKey, Config, Event, RequestKey, UserAgents};
use sip_msg::{ConnId, Flow as WireFlow, Outbox, Transport};
use sip_net::Net;
use sip_tls::ClientTls;
use wheel::Wheel;

use crate::clock::{Clock, NS_PER_MS, to_ms};
use crate::mix::Dealer;
use crate::settings::{Lifetime, Settings};
use crate::smime::now_unix_s;
use crate::tls::Client;
pub(crate) use ending::Sent;
use exchange::sent_again;
pub(crate) use exchange::sum_sent_again;
use jobs::Jobs;
pub use record::{CalledCounts, Upkeep};
pub(crate) use record::{Recorder, add_to};
pub(crate) use report::{Final, Report, Shared, Tick, WorkerPart, orders};
use room::{CpuTime, calls_at_once};
use seats::Seats;
pub use storm::StormCounts;
use waiting::Waiting;

/// Arrivals begun in one turn; past it what was received meanwhile comes first.
const ARRIVALS_MAX: usize = 64;
/// The longest wait, so that the commands of the main thread are seen.
const WAIT_MAX_NS: u64 = 20 * NS_PER_MS;
/// How long a nap is when something is due within the millisecond that is the
/// shortest wait of the sockets.
const NAP_NS: u64 = 60_000;
/// How often the main thread is told.
const TELL_NS: u64 = 200 * NS_PER_MS;
const NS_PER_S: u64 = 1_000 * NS_PER_MS;

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
enum Input {
    Sip {
        at_ns: u64,
        event: Event,
        /// What the sockets said, where this is its consequence.
        why: Option<&'static str>,
    },
    Opened {
        at_ns: u64,
        flow: WireFlow,
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

/// What was sent again and lost before the run began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    pub(crate) transactions: sip_txn::Counters,
    pub(crate) agents: sip_dialog::Counters,
    pub(crate) kernel_drops: u64,
    pub(crate) queue_drops: u64,
}

impl Before {
    fn of(agents: &UserAgents, net: &Net) -> Self {
        let sockets = net.counters();
        Self {
            transactions: *agents.transaction_counters(),
            agents: *agents.counters(),
            kernel_drops: sockets.udp_kernel_drops,
            queue_drops: sockets.udp_queue_drops,
        }
    }

    /// Messages that were sent again.
    pub(crate) const fn sent_again(&self) -> u64 {
        sum_sent_again(&self.transactions, &self.agents)
    }
}

/// Where the run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    SetUp,
    /// Ready; waits for the others.
    Waiting,
    Running,
    Draining,
    /// What was not over in time is hung up.
    HangingUp,
    Closing,
}

pub(crate) struct Worker {
    shared: Arc<Shared>,
    clock: Clock,
    role: WorkerPart,
    net: Net,
    tls: Option<Client>,
    /// Each agent's own certificate and sessions, by its seat, where they have any.
    identities: Vec<Arc<ClientTls>>,
    agents: UserAgents,
    outbox: Outbox,
    pacer: Option<Pacer>,
    /// How long the schedule lasts, and when it is over: before, where it has no more arrivals.
    schedule_ns: u64,
    ends_ns: u64,
    dealer: Dealer,
    /// A load that is to be repeated needs the same choices, not good ones.
    dice: fastrand::Rng,
    /// For names that no other load may have, whatever its seed.
    names: fastrand::Rng,
    seats: Seats,
    /// The connection that all agents use, where they use one.
    shared_conn: ConnId,
    shared_conn_local: Option<std::net::SocketAddr>,
    /// When that connection was asked for; 0 once it is up.
    shared_since_ns: u64,
    jobs: Jobs,
    agenda: Wheel<Due>,
    record: Recorder,
    inputs: Vec<Input>,
    due: Vec<Due>,
    unsent: Vec<Unsent>,
    waiting: Waiting,
    /// Calls that were given up and hung up, and are not over.
    leaving: HashSet<CallKey>,
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
    /// Once the schedule is over, or the run was interrupted.
    sent: Option<Sent>,
    /// What bringing the agents up has cost, which is none of the run's.
    before: Before,
    /// Seconds that the main thread has not taken yet.
    untold: VecDeque<SecondPart>,
    /// Connections that have served, to be closed once what is for them is queued.
    closing: Vec<ConnId>,
    /// Seats whose connections have just come up, and from which address.
    newly_open: Vec<(u32, std::net::SocketAddr)>,
    reports: SyncSender<Report>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        role: WorkerPart,
        net: Net,
        tls: Option<Client>,
        keys: [[u8; 16]; 3],
        reports: SyncSender<Report>,
    ) -> Self {
        let settings = &shared.settings;
        let clock = shared.clock;
        let now_ms = to_ms(clock.now_ns());
        let mut agents = UserAgents::new(agents_config(settings, keys), now_ms);
        agents.set_wall_clock(now_ms, now_unix_s());
        agents.reserve(calls_at_once(settings, &role));
        let seats = Seats::new(setup::seat_count(settings, &role));
        // Among the threads of all processes that drive this load.
        let number_of_all = settings.share.index * role.of as u64 + role.index as u64;
        let pacer = settings
            .schedule
            .as_ref()
            // Who is only called begins nothing.
            .filter(|_| role.target.is_some())
            .map(|schedule| {
                let of = role.of as u64;
                Pacer::share(
                    schedule,
                    number_of_all,
                    of.saturating_mul(settings.share.of),
                )
            });
        let schedule_ns = settings
            .schedule
            .as_ref()
            .map_or(u64::MAX, measure::Schedule::duration_ns);
        let ends_ns = settings
            .schedule
            .as_ref()
            .map_or(u64::MAX, measure::Schedule::ends_ns);
        Self {
            dealer: Dealer::new(&settings.mix),
            dice: fastrand::Rng::with_seed(settings.seed ^ number_of_all << 32),
            names: fastrand::Rng::new(),
            agents,
            agenda: Wheel::with_tick(now_ms, 1),
            outbox: Outbox::default(),
            pacer,
            schedule_ns,
            ends_ns,
            seats,
            shared_conn: ConnId::NONE,
            shared_conn_local: None,
            shared_since_ns: 0,
            jobs: Jobs::default(),
            record: Recorder::new(),
            inputs: Vec::new(),
            due: Vec::new(),
            unsent: Vec::new(),
            waiting: Waiting::default(),
            leaving: HashSet::new(),
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
            sent: None,
            before: Before::default(),
            untold: VecDeque::new(),
            closing: Vec::new(),
            newly_open: Vec::new(),
            clock,
            role,
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
            Stage::SetUp | Stage::Waiting if order != orders::RUN => self.stop(now_ns),
            Stage::SetUp => {
                if self.go_on_setting_up(now_ns)? {
                    self.stage = Stage::Waiting;
                    let ready = Report::Ready {
                        worker: self.role.number,
                        upkeep: self.record.upkeep.clone(),
                    };
                    self.reports
                        .send(ready)
                        .map_err(|_| "nobody listens".to_owned())?;
                }
            }
            Stage::Waiting => {
                let start_ns = self.shared.start_ns.load(Ordering::Acquire);
                if start_ns != u64::MAX {
                    self.start_ns = start_ns;
                    self.stage = Stage::Running;
                    self.cpu = [CpuTime::of_this_thread(); 2];
                    self.before = Before::of(&self.agents, &self.net);
                    self.record.begin();
                    self.plan_storm();
                }
            }
            Stage::Running if order == orders::STOP => self.stop(now_ns),
            Stage::Running if order == orders::DRAIN => {
                self.hang_up_all(now_ns);
                self.drain(now_ns);
            }
            Stage::Running => {
                self.begin_arrivals();
                let have_all_begun = self
                    .pacer
                    .as_ref()
                    .is_some_and(|pacer| pacer.next_due_ns().is_none());
                if have_all_begun && !self.awaits_storm() {
                    self.drain(now_ns);
                } else if now_ns.saturating_sub(self.start_ns) >= self.ends_ns {
                    // Who is only called goes on.
                    self.end_sending(now_ns);
                }
            }
            Stage::Draining => {
                let is_done = if self.role.target.is_some() {
                    // Whoever interrupts the run does not wait for those who come back.
                    let are_back = self.record.storm.missing == 0 || order != orders::RUN;
                    self.jobs.in_flight == 0 && are_back
                } else {
                    self.jobs.calls().next().is_none()
                };
                if is_done || order == orders::STOP {
                    self.stop(now_ns);
                } else if now_ns >= self.stage_deadline_ns {
                    self.give_up(now_ns);
                } else if order == orders::DRAIN {
                    self.hang_up_all(now_ns);
                }
            }
            Stage::HangingUp => {
                let is_late = now_ns >= self.stage_deadline_ns;
                if self.leaving.is_empty() || is_late || order == orders::STOP {
                    self.close(now_ns);
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
        let order = if self.role.target.is_some() {
            &self.shared.order
        } else {
            &self.shared.order_called
        };
        order.load(Ordering::Relaxed)
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

    /// Tells the main thread how it stands, a few times a second and whenever a second of
    /// the run has ended, so that what follows counts in the next. It must not
    /// wait for it: what does not fit is told the next time.
    fn tell(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        let is_running = matches!(self.stage, Stage::Running | Stage::Draining);
        let told_s = self.told_ns.saturating_sub(self.start_ns) / NS_PER_S;
        let has_ended = is_running && elapsed_ns / NS_PER_S > told_s;
        if !has_ended && now_ns.saturating_sub(self.told_ns) < TELL_NS {
            return;
        }
        self.told_ns = now_ns;
        let part = if is_running {
            self.record.second.turn(elapsed_ns, self.jobs.in_flight)
        } else {
            None
        };
        self.untold.extend(part);
        let mut has_told = false;
        while let Some(part) = self.untold.pop_front() {
            let tick = self.tick(Some(part));
            if let Err(TrySendError::Full(Report::Tick(tick))) =
                self.reports.try_send(Report::Tick(Box::new(tick)))
            {
                // Its second is told the next time.
                self.untold.extend(tick.part);
                self.untold.rotate_right(1);
                return;
            }
            has_told = true;
        }
        if !has_told {
            let tick = self.tick(None);
            let _ = self.reports.try_send(Report::Tick(Box::new(tick)));
        }
    }

    fn tick(&self, part: Option<SecondPart>) -> Tick {
        let sockets = self.net.counters();
        Tick {
            worker: self.role.number,
            started: self.record.started,
            ended: self.record.ended,
            failed: self.record.failed,
            in_flight: self.jobs.in_flight,
            ready: self.record.upkeep.ready,
            part,
            causes: self.record.causes.ranked(),
            called: self.record.called,
            called_causes: self.record.called_causes.clone(),
            answers: self.agents.answers().clone(),
            retransmissions: sent_again(&self.agents) - self.before.sent_again(),
            kernel_drops: sockets.udp_kernel_drops - self.before.kernel_drops,
            queue_drops: sockets.udp_queue_drops - self.before.queue_drops,
            late_p99_us: self.record.lateness.actual_us(99.0),
            late_max_us: self.record.lateness.actual_us(100.0),
        }
    }

    fn conclude(mut self) -> Final {
        let part = self.record.second.finish(self.jobs.in_flight);
        self.untold.push_back(part);
        while let Some(part) = self.untold.pop_front() {
            let tick = self.tick(Some(part));
            let _ = self.reports.send(Report::Tick(Box::new(tick)));
        }
        let [begin, end] = self.cpu;
        Final {
            worker: self.role.number,
            is_called_only: self.role.target.is_none(),
            sockets: self.net.counters(),
            agents: *self.agents.counters(),
            answers: self.agents.answers().clone(),
            transactions: *self.agents.transaction_counters(),
            before: self.before,
            live: self.agents.live(),
            connections: self.net.connection_count(),
            end_ns: self.end_ns.saturating_sub(self.start_ns),
            sending_ns: self.sending_ns(),
            sent: self.sent.unwrap_or_default(),
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
        self.role
            .target
            .as_ref()
            .is_some_and(|target| target.transport != Transport::Udp)
    }
}

/// What the agents of a worker go by.
fn agents_config(settings: &Settings, keys: [[u8; 16]; 3]) -> Config {
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
    config
}
