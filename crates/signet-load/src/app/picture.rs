//! What is seen while a load runs: a picture at a terminal, a line a second elsewhere;
//! of a called side alone a line now and then, and all that it answered when asked.

use std::io::{IsTerminal as _, Write as _};

use measure::{Bounds, Health, Live, LiveCalled, Quantiles, Screen, terminal};
use sip_net::sys::terminal_size;

use super::say;
use super::watching::Watching;
use crate::crew::Progress;
use crate::settings::Settings;

/// Seconds that are drawn.
const RECENT: u64 = 60;
/// Seconds from one line of a called side to the next, where there is no terminal: it
/// may stand for days, and says nothing where nothing came.
const CALLED_LINE_S: u64 = 10;
/// So long after the end of a second all threads have handed it over: its line is told once,
/// and whole.
const HANDED_OVER_NS: u64 = 400_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// Draws, and has the watched processes read once a second.
pub(crate) struct Picture {
    title: String,
    duration_ns: u64,
    schedule: Option<measure::Schedule>,
    bounds: Bounds,
    screen: Option<Screen>,
    quiet: bool,
    told_ready: u64,
    told_answering: bool,
    told_second: Option<u64>,
    watching: Watching,
    called: CalledRate,
}

/// How many calls came in the last second to a called side, and what its last line told.
#[derive(Default)]
struct CalledRate {
    /// When it was last reckoned, and the calls by then.
    mark: Option<(u64, u64)>,
    per_s: Option<f64>,
    told_s: u64,
    told: (u64, u64),
}

impl Picture {
    pub(crate) fn new(
        settings: &Settings,
        quiet: bool,
        bounds: Bounds,
        watching: Watching,
    ) -> Self {
        let to = match (&settings.server, settings.direct) {
            (Some(server), _) => format!("{} to {server}", settings.mix),
            (None, Some(transport)) => format!(
                "{} straight to itself over {}",
                settings.mix,
                transport.uri_name()
            ),
            (None, None) => "answer".to_owned(),
        };
        let is_terminal = std::io::stdout().is_terminal();
        Self {
            title: to,
            duration_ns: settings
                .schedule
                .as_ref()
                .map_or(0, measure::Schedule::duration_ns),
            schedule: settings.schedule.clone(),
            bounds,
            screen: (is_terminal && !quiet).then(Screen::new),
            quiet,
            told_ready: 0,
            told_answering: false,
            told_second: None,
            watching,
            called: CalledRate::default(),
        }
    }

    pub(crate) fn draw(&mut self, progress: &Progress<'_>) {
        if !self.told_answering && !progress.answering.is_empty() && !self.quiet {
            self.told_answering = true;
            say(&format!("answering on {}", addresses(progress)));
        }
        let Some(elapsed_ns) = progress.elapsed_ns else {
            self.draw_setup(progress);
            return;
        };
        let is_new = self.watching.see(elapsed_ns);
        if self.schedule.is_none() {
            self.draw_called(progress, elapsed_ns, is_new);
            return;
        }
        let is_line_due = self.is_line_due(progress, elapsed_ns);
        if !is_line_due && self.screen.is_none() && !progress.is_asked {
            return;
        }
        let live = self.live(progress, elapsed_ns);
        if is_line_due || progress.is_asked {
            self.tell(&terminal::line(&live));
        }
        self.show(|| terminal::picture(&live));
    }

    /// Whether a second has ended whose line was not told.
    fn is_line_due(&mut self, progress: &Progress<'_>, elapsed_ns: u64) -> bool {
        let settled_ns = elapsed_ns.checked_sub(NS_PER_S + HANDED_OVER_NS);
        let second = settled_ns.map(|ns| ns / NS_PER_S);
        let is_due = self.screen.is_none()
            && !self.quiet
            && second > self.told_second
            && progress.series.last_s() >= second;
        if is_due {
            self.told_second = second;
        }
        is_due
    }

