//! What a record says of a finding.

use measure::statistics::quantile;
use signet_page::number::percent;

use super::case::Load;
use super::expected::left_out;
use super::figures::{in_words, is_of_profile, number};
use super::file::Experiment;
use super::finding::{Answer, By, Finding, Interval, Verdict};
use super::found::{Found, found, is_bounded, unsettled};
use super::noise::Noise;
use super::pairs::{Item, Sides};
use super::pick::Pick;
use crate::names::Names;
use crate::record::{CaseResult, Record};

/// What is taken away from a figure may leave nothing, or less, where both are alike within
/// their noise. No ratio and no geometric mean can be made of that, so what is left counts as
/// this share of the figure at least.
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

/// A figure of one case, or of the best of several.
#[derive(Clone, Copy, Debug)]
struct Side<'a> {
    result: &'a CaseResult,
    interval: Interval,
    open: Open,
    /// Whether the interval is by what repeats differ by in the whole run.
    is_pooled: bool,
}

/// Whether what was found is only an end of what may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open {
    /// It may be more: a peak at which the server was not full.
    up: bool,
    /// It may be less.
    down: bool,
}

/// A ratio, the ends at which it is open, and the words for it.
#[derive(Clone, Debug)]
struct Ratio {
    interval: Interval,
    open: Open,
    told: String,
}

/// Why a case has no figure.
enum Without {
    /// The system cannot do it.
    Cannot(String),
    /// It was not measured, or does not count.
    Missing(String),
}

impl Without {
    fn why(self) -> String {
        match self {
            Self::Cannot(why) | Self::Missing(why) => why,
        }
    }
}

impl Ratio {
    /// All that it may be.
    fn opened(&self) -> Interval {
        Interval {
            low: if self.open.down {
                0.0
            } else {
                self.interval.low
            },
            high: if self.open.up {
                f64::INFINITY
            } else {
                self.interval.high
            },
            ..self.interval
        }
    }
}

impl Finding {
    /// The answer for each system of the record that the finding is asked of; none where the
    /// record is of a form that does not answer it.
    ///
    /// It is yes where the ratio of medians reaches [`Finding::yes_at`] and what the repeats
    /// allow stays short of [`Finding::no_at`]; no is the same the other way round. Where a
    /// peak is only the least that a server can do, or one of several cases is missing, it is
    /// what holds whatever these may be.
    pub fn answer(&self, experiment: &Experiment, record: &Record) -> Vec<Answer> {
        if record.form.parse().is_ok_and(|form| !self.is_for(form)) {
            return Vec::new();
        }
        let mut systems: Vec<&str> = Vec::new();
        for result in &record.results {
            if !systems.contains(&result.system.as_str()) {
                systems.push(&result.system);
            }
        }
        systems
            .into_iter()
            .filter(|system| self.systems.is_empty() || self.systems.iter().any(|s| s == system))
            .map(|system| self.answer_for(experiment, record, system))
            .collect()
    }

    fn answer_for(&self, experiment: &Experiment, record: &Record, system: &str) -> Answer {
        // A run of some cases does not answer for all: the others are missing.
        let left_out = left_out(experiment, record, system);
        let of_system = |result: &&CaseResult| result.system == system;
        let results = record.results.iter().filter(of_system);
        let asked = Asked {
            finding: self,
            experiment,
            record,
            names: Names::new(experiment, record).and(&left_out),
            results: results.chain(&left_out).collect(),
        };
        let found = match self.by {
            By::Pairs => asked.by_pairs(),
            By::Highest | By::Lowest => asked.by_best(),
        };
        let (verdict, ratio, sentence) = match found {
            Ok(ratio) => {
                let verdict = self.verdict(&ratio);
                let sentence = self.sentence(&ratio, verdict);
                (verdict, Some(ratio.interval), sentence)
            }
            Err(why) => (Verdict::NotMeasured, None, why),
        };
        Answer {
            system: system.to_owned(),
            verdict,
            ratio,
            sentence,
        }
    }

