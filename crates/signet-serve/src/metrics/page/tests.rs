use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::{Component, CpuTimes};
use sip_engine::refusal::{Reason, RefusalCounts};
use sip_msg::{Method, Transport};
use sip_net::{ConnectionFigures, ListenerCounters, PeerCounters, SideCounters};
use sip_tls::{HandshakeCounters, HandshakeTally};
use sip_txn::Live;
use sip_worker::Figures;

use super::*;
use crate::records::Tally;
use crate::tls_report::Counted as CountedTls;
use crate::worker::{NetFigures, Snapshot};

/// Gives out numbers of which no two, and no two sums of two workers, are the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        1_000 * self.0
    }

    fn array<const N: usize>(&mut self) -> [u64; N] {
        std::array::from_fn(|_| self.next())
    }

    fn usize(&mut self) -> usize {
        usize::try_from(self.next()).unwrap()
    }

    fn fill<C: Counted>(&mut self, counted: &mut C) {
        for family in C::FAMILIES {
            for number in (family.numbers_mut)(counted) {
                *number = self.next();
            }
        }
    }

    fn counted<C: Counted>(&mut self) -> C {
        let mut counted = C::default();
        self.fill(&mut counted);
        counted
    }

    fn net(&mut self) -> sip_net::Counters {
        let mut net = self.counted();
        let sip_net::Counters {
            udp,
            tcp,
            tls,
            ws,
            wss,
            websocket,
            ..
        } = &mut net;
        for transport in [udp, tcp, tls, ws, wss] {
            self.fill(transport);
        }
        self.fill(websocket);
        net
    }

    /// Every field is named, so that a new one has to come here and on the page.
    fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            at_ms: 0,
            engine: self.counted(),
            transactions: self.counted(),
            registrar: self.counted(),
            media: self.counted(),
            refusals: self.refusals(),
            live: Live {
                client_reserved: self.usize(),
                client_invite: self.usize(),
                client_non_invite: self.usize(),
                server_invite: self.usize(),
                server_non_invite: self.usize(),
            },
            contexts: self.usize(),
            in_flight: self.usize(),
            calls: self.usize(),
            unanswered: None,
            sockets: NetFigures {
                net: self.net(),
                listeners: Vec::new(),
                opened_tls: HandshakeTally::default(),
                opened: ConnectionFigures::default(),
                peers: Vec::new(),
                buffered_bytes: self.next(),
                // By itself, below.
                cpu: CpuTimes::default(),
            },
            own: Figures {
                severity: 0,
                ..self.counted()
            },
        }
    }

    fn refusals(&mut self) -> RefusalCounts {
        let mut counts = RefusalCounts::default();
        for status in [Some(404), None] {
            for _ in 0..self.next() {
                counts.count(Method::Invite, status, Reason::NoRoute);
            }
        }
        counts
    }

    fn pool(&mut self) -> HandshakeCounters {
        HandshakeCounters {
            under_way: self.next(),
            full_waiting: self.next(),
            unread: self.next(),
            full_begun: self.next(),
            full_on_workers: self.next(),
            resumed_begun: self.next(),
            done: self.next(),
            refused: self.next(),
            refused_source: self.next(),
            refused_full: self.next(),
            timed_out: self.next(),
            cut: self.next(),
            bad_certificate: self.next(),
            certificate_refused: self.next(),
            incompatible: self.next(),
            failed: self.next(),
            cpu_us: 1_000_000 * self.next(),
        }
    }

    fn tally(&mut self) -> HandshakeTally {
        HandshakeTally {
            full: self.array(),
            resumed: self.array(),
            resumed_by: self.array(),
            suites: self.array(),
            groups: self.array(),
            failed: self.array(),
            faults: self.array(),
            resumptions_refused: self.next(),
            full_wall_us: 1_000_000 * self.next(),
            resumed_wall_us: 1_000_000 * self.next(),
            full_cpu_us: 1_000_000 * self.next(),
            resumed_cpu_us: 1_000_000 * self.next(),
            failed_cpu_us: 1_000_000 * self.next(),
        }
    }

    /// The ages are left out: they are shown as sums.
    fn connections(&mut self) -> ConnectionFigures {
        ConnectionFigures {
            open: self.next(),
            bytes: self.next(),
            age_ms_sum: 1_000 * self.next(),
            oldest_ms: 1_000 * self.next(),
            ages: Default::default(),
        }
    }

    fn side(&mut self) -> SideCounters {
        SideCounters {
            tls: self.tally(),
            connections: self.connections(),
        }
    }

    fn counted_tls(&mut self) -> CountedTls {
        CountedTls {
            listeners: vec![ListenerCounters {
                accepted: self.next(),
                refused_total: self.next(),
                refused_source: self.next(),
                refused_rate: self.next(),
                connections: self.connections(),
                tls: self.tally(),
            }],
            opened_tls: self.tally(),
            opened: self.connections(),
            peers: vec![PeerCounters {
                name: Arc::from("gw.example.net"),
                accepted: self.side(),
                opened: self.side(),
            }],
            handshakes: HandshakeCounters::default(),
            sessions: self.usize(),
        }
    }
}

