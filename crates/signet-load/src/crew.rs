//! The workers of a run: their sockets, their threads, and what they tell put
//! together.

mod outcome;
mod sockets;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use invariant::broken;
use measure::{Answered, SecondPart, Series};
use sip_msg::{ListenerId, Transport};
use sip_net::Net;

use crate::clock::{Clock, NS_PER_MS};
use crate::settings::{Called, Settings};
use crate::smime::Smime;
use crate::tls::{Client, Tls};
use outcome::add_answers;
pub use outcome::{Failed, Leaked, Progress, Ran};
use sockets::{Shares, net_config, target};

use crate::worker::{
    CalledCounts, Final, Report, Shared, StormCounts, Tick, Worker, WorkerPart, orders,
};

/// Reports that wait to be read.
const REPORTS_MAX: usize = 256;
/// How long until the run begins when all are ready: every worker has seen it
/// by then.
const START_AFTER_NS: u64 = 50 * NS_PER_MS;
/// How often the caller is asked to draw.
const DRAW: Duration = Duration::from_millis(200);

/// Asks a run to end, or how it stands, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Control {
    asked: Arc<AtomicU8>,
    is_report_due: Arc<AtomicBool>,
    gate: Option<Gate>,
}

/// When a run that is prepared begins; `None` until somebody has said so.
type Gate = Arc<Mutex<Option<Instant>>>;

impl Control {
    /// Nothing is asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, and a run that is prepared waits for [`Self::begin_at`].
    pub fn with_gate() -> Self {
        Self {
            gate: Some(Gate::default()),
            ..Self::default()
        }
    }

    /// The run begins at this time, or at once where that has passed.
    pub fn begin_at(&self, at: Instant) {
        if let Some(gate) = &self.gate {
            *gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        }
    }

    /// When the run is to begin that could begin now; `None` for not yet.
    fn start_ns(&self, clock: Clock) -> Option<u64> {
        let soon_ns = clock.now_ns() + START_AFTER_NS;
        match &self.gate {
            None => Some(soon_ns),
            Some(gate) => {
                let at = *gate.lock().unwrap_or_else(PoisonError::into_inner);
                at.map(|at| clock.at_ns(at).max(soon_ns))
            }
        }
    }

    /// Begin nothing more, let what is under way end, and tell. A second time:
    /// end at once.
    pub fn interrupt(&self) {
        let _ = self
            .asked
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |asked| {
                (asked < orders::STOP).then_some(asked + 1)
            });
    }

    /// Whether it was asked to end.
    pub fn is_interrupted(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != orders::RUN
    }

    /// Asks how the run stands: the next [`Progress`] says that somebody did.
    pub fn ask(&self) {
        self.is_report_due.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_report(&self) -> bool {
        self.is_report_due.swap(false, Ordering::Relaxed)
    }

    /// Whether it was asked to end at once.
    pub(crate) fn is_to_stop(&self) -> bool {
        self.asked() >= orders::STOP
    }

    /// The same without a gate: for a run before the one that waits.
    pub(crate) fn without_gate(&self) -> Self {
        Self {
            gate: None,
            ..self.clone()
        }
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> u8 {
        self.asked.load(Ordering::Relaxed)
    }
}

/// What is told of a run besides how its threads stand.
struct Now<'a> {
    is_prepared: bool,
    is_asked: bool,
    parts: &'a [SecondPart],
}