    /// Draws at a terminal.
    fn show(&mut self, picture: impl FnOnce() -> String) {
        if let Some(screen) = &mut self.screen {
            let text = screen.draw(&picture(), terminal_size(std::io::stdout()));
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Prints lines that stay; at a terminal the next picture stands below them.
    fn tell(&mut self, lines: &str) {
        say(lines);
        if let Some(screen) = &mut self.screen {
            *screen = Screen::new();
        }
    }

    fn draw_setup(&mut self, progress: &Progress<'_>) {
        let (ready, all) = progress.ready;
        let step = (all / 10).max(1);
        let is_due = !self.quiet && ready >= self.told_ready + step;
        if all > 0 && (is_due || progress.is_asked) {
            self.told_ready = ready;
            say(&format!("{ready} of {all} agents ready"));
        }
    }

    fn draw_called(&mut self, progress: &Progress<'_>, elapsed_ns: u64, is_new: bool) {
        let called = &progress.called;
        if is_new
            && let Some((since_ns, calls)) = self.called.mark.replace((elapsed_ns, called.incoming))
        {
            let seconds = elapsed_ns.saturating_sub(since_ns).max(1) as f64 / 1e9;
            let came = called.incoming.saturating_sub(calls);
            self.called.per_s = Some(came as f64 / seconds);
        }
        let live = LiveCalled {
            title: format!("{} on {}", self.title, addresses(progress)),
            elapsed_ns,
            calls_per_s: self.called.per_s,
            calls: called.incoming,
            established: called.established,
            ended: called.ended,
            failed: called.failed,
            requests: called.received,
            retransmissions: progress.retransmissions,
            kernel_drops: progress.kernel_drops,
        };
        let second = elapsed_ns / NS_PER_S;
        let came = (called.incoming, called.received);
        let is_due = !self.quiet
            && self.screen.is_none()
            && second >= self.called.told_s + CALLED_LINE_S
            && came != self.called.told;
        if is_due || progress.is_asked {
            (self.called.told_s, self.called.told) = (second, came);
            self.tell(&terminal::called_line(&live));
        }
        if progress.is_asked {
            self.tell(&progress.answered.lines().join("\n"));
        }
        self.show(|| terminal::called_picture(&live));
    }

    fn live(&self, progress: &Progress<'_>, elapsed_ns: u64) -> Live {
        let last_s = progress.series.last_s();
        let first_s = last_s.map_or(0, |last| (last + 1).saturating_sub(RECENT));
        let recent = last_s.map_or_else(Vec::new, |last| {
            (first_s..=last)
                .filter_map(|s| progress.series.second(s))
                .collect()
        });
        let delay = progress.series.overall();
        // What was asked for in the second that is shown beside it.
        let shown_ns = last_s.map_or(elapsed_ns, |last| last * NS_PER_S + NS_PER_S / 2);
        Live {
            title: self.title.clone(),
            elapsed_ns,
            duration_ns: self.duration_ns,
            target_per_s: self
                .schedule
                .as_ref()
                .map_or(0.0, |schedule| schedule.rate_at(shown_ns)),
            succeeded: progress.ended.saturating_sub(progress.failed),
            failed: progress.failed,
            in_flight: progress.in_flight,
            delay,
            recent,
            causes: progress.causes.clone(),
            retransmissions: progress.retransmissions,
            health: Health {
                behind_schedule: Quantiles {
                    p99_us: progress.late_p99_us,
                    ..Quantiles::default()
                },
                behind_max_ns: progress.late_max_us * 1_000,
                due: progress.started,
                sent: progress.started,
                // From the send, as nearly as it is known before the end.
                delay_p99_us: delay.map(|delay| delay.p99_us.saturating_sub(progress.late_p99_us)),
                kernel_drops: progress.kernel_drops,
                send_queue_drops: progress.queue_drops,
                wall_ns: elapsed_ns,
                bounds: self.bounds,
                ..Health::default()
            },
        }
    }

    /// The picture stays; what follows stands below it. Gives what was watched.
    pub(crate) fn end(mut self) -> Watching {
        if self.screen.take().is_some() {
            say("\n");
        }
        self.watching
    }
}

/// Where the called side of this process listens.
fn addresses(progress: &Progress<'_>) -> String {
    let addresses: Vec<String> = progress
        .answering
        .iter()
        .map(|(transport, addr)| format!("{}:{addr}", transport.uri_name()))
        .collect();
    addresses.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::{Flow, Mix};
    use measure::{Answered, Schedule, SecondPart, Series};

    /// Each second has its line, once, when all of it is known, beside what was asked
    /// for in that second.
    #[test]
    fn a_line_is_told_once_for_each_second_that_has_ended() {
        let settings = Settings {
            schedule: Some(Schedule::parse("steps 10,30/s each 1s").unwrap()),
            ..Settings::new(Mix::only(Flow::Call))
        };
        let watching = Watching::new(&[]).unwrap();
        let mut picture = Picture::new(&settings, false, Bounds::default(), watching);
        // Whoever runs the test may sit at a terminal.
        picture.screen = None;
        let mut series = Series::new();
        let mut told = Vec::new();
        for elapsed_ms in (0u64..3_500).step_by(100) {
            if elapsed_ms >= 1_200 && elapsed_ms % 1_000 == 200 {
                series.add(&SecondPart {
                    at_s: elapsed_ms / 1_000 - 1,
                    started: 7,
                    ..SecondPart::default()
                });
            }
            let progress = Progress {
                elapsed_ns: Some(elapsed_ms * 1_000_000),
                ready: (0, 0),
                started: 0,
                ended: 0,
                failed: 0,
                in_flight: 0,
                causes: Vec::new(),
                called: crate::CalledCounts::default(),
                answered: Answered::default(),
                retransmissions: 0,
                kernel_drops: 0,
                queue_drops: 0,
                late_p99_us: 0,
                late_max_us: 0,
                is_asked: false,
                is_prepared: true,
                series: &series,
                parts: &[],
                answering: &[],
            };
            if picture.is_line_due(&progress, elapsed_ms * 1_000_000) {
                let asked_per_s = picture.live(&progress, elapsed_ms * 1_000_000).target_per_s;
                told.push((elapsed_ms, asked_per_s));
            }
        }
        assert_eq!(told, [(1_400, 10.0), (2_400, 30.0), (3_400, 0.0)]);
    }
}
