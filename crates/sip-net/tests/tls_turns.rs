//! Who computes for a handshake, and when its last flight leaves.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Bench, any_port, closed, message, request, tls_server_by};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, NamedGroup, SignatureScheme,
};
use sip_msg::Target;
use sip_net::clock::Clock;
use sip_net::{ListenerConfig, NetConfig};
use sip_tls::testing::{KeyKind, TestCa, TlsAccept};
use sip_tls::{
    Class, ClientAuth, Handshake, HandshakeConfig, HandshakeCounters, HandshakePool, ServerTls,
    ServerTlsConfig, Side, TlsVersion, Weight,
};

/// A server and the threads that may compute for it.
struct Server {
    bench: Bench,
    pool: HandshakePool,
}

impl Server {
    fn new(kinds: &[KeyKind], auth: ClientAuth, handshakes: HandshakeConfig) -> Self {
        Self::by(ServerTlsConfig::new(), kinds, auth, handshakes)
    }

    fn by(
        tls: ServerTlsConfig,
        kinds: &[KeyKind],
        auth: ClientAuth,
        handshakes: HandshakeConfig,
    ) -> Self {
        let ca = TestCa::new();
        let mut tls = tls.client_auth(auth);
        if auth != ClientAuth::Off {
            tls = tls.roots_pem(&[ca.root_pem().as_bytes()]).unwrap();
        }
        for kind in kinds {
            let (chain, key) = ca.issue_with(&["example.com"], *kind);
            tls = tls.pair_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        }
        let pool = HandshakePool::start(handshakes).unwrap();
        let config = NetConfig {
            handshakes: Some(pool.clone()),
            ..NetConfig::default()
        };
        let listener = ListenerConfig::tls(any_port("127.0.0.1"), Arc::new(tls.build().unwrap()));
        Self {
            bench: Bench::new(&[listener], config),
            pool,
        }
    }

    fn until(&mut self, done: impl Fn(HandshakeCounters) -> bool) -> HandshakeCounters {
        let patience = Instant::now();
        loop {
            let now = self.pool.counters();
            if done(now) {
                return now;
            }
            assert!(patience.elapsed() < Duration::from_secs(30), "{now:?}");
            self.bench.turn();
        }
    }
}

/// Believes every server, and verifies signatures by these schemes only.
#[derive(Debug)]
struct Verifies(Vec<SignatureScheme>);

impl ServerCertVerifier for Verifies {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

const SCHEMES: [SignatureScheme; 3] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

fn client(schemes: &[SignatureScheme], version: TlsVersion) -> ClientConnection {
    let config = Arc::new(client_config(schemes, version));
    ClientConnection::new(config, "example.com".try_into().unwrap()).unwrap()
}

fn client_config(schemes: &[SignatureScheme], version: TlsVersion) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let version = match version {
        TlsVersion::V12 => &rustls::version::TLS12,
        TlsVersion::V13 => &rustls::version::TLS13,
    };
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifies(schemes.to_vec())))
        .with_no_client_auth()
}

/// A client that said hello and waits.
fn begin(addr: SocketAddr, mut tls: ClientConnection) -> (TcpStream, ClientConnection) {
    let mut socket = TcpStream::connect(addr).unwrap();
    while tls.wants_write() {
        tls.write_tls(&mut socket).unwrap();
    }
    (socket, tls)
}

/// Ends the handshake from another thread while the server turns.
fn complete(
    server: &mut Server,
    begun: (TcpStream, ClientConnection),
) -> (TcpStream, ClientConnection) {
    let (mut socket, mut tls) = begun;
    let thread = std::thread::spawn(move || {
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).unwrap();
        }
        (socket, tls)
    });
    while !thread.is_finished() {
        server.bench.turn();
    }
    thread.join().unwrap()
}

#[test]
fn a_worker_signs_itself_what_is_signed_quickly() {
    let rsa_only = &SCHEMES[2..];
    for (kinds, schemes, on_worker) in [
        (&[KeyKind::P256][..], &SCHEMES[..], true),
        (&[KeyKind::Ed25519], &SCHEMES, true),
        (&[KeyKind::Rsa2048], &SCHEMES, false),
        (&[KeyKind::P256, KeyKind::Rsa2048], &SCHEMES, true),
        (&[KeyKind::P256, KeyKind::Rsa2048], rsa_only, false),
        (&[KeyKind::Rsa2048, KeyKind::P256], &SCHEMES, false),
    ] {
        for version in TlsVersion::ALL {
            let mut server = Server::new(kinds, ClientAuth::Off, HandshakeConfig::default());
            let begun = begin(server.bench.addr(), client(schemes, version));
            complete(&mut server, begun);
            let now = server.until(|now| now.done == 1);
            assert_eq!(
                (now.full_begun, now.full_on_workers),
                (1, u64::from(on_worker)),
                "{kinds:?} {version:?}"
            );
        }
    }
}

