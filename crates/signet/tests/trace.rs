//! Messages that the operator sees: Wireshark's reader finds in the file what was on the wire,
//! and no secret; `signet trace` shows what passes a running server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use support::command::{Serving, fail, text};
use support::openssl::Client;
use support::phone::Phone;
use support::{Running, TestDir, add_user, have, in_namespace, signet};

const DOMAIN: &str = "example.com";
const PATIENCE: Duration = Duration::from_secs(30);

/// What tshark prints of the packets in a file that fit a filter: a line each, tabs between
/// the fields, | between several values of one.
fn read(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", text(file), "-Y", filter, "-T", "fields"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    // One that is still written may end within a packet.
    let is_read = output.status.success() || error.contains("cut short");
    assert!(is_read, "{error}");
    let told = String::from_utf8(output.stdout).unwrap();
    let values = |line: &str| line.split('\t').map(str::to_owned).collect();
    told.lines().map(values).collect()
}

/// The messages of SIPp's calls in a file, each with its way, and of each stream or pair of
/// ports in their order.
fn messages_of_calls(file: &Path) -> Vec<String> {
    let fields = [
        "ip.src",
        "ip.dst",
        "udp.srcport",
        "udp.dstport",
        "tcp.srcport",
        "tcp.dstport",
        "sip.Request-Line",
        "sip.Status-Line",
        "sip.Call-ID",
        "sip.CSeq",
    ];
    let mut found = Vec::new();
    for line in read(file, "sip.Call-ID contains \"@127.0.0.7\"", &fields) {
        let way = line[..6].join(" ");
        // Two that left together are in one segment.
        let several = |nth: usize| line[nth].split('|').filter(|value| !value.is_empty());
        let starts = several(6).chain(several(7));
        for ((start, call), cseq) in starts.zip(several(8)).zip(several(9)) {
            found.push(format!("{way} {start} {call} {cseq}"));
        }
    }
    found.sort();
    found
}

/// Records what is on the loopback, by software that is not ours.
fn record(folder: &Path, server: &Serving) -> (Running, PathBuf) {
    let file = folder.join("wire.pcapng");
    let log = folder.join("tshark.log");
    let recorder = Running::start("tshark", &["-n", "-i", "lo", "-w", text(&file)], &log);
    let len = || fs::metadata(&file).map_or(0, |about| about.len());
    let until = Instant::now() + PATIENCE;
    // Its file grows once it records: before that it has a header, or is not there.
    let mut before = 0;
    while before == 0 || len() == before {
        before = before.max(len());
        assert_eq!(server.options(), "SIP/2.0 200 OK");
        std::thread::sleep(Duration::from_millis(100));
        let told = || fs::read_to_string(&log).unwrap();
        assert!(Instant::now() < until, "nothing is recorded: {}", told());
    }
    (recorder, file)
}

