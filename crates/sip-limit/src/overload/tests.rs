use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::*;

/// A worker with a line of messages before it. A call is `MESSAGES` of them, each
/// sent when the one before it was handled; what is lost comes again after 500 ms, twice
/// as long each time, as over UDP.
struct Line {
    controller: Controller,
    gate: Gate,
    /// What waits: how far its call is, how often it was sent, and when it came.
    queue: VecDeque<(u64, u32, u64)>,
    /// What comes at a time: sent again, or the next of a call.
    later: BinaryHeap<Reverse<(u64, u64, u32)>>,
    messages_per_ms: f64,
    /// What a refusal costs, in messages.
    refusal: f64,
    now_ms: u64,
    handled: u64,
    begun: u64,
    noise_per_ms: u64,
    /// It runs once in so many ms, as under a quota.
    period_ms: u64,
    /// Whether the kernel tells how much waits.
    is_told: bool,
    /// Of streams: milliseconds of work that fit into the kernel's buffer. The rest waits with
    /// whoever sends it, nothing is lost, and each refusal is answered.
    window_ms: Option<f64>,
    budget: f64,
    arrivals: f64,
    saved: f64,
    done: u64,
    looked_at: u64,
    waited_ms: u64,
}

const MESSAGES: u64 = 6;
/// Messages that fit into the kernel's buffer, in seconds of work.
const BUFFER_S: f64 = 1.2;
/// It stands for noise in the line.
const NOISE: u64 = u64::MAX;

impl Line {
    fn new(calls_per_s: f64) -> Self {
        Self {
            controller: Controller::new(QUEUE_MS),
            gate: Gate::default(),
            queue: VecDeque::new(),
            later: BinaryHeap::new(),
            messages_per_ms: calls_per_s * MESSAGES as f64 / 1_000.0,
            refusal: 0.4,
            now_ms: 0,
            handled: 0,
            begun: 0,
            noise_per_ms: 0,
            period_ms: 1,
            is_told: true,
            window_ms: None,
            budget: 0.0,
            arrivals: 0.0,
            saved: 0.0,
            done: 0,
            looked_at: 0,
            waited_ms: 0,
        }
    }

    /// Lets `offered_per_s` calls come for so long; calls done a second, in the second half.
    fn run(&mut self, offered_per_s: f64, ms: u64) -> f64 {
        for at in 0..ms {
            if at == ms / 2 {
                self.done = 0;
            }
            self.now_ms += 1;
            self.arrive(offered_per_s);
            if self.now_ms.is_multiple_of(self.period_ms) {
                self.budget = self.messages_per_ms * self.period_ms as f64;
                self.work();
            }
        }
        self.done as f64 * 1_000.0 / (ms - ms / 2) as f64
    }

    fn arrive(&mut self, offered_per_s: f64) {
        self.arrivals += offered_per_s / 1_000.0;
        while self.arrivals >= 1.0 {
            self.arrivals -= 1.0;
            self.send(0, 0);
        }
        for _ in 0..self.noise_per_ms {
            self.send(NOISE, 0);
        }
        while let Some(Reverse((at_ms, stage, tries))) = self.later.peek().copied()
            && at_ms <= self.now_ms
        {
            self.later.pop();
            self.send(stage, tries);
        }
    }

    fn send(&mut self, stage: u64, tries: u32) {
        if self.window_ms.is_some() {
            self.queue.push_back((stage, tries, self.now_ms));
            return;
        }
        if stage == 0 {
            // The kernel's filter.
            let offered = self.controller.shares().offered().new_work.parts();
            self.saved += f64::from(offered) / 65_536.0;
            if self.saved < 1.0 {
                return self.send_later(stage, tries);
            }
            self.saved -= 1.0;
        }
        let room = self.messages_per_ms * 1_000.0 * BUFFER_S;
        if self.queue.len() as f64 >= room {
            return self.send_later(stage, tries);
        }
        self.queue.push_back((stage, tries, self.now_ms));
    }

    fn send_later(&mut self, stage: u64, tries: u32) {
        if tries < 6 && stage != NOISE {
            let at_ms = self.now_ms + (500 << tries);
            self.later.push(Reverse((at_ms, stage, tries + 1)));
        }
    }

    fn work(&mut self) {
        loop {
            self.looked_at += 1;
            if self.looked_at.is_multiple_of(16) || self.budget < 1.0 || self.queue.is_empty() {
                self.look();
            }
            if self.budget < 1.0 {
                return;
            }
            let Some((stage, tries, came_ms)) = self.queue.pop_front() else {
                return;
            };
            self.handled += 1;
            self.begun += u64::from(stage == 0);
            self.waited_ms = self.now_ms - came_ms;
            if stage == NOISE {
                self.budget -= 0.1;
            } else if stage > 0 || self.gate.admits(Class::NewWork) {
                self.budget -= 1.0;
                self.done += u64::from(stage + 1 == MESSAGES);
                if stage + 1 < MESSAGES {
                    let at_ms = self.now_ms + 1;
                    self.later.push(Reverse((at_ms, stage + 1, 0)));
                }
            } else if self.window_ms.is_some() || self.gate.may_answer() {
                self.budget -= 2.0;
            } else {
                self.budget -= self.refusal;
                self.send_later(stage, tries);
            }
        }
    }

