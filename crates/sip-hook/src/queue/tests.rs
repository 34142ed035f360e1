#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sip_lookup::BatchFailure;

use super::*;
use crate::question::a_call;
use crate::{CacheConfig, Field};

fn queue(change: impl FnOnce(&mut QueueConfig)) -> Queue<u32> {
    let mut config = QueueConfig {
        questions_max: 100,
        batch_max: 8,
        in_flight_max: 2,
        ..QueueConfig::default()
    };
    change(&mut config);
    let cache = CacheConfig {
        fields: vec![Field::User],
        entries_max: 10,
    };
    Queue::new(config, Arc::new(Cache::new([1; 16], cache)))
}

fn ask(queue: &mut Queue<u32>, now_us: u64, tag: u32) -> Result<(), Failure> {
    let question = a_call(&format!("user{tag}"), "sip:bob@example.com");
    queue.submit(now_us, tag, Box::new(question), now_us + 1_000_000)
}

/// The numbers of the questions in a request.
fn ids(batch: &Batch) -> Vec<u64> {
    let body: Value = serde_json::from_slice(&batch.body).unwrap();
    assert_eq!(body["version"], 1);
    let questions = body["questions"].as_array().unwrap();
    assert_eq!(questions.len(), batch.questions);
    questions
        .iter()
        .map(|of| of["id"].as_u64().unwrap())
        .collect()
}

fn answers(of: &[Value]) -> Vec<u8> {
    json!({"version": 1, "answers": of})
        .to_string()
        .into_bytes()
}

/// Lets all of a request go on.
fn good(batch: &Batch) -> Vec<u8> {
    let each = ids(batch).into_iter();
    let each: Vec<Value> = each
        .map(|id| json!({"id": id, "action": "continue"}))
        .collect();
    answers(&each)
}

/// What came out: whether it can be used, by whom.
fn told(queue: &mut Queue<u32>) -> BTreeMap<u32, Result<(), Failure>> {
    let mut told = BTreeMap::new();
    while let Some((tag, outcome)) = queue.poll_answer() {
        let before = told.insert(tag, outcome.map(drop));
        assert_eq!(before, None, "{tag} is answered twice");
    }
    told
}

#[test]
fn a_question_leaves_at_once_and_others_gather_while_all_are_in_flight() {
    let mut queue = queue(|_| {});
    assert_eq!(queue.next_deadline_us(), None);
    for tag in 0..2 {
        ask(&mut queue, 10, tag).unwrap();
        assert_eq!(queue.next_deadline_us(), Some(0));
        assert_eq!(queue.poll_batch(10).unwrap().questions, 1);
    }
    for tag in 2..13 {
        ask(&mut queue, 20, tag).unwrap();
        assert_eq!(queue.poll_batch(20), None);
    }
    assert_eq!(queue.figures().queued, 11);
    let empty = answers(&[json!({"id": 0, "action": "continue"})]);
    queue.handle_answer(30, BatchId(0), &empty);
    let eight = queue.poll_batch(30).unwrap();
    assert_eq!(ids(&eight), (2..10).collect::<Vec<_>>());
    assert_eq!(queue.poll_batch(30), None);
    queue.handle_answer(40, eight.id, &good(&eight));
    let rest = queue.poll_batch(40).unwrap();
    assert_eq!(ids(&rest), [10, 11, 12]);
    queue.handle_answer(50, rest.id, &good(&rest));
    let last = answers(&[json!({"id": 1, "action": "continue"})]);
    queue.handle_answer(50, BatchId(1), &last);
    let told = told(&mut queue);
    assert_eq!(told.len(), 13);
    assert!(told.values().all(Result::is_ok));
    assert!(queue.is_idle());
    let figures = queue.figures();
    assert_eq!((figures.questions, figures.answered), (13, 4));
    assert_eq!(figures.answers, [13, 0, 0, 0]);
}