#[test]
fn wireshark_reads_the_calls_that_were_on_the_wire() {
    if !have("tshark") || !have("sipp") || !have("openssl") {
        return;
    }
    in_namespace("wireshark_reads_the_calls_that_were_on_the_wire", || {
        let folder = TestDir::new("trace-wire");
        let (data, pcap) = (folder.path().join("data"), folder.path().join("own.pcapng"));
        let mut server = Serving::start(
            folder.path(),
            &data,
            &[
                "--data",
                text(&data),
                "--no-auth",
                "--workers",
                "2",
                "--listen",
                "udp:0.0.0.0:5060",
                "--listen",
                "tcp:0.0.0.0:5060",
                "--listen",
                "tls:127.0.0.1:5061",
                "--forward",
                "sip:127.0.0.9:5080;transport=tcp",
                "--trace-pcap",
                text(&pcap),
            ],
        );
        // It is bound to all addresses; which one is meant is in each packet.
        for (transport, addr) in &mut server.listeners {
            if transport == "udp" {
                addr.set_ip("127.0.0.1".parse().unwrap());
            }
        }
        let (mut recorder, wire) = record(folder.path(), &server);
        let called = ["-sn", "uas", "-i", "127.0.0.9", "-p", "5080", "-t", "t1"];
        let called = [&called[..], &["-nostdin"]].concat();
        let _called = Running::start("sipp", &called, &folder.path().join("uas.log"));
        let until = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect("127.0.0.9:5080").is_err() {
            assert!(Instant::now() < until, "the called side does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        let calling = ["-sn", "uac", "-i", "127.0.0.7", "-p", "5070", "-m", "5"];
        let calling = [&calling[..], &["-r", "5", "-nostdin", "127.0.0.1:5060"]].concat();
        let mut caller = Running::start("sipp", &calling, &folder.path().join("uac.log"));
        assert_eq!(caller.wait(PATIENCE), Some(0), "five calls succeed");
        let mut tls = Client::connect("127.0.0.1:5061".parse().unwrap(), &[]);
        tls.exchange();
        drop(tls.end());

        server.process.signal("-TERM");
        assert_eq!(server.process.wait(PATIENCE), Some(0));
        let own = messages_of_calls(&pcap);
        // The recorder may be behind.
        let so_far = folder.path().join("so-far.pcapng");
        let until = Instant::now() + PATIENCE;
        let mut recorded = 0;
        while recorded < own.len() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
            fs::copy(&wire, &so_far).unwrap();
            recorded = messages_of_calls(&so_far).len();
        }
        recorder.signal("-INT");
        assert_eq!(recorder.wait(PATIENCE), Some(0));
        let wire = messages_of_calls(&wire);
        // INVITE, 180, 200, ACK, BYE, 200, of each call before the server and behind it.
        assert!(own.len() >= 5 * 12, "{own:#?}");
        assert_eq!(own, wire);
        let ends = ["ip.src", "udp.dstport", "sip.Method", "frame.comment"];
        let under_tls = read(&pcap, "frame.interface_name == \"tls\" && sip", &ends);
        assert_eq!(under_tls.len(), 2, "a request and its answer");
        assert_eq!(under_tls[0][..3], ["127.0.0.1", "5061", "OPTIONS"]);
        assert_eq!(under_tls[0][3], "by tls, shown as a datagram");
        let malformed = read(&pcap, "_ws.malformed || !sip", &["frame.number"]);
        assert!(malformed.is_empty(), "{malformed:?}");
    });
}

fn serve(folder: &Path, more: &[&str]) -> (Serving, PathBuf) {
    let data = folder.join("data");
    for user in ["alice", "bob"] {
        add_user(&data, user, DOMAIN, &format!("{user}-secret"));
    }
    let listen = ["--listen", "udp:127.0.0.1:0", "--domain", DOMAIN];
    let place = ["--data", text(&data)];
    let server = Serving::start(folder, &data, &[&place[..], &listen, more].concat());
    (server, data)
}

/// Whether a digest that could be guessed at is in it.
fn has_proof(text: &str) -> bool {
    let values = text.split("response=\"").skip(1);
    let mut proofs = values.filter_map(|rest| rest.get(..32));
    proofs.any(|proof| proof.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[test]
fn what_wireshark_reads_has_no_secret_and_is_of_whom_was_asked_for() {
    if !have("tshark") {
        return;
    }
    let folder = TestDir::new("trace-secret");
    let pcap = folder.path().join("alice.pcapng");
    let more = ["--trace-pcap", text(&pcap), "--trace-user", "alice"];
    let (mut server, _) = serve(folder.path(), &more);
    for user in ["alice", "bob"] {
        Phone::udp(server.at("udp"), user, DOMAIN).register();
    }
    server.process.signal("-TERM");
    assert_eq!(server.process.wait(PATIENCE), Some(0));
    let fields = [
        "sip.CSeq.method",
        "sip.from.user",
        "sip.auth.username",
        "sip.auth.digest.response",
        "sip.auth.nonce",
    ];
    let found = read(&pcap, "sip", &fields);
    let methods: Vec<&str> = found.iter().map(|line| &*line[0]).collect();
    assert_eq!(methods, ["REGISTER"; 4], "two requests and their answers");
    assert!(found.iter().all(|line| line[1] == "alice"), "{found:?}");
    let proved = &found[2];
    assert!(proved[2].contains("alice"), "{proved:?}");
    assert!(proved[3].contains(&"*".repeat(32)), "{proved:?}");
    assert!(proved[4].contains("****"), "{proved:?}");
    let bytes = fs::read(&pcap).unwrap();
    assert!(!has_proof(&String::from_utf8_lossy(&bytes)));
    assert_eq!(fs::metadata(&pcap).unwrap().mode() & 0o777, 0o600);
}

/// Starts `signet trace` and waits until it has begun.
fn trace(folder: &Path, name: &str, arguments: &[&str]) -> (Running, PathBuf) {
    let log = folder.join(name);
    let tracing = Running::start(signet(), &[&["trace"], arguments].concat(), &log);
    let until = Instant::now() + PATIENCE;
    while !fs::read_to_string(&log).unwrap().contains("Ctrl-C ends it") {
        assert!(Instant::now() < until, "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    (tracing, log)
}

#[test]
fn a_running_server_shows_what_passes_to_who_asks() {
    if !have("tshark") {
        return;
    }
    let folder = TestDir::new("trace-asked");
    let (server, data) = serve(folder.path(), &[]);
    let place = ["--data", text(&data)];
    let pcap = folder.path().join("bob.pcapng");
    let of_alice = [&place[..], &["--user", "alice@example.com"]].concat();
    let of_bob = ["--user", "bob", "--seconds", "10", "--pcap", text(&pcap)];
    let elsewhere = [&place[..], &["--address", "192.0.2.0/24"]].concat();
    let (_alice, shown) = trace(folder.path(), "alice.txt", &of_alice);
    let (_elsewhere, nothing) = trace(folder.path(), "elsewhere.txt", &elsewhere);
    let (mut bob, _) = trace(folder.path(), "bob.txt", &[&place[..], &of_bob].concat());
    for user in ["alice", "bob"] {
        Phone::udp(server.at("udp"), user, DOMAIN).register();
    }
    assert_eq!(bob.wait(PATIENCE), Some(0), "it ends after its time");
    let found = read(&pcap, "sip", &["sip.from.user"]);
    assert_eq!(found, vec![vec!["bob".to_owned()]; 4]);

    let until = Instant::now() + PATIENCE;
    let mut told = String::new();
    while !told.contains("SIP/2.0 200 ") {
        assert!(Instant::now() < until, "it is not shown: {told}");
        std::thread::sleep(Duration::from_millis(20));
        told = fs::read_to_string(&shown).unwrap();
    }
    assert_eq!(told.matches("REGISTER sip:").count(), 2, "{told}");
    let here = server.at("udp");
    assert!(told.contains(&format!(" > {here} (")), "{told}");
    assert!(
        told.contains(&format!("-> udp {here} > 127.0.0.1:")),
        "{told}"
    );
    assert!(told.contains("response=***") && !has_proof(&told), "{told}");
    assert!(!told.contains("bob"), "{told}");
    assert!(!fs::read_to_string(nothing).unwrap().contains("REGISTER"));
    // What is asked for on the socket is nothing for the log.
    assert!(
        !fs::read_to_string(&server.log)
            .unwrap()
            .contains("REGISTER sip:")
    );

    drop(server);
    let error = fail(&[&["trace"], &place[..]].concat(), "");
    assert!(error.contains("no server runs on"), "{error}");
    let for_ever = u64::MAX.to_string();
    let command = ["trace", "--seconds", for_ever.as_str()];
    let error = fail(&[&command[..], &place[..]].concat(), "");
    assert!(error.contains("no server runs on"), "{error}");
}
