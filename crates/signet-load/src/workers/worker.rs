//! A worker: waits for a controller and drives the part of a load that it is given.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use super::Allowed;
use super::cut::{Job, Rules};
use super::link::{Link, PipeLink, accept, say};
use super::member::SILENCE_MAX;
use super::session::Duty;
use super::token::Token;
use super::wire::{self, PROTOCOL, Standing, ToController, ToWorker};
use crate::app::{Output, try_drive_with};
use crate::crew::{Control, Failed};
use crate::settings::Settings;

/// How long it listens before it looks what its run tells.
const TURN: Duration = Duration::from_millis(20);
/// How often it tells how it stands.
const TELL: Duration = Duration::from_millis(250);
/// What a run tells and was not sent yet.
const TOLD_MAX: usize = 4_096;
/// Connections at once, those whose handshakes are under way among them.
const CONNECTIONS_MAX: usize = 16;
/// How far ahead a beginning may be told.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// Where a worker waits.
#[derive(Clone, Debug)]
pub enum ControlledBy {
    /// At a port, for whoever has the token.
    Port {
        /// The address.
        listen: SocketAddr,
        /// The file with the token; it is made where there is none.
        token: PathBuf,
    },
    /// Whoever started it is its controller.
    Stdio,
}

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Where it waits.
    pub place: ControlledBy,
    /// Whom it may load. One that is controlled at its standard input may load anybody: whoever
    /// started it could do so without it.
    pub allowed: Vec<Allowed>,
    /// The highest rate that it takes.
    pub rate_max_per_s: Option<f64>,
    /// The version of the program.
    pub program_version: String,
}

