//! Each scenario of `conformance/sipp` is played by SIPp and by us, against
//! SIPp with the counterpart, each way round. Exit codes and messages are the
//! same, but for what must differ, and so are the counts of calls.
//!
//! What a side sent is read from what the other side received, so that nobody
//! testifies for himself.

// What goes wrong in the modules ends the test.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "beside/case.rs"]
mod case;
#[path = "beside/normal.rs"]
mod normal;
#[path = "beside/play.rs"]
mod play;
mod support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::Case;
use play::{Outcome, Player, play};

/// Cases at a time.
const THREADS: usize = 4;

#[test]
fn every_scenario_plays_as_under_sipp() {
    let only = std::env::var("SIPP_CASE").unwrap_or_default();
    let mut runs = Vec::new();
    for case in Case::all() {
        if case.name.contains(&only) {
            runs.extend(case.variants());
        }
    }
    assert!(
        runs.len() >= 50 || !only.is_empty() || std::env::var_os("SIPP_CASES").is_some(),
        "only {} cases were found in {}",
        runs.len(),
        Case::folder().display()
    );
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(case) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = compare(case) {
                        failures.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} cases differ:\n\n{}",
        failures.len(),
        runs.len(),
        failures.join("\n\n")
    );
    println!("{} cases, each way round", runs.len());
}

/// Plays a case three times: SIPp with SIPp, us with SIPp, SIPp with us.
fn compare(case: &Case) -> Result<(), String> {
    let title = format!("== {} {} ==", case.name, case.both);
    let told = |what: &str, why: String| format!("{title}\n{what}: {why}");
    let model =
        play(case, Player::Sipp, Player::Sipp).map_err(|why| told("SIPp with SIPp", why))?;
    model
        .expect_exits(case)
        .map_err(|why| told("SIPp with SIPp", why))?;
    let ours = play(case, Player::Ours, Player::Sipp).map_err(|why| told("ours calls", why))?;
    check(case, "ours calls", &ours, &model).map_err(|why| told("ours calls", why))?;
    let ours = play(case, Player::Sipp, Player::Ours).map_err(|why| told("ours is called", why))?;
    check(case, "ours is called", &ours, &model).map_err(|why| told("ours is called", why))
}

fn check(case: &Case, how: &str, ours: &Outcome, model: &Outcome) -> Result<(), String> {
    ours.expect_exits(case)?;
    // Both directions: what the other side answers shows whether it understood.
    for (side, ours, model) in [
        ("caller", &ours.caller_sent, &model.caller_sent),
        ("callee", &ours.callee_sent, &model.callee_sent),
    ] {
        if ours != model {
            let tell = |all: &[String]| all.join("\n---\n");
            return Err(format!(
                "{how}: the {side} sent\n{}\nwhere SIPp sent\n{}",
                tell(ours),
                tell(model)
            ));
        }
    }
    for (side, ours, model) in [
        ("caller", &ours.caller_counts, &model.caller_counts),
        ("callee", &ours.callee_counts, &model.callee_counts),
    ] {
        let other: Vec<_> = ours.iter().filter(|count| !model.contains(count)).collect();
        if !other.is_empty() || ours.len() != model.len() {
            return Err(format!("{how}: the {side} counted otherwise: {other:?}"));
        }
    }
    Ok(())
}
