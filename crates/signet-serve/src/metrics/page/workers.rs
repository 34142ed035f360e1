//! The figures of the workers, summed: sockets, requests, transactions.

use sip_engine::refusal::RefusalCounts;
use sip_txn::Live;

use super::Page;
use crate::worker::Snapshot;

pub(super) fn workers(page: &mut Page, workers: &[Snapshot]) {
    let net = || workers.iter().map(|of| &of.sockets.net);
    page.counted_by(
        "transport",
        &[
            ("udp", counters::sum(net().map(|net| &net.udp))),
            ("tcp", counters::sum(net().map(|net| &net.tcp))),
            ("tls", counters::sum(net().map(|net| &net.tls))),
            ("ws", counters::sum(net().map(|net| &net.ws))),
            ("wss", counters::sum(net().map(|net| &net.wss))),
        ],
    );
    page.counted(net());
    page.counted(net().map(|net| &net.websocket));
    page.counted(workers.iter().map(|of| &of.own));
    page.counted(workers.iter().map(|of| &of.engine));
    page.counted(workers.iter().map(|of| &of.transactions));
    page.counted(workers.iter().map(|of| &of.registrar));
    page.counted(workers.iter().map(|of| &of.media));
    refusals(page, workers);

    page.gauge(
        "signet_overload_severity_thousandths",
        "How far the worst worker falls behind: 0 for not at all; each 1,000 more halves what is let in.",
        workers.iter().map(|of| u64::from(of.own.severity)).max().unwrap_or(0),
    );
    page.gauge("signet_workers", "Worker threads.", workers.len() as u64);
    type Get = fn(&Snapshot) -> usize;
    type GetLive = fn(&Live) -> usize;
    let gauges: [(&str, &str, Get); 3] = [
        (
            "signet_in_flight",
            "Transactions, forwarded requests and parked requests.",
            |of| of.in_flight,
        ),
        (
            "signet_calls",
            "Calls in progress, as far as `signet calls` lists them.",
            |of| of.calls,
        ),
        ("signet_contexts", "Requests being forwarded.", |of| {
            of.contexts
        }),
    ];
    for (name, help, get) in gauges {
        page.gauge(name, help, workers.iter().map(get).sum::<usize>() as u64);
    }
    let alive: [(&str, &str, GetLive); 5] = [
        (
            "signet_server_transactions_invite",
            "INVITE server transactions alive.",
            |of| of.server_invite,
        ),
        (
            "signet_server_transactions_other",
            "Other server transactions alive.",
            |of| of.server_non_invite,
        ),
        (
            "signet_client_transactions_invite",
            "INVITE client transactions alive.",
            |of| of.client_invite,
        ),
        (
            "signet_client_transactions_other",
            "Other client transactions alive.",
            |of| of.client_non_invite,
        ),
        (
            "signet_client_transactions_reserved",
            "Client transactions kept free for requests that wait to be sent.",
            |of| of.client_reserved,
        ),
    ];
    for (name, help, get) in alive {
        let sum: usize = workers.iter().map(|of| get(&of.live)).sum();
        page.gauge(name, help, sum as u64);
    }
}

/// What was refused, by method, status and reason: what never was has no row.
fn refusals(page: &mut Page, workers: &[Snapshot]) {
    let mut counts = RefusalCounts::default();
    for worker in workers {
        counts.add(&worker.refusals);
    }
    page.head(
        "signet_refusals_total",
        "Requests answered by this server itself with 4xx to 6xx, by the reason that `signet why` shows.",
        "counter",
    );
    for (of, count) in counts.iter() {
        if let Some(status) = of.status {
            let (status, reason) = (status.to_string(), of.reason.name());
            let labels = [
                ("method", of.method),
                ("status", &*status),
                ("reason", reason),
            ];
            page.sample("signet_refusals_total", &labels, count);
        }
    }
    page.head(
        "signet_ways_failed_total",
        "Next hops that came to nothing for a request, which may have gone on to another.",
        "counter",
    );
    for (of, count) in counts.iter().filter(|(of, _)| of.status.is_none()) {
        let labels = [("method", of.method), ("reason", of.reason.name())];
        page.sample("signet_ways_failed_total", &labels, count);
    }
}
