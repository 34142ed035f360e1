//! What a file in `experiments/` says.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::drawing::Drawing;
use super::finding::{CrossCheck, Finding};
use super::fragment::Fragment;
use super::pick::Pick;
use super::published::Published;

/// An experiment: cases, loads, lengths, drawings, and what its paper found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The version of the format.
    pub version: u32,
    /// What it is run by: `shen-2010`. Letters, digits and `-`.
    pub name: String,
    /// A line for lists and the head of the page.
    pub title: String,
    /// The question asked, a sentence or two.
    pub question: String,
    /// What differs from the paper's way, in sentences for the page.
    #[serde(default)]
    pub differs: Vec<String>,
    /// Where it was first done.
    pub paper: Option<Paper>,
    /// Systems under test where the command line names none: `signet`, `kamailio`.
    pub systems: Vec<String>,
    /// A figure is not settled where its two repeats are further apart than this share of their
    /// median, or half of the 95% interval of more repeats is wider.
    #[serde(default = "spread_max")]
    pub spread_max: f64,
    /// The short form, which is reckoned to end within a quarter of an hour.
    pub short: Plan,
    /// The long form: all cases, with more repeats.
    pub long: Plan,
    /// What all cases have.
    #[serde(default)]
    pub common: Fragment,
    /// What cases differ in.
    #[serde(rename = "axis")]
    pub axes: Vec<Axis>,
    /// The places on the axes that are cases: every combination that at least one of these
    /// picks, all of them where there is none.
    #[serde(default)]
    pub combine: Vec<Pick>,
    /// Combinations that are no cases all the same.
    #[serde(default)]
    pub leave_out: Vec<Pick>,
    /// What a system cannot do.
    #[serde(default)]
    pub not_for: Vec<NotFor>,
    /// What is measured of cases, in this order.
    #[serde(rename = "load")]
    pub loads: Vec<LoadRule>,
    /// What is drawn.
    #[serde(default, rename = "drawing")]
    pub drawings: Vec<Drawing>,
    /// What the paper has printed.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What the paper found.
    #[serde(default, rename = "finding")]
    pub findings: Vec<Finding>,
    /// Whether peaks agree with costs at a common rate.
    pub cross_check: Option<CrossCheck>,
}

/// Where an experiment was first done.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its authors, in its order.
    pub authors: Vec<String>,
    /// Its title.
    pub title: String,
    /// Where it was published.
    pub venue: String,
    /// When.
    pub year: u32,
    /// What was measured on what: servers, machines, network.
    pub setting: String,
}

/// The two lengths of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Reckoned to end within a quarter of an hour on two cores; shows each finding but those
    /// whose `forms` leave it out.
    Short,
    /// All cases, with more repeats.
    Long,
}

impl Form {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "short" => Ok(Self::Short),
            "long" => Ok(Self::Long),
            _ => Err(format!("no form `{text}`; write short or long")),
        }
    }
}

/// How long a form measures, and which cases.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How often each rate is measured.
    pub repeats: u32,
    /// How often each peak is sought.
    #[serde(default = "once")]
    pub peak_repeats: u32,
    /// In how many of the repeats CPU time is taken apart by component, for loads with `profile`;
    /// in all of them if left out.
    pub profile_repeats: Option<u32>,
    /// Seconds of load before the measuring.
    pub warm_up_s: u32,
    /// Seconds of measuring.
    pub measure_s: u32,
    /// The cases that it has: all where there is no pick.
    #[serde(default)]
    pub cases: Vec<Pick>,
}

/// What cases differ in.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The name of its label: `transport`.
    pub name: String,
    /// For readers: "transport".
    pub title: String,
    /// Its places, in the order in which they are drawn.
    #[serde(rename = "value")]
    pub values: Vec<AxisValue>,
}

/// A place on an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisValue {
    /// The label: `tls-aes`. Letters, digits and `-`.
    pub name: String,
    /// For readers: "TLS, AES-128-CBC".
    pub title: String,
    /// What it sets, over [`Experiment::common`] and the axes before it.
    #[serde(default)]
    pub set: Fragment,
}

/// What a system cannot do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotFor {
    /// The system: `kamailio`.
    pub system: String,
    /// The cases.
    #[serde(rename = "where")]
    pub pick: Pick,
    /// Why, a sentence for the page.
    pub why: String,
}

/// What is measured of some of the cases.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRule {
    /// The cases; all where nothing is said.
    #[serde(default, rename = "where")]
    pub pick: Pick,
    /// The forms; both where none is named.
    #[serde(default)]
    pub forms: Vec<Form>,
    /// A peak.
    pub peak: Option<PeakRule>,
    /// Rates that are held, calls or registrations a second.
    #[serde(default)]
    pub rates_per_s: Vec<f64>,
    /// Whether CPU time is taken apart by component at these rates.
    #[serde(default)]
    pub profile: bool,
    /// Whether these rates only let a peak be expected (`[cross_check]`), and are none of those
    /// that findings and drawings are about.
    #[serde(default)]
    pub for_check: bool,
}

/// How a peak is sought.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeakRule {
    /// The share of failures that a peak may have, from 0 to below 1.
    pub failures_max: f64,
    /// Where the search begins, a second.
    pub guess_per_s: f64,
}

/// [`Experiment::spread_max`] where a file says nothing.
pub(crate) const SPREAD_MAX: f64 = 0.15;

fn spread_max() -> f64 {
    SPREAD_MAX
}

fn once() -> u32 {
    1
}
