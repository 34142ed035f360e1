//! What happened, and how much is alive.

counters::counters! {
    /// Counts of what happened since the start.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Server transactions.
        pub server_created: u64 = counter("signet_server_transactions_total"),
        /// Client transactions.
        pub client_created: u64 = counter("signet_client_transactions_total"),
        /// Retransmitted requests absorbed.
        pub request_absorbed: u64 = counter("signet_requests_absorbed_total"),
        /// Retransmitted responses absorbed.
        pub response_absorbed: u64 = counter("signet_responses_absorbed_total"),
        /// ACKs that ended the wait of their INVITE server transaction.
        pub ack_absorbed: u64 = counter("signet_acks_taken_total"),
        /// Requests retransmitted.
        pub request_retransmitted: u64 = counter("signet_requests_retransmitted_total"),
        /// Responses retransmitted.
        pub response_retransmitted: u64 = counter("signet_responses_retransmitted_total"),
        /// Requests for which no transaction was free.
        pub server_full: u64 = counter("signet_server_transactions_full_total"),
        /// Requests refused because too many others had the same branch and sent-by.
        pub server_twins_full: u64 = counter("signet_server_transactions_of_one_branch_full_total"),
        /// Client transactions for which there was no room.
        pub client_full: u64 = counter("signet_client_transactions_full_total"),
        /// Responses that matched no client transaction.
        pub response_stray: u64 = counter("signet_client_transactions_stray_total"),
        /// CANCELs that matched by branch, but came from another address.
        pub cancel_wrong_source: u64 = counter("signet_cancels_wrong_source_total"),
        /// Requests that nobody answered.
        pub client_timeout: u64 = counter("signet_client_transactions_timed_out_total"),
        /// Requests that could not be sent.
        pub client_failed: u64 = counter("signet_client_transactions_failed_total"),
        /// Final answers that were never acknowledged.
        pub ack_timeout: u64 = counter("signet_acks_missing_total"),
        /// Requests but INVITE that nobody answered in time.
        pub server_expired: u64 = counter("signet_server_transactions_expired_total"),
        /// Responses refused: after a final one, or against RFC 4320.
        pub response_refused: u64 = counter("signet_responses_refused_total"),
    }
}

/// Transactions alive, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Client transactions that are reserved and not yet started.
    pub client_reserved: usize,
    /// Client transactions for INVITE.
    pub client_invite: usize,
    /// Other client transactions, CANCELs included.
    pub client_non_invite: usize,
    /// Server transactions for INVITE.
    pub server_invite: usize,
    /// Other server transactions.
    pub server_non_invite: usize,
}
