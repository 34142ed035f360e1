//! The life of a server, by the real program: start, reload, drain, end, and
//! what it tells of itself meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use crate::support::command::{Serving, fail, succeed, text};
use crate::support::{Running, TestDir, ask_udp, exchange_tcp, exchange_udp, options, signet};
use sip_net::testing::uninterrupted;

#[test]
fn a_server_starts_answers_and_ends() {
    let folder = TestDir::new("cli-serve");
    let data = folder.path().join("data");
    let mut server = Serving::start(
        folder.path(),
        &data,
        &[
            "--data",
            text(&data),
            "--listen",
            "udp:127.0.0.1:0",
            "--listen",
            "tcp:127.0.0.1:0",
            "--listen",
            "tls:127.0.0.1:0",
            "--domain",
            "example.com",
        ],
    );
    assert_eq!(server.options(), "SIP/2.0 200 OK");
    server.wait_for_log("Ctrl-C ends the server");
    let told = fs::read_to_string(&server.log).unwrap();
    assert!(told.contains(" serves example.com"), "{told}");
    assert!(
        told.contains(&format!("signet user add alice --data {}", data.display())),
        "{told}"
    );
    assert!(told.contains("ca.pem"), "{told}");
    for secret in ["ca.key", "server.key", "node.secret", "signet.db"] {
        assert_eq!(
            data.join(secret).metadata().unwrap().mode() & 0o777,
            0o600,
            "{secret}"
        );
    }

    // A second server on the same folder, and one on the same port.
    let error = fail(&["serve", "--data", text(&data)], "");
    assert!(error.contains("a server runs already"), "{error}");
    let other = folder.path().join("other");
    let taken = format!("udp:{}", server.at("udp"));
    // One that was killed there has left where it listened: nobody does.
    fs::create_dir(&other).unwrap();
    fs::write(other.join("listeners.json"), "{}").unwrap();
    let error = fail(&["serve", "--data", text(&other), "--listen", &taken], "");
    assert!(!other.join("listeners.json").exists());
    assert!(
        error.contains(&format!("cannot listen on {taken}")) && error.contains("--listen udp:"),
        "{error}"
    );

    server.process.signal("-TERM");
    assert_eq!(server.process.wait(Duration::from_secs(20)), Some(0));
    assert!(!data.join("listeners.json").exists());
}

#[test]
fn workers_share_one_port() {
    let folder = TestDir::new("cli-workers");
    let data = folder.path().join("data");
    let mut server = Serving::start(
        folder.path(),
        &data,
        &[
            "--data",
            text(&data),
            "--listen",
            "udp:127.0.0.1:0",
            "--workers",
            "3",
            "--pin",
        ],
    );
    for _ in 0..50 {
        assert_eq!(server.options(), "SIP/2.0 200 OK");
    }
    server.process.signal("-INT");
    assert_eq!(server.process.wait(Duration::from_secs(20)), Some(0));
}

#[test]
fn the_service_manager_waits_as_long_as_the_server_may_drain() {
    let folder = TestDir::new("cli-notify");
    let data = folder.path().join("data");
    let (config, log) = (
        folder.path().join("signet.toml"),
        folder.path().join("serve.log"),
    );
    fs::write(
        &config,
        "version = 1\ndata = \"data\"\ndrain_timeout_ms = 60000\n[[listen]]\non = \"udp:127.0.0.1:0\"\n",
    )
    .unwrap();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let patience = Some(Duration::from_secs(20));
    manager.set_read_timeout(patience).unwrap();
    let told = |state: &str| {
        let mut message = [0; 4_096];
        loop {
            let length = uninterrupted(|| manager.recv(&mut message)).unwrap();
            let text = String::from_utf8_lossy(&message[..length]).into_owned();
            if text.lines().any(|line| line == state) {
                return text;
            }
        }
    };
    let notify = format!("NOTIFY_SOCKET={}", text(&socket));
    let arguments = [&notify, signet(), "serve", "--config", text(&config)];
    let process = Running::start("env", &arguments, &log);
    let mut server = Serving::listening(process, &data, log);
    told("READY=1");
    server.process.signal("-TERM");
    let stopping = told("STOPPING=1");
    // The drain, and what may come behind it.
    assert!(
        stopping.contains("EXTEND_TIMEOUT_USEC=95000000\n"),
        "{stopping}"
    );
    assert_eq!(server.process.wait(Duration::from_secs(20)), Some(0));
}

