//! Calls of which two instances have a half each: ours with SIPp's, each way round.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::thread::JoinHandle;

use sip_net::testing::uninterrupted;
use support::{Ended, Folder, Running, await_port, free_port, repository};

const CALLS: u32 = 5;

fn scenario(name: &str) -> String {
    let path = repository("crates/signet-sipp/tests/third_party").join(name);
    path.to_str().unwrap().to_owned()
}

/// Starts an instance: SIPp, or ours.
fn start(folder: &Folder, is_ours: bool, name: &str, line: &str) -> Running {
    let line = format!("{line} -i 127.0.0.1 -trace_msg -message_file {name}.messages -timeout 60");
    if is_ours {
        folder.ours(name, &line)
    } else {
        folder.sipp(name, &line)
    }
}

fn succeeds(ended: &Ended, how: &str, name: &str) {
    assert_eq!(ended.code, 0, "{how}, {name}: {ended:?}");
}

/// How often a message log has a line that begins so.
fn count(folder: &Folder, name: &str, line: &str) -> usize {
    let log = folder.read(&format!("{name}.messages"));
    log.lines().filter(|text| text.starts_with(line)).count()
}

#[test]
fn two_instances_share_their_calls() {
    // Ours is the first, the second, both; SIPp with SIPp is the model.
    for (a_is_ours, b_is_ours) in [(false, false), (true, false), (false, true), (true, true)] {
        let how = format!("a ours: {a_is_ours}, b ours: {b_is_ours}");
        let folder = Folder::new();
        let [called_a, called_b, twin, port_a, port_b] = [(); 5].map(|()| free_port());
        let called = |name: &str, port: u16| {
            let line = format!("-sn uas -p {port} -m {CALLS}");
            let mut called = start(&folder, true, name, &line);
            await_port(port, &mut called);
            called
        };
        let phones = [called("phone-a", called_a), called("phone-b", called_b)];
        let line = format!(
            "-sf {} 127.0.0.1:{called_b} -p {port_b} -m {CALLS} -3pcc 127.0.0.1:{twin}",
            scenario("b.xml")
        );
        let mut b = start(&folder, b_is_ours, "b", &line);
        await_port(twin, &mut b);
        let line = format!(
            "-sf {} 127.0.0.1:{called_a} -p {port_a} -m {CALLS} -r 20 -3pcc 127.0.0.1:{twin}",
            scenario("a.xml")
        );
        let a = start(&folder, a_is_ours, "a", &line);
        succeeds(&a.wait(), &how, "a");
        succeeds(&b.wait(), &how, "b");
        for phone in phones {
            succeeds(&phone.wait(), &how, "phone");
        }
        let calls = CALLS as usize;
        for phone in ["phone-a", "phone-b"] {
            assert_eq!(
                count(&folder, phone, "X-Other: 127.0.0.1"),
                calls,
                "{how}, {phone}"
            );
        }
    }
}

#[test]
fn instances_have_names() {
    for (master_is_ours, slave_is_ours) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let how = format!("master ours: {master_is_ours}, slave ours: {slave_is_ours}");
        let folder = Folder::new();
        let [called, master_at, slave_at, port_m, port_s] = [(); 5].map(|()| free_port());
        folder.write(
            "peers.csv",
            &format!("m;127.0.0.1:{master_at}\ns1;127.0.0.1:{slave_at}\n"),
        );
        let mut phone = start(
            &folder,
            true,
            "phone",
            &format!("-sn uas -p {called} -m {CALLS}"),
        );
        await_port(called, &mut phone);
        let line = format!(
            "-sf {} 127.0.0.1:{called} -p {port_s} -m {CALLS} -slave s1 -slave_cfg peers.csv",
            scenario("slave.xml")
        );
        let mut slave = start(&folder, slave_is_ours, "slave", &line);
        await_port(slave_at, &mut slave);
        let line = format!(
            "-sf {} 127.0.0.1:9 -p {port_m} -m {CALLS} -r 20 -master m -slave_cfg peers.csv",
            scenario("master.xml")
        );
        let master = start(&folder, master_is_ours, "master", &line);
        succeeds(&master.wait(), &how, "master");
        let _ = slave.wait();
        succeeds(&phone.wait(), &how, "phone");
        assert_eq!(
            count(&folder, "phone", "X-Other: of the master"),
            CALLS as usize,
            "{how}"
        );
    }
}

