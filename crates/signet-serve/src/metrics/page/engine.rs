//! The figures of the workers and of the protocol: transactions, requests,
//! answers.

use super::Page;
use crate::worker::Snapshot;

pub(super) fn workers(page: &mut Page, snapshots: &[Snapshot]) {
    type Get = fn(&Snapshot) -> u64;
    let counters: &[(&str, &str, Get)] = &[
        (
            "signet_handed_over_total",
            "Messages handed from one worker to another.",
            |of| of.own.handed_over,
        ),
        (
            "signet_handover_refused_total",
            "Messages for which the other worker had no room.",
            |of| of.own.handover_refused,
        ),
        (
            "signet_store_refused_total",
            "Questions that the store did not take.",
            |of| of.own.store_refused,
        ),
        (
            "signet_dns_refused_total",
            "Questions that the resolver did not take.",
            |of| of.own.dns_refused,
        ),
        (
            "signet_aliases_used_total",
            "Messages sent by a connection that their neighbour had opened (RFC 5923).",
            |of| of.own.aliases_used,
        ),
        (
            "signet_dropped_unread_total",
            "Messages dropped before they were read, because their source was refused too often.",
            |of| of.own.dropped_unread,
        ),
    ];
    for (name, help, get) in counters {
        page.counter(name, help, snapshots.iter().map(get).sum());
    }
    page.gauge(
        "signet_overload_severity_thousandths",
        "How far the worst worker falls behind: 0 for not at all, and with each 1,000 less is let in by half.",
        snapshots.iter().map(|of| u64::from(of.own.severity)).max().unwrap_or(0),
    );
    page.gauge("signet_workers", "Worker threads.", snapshots.len() as u64);
    page.gauge(
        "signet_in_flight",
        "Transactions, forwarded requests and parked requests.",
        snapshots.iter().map(|of| of.in_flight as u64).sum(),
    );
}

