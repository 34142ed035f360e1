//! Each transport and mode, with us on both sides, and with SIPp on the called
//! one where it has the transport.

#![allow(clippy::unwrap_used)]

mod support;

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
    for mode in ["t1", "tn"] {
        let line = format!(
            "-sn uac 127.0.0.1:{} -i 127.0.0.1 -m 3 -r 100 -t {mode} -reconnect_sleep 1 -max_reconnect 9",
            free_port()
        );
        let calls = folder.ours("calling", &line).wait();
        assert_eq!(calls.code, 1, "{mode}: {calls:?}");
        assert!(
            calls.stdout.contains("TCP connect"),
            "{mode}: {}",
            calls.stdout
        );
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
