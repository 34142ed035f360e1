//! The loop: sockets, clock and calls.

use std::collections::HashMap;
use std::io::Write;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use sip_msg::{ConnId, Flow, Target};
use sip_net::{CloseReason, Net, NetEvent, SendError};
use sip_scenario::{CallPath, Calls, Counter, Event, Outputs, Role, SendFailure};

use crate::args::Args;
use crate::commands::Commands;
use crate::control::{self, Keyboard, Wish};
use crate::error::{Refusal, exit};
use crate::pacing::Pacing;
use crate::paths::{self, Paths};
use crate::report::Report;
use crate::setup;
use crate::traces::Traces;
use crate::twins::Twins;

mod connection;
mod third_party;

/// Calls begun before sockets are looked at again.
const STARTS_MAX: u64 = 256;
/// The longest sleep.
const SLEEP_MS: u64 = 200;
/// The longest sleep while commands wait for a place.
const COMMANDS_MS: u64 = 10;
/// How long the last bytes may take to leave.
const DRAIN_MS: u64 = 1_000;

/// Where the run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// No more calls; it ends with the last of them.
    Ends,
    /// It ends at once.
    Over,
}

/// A run.
pub(crate) struct Engine {
    args: Args,
    net: Net,
    calls: Calls,
    out: Outputs,
    pacing: Pacing,
    paths: Paths,
    traces: Traces,
    report: Report,
    commands: Commands,
    twins: Twins,
    /// Calls whose command could not be given to another instance.
    unheard: Vec<u64>,
    wishes: Receiver<Wish>,
    /// Held so that it is given back at the end.
    _keyboard: Option<Keyboard>,
    began: Instant,
    state: State,
    begun: u64,
    open_max: u64,
    is_client: bool,
    /// Ended by the clock (`-timeout`).
    is_timed_out: bool,
    /// Ended by the scenario (`stop_now`).
    is_stopped_now: bool,
    /// Ended by a signal or a key.
    is_stopped: bool,
    fatal: Option<String>,
    next_increase_ns: u64,
    reconnect_at_ns: u64,
    /// Connections that are being opened for calls: to where, and since when.
    opening: HashMap<ConnId, (Target, u64)>,
    opened: Vec<Flow>,
    closed: Vec<(ConnId, CloseReason)>,
    failed: Vec<(u64, SendError)>,
}

impl Engine {
    /// Makes everything ready; nothing was sent when this fails.
    pub(crate) fn new(args: Args) -> Result<Self, Refusal> {
        // Before any thread is there, so that all threads hold them back.
        let signals = control::hold_signals();
        let setup = setup::set_up(&args)?;
        let net = Net::new(0, setup.net, setup.sockets)
            .map_err(|error| Refusal::fatal(format!("sockets: {error}")))?;
        let wishes = control::listen(signals, args.reads_keys, &net.waker());
        let twins = setup.twins.map(|plan| plan.start(&net.waker()));
        let mut traces = Traces::open(&args, setup.calls.program(), setup.start_unix_us)?;
        for warning in &setup.warnings {
            traces.error(0, warning);
        }
        if let Some(what) = traces.take_failure() {
            return Err(Refusal::fatal(what));
        }
        let report = Report::new(
            &args,
            &setup.calls,
            &setup.locals,
            setup.send_to,
            setup.start_unix_us,
        )?;
        let is_client = setup.calls.program().role() == Role::Client;
        let interval_ms = args.rate_interval_ms.unwrap_or(args.stat_period_ms);
        Ok(Self {
            pacing: Pacing::new(args.rate, args.rate_period_ms, 0),
            paths: Paths::new(
                args.transport,
                args.mode,
                setup.send_to,
                setup.tls_name,
                setup.locals.len(),
            ),
            open_max: args.open_calls(setup.calls.program().pauses_ms(args.pause_ms), args.rate),
            net,
            calls: setup.calls,
            out: Outputs::default(),
            traces,
            report,
            commands: Commands::default(),
            twins: twins.unwrap_or_default(),
            unheard: Vec::new(),
            wishes,
            _keyboard: args.reads_keys.then(Keyboard::take).flatten(),
            began: setup.began,
            state: State::Runs,
            begun: 0,
            is_client,
            is_timed_out: false,
            is_stopped_now: false,
            is_stopped: false,
            fatal: None,
            next_increase_ns: interval_ms.saturating_mul(1_000_000),
            reconnect_at_ns: 0,
            opening: HashMap::new(),
            opened: Vec::new(),
            closed: Vec::new(),
            failed: Vec::new(),
            args,
        })
    }

