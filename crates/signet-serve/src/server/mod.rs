//! A running server: started whole or not at all, reloaded whole or not at
//! all, drained and ended.

mod announce;
mod awaited;
mod identity;
mod outgoing;
mod start;
mod tickets;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sip_engine::Settings;
use sip_net::{DnsThread, WebSocketListener, clock};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::config::{Config, Domain, Fault, Log, Users};
use crate::data_dir::{DataDir, DataLock};
use crate::hook::HookDesk;
use crate::metrics::{self, Sources};
use crate::people::{Asked, Hosts, PeopleAsked};
use crate::records::Recorder;
use crate::setup::{self, PlannedListener};
use crate::token_keys::{self, KeptKeys};
use crate::trace::{Filter, Tracer};
use crate::worker::{Control, CountedPeers, Phase};
use crate::{Error, admin, places, records, service_manager};

use awaited::Awaited;
use identity::{Identity, Material};
pub(crate) use identity::{
    domains_without_certificate, faults_of_files, faults_that_a_start_survives, shown_by_files,
};
use tickets::Tickets;
pub(crate) use tickets::{
    TicketReporter, fresh_secret, old_good_for_s, settle_s, ticket_store, tickets_by_config,
};

/// How often the server's own certificate is looked at.
const RENEWAL: Duration = Duration::from_secs(12 * 3_600);
/// How often expired bindings are freed, how many parts of the table are looked at each time, and
/// how often it is looked whether stores are to be asked again for domains that are due.
const SWEEP: Duration = Duration::from_secs(1);
const SWEPT_MAX: usize = 1_024;
/// How often a draining server looks whether it is done.
const DRAIN_STEP: Duration = Duration::from_millis(20);
/// How long the end takes at most behind that: the last calls' records, what waits for a disk.
const END_AFTER_DRAIN: Duration = Duration::from_secs(35);
/// How long a part may take to end before the log names it.
const SLOW_END: Duration = Duration::from_secs(1);

/// Where the configuration comes from, each time that it is read.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, and what the command line says beside it.
    File {
        /// The file.
        path: PathBuf,
        /// What the command line says.
        overrides: Overrides,
    },
    /// The command line alone.
    Options(Box<Config>),
}

/// What may be said on the command line beside a file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The number of workers.
    pub workers: Option<usize>,
    /// The address for figures.
    pub metrics: Option<SocketAddr>,
    /// Which messages are shown, and where; what is not given is the file's.
    pub trace: TraceOverrides,
    /// Whether workers are pinned to cores.
    pub pin: bool,
}

/// What may be said on the command line of the messages that are shown.
#[derive(Clone, Debug, Default)]
pub struct TraceOverrides {
    /// Whether they are printed.
    pub sip: bool,
    /// The file that they are written to.
    pub pcap: Option<PathBuf>,
    /// Which messages are shown.
    pub filter: Filter,
}

impl TraceOverrides {
    /// Puts what was said into a configuration.
    pub fn apply(&self, log: &mut Log) {
        log.trace_sip |= self.sip;
        let (pcap, filter) = (&self.pcap, &self.filter);
        log.trace_pcap = pcap.clone().or_else(|| log.trace_pcap.take());
        log.trace_user = filter.user.clone().or_else(|| log.trace_user.take());
        log.trace_address = filter.address.or(log.trace_address);
        log.trace_call = filter.call.clone().or_else(|| log.trace_call.take());
    }
}

impl Source {
    /// Reads and checks the configuration for a start.
    pub fn load(&self) -> Result<Config, Error> {
        self.load_or("name a file that is there, or start without --config")
    }

    /// The same; `if_missing` is what to do where the file is not there.
    fn load_or(&self, if_missing: &str) -> Result<Config, Error> {
        match self {
            Self::File { path, overrides } => {
                let mut config = Config::from_file_or(path, if_missing)?;
                config.workers = overrides.workers.unwrap_or(config.workers);
                config.metrics.listen = overrides.metrics.or(config.metrics.listen);
                overrides.trace.apply(&mut config.log);
                config.pin |= overrides.pin;
                Ok(config)
            }
            Self::Options(config) => {
                config.check_options()?;
                Ok(config.as_ref().clone())
            }
        }
    }
}

