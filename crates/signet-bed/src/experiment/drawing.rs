//! What is drawn of an experiment.

use serde::Deserialize;

use super::at::At;
use super::pick::Pick;

/// The name of [`Drawing::x`] where the load's rate goes to the right.
pub const RATE: &str = "rate";

/// A drawing. Where several systems were measured, each has its own series.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawing {
    /// What it shows, and for which of the paper's figures it stands.
    pub title: String,
    /// Its kind.
    pub kind: DrawingKind,
    /// A name of [`crate::record::figure`]; a profile (`stacked`) has none, since it shows
    /// the CPU time of a call by component.
    pub figure: Option<String>,
    /// What goes to the right: an axis, or [`RATE`].
    pub x: String,
    /// What makes the series: an axis; of a heat map, what goes up. Without it there is one
    /// series for each system.
    pub series: Option<String>,
    /// The cases; all where nothing is said.
    #[serde(default, rename = "where")]
    pub pick: Pick,
    /// The loads.
    #[serde(default)]
    pub at: At,
    /// The unit beside the axis.
    pub unit: String,
    /// What a figure is multiplied by to be in that unit.
    #[serde(default = "one")]
    pub scale: f64,
    /// Whether the value's axis is logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// The kind of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawingKind {
    /// A bar for each case, grouped by [`Drawing::x`].
    Bars,
    /// A line for each series.
    Lines,
    /// A bar for each case, of the components of its CPU time.
    Stacked,
    /// A field of cells.
    Heat,
}

fn one() -> f64 {
    1.0
}
