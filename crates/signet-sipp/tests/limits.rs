//! How many calls are under way at a time, and what becomes of those past that.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use support::Folder;

const ONE: &str = "<?xml version=\"1.0\"?><scenario name=\"one\"><send><![CDATA[
  OPTIONS sip:[service]@[remote_ip] SIP/2.0
  Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
  From: <sip:a@b>;tag=1
  To: <sip:c@d>
  Call-ID: [call_id]
  CSeq: [cseq] OPTIONS
  Content-Length: 0
]]></send><recv response=\"200\"/></scenario>";

/// Takes requests for a while, and answers them if that is wanted; gives how many
/// calls began.
fn take(
    socket: &UdpSocket,
    until: Instant,
    answers: bool,
    kept: &mut Vec<(Vec<u8>, SocketAddr)>,
) -> usize {
    let mut ids = HashSet::new();
    let mut bytes = [0; 4_096];
    while Instant::now() < until {
        let Ok((len, from)) = socket.recv_from(&mut bytes) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
        let id = text
            .lines()
            .find(|line| line.starts_with("Call-ID"))
            .unwrap();
        ids.insert(id.to_owned());
        let (_, rest) = text.split_once("\r\n").unwrap();
        let answer = format!("SIP/2.0 200 OK\r\n{rest}").into_bytes();
        if answers {
            socket.send_to(&answer, from).unwrap();
        } else {
            kept.push((answer, from));
        }
    }
    ids.len()
}

#[test]
fn calls_held_back_by_a_limit_are_not_made_up_for() {
    let folder = Folder::new();
    folder.write("one.xml", ONE);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    let remote = socket.local_addr().unwrap();
    for limit in ["-l 5", "-l 5 -rate_increase 1 -rate_interval 1"] {
        let line = format!("-sf one.xml {remote} -i 127.0.0.1 -r 100 {limit}");
        let calling = folder.ours("calling", &line);
        let mut kept = Vec::new();
        while kept.len() < 5 {
            take(
                &socket,
                Instant::now() + Duration::from_millis(10),
                false,
                &mut kept,
            );
        }
        // For two seconds nobody answers, so that 200 calls fall due.
        let held = take(
            &socket,
            Instant::now() + Duration::from_secs(2),
            false,
            &mut kept,
        );
        assert_eq!(held, 0);
        for (answer, from) in kept.drain(..) {
            socket.send_to(&answer, from).unwrap();
        }
        let begun = take(
            &socket,
            Instant::now() + Duration::from_millis(500),
            true,
            &mut kept,
        );
        // Fifty fall due meanwhile, and more if the machine stood still; none of the 200.
        assert!((1..200).contains(&begun), "{limit}: {begun} calls");
        drop(calling);
        take(
            &socket,
            Instant::now() + Duration::from_millis(50),
            false,
            &mut kept,
        );
    }
}

#[test]
fn the_limit_follows_the_pauses_and_the_rate() {
    let folder = Folder::new();
    folder.write(
        "long.xml",
        &ONE.replace("<recv ", "<pause milliseconds=\"2000\"/><recv "),
    );
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = socket.local_addr().unwrap();
    for (options, limit) in [
        ("-r 20", "(limit 120)"),
        ("-r 20 -d 3000", "(limit 180)"),
        ("-r 20 -l 0", "(limit none)"),
        ("-r 20 -l 9", "(limit 9)"),
        // Once, after 300 ms.
        (
            "-r 20 -rate_increase 30 -rate_interval 300ms -rate_max 50 -no_rate_quit",
            "(limit 300)",
        ),
    ] {
        let line =
            format!("-sf long.xml {remote} -i 127.0.0.1 -timeout 500ms -timeout_error {options}");
        let ended = folder.ours("limits", &line).wait();
        assert_eq!(ended.code, 255, "{ended:?}");
        assert!(ended.stdout.contains(limit), "{options}: {}", ended.stdout);
    }
}
