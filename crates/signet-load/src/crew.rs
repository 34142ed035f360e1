//! The workers of a run: their sockets, their threads, and what they tell put
//! together.

mod outcome;
mod running;
mod sockets;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sip_msg::{ListenerId, Transport};
use sip_net::Net;

use crate::clock::{Clock, NS_PER_MS};
use crate::settings::{Called, Settings};
use crate::smime::Smime;
use crate::tls::{Client, Tls};
pub use outcome::{Failed, Leaked, Progress, Ran};
use running::Running;
use sockets::{Shares, net_config, target};

use crate::worker::{Report, Shared, Worker, WorkerPart, orders};

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

    /// When a run that is ready is to begin; `None` while nobody has said so.
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

    /// The same without a gate: for the self-check, which runs before the run that waits.
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
                "there is nobody to call and nobody to answer; write --to URI, or --self"
                    .to_owned(),
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
            let role = WorkerPart {
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
            workers.push((net, role));
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
        for (net, role) in workers {
            if let Err(error) = crew.start(net, role, tls.client.clone(), &report) {
                crew.order(orders::STOP);
                return Err(Failed::Run(error));
            }
        }
        Ok(crew)
    }

    fn start(
        &mut self,
        net: Net,
        role: WorkerPart,
        tls: Option<Client>,
        report: &SyncSender<Report>,
    ) -> Result<(), String> {
        let name = if role.target.is_some() {
            format!("load-{}", role.index)
        } else {
            format!("answer-{}", role.index)
        };
        let worker = Worker::new(
            Arc::clone(&self.shared),
            role,
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
        let mut running = Running::new(&self);
        while !running.is_over() {
            match self.reports.recv_timeout(DRAW) {
                Ok(report) => running.take(report),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            running.go_on(control);
            running.draw(control.take_report(), draw);
        }
        let mut ended = running.end();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                let why = "a thread of the generator panicked".to_owned();
                ended.failed.get_or_insert(why);
            }
        }
        ended.ran(self.names, self.answering)
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