#[test]
fn a_reload_that_is_refused_tells_the_log_no_password() {
    let folder = TestDir::new("cli-secret");
    let data = folder.path().join("data");
    let config = folder.path().join("signet.toml");
    let good = "version = 1\ndata = \"data\"\n[[listen]]\non = \"udp:127.0.0.1:0\"\n";
    fs::write(&config, good).unwrap();
    let server = Serving::start(folder.path(), &data, &["--config", text(&config)]);
    let bad = "[users]\nstores = [\"mysql://u:S3cretPw@db.example.com/kamailio\"]\n";
    fs::write(&config, format!("{good}{bad}")).unwrap();
    server.process.signal("-HUP");
    server.wait_for_log("reload refused");
    server.wait_for_log("has a password in it");
    let log = fs::read_to_string(&server.log).unwrap();
    assert!(!log.contains("S3cret"), "{log}");
}

#[test]
fn a_registration_is_kept_over_kill() {
    let folder = TestDir::new("cli-register");
    let data = folder.path().join("data");
    let arguments = [
        "--data",
        text(&data),
        "--listen",
        "udp:127.0.0.1:0",
        "--domain",
        "example.com",
        "--no-auth",
    ];
    let mut server = Serving::start(folder.path(), &data, &arguments);
    let phone = "127.0.0.1:40123";
    let register = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {phone};branch=z9hG4bKcli1;rport\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=1\r\nTo: <sip:alice@example.com>\r\nCall-ID: cli@{phone}\r\n\
         CSeq: 1 REGISTER\r\nContact: <sip:alice@{phone}>\r\nExpires: 600\r\nContent-Length: 0\r\n\r\n"
    );
    let answer = ask_udp(server.at("udp"), register.as_bytes());
    assert!(
        answer.starts_with("SIP/2.0 200 ") && answer.contains(&format!("sip:alice@{phone}")),
        "{answer}"
    );
    let listed = || {
        succeed(
            &["bindings", "alice@example.com", "--data", text(&data)],
            "",
        )
    };
    assert!(
        listed().contains(&format!("sip:alice@example.com at sip:alice@{phone} for ")),
        "{}",
        listed()
    );

    server.process.signal("-KILL");
    server.process.wait(Duration::from_secs(20)).unwrap();
    fs::remove_file(data.join("listeners.json")).unwrap();
    let server = Serving::start(folder.path(), &data, &arguments);
    server.wait_for_log("bindings=1");
    assert!(listed().contains("sip:alice@example.com"));
}

