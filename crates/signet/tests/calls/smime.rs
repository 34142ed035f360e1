//! S/MIME end to end: bodies pass through Signet and through Kamailio byte for byte, and calls
//! that bear them are opened by whoever they are for.
//!
//! A machine that runs tests is no place for measurements: the generator may well doubt itself
//! there (exit code 3). What is asserted is what it counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::command::{Serving, run, text};
use crate::support::openssl::PATIENCE;
use crate::support::{Running, TestDir, free_port, have, unique};
use measure::RunResult;
use sip_net::testing::uninterrupted;
use smime::make::{Authority, Key, Kind};
use smime::{BodySecurity, Keyring, Protection, Sealed, Transfer, Trust};

const ALICE: &str = "sip:alice@127.0.0.1";
const BOB: &str = "sip:bob@127.0.0.1";
const SDP: &[u8] = b"v=0\r\no=alice 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\n\
    t=0 0\r\nm=audio 49170 RTP/AVP 0\r\n";

/// A proxy that sends everything over TCP to one port.
enum Proxy {
    Signet(Serving),
    Kamailio(Kamailio),
}

struct Kamailio {
    process: Running,
    at: SocketAddr,
}

impl Proxy {
    /// Both of them, or Signet alone where there is no Kamailio and that may be.
    fn all(folder: &Path, called: u16) -> Vec<Self> {
        let mut all = vec![Self::signet(folder, called)];
        if have("kamailio") {
            all.push(Self::Kamailio(Kamailio::start(folder, called)));
        }
        all
    }

    fn signet(folder: &Path, called: u16) -> Self {
        let data = folder.join("data");
        let forward = format!("sip:127.0.0.1:{called};transport=tcp");
        let words = [
            "--data",
            text(&data),
            "--no-auth",
            "--forward",
            &forward,
            "--listen",
            "udp:127.0.0.1:0",
            "--listen",
            "tcp:127.0.0.1:0",
        ];
        Self::Signet(Serving::start(folder, &data, &words))
    }

    fn at(&self) -> SocketAddr {
        match self {
            Self::Signet(server) => server.at("tcp"),
            Self::Kamailio(server) => server.at,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Signet(_) => "signet",
            Self::Kamailio(_) => "kamailio",
        }
    }
}

impl Kamailio {
    fn start(folder: &Path, called: u16) -> Self {
        let port = free_port();
        let config = format!(
            "#!KAMAILIO\ndebug=1\nlog_stderror=yes\nchildren=1\ntcp_children=1\nauto_aliases=no\n\
             listen=udp:127.0.0.1:{port}\nlisten=tcp:127.0.0.1:{port}\n\
             loadmodule \"tm.so\"\nloadmodule \"sl.so\"\nloadmodule \"pv.so\"\n\
             loadmodule \"textops.so\"\n\
             request_route {{\n\
               $du = \"sip:127.0.0.1:{called};transport=tcp\";\n\
               if (is_method(\"ACK\")) {{ forward(); exit; }}\n\
               if (!t_relay()) {{ sl_reply_error(); }}\n}}\n"
        );
        let path = folder.join("kamailio.cfg");
        fs::write(&path, config).unwrap();
        let run = folder.join("run");
        fs::create_dir_all(&run).unwrap();
        let log = folder.join("kamailio.log");
        let process = Running::start(
            "kamailio",
            &[
                "-f",
                text(&path),
                "-DD",
                "-E",
                "-m",
                "64",
                "-M",
                "8",
                "-Y",
                text(&run),
            ],
            &log,
        );
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                Instant::now() < until,
                "kamailio does not listen: {}",
                fs::read_to_string(&log).unwrap()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Self {
            process,
            at: SocketAddr::from(([127, 0, 0, 1], port)),
        }
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // The first process takes its children with it when it is asked to end.
        self.process.signal("-TERM");
        let _ = self.process.wait(Duration::from_secs(10));
    }
}

/// Alice and Bob: what each sends, and what each takes.
struct Pair {
    security: BodySecurity,
}

impl Pair {
    /// One key for both, whose certificates name them; each has the other's.
    fn new(kind: Kind) -> Self {
        let authority = Authority::make().unwrap();
        let key = Key::new(kind).unwrap();
        let both = Arc::new(authority.identity(&key, &[ALICE, BOB]).unwrap());
        let mut keyring = Keyring::default();
        assert!(keyring.add(&Arc::new(both.certificate().clone())));
        Self {
            security: BodySecurity {
                identity: Some(Arc::clone(&both)),
                decrypts: vec![both],
                keyring: Arc::new(keyring),
                trust: Arc::new(Trust::from_pem(authority.pem().as_bytes()).unwrap()),
                ..BodySecurity::default()
            },
        }
    }

