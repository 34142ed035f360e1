use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex};

use sip_auth::Algorithm;

use super::*;
use crate::StoreErrorKind;
use crate::bindings::Swept;
use crate::testing::{Folder, binding, put};

fn config() -> ServiceConfig {
    ServiceConfig {
        batch_max: 10,
        idle_ms: 1,
        sweep_ms: 0,
        sweep_rows: 10,
        round_pause_ms: 0,
    }
}

fn failure() -> StoreError {
    StoreError::new(StoreErrorKind::Full, "no room")
}

/// A store that writes down what it was asked, and fails on demand.
#[derive(Default)]
struct Fake {
    groups: Vec<usize>,
    fail: Vec<bool>,
    sweeps: usize,
    on_save: Option<Box<dyn FnMut() + Send>>,
    on_sweep: Option<Box<dyn FnMut() + Send>>,
}

impl BindingStore for Fake {
    fn save(
        &mut self,
        changes: &mut dyn Iterator<Item = &BindingChange>,
    ) -> Result<(), StoreError> {
        if let Some(on_save) = &mut self.on_save {
            on_save();
        }
        self.groups.push(changes.count());
        if self.fail.get(self.groups.len() - 1) == Some(&true) {
            Err(failure())
        } else {
            Ok(())
        }
    }

    fn delete_expired(&mut self, _: u64, _: usize) -> Result<Swept, StoreError> {
        if let Some(on_sweep) = &mut self.on_sweep {
            on_sweep();
        }
        self.sweeps += 1;
        Ok(Swept {
            deleted: 1,
            is_round: true,
        })
    }

    fn load(&mut self, _: u64, _: &mut dyn FnMut(BindingChange)) -> Result<u64, StoreError> {
        Ok(0)
    }
}

fn save(tag: u32) -> Save<u32> {
    Save {
        tag,
        changes: vec![put("a", &tag.to_string(), binding(tag, 100))],
    }
}

#[test]
fn what_has_come_is_one_group_up_to_the_bound() {
    let (orders, queue) = queue(100);
    for tag in 0..25 {
        orders.try_send(save(tag)).expect("room");
    }
    drop(orders);
    let mut store = Fake::default();
    let counters = ServiceCounters::default();
    let mut answered = Vec::new();
    serve_saves(
        &mut store,
        &queue,
        &config(),
        &counters,
        || 0,
        || 0,
        |answers| answered.push(std::mem::take(answers)),
    );
    assert_eq!(store.groups, [10, 10, 5]);
    let tags: Vec<_> = answered
        .iter()
        .flatten()
        .map(|(tag, result)| (*tag, *result))
        .collect();
    assert_eq!(tags, (0..25).map(|tag| (tag, Ok(()))).collect::<Vec<_>>());
    assert_eq!(
        answered.iter().map(Vec::len).collect::<Vec<_>>(),
        [10, 10, 5]
    );
    let figures = counters.figures();
    assert_eq!(
        (figures.saves, figures.save_groups, figures.saves_failed),
        (25, 3, 0)
    );
    assert!(store.sweeps > 0 && figures.expired == store.sweeps as u64);
}

#[test]
fn nobody_is_answered_before_the_commit() {
    let (orders, queue) = queue(100);
    for tag in 0..5 {
        orders.try_send(save(tag)).expect("room");
    }
    drop(orders);
    let events = Arc::new(Mutex::new(Vec::new()));
    let at_save = events.clone();
    let on_save: Box<dyn FnMut() + Send> =
        Box::new(move || at_save.lock().expect("whole").push("commit"));
    let mut store = Fake {
        on_save: Some(on_save),
        ..Fake::default()
    };
    let deliver = |answers: &mut Answers<u32, ()>| {
        events
            .lock()
            .expect("whole")
            .extend(answers.iter().map(|_| "answer"))
    };
    serve_saves(
        &mut store,
        &queue,
        &config(),
        &ServiceCounters::default(),
        || 0,
        || 0,
        deliver,
    );
    assert_eq!(
        *events.lock().expect("whole"),
        ["commit", "answer", "answer", "answer", "answer", "answer"]
    );
}

