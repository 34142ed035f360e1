//! From a figure to its place on an axis, and where an axis has its ticks.

/// Whether equal steps or equal factors are equally far apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal factors; what is not above 0 has no place.
    Log,
}

/// Beyond these a figure is drawn as if it were there: their quotients are still numbers.
const SIZE_MAX: f64 = 1e100;
const SIZE_MIN: f64 = 1e-100;
/// Most steps of a linear axis, whatever was asked for.
const STEPS_MAX: f64 = 40.0;
/// A span is at least this share of the figures, so that their differences can be told apart.
const SPAN_SHARE_MIN: f64 = 1e-9;

/// An axis from end to end, with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<f64>,
    /// Where its low and its high end lie.
    start: f64,
    end: f64,
}

impl Scale {
    /// An axis that has room for all of `values`, between `start` and `end`, with about
    /// `count` steps. `from_zero` brings 0 onto a linear one.
    pub(crate) fn new(
        kind: Kind,
        values: impl Iterator<Item = f64>,
        from_zero: bool,
        count: usize,
    ) -> Self {
        let values = values.filter_map(|value| drawable(kind, value));
        let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| {
                (low.min(value), high.max(value))
            }))
        });
        let count = count.clamp(1, STEPS_MAX as usize) as f64;
        let (low, high, ticks) = match (kind, ends) {
            (Kind::Linear, None) => linear(0.0, 1.0, count),
            (Kind::Linear, Some((low, high))) if from_zero => {
                linear(low.min(0.0), high.max(0.0), count)
            }
            (Kind::Linear, Some((low, high))) => linear(low, high, count),
            (Kind::Log, None) => log(1.0, 10.0, count),
            (Kind::Log, Some((low, high))) => log(low, high, count),
        };
        Self {
            kind,
            low,
            high,
            ticks,
            start: 0.0,
            end: 1.0,
        }
    }

    /// An axis with ends and ticks of its own.
    pub(crate) fn with_ticks(low: f64, high: f64, ticks: Vec<f64>) -> Self {
        let (low, high) = widened(low.min(high), high.max(low));
        Self {
            kind: Kind::Linear,
            low,
            high,
            ticks,
            start: 0.0,
            end: 1.0,
        }
    }

    /// The same axis elsewhere.
    pub(crate) fn between(mut self, start: f64, end: f64) -> Self {
        (self.start, self.end) = (start, end);
        self
    }

    /// Where a figure lies; beyond an end, at that end. `None` for what has no place.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        let value = drawable(self.kind, value)?;
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        Some(self.start + share.clamp(0.0, 1.0) * (self.end - self.start))
    }

    /// Where bars begin: 0, or the end next to it.
    pub(crate) fn base(&self) -> f64 {
        match self.kind {
            Kind::Linear => self.at(0.0).unwrap_or(self.start),
            Kind::Log => self.start,
        }
    }

    pub(crate) fn labels(&self) -> Vec<String> {
        match self.kind {
            Kind::Linear => crate::number::ticks(&self.ticks),
            Kind::Log => crate::number::powers(&self.ticks),
        }
    }
}

/// A figure that can be drawn, within what can be reckoned with.
fn drawable(kind: Kind, value: f64) -> Option<f64> {
    match kind {
        _ if value.is_nan() => None,
        Kind::Linear if value.abs() < SIZE_MIN => Some(0.0),
        Kind::Linear => Some(value.clamp(-SIZE_MAX, SIZE_MAX)),
        Kind::Log if value <= 0.0 => None,
        Kind::Log => Some(value.clamp(SIZE_MIN, SIZE_MAX)),
    }
}

fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > size * SPAN_SHARE_MIN && high > low {
        return (low, high);
    }
    match size {
        0.0 => (0.0, 1.0),
        size => (low - size * 0.1, high + size * 0.1),
    }
}

/// Ends and ticks at multiples of 1, 2 or 5 times a power of ten.
fn linear(low: f64, high: f64, count: f64) -> (f64, f64, Vec<f64>) {
    // A single figure above 0 has its axis from 0 if it is asked for, else around itself.
    let (low, high) = widened(low, high);
    let rough = (high - low) / count;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(power * 10.0);
    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil().max(first + 1.0);
    let steps = (last - first).min(STEPS_MAX + 2.0) as usize;
    let ticks: Vec<f64> = (0..=steps).map(|at| (first + at as f64) * step).collect();
    (first * step, last * step, ticks)
}

