//! What a shard has counted.

/// Counts of a shard since it was made. The transactions and the registrar have
/// counters of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that parsed.
    pub requests: u64,
    /// Responses that parsed.
    pub responses: u64,
    /// Messages that did not parse, or were not valid.
    pub malformed: u64,
    /// Malformed messages that could not be answered.
    pub malformed_dropped: u64,
    /// Copies of requests sent on.
    pub requests_forwarded: u64,
    /// Responses sent on upstream.
    pub responses_forwarded: u64,
    /// Responses that match no request: dropped.
    pub responses_stray: u64,
    /// Responses without a Via beyond our own: dropped.
    pub responses_without_via: u64,
    /// Final responses of this server's own, by class: 2xx to 6xx.
    pub answers: [u64; 5],
    /// Challenges among them.
    pub challenges: u64,
    /// Requests refused 403 because a listed or certified peer may not speak for the
    /// domain that they name.
    pub identities_refused: u64,
    /// Requests without a readable Via, and ACKs without a permit.
    pub requests_dropped: u64,
    /// ACKs to responses that were sent without state.
    pub acks_absorbed: u64,
    /// Requests refused 503 because the memory for messages is spent.
    pub memory_refused: u64,
    /// Requests refused 503 because there was no room for a context.
    pub contexts_full: u64,
    /// Requests refused 503 because too many wait for the store.
    pub lookups_full: u64,
    /// Requests refused 503 because too many wait for addresses.
    pub parks_full: u64,
    /// Copies that were not sent because there was no room for a client transaction.
    pub clients_full: u64,
    /// Targets and copies over the bound of branches.
    pub branches_refused: u64,
    /// Look-ups that the store did not answer in time.
    pub lookups_expired: u64,
    /// Names that were not resolved because their sender has too many under way.
    pub resolves_refused: u64,
    /// Addresses that were not found in time.
    pub resolves_expired: u64,
    /// Answers from outside that came too late, or twice.
    pub answers_late: u64,
    /// Destinations to which a request was not relayed.
    pub relays_refused: u64,
    /// Loops that were detected (482).
    pub loops: u64,
    /// Times that timer C fired.
    pub timer_c_fired: u64,
    /// Flows to phones that were gone when a request came for them.
    pub flows_failed: u64,
    /// Copies not sent to a neighbour that asked for less (RFC 7339).
    pub spared: u64,
    /// Requests refused 503 because the worker falls behind.
    pub overload_refused: u64,
    /// Requests dropped without an answer for the same reason.
    pub overload_dropped: u64,
    /// Requests within a dialog that were sent to a current contact of the phone, because
    /// the connection that their dialog began with has ended.
    pub flows_followed: u64,
    /// Requests whose dialog token was not accepted: for a target that the dialog never
    /// announced, or after its end.
    pub dialog_tokens_refused: u64,
    /// Dialogs that were forgotten early, to make room.
    pub dialogs_forgotten: u64,
    /// Connections that ended.
    pub connections_closed: u64,
}

impl Counters {
    /// Counts an answer.
    pub(crate) fn answered(&mut self, status: u16) {
        let class = usize::from(status / 100);
        if let Some(count) = class.checked_sub(2).and_then(|at| self.answers.get_mut(at)) {
            *count += 1;
        }
        self.challenges += u64::from(matches!(status, 401 | 407));
        self.loops += u64::from(status == 482);
    }
}