    fn verdict(&self, ratio: &Ratio) -> Verdict {
        let of = |interval: &Interval| {
            let verdict = Verdict::of(interval, self.yes_at, self.no_at);
            let is_beyond = self.yes_until.is_some_and(|until| {
                if self.yes_at > self.no_at {
                    interval.median > until || interval.high.is_infinite()
                } else {
                    interval.median < until || interval.low <= 0.0
                }
            });
            match verdict {
                Verdict::Yes if is_beyond => Verdict::Differently,
                verdict => verdict,
            }
        };
        let opened = ratio.opened();
        let stays_beyond = self.yes_until.is_some_and(|until| {
            if self.yes_at > self.no_at {
                opened.low > until
            } else {
                opened.high < until
            }
        });
        match (of(&ratio.interval), of(&opened)) {
            // What is only an end of what may be is no evidence.
            (Verdict::Yes | Verdict::No, Verdict::Differently) => Verdict::NotMeasured,
            (Verdict::Differently, _) if ratio.open != Open::default() && !stays_beyond => {
                Verdict::NotMeasured
            }
            (_, Verdict::Differently) if self.allows_both(&ratio.interval) => Verdict::NotMeasured,
            (_, verdict) => verdict,
        }
    }

    /// Whether an interval reaches from a yes to a no.
    fn allows_both(&self, interval: &Interval) -> bool {
        let (least, most) = if self.yes_at > self.no_at {
            (self.no_at, self.yes_at)
        } else {
            (self.yes_at, self.no_at)
        };
        interval.low <= least && interval.high >= most
    }

    fn sentence(&self, ratio: &Ratio, verdict: Verdict) -> String {
        let interval = &ratio.interval;
        let within = if interval.repeats > 1 || interval.low < interval.high {
            format!("{} to {}", number(interval.low), number(interval.high))
        } else {
            "measured once".to_owned()
        };
        let end = match (ratio.open.up, ratio.open.down) {
            (false, false) => "",
            (true, false) => "at least ",
            (false, true) => "at most ",
            (true, true) => "perhaps ",
        };
        let paper = match self.published {
            Some(published) => format!("; the paper has {}", number(published)),
            None => String::new(),
        };
        let evidence = match verdict {
            Verdict::NotMeasured if self.allows_both(interval) => {
                "; what the repeats allow reaches from a yes to a no: more --repeats decide it"
            }
            Verdict::NotMeasured => {
                "; a figure that is known only as \"at least\" or \"at most\" does not decide it"
            }
            Verdict::Yes | Verdict::No | Verdict::Differently => "",
        };
        format!(
            "{} {end}{} times ({within}){paper}{evidence}",
            ratio.told,
            number(interval.median)
        )
    }
}

/// A finding and what was measured of one system.
struct Asked<'a> {
    finding: &'a Finding,
    experiment: &'a Experiment,
    record: &'a Record,
    names: Names<'a>,
    results: Vec<&'a CaseResult>,
}

