//! All scenarios, in the order in which they are made.

mod hijack;
mod impersonation;
mod replay;
mod teardown;
mod tokens;

use crate::scenario::Scenario;

pub(crate) fn all() -> Vec<Scenario> {
    [
        hijack::SCENARIOS,
        impersonation::SCENARIOS,
        teardown::SCENARIOS,
        replay::SCENARIOS,
        tokens::SCENARIOS,
    ]
    .concat()
}
