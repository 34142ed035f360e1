//! Names over which statements are lost.

use super::*;
use crate::question::ABSENT_USER;

/// Fails whatever asks for a `mute`, and answers all else, until nothing leaves any more.
pub(super) fn lose(rig: &mut Rig, failure: &BatchFailure) {
    while let Some(batch) = rig.batch() {
        let names = names(&batch);
        match names.iter().any(|name| name.starts_with("mute")) {
            true => rig.fail(batch.id, failure.clone()),
            false => rig.rows(batch.id, names.iter().map(|name| row(name)).collect()),
        }
    }
}

#[test]
fn one_name_for_which_statements_are_lost_fails_nobody_else() {
    let closed = BatchFailure::Unreachable("closed".into());
    for failure in [closed, BatchFailure::TimedOut] {
        for replicas in [1, 2] {
            let mut rig = Rig::new(PipelineConfig {
                replicas,
                ..fixed(0, 256, 10)
            });
            let name = |tag: u32| match tag {
                77 => "mute".to_owned(),
                tag => format!("user{tag}"),
            };
            for tag in 0..256 {
                rig.ask(tag, &name(tag));
            }
            lose(&mut rig, &failure);
            let mut answers = rig.answers();
            answers.sort_by_key(|(tag, _)| *tag);
            let (failed, answered): (Vec<_>, Vec<_>) = answers
                .into_iter()
                .partition(|(_, outcome)| outcome.is_err());
            assert!(matches!(failed[..], [(77, _)]), "{failed:?}");
            let expected = (0..256).filter(|tag| *tag != 77);
            let expected = expected.map(|tag| (tag, secret(&name(tag))));
            assert_eq!(answered, expected.collect::<Vec<_>>());
            let statements: u64 = rig.pipeline.figures().batches.iter().sum();
            assert!(statements <= 21, "{statements} statements");
            // He who asks again is known, however often he does.
            for tag in 300..304 {
                rig.ask(tag, "carol");
                rig.ask(tag + 10, "mute");
                let carol = rig.batch_of(&["carol"]);
                rig.rows(carol, vec![row("carol")]);
                lose(&mut rig, &failure);
                rig.answers();
            }
            assert!(rig.pipeline.replicas.healthy().is_some());
            assert!(rig.pipeline.is_idle());
        }
    }
}

/// Has `mute` be known as a name for which the store hangs: it was lost alone, twice.
fn learn(rig: &mut Rig) {
    rig.ask(900, "mute");
    for _ in 0..2 {
        rig.batch_of(&["mute"]);
        rig.pass(1_000_000);
    }
    assert!(matches!(rig.answers()[..], [(900, Err(_))]));
}

#[test]
fn a_name_for_which_the_store_hangs_has_one_statement_at_a_time() {
    let blocking = PipelineConfig {
        mode: Mode::Blocking {
            processes: 8,
            batch: 1,
        },
        ..PipelineConfig::default()
    };
    for config in [fixed(0, 256, 8), blocking] {
        let mut rig = Rig::new(config);
        learn(&mut rig);
        rig.ask(100, "bob");
        let bob = rig.batch_of(&["bob"]);
        rig.rows(bob, vec![row("bob")]);
        assert_eq!(rig.answers(), [(100, secret("bob"))]);
        rig.pass(1);
        rig.ask(0, "mute");
        rig.batch_of(&["mute"]);
        for tag in 1..3 {
            rig.ask(tag, "mute");
            assert_eq!(rig.batch(), None);
        }
        rig.ask(3, "carol");
        rig.batch_of(&["carol"]);
        assert_eq!(rig.pipeline.in_flight, 2);
        // Nothing comes, and one of the two says something of the store.
        rig.pass(1_000_000);
        assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
        let tried = rig.batch_of(&["bob"]);
        assert_eq!(rig.pipeline.figures().probes, 1);
        rig.rows(tried, vec![row("bob")]);
        // Those who came meanwhile have the next one, and who asked before them waits with them.
        let mut next = vec![names(&rig.batch().unwrap()), names(&rig.batch().unwrap())];
        next.sort();
        assert_eq!(next, [["carol"], ["mute"]]);
        assert_eq!(rig.batch(), None);
        assert_eq!(rig.answers(), []);
    }
}

