//! Stores that fail, in every way.

use super::*;
use crate::question::BadRow;

fn refused() -> BatchFailure {
    BatchFailure::Refused("no".into())
}

fn unusable() -> BatchFailure {
    BatchFailure::Unusable("there is no such table".into())
}

fn log_in_refused() -> BatchFailure {
    BatchFailure::LogInRefused("access denied".into())
}

const NO_ADVICE: Outcome = Err(Unavailable {
    retry_after_s: None,
});
const LATER: Outcome = Err(Unavailable {
    retry_after_s: Some(1),
});

#[test]
fn a_bad_row_fails_its_own_waiters() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.ask(1, "alice");
    rig.ask(2, "bob");
    let id = rig.batch_of(&["alice", "bob"]);
    rig.rows(id, vec![Err(BadRow::Bad("no digest".into())), row("bob")]);
    assert_eq!(rig.answers(), [(1, NO_ADVICE), (2, secret("bob"))]);
    assert_eq!(rig.pipeline.figures().bad_rows, 1);
}

#[test]
fn one_name_that_the_store_cannot_bear_fails_nobody_else() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    for (tag, name) in ["alice", "poison", "bob"].iter().enumerate() {
        rig.ask(tag as u32, name);
    }
    let id = rig.batch_of(&["alice", "poison", "bob"]);
    rig.fail(id, refused());
    let alice = rig.batch_of(&["alice"]);
    let poison = rig.batch_of(&["poison"]);
    let bob = rig.batch_of(&["bob"]);
    rig.fail(poison, refused());
    rig.rows(bob, vec![row("bob")]);
    rig.rows(alice, vec![row("alice")]);
    let expected = [(1, NO_ADVICE), (2, secret("bob")), (0, secret("alice"))];
    assert_eq!(rig.answers(), expected);
    // He who asks again is known.
    rig.ask(3, "carol");
    rig.ask(4, "poison");
    rig.batch_of(&["carol"]);
    rig.batch_of(&["poison"]);
    rig.pass(60_000_000);
    assert!(
        rig.pipeline.replicas.healthy().is_some(),
        "whoever refuses is there"
    );
}

#[test]
fn one_name_that_the_store_cannot_bear_makes_few_statements_of_a_large_one() {
    let mut rig = Rig::new(fixed(0, 256, 300));
    let name = |tag: u32| match tag {
        77 => "poison".to_owned(),
        tag => format!("user{tag}"),
    };
    for tag in 0..256 {
        rig.ask(tag, &name(tag));
    }
    let mut statements = 0;
    let mut rounds = 0;
    loop {
        let sent: Vec<Batch> = std::iter::from_fn(|| rig.batch()).collect();
        if sent.is_empty() {
            break;
        }
        rounds += 1;
        statements += sent.len();
        for batch in sent {
            let names = names(&batch);
            match names.iter().any(|name| name == "poison") {
                true => rig.fail(batch.id, refused()),
                false => rig.rows(batch.id, names.iter().map(|name| row(name)).collect()),
            }
        }
    }
    assert!(statements <= 21, "{statements} statements");
    assert!(rounds <= 4, "{rounds} round trips");
    let mut answers = rig.answers();
    answers.sort_by_key(|(tag, _)| *tag);
    let expected = (0..256).map(|tag| match tag {
        77 => (tag, NO_ADVICE),
        tag => (tag, secret(&name(tag))),
    });
    assert_eq!(answers, expected.collect::<Vec<_>>());
    assert!(rig.pipeline.is_idle());
}

#[test]
fn a_part_of_a_refused_statement_is_no_larger_than_a_statement_may_be() {
    let mut rig = Rig::new(fixed(0, 64, 10));
    for tag in 0..64 {
        rig.ask(tag, &format!("user{tag}"));
    }
    let id = rig.batch().unwrap().id;
    rig.pipeline.reload(fixed(0, 5, 20));
    rig.fail(id, refused());
    let sent: Vec<usize> = std::iter::from_fn(|| rig.batch())
        .map(|batch| names(&batch).len())
        .collect();
    assert_eq!(sent, [5, 3].repeat(8));
}

