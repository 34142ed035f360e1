//! The matrix of certificates: each row one that is wrong in one way, or in
//! none, shown to our server and to our client in both versions of TLS by a
//! plain rustls, which says what alert came of it. No byte of SIP goes up, the
//! reason is counted, and nothing is left behind.
#![allow(clippy::unwrap_used, clippy::panic)]

mod rows;

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::shown::Shown;
use crate::common::{Bench, Seen, any_port, handshake_failed, message, named, request, tls_client};
use rows::{Row, Verdict, alert_for, rows};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sip_msg::ListenerId;
use sip_net::{ListenerConfig, NetConfig};
use sip_tls::testing::TestCa;
use sip_tls::{
    ClientAuth, ClientTlsConfig, HandshakeConfig, HandshakeFailure, HandshakePool, ServerTlsConfig,
    TlsAlert, TlsVersion,
};

/// What a plain peer saw of a handshake with us.
#[derive(Debug, Default)]
struct Told {
    /// The alert that came, by its name.
    alert: Option<&'static str>,
    /// Bytes of data that came.
    data: Vec<u8>,
}

/// Shows one chain whatever is asked, or none.
#[derive(Debug)]
struct Shows(Option<Arc<CertifiedKey>>);

impl Shows {
    fn new(shown: &Shown) -> Self {
        let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).unwrap();
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
        let pair = CertifiedKey::new(shown.chain.clone(), key);
        Self((!shown.chain.is_empty()).then(|| Arc::new(pair)))
    }
}

impl rustls::server::ResolvesServerCert for Shows {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }
}

impl rustls::client::ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn plain(version: TlsVersion) -> [&'static rustls::SupportedProtocolVersion; 1] {
    [match version {
        TlsVersion::V12 => &rustls::version::TLS12,
        TlsVersion::V13 => &rustls::version::TLS13,
    }]
}

/// Goes on until the connection ends, or data has come.
fn drive<Data>(conn: &mut rustls::ConnectionCommon<Data>, socket: &mut TcpStream) -> Told {
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut told = Told::default();
    loop {
        let result = conn.complete_io(socket);
        let mut buffer = [0; 4_096];
        while let Ok(len @ 1..) = conn.reader().read(&mut buffer) {
            told.data.extend_from_slice(&buffer[..len]);
        }
        match result {
            Ok((0, 0)) => return told,
            Ok(_) if !told.data.is_empty() => return told,
            Ok(_) => {}
            Err(error) => {
                if let Some(rustls::Error::AlertReceived(alert)) =
                    error.get_ref().and_then(|inner| inner.downcast_ref())
                {
                    let code = u8::from(*alert);
                    let received = true;
                    told.alert = Some(TlsAlert { code, received }.name());
                } else {
                    assert_ne!(error.kind(), ErrorKind::WouldBlock, "nothing came");
                }
                return told;
            }
        }
    }
}

/// The domains for which a client speaks that was let in with this certificate.
fn speaks_for(row: &str) -> &'static [&'static str] {
    match row {
        "another name" | "a sip URI before the name" => &["example.org"],
        "a wildcard" | "a wildcard in a sip URI" | "a user's sip URI" | "the common name alone" => {
            &[]
        }
        _ => &["example.com"],
    }
}

/// Lets a plain client show a certificate to our server.
fn client_shows(row: &Row, version: TlsVersion) {
    let name = format!("a client's, TLS {}, {}", version.name(), row.name);
    let ca = TestCa::new();
    let shown = (row.make)(&ca);
    let (chain, key) = ca.issue(&["example.com"]);
    let mut config = ServerTlsConfig::new()
        .pair_pem(chain.as_bytes(), key.as_bytes())
        .unwrap()
        .versions(&[version])
        .client_auth(ClientAuth::Required)
        .roots_pem(&[ca.root_pem().as_bytes()])
        .unwrap();
    if let Some(crl) = &shown.crl {
        config = config.crl_pem(&[crl.as_bytes()]).unwrap();
    }
    let pool = HandshakePool::start(HandshakeConfig::default()).unwrap();
    let listener = ListenerConfig::tls(any_port("127.0.0.1"), Arc::new(config.build().unwrap()));
    let mut server = Bench::new(
        &[listener],
        NetConfig {
            handshakes: Some(pool.clone()),
            ..NetConfig::default()
        },
    );

    let mut roots = rustls::RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(ca.root_pem().as_bytes()).unwrap();
    roots.add(root).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&plain(version))
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(Shows::new(&shown)));
    let addr = server.addr();
    let client = std::thread::spawn(move || {
        let name = "example.com".try_into().unwrap();
        let mut conn = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        conn.writer().write_all(&request("secret")).unwrap();
        drive(&mut conn, &mut TcpStream::connect(addr).unwrap())
    });
    let mut proved = None;
    let answered = |server: &mut Bench, proved: &mut Option<Vec<String>>| {
        if let Some(peer) = server.seen.iter().find_map(crate::common::verified) {
            *proved = Some(peer.domains().iter().map(ToString::to_string).collect());
        }
        let flow = server.seen.iter().find_map(message)?.0;
        server.seen.clear();
        server
            .net
            .send(&sip_msg::Target::back(&flow), &request("back"), 0);
        server.net.flush();
        Some(())
    };
    let mut arrived = false;
    while !client.is_finished() {
        server.turn();
        arrived |= row.of_client == Verdict::In && answered(&mut server, &mut proved).is_some();
    }
    let told = client.join().unwrap();
    let Verdict::Out(fault) = row.of_client else {
        assert!(arrived && told.alert.is_none(), "{name}: {told:?}");
        let domains = proved.unwrap();
        assert_eq!(domains, speaks_for(row.name), "{name}");
        return;
    };
    assert_eq!(told.alert, Some(alert_for(fault)), "{name}");
    assert!(told.data.is_empty(), "{name}");
    let error = server.until(handshake_failed);
    assert_eq!(
        (error.failure, error.fault),
        (HandshakeFailure::BadCertificate, Some(fault)),
        "{name}"
    );
    let counters = server.net.counters();
    assert_eq!(
        (counters.tls.messages_in, counters.tls.bytes_in),
        (0, 0),
        "{name}"
    );
    let is_up = |seen: &Seen| matches!(seen, Seen::Accepted(_) | Seen::Verified(..));
    assert!(!server.seen.iter().any(is_up), "{name}");
    let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
    assert_eq!(tally.faults[fault as usize], 1, "{name}");
    assert_eq!(tally.failed.iter().sum::<u64>(), 1, "{name}");
    // Nothing of it is left.
    let patience = Instant::now();
    while pool.counters().under_way > 0 {
        assert!(patience.elapsed() < Duration::from_secs(30), "{name}");
        server.turn();
    }
    assert_eq!(
        (server.net.connection_count(), server.net.kept_bytes()),
        (0, 0),
        "{name}"
    );
}

