//! Charts, as pure functions from figures to SVG.
//!
//! Colours are classes, so that one picture serves in the light, in the dark and on paper.
//! Nothing is told by a colour alone: bars have their names beside them, lines have marks and
//! dashes of their own, parts of a stack are numbered.

mod axis;
mod heat;
mod legend;
mod lines;
mod rows;

use crate::svg::escape;

pub use axis::Axis;
pub use heat::{Cell, Field, Heat};
pub use lines::{Line, Lines, Point};
pub use rows::{Content, Group, Row, Rows};

/// The style of all charts; a page has it once, a picture that stands alone has it inside.
pub const STYLE: &str = include_str!("chart.css");

/// The widths for which each chart is drawn.
const WIDE: f64 = 760.0;
const NARROW: f64 = 350.0;
/// A picture narrower than this is drawn for a phone.
const NARROW_BELOW: f64 = 500.0;
/// How many colours there are; the next begins at the first again.
const COLOURS: usize = 10;
/// The colour of what stands beside: a paper's figures.
pub const REFERENCE: usize = COLOURS;

/// A figure as a chart takes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// A figure and the interval in which it lies.
    Known {
        /// The figure.
        value: f64,
        /// The ends of its interval; `None` where nothing is known of it.
        interval: Option<(f64, f64)>,
    },
    /// There is none, in a few words: "not settled".
    Missing(String),
}

impl Datum {
    /// A figure of which no interval is known.
    pub fn exact(value: f64) -> Self {
        Self::Known {
            value,
            interval: None,
        }
    }

    /// A figure and its interval.
    pub fn between(value: f64, low: f64, high: f64) -> Self {
        Self::Known {
            value,
            interval: Some((low, high)),
        }
    }

    /// The figure, where it can be drawn.
    pub(crate) fn known(&self) -> Option<(f64, Option<(f64, f64)>)> {
        match self {
            Self::Known { value, interval } if value.is_finite() => {
                let interval = interval.filter(|(low, high)| low.is_finite() && high.is_finite());
                Some((*value, interval))
            }
            Self::Known { .. } | Self::Missing(_) => None,
        }
    }

    /// The figure and the ends of its interval: what an axis must have room for.
    pub(crate) fn ends(&self) -> impl Iterator<Item = f64> + use<> {
        let (value, interval) = self.known().unzip();
        let (low, high) = interval.flatten().unzip();
        [value, low, high].into_iter().flatten()
    }
}

/// One kind of chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Bars that lie, in groups; whole, or stacked from parts.
    Rows(Rows),
    /// Lines over an axis.
    Lines(Lines),
    /// Fields of cells.
    Heat(Heat),
}

/// A chart with what is said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows, in a line.
    pub title: String,
    /// What is to be seen, for who cannot see it.
    pub description: String,
    /// The chart.
    pub chart: Chart,
}

impl Figure {
    /// For a page that has [`STYLE`]: drawn for wide and for narrow pages.
    pub fn html(&self) -> String {
        format!(
            "<figure><figcaption>{}</figcaption>\n{}\n{}\n</figure>\n",
            escape(&self.title),
            self.drawn(WIDE, "chart wide-chart"),
            self.drawn(NARROW, "chart narrow-chart")
        )
    }

    /// A file of its own, with its style inside.
    pub fn svg(&self) -> String {
        let drawn = self.drawn(WIDE, "chart");
        let style = format!("<style>{STYLE}</style>\n<title>");
        drawn.replacen("<title>", &style, 1)
    }

    fn drawn(&self, width: f64, class: &str) -> String {
        let (svg, height) = match &self.chart {
            Chart::Rows(rows) => rows.draw(width),
            Chart::Lines(lines) => lines.draw(width),
            Chart::Heat(heat) => heat.draw(width),
        };
        svg.finish(class, height, &self.title, &self.description)
    }
}

fn is_narrow(width: f64) -> bool {
    width < NARROW_BELOW
}

/// The class of a colour; `prefix` says whether it fills or strokes.
fn colour(prefix: &str, colour: usize) -> String {
    if colour == REFERENCE {
        format!("{prefix}ref")
    } else {
        format!("{prefix}{}", colour % COLOURS)
    }
}

#[cfg(test)]
mod tests;