    /// Runs to the end; gives the exit code.
    pub(crate) fn run(mut self) -> Result<u8, Refusal> {
        let now_ns = self.now_ns();
        self.pacing.begin_anew(self.begun, now_ns);
        self.report.begin(&self.calls, &self.pacing, now_ns);
        // As SIPp: whether somebody listens is known before the first call.
        if self.calls.program().role() != Role::Server {
            self.is_connected();
        }
        let mut polled = Ok(());
        while self.state != State::Over {
            let sleep = self.turn();
            if self.state != State::Over {
                polled = self.poll(sleep);
                if polled.is_err() {
                    self.state = State::Over;
                }
            }
        }
        let now_ns = self.now_ns();
        // As SIPp: whoever leaves for a fatal reason, or by stop_now, ends no call.
        if self.fatal.is_none() && !self.is_stopped_now {
            self.calls.abandon(now_ns, &mut self.out);
        } else {
            self.calls.stop();
        }
        self.deliver();
        std::mem::take(&mut self.twins).finish();
        let polled = polled.and_then(|()| self.drain());
        // What was found out is kept, whatever else went wrong.
        let now_ns = self.now_ns();
        let undone = [
            self.commands.finish(),
            self.report.finish(&self.calls, &self.pacing, now_ns),
            self.traces.finish(&self.calls, now_ns),
        ];
        let undone: Vec<String> = undone.into_iter().flatten().collect();
        for what in &undone {
            // Where nobody reads, there is nobody to tell.
            let _ = writeln!(std::io::stderr().lock(), "{what}");
        }
        polled?;
        if let Some(what) = self.fatal {
            return Err(Refusal::fatal(what));
        }
        Ok(match self.code() {
            exit::OK if !undone.is_empty() => exit::FATAL,
            code => code,
        })
    }

