//! A run under way: what its threads report, what they are ordered, and its end.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use invariant::broken;
use measure::{Answered, SecondPart, Series};
use sip_msg::Transport;

use super::outcome::add_answers;
use super::{Control, Crew, Failed, Progress, Ran};
use crate::worker::{CalledCounts, Final, Report, StormCounts, Tick, orders};

/// A run under way.
pub(super) struct Running<'a> {
    crew: &'a Crew,
    series: Series,
    /// How each thread stands.
    ticks: Vec<Tick>,
    finals: Vec<Option<Box<Final>>>,
    /// Threads that are ready, and that have ended.
    ready: usize,
    done: usize,
    begun_ns: u64,
    setup_ns: u64,
    own_cpu_begin_ns: u64,
    is_interrupted: bool,
    failed: Option<String>,
    /// What has come to the series since it was drawn last.
    parts: Vec<SecondPart>,
}

/// One that is over.
pub(super) struct Ended {
    series: Series,
    finals: Vec<Option<Box<Final>>>,
    has_storm: bool,
    is_interrupted: bool,
    setup_ns: u64,
    own_cpu_ns: u64,
    pub(super) failed: Option<String>,
}

impl<'a> Running<'a> {
    pub(super) fn new(crew: &'a Crew) -> Self {
        let all = crew.threads.len();
        Self {
            series: Series::new(),
            ticks: vec![Tick::default(); all],
            finals: (0..all).map(|_| None).collect(),
            ready: 0,
            done: 0,
            begun_ns: crew.shared.clock.now_ns(),
            setup_ns: 0,
            own_cpu_begin_ns: 0,
            is_interrupted: false,
            failed: None,
            parts: Vec::new(),
            crew,
        }
    }

    /// Whether every thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.done >= self.ticks.len()
    }

    /// Takes in what a thread reports.
    pub(super) fn take(&mut self, report: Report) {
        match report {
            Report::Ready { upkeep, worker } => {
                self.ready += 1;
                match self.ticks.get_mut(worker) {
                    Some(tick) => tick.ready = upkeep.ready,
                    None => broken!("a worker reports under its own number"),
                }
                if self.is_prepared() {
                    self.setup_ns = self.crew.shared.clock.now_ns() - self.begun_ns;
                }
            }
            Report::Tick(mut tick) => {
                if let Some(part) = tick.part.take() {
                    self.series.add(&part);
                    self.parts.push(part);
                }
                match self.ticks.get_mut(tick.worker) {
                    Some(place) => *place = *tick,
                    None => broken!("a worker reports under its own number"),
                }
            }
            Report::Done(end) => {
                self.done += 1;
                match self.finals.get_mut(end.worker) {
                    Some(place) => *place = Some(end),
                    None => broken!("a worker reports under its own number"),
                }
                let callers = self.crew.callers;
                if callers > 0 && self.finals.iter().take(callers).all(Option::is_some) {
                    let order = &self.crew.shared.order_called;
                    order.fetch_max(orders::DRAIN, Ordering::Relaxed);
                }
            }
            Report::Failed { error } => {
                self.done += 1;
                self.failed.get_or_insert(error);
                self.crew.order(orders::STOP);
            }
        }
    }

    fn is_prepared(&self) -> bool {
        self.ready == self.ticks.len()
    }

    /// Lets all begin when they are ready, and end when that is asked for or their time is up.
    pub(super) fn go_on(&mut self, control: &Control) {
        let shared = &self.crew.shared;
        if self.is_prepared()
            && shared.start_ns.load(Ordering::Relaxed) == u64::MAX
            && let Some(start_ns) = control.start_ns(shared.clock)
        {
            self.own_cpu_begin_ns = own_cpu_ns();
            shared.start_ns.store(start_ns, Ordering::Release);
        }
        if control.asked() > orders::RUN && self.failed.is_none() {
            self.is_interrupted |= self.finals.iter().any(Option::is_none);
            self.crew.order(control.asked());
        }
        let start_ns = shared.start_ns.load(Ordering::Relaxed);
        if let Some(answer_for) = shared.settings.answer_for
            && self.crew.callers == 0
            && u128::from(shared.clock.now_ns().saturating_sub(start_ns)) >= answer_for.as_nanos()
        {
            self.crew.order(orders::DRAIN);
        }
    }

    /// Tells how it stands.
    pub(super) fn draw(&mut self, is_asked: bool, draw: &mut dyn FnMut(&Progress<'_>)) {
        let shared = &self.crew.shared;
        let start_ns = shared.start_ns.load(Ordering::Relaxed);
        let elapsed_ns = shared.clock.now_ns().checked_sub(start_ns);
        let sum = |figure: fn(&Tick) -> u64| self.ticks.iter().map(figure).sum();
        let most = |figure: fn(&Tick) -> u64| self.ticks.iter().map(figure).max().unwrap_or(0);
        let (mut called, mut answered) = (CalledCounts::default(), Answered::default());
        let mut causes: Vec<(String, u64)> = Vec::new();
        for tick in &self.ticks {
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
            ready: (sum(|tick| tick.ready), self.crew.agents),
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
            is_asked,
            series: &self.series,
            is_prepared: self.is_prepared(),
            parts: &self.parts,
            answering: &self.crew.answering,
        });
        self.parts.clear();
    }

    /// What is left of it; its CPU time is taken now.
    pub(super) fn end(self) -> Ended {
        Ended {
            own_cpu_ns: own_cpu_ns().saturating_sub(self.own_cpu_begin_ns),
            has_storm: self.crew.shared.settings.storm_at.is_some(),
            series: self.series,
            finals: self.finals,
            is_interrupted: self.is_interrupted,
            setup_ns: self.setup_ns,
            failed: self.failed,
        }
    }
}

impl Ended {
    /// What it found out, with the names of its threads and where it listened.
    ///
    /// # Errors
    /// Why a thread did not come to its end.
    pub(super) fn ran(
        self,
        names: Vec<String>,
        answering: Vec<(Transport, SocketAddr)>,
    ) -> Result<Ran, Failed> {
        if let Some(error) = self.failed {
            return Err(Failed::Run(error));
        }
        let mut ran = Ran::new(
            self.series,
            self.is_interrupted,
            self.setup_ns,
            self.own_cpu_ns,
            answering,
        );
        ran.storm = self.has_storm.then(StormCounts::default);
        for (end, name) in self.finals.into_iter().zip(names) {
            let end = end
                .ok_or_else(|| Failed::Run("a thread of the generator said nothing".to_owned()))?;
            ran.take(&end, name);
        }
        Ok(ran)
    }
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
