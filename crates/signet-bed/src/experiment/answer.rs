//! What a record says of a finding.

use measure::statistics::quantile;

use super::figures::{in_words, number, value};
use super::finding::{Answer, By, Finding, Interval, Verdict};
use super::pairs::{Item, Sides};
use crate::record::{CaseResult, Record};

/// What is taken away from a figure may leave nothing, or less, where both are alike within
/// their noise. So what is left below the line counts as this share of the figure at least.
const LEFT_MIN: f64 = 0.01;

impl Verdict {
    /// Yes where the median reaches `yes_at` and all that the repeats allow stays short of
    /// `no_at`; no the other way round. `yes_at` below `no_at` is of a statement about less.
    pub fn of(ratio: &Interval, yes_at: f64, no_at: f64) -> Self {
        // Turned so that yes is up.
        let turned = |value: f64| if yes_at > no_at { value } else { -value };
        let (yes_at, no_at) = (turned(yes_at), turned(no_at));
        let median = turned(ratio.median);
        let (a, b) = (turned(ratio.low), turned(ratio.high));
        if median >= yes_at && a.min(b) > no_at {
            Self::Yes
        } else if median <= no_at && a.max(b) < yes_at {
            Self::No
        } else {
            Self::Differently
        }
    }
}

impl Finding {
    /// The answer for each system of the record that the finding is asked of.
    ///
    /// It is yes where the ratio of medians reaches [`Finding::yes_at`] and what the repeats
    /// allow stays short of [`Finding::no_at`]; no is the same the other way round.
    pub fn answer(&self, record: &Record) -> Vec<Answer> {
        let mut systems: Vec<&str> = Vec::new();
        for result in &record.results {
            if !systems.contains(&result.system.as_str()) {
                systems.push(&result.system);
            }
        }
        systems
            .into_iter()
            .filter(|system| self.systems.is_empty() || self.systems.iter().any(|s| s == system))
            .map(|system| self.answer_for(record, system))
            .collect()
    }

    fn answer_for(&self, record: &Record, system: &str) -> Answer {
        let results: Vec<&CaseResult> = record
            .results
            .iter()
            .filter(|result| result.system == system)
            .collect();
        let found = match self.by {
            By::Pairs => self.by_pairs(&results),
            By::Highest | By::Lowest => self.by_best(&results),
        };
        let (verdict, ratio, sentence) = match found {
            Ok((ratio, sentence)) => (
                Verdict::of(&ratio, self.yes_at, self.no_at),
                Some(ratio),
                sentence,
            ),
            Err(why) => (Verdict::NotMeasured, None, why),
        };
        Answer {
            system: system.to_owned(),
            verdict,
            ratio,
            sentence,
        }
    }

    fn by_pairs(&self, results: &[&CaseResult]) -> Result<(Interval, String), String> {
        let items = items(results);
        let pairs = self.pairs(&items);
        let of_all = pairs.len();
        let mut ratios = Vec::new();
        let mut sentence = String::new();
        let mut missing = None;
        for pair in pairs {
            match pair.and_then(|sides| self.ratio(&sides, results)) {
                Ok((ratio, told)) => {
                    ratios.push(ratio);
                    sentence = told;
                }
                Err(why) => missing = missing.or(Some(why)),
            }
        }
        let Some(first) = ratios.first().copied() else {
            return Err(missing.unwrap_or_else(|| format!("no case of `{}` was measured", self.of)));
        };
        if ratios.len() == 1 {
            return Ok((first, self.with_ratio(sentence, &first)));
        }
        let mean = |of: fn(&Interval) -> f64| {
            let logs: f64 = ratios
                .iter()
                .map(|ratio| of(ratio).max(f64::MIN_POSITIVE).ln())
                .sum();
            (logs / ratios.len() as f64).exp()
        };
        let ratio = Interval {
            median: mean(|ratio| ratio.median),
            low: mean(|ratio| ratio.low),
            high: mean(|ratio| ratio.high),
            repeats: ratios.iter().map(|ratio| ratio.repeats).min().unwrap_or(0),
        };
        let mut each: Vec<f64> = ratios.iter().map(|ratio| ratio.median).collect();
        each.sort_by(f64::total_cmp);
        let sentence = format!(
            "{}, {} of {of_all} pairs of cases, each from {} to {} times; together",
            in_words(&self.figure).what,
            ratios.len(),
            number(quantile(&each, 0.0)),
            number(quantile(&each, 1.0)),
        );
        Ok((ratio, self.with_ratio(sentence, &ratio)))
    }

    fn by_best(&self, results: &[&CaseResult]) -> Result<(Interval, String), String> {
        let items = items(results);
        let none = |pick| format!("no case of `{pick}` was measured");
        let of = self
            .best(self.above(&items), results)
            .ok_or_else(|| none(&self.of))?;
        let than = self
            .best(self.below(&items), results)
            .ok_or_else(|| none(&self.than))?;
        let ratio = self.divided(&of.1, (&than.0.case.id, &than.1))?;
        let sentence = self.told((&of.0.case.id, &of.1), (&than.0.case.id, &than.1));
        Ok((ratio, self.with_ratio(sentence, &ratio)))
    }

