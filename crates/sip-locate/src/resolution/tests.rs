use std::collections::HashMap;

use super::*;

mod failures;

/// A domain's records, asked as a client asks.
#[derive(Default)]
struct Table {
    records: HashMap<(String, Kind), Answer>,
    asked: Vec<String>,
}

impl Table {
    fn with(mut self, kind: Kind, name: &str, record: Record) -> Self {
        let answer = self
            .records
            .entry((name.into(), kind))
            .or_insert(Answer::Records(Vec::new()));
        if let Answer::Records(records) = answer {
            records.push(record);
        }
        self
    }

    fn naptr(
        self,
        name: &str,
        order: u16,
        preference: u16,
        services: &str,
        replacement: &str,
    ) -> Self {
        let (flags, services, replacement) = ("s".into(), services.into(), replacement.into());
        self.with(
            Kind::Naptr,
            name,
            Record::Naptr {
                order,
                preference,
                flags,
                services,
                replacement,
            },
        )
    }

    fn srv(self, name: &str, priority: u16, weight: u16, port: u16, target: &str) -> Self {
        self.with(
            Kind::Srv,
            name,
            Record::Srv {
                priority,
                weight,
                port,
                target: target.into(),
            },
        )
    }

    fn addr(self, name: &str, ip: &str) -> Self {
        let ip: IpAddr = ip.parse().unwrap();
        self.with(
            if ip.is_ipv4() { Kind::A } else { Kind::Aaaa },
            name,
            Record::Addr(ip),
        )
    }

    fn failing(mut self, kind: Kind, name: &str, answer: Answer) -> Self {
        self.records.insert((name.into(), kind), answer);
        self
    }

    fn resolve_with(
        &mut self,
        query: Query,
        options: Options,
        random: &mut dyn FnMut(u32) -> u32,
    ) -> Result<Vec<Hop>, LocateError> {
        let mut resolution = Resolution::new(query, options);
        let mut answers = Vec::new();
        for _ in 0..4 {
            match resolution.step(std::mem::take(&mut answers), random) {
                Step::Done(result) => return result,
                Step::Ask(questions) => {
                    for Question { name, kind } in questions {
                        self.asked.push(format!("{kind:?} {name}"));
                        let answer = self.records.get(&(name.to_string(), kind));
                        answers.push(answer.cloned().unwrap_or(Answer::Nothing));
                    }
                }
            }
        }
        panic!("more than three rounds of questions");
    }

    /// The places as text: `transport address name`.
    fn resolve(&mut self, uri: &str) -> Result<Vec<String>, LocateError> {
        let hops = self.resolve_with(query(uri), Options::default(), &mut |_| 0)?;
        Ok(hops.iter().map(text).collect())
    }
}

fn text(hop: &Hop) -> String {
    let name = hop
        .tls_name
        .as_deref()
        .map(|name| format!(" {name}"))
        .unwrap_or_default();
    format!("{} {}{name}", hop.transport.uri_name(), hop.addr)
}

/// `sip:HOST[:PORT][;transport=T]`, with `sips` likewise.
fn query(uri: &str) -> Query {
    let (scheme, rest) = uri.split_once(':').unwrap();
    let (host, transport) = match rest.split_once(";transport=") {
        Some((host, token)) => (host, Transport::from_token(token.as_bytes())),
        None => (rest, None),
    };
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().unwrap())),
        _ => (host, None),
    };
    Query {
        host: host.into(),
        port,
        transport,
        secure: scheme == "sips",
        is_configured: false,
    }
}

/// With these listeners.
fn reaching(listeners: &[(Transport, &str)]) -> Options {
    let listeners = listeners
        .iter()
        .map(|(transport, ip)| (*transport, ip.parse().unwrap()));
    Options {
        reach: listeners.collect(),
        ..Options::default()
    }
}

fn no_table(uri: &str) -> Result<Vec<String>, LocateError> {
    let mut table = Table::default();
    let result = table.resolve(uri);
    assert!(
        table.asked.is_empty(),
        "{uri} needs no DNS: {:?}",
        table.asked
    );
    result
}

