//! What an axis says, and how it is drawn.

use crate::scale::{Kind, Scale};
use crate::svg::{Anchor, SIZE_SMALL, Svg, width_of};

/// What an axis says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it counts, with its unit: "CPU for a call, µs".
    pub title: String,
    /// Whether equal factors are equally far apart; what is not above 0 is left out then.
    pub is_log: bool,
    /// Whether 0 is on it, whatever the figures are.
    pub from_zero: bool,
    /// Ticks by their places, in the place of round figures.
    pub names: Vec<(f64, String)>,
}

impl Axis {
    /// An axis from 0 with equal steps.
    pub fn linear(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            from_zero: true,
            ..Self::default()
        }
    }

    /// An axis with equal factors.
    pub fn log(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            is_log: true,
            ..Self::default()
        }
    }

    /// An axis of named places 0, 1, 2 and so on.
    pub fn of_names(title: impl Into<String>, names: impl IntoIterator<Item = String>) -> Self {
        Self {
            title: title.into(),
            names: (0u32..).map(f64::from).zip(names).collect(),
            ..Self::default()
        }
    }

    /// The axis for these figures, with about `count` steps.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>, count: usize) -> Scale {
        if self.names.is_empty() {
            let kind = if self.is_log { Kind::Log } else { Kind::Linear };
            return Scale::new(kind, values, self.from_zero, count);
        }
        let ticks: Vec<f64> = self.names.iter().map(|(at, _)| *at).collect();
        let low = ticks.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ticks.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Scale::with_ticks(low, high, ticks)
    }

    pub(super) fn labels(&self, scale: &Scale) -> Vec<String> {
        if self.names.is_empty() {
            scale.labels()
        } else {
            self.names.iter().map(|(_, name)| name.clone()).collect()
        }
    }

    /// The axis from left to right whose labels leave room between them.
    pub(super) fn across(&self, values: &[f64], start: f64, end: f64) -> Scale {
        const MOST: usize = 9;
        let fitting = (1..=MOST).rev().map(|count| {
            self.scale(values.iter().copied(), count)
                .between(start, end)
        });
        let mut last = None;
        for scale in fitting {
            if self.has_room(&scale) {
                return scale;
            }
            last = Some(scale);
        }
        last.unwrap_or_else(|| self.scale(std::iter::empty(), 1).between(start, end))
    }

    fn has_room(&self, scale: &Scale) -> bool {
        let labels = self.labels(scale);
        let places: Vec<(f64, f64)> = scale
            .ticks
            .iter()
            .zip(&labels)
            .filter_map(|(tick, label)| Some((scale.at(*tick)?, width_of(label, SIZE_SMALL) / 2.0)))
            .collect();
        places.windows(2).all(|pair| match pair {
            [(left, left_half), (right, right_half)] => {
                right - left >= left_half + right_half + 6.0
            }
            _ => true,
        })
    }

    /// Lines up from `bottom` to `top` at the ticks, and their labels below.
    pub(super) fn draw_across(&self, svg: &mut Svg, scale: &Scale, top: f64, bottom: f64) {
        let mut free_from = f64::NEG_INFINITY;
        for (tick, label) in scale.ticks.iter().zip(self.labels(scale)) {
            let Some(x) = scale.at(*tick) else { continue };
            svg.line("grid", (x, top), (x, bottom));
            let half = width_of(&label, SIZE_SMALL) / 2.0;
            // Names that would lie on each other: the first of them stays.
            if x - half >= free_from {
                svg.text(
                    "faint",
                    (x, bottom + 16.0),
                    Anchor::Middle,
                    SIZE_SMALL,
                    &label,
                );
                free_from = x + half + 4.0;
            }
        }
    }
}
