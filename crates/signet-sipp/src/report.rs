//! What is shown and kept of a run: the screen and the statistics file.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use sip_scenario::{Calls, Counter, Moment, Spread, Stats};

use crate::args::Args;
use crate::error::Refusal;
use crate::output::Out;
use crate::pacing::Pacing;
use crate::traces::file_name;

mod screen;
mod stat_file;

/// Two sets of figures, to tell what came between them.
pub(crate) struct Period {
    pub(crate) since_ns: u64,
    pub(crate) before: Stats,
}

pub(crate) struct Report {
    start_unix_us: u64,
    /// With `-users` their number is what is aimed at, and no rate.
    users: Option<u32>,
    stat: Option<Out>,
    delimiter: String,
    stat_period_ns: u64,
    next_stat_ns: u64,
    /// Since the last line of the statistics file.
    stat_from: Period,
    screen_period_ns: u64,
    next_screen_ns: u64,
    screen_from: Period,
    is_live: bool,
    /// Which screen is shown, as SIPp's keys number them.
    screen: u8,
    /// Where the screens are written: from the beginning with `-trace_screen`, else as
    /// soon as somebody asks for them.
    screens: Option<Out>,
    dumps_at_end: bool,
    dump_file: PathBuf,
    /// Why they could not be.
    failure: Option<String>,
    frame: screen::Frame,
}

impl Report {
    pub(crate) fn new(
        args: &Args,
        calls: &Calls,
        locals: &[SocketAddr],
        remote: Option<SocketAddr>,
        start_unix_us: u64,
    ) -> Result<Self, Refusal> {
        let wanted = &args.traces;
        let stat = wanted
            .stat
            .then(|| Out::create(&file_name(args, wanted.stat_file.as_ref(), ".csv")))
            .transpose()?;
        let period = || Period {
            since_ns: 0,
            before: calls.stats().clone(),
        };
        let dump_file = file_name(args, wanted.screen_file.as_ref(), "screen.log");
        let screens = wanted.screen.then(|| Out::create(&dump_file)).transpose()?;
        let open_max = args.open_calls(calls.program().pauses_ms(args.pause_ms), args.rate);
        Ok(Self {
            start_unix_us,
            users: args.users,
            stat,
            delimiter: args.stat_delimiter.clone(),
            stat_period_ns: args.stat_period_ms.saturating_mul(1_000_000),
            next_stat_ns: 0,
            stat_from: period(),
            screen_period_ns: args.screen_period_ms.saturating_mul(1_000_000),
            next_screen_ns: 0,
            screen_from: period(),
            is_live: std::io::stdout().is_terminal(),
            screen: 1,
            screens,
            dumps_at_end: wanted.screen,
            dump_file,
            failure: None,
            frame: screen::Frame::new(args, locals, remote, open_max),
        })
    }

    pub(crate) fn begin(&mut self, calls: &Calls, pacing: &Pacing, now_ns: u64) {
        if let Some(out) = &mut self.stat {
            let header = stat_file::header(calls.program(), &self.delimiter);
            out.put(header.as_bytes());
        }
        self.write_stat(calls, pacing, now_ns);
        self.next_stat_ns = now_ns.saturating_add(self.stat_period_ns);
    }

    /// How many calls may be open from now on.
    pub(crate) fn set_open_max(&mut self, open_max: u64) {
        self.frame.set_open_max(open_max);
    }

    /// When there is something to do.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let stat = self.stat.is_some().then_some(self.next_stat_ns);
        let screen = self.is_live.then_some(self.next_screen_ns);
        match (stat, screen) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub(crate) fn tick(&mut self, calls: &mut Calls, pacing: &Pacing, now_ns: u64) {
        self.frame.peak(calls.len(), now_ns);
        if self.stat.is_some() && now_ns >= self.next_stat_ns {
            self.next_stat_ns = now_ns.saturating_add(self.stat_period_ns);
            self.write_stat(calls, pacing, now_ns);
        }
        if self.is_live && now_ns >= self.next_screen_ns {
            self.next_screen_ns = now_ns.saturating_add(self.screen_period_ns);
            let text = self.screens(calls, pacing, now_ns, Some(self.screen));
            // From the top left corner, over what was there.
            self.print(&format!("\x1b[H\x1b[J{text}"));
            self.screen_from = Period {
                since_ns: now_ns,
                before: calls.stats().clone(),
            };
        }
    }