pub(super) fn engine(page: &mut Page, snapshots: &[Snapshot]) {
    type Get = fn(&Snapshot) -> u64;
    let counters: [(&str, &str, Get); 52] = [
        ("signet_requests_total", "Requests that parsed.", |of| {
            of.engine.requests
        }),
        ("signet_responses_total", "Responses that parsed.", |of| {
            of.engine.responses
        }),
        (
            "signet_identities_refused_total",
            "Requests whose sender does not speak for the domain that they name (403).",
            |of| of.engine.identities_refused,
        ),
        (
            "signet_malformed_total",
            "Messages that did not parse, or that no element may trust.",
            |of| of.engine.malformed,
        ),
        (
            "signet_malformed_dropped_total",
            "Of these, those that could not be answered.",
            |of| of.engine.malformed_dropped,
        ),
        (
            "signet_requests_forwarded_total",
            "Copies of requests sent on.",
            |of| of.engine.requests_forwarded,
        ),
        (
            "signet_responses_forwarded_total",
            "Responses sent on upstream.",
            |of| of.engine.responses_forwarded,
        ),
        (
            "signet_responses_stray_total",
            "Responses that belong to nothing that was sent.",
            |of| of.engine.responses_stray,
        ),
        (
            "signet_responses_without_via_total",
            "Responses without a Via beyond our own.",
            |of| of.engine.responses_without_via,
        ),
        ("signet_challenges_total", "Challenges.", |of| {
            of.engine.challenges
        }),
        (
            "signet_requests_dropped_total",
            "Requests that could not be answered.",
            |of| of.engine.requests_dropped,
        ),
        (
            "signet_acks_absorbed_total",
            "ACKs to answers for which no state was kept.",
            |of| of.engine.acks_absorbed,
        ),
        (
            "signet_memory_refused_total",
            "Requests refused because the memory for messages is spent.",
            |of| of.engine.memory_refused,
        ),
        (
            "signet_resolves_refused_total",
            "Names not resolved because their sender has too many under way.",
            |of| of.engine.resolves_refused,
        ),
        (
            "signet_contexts_full_total",
            "Requests refused because there was no room for a context.",
            |of| of.engine.contexts_full,
        ),
        (
            "signet_lookups_full_total",
            "Requests refused because too many wait for the store.",
            |of| of.engine.lookups_full,
        ),
        (
            "signet_parks_full_total",
            "Requests refused because too many wait for addresses.",
            |of| of.engine.parks_full,
        ),
        (
            "signet_clients_full_total",
            "Copies not sent for want of a client transaction.",
            |of| of.engine.clients_full,
        ),
        (
            "signet_branches_refused_total",
            "Targets beyond the bound of branches.",
            |of| of.engine.branches_refused,
        ),
        (
            "signet_lookups_expired_total",
            "Look-ups that the store did not answer in time.",
            |of| of.engine.lookups_expired,
        ),
        (
            "signet_resolves_expired_total",
            "Addresses that were not found in time.",
            |of| of.engine.resolves_expired,
        ),
        (
            "signet_answers_late_total",
            "Answers of the store or the resolver that came too late.",
            |of| of.engine.answers_late,
        ),
        (
            "signet_relays_refused_total",
            "Places to which nothing is relayed, or not by a name, that requests led to.",
            |of| of.engine.relays_refused,
        ),
        ("signet_loops_total", "Loops that were detected.", |of| {
            of.engine.loops
        }),
        (
            "signet_timer_c_fired_total",
            "Calls that rang for too long.",
            |of| of.engine.timer_c_fired,
        ),
        (
            "signet_flows_failed_total",
            "Flows to phones that were gone when a request came for them.",
            |of| of.engine.flows_failed,
        ),
        (
            "signet_neighbours_spared_total",
            "Requests not sent to a neighbour that asked for less (RFC 7339, RFC 7415).",
            |of| of.engine.spared,
        ),
        (
            "signet_overload_refused_total",
            "Requests refused 503 because a worker falls behind.",
            |of| of.engine.overload_refused,
        ),
        (
            "signet_overload_dropped_total",
            "Requests dropped without an answer because a worker falls behind.",
            |of| of.engine.overload_dropped,
        ),
        (
            "signet_flows_followed_total",
            "Requests within a dialog sent to a contact of today, because the connection of its beginning has ended.",
            |of| of.engine.flows_followed,
        ),
        (
            "signet_dialog_tokens_refused_total",
            "Requests with their dialog's token for a target that it never showed, or after its end.",
            |of| of.engine.dialog_tokens_refused,
        ),
        (
            "signet_dialogs_forgotten_total",
            "Dialogs forgotten before their time to make room.",
            |of| of.engine.dialogs_forgotten,
        ),
        (
            "signet_server_transactions_total",
            "Server transactions.",
            |of| of.transactions.server_created,
        ),
        (
            "signet_client_transactions_total",
            "Client transactions.",
            |of| of.transactions.client_created,
        ),
        (
            "signet_requests_absorbed_total",
            "Retransmitted requests absorbed.",
            |of| of.transactions.request_absorbed,
        ),
        (
            "signet_responses_absorbed_total",
            "Retransmitted responses absorbed.",
            |of| of.transactions.response_absorbed,
        ),
        (
            "signet_requests_retransmitted_total",
            "Requests retransmitted.",
            |of| of.transactions.request_retransmitted,
        ),
        (
            "signet_responses_retransmitted_total",
            "Responses retransmitted.",
            |of| of.transactions.response_retransmitted,
        ),
        (
            "signet_server_transactions_full_total",
            "Requests for which there was no transaction.",
            |of| of.transactions.server_full,
        ),
        (
            "signet_client_transactions_timed_out_total",
            "Requests that nobody answered.",
            |of| of.transactions.client_timeout,
        ),
        (
            "signet_client_transactions_failed_total",
            "Requests that could not be sent.",
            |of| of.transactions.client_failed,
        ),
        (
            "signet_acks_missing_total",
            "Final answers that were never acknowledged.",
            |of| of.transactions.ack_timeout,
        ),
        ("signet_registers_total", "REGISTERs taken.", |of| {
            of.registrar.requests
        }),
        (
            "signet_registers_ok_total",
            "REGISTERs answered 200.",
            |of| of.registrar.ok,
        ),
        (
            "signet_registers_refused_total",
            "REGISTERs answered otherwise.",
            |of| of.registrar.refused,
        ),
        (
            "signet_registers_save_failed_total",
            "REGISTERs that the store could not store.",
            |of| of.registrar.save_failed,
        ),
        (
            "signet_registers_save_timeout_total",
            "REGISTERs that the store did not store in time.",
            |of| of.registrar.save_timeout,
        ),
        (
            "signet_registers_queue_full_total",
            "REGISTERs refused because too many wait for the store.",
            |of| of.registrar.queue_full,
        ),
        (
            "signet_registers_table_full_total",
            "REGISTERs refused because there are too many users with contacts.",
            |of| of.registrar.table_full,
        ),
        (
            "signet_registers_contacts_full_total",
            "REGISTERs refused because the user has as many contacts as he may.",
            |of| of.registrar.contacts_full,
        ),
        (
            "signet_contacts_replaced_total",
            "Contacts that made room for later ones of the same user.",
            |of| of.registrar.contacts_replaced,
        ),
        (
            "signet_contacts_refused_total",
            "REGISTERs refused because a contact could not be called, or must not be.",
            |of| of.registrar.contacts_refused,
        ),
    ];
    for (name, help, get) in counters {
        page.counter(name, help, snapshots.iter().map(get).sum());
    }
    page.head(
        "signet_answers_total",
        "Final answers of this server's own, by class.",
        "counter",
    );
    for (place, class) in ["2xx", "3xx", "4xx", "5xx", "6xx"].iter().enumerate() {
        let total = snapshots
            .iter()
            .filter_map(|of| of.engine.answers.get(place))
            .sum();
        page.sample("signet_answers_total", &[("class", class)], total);
    }
    let gauges: [(&str, &str, Get); 5] = [
        ("signet_contexts", "Requests being forwarded.", |of| {
            of.contexts as u64
        }),
        (
            "signet_server_transactions_invite",
            "INVITE server transactions alive.",
            |of| of.live.server_invite as u64,
        ),
        (
            "signet_server_transactions_other",
            "Other server transactions alive.",
            |of| of.live.server_non_invite as u64,
        ),
        (
            "signet_client_transactions_invite",
            "INVITE client transactions alive.",
            |of| of.live.client_invite as u64,
        ),
        (
            "signet_client_transactions_other",
            "Other client transactions alive.",
            |of| of.live.client_non_invite as u64,
        ),
    ];
    for (name, help, get) in gauges {
        page.gauge(name, help, snapshots.iter().map(get).sum());
    }
}