#[test]
fn a_replica_that_refuses_any_statement_is_left_for_the_next() {
    let mut rig = Rig::new(PipelineConfig {
        replicas: 2,
        ..fixed(0, 10, 10)
    });
    for round in 0..3 {
        let tag = 2 * round;
        rig.ask(tag, "alice");
        rig.ask(tag + 1, "bob");
        if round == 0 {
            let batch = rig.batch().unwrap();
            assert_eq!(batch.replica, Replica(0));
            rig.fail(batch.id, unusable());
        }
        let batch = rig.batch().unwrap();
        assert_eq!(batch.replica, Replica(1));
        rig.rows(batch.id, vec![row("alice"), row("bob")]);
        assert_eq!(
            rig.answers(),
            [(tag, secret("alice")), (tag + 1, secret("bob"))]
        );
        // What it is tried with it refuses as well.
        rig.pass(200_000);
        let probe = rig.batch().unwrap();
        assert_eq!(probe.replica, Replica(0));
        rig.fail(probe.id, unusable());
    }
    // Its table is there again.
    rig.pass(200_000);
    let probe = rig.batch().unwrap();
    rig.rows(probe.id, vec![row("alice")]);
    rig.ask(9, "carol");
    assert_eq!(rig.batch().unwrap().replica, Replica(0));
    assert_eq!(rig.pipeline.figures().failures, [0, 4, 0, 0, 0]);
}

#[test]
fn what_a_store_breaks_off_is_asked_once_more_and_fails_nobody_else() {
    let broken_off = || BatchFailure::Cancelled("statement timeout".into());
    let mut rig = Rig::new(PipelineConfig {
        failures_max: 1,
        ..fixed(0, 10, 10)
    });
    for (tag, name) in ["slow", "bob"].iter().enumerate() {
        rig.ask(tag as u32, name);
    }
    let both = rig.batch_of(&["slow", "bob"]);
    rig.fail(both, broken_off());
    let slow = rig.batch_of(&["slow"]);
    let bob = rig.batch_of(&["bob"]);
    rig.rows(bob, vec![row("bob")]);
    rig.fail(slow, broken_off());
    let slow = rig.batch_of(&["slow"]);
    rig.fail(slow, broken_off());
    assert_eq!(rig.answers(), [(1, secret("bob")), (0, NO_ADVICE)]);
    assert!(rig.pipeline.replicas.healthy().is_some(), "it is there");
    // One that was alone may be answered the next time.
    rig.ask(2, "carol");
    let carol = rig.batch_of(&["carol"]);
    rig.fail(carol, broken_off());
    let carol = rig.batch_of(&["carol"]);
    rig.rows(carol, vec![row("carol")]);
    assert_eq!(rig.answers(), [(2, secret("carol"))]);
}

#[test]
fn a_replica_that_breaks_everything_off_is_left_for_the_next() {
    let broken_off = || BatchFailure::Cancelled("canceled on standby".into());
    let mut rig = Rig::new(PipelineConfig {
        replicas: 2,
        ..fixed(0, 10, 10)
    });
    let mut answered = Vec::new();
    for tag in 0..20 {
        // Whoever breaks off what it is tried with is there, and of no more use.
        rig.pass(300_000);
        rig.ask(tag, &format!("user{tag}"));
        while let Some(batch) = rig.batch() {
            match batch.replica {
                Replica(0) => rig.fail(batch.id, broken_off()),
                _ => rig.rows(batch.id, vec![row("user")]),
            }
        }
        let answers = rig.answers();
        answered.extend(
            answers
                .iter()
                .filter(|(_, of)| of.is_ok())
                .map(|(tag, _)| *tag),
        );
    }
    assert_eq!(answered, (2..20).collect::<Vec<_>>());
}