/// What a name is taken for is found out when several of its statements are under way.
#[test]
fn who_asked_in_a_process_each_waits_with_the_others_once_the_store_hangs_for_the_name() {
    let mut rig = Rig::new(PipelineConfig {
        mode: Mode::Blocking {
            processes: 8,
            batch: 1,
        },
        ..PipelineConfig::default()
    });
    rig.ask(0, "mute");
    let id = rig.batch_of(&["mute"]);
    rig.fail(id, BatchFailure::Refused("what is this?".into()));
    assert!(matches!(rig.answers()[..], [(0, Err(_))]));
    for tag in 1..5 {
        rig.ask(tag, "mute");
        rig.batch_of(&["mute"]);
    }
    rig.pass(1_000_000);
    let id = rig.batch_of(&["mute"]);
    assert_eq!(rig.batch(), None);
    rig.rows(id, vec![row("mute")]);
    rig.batch_of(&["mute"]);
    assert_eq!(rig.batch(), None);
    rig.pass(1_000_000);
    while let Some(batch) = rig.batch() {
        rig.rows(batch.id, vec![row("mute")]);
    }
    assert_eq!(rig.answers().len(), 4);
    assert!(rig.pipeline.is_idle());
}

#[test]
fn a_name_for_which_the_store_hangs_is_not_asked_for_again_at_once() {
    let mut rig = Rig::new(fixed(0, 256, 3));
    learn(&mut rig);
    rig.ask(0, "mute");
    rig.batch_of(&["mute"]);
    rig.pass(1_000_000);
    assert!(matches!(rig.answers()[..], [(0, Err(_))]));
    rig.batch_of(&[ABSENT_USER]);
    assert_eq!(rig.batch(), None);
}

#[test]
fn names_for_which_the_store_hangs_have_few_statements_together() {
    let mut rig = Rig::new(PipelineConfig {
        failures_max: u32::MAX,
        ..fixed(0, 1, 8)
    });
    for nth in 0..16 {
        rig.ask(nth, &format!("mute{nth}"));
    }
    for _ in 0..4 {
        while rig.batch().is_some() {}
        rig.pass(1_000_000);
    }
    assert_eq!(rig.answers().len(), 16);
    for nth in 0..16 {
        rig.ask(nth, &format!("mute{nth}"));
    }
    rig.ask(20, "carol");
    let mut asked = Vec::new();
    while let Some(batch) = rig.batch() {
        if rig.pipeline.flights[&batch.id].probe.is_none() {
            asked.push(names(&batch).concat());
        }
    }
    assert_eq!(asked, ["carol", "mute0", "mute1"]);
}

#[test]
fn what_hangs_for_its_name_does_not_have_the_store_left_alone_and_a_store_that_is_gone_is() {
    for replicas in [1, 2] {
        for is_there in [true, false] {
            let mut rig = Rig::new(PipelineConfig {
                replicas,
                failures_max: 3,
                ..fixed(0, 256, 8)
            });
            learn(&mut rig);
            // All say something, and then what was lost counts no more.
            rig.ask(100, "bob");
            while let Some(batch) = rig.batch() {
                rig.rows(batch.id, vec![row("bob")]);
            }
            let asked = Replica(0);
            assert_eq!(rig.pipeline.health(asked), Health::Healthy);
            let breaks = rig.pipeline.replicas.breaks();
            for nth in 0..40 {
                rig.ask(nth, "mute");
                while let Some(batch) = rig.batch() {
                    if is_there && names(&batch) != ["mute"] {
                        rig.rows(batch.id, vec![Ok(None)]);
                    }
                }
                rig.pass(200_000);
                if rig.pipeline.health(asked) != Health::Healthy {
                    break;
                }
            }
            let is_healthy = rig.pipeline.health(asked) == Health::Healthy;
            assert_eq!(is_healthy, is_there, "{replicas}");
            assert_eq!(rig.pipeline.replicas.breaks() == breaks, is_there);
        }
    }
}

#[test]
fn who_is_answered_does_not_hang() {
    let mut rig = Rig::new(fixed(0, 256, 8));
    learn(&mut rig);
    rig.ask(0, "mute");
    let id = rig.batch_of(&["mute"]);
    rig.rows(id, vec![row("mute")]);
    assert_eq!(rig.answers(), [(0, secret("mute"))]);
    // It is asked alone still, and as often as it is asked for.
    for tag in 1..3 {
        rig.ask(tag, "mute");
        rig.ask(tag + 10, "bob");
        rig.batch_of(&["bob"]);
        rig.batch_of(&["mute"]);
    }
}

