//! When batches leave.

use super::*;

#[test]
fn the_first_leaves_at_once_and_the_next_by_pacing() {
    let mut rig = Rig::new(fixed(1_000, 10, 10));
    rig.ask(1, "alice");
    rig.batch_of(&["alice"]);
    rig.ask(2, "bob");
    rig.ask(3, "carol");
    assert_eq!(rig.batch(), None);
    assert_eq!(rig.pipeline.next_deadline_us(), Some(1_000));
    rig.pass(999);
    assert_eq!(rig.batch(), None);
    rig.pass(1);
    rig.batch_of(&["bob", "carol"]);
    rig.pass(5_000);
    rig.ask(4, "dave");
    rig.batch_of(&["dave"]);
}

#[test]
fn a_full_batch_leaves_before_its_time() {
    let mut rig = Rig::new(fixed(1_000, 2, 10));
    rig.ask(1, "alice");
    rig.batch_of(&["alice"]);
    rig.ask(2, "bob");
    assert_eq!(rig.batch(), None);
    rig.ask(3, "carol");
    rig.batch_of(&["bob", "carol"]);
}

#[test]
fn no_more_are_in_flight_than_allowed() {
    let mut rig = Rig::new(fixed(0, 1, 2));
    for (tag, name) in ["alice", "bob", "carol"].iter().enumerate() {
        rig.ask(tag as u32, name);
    }
    let first = rig.batch_of(&["alice"]);
    rig.batch_of(&["bob"]);
    assert_eq!(rig.batch(), None);
    let timeout_us = PipelineConfig::default().timeout_us;
    assert_eq!(rig.pipeline.next_deadline_us(), Some(timeout_us));
    rig.rows(first, vec![Ok(None)]);
    rig.batch_of(&["carol"]);
}

#[test]
fn a_store_says_how_many_rows_it_takes() {
    let mut rig = Rig::new(PipelineConfig {
        batch_max: 2,
        ..fixed(0, 100, 10)
    });
    for (tag, name) in ["alice", "bob", "carol"].iter().enumerate() {
        rig.ask(tag as u32, name);
    }
    rig.batch_of(&["alice", "bob"]);
    rig.batch_of(&["carol"]);
}

#[test]
fn a_process_of_the_paper_waits_for_its_batch_and_for_its_answer() {
    let mut rig = Rig::new(PipelineConfig {
        mode: Mode::Blocking {
            processes: 1,
            batch: 2,
        },
        ..PipelineConfig::default()
    });
    rig.ask(1, "alice");
    assert_eq!(rig.batch(), None);
    assert_eq!(rig.pipeline.next_deadline_us(), Some(250_000));
    rig.ask(2, "bob");
    let first = rig.batch_of(&["alice", "bob"]);
    rig.ask(3, "carol");
    rig.ask(4, "dave");
    assert_eq!(rig.batch(), None, "the process is blocked");
    rig.rows(first, vec![Ok(None), Ok(None)]);
    rig.batch_of(&["carol", "dave"]);
    let mut rig = Rig::new(rig.pipeline.config);
    rig.ask(5, "eve");
    rig.pass(250_000);
    rig.batch_of(&["eve"]);
}

#[test]
fn what_nobody_waits_for_any_more_is_not_asked() {
    let mut rig = Rig::new(fixed(100_000, 10, 10));
    rig.ask(0, "alice");
    let first = rig.batch_of(&["alice"]);
    rig.try_ask(1, question("bob"), 50_000).unwrap();
    rig.ask(2, "carol");
    rig.pass(50_000);
    let why = Unavailable {
        retry_after_s: None,
    };
    assert_eq!(rig.answers(), [(1, Err(why))]);
    rig.pass(50_000);
    rig.batch_of(&["carol"]);
    assert_eq!(rig.pipeline.figures().expired_unasked, 1);
    rig.rows(first, vec![Ok(None)]);
}

