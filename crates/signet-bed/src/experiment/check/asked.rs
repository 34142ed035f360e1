//! What is drawn, published and found is about cases that there are.

use diagnose::nearest;

use super::Check;
use crate::experiment::at::At;
use crate::experiment::case::{Case, Load};
use crate::experiment::drawing::{Drawing, DrawingKind, RATE};
use crate::experiment::figures::is_of_profile;
use crate::experiment::finding::{By, CrossCheck, Finding};
use crate::experiment::pairs::Item;
use crate::experiment::pick::Pick;
use crate::experiment::published::Published;
use crate::record::figure;

/// Most rates below a peak that are held for it.
const BELOW_MAX: usize = 6;

impl Check<'_> {
    pub(super) fn asked(&mut self) {
        let experiment = self.experiment;
        for (nth, drawing) in experiment.drawings.iter().enumerate() {
            self.drawing(&format!("drawing.{nth}"), drawing);
        }
        for (nth, published) in experiment.published.iter().enumerate() {
            self.published(&format!("published.{nth}"), published);
        }
        for (nth, finding) in experiment.findings.iter().enumerate() {
            self.finding(&format!("finding.{nth}"), finding);
        }
        if let Some(check) = &experiment.cross_check {
            self.cross_check(check);
        }
    }

    fn drawing(&mut self, at: &str, drawing: &Drawing) {
        let is_profile = drawing.kind == DrawingKind::Stacked;
        match &drawing.figure {
            Some(name) if !is_profile => self.figure(&format!("{at}.figure"), name),
            None if is_profile => {}
            Some(_) => self.fault(
                format!("{at}.figure"),
                "a profile shows the CPU time of a call by component",
                "leave `figure` out where kind = \"stacked\"",
            ),
            None => self.fault(
                at,
                "no figure is drawn",
                "name one: figure = \"rate_per_s\"",
            ),
        }
        let axes = [("x", Some(&drawing.x)), ("series", drawing.series.as_ref())];
        for (key, name) in axes {
            let Some(name) = name else { continue };
            let is_axis = self.experiment.axes.iter().any(|axis| axis.name == *name);
            let is_rate = key == "x" && name == RATE;
            if !is_axis && !is_rate {
                let known = self.experiment.axes.iter().map(|axis| axis.name.as_str());
                let known: Vec<&str> = known.chain((key == "x").then_some(RATE)).collect();
                let remedy = match nearest(name, &known) {
                    Some(word) => format!("did you mean `{word}`?"),
                    None => format!("write one of: {}", known.join(", ")),
                };
                self.fault(
                    format!("{at}.{key}"),
                    format!("unknown axis `{name}`"),
                    remedy,
                );
            }
        }
        if drawing.kind == DrawingKind::Heat && drawing.series.is_none() {
            self.fault(at, "a heat map has two axes", "name the second: series = …");
        }
        if !(drawing.scale.is_finite() && drawing.scale > 0.0) {
            let remedy = "write a number above 0";
            self.fault(format!("{at}.scale"), "is out of bounds", remedy);
        }
        self.measured(at, "where", &drawing.pick, drawing.at);
        let is_profiled = self.long.iter().any(|case| {
            drawing.pick.fits(&case.labels)
                && case.loads.iter().any(|load| {
                    drawing.at.fits(load) && matches!(load, Load::Rate { profile: true, .. })
                })
        });
        if is_profile && !is_profiled {
            let remedy = "set `profile = true` on a load of these cases";
            self.fault(at, "no case of it is profiled", remedy);
        }
    }

    fn published(&mut self, at: &str, published: &Published) {
        self.figure(&format!("{at}.figure"), &published.figure);
        self.measured(at, "of", &published.of, published.at);
        if let Some(than) = &published.than {
            self.measured(at, "than", than, published.at);
        }
        if published.than.is_some() != (published.unit == "ratio") {
            self.fault(
                format!("{at}.unit"),
                "a ratio has two sides, and nothing else has",
                "write unit = \"ratio\" together with `than`, or neither",
            );
        }
        if !published.value.is_finite() {
            self.fault(
                format!("{at}.value"),
                "is no number",
                "write what the paper prints",
            );
        }
    }

    fn finding(&mut self, at: &str, finding: &Finding) {
        if is_of_profile(&finding.figure) {
            self.profiled(at, finding);
        } else {
            self.figure(&format!("{at}.figure"), &finding.figure);
        }
        let is_ratio = |value: f64| value.is_finite() && value > 0.0;
        if !is_ratio(finding.yes_at) || !is_ratio(finding.no_at) || finding.yes_at == finding.no_at
        {
            self.fault(
                format!("{at}.no_at"),
                "`yes_at` and `no_at` are the two ends between which the answer is open",
                "write two ratios above 0 that differ",
            );
        }
        let is_past = |until: f64| {
            let (yes_at, no_at) = (finding.yes_at, finding.no_at);
            is_ratio(until) && (until > yes_at) == (yes_at > no_at) && until != yes_at
        };
        if finding.yes_until.is_some_and(|until| !is_past(until)) {
            self.fault(
                format!("{at}.yes_until"),
                "lies not beyond `yes_at`, seen from `no_at`",
                "write a ratio on the far side of `yes_at`, or leave it out",
            );
        }
        if finding.by != By::Pairs && (finding.of_less.is_some() || finding.than_less.is_some()) {
            self.fault(
                format!("{at}.by"),
                "the best of a set has nothing to take away",
                "leave `by` out, or `of_less` and `than_less`",
            );
        }
        let mut wrong = Vec::new();
        for (form, cases) in self
            .forms()
            .into_iter()
            .filter(|(form, _)| finding.is_for(*form))
        {
            let loads: Vec<(&Case, &Load)> = cases
                .iter()
                .flat_map(|case| case.loads.iter().map(move |load| (case, load)))
                .collect();
            let items: Vec<Item<'_>> = loads
                .iter()
                .enumerate()
                .map(|(nth, (case, load))| Item {
                    labels: &case.labels,
                    load,
                    nth,
                })
                .collect();
            for (key, is_there) in [
                ("of", finding.above(&items).next().is_some()),
                ("than", finding.below(&items).next().is_some()),
            ] {
                if !is_there {
                    wrong.push((
                        format!("{at}.{key}"),
                        format!("the {form} form measures no such case at this load"),
                    ));
                }
            }
            if finding.by == By::Pairs && wrong.is_empty() {
                let unpaired = finding.pairs(&items).into_iter().filter_map(Result::err);
                wrong.extend(unpaired.map(|why| {
                    let what = format!("in the {form} form there is {why}");
                    (format!("{at}.of"), what)
                }));
            }
        }
        for (at, what) in wrong {
            self.fault(
                at,
                what,
                "name cases of both forms, one for each that it is held against",
            );
        }
    }

    /// Components are told of loads that are profiled.
    fn profiled(&mut self, at: &str, finding: &Finding) {
        let is_profiled = |load: &Load| matches!(load, Load::Rate { profile: true, .. });
        let is_plain = |pick: &Pick, meant: At, cases: &[Case]| {
            let mut picked = cases.iter().filter(|case| pick.fits(&case.labels));
            picked.any(|case| {
                let mut loads = case.loads.iter().filter(|load| meant.fits(load));
                loads.any(|load| !is_profiled(load))
            })
        };
        let is_wrong = self.forms().into_iter().any(|(_, cases)| {
            is_plain(&finding.of, finding.at, cases)
                || is_plain(&finding.than, finding.at_below(), cases)
        });
        if is_wrong {
            let remedy = "set `profile = true` on the loads of these cases";
            self.fault(
                format!("{at}.figure"),
                "a case of it is not profiled",
                remedy,
            );
        }
    }

    fn cross_check(&mut self, check: &CrossCheck) {
        if !(check.error_max > 0.0 && check.error_max < 1.0) {
            let remedy = "write a share above 0 and below 1: 0.1 for 10 %";
            self.fault("cross_check.error_max", "is out of bounds", remedy);
        }
        let is_share = |share: &f64| *share > 0.0 && *share < 1.0;
        let mut two = check.below.clone();
        two.dedup();
        let is_two = matches!(two[..], [low, high] if low < high) && two.iter().all(is_share);
        if !(check.below.is_empty() || is_two && check.below.len() <= BELOW_MAX) {
            let remedy = "write two shares below 1, the smaller first, each as often as it is to be held: [0.4, 0.8, 0.8]";
            self.fault("cross_check.below", "is not two shares of a peak", remedy);
        }
        if check.rate_per_s.0.is_empty() {
            let remedy = "name one, or several in a list: a case's is the first that it has";
            self.fault("cross_check.rate_per_s", "names no rate", remedy);
            return;
        }
        let mut missing = Vec::new();
        for (form, cases) in self.forms() {
            let is_there = cases.iter().any(|case| {
                check.pick.fits(&case.labels)
                    && case.loads.iter().any(|load| check.is_common(load))
                    && case.loads.iter().any(|load| At::Peak.fits(load))
            });
            if !is_there {
                missing.push(format!(
                    "no case of the {form} form has such a rate and a peak"
                ));
            }
        }
        for what in missing {
            self.fault("cross_check.rate_per_s", what, "give a case both loads");
        }
    }

    fn figure(&mut self, at: &str, name: &str) {
        if !figure::ALL.contains(&name) {
            let remedy = match nearest(name, &figure::ALL) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("write one of: {}", figure::ALL.join(", ")),
            };
            self.fault(at, format!("unknown figure `{name}`"), remedy);
        }
    }

    /// The long form measures it.
    fn measured(&mut self, at: &str, key: &str, pick: &Pick, load: At) {
        let is_there = self
            .long
            .iter()
            .any(|case| pick.fits(&case.labels) && case.loads.iter().any(|given| load.fits(given)));
        if !is_there {
            self.fault(
                format!("{at}.{key}"),
                "the long form measures no such case at this load",
                "name a case and a load (`at`) that it has",
            );
        }
    }
}