/// Serves until a signal ends it. Logs go to the standard error, what the
/// operator is to know at the start to the standard output.
pub fn serve(source: Source) -> Result<(), Error> {
    let config = source.load()?;
    let _log = crate::log::start(&config.log)?;
    crate::log::end_on_panic();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Error::new(
                format!("cannot start the admin thread: {error}"),
                "look at the limits of processes and open files: ulimit -a",
            )
        })?;
    // Signals are caught before anything listens, so that none is lost.
    let mut signals = {
        let _in_runtime = runtime.enter();
        Signals::new()?
    };
    let metrics = config.metrics.listen.map(metrics::bind).transpose();
    let metrics = metrics.map_err(|error| {
        // The server that runs on the folder has that port too, as a rule.
        let taken = DataDir::open(&config.data).and_then(|data| data.lock().map(drop));
        taken.err().unwrap_or(error)
    })?;
    let server = Server::start(source, config)?;
    let metrics_addr = metrics
        .as_ref()
        .and_then(|listener| listener.local_addr().ok());
    // Who has read where the server listens may ask it.
    let socket = {
        let _in_runtime = runtime.enter();
        admin::socket::open(admin::socket_path(server.data.path()))
    };
    announce::listeners(&server, metrics_addr);
    announce::next_steps(&server, metrics_addr);
    runtime.block_on(async {
        if let Some(listener) = metrics {
            tokio::spawn(metrics::serve(listener, server.sources.clone()));
        }
        let admin = admin::socket::Admin {
            cache: server.store.cache().cloned(),
            sources: server.sources.clone(),
            shard_key: server.shard_key,
            tracer: server.tracer.clone(),
            people: server.people_asked.asker(),
        };
        if let Some(socket) = socket {
            tokio::spawn(admin::socket::serve(socket, admin));
        }
        server.run(&mut signals).await
    })
}