    fn seal(&self, protection: Protection, transfer: Transfer, to: &str) -> Sealed {
        let sender = BodySecurity {
            protection: Some(protection),
            transfer,
            ..self.security.clone()
        };
        let sealed = sender.seal(to, b"application/sdp", SDP, 1_800_000_000);
        sealed.unwrap().unwrap()
    }

    /// What was protected comes out of a message's bytes.
    fn check(&self, from: &str, sealed: &Sealed, body: &[u8], name: &str) {
        assert_eq!(body, sealed.body, "{name}");
        let encoding = sealed.transfer_encoding.map(str::as_bytes);
        let kind = sealed.content_type.as_bytes();
        let opened = self
            .security
            .open(from, kind, encoding, body, 1_800_000_000);
        let opened = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(opened.unwrap().body, SDP, "{name}");
    }
}

/// Header lines about a body, with the body.
fn with_body(sealed: &Sealed) -> Vec<u8> {
    let mut lines = format!(
        "Content-Type: {}\r\nContent-Disposition: {}\r\n",
        sealed.content_type, sealed.disposition
    );
    if let Some(encoding) = sealed.transfer_encoding {
        lines.push_str(&format!("Content-Transfer-Encoding: {encoding}\r\n"));
    }
    lines.push_str(&format!("Content-Length: {}\r\n\r\n", sealed.body.len()));
    [lines.as_bytes(), &sealed.body].concat()
}

/// Reads one message from a stream: its head, and its body. What follows stays in `unread`.
/// `None` at the end of the stream.
fn message(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut buffer = [0; 65_536];
    loop {
        let end = unread.windows(4).position(|part| part == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(unread[..end].to_vec()).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length:"))
                .map_or(0, |length| length.trim().parse().unwrap());
            if unread.len() >= end + 4 + length {
                let body = unread[end + 4..end + 4 + length].to_vec();
                unread.drain(..end + 4 + length);
                return Some((head, body));
            }
        }
        let read = uninterrupted(|| stream.read(&mut buffer));
        let length = read.ok().filter(|length| *length > 0)?;
        unread.extend_from_slice(&buffer[..length]);
    }
}

/// A message that came, and where its answer goes.
type Came = (TcpStream, String, Vec<u8>);