#[test]
fn a_flood_is_left_to_the_threads() {
    let mut server = Server::new(
        &[KeyKind::P256],
        ClientAuth::Off,
        HandshakeConfig::default(),
    );
    let addr = server.bench.addr();
    let flood: Vec<_> = (0..400)
        .map(|_| begin(addr, client(&SCHEMES, TlsVersion::V13)))
        .collect();
    let now = server.until(|now| now.full_begun == 400);
    // Those that came before it was one.
    assert!(
        now.full_on_workers <= 64,
        "{} of 400 on the worker",
        now.full_on_workers
    );
    for begun in flood {
        complete(&mut server, begun);
    }
    let now = server.until(|now| now.done == 400);
    assert_eq!((now.refused, now.full_waiting, now.unread), (0, 0, 0));
}

#[test]
fn paced_handshakes_are_left_to_the_thread_that_counts_them() {
    let config = HandshakeConfig {
        full_per_s_max: 1_000,
        ..HandshakeConfig::default()
    };
    let mut server = Server::new(&[KeyKind::P256], ClientAuth::Off, config);
    let begun = begin(server.bench.addr(), client(&SCHEMES, TlsVersion::V13));
    complete(&mut server, begun);
    let now = server.until(|now| now.done == 1);
    assert_eq!((now.full_begun, now.full_on_workers), (1, 0));
}

#[test]
fn tickets_leave_with_the_first_data_and_soon_without_any() {
    let mut server = Server::new(
        &[KeyKind::P256],
        ClientAuth::Off,
        HandshakeConfig::default(),
    );
    let addr = server.bench.addr();
    let (mut socket, mut tls) =
        complete(&mut server, begin(addr, client(&SCHEMES, TlsVersion::V13)));
    tls.writer().write_all(&request("x")).unwrap();
    while tls.wants_write() {
        tls.write_tls(&mut socket).unwrap();
    }
    let (flow, _) = server.bench.until(message);
    server
        .bench
        .net
        .send(&Target::back(&flow), &request("y"), 0);
    server.bench.net.flush();
    // One write on their side: one read has all of it.
    let mut heard = vec![0; 16_384];
    let len = socket.read(&mut heard).unwrap();
    tls.read_tls(&mut &heard[..len]).unwrap();
    let state = tls.process_new_packets().unwrap();
    assert_eq!(tls.tls13_tickets_received(), 2);
    assert_eq!(state.plaintext_bytes_to_read(), request("y").len());

    // Who says nothing and hears nothing gets them too.
    let (mut socket, mut tls) =
        complete(&mut server, begin(addr, client(&SCHEMES, TlsVersion::V13)));
    let thread = std::thread::spawn(move || {
        while tls.tls13_tickets_received() < 2 {
            assert_ne!(tls.read_tls(&mut socket).unwrap(), 0);
            tls.process_new_packets().unwrap();
        }
    });
    let patience = Instant::now();
    while !thread.is_finished() {
        assert!(patience.elapsed() < Duration::from_secs(30));
        server.bench.turn();
    }
    thread.join().unwrap();
    assert!(!server.bench.net.has_unsent());
}

/// Else whoever sends much with the end of each handshake makes turns long, and waits for none.
#[test]
fn a_turn_has_room_for_so_much_that_comes_with_the_ends_of_handshakes() {
    let mut server = Server::new(
        &[KeyKind::P256],
        ClientAuth::Off,
        HandshakeConfig::default(),
    );
    let addr = server.bench.addr();
    let begun = (0..8).map(|_| begin(addr, client(&SCHEMES, TlsVersion::V13)));
    let mut begun: Vec<_> = begun.collect();
    server.until(|now| now.full_begun == 8);
    let patience = Instant::now();
    for (socket, tls) in &mut begun {
        socket.set_nonblocking(true).unwrap();
        while tls.is_handshaking() {
            assert!(patience.elapsed() < Duration::from_secs(30));
            server.bench.turn();
            if tls.read_tls(socket).is_ok() {
                tls.process_new_packets().unwrap();
            }
        }
    }
    let sent = request(&"x".repeat(2_000));
    for (socket, tls) in &mut begun {
        tls.set_buffer_limit(None);
        tls.writer().write_all(&sent.repeat(18)).unwrap();
        while tls.wants_write() {
            tls.write_tls(socket).unwrap();
        }
    }
    let mut done = 0;
    while done < 8 {
        assert!(patience.elapsed() < Duration::from_secs(30));
        server.bench.turn();
        let before = std::mem::replace(&mut done, server.pool.counters().done);
        // Of 40 KB each.
        assert!(done <= before + 4, "{before} {done}");
    }
    let patience = Instant::now();
    while server.bench.seen.iter().filter_map(message).count() < 8 * 18 {
        assert!(patience.elapsed() < Duration::from_secs(30));
        server.bench.turn();
    }
}

