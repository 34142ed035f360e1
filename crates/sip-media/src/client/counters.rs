//! What a client has counted.

counters::counters! {
    /// What was asked of media engines, and what came of it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Commands sent to media engines, repetitions aside.
        pub commands: [u64; 3] = counter("signet_media_commands_total", command: ["offer", "answer", "delete"]),
        /// Commands sent again because no reply had come.
        pub repeated: u64 = counter("signet_media_repeated_total"),
        /// Commands to which a media engine did not reply in time.
        pub timed_out: u64 = counter("signet_media_timeouts_total"),
        /// Commands that a media engine refused.
        pub refused: u64 = counter("signet_media_engine_refusals_total"),
        /// Offers that went on to another media engine.
        pub failovers: u64 = counter("signet_media_failovers_total"),
        /// Commands that were not sent, or ends that were sent once alone, because too many were under way.
        pub full: u64 = counter("signet_media_full_total"),
        /// Commands not sent because their session description is longer than is taken, or has more streams.
        pub unfit: u64 = counter("signet_media_unfit_total"),
        /// Replies to nothing that is under way: they came twice, or too late.
        pub replies_late: u64 = counter("signet_media_replies_late_total"),
        /// Replies that cannot be read, or come from another than was asked.
        pub replies_bad: u64 = counter("signet_media_replies_bad_total"),
    }
}