/// Ends at 1, 2 or 5 times a power of ten; ticks at those, at powers, or at some of them.
fn log(low: f64, high: f64, count: f64) -> (f64, f64, Vec<f64>) {
    const FACTORS: [f64; 3] = [1.0, 2.0, 5.0];
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let marks: Vec<f64> = (first..=last)
        .flat_map(|power| FACTORS.map(|factor| factor * 10f64.powi(power)))
        .collect();
    let below = marks.iter().rfind(|mark| **mark <= low * (1.0 + 1e-9));
    let low = below.copied().unwrap_or(low);
    let above = marks.iter().find(|mark| **mark >= high * (1.0 - 1e-9));
    let mut high = above.copied().unwrap_or(high);
    if high <= low * 1.5 {
        high = low * 10.0;
    }
    let inside = |mark: &f64| (low * 0.999..=high * 1.001).contains(mark);
    let more = (last + 1..=last + 1).flat_map(|power| FACTORS.map(|f| f * 10f64.powi(power)));
    let all: Vec<f64> = marks.into_iter().chain(more).filter(inside).collect();
    if all.len() as f64 <= count + 1.0 {
        return (low, high, all);
    }
    let powers = |every: i32| -> Vec<f64> {
        (first..=last + 1)
            .filter(|power| power.rem_euclid(every) == 0)
            .map(|power| 10f64.powi(power))
            .filter(inside)
            .collect()
    };
    let every = [1, 2, 5, 10, 20, 50]
        .into_iter()
        .find(|every| powers(*every).len() as f64 <= count + 1.0)
        .unwrap_or(100);
    (low, high, powers(every))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(kind: Kind, values: &[f64], from_zero: bool, count: usize) -> Vec<f64> {
        Scale::new(kind, values.iter().copied(), from_zero, count).ticks
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            ticks(Kind::Linear, &[47.0, 54.0], true, 6),
            [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
        );
        assert_eq!(
            ticks(Kind::Linear, &[-3.0, 9.0], true, 4),
            [-5.0, 0.0, 5.0, 10.0]
        );
        assert_eq!(ticks(Kind::Linear, &[], true, 2), [0.0, 0.5, 1.0]);
        assert_eq!(
            ticks(Kind::Log, &[3.0, 900.0], false, 4),
            [10.0, 100.0, 1_000.0]
        );
        assert_eq!(
            ticks(Kind::Log, &[3.0, 40.0], false, 8),
            [2.0, 5.0, 10.0, 20.0, 50.0]
        );
        assert_eq!(ticks(Kind::Log, &[7.0], false, 8), [5.0, 10.0]);
    }

    #[test]
    fn what_is_measured_lies_between_the_ends() {
        let odd = [
            vec![],
            vec![0.0],
            vec![-0.0],
            vec![5e-324],
            vec![f64::MAX],
            vec![f64::MIN, f64::MAX],
            vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
            vec![1e15, 1e15 + 1.0],
            vec![1e-300, 1e300],
            vec![-1.0, -2.0],
            vec![42.0],
            (0..1_000).map(f64::from).collect(),
        ];
        for values in &odd {
            for kind in [Kind::Linear, Kind::Log] {
                for from_zero in [false, true] {
                    for count in [0, 1, 3, 8, 1_000] {
                        let scale = Scale::new(kind, values.iter().copied(), from_zero, count)
                            .between(10.0, 110.0);
                        assert!(
                            scale.ticks.len() <= 60,
                            "{values:?} {kind:?}: {:?}",
                            scale.ticks
                        );
                        let places = values
                            .iter()
                            .chain(&scale.ticks)
                            .filter_map(|v| scale.at(*v));
                        for place in places.chain([scale.base()]) {
                            assert!(
                                (9.99..=110.01).contains(&place),
                                "{values:?} {kind:?}: {place}"
                            );
                        }
                        assert_eq!(scale.labels().len(), scale.ticks.len());
                    }
                }
            }
        }
    }

    #[test]
    fn more_lies_further() {
        for kind in [Kind::Linear, Kind::Log] {
            let scale = Scale::new(kind, [1.0, 1_000.0].into_iter(), true, 5).between(0.0, 300.0);
            let places: Vec<f64> = [1.0, 10.0, 100.0, 1_000.0]
                .iter()
                .filter_map(|v| scale.at(*v))
                .collect();
            assert!(places.is_sorted_by(|a, b| a < b), "{kind:?} {places:?}");
        }
        assert_eq!(
            Scale::new(Kind::Log, [1.0].into_iter(), false, 5).at(0.0),
            None
        );
    }
}
