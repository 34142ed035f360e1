//! How much the machine moved while it measured.

use serde::Serialize;
use signet_page::chart::{Axis, Chart, Datum, Figure, Line, Lines, Point};
use signet_page::number;

use crate::experiment::median;
use crate::record::{Calibration, Record};

/// Most points of a line.
const POINTS_MAX: usize = 200;

/// What the loops between measurements say of the machine.
#[derive(Debug, Serialize)]
pub(super) struct Moved {
    /// How often they ran.
    loops: usize,
    /// A line for each loop: its name, its median and its ends.
    lines: Vec<(String, String)>,
    /// The whole in a sentence.
    sentence: String,
}

/// What servers had of their core, where a case would have them held to a share of it and the run
/// started them.
pub(super) fn share(record: &Record) -> Option<String> {
    let is_part = |share: f64| share < 1.0;
    let results = record.results.iter().filter(|_| record.address.is_none());
    let wanted = results.filter(|result| result.case.setting.server_share.is_some_and(is_part));
    let mut held: Vec<f64> = Vec::new();
    let (mut is_wanted, mut has_whole) = (false, false);
    for repeat in wanted.flat_map(|result| &result.repeats) {
        is_wanted = true;
        match repeat.server_share {
            Some(share) if !held.contains(&share) => held.push(share),
            Some(_) => {}
            None => has_whole = true,
        }
    }
    held.sort_by(f64::total_cmp);
    let shares: Vec<String> = held.into_iter().map(number::percent).collect();
    let shares = shares.join(" or ");
    is_wanted.then(|| match (shares.is_empty(), has_whole) {
        (false, false) => format!(
            "a server has {shares} of its core by a quota of CPU time, so that it is full while the \
             load still has room: its peaks are those of {shares} of a core"
        ),
        (false, true) => format!(
            "in some repeats a server has {shares} of its core by a quota of CPU time, and in others \
             all of it, since the machine did not hold it: their peaks cannot be compared"
        ),
        (true, _) => "a server has all of its core: this machine did not hold it to the share that the \
             experiment asks for"
            .to_owned(),
    })
}

/// `None` where no loop ran.
pub(super) fn moved(record: &Record) -> Option<Moved> {
    let loops = &record.calibrations;
    let compute = Ends::of(loops, |calibration| calibration.compute_us)?;
    let kernel = Ends::of(loops, |calibration| calibration.kernel_us)?;
    let stolen = Ends::of(loops, |calibration| calibration.stolen)?;
    let taken = loops
        .iter()
        .filter(|calibration| calibration.stolen > STOLEN_MAX)
        .count();
    let sentence = format!(
        "Between its slowest and its fastest loop the machine moved by {} in pure work and by {} in \
         system calls; before {} of {} measurements neighbours took a part of the core.",
        number::percent(compute.spread()),
        number::percent(kernel.spread()),
        number::count(taken as u64),
        number::count(loops.len() as u64)
    );
    Some(Moved {
        loops: loops.len(),
        lines: vec![
            ("pure work".to_owned(), compute.told(number::microseconds)),
            ("system calls".to_owned(), kernel.told(number::microseconds)),
            (
                "wall-clock time over CPU time".to_owned(),
                stolen.told(number::figure),
            ),
        ],
        sentence,
    })
}

/// Above it neighbours took the core: the clock went on while the loop did not.
const STOLEN_MAX: f64 = 1.05;

struct Ends {
    low: f64,
    median: f64,
    high: f64,
}

impl Ends {
    fn of(loops: &[Calibration], value: fn(&Calibration) -> f64) -> Option<Self> {
        let mut values: Vec<f64> = loops
            .iter()
            .map(value)
            .filter(|value| value.is_finite())
            .collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            low: *values.first()?,
            median: median(&values),
            high: *values.last()?,
        })
    }

    fn spread(&self) -> f64 {
        (self.high - self.low) / self.median
    }

    fn told(&self, show: fn(f64) -> String) -> String {
        format!(
            "{} (lowest {}, highest {})",
            show(self.median),
            show(self.low),
            show(self.high)
        )
    }
}

/// Both loops over the run, each over its own median.
pub(super) fn figure(record: &Record) -> Option<Figure> {
    let loops = &record.calibrations;
    if loops.len() < 3 {
        return None;
    }
    let begin_s = loops.first()?.at_unix_s;
    let every = loops.len().div_ceil(POINTS_MAX);
    let line = |name: &str, nth: usize, value: fn(&Calibration) -> f64| -> Option<Line> {
        let middle = Ends::of(loops, value)?.median;
        Some(Line {
            name: name.to_owned(),
            colour: 2 + nth,
            nth,
            is_hollow: false,
            points: loops
                .iter()
                .step_by(every)
                .map(|calibration| Point {
                    x: calibration.at_unix_s.saturating_sub(begin_s) as f64 / 60.0,
                    y: Datum::exact(value(calibration) / middle),
                })
                .collect(),
        })
    };
    let lines = [
        line("pure work", 0, |calibration| calibration.compute_us),
        line("system calls", 1, |calibration| calibration.kernel_us),
    ];
    Some(Figure {
        title: "The machine's own pace during the run".to_owned(),
        description: "CPU time of two fixed loops between measurements, over their medians."
            .to_owned(),
        chart: Chart::Lines(Lines {
            x: Axis::linear("minutes from the beginning"),
            y: Axis::linear("CPU time of the loop, over its median"),
            lines: lines.into_iter().flatten().collect(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Repeat;

    #[test]
    fn the_share_that_servers_had_is_told_where_one_is_asked_for() {
        let with = |wanted: Option<f64>, held: &[Option<f64>]| {
            let mut record = super::super::sample::record();
            record.results.truncate(1);
            let result = &mut record.results[0];
            result.case.setting.server_share = wanted;
            let repeat = |share: &Option<f64>| Repeat {
                server_share: *share,
                ..Repeat::default()
            };
            result.repeats = held.iter().map(repeat).collect();
            share(&record)
        };
        assert_eq!(with(None, &[None]), None);
        assert_eq!(with(Some(1.0), &[None]), None);
        let told = |wanted, held: &[Option<f64>]| with(wanted, held).unwrap_or_default();
        let half = Some(0.5);
        assert!(told(half, &[half, half]).starts_with("a server has 50% of its core by a quota"));
        assert!(told(half, &[half, None]).contains("cannot be compared"));
        assert!(told(half, &[None]).contains("did not hold it to the share"));
    }
}