#[test]
fn a_failed_commit_is_the_answer_of_its_whole_group_and_of_no_other() {
    let (orders, queue) = queue(100);
    for tag in 0..30 {
        orders.try_send(save(tag)).expect("room");
    }
    drop(orders);
    let mut store = Fake {
        fail: vec![false, true, false],
        ..Fake::default()
    };
    let counters = ServiceCounters::default();
    let mut failed = Vec::new();
    serve_saves(
        &mut store,
        &queue,
        &config(),
        &counters,
        || 0,
        || 0,
        |answers| {
            failed.extend(
                answers
                    .drain(..)
                    .filter(|(_, result)| result.is_err())
                    .map(|(tag, _)| tag),
            );
        },
    );
    assert_eq!(failed, (10..20).collect::<Vec<_>>());
    let figures = counters.figures();
    assert_eq!((figures.saves, figures.saves_failed), (20, 10));
    assert!(!counters.fails_to_save(0, 1_000), "the last one was stored");
}

#[test]
fn a_store_that_fails_is_known_to_for_a_while() {
    let (orders, queue) = queue(100);
    orders.try_send(save(1)).expect("room");
    drop(orders);
    let mut store = Fake {
        fail: vec![true],
        ..Fake::default()
    };
    let counters = ServiceCounters::default();
    assert!(!counters.fails_to_save(5_000, 1_000));
    let now_ms = || 5_000;
    serve_saves(
        &mut store,
        &queue,
        &config(),
        &counters,
        || 0,
        now_ms,
        |_| {},
    );
    assert!(counters.fails_to_save(6_000, 1_000));
    assert!(!counters.fails_to_save(6_001, 1_000));
}

#[test]
fn a_clock_that_is_set_back_makes_no_failure_last() {
    let (orders, queue) = queue(100);
    orders.try_send(save(1)).expect("room");
    drop(orders);
    let mut store = Fake {
        fail: vec![true],
        ..Fake::default()
    };
    let counters = ServiceCounters::default();
    // The machine began a day ahead.
    let (unix_ms, now_ms) = (|| 86_400_000, || 1_000);
    serve_saves(
        &mut store,
        &queue,
        &config(),
        &counters,
        unix_ms,
        now_ms,
        |_| {},
    );
    assert!(counters.fails_to_save(31_000, 30_000));
    assert!(!counters.fails_to_save(31_001, 30_000));
}