struct Server {
    source: Source,
    config: Config,
    /// What the workers go by.
    settings: Arc<Settings>,
    data: DataDir,
    _lock: DataLock,
    domains: Vec<Domain>,
    planned: Vec<PlannedListener>,
    bound: Vec<SocketAddr>,
    identity: Identity,
    tickets: Tickets,
    token_keys: KeptKeys,
    /// The rules of the listeners that take WebSockets, in the order of `planned`.
    websockets: Vec<Option<Arc<WebSocketListener>>>,
    control: Arc<Control>,
    /// What decides which message is which worker's.
    shard_key: [u8; 16],
    peer_names: CountedPeers,
    tracer: Tracer,
    recorder: Recorder,
    hook: HookDesk,
    dns: DnsThread,
    sources: Arc<Sources>,
    workers: Vec<JoinHandle<()>>,
    store: crate::store_link::Store,
    /// Commands that have changed what is written of people.
    people_asked: PeopleAsked,
    /// Who waits for the workers to go by what they were given.
    awaited: Awaited,
    /// A reload waits for the domains that the stores of users list.
    is_reload_due: bool,
    /// They are others than before, and were not taken over.
    are_domains_due: bool,
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    End,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Self, Error> {
        let catch = |kind| {
            signal(kind).map_err(|error| {
                Error::new(
                    format!("cannot catch signals: {error}"),
                    "look at the limits of open files: ulimit -n",
                )
            })
        };
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asks {
        tokio::select! {
            _ = self.terminate.recv() => Asks::End,
            _ = self.interrupt.recv() => Asks::End,
            _ = self.hang_up.recv() => Asks::Reload,
        }
    }

    async fn end(&mut self) {
        while self.next().await != Asks::End {}
    }
}

impl Server {
    async fn run(mut self, signals: &mut Signals) -> Result<(), Error> {
        service_manager::ready();
        let mut renewal = tokio::time::interval_at(Instant::now() + RENEWAL, RENEWAL);
        let mut sweep = tokio::time::interval(SWEEP);
        let mut token_keys = tokio::time::interval(token_keys::LOOKED_AT);
        let mut domains = poll_of_domains(&self.config.users);
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                _ = signals.hang_up.recv(), if !self.awaited.has_reload() => {
                    service_manager::reloading();
                    self.recorder.reopen();
                    // Where they have to be asked for, the reload waits for the answer.
                    self.is_reload_due = self.store.foreign_domains().ask();
                    if !self.is_reload_due {
                        self.reload_and_say();
                    }
                }
                () = tick(domains.as_mut()) => self.store.foreign_domains().poll(),
                have_changed = self.store.foreign_domains().answered() => {
                    self.domains_answered(have_changed);
                }
                asked = self.people_asked.next(), if !self.awaited.has_people() => {
                    self.read_people_for(asked);
                }
                () = self.awaited.look() => self.settle(),
                _ = sweep.tick() => {
                    self.sources.location.sweep(clock::unix_ms(), SWEPT_MAX);
                    self.sources.look_at_store(self.settings.registrar.save_timeout_ms);
                    let now = std::time::Instant::now();
                    self.store
                        .foreign_domains()
                        .poll_what_is_due(now, self.are_domains_due);
                    self.tracer.sweep(now);
                    self.recorder.tell_losses(now);
                }
                _ = token_keys.tick() => if let Err(error) = self.renew_token_keys() {
                    tracing::error!("the keys that sign the routes of calls were not renewed; the old ones stay: {error}");
                },
                _ = renewal.tick() => if let Err(error) = self.renew_certificate() {
                    tracing::error!("the server's own certificate was not renewed; the old one stays in use: {error}");
                },
            }
        }
        let had_enough = self.drain(signals).await;
        let data = self.data.clone();
        // By a thread of its own: a disk or a database that hangs must not keep who has had enough
        // from ending it.
        let ended = tokio::task::spawn_blocking(move || self.end());
        tokio::select! {
            ended = ended => ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())),
            () = enough(signals, had_enough) => {
                crate::log::say_last(&Error::new(
                    "ended by another signal before everything was written",
                    "registrations that were answered are stored; call records and traces may lack their ends",
                ));
                announce::gone_if_it_can(data);
                std::process::exit(0);
            }
        }
    }

    fn reload_and_say(&mut self) {
        match self.reload() {
            Ok(()) => self.awaited.begin_reload(Instant::now()),
            Err(error) => {
                tracing::error!("reload refused, everything stays as it was: {error}");
                service_manager::ready();
            }
        }
    }

    /// The stores of users have said which domains they list, or could not say.
    fn domains_answered(&mut self, have_changed: bool) {
        self.are_domains_due |= have_changed;
        if std::mem::take(&mut self.is_reload_due) {
            self.reload_and_say();
        } else if self.are_domains_due {
            match self.take_over(self.config.clone()) {
                Ok(()) => tracing::info!(
                    domains = self.domains.len(),
                    "the domains that the store of users lists have changed"
                ),
                Err(error) => tracing::error!(
                    "the domains that the store of users lists have changed, and those before go on: {error}"
                ),
            }
        }
    }

    /// Reads configuration and certificates again, and by whom the system has names resolved.
    fn reload(&mut self) -> Result<(), Error> {
        let mut config = (self.source)
            .load_or("put the file back where it was at the start, and send SIGHUP again")?;
        let wanted = config.clone();
        let changed = config.keep_until_restart(&self.config);
        for key in &changed {
            tracing::warn!("`{key}` has changed: it takes effect at the next start");
        }
        warn_of_the_next_start(&wanted, &changed);
        self.take_over(config)?;
        self.dns.read_again();
        Ok(())
    }

    /// Goes by another configuration, and by the certificates and domains that there are. What
    /// can fail comes first; what is then changed cannot.
    fn take_over(&mut self, config: Config) -> Result<(), Error> {
        let domains = start::domains(&config, &self.data, &mut self.store)?;
        // Settings and certificates alike are made from what the listeners are to be.
        let mut planned = self.planned.clone();
        for (listener, given) in planned.iter_mut().zip(&config.listen) {
            listener.security = given.security.clone();
            listener.websocket = given.websocket.clone();
        }
        let bound = &self.bound;
        let settings = start::settings(&config, &domains, &planned, bound, &mut self.store)?;
        let fresh = Material::read(&config, &self.data, &domains, &planned, &self.tickets)?;
        self.identity.admits(&fresh)?;
        let traced = self.tracer.prepare(&config.log)?;

        // From here on nothing fails: what is taken over was read and found good.
        self.identity.replace(fresh)?;
        self.tickets.reloaded();
        let tickets = self.tickets.reporter(&config.tls, &self.identity.tickets);
        self.sources.set_tls(self.identity.shown(), tickets);
        for (listener, held) in planned.iter().zip(&self.websockets) {
            if let Some(held) = held {
                held.replace(setup::websocket_rules(listener, &domains));
            }
        }
        *self
            .peer_names
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(setup::peer_names(&config));
        self.tracer.take_over(traced);
        self.go_by(settings);
        self.hook.forget();
        if let Some(first) = domains.first()
            && let Err(error) = self.data.keep_domain(first)
        {
            tracing::warn!(
                "the default domain was not written to the data folder, so the next start may choose another: {error}"
            );
        }
        self.config = config;
        self.domains = domains;
        self.planned = planned;
        self.are_domains_due = false;
        Ok(())
    }

    /// Has the workers go by these settings.
    fn go_by(&mut self, settings: Settings) {
        self.settings = Arc::new(settings);
        self.control.reload(self.settings.clone());
    }

    /// Reads it again for commands that have changed it; they are answered when the workers go by
    /// it.
    fn read_people_for(&mut self, asked: Vec<Asked>) {
        match self.read_people() {
            Ok(()) => self.awaited.begin_people(Instant::now(), asked),
            Err(error) => PeopleAsked::answer(asked, &Err(error)),
        }
    }

    /// Tells who waits that the workers go by it, or that not all of them do.
    fn settle(&mut self) {
        let is_taken_over = self.control.is_taken_over();
        self.awaited.settle(is_taken_over, Instant::now());
    }

    /// Reads aliases, and what is written of users, again. All else stays as it is in force: a
    /// file that is wrong by now, such as a trunk's password, is the next reload's affair.
    fn read_people(&mut self) -> Result<(), Error> {
        let mut settings = Settings::clone(&self.settings);
        let hosts = Hosts::of(&self.config, &self.domains);
        settings.people = Arc::new(self.store.people(&settings.numbers, hosts)?);
        self.settings = Arc::new(settings);
        self.control.reload_people(self.settings.clone());
        Ok(())
    }

    /// Renews the server's own certificate where that is due. All else that handshakes are made
    /// from stays as it was read last: other files are a reload's affair.
    fn renew_certificate(&mut self) -> Result<(), Error> {
        self.identity.warn();
        let (data, domains) = (&self.data, &self.domains);
        if self.identity.renew_own(data, domains, &self.planned)? {
            let tickets = self
                .tickets
                .reporter(&self.config.tls, &self.identity.tickets);
            self.sources.set_tls(self.identity.shown(), tickets);
            tracing::info!("the server's own certificate was renewed");
        }
        Ok(())
    }

    fn renew_token_keys(&mut self) -> Result<(), Error> {
        let lifetime_s = self.config.proxy.dialog_token_lifetime_s;
        self.token_keys.renew(lifetime_s, clock::unix_ms() / 1_000)
    }

    /// Waits until nothing is under way, as long as the configuration allows
    /// or until a second signal comes. Whether that came.
    async fn drain(&mut self, signals: &mut Signals) -> bool {
        self.control.order(Phase::Draining);
        self.awaited.end_reload();
        let allowed = Duration::from_millis(self.config.drain_timeout_ms);
        service_manager::stopping(allowed + END_AFTER_DRAIN);
        tracing::info!(
            "draining: new calls are refused, what is under way has {} s to end",
            allowed.as_secs_f32()
        );
        let had_enough = self.drained(signals, Instant::now() + allowed).await;
        self.awaited.end();
        self.people_asked.close();
        had_enough
    }

    /// The same; meanwhile users and aliases that are changed or removed have their effect on the
    /// calls that go on, and records go into the file that is there.
    async fn drained(&mut self, signals: &mut Signals, deadline: Instant) -> bool {
        let mut step = tokio::time::interval(DRAIN_STEP);
        step.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_quiet = false;
        loop {
            tokio::select! {
                _ = step.tick() => {
                    self.settle();
                    let is_quiet = self.under_way() == (0, true);
                    // Twice, because what one worker has just given to another is in
                    // neither's report.
                    if is_quiet && was_quiet {
                        tracing::info!("drained");
                        return false;
                    }
                    was_quiet = is_quiet;
                }
                () = tokio::time::sleep_until(deadline) => {
                    self.warn_of_what_is_under_way("when the time was up");
                    return false;
                }
                asks = signals.next() => match asks {
                    Asks::End => {
                        self.warn_of_what_is_under_way("at the second signal");
                        return true;
                    }
                    Asks::Reload => {
                        self.recorder.reopen();
                        tracing::info!("call records go into the file that is there now; nothing else is read again, since the server ends");
                    }
                },
                asked = self.people_asked.next(), if !self.awaited.has_people() => {
                    self.read_people_for(asked);
                }
            }
        }
    }

    /// Requests that have no answer yet, or whose answer has no ACK; and whether all workers have
    /// said how many they have.
    fn under_way(&self) -> (usize, bool) {
        let snapshots = self.control.snapshots();
        let have_said = (snapshots.iter()).all(|snapshot| snapshot.unanswered.is_some());
        let said = snapshots.iter().filter_map(|snapshot| snapshot.unanswered);
        (said.sum(), have_said)
    }

    fn warn_of_what_is_under_way(&self, when: &str) {
        let (under_way, _) = self.under_way();
        tracing::warn!("{under_way} requests had no answer yet, or their answer no ACK, {when}");
    }

    fn end(mut self) -> Result<(), Error> {
        self.recorder.begin_end();
        self.control.order(Phase::Stop);
        ended("workers", || {
            for worker in self.workers.drain(..) {
                // A worker that panicked has ended the process already.
                let _ = worker.join();
            }
        });
        ended("trace", || self.tracer.end());
        ended("call records", || self.recorder.end());
        ended("hook", || self.hook.end());
        ended("ticket keys", || self.tickets.end());
        let figures = ended("store", || self.store.end());
        announce::gone(&self.data);
        tracing::info!(registrations = figures.saves, "ended");
        Ok(())
    }
}

