//! Each transport and mode, with us on both sides, and with SIPp on the called
//! one where it has the transport.

#![allow(clippy::unwrap_used)]

mod support;

use sip_net::testing::uninterrupted;
use sip_tls::testing::TestCa;
use support::{Ended, Folder, await_port, free_port};

fn call(folder: &Folder, both: &str, called: &str, calling: &str) -> (Ended, Ended) {
    let port = free_port();
    let line = format!("-sn uas -i 127.0.0.1 -p {port} -m 6 {both} {called}");
    let mut answers = folder.ours("called", &line);
    await_port(port, &mut answers);
    let line = format!("-sn uac 127.0.0.1:{port} -i 127.0.0.1 -m 6 -r 100 -d 20 {both} {calling}");
    let calls = folder.ours("calling", &line).wait();
    (calls, answers.wait())
}

fn succeeds((calls, answers): (Ended, Ended)) {
    assert_eq!((calls.code, answers.code), (0, 0), "{calls:?}\n{answers:?}");
    let line = calls
        .stdout
        .lines()
        .find(|line| line.contains("Successful call"));
    assert!(line.unwrap().trim_end().ends_with('6'), "{}", calls.stdout);
}

#[test]
fn calls_go_over_udp_and_tcp_in_every_mode() {
    for mode in ["u1", "un", "t1", "tn"] {
        succeeds(call(&Folder::new(), &format!("-t {mode}"), "", ""));
    }
}

#[test]
fn each_address_of_the_injection_file_has_its_socket() {
    let folder = Folder::new();
    folder.write("ips.csv", "SEQUENTIAL\nx;127.0.0.2\ny;127.0.0.3\n");
    let calling = "-t ui -inf ips.csv -ip_field 1 -trace_msg -message_file calls.log";
    let (calls, answers) = call(&folder, "", "-trace_msg -message_file answers.log", calling);
    succeeds((calls, answers));
    let log = folder.read("answers.log");
    for ip in ["127.0.0.2", "127.0.0.3"] {
        let contact = format!("Contact: <sip:caller@{ip}:");
        assert_eq!(log.matches(&contact).count(), 3, "{ip}\n{log}");
    }
}

#[test]
fn calls_go_over_tls() {
    let folder = Folder::new();
    let ca = TestCa::new();
    let (cert, key) = ca.issue(&["127.0.0.1"]);
    folder.write("ca.pem", &ca.root_pem());
    folder.write("cert.pem", &cert);
    folder.write("key.pem", &key);
    let called = "-tls_cert cert.pem -tls_key key.pem";
    for mode in ["l1", "ln"] {
        // As SIPp, without roots anyone is believed.
        succeeds(call(&folder, &format!("-t {mode}"), called, ""));
        succeeds(call(
            &folder,
            &format!("-t {mode}"),
            called,
            "-tls_ca ca.pem",
        ));
    }
    for version in ["1.2", "1.3"] {
        let both = format!("-t l1 -tls_version {version}");
        succeeds(call(&folder, &both, called, ""));
    }
    // With roots, the called side wants to know who calls.
    let proves = "-tls_ca ca.pem -tls_cert cert.pem -tls_key key.pem";
    succeeds(call(&folder, "-t ln", proves, proves));
}

#[test]
fn a_server_without_proof_is_not_called() {
    let folder = Folder::new();
    let (ours, other) = (TestCa::new(), TestCa::named("other"));
    let (cert, key) = other.issue(&["127.0.0.1"]);
    folder.write("ca.pem", &ours.root_pem());
    folder.write("cert.pem", &cert);
    folder.write("key.pem", &key);
    let port = free_port();
    let line = format!("-sn uas -i 127.0.0.1 -p {port} -t l1 -tls_cert cert.pem -tls_key key.pem");
    let mut answers = folder.ours("called", &line);
    await_port(port, &mut answers);
    let line = format!("-sn uac 127.0.0.1:{port} -i 127.0.0.1 -m 2 -t ln -tls_ca ca.pem");
    let calls = folder.ours("calling", &line).wait();
    assert_eq!(calls.code, 1, "{calls:?}");
    assert!(calls.stdout.contains("TCP connect"), "{}", calls.stdout);
}

#[test]
fn nobody_who_listens_is_a_cause_of_failure() {
    let folder = Folder::new();
    let line = format!(
        "-sn uac 127.0.0.1:{} -i 127.0.0.1 -m 3 -r 100 -t tn",
        free_port()
    );
    let calls = folder.ours("calling", &line).wait();
    assert_eq!(calls.code, 1, "{calls:?}");
    assert!(calls.stdout.contains("TCP connect"), "{}", calls.stdout);
}

