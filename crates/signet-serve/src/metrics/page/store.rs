//! The figures of what the workers share: bindings, authentication, the store.

use sip_limit::{Party, Rates, What};

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
    let auth = sources.authenticator.counters();
    page.counter(
        "signet_auth_replays_total",
        "Credentials refused because they were used before.",
        auth.replays,
    );
    page.counter("signet_auth_nonces_total", "Nonces issued.", auth.nonces);
    page.counter(
        "signet_auth_forgotten_total",
        "Good credentials refused because their nonce may have been forgotten.",
        auth.forgotten,
    );
    page.counter(
        "signet_auth_replay_evictions_total",
        "Nonces forgotten because too many were in use.",
        auth.replay_evictions,
    );
    page.gauge(
        "signet_auth_replay_entries",
        "Nonces in use.",
        auth.replay_entries,
    );

    let guard = sources.guard.counters();
    page.counter(
        "signet_auth_failures_total",
        "Credentials that were wrong.",
        guard.failures,
    );
    page.counter(
        "signet_auth_guesses_refused_total",
        "Credentials that were not looked up, because too many before them were wrong.",
        guard.guesses_refused,
    );
    page.counter(
        "signet_refusals_limited_total",
        "Refusals put as 503 or left out, because their source was refused too often.",
        guard.refusals_limited,
    );
    page.counter(
        "signet_sources_shut_total",
        "Times that a source was left without answers for a while.",
        guard.sources_shut,
    );

    rates(page, &sources.rates);
    let store = sources.store.figures();
    page.counter(
        "signet_store_lookups_total",
        "Look-ups of credentials answered.",
        store.lookups,
    );
    page.counter(
        "signet_store_lookup_batches_total",
        "The batches that they came in.",
        store.lookup_batches,
    );
    page.counter(
        "signet_store_lookups_failed_total",
        "Look-ups that the database failed.",
        store.lookups_failed,
    );
    page.counter(
        "signet_store_saves_total",
        "Changes of bindings carried out.",
        store.saves,
    );
    page.counter(
        "signet_store_commits_total",
        "The commits that they came in.",
        store.save_groups,
    );
    page.counter(
        "signet_store_saves_failed_total",
        "Changes of bindings that the database failed.",
        store.saves_failed,
    );
    page.counter(
        "signet_store_expired_total",
        "Expired bindings deleted.",
        store.expired,
    );
}

/// What was refused to those who were let in.
pub(super) fn rates(page: &mut Page, rates: &Rates) {
    let name = "signet_rate_limited_total";
    let help = "Requests refused 503 because a user, a peer or a source began too much, by what.";
    page.head(name, help, "counter");
    for party in Party::ALL {
        for what in What::ALL {
            let labels = [("by", party.name()), ("what", what.name())];
            page.sample(name, &labels, rates.limited(party, what));
        }
    }
}