/// An instance that answers the first command that it is told.
fn one_answer(twin: TcpListener) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut stream, _) = twin.accept().unwrap();
        let mut command = Vec::new();
        BufReader::new(&stream)
            .read_until(27, &mut command)
            .unwrap();
        stream.write_all(b"Call-ID: an-invite\r\n\r\n\x1b").unwrap();
        // It ends when the other does.
        let _ = stream.read(&mut [0]);
        String::from_utf8(command).unwrap()
    })
}

#[test]
fn who_waits_for_a_call_and_tells_the_other_sends_to_the_remote_host() {
    for is_ours in [false, true] {
        let folder = Folder::new();
        let twin = TcpListener::bind("127.0.0.1:0").unwrap();
        let twin_at = twin.local_addr().unwrap();
        let told = one_answer(twin);
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [source, remote] = &sockets;
        remote.set_read_timeout(Some(support::DEADLINE)).unwrap();
        let port = free_port();
        let line = format!(
            "-sf {} {} -p {port} -m 1 -3pcc {twin_at} -trace_stat -stf counts.csv",
            scenario("passive.xml"),
            remote.local_addr().unwrap()
        );
        let mut passive = start(&folder, is_ours, "passive", &line);
        await_port(port, &mut passive);
        source
            .send_to(support::INVITE, ("127.0.0.1", port))
            .unwrap();
        let mut bytes = [0; 2_000];
        let (len, from) = uninterrupted(|| remote.recv_from(&mut bytes)).unwrap();
        assert_eq!(from.port(), port);
        let text = String::from_utf8_lossy(&bytes[..len]);
        assert!(text.starts_with("SIP/2.0 200 OK\r\n"), "{text}");
        succeeds(&passive.wait(), &format!("ours: {is_ours}"), "passive");
        assert!(told.join().unwrap().contains("Call-ID: an-invite"));
        source.set_nonblocking(true).unwrap();
        assert!(source.recv(&mut bytes).is_err(), "ours: {is_ours}");
        let counts = folder.read("counts.csv");
        let names = counts.lines().next().unwrap().split(';');
        let values = counts.lines().last().unwrap().split(';');
        let counted: Vec<_> = names
            .zip(values)
            .filter(|(name, _)| ["IncomingCall(C)", "OutgoingCall(C)"].contains(name))
            .collect();
        let expected = [("IncomingCall(C)", "0"), ("OutgoingCall(C)", "1")];
        assert_eq!(counted, expected, "ours: {is_ours}");
    }
}

#[test]
fn nobody_to_tell_is_told_before_the_first_packet() {
    let folder = Folder::new();
    let (twin, port) = (free_port(), free_port());
    let line = |name: &str, more: &str| {
        format!(
            "-sf {} 127.0.0.1:9 -p {port} -i 127.0.0.1 -m 1 {more}",
            scenario(name)
        )
    };
    for (line, code, what) in [
        (line("a.xml", ""), 1, "the scenario has <sendCmd>"),
        (
            line("a.xml", &format!("-3pcc 127.0.0.1:{twin}")),
            255,
            "the other instance at",
        ),
        (
            line("a.xml", "-3pcc nowhere"),
            255,
            "the other instance nowhere",
        ),
        (
            line("b.xml", "-3pcc 127.0.0.1:9 -t tn"),
            1,
            "a connection for each call",
        ),
        (
            line("master.xml", "-slave_cfg none -master m"),
            1,
            "-slave_cfg none",
        ),
        (
            line("slave.xml", "-slave_cfg none -master m"),
            1,
            "-master: the scenario",
        ),
    ] {
        let ended = folder.ours("alone", &line).wait();
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(ended.stderr.contains(what), "{line}: {}", ended.stderr);
    }
}