/// Ends where the operator does not wait any longer for what is to be written: at the third signal.
async fn enough(signals: &mut Signals, was_second: bool) {
    if !was_second {
        signals.end().await;
        tracing::warn!("something is still being written; another signal ends that too");
    }
    signals.end().await;
}

/// Ends a part of the server, and says so where that keeps the process from ending: whoever
/// restarts it waits as long.
fn ended<T>(part: &str, end: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = end();
    let took = began.elapsed();
    if took > SLOW_END {
        tracing::warn!(part, took_ms = took.as_millis(), "a part was slow to end");
    }
    result
}

/// Says so where what takes effect at the next start would keep the server from it.
fn warn_of_the_next_start(wanted: &Config, changed: &[&str]) {
    let is_changed = |at: &str| changed.contains(&at.split('.').next().unwrap_or(at));
    for Fault { at, what, remedy } in places::faults(wanted) {
        if is_changed(&at) {
            tracing::warn!("the next start would fail: {at}: {what}; {remedy}");
        }
    }
    if is_changed("records")
        && let Err(error) = records::check(&wanted.records)
    {
        tracing::warn!("the next start would fail: {error}");
    }
}

/// When the domains that stores of users list are read again, where that is wanted.
fn poll_of_domains(users: &Users) -> Option<Interval> {
    let every = Duration::from_secs(users.domains_poll_s);
    let is_wanted = users.domains_from_store && !every.is_zero();
    is_wanted.then(|| {
        let mut interval = tokio::time::interval_at(Instant::now() + every, every);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    })
}

/// The next tick, which never comes where there is no interval.
async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => _ = interval.tick().await,
        None => std::future::pending().await,
    }
}