impl<'a> Asked<'a> {
    fn by_pairs(&self) -> Result<Ratio, String> {
        let items = items(&self.results);
        let pairs = self.finding.pairs(&items);
        let of_all = pairs.len();
        let mut ratios = Vec::new();
        let mut cannot = None;
        for pair in pairs {
            match pair
                .map_err(Without::Missing)
                .and_then(|sides| self.ratio(&sides))
            {
                Ok(ratio) => ratios.push(ratio),
                Err(Without::Cannot(why)) => cannot = cannot.or(Some(why)),
                Err(Without::Missing(why)) if of_all > 1 => {
                    return Err(format!(
                        "not all {of_all} pairs of cases have figures: {why}"
                    ));
                }
                Err(Without::Missing(why)) => return Err(why),
            }
        }
        let first = ratios
            .first()
            .cloned()
            .ok_or_else(|| cannot.unwrap_or_else(|| self.none_of(&self.finding.of)))?;
        let of_pairs = format!("{} of {of_all} pairs of cases", ratios.len());
        if ratios.len() == 1 {
            return Ok(match of_all {
                1 => first,
                _ => Ratio {
                    told: format!("{of_pairs}, {}", first.told),
                    ..first
                },
            });
        }
        let mean = |of: fn(&Interval) -> f64| {
            let logs: f64 = ratios
                .iter()
                .map(|ratio| of(&ratio.interval).max(f64::MIN_POSITIVE).ln())
                .sum();
            (logs / ratios.len() as f64).exp()
        };
        let repeats = ratios.iter().map(|ratio| ratio.interval.repeats);
        let mut each: Vec<f64> = ratios.iter().map(|ratio| ratio.interval.median).collect();
        each.sort_by(f64::total_cmp);
        let words = in_words(&self.finding.figure);
        Ok(Ratio {
            interval: Interval {
                median: mean(|interval| interval.median),
                low: mean(|interval| interval.low),
                high: mean(|interval| interval.high),
                repeats: repeats.min().unwrap_or(0),
            },
            open: Open {
                up: ratios.iter().any(|ratio| ratio.open.up),
                down: ratios.iter().any(|ratio| ratio.open.down),
            },
            told: format!(
                "{}, {of_pairs}, {}each from {} to {} times; together",
                words.what,
                self.loads(&items),
                number(quantile(&each, 0.0)),
                number(quantile(&each, 1.0)),
            ),
        })
    }

    /// The loads of both sides, where each is one and they are not the same.
    fn loads(&self, items: &[Item<'_>]) -> String {
        let told = |mut loads: Vec<String>| {
            loads.sort();
            loads.dedup();
            loads.join(" and ")
        };
        let above = told(self.finding.above(items).map(|it| at(it.load)).collect());
        let below = told(self.finding.below(items).map(|it| at(it.load)).collect());
        if above == below {
            format!("{above}, ")
        } else {
            format!("{above} over {below}, ")
        }
    }

    fn by_best(&self) -> Result<Ratio, String> {
        let items = items(&self.results);
        let (of, of_cases) = self.best(self.finding.above(&items), &self.finding.of)?;
        let (than, than_cases) = self.best(self.finding.below(&items), &self.finding.than)?;
        let ratio = self
            .divided(&of, &than, (false, false))
            .map_err(Without::why)?;
        Ok(Ratio {
            told: format!("{of_cases} over {than_cases}, {}", ratio.told),
            ..ratio
        })
    }

    /// The highest or the lowest of those that were measured, with the ends of what the repeats
    /// of all of them allow, and how many these are. Where others have no figure, the best may be
    /// better.
    fn best<'i>(
        &self,
        items: impl Iterator<Item = &'i Item<'a>>,
        pick: &Pick,
    ) -> Result<(Side<'a>, String), String>
    where
        'a: 'i,
    {
        let mut measured: Vec<Side<'a>> = Vec::new();
        let mut missing: Option<String> = None;
        let mut of_all = 0;
        for item in items {
            match self.side(item.nth) {
                Ok(side) => {
                    of_all += 1;
                    measured.push(side);
                }
                Err(Without::Cannot(_)) => {}
                Err(Without::Missing(why)) => {
                    of_all += 1;
                    missing = missing.or(Some(why));
                }
            }
        }
        let count = measured.len();
        let is_open = missing.is_some();
        let up = measured.iter().any(|side| side.open.up);
        let is_lowest = self.finding.by == By::Lowest;
        let by_median =
            |a: &Side<'_>, b: &Side<'_>| a.interval.median.total_cmp(&b.interval.median);
        // Another than that with the best median may be the best, as far as its repeats allow.
        let better = if is_lowest { f64::min } else { f64::max };
        let end = |of: fn(&Interval) -> f64| {
            let ends = measured.iter().map(|side| of(&side.interval));
            ends.reduce(better)
        };
        let ends = end(|one| one.low).zip(end(|one| one.high));
        let sides = measured.into_iter();
        let best = if is_lowest {
            sides.min_by(by_median)
        } else {
            sides.max_by(by_median)
        };
        let found = best.zip(ends);
        let (mut best, (low, high)) =
            found.ok_or_else(|| missing.unwrap_or_else(|| self.none_of(pick)))?;
        best.interval.low = low;
        best.interval.high = high;
        // A peak that may be higher may be the highest; the lowest alone can be higher itself.
        best.open.up |= (is_open || up) && !is_lowest;
        best.open.down |= is_open && is_lowest;
        Ok((best, format!("{count} of {of_all} cases")))
    }

    /// What was found of a case.
    fn side(&self, nth: usize) -> Result<Side<'a>, Without> {
        let missing = |why: &str| Without::Missing(why.to_owned());
        let result = *self
            .results
            .get(nth)
            .ok_or_else(|| missing("its case was not measured"))?;
        let case = self.names.quoted(result);
        let name = &self.finding.figure;
        let noise = Noise::of(self.record.results.iter(), &result.load, name);
        let (interval, is_least) = match (found(self.experiment, result, name), noise) {
            (Found::Settled(interval), _) => (interval, false),
            (Found::AtLeast(interval), _) => (interval, true),
            // How far they are apart is known, and so what they decide.
            (Found::NotSettled, Some(_)) => {
                let interval = unsettled(result, name);
                let interval = interval.ok_or_else(|| missing("no repeat counts"))?;
                (interval, is_bounded(result, name))
            }
            (Found::Impossible, _) => {
                let why = self.experiment.reason_against(&result.system, &result.case);
                let why = why.unwrap_or("the system cannot do it");
                return Err(Without::Cannot(format!("{case} was not measured: {why}")));
            }
            (other, _) => return Err(Without::Missing(self.missing(result, &other))),
        };
        Ok(Side {
            result,
            is_pooled: noise.is_some(),
            interval: noise.map_or(interval, |noise| noise.around(interval)),
            open: Open {
                up: is_least,
                down: false,
            },
        })
    }

