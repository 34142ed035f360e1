//! A case, measured: sets of repeats, each server in turn.

use std::time::Instant;

use crate::calibrate;
use crate::cases::{Case, REGISTER_RATE, Sizes, Work, visits};
use crate::contender::{CALLED_PORT, Contender, Kind, SERVER_PORT};
use crate::load::{Load, Totals};
use crate::own::{self, Own};
use crate::process::LOAD_CORE;
use crate::process::Process;
use crate::register;
use crate::report::{Measurement, Results};
use crate::rule;
use crate::sipp::{Caller, SippTransport};
use crate::{Bench, MINUTES_MAX};

/// Stretches that one visit may add where the machine's speed moved.
const SPARES_MAX: usize = 2;

/// Measures a case until a set of repeats agrees, at most as often as is allowed,
/// and further than the first set only where `spare_s` seconds allow it. Gives the seconds that
/// further sets took.
pub(crate) fn run(bench: &Bench<'_>, case: &Case, spare_s: u64, results: &mut Results) {
    let mut further_s = 0;
    let mut rate = 0;
    for number in 0..=bench.further_sets {
        let begun = Instant::now();
        let (set, missed) = measure_set(bench, case, &mut rate);
        if let Some((server, error)) = missed {
            eprintln!("{} {server}: not measured: {error}", case.name);
            results.miss(case.name, &server, &error, set);
            return;
        }
        if number > 0 {
            further_s += begun.elapsed().as_secs();
        }
        let is_recorded = results.take(
            &bench.name_of(case, rate),
            number + 1,
            set,
            &bench.names(case),
        );
        let set_s = case.set_s(&bench.contenders, bench.sizes);
        // With too few repeats asked for, no set would be recorded.
        if is_recorded || bench.sizes.repeats < rule::REPEATS_MIN {
            break;
        }
        if further_s + set_s > spare_s {
            eprintln!(
                "{}: no time for a further set within {MINUTES_MAX} minutes",
                case.name
            );
            break;
        }
    }
}

/// All repeats of all servers: two visits to each, the second in the reverse
/// order. With what there is where one could not be measured.
fn measure_set(
    bench: &Bench<'_>,
    case: &Case,
    rate: &mut u64,
) -> (Vec<Measurement>, Option<(String, String)>) {
    let mut set = Vec::new();
    let mut case = *case;
    if let Work::Sipp(transport, 0) = case.work {
        if *rate == 0 {
            match highest_rate(bench, transport) {
                Ok(found) => *rate = found,
                Err(error) => return (set, Some(("floor".to_owned(), error))),
            }
        }
        case.work = Work::Sipp(transport, *rate);
    }
    for (visit, repeats) in visits(bench.sizes.repeats).into_iter().enumerate() {
        let mut order: Vec<&Contender> = bench.contenders.iter().filter(|c| case.has(c)).collect();
        if visit % 2 == 1 {
            order.reverse();
        }
        for contender in order {
            match measure(bench, &case, contender, repeats) {
                Ok(measured) => {
                    for one in &measured {
                        one.print();
                    }
                    set.extend(measured);
                }
                Err(error) => return (set, Some((contender.name.clone(), error))),
            }
        }
    }
    (set, None)
}

fn measure(
    bench: &Bench<'_>,
    case: &Case,
    contender: &Contender,
    repeats: usize,
) -> Result<Vec<Measurement>, String> {
    match case.work {
        Work::Sipp(..) | Work::Own(..) | Work::Register { .. } => {
            visit(bench, case, contender, repeats)
        }
        Work::OwnPeak(transport) => (0..repeats)
            .map(|_| search(bench, case, contender, transport))
            .collect(),
        Work::RegisterDigest => (0..repeats)
            .map(|_| register::measure_digest(bench, case, contender))
            .collect(),
    }
}

/// Starts a server, brings it to its steady state and measures stretches of it,
/// with the machine's speed taken before and after each.
fn visit(
    bench: &Bench<'_>,
    case: &Case,
    contender: &Contender,
    repeats: usize,
) -> Result<Vec<Measurement>, String> {
    let seconds = bench.sizes.seconds;
    let warm_s = contender.warm_s(bench.sizes.is_quick);
    // The load ends when it is told to.
    let seconds_max = warm_s + (repeats + SPARES_MAX) as u64 * (seconds + 3) + 10;
    let (mut process, mut load, rate) = start(bench, case, contender, seconds_max)?;
    load.warm_up(warm_s)?;
    let stretches = stretches(&process, load.as_mut(), repeats, seconds)?;
    let totals = load.end()?;
    process.must_run(&contender.name)?;
    if totals.is_doubted {
        eprintln!(
            "{} {}: the generator doubts itself",
            case.name, contender.name
        );
    }
    Ok(stretches
        .iter()
        .map(|stretch| stretch.measurement((case, contender), &totals, (rate, rate)))
        .collect())
}

/// A stretch of a server's steady state.
struct Stretch {
    spent_ns: u64,
    calls: f64,
    elapsed_s: f64,
    before: calibrate::Speed,
    after: calibrate::Speed,
}

