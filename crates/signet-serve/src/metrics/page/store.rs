//! The figures of what the workers share: bindings, authentication, the store.

use sip_limit::{Party, Rate, Rates};

use super::super::Sources;
use super::Page;

pub(super) fn shared(page: &mut Page, sources: &Sources) {
    page.gauge(
        "signet_users_registered",
        "Users with bindings.",
        sources.location.aors() as u64,
    );
    page.gauge(
        "signet_bindings",
        "Bindings.",
        sources.location.bindings() as u64,
    );
    page.counted([sources.authenticator.counters()].iter());
    page.counted([sources.guard.counters()].iter());
    page.counted([sources.store.figures()].iter());
    if let Some(lookups) = &sources.lookups {
        page.counted([lookups.figures()].iter());
        page.counted_by("store", &lookups.stores());
        if let Some(cache) = lookups.cache() {
            page.counted([cache.figures()].iter());
        }
    }
    rates(page, &sources.rates);
}

/// What was refused to those who were let in.
pub(super) fn rates(page: &mut Page, rates: &Rates) {
    let name = "signet_rate_limited_total";
    let help = "Requests refused 503 because a user, a peer or a source began too much, by what.";
    page.head(name, help, "counter");
    for party in Party::ALL {
        for rate in Rate::ALL {
            let labels = [("by", party.name()), ("what", rate.name())];
            page.sample(name, &labels, rates.limited(party, rate));
        }
    }
}