#[test]
fn an_outage_does_not_have_all_who_were_lost_in_it_asked_alone() {
    let mut rig = Rig::new(fixed(0, 64, 10));
    for tag in 0..64 {
        rig.ask(tag, &format!("user{tag}"));
    }
    for _ in 0..2 {
        while rig.batch().is_some() {}
        rig.pass(1_000_000);
    }
    rig.pass(60_000_000);
    rig.answers();
    assert!(rig.pipeline.suspects.is_empty());
}

#[test]
fn who_was_lost_in_a_part_is_asked_alone_though_nobody_waited_for_it_any_more() {
    let mut rig = Rig::new(fixed(0, 16, 10));
    for tag in 0..15 {
        let name = format!("user{tag}");
        rig.try_ask(tag, question(&name), 1_500_000).unwrap();
    }
    rig.try_ask(15, question("mute"), 1_500_000).unwrap();
    rig.batch().unwrap();
    rig.pass(1_000_000);
    let mut last = None;
    while let Some(batch) = rig.batch() {
        let names = names(&batch);
        match names.iter().any(|name| name == "mute") {
            true => last = Some(names),
            false => rig.rows(batch.id, names.iter().map(|name| row(name)).collect()),
        }
    }
    assert_eq!(last.unwrap(), ["user14", "mute"]);
    rig.pass(1_000_000);
    assert_eq!(rig.answers().len(), 16);
    rig.ask(20, "carol");
    rig.ask(21, "mute");
    rig.batch_of(&["carol"]);
    rig.batch_of(&["mute"]);
}

#[test]
fn where_much_is_lost_it_is_no_name_and_nothing_is_taken_apart() {
    let mut rig = Rig::new(PipelineConfig {
        failures_max: u32::MAX,
        ..fixed(0, 4, 1)
    });
    for round in 0..100 {
        for nth in 0..4 {
            rig.ask(nth, &format!("user{round}.{nth}"));
        }
        while let Some(batch) = rig.batch() {
            rig.now_us += 1;
            rig.fail(batch.id, BatchFailure::TimedOut);
        }
        assert_eq!(rig.answers().len(), 4);
    }
    let statements: u64 = rig.pipeline.figures().batches.iter().sum();
    // Each is asked once more; the first few in parts instead.
    assert_eq!(statements, 4 * 5 + 96 * 2);
    // What is answered shows that the store is there, and another name may be why.
    for tag in 0..3 {
        rig.ask(tag, "alice");
        let id = rig.batch_of(&["alice"]);
        rig.rows(id, vec![row("alice")]);
    }
    rig.answers();
    rig.ask(1, "bob");
    rig.ask(2, "carol");
    let both = rig.batch_of(&["bob", "carol"]);
    rig.unreachable(both);
    let bob = rig.batch_of(&["bob"]);
    rig.rows(bob, vec![row("bob")]);
    let carol = rig.batch_of(&["carol"]);
    rig.rows(carol, vec![row("carol")]);
    assert_eq!(rig.answers(), [(1, secret("bob")), (2, secret("carol"))]);
}

/// Has the probes that ask for `mute` swallowed and others answered, until one is.
fn probe(rig: &mut Rig, probes_max: usize) {
    for _ in 0..probes_max {
        rig.pass(200_000);
        let probe = rig.batch().expect("a probe leaves");
        assert_eq!(probe.replica, Replica(0));
        match names(&probe) == ["mute"] {
            true => rig.fail(probe.id, BatchFailure::TimedOut),
            false => rig.rows(probe.id, vec![Ok(None)]),
        }
        if rig.pipeline.health(Replica(0)) == Health::Healthy {
            return;
        }
    }
    panic!("it is not found back");
}

#[test]
fn a_replica_is_found_back_though_it_never_answers_what_it_was_left_for() {
    for is_answered in [false, true] {
        let mut rig = Rig::new(PipelineConfig {
            replicas: 2,
            ..fixed(0, 10, 10)
        });
        rig.ask(1, "mute");
        let id = rig.batch_of(&["mute"]);
        rig.fail(id, BatchFailure::TimedOut);
        let batch = rig.batch().unwrap();
        assert_eq!(batch.replica, Replica(1));
        match is_answered {
            true => rig.rows(batch.id, vec![row("mute")]),
            false => rig.fail(batch.id, BatchFailure::TimedOut),
        }
        rig.ask(2, "bob");
        let batch = rig.batch().unwrap();
        assert_eq!(batch.replica, Replica(1));
        rig.rows(batch.id, vec![row("bob")]);
        probe(&mut rig, 1);
    }
}

