//! All scenarios, in the order in which they are made.

mod calls;
mod floods;
mod hijack;
mod hooked;
mod impersonation;
mod later;
mod led;
mod limits;
mod memory;
mod outgoing;
mod places;
mod relay;
mod replay;
mod streams;
mod teardown;
mod tokens;
mod trunks;

use crate::scenario::Scenario;

pub(crate) fn all() -> Vec<Scenario> {
    [
        hijack::SCENARIOS,
        impersonation::SCENARIOS,
        teardown::SCENARIOS,
        replay::SCENARIOS,
        tokens::SCENARIOS,
        later::SCENARIOS,
        relay::SCENARIOS,
        led::SCENARIOS,
        trunks::SCENARIOS,
        hooked::SCENARIOS,
        floods::SCENARIOS,
        memory::SCENARIOS,
        streams::SCENARIOS,
        limits::SCENARIOS,
        places::SCENARIOS,
        outgoing::SCENARIOS,
        calls::SCENARIOS,
    ]
    .concat()
}