impl Stretch {
    /// What it says of a server that was offered so much, and what is told as its rate.
    fn measurement(
        &self,
        (case, contender): (&Case, &Contender),
        totals: &Totals,
        (offered, rate): (u64, u64),
    ) -> Measurement {
        let calls = self.calls * totals.scale;
        Measurement {
            case: case.name.to_owned(),
            server: contender.name.clone(),
            cpu_us_per_call: self.spent_ns as f64 / 1_000.0 / calls.max(1.0),
            calls: calls as u64,
            failed: totals.failed,
            failed_share: totals.failed_share(),
            retransmissions: totals.retransmissions,
            rate,
            held_share: calls / (offered as f64 * self.elapsed_s),
            elapsed_s: self.elapsed_s,
            is_doubted: totals.is_doubted,
            before: self.before,
            after: self.after,
        }
    }
}

/// So many stretches, and a few more where the machine's speed moved.
fn stretches(
    process: &Process,
    load: &mut dyn Load,
    repeats: usize,
    seconds: u64,
) -> Result<Vec<Stretch>, String> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut steady = 0;
    let mut before = calibrate::measure()?;
    while steady < repeats && found.len() < repeats + SPARES_MAX {
        let from = load.mark(1)?;
        let stretch = process.stretch();
        let to = load.mark(seconds)?;
        let (spent_ns, elapsed_s) = stretch.end();
        let after = calibrate::measure()?;
        steady += usize::from(before.moved(after) <= rule::MOVED_MAX);
        found.push(Stretch {
            spent_ns,
            calls: to - from,
            elapsed_s,
            before,
            after,
        });
        before = after;
    }
    Ok(found)
}

/// The server, its load and the rate.
fn start(
    bench: &Bench<'_>,
    case: &Case,
    contender: &Contender,
    seconds_max: u64,
) -> Result<(Process, Box<dyn Load>, u64), String> {
    let out = bench.out;
    let ports = (SERVER_PORT, CALLED_PORT);
    match case.work {
        Work::Sipp(transport, rate) => {
            let process = contender.start_proxy(transport, out)?;
            let load = Caller::start(transport, ports, (rate, seconds_max), LOAD_CORE, out)?;
            Ok((process, Box::new(load), rate))
        }
        Work::Own(transport, rate) => {
            let process = contender.start_proxy(transport, out)?;
            let load = Own::start(&bench.desk(), transport, ports, (rate, seconds_max))?;
            Ok((process, Box::new(load), rate))
        }
        Work::Register { tick_us } => {
            let process = contender.start_registrar(out)?;
            let load = register::Running::start((REGISTER_RATE, tick_us), seconds_max, out)?;
            Ok((process, Box::new(load), REGISTER_RATE))
        }
        Work::OwnPeak(_) | Work::RegisterDigest => {
            Err(format!("{} has no steady state", case.name))
        }
    }
}

/// The largest rate that a server holds, and its CPU per call at nine tenths of it.
fn search(
    bench: &Bench<'_>,
    case: &Case,
    contender: &Contender,
    transport: SippTransport,
) -> Result<Measurement, String> {
    let out = bench.out;
    let mut process = contender.start_proxy(transport, out)?;
    let ports = (SERVER_PORT, CALLED_PORT);
    let peak = own::peak(&bench.desk(), transport, ports, bench.sizes.is_quick)?;
    let rate = (peak * 9 / 10).max(1);
    let seconds_max = bench.sizes.seconds + 30;
    let load = Own::start(&bench.desk(), transport, ports, (rate, seconds_max))?;
    let mut load: Box<dyn Load> = Box::new(load);
    load.warm_up(if bench.sizes.is_quick { 1 } else { 3 })?;
    let found = stretches(&process, load.as_mut(), 1, bench.sizes.seconds)?;
    let totals = load.end()?;
    process.must_run(&contender.name)?;
    let stretch = found.last().ok_or("nothing was measured")?;
    Ok(stretch.measurement((case, contender), &totals, (rate, peak)))
}

/// The highest of a few rates at which no call through the floor fails or is sent again.
fn highest_rate(bench: &Bench<'_>, transport: SippTransport) -> Result<u64, String> {
    const BASE: u64 = 2_000;
    let floor = Contender {
        name: "floor".to_owned(),
        kind: Kind::Floor,
        workers: 1,
    };
    let quick = Bench {
        sizes: Sizes {
            repeats: 1,
            seconds: bench.sizes.seconds.min(4),
            ..bench.sizes
        },
        contenders: vec![floor.clone()],
        ..bench.clone()
    };
    let mut best = BASE;
    for rate in [2_500, 3_000, 3_500, 4_000] {
        let case = Case::search(transport, rate);
        // A load that breaks down at this rate does not hold it.
        let Ok(measured) = visit(&quick, &case, &floor, 1) else {
            break;
        };
        let is_held = measured.iter().all(|m| {
            let held_rate = m.calls as f64 / m.elapsed_s;
            m.failed == 0 && m.retransmissions == 0 && held_rate >= rate as f64 * 0.97
        });
        if !is_held {
            break;
        }
        best = rate;
    }
    eprintln!("the load holds {best} calls/s through the floor");
    Ok(best)
}
