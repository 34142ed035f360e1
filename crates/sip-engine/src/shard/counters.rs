//! What a shard has counted.

use sip_auth::Failure;

counters::counters! {
    /// What a shard has seen and done, since it was made. The transactions and the
    /// registrar have counters of their own.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Requests that parsed.
        pub requests: u64 = counter("signet_requests_total"),
        /// Calls begun: INVITEs outside of dialogs that were let in.
        pub calls: u64 = counter("signet_calls_total"),
        /// Responses that parsed.
        pub responses: u64 = counter("signet_responses_total"),
        /// Messages that did not parse, or that no element may trust.
        pub malformed: u64 = counter("signet_malformed_total"),
        /// Of these, those that could not be answered.
        pub malformed_dropped: u64 = counter("signet_malformed_dropped_total"),
        /// Copies of requests sent on.
        pub requests_forwarded: u64 = counter("signet_requests_forwarded_total"),
        /// Responses sent on upstream.
        pub responses_forwarded: u64 = counter("signet_responses_forwarded_total"),
        /// Responses that belong to nothing that was sent.
        pub responses_stray: u64 = counter("signet_responses_stray_total"),
        /// Responses without a Via beyond our own.
        pub responses_without_via: u64 = counter("signet_responses_without_via_total"),
        /// Responses to a forked request whose challenges were left out for want of room.
        pub challenges_left_out: u64 = counter("signet_challenges_left_out_total"),
        /// Final answers of this server's own, by class.
        pub answers: [u64; 5] = counter("signet_answers_total", class: ["2xx", "3xx", "4xx", "5xx", "6xx"]),
        /// Requests that credentials did not let in, by why.
        pub auth_failures: [u64; Failure::ALL.len()] = counter("signet_auth_failures_total", reason: Failure::ALL.map(Failure::name)),
        /// Challenges.
        pub challenges: u64 = counter("signet_challenges_total"),
        /// Requests whose sender does not speak for the domain that they name (403).
        pub identities_refused: u64 = counter("signet_identities_refused_total"),
        /// Requests that could not be answered.
        pub requests_dropped: u64 = counter("signet_requests_dropped_total"),
        /// ACKs to answers for which no state was kept.
        pub acks_absorbed: u64 = counter("signet_acks_absorbed_total"),
        /// Requests refused because the memory for messages is spent.
        pub memory_refused: u64 = counter("signet_memory_refused_total"),
        /// Requests refused because there was no room for a context.
        pub contexts_full: u64 = counter("signet_contexts_full_total"),
        /// Requests refused because too many wait for the store.
        pub lookups_full: u64 = counter("signet_lookups_full_total"),
        /// Requests refused because too many wait for addresses.
        pub parks_full: u64 = counter("signet_parks_full_total"),
        /// Copies not sent for want of a client transaction.
        pub clients_full: u64 = counter("signet_clients_full_total"),
        /// Targets beyond the bound of branches.
        pub branches_refused: u64 = counter("signet_branches_refused_total"),
        /// Look-ups that the store did not answer in time.
        pub lookups_expired: u64 = counter("signet_lookups_expired_total"),
        /// Names not resolved because their sender has too many under way.
        pub resolves_refused: u64 = counter("signet_resolves_refused_total"),
        /// Addresses that were not found in time.
        pub resolves_expired: u64 = counter("signet_resolves_expired_total"),
        /// Answers of the store or the resolver that came too late.
        pub answers_late: u64 = counter("signet_answers_late_total"),
        /// Places refused because nothing is relayed there, or not by a name.
        pub relays_refused: u64 = counter("signet_relays_refused_total"),
        /// Loops that were detected.
        pub loops: u64 = counter("signet_loops_total"),
        /// Calls that a user has forwarded, once for each user.
        pub calls_diverted: u64 = counter("signet_calls_diverted_total"),
        /// Calls that rang for too long.
        pub timer_c_fired: u64 = counter("signet_timer_c_fired_total"),
        /// Flows to phones that were gone when a request came for them.
        pub flows_failed: u64 = counter("signet_flows_failed_total"),
        /// Calls for which a gateway gave no first response in its time.
        pub gateways_silent: u64 = counter("signet_gateways_silent_total"),
        /// Times that an address of a gateway began to be passed over.
        pub gateways_passed_over: u64 = counter("signet_gateways_passed_over_total"),
        /// Times that a gateway's address was used again.
        pub gateways_returned: u64 = counter("signet_gateways_returned_total"),
        /// Probes of gateways not sent for want of room.
        pub probes_skipped: u64 = counter("signet_gateway_probes_skipped_total"),
        /// Keep-alives sent to phones behind address translations.
        pub keepalives: [u64; 2] = counter("signet_nat_keepalives_total", kind: ["crlf", "options"]),
        /// OPTIONS keep-alives with no answer in time.
        pub keepalives_unanswered: u64 = counter("signet_nat_keepalives_unanswered_total"),
        /// Keep-alives that came back (ICMP).
        pub keepalives_came_back: u64 = counter("signet_nat_keepalives_came_back_total"),
        /// OPTIONS sent as line ends for want of room.
        pub keepalives_plain: u64 = counter("signet_nat_keepalives_plain_total"),
        /// Contacts without keep-alives for want of room.
        pub keepalives_full: u64 = counter("signet_nat_keepalives_full_total"),
        /// Flows kept although they seemed to have ended, because most did at once.
        pub flows_spared: u64 = counter("signet_nat_flows_spared_total"),
        /// Contacts to which keep-alives are sent.
        pub phones_kept: u64 = gauge("signet_nat_phones_kept"),
        /// Challenges of providers that were answered with a trunk's credentials.
        pub trunk_challenges_answered: u64 = counter("signet_trunk_challenges_answered_total"),
        /// Challenges of providers that were passed to the caller: for another realm than the
        /// trunk's, or from where none of its members is.
        pub trunk_challenges_passed: u64 = counter("signet_trunk_challenges_passed_total"),
        /// Requests whose trunk's credentials were refused.
        pub trunk_credentials_refused: u64 = counter("signet_trunk_credentials_refused_total"),
        /// REGISTERs sent to providers.
        pub trunk_registers: u64 = counter("signet_trunk_registers_total"),
        /// Requests not sent to a neighbour that asked for less (RFC 7339, RFC 7415).
        pub spared: u64 = counter("signet_neighbours_spared_total"),
        /// Requests refused 503 because a worker falls behind.
        pub overload_refused: u64 = counter("signet_overload_refused_total"),
        /// Requests dropped without an answer because a worker falls behind.
        pub overload_dropped: u64 = counter("signet_overload_dropped_total"),
        /// Requests within a dialog sent to a current contact, because the dialog's first
        /// connection has ended.
        pub flows_followed: u64 = counter("signet_flows_followed_total"),
        /// Requests with their dialog's token for a target that it never showed, or after its
        /// end.
        pub dialog_tokens_refused: u64 = counter("signet_dialog_tokens_refused_total"),
        /// Dialogs forgotten before their time to make room.
        pub dialogs_forgotten: u64 = counter("signet_dialogs_forgotten_total"),
        /// Calls answered 2xx whose later requests also pass through this server.
        pub calls_begun: u64 = counter("signet_calls_begun_total"),
        /// Calls that `signet calls` does not list for want of room.
        pub calls_unlisted: u64 = counter("signet_calls_unlisted_total"),
        /// Call records begun: calls that were forwarded, or refused behind the gate.
        pub call_records_begun: u64 = counter("signet_call_records_begun_total"),
        /// Complete call records: the others are of calls in progress.
        pub call_records: u64 = counter("signet_call_records_total"),
        /// Of these, records of answered calls whose end is not waited for, for want of room.
        pub call_records_unfollowed: u64 = counter("signet_call_records_unfollowed_total"),
        /// Requests about which the operator's hook was to be asked.
        pub hook_asked: u64 = counter("signet_hook_asked_total"),
        /// Of these, requests with no usable answer: they went on or were refused, as on_failure
        /// says.
        pub hook_undecided: u64 = counter("signet_hook_undecided_total"),
        /// Session descriptions that were offered and given to a media engine.
        pub media_offers: u64 = counter("signet_media_offers_total"),
        /// SDP answers given to a media engine.
        pub media_answers: u64 = counter("signet_media_answers_total"),
        /// Ends of dialogs and branches that a media engine was told of.
        pub media_deletes: u64 = counter("signet_media_deletes_total"),
        /// Calls refused, and changes of calls, because no media engine took them.
        pub media_refused: u64 = counter("signet_media_refused_total"),
        /// Messages passed on without a media engine, because none took them.
        pub media_passed: u64 = counter("signet_media_passed_total"),
        /// Bodies passed on as they came because they are signed, encrypted or coded, or have
        /// several session descriptions.
        pub media_sealed: u64 = counter("signet_media_sealed_total"),
        /// Provisional responses, and responses that came again, that were not passed on because
        /// no media engine took them, or too many waited.
        pub media_dropped: u64 = counter("signet_media_dropped_total"),
        /// Messages that waited for a media engine until their time was up.
        pub media_expired: u64 = counter("signet_media_expired_total"),
        /// Ends of connections told to workers that had requests from them; each to several.
        pub connections_closed: u64 = counter("signet_connection_ends_told_total"),
    }
}

impl Counters {
    /// How often nobody was let in for that reason.
    pub fn auth_failures_of(&self, failure: Failure) -> u64 {
        let count = self.auth_failures.get(failure as usize);
        count.copied().unwrap_or_default()
    }

    /// Counts credentials that let nobody in.
    pub(crate) fn auth_failed(&mut self, failure: Option<Failure>) {
        let count = failure.and_then(|failure| self.auth_failures.get_mut(failure as usize));
        if let Some(count) = count {
            *count += 1;
        }
    }

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
