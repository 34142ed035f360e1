//! `distribution="..."` of pauses and samples, with its parameters.

use std::fmt;

use crate::distribution::{Distribution, SUCCESSES_MAX};
use crate::problem::Problem;
use crate::xml::Element;

use super::Compiler;
use super::attributes::Attributes;

/// The numbers for which a distribution is defined.
#[derive(Clone, Copy)]
enum Range {
    Any,
    FromZero,
    AboveZero,
    AboveZeroTo(f64),
}

impl Range {
    fn has(self, number: f64) -> bool {
        match self {
            Self::Any => true,
            Self::FromZero => number >= 0.0,
            Self::AboveZero => number > 0.0,
            Self::AboveZeroTo(max) => number > 0.0 && number <= max,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("is any number"),
            Self::FromZero => f.write_str("is 0 or more"),
            Self::AboveZero => f.write_str("is above 0"),
            Self::AboveZeroTo(max) => write!(f, "is above 0 and at most {max}"),
        }
    }
}

/// The distributions that an attribute of their name may say.
const OLD_NAMES: [&str; 6] = [
    "normal",
    "exponential",
    "lognormal",
    "weibull",
    "pareto",
    "gamma",
];

impl Compiler<'_> {
    /// `distribution="..."` and its parameters, if there is one.
    pub(super) fn distribution(
        &self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Option<Distribution>, Problem> {
        match attributes.text("distribution") {
            Some((name, at)) => self
                .distribution_of(&name, at, element, attributes)
                .map(Some),
            None => Ok(None),
        }
    }

    /// An older way to write one: by an attribute of its name.
    pub(super) fn old_distribution(
        &self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Option<Distribution>, Problem> {
        for name in OLD_NAMES {
            if let Some(attribute) = attributes.take(name) {
                let distribution = self.distribution_of(name, attribute.at, element, attributes);
                return distribution.map(Some);
            }
        }
        Ok(None)
    }

    /// The distribution of a name, with its parameters.
    fn distribution_of(
        &self,
        name: &str,
        at: usize,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Distribution, Problem> {
        let mut parameter = |parameter: &str, range: Range| {
            let Some(number) = attributes.number(parameter)? else {
                let what = format!("distribution=\"{name}\" needs {parameter}=\"...\"");
                return Err(self.problem(element.at, what));
            };
            if range.has(number) {
                return Ok(number);
            }
            let attribute = attributes.take(parameter);
            let at = attribute.map_or(element.at, |attribute| attribute.value_at);
            let what = format!("{parameter} of distribution=\"{name}\" {range}, not {number}");
            Err(self.problem(at, what))
        };
        let distribution = match name {
            "fixed" => Distribution::Fixed(parameter("value", Range::Any)?),
            "uniform" => Distribution::Uniform {
                min: parameter("min", Range::Any)?,
                max: parameter("max", Range::Any)?,
            },
            "normal" => Distribution::Normal {
                mean: parameter("mean", Range::Any)?,
                stdev: parameter("stdev", Range::FromZero)?,
            },
            "lognormal" => Distribution::LogNormal {
                mean: parameter("mean", Range::Any)?,
                stdev: parameter("stdev", Range::FromZero)?,
            },
            "exponential" => Distribution::Exponential {
                mean: parameter("mean", Range::FromZero)?,
            },
            "weibull" => Distribution::Weibull {
                lambda: parameter("lambda", Range::FromZero)?,
                k: parameter("k", Range::AboveZero)?,
            },
            "pareto" => Distribution::Pareto {
                k: parameter("k", Range::AboveZero)?,
                x_m: parameter("x_m", Range::FromZero)?,
            },
            "gpareto" => Distribution::GeneralPareto {
                shape: parameter("shape", Range::Any)?,
                scale: parameter("scale", Range::FromZero)?,
                location: parameter("location", Range::Any)?,
            },
            "gamma" => Distribution::Gamma {
                k: parameter("k", Range::AboveZero)?,
                theta: parameter("theta", Range::FromZero)?,
            },
            "negbin" => Distribution::NegativeBinomial {
                p: parameter("p", Range::AboveZeroTo(1.0))?,
                n: parameter("n", Range::AboveZeroTo(SUCCESSES_MAX))?,
            },
            _ => {
                return Err(self.problem(
                    at,
                    format!(
                        "the distribution {name:?} is not known: fixed, uniform, normal, \
                         lognormal, exponential, weibull, pareto, gpareto, gamma or negbin"
                    ),
                ));
            }
        };
        Ok(distribution)
    }
}