    /// The highest or the lowest of those that were measured.
    fn best<'i, 'a>(
        &self,
        items: impl Iterator<Item = &'i Item<'a>>,
        results: &[&'a CaseResult],
    ) -> Option<(&'a CaseResult, Interval)>
    where
        'a: 'i,
    {
        let measured = items.filter_map(|item| {
            let result = *results.get(item.nth)?;
            Some((result, spread(result, &self.figure).ok()?))
        });
        let by_median = |a: &(&CaseResult, Interval), b: &(&CaseResult, Interval)| {
            a.1.median.total_cmp(&b.1.median)
        };
        match self.by {
            By::Lowest => measured.min_by(by_median),
            By::Highest | By::Pairs => measured.max_by(by_median),
        }
    }

    /// The ratio of a pair, and what stands above and below.
    fn ratio(&self, sides: &Sides, results: &[&CaseResult]) -> Result<(Interval, String), String> {
        let value = |nth: usize| {
            let result = results
                .get(nth)
                .ok_or_else(|| "its case was not measured".to_owned())?;
            Ok::<_, String>((result.case.id.as_str(), spread(result, &self.figure)?))
        };
        let rest = |nth: usize, less: Option<usize>| {
            let (id, whole) = value(nth)?;
            let Some(less) = less else {
                return Ok::<_, String>((id, whole));
            };
            let (_, less) = value(less)?;
            Ok((id, left(&whole, &less)))
        };
        let of = rest(sides.of, sides.of_less)?;
        let mut than = rest(sides.than, sides.than_less)?;
        if sides.than_less.is_some() {
            let least = value(sides.than)?.1.median.abs() * LEFT_MIN;
            let floored = |value: f64| value.max(least);
            than.1.median = floored(than.1.median);
            than.1.low = floored(than.1.low);
            than.1.high = floored(than.1.high);
        }
        let ratio = self.divided(&of.1, (than.0, &than.1))?;
        Ok((ratio, self.told((of.0, &of.1), (than.0, &than.1))))
    }

    /// One figure over another, as far as the repeats of both allow.
    fn divided(&self, of: &Interval, than: (&str, &Interval)) -> Result<Interval, String> {
        let (id, than) = than;
        if than.low <= 0.0 {
            let what = in_words(&self.figure).what;
            return Err(format!("{what} is nothing for {id}, so there is no ratio"));
        }
        Ok(Interval {
            median: of.median / than.median,
            low: of.low / than.high,
            high: of.high / than.low,
            repeats: of.repeats.min(than.repeats),
        })
    }

    fn told(&self, of: (&str, &Interval), than: (&str, &Interval)) -> String {
        let words = in_words(&self.figure);
        let value = |interval: &Interval| {
            format!("{} {}", number(interval.median * words.scale), words.unit)
                .trim_end()
                .to_owned()
        };
        let less = |pick: &Option<super::pick::Pick>| match pick {
            Some(pick) => format!(" (less that of {pick})"),
            None => String::new(),
        };
        format!(
            "{}: {} for {}{}, {} for {}{}:",
            words.what,
            value(of.1),
            of.0,
            less(&self.of_less),
            value(than.1),
            than.0,
            less(&self.than_less),
        )
    }

    fn with_ratio(&self, sentence: String, ratio: &Interval) -> String {
        let within = if ratio.repeats > 1 {
            format!("{} to {}", number(ratio.low), number(ratio.high))
        } else {
            "measured once".to_owned()
        };
        let paper = match self.published {
            Some(published) => format!("; the paper has {}", number(published)),
            None => String::new(),
        };
        format!(
            "{sentence} {} times ({within}){paper}",
            number(ratio.median)
        )
    }
}

fn items<'a>(results: &[&'a CaseResult]) -> Vec<Item<'a>> {
    results
        .iter()
        .enumerate()
        .map(|(nth, result)| Item {
            labels: &result.case.labels,
            load: &result.load,
            nth,
        })
        .collect()
}

/// The median of the repeats that count, their lowest and their highest; or why there is none.
pub(super) fn spread(result: &CaseResult, figure: &str) -> Result<Interval, String> {
    let mut values: Vec<f64> = result
        .repeats
        .iter()
        .filter(|repeat| repeat.counts_for(figure))
        .filter_map(|repeat| value(repeat, figure))
        .filter(|value| value.is_finite())
        .collect();
    values.sort_by(f64::total_cmp);
    let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
        let why = match &result.missed {
            Some(missed) => missed.clone(),
            None => "no repeat counts".to_owned(),
        };
        return Err(format!("{} was not measured: {why}", result.case.id));
    };
    Ok(Interval {
        median: median(&values),
        low,
        high,
        repeats: values.len(),
    })
}

fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    let at = |nth: usize| sorted.get(nth).copied().unwrap_or(0.0);
    if sorted.len() % 2 == 1 {
        at(half)
    } else {
        f64::midpoint(at(half.saturating_sub(1)), at(half))
    }
}

/// What is left of one figure without another.
fn left(whole: &Interval, less: &Interval) -> Interval {
    Interval {
        median: whole.median - less.median,
        low: whole.low - less.high,
        high: whole.high - less.low,
        repeats: whole.repeats.min(less.repeats),
    }
}