#[test]
fn who_was_in_two_statements_that_were_refused_is_asked_alone() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.ask(1, "alice");
    rig.ask(2, "poison");
    let first = rig.batch_of(&["alice", "poison"]);
    rig.ask(3, "alice");
    rig.ask(4, "venom");
    let second = rig.batch_of(&["alice", "venom"]);
    rig.fail(first, refused());
    let poison = rig.batch_of(&["poison"]);
    rig.fail(second, refused());
    let alice = rig.batch_of(&["alice"]);
    let venom = rig.batch_of(&["venom"]);
    rig.fail(poison, refused());
    rig.fail(venom, refused());
    assert_eq!(rig.answers(), [(2, NO_ADVICE), (4, NO_ADVICE)]);
    rig.rows(alice, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice")), (3, secret("alice"))]);
}

#[test]
fn a_store_that_refuses_everything_is_not_asked_everything_twice() {
    let mut rig = Rig::new(fixed(0, 2, 1));
    for nth in 0..300 {
        rig.ask(2 * nth, &format!("a{nth}"));
        rig.ask(2 * nth + 1, &format!("b{nth}"));
        while let Some(batch) = rig.batch() {
            rig.fail(batch.id, refused());
        }
        assert_eq!(rig.answers().len(), 2);
    }
    let statements: u64 = rig.pipeline.figures().batches.iter().sum();
    assert!(statements < 300 + 130, "{statements} statements");
    rig.ask(0, "alice");
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(0, secret("alice"))]);
}

#[test]
fn an_answer_of_another_length_is_thrown_away_whole() {
    for wrong in [
        BatchAnswer::Rows(vec![row("bob")]),
        BatchAnswer::Rows(vec![row("bob"), row("bob"), row("bob")]),
        BatchAnswer::Rows(Vec::new()),
        BatchAnswer::Verified(true),
    ] {
        let mut rig = Rig::new(fixed(0, 10, 10));
        rig.ask(1, "alice");
        rig.ask(2, "bob");
        let id = rig.batch_of(&["alice", "bob"]);
        rig.pipeline.handle_answer(0, id, wrong);
        assert_eq!(rig.answers(), []);
        let alice = rig.batch_of(&["alice"]);
        let bob = rig.batch_of(&["bob"]);
        rig.rows(alice, vec![row("alice")]);
        rig.rows(bob, vec![row("bob")]);
        assert_eq!(rig.answers(), [(1, secret("alice")), (2, secret("bob"))]);
        assert_eq!(rig.pipeline.figures().failures, [0, 0, 0, 1, 0]);
    }
}

#[test]
fn a_verdict_is_not_rows() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.try_ask(1, verification("alice"), PATIENT_US).unwrap();
    let id = rig.batch().unwrap().id;
    rig.rows(id, vec![Ok(None)]);
    assert_eq!(rig.answers(), [(1, NO_ADVICE)]);
}

#[test]
fn an_answer_that_comes_twice_or_to_nothing_is_counted() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.ask(1, "alice");
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![row("alice")]);
    rig.rows(id, vec![row("bob")]);
    rig.fail(id, refused());
    rig.rows(BatchId(77), vec![row("bob")]);
    assert_eq!(rig.answers(), [(1, secret("alice"))]);
    assert_eq!(rig.pipeline.figures().unasked, 3);
}

#[test]
fn a_statement_that_is_never_answered_is_given_up_and_asked_once_more() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.ask(1, "alice");
    let first = rig.batch_of(&["alice"]);
    rig.pass(1_000_000);
    assert_eq!(rig.pipeline.poll_given_up(), Some(first));
    let second = rig.batch_of(&["alice"]);
    rig.pass(1_000_000);
    assert_eq!(rig.pipeline.poll_given_up(), Some(second));
    assert!(matches!(rig.answers()[..], [(1, Err(_))]));
    rig.rows(second, vec![row("alice")]);
    assert_eq!(rig.answers(), []);
    assert!(rig.pipeline.is_idle());
}