#[test]
fn a_store_that_hangs_is_known_to_until_it_answers_in_time() {
    let counters = Arc::new(ServiceCounters::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    // What is seen while it is at it, from `at_ms` on.
    let looks = |at_ms: u64| {
        let (counters, seen) = (counters.clone(), seen.clone());
        move || {
            for now_ms in [at_ms, at_ms + 1, at_ms + 2] {
                let news = counters.look_at_commit(now_ms, 4_000);
                let fails = counters.fails_to_save(now_ms, 1_000);
                seen.lock().expect("whole").push((news, fails));
            }
        }
    };
    let looks_on = |save: bool, at_ms: u64| Fake {
        on_save: save.then(|| Box::new(looks(at_ms)) as _),
        on_sweep: (!save).then(|| Box::new(looks(at_ms)) as _),
        ..Fake::default()
    };
    let resting = ServiceConfig {
        sweep_ms: 3_600_000,
        ..config()
    };
    let stores = |mut store: Fake, config: &ServiceConfig, began_ms: u64| {
        let (orders, queue) = queue(100);
        orders.try_send(save(1)).expect("room");
        drop(orders);
        let now_ms = || began_ms;
        serve_saves(&mut store, &queue, config, &counters, || 0, now_ms, |_| {});
        std::mem::take(&mut *seen.lock().expect("whole"))
    };
    let hangs = Some(CommitNews::Hangs { for_ms: 4_001 });
    // A commit for a save, and a look for what has expired.
    for (is_save, config) in [(true, &resting), (false, &config())] {
        let first = stores(looks_on(is_save, 9_000), config, 5_000);
        assert_eq!(first, [(None, false), (hangs, true), (None, true)]);
        // It has ended late, and so does the next.
        assert!(counters.fails_to_save(11_000, 1_000));
        assert_eq!(counters.look_at_commit(11_000, 4_000), None);
        if is_save {
            let second = stores(looks_on(true, 15_000), config, 11_000);
            assert_eq!(second, [(None, true); 3], "and that is no news");
            assert!(counters.fails_to_save(17_000, 1_000));
        }
        let third = stores(looks_on(true, 17_001), &resting, 17_000);
        assert_eq!(third, [(None, true); 3]);
        assert!(!counters.fails_to_save(17_004, 1_000));
        let news = || counters.look_at_commit(17_004, 4_000);
        assert_eq!([news(), news()], [Some(CommitNews::Answers), None]);
    }
}

#[test]
fn a_full_queue_answers_at_once() {
    let (orders, queue) = queue(2);
    orders.try_send(save(0)).expect("room");
    orders.try_send(save(1)).expect("room");
    assert!(matches!(
        orders.try_send(save(2)),
        Err(TrySendError::Full(Save { tag: 2, .. }))
    ));
    drop(queue);
    assert!(matches!(
        orders.try_send(save(3)),
        Err(TrySendError::Disconnected(_))
    ));
}

struct HalfBlind;

impl CredentialStore for HalfBlind {
    fn find(&mut self, keys: &[CredentialKey], answers: &mut Vec<Result<Option<Ha1>, StoreError>>) {
        // The last one is forgotten altogether.
        for key in keys.iter().skip(1) {
            answers.push(match key.user() {
                b"alice" => Ok(Some(Ha1::compute(key.algorithm(), b"alice", b"r", b"p"))),
                b"broken" => Err(failure()),
                _ => Ok(None),
            });
        }
    }
}

#[test]
fn look_ups_are_answered_one_by_one() {
    let (questions, queue) = queue(100);
    for (tag, user) in ["first", "alice", "too late", "broken", "nobody"]
        .into_iter()
        .enumerate()
    {
        let lookup = Lookup {
            tag,
            key: CredentialKey::new(user.as_bytes(), "r".into(), Algorithm::Md5),
            until_ms: if user == "too late" { 999 } else { 1_000 },
        };
        questions.try_send(lookup).expect("room");
    }
    drop(questions);
    let counters = ServiceCounters::default();
    let mut answered = Vec::new();
    let now_ms = || 1_000;
    serve_lookups(
        &mut HalfBlind,
        &queue,
        &config(),
        &counters,
        now_ms,
        |answers| answered.append(answers),
    );
    let short: Vec<_> = answered
        .iter()
        .map(|(tag, answer)| (*tag, answer.as_ref().map(Option::is_some)))
        .collect();
    assert_eq!(
        short,
        [
            (0, Ok(true)),
            (1, Err(&Unavailable)),
            (3, Ok(false)),
            (4, Err(&Unavailable))
        ]
    );
    let figures = counters.figures();
    assert_eq!(
        (
            figures.lookups,
            figures.lookup_batches,
            figures.lookups_failed,
            figures.lookups_expired
        ),
        (4, 1, 2, 1)
    );
}

#[test]
fn complaints_are_told_at_most_once_a_second() {
    let mut complaints = Complaints::new("tests");
    for _ in 0..1_000 {
        complaints.note(&failure(), 3);
    }
    // The first was told; the rest waits for the second to pass.
    assert!(complaints.untold >= 3 * 990, "{}", complaints.untold);
}

#[test]
fn all_of_it_on_threads_and_a_disk() {
    let folder = Folder::new();
    let mut bindings = folder.open().bindings().expect("opens");
    let (orders, from_workers) = queue(64);
    let acknowledged = Mutex::new(Vec::new());
    let counters = ServiceCounters::default();
    std::thread::scope(|scope| {
        let (bindings, counters, acknowledged) = (&mut bindings, &counters, &acknowledged);
        scope.spawn(move || {
            let deliver = |answers: &mut Answers<u32, ()>| {
                let mut acknowledged = acknowledged.lock().expect("whole");
                acknowledged.append(answers);
            };
            serve_saves(
                bindings,
                &from_workers,
                &ServiceConfig::default(),
                counters,
                || 0,
                || 0,
                deliver,
            );
        });
        for worker in 0..4 {
            let orders = orders.clone();
            scope.spawn(move || {
                for n in 0..250 {
                    let mut order = save(worker * 1_000 + n);
                    while let Err(TrySendError::Full(back)) = orders.try_send(order) {
                        order = back;
                        std::thread::yield_now();
                    }
                }
            });
        }
        drop(orders);
    });
    let acknowledged = acknowledged.into_inner().expect("whole");
    assert_eq!(acknowledged.len(), 1_000);
    assert!(acknowledged.iter().all(|(_, result)| result.is_ok()));
    let count = folder
        .open()
        .bindings()
        .expect("opens")
        .load(0, &mut |_| ())
        .expect("read");
    assert_eq!(count, 1_000);
    let figures = counters.figures();
    assert!(
        figures.save_groups < 1_000,
        "some were committed together: {figures:?}"
    );
}
