//! Who shares a look-up with whom, and in which order answers come.

use super::*;

#[test]
fn questions_about_one_user_are_one_row_whatever_the_algorithm() {
    let mut rig = Rig::new(fixed(1_000, 10, 10));
    rig.ask(0, "carol");
    let first = rig.batch_of(&["carol"]);
    rig.ask(1, "alice");
    rig.ask(2, "bob");
    let other = Question {
        algorithm: Algorithm::Sha256,
        ..question("alice")
    };
    rig.try_ask(3, other, PATIENT_US).unwrap();
    rig.pass(1_000);
    let second = rig.batch_of(&["alice", "bob"]);
    rig.rows(second, vec![row("alice"), Ok(None)]);
    rig.rows(first, vec![row("carol")]);
    let sha256 = Ok(Reply::Secret(ha1(Algorithm::Sha256, "alice")));
    let expected = [
        (1, secret("alice")),
        (2, Ok(Reply::Unknown)),
        (3, sha256),
        (0, secret("carol")),
    ];
    assert_eq!(rig.answers(), expected);
    assert_eq!(rig.pipeline.figures().joined, 1);
    assert!(rig.pipeline.is_idle());
}

#[test]
fn an_algorithm_that_he_has_no_secret_for_is_unknown() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    let other = Question {
        algorithm: Algorithm::Sha512_256,
        ..question("alice")
    };
    rig.try_ask(1, other, PATIENT_US).unwrap();
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, Ok(Reply::Unknown))]);
}

#[test]
fn a_question_is_answered_by_a_row_that_was_asked_for_after_it() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.ask(1, "alice");
    let first = rig.batch_of(&["alice"]);
    rig.ask(2, "alice");
    let second = rig.batch_of(&["alice"]);
    // The user was removed in between.
    rig.rows(first, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice"))]);
    rig.rows(second, vec![Ok(None)]);
    assert_eq!(rig.answers(), [(2, Ok(Reply::Unknown))]);
}

#[test]
fn a_batch_that_overtakes_answers_those_before_it_first() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.ask(1, "alice");
    let first = rig.batch_of(&["alice"]);
    rig.ask(2, "alice");
    let second = rig.batch_of(&["alice"]);
    rig.rows(second, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice")), (2, secret("alice"))]);
    assert_eq!(rig.pipeline.figures().overtaken, 1);
    rig.rows(first, vec![Ok(None)]);
    assert_eq!(rig.answers(), []);
    assert!(rig.pipeline.is_idle());
}

#[test]
fn what_was_lost_is_asked_for_by_the_next_of_the_same_user() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.ask(1, "alice");
    let first = rig.batch_of(&["alice"]);
    rig.ask(2, "alice");
    let second = rig.batch_of(&["alice"]);
    rig.unreachable(first);
    assert_eq!(rig.batch(), None, "the second speaks for both");
    rig.rows(second, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice")), (2, secret("alice"))]);
    assert!(rig.pipeline.is_idle());
}

#[test]
fn digests_that_the_store_verifies_share_nothing() {
    let mut rig = Rig::new(fixed(1_000, 10, 10));
    for tag in 0..3 {
        rig.try_ask(tag, verification("alice"), PATIENT_US).unwrap();
    }
    let ids: Vec<BatchId> = std::iter::from_fn(|| rig.batch()).map(|b| b.id).collect();
    assert_eq!(ids.len(), 3, "they wait for no company");
    for (id, is_right) in ids.into_iter().zip([true, false, true]) {
        rig.pipeline
            .handle_answer(0, id, BatchAnswer::Verified(is_right));
    }
    let verdicts: Vec<_> = rig
        .answers()
        .into_iter()
        .map(|(_, outcome)| outcome)
        .collect();
    assert_eq!(
        verdicts,
        [true, false, true].map(|is| Ok(Reply::Verified(is)))
    );
}

#[test]
fn a_digest_that_the_store_has_not_judged_keeps_no_other_of_its_user_waiting() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    for tag in 0..2 {
        rig.try_ask(tag, verification("alice"), PATIENT_US).unwrap();
    }
    let slow = rig.batch().unwrap().id;
    let quick = rig.batch().unwrap().id;
    rig.pipeline
        .handle_answer(0, quick, BatchAnswer::Verified(true));
    assert_eq!(rig.answers(), [(1, Ok(Reply::Verified(true)))]);
    rig.pipeline
        .handle_answer(0, slow, BatchAnswer::Verified(false));
    assert_eq!(rig.answers(), [(0, Ok(Reply::Verified(false)))]);
}

#[test]
fn a_process_of_the_paper_shares_nothing_but_rows_of_a_statement() {
    let mut rig = Rig::new(PipelineConfig {
        mode: Mode::Blocking {
            processes: 2,
            batch: 3,
        },
        ..PipelineConfig::default()
    });
    rig.ask(1, "alice");
    rig.ask(2, "alice");
    assert_eq!(rig.batch(), None);
    rig.ask(3, "bob");
    let first = rig.batch_of(&["alice", "bob"]);
    rig.rows(first, vec![row("alice"), row("bob")]);
    assert_eq!(rig.answers().len(), 3);
    assert_eq!(rig.pipeline.figures().joined, 0);
}
