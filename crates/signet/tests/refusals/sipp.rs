//! SIPp from Debian as the one that is refused: a scenario for each way.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use super::support::Running;
use super::support::command::text;

/// How long one run may take on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A request as it is written, but for what each has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a str,
    pub(crate) from: &'a str,
    /// That of From where it is empty.
    pub(crate) to: &'a str,
    /// Further lines.
    pub(crate) more: &'a str,
}

/// A scenario that grows.
#[derive(Clone, Default)]
pub(crate) struct Scenario {
    steps: String,
    cseq: u32,
}

impl Scenario {
    /// Sends a request, with credentials by the challenge before where they are given.
    pub(crate) fn send(&mut self, ask: &Ask<'_>, proof: Option<(&str, &str)>) {
        self.cseq += 1;
        let proof = proof.map(|(user, password)| {
            format!("[authentication username={user} password={password}]\n")
        });
        let has = |name: &str| ask.more.contains(name);
        let limit = if has("Max-Forwards") {
            ""
        } else {
            "Max-Forwards: 70\n"
        };
        let to = if ask.to.is_empty() { ask.from } else { ask.to };
        let (method, uri, from, cseq) = (ask.method, ask.uri, ask.from, self.cseq);
        self.message(&format!(
            "{method} {uri} SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\n{limit}\
             From: <{from}>;tag=[pid]x[call_number]\nTo: <{to}>\nCall-ID: [call_id]\nCSeq: {cseq} {method}\n\
             {}{}Content-Length: 0\n\n",
            ask.more,
            proof.unwrap_or_default()
        ));
    }

    /// Sends whatever it is.
    pub(crate) fn message(&mut self, text: &str) {
        self.steps += &format!("<send><![CDATA[\n\n{text}]]></send>\n");
    }

    /// Waits for a response: a status, or one of two with | between them.
    pub(crate) fn expect(&mut self, status: &str) {
        self.steps += "<recv response=\"100\" optional=\"true\"/>\n";
        self.steps += &match status.split_once('|') {
            Some((one, other)) => format!(
                "<recv response=\"{one}\" optional=\"true\" next=\"1\"/>\n<recv response=\"{other}\"/>\n\
                 <label id=\"1\"/>\n"
            ),
            None => format!("<recv response=\"{status}\"/>\n"),
        };
    }

    /// Waits for a challenge.
    pub(crate) fn expect_challenge(&mut self, status: u16) {
        self.steps += &format!("<recv response=\"{status}\" auth=\"true\"/>\n");
    }

    /// Waits for a request, and keeps as `[$1]` its Vias, and what follows them to the name of
    /// Max-Forwards.
    pub(crate) fn expect_request(&mut self, method: &str) {
        self.steps += &format!(
            "<recv request=\"{method}\"><action>\
             <ereg regexp=\"Via:.*Max-Forwards\" search_in=\"msg\" assign_to=\"1\"/>\
             </action></recv>\n"
        );
    }

    pub(crate) fn pause_ms(&mut self, ms: u32) {
        self.steps += &format!("<pause milliseconds=\"{ms}\"/>\n");
    }

    /// Acknowledges what was refused.
    pub(crate) fn acknowledge(&mut self, ask: &Ask<'_>) {
        let (uri, from, cseq) = (ask.uri, ask.from, self.cseq);
        self.message(&format!(
            "ACK {uri} SIP/2.0\n[last_Via:]\nMax-Forwards: 70\nFrom: <{from}>;tag=[pid]x[call_number]\n\
             [last_To:]\nCall-ID: [call_id]\nCSeq: {cseq} ACK\nContent-Length: 0\n\n"
        ));
    }

    /// Starts it: `times` calls one after the other, whose Call-IDs begin with `name` and a
    /// dash, from `from` to `to`.
    pub(crate) fn start(&self, folder: &Path, name: &str, run: &Run<'_>) -> Running {
        let file = folder.join(format!("{name}.xml"));
        let whole = format!(
            "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<scenario name=\"{name}\">\n{}</scenario>\n",
            self.steps
        );
        fs::write(&file, whole).unwrap();
        let (cid, times, to) = (
            format!("{name}-%u.%p"),
            run.times.to_string(),
            run.to.to_string(),
        );
        let port = run.port.map(|port| port.to_string());
        let mut words = vec!["-sf", text(&file), "-i", run.from, "-t", run.transport];
        words.extend([
            "-m", &times, "-l", "1", "-r", "50", "-nostdin", "-cid_str", &cid,
        ]);
        words.extend([
            "-timeout",
            "40",
            "-timeout_error",
            "-auth_uri",
            run.auth_uri,
        ]);
        if let Some(port) = &port {
            words.extend(["-p", port]);
        }
        words.push(&to);
        Running::start("sipp", &words, &folder.join(format!("{name}.log")))
    }
}

/// How a scenario is run.
pub(crate) struct Run<'a> {
    pub(crate) from: &'a str,
    pub(crate) port: Option<u16>,
    /// `u1` or `t1`.
    pub(crate) transport: &'a str,
    pub(crate) to: SocketAddr,
    pub(crate) times: u32,
    /// What credentials are made for, without its scheme.
    pub(crate) auth_uri: &'a str,
}

/// Waits until it has done what it was to do.
pub(crate) fn done(folder: &Path, name: &str, running: &mut Running) {
    let code = running.wait(PATIENCE);
    let log = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
    let told: Vec<&str> = log.lines().rev().take(60).collect();
    let told: Vec<&str> = told.into_iter().rev().collect();
    assert_eq!(code, Some(0), "{name}: {}", told.join("\n"));
}

/// Waits until somebody has that port for datagrams.
pub(crate) fn listens(address: &str, port: u16) {
    let ip: Ipv4Addr = address.parse().unwrap();
    let entry = format!(" {:08X}:{port:04X} ", u32::from_ne_bytes(ip.octets()));
    let begun = Instant::now();
    while !fs::read_to_string("/proc/net/udp")
        .unwrap()
        .contains(&entry)
    {
        assert!(begun.elapsed() < PATIENCE, "nobody is at {address}:{port}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
