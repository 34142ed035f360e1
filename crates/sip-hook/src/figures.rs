//! What is counted.

use crate::answer::Action;
use crate::queue::Failure;

/// Classes of batch sizes: up to so many questions.
const SIZES: [&str; 9] = ["1", "2", "4", "8", "16", "32", "64", "128", "more"];

/// The class of a batch's size.
pub(crate) fn size_class(questions: usize) -> usize {
    let class = questions.max(1).next_power_of_two().trailing_zeros() as usize;
    class.min(SIZES.len() - 1)
}

counters::counters! {
    /// What a [`crate::Queue`] has done, and how it stands.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HookFigures {
        /// Questions to the hook that were taken.
        pub questions: u64 = counter("signet_hook_questions_total"),
        /// Answers of the hook that could be used, by what they say.
        pub answers: [u64; 4] = counter("signet_hook_answers_total", action: Action::NAMES),
        /// Questions to the hook with no usable answer, by reason.
        pub failed: [u64; Failure::COUNT] = counter("signet_hook_failed_total", why: Failure::NAMES),
        /// Requests sent to the hook, by the most questions that they may have had.
        pub batches: [u64; 9] = counter("signet_hook_batches_total", questions: SIZES),
        /// Questions asked of the hook once more, because a request failed or was slow.
        pub retried: u64 = counter("signet_hook_retried_total"),
        /// Requests without a question, to find whether the hook is back.
        pub probes: u64 = counter("signet_hook_probes_total"),
        /// Answers of the hook to no question that waits: late, given twice, or unasked for.
        pub unasked: u64 = counter("signet_hook_unasked_answers_total"),
        /// Times that the hook was found gone.
        pub breaks: u64 = counter("signet_hook_breaks_total"),
        /// Requests to the hook that were answered.
        pub answered: u64 = counter("signet_hook_requests_answered_total"),
        /// The time from these requests to their answers, in sum.
        pub round_trip_us: u64 = counter("signet_hook_round_trip_microseconds_total"),
        /// Questions that wait to be sent to the hook.
        pub queued: u64 = gauge("signet_hook_queued"),
        /// Requests to the hook that wait for their answer.
        pub in_flight: u64 = gauge("signet_hook_in_flight"),
        /// 1 while the hook is left alone because it failed.
        pub away: u64 = gauge("signet_hook_away"),
    }
}

counters::counters! {
    /// What a [`crate::Cache`] has done, and what it holds.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HookCacheFigures {
        /// Questions that a remembered answer served.
        pub hits: u64 = counter("signet_hook_cache_hits_total"),
        /// Questions for which nothing was remembered.
        pub misses: u64 = counter("signet_hook_cache_misses_total"),
        /// Times that all answers were forgotten.
        pub cleared: u64 = counter("signet_hook_cache_cleared_total"),
        /// Answers that are remembered.
        pub entries: u64 = gauge("signet_hook_cache_entries"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_their_classes() {
        let classes: Vec<&str> = [1, 2, 3, 64, 65, 129, 10_000]
            .map(|questions| SIZES[size_class(questions)])
            .to_vec();
        assert_eq!(classes, ["1", "2", "4", "64", "128", "more", "more"]);
    }
}
