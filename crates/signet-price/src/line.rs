//! The line `a * size + b` through what sizes took (Niedermayer 2006, 5.5).

use serde::{Deserialize, Serialize};

use crate::record::Point;

/// A line, and how far from it the points lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Nanoseconds for each further byte.
    pub a_ns_per_byte: f64,
    /// Nanoseconds for each packet, whatever its size.
    pub b_ns: f64,
    /// The largest distance of a point from the line, over the point: 0.05 is 5%.
    pub error: f64,
}

impl Line {
    /// By least squares of what was missed over what was measured, so that a small packet counts
    /// as much as a large one; `None` of fewer than three sizes.
    pub fn through(points: &[Point]) -> Option<Self> {
        let points: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| point.median_ns > 0.0 && point.median_ns.is_finite())
            .map(|point| (point.size_bytes as f64, point.median_ns))
            .collect();
        if points.len() < 3 {
            return None;
        }
        let weight = |y: f64| 1.0 / (y * y);
        let sum = |value: fn(f64, f64) -> f64| -> f64 {
            points.iter().map(|(x, y)| weight(*y) * value(*x, *y)).sum()
        };
        let (w, wx, wy) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y));
        let (wxx, wxy) = (sum(|x, _| x * x), sum(|x, y| x * y));
        let divisor = w * wxx - wx * wx;
        if divisor.abs() <= f64::EPSILON * w * wxx {
            return None;
        }
        let a = (w * wxy - wx * wy) / divisor;
        let line = Self {
            a_ns_per_byte: a,
            b_ns: (wy - a * wx) / w,
            error: 0.0,
        };
        let error = points
            .iter()
            .map(|(x, y)| (line.at(*x) / y - 1.0).abs())
            .fold(0.0, f64::max);
        Some(Self { error, ..line })
    }

    /// Nanoseconds for a size.
    pub fn at(&self, size_bytes: f64) -> f64 {
        self.a_ns_per_byte * size_bytes + self.b_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: &[(u64, f64)]) -> Vec<Point> {
        of.iter()
            .map(|&(size_bytes, median_ns)| Point {
                size_bytes,
                median_ns,
                ..Point::default()
            })
            .collect()
    }

    #[test]
    fn points_on_a_line_give_it_back() {
        let line = Line::through(&points(&[(64, 228.0), (300, 700.0), (1_400, 2_900.0)])).unwrap();
        assert!((line.a_ns_per_byte - 2.0).abs() < 1e-9, "{line:?}");
        assert!((line.b_ns - 100.0).abs() < 1e-6, "{line:?}");
        assert!(line.error < 1e-9, "{line:?}");
    }

    #[test]
    fn a_bend_is_told_as_an_error() {
        let bent = points(&[(64, 100.0), (300, 900.0), (700, 1_000.0), (1_400, 1_100.0)]);
        assert!(Line::through(&bent).unwrap().error > 0.2);
    }

    #[test]
    fn two_sizes_or_one_size_make_no_line() {
        assert_eq!(Line::through(&points(&[(64, 1.0), (128, 2.0)])), None);
        let same = points(&[(64, 1.0), (64, 2.0), (64, 3.0)]);
        assert_eq!(Line::through(&same), None);
    }
}
