//! From a file to cases.

use std::collections::BTreeMap;

use super::case::{Case, Load, Setting};
use super::file::{Axis, AxisValue, Experiment, Form, LoadRule, Plan};

impl Experiment {
    /// How long a form measures.
    pub fn plan(&self, form: Form) -> &Plan {
        match form {
            Form::Short => &self.short,
            Form::Long => &self.long,
        }
    }

    /// Its cases, in the order of the axes: the last changes first.
    pub fn cases(&self, form: Form) -> Vec<Case> {
        let plan = self.plan(form);
        self.combinations()
            .into_iter()
            .filter(|labels| {
                plan.cases.is_empty() || plan.cases.iter().any(|pick| pick.fits(labels))
            })
            .map(|labels| Case {
                id: self.id(&labels),
                setting: self.setting(&labels),
                loads: self.loads_of(form, &labels),
                below: self.below(&labels),
                labels,
            })
            .collect()
    }

    /// Why a system cannot do a case.
    pub fn reason_against(&self, system: &str, case: &Case) -> Option<&str> {
        self.not_for
            .iter()
            .find(|rule| rule.system == system && rule.pick.fits(&case.labels))
            .map(|rule| rule.why.as_str())
    }

    /// The title of a place of an axis, for readers.
    pub fn place_title(&self, axis: &str, place: &str) -> Option<&str> {
        let axis = self.axes.iter().find(|known| known.name == axis)?;
        axis.value(place).map(|value| value.title.as_str())
    }

    /// The labels of every case of the long form and the short one.
    pub(super) fn combinations(&self) -> Vec<BTreeMap<String, String>> {
        let mut all = vec![BTreeMap::new()];
        for axis in &self.axes {
            all = all
                .iter()
                .flat_map(|labels| {
                    axis.values
                        .iter()
                        .map(move |value| with(labels, axis, value))
                })
                .collect();
        }
        all.retain(|labels| {
            let is_in = self.combine.is_empty() || self.combine.iter().any(|p| p.fits(labels));
            is_in && !self.leave_out.iter().any(|pick| pick.fits(labels))
        });
        all
    }

    /// The name of a case: its labels in the order of the axes.
    fn id(&self, labels: &BTreeMap<String, String>) -> String {
        let parts: Vec<&str> = self
            .axes
            .iter()
            .filter_map(|axis| labels.get(&axis.name).map(String::as_str))
            .collect();
        parts.join(".")
    }

    fn setting(&self, labels: &BTreeMap<String, String>) -> Setting {
        let mut setting = Setting::default();
        self.common.lay_on(&mut setting);
        for axis in &self.axes {
            let place = labels.get(&axis.name);
            if let Some(value) = place.and_then(|place| axis.value(place)) {
                value.set.lay_on(&mut setting);
            }
        }
        setting
    }

    /// Shares of its peak that a case is held at too.
    fn below(&self, labels: &BTreeMap<String, String>) -> Vec<f64> {
        let check = self.cross_check.as_ref();
        let check = check.filter(|check| check.pick.fits(labels));
        check.map(|check| check.below.clone()).unwrap_or_default()
    }

    fn loads_of(&self, form: Form, labels: &BTreeMap<String, String>) -> Vec<Load> {
        self.loads
            .iter()
            .filter(|rule| rule.is_for(form) && rule.pick.fits(labels))
            .flat_map(LoadRule::loads)
            .collect()
    }
}

impl Axis {
    /// One of its places, by its label.
    pub fn value(&self, place: &str) -> Option<&AxisValue> {
        self.values.iter().find(|value| value.name == place)
    }
}

impl LoadRule {
    /// Whether it is of this form.
    pub fn is_for(&self, form: Form) -> bool {
        self.forms.is_empty() || self.forms.contains(&form)
    }

    /// What it measures, one after the other.
    pub fn loads(&self) -> Vec<Load> {
        let peak = self.peak.map(|peak| Load::Peak {
            failures_max: peak.failures_max,
            guess_per_s: peak.guess_per_s,
        });
        let rates = self.rates_per_s.iter().map(|&per_s| Load::Rate {
            per_s,
            profile: self.profile,
            for_check: self.for_check,
        });
        rates.chain(peak).collect()
    }
}

fn with(
    labels: &BTreeMap<String, String>,
    axis: &Axis,
    value: &AxisValue,
) -> BTreeMap<String, String> {
    let mut labels = labels.clone();
    labels.insert(axis.name.clone(), value.name.clone());
    labels
}
