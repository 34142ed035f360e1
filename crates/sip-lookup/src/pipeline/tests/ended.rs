//! Names over which a store ends its connections, and stores that end them over every user.

use super::lost::lose;
use super::*;

fn ends() -> BatchFailure {
    BatchFailure::Ended("closed".into())
}

/// A rig with so many replicas, the first of which has found `alice`.
fn found(replicas: usize) -> Rig {
    let mut rig = Rig::new(PipelineConfig {
        replicas,
        ..fixed(0, 256, 8)
    });
    rig.ask(900, "alice");
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(900, secret("alice"))]);
    rig
}

/// Asks for one after the other, while the first replica ends its connections over every user and
/// the second answers. How many have no answer.
fn ask_of_the_dying(rig: &mut Rig, users: u32) -> usize {
    let mut failed = 0;
    for tag in 0..users {
        rig.ask(tag, &format!("user{tag}"));
        while let Some(batch) = rig.batch() {
            match batch.replica {
                Replica(0) => rig.fail(batch.id, ends()),
                _ => {
                    let names = names(&batch);
                    rig.rows(batch.id, names.iter().map(|name| row(name)).collect());
                }
            }
        }
        let answers = rig.answers();
        assert_eq!(answers.len(), 1);
        failed += answers.iter().filter(|(_, answer)| answer.is_err()).count();
    }
    failed
}

/// An endpoint may end the connection over whatever asks for more than one user.
#[test]
fn who_ends_connections_over_large_statements_is_not_asked_without_end() {
    for in_flight_max in [1, 4, 256] {
        let mut rig = Rig::new(fixed(0, 256, in_flight_max));
        let mut ended = 0;
        for _ in 0..10 {
            for tag in 0..256 {
                rig.ask(tag, &format!("user{tag}"));
            }
            loop {
                let sent: Vec<Batch> = std::iter::from_fn(|| rig.batch()).collect();
                if sent.is_empty() {
                    break;
                }
                for batch in sent {
                    match &names(&batch)[..] {
                        [name] => rig.rows(batch.id, vec![row(name)]),
                        _ => {
                            ended += 1;
                            rig.fail(batch.id, BatchFailure::Ended("502".into()));
                        }
                    }
                }
            }
            assert_eq!(rig.answers().len(), 256);
        }
        assert!(ended <= 200, "{ended} statements");
        assert!(rig.pipeline.replicas.healthy().is_some(), "it is there");
        assert!(rig.pipeline.is_idle());
    }
}

#[test]
fn names_over_which_connections_end_fail_nobody_else() {
    let one = |nth| vec![nth];
    let one_in_each_part = (0..8).map(|nth| 33 * nth).collect();
    for mutes in [one(0), one(77), one(255), one_in_each_part] {
        for in_flight_max in [1, 10] {
            let mut rig = Rig::new(fixed(0, 256, in_flight_max));
            let is_mute = |tag: u32| mutes.contains(&tag);
            for tag in 0..256 {
                let sort = if is_mute(tag) { "mute" } else { "user" };
                rig.ask(tag, &format!("{sort}{tag}"));
            }
            let ends = BatchFailure::Ended("closed".into());
            lose(&mut rig, &ends);
            for (tag, outcome) in rig.answers() {
                assert_eq!(outcome.is_err(), is_mute(tag), "{tag} of {mutes:?}");
            }
            assert!(rig.pipeline.is_idle());
            let statements: u64 = rig.pipeline.figures().batches.iter().sum();
            let statements_max = 10 + 12 * mutes.len() as u64;
            assert!(statements <= statements_max, "{statements} statements");
            rig.ask(300, "carol");
            rig.ask(301, &format!("mute{}", mutes[0]));
            let carol = rig.batch_of(&["carol"]);
            rig.rows(carol, vec![row("carol")]);
            rig.batch_of(&[&format!("mute{}", mutes[0])]);
        }
    }
}