    fn code(&self) -> u8 {
        let stats = self.calls.stats();
        // SIPp's, but that a run that was stopped with nothing to show for it says so.
        let had_calls = self.is_client || self.calls.created() > 0;
        let is_cut_short = self.is_timed_out || (self.is_stopped && had_calls);
        if self.is_stopped_now {
            exit::INTERNAL
        } else if stats.get(Counter::Failed) > 0 {
            exit::FAILED
        } else if is_cut_short && stats.get(Counter::Successful) == 0 {
            exit::INTERNAL
        } else {
            exit::OK
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// All that the clock asks for; gives how long to sleep.
    fn turn(&mut self) -> Duration {
        let now_ns = self.now_ns();
        self.hear_wishes(now_ns);
        self.keep_time(now_ns);
        let hears_more = self.hear_twins();
        self.calls.advance(now_ns, &mut self.out);
        let is_behind = self.start_calls(now_ns) || hears_more;
        self.deliver();
        self.report.tick(&mut self.calls, &self.pacing, now_ns);
        self.traces.tick(&self.calls, now_ns);
        self.traces.flush();
        if let Some(what) = self.traces.take_failure() {
            self.fail(what);
        }
        self.end_if_done();
        if is_behind {
            return Duration::ZERO;
        }
        self.sleep(now_ns)
    }

    fn sleep(&self, now_ns: u64) -> Duration {
        let mut until_ns = now_ns.saturating_add(SLEEP_MS * 1_000_000);
        if let Some(ms) = self.calls.next_deadline_ms() {
            until_ns = until_ns.min(ms.saturating_mul(1_000_000));
        }
        let may_start = self.is_client
            && self.state == State::Runs
            && self.args.users.is_none()
            && !self.paths.is_opening()
            && self.open() < self.open_max;
        if may_start && let Some(at) = self.pacing.due_at_ns(self.begun + 1) {
            until_ns = until_ns.min(at.max(self.reconnect_at_ns));
        }
        if self.commands.has_waiting() {
            until_ns = until_ns.min(now_ns.saturating_add(COMMANDS_MS * 1_000_000));
        }
        if let Some(at) = self.report.next_ns() {
            until_ns = until_ns.min(at);
        }
        Duration::from_nanos(until_ns.saturating_sub(now_ns))
    }

    /// Calls under way, those included whose connections are being opened.
    fn open(&self) -> u64 {
        (self.calls.len() + self.opening.len()) as u64
    }

    /// Begins what is due; gives whether more is.
    fn start_calls(&mut self, now_ns: u64) -> bool {
        if !self.is_client || self.state != State::Runs || now_ns < self.reconnect_at_ns {
            return false;
        }
        let open = self.open();
        let room = self.open_max.saturating_sub(open);
        let due = match self.args.users {
            Some(users) if self.pacing.is_paused() => u64::from(users).min(open),
            Some(users) => self.begun + u64::from(users).saturating_sub(open),
            None => self.begun + self.pacing.take(self.begun, room, now_ns),
        };
        let mut count = due.saturating_sub(self.begun).min(room);
        if let Some(max) = self.args.calls_max {
            count = count.min(max.saturating_sub(self.begun));
        }
        if count > 0 && !self.is_connected() {
            return false;
        }
        let is_behind = count > STARTS_MAX;
        for _ in 0..count.min(STARTS_MAX) {
            let Some(target) = self.take_path() else {
                return false;
            };
            // The call's own time, so that the first does not pay for the last.
            let now_ns = self.now_ns();
            if self.paths.opens_first() && target.conn.is_some() {
                self.opening.insert(target.conn, (target, now_ns));
                self.begun += 1;
                continue;
            }
            let path = CallPath {
                target,
                local: None,
                since_ns: now_ns,
            };
            if self.calls.start(now_ns, path, &mut self.out).is_err() {
                self.pacing.set_full(true);
                return false;
            }
            self.begun += 1;
        }
        self.pacing.set_full(self.open() >= self.open_max);
        is_behind
    }

    /// Ends the run for a fatal reason: the first that there is.
    fn fail(&mut self, why: String) {
        if self.state != State::Over {
            self.fatal = Some(why);
            self.state = State::Over;
        }
    }

    fn set_rate(&mut self, rate: f64, now_ns: u64) {
        self.pacing.set_rate(rate, self.begun, now_ns);
        let pauses_ms = self.calls.program().pauses_ms(self.args.pause_ms);
        self.open_max = self.args.open_calls(pauses_ms, self.pacing.rate());
        self.report.set_open_max(self.open_max);
    }

    fn poll(&mut self, sleep: Duration) -> Result<(), Refusal> {
        let Self {
            net,
            calls,
            out,
            traces,
            opened,
            closed,
            failed,
            began,
            ..
        } = self;
        let polled = net.poll(Some(sleep), |event| match event {
            NetEvent::Datagram { flow, bytes } | NetEvent::Message { flow, bytes } => {
                let now_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                traces.received(now_ns, bytes);
                calls.receive(now_ns, &flow, bytes, out);
            }
            NetEvent::Opened { flow } => opened.push(flow),
            NetEvent::Closed { conn, reason } => closed.push((conn, reason)),
            NetEvent::SendFailed { cookie, error } => failed.push((cookie, error)),
            NetEvent::Malformed { flow, error, .. } => {
                let what = format!("what came from {} is no SIP: {error}", flow.remote);
                calls.warn(what, out);
            }
            _ => {}
        });
        polled.map_err(|error| Refusal::fatal(format!("sockets: {error}")))?;
        self.handle_opened();
        self.handle_failures();
        self.deliver();
        Ok(())
    }

    /// Begins the calls whose connections are open.
    fn handle_opened(&mut self) {
        for flow in std::mem::take(&mut self.opened) {
            let was_up = self.paths.is_up();
            self.paths.opened(flow.conn);
            if self.paths.is_up() && !was_up && self.begun == 0 {
                // Until now no call could begin.
                let now_ns = self.now_ns();
                self.pacing.begin_anew(0, now_ns);
            }
            if let Some((target, since_ns)) = self.opening.remove(&flow.conn) {
                let local = Some(flow.local);
                self.begin_opened(CallPath {
                    target,
                    local,
                    since_ns,
                });
            }
        }
    }

    fn begin_opened(&mut self, path: CallPath) {
        let now_ns = self.now_ns();
        let conn = path.target.conn;
        if self.calls.start(now_ns, path, &mut self.out).is_err() && conn.is_some() {
            self.net.close(conn, false);
        }
    }

    fn handle_failures(&mut self) {
        let now_ns = self.now_ns();
        for (cookie, error) in std::mem::take(&mut self.failed) {
            if let Some(failure) = paths::failure(error) {
                self.calls
                    .send_failed(now_ns, cookie, failure, &mut self.out);
            }
        }
        for (conn, reason) in std::mem::take(&mut self.closed) {
            if let Some((mut target, since_ns)) = self.opening.remove(&conn) {
                // Its call fails with the cause as soon as it sends.
                target.conn = ConnId::NONE;
                self.begin_opened(CallPath {
                    target,
                    local: None,
                    since_ns,
                });
                continue;
            }
            let was_up = self.paths.is_up();
            let is_shared = self.paths.closed(conn);
            if is_shared && self.state != State::Over {
                let broke = !was_up || reason == CloseReason::Broken;
                self.handle_lost_connection(&format!("{reason:?}"), broke);
            }
            // As SIPp: a call does not outlive its connection.
            let is_kept = is_shared && !self.args.reconnect_closes;
            if !is_kept && reason != CloseReason::Asked {
                self.calls
                    .path_closed(now_ns, conn, paths::closed(reason), &mut self.out);
            }
        }
    }

    /// Sends what is to be sent and tells what happened.
    fn deliver(&mut self) {
        if !self.out.outbox.sends.is_empty() {
            if self.traces.wants_messages() {
                let now_ns = self.now_ns();
                for send in &self.out.outbox.sends {
                    let bytes = self.out.outbox.bytes.get(send.start..send.end);
                    self.traces.sent(now_ns, bytes.unwrap_or_default());
                }
            }
            self.net.send_outbox(&self.out.outbox);
            self.net.flush();
        }
        self.out.outbox.clear();
        if self.out.events.is_empty() {
            return;
        }
        let now_ns = self.now_ns();
        let mut events = std::mem::take(&mut self.out.events);
        for event in events.drain(..) {
            self.handle(event, now_ns);
        }
        self.out.events = events;
        for cookie in std::mem::take(&mut self.unheard) {
            self.calls
                .send_failed(now_ns, cookie, SendFailure::Command, &mut self.out);
        }
    }

    fn handle(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Ended { target, .. } => {
                self.paths.give_back(&target, &mut self.net);
                self.traces.call_ended();
            }
            Event::Log(text) => self.traces.log(&text),
            Event::Warning(text) => self.traces.error(now_ns, &text),
            Event::ErrorCode(code) => self.traces.error_code(now_ns, code),
            Event::Fatal(text) => {
                self.traces.error(now_ns, &text);
                self.fail(text);
            }
            Event::Command(line) => {
                if let Err(why) = self.commands.run(line) {
                    self.traces.error(now_ns, &why);
                }
            }
            Event::ToTwin { cookie, peer, text } => {
                self.traces.command(now_ns, &text, true);
                if !self.twins.send(peer, text) {
                    self.unheard.push(cookie);
                }
            }
            Event::StopNow => {
                self.is_stopped_now |= self.state != State::Over;
                self.state = State::Over;
            }
            Event::StopGracefully => self.end_softly(),
            Event::Rtt { rtd, ns } => self.traces.rtt(now_ns, rtd, ns),
        }
    }

    fn end_softly(&mut self) {
        if self.state == State::Runs {
            self.state = State::Ends;
            self.calls.set_accepting(false);
        }
    }

    fn end_if_done(&mut self) {
        if let Some(max) = self.args.calls_max
            && self.calls.created() + self.opening.len() as u64 >= max
        {
            self.end_softly();
        }
        if self.state == State::Ends && self.calls.is_empty() && self.opening.is_empty() {
            self.state = State::Over;
        }
    }

    fn hear_wishes(&mut self, now_ns: u64) {
        while let Ok(wish) = self.wishes.try_recv() {
            match wish {
                // The first is soft also where no more calls are to come anyway.
                Wish::Quit if !self.is_stopped => {
                    self.is_stopped = true;
                    self.end_softly();
                }
                Wish::Quit | Wish::Stop => {
                    self.is_stopped = true;
                    self.state = State::Over;
                }
                Wish::Screen(screen) => self.report.show(screen),
                Wish::Faster(steps) => {
                    let rate = self.pacing.rate() + f64::from(steps) * self.args.rate_scale;
                    self.set_rate(rate, now_ns);
                }
                Wish::Pause => {
                    let paused = !self.pacing.is_paused();
                    self.pacing.set_paused(paused, self.begun, now_ns);
                }
                Wish::Dump => self.report.dump(&self.calls, &self.pacing, now_ns),
            }
        }
    }

    /// `-timeout` and `-rate_increase`.
    fn keep_time(&mut self, now_ns: u64) {
        if let Some(ms) = self.args.timeout_ms
            && now_ns >= ms.saturating_mul(1_000_000)
            && self.state != State::Over
        {
            self.is_timed_out = true;
            if self.args.timeout_error {
                self.fail(format!("the time of {ms} ms is over (-timeout_error)"));
            } else {
                self.end_softly();
            }
        }
        if self.args.rate_increase > 0.0 && now_ns >= self.next_increase_ns {
            let interval_ms = self
                .args
                .rate_interval_ms
                .unwrap_or(self.args.stat_period_ms);
            self.next_increase_ns = now_ns.saturating_add(interval_ms.saturating_mul(1_000_000));
            let rate = self.pacing.rate() + self.args.rate_increase;
            if self.args.rate_max > 0.0 && rate > self.args.rate_max {
                self.set_rate(self.args.rate_max, now_ns);
                if self.args.rate_quits {
                    self.end_softly();
                }
            } else {
                self.set_rate(rate, now_ns);
            }
        }
        self.commands.reap();
    }

    /// Lets the last bytes leave.
    fn drain(&mut self) -> Result<(), Refusal> {
        self.net.flush();
        self.net.close_all(true);
        let until = Instant::now() + Duration::from_millis(DRAIN_MS);
        while self.net.has_unsent() && Instant::now() < until {
            self.poll(Duration::from_millis(10))?;
        }
        Ok(())
    }
}
