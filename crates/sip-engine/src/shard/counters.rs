//! What a shard has counted.

/// What a shard has seen and done, since it was made. The transactions and the
/// registrar have counters of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that parsed.
    pub requests: u64,
    /// Responses that parsed.
    pub responses: u64,
    /// Messages that did not parse, or that no element may trust.
    pub malformed: u64,
    /// Malformed messages that could not be answered.
    pub malformed_dropped: u64,
    /// Copies of requests sent on.
    pub requests_forwarded: u64,
    /// Responses sent on upstream.
    pub responses_forwarded: u64,
    /// Responses that belong to nothing that was sent: dropped.
    pub responses_stray: u64,
    /// Responses without a Via beyond our own: dropped.
    pub responses_without_via: u64,
    /// Final answers of this server's own, by class: 2xx to 6xx.
    pub answers: [u64; 5],
    /// Challenges among them.
    pub challenges: u64,
    /// Requests refused 403 because their sender, a peer in the list or one
    /// with a certificate, does not speak for the domain that they name.
    pub identities_refused: u64,
    /// Requests without a Via to answer to, and ACKs that nobody vouched for.
    pub requests_dropped: u64,
    /// ACKs to answers for which no state was kept.
    pub acks_absorbed: u64,
    /// Requests refused 503 because the memory for messages is spent.
    pub memory_refused: u64,
    /// Requests refused 503 because there was no room for a context.
    pub contexts_full: u64,
    /// Requests refused 503 because too many wait for the store.
    pub lookups_full: u64,
    /// Requests refused 503 because too many wait for addresses.
    pub parks_full: u64,
    /// Copies that were not sent for want of a client transaction.
    pub clients_full: u64,
    /// Targets and copies beyond the bound of branches.
    pub branches_refused: u64,
    /// Look-ups that the store did not answer in time.
    pub lookups_expired: u64,
    /// Names that were not resolved because their sender has too many under way.
    pub resolves_refused: u64,
    /// Addresses that were not found in time.
    pub resolves_expired: u64,
    /// Answers from outside that came too late, or twice.
    pub answers_late: u64,
    /// Places to which nothing is relayed, or not by a name, that a request led to.
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
    /// Requests within a dialog that found their phone at a contact of today,
    /// because the connection that their dialog began with has ended.
    pub flows_followed: u64,
    /// Requests with the token of their dialog that it did not let in: for a
    /// target that the dialog never showed, or after its end.
    pub dialog_tokens_refused: u64,
    /// Dialogs that were forgotten before their time to make room.
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
