//! Several runs as one: of each point the median of the runs, with their distance for its spread.

use std::collections::BTreeSet;

use signet_bed::Error;

use crate::line::Line;
use crate::record::{Item, Missed, Point, PriceRecord};

/// Runs whose medians differ by more disagree on a point.
pub const DISAGREE_MIN: f64 = 0.03;

/// One record of several runs of one machine with the same libraries. What is not in all of them
/// is named among what was missed; how many points the runs disagree on stands among the doubts.
///
/// # Errors
/// No run, one that is named twice, or runs of different machines, libraries or engines, which
/// have no common median.
pub fn merge(runs: &[PriceRecord]) -> Result<PriceRecord, Error> {
    let Some((first, others)) = runs.split_first() else {
        return Err(Error::new("no run is named", "name one record or more"));
    };
    if let Some(other) = others.iter().find(|run| !is_like(run, first)) {
        return Err(Error::new(
            format!(
                "the runs are not alike: {} with {:?}, and {} with {:?}",
                first.machine.cpu_model, first.versions, other.machine.cpu_model, other.versions
            ),
            "name runs of one machine and one build",
        ));
    }
    let mut numbered = runs.iter().enumerate();
    if numbered.any(|(nth, run)| runs.iter().take(nth).any(|earlier| earlier == run)) {
        return Err(Error::new(
            "two of the runs are the same",
            "name each run once",
        ));
    }
    if others.is_empty() {
        return Ok(first.clone());
    }
    let mut apart = 0;
    let mut missed: Vec<Missed> = Vec::new();
    for known in runs.iter().flat_map(|run| &run.missed) {
        if !missed.contains(known) {
            missed.push(known.clone());
        }
    }
    let items: Vec<Item> = each(runs)
        .into_iter()
        .filter_map(|item| of_all(item, runs, &mut apart, &mut missed))
        .collect();
    let mut merged = PriceRecord {
        command: format!("{} (medians of {} runs)", first.command, runs.len()),
        ended_unix_s: runs.iter().map(|run| run.ended_unix_s).max().unwrap_or(0),
        doubts: Vec::new(),
        checks: Vec::new(),
        items,
        missed,
        ..first.clone()
    };
    for doubt in runs.iter().flat_map(|run| &run.doubts) {
        if !merged.doubts.contains(doubt) {
            merged.doubts.push(doubt.clone());
        }
    }
    if apart > 0 {
        let count: usize = merged.items.iter().map(|item| item.points.len()).sum();
        let told = format!(
            "on {apart} of {count} points the runs differ by more than {:.0} %",
            DISAGREE_MIN * 100.0
        );
        merged.doubts.push(told);
    }
    Ok(merged)
}

fn is_like(one: &PriceRecord, other: &PriceRecord) -> bool {
    one.machine.cpu_model == other.machine.cpu_model && one.versions == other.versions
}

/// Each item that any of the runs has, once.
fn each(runs: &[PriceRecord]) -> Vec<&Item> {
    let mut seen = BTreeSet::new();
    let all = runs.iter().flat_map(|run| &run.items);
    all.filter(|item| seen.insert((&item.name, &item.provider, &item.operation)))
        .collect()
}

/// An item over all runs; `None` where one lacks it, or all of its sizes. What one lacks is added
/// to `missed`, and points that the runs disagree on to `apart`.
fn of_all(
    item: &Item,
    runs: &[PriceRecord],
    apart: &mut usize,
    missed: &mut Vec<Missed>,
) -> Option<Item> {
    let mut miss = |what: String| {
        missed.push(Missed {
            name: item.name.clone(),
            provider: item.provider.clone(),
            why: format!("not in all runs: {what}"),
        });
    };
    let of_runs = runs
        .iter()
        .map(|run| run.item(&item.name, &item.provider, &item.operation))
        .collect::<Option<Vec<&Item>>>();
    let Some(of_runs) = of_runs else {
        miss(item.operation.clone());
        return None;
    };
    let points = of_runs.iter().flat_map(|of_run| &of_run.points);
    let sizes_bytes: BTreeSet<u64> = points.map(|point| point.size_bytes).collect();
    let mut points: Vec<Point> = Vec::new();
    for size_bytes in sizes_bytes {
        let same = of_runs.iter().map(|of_run| of_run.at(size_bytes).copied());
        let Some(mut all) = same.collect::<Option<Vec<Point>>>() else {
            miss(format!("{} of {size_bytes} bytes", item.operation));
            continue;
        };
        let (point, distance) = median(&mut all);
        *apart += usize::from(distance > DISAGREE_MIN);
        points.push(point);
    }
    let line = Line::through(&points);
    (!points.is_empty()).then(|| Item {
        points,
        line,
        ..item.clone()
    })
}