/// What a page says: the values of each family, with their labels.
fn families(text: &str) -> BTreeMap<&str, Vec<(&str, &str)>> {
    let mut families: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    let (mut helped, mut known) = ("", "");
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            let (name, help) = head.split_once(' ').unwrap();
            assert!(help.ends_with('.') && !help.starts_with(' '), "{line}");
            helped = name;
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert_eq!(name, helped, "each family has its help: {line}");
            assert!(
                families.insert(name, Vec::new()).is_none(),
                "{name} is there twice"
            );
            // prometheus.io/docs/practices/naming: counters end in `_total`; units are
            // base units; what histograms end in is theirs alone.
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            for ending in ["_sum", "_count", "_bucket", "_ms", "_us", "_milliseconds"] {
                assert!(!name.trim_end_matches("_total").ends_with(ending), "{line}");
            }
            known = name;
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            assert_eq!(name, known, "{line}");
            let labels = labels.trim_end_matches('}');
            let samples = families.get_mut(name).unwrap();
            assert!(samples.iter().all(|(of, _)| *of != labels), "twice: {line}");
            assert!(!format!(",{labels}").contains(",le="), "{line}");
            samples.push((labels, value));
        }
    }
    families
}

/// Each number is shown at one place, and nothing else is.
fn assert_shown_once(text: &str, numbers: &Numbers, times: u64) {
    let shown: Vec<u64> = families(text)
        .into_values()
        .flatten()
        .map(|(_, value)| value.trim_end_matches(".000000").parse().unwrap())
        .filter(|value| *value >= 1_000)
        .collect();
    let expected: BTreeSet<u64> = (1..=numbers.0).map(|of| 1_000 * of * times).collect();
    let distinct: BTreeSet<u64> = shown.iter().copied().collect();
    let missing: Vec<_> = expected.symmetric_difference(&distinct).collect();
    assert!(missing.is_empty(), "{missing:?}\n{text}");
    assert_eq!(shown.len(), expected.len(), "a number is shown twice");
}

#[test]
fn every_counter_of_a_worker_is_on_the_page_once_and_summed() {
    let mut numbers = Numbers(0);
    let one = numbers.snapshot();
    let mut page = Page::default();
    let workers = [one.clone(), one.clone(), one];
    workers::workers(&mut page, &workers);
    page.gauge(
        "signet_connections_buffered_bytes",
        "As connections do.",
        workers.iter().map(|of| of.sockets.buffered_bytes).sum(),
    );
    assert_shown_once(&page.text, &numbers, 3);
    for line in [
        "# HELP signet_requests_total Requests that parsed.",
        "signet_workers 3",
    ] {
        assert!(page.text.lines().any(|of| of == line), "{line}");
    }
    let labels = |name: &str| families(&page.text)[name][0].0;
    assert_eq!(
        labels("signet_refusals_total"),
        "method=\"INVITE\",status=\"404\",reason=\"no_route_for_number\""
    );
    assert_eq!(
        labels("signet_ways_failed_total"),
        "method=\"INVITE\",reason=\"no_route_for_number\""
    );
}

#[test]
fn cpu_time_is_that_of_workers_and_of_threads_in_seconds() {
    let mut worker = Numbers(0).snapshot();
    let mut threads = CpuTimes::default();
    for (nth, component) in (1..).zip(Component::ALL) {
        worker.sockets.cpu.add(component, 1_000_000 * nth);
        threads.add(component, 10_000_000 * nth + 1);
    }
    let mut page = Page::default();
    cpu::cpu(&mut page, &[worker.clone(), worker], threads);
    let families = families(&page.text);
    assert_eq!(families.len(), 1);
    let shown = &families["signet_cpu_seconds_total"];
    assert_eq!(shown.len(), Component::COUNT);
    assert_eq!(shown[0], ("component=\"kernel\"", "12.000001"));
    assert_eq!(shown[1], ("component=\"sip_core\"", "24.000001"));
    for component in Component::ALL {
        let label = format!("component=\"{}\"", component.name());
        assert!(shown.iter().any(|(of, _)| *of == label), "{label}");
    }
}

