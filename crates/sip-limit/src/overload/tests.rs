use super::*;

/// A worker in fluid: so many calls arrive and can be done in a second, each
/// of `MESSAGES` messages; refusing costs `refusal` calls.
struct Fluid {
    controller: Controller,
    gate: Gate,
    capacity_per_s: f64,
    refusal: f64,
    queue: f64,
    now_ms: u64,
    handled: u64,
    begun: u64,
    noise_per_ms: f64,
    /// It runs once in so many ms, as under a quota.
    period_ms: u64,
}

const MESSAGES: u64 = 7;
/// What the kernel's buffer holds, in seconds of work; the rest is lost.
const BUFFER_S: f64 = 0.5;

impl Fluid {
    fn new(capacity_per_s: f64) -> Self {
        Self {
            controller: Controller::new(QUEUE_MS),
            gate: Gate::default(),
            capacity_per_s,
            refusal: 0.02,
            queue: 0.0,
            now_ms: 0,
            handled: 0,
            begun: 0,
            noise_per_ms: 0.0,
            period_ms: 1,
        }
    }

    /// Lets `offered_per_s` come for so long; calls done a second, in the second half.
    fn run(&mut self, offered_per_s: f64, ms: u64) -> f64 {
        let mut arrivals = 0.0;
        let mut done = 0u64;
        for at in 0..ms {
            self.now_ms += 1;
            let offered = self.controller.shares().offered().new_work.parts();
            arrivals += offered_per_s / 1_000.0 * f64::from(offered) / 65_536.0;
            while arrivals >= 1.0 {
                arrivals -= 1.0;
                if self.queue > self.capacity_per_s * BUFFER_S {
                    continue;
                }
                if self.gate.admits(Class::NewWork) {
                    self.queue += 1.0;
                    self.begun += 1;
                    self.handled += MESSAGES;
                    done += u64::from(at >= ms / 2);
                } else {
                    self.queue += self.refusal;
                    self.handled += 1;
                }
            }
            self.queue += self.noise_per_ms;
            self.handled += (self.noise_per_ms * 100.0) as u64;
            if self.now_ms.is_multiple_of(self.period_ms) {
                let room = self.capacity_per_s / 1_000.0 * self.period_ms as f64;
                let is_drained = self.queue <= room;
                self.queue = (self.queue - room).max(0.0);
                let signals = Signals {
                    is_drained,
                    handled: self.handled,
                    begun: self.begun,
                    pressure: 0.0,
                };
                if let Some(shares) = self.controller.turn(self.now_ms, &signals) {
                    self.gate.set(shares.within(&shares.offered()));
                }
            }
        }
        done as f64 * 1_000.0 / (ms - ms / 2) as f64
    }
}

#[test]
fn at_ten_times_the_load_nine_tenths_are_done() {
    for times in [1.2, 2.0, 5.0, 10.0, 60.0] {
        for period_ms in [1, 20, 100] {
            let mut fluid = Fluid::new(1_000.0);
            fluid.period_ms = period_ms;
            // The first seconds, in which it is found out how things stand, and later.
            let (soon, later) = (
                fluid.run(1_000.0 * times, 12_000),
                fluid.run(1_000.0 * times, 60_000),
            );
            println!("{times} times, {period_ms} ms: {soon:.0}/s, {later:.0}/s");
            assert!(soon > 850.0, "{times} times, {period_ms} ms: {soon}/s");
            assert!(later > 900.0, "{times} times, {period_ms} ms: {later}/s");
            let wait_ms = fluid.queue;
            assert!(wait_ms < 300.0, "{times} times: {wait_ms} ms of queue");
        }
    }
}

#[test]
fn what_can_be_done_is_all_let_in() {
    for period_ms in [1, 20, 100] {
        let mut fluid = Fluid::new(1_000.0);
        fluid.period_ms = period_ms;
        let done = fluid.run(900.0, 20_000);
        assert!((done - 900.0).abs() < 2.0, "{done}");
        assert!(fluid.controller.shares().is_all());
    }
}

#[test]
fn when_it_is_over_all_is_let_in_again_soon() {
    let mut fluid = Fluid::new(1_000.0);
    fluid.run(10_000.0, 20_000);
    fluid.run(500.0, 10_000);
    assert!(fluid.controller.shares().is_all());
}

#[test]
fn noise_does_not_shut_callers_out() {
    let mut fluid = Fluid::new(1_000.0);
    fluid.noise_per_ms = 20.0;
    fluid.run(10.0, 10_000);
    assert!(fluid.controller.shares().is_all(), "{:?}", fluid.controller);
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
    assert!((200..=260).contains(&answered), "{answered}");
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
