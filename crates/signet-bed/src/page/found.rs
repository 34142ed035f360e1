//! What the repeats of a case say together.

use crate::experiment::{Experiment, Interval};
use crate::record::{CaseResult, Repeat};

use super::figures::kind_of;

/// What the repeats of a case say of a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// A figure that counts.
    Settled(Interval),
    /// The repeats are too far apart.
    NotSettled,
    /// Each repeat doubts itself.
    InDoubt,
    /// There is no repeat that has it.
    NotMeasured,
    /// The system cannot do it.
    Impossible,
}

impl Found {
    /// The figure, where it counts.
    pub(super) fn settled(&self) -> Option<Interval> {
        match self {
            Self::Settled(interval) => Some(*interval),
            Self::NotSettled | Self::InDoubt | Self::NotMeasured | Self::Impossible => None,
        }
    }

    /// What stands in the place of a figure that does not count.
    pub(super) fn instead(&self) -> &'static str {
        match self {
            Self::Settled(_) => "",
            Self::NotSettled => "not settled",
            Self::InDoubt => "in doubt",
            Self::NotMeasured => "not measured",
            Self::Impossible => "cannot",
        }
    }
}

/// The repeats that count for a figure.
pub(super) fn counted<'a>(
    result: &'a CaseResult,
    figure: &'a str,
) -> impl Iterator<Item = &'a Repeat> {
    let repeats = result.repeats.iter();
    repeats.filter(move |repeat| repeat.counts_for(figure))
}

/// What a result says of a figure. It is settled where its repeats are no further apart than
/// [`Experiment::spread_max`] of their median, or than what says nothing of such a figure; one
/// repeat alone is settled, and its interval is empty.
pub(super) fn found(experiment: &Experiment, result: &CaseResult, figure: &str) -> Found {
    let resolution = kind_of(figure).map_or(0.0, |kind| kind.resolution);
    let of = |repeat: &Repeat| repeat.figures.get(figure).copied();
    let values: Vec<f64> = counted(result, figure).filter_map(of).collect();
    if values.is_empty() && result.repeats.iter().any(|repeat| of(repeat).is_some()) {
        return Found::InDoubt;
    }
    let is_impossible = || {
        let labels = &result.case.labels;
        let mut rules = experiment.not_for.iter();
        rules.any(|rule| rule.system == result.system && rule.pick.fits(labels))
    };
    if values.is_empty() && is_impossible() {
        return Found::Impossible;
    }
    settle(values, experiment.spread_max, resolution)
}

/// The same of values.
pub(super) fn settle(mut values: Vec<f64>, spread_max: f64, resolution: f64) -> Found {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
        return Found::NotMeasured;
    };
    let median = median(&values);
    let spread = high - low;
    if spread <= (spread_max * median.abs()).max(resolution) {
        Found::Settled(Interval {
            median,
            low,
            high,
            repeats: values.len(),
        })
    } else {
        Found::NotSettled
    }
}

/// The middle of sorted values; 0 of none.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match (
        sorted.get(middle),
        middle.checked_sub(1).and_then(|below| sorted.get(below)),
    ) {
        (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => {
            f64::midpoint(*upper, *lower)
        }
        (Some(upper), _) => *upper,
        (None, _) => 0.0,
    }
}

/// The mean of ratios: as far above one as below the other.
pub(super) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let is_ratio = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
    if ratios.is_empty() || !ratios.iter().all(is_ratio) {
        return None;
    }
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    Some((logs / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(found: &Found) -> (f64, f64, f64) {
        let interval = found.settled().unwrap();
        (interval.median, interval.low, interval.high)
    }

    #[test]
    fn repeats_that_are_far_apart_are_not_settled() {
        assert_eq!(
            interval(&settle(vec![50.0, 47.0, 52.0], 0.15, 0.0)),
            (50.0, 47.0, 52.0)
        );
        assert_eq!(settle(vec![50.0, 40.0, 52.0], 0.15, 0.0), Found::NotSettled);
        assert_eq!(settle(vec![], 0.15, 0.0), Found::NotMeasured);
        assert_eq!(settle(vec![f64::NAN], 0.15, 0.0), Found::NotMeasured);
        // What is next to nothing need not repeat to the percent.
        assert_eq!(
            interval(&settle(vec![0.0, 0.001], 0.15, 0.005)),
            (0.0005, 0.0, 0.001)
        );
        assert_eq!(interval(&settle(vec![-50.0, -47.0], 0.15, 0.0)).0, -48.5);
    }

    #[test]
    fn a_mean_of_ratios() {
        assert_eq!(geometric_mean(&[0.5, 2.0]), Some(1.0));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[0.0, 1.0]), None);
    }
}
