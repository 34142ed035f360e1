use std::collections::VecDeque;

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
    // That has shown nothing, and would not a moment later.
    for _ in 0..300 {
        now_us += 10_000;
        verified(&mut tuner, now_us, 100_000, false);
        assert_eq!(tuner.decision().reason, Reason::Single);
    }
}

/// A second each, and no answer that is no reject.
#[test]
fn where_few_are_in_flight_and_answered_late_there_will_be_more() {
    let mut tuner = Tuner::new(0, &PipelineConfig::default());
    tuner.is_single = true;
    tuner.stretch = STRETCH_MAX;
    for nth in 0..240_u64 {
        verified(&mut tuner, 2_000_000 + nth * 250_000, 1_000_000, true);
    }
    let decision = tuner.decision();
    assert!(decision.in_flight_max >= 256, "{decision:?}");
}

#[test]
fn a_store_that_hangs_gets_no_more_than_before() {
    let mut tuner = Tuner::new(0, &PipelineConfig::default());
    for nth in 0..40_u64 {
        verified(&mut tuner, 2_000_000 + nth * 10_000, 5_000, false);
    }
    tuner.stretch = STRETCH_MAX;
    for nth in 0..600_u64 {
        tuner.handle_arrival();
        tuner.poll_decision(3_000_000 + nth * 100_000);
    }
    let decision = tuner.decision();
    assert!(decision.in_flight_max <= 32, "{decision:?}");
}

/// By a server that does 500 a second, answers each a tenth of a second late, and is asked 2,000.
#[test]
fn rejects_that_wait_for_each_other_are_a_queue() {
    const SERVICE_US: u64 = 2_000;
    const HELD_BACK_US: u64 = 100_000;
    let mut tuner = Tuner::new(0, &PipelineConfig::default());
    // When each is answered, and when it was sent.
    let mut in_flight: VecDeque<(u64, u64)> = VecDeque::new();
    let (mut waiting, mut free_us) = (0_u32, 0_u64);
    let (mut reprobes, mut was_reprobe) = (0, false);
    for now_us in (0..30_000_000_u64).step_by(500) {
        tuner.handle_arrival();
        waiting += 1;
        while let Some(&(answered_us, sent_us)) = in_flight.front()
            && answered_us <= now_us
        {
            in_flight.pop_front();
            let sample = Sample {
                sent_us,
                rows: 1,
                is_single: true,
                is_reject: true,
            };
            tuner.handle_answer(now_us, &sample);
            tuner.poll_decision(now_us);
        }
        let decision = tuner.decision();
        while waiting > 0 && in_flight.len() < decision.in_flight_max {
            waiting -= 1;
            free_us = free_us.max(now_us) + SERVICE_US;
            in_flight.push_back((free_us + HELD_BACK_US, now_us));
        }
        let is_reprobe = decision.reason == Reason::Reprobe;
        reprobes += u32::from(is_reprobe && !was_reprobe);
        was_reprobe = is_reprobe;
        if now_us >= 5_000_000 {
            assert!(decision.in_flight_max <= 128, "{now_us}: {decision:?}");
        }
    }
    assert!((1..=3).contains(&reprobes), "{reprobes}");
}