/// A request of three that waits for its answer, behind one that is answered first.
fn three() -> (Queue<u32>, Batch) {
    let mut queue = queue(|config| config.in_flight_max = 1);
    ask(&mut queue, 0, 0).unwrap();
    let first = queue.poll_batch(0).unwrap();
    for tag in 1..4 {
        ask(&mut queue, 0, tag).unwrap();
    }
    queue.handle_answer(1, first.id, &good(&first));
    let batch = queue.poll_batch(1).unwrap();
    assert_eq!(ids(&batch), [1, 2, 3]);
    told(&mut queue);
    (queue, batch)
}

#[test]
fn a_poisoned_answer_is_its_questions_matter() {
    let (mut queue, batch) = three();
    let body = answers(&[
        json!({"id": 1, "action": "explode"}),
        json!({"id": 3, "action": "reject", "status": 403}),
        json!({"id": 3, "action": "continue"}),
        json!({"id": 0, "action": "continue"}),
        json!({"id": 99, "action": "continue"}),
        json!(null),
    ]);
    queue.handle_answer(2, batch.id, &body);
    let Some((1, Err(Failure::Bad(why)))) = queue.poll_answer() else {
        panic!("the answer that cannot be read is told first");
    };
    assert!(why.contains("`explode`"), "{why}");
    let Some((3, Ok(answer))) = queue.poll_answer() else {
        panic!("a good answer is taken");
    };
    assert!(
        matches!(answer.action(), crate::Action::Reject { .. }),
        "the first counts"
    );
    let Some((2, Err(Failure::Bad(_)))) = queue.poll_answer() else {
        panic!("whoever was forgotten is told so");
    };
    assert!(queue.is_idle());
    assert_eq!(queue.figures().unasked, 4);
}

#[test]
fn a_request_that_is_refused_whole_is_asked_one_by_one() {
    let (mut queue, batch) = three();
    queue.handle_failure(2, batch.id, BatchFailure::Refused("500".to_owned()));
    let mut alone = Vec::new();
    while let Some(batch) = queue.poll_batch(3) {
        assert_eq!(batch.questions, 1);
        alone.push(ids(&batch)[0]);
        match ids(&batch)[..] {
            [2] => queue.handle_answer(3, batch.id, b"<html>"),
            _ => queue.handle_answer(3, batch.id, &good(&batch)),
        }
    }
    assert_eq!(alone, [1, 2, 3]);
    let told = told(&mut queue);
    assert_eq!((&told[&1], &told[&3]), (&Ok(()), &Ok(())));
    assert!(matches!(&told[&2], Err(Failure::Refused(why)) if why.contains("not JSON")));
    assert!(queue.is_idle());
}

#[test]
fn a_program_that_refuses_everything_is_not_asked_everything_twice() {
    let mut queue = queue(|config| config.in_flight_max = 1);
    let mut requests = 0;
    for round in 0..100 {
        for tag in 0..8 {
            ask(&mut queue, round, 8 * round as u32 + tag).unwrap();
        }
        while let Some(batch) = queue.poll_batch(round) {
            requests += 1;
            queue.handle_failure(round, batch.id, BatchFailure::Refused("no".to_owned()));
        }
    }
    assert_eq!(told(&mut queue).len(), 800);
    assert!(
        requests < 200,
        "{requests} requests of eight questions each"
    );
    assert_eq!(queue.figures().away, 0, "whoever refuses is there");
}

#[test]
fn a_request_that_is_lost_is_asked_once_more() {
    let (mut queue, batch) = three();
    queue.handle_failure(10, batch.id, BatchFailure::Unreachable("closed".to_owned()));
    let again = queue.poll_batch(10).unwrap();
    assert_eq!(ids(&again), [1, 2, 3]);
    queue.handle_failure(20, again.id, BatchFailure::Unreachable("closed".to_owned()));
    let told = told(&mut queue);
    assert!(
        told.values().all(|of| *of == Err(Failure::Unreachable)),
        "{told:?}"
    );
    assert_eq!(told.len(), 3);
    // What comes all the same is nobody's.
    queue.handle_answer(30, again.id, &good(&again));
    assert_eq!(queue.figures().unasked, 1);
}