#[test]
fn numeric_addresses_need_no_dns() {
    // RFC 3263 4.1: "Otherwise, if no transport protocol is specified, but the
    // TARGET is a numeric IP address, the client SHOULD use UDP for a SIP URI,
    // and TCP for a SIPS URI."
    for (uri, hop) in [
        ("sip:192.0.2.1", "udp 192.0.2.1:5060"),
        ("sip:192.0.2.1:5070", "udp 192.0.2.1:5070"),
        ("sip:192.0.2.1;transport=tcp", "tcp 192.0.2.1:5060"),
        (
            "sip:192.0.2.1;transport=tls",
            "tls 192.0.2.1:5061 192.0.2.1",
        ),
        ("sips:192.0.2.1", "tls 192.0.2.1:5061 192.0.2.1"),
        (
            "sips:192.0.2.1:5071;transport=tcp",
            "tls 192.0.2.1:5071 192.0.2.1",
        ),
        ("sip:[2001:db8::1]", "udp [2001:db8::1]:5060"),
        ("sip:[2001:db8::1]:5070", "udp [2001:db8::1]:5070"),
    ] {
        assert_eq!(no_table(uri), Ok(vec![hop.to_owned()]), "{uri}");
    }
}

#[test]
fn what_cannot_be_met_is_said_without_dns() {
    for (uri, refusal) in [
        ("sips:example.com;transport=udp", Refusal::NoTlsOverUdp),
        ("sip:example.com;transport=ws", Refusal::OpenedByPeer),
        ("sip:", Refusal::NoHost),
        ("sip:a..b", Refusal::NoHost),
        ("sip:exa mple.com", Refusal::NoHost),
        ("sip:[192.0.2.1]", Refusal::NoHost),
    ] {
        assert_eq!(no_table(uri), Err(LocateError::Refused(refusal)), "{uri}");
    }
}

#[test]
fn naptr_chooses_the_transport_and_srv_the_server() {
    // The example of RFC 3263 4.1 and 4.2.
    let mut table = Table::default()
        .naptr("example.com", 50, 50, "SIPS+D2T", "_sips._tcp.example.com")
        .naptr("example.com", 100, 50, "SIP+D2U", "_sip._udp.example.com")
        .naptr("example.com", 90, 50, "SIP+D2T", "_sip._tcp.example.com")
        .srv("_sip._tcp.example.com", 0, 1, 5060, "server1.example.com")
        .srv("_sip._tcp.example.com", 0, 2, 5060, "server2.example.com")
        .addr("server1.example.com", "192.0.2.1")
        .addr("server2.example.com", "192.0.2.2");
    // No server offers TLS or UDP after all.
    assert_eq!(
        table.resolve("sip:example.com").unwrap(),
        ["tcp 192.0.2.1:5060", "tcp 192.0.2.2:5060"]
    );
}

#[test]
fn a_tls_hop_bears_the_name_that_was_asked_for() {
    let mut table = Table::default()
        .naptr(
            "example.com",
            50,
            50,
            "sips+d2t",
            "_sips._tcp.elsewhere.net",
        )
        .srv(
            "_sips._tcp.elsewhere.net",
            0,
            1,
            5071,
            "host.elsewhere.net.",
        )
        .addr("host.elsewhere.net", "192.0.2.9");
    assert_eq!(
        table.resolve("sips:example.com").unwrap(),
        ["tls 192.0.2.9:5071 example.com"]
    );
}

#[test]
fn sips_takes_no_service_without_tls() {
    let mut table = Table::default()
        .naptr("example.com", 1, 1, "SIP+D2U", "_sip._udp.example.com")
        .srv("_sip._udp.example.com", 0, 1, 5060, "a.example.com")
        .addr("a.example.com", "192.0.2.1")
        .addr("example.com", "192.0.2.2");
    assert_eq!(
        table.resolve("sips:example.com").unwrap(),
        ["tls 192.0.2.2:5061 example.com"]
    );
    assert_eq!(
        table.asked,
        [
            "Naptr example.com",
            "Srv _sips._tcp.example.com",
            "Aaaa example.com",
            "A example.com"
        ]
    );
}

#[test]
fn without_naptr_every_transport_is_asked_for() {
    // RFC 3263 4.1: "If no NAPTR records are found, the client constructs SRV
    // queries for those transport protocols it supports, and does a query for
    // each."
    let mut table = Table::default()
        .srv("_sip._udp.example.com", 0, 1, 5060, "u.example.com")
        .srv("_sips._tcp.example.com", 0, 1, 5061, "s.example.com")
        .addr("u.example.com", "192.0.2.1")
        .addr("s.example.com", "192.0.2.2");
    // RFC 3263 4.1: one of them is chosen, and what is under TLS goes on under TLS.
    let hops = table.resolve("sip:example.com").unwrap();
    assert_eq!(hops, ["tls 192.0.2.2:5061 example.com"]);
    assert_eq!(
        table.asked[1..4],
        [
            "Srv _sips._tcp.example.com",
            "Srv _sip._udp.example.com",
            "Srv _sip._tcp.example.com"
        ]
    );
    let options = reaching(&[(Transport::Udp, "192.0.2.99")]);
    let hops = table
        .resolve_with(query("sip:example.com"), options, &mut |_| 0)
        .unwrap();
    assert_eq!(text(&hops[0]), "udp 192.0.2.1:5060");
    assert_eq!(hops.len(), 1);
}

