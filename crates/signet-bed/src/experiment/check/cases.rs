//! There are cases, they can be, and each has loads.

use std::collections::BTreeSet;

use super::{Check, LIST_MAX};
use crate::experiment::case::{Case, Flow, Load};
use crate::experiment::file::{Form, LoadRule};
use crate::experiment::settings::{Misfit, misfits};

/// Calls or registrations a second.
const RATE_MAX_PER_S: f64 = 1_000_000.0;

impl Check<'_> {
    pub(super) fn cases(&mut self) {
        let experiment = self.experiment;
        let combinations = experiment.combinations();
        if combinations.is_empty() || combinations.len() > LIST_MAX {
            self.fault(
                "axis",
                format!("{} cases", combinations.len()),
                format!("combine the axes so that there are 1 to {LIST_MAX}"),
            );
            return;
        }
        for (key, picks) in [
            ("combine", &experiment.combine),
            ("short.cases", &experiment.short.cases),
            ("long.cases", &experiment.long.cases),
        ] {
            for (nth, pick) in picks.iter().enumerate() {
                if !combinations.iter().any(|labels| pick.fits(labels)) {
                    self.fault(
                        format!("{key}.{nth}"),
                        "picks no case",
                        "name places that occur together in `combine`, and not in `leave_out`",
                    );
                }
            }
        }
        for (nth, rule) in experiment.not_for.iter().enumerate() {
            if !combinations.iter().any(|labels| rule.pick.fits(labels)) {
                let at = format!("not_for.{nth}.where");
                self.fault(
                    at,
                    "picks no case",
                    "name a case that there is, or leave it out",
                );
            }
        }
        self.short = experiment.cases(Form::Short);
        self.long = experiment.cases(Form::Long);
        let mut told: BTreeSet<(String, Misfit)> = BTreeSet::new();
        for case in self.long.iter().chain(&self.short) {
            for misfit in misfits(&case.setting) {
                told.insert((self.place_of(case, misfit.key), misfit));
            }
        }
        for (at, misfit) in told {
            self.fault(at, misfit.what, misfit.remedy);
        }
        self.holds();
    }

    /// The last place that set what is at fault, or else what it does not go with.
    fn place_of(&self, case: &Case, key: &str) -> String {
        let keys = match key {
            "users" => vec![key, "callers", "called"],
            _ => vec![key],
        };
        keys.into_iter()
            .find_map(|key| self.set_at(case, key))
            .unwrap_or_else(|| "axis".to_owned())
    }

    fn set_at(&self, case: &Case, key: &str) -> Option<String> {
        let experiment = self.experiment;
        let axes = experiment.axes.iter().enumerate().rev();
        let mut of_axes = axes.filter_map(|(nth, axis)| {
            let label = case.labels.get(&axis.name)?;
            let place = axis.values.iter().position(|value| value.name == *label)?;
            let path = axis.values.get(place)?.set.path_of(key)?;
            Some(format!("axis.{nth}.value.{place}.set.{path}"))
        });
        of_axes.next().or_else(|| {
            let path = experiment.common.path_of(key)?;
            Some(format!("common.{path}"))
        })
    }

    /// Calls that began before the measuring must end in it, or the load is another than
    /// the rate says.
    fn holds(&mut self) {
        for form in [Form::Short, Form::Long] {
            let cases = match form {
                Form::Short => &self.short,
                Form::Long => &self.long,
            };
            let longest_ms = cases
                .iter()
                .map(|case| case.setting.hold_ms)
                .max()
                .unwrap_or(0);
            let warm_up_s = self.experiment.plan(form).warm_up_s;
            if u64::from(warm_up_s) * 1_000 < longest_ms {
                self.fault(
                    format!("{form}.warm_up_s"),
                    format!("calls are held for {longest_ms} ms and warm up is {warm_up_s} s"),
                    "warm up for as long as calls are held",
                );
            }
        }
    }

    pub(super) fn loads(&mut self) {
        let rules: &[LoadRule] = &self.experiment.loads;
        for (nth, rule) in rules.iter().enumerate() {
            self.load(&format!("load.{nth}"), rule);
        }
        if !self.faults.is_empty() {
            return;
        }
        for form in [Form::Short, Form::Long] {
            let cases = match form {
                Form::Short => self.short.clone(),
                Form::Long => self.long.clone(),
            };
            for case in &cases {
                self.loads_of(form, case);
            }
        }
    }

    fn load(&mut self, at: &str, rule: &LoadRule) {
        let has_rates = !rule.rates_per_s.is_empty();
        if rule.peak.is_some() == has_rates {
            self.fault(
                at,
                "a load is a peak or rates",
                "write `peak = { … }` or `rates_per_s = [ … ]`, one of them",
            );
        }
        if rule.profile && rule.rates_per_s.is_empty() {
            let remedy = "profile at rates, which are alike for all cases";
            self.fault(format!("{at}.profile"), "a peak is not profiled", remedy);
        }
        let is_rate = |rate: f64| rate > 0.0 && rate <= RATE_MAX_PER_S;
        if !rule.rates_per_s.iter().all(|&rate| is_rate(rate)) {
            self.fault(
                format!("{at}.rates_per_s"),
                "a rate is out of bounds",
                format!("write numbers above 0 and at most {RATE_MAX_PER_S}"),
            );
        }
        if let Some(peak) = rule.peak {
            if !(0.0..1.0).contains(&peak.failures_max) {
                self.fault(
                    format!("{at}.peak.failures_max"),
                    "is no share",
                    "write a number from 0 to below 1: 0.04 for 4 %",
                );
            }
            if !is_rate(peak.guess_per_s) {
                self.fault(
                    format!("{at}.peak.guess_per_s"),
                    "is out of bounds",
                    format!("write a number above 0 and at most {RATE_MAX_PER_S}"),
                );
            }
        }
        let is_used = self.forms().into_iter().any(|(form, cases)| {
            rule.is_for(form) && cases.iter().any(|case| rule.pick.fits(&case.labels))
        });
        if !is_used {
            let remedy = "name a case of its forms, or leave it out";
            self.fault(format!("{at}.where"), "picks no case", remedy);
        }
    }

    fn loads_of(&mut self, form: Form, case: &Case) {
        if case.loads.is_empty() {
            self.fault(
                "load",
                format!("the {form} form has nothing to measure of `{}`", case.id),
                format!("add a load for it, or take it out of `{form}.cases`"),
            );
        }
        let peaks = case
            .loads
            .iter()
            .filter(|load| matches!(load, Load::Peak { .. }))
            .count();
        let mut rates: Vec<f64> = case
            .loads
            .iter()
            .filter_map(|load| match load {
                Load::Rate { per_s, .. } => Some(*per_s),
                Load::Peak { .. } => None,
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        if peaks > 1 || rates.windows(2).any(|pair| pair.first() == pair.last()) {
            self.fault(
                "load",
                format!(
                    "the {form} form would measure `{}` twice at one load",
                    case.id
                ),
                "let `where` and `forms` of the loads pick each case once",
            );
        }
        let is_short_of = case.setting.flow == Flow::CallsToRegistered
            && case.setting.hold_ms > 0
            && rates.last().is_some_and(|rate| {
                let at_once = rate * case.setting.hold_ms as f64 / 1_000.0;
                at_once > 64.0 * f64::from(case.setting.agents.callers)
            });
        if is_short_of {
            self.fault(
                "load",
                format!(
                    "`{}` has more than 64 calls at once for each caller",
                    case.id
                ),
                "lower the rates or `hold_ms`, or add callers",
            );
        }
    }
}