#[test]
fn after_failures_in_a_row_nobody_waits_until_a_probe_is_answered() {
    let mut queue = queue(|config| config.in_flight_max = 1);
    let mut now_us = 0;
    for tag in 0..2 {
        ask(&mut queue, now_us, tag).unwrap();
        while let Some(batch) = queue.poll_batch(now_us) {
            now_us += 10;
            queue.handle_failure(now_us, batch.id, BatchFailure::Unreachable("x".to_owned()));
        }
    }
    assert_eq!(
        queue.figures().away,
        1,
        "two questions were asked twice, or would have been"
    );
    assert_eq!(ask(&mut queue, now_us, 9), Err(Failure::Away));
    told(&mut queue);
    let probe_us = queue.next_deadline_us().unwrap();
    assert_eq!(queue.poll_batch(probe_us - 1), None);
    let probe = queue.poll_batch(probe_us).unwrap();
    assert_eq!((probe.questions, ids(&probe)), (0, vec![]));
    // It says nothing: the next one leaves in its time all the same.
    let again = queue.poll_batch(probe_us + 500_000).unwrap();
    assert_eq!(again.questions, 0);
    queue.handle_answer(probe_us + 500_010, again.id, &answers(&[]));
    assert_eq!(queue.figures().away, 0);
    ask(&mut queue, probe_us + 500_020, 10).unwrap();
    let batch = queue.poll_batch(probe_us + 500_020).unwrap();
    queue.handle_answer(probe_us + 500_030, batch.id, &good(&batch));
    assert_eq!(told(&mut queue)[&10], Ok(()));
    let end_us = probe_us + 2_000_000;
    queue.handle_timeout(end_us);
    assert_eq!(queue.poll_given_up(), Some(probe.id));
    assert!(queue.is_idle());
    assert_eq!(
        queue.figures().away,
        0,
        "an old probe that is late is no news"
    );
}

#[test]
fn a_program_that_is_silent_is_given_up_and_found_gone() {
    let mut queue = queue(|config| config.in_flight_max = 1);
    let mut now_us = 0;
    for tag in 0..3 {
        ask(&mut queue, now_us, tag).unwrap();
        let batch = queue.poll_batch(now_us).unwrap();
        assert_eq!(queue.next_deadline_us(), Some(now_us + 1_000_000));
        now_us += 1_000_000;
        queue.handle_timeout(now_us);
        assert_eq!(queue.poll_given_up(), Some(batch.id));
        assert_eq!(told(&mut queue)[&tag], Err(Failure::TimedOut));
    }
    assert_eq!(queue.figures().away, 1);
}

#[test]
fn what_nobody_waits_for_is_not_asked() {
    let mut queue = queue(|config| config.in_flight_max = 1);
    ask(&mut queue, 0, 0).unwrap();
    let first = queue.poll_batch(0).unwrap();
    ask(&mut queue, 0, 1).unwrap();
    let question = Box::new(a_call("late", "sip:x@y"));
    assert_eq!(queue.submit(500, 7, question, 500), Err(Failure::TimedOut));
    queue.handle_timeout(1_000_000);
    assert_eq!(told(&mut queue).len(), 2);
    assert_eq!(queue.poll_given_up(), Some(first.id));
    assert_eq!(queue.poll_batch(1_000_000), None);
    assert!(queue.is_idle());
}

