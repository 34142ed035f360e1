//! The middle and the ends of some values.

/// The middle and the ends of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Half of them are below it.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// How many there are.
    pub count: usize,
}

impl Summary {
    /// `None` of no values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let upper = *values.get(values.len() / 2)?;
        let median = match values.len() % 2 {
            0 => f64::midpoint(upper, *values.get(values.len() / 2 - 1)?),
            _ => upper,
        };
        Some(Self {
            median,
            low: *values.first()?,
            high: *values.last()?,
            count: values.len(),
        })
    }

    /// (max - min) / median.
    pub fn spread(self) -> f64 {
        (self.high - self.low) / self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_spread() {
        assert_eq!(Summary::of(vec![]), None);
        let summary = Summary::of(vec![3.0, 1.0, 2.0, 4.0]).unwrap();
        assert_eq!((summary.median, summary.spread()), (2.5, 1.2));
    }
}