    /// The last figures; gives what could not be written.
    pub(crate) fn finish(&mut self, calls: &Calls, pacing: &Pacing, now_ns: u64) -> Option<String> {
        self.write_stat(calls, pacing, now_ns);
        let text = self.screens(calls, pacing, now_ns, None);
        self.print(&text);
        if self.dumps_at_end {
            self.dump(calls, pacing, now_ns);
        }
        let outs = [&mut self.stat, &mut self.screens].into_iter().flatten();
        let failures: Vec<String> = outs.filter_map(Out::finish).collect();
        failures.into_iter().next().or(self.failure.take())
    }

    /// Shows another screen from now on, at once.
    pub(crate) fn show(&mut self, screen: u8) {
        self.screen = screen;
        self.next_screen_ns = 0;
    }

    /// Writes the screens to their file, behind those that this run wrote before.
    pub(crate) fn dump(&mut self, calls: &Calls, pacing: &Pacing, now_ns: u64) {
        let text = self.screens(calls, pacing, now_ns, None);
        if self.screens.is_none() {
            match Out::create(&self.dump_file) {
                Ok(out) => self.screens = Some(out),
                Err(refusal) => _ = self.failure.get_or_insert(refusal.what),
            }
        }
        if let Some(out) = &mut self.screens {
            out.put(text.as_bytes());
            out.flush();
        }
    }

    fn print(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // Where nobody looks, nothing is to be shown.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// One screen, or those that are written at the end.
    fn screens(&self, calls: &Calls, pacing: &Pacing, now_ns: u64, which: Option<u8>) -> String {
        let times = screen::Times {
            start: self.moment(0),
            reset: self.moment(self.screen_from.since_ns),
            now: self.moment(now_ns),
            now_ns,
        };
        self.frame
            .draw(calls, pacing, &self.screen_from, &times, which)
    }

    fn write_stat(&mut self, calls: &Calls, pacing: &Pacing, now_ns: u64) {
        let times = [0, self.stat_from.since_ns, now_ns].map(|ns| self.moment(ns).stamp());
        if let Some(out) = &mut self.stat {
            let target = self.users.map_or(pacing.rate(), f64::from);
            let line = stat_file::line(
                calls,
                target,
                &self.stat_from,
                &times,
                now_ns,
                &self.delimiter,
            );
            out.put(line.as_bytes());
            out.flush();
            self.stat_from = Period {
                since_ns: now_ns,
                before: calls.stats().clone(),
            };
        }
    }

    fn moment(&self, now_ns: u64) -> Moment {
        Moment::from_unix_us(self.start_unix_us.saturating_add(now_ns / 1_000))
    }
}

/// Calls begun per second.
pub(crate) fn call_rate(stats: &Stats, before: Option<&Stats>, ns: u64) -> f64 {
    let begun = |s: &Stats| s.get(Counter::IncomingCalls) + s.get(Counter::OutgoingCalls);
    let count = begun(stats) - before.map_or(0, begun).min(begun(stats));
    if ns == 0 {
        0.0
    } else {
        count as f64 * 1e9 / ns as f64
    }
}

/// What came of a spread since the last time.
pub(crate) fn since(now: &[Spread], before: &[Spread], index: usize) -> (Spread, Spread) {
    let now = now.get(index).copied().unwrap_or_default();
    let before = before.get(index).copied().unwrap_or_default();
    (now.since(&before), now)
}

/// Milliseconds as nanoseconds.
pub(crate) fn ns_of(ms: f64) -> u64 {
    (ms.max(0.0) * 1e6) as u64
}