    fn look(&mut self) {
        let seen_ms = self.window_ms.unwrap_or(f64::MAX) as u64;
        let signals = Signals {
            is_drained: self.queue.is_empty(),
            waiting_ms: self.is_told.then_some(self.waited_ms.min(seen_ms)),
            may_more_wait: self.window_ms.is_some(),
            handled: self.handled,
            begun: self.begun,
            pressure: 0.0,
        };
        let shares = self.controller.turn(self.now_ms, &signals);
        self.gate.set_brake(self.controller.brake());
        if let Some(shares) = shares {
            self.gate.set(match self.window_ms {
                Some(_) => shares,
                None => shares.within(&shares.offered()),
            });
        }
    }

    fn waits_ms(&self) -> f64 {
        self.queue.len() as f64 / self.messages_per_ms
    }
}

/// Calls done a second of the thousand that can be, and how long the line is then, in ms.
fn done_at(times: f64, period_ms: u64, is_told: bool) -> (f64, f64) {
    let mut line = Line::new(1_000.0);
    (line.period_ms, line.is_told) = (period_ms, is_told);
    // The first seconds, in which it is found out how things stand.
    line.run(1_000.0 * times, 12_000);
    (line.run(1_000.0 * times, 24_000), line.waits_ms())
}

#[test]
fn at_ten_times_the_load_nine_tenths_are_done() {
    for times in [1.2, 2.0, 5.0, 10.0] {
        for period_ms in [1, 20, 100] {
            let (done, waits_ms) = done_at(times, period_ms, true);
            assert!(done > 900.0, "{times} times, {period_ms} ms: {done}/s");
            assert!(
                waits_ms < 250.0,
                "{times} times, {period_ms} ms: {waits_ms}"
            );
        }
    }
}

#[test]
fn where_nobody_tells_how_long_messages_wait_four_fifths_are_done() {
    for times in [1.2, 2.0, 10.0] {
        let (done, _) = done_at(times, 20, false);
        assert!(done > 800.0, "{times} times: {done}/s");
    }
}

/// A trunk that keeps a worker busy for more than the bound, now and then, is no trunk that it
/// cannot keep up with.
#[test]
fn a_worker_that_streams_keep_busy_lets_all_in() {
    let mut controller = Controller::new(QUEUE_MS);
    for turn in 1..20_000 {
        let signals = Signals {
            is_drained: turn % 150 == 0,
            waiting_ms: Some(turn % 8),
            may_more_wait: true,
            handled: turn * 6,
            begun: turn,
            pressure: 0.0,
        };
        controller.turn(turn, &signals);
        assert!(controller.shares().is_all() && controller.brake() == Share::ALL);
    }
}

/// A refusal takes as much as two messages of a call's six, so that at twice the load two thirds
/// are the most that can be done.
#[test]
fn by_streams_four_fifths_of_what_can_be_done_are_done() {
    for window_ms in [5.0, 50.0, 150.0] {
        for (times, most) in [(1.1, 1_000.0), (1.3, 900.0), (2.0, 666.0)] {
            let mut line = Line::new(1_000.0);
            line.window_ms = Some(window_ms);
            line.run(1_000.0 * times, 6_000);
            let done = line.run(1_000.0 * times, 24_000);
            let waits_ms = line.waits_ms();
            assert!(
                done > 0.8 * most,
                "{times} times, {window_ms} ms: {done}/s, {waits_ms} ms"
            );
        }
    }
}

#[test]
fn what_waits_too_long_is_not_let_in_before_the_shares_know_of_it() {
    let brake_at = |waits_ms: &[u64]| {
        let mut controller = Controller::new(QUEUE_MS);
        // The first interval is over: what was before it does not count.
        for now_ms in [100, 200] {
            let signals = Signals {
                waiting_ms: Some(waits_ms[0]),
                ..Signals::default()
            };
            controller.turn(now_ms, &signals);
        }
        for waiting_ms in waits_ms {
            let signals = Signals {
                waiting_ms: Some(*waiting_ms),
                ..Signals::default()
            };
            assert_eq!(controller.turn(205, &signals), None);
        }
        controller.brake()
    };
    assert_eq!(brake_at(&[125]), Share::ALL);
    assert!((55..=65).contains(&brake_at(&[175]).percent()));
    assert_eq!(brake_at(&[250]), Share::NONE);
    // A worker that a quota wakes now and then reads what has waited for long, and is through
    // with it at the end.
    assert_eq!(brake_at(&[400, 300, 90]), Share::ALL);
    let mut gate = Gate::default();
    gate.set_brake(Share::NONE);
    assert!(!gate.admits(Class::NewWork) && !gate.admits(Class::FirstRegistration));
    assert!(gate.admits(Class::LetIn) && gate.admits(Class::Within));
    gate.set_brake(Share::ALL);
    assert!(gate.is_open());
}