/// A record that holds nothing of SIP may come in parts, like the ticket of a server with a long
/// chain. Nothing is begun once it is whole, and nobody is closed for not going on.
#[test]
fn a_record_in_two_parts_begins_no_message() {
    let (chain, key) = TestCa::new().issue_with(&["example.com"], KeyKind::P256);
    let tls = ServerTlsConfig::new().pair_pem(chain.as_bytes(), key.as_bytes());
    let tls = Arc::new(tls.unwrap().build().unwrap());
    let mut server = tls_server_by(tls, HandshakeConfig::default(), Clock::given());
    let (mut socket, mut tls) = begin(server.addr(), client(&SCHEMES, TlsVersion::V13));
    let thread = std::thread::spawn(move || {
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).unwrap();
        }
        tls.writer().write_all(&request("whole")).unwrap();
        tls.complete_io(&mut socket).unwrap();
        (socket, tls)
    });
    server.message();
    let (mut socket, mut tls) = thread.join().unwrap();
    tls.refresh_traffic_keys().unwrap();
    let mut record = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut record).unwrap();
    }
    let (first, second) = record.split_at(record.len() / 2);
    socket.write_all(first).unwrap();
    while server.net.kept_bytes() == 0 {
        server.turn();
    }
    socket.write_all(second).unwrap();
    while server.net.kept_bytes() > 0 {
        server.turn();
    }
    for _ in 0..2 {
        server.clock.pass(NetConfig::default().message_timeout_ms);
        server.turn();
        server.turn();
    }
    assert_eq!(server.seen.iter().find_map(closed), None);
    // The keys are the new ones.
    tls.writer().write_all(&request("after it")).unwrap();
    while tls.wants_write() {
        tls.write_tls(&mut socket).unwrap();
    }
    server.message();
}

/// Takes a session of any server for that of every other.
#[derive(Debug)]
struct AllAlike {
    sessions: ClientSessionMemoryCache,
    name: ServerName<'static>,
    tickets: AtomicUsize,
    /// Whether it knows which group the server takes.
    has_hints: bool,
}