/// The median of one point's runs, and how far the runs lie apart, over the median. The point's
/// spread is that distance, or that of the batches where it is more.
fn median(all: &mut [Point]) -> (Point, f64) {
    all.sort_by(|one, other| one.median_ns.total_cmp(&other.median_ns));
    let middle = all.len() / 2;
    let is_even = all.len().is_multiple_of(2);
    let at = |nth: usize| all.get(nth).copied().unwrap_or_default();
    let mean = |of: fn(&Point) -> f64| {
        let below = if is_even {
            middle.saturating_sub(1)
        } else {
            middle
        };
        f64::midpoint(of(&at(below)), of(&at(middle)))
    };
    let median_ns = mean(|point| point.median_ns);
    let low_ns = at(0).median_ns;
    let high_ns = at(all.len().saturating_sub(1)).median_ns;
    let apart = if median_ns > 0.0 {
        (high_ns - low_ns) / median_ns
    } else {
        0.0
    };
    let of_batches = all.iter().map(|point| point.spread).fold(0.0, f64::max);
    let point = Point {
        median_ns,
        spread: apart.max(of_batches),
        interval_ns: None,
        cycles: at(0)
            .cycles
            .map(|_| mean(|point| point.cycles.unwrap_or(0.0))),
        batches: all.iter().map(|point| point.batches).sum(),
        ..at(middle)
    };
    (point, apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, medians_ns: &[f64]) -> PriceRecord {
        let points = [64_u64, 300, 700, 1_400].iter().zip(medians_ns);
        PriceRecord {
            items: vec![Item {
                name: name.to_owned(),
                operation: "send".to_owned(),
                points: points
                    .map(|(&size_bytes, &median_ns)| Point {
                        size_bytes,
                        median_ns,
                        batches: 5,
                        ..Point::default()
                    })
                    .collect(),
                ..Item::default()
            }],
            ..PriceRecord::default()
        }
    }

    #[test]
    fn the_median_of_each_point_counts_and_disagreement_is_told() {
        let runs = [
            run("a", &[100.0, 200.0, 300.0]),
            run("a", &[102.0, 900.0, 301.0]),
            run("a", &[101.0, 201.0, 299.0]),
        ];
        let merged = merge(&runs).unwrap();
        let points = &merged.items[0].points;
        let medians: Vec<f64> = points.iter().map(|point| point.median_ns).collect();
        assert_eq!(medians, [101.0, 201.0, 300.0]);
        assert!(points.iter().all(|point| point.batches == 15));
        assert!(merged.items[0].line.is_some());
        assert_eq!(merged.doubts.len(), 1, "{:?}", merged.doubts);
        assert!(merged.doubts[0].contains("1 of 3"), "{:?}", merged.doubts);
        let two = merge(&[run("a", &[100.0]), run("a", &[104.0])]).unwrap();
        assert_eq!(two.items[0].points[0].median_ns, 102.0);
    }

    #[test]
    fn batches_that_differ_are_no_disagreement_of_runs() {
        let mut noisy = run("a", &[100.0]);
        noisy.items[0].points[0].spread = 0.2;
        let merged = merge(&[noisy, run("a", &[100.0])]).unwrap();
        assert_eq!(merged.items[0].points[0].spread, 0.2);
        assert!(merged.doubts.is_empty(), "{:?}", merged.doubts);
    }

    #[test]
    fn what_one_run_lacks_is_left_out_and_named() {
        let whys = |merged: &PriceRecord| -> Vec<String> {
            let missed = merged.missed.iter();
            missed
                .map(|it| format!("{}: {}", it.name, it.why))
                .collect()
        };
        for runs in [
            [run("a", &[1.0, 2.0]), run("a", &[1.0])],
            [run("a", &[1.0]), run("a", &[1.0, 2.0])],
        ] {
            let merged = merge(&runs).unwrap();
            assert_eq!(merged.items[0].points.len(), 1);
            assert_eq!(whys(&merged), ["a: not in all runs: send of 300 bytes"]);
        }
        let merged = merge(&[run("a", &[1.0]), run("b", &[1.0])]).unwrap();
        assert!(merged.items.is_empty());
        let told = ["a: not in all runs: send", "b: not in all runs: send"];
        assert_eq!(whys(&merged), told);
        // And what a run says itself, once.
        let mut runs = [run("a", &[1.0]), run("a", &[2.0])];
        for run in &mut runs {
            run.missed.push(Missed {
                name: "c".to_owned(),
                why: "nobody has it".to_owned(),
                ..Missed::default()
            });
        }
        assert_eq!(whys(&merge(&runs).unwrap()), ["c: nobody has it"]);
    }

    #[test]
    fn a_run_that_is_named_twice_is_refused() {
        let (one, other) = (run("a", &[1.0]), run("a", &[2.0]));
        assert!(merge(&[one.clone(), other.clone()]).is_ok());
        for runs in [
            vec![one.clone(), one.clone()],
            vec![other.clone(), one, other],
        ] {
            let told = merge(&runs).unwrap_err().to_string();
            assert!(told.contains("name each run once"), "{told}");
        }
    }

    #[test]
    fn two_builds_of_one_version_are_refused() {
        let built = |build: &str| PriceRecord {
            versions: [("signet", "0.1.0"), ("signet build", build)]
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .into(),
            ..run("a", &[1.0])
        };
        let again = PriceRecord {
            started_unix_s: 1,
            ..built("one")
        };
        assert!(merge(&[built("one"), again]).is_ok());
        let told = merge(&[built("one"), built("two")]).unwrap_err();
        assert!(told.to_string().contains("one build"), "{told}");
    }

    #[test]
    fn runs_of_two_machines_are_refused() {
        let mut other = run("a", &[1.0]);
        "another".clone_into(&mut other.machine.cpu_model);
        let told = merge(&[run("a", &[1.0]), other]).unwrap_err().to_string();
        assert!(told.contains("one machine and one build"), "{told}");
        assert!(merge(&[]).is_err());
    }
}
