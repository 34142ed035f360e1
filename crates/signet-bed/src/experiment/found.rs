//! What the repeats of a case say together: for findings, the cross-check and pages alike.

use measure::statistics::{deviation, student_t_95};

use super::case::{Authentication, Load};
use super::figures::{is_of_profile, resolution, value};
use super::file::Experiment;
use super::finding::Interval;
use crate::profile::Source;
use crate::record::{Bound, CaseResult, Repeat, figure};

/// A server that takes a smaller share of the cores that it has is not full.
pub(crate) const FULL: f64 = 0.9;
/// From so many repeats on their interval is that of their mean.
const INTERVAL_MIN: usize = 3;

/// What the repeats of a case say of a figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// A figure that counts.
    Settled(Interval),
    /// A peak that may not be the server's own ([`Least`]): that one is at least so much.
    AtLeast(Interval),
    /// The repeats are too far apart.
    NotSettled,
    /// Each repeat doubts itself.
    InDoubt,
    /// The kernel's figures of threads stand for components, and cannot tell them apart.
    ByThreads,
    /// There is no repeat that has it.
    NotMeasured,
    /// The system cannot do it.
    Impossible,
}

impl Found {
    /// The figure, where it is the server's.
    pub(crate) fn settled(&self) -> Option<Interval> {
        match self {
            Self::Settled(interval) => Some(*interval),
            Self::AtLeast(_)
            | Self::NotSettled
            | Self::InDoubt
            | Self::ByThreads
            | Self::NotMeasured
            | Self::Impossible => None,
        }
    }

    /// The figure, where it repeats, be it the server's or the least that this can be.
    pub(crate) fn known(&self) -> Option<Interval> {
        match self {
            Self::Settled(interval) | Self::AtLeast(interval) => Some(*interval),
            Self::NotSettled
            | Self::InDoubt
            | Self::ByThreads
            | Self::NotMeasured
            | Self::Impossible => None,
        }
    }

    /// What stands in the place of a figure that does not count.
    pub(crate) fn instead(&self) -> &'static str {
        match self {
            Self::Settled(_) | Self::AtLeast(_) => "",
            Self::NotSettled => "not settled",
            Self::InDoubt => "in doubt",
            Self::ByThreads => "by threads alone",
            Self::NotMeasured => "not measured",
            Self::Impossible => "cannot",
        }
    }
}

/// The repeats that count for a figure. One whose only doubt is that the load was full at a peak
/// is among them: what it took is as true as any, and its rate is told as the least. Its delays
/// are those of the load.
pub(crate) fn counted<'a>(
    result: &'a CaseResult,
    name: &'a str,
) -> impl Iterator<Item = &'a Repeat> {
    let repeats = result.repeats.iter();
    repeats.filter(move |repeat| {
        if is_of_profile(name) && repeat.profile_void.is_some() {
            return false;
        }
        let has_full_load = !figure::is_delay(name)
            && repeat.bound == Some(Bound::Load)
            && repeat.doubts.len() == 1
            && repeat.reservations().count() == 1;
        repeat.counts_for(name) || has_full_load
    })
}

/// What a result says of a figure. It is settled where its repeats are no further apart than
/// [`Experiment::spread_max`] of their median, or than what says nothing of such a figure; one
/// repeat alone is settled, and its interval is empty.
pub(crate) fn found(experiment: &Experiment, result: &CaseResult, name: &str) -> Found {
    let of = |repeat: &Repeat| value(repeat, name);
    let by_threads =
        |repeat: &&Repeat| is_of_profile(name) && repeat.profile_source == Some(Source::Accounting);
    if counted(result, name).any(|repeat| by_threads(&repeat)) {
        return Found::ByThreads;
    }
    let values: Vec<f64> = counted(result, name).filter_map(of).collect();
    if values.is_empty() && result.repeats.iter().any(|repeat| of(repeat).is_some()) {
        return Found::InDoubt;
    }
    if values.is_empty() && is_impossible(experiment, result) {
        return Found::Impossible;
    }
    match settle(values, experiment.spread_max, resolution(name)) {
        Found::Settled(interval) if is_bounded(result, name) => Found::AtLeast(interval),
        found => found,
    }
}

/// What the repeats that count say of a figure, however far apart they are.
pub(crate) fn unsettled(result: &CaseResult, name: &str) -> Option<Interval> {
    let values = counted(result, name).filter_map(|repeat| value(repeat, name));
    match settle(values.collect(), f64::INFINITY, 0.0) {
        Found::Settled(interval) => Some(interval),
        _ => None,
    }
}

/// Whether a system cannot do a case.
fn is_impossible(experiment: &Experiment, result: &CaseResult) -> bool {
    experiment
        .reason_against(&result.system, &result.case)
        .is_some()
}

/// Whether a figure is of a peak that may not be the server's.
pub(super) fn is_bounded(result: &CaseResult, name: &str) -> bool {
    figure::is_most(name) && least(result).is_some()
}

/// Why a peak is only the least that a server can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Least {
    /// The server was not full.
    Room,
    /// How many cores it may use is not known, and so whether it was full.
    CoresUnknown,
    /// The search ended with more than [`RESOLUTION`] between what was held and what was not.
    EndedEarly,
}