#[test]
fn a_bad_configuration_never_replaces_a_good_one() {
    let folder = TestDir::new("cli-reload");
    let data = folder.path().join("data");
    let file = folder.path().join("signet.toml");
    let good = "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\n\
                [[listen]]\non = \"udp:127.0.0.1:0\"\n[[listen]]\non = \"tls:127.0.0.1:0\"\n";
    fs::write(&file, format!("server_header = \"Before\"\n{good}")).unwrap();
    let mut server = Serving::start(folder.path(), &data, &["--config", text(&file)]);
    let header = |server: &Serving| {
        let to = server.at("udp");
        let request = options("127.0.0.1:9", "UDP", &to.to_string());
        let request = request.replace("branch", "rport;branch");
        ask_udp(to, request.as_bytes())
            .lines()
            .find_map(|line| line.strip_prefix("Server: "))
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(header(&server), "Before");

    fs::write(
        &file,
        format!("server_header = \"Bad\"\nno_such_key = 1\n{good}"),
    )
    .unwrap();
    server.process.signal("-HUP");
    server.wait_for_log("reload refused, everything stays as it was");
    server.wait_for_log("unknown key `no_such_key`");
    assert_eq!(header(&server), "Before");

    // A certificate that cannot be read spoils the whole of it too.
    let spoilt = good.replace(
        "on = \"tls:127.0.0.1:0\"\n",
        "on = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"none.pem\", key = \"none.key\" }\n",
    );
    fs::write(&file, format!("server_header = \"Bad\"\n{spoilt}")).unwrap();
    server.process.signal("-HUP");
    server.wait_for_log("none.pem");
    assert_eq!(header(&server), "Before");

    fs::write(
        &file,
        format!("server_header = \"After\"\nworkers = 7\n{good}"),
    )
    .unwrap();
    server.process.signal("-HUP");
    server.wait_for_log("reloaded");
    server.wait_for_log("`workers` has changed: it takes effect at the next start");
    assert_eq!(header(&server), "After");

    fs::remove_file(&file).unwrap();
    server.process.signal("-HUP");
    server.wait_for_log("put the file back where it was at the start");
    assert_eq!(header(&server), "After");

    // What waits for the next start, and would keep the server from it.
    fs::write(
        &file,
        format!("server_header = \"After\"\n{good}[records]\npath = \"none/calls\"\n"),
    )
    .unwrap();
    server.process.signal("-HUP");
    server.wait_for_log("`records` has changed: it takes effect at the next start");
    server.wait_for_log("the next start would fail: records.path: there is no folder for ");

    server.process.signal("-TERM");
    assert_eq!(server.process.wait(Duration::from_secs(20)), Some(0));
}

/// A request outside of any dialog from the socket of a caller.
fn invite(from: &UdpSocket, number: u32) -> String {
    let local = from.local_addr().unwrap();
    format!(
        "INVITE sip:bob@elsewhere.example SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKdrain{number}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag={number}\r\nTo: <sip:bob@elsewhere.example>\r\nCall-ID: drain{number}@{local}\r\n\
         CSeq: 1 INVITE\r\nContact: <sip:alice@{local}>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// The next message at a socket that begins with `start`.
fn receive(socket: &UdpSocket, start: &str) -> String {
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut buffer = [0; 65_535];
    loop {
        let length = uninterrupted(|| socket.recv(&mut buffer))
            .unwrap_or_else(|error| panic!("no {start}: {error}"));
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if message.starts_with(start) {
            return message;
        }
    }
}

#[test]
fn what_is_under_way_ends_before_the_server_does() {
    let folder = TestDir::new("cli-drain");
    let data = folder.path().join("data");
    let called = UdpSocket::bind("127.0.0.1:0").unwrap();
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    let forward = format!("sip:{};transport=udp", called.local_addr().unwrap());
    let mut server = Serving::start(
        folder.path(),
        &data,
        &[
            "--data",
            text(&data),
            "--no-auth",
            "--listen",
            "udp:127.0.0.1:0",
            "--forward",
            &forward,
        ],
    );
    caller
        .send_to(invite(&caller, 1).as_bytes(), server.at("udp"))
        .unwrap();
    let forwarded = receive(&called, "INVITE ");

    server.process.signal("-TERM");
    server.wait_for_log("draining");
    caller
        .send_to(invite(&caller, 2).as_bytes(), server.at("udp"))
        .unwrap();
    let refused = receive(&caller, "SIP/2.0 503 ");
    assert!(
        refused.contains("Call-ID: drain2@") && refused.contains("Retry-After: "),
        "{refused}"
    );
    assert_eq!(
        server.process.wait(Duration::from_millis(100)),
        None,
        "it waits for the first call"
    );
    // Meanwhile commands are heard, and whoever has moved the file of the call records.
    let place = ["--data", text(&data)];
    succeed(
        &[&["alias", "add", "sales", "bob"], &place[..]].concat(),
        "",
    );
    server.process.signal("-HUP");
    server.wait_for_log("call records go into the file that is there now");

    let copied = ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"];
    let headers: String = forwarded
        .lines()
        .filter(|line| copied.iter().any(|name| line.starts_with(name)))
        .map(|line| {
            line.replace(
                "To: <sip:bob@elsewhere.example>",
                "To: <sip:bob@elsewhere.example>;tag=b",
            ) + "\r\n"
        })
        .collect();
    let answer = format!(
        "SIP/2.0 200 OK\r\n{headers}Contact: <sip:bob@127.0.0.1:9>\r\nContent-Length: 0\r\n\r\n"
    );
    called.send_to(answer.as_bytes(), server.at("udp")).unwrap();
    let ok = receive(&caller, "SIP/2.0 200 ");
    assert!(ok.contains("Call-ID: drain1@"), "{ok}");
    assert_eq!(server.process.wait(Duration::from_secs(20)), Some(0));
    server.wait_for_log("drained");
}

/// A server with an address for figures, and that address.
fn serve_figures(folder: &TestDir) -> (Serving, SocketAddr) {
    let data = folder.path().join("data");
    let server = Serving::start(
        folder.path(),
        &data,
        &[
            "--data",
            text(&data),
            "--listen",
            "udp:127.0.0.1:0",
            "--metrics",
            "127.0.0.1:0",
        ],
    );
    let told = fs::read_to_string(data.join("listeners.json")).unwrap();
    let at = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("\"metrics\": \""))
        .unwrap();
    (server, at.trim_end_matches(['"', ',']).parse().unwrap())
}

#[test]
fn who_hangs_where_figures_are_served_is_cut_and_holds_up_nobody_for_long() {
    let folder = TestDir::new("serving-silent");
    let (server, at) = serve_figures(&folder);
    let connect = || {
        let stream = TcpStream::connect(at).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    };
    let mut silent: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    for stream in silent.iter_mut().step_by(10) {
        stream.write_all(b"G").unwrap();
    }
    let mut asks = connect();
    asks.write_all(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    // The connection ends with its one answer: a next question is another's seat.
    let mut answer = String::new();
    asks.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
    for stream in &mut silent {
        assert_eq!(uninterrupted(|| stream.read(&mut [0; 64])).unwrap(), 0);
    }
    assert_eq!(server.options(), "SIP/2.0 200 OK");
}

#[test]
fn figures_and_health_are_served() {
    let folder = TestDir::new("cli-metrics");
    let (server, at) = serve_figures(&folder);
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let (answer, _) = exchange_tcp(at, request.as_bytes(), Duration::from_secs(5));
        String::from_utf8(answer).unwrap()
    };
    assert!(get("/health").ends_with("ok\n"));
    assert!(get("/ready").starts_with("HTTP/1.1 200 "));
    assert!(get("/nothing").starts_with("HTTP/1.1 404 "));
    assert_eq!(server.options(), "SIP/2.0 200 OK");
    let until = Instant::now() + Duration::from_secs(20);
    while !get("/metrics")
        .lines()
        .any(|line| line == "signet_requests_total 1")
    {
        assert!(
            Instant::now() < until,
            "the request was not counted:\n{}",
            get("/metrics")
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn messages_are_printed_without_their_secrets() {
    let folder = TestDir::new("cli-trace");
    let data = folder.path().join("data");
    let server = Serving::start(
        folder.path(),
        &data,
        &[
            "--data",
            text(&data),
            "--listen",
            "udp:127.0.0.1:0",
            "--trace-sip",
        ],
    );
    let to = server.at("udp");
    let request = options("127.0.0.1:9", "UDP", &to.to_string()).replace(
        "Max-Forwards",
        "Authorization: Digest username=\"alice\", response=\"0123456789\"\r\nMax-Forwards",
    );
    exchange_udp(to, request.as_bytes(), Duration::from_millis(100));
    server.wait_for_log("username=\"alice\", response=***");
    server.wait_for_log("   SIP/2.0 200 OK");
    assert!(
        !fs::read_to_string(&server.log)
            .unwrap()
            .contains("0123456789")
    );
}

#[test]
fn a_locked_database_stops_registrations_and_nothing_else() {
    let folder = TestDir::new("serving-locked");
    let data = folder.path().join("data");
    let server = Serving::start(
        folder.path(),
        &data,
        &[
            "--data",
            text(&data),
            "--listen",
            "udp:127.0.0.1:0",
            "--domain",
            "example.com",
            "--no-auth",
        ],
    );
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = phone.local_addr().unwrap();
    let register = |user: &str, number: u32| {
        let request = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKlock{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}@{local}\r\n\
             CSeq: {number} REGISTER\r\nContact: <sip:{user}@{local}>\r\nContent-Length: 0\r\n\r\n"
        );
        phone.send_to(request.as_bytes(), server.at("udp")).unwrap();
        receive(&phone, "SIP/2.0 ")
    };
    assert!(register("bob", 1).starts_with("SIP/2.0 200 "));

    let database = rusqlite::Connection::open(data.join("signet.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = register("alice", 2);
    assert!(
        refused.starts_with("SIP/2.0 500 ") && refused.contains("Retry-After: "),
        "{refused}"
    );
    // Calls go on, to whom was there before.
    let called = invite(&phone, 3).replace("sip:bob@elsewhere.example", "sip:bob@example.com");
    phone.send_to(called.as_bytes(), server.at("udp")).unwrap();
    receive(&phone, "INVITE ");
    assert_eq!(server.options(), "SIP/2.0 200 OK");

    database.execute_batch("ROLLBACK").unwrap();
    let mut answer = String::new();
    for number in 4..10 {
        answer = register("alice", number);
        if answer.starts_with("SIP/2.0 200 ") {
            break;
        }
    }
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}