#[test]
fn without_a_connection_for_all_calls_there_is_no_run() {
    let folder = Folder::new();
    for more in ["", "-max_reconnect 2 -reconnect_sleep 1"] {
        for is_ours in [false, true] {
            let line = format!(
                "-sn uac 127.0.0.1:{} -i 127.0.0.1 -m 1 -t t1 {more}",
                free_port()
            );
            let calls = match is_ours {
                true => folder.ours("calling", &line).wait(),
                false => folder.sipp("calling", &line).wait(),
            };
            assert_eq!(calls.code, 255, "{more} {is_ours}: {calls:?}");
            if is_ours {
                assert!(
                    calls.stderr.starts_with("no connection to 127.0.0.1:"),
                    "{calls:?}"
                );
                let created = calls
                    .stdout
                    .lines()
                    .rfind(|line| line.contains("Outgoing calls"));
                assert!(
                    created.unwrap().trim_end().ends_with(" 0"),
                    "{}",
                    calls.stdout
                );
            }
        }
    }
}

#[test]
fn a_connection_that_is_lost_ends_the_run_unless_it_may_be_opened_anew() {
    use std::io::Read;
    let folder = Folder::new();
    // SIPp 3.6.1 cannot open one anew: it fails to.
    for (breaks, more, theirs, ours) in [
        (false, "-m 1", Some(1), 1),
        (true, "-m 1", Some(255), 255),
        (false, "-m 3", Some(255), 255),
        (true, "-m 3", Some(255), 255),
        (false, "-m 3 -max_reconnect 1", None, 255),
        (false, "-m 3 -max_reconnect 2", None, 1),
        (true, "-m 3 -max_reconnect 3", None, 1),
        (true, "-m 3 -max_reconnect -1", None, 1),
    ] {
        for (is_ours, code) in [(false, theirs), (true, Some(ours))] {
            let Some(code) = code else { continue };
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let remote = listener.local_addr().unwrap();
            // It ends with the test program.
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    // Who closes before all is read breaks the connection.
                    let len = if breaks { 1 } else { 4_096 };
                    let _ = stream.read(&mut vec![0; len]);
                }
            });
            let line =
                format!("-sn uac {remote} -i 127.0.0.1 -r 5 -t t1 -reconnect_sleep 1 {more}");
            let ended = match is_ours {
                true => folder.ours("calling", &line).wait(),
                false => folder.sipp("calling", &line).wait(),
            };
            assert_eq!(ended.code, code, "{breaks} {more} {is_ours}: {ended:?}");
        }
    }
}

/// A listener whose queue is full does not answer: the connection comes up when it is tried for
/// the second time, a second later. What would have been due until then is not made up for.
#[test]
fn calls_fall_due_once_the_connection_of_all_is_up() {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Instant;
    let folder = Folder::new();
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    full.bind(&any.into()).unwrap();
    full.listen(0).unwrap();
    let listener = TcpListener::from(full);
    let remote = listener.local_addr().unwrap();
    let _first = TcpStream::connect(remote).unwrap();
    let line = format!("-sn uac {remote} -i 127.0.0.1 -t t1 -r 100 -m 1000");
    let mut calling = folder.ours("calling", &line);
    let place = format!(":{:04X}", remote.port());
    let is_connecting = || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        table.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(2);
            let (to, state) = (columns.next(), columns.next());
            // SYN_SENT, as proc(5) numbers it.
            to.is_some_and(|to| to.ends_with(&place)) && state == Some("02")
        })
    };
    support::await_that("it is connecting", is_connecting);
    drop(uninterrupted(|| listener.accept()).unwrap());
    // Not up before then.
    let mut last = Instant::now();
    support::await_that("it is connected", || {
        assert!(!calling.has_ended());
        let before = Instant::now();
        let is_up = !is_connecting();
        if !is_up {
            last = before;
        }
        is_up
    });
    let (mut stream, _) = uninterrupted(|| listener.accept()).unwrap();
    stream.set_read_timeout(Some(support::DEADLINE)).unwrap();
    let (mut heard, mut bytes) = (Vec::new(), [0; 65_535]);
    // A burst is one write, or a few.
    for _ in 0..3 {
        let len = uninterrupted(|| stream.read(&mut bytes)).unwrap();
        heard.extend_from_slice(&bytes[..len]);
    }
    let due = 100.0 * last.elapsed().as_secs_f64() + 1.0;
    let begun = String::from_utf8_lossy(&heard)
        .matches("INVITE sip:")
        .count();
    assert!(begun as f64 <= due, "{begun} of {due}");
}