#[test]
fn every_counter_of_tls_and_of_connections_is_on_the_page_once() {
    let mut numbers = Numbers(0);
    let mut page = Page::default();
    tls::pool(&mut page, &numbers.pool());
    let names = ["tls:192.0.2.1:5061".to_owned()];
    let counted = numbers.counted_tls();
    connections::connections(&mut page, &names, &|_| true, &[], &counted);
    assert_shown_once(&page.text, &numbers, 1);
}

#[test]
fn what_workers_share_is_on_the_page_once() {
    let mut numbers = Numbers(0);
    let mut page = Page::default();
    page.counted([numbers.counted::<sip_auth::AuthCounters>()].iter());
    page.counted([numbers.counted::<sip_limit::GuardCounters>()].iter());
    page.counted([numbers.counted::<sip_store::ServiceFigures>()].iter());
    page.counted([numbers.counted::<sip_hook::HookCacheFigures>()].iter());
    assert_shown_once(&page.text, &numbers, 1);

    let rates = sip_limit::Rates::new([1; 16]);
    let allowance = sip_limit::Allowance {
        calls_per_s: 1,
        ..sip_limit::Allowance::default()
    };
    for _ in 0..3 {
        let who = rates.peer(b"example.net");
        let _ = rates.charge(1, who, &allowance, 1, sip_limit::Kind::Call, 100);
    }
    let mut page = Page::default();
    store::rates(&mut page, &rates);
    let limited = &families(&page.text)["signet_rate_limited_total"];
    assert!(limited.contains(&("by=\"user\",what=\"bytes\"", "0")));
    assert!(limited.contains(&("by=\"peer\",what=\"calls\"", "2")));
}

/// Every field of what is shown is named, so that a new one has to come here.
#[test]
fn every_counter_of_engines_gateways_trunks_and_records_is_on_the_page_once() {
    let mut numbers = Numbers(0);
    let mut page = Page::default();
    let address = "192.0.2.1:5060".parse().unwrap();
    let engine = sip_media::Shown {
        address,
        why: None,
        out_ms: None,
        is_drained: false,
        heard_ago_ms: None,
        times_out: numbers.next(),
        pings_good: numbers.next(),
        pings_failed: numbers.next(),
    };
    media::media(&mut page, &[engine]);
    let gateway = sip_engine::gateways::Shown {
        name: "gw.example.net".into(),
        why: None,
        out_for_ms: 0,
        age_ms: 0,
        last_answer: None,
        probes_good: numbers.next(),
        probes_failed: numbers.next(),
        times_passed_over: numbers.next(),
    };
    gateways::gateways(&mut page, &[(Transport::Udp, address, gateway)]);
    let trunk = sip_engine::trunk::Shown {
        state: None,
        age_ms: 0,
        left_ms: 0,
        member: None,
        last_status: None,
        failures_in_a_row: 0,
        registered_total: numbers.next(),
        failed_total: numbers.next(),
        refused_for_ms: 0,
        refused_total: numbers.next(),
    };
    trunks::trunks(&mut page, &[("outside".into(), trunk)]);
    let tally = Tally {
        lost_in_queue: numbers.next().into(),
        lost_in_file: numbers.next().into(),
        lost_for_table: numbers.next().into(),
        written: numbers.next().into(),
        added: numbers.next().into(),
        spooled_bytes: numbers.next().into(),
    };
    records::records(&mut page, &tally);
    assert_shown_once(&page.text, &numbers, 1);
}

#[test]
fn labels_are_names_and_are_escaped() {
    fn labels<C: Counted>() -> Vec<&'static str> {
        let values = |family: &counters::Family<C>| (family.values)();
        C::FAMILIES.iter().flat_map(values).collect()
    }
    let all = [
        labels::<sip_engine::shard::Counters>(),
        labels::<sip_net::Counters>(),
        labels::<sip_net::WebSocketCounters>(),
        labels::<CpuTimes>(),
        labels::<sip_hook::HookFigures>(),
    ]
    .concat();
    assert!(
        all.contains(&"slow_reader") && all.contains(&"4xx"),
        "{all:?}"
    );
    for value in all {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(value.chars().all(is_plain), "{value}");
    }
    let mut page = Page::default();
    page.sample("a", &[("file", "\"\\\n")], 1);
    assert_eq!(page.text, "a{file=\"\\\"\\\\\\n\"} 1\n");
}
