//! Names for readers.

use std::collections::{BTreeMap, BTreeSet};

use signet_page::number;

use crate::experiment::{Experiment, Load, Pick};
use crate::record::{CaseResult, Record};

/// The labels of a case.
pub(crate) type Labels = BTreeMap<String, String>;

/// What things are called in a run of an experiment.
pub(crate) struct Names<'a> {
    experiment: &'a Experiment,
    results: &'a [CaseResult],
    /// Axes on which the run has more than one place.
    varied: BTreeSet<&'a str>,
    /// The systems, in the order of the experiment.
    systems: Vec<&'a str>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(experiment: &'a Experiment, record: &'a Record) -> Self {
        let mut systems: Vec<&str> = Vec::new();
        for result in &record.results {
            if !systems.contains(&result.system.as_str()) {
                systems.push(&result.system);
            }
        }
        let order = |system: &&str| experiment.systems.iter().position(|known| known == system);
        systems.sort_by_key(|system| order(system).unwrap_or(usize::MAX));
        Self {
            experiment,
            results: &record.results,
            varied: varied(record.results.iter()),
            systems,
        }
    }

    /// With cases beside those of the run, which are told from them too.
    pub(crate) fn and(mut self, others: &'a [CaseResult]) -> Self {
        if !others.is_empty() {
            self.varied = varied(self.results.iter().chain(others));
        }
        self
    }

    /// The systems of the run.
    pub(crate) fn systems(&self) -> &[&'a str] {
        &self.systems
    }

    /// The colour of a system: Signet and Kamailio have theirs on every page.
    pub(crate) fn colour(&self, system: &str) -> usize {
        match system {
            "signet" => 0,
            "kamailio" => 1,
            other => {
                let is_other = |known: &&&str| !matches!(**known, "signet" | "kamailio");
                let mut others = self.systems.iter().filter(is_other);
                2 + others.position(|known| *known == other).unwrap_or(0)
            }
        }
    }

    /// An axis for readers.
    pub(crate) fn axis(&self, axis: &str) -> String {
        let known = self.experiment.axes.iter().find(|known| known.name == axis);
        known.map_or_else(|| axis.to_owned(), |known| known.title.clone())
    }

    /// A place of an axis for readers.
    pub(crate) fn place(&self, axis: &str, label: &str) -> String {
        let axis = self.experiment.axes.iter().find(|known| known.name == axis);
        axis.and_then(|axis| axis.values.iter().find(|value| value.name == label))
            .map_or_else(|| label.to_owned(), |value| value.title.clone())
    }

    /// The same where the axis is not named beside it: a number says of what it is.
    pub(crate) fn spelt(&self, axis: &str, label: &str) -> String {
        self.said(axis, self.place(axis, label))
    }

    fn said(&self, axis: &str, places: String) -> String {
        if places.starts_with(|c: char| c.is_ascii_digit()) {
            format!("{}: {places}", self.axis(axis))
        } else {
            places
        }
    }

    /// Where a place stands on its axis.
    pub(crate) fn position(&self, axis: &str, label: &str) -> usize {
        let axis = self.experiment.axes.iter().find(|known| known.name == axis);
        axis.and_then(|axis| axis.values.iter().position(|value| value.name == label))
            .unwrap_or(usize::MAX)
    }

    /// The places of these axes, in the order of the experiment; other axes are left out.
    pub(crate) fn places(&self, labels: &Labels, is_told: impl Fn(&str) -> bool) -> String {
        let mut told = Vec::new();
        let known = self.experiment.axes.iter().map(|axis| axis.name.as_str());
        let is_known = |name: &&str| self.experiment.axes.iter().any(|axis| axis.name == *name);
        let unknown = labels
            .keys()
            .map(String::as_str)
            .filter(|name| !is_known(name));
        for axis in known.chain(unknown) {
            if let Some(label) = labels.get(axis)
                && is_told(axis)
            {
                told.push(self.spelt(axis, label));
            }
        }
        told.join(", ")
    }

    /// A case for readers, by what it differs in from others of the run.
    pub(crate) fn case(&self, result: &CaseResult) -> String {
        let told = self.places(&result.case.labels, |axis| self.varied.contains(axis));
        if told.is_empty() {
            result.case.id.clone()
        } else {
            told
        }
    }

    /// The same within a sentence: what it differs in is a list with commas.
    pub(crate) fn quoted(&self, result: &CaseResult) -> String {
        format!("\"{}\"", self.case(result))
    }

    /// Picked cases for readers.
    pub(crate) fn pick(&self, pick: &Pick) -> String {
        if pick.0.is_empty() {
            return "all cases".to_owned();
        }
        let told: Vec<String> = pick
            .0
            .iter()
            .map(|(axis, places)| {
                let places = places.0.iter().map(|label| self.place(axis, label));
                let places = places.collect::<Vec<_>>().join(" or ");
                self.said(axis, places)
            })
            .collect();
        told.join(", ")
    }
}

/// A system for readers: its name as its authors write it.
pub(crate) fn system(name: &str) -> String {
    match name {
        "signet" => "Signet".to_owned(),
        "kamailio" => "Kamailio".to_owned(),
        "opensips" => "OpenSIPS".to_owned(),
        "asterisk" => "Asterisk".to_owned(),
        other => other.to_owned(),
    }
}

/// A load for readers.
pub(crate) fn load(load: &Load) -> String {
    match load {
        Load::Peak { failures_max, .. } if *failures_max > 0.0 => {
            format!("peak, {} may fail", number::percent(*failures_max))
        }
        Load::Peak { .. } => "peak, none may fail".to_owned(),
        Load::Rate { per_s, .. } => format!("at {}/s", number::figure(*per_s)),
    }
}

/// The axes on which these results have more than one place.
pub(crate) fn varied<'a>(results: impl Iterator<Item = &'a CaseResult>) -> BTreeSet<&'a str> {
    let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for result in results {
        for (axis, label) in &result.case.labels {
            places.entry(axis).or_default().insert(label);
        }
    }
    places.retain(|_, labels| labels.len() > 1);
    places.into_keys().collect()
}