#[test]
fn questions_of_a_slow_request_are_asked_alone_where_others_are_answered() {
    let mut queue = queue(|config| config.in_flight_max = 2);
    for tag in 0..2 {
        ask(&mut queue, 0, tag).unwrap();
    }
    let (a, b) = (queue.poll_batch(0).unwrap(), queue.poll_batch(0));
    assert_eq!((a.questions, b), (2, None));
    // The program is slow as a whole: nothing is asked again.
    queue.handle_timeout(600_000);
    assert_eq!(queue.poll_batch(600_000), None);
    ask(&mut queue, 600_000, 2).unwrap();
    let c = queue.poll_batch(600_000).unwrap();
    queue.handle_answer(600_010, c.id, &good(&c));
    assert_eq!(told(&mut queue)[&2], Ok(()));
    // It is this request that takes its time.
    assert!(queue.next_deadline_us().unwrap() <= 600_010);
    queue.handle_timeout(600_020);
    let d = queue.poll_batch(600_020).unwrap();
    assert_eq!(ids(&d), [0]);
    assert_eq!(
        queue.poll_batch(600_020),
        None,
        "no more in flight than may be"
    );
    queue.handle_answer(600_030, d.id, &good(&d));
    assert_eq!(told(&mut queue)[&0], Ok(()));
    let e = queue.poll_batch(600_040).unwrap();
    assert_eq!(ids(&e), [1]);
    // The first one answers after all, for the one that is left.
    queue.handle_answer(600_050, a.id, &good(&a));
    assert_eq!(told(&mut queue), BTreeMap::from([(1, Ok(()))]));
    queue.handle_answer(600_060, e.id, &good(&e));
    assert!(told(&mut queue).is_empty());
    assert!(queue.is_idle());
}

#[test]
fn what_is_refused_alone_and_with_others_is_told_at_once() {
    let mut queue = queue(|config| config.in_flight_max = 2);
    for tag in 0..2 {
        ask(&mut queue, 0, tag).unwrap();
    }
    let slow = queue.poll_batch(0).unwrap();
    ask(&mut queue, 600_000, 2).unwrap();
    let other = queue.poll_batch(600_000).unwrap();
    queue.handle_answer(600_010, other.id, &good(&other));
    told(&mut queue);
    queue.handle_timeout(600_020);
    let alone = queue.poll_batch(600_020).unwrap();
    assert_eq!(ids(&alone), [0]);
    let refused = || BatchFailure::Refused("500".to_owned());
    queue.handle_failure(600_030, alone.id, refused());
    assert!(told(&mut queue).is_empty(), "the other may answer yet");
    queue.handle_failure(600_040, slow.id, refused());
    assert!(matches!(told(&mut queue)[&0], Err(Failure::Refused(_))));
}

#[test]
fn ten_thousand_questions_are_no_more_than_there_is_room_for() {
    let mut queue = queue(|_| {});
    let taken = (0..10_000).filter(|tag| ask(&mut queue, 0, *tag).is_ok());
    assert_eq!(taken.count(), 100);
    assert_eq!(queue.figures().failed[Failure::Full.index()], 9_900);
    queue.handle_timeout(1_000_000);
    assert_eq!(told(&mut queue).len(), 100);
    // What is left in the queues is dropped as it is met.
    assert_eq!(queue.poll_batch(1_000_000), None);
    assert!(queue.is_idle() && queue.together.is_empty());
}

#[test]
fn a_good_answer_is_remembered_and_a_bad_one_is_not() {
    let mut queue = queue(|_| {});
    for (tag, answer) in [
        (0, json!({"id": 0, "action": "continue", "cache_s": 5})),
        (1, json!({"id": 1, "action": "what", "cache_s": 5})),
    ] {
        ask(&mut queue, 0, tag).unwrap();
        let batch = queue.poll_batch(0).unwrap();
        queue.handle_answer(1, batch.id, &answers(&[answer]));
    }
    let known = |tag: u32| {
        queue
            .cache
            .get(2, &a_call(&format!("user{tag}"), "sip:x@y"))
    };
    assert!(known(0).is_some());
    assert!(known(1).is_none());
}
