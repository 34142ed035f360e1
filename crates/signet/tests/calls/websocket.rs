//! Phones on WebSockets register and call phones on datagrams, and are called
//! by them, with passwords, through the real program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::command::{Serving, succeed, text};
use crate::support::openssl::{PATIENCE, figure, report_with};
use crate::support::phone::{Phone, field, fields};
use crate::support::{TestDir, add_user};
use sip_net::testing::{WebSocketClient, upgrade_request};

const DOMAIN: &str = "example.com";

fn serve(folder: &Path, websocket: &str) -> Serving {
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n\
         [[listen]]\non = \"wss:127.0.0.1:0\"\n[listen.security]\nversions = [\"1.3\"]\n\
         [[listen]]\non = \"ws:127.0.0.1:0\"\n[listen.websocket]\n{websocket}\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n"
    );
    std::fs::write(&config, whole).unwrap();
    let data = folder.join("data");
    let server = Serving::start(folder, &data, &["--config", text(&config)]);
    for user in ["alice", "bob"] {
        add_user(&data, user, DOMAIN, &format!("{user}-secret"));
    }
    server
}

/// A stream through `openssl s_client`, which did not learn TLS from us.
struct Sealed {
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
    unread: Vec<u8>,
}

impl Sealed {
    fn connect(to: SocketAddr, ca: &Path) -> Self {
        let mut child = Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_return_error"])
            .args(["-connect", &to.to_string(), "-servername", DOMAIN])
            .args(["-verify_hostname", DOMAIN, "-CAfile", text(ca)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(len @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            input,
            output,
            unread: Vec::new(),
        }
    }
}

impl Read for Sealed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.unread.is_empty() {
            self.unread = self
                .output
                .recv_timeout(Duration::from_secs(5))
                .unwrap_or_default();
        }
        let len = self.unread.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.unread[..len]);
        self.unread.drain(..len);
        Ok(len)
    }
}

impl Write for Sealed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.input.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.input.flush()
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call from one phone to the other, and its end; what the callee was sent.
fn call(caller: &mut Phone, callee: &mut Phone, to: &str, callee_hangs_up: bool) -> String {
    let mut calling = caller.invite(to);
    let (mut called, invite) = callee.answer();
    caller.established(&mut calling);
    callee.acknowledged(&called);
    if callee_hangs_up {
        callee.hang_up(&mut called);
        caller.ended(&calling);
        callee.hung_up(&called);
    } else {
        caller.hang_up(&mut calling);
        callee.ended(&called);
        caller.hung_up(&calling);
    }
    invite
}

fn calls_both_ways(server: &Serving, mut alice: Phone, via: &str, at: SocketAddr) {
    let udp = server.at("udp");
    let mut bob = Phone::udp(udp, "bob", DOMAIN);
    alice.register();
    bob.register();
    for callee_hangs_up in [false, true] {
        let to_bob = call(&mut alice, &mut bob, "bob", callee_hangs_up);
        assert!(
            field(&to_bob, "Via").starts_with(&format!("SIP/2.0/UDP {udp};")),
            "{to_bob}"
        );
        // Each side gets a URI for the way it is on (RFC 5658); RFC 7118 5.2.2
        // has `ws` for both kinds of WebSocket.
        let routes = fields(&to_bob, "Record-Route");
        assert_eq!(routes.len(), 2, "{to_bob}");
        assert!(routes[0].ends_with(&format!("@{udp};lr>")), "{routes:?}");
        assert!(
            routes[1].starts_with("<sip:")
                && routes[1].ends_with(&format!("@{at};transport=ws;lr>")),
            "{routes:?}"
        );

        let to_alice = call(&mut bob, &mut alice, "alice", callee_hangs_up);
        assert!(
            field(&to_alice, "Via").starts_with(&format!("SIP/2.0/{via} {at};")),
            "{to_alice}"
        );
        let uri = to_alice.split(' ').nth(1).unwrap();
        assert!(uri.ends_with(".invalid;transport=ws"), "{uri}");
        let routes = fields(&to_alice, "Record-Route");
        assert_eq!(routes.len(), 2, "{to_alice}");
        assert!(
            routes[0].ends_with(&format!("@{at};transport=ws;lr>")),
            "{routes:?}"
        );
        assert!(routes[1].ends_with(&format!("{udp};lr>")), "{routes:?}");
    }
}

