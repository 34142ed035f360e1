//! What a certificate opens in a running server: openssl is the neighbour, or
//! the phone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::command::{succeed, text};
use crate::support::openssl::{Client, PATIENCE, serve, wait_for_figure, write_config, write_pair};
use crate::support::{TestDir, unique};
use sip_tls::testing::{KeyKind, TestCa, params};

/// A client of the server with a certificate, or without one.
fn connect(folder: &Path, server: &crate::support::command::Serving, name: Option<&str>) -> Client {
    // Else a line that begins with R would be a command to openssl.
    let mut arguments = vec!["-nocommands".to_owned()];
    if let Some(name) = name {
        let file = |ending: &str| folder.join(format!("{name}.{ending}"));
        for (option, ending) in [("-cert", "pem"), ("-key", "key")] {
            arguments.push(option.to_owned());
            arguments.push(file(ending).display().to_string());
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Client::connect(server.at("tls"), &arguments)
}

fn request(method: &str, uri: &str, from: &str, to: &str, lines: &str) -> String {
    let unique = unique();
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bK{unique}\r\nMax-Forwards: 70\r\n\
         From: <{from}>;tag=t{unique}\r\nTo: <{to}>\r\nCall-ID: {unique}\r\nCSeq: 1 {method}\r\n{lines}\
         Content-Length: 0\r\n\r\n"
    )
}

fn message(uri: &str, from: &str) -> String {
    request("MESSAGE", uri, from, uri, "")
}

fn register(user: &str) -> String {
    let aor = format!("sip:{user}@example.com");
    let contact = "Contact: <sip:phone@127.0.0.1:9;transport=tls>\r\nExpires: 600\r\n";
    request("REGISTER", "sip:example.com", &aor, &aor, contact)
}

/// A listener that takes clients with a certificate alone, and may have it stand for a password.
fn security(stands_for_password: bool) -> String {
    format!(
        "client_certificates = \"required\"\nclient_roots = [\"roots.pem\"]\n\
         client_certificates_authenticate = {stands_for_password}\n"
    )
}

/// Answers 200 to whatever comes, until the sender is dropped.
fn gateway() -> (u16, std::sync::mpsc::Sender<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let (alive, over) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 65_535];
        while over.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let kept = ["Via: ", "From: ", "To: ", "Call-ID: ", "CSeq: "];
            let lines: String = request
                .lines()
                .filter(|line| kept.iter().any(|name| line.starts_with(name)))
                .map(|line| format!("{line}\r\n"))
                .collect();
            let answer = format!("SIP/2.0 200 OK\r\n{lines}Content-Length: 0\r\n\r\n");
            socket.send_to(answer.as_bytes(), from).unwrap();
        }
    });
    (port, alive)
}

#[test]
fn a_neighbour_speaks_for_the_domains_of_its_certificate() {
    let folder = TestDir::new("tls-identity");
    let at = folder.path();
    let ca = TestCa::new();
    fs::write(at.join("roots.pem"), ca.root_pem()).unwrap();
    write_pair(at, "peer", &ca.issue(&["peer.example"]));
    write_pair(at, "narrow", &ca.issue(&["narrow.example"]));
    write_pair(at, "other", &ca.issue(&["other.example"]));
    let (port, _alive) = gateway();
    let server = serve(
        at,
        "client_certificates = \"optional\"\nclient_roots = [\"roots.pem\"]\n",
        &format!(
            "[[trusted]]\nidentity = \"peer.example\"\nspeaks_for = [\"peer.example\", \"sister.example\"]\n\
             [[trusted]]\nidentity = \"narrow.example\"\nmay_relay = false\n\
             [[gateway_group]]\nname = \"g\"\ngateways = [{{ uri = \"sip:127.0.0.1:{port};transport=udp\" }}]\n\
             [[route]]\ndomain = \"far.example\"\ngroup = \"g\"\n"
        ),
    );
    let far = "sip:x@far.example";
    let nobody = "sip:nobody@example.com";
    let mut peer = connect(at, &server, Some("peer"));
    for (uri, from, status) in [
        (far, "sip:a@peer.example", 200),
        (far, "sip:a@sister.example", 200),
        (far, "sip:a@other.example", 403),
        (far, "sip:alice@example.com", 403),
        (nobody, "sip:a@peer.example", 404),
    ] {
        assert_eq!(peer.ask(&message(uri, from)), status, "{from} to {uri}");
    }
    let mut narrow = connect(at, &server, Some("narrow"));
    for (uri, from, status) in [
        (far, "sip:a@narrow.example", 403),
        (nobody, "sip:a@narrow.example", 404),
        (nobody, "sip:a@peer.example", 403),
    ] {
        assert_eq!(narrow.ask(&message(uri, from)), status, "{from} to {uri}");
    }
    // One that is in no list is a stranger, with a certificate or without.
    for name in [Some("other"), None] {
        let mut stranger = connect(at, &server, name);
        assert_eq!(stranger.ask(&message(far, "sip:a@other.example")), 403);
        assert_eq!(stranger.ask(&message(far, "sip:a@peer.example")), 403);
    }
    wait_for_figure(at, "signet_identities_refused_total", 3);
    server.wait_for_log("speaks_for_others");
    server.wait_for_log("other.example");
}