/// Takes connections, as many as come, and gives every message of each.
fn messages(called: TcpListener) -> Receiver<Came> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in called.incoming() {
            let (mut stream, sender) = (stream.unwrap(), sender.clone());
            std::thread::spawn(move || {
                let mut unread = Vec::new();
                while let Some((head, body)) = message(&mut stream, &mut unread) {
                    let answer = stream.try_clone().unwrap();
                    if sender.send((answer, head, body)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    receiver
}

/// The lines of a head that a response copies.
fn copied(head: &str) -> String {
    head.lines()
        .filter(|line| {
            ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"]
                .iter()
                .any(|name| line.starts_with(name))
        })
        .map(|line| match line.starts_with("To:") {
            true => format!("{line};tag=bob\r\n"),
            false => format!("{line}\r\n"),
        })
        .collect()
}

#[test]
fn bodies_pass_through_proxies_byte_for_byte_in_both_directions() {
    let folder = TestDir::new("smime-bytes");
    let called = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = called.local_addr().unwrap().port();
    let came = messages(called);
    for proxy in Proxy::all(folder.path(), port) {
        let mut client = TcpStream::connect(proxy.at()).unwrap();
        let (local, at) = (client.local_addr().unwrap(), proxy.at().port());
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut unread = Vec::new();
        for kind in [Kind::P256, Kind::Rsa2048] {
            let pair = Pair::new(kind);
            for protection in Protection::ALL {
                for transfer in [Transfer::Binary, Transfer::Base64] {
                    let (proxy_name, kind, how) = (proxy.name(), kind.name(), protection.name());
                    let name = format!("{proxy_name} {kind} {how} {transfer:?}");
                    let there = pair.seal(protection, transfer, BOB);
                    let unique = unique();
                    let head = format!(
                        "INVITE {BOB}:{at} SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK{unique}\r\n\
                         Max-Forwards: 70\r\nFrom: <{ALICE}>;tag=a{unique}\r\nTo: <{BOB}>\r\n\
                         Call-ID: {unique}\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@{local};transport=tcp>\r\n"
                    );
                    client
                        .write_all(&[head.as_bytes(), &with_body(&there)].concat())
                        .unwrap();
                    let (mut server, head, body) = came.recv_timeout(PATIENCE).unwrap();
                    assert!(head.starts_with("INVITE "), "{name}: {head}");
                    let kept = format!("Content-Type: {}", there.content_type);
                    assert!(head.lines().any(|line| line == kept), "{name}: {head}");
                    pair.check(ALICE, &there, &body, &name);
                    let back = pair.seal(protection, transfer, ALICE);
                    let answer = format!(
                        "SIP/2.0 200 OK\r\n{}Contact: <sip:bob@127.0.0.1:{port};transport=tcp>\r\n",
                        copied(&head)
                    );
                    server
                        .write_all(&[answer.as_bytes(), &with_body(&back)].concat())
                        .unwrap();
                    loop {
                        let (head, body) = message(&mut client, &mut unread).unwrap();
                        if head.starts_with("SIP/2.0 1") {
                            continue;
                        }
                        assert!(head.starts_with("SIP/2.0 200 "), "{name}: {head}");
                        pair.check(BOB, &back, &body, &name);
                        break;
                    }
                }
            }
        }
        drop(proxy);
    }
}

const FINE_OR_DOUBT: [i32; 2] = [0, 3];

/// Runs a load with `--json` and gives its exit code, its result, and what it said.
fn load(folder: &Path, words: &[&str]) -> (i32, RunResult, String) {
    let json = folder.join("load.json");
    let all = [&["load"], words, &["--json", text(&json)]].concat();
    let output = run(&all, "");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let result = RunResult::read(&json).unwrap_or_else(|error| panic!("{error}: {said}"));
    fs::remove_file(&json).unwrap();
    (output.status.code().unwrap(), result, said)
}

fn counter(result: &RunResult, name: &str) -> u64 {
    result.counters.get(name).copied().unwrap_or(0)
}

#[test]
fn calls_with_protected_bodies_go_through_both_proxies() {
    let folder = TestDir::new("smime-calls");
    let called = free_port();
    for proxy in Proxy::all(folder.path(), called) {
        let to = format!("sip:bob@{}", proxy.at());
        let here = format!("tcp:127.0.0.1:{called}");
        for (protection, more) in [
            ("sign", &[][..]),
            ("encrypt", &["--smime-cipher", "aes128-cbc"]),
            ("both", &["--smime-base64"]),
            ("both", &["--smime-key-type", "rsa2048"]),
            ("sign-then-encrypt", &["--agents", "3"]),
        ] {
            let words = [
                "call",
                "--to",
                &to,
                "--transport",
                "tcp",
                "--answer-here",
                &here,
                "--smime",
                protection,
                "--rate",
                "30",
                "--count",
                "12",
                "--no-check-self",
                "--local",
                "127.0.0.1",
            ];
            let (code, result, said) = load(folder.path(), &[&words[..], more].concat());
            let name = format!("{} {protection}: {said}", proxy.name());
            assert!(FINE_OR_DOUBT.contains(&code), "{name}");
            assert_eq!(result.figures.completed, 12, "{name}");
            assert_eq!(counter(&result, "smime_opened"), 12, "{name}");
            assert_eq!(counter(&result, "smime_refused"), 0, "{name}");
            assert_eq!(result.settings["smime"]["protection"], protection);
        }
    }
}

/// A certificate for these addresses by openssl: `NAME.pem` and `NAME.key`, self-signed.
fn openssl_certificate(folder: &Path, name: &str, addresses: &[&str]) {
    let names: Vec<String> = addresses.iter().map(|uri| format!("URI:{uri}")).collect();
    let config = format!(
        "[req]\ndistinguished_name = dn\nprompt = no\nx509_extensions = user\n[dn]\nCN = user\n\
         [user]\nbasicConstraints = critical,CA:FALSE\nkeyUsage = digitalSignature,keyAgreement\n\
         extendedKeyUsage = emailProtection\nsubjectAltName = {}\n",
        names.join(",")
    );
    fs::write(folder.join("openssl.cnf"), config).unwrap();
    let output = Command::new("openssl")
        .args(["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "30", "-keyout", &format!("{name}.key")])
        .args(["-out", &format!("{name}.pem")])
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn keys_from_files_join_two_processes_and_each_failure_has_its_cause() {
    if !have("openssl") {
        return;
    }
    let folder = TestDir::new("smime-files");
    let at = |name: &str| folder.path().join(name).display().to_string();
    openssl_certificate(
        folder.path(),
        "callers",
        &["sip:user1@example.org", "sip:user2@example.org"],
    );
    openssl_certificate(folder.path(), "called", &["sip:bob@example.org"]);
    openssl_certificate(folder.path(), "other", &["sip:other@example.org"]);
    for (name, signer, trusted, cause) in [
        ("good", "callers", "callers", None),
        (
            "unknown",
            "callers",
            "other",
            Some("smime: unknown authority"),
        ),
        (
            "another",
            "other",
            "other",
            Some("smime: signed by another"),
        ),
    ] {
        let port = free_port();
        let listen = format!("tcp:127.0.0.1:{port}");
        let json = folder.path().join(format!("{name}.json"));
        let (cert, key) = (at("called.pem"), at("called.key"));
        let ca = at(&format!("{trusted}.pem"));
        let answer = [
            "load",
            "answer",
            "--listen",
            &listen,
            "--smime",
            "both",
            "--smime-cert",
            &cert,
            "--smime-key",
            &key,
            "--smime-ca",
            &ca,
            "--duration",
            "60s",
            "--json",
            text(&json),
        ];
        let log = folder.path().join(format!("{name}.log"));
        let mut answering = Running::start(crate::support::signet(), &answer, &log);
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                Instant::now() < until,
                "{}",
                fs::read_to_string(&log).unwrap()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let (own, own_key) = (at(&format!("{signer}.pem")), at(&format!("{signer}.key")));
        let to = format!("sip:bob@127.0.0.1:{port}");
        let words = [
            "call",
            "--to",
            &to,
            "--transport",
            "tcp",
            "--domain",
            "example.org",
            "--agents",
            "2",
            "--smime",
            "both",
            "--smime-cert",
            &own,
            "--smime-key",
            &own_key,
            "--smime-to",
            &cert,
            "--rate",
            "30",
            "--count",
            "8",
            "--no-check-self",
        ];
        let (code, result, said) = load(folder.path(), &words);
        answering.signal("-INT");
        assert!(answering.wait(PATIENCE).is_some(), "{name}");
        let answered = RunResult::read(&json).unwrap();
        match cause {
            None => {
                assert!(FINE_OR_DOUBT.contains(&code), "{name}: {said}");
                assert_eq!(result.figures.completed, 8, "{name}: {said}");
                assert_eq!(counter(&answered, "smime_opened"), 8, "{name}");
            }
            Some(cause) => {
                assert_ne!(code, 0, "{name}: {said}");
                assert_eq!(result.figures.completed, 0, "{name}: {said}");
                assert_eq!(result.causes.total(), 8, "{name}: {said}");
                assert_eq!(counter(&answered, "smime_refused"), 8, "{name}");
                let causes = answered.answered.unwrap().causes.ranked();
                assert_eq!(causes, [(cause.to_owned(), 8)], "{name}");
            }
        }
    }
}

#[test]
fn what_cannot_be_is_said_with_its_remedy() {
    for (words, expected) in [
        (&["--smime", "seal"][..], "write sign, encrypt, both"),
        (&["--smime", "encrypt"], "--smime-to FILE"),
        (
            &["--smime", "sign", "--smime-key-type", "dsa"],
            "p256 or rsa2048",
        ),
        (&["--smime", "sign", "--smime-cipher", "des"], "aes128-cbc"),
        (&["--smime", "sign", "--smime-cert", "a.pem"], "--smime-key"),
        (
            &["--smime", "encrypt", "--smime-to", "/nowhere.pem"],
            "/nowhere.pem",
        ),
        (
            &[
                "--smime",
                "sign",
                "--workers",
                "127.0.0.1:1",
                "--workers-token",
                "/nowhere",
            ],
            "smime",
        ),
    ] {
        let to = [
            "load",
            "call",
            "--to",
            "sip:bob@127.0.0.1:9",
            "--transport",
            "tcp",
            "--no-check-self",
        ];
        let output = run(&[&to[..], words].concat(), "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}