#[test]
fn calls_between_a_websocket_and_datagrams() {
    let folder = TestDir::new("websocket-plain");
    let server = serve(folder.path(), "");
    let at = server.at("ws");
    let alice = Phone::websocket(at, "alice", DOMAIN);
    calls_both_ways(&server, alice, "WS", at);
    let listed = succeed(
        &[
            "bindings",
            "alice@example.com",
            "--data",
            text(&folder.path().join("data")),
        ],
        "",
    );
    assert!(listed.contains(".invalid;transport=ws"), "{listed}");
}

#[test]
fn calls_between_a_websocket_under_tls_and_datagrams() {
    let folder = TestDir::new("websocket-tls");
    let server = serve(folder.path(), "");
    let at = server.at("wss");
    let stream = Sealed::connect(at, &folder.path().join("data/ca.pem"));
    let alice = Phone::on_stream(stream, "WSS", "alice", DOMAIN);
    calls_both_ways(&server, alice, "WSS", at);
    // An auditor is told of it as of every listener with TLS.
    let report = report_with(folder.path(), "1: 1 full, 0 resumed");
    assert!(report.contains(&format!("wss:{at}")), "{report}");
    // Workers tell their figures every now and then.
    let received = || {
        figure(
            folder.path(),
            "signet_messages_received_total{transport=\"wss\"}",
        )
    };
    let until = Instant::now() + PATIENCE;
    while received() < 10 {
        assert!(Instant::now() < until, "{} messages", received());
        std::thread::sleep(Duration::from_millis(50));
    }
    for (name, count) in [
        ("signet_websocket_upgraded_total", 1),
        ("signet_websocket_refused_total{reason=\"origin\"}", 0),
    ] {
        assert_eq!(figure(folder.path(), name), count, "{name}");
    }
}

#[test]
fn two_websockets_call_each_other() {
    let folder = TestDir::new("websocket-two");
    let server = serve(folder.path(), "");
    let at = server.at("ws");
    let mut alice = Phone::websocket(at, "alice", DOMAIN);
    let mut bob = Phone::websocket(at, "bob", DOMAIN);
    alice.register();
    bob.register();
    for callee_hangs_up in [false, true] {
        call(&mut alice, &mut bob, "bob", callee_hangs_up);
    }
}

#[test]
fn pages_are_admitted_by_the_list_and_a_reload_changes_it() {
    let folder = TestDir::new("websocket-origins");
    let list = "path = \"/sip\"\norigins = [\"https://phone.example.net\"]";
    let server = serve(folder.path(), list);
    let at = server.at("ws");
    let ask = |path: &str, origin: &str| {
        let stream = TcpStream::connect(at).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let line = if origin.is_empty() {
            String::new()
        } else {
            format!("Origin: {origin}\r\n")
        };
        match WebSocketClient::open(stream, &upgrade_request(DOMAIN, path, &line)) {
            Ok(_) => "101".to_owned(),
            Err(answer) => answer.split(' ').nth(1).unwrap().to_owned(),
        }
    };
    assert_eq!(ask("/sip", ""), "101");
    assert_eq!(ask("/", ""), "404");
    assert_eq!(ask("/sip", "https://phone.example.net"), "101");
    assert_eq!(ask("/sip", "https://example.com"), "403");
    let config = folder.path().join("signet.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, before.replace(list, "")).unwrap();
    server.process.signal("-HUP");
    server.wait_for_log("reloaded");
    assert_eq!(ask("/", "https://phone.example.net"), "403");
    // Its own names, and the address that was connected to.
    assert_eq!(ask("/", "https://example.com"), "101");
    assert_eq!(ask("/", "http://127.0.0.1:8080"), "101");
    assert_eq!(ask("/", "http://127.0.0.2"), "403");
}