#[test]
fn without_srv_the_host_itself_is_the_server() {
    // RFC 3263 4.2: "If no SRV records were found, the client performs an A or
    // AAAA record lookup of the domain name."
    let mut table = Table::default()
        .addr("example.com", "192.0.2.1")
        .addr("example.com", "2001:db8::1");
    for (uri, hops) in [
        (
            "sip:example.com",
            ["udp [2001:db8::1]:5060", "udp 192.0.2.1:5060"],
        ),
        (
            "sip:example.com:5070",
            ["udp [2001:db8::1]:5070", "udp 192.0.2.1:5070"],
        ),
        (
            "sip:example.com.;transport=tcp",
            ["tcp [2001:db8::1]:5060", "tcp 192.0.2.1:5060"],
        ),
        (
            "sips:example.com",
            [
                "tls [2001:db8::1]:5061 example.com",
                "tls 192.0.2.1:5061 example.com",
            ],
        ),
    ] {
        assert_eq!(table.resolve(uri).unwrap(), hops, "{uri}");
    }
    let options = reaching(&[(Transport::Udp, "192.0.2.99")]);
    let hops = table
        .resolve_with(query("sip:example.com"), options, &mut |_| 0)
        .unwrap();
    assert_eq!(
        hops.iter().map(text).collect::<Vec<_>>(),
        ["udp 192.0.2.1:5060"]
    );
}

#[test]
fn the_default_transport_is_that_of_the_address() {
    let mut table = Table::default()
        .addr("example.com", "203.0.113.9")
        .addr("example.com", "2001:db8::9");
    let options = reaching(&[
        (Transport::Udp, "192.0.2.1"),
        (Transport::Tcp, "192.0.2.1"),
        (Transport::Tcp, "2001:db8::1"),
    ]);
    for (uri, hops) in [
        (
            "sip:example.com:5070",
            &["tcp [2001:db8::9]:5070", "udp 203.0.113.9:5070"][..],
        ),
        (
            "sip:example.com",
            &["tcp [2001:db8::9]:5060", "udp 203.0.113.9:5060"],
        ),
        (
            "sip:example.com:5070;transport=udp",
            &["udp 203.0.113.9:5070"],
        ),
    ] {
        let found = table.resolve_with(query(uri), options, &mut |_| 0).unwrap();
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), hops, "{uri}");
    }
    // Nobody is asked for an address that would be of no use.
    table.asked.clear();
    let udp = query("sip:example.com:5070;transport=udp");
    table.resolve_with(udp, options, &mut |_| 0).unwrap();
    assert_eq!(table.asked, ["A example.com"]);
    // A domain that offers nothing is not called by TLS unless somebody asks for it.
    let options = reaching(&[(Transport::Tls, "192.0.2.1")]);
    let refused = table.resolve_with(query("sip:example.com"), options, &mut |_| 0);
    assert_eq!(refused, Err(LocateError::Refused(Refusal::NoListener)));
}

#[test]
fn a_port_or_a_transport_spares_questions() {
    let mut table = Table::default().addr("example.com", "192.0.2.1");
    table.resolve("sip:example.com:5070;transport=tcp").unwrap();
    assert_eq!(table.asked, ["Aaaa example.com", "A example.com"]);
    table.asked.clear();
    table.resolve("sip:example.com;transport=tls").unwrap();
    assert_eq!(
        table.asked,
        [
            "Srv _sips._tcp.example.com",
            "Aaaa example.com",
            "A example.com"
        ]
    );
}

