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
