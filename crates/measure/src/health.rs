//! The instrument's own limits: could the generator itself have made the result?
//!
//! A figure counts as the server's only when [`Health::doubts`] is empty.

use serde::{Deserialize, Serialize};

use crate::latency::Quantiles;

/// What the generator measured of itself during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// How long after its intended time each message was sent.
    pub behind_schedule: Quantiles,
    /// The longest of these, exactly.
    pub behind_max_ns: u64,
    /// Arrivals that were due.
    pub due: u64,
    /// Those of them that the schedule ended before the generator had come to them: they
    /// were never sent.
    pub unsent: u64,
    /// Arrivals that were sent; fewer than `due` less `unsent` when a bound (calls under
    /// way, ports, open files) held some back.
    pub sent: u64,
    /// The 99th percentile of the delay that was measured, from the send; `None` where
    /// nothing was. Lateness is weighed against it.
    pub delay_p99_us: Option<u64>,
    /// CPU time of the whole process during the run.
    pub own_cpu_ns: u64,
    /// Wall time of the run.
    pub wall_ns: u64,
    /// How long arrivals were due, from the beginning of the run: what the last calls took
    /// to end is no part of it. 0 where that is not known.
    pub sending_ns: u64,
    /// Agents that were to take part.
    pub agents: u64,
    /// Those of them that did not come up, or whose registration had been lost when the
    /// schedule ended.
    pub agents_missing: u64,
    /// Agents whose connections a storm broke off.
    pub storm_dropped: u64,
    /// Those of them that were not back when the run ended.
    pub storm_missing: u64,
    /// Requests within dialogs that came to a thread which did not know them, where several
    /// threads are called on connections.
    pub dialogs_missed: u64,
    /// Cores that the generator may use.
    pub cores: u64,
    /// The threads that move messages.
    pub threads: Vec<ThreadUse>,
    /// Datagrams that the kernel dropped at the generator's sockets (SO_RXQ_OVFL).
    pub kernel_drops: u64,
    /// Messages that the generator dropped because its own send queue was full.
    pub send_queue_drops: u64,
    /// The rate that the same scenario reaches straight from caller to callee,
    /// with no server between; `None` when not checked.
    pub self_peak_per_s: Option<f64>,
    /// The highest rate that the run asked for.
    pub rate_per_s: f64,
    /// The result is reported as a limit of the server (a peak).
    pub claims_limit: bool,
    /// The run was stopped before its schedule ended.
    pub interrupted: bool,
    /// The bounds past which these figures cast doubt.
    pub bounds: Bounds,
}

/// One thread of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadUse {
    /// Its name, for the operator.
    pub name: String,
    /// CPU time it took; a thread that polls without waiting gives the time in
    /// which it had work instead.
    pub cpu_ns: u64,
    /// Time that it was ready to run and another process had its CPU
    /// (second figure of `/proc/thread-self/schedstat`).
    pub waited_for_cpu_ns: u64,
    /// How long it sent, from the beginning of the run, and the CPU time that it took until
    /// then; 0 where that is not known.
    pub sending_ns: u64,
    /// See `sending_ns`.
    pub sending_cpu_ns: u64,
}

impl ThreadUse {
    /// Its share of a core: of the run or, where that is more, of the time in which it sent. A
    /// call that is waited for must not make a thread look idle that had too much to do.
    fn share(&self, wall_ns: u64) -> f64 {
        let whole = self.cpu_ns as f64 / wall_ns.max(1) as f64;
        if self.sending_ns < SENDING_LEAST_NS {
            return whole;
        }
        whole.max(self.sending_cpu_ns as f64 / self.sending_ns as f64)
    }
}

/// The bounds past which a figure casts doubt on a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// How late the latest 1% of messages may leave, in microseconds. `None` weighs it
    /// against the delay that was measured: [`Health::late_max_us`].
    pub late_max_us: Option<u64>,
    /// The longest lateness. 100 ms: a burst of a tenth of a second's arrivals at
    /// once is ten times the load that was asked for, and fills socket buffers
    /// that the asked load would not.
    pub behind_max_ns: u64,
    /// Share of a core that any one thread may take. 0.9: beyond it the queue in
    /// front of the thread, not the server, makes the delay.
    pub thread_cpu_share: f64,
    /// How many times the driven rate the self-peak must be. 1.5: then the
    /// generator is busy at most two thirds of the time, at which a simple queue
    /// takes three times as long as an idle one; beyond, it grows fast.
    pub self_peak_factor: f64,
    /// Share of due arrivals that must have been sent, and of agents that must have been
    /// there. 0.999.
    pub sent_share: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            late_max_us: None,
            behind_max_ns: 100_000_000,
            thread_cpu_share: 0.9,
            self_peak_factor: 1.5,
            sent_share: 0.999,
        }
    }
}

