//! What happened, and how much is alive.

/// Counts of what happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Server transactions created.
    pub server_created: u64,
    /// Client transactions started, CANCELs included.
    pub client_created: u64,
    /// Retransmitted requests absorbed.
    pub request_absorbed: u64,
    /// Retransmitted or late responses absorbed.
    pub response_absorbed: u64,
    /// ACKs absorbed by an INVITE server transaction.
    pub ack_absorbed: u64,
    /// Requests retransmitted by timers A and E.
    pub request_retransmitted: u64,
    /// Responses retransmitted by timer G.
    pub response_retransmitted: u64,
    /// Requests for which there was no room.
    pub server_full: u64,
    /// Client transactions for which there was no room.
    pub client_full: u64,
    /// Responses that matched no client transaction.
    pub response_stray: u64,
    /// CANCELs that matched by branch, but came from another address.
    pub cancel_wrong_source: u64,
    /// Client transactions that timed out (timers B and F).
    pub client_timeout: u64,
    /// Client transactions that ended by a transport failure.
    pub client_failed: u64,
    /// Final responses to INVITE that were never acknowledged (timer H).
    pub ack_timeout: u64,
    /// Non-INVITE server transactions that nobody answered in time.
    pub server_expired: u64,
    /// Responses refused: after a final one, or against RFC 4320.
    pub response_refused: u64,
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