    fn none_of(&self, pick: &Pick) -> String {
        match pick.0.is_empty() {
            true => "no case was measured".to_owned(),
            false => format!("no case of \"{}\" was measured", self.names.pick(pick)),
        }
    }

    /// Why a case has no figure.
    fn missing(&self, result: &CaseResult, found: &Found) -> String {
        let case = self.names.quoted(result);
        match found {
            Found::NotSettled => format!(
                "{case} {} is not settled: its repeats are further apart, or half of their 95% interval is wider, than {}",
                at(&result.load),
                percent(self.experiment.spread_max)
            ),
            Found::InDoubt => {
                let name = &self.finding.figure;
                let reservation = result.repeats.iter().find_map(|one| {
                    let void = one.profile_void.clone().filter(|_| is_of_profile(name));
                    one.reservations_of(name).next().or(void)
                });
                match reservation {
                    Some(doubt) => format!("{case} {} is in doubt: {doubt}", at(&result.load)),
                    None => format!("{case} {} is in doubt", at(&result.load)),
                }
            }
            Found::ByThreads => format!(
                "{case} {} was taken apart by threads alone, which cannot tell these components",
                at(&result.load)
            ),
            Found::Settled(_) | Found::AtLeast(_) | Found::NotMeasured | Found::Impossible => {
                let why = result.missed.as_deref().unwrap_or("no repeat counts");
                format!("{case} was not measured: {why}")
            }
        }
    }