/// Lateness may be this part of the delay that was measured: it is in every delay from
/// the intended time, and a tenth more or less is what two runs differ by anyway.
const LATE_PART: u64 = 10;
/// It is never held against less than half a millisecond, below which a thread that
/// sleeps between arrivals is not woken reliably.
const LATE_LEAST_US: u64 = 500;
/// It may never be more than ten milliseconds: what is due meanwhile leaves in one burst,
/// however long the server takes.
const LATE_MOST_US: u64 = 10_000;
/// Of less than half a second a share of a core says how a thread begins, not what it bears.
const SENDING_LEAST_NS: u64 = 500_000_000;
/// Where no delay was measured: a healthy server's on a LAN is a few milliseconds.
const LATE_UNWEIGHED_US: u64 = 1_000;

/// One way in which the generator could have made the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// A stable name: `behind schedule`, `own cpu`, ...
    pub name: String,
    /// What was measured.
    pub figure: f64,
    /// The bound that it is past, in the same unit.
    pub bound: f64,
    /// What it means and what to do about it.
    pub sentence: String,
}

impl Doubt {
    fn new(name: &str, figure: f64, bound: f64, sentence: String) -> Self {
        let name = name.to_owned();
        Self {
            name,
            figure,
            bound,
            sentence,
        }
    }
}

impl Health {
    /// Every doubt by its [`Bounds`]; a result with any is not valid.
    pub fn doubts(&self) -> Vec<Doubt> {
        let doubts = [
            self.behind(),
            self.stood_still(),
            self.not_in_time(),
            self.held_back(),
            self.missing_agents(),
            self.storm(),
            self.missed_dialogs(),
            self.own_cpu(),
            self.kernel_drops(),
            self.send_queue_drops(),
            self.self_peak(),
            self.stopped(),
        ];
        doubts.into_iter().flatten().collect()
    }

    /// How late the latest 1% of messages may leave: as the bounds say; else a tenth of the
    /// delay that was measured, but never less than half a millisecond nor more than
    /// ten; a millisecond where no delay was measured. A millisecond beside a delay of
    /// 400 is nothing, and beside one of 0.2 it is the figure itself.
    pub fn late_max_us(&self) -> u64 {
        let weighed = |delay_us: u64| (delay_us / LATE_PART).clamp(LATE_LEAST_US, LATE_MOST_US);
        self.bounds
            .late_max_us
            .unwrap_or_else(|| self.delay_p99_us.map_or(LATE_UNWEIGHED_US, weighed))
    }

    fn behind(&self) -> Option<Doubt> {
        let (figure, bound) = (self.behind_schedule.p99_us, self.late_max_us());
        let (p99_ms, bound_ms) = (figure as f64 / 1e3, bound as f64 / 1e3);
        let beside = match (self.bounds.late_max_us, self.delay_p99_us) {
            (None, Some(us)) => format!(" beside a delay of {:.1} ms", us as f64 / 1e3),
            _ => String::new(),
        };
        (figure > bound).then(|| {
            let sentence = format!(
                "1% of messages left {p99_ms:.1} ms or more after their time (bound {bound_ms:.1} ms{beside}){}: \
                 lower the rate, add threads (--threads), or give the generator cores of its own.",
                self.waiting()
            );
            Doubt::new("behind schedule", p99_ms, bound_ms, sentence)
        })
    }

    fn stood_still(&self) -> Option<Doubt> {
        let (figure, bound) = (self.behind_max_ns, self.bounds.behind_max_ns);
        let (longest_ms, bound_ms) = (figure as f64 / 1e6, bound as f64 / 1e6);
        (figure > bound).then(|| {
            let sentence = format!(
                "The generator once stood still for {longest_ms:.0} ms (bound {bound_ms:.0} ms){} and then sent \
                 what was due in a burst: give it cores of its own, and run again.",
                self.waiting()
            );
            Doubt::new("behind schedule, longest", longest_ms, bound_ms, sentence)
        })
    }

    fn not_in_time(&self) -> Option<Doubt> {
        let begun = self.due.saturating_sub(self.unsent) as f64;
        let least = self.due as f64 * self.bounds.sent_share;
        (begun < least && !self.interrupted).then(|| {
            let sentence = format!(
                "{} of {} arrivals were not sent when the schedule ended, because the generator \
                 was behind it, so the load was lighter than it says: lower the rate, add threads \
                 (--threads), or give the generator cores of its own.",
                self.unsent, self.due
            );
            Doubt::new("not sent in time", begun, least, sentence)
        })
    }

    fn held_back(&self) -> Option<Doubt> {
        let begun = self.due.saturating_sub(self.unsent);
        let (sent, least) = (self.sent as f64, begun as f64 * self.bounds.sent_share);
        (sent < least && !self.interrupted).then(|| {
            let sentence = format!(
                "{} of {} arrivals were not sent, because a bound of the generator held them \
                 back, so the load was lighter than it says: raise the bound on calls under \
                 way, ports or open files, take more agents, or lower the rate.",
                begun.saturating_sub(self.sent),
                self.due
            );
            Doubt::new("held back", sent, least, sentence)
        })
    }