#[test]
fn a_users_certificate_stands_for_his_password_where_the_listener_says_so() {
    let folder = TestDir::new("tls-user-certificate");
    let at = folder.path();
    let ca = TestCa::new();
    fs::write(at.join("roots.pem"), ca.root_pem()).unwrap();
    write_pair(at, "alice", &ca.issue(&["sip:alice@example.com"]));
    write_pair(at, "domain", &ca.issue(&["example.com"]));
    let server = serve(at, &security(true), "");
    let config = at.join("signet.toml");
    for user in ["alice", "bob"] {
        succeed(
            &["user", "add", user, "--generate", "--config", text(&config)],
            "",
        );
    }
    let mut alice = connect(at, &server, Some("alice"));
    assert_eq!(alice.ask(&register("alice")), 200);
    assert_eq!(alice.ask(&register("bob")), 401);
    let to_bob = |from: &str| message("sip:bob@example.com", from);
    assert_eq!(alice.ask(&to_bob("sip:alice@example.com")), 480);
    assert_eq!(alice.ask(&to_bob("sip:bob@example.com")), 407);
    let bindings = succeed(&["bindings", "--config", text(&config)], "");
    assert!(bindings.contains("alice") && !bindings.contains("bob"));
    // A domain is no user.
    let mut domain = connect(at, &server, Some("domain"));
    assert_eq!(domain.ask(&register("alice")), 401);
    // Who was removed is nobody.
    succeed(&["user", "remove", "alice", "--config", text(&config)], "");
    assert_eq!(alice.ask(&register("alice")), 401);
}

#[test]
fn whether_a_certificate_stands_for_a_password_changes_with_the_reload_that_says_so() {
    let folder = TestDir::new("tls-stands");
    let at = folder.path();
    let ca = TestCa::new();
    fs::write(at.join("roots.pem"), ca.root_pem()).unwrap();
    write_pair(at, "alice", &ca.issue(&["sip:alice@example.com"]));
    let server = serve(at, &security(true), "");
    let config = at.join("signet.toml");
    succeed(
        &[
            "user",
            "add",
            "alice",
            "--generate",
            "--config",
            text(&config),
        ],
        "",
    );
    let mut before = connect(at, &server, Some("alice"));
    assert_eq!(before.ask(&register("alice")), 200);
    for (reloads, stands, status) in [(1, false, 401), (2, true, 200)] {
        write_config(at, &security(stands), "");
        server.process.signal("-HUP");
        server.wait_for_count(" reloaded", reloads);
        let mut after = connect(at, &server, Some("alice"));
        for client in [&mut before, &mut after] {
            assert_eq!(client.ask(&register("alice")), status, "{stands}");
        }
    }
}

#[test]
fn a_reload_to_what_the_store_of_users_cannot_do_is_refused() {
    let folder = TestDir::new("tls-stands-refused");
    let at = folder.path();
    fs::write(at.join("roots.pem"), TestCa::new().root_pem()).unwrap();
    write_pair(at, "store", &(String::new(), "secret\n".to_owned()));
    let users = "[users]\nstores = [\"radius://127.0.0.1:9\"]\npassword_file = \"store.key\"\n";
    let server = serve(at, &security(false), users);
    write_config(at, &security(true), users);
    server.process.signal("-HUP");
    server.wait_for_log("reload refused");
    server.wait_for_log("does not tell whether a user still exists");
    // What was refused keeps nothing else back.
    write_config(at, &security(false), users);
    server.process.signal("-HUP");
    server.wait_for_log(" reloaded");
}

#[test]
fn a_connection_does_not_outlive_the_trust_in_its_certificate() {
    let folder = TestDir::new("tls-distrusted");
    let at = folder.path();
    let ca = TestCa::new();
    fs::write(at.join("roots.pem"), ca.root_pem()).unwrap();
    fs::write(at.join("list.pem"), ca.revoke(&[])).unwrap();
    for (serial, name) in [(7u64, "bad"), (8, "good")] {
        let mut fields = params(&["peer.example"], 2020, 2099);
        fields.serial_number = Some(serial.into());
        write_pair(at, name, &ca.issue_from(&fields, &KeyKind::P256.generate()));
    }
    let server = serve(
        at,
        "client_certificates = \"optional\"\nclient_roots = [\"roots.pem\"]\ncrls = [\"list.pem\"]\n",
        "[[trusted]]\nidentity = \"peer.example\"\n",
    );
    let fresh = || message("sip:nobody@example.com", "sip:a@peer.example");
    let mut bad = connect(at, &server, Some("bad"));
    let mut good = connect(at, &server, Some("good"));
    let mut none = connect(at, &server, None);
    assert_eq!((bad.ask(&fresh()), good.ask(&fresh())), (404, 404));
    assert_eq!(none.ask(&fresh()), 403);

    // A reload that changes nothing closes nothing.
    server.process.signal("-HUP");
    server.wait_for_log(" reloaded");
    assert_eq!((bad.ask(&fresh()), good.ask(&fresh())), (404, 404));

    fs::write(at.join("list.pem"), ca.revoke(&[7])).unwrap();
    server.process.signal("-HUP");
    server.wait_for_count(" reloaded", 2);
    let until = Instant::now() + PATIENCE;
    while !bad.has_ended() {
        assert!(Instant::now() < until, "it goes on:\n{}", bad.told());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((good.ask(&fresh()), none.ask(&fresh())), (404, 403));
    wait_for_figure(
        at,
        "signet_connections_closed_total{reason=\"certificate\"}",
        1,
    );
}
