use super::*;

#[test]
fn a_store_that_verifies_one_by_one_has_no_batches_to_wait_for() {
    let config = PipelineConfig::default();
    let mut tuner = Tuner::new(0, &config);
    assert_eq!(tuner.decision().reason, Reason::Start);
    for now_us in (30_000..2_000_000).step_by(1_000) {
        tuner.handle_arrival();
        let sample = Sample {
            sent_us: now_us - 30_000,
            rows: 1,
            is_single: true,
            is_reject: false,
        };
        tuner.handle_answer(now_us, &sample);
        tuner.poll_decision(now_us);
    }
    let decision = tuner.decision();
    assert_eq!(decision.reason, Reason::Single);
    assert_eq!(decision.interval_us, 0);
    assert_eq!(decision.in_flight_max, config.in_flight_max);
}

#[test]
fn another_store_is_measured_anew() {
    let mut tuner = Tuner::new(0, &PipelineConfig::default());
    let sample = Sample {
        sent_us: 0,
        rows: 1,
        is_single: false,
        is_reject: false,
    };
    tuner.handle_answer(30_000, &sample);
    assert_eq!(tuner.round_trip_min_us(), 29_990);
    tuner.restart(30_000);
    assert_eq!(tuner.round_trip_min_us(), 0);
    assert_eq!(tuner.decision().reason, Reason::Start);
    // What the one before was sent is answered yet.
    let sent = |sent_us| Sample { sent_us, ..sample };
    tuner.handle_answer(31_000, &sent(29_999));
    assert_eq!(tuner.round_trip_min_us(), 0);
    tuner.handle_answer(130_000, &sent(30_000));
    assert_eq!(tuner.round_trip_min_us(), 99_990);
}

/// What a store that verifies digests said to one that was sent so long before.
fn verified(tuner: &mut Tuner, now_us: u64, took_us: u64, is_reject: bool) {
    let sample = Sample {
        sent_us: now_us - took_us,
        rows: 1,
        is_single: true,
        is_reject,
    };
    tuner.handle_arrival();
    tuner.handle_answer(now_us, &sample);
    tuner.poll_decision(now_us);
}

/// freeradius has `reject_delay = 1` by itself.
#[test]
fn rejects_that_are_held_back_are_no_queue() {
    let mut tuner = Tuner::new(0, &PipelineConfig::default());
    for nth in 0..1_800_u64 {
        let now_us = 2_000_000 + nth * 33_333;
        match nth % 90 {
            0 => verified(&mut tuner, now_us, 5_000, false),
            _ => verified(&mut tuner, now_us, 1_000_000, true),
        }
        let decision = tuner.decision();
        assert!(decision.in_flight_max >= 256, "{nth}: {decision:?}");
    }
}

#[test]
fn among_rejects_that_are_held_back_a_longer_way_is_looked_for_and_that_ends() {
    let mut tuner = Tuner::new(0, &PipelineConfig::default());
    let mut now_us = 1_000_000;
    for _ in 0..300 {
        now_us += 10_000;
        verified(&mut tuner, now_us, 5_000, false);
        verified(&mut tuner, now_us, 1_000_000, true);
    }
    assert_eq!(tuner.decision().reason, Reason::Single);
    while tuner.decision().reason != Reason::Reprobe {
        now_us += 10_000;
        verified(&mut tuner, now_us, 100_000, false);
        assert!(now_us < 20_000_000);
    }
    for _ in 0..8 {
        now_us += 1_001_000;
        verified(&mut tuner, now_us, 1_000_000, true);
    }
    assert_eq!(tuner.decision().reason, Reason::Single);
}
