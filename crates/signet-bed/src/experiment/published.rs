//! What a paper has printed.

use serde::Deserialize;

use super::at::At;
use super::pick::Pick;

/// A number in the text or a table of the paper. What is only drawn there is not here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The case, or the cases that it is said of.
    pub of: Pick,
    /// Where it prints a ratio: the case that `of` is divided by.
    pub than: Option<Pick>,
    /// The load.
    #[serde(default)]
    pub at: At,
    /// What of ours stands beside it, a name of [`crate::record::figure`].
    pub figure: String,
    /// The number.
    pub value: f64,
    /// What it is in; `ratio` with [`Published::than`]. It belongs into the drawings of this
    /// figure that have the same unit; a paper that counts something else than we do (cycles,
    /// bytes of memory in all) keeps its own.
    pub unit: String,
    /// Where it stands: "section 4.1, figure 5".
    pub place: String,
}