#[test]
fn one_interval_without_a_call_does_not_open_the_gate() {
    let mut controller = Controller::new(QUEUE_MS);
    let mut signals = Signals {
        waiting_ms: Some(600),
        ..Signals::default()
    };
    for interval in 1..60 {
        (signals.handled, signals.begun) = (interval * 600, interval * 100);
        controller.turn(interval * 100, &signals);
    }
    let before = controller.severity();
    assert!(before > NEW_WORK_AT + 2.0, "{controller:?}");
    // A burst of what goes on.
    signals.handled += 128;
    controller.turn(6_000, &signals);
    assert!(controller.severity() >= before, "{controller:?}");
}

#[test]
fn a_filter_that_is_about_right_stays() {
    let shares = Shares::at(NEW_WORK_AT + 4.0);
    let installed = shares.offered();
    assert!(
        Shares::at(NEW_WORK_AT + 4.05)
            .offered()
            .is_about(&installed)
    );
    assert!(!Shares::at(NEW_WORK_AT + 4.2).offered().is_about(&installed));
    // It lets through no less than is to be let in.
    let more = Shares::at(NEW_WORK_AT + 3.93);
    assert!(more.offered().is_about(&installed) && more.new_work < installed.new_work);
}

#[test]
fn what_can_be_done_is_all_let_in() {
    for period_ms in [1, 20, 100] {
        let mut line = Line::new(1_000.0);
        line.period_ms = period_ms;
        let done = line.run(900.0, 20_000);
        assert!((done - 900.0).abs() < 10.0, "{done}");
        assert!(line.controller.shares().is_all());
    }
}

#[test]
fn when_it_is_over_all_is_let_in_again_soon() {
    let mut line = Line::new(1_000.0);
    line.run(10_000.0, 20_000);
    line.later.clear();
    line.run(500.0, 10_000);
    assert!(line.controller.shares().is_all(), "{:?}", line.controller);
}

#[test]
fn noise_does_not_shut_callers_out() {
    let mut line = Line::new(1_000.0);
    line.noise_per_ms = 120;
    line.run(10.0, 10_000);
    assert!(line.waits_ms() > 400.0, "the line is long");
    assert!(line.controller.shares().is_all(), "{:?}", line.controller);
    assert_eq!(line.controller.brake(), Share::ALL);
}

#[test]
fn the_classes_are_refused_in_their_order() {
    let mut last = Shares::ALL;
    for tenths in 0..240 {
        let shares = Shares::at(tenths as f32 / 10.0);
        assert!(shares.first_registration <= shares.new_work);
        assert!(shares.new_work <= shares.let_in);
        assert!(shares.first_registration <= last.first_registration);
        assert!(shares.new_work <= last.new_work && shares.let_in <= last.let_in);
        last = shares;
    }
    assert!(last.first_registration.percent() == 0);
    assert_eq!(Shares::at(NEW_WORK_AT).new_work, Share::ALL);
    assert_eq!(Shares::at(NEW_WORK_AT).first_registration.percent(), 12);
    assert_eq!(Shares::at(LET_IN_AT).let_in, Share::ALL);
}

#[test]
fn the_gate_lets_just_the_share_in_and_answers_some_of_the_rest() {
    let mut gate = Gate::default();
    assert!(gate.admits(Class::FirstRegistration) && gate.is_open());
    let shares = Shares::at(NEW_WORK_AT + 2.0);
    gate.set(shares);
    let mut admitted = 0;
    let mut answered = 0;
    for _ in 0..4_000 {
        assert!(gate.admits(Class::Within));
        if gate.admits(Class::NewWork) {
            admitted += 1;
        } else if gate.may_answer() {
            answered += 1;
        }
    }
    assert_eq!(admitted, 1_000);
    assert!((125..=130).contains(&answered), "{answered}");
}

#[test]
fn memory_alone_is_reason_enough() {
    let mut controller = Controller::new(QUEUE_MS);
    let mut signals = Signals {
        is_drained: true,
        pressure: 0.5,
        ..Signals::default()
    };
    controller.turn(1_000, &signals);
    assert!(controller.shares().is_all());
    signals.pressure = 0.75;
    controller.turn(2_000, &signals);
    assert!(controller.shares().new_work.percent() < 5);
    signals.pressure = 0.5;
    controller.turn(3_000, &signals);
    assert!(controller.shares().is_all());
}

#[test]
fn a_controller_without_a_bound_refuses_nothing() {
    let mut controller = Controller::new(0);
    for turn in 0..1_000 {
        let signals = Signals {
            begun: turn * 100,
            handled: turn * 700,
            ..Signals::default()
        };
        controller.turn(turn * 10, &signals);
        assert!(controller.shares().is_all());
    }
}
