//! What is counted.

use crate::tuner::Reason;

/// Classes of batch sizes: up to so many rows.
const SIZES: [&str; 9] = ["1", "2", "4", "8", "16", "32", "64", "128", "more"];
/// Why batches fail.
const FAILURES: [&str; 5] = [
    "unreachable",
    "refused",
    "timed_out",
    "garbled",
    "log_in_refused",
];

/// The class of a batch's size.
pub(crate) fn size_class(rows: usize) -> usize {
    let class = rows.max(1).next_power_of_two().trailing_zeros() as usize;
    class.min(SIZES.len() - 1)
}

counters::counters! {
    /// What a [`crate::Pipeline`] has done, and how it stands.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LookupFigures {
        /// Look-ups that were asked for and taken.
        pub questions: u64 = counter("signet_lookups_total"),
        /// Look-ups that shared the row of another of the same user.
        pub joined: u64 = counter("signet_lookups_joined_total"),
        /// Look-ups that were answered by a row read for a later one of the same user.
        pub overtaken: u64 = counter("signet_lookups_overtaken_total"),
        /// Look-ups refused at once, by reason: no room, no time, no store.
        pub refused: [u64; 3] =
            counter("signet_lookups_refused_total", reason: ["full", "late", "away"]),
        /// Look-ups whose time was up before they were asked.
        pub expired_unasked: u64 = counter("signet_lookups_expired_unasked_total"),
        /// Look-ups whose time was up before they were answered.
        pub expired: u64 = counter("signet_lookups_expired_in_flight_total"),
        /// Look-ups that failed after they were asked.
        pub failed: u64 = counter("signet_lookups_failed_total"),
        /// Statements sent, by the most rows they may have had.
        pub batches: [u64; 9] = counter("signet_lookups_batches_total", rows: SIZES),
        /// Rows asked for.
        pub rows: u64 = counter("signet_lookups_rows_total"),
        /// Look-ups of names known not to exist that waited for a batch without a row in it.
        pub passengers: u64 = counter("signet_lookups_passengers_total"),
        /// Rows asked for to renew what the cache holds.
        pub refreshes: u64 = counter("signet_lookups_refreshes_total"),
        /// Look-ups asked a second time because their batch failed.
        pub retried: u64 = counter("signet_lookups_retried_total"),
        /// Statements sent to find whether a replica is back.
        pub probes: u64 = counter("signet_lookups_probes_total"),
        /// Statements that failed, by kind.
        pub failures: [u64; 5] = counter("signet_lookups_failures_total", kind: FAILURES),
        /// Unusable rows.
        pub bad_rows: u64 = counter("signet_lookups_bad_rows_total"),
        /// Answers to no statement in flight: late, or given twice.
        pub unasked: u64 = counter("signet_lookups_unasked_answers_total"),
        /// How long look-ups waited for their batch to leave, in sum.
        pub wait_us: u64 = counter("signet_lookups_wait_microseconds_total"),
        /// Look-ups whose wait is in that sum.
        pub waits: u64 = counter("signet_lookups_waits_total"),
        /// The time from statements to their answers, in sum.
        pub round_trip_us: u64 = counter("signet_lookups_round_trip_microseconds_total"),
        /// Statements answered.
        pub answered: u64 = counter("signet_lookups_statements_answered_total"),
        /// Times that a replica was found gone.
        pub breaks: u64 = counter("signet_lookups_breaks_total"),
        /// Decisions of the tuner, by reason.
        pub decisions: [u64; Reason::COUNT] =
            counter("signet_lookups_decisions_total", reason: Reason::NAMES),
        /// Questions that wait to be asked.
        pub queued: u64 = gauge("signet_lookups_queued"),
        /// Statements in flight.
        pub in_flight: u64 = gauge("signet_lookups_in_flight"),
        /// Replicas that are left alone because they failed.
        pub replicas_open: u64 = gauge("signet_lookups_replicas_open"),
        /// Replicas that are left alone and being tried.
        pub replicas_probed: u64 = gauge("signet_lookups_replicas_probed"),
        /// The time from one batch to the next, as set.
        pub interval_us: u64 = gauge("signet_lookups_interval_microseconds"),
        /// Statements in flight, as set.
        pub in_flight_max: u64 = gauge("signet_lookups_in_flight_max"),
        /// Rows with which a batch leaves before its time, as set.
        pub batch_max: u64 = gauge("signet_lookups_batch_max"),
        /// Shortest recent round trip, rows not counted.
        pub round_trip_min_us: u64 = gauge("signet_lookups_round_trip_min_microseconds"),
        /// Look-ups per second possible with batches as now, as measured of the store; too high
        /// where it was not busy lately.
        pub predicted_per_s: u64 = gauge("signet_lookups_predicted_capacity_per_second"),
        /// Mean time that a look-up should take now; 0 where more is asked than can be answered.
        pub predicted_us: u64 = gauge("signet_lookups_predicted_delay_microseconds"),
    }
}

counters::counters! {
    /// What a [`crate::Cache`] has done, and what it holds.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CacheFigures {
        /// Secrets found in the cache.
        pub hits: u64 = counter("signet_lookups_cache_hits_total"),
        /// Of these, secrets past their lifetime, while no store could be asked.
        pub stale: u64 = counter("signet_lookups_cache_stale_total"),
        /// Secrets not found in the cache.
        pub misses: u64 = counter("signet_lookups_cache_misses_total"),
        /// Of these, names known not to exist.
        pub negative: u64 = counter("signet_lookups_cache_negative_total"),
        /// Entries taken out to make room.
        pub evicted: u64 = counter("signet_lookups_cache_evicted_total"),
        /// Entries taken out because a user was changed.
        pub invalidated: u64 = counter("signet_lookups_cache_invalidated_total"),
        /// Users held who have shown their password.
        pub users: u64 = gauge("signet_lookups_cache_users"),
        /// Users held unproven.
        pub strangers: u64 = gauge("signet_lookups_cache_strangers"),
        /// Names held that do not exist.
        pub negatives: u64 = gauge("signet_lookups_cache_negatives"),
        /// Memory of the entries.
        pub bytes: u64 = gauge("signet_lookups_cache_bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_their_classes() {
        let classes: Vec<&str> = [1, 2, 3, 4, 5, 64, 65, 128, 129, 10_000]
            .map(|rows| SIZES[size_class(rows)])
            .to_vec();
        assert_eq!(
            classes,
            ["1", "2", "4", "4", "8", "64", "128", "128", "more", "more"]
        );
    }
}
