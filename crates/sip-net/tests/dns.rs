//! Names resolved over a real DNS client, from a DNS server of our own.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use sip_locate::{Hop, LocateError, Query};
use sip_msg::Transport;
use sip_net::testing::{DnsServer, Record};
use sip_net::{
    DnsClient, DnsConfig, DnsError, DnsThread, ListenerConfig, Net, NetConfig, SystemFiles, bind,
};

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

    /// Whether the name can be resolved.
    fn finds(&mut self, host: &str) -> bool {
        self.client.ask(1, query(host)).unwrap();
        self.answer().1.is_ok()
    }

    /// Asks for a name again and again until it can be resolved.
    fn finds_in_the_end(&mut self, host: &str) {
        let patience = Instant::now();
        while !self.finds(host) {
            assert!(patience.elapsed() < Duration::from_secs(60), "{host}");
            std::thread::sleep(Duration::from_millis(100));
        }
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

/// Files of a system, in a folder that goes with this value.
struct System {
    folder: std::path::PathBuf,
    files: SystemFiles,
}

impl System {
    /// Its name servers have the port of this one.
    fn new(name: &str, server: &DnsServer) -> Self {
        let folder = std::env::temp_dir().join(format!("signet-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let files = SystemFiles {
            resolv_conf: folder.join("resolv.conf"),
            port: server.addr().port(),
            hosts: folder.join("hosts"),
        };
        Self { folder, files }
    }

    fn thread(&self) -> DnsThread {
        DnsThread::start(DnsConfig {
            system: self.files.clone(),
            timeout_ms: 100,
            deadline_ms: 1_000,
            ..DnsConfig::default()
        })
        .unwrap()
    }

    /// Writes a file anew, as programs do that have a lease.
    fn write(&self, name: &str, text: &str) {
        let new = self.folder.join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, self.folder.join(name)).unwrap();
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A server with one name, and an address of the machine where none is.
fn one_name() -> DnsServer {
    DnsServer::start(vec![record(
        "one.example.com",
        Record::Addr("192.0.2.1".parse().unwrap()),
    )])
    .unwrap()
}
const NOBODY: &str = "nameserver 127.0.0.77\n";
const SERVER: &str = "nameserver 127.0.0.1 # by a lease\n";

#[test]
fn name_servers_that_come_after_the_start_are_found() {
    let server = one_name();
    let system = System::new("dns-late", &server);
    system.write("resolv.conf", NOBODY);
    let thread = system.thread();
    let mut asker = Asker::new(&thread);
    assert!(!asker.finds("one.example.com"));
    system.write("resolv.conf", SERVER);
    asker.finds_in_the_end("one.example.com");
    // And one that nobody is asked for.
    assert!(!asker.finds("two.example.com"));
    system.write("hosts", "192.0.2.2 two.example.com\n");
    asker.finds_in_the_end("two.example.com");
}

#[test]
fn a_reload_reads_the_files_at_once() {
    let server = one_name();
    let system = System::new("dns-reload", &server);
    system.write("resolv.conf", NOBODY);
    let thread = system.thread();
    let mut asker = Asker::new(&thread);
    system.write("resolv.conf", SERVER);
    thread.read_again();
    assert!(asker.finds("one.example.com"));
    // Of files that are as before, what is known of names stays.
    let asked = server.question_count();
    system.write("resolv.conf", SERVER);
    thread.read_again();
    assert!(asker.finds("one.example.com"));
    assert_eq!(server.question_count(), asked);
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
