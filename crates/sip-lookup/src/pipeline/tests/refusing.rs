//! Stores that refuse whoever exists and answer about nobody.

use super::*;

fn refused() -> BatchFailure {
    BatchFailure::Refused("500".into())
}

fn two() -> PipelineConfig {
    PipelineConfig {
        replicas: 2,
        ..fixed(0, 256, 8)
    }
}

/// A rig whose first replica has found `alice`.
fn found(config: PipelineConfig) -> Rig {
    let mut rig = Rig::new(config);
    rig.ask(900, "alice");
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(900, secret("alice"))]);
    rig
}

/// Asks for one user after the other, while the first replica refuses every one of them and the
/// second answers. How many have no answer.
fn ask_of_the_refusing(rig: &mut Rig, users: u32) -> usize {
    let mut failed = 0;
    for tag in 0..users {
        rig.ask(tag, &format!("user{tag}"));
        while let Some(batch) = rig.batch() {
            match batch.replica {
                Replica(0) => rig.fail(batch.id, refused()),
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

#[test]
fn the_store_that_stands_by_is_asked_once_another_refuses_every_user() {
    // Whether or not it has ever found one.
    for mut rig in [Rig::new(two()), found(two())] {
        let failed = ask_of_the_refusing(&mut rig, 10);
        assert!((1..=5).contains(&failed), "{failed}");
        assert_ne!(rig.pipeline.health(Replica(0)), Health::Healthy);
        assert_eq!(rig.pipeline.health(Replica(1)), Health::Healthy);
        // It is tried with a user, and refuses him too.
        for tag in 20..25 {
            rig.pass(200_000);
            rig.ask(tag, "bob");
            let probe = rig.batch().unwrap();
            assert_eq!(probe.replica, Replica(0));
            rig.fail(probe.id, refused());
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
fn who_is_alone_and_refuses_every_user_is_away_until_he_answers() {
    let mut rig = found(PipelineConfig {
        failures_max: 3,
        ..fixed(0, 256, 8)
    });
    for tag in 0..10 {
        if rig
            .try_ask(tag, question(&format!("user{tag}")), PATIENT_US)
            .is_err()
        {
            break;
        }
        while let Some(batch) = rig.batch() {
            rig.fail(batch.id, refused());
        }
        rig.pass(200_000);
    }
    assert!(rig.pipeline.replicas.healthy().is_none());
    // What was refused does not bring it back, and a user who is found does.
    let mut tried = Vec::new();
    while !tried.contains(&true) && tried.len() < 4 {
        assert!(rig.pipeline.replicas.healthy().is_none());
        rig.pass(200_000);
        let probe = rig.batch().unwrap();
        let is_alice = names(&probe) == ["alice"];
        match is_alice {
            true => rig.rows(probe.id, vec![row("alice")]),
            false => rig.fail(probe.id, refused()),
        }
        tried.push(is_alice);
    }
    assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
}

/// Names that a store does not like are strangers' matter: it is tried, with a user, and goes on.
#[test]
fn names_that_are_refused_leave_no_store_alone() {
    for config in [two(), fixed(0, 256, 8)] {
        let mut rig = found(config);
        for tag in 0..100 {
            rig.ask(tag, &format!("poison{tag}"));
            while let Some(batch) = rig.batch() {
                match &names(&batch)[..] {
                    [alice] if alice == "alice" => rig.rows(batch.id, vec![row("alice")]),
                    _ => rig.fail(batch.id, refused()),
                }
            }
            rig.pass(10_000);
            assert_eq!(rig.pipeline.health(Replica(0)), Health::Healthy);
        }
        assert_eq!(rig.pipeline.replicas.breaks(), 0);
    }
}