/// The first repeat that is only the least that a server can do, and why.
pub(crate) fn least(result: &CaseResult) -> Option<(&Repeat, Least)> {
    let Load::Peak { failures_max, .. } = result.load else {
        return None;
    };
    let why = |repeat: &Repeat| {
        if repeat.is_foreign {
            Some(Least::CoresUnknown)
        } else if is_not_full(result, repeat) {
            Some(Least::Room)
        } else {
            ended_early(repeat, failures_max).then_some(Least::EndedEarly)
        }
    };
    let mut repeats = counted(result, figure::RATE_PER_S);
    repeats.find_map(|repeat| Some((repeat, why(repeat)?)))
}

/// At the end of a search the lowest rate that was not held lies above the highest that was by at
/// most this share of it, where tries sufficed.
pub(crate) const RESOLUTION: f64 = 0.07;
/// Where fewer failures are allowed than this share, so much may have been due and not ended:
/// the last second of a stretch of four misses what is under way.
pub(crate) const UNDER_WAY_MAX: f64 = 0.03;

/// Whether a search ran out of tries far from its end. Where a record does not say which rate was
/// held, it is the highest of which so much could have ended.
pub(super) fn ended_early(repeat: &Repeat, failures_max: f64) -> bool {
    let ended_per_s = repeat.figures.get(figure::RATE_PER_S);
    let held_per_s = repeat.held_per_s.or_else(|| {
        let ended_min = 1.0 - failures_max.max(UNDER_WAY_MAX);
        ended_per_s.map(|ended_per_s| ended_per_s / ended_min)
    });
    let not_held = repeat.not_held.as_ref();
    held_per_s
        .zip(not_held)
        .is_some_and(|(held_per_s, above)| above.per_s - held_per_s > held_per_s * RESOLUTION)
}

/// Whether the server had room left at a peak. One that waits for a database takes less than
/// its cores at a peak that is its own.
fn is_not_full(result: &CaseResult, repeat: &Repeat) -> bool {
    match repeat.bound {
        Some(Bound::Server) => false,
        Some(Bound::Load) => true,
        Some(Bound::Neither) | None => {
            let cores = repeat.figures.get(figure::SERVER_CORES);
            let has_room = cores.is_some_and(|cores| *cores < FULL * repeat.server_cores_max());
            let waits = result.case.setting.authentication == Authentication::Mariadb;
            has_room && (!waits || has_full_load(repeat))
        }
    }
}

/// Whether the core of load, called side and database was full at a peak, or at the rate above
/// that was not held.
pub(crate) fn has_full_load(repeat: &Repeat) -> bool {
    let of = |name: &str| repeat.figures.get(name).copied().unwrap_or(0.0);
    match repeat.bound {
        Some(bound) => bound == Bound::Load,
        None => of(figure::LOAD_CORES) + of(figure::DATABASE_CORES) >= FULL,
    }
}

/// What values say. Two are as far apart as they are; from three on it is the 95% interval
/// of their mean (Student's t), laid around their median, which more repeats make narrower.
pub(crate) fn settle(mut values: Vec<f64>, spread_max: f64, resolution: f64) -> Found {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let (Some(&lowest), Some(&highest)) = (values.first(), values.last()) else {
        return Found::NotMeasured;
    };
    let repeats = values.len();
    let median = median(&values);
    let (low, high, apart) = if repeats < INTERVAL_MIN {
        (lowest, highest, highest - lowest)
    } else {
        let half = student_t_95(repeats - 1) * deviation(&values) / (repeats as f64).sqrt();
        let low = median - half;
        // What cannot be below nothing is not.
        let low = if lowest >= 0.0 { low.max(0.0) } else { low };
        (low, median + half, half)
    };
    if apart <= (spread_max * median.abs()).max(resolution) {
        Found::Settled(Interval {
            median,
            low,
            high,
            repeats,
        })
    } else {
        Found::NotSettled
    }
}

/// The middle of sorted values; 0 of none.
pub(crate) fn median(sorted: &[f64]) -> f64 {
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
pub(crate) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
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
            interval(&settle(vec![50.0, 47.0], 0.15, 0.0)),
            (48.5, 47.0, 50.0)
        );
        assert_eq!(settle(vec![40.0, 52.0], 0.15, 0.0), Found::NotSettled);
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
    fn from_three_repeats_on_more_of_them_settle_what_is_as_far_apart() {
        let (_, low, high) = interval(&settle(vec![50.0, 47.0, 52.0], 0.15, 0.0));
        assert!((low - 43.75).abs() < 0.01 && (high - 56.25).abs() < 0.01);
        let three = vec![45.0, 50.0, 55.0];
        assert_eq!(settle(three.clone(), 0.15, 0.0), Found::NotSettled);
        let many: Vec<f64> = three.iter().copied().cycle().take(9).collect();
        let (_, low, high) = interval(&settle(many, 0.15, 0.0));
        assert!(low > 45.0 && high < 55.0, "{low} to {high}");
        // A delay is not below nothing, however little is known of it.
        let delay = settle(vec![0.0, 0.0, 0.09], 0.15, 0.2);
        assert_eq!(interval(&delay).1, 0.0);
    }

    #[test]
    fn a_mean_of_ratios() {
        assert_eq!(geometric_mean(&[0.5, 2.0]), Some(1.0));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[0.0, 1.0]), None);
    }
}
