//! By how much repeats of one measurement differ on the machine of a run.
//!
//! Two repeats say little of how far a third would be from them; those of all cases together say
//! it well, since what disturbs them is mostly the machine: a pooled variance has as many degrees
//! of freedom as there are repeats beyond the first of each case.

use measure::statistics::student_t_95;

use super::case::Load;
use super::figures::value;
use super::finding::Interval;
use super::found::counted;
use crate::record::CaseResult;

/// Fewer say nothing that a case's own repeats do not.
const FREEDOM_MIN: usize = 6;

/// What repeats of a figure differ by, over all cases of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Noise {
    /// Standard deviation of the logarithm: about a share.
    deviation: f64,
    /// Degrees of freedom that it was found with.
    freedom: usize,
}

impl Noise {
    /// That of a figure at rates or at peaks, as `like` is; `None` where too little was repeated.
    pub(crate) fn of<'a>(
        results: impl Iterator<Item = &'a CaseResult>,
        like: &Load,
        name: &str,
    ) -> Option<Self> {
        let is_peak = |load: &Load| matches!(load, Load::Peak { .. });
        let (mut squares, mut freedom) = (0.0, 0);
        for result in results.filter(|result| is_peak(&result.load) == is_peak(like)) {
            let values = counted(result, name).filter_map(|repeat| value(repeat, name));
            let logs: Vec<f64> = values
                .filter(|value| *value > 0.0 && value.is_finite())
                .map(f64::ln)
                .collect();
            if logs.len() < 2 {
                continue;
            }
            let mean = measure::statistics::mean(&logs);
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            freedom += logs.len() - 1;
        }
        (freedom >= FREEDOM_MIN).then(|| Self {
            deviation: (squares / freedom as f64).sqrt(),
            freedom,
        })
    }

    /// The interval in which the median lies 19 times of 20, and nothing narrower than what the
    /// repeats themselves allow.
    pub(crate) fn around(self, own: Interval) -> Interval {
        let repeats = own.repeats.max(1) as f64;
        let reach = (student_t_95(self.freedom) * self.deviation / repeats.sqrt()).exp();
        Interval {
            low: own.low.min(own.median / reach),
            high: own.high.max(own.median * reach),
            ..own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Case, Setting};
    use crate::record::{Repeat, figure};

    fn result(values_us: &[f64], load: Load) -> CaseResult {
        let repeat = |value: &f64| Repeat {
            figures: [(figure::SERVER_CPU_US.to_owned(), *value)].into(),
            ..Repeat::default()
        };
        CaseResult {
            case: Case {
                id: "one".to_owned(),
                labels: [].into(),
                setting: Setting::default(),
                loads: Vec::new(),
                below: Vec::new(),
            },
            system: "signet".to_owned(),
            load,
            repeats: values_us.iter().map(repeat).collect(),
            missed: None,
        }
    }

    fn rate() -> Load {
        Load::Rate {
            per_s: 100.0,
            profile: false,
            for_check: false,
        }
    }

    fn peak() -> Load {
        Load::Peak {
            failures_max: 0.0,
            guess_per_s: 100.0,
        }
    }

    #[test]
    fn repeats_of_all_cases_say_what_one_more_would_differ_by() {
        let mut results: Vec<CaseResult> = (1..=12)
            .map(|nth| {
                let value = f64::from(nth) * 100.0;
                result(&[value / 1.1, value * 1.1], rate())
            })
            .collect();
        // What was measured once, and peaks, do not take part.
        results.push(result(&[5.0], rate()));
        results.push(result(&[5.0, 500.0], peak()));
        let of = |load: &Load| Noise::of(results.iter(), load, figure::SERVER_CPU_US);
        let noise = of(&rate()).unwrap();
        assert_eq!(noise.freedom, 12);
        let expected = 2.0_f64.sqrt() * 1.1_f64.ln();
        assert!((noise.deviation - expected).abs() < 1e-9, "{noise:?}");
        assert_eq!(of(&peak()), None, "one repeat says nothing");
        let own = Interval {
            median: 100.0,
            low: 99.0,
            high: 101.0,
            repeats: 2,
        };
        let around = noise.around(own);
        let reach = (2.179 * expected / 2.0_f64.sqrt()).exp();
        assert!((around.high - 100.0 * reach).abs() < 1e-9, "{around:?}");
        assert!((around.low - 100.0 / reach).abs() < 1e-9, "{around:?}");
        let wide = Interval {
            low: 1.0,
            high: 900.0,
            ..own
        };
        assert_eq!(noise.around(wide), wide);
    }
}