/// Works until it is interrupted, or its controller is gone. `tell` is called with lines for
/// whoever watches it on its machine.
///
/// # Errors
/// Where it cannot listen, or the token is none.
pub(crate) fn serve(
    options: &WorkerOptions,
    control: &Control,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<(), String> {
    let rules = Rules {
        allowed: match &options.place {
            ControlledBy::Port { .. } => Some(options.allowed.clone()),
            ControlledBy::Stdio if options.allowed.is_empty() => None,
            ControlledBy::Stdio => Some(options.allowed.clone()),
        },
        rate_max_per_s: options.rate_max_per_s,
    };
    let office = Office {
        rules,
        program_version: options.program_version.clone(),
        is_taken: Arc::new(AtomicBool::new(false)),
        control: control.clone(),
    };
    match &options.place {
        ControlledBy::Stdio => {
            let mut link = PipeLink::own();
            office.attend(&mut link)
        }
        ControlledBy::Port { listen, token } => {
            let (read, is_new) = Token::read_or_make(token)?;
            if is_new {
                tell(&format!(
                    "made a token; copy {} to the controller",
                    token.display()
                ));
            }
            let config = read.server()?;
            let listener = TcpListener::bind(listen)
                .map_err(|error| format!("cannot listen on {listen}: {error}"))?;
            let at = listener.local_addr().map_err(|error| error.to_string())?;
            tell(&format!("waiting on {at}"));
            office.wait(&listener, &config, tell)
        }
    }
}

/// What all connections of a worker have in common.
struct Office {
    rules: Rules,
    program_version: String,
    /// Whether there is a load: one at a time.
    is_taken: Arc<AtomicBool>,
    control: Control,
}

impl Office {
    /// Takes connections, each on a thread of its own.
    fn wait(
        &self,
        listener: &TcpListener,
        config: &Arc<ServerConfig>,
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot wait for controllers: {error}");
        listener.set_nonblocking(true).map_err(failed)?;
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !self.control.is_interrupted() {
                let (socket, from) = match listener.accept() {
                    Ok(accepted) => accepted,
                    Err(_) => {
                        std::thread::sleep(TURN);
                        continue;
                    }
                };
                if count.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                    count.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (count, config) = (&count, Arc::clone(config));
                scope.spawn(move || {
                    if let Err(why) = self.serve_one(socket, config) {
                        tell(&format!("{from}: {why}"));
                    }
                    count.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Ok(())
    }

    fn serve_one(&self, socket: TcpStream, config: Arc<ServerConfig>) -> Result<(), String> {
        socket
            .set_nonblocking(false)
            .map_err(|error| error.to_string())?;
        let mut link = accept(socket, config)?;
        self.attend(&mut link)
    }

    /// Serves one controller to its end.
    fn attend(&self, link: &mut dyn Link) -> Result<(), String> {
        let mut post = Post {
            office: self,
            duty: Duty::New,
            began: Instant::now(),
            run: None,
            standing: Box::default(),
            told: Instant::now(),
        };
        let mut heard = Instant::now();
        loop {
            let line = match link.receive(TURN) {
                // So a controller says that it needs this worker no more.
                Err(_) if post.duty == Duty::Idle => return Ok(()),
                received => received?,
            };
            if let Some(line) = line {
                heard = Instant::now();
                post.take(link, wire::read(&line)?)?;
            } else if heard.elapsed() > SILENCE_MAX {
                // A load that nobody can end any more must not go on.
                return Err(format!(
                    "its controller has said nothing for {} s",
                    SILENCE_MAX.as_secs()
                ));
            }
            post.tell(link)?;
            if self.control.is_interrupted() {
                match &post.run {
                    Some(run) => run.stop(self.control.is_to_stop()),
                    None => return Ok(()),
                }
            }
        }
    }
}

/// One controller, and what it has asked for.
struct Post<'o> {
    office: &'o Office,
    duty: Duty,
    /// Where its clock begins.
    began: Instant,
    run: Option<Run>,
    /// How the run stands.
    standing: Box<Standing>,
    told: Instant,
}

impl Post<'_> {
    fn take(&mut self, link: &mut dyn Link, message: ToWorker) -> Result<(), String> {
        self.duty = match self.duty.after(&message) {
            Ok(duty) => duty,
            Err(why) => {
                say(link, &ToController::Refused { why: why.clone() })?;
                return Err(why);
            }
        };
        match message {
            ToWorker::Hello { .. } => say(
                link,
                &ToController::Hello {
                    protocol: PROTOCOL,
                    program: self.office.program_version.clone(),
                    cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
                },
            ),
            ToWorker::Ping { round } => {
                let since = self.began.elapsed().as_nanos();
                let clock_ns = u64::try_from(since).unwrap_or(u64::MAX);
                say(link, &ToController::Pong { round, clock_ns })
            }
            ToWorker::Job(job) => match self.begin(*job) {
                Ok(run) => {
                    self.run = Some(run);
                    say(link, &ToController::Accepted)
                }
                Err(why) => {
                    self.duty = Duty::Idle;
                    say(link, &ToController::Refused { why })
                }
            },
            ToWorker::Start { at_ns } => {
                let at = self.began + Duration::from_nanos(at_ns);
                let now = Instant::now();
                if at > now + AHEAD_MAX {
                    return Err(format!(
                        "the load would begin more than {} s from now; start it again",
                        AHEAD_MAX.as_secs()
                    ));
                }
                if let Some(run) = &self.run {
                    run.control.begin_at(at);
                }
                Ok(())
            }
            ToWorker::Stop { at_once } => {
                if let Some(run) = &self.run {
                    run.stop(at_once);
                }
                Ok(())
            }
        }
    }

    fn begin(&self, job: Job) -> Result<Run, String> {
        let (checks_self, bounds) = (job.checks_self, job.bounds);
        let settings = job.settings(&self.office.rules)?;
        let taken = Taken::take(&self.office.is_taken)
            .ok_or("this worker drives a load of another controller")?;
        let output = Output {
            program_version: self.office.program_version.clone(),
            quiet: true,
            check_self: checks_self,
            bounds,
            ..Output::default()
        };
        Run::start(settings, output, taken)
    }

    /// Passes on what the run tells.
    fn tell(&mut self, link: &mut dyn Link) -> Result<(), String> {
        while let Some(message) = self.run.as_ref().and_then(|run| run.told.try_recv().ok()) {
            self.told = Instant::now();
            match &message {
                ToController::Prepared => self.duty = Duty::Prepared,
                ToController::Tick(standing) => self.standing.clone_from(standing),
                ToController::Done(_) | ToController::Failed { .. } => {
                    self.duty = Duty::Idle;
                    self.run = None;
                }
                _ => {}
            }
            say(link, &message)?;
        }
        if self.duty.is_busy() && self.told.elapsed() >= TELL {
            // While the run has nothing to say, as when it looks what it reaches alone.
            self.told = Instant::now();
            say(link, &ToController::Tick(self.standing.clone()))?;
        }
        Ok(())
    }
}

/// That a worker has a load; it is free again with the end of this value.
struct Taken(Arc<AtomicBool>);

impl Taken {
    fn take(is_taken: &Arc<AtomicBool>) -> Option<Self> {
        let was_taken = is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Self(Arc::clone(is_taken)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A load under way. It ends with this value.
struct Run {
    control: Control,
    told: Receiver<ToController>,
    thread: Option<JoinHandle<()>>,
}

impl Run {
    fn start(settings: Settings, output: Output, taken: Taken) -> Result<Self, String> {
        let control = Control::with_gate();
        let (tell, told) = sync_channel(TOLD_MAX);
        let thread = std::thread::Builder::new().name("part".to_owned()).spawn({
            let control = control.clone();
            move || {
                let end = drive(settings, &output, &control, &tell);
                // Free before the controller hears of it: it may have another job.
                drop(taken);
                // Nobody listens any more where this fails.
                let _ = tell.send(end);
            }
        });
        Ok(Self {
            control,
            told,
            thread: Some(thread.map_err(|error| format!("cannot start a thread: {error}"))?),
        })
    }

    /// Lets it end, or ends it.
    fn stop(&self, at_once: bool) {
        if at_once {
            self.control.interrupt();
            self.control.interrupt();
        } else if !self.control.is_interrupted() {
            self.control.interrupt();
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop(true);
        // What it still tells is for nobody.
        while self
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            let _ = self.told.recv_timeout(TURN);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Drives it; what is to be said of its end.
fn drive(
    settings: Settings,
    output: &Output,
    control: &Control,
    tell: &SyncSender<ToController>,
) -> ToController {
    let mut is_told = false;
    let mut ticked: Option<Instant> = None;
    let driven = try_drive_with(settings, output, control, &mut |progress| {
        // A second is waited with, since it counts; how it stands is told again anyway.
        for part in progress.parts {
            let _ = tell.send(ToController::Second(part.clone()));
        }
        if progress.is_prepared && !std::mem::replace(&mut is_told, true) {
            let _ = tell.send(ToController::Prepared);
        }
        if ticked.is_none_or(|at| at.elapsed() >= TELL) {
            ticked = Some(Instant::now());
            let _ = tell.try_send(ToController::Tick(Box::new(Standing::of(progress))));
        }
    });
    match driven {
        Ok(result) => ToController::Done(Box::new(result)),
        Err(Failed::Usage(why) | Failed::Run(why)) => ToController::Failed { why },
    }
}
