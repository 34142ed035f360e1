//! Picks name axes and places that there are.

use diagnose::nearest;

use super::Check;
use crate::experiment::pick::Pick;

impl Check<'_> {
    pub(super) fn picks(&mut self) {
        let experiment = self.experiment;
        for (key, picks) in [
            ("combine", &experiment.combine),
            ("leave_out", &experiment.leave_out),
            ("short.cases", &experiment.short.cases),
            ("long.cases", &experiment.long.cases),
        ] {
            for (nth, pick) in picks.iter().enumerate() {
                self.pick(&format!("{key}.{nth}"), pick);
            }
        }
        for (nth, rule) in experiment.not_for.iter().enumerate() {
            self.pick(&format!("not_for.{nth}.where"), &rule.pick);
            self.system(&format!("not_for.{nth}.system"), &rule.system);
        }
        for (nth, rule) in experiment.loads.iter().enumerate() {
            self.pick(&format!("load.{nth}.where"), &rule.pick);
        }
        for (nth, drawing) in experiment.drawings.iter().enumerate() {
            self.pick(&format!("drawing.{nth}.where"), &drawing.pick);
        }
        for (nth, published) in experiment.published.iter().enumerate() {
            self.pick(&format!("published.{nth}.of"), &published.of);
            if let Some(than) = &published.than {
                self.pick(&format!("published.{nth}.than"), than);
            }
        }
        for (nth, finding) in experiment.findings.iter().enumerate() {
            let at = format!("finding.{nth}");
            self.pick(&format!("{at}.of"), &finding.of);
            self.pick(&format!("{at}.than"), &finding.than);
            for (key, less) in [
                ("of_less", &finding.of_less),
                ("than_less", &finding.than_less),
            ] {
                if let Some(pick) = less {
                    self.pick(&format!("{at}.{key}"), pick);
                }
            }
            for (place, system) in finding.systems.iter().enumerate() {
                self.system(&format!("{at}.systems.{place}"), system);
            }
        }
        if let Some(check) = &experiment.cross_check {
            self.pick("cross_check.where", &check.pick);
        }
    }

    fn pick(&mut self, at: &str, pick: &Pick) {
        for (axis, places) in &pick.0 {
            let at = format!("{at}.{axis}");
            let Some(known) = self.experiment.axes.iter().find(|a| a.name == *axis) else {
                let axes: Vec<&str> = self
                    .experiment
                    .axes
                    .iter()
                    .map(|a| a.name.as_str())
                    .collect();
                self.fault(&at, format!("unknown axis `{axis}`"), meant(axis, &axes));
                continue;
            };
            if places.0.is_empty() {
                self.fault(
                    &at,
                    "picks nothing",
                    "name a value of the axis, or leave it out",
                );
            }
            let values: Vec<&str> = known.values.iter().map(|v| v.name.as_str()).collect();
            for place in places.0.iter().filter(|place| known.value(place).is_none()) {
                let what = format!("the axis `{axis}` has no value `{place}`");
                self.fault(&at, what, meant(place, &values));
            }
        }
    }
}

fn meant(given: &str, known: &[&str]) -> String {
    match nearest(given, known) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write one of: {}", known.join(", ")),
    }
}
