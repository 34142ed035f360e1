//! The relay: sockets and a clock around lines, in one thread.

mod alarms;
mod datagrams;
mod pair;
mod shared;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use mio::{Events, Poll, Token, Waker};

use crate::Error;
use crate::command::RelayCommand;
use crate::counts::{Connections, Counts, REPORT_FORMAT, REPORT_VERSION, Report};
use crate::direction::Direction;
use crate::settings::{DelaySettings, Transport};
use alarms::{Alarms, Wake};
use datagrams::Datagrams;
use shared::{CALLED, CALLER, Shared};
use streams::Streams;

const LISTENER: Token = Token(0);
const TIMER: Token = Token(1);
const WAKER: Token = Token(2);
/// Sockets of connections are numbered from here.
const TOKENS_BEFORE: usize = 3;
/// Events of one turn.
const EVENTS: usize = 1_024;
/// Commands that wait to be obeyed.
const COMMANDS_MAX: usize = 64;
/// The most that one read gives.
const READ_BYTES: usize = 65_536;

/// A distance between two programs. See [`Relay::run`].
pub struct Relay {
    settings: DelaySettings,
    poll: Poll,
    shared: Shared,
    carrier: Carrier,
    commands: Receiver<RelayCommand>,
    handle: Handle,
    listen: SocketAddr,
}

/// Tells a relay what to do, from another thread.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: SyncSender<RelayCommand>,
    waker: Arc<Waker>,
}

impl Handle {
    /// Sends it a command; nothing happens where it has ended. Blocks while too many commands wait.
    pub fn send(&self, command: RelayCommand) {
        if self.commands.send(command).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// Why a relay reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It was asked to.
    Asked,
    /// It was time.
    Interval,
}

enum Carrier {
    Streams(Streams),
    Datagrams(Datagrams),
}

impl Relay {
    /// Listens. What connects waits for [`Relay::run`].
    ///
    /// # Errors
    /// Settings that contradict themselves, and an address that cannot be listened on; with
    /// a remedy.
    pub fn bind(settings: &DelaySettings) -> Result<Self, Error> {
        settings.check()?;
        let failed = |error: std::io::Error| {
            Error::new(
                format!("the relay cannot start: {error}"),
                "raise the limit of open files",
            )
        };
        let poll = Poll::new().map_err(failed)?;
        let registry = poll.registry().try_clone().map_err(failed)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(failed)?);
        let direction =
            |side: usize| Direction::new(settings.conditions, settings.seed * 2 + side as u64);
        let shared = Shared {
            alarms: Alarms::new(&registry, TIMER)?,
            registry,
            counts: Counts::new(),
            directions: [direction(CALLER), direction(CALLED)],
            held_bytes: 0,
            scratch: vec![0; READ_BYTES],
            begun: Instant::now(),
        };
        let carrier = match settings.transport {
            Transport::Tcp => {
                Carrier::Streams(Streams::bind(settings.listen, settings.to, &shared)?)
            }
            Transport::Udp => {
                Carrier::Datagrams(Datagrams::bind(settings.listen, settings.to, &shared)?)
            }
        };
        let listen = match &carrier {
            Carrier::Streams(streams) => streams.local_addr(),
            Carrier::Datagrams(datagrams) => datagrams.local_addr(),
        };
        let (sender, commands) = sync_channel(COMMANDS_MAX);
        Ok(Self {
            settings: settings.clone(),
            poll,
            shared,
            carrier,
            commands,
            handle: Handle {
                commands: sender,
                waker,
            },
            listen: listen.map_err(failed)?,
        })
    }

