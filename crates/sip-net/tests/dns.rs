//! Names resolved over a real DNS client, from a DNS server of our own.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use sip_locate::{Hop, LocateError, Query};
use sip_msg::Transport;
use sip_net::testing::{DnsServer, Record};
use sip_net::{DnsClient, DnsConfig, DnsError, DnsThread, ListenerConfig, Net, NetConfig, bind};

struct Asker {
    net: Net,
    client: DnsClient,
}

impl Asker {
    fn new(thread: &DnsThread) -> Self {
        let listener = ListenerConfig::new(Transport::Udp, "127.0.0.1:0".parse().unwrap());
        let net = Net::new(
            0,
            NetConfig::default(),
            bind(&[listener], 1).unwrap().remove(0),
        )
        .unwrap();
        let client = thread.client(net.waker());
        Self { net, client }
    }

    /// Waits as a worker does: the answer wakes it.
    fn answer(&mut self) -> (u64, Result<Vec<Hop>, LocateError>) {
        let patience = Instant::now();
        loop {
            if let Some(answer) = self.client.next_answer() {
                return answer;
            }
            assert!(patience.elapsed() < Duration::from_secs(30), "no answer");
            self.net.poll(Some(Duration::from_secs(1)), |_| {}).unwrap();
        }
    }
}

fn start(server: &DnsServer, config: DnsConfig) -> DnsThread {
    DnsThread::start(DnsConfig {
        servers: vec![server.addr()],
        ..config
    })
    .unwrap()
}

fn query(host: &str) -> Query {
    Query {
        host: host.into(),
        port: None,
        transport: None,
        secure: false,
        is_configured: false,
    }
}

fn record(name: &str, record: Record) -> (String, Record) {
    (name.to_owned(), record)
}

#[test]
fn naptr_srv_and_addresses_come_in_order() {
    let srv = |priority, port, target: &str| Record::Srv(priority, 0, port, target.to_owned());
    let naptr = |order, service: &str, to: &str| {
        Record::Naptr(order, 0, "s".into(), service.into(), to.into())
    };
    let server = DnsServer::start(vec![
        record("example.com", naptr(2, "SIP+D2U", "_sip._udp.example.com")),
        record("example.com", naptr(1, "SIP+D2T", "_sip._tcp.example.com")),
        record("_sip._tcp.example.com", srv(20, 5062, "b.example.com")),
        record("_sip._tcp.example.com", srv(10, 5061, "dead.example.com")),
        record("_sip._udp.example.com", srv(0, 5060, "alias.example.com")),
        record(
            "dead.example.com",
            Record::Addr("127.0.0.2".parse().unwrap()),
        ),
        record("b.example.com", Record::Addr("127.0.0.3".parse().unwrap())),
        record("b.example.com", Record::Addr("::1".parse().unwrap())),
        record("alias.example.com", Record::Cname("c.example.com".into())),
        record("c.example.com", Record::Addr("127.0.0.4".parse().unwrap())),
    ])
    .unwrap();
    let thread = start(&server, DnsConfig::default());
    let mut asker = Asker::new(&thread);
    asker.client.ask(7, query("example.com")).unwrap();
    let (id, hops) = asker.answer();
    let hops: Vec<_> = hops
        .unwrap()
        .iter()
        .map(|hop| format!("{:?} {}", hop.transport, hop.addr))
        .collect();
    assert_eq!(id, 7);
    assert_eq!(
        hops,
        [
            "Tcp 127.0.0.2:5061",
            "Tcp [::1]:5062",
            "Tcp 127.0.0.3:5062",
            "Udp 127.0.0.4:5060"
        ]
    );
    // What was learned is remembered.
    let asked = server.question_count();
    assert!(asked > 0);
    asker.client.ask(8, query("EXAMPLE.com")).unwrap();
    assert_eq!(asker.answer().1.unwrap().len(), 4);
    assert_eq!(server.question_count(), asked);
}

#[test]
fn a_name_that_is_not_there_is_not_found() {
    let server = DnsServer::start(vec![record(
        "example.com",
        Record::Cname("nowhere.example.com".into()),
    )])
    .unwrap();
    let thread = start(&server, DnsConfig::default());
    let mut asker = Asker::new(&thread);
    for name in ["missing.example.com", "example.com"] {
        asker.client.ask(1, query(name)).unwrap();
        assert_eq!(asker.answer(), (1, Err(LocateError::NotFound)), "{name}");
    }
}

#[test]
fn silence_ends_at_the_deadline_and_the_number_of_questions_is_bounded() {
    let server = DnsServer::start(Vec::new()).unwrap();
    server.set_silent(true);
    let config = DnsConfig {
        deadline_ms: 300,
        timeout_ms: 200,
        queries_max: 2,
        ..DnsConfig::default()
    };
    let thread = start(&server, config);
    let mut asker = Asker::new(&thread);
    asker.client.ask(1, query("a.example.com")).unwrap();
    asker.client.ask(2, query("b.example.com")).unwrap();
    assert_eq!(
        asker.client.ask(3, query("c.example.com")),
        Err(DnsError::Busy)
    );
    assert_eq!(asker.answer().1, Err(LocateError::Timeout));
    assert_eq!(asker.answer().1, Err(LocateError::Timeout));
    // There is room again, and addresses need nobody's answer.
    asker.client.ask(4, query("192.0.2.1")).unwrap();
    assert_eq!(asker.answer().1.unwrap().len(), 1);
}

#[test]
fn places_are_kept_for_names_that_the_operator_wrote_down() {
    let server = DnsServer::start(Vec::new()).unwrap();
    server.set_silent(true);
    let config = DnsConfig {
        queries_max: 8,
        ..DnsConfig::default()
    };
    let thread = start(&server, config);
    let asker = Asker::new(&thread);
    let name = |n: u64| query(&format!("n{n}.example.com"));
    let configured = |n: u64| Query {
        is_configured: true,
        ..name(n)
    };
    for n in 0..6 {
        asker.client.ask(n, name(n)).unwrap();
    }
    assert_eq!(asker.client.ask(6, name(6)), Err(DnsError::Busy));
    for n in 6..8 {
        asker.client.ask(n, configured(n)).unwrap();
    }
    assert_eq!(asker.client.ask(8, configured(8)), Err(DnsError::Busy));
}

#[test]
fn each_worker_gets_its_own_answers() {
    let server = DnsServer::start(vec![record(
        "one.example.com",
        Record::Addr("127.0.0.1".parse().unwrap()),
    )])
    .unwrap();
    let thread = start(&server, DnsConfig::default());
    let (mut first, mut second) = (Asker::new(&thread), Asker::new(&thread));
    first.client.ask(1, query("one.example.com")).unwrap();
    second.client.ask(2, query("none.example.com")).unwrap();
    assert_eq!(second.answer(), (2, Err(LocateError::NotFound)));
    assert_eq!(first.answer().0, 1);
    assert_eq!(
        (first.client.next_answer(), second.client.next_answer()),
        (None, None)
    );
}