    /// The ratio of a pair, and what stands above and below.
    fn ratio(&self, sides: &Sides) -> Result<Ratio, Without> {
        let rest = |nth: usize, less: Option<usize>| {
            let mut whole = self.side(nth)?;
            if let Some(less) = less {
                let less = self.side(less)?;
                let are_pooled = whole.is_pooled && less.is_pooled;
                let least = whole.interval.median.abs() * LEFT_MIN;
                whole.interval = left(&whole.interval, &less.interval, are_pooled);
                let Interval {
                    median, low, high, ..
                } = &mut whole.interval;
                for value in [median, low, high] {
                    *value = value.max(least);
                }
                whole.open.down |= less.open.up;
            }
            Ok::<_, Without>(whole)
        };
        let of = rest(sides.of, sides.of_less)?;
        let than = rest(sides.than, sides.than_less)?;
        let are_less = (sides.of_less.is_some(), sides.than_less.is_some());
        self.divided(&of, &than, are_less)
    }

    /// One figure over another, as far as the repeats of both allow.
    fn divided(
        &self,
        of: &Side<'_>,
        than: &Side<'_>,
        are_less: (bool, bool),
    ) -> Result<Ratio, Without> {
        let (above, below) = (&of.interval, &than.interval);
        if below.low <= 0.0 {
            let what = in_words(&self.finding.figure).what;
            let case = self.names.quoted(than.result);
            return Err(Without::Missing(format!(
                "{what} is nothing for {case}, so there is no ratio"
            )));
        }
        Ok(Ratio {
            interval: if of.is_pooled && than.is_pooled && above.median > 0.0 {
                independent(above, below)
            } else {
                Interval {
                    median: above.median / below.median,
                    low: above.low / below.high,
                    high: above.high / below.low,
                    repeats: above.repeats.min(below.repeats),
                }
            },
            open: Open {
                up: of.open.up || than.open.down,
                down: of.open.down || than.open.up,
            },
            told: self.told(of, than, are_less),
        })
    }

    fn told(&self, of: &Side<'_>, than: &Side<'_>, are_less: (bool, bool)) -> String {
        let words = in_words(&self.finding.figure);
        let side = |side: &Side<'_>, pick: &Option<Pick>, is_less: bool| {
            let end = match (side.open.up, side.open.down) {
                (true, _) => "at least ",
                (false, true) => "at most ",
                (false, false) => "",
            };
            let value = number(side.interval.median * words.scale);
            let unit = words.unit;
            let value = format!("{end}{value} {unit}").trim_end().to_owned();
            let less = match pick {
                Some(pick) if is_less => format!(" (less that of {})", self.names.pick(pick)),
                _ => String::new(),
            };
            let load = at(&side.result.load);
            let case = self.names.quoted(side.result);
            format!("{value} for {case} {load}{less}")
        };
        format!(
            "{}: {}, {}:",
            words.what,
            side(of, &self.finding.of_less, are_less.0),
            side(than, &self.finding.than_less, are_less.1),
        )
    }
}

/// The ratio of two figures with 95% intervals that do not depend on each other: it is not to be
/// feared that both are at their ends at once.
fn independent(above: &Interval, below: &Interval) -> Interval {
    let median = above.median / below.median;
    let apart = |a: f64, b: f64| if b > 0.0 { (a / b).ln() } else { f64::INFINITY };
    let up = apart(above.high, above.median).hypot(apart(below.median, below.low));
    let down = apart(above.median, above.low).hypot(apart(below.high, below.median));
    Interval {
        median,
        low: median * (-down).exp(),
        high: median * up.exp(),
        repeats: above.repeats.min(below.repeats),
    }
}

/// A load in words.
fn at(load: &Load) -> String {
    match load {
        Load::Peak { .. } => "at its peak".to_owned(),
        Load::Rate { per_s, .. } => format!("at {}/s", number(*per_s)),
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

/// What is left of one figure without another.
fn left(whole: &Interval, less: &Interval, are_pooled: bool) -> Interval {
    let median = whole.median - less.median;
    let below = [whole.median - whole.low, less.high - less.median];
    let above = [whole.high - whole.median, less.median - less.low];
    let [below, above] = [below, above].map(|[a, b]| if are_pooled { a.hypot(b) } else { a + b });
    Interval {
        median,
        low: median - below,
        high: median + above,
        repeats: whole.repeats.min(less.repeats),
    }
}