#[test]
fn all_addresses_are_listened_on_unless_one_is_asked_for() {
    use std::io::{Read, Write};
    use std::net::{TcpStream, UdpSocket};
    let folder = Folder::new();
    for (line, hears) in [("", true), ("-bind_local", false), ("-i 127.0.0.1", false)] {
        let port = free_port();
        let mut called = folder.ours("called", &format!("-sn uas -p {port} {line}"));
        await_port(port, &mut called);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(support::DEADLINE)).unwrap();
        // From now on only what comes from there is heard.
        socket.connect(("127.0.0.9", port)).unwrap();
        socket.send(support::INVITE).unwrap();
        let mut bytes = [0; 2_000];
        let heard = uninterrupted(|| socket.recv(&mut bytes));
        assert_eq!(heard.is_ok(), hears, "{line}: {heard:?}");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("<sip:0.0.0.0"), "{text}");
        called.signal("TERM");
        called.wait();

        let mut called = folder.ours("called", &format!("-sn uas -t t1 -p {port} {line}"));
        await_port(port, &mut called);
        let stream = TcpStream::connect(("127.0.0.9", port));
        assert_eq!(stream.is_ok(), hears, "{line}: {stream:?}");
        if let Ok(mut stream) = stream {
            stream.write_all(support::INVITE).unwrap();
            assert!(stream.read(&mut bytes).unwrap() > 0);
        }
    }
}

#[test]
fn a_caller_with_all_addresses_names_the_one_that_it_is_reached_at() {
    let folder = Folder::new();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(support::DEADLINE)).unwrap();
    let remote = socket.local_addr().unwrap();
    let own = free_port();
    let _calling = folder.ours("calling", &format!("-sn uac {remote} -p {own} -m 1"));
    let mut bytes = [0; 2_000];
    let (len, from) = uninterrupted(|| socket.recv_from(&mut bytes)).unwrap();
    let text = String::from_utf8_lossy(&bytes[..len]);
    assert_eq!(from, ([127, 0, 0, 1], own).into());
    assert!(
        text.contains(&format!("Via: SIP/2.0/UDP 127.0.0.1:{own};")),
        "{text}"
    );
    assert!(text.contains(&format!("@127.0.0.1:{own}>")), "{text}");
}

#[test]
fn a_message_without_a_length_has_no_body() {
    use std::io::{Read, Write};
    for is_ours in [false, true] {
        let folder = Folder::new();
        let steps = "<recv request=\"OPTIONS\"/><send><![CDATA[\n\
            SIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:]\n[last_Call-ID:]\n\
            [last_CSeq:]\nContent-Length: 0\n]]></send>";
        folder.write(
            "called.xml",
            &format!("<?xml version=\"1.0\"?>\n<scenario name=\"c\">{steps}</scenario>\n"),
        );
        let port = free_port();
        let line = format!("-sf called.xml -i 127.0.0.1 -p {port} -t t1 -m 3 -timeout 20");
        let mut called = match is_ours {
            true => folder.ours("called", &line),
            false => folder.sipp("called", &line),
        };
        await_port(port, &mut called);
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(support::DEADLINE)).unwrap();
        let request = String::from_utf8_lossy(support::INVITE).replace("INVITE", "OPTIONS");
        let mut answers = String::new();
        for (id, length) in [("a", "Content-Length: 0\r\n"), ("b", ""), ("c", "l: 0\r\n")] {
            let request = request
                .replace("an-invite", id)
                .replace("Content-Length: 0\r\n", length);
            stream.write_all(request.as_bytes()).unwrap();
            let answered = format!("Call-ID: {id}\r\n");
            let mut bytes = [0; 2_000];
            while !answers.contains(&answered) {
                let len = uninterrupted(|| stream.read(&mut bytes)).unwrap();
                assert!(len > 0, "ours: {is_ours}, {id}: {answers}");
                answers += &String::from_utf8_lossy(&bytes[..len]);
            }
        }
        assert_eq!(answers.matches("SIP/2.0 200 OK\r\n").count(), 3);
        let called = called.wait();
        assert_eq!(called.code, 0, "ours: {is_ours}: {called:?}");
    }
}

#[test]
fn a_peer_that_talks_rubbish_costs_its_calls_and_nothing_else() {
    use std::io::{Read, Write};
    let folder = Folder::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = listener.local_addr().unwrap();
    let rubbish = std::thread::spawn(move || {
        for stream in listener.incoming().take(3) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n\r\n");
        }
    });
    let line = format!("-sn uac {remote} -i 127.0.0.1 -m 3 -r 100 -t tn");
    let calls = folder.ours("calling", &line).wait();
    assert_eq!(calls.code, 1, "{calls:?}");
    rubbish.join().unwrap();
}
