//! What the pipeline does for the cache, and what the cache does not show.

use super::*;
use crate::cache::CacheConfig;
use crate::question::BadRow;

fn rig(config: PipelineConfig) -> (Rig, Arc<Cache>) {
    let cache = Arc::new(Cache::new(
        [2; 16],
        CacheConfig {
            lifetime_us: 10_000_000,
            negative_lifetime_us: 5_000_000,
            refresh_ahead_us: 2_000_000,
            stale_us: 60_000_000,
            ..CacheConfig::default()
        },
    ));
    (Rig::with(config, Some(Arc::clone(&cache))), cache)
}

/// Has a name asked for and answered.
fn teach(rig: &mut Rig, name: &str, answer: Row) {
    rig.ask(999, name);
    rig.now_us += 1_000;
    let id = rig.batch_of(&[name]);
    rig.rows(id, vec![answer]);
    assert_eq!(rig.answers().len(), 1);
}

fn get(rig: &Rig, cache: &Cache, name: &str) -> Option<Reply> {
    cache.get(rig.now_us, &subject(name), Algorithm::Md5)
}

#[test]
fn what_is_found_is_held_and_a_second_question_is_asked_all_the_same() {
    let (mut rig, cache) = rig(fixed(0, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    let known = Reply::Cached(ha1(Algorithm::Md5, "alice"));
    assert_eq!(get(&rig, &cache, "alice"), Some(known));
    let second = Question {
        why: Why::DigestAgain,
        ..question("alice")
    };
    rig.try_ask(1, second, PATIENT_US).unwrap();
    assert_eq!(
        get(&rig, &cache, "alice"),
        None,
        "whoever comes now comes after it"
    );
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice"))]);
    assert!(get(&rig, &cache, "alice").is_some());
}

#[test]
fn a_question_of_what_is_not_held_casts_no_doubt_and_takes_none_back() {
    let (mut rig, cache) = rig(fixed(0, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    let again = |why| Question {
        why,
        ..question("alice")
    };
    rig.try_ask(1, again(Why::DigestUncached), PATIENT_US)
        .unwrap();
    assert!(get(&rig, &cache, "alice").is_some());
    rig.try_ask(2, again(Why::DigestAgain), PATIENT_US).unwrap();
    rig.try_ask(3, again(Why::DigestUncached), PATIENT_US)
        .unwrap();
    assert_eq!(get(&rig, &cache, "alice"), None);
}

#[test]
fn a_question_that_is_not_taken_casts_no_doubt() {
    let (mut rig, cache) = rig(PipelineConfig {
        questions_max: 1,
        ..fixed(0, 10, 10)
    });
    teach(&mut rig, "alice", row("alice"));
    rig.ask(1, "bob");
    let second = Question {
        why: Why::DigestAgain,
        ..question("alice")
    };
    assert!(rig.try_ask(2, second, PATIENT_US).is_err());
    assert!(get(&rig, &cache, "alice").is_some(), "nobody is asked");
}

#[test]
fn a_name_that_is_not_there_waits_for_a_statement_of_as_many_rows() {
    let (mut rig, cache) = rig(fixed(100_000, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(9_000_000);
    teach(&mut rig, "nobody", Ok(None));
    assert!(get(&rig, &cache, "alice").is_some(), "and is to be renewed");
    rig.ask(1, "nobody");
    rig.ask(2, "bob");
    rig.pass(100_000);
    // Two came, and two rows are asked for: one of them renews what is held.
    let id = rig.batch_of(&["bob", "alice"]);
    assert_eq!(
        rig.answers(),
        [],
        "nobody hears sooner that there is no such name"
    );
    rig.rows(id, vec![row("bob"), row("alice")]);
    assert_eq!(
        rig.answers(),
        [(1, Ok(Reply::Unknown)), (2, secret("bob"))],
        "nor any later than who was asked for after it"
    );
    assert_eq!(rig.pipeline.figures().passengers, 1);
    // Nothing is to be renewed now: it is asked for.
    rig.ask(3, "nobody");
    rig.pass(100_000);
    let id = rig.batch_of(&["nobody"]);
    rig.rows(id, vec![Ok(None)]);
    assert_eq!(rig.answers(), [(3, Ok(Reply::Unknown))]);
}

#[test]
fn a_row_pays_for_one_name_that_is_not_there() {
    let (mut rig, cache) = rig(fixed(100_000, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(9_000_000);
    teach(&mut rig, "nobody", Ok(None));
    rig.pass(100_000);
    teach(&mut rig, "none", Ok(None));
    assert!(get(&rig, &cache, "alice").is_some());
    rig.ask(1, "nobody");
    rig.ask(2, "none");
    rig.pass(100_000);
    let id = rig.batch_of(&["none", "alice"]);
    rig.rows(id, vec![Ok(None), row("alice")]);
    let unknown = Ok(Reply::Unknown);
    assert_eq!(rig.answers(), [(1, unknown.clone()), (2, unknown)]);
}

#[test]
fn a_statement_answers_in_the_order_of_the_questions_whatever_is_known_of_the_names() {
    let (mut rig, cache) = rig(fixed(100_000, 20, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(8_500_000);
    for name in ["nobody", "none"] {
        rig.pass(100_000);
        teach(&mut rig, name, Ok(None));
    }
    assert!(get(&rig, &cache, "alice").is_some(), "and is to be renewed");
    rig.pass(10_000);
    let names = [
        "nobody", "bob", "none", "carol", "nobody", "dave", "bob", "none",
    ];
    for (tag, name) in (0..).zip(names) {
        rig.ask(tag, name);
    }
    rig.pass(200_000);
    let batch = rig.batch().expect("a batch leaves");
    let asked = super::names(&batch);
    assert!(asked.contains(&"alice".to_owned()) && asked.len() == 5);
    assert_eq!(rig.pipeline.figures().passengers, 1);
    let rows = asked.iter().map(|name| match name.as_str() {
        "none" | "nobody" => Ok(None),
        name => row(name),
    });
    let rows = rows.collect();
    rig.rows(batch.id, rows);
    let order: Vec<u32> = rig.answers().iter().map(|(tag, _)| *tag).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Has names asked for in one statement, and whatever asks for `mute` lost. In which round each
/// answer came.
fn rounds_of_answers(rig: &mut Rig, names: &[String]) -> Vec<Option<u32>> {
    for (tag, name) in (0..).zip(names) {
        rig.ask(tag, name);
    }
    rig.pass(200_000);
    let mut rounds = vec![None; names.len()];
    for round in 0..6 {
        let sent: Vec<Batch> = std::iter::from_fn(|| rig.batch()).collect();
        for batch in sent {
            let asked = super::names(&batch);
            let answer = |name: &String| match name.starts_with("nobody") {
                true => Ok(None),
                false => row(name),
            };
            if !asked.contains(&"mute".to_owned()) {
                rig.rows(batch.id, asked.iter().map(answer).collect());
            }
        }
        for (tag, outcome) in rig.answers() {
            rounds[tag as usize] = outcome.is_ok().then_some(round);
        }
        rig.pass(1_000_000);
    }
    rounds
}

#[test]
fn whose_name_is_known_not_to_exist_waits_with_the_part_in_which_he_would_be() {
    for renews in [false, true] {
        for fillers in 6..15 {
            for behind in [0, 3] {
                let rounds = |exists: bool| {
                    let (mut rig, cache) = rig(fixed(100_000, 40, 20));
                    teach(&mut rig, "alice", row("alice"));
                    rig.pass(8_500_000);
                    teach(&mut rig, "nobody", Ok(None));
                    if renews {
                        assert!(get(&rig, &cache, "alice").is_some());
                    }
                    rig.pass(100_000);
                    let filler = |nth| format!("user{nth}");
                    let names: Vec<String> = (0..fillers)
                        .map(filler)
                        .chain(["mute".to_owned()])
                        .chain([if exists { "somebody" } else { "nobody" }.to_owned()])
                        .chain((20..20 + behind).map(filler))
                        .collect();
                    let rounds = rounds_of_answers(&mut rig, &names);
                    assert_eq!(
                        rig.pipeline.figures().passengers,
                        u64::from(renews && !exists)
                    );
                    assert_eq!(rounds.iter().filter(|round| round.is_none()).count(), 1);
                    rounds
                };
                assert_eq!(rounds(true), rounds(false), "{renews} {fillers} {behind}");
            }
        }
    }
}

#[test]
fn a_name_that_may_have_come_meanwhile_is_asked_for() {
    let (mut rig, cache) = rig(fixed(100_000, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(9_000_000);
    teach(&mut rig, "nobody", Ok(None));
    assert!(get(&rig, &cache, "alice").is_some());
    rig.ask(1, "nobody");
    rig.pass(100_000);
    let id = rig.batch_of(&["alice"]);
    cache.invalidate(&subject("nobody"));
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), []);
    rig.pass(100_000);
    let id = rig.batch_of(&["nobody"]);
    rig.rows(id, vec![row("nobody")]);
    assert_eq!(rig.answers(), [(1, secret("nobody"))]);
}

#[test]
fn who_has_come_since_is_not_told_that_nobody_has_his_name() {
    let (mut rig, cache) = rig(fixed(100_000, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(9_000_000);
    teach(&mut rig, "bob", Ok(None));
    // Nothing is to be renewed: he is asked for.
    rig.ask(1, "bob");
    rig.pass(100_000);
    let first = rig.batch_of(&["bob"]);
    // Something is now, but what was known of him may not be true any more.
    assert!(get(&rig, &cache, "alice").is_some());
    rig.pass(100_000);
    rig.ask(2, "bob");
    let second = rig.batch_of(&["bob", "alice"]);
    rig.rows(first, vec![row("bob")]);
    rig.rows(second, vec![row("bob"), row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("bob")), (2, secret("bob"))]);
}

#[test]
fn a_renewal_that_nobody_waits_for_any_more_is_wanted_again() {
    let (mut rig, cache) = rig(fixed(400_000, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(8_500_000);
    teach(&mut rig, "bob", row("bob"));
    assert!(get(&rig, &cache, "alice").is_some());
    rig.pass(110_000);
    rig.try_ask(1, question("alice"), 100_000).unwrap();
    rig.pass(150_000);
    assert_eq!(rig.answers().len(), 1);
    assert_eq!(rig.batch(), None);
    assert!(get(&rig, &cache, "alice").is_some());
    rig.pass(400_000);
    rig.batch_of(&["alice"]);
}

#[test]
fn what_is_used_late_in_its_life_is_asked_for_once_with_nobody_waiting() {
    let (mut rig, cache) = rig(fixed(1_000, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(8_500_000);
    for _ in 0..3 {
        assert!(get(&rig, &cache, "alice").is_some());
    }
    rig.pass(100_000);
    let id = rig.batch_of(&["alice"]);
    rig.pass(100_000);
    assert_eq!(rig.batch(), None);
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), []);
    assert_eq!(rig.pipeline.figures().refreshes, 1);
    rig.pass(5_000_000);
    assert!(get(&rig, &cache, "alice").is_some(), "it lives on");
    assert!(rig.pipeline.is_idle());
}

#[test]
fn a_question_takes_over_what_was_to_be_renewed() {
    let (mut rig, cache) = rig(fixed(500_000, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(8_500_000);
    teach(&mut rig, "bob", row("bob"));
    assert!(get(&rig, &cache, "alice").is_some());
    rig.pass(200_000);
    rig.ask(1, "alice");
    rig.pass(400_000);
    let id = rig.batch_of(&["alice"]);
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice"))]);
    rig.pass(600_000);
    assert_eq!(rig.batch(), None);
    assert!(rig.pipeline.is_idle());
}

#[test]
fn what_was_read_before_a_change_was_announced_is_not_held() {
    let (mut rig, cache) = rig(fixed(0, 10, 10));
    rig.ask(1, "alice");
    let id = rig.batch_of(&["alice"]);
    cache.invalidate(&subject("alice"));
    rig.rows(id, vec![row("alice")]);
    assert_eq!(rig.answers(), [(1, secret("alice"))]);
    assert_eq!(get(&rig, &cache, "alice"), None);
}

#[test]
fn users_that_are_held_go_on_while_no_replica_is_there() {
    let (mut rig, cache) = rig(fixed(0, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.break_down();
    rig.pass(30_000_000);
    assert!(get(&rig, &cache, "alice").is_some());
    assert_eq!(get(&rig, &cache, "bob"), None);
    while let Some(probe) = rig.batch() {
        rig.rows(probe.id, vec![Ok(None)]);
    }
    assert_eq!(
        get(&rig, &cache, "alice"),
        None,
        "the store can be asked again"
    );
    assert_eq!(cache.figures().stale, 1);
}

#[test]
fn users_that_are_held_go_on_while_the_only_store_refuses_any_statement() {
    let (mut rig, cache) = rig(fixed(0, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(10_000_000);
    assert_eq!(get(&rig, &cache, "alice"), None, "he is past his lifetime");
    for tag in 0..3 {
        if rig.try_ask(tag, question("bob"), PATIENT_US).is_err() {
            break;
        }
        while let Some(batch) = rig.batch() {
            rig.now_us += 1;
            rig.fail(batch.id, BatchFailure::Unusable("no such table".into()));
        }
    }
    assert!(rig.answers().iter().all(|(_, outcome)| outcome.is_err()));
    assert!(get(&rig, &cache, "alice").is_some());
}

#[test]
fn users_that_are_held_go_on_while_the_only_store_breaks_everything_off() {
    let broken_off = || BatchFailure::Cancelled("statement timeout".into());
    let (mut rig, cache) = rig(fixed(0, 10, 10));
    teach(&mut rig, "alice", row("alice"));
    rig.pass(10_000_000);
    for tag in 0..9 {
        if rig.try_ask(tag, question("bob"), PATIENT_US).is_err() {
            break;
        }
        while let Some(batch) = rig.batch() {
            rig.now_us += 1;
            rig.fail(batch.id, broken_off());
        }
    }
    assert!(rig.answers().iter().all(|(_, outcome)| outcome.is_err()));
    for _ in 0..3 {
        assert_ne!(rig.pipeline.health(Replica(0)), Health::Healthy);
        assert!(get(&rig, &cache, "alice").is_some());
        rig.pass(200_000);
        let probe = rig.batch().expect("it is tried");
        rig.pass(1_000);
        rig.fail(probe.id, broken_off());
    }
}

#[test]
fn a_row_of_no_use_is_not_held() {
    let (mut rig, cache) = rig(fixed(0, 10, 10));
    teach(&mut rig, "alice", Err(BadRow::Bad("what".into())));
    assert_eq!(get(&rig, &cache, "alice"), None);
    let figures = cache.figures();
    assert_eq!(figures.users + figures.strangers + figures.negatives, 0);
}

#[test]
fn a_row_that_became_bad_ends_what_was_held_and_one_that_was_not_told_does_not() {
    let (mut rig, cache) = rig(fixed(0, 10, 10));
    for (answer, is_held) in [
        (BadRow::Untold("it was left out".into()), true),
        (BadRow::Bad("no digest".into()), false),
    ] {
        teach(&mut rig, "alice", row("alice"));
        teach(&mut rig, "alice", Err(answer));
        assert_eq!(get(&rig, &cache, "alice").is_some(), is_held);
        // Nor is it there where the store is away.
        cache.set_outage(true);
        assert_eq!(get(&rig, &cache, "alice").is_some(), is_held);
        cache.set_outage(false);
    }
}