#[test]
fn a_digest_that_may_have_been_seen_is_not_asked_again() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.try_ask(1, verification("alice"), PATIENT_US).unwrap();
    let lost = rig.batch().unwrap().id;
    rig.pass(1_000_000);
    assert_eq!(rig.pipeline.poll_given_up(), Some(lost));
    assert!(matches!(rig.answers()[..], [(1, Err(_))]));
    assert_eq!(rig.batch(), None);
    // One that never left is.
    rig.try_ask(2, verification("bob"), PATIENT_US).unwrap();
    let unsent = rig.batch().unwrap().id;
    rig.unreachable(unsent);
    let again = rig.batch().unwrap().id;
    rig.pipeline
        .handle_answer(rig.now_us, again, BatchAnswer::Verified(true));
    assert_eq!(rig.answers(), [(2, Ok(Reply::Verified(true)))]);
}

#[test]
fn what_fails_with_one_replica_is_asked_of_the_next() {
    let mut rig = Rig::new(PipelineConfig {
        replicas: 2,
        failures_max: 1,
        ..fixed(0, 10, 10)
    });
    rig.ask(1, "alice");
    let batch = rig.batch().unwrap();
    assert_eq!(batch.replica, Replica(0));
    rig.unreachable(batch.id);
    let batch = rig.batch().unwrap();
    assert_eq!(batch.replica, Replica(1));
    rig.rows(batch.id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice"))]);
    // The first is tried meanwhile, with a question that nobody waits for.
    rig.pass(200_000);
    let probe = rig.batch().unwrap();
    assert_eq!(
        (probe.replica, names(&probe)),
        (Replica(0), vec!["alice".to_owned()])
    );
    rig.rows(probe.id, vec![row("alice")]);
    assert_eq!(rig.answers(), []);
    rig.ask(2, "bob");
    assert_eq!(rig.batch().unwrap().replica, Replica(0));
}

#[test]
fn a_replica_is_tried_though_nobody_waits_for_what_it_lost() {
    let mut rig = Rig::new(PipelineConfig {
        replicas: 2,
        failures_max: 1,
        ..fixed(0, 10, 10)
    });
    rig.ask(1, "alice");
    let first = rig.batch_of(&["alice"]);
    rig.ask(2, "alice");
    let second = rig.batch_of(&["alice"]);
    rig.rows(second, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice")), (2, secret("alice"))]);
    rig.unreachable(first);
    rig.pass(200_000);
    let probe = rig.batch().unwrap();
    assert_eq!(
        (probe.replica, names(&probe)),
        (Replica(0), vec!["alice".to_owned()])
    );
}

#[test]
fn what_several_statements_lose_together_is_asked_of_the_next() {
    let mut rig = Rig::new(PipelineConfig {
        replicas: 2,
        ..fixed(0, 1, 10)
    });
    rig.ask(1, "alice");
    rig.ask(2, "bob");
    let lost = [rig.batch().unwrap(), rig.batch().unwrap()];
    for batch in lost {
        assert_eq!(batch.replica, Replica(0));
        rig.unreachable(batch.id);
    }
    for _ in 0..2 {
        let batch = rig.batch().unwrap();
        assert_eq!(batch.replica, Replica(1));
        let rows = names(&batch).iter().map(|name| row(name)).collect();
        rig.rows(batch.id, rows);
    }
    let mut answers = rig.answers();
    answers.sort_by_key(|(number, _)| *number);
    assert_eq!(answers, [(1, secret("alice")), (2, secret("bob"))]);
}

#[test]
fn a_replica_that_refuses_our_log_in_is_passed_over_and_tried() {
    let mut rig = Rig::new(PipelineConfig {
        replicas: 2,
        ..fixed(0, 10, 10)
    });
    rig.ask(1, "alice");
    let batch = rig.batch().unwrap();
    assert_eq!(batch.replica, Replica(0));
    rig.fail(batch.id, log_in_refused());
    let batch = rig.batch().unwrap();
    assert_eq!(batch.replica, Replica(1));
    rig.rows(batch.id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice"))]);
    for _ in 0..3 {
        rig.pass(200_000);
        let probe = rig.batch().unwrap();
        assert_eq!(probe.replica, Replica(0));
        rig.fail(probe.id, log_in_refused());
        rig.ask(2, "bob");
        let batch = rig.batch().unwrap();
        assert_eq!(batch.replica, Replica(1));
        rig.rows(batch.id, vec![row("bob")]);
        assert_eq!(rig.answers(), [(2, secret("bob"))]);
    }
    // It lets us in again.
    rig.pass(200_000);
    let probe = rig.batch().unwrap();
    rig.rows(probe.id, vec![Ok(None)]);
    rig.ask(3, "carol");
    assert_eq!(rig.batch().unwrap().replica, Replica(0));
    let figures = rig.pipeline.figures();
    assert_eq!((figures.failures, figures.breaks), ([0, 0, 0, 0, 4], 1));
}

#[test]
fn where_the_only_store_refuses_our_log_in_everybody_is_told_to_come_again() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.ask(1, "alice");
    for _ in 0..2 {
        let id = rig.batch_of(&["alice"]);
        rig.fail(id, log_in_refused());
    }
    assert_eq!(rig.answers(), [(1, LATER)]);
    rig.ask(2, "bob");
    let id = rig.batch_of(&["bob"]);
    rig.fail(id, log_in_refused());
    assert_eq!(rig.answers(), [(2, LATER)]);
    assert_eq!(rig.pipeline.figures().replicas_open, 1);
    let refused = rig.try_ask(3, question("carol"), PATIENT_US).unwrap_err();
    assert_eq!(refused.retry_after_s, Some(1));
    assert!(rig.pipeline.is_idle());
}

#[test]
fn while_no_replica_is_there_everybody_is_told_so_at_once() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.break_down();
    let refused = rig.try_ask(1, question("alice"), PATIENT_US).unwrap_err();
    assert_eq!(refused.retry_after_s, Some(1));
    rig.pass(40_000_000);
    let refused = rig.try_ask(1, question("alice"), PATIENT_US).unwrap_err();
    assert_eq!(refused.retry_after_s, Some(10));
    assert!(rig.pipeline.figures().refused[2] >= 2);
    assert_eq!(rig.pipeline.figures().replicas_open, 1);
}

#[test]
fn a_store_that_is_back_is_found_within_a_second_though_it_swallowed_the_last_statements() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.break_down();
    let mut last = None;
    let back_us = rig.now_us + 700_000;
    while rig.now_us < back_us {
        rig.pass(10_000);
        if let Some(probe) = rig.batch() {
            last = Some(probe.id);
        }
    }
    assert!(last.is_some(), "it is tried though nobody asks");
    // From now on it answers within 30 ms.
    let probe = loop {
        rig.pass(10_000);
        if let Some(probe) = rig.batch() {
            break probe.id;
        }
    };
    rig.pass(30_000);
    rig.rows(probe, vec![Ok(None)]);
    assert!(rig.now_us < back_us + 1_000_000);
    rig.ask(1, "alice");
    rig.batch_of(&["alice"]);
    assert_eq!(rig.pipeline.figures().breaks, 1);
}

#[test]
fn what_waits_fails_with_the_last_replica() {
    let mut rig = Rig::new(PipelineConfig {
        failures_max: 1,
        ..fixed(0, 1, 1)
    });
    rig.ask(1, "alice");
    rig.ask(2, "bob");
    let id = rig.batch_of(&["alice"]);
    rig.unreachable(id);
    let answers = rig.answers();
    assert_eq!(answers.len(), 2);
    for (_, outcome) in answers {
        assert_eq!(outcome.unwrap_err().retry_after_s, Some(1));
    }
    assert!(rig.pipeline.is_idle());
}
