//! Attacks on a SIP server, from outside, over real sockets, each by its name:
//! what was tried, how often, what got through, what callers felt meanwhile,
//! and what memory it took. They are made against servers on this machine's
//! loopback only: the people around the server have addresses in 127.0.0.0/8.
//!
//! Messages are written and read by this crate's own few lines, so that the
//! server's parser has no part in the verdict on the server.
#![forbid(unsafe_code)]

mod caller;
mod digest;
mod hook;
mod house;
mod memory;
mod phone;
mod report;
mod resolver;
mod scenario;
mod scenarios;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod wire;
mod world;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

pub use report::{Report, Row, Verdict};
pub use scenario::Scale;
pub use target::{RunningServer, Target};

use scenario::{Scenario, Tally};
use target::Setup;
use world::World;

/// The names of all scenarios, in the order in which they are made.
pub fn names() -> Vec<&'static str> {
    scenarios::all().iter().map(|s| s.name).collect()
}

/// A scenario's name with what is tried and what must not come of it.
pub fn describe() -> Vec<(&'static str, &'static str, &'static str)> {
    let all = scenarios::all();
    all.iter().map(|s| (s.name, s.tries, s.through)).collect()
}

/// Scenarios under way at once where nothing is timed: they mostly wait.
const QUICK_AT_ONCE: usize = 4;

/// Makes the scenarios whose name contains one of `only` (all, without any)
/// against each target, with data and logs below `folder`. `each` sees every
/// row as it comes.
pub fn run(
    targets: &[Target],
    only: &[String],
    scale: Scale,
    folder: &Path,
    each: impl FnMut(&Row) + Send,
) -> Report {
    let wanted = |scenario: &Scenario| {
        only.is_empty()
            || only
                .iter()
                .any(|part| scenario.name.contains(part.as_str()))
    };
    let cases: Vec<(Scenario, &Target)> = scenarios::all()
        .into_iter()
        .filter(wanted)
        .flat_map(|scenario| targets.iter().map(move |target| (scenario, target)))
        .collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::new(), each));
    let work = || {
        while let Some((place, (scenario, target))) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            cases.get(place).map(|case| (place, case))
        } {
            let row = run_one(scenario, target, &scale, folder);
            let mut done = phone::lock(&done);
            (done.1)(&row);
            done.0.push((place, row));
        }
    };
    std::thread::scope(|scope| {
        let at_once = if scale.quick { QUICK_AT_ONCE } else { 1 };
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    let (mut rows, _) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|(place, _)| *place);
    let mut report = Report::new(scale.quick);
    for (_, row) in rows {
        report.push(row);
    }
    report
}

fn run_one(scenario: &Scenario, target: &Target, scale: &Scale, folder: &Path) -> Row {
    let mut setup = Setup::default();
    (scenario.setup)(&mut setup);
    let refused = match target {
        Target::Kamailio => scenario.not_kamailio,
        Target::Running(_) if setup.own_configuration => {
            Some("it wants a configuration of its own")
        }
        _ => None,
    };
    if let Some(why) = refused {
        return Row::skipped(scenario, target.name(), why);
    }
    let begun = Instant::now();
    let folder = folder.join(format!("{}-{}", target.name(), scenario.name));
    let outcome = make(scenario, target, setup, scale, &folder);
    Row::new(
        scenario,
        target.name(),
        outcome,
        begun.elapsed().as_secs_f64(),
    )
}

fn make(
    scenario: &Scenario,
    target: &Target,
    setup: Setup,
    scale: &Scale,
    folder: &Path,
) -> Result<Tally, String> {
    let mut world = World::start(target, setup, folder)?;
    let mut tally = (scenario.run)(&mut world, scale)?;
    for leak in world.leaks() {
        tally.break_in(1, || leak);
    }
    if !world.server.is_running() {
        tally.break_in(1, || "the server has ended".to_owned());
    } else if !world.server.answers(phone::PATIENCE) {
        tally.break_in(1, || "the server does not answer any more".to_owned());
    }
    Ok(tally)
}