/// Lets a plain server show a certificate to our client.
fn server_shows(row: &Row, version: TlsVersion) {
    let name = format!("a server's, TLS {}, {}", version.name(), row.name);
    let ca = TestCa::new();
    let shown = (row.make)(&ca);
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&plain(version))
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Shows::new(&shown)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr: SocketAddr = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut conn = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        drive(&mut conn, &mut socket)
    });
    let mut trust = ClientTlsConfig::new()
        .roots_pem(&[ca.root_pem().as_bytes()])
        .unwrap();
    if let Some(crl) = &shown.crl {
        trust = trust.crl_pem(&[crl.as_bytes()]).unwrap();
    }
    let mut client = tls_client(trust.build().unwrap());
    client
        .net
        .send(&named(addr, "example.com"), &request("secret"), 1);
    while !server.is_finished() {
        client.turn();
    }
    let told = server.join().unwrap();
    let Verdict::Out(fault) = row.of_server else {
        assert_eq!(told.data, request("secret"), "{name}: {told:?}");
        return;
    };
    assert_eq!(told.alert, Some(alert_for(fault)), "{name}");
    assert!(told.data.is_empty(), "{name}");
    let error = client.until(handshake_failed);
    assert_eq!(
        (error.failure, error.fault),
        (HandshakeFailure::BadCertificate, Some(fault)),
        "{name}"
    );
    assert_eq!(client.until(crate::common::send_failed).0, 1, "{name}");
    let tally = client.net.opened_tls();
    assert_eq!(tally.faults[fault as usize], 1, "{name}");
    assert_eq!(client.net.connection_count(), 0, "{name}");
    let is_up = |seen: &Seen| matches!(seen, Seen::Opened(_) | Seen::Verified(..));
    assert!(!client.seen.iter().any(is_up), "{name}");
}

#[test]
fn the_certificate_of_a_client() {
    for version in TlsVersion::ALL {
        let rows = rows().into_iter();
        rows.filter(|row| row.of_client != Verdict::Never)
            .for_each(|row| client_shows(&row, version));
    }
}

#[test]
fn the_certificate_of_a_server() {
    for version in TlsVersion::ALL {
        let rows = rows().into_iter();
        rows.filter(|row| row.of_server != Verdict::Never)
            .for_each(|row| server_shows(&row, version));
    }
}

/// The two tests above see to it that what is written is what happens.
#[test]
fn the_matrix_is_written_down() {
    let rows = rows();
    let wrong = rows
        .iter()
        .filter(|row| matches!(row.of_client, Verdict::Out(_)) || row.of_server != Verdict::In);
    assert!(wrong.count() >= 20);
    let said = |verdict: Verdict| match verdict {
        Verdict::In => "accepted".to_owned(),
        Verdict::Out(fault) => format!("`{}`, alert `{}`", fault.name(), alert_for(fault)),
        Verdict::Never => "-".to_owned(),
    };
    let mut table =
        String::from("| certificate | shown by a server | shown by a client |\n|---|---|---|\n");
    for row in &rows {
        let server = said(row.of_server);
        let client = match (row.of_client, speaks_for(row.name)) {
            (Verdict::In, []) => "accepted, speaks for nobody".to_owned(),
            (Verdict::In, [domain]) => format!("accepted, speaks for `{domain}`"),
            (verdict, _) => said(verdict),
        };
        writeln!(table, "| {} | {server} | {client} |", row.name).unwrap();
    }
    println!("{table}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/TLS.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(
        text.contains(&table),
        "docs/TLS.md has not this table:\n{table}"
    );
}