    /// Where it listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.listen
    }

    /// Tells it what to do while it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Relays until it is told to stop or its time is over, and tells what passed. Reports
    /// that are asked for meanwhile go to `told`.
    ///
    /// # Errors
    /// The kernel's, of its timer or its events.
    pub fn run(mut self, mut told: impl FnMut(&Report, Occasion)) -> Result<Report, Error> {
        let now_ns = self.shared.now_ns();
        if let Some(duration_ns) = self.settings.duration_ns {
            self.shared.alarms.set(now_ns + duration_ns, Wake::Stop);
        }
        if let Some(every_ns) = self.settings.report_every_ns {
            self.shared.alarms.set(now_ns + every_ns, Wake::Report);
        }
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let has_more = self.carrier.go_on(&mut self.shared);
            if self.ring(&mut told) {
                return Ok(self.report());
            }
            let is_armed = self.shared.alarms.arm(self.shared.now_ns())?;
            let at_once = (has_more || !is_armed).then_some(std::time::Duration::ZERO);
            match self.poll.poll(&mut events, at_once) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    return Err(Error::new(
                        format!("cannot wait for events of the sockets: {error}"),
                        "start it again",
                    ));
                }
                _ => {}
            }
            for event in &events {
                match event.token() {
                    TIMER => self.shared.alarms.rang(),
                    WAKER => {}
                    LISTENER => self.carrier.arrive(&mut self.shared),
                    _ => self.carrier.note(event, &mut self.shared),
                }
                // What is due does not wait for what comes.
                if self.ring(&mut told) {
                    return Ok(self.report());
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                match command {
                    RelayCommand::Stop => return Ok(self.report()),
                    RelayCommand::Report => told(&self.report(), Occasion::Asked),
                    RelayCommand::Change(change) => {
                        for direction in &mut self.shared.directions {
                            let mut conditions = *direction.conditions();
                            change.apply(&mut conditions);
                            direction.set(conditions);
                        }
                    }
                }
            }
        }
    }

    /// Does what is due; true where that is to end.
    fn ring(&mut self, told: &mut impl FnMut(&Report, Occasion)) -> bool {
        loop {
            let now_ns = self.shared.now_ns();
            let Some((at_ns, wake)) = self.shared.alarms.pop_due(now_ns) else {
                return false;
            };
            match wake {
                Wake::Connect(key) => self.carrier.connect(key, &mut self.shared),
                Wake::Line(key, line) => self.carrier.ring(key, line, at_ns, &mut self.shared),
                Wake::Accept => self.carrier.arrive(&mut self.shared),
                Wake::Stop => return true,
                Wake::Report => {
                    told(&self.report(), Occasion::Interval);
                    if let Some(every_ns) = self.settings.report_every_ns {
                        self.shared.alarms.set(now_ns + every_ns, Wake::Report);
                    }
                }
            }
        }
    }

    fn report(&self) -> Report {
        let counts = &self.shared.counts;
        Report {
            format: REPORT_FORMAT,
            version: REPORT_VERSION,
            transport: self.settings.transport,
            listen: self.listen,
            to: self.settings.to,
            elapsed_ns: self.shared.now_ns(),
            conditions: *self.shared.directions[CALLER].conditions(),
            connections: Connections {
                open: self.carrier.open() as u64,
                ..counts.connections
            },
            there: counts.traffic[CALLER],
            back: counts.traffic[CALLED],
            round_trips: counts.round_trips,
            held_bytes: self.shared.held_bytes as u64,
            late: counts.late(),
        }
    }
}

impl Carrier {
    fn arrive(&mut self, shared: &mut Shared) {
        match self {
            Self::Streams(streams) => streams.accept(shared),
            Self::Datagrams(datagrams) => datagrams.receive(shared),
        }
    }

    fn note(&mut self, event: &mio::event::Event, shared: &mut Shared) {
        match self {
            Self::Streams(streams) => streams.note(event, shared),
            Self::Datagrams(datagrams) => datagrams.note(event.token(), shared),
        }
    }

    fn connect(&mut self, key: usize, shared: &mut Shared) {
        if let Self::Streams(streams) = self {
            streams.connect(key, shared);
        }
    }

    fn ring(&mut self, key: usize, line: usize, at_ns: u64, shared: &mut Shared) {
        match self {
            Self::Streams(streams) => streams.ring(key, line, at_ns, shared),
            Self::Datagrams(datagrams) => datagrams.ring(key, line, at_ns, shared),
        }
    }

    fn go_on(&mut self, shared: &mut Shared) -> bool {
        match self {
            Self::Streams(streams) => streams.go_on(shared),
            Self::Datagrams(datagrams) => datagrams.go_on(shared),
        }
    }

    fn open(&self) -> usize {
        match self {
            Self::Streams(streams) => streams.open(),
            Self::Datagrams(datagrams) => datagrams.open(),
        }
    }
}

fn cannot_listen(listen: SocketAddr, error: &std::io::Error) -> Error {
    let remedy = match error.kind() {
        std::io::ErrorKind::AddrInUse => "choose another port, or end what listens there",
        std::io::ErrorKind::AddrNotAvailable => "choose an address of this machine",
        std::io::ErrorKind::PermissionDenied => "choose a port above 1023",
        _ => "choose another address",
    };
    Error::new(format!("cannot listen on {listen}: {error}"), remedy)
}
