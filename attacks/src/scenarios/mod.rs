//! All scenarios, in the order in which they are made.

mod hijack;

use crate::scenario::Scenario;

pub(crate) fn all() -> Vec<Scenario> {
    [hijack::SCENARIOS].concat()
}
