//! RFC 3263 end to end: a domain with two servers by SRV, the preferred one
//! dead. The call goes to the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sip_net::testing::{DnsServer, Record, uninterrupted};
use support::{Server, TestDir, free_port, in_namespace, phone_socket};

#[test]
fn a_dead_server_is_passed_over() {
    in_namespace("a_dead_server_is_passed_over", || {
        let alive = UdpSocket::bind("127.0.0.1:0").unwrap();
        let alive_port = alive.local_addr().unwrap().port();
        let dead_port = free_port();
        let srv = |priority, port| Record::Srv(priority, 1, port, "host.other.test".to_owned());
        let dns = DnsServer::start(vec![
            ("_sip._udp.other.test".to_owned(), srv(10, dead_port)),
            ("_sip._udp.other.test".to_owned(), srv(20, alive_port)),
            (
                "host.other.test".to_owned(),
                Record::Addr([127, 0, 0, 1].into()),
            ),
        ])
        .unwrap();
        let folder = TestDir::new("dns");
        let port = free_port();
        let config = format!(
            "version = 1\ndata = {:?}\ndomains = [\"example.test\"]\nworkers = 1\n\
             [[listen]]\non = \"udp:127.0.0.1:{port}\"\n[authentication]\nrequired = false\n\
             [dns]\nservers = [\"{}\"]\n[timers]\nt1_ms = 100\n",
            folder.path().join("data").display().to_string(),
            dns.addr()
        );
        let server =
            Server::start_with_config(folder.path(), &config, ([127, 0, 0, 1], port).into());
        let caller = phone_socket("127.0.0.1");
        let local = caller.local_addr().unwrap();
        let invite = format!(
            "INVITE sip:bob@other.test SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKdns1;rport\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@example.test>;tag=a\r\nTo: <sip:bob@other.test>\r\nCall-ID: dns@test\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:alice@{local}>\r\nContent-Length: 0\r\n\r\n"
        );
        caller.send_to(invite.as_bytes(), server.udp).unwrap();
        alive
            .set_read_timeout(Some(Duration::from_secs(15)))
            .unwrap();
        let mut buffer = [0; 65_535];
        let begun = Instant::now();
        let (n, from) = uninterrupted(|| alive.recv_from(&mut buffer))
            .unwrap_or_else(|e| panic!("nothing came to the living server: {e}"));
        let request = String::from_utf8_lossy(&buffer[..n]).into_owned();
        assert!(
            request.starts_with("INVITE sip:bob@other.test SIP/2.0\r\n"),
            "{request}"
        );
        eprintln!("the living server was reached after {:?}", begun.elapsed());
        let vias: String = request
            .lines()
            .filter(|l| l.starts_with("Via:"))
            .map(|l| format!("{l}\r\n"))
            .collect();
        let answer = format!(
            "SIP/2.0 486 Busy Here\r\n{vias}From: <sip:alice@example.test>;tag=a\r\nTo: <sip:bob@other.test>;tag=b\r\n\
             Call-ID: dns@test\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
        alive.send_to(answer.as_bytes(), from).unwrap();
        caller
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut answer = String::new();
        while !answer.starts_with("SIP/2.0 486") {
            let n = uninterrupted(|| caller.recv(&mut buffer))
                .unwrap_or_else(|e| panic!("{e}; the answer before: {answer}"));
            answer = String::from_utf8_lossy(&buffer[..n]).into_owned();
        }
        assert!(dns.question_count() > 0, "nobody asked the DNS server");
    });
}
