use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};

use super::*;
use crate::testing::TestCa;

struct Configs {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

fn configs(version: &'static SupportedProtocolVersion) -> Configs {
    let ca = TestCa::new();
    let (chain, key) = ca.issue(&["example.com"]);
    let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    let root = ca.root_pem();
    roots
        .add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Configs {
        server: Arc::new(server),
        client: Arc::new(client),
    }
}

/// One side: its session, what came for it, and what it got out of that.
pub(crate) struct End {
    pub(crate) session: Session,
    unread: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// What it said before anything came.
    pub(crate) said: Vec<u8>,
    pub(crate) established: bool,
    pub(crate) failed: bool,
}

impl End {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            unread: Vec::new(),
            data: Vec::new(),
            said: Vec::new(),
            established: false,
            failed: false,
        }
    }

    /// Takes bytes; gives what it answers.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut output = std::mem::take(&mut self.said);
        if self.failed {
            return output;
        }
        self.unread.extend_from_slice(bytes);
        let data = &mut self.data;
        let result = self
            .session
            .receive(&mut self.unread, &mut output, &mut |bytes| {
                data.extend_from_slice(bytes)
            });
        match result {
            Ok(progress) => {
                self.unread.drain(..progress.consumed);
                self.established |= progress.established;
            }
            Err(_) => self.failed = true,
        }
        output
    }

    pub(crate) fn send(&mut self, data: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        if self.established && !self.failed {
            self.session
                .send(data, &mut self.unread, &mut output)
                .unwrap();
        }
        output
    }
}

fn pair(configs: &Configs) -> (End, End) {
    let server = UnbufferedServerConnection::new(Arc::clone(&configs.server)).unwrap();
    let name = ServerName::try_from("example.com").unwrap();
    let client = UnbufferedClientConnection::new(Arc::clone(&configs.client), name).unwrap();
    (
        End::new(Session(Side::Server(Box::new(server)))),
        End::new(Session(Side::Client(Box::new(client)))),
    )
}

/// Lets both talk until neither has anything to say; `spoil` may change what
/// is under way, given its number.
pub(crate) fn talk(
    server: &mut End,
    client: &mut End,
    chunk: usize,
    spoil: &mut impl FnMut(usize, &mut Vec<u8>),
) {
    let mut to_server = client.take(&[]);
    for turn in 0..20 {
        spoil(2 * turn, &mut to_server);
        let mut to_client = Vec::new();
        for piece in to_server.chunks(chunk) {
            to_client.extend(server.take(piece));
            // A write may fall between any two bytes that come.
            to_client.extend(server.send(b"between"));
        }
        spoil(2 * turn + 1, &mut to_client);
        to_server = Vec::new();
        for piece in to_client.chunks(chunk) {
            to_server.extend(client.take(piece));
        }
        if to_server.is_empty() && turn > 0 {
            return;
        }
    }
}

#[test]
fn a_handshake_and_data_pass_at_every_split() {
    for version in [&TLS12, &TLS13] {
        let configs = configs(version);
        for chunk in [1, 2, 3, 5, 7, 100, 1_000, 100_000] {
            let (mut server, mut client) = pair(&configs);
            talk(&mut server, &mut client, chunk, &mut |_, _| {});
            assert!(server.established && client.established, "{chunk}");
            // The first leaves a ticket to those after it.
            assert_eq!(server.session.is_resumed(), chunk != 1);
            assert_eq!(client.session.is_resumed(), chunk != 1);
            server.data.clear();
            client.data.clear();
            let message: Vec<u8> = (0..40_000u32).map(|n| n as u8).collect();
            let records = client.send(&message);
            for piece in records.chunks(chunk) {
                assert!(server.take(piece).is_empty());
                // What is unread is kept for the next piece, writes or not.
                let answer = server.send(b"pong");
                client.take(&answer);
            }
            assert_eq!(server.data, message);
            assert_eq!(client.data, b"pong".repeat(records.chunks(chunk).len()));
        }
    }
}

#[test]
fn a_notice_of_the_end_is_understood() {
    let configs = configs(&TLS13);
    let (mut server, mut client) = pair(&configs);
    talk(&mut server, &mut client, 1_000, &mut |_, _| {});
    let mut notice = client.send(b"last");
    let (unread, output) = (&mut client.unread, &mut notice);
    client.session.send_close(unread, output).unwrap();
    let mut data = Vec::new();
    let mut answer = Vec::new();
    let progress = server
        .session
        .receive(&mut notice, &mut answer, &mut |bytes| {
            data.extend_from_slice(bytes)
        })
        .unwrap();
    assert!(progress.peer_closed);
    assert_eq!(data, b"last");
}

#[test]
fn spoiled_bytes_fail_with_an_alert_and_never_panic() {
    let mut failures = 0;
    let mut alerts = 0;
    for version in [&TLS12, &TLS13] {
        let configs = configs(version);
        let mut lots = 1u64;
        let mut lot = |max: usize| {
            lots = lots.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (lots >> 33) as usize % max.max(1)
        };
        for round in 0..300 {
            let (mut server, mut client) = pair(&configs);
            let (victim, chunk) = (lot(5), [3, 50, 100_000][round % 3]);
            let mut spoil = |number: usize, bytes: &mut Vec<u8>| {
                if number != victim || bytes.is_empty() {
                    return;
                }
                let place = lot(bytes.len());
                match lot(4) {
                    0 => bytes[place] ^= 1 << lot(8),
                    1 => bytes.truncate(place),
                    2 => bytes.insert(place, lot(256) as u8),
                    _ => bytes.extend_from_within(place..),
                }
            };
            talk(&mut server, &mut client, chunk, &mut spoil);
            // Spoiled data after a good handshake, too.
            let mut record = client.send(b"data");
            if !record.is_empty() {
                let place = lot(record.len());
                record[place] ^= 0x10;
                alerts += usize::from(!server.take(&record).is_empty());
                server.take(&[0; 100]);
            }
            failures += usize::from(server.failed || client.failed);
        }
    }
    assert!(failures > 300, "{failures}");
    assert!(alerts > 50, "{alerts}");
}