#[test]
fn priorities_come_first_and_weights_are_shares() {
    let mut table = Table::default()
        .srv("_sip._udp.example.com", 20, 100, 5060, "last.example.com")
        .srv("_sip._udp.example.com", 10, 75, 5060, "big.example.com")
        .srv("_sip._udp.example.com", 10, 25, 5060, "small.example.com")
        .srv("_sip._udp.example.com", 10, 0, 5060, "none.example.com")
        .addr("last.example.com", "192.0.2.1")
        .addr("big.example.com", "192.0.2.2")
        .addr("small.example.com", "192.0.2.3")
        .addr("none.example.com", "192.0.2.4");
    let mut firsts: HashMap<String, u32> = HashMap::new();
    for lot in 0..=100 {
        // The same lot for the first draw of each, the highest for the others.
        let mut draws = 0;
        let mut random = |max: u32| {
            draws += 1;
            if draws == 1 { lot.min(max) } else { max }
        };
        let hops = table
            .resolve_with(
                query("sip:example.com;transport=udp"),
                Options::default(),
                &mut random,
            )
            .unwrap();
        assert_eq!(hops.len(), 4);
        assert_eq!(text(&hops[3]), "udp 192.0.2.1:5060");
        *firsts.entry(hops[0].addr.ip().to_string()).or_default() += 1;
    }
    let expected = [("192.0.2.2", 75), ("192.0.2.3", 25), ("192.0.2.4", 1)];
    assert_eq!(
        firsts,
        expected.map(|(ip, count)| (ip.to_owned(), count)).into()
    );
}

#[test]
fn a_service_that_is_declined_is_not_looked_for_elsewhere() {
    // RFC 2782: "A Target of "." means that the service is decidedly not
    // available at this domain."
    let mut table = Table::default()
        .srv("_sip._udp.example.com", 0, 0, 0, ".")
        .addr("example.com", "192.0.2.1");
    assert_eq!(
        table.resolve("sip:example.com;transport=udp"),
        Err(LocateError::NotFound)
    );
}

#[test]
fn a_dead_target_leaves_the_others() {
    let mut table = Table::default()
        .srv("_sip._udp.example.com", 1, 0, 5060, "gone.example.com")
        .srv("_sip._udp.example.com", 2, 0, 5060, "slow.example.com")
        .srv("_sip._udp.example.com", 3, 0, 5062, "there.example.com")
        .failing(Kind::A, "slow.example.com", Answer::Timeout)
        .addr("there.example.com", "192.0.2.3");
    assert_eq!(
        table.resolve("sip:example.com;transport=udp").unwrap(),
        ["udp 192.0.2.3:5062"]
    );
}

#[test]
fn a_failure_is_told_from_a_name_that_is_not_there() {
    let name = "example.com";
    let failing = |answer| Table::default().failing(Kind::A, name, answer);
    assert_eq!(
        failing(Answer::Nothing).resolve("sip:example.com"),
        Err(LocateError::NotFound)
    );
    assert_eq!(
        failing(Answer::Timeout).resolve("sip:example.com"),
        Err(LocateError::Timeout)
    );
    assert_eq!(
        failing(Answer::Failed).resolve("sip:example.com"),
        Err(LocateError::Failed)
    );
    let both = failing(Answer::Timeout).failing(Kind::Aaaa, name, Answer::Failed);
    assert_eq!(
        { both }.resolve("sip:example.com"),
        Err(LocateError::Timeout)
    );
}

#[test]
fn places_are_bounded_and_none_comes_twice() {
    let mut table = Table::default();
    for n in 0..100 {
        table = table
            .srv(
                "_sip._udp.example.com",
                n,
                0,
                5060,
                &format!("h{n}.example.com"),
            )
            .addr(&format!("h{n}.example.com"), &format!("192.0.2.{}", n / 2));
    }
    let hops = table.resolve("sip:example.com;transport=udp").unwrap();
    let expected: Vec<String> = (0..8).map(|n| format!("udp 192.0.2.{n}:5060")).collect();
    assert_eq!(hops, expected);
    assert_eq!(table.asked.len(), 1 + 2 * HOSTS_MAX);
    let options = Options {
        hops_max: 3,
        ..Options::default()
    };
    let hops = table
        .resolve_with(query("sip:example.com;transport=udp"), options, &mut |_| 0)
        .unwrap();
    assert_eq!(hops.len(), 3);
}

#[test]
fn naptr_records_that_lead_nowhere_are_passed_over() {
    let mut table = Table::default()
        .naptr("example.com", 1, 1, "E2U+sip", "_sip._udp.other.com")
        .naptr("example.com", 1, 2, "SIP+D2S", "_sip._sctp.example.com")
        .addr("example.com", "192.0.2.1");
    assert_eq!(
        table.resolve("sip:example.com").unwrap(),
        ["udp 192.0.2.1:5060"]
    );
    assert!(
        !table
            .asked
            .iter()
            .any(|question| question.contains("sctp") || question.contains("other"))
    );
}