impl ClientSessionStore for AllAlike {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(self.name.clone(), group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(&self.name).filter(|_| self.has_hints)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
        self.sessions.set_tls12_session(self.name.clone(), value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions.tls12_session(&self.name)
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.sessions.remove_tls12_session(&self.name);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
        self.sessions.insert_tls13_ticket(self.name.clone(), value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions.take_tls13_ticket(&self.name)
    }
}

/// A ticket is good for the name that it was made for. Whoever offers it for another is served
/// as one without a ticket: by a thread, in his turn. So is whoever is asked for another hello.
#[test]
fn a_ticket_buys_no_signature_on_the_worker() {
    // Its name, and how many handshakes of each kind there were by then.
    let at_once = [
        ("example.com", (1, 0)),
        ("example.com", (1, 1)),
        ("example.org", (2, 1)),
        ("example.net", (3, 1)),
    ];
    // What seems to resume a session has another turn with its second hello.
    let asked_again = [
        ("example.com", (1, 0)),
        ("example.com", (2, 1)),
        ("example.org", (3, 2)),
    ];
    visits(TlsVersion::V12, true, &at_once);
    visits(TlsVersion::V13, true, &at_once);
    visits(TlsVersion::V13, false, &asked_again);
}

fn visits(version: TlsVersion, has_hints: bool, visits: &[(&'static str, (u64, u64))]) {
    let mut tls = ServerTlsConfig::new();
    if !has_hints {
        tls = tls.groups(&["P-384"]);
    }
    let config = HandshakeConfig::default();
    let mut server = Server::by(tls, &[KeyKind::Rsa2048], ClientAuth::Off, config);
    let store = Arc::new(AllAlike {
        sessions: ClientSessionMemoryCache::new(8),
        name: "example.com".try_into().unwrap(),
        tickets: AtomicUsize::new(0),
        has_hints,
    });
    let mut tls = client_config(&SCHEMES, version);
    tls.resumption = Resumption::store(Arc::<AllAlike>::clone(&store));
    let tls = Arc::new(tls);
    for ((name, (full, resumed)), done) in visits.iter().zip(1..) {
        let client = ClientConnection::new(Arc::clone(&tls), (*name).try_into().unwrap());
        let begun = begin(server.bench.addr(), client.unwrap());
        let before = store.tickets.load(Ordering::Relaxed);
        let (mut socket, mut client) = complete(&mut server, begun);
        client.writer().write_all(&request("x")).unwrap();
        client.write_tls(&mut socket).unwrap();
        server.bench.until(message);
        socket.set_nonblocking(true).unwrap();
        let patience = Instant::now();
        while store.tickets.load(Ordering::Relaxed) == before {
            assert!(patience.elapsed() < Duration::from_secs(30));
            server.bench.turn();
            if client.read_tls(&mut socket).is_ok() {
                client.process_new_packets().unwrap();
            }
        }
        let now = server.until(|now| now.done == done);
        assert_eq!(
            (now.full_begun, now.full_on_workers, now.resumed_begun),
            (*full, 0, *resumed),
            "{version:?} {name} {has_hints}"
        );
    }
}

/// Whoever is asked for another hello (RFC 8446 4.1.4) has yet to be signed for.
#[test]
fn what_is_yet_to_be_signed_is_not_light() {
    let (chain, key) = TestCa::new().issue_with(&["example.com"], KeyKind::Rsa2048);
    let (full, heavy, light) = (Some(Class::Full), Weight::Heavy, Weight::Light);
    for (group, expected) in [
        ("X25519", &[(full, heavy), (None, light)][..]),
        ("P-384", &[(full, heavy), (None, heavy), (None, light)]),
    ] {
        let tls = ServerTlsConfig::new().groups(&[group]);
        let tls = tls.pair_pem(chain.as_bytes(), key.as_bytes());
        let side = Side::Server(Arc::new(tls.unwrap().build().unwrap()));
        let mut ours = Handshake::new(side, ([192, 0, 2, 1], 5061).into());
        let mut client = client(&SCHEMES, TlsVersion::V13);
        let mut steps = Vec::new();
        while !ours.established {
            client.write_tls(&mut ours.input).unwrap();
            let class = (!ours.is_begun()).then(|| ours.class().unwrap());
            steps.push((class, ours.weight(class)));
            ours.step().0.unwrap();
            client.read_tls(&mut &ours.output[..]).unwrap();
            ours.output.clear();
            client.process_new_packets().unwrap();
        }
        assert_eq!(steps, expected, "{group}");
    }
}

/// The place of the certificate that a client is shown who asks for this name.
fn shown(server: &Arc<ServerTls>, chains: &[CertificateDer<'_>], name: &str) -> Option<usize> {
    let mut accept = TlsAccept::new(server, ([192, 0, 2, 1], 5061).into());
    let config = Arc::new(client_config(&SCHEMES, TlsVersion::V13));
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(config, name).unwrap();
    let mut read = 0;
    while client.is_handshaking() {
        let mut said = Vec::new();
        client.write_tls(&mut said).unwrap();
        accept.take(&said).unwrap();
        client.read_tls(&mut &accept.sent()[read..]).unwrap();
        read = accept.sent().len();
        client.process_new_packets().unwrap();
    }
    let shown = client.peer_certificates()?.first()?;
    chains.iter().position(|chain| chain == shown)
}

#[test]
fn a_wildcard_stands_for_one_label_where_nobody_bears_the_name_itself() {
    let ca = TestCa::new();
    let (mut tls, mut chains) = (ServerTlsConfig::new(), Vec::new());
    for name in ["first.example", "*.example.com", "own.example.com"] {
        let (chain, key) = ca.issue(&[name]);
        tls = tls.pair_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        chains.push(CertificateDer::from_pem_slice(chain.as_bytes()).unwrap());
    }
    let server = Arc::new(tls.build().unwrap());
    for (name, place) in [
        ("phone.Example.com", 1),
        ("own.example.com", 2),
        ("example.com", 0),
        ("a.phone.example.com", 0),
        ("localhost", 0),
    ] {
        assert_eq!(shown(&server, &chains, name), Some(place), "{name}");
    }
}