/// Runs, and calls `draw` a few times a second.
///
/// # Errors
/// [`Failed::Usage`] before the first packet, [`Failed::Run`] where the run
/// did not come to its first arrival.
pub fn run(
    settings: Settings,
    control: &Control,
    draw: &mut dyn FnMut(&Progress<'_>),
) -> Result<Ran, Failed> {
    settings.check().map_err(Failed::Usage)?;
    let crew = Crew::assemble(settings)?;
    crew.run(control, draw)
}

struct Crew {
    shared: Arc<Shared>,
    reports: Receiver<Report>,
    threads: Vec<JoinHandle<()>>,
    names: Vec<String>,
    /// Workers that call; those after them are only called.
    callers: usize,
    agents: u64,
    answering: Vec<(Transport, SocketAddr)>,
}

impl Crew {
    fn assemble(settings: Settings) -> Result<Self, Failed> {
        let calls = settings.transport().is_some();
        let is_direct = settings.direct.is_some();
        let mut settings = settings;
        if let Some(transport) = settings.direct {
            settings.answering.listen = vec![(transport, settings.local.any_port(0))];
        }
        let answers = !settings.answering.listen.is_empty();
        if !calls && !answers {
            return Err(Failed::Usage(
                "there is nobody to call and nobody to answer".to_owned(),
            ));
        }
        let is_tls_client = settings.transport().is_some_and(Transport::is_secure);
        let mut listens = settings.answering.listen.iter();
        let is_tls_server = listens.any(|listen| listen.0.is_secure());
        let calls_itself = is_direct && is_tls_client;
        let called = &settings.answering.tls;
        let tls = Tls::new(
            &settings.tls,
            called,
            is_tls_client,
            is_tls_server,
            calls_itself,
        )
        .map_err(Failed::Usage)?;
        let smime = secure(&settings, answers)?;
        let net_config = net_config(&settings, &tls, is_tls_client || is_tls_server)?;
        let shares = Shares::of(&settings, calls, answers);
        let crew_sockets = shares.bind(&settings, &tls)?;
        let mut answering = Vec::new();
        let (report, reports) = sync_channel(REPORTS_MAX);
        let agents = settings.users.count() as u64;
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            start_ns: AtomicU64::new(u64::MAX),
            order: AtomicU8::new(orders::RUN),
            order_called: AtomicU8::new(orders::RUN),
            smime,
            settings,
        });
        let mut workers = Vec::new();
        for (number, (sockets, senders, first)) in crew_sockets.into_iter().enumerate() {
            let settings = &shared.settings;
            for (offset, (transport, _)) in (0u16..).zip(&settings.answering.listen) {
                let addr = first.and_then(|first| sockets.local_addr(ListenerId(first.0 + offset)));
                if let Some(addr) = addr
                    && !answering.contains(&(*transport, addr))
                {
                    answering.push((*transport, addr));
                }
            }
            let own = first.and_then(|first| sockets.local_addr(first));
            let net = Net::new(number, net_config.clone(), sockets)
                .map_err(|error| Failed::Run(format!("cannot use the sockets: {error}")))?;
            let is_caller = number < shares.callers;
            let place = WorkerPart {
                number,
                index: if is_caller {
                    number
                } else {
                    number - shares.callers
                },
                of: if is_caller {
                    shares.callers
                } else {
                    shares.only_called
                },
                target: target(settings, own).filter(|_| is_caller),
                senders,
                answering: first,
            };
            workers.push((net, place));
        }
        let mut crew = Self {
            shared,
            reports,
            threads: Vec::new(),
            names: Vec::new(),
            callers: shares.callers,
            agents,
            answering,
        };
        for (net, place) in workers {
            if let Err(error) = crew.start(net, place, tls.client.clone(), &report) {
                crew.order(orders::STOP);
                return Err(Failed::Run(error));
            }
        }
        Ok(crew)
    }

    fn start(
        &mut self,
        net: Net,
        place: WorkerPart,
        tls: Option<Client>,
        report: &SyncSender<Report>,
    ) -> Result<(), String> {
        let name = if place.target.is_some() {
            format!("load-{}", place.index)
        } else {
            format!("answer-{}", place.index)
        };
        let worker = Worker::new(
            Arc::clone(&self.shared),
            place,
            net,
            tls,
            keys()?,
            report.clone(),
        );
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || worker.run())
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        self.threads.push(thread);
        self.names.push(name);
        Ok(())
    }

    fn order(&self, order: u8) {
        self.shared.order.fetch_max(order, Ordering::Relaxed);
        self.shared.order_called.fetch_max(order, Ordering::Relaxed);
    }

    fn run(
        mut self,
        control: &Control,
        draw: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Ran, Failed> {
        let all = self.threads.len();
        let begun_ns = self.shared.clock.now_ns();
        let mut series = Series::new();
        let mut ticks: Vec<Tick> = vec![Tick::default(); all];
        let mut finals: Vec<Option<Box<Final>>> = (0..all).map(|_| None).collect();
        let (mut ready, mut done, mut setup_ns) = (0, 0, 0);
        let mut failed = None;
        let mut own_cpu_begin = 0;
        let mut is_interrupted = false;
        let mut parts = Vec::new();
        while done < all {
            match self.reports.recv_timeout(DRAW) {
                Ok(Report::Ready { upkeep, worker }) => {
                    ready += 1;
                    match ticks.get_mut(worker) {
                        Some(tick) => tick.ready = upkeep.ready,
                        None => broken!("a worker reports under its own number"),
                    }
                    if ready == all {
                        setup_ns = self.shared.clock.now_ns() - begun_ns;
                    }
                }
                Ok(Report::Tick(mut tick)) => {
                    if let Some(part) = tick.part.take() {
                        series.add(&part);
                        parts.push(part);
                    }
                    match ticks.get_mut(tick.worker) {
                        Some(place) => *place = *tick,
                        None => broken!("a worker reports under its own number"),
                    }
                }
                Ok(Report::Done(end)) => {
                    done += 1;
                    match finals.get_mut(end.worker) {
                        Some(place) => *place = Some(end),
                        None => broken!("a worker reports under its own number"),
                    }
                    let callers_done = finals.iter().take(self.callers).all(Option::is_some);
                    if self.callers > 0 && callers_done {
                        self.shared
                            .order_called
                            .fetch_max(orders::DRAIN, Ordering::Relaxed);
                    }
                }
                Ok(Report::Failed { error }) => {
                    done += 1;
                    failed.get_or_insert(error);
                    self.order(orders::STOP);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let is_prepared = ready == all;
            if is_prepared
                && self.shared.start_ns.load(Ordering::Relaxed) == u64::MAX
                && let Some(start_ns) = control.start_ns(self.shared.clock)
            {
                own_cpu_begin = own_cpu_ns();
                self.shared.start_ns.store(start_ns, Ordering::Release);
            }
            if control.asked() > orders::RUN && failed.is_none() {
                is_interrupted |= finals.iter().any(Option::is_none);
                self.order(control.asked());
            }
            let start_ns = self.shared.start_ns.load(Ordering::Relaxed);
            if let Some(answer_for) = self.shared.settings.answer_for
                && self.callers == 0
                && self.shared.clock.now_ns().saturating_sub(start_ns) as u128
                    >= answer_for.as_nanos()
            {
                self.order(orders::DRAIN);
            }
            let now = Now {
                is_prepared,
                is_asked: control.take_report(),
                parts: &parts,
            };
            self.draw(&ticks, &series, now, draw);
            parts.clear();
        }
        let own_cpu_ns = own_cpu_ns().saturating_sub(own_cpu_begin);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                failed.get_or_insert("a thread of the generator panicked".to_owned());
            }
        }
        if let Some(error) = failed {
            return Err(Failed::Run(error));
        }
        let mut ran = Ran::new(series, is_interrupted, setup_ns, own_cpu_ns, self.answering);
        ran.storm = self
            .shared
            .settings
            .storm_at
            .map(|_| StormCounts::default());
        for (end, name) in finals.into_iter().zip(self.names) {
            let end = end
                .ok_or_else(|| Failed::Run("a thread of the generator said nothing".to_owned()))?;
            ran.take(*end, name);
        }
        Ok(ran)
    }

    fn draw(
        &self,
        ticks: &[Tick],
        series: &Series,
        now: Now<'_>,
        draw: &mut dyn FnMut(&Progress<'_>),
    ) {
        let start_ns = self.shared.start_ns.load(Ordering::Relaxed);
        let elapsed_ns = self.shared.clock.now_ns().checked_sub(start_ns);
        let sum = |figure: fn(&Tick) -> u64| ticks.iter().map(figure).sum();
        let most = |figure: fn(&Tick) -> u64| ticks.iter().map(figure).max().unwrap_or(0);
        let (mut called, mut answered) = (CalledCounts::default(), Answered::default());
        let mut causes: Vec<(String, u64)> = Vec::new();
        for tick in ticks {
            called.merge(&tick.called);
            add_answers(
                &mut answered,
                &tick.called,
                &tick.called_causes,
                &tick.answers,
            );
            for (name, count) in &tick.causes {
                match causes.iter_mut().find(|cause| cause.0 == *name) {
                    Some(cause) => cause.1 += count,
                    None => causes.push((name.clone(), *count)),
                }
            }
        }
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.1));
        draw(&Progress {
            elapsed_ns,
            ready: (sum(|tick| tick.ready), self.agents),
            started: sum(|tick| tick.started),
            ended: sum(|tick| tick.ended),
            failed: sum(|tick| tick.failed),
            in_flight: sum(|tick| tick.in_flight),
            causes,
            called,
            answered,
            retransmissions: sum(|tick| tick.retransmissions),
            kernel_drops: sum(|tick| tick.kernel_drops),
            queue_drops: sum(|tick| tick.queue_drops),
            late_p99_us: most(|tick| tick.late_p99_us),
            late_max_us: most(|tick| tick.late_max_us),
            is_asked: now.is_asked,
            series,
            is_prepared: now.is_prepared,
            parts: now.parts,
            answering: &self.answering,
        });
    }
}

/// What protects bodies.
fn secure(settings: &Settings, answers: bool) -> Result<Option<Smime>, Failed> {
    let Some(smime) = &settings.smime else {
        return Ok(None);
    };
    let is_pairs = settings.called.is_pairs();
    let to = match &settings.called {
        Called::Uri(uri) => uri.as_str(),
        Called::Ring | Called::Random => "",
    };
    let calls = settings.transport().map(|_| to);
    Smime::new(smime, answers, is_pairs, calls)
        .map(Some)
        .map_err(Failed::Usage)
}

fn keys() -> Result<[[u8; 16]; 3], String> {
    let mut keys = [[0; 16]; 3];
    for key in &mut keys {
        getrandom::fill(key).map_err(|error| format!("no random numbers: {error}"))?;
    }
    Ok(keys)
}

/// CPU time of all threads of this process, those that ended included.
fn own_cpu_ns() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
        let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        u64::try_from(us).unwrap_or(0) * 1_000
    })
}
