//! Messages that no scenario writes, from a peer of bytes: they are answered and counted as
//! SIPp answers and counts them.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};

use sip_net::testing::uninterrupted;
use support::{DEADLINE, Ended, Folder, INVITE, await_port, free_port, is_taken};

/// What is compared of the statistics.
const COLUMNS: [&str; 9] = [
    "IncomingCall(C)",
    "OutgoingCall(C)",
    "SuccessfulCall(C)",
    "FailedCall(C)",
    "FailedUnexpectedMessage(C)",
    "FailedCallRejected(C)",
    "OutOfCallMsgs(C)",
    "DeadCallMsgs(C)",
    "AutoAnswered(C)",
];

/// What came of a run: its exit code, the first lines that it sent, and what it counted.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: i32,
    sent: Vec<String>,
    counts: Vec<String>,
}

impl Outcome {
    fn of(ended: &Ended, folder: &Folder, sent: Vec<String>) -> Self {
        let text = folder.read("counts.csv");
        let names = text.lines().next().unwrap().split(';');
        let values = text.lines().last().unwrap().split(';');
        let counts = names
            .zip(values)
            .filter(|(name, value)| COLUMNS.contains(name) && *value != "0");
        Self {
            code: ended.code,
            sent,
            counts: counts
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        }
    }
}

fn scenario(steps: &str) -> String {
    format!("<?xml version=\"1.0\"?>\n<scenario name=\"raw\">{steps}</scenario>\n")
}

/// The INVITE, without the header of this name.
fn without(name: &str) -> Vec<u8> {
    let text = std::str::from_utf8(INVITE).unwrap();
    let lines = text.split_inclusive('\n');
    let rest: String = lines.filter(|line| !line.starts_with(name)).collect();
    assert!(rest.len() < text.len());
    rest.into_bytes()
}

/// Another request of the same call.
fn another(method: &str) -> Vec<u8> {
    let text = std::str::from_utf8(INVITE).unwrap();
    text.replace("INVITE", method).into_bytes()
}

/// The first lines of what waits to be read.
fn drain(socket: &UdpSocket) -> Vec<String> {
    socket.set_nonblocking(true).unwrap();
    let mut lines = Vec::new();
    let mut bytes = [0; 4_096];
    while let Ok(len) = socket.recv(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..len]);
        lines.push(text.lines().next().unwrap_or_default().trim().to_owned());
    }
    lines
}

/// Plays a called side to messages that are sent to it, one behind the other.
fn call(is_ours: bool, steps: &str, options: &str, messages: &[Vec<u8>]) -> Outcome {
    let folder = Folder::new();
    folder.write("called.xml", &scenario(steps));
    let port = free_port();
    let line = format!(
        "-sf called.xml -i 127.0.0.1 -p {port} -timeout 30 -trace_stat -stf counts.csv {options}"
    );
    let mut called = if is_ours {
        folder.ours("called", &line)
    } else {
        folder.sipp("called", &line)
    };
    await_port(port, &mut called);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for message in messages {
        // Not connected: who has ended before the last one is no error here.
        socket.send_to(message, ("127.0.0.1", port)).unwrap();
    }
    let ended = called.wait();
    Outcome::of(&ended, &folder, drain(&socket))
}

/// The model would be sent to before it has its port.
#[test]
fn a_connection_of_somebody_before_is_nobody_who_listens() {
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert!(is_taken(port));
    let mut caller = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // Who closes first has the connection in TIME-WAIT.
    drop(listener.accept().unwrap());
    assert_eq!(caller.read(&mut [0; 1]).unwrap(), 0);
    drop((caller, listener));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    assert!(table.contains(&format!(":{port:04X}")), "{table}");
    assert!(!is_taken(port));
}

#[test]
fn who_is_called_counts_as_sipp_does() {
    let two = "<recv request=\"INVITE\"/><recv request=\"ACK\"/>";
    let one = "<recv request=\"INVITE\"/>";
    let stops = "<recv request=\"INVITE\"><action><exec int_cmd=\"stop_call\"/></action></recv>";
    let (invite, bye) = (INVITE.to_vec(), another("BYE"));
    for (what, steps, options, messages, code, answers) in [
        (
            "a BYE that nobody expects leaves nothing behind it",
            two,
            "-m 3",
            vec![invite.clone(), bye.clone(), bye.clone(), bye],
            1,
            3,
        ),
        (
            "nor does stop_call",
            stops,
            "-m 3",
            vec![invite.clone(); 3],
            1,
            0,
        ),
        (
            "nor an end that nobody is told of",
            two,
            "-m 2 -default_behaviors all,-bye",
            vec![invite.clone(), another("MESSAGE"), another("OPTIONS")],
            1,
            0,
        ),
        ("To is missing", one, "-m 1", vec![without("To")], 1, 0),
        ("CSeq is missing", one, "-m 1", vec![without("CSeq")], 0, 0),
    ] {
        let model = call(false, steps, options, &messages);
        assert_eq!(
            (model.code, model.sent.len()),
            (code, answers),
            "{what}: {model:?}"
        );
        let ours = call(true, steps, options, &messages);
        assert_eq!(ours, model, "{what}");
    }
}

/// Plays a calling side to a peer that sends `first` and then an answer that is made of
/// what it was sent.
fn answer(is_ours: bool, first: &[u8], answer: impl Fn(&str) -> String) -> Outcome {
    let folder = Folder::new();
    let steps = "<send><![CDATA[\n\
        MESSAGE sip:[service]@[remote_ip] SIP/2.0\n\
        Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
        From: <sip:a@b>;tag=1\n\
        To: <sip:c@d>\n\
        Call-ID: [call_id]\n\
        CSeq: [cseq] MESSAGE\n\
        Content-Length: 0\n\
        ]]></send><recv response=\"200\"/>";
    folder.write("calling.xml", &scenario(steps));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let remote = socket.local_addr().unwrap();
    let line = format!(
        "-sf calling.xml {remote} -i 127.0.0.1 -p {} -m 1 -timeout 30 -trace_stat -stf counts.csv",
        free_port()
    );
    let calling = if is_ours {
        folder.ours("calling", &line)
    } else {
        folder.sipp("calling", &line)
    };
    let mut bytes = [0; 4_096];
    let (len, from) = uninterrupted(|| socket.recv_from(&mut bytes)).unwrap();
    let request = String::from_utf8_lossy(&bytes[..len]).into_owned();
    if !first.is_empty() {
        socket.send_to(first, from).unwrap();
    }
    socket.send_to(answer(&request).as_bytes(), from).unwrap();
    let ended = calling.wait();
    Outcome::of(&ended, &folder, drain(&socket))
}

#[test]
fn who_calls_counts_as_sipp_does() {
    let ok = |request: &str, left_out: &str| {
        let kept = ["Via", "From", "To", "Call-ID", "CSeq", "Content-Length"];
        let lines = request.split_inclusive('\n').filter(|line| {
            line.split_once(':')
                .is_some_and(|(name, _)| name != left_out && kept.contains(&name))
        });
        format!("SIP/2.0 200 OK\r\n{}\r\n", lines.collect::<String>())
    };
    for (what, first, left_out, code) in [
        ("To is missing", Vec::new(), "To", 1),
        ("CSeq is missing", Vec::new(), "CSeq", 0),
        ("a PING of no call", another("PING"), "", 0),
    ] {
        let model = answer(false, &first, |request| ok(request, left_out));
        assert_eq!(model.code, code, "{what}: {model:?}");
        let ours = answer(true, &first, |request| ok(request, left_out));
        assert_eq!(ours, model, "{what}");
    }
}
