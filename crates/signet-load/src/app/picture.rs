//! What is seen while a load runs: a picture at a terminal, a line a second
//! elsewhere.

use std::io::{IsTerminal as _, Write as _};

use measure::{Health, Live, Quantiles, Sample, Screen, Watched, Watcher, terminal, watch};

use super::say;
use crate::crew::Progress;
use crate::settings::Settings;

/// Seconds that are drawn.
const RECENT: u64 = 60;
const NS_PER_S: u64 = 1_000_000_000;

/// Draws, and reads the watched processes once a second.
pub(crate) struct Picture {
    title: String,
    duration_ns: u64,
    schedule: Option<measure::Schedule>,
    screen: Option<Screen>,
    quiet: bool,
    drawn_s: Option<u64>,
    told_ready: u64,
    told_answering: bool,
    watcher: Watcher,
    own: Watcher,
    begin: Option<(Sample, Sample)>,
    last: (Sample, Sample),
    peak: Sample,
    own_peak: Sample,
    seconds: Vec<(u64, u64, u64)>,
}

impl Picture {
    pub(crate) fn new(settings: &Settings, quiet: bool, watcher: Watcher) -> Self {
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
        // This process exists.
        let own = Watcher::new(&[std::process::id()]).unwrap_or_else(|_| watcher.clone());
        Self {
            title: to,
            duration_ns: settings
                .schedule
                .as_ref()
                .map_or(0, measure::Schedule::duration_ns),
            schedule: settings.schedule.clone(),
            screen: (is_terminal && !quiet).then(Screen::new),
            quiet,
            drawn_s: None,
            told_ready: 0,
            told_answering: false,
            watcher,
            own,
            begin: None,
            last: (Sample::default(), Sample::default()),
            peak: Sample::default(),
            own_peak: Sample::default(),
            seconds: Vec::new(),
        }
    }

    pub(crate) fn draw(&mut self, progress: &Progress<'_>) {
        if !self.told_answering && !progress.answering.is_empty() && !self.quiet {
            self.told_answering = true;
            let places: Vec<String> = progress
                .answering
                .iter()
                .map(|(transport, addr)| format!("{}:{addr}", transport.uri_name()))
                .collect();
            say(&format!("answering on {}", places.join(", ")));
        }
        let Some(elapsed_ns) = progress.elapsed_ns else {
            self.draw_setup(progress);
            return;
        };
        let second = elapsed_ns / NS_PER_S;
        let is_new = self.drawn_s != Some(second);
        if is_new {
            self.sample(second);
            self.drawn_s = Some(second);
        }
        if self.quiet || self.screen.is_none() && !is_new {
            return;
        }
        let live = self.live(progress, elapsed_ns);
        match &mut self.screen {
            Some(screen) => {
                let text = screen.draw(&live);
                let mut out = std::io::stdout().lock();
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            }
            None => say(&terminal::line(&live)),
        }
    }

    fn draw_setup(&mut self, progress: &Progress<'_>) {
        let (ready, all) = progress.ready;
        let step = (all / 10).max(1);
        if !self.quiet && all > 0 && ready >= self.told_ready + step {
            self.told_ready = ready;
            say(&format!("{ready} of {all} agents ready"));
        }
    }

    fn sample(&mut self, second: u64) {
        let now = (self.watcher.sample(), self.own.sample());
        match self.begin {
            None => self.begin = Some(now),
            Some(_) => {
                let watched_ns = now.0.cpu_since_ns(&self.last.0);
                let own_ns = now.1.cpu_since_ns(&self.last.1);
                self.seconds
                    .push((second.saturating_sub(1), watched_ns, own_ns));
            }
        }
        self.peak = self.peak.max(&now.0);
        self.own_peak = self.own_peak.max(&now.1);
        self.last = now;
    }

    fn live(&self, progress: &Progress<'_>, elapsed_ns: u64) -> Live {
        let last_s = progress.series.last_s();
        let first_s = last_s.map_or(0, |last| (last + 1).saturating_sub(RECENT));
        let recent = last_s.map_or_else(Vec::new, |last| {
            (first_s..=last)
                .filter_map(|s| progress.series.second(s))
                .collect()
        });
        let latest = recent.last().copied().unwrap_or_default();
        Live {
            title: self.title.clone(),
            elapsed_ns,
            duration_ns: self.duration_ns,
            target_per_s: self
                .schedule
                .as_ref()
                .map_or(0.0, |schedule| schedule.rate_at(elapsed_ns)),
            succeeded: progress.ended.saturating_sub(progress.failed),
            failed: progress.failed,
            in_flight: progress.in_flight,
            delay: Quantiles {
                mean_us: latest.mean_us,
                p50_us: latest.p50_us,
                p99_us: latest.p99_us,
                max_us: latest.max_us,
                ..Quantiles::default()
            },
            recent,
            causes: progress.causes.clone(),
            retransmissions: 0,
            health: Health {
                behind_schedule: Quantiles {
                    p99_us: progress.late_p99_us,
                    ..Quantiles::default()
                },
                due: progress.started,
                sent: progress.started,
                kernel_drops: progress.kernel_drops,
                wall_ns: elapsed_ns,
                ..Health::default()
            },
        }
    }

    /// CPU time of each second: of the watched processes if there are any, and
    /// of this one.
    pub(crate) fn cpu_by_second(&self) -> Vec<(u64, Option<u64>, Option<u64>)> {
        let is_watching = !self.watcher.pids().is_empty();
        self.seconds
            .iter()
            .map(|&(at_s, watched, own)| (at_s, is_watching.then_some(watched), Some(own)))
            .collect()
    }

    /// What the watched processes took, all together.
    pub(crate) fn watched(&mut self) -> Vec<Watched> {
        let pids = self.watcher.pids().to_vec();
        let (Some(first), Some((begin, _))) = (pids.first(), self.begin) else {
            return Vec::new();
        };
        let now = self.watcher.sample();
        let names: Vec<String> = pids
            .iter()
            .filter_map(|pid| watch::process_name(*pid))
            .collect();
        vec![Watched {
            pid: *first,
            name: names.join("+"),
            cpu_ns: now.cpu_since_ns(&begin),
            peak: self.peak.max(&now),
        }]
    }

    /// The most memory that this process held.
    pub(crate) fn own_memory_bytes(&self) -> u64 {
        self.own_peak.rss_bytes
    }

    /// The picture stays; what follows stands below it.
    pub(crate) fn end(&mut self) {
        if self.screen.take().is_some() {
            say("\n");
        }
    }
}