    fn missing_agents(&self) -> Option<Doubt> {
        let there = self.agents.saturating_sub(self.agents_missing) as f64;
        let least = self.agents as f64 * self.bounds.sent_share;
        (there < least).then(|| {
            let sentence = format!(
                "{} of {} agents did not come up, or had lost their registration when the schedule \
                 ended, so the load was of fewer users than it says: look at their accounts and \
                 passwords, and at what the server refused.",
                self.agents_missing, self.agents
            );
            Doubt::new("agents missing", there, least, sentence)
        })
    }

    fn storm(&self) -> Option<Doubt> {
        (self.storm_missing > 0).then(|| {
            let sentence = format!(
                "{} of {} agents were not back from the storm when the run ended, so how long it \
                 took is told of the others alone: look at what the server refused, or give them \
                 longer (--drain-timeout).",
                self.storm_missing, self.storm_dropped
            );
            let back = self.storm_dropped.saturating_sub(self.storm_missing) as f64;
            Doubt::new("storm", back, self.storm_dropped as f64, sentence)
        })
    }

    fn missed_dialogs(&self) -> Option<Doubt> {
        (self.dialogs_missed > 0).then(|| {
            let sentence = format!(
                "{} requests within dialogs were refused (481) by threads that did not know them, \
                 probably because they came on a connection of another thread than their INVITE. \
                 Use --threads 1 for the called side.",
                self.dialogs_missed
            );
            let missed = self.dialogs_missed as f64;
            Doubt::new("dialogs of other threads", missed, 0.0, sentence)
        })
    }

    fn own_cpu(&self) -> Option<Doubt> {
        let bound = self.bounds.thread_cpu_share;
        let (name, share) = self.busiest_thread().filter(|(_, share)| *share > bound)?;
        let sentence = format!(
            "Thread {name} of the generator took {:.0}% of a core (bound {:.0}%): \
             add threads and cores, or lower the rate.",
            share * 100.0,
            bound * 100.0
        );
        Some(Doubt::new("own cpu", share, bound, sentence))
    }

    fn kernel_drops(&self) -> Option<Doubt> {
        (self.kernel_drops > 0).then(|| {
            let sentence = format!(
                "The kernel dropped {} datagrams at the generator's own sockets: raise \
                 net.core.rmem_max, add threads, or lower the rate.",
                self.kernel_drops
            );
            Doubt::new("kernel drops", self.kernel_drops as f64, 0.0, sentence)
        })
    }

    fn send_queue_drops(&self) -> Option<Doubt> {
        (self.send_queue_drops > 0).then(|| {
            let sentence = format!(
                "The generator dropped {} messages because its send queue was full: a \
                 connection did not take them, or the rate is above what its sockets can send; \
                 use more connections or lower the rate.",
                self.send_queue_drops
            );
            let drops = self.send_queue_drops as f64;
            Doubt::new("send queue drops", drops, 0.0, sentence)
        })
    }

    fn self_peak(&self) -> Option<Doubt> {
        let needed_per_s = self.rate_per_s * self.bounds.self_peak_factor;
        let (peak, sentence) = match self.self_peak_per_s {
            Some(peak) if peak < needed_per_s || peak.is_nan() => (
                peak,
                format!(
                    "With no server between, the generator itself reaches {peak:.0}/s; to drive \
                     {:.0}/s it should reach {:.1} times that, {needed_per_s:.0}/s: add threads and \
                     cores, or lower the rate.",
                    self.rate_per_s, self.bounds.self_peak_factor
                ),
            ),
            None if self.claims_limit => (
                0.0,
                "The generator's own limit was not checked, so the limit found may be its own: \
                 run `load peak --self` with the same settings and give its figure."
                    .to_owned(),
            ),
            _ => return None,
        };
        Some(Doubt::new("self-peak", peak, needed_per_s, sentence))
    }

    fn stopped(&self) -> Option<Doubt> {
        const SENTENCE: &str =
            "The run was stopped before its end: the figures are of the part that ran.";
        let (sent, due) = (self.sent as f64, self.due as f64);
        (self.interrupted).then(|| Doubt::new("interrupted", sent, due, SENTENCE.to_owned()))
    }

    /// The thread with the largest share of a core, and that share: of the run, or of the time
    /// in which it sent, whichever is more.
    pub fn busiest_thread(&self) -> Option<(&str, f64)> {
        self.threads
            .iter()
            .map(|thread| (thread.name.as_str(), thread.share(self.wall_ns)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The self-peak in words: it is told even when it is no doubt.
    pub fn self_peak_note(&self) -> String {
        match self.self_peak_per_s {
            Some(peak) => format!("{peak:.0}/s"),
            None => "not checked".to_owned(),
        }
    }

    /// Names the likely reason for lateness where the threads waited for a CPU.
    fn waiting(&self) -> String {
        let wall_ns = self.wall_ns.max(1) as f64;
        let share = self
            .threads
            .iter()
            .map(|thread| thread.waited_for_cpu_ns as f64 / wall_ns)
            .fold(0.0, f64::max);
        if share < 0.01 {
            return String::new();
        }
        format!(
            ", and a thread waited {:.0}% of the time for a core that something else was using",
            share * 100.0
        )
    }
}

#[cfg(test)]
mod tests;
