//! Several runs as one: of each point the median of the runs, with their distance for its spread.

use signet_bed::Error;

use crate::line::Line;
use crate::record::{Item, Point, PriceRecord};

/// Runs whose medians differ by more disagree on a point.
pub const DISAGREE_MIN: f64 = 0.03;

/// One record of several runs of one machine with the same libraries. What is not in all of them
/// is left out; how many points the runs disagree on stands among the doubts.
///
/// # Errors
/// No run, or runs of different machines, libraries or engines, which have no common median.
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
    if others.is_empty() {
        return Ok(first.clone());
    }
    let mut apart = 0;
    let items: Vec<Item> = first
        .items
        .iter()
        .filter_map(|item| of_all(item, others, &mut apart))
        .collect();
    let mut merged = PriceRecord {
        command: format!("{} (medians of {} runs)", first.command, runs.len()),
        ended_unix_s: runs.iter().map(|run| run.ended_unix_s).max().unwrap_or(0),
        doubts: Vec::new(),
        checks: Vec::new(),
        items,
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

/// An item over all runs; `None` where one lacks it, or all of its sizes. Points that the runs
/// disagree on are added to `apart`.
fn of_all(item: &Item, others: &[PriceRecord], apart: &mut usize) -> Option<Item> {
    let others = others
        .iter()
        .map(|run| run.item(&item.name, &item.provider, &item.operation))
        .collect::<Option<Vec<&Item>>>()?;
    let points: Vec<Point> = item
        .points
        .iter()
        .filter_map(|point| {
            let same = others
                .iter()
                .map(|other| other.at(point.size_bytes).copied());
            let mut all = same.collect::<Option<Vec<Point>>>()?;
            all.push(*point);
            let (point, distance) = median(&mut all);
            *apart += usize::from(distance > DISAGREE_MIN);
            Some(point)
        })
        .collect();
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
    fn what_one_run_lacks_is_left_out() {
        let merged = merge(&[run("a", &[1.0, 2.0]), run("a", &[1.0])]).unwrap();
        assert_eq!(merged.items[0].points.len(), 1);
        let merged = merge(&[run("a", &[1.0]), run("b", &[1.0])]).unwrap();
        assert!(merged.items.is_empty());
    }

    #[test]
    fn two_builds_of_one_version_are_refused() {
        let built = |build: &str| PriceRecord {
            versions: [("signet", "0.1.0"), ("signet build", build)]
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .into(),
            ..run("a", &[1.0])
        };
        assert!(merge(&[built("one"), built("one")]).is_ok());
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