#[test]
fn an_answer_after_the_deadline_comes_to_nobody() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.try_ask(1, question("alice"), 50_000).unwrap();
    let id = rig.batch_of(&["alice"]);
    rig.pass(50_000);
    assert!(matches!(rig.answers()[..], [(1, Err(_))]));
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), []);
    assert_eq!(rig.pipeline.figures().expired, 1);
    assert!(rig.pipeline.is_idle());
}

#[test]
fn what_would_be_late_is_refused_at_once_with_the_length_of_the_queue() {
    let mut rig = Rig::new(fixed(0, 1, 1));
    rig.ask(0, "alice");
    let mut id = rig.batch_of(&["alice"]);
    rig.pass(400_000);
    rig.rows(id, vec![Ok(None)]);
    for tag in 1..7 {
        rig.ask(tag, &format!("user{tag}"));
    }
    id = rig.batch_of(&["user1"]);
    // Five are before it, at 0.4 s each.
    let refused = rig.try_ask(7, question("bob"), 2_000_000).unwrap_err();
    assert_eq!(refused.retry_after_s, Some(2));
    rig.try_ask(8, question("bob"), 4_000_000).unwrap();
    assert_eq!(rig.pipeline.figures().refused, [0, 1, 0]);
    rig.rows(id, vec![Ok(None)]);
}

#[test]
fn a_slow_answer_does_not_refuse_those_who_come_to_an_idle_pipeline() {
    let mut rig = Rig::new(fixed(0, 1, 1));
    rig.ask(0, "alice");
    let id = rig.batch_of(&["alice"]);
    rig.now_us += 900_000;
    rig.rows(id, vec![Ok(None)]);
    assert_eq!(rig.try_ask(1, question("bob"), 100_000), Ok(()));
}

#[test]
fn there_is_room_for_so_many() {
    let mut rig = Rig::new(PipelineConfig {
        questions_max: 3,
        ..fixed(0, 10, 10)
    });
    for tag in 0..3 {
        rig.ask(tag, "alice");
    }
    let refused = rig.try_ask(3, question("bob"), PATIENT_US).unwrap_err();
    assert_eq!(refused.retry_after_s, Some(1));
    assert_eq!(rig.pipeline.figures().refused, [1, 0, 0]);
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![Ok(None)]);
    rig.ask(4, "bob");
    rig.pipeline.reload(PipelineConfig {
        questions_max: 1,
        ..rig.pipeline.config
    });
    assert!(rig.try_ask(5, question("carol"), PATIENT_US).is_err());
}

#[test]
fn the_time_of_a_question_that_comes_too_late_is_up() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    assert!(rig.try_ask(1, question("alice"), 0).is_err());
    assert!(rig.pipeline.is_idle());
}

#[test]
fn it_is_quiet_until_the_next_batch_where_nothing_is_under_way() {
    let mut rig = Rig::new(fixed(5_000, 64, 8));
    rig.ask(1, "alice");
    let id = rig.batch_of(&["alice"]);
    assert_eq!(rig.pipeline.quiet_until_us(), None, "an answer may come");
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.pipeline.quiet_until_us(), Some(5_000));
    // What comes meanwhile leaves then, and not before.
    rig.ask(2, "bob");
    assert_eq!(rig.pipeline.quiet_until_us(), Some(5_000));
    assert!(rig.batch().is_none());
    rig.pass(5_000);
    rig.batch_of(&["bob"]);
    // Of a batch that was refused each part has a statement to itself, at once.
    let mut refused = Rig::new(fixed(5_000, 64, 8));
    refused.ask(1, "alice");
    refused.ask(2, "bob");
    let id = refused.batch_of(&["alice", "bob"]);
    refused.fail(id, BatchFailure::Refused("no".into()));
    assert_eq!(refused.pipeline.quiet_until_us(), None);
    // Processes that wait send when they have enough, whenever that is.
    let blocking = Rig::new(PipelineConfig {
        mode: Mode::Blocking {
            processes: 2,
            batch: 4,
        },
        ..PipelineConfig::default()
    });
    assert_eq!(blocking.pipeline.quiet_until_us(), None);
}