#[test]
fn the_only_store_is_found_back_whatever_it_never_answers_and_whoever_asks_for_that() {
    for (known, floods) in [("alice", "mute"), ("mute", "alice")] {
        let mut rig = Rig::new(fixed(0, 10, 10));
        rig.ask(1, known);
        let id = rig.batch_of(&[known]);
        rig.rows(id, vec![row(known)]);
        assert_eq!(rig.answers(), [(1, secret(known))]);
        rig.break_down();
        for _ in 0..5 {
            assert!(rig.try_ask(2, question(floods), PATIENT_US).is_err());
        }
        probe(&mut rig, 2);
    }
}

/// A flood decides what was asked for last.
#[test]
fn who_has_answered_nothing_yet_is_found_back_whatever_it_never_answers() {
    let mut rig = Rig::new(fixed(0, 10, 10));
    rig.break_down();
    for _ in 0..5 {
        assert!(rig.try_ask(2, question("mute"), PATIENT_US).is_err());
    }
    probe(&mut rig, 2);
}

#[test]
fn no_users_digest_is_sent_to_a_store_that_he_did_not_ask() {
    let mut rig = Rig::new(PipelineConfig {
        replicas: 2,
        ..fixed(0, 10, 10)
    });
    rig.try_ask(1, verification("bob"), PATIENT_US).unwrap();
    let lost = rig.batch().unwrap();
    rig.unreachable(lost.id);
    while let Some(batch) = rig.batch() {
        assert_eq!(batch.replica, Replica(1));
        rig.pipeline
            .handle_answer(rig.now_us, batch.id, BatchAnswer::Verified(true));
    }
    rig.try_ask(2, verification("alice"), PATIENT_US).unwrap();
    let batch = rig.batch().unwrap();
    rig.pipeline
        .handle_answer(rig.now_us, batch.id, BatchAnswer::Verified(true));
    assert_eq!(rig.answers().len(), 2);
    rig.pass(200_000);
    let probe = rig.batch().unwrap();
    assert_eq!(probe.replica, Replica(0));
    let Rows::Verify(digest) = &probe.rows else {
        panic!("{probe:?}");
    };
    assert_eq!(digest.user, ABSENT_USER.as_bytes());
    assert_eq!(&*digest.realm, "example.org");
    rig.pipeline
        .handle_answer(rig.now_us, probe.id, BatchAnswer::Verified(false));
    assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
}

/// Where both are away, each is tried with either, though they are tried in turn.
#[test]
fn each_of_two_that_are_away_is_found_back_whatever_it_never_answers() {
    let mut rig = Rig::new(PipelineConfig {
        replicas: 2,
        ..fixed(0, 10, 10)
    });
    rig.ask(1, "alice");
    let batch = rig.batch().unwrap();
    rig.rows(batch.id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice"))]);
    rig.break_down();
    assert!(rig.try_ask(2, question("mute"), PATIENT_US).is_err());
    for dead in [Replica(0), Replica(1)] {
        let mut tried = Vec::new();
        for _ in 0..4 {
            rig.pass(200_000);
            while let Some(batch) = rig.batch() {
                if batch.replica != dead {
                    tried.push(names(&batch).concat());
                }
                rig.fail(batch.id, BatchFailure::TimedOut);
            }
        }
        assert!(
            tried.len() == 4 && tried[0] != tried[1] && tried[0] == tried[2],
            "{tried:?}"
        );
    }
}

#[test]
fn who_breaks_off_what_he_is_tried_with_is_not_back_and_who_answers_it_is() {
    let broken_off = || BatchFailure::Cancelled("statement timeout".into());
    let mut rig = Rig::new(PipelineConfig {
        failures_max: 1,
        ..fixed(0, 10, 10)
    });
    for tag in 0..3 {
        rig.ask(tag, "alice");
        while let Some(batch) = rig.batch() {
            rig.fail(batch.id, broken_off());
        }
    }
    assert_eq!(rig.answers().len(), 3);
    // It has answered nobody yet, and is tried with nobody in turn.
    for tried in [ABSENT_USER, "alice", ABSENT_USER] {
        rig.pass(200_000);
        let id = rig.batch_of(&[tried]);
        rig.fail(id, broken_off());
        assert_ne!(rig.pipeline.health(Replica(0)), Health::Healthy);
    }
    rig.pass(200_000);
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![row("alice")]);
    // What it breaks off now is one statement's matter again.
    rig.ask(3, "bob");
    let id = rig.batch_of(&["bob"]);
    rig.fail(id, broken_off());
    let id = rig.batch_of(&["bob"]);
    rig.rows(id, vec![row("bob")]);
    assert_eq!(rig.answers(), [(3, secret("bob"))]);
}