#[test]
fn the_store_that_stands_by_is_asked_once_another_ends_connections_over_every_user() {
    // Whether or not it has ever found one.
    let nobody_found = Rig::new(PipelineConfig {
        replicas: 2,
        ..fixed(0, 256, 8)
    });
    for mut rig in [nobody_found, found(2)] {
        let failed = ask_of_the_dying(&mut rig, 10);
        assert!((1..=5).contains(&failed), "{failed}");
        assert_ne!(rig.pipeline.health(Replica(0)), Health::Healthy);
        assert_eq!(rig.pipeline.health(Replica(1)), Health::Healthy);
        // It is tried with a user, and ends that too.
        for tag in 20..25 {
            rig.pass(200_000);
            rig.ask(tag, "bob");
            let probe = rig.batch().unwrap();
            assert_eq!(probe.replica, Replica(0));
            rig.fail(probe.id, ends());
            let batch = rig.batch().unwrap();
            assert_eq!(batch.replica, Replica(1));
            rig.rows(batch.id, vec![row("bob")]);
            assert_eq!(rig.answers(), [(tag, secret("bob"))]);
        }
        rig.pass(200_000);
        let probe = rig.batch().unwrap();
        rig.rows(probe.id, vec![row("bob")]);
        assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
    }
}

#[test]
fn what_was_under_way_when_a_store_was_left_alone_does_not_bring_it_back() {
    let mut rig = found(2);
    for tag in 0..2 {
        rig.ask(tag, &format!("user{tag}"));
    }
    let both = rig.batch_of(&["user0", "user1"]);
    rig.ask(2, "user2");
    let lost = rig.batch_of(&["user2"]);
    rig.now_us += 1;
    rig.unreachable(lost);
    assert_eq!(rig.pipeline.health(Replica(0)), Health::Open);
    rig.fail(both, ends());
    assert_eq!(rig.pipeline.health(Replica(0)), Health::Open);
    assert_eq!(rig.batch().unwrap().replica, Replica(1));
}

/// Whoever is held in a cache is served from it then.
#[test]
fn the_only_store_is_away_once_it_ends_connections_over_a_user_who_was_found_before() {
    let mut rig = found(1);
    // A scanner's question, which such a store may answer, is no better to try it with.
    rig.ask(901, "nobody");
    let id = rig.batch_of(&["nobody"]);
    rig.rows(id, vec![Ok(None)]);
    rig.answers();
    for tag in 0..5 {
        assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
        rig.ask(tag, &format!("user{tag}"));
        let id = rig.batch_of(&[&format!("user{tag}")]);
        rig.fail(id, ends());
    }
    for tag in 10..13 {
        assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
        let probe = rig.batch_of(&["alice"]);
        // What others are told meanwhile changes nothing.
        rig.ask(tag, &format!("user{tag}"));
        let id = rig.batch_of(&[&format!("user{tag}")]);
        rig.fail(id, ends());
        rig.fail(probe, ends());
        rig.pass(200_000);
    }
    assert!(rig.pipeline.replicas.healthy().is_none());
    let probe = rig.batch_of(&["alice"]);
    rig.rows(probe, vec![row("alice")]);
    assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
}

#[test]
fn names_over_which_connections_end_have_no_store_left_alone_whoever_sends_nothing_else() {
    let nobody_found = Rig::new(fixed(0, 256, 8));
    for mut rig in [nobody_found, found(1), found(2)] {
        for tag in 0..100 {
            rig.ask(tag, &format!("mute{tag}"));
            lose(&mut rig, &ends());
            rig.pass(1_000);
        }
        assert_eq!(rig.answers().len(), 100);
        assert_eq!(rig.pipeline.replicas.breaks(), 0);
        assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
    }
}

/// Else a store that fails over all others would be back each time.
#[test]
fn who_was_found_and_is_gone_is_tried_with_no_longer() {
    let mut rig = found(2);
    for tag in 0..5 {
        rig.ask(tag, &format!("user{tag}"));
        let id = rig.batch_of(&[&format!("user{tag}")]);
        rig.fail(id, ends());
    }
    let probe = rig.batch_of(&["alice"]);
    rig.rows(probe, vec![Ok(None)]);
    rig.answers();
    let failed = ask_of_the_dying(&mut rig, 10);
    assert!(failed <= 5, "{failed}");
    assert_eq!(rig.pipeline.health(Replica(1)), Health::Healthy);
}
