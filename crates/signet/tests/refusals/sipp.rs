//! SIPp from Debian as the one that is refused: a scenario for each way.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::support::Running;
use super::support::command::text;

/// How long one run may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A request as it is written, but for what each has.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub method: &'a str,
    pub uri: &'a str,
    pub from: &'a str,
    /// That of From where it is empty.
    pub to: &'a str,
    /// Further lines.
    pub more: &'a str,
}

/// A scenario that grows.
#[derive(Clone, Default)]
pub struct Scenario {
    steps: String,
    cseq: u32,
}

impl Scenario {
    /// Sends a request, with credentials by the challenge before where they are given.
    pub fn send(&mut self, ask: &Ask<'_>, proof: Option<(&str, &str)>) {
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
    pub fn message(&mut self, text: &str) {
        self.steps += &format!("<send><![CDATA[\n\n{text}]]></send>\n");
    }

    /// Waits for a response: a status, or several with | between them.
    pub fn expect(&mut self, status: &str) {
        self.steps += "<recv response=\"100\" optional=\"true\"/>\n";
        self.steps += &match status.contains('|') {
            true => format!("<recv response=\"({status})\" regexp_match=\"true\"/>\n"),
            false => format!("<recv response=\"{status}\"/>\n"),
        };
    }

    /// Waits for a challenge.
    pub fn expect_challenge(&mut self, status: u16) {
        self.steps += &format!("<recv response=\"{status}\" auth=\"true\"/>\n");
    }

    /// Waits for a request.
    pub fn expect_request(&mut self, method: &str) {
        self.steps += &format!("<recv request=\"{method}\"/>\n");
    }

    pub fn pause_ms(&mut self, ms: u32) {
        self.steps += &format!("<pause milliseconds=\"{ms}\"/>\n");
    }

    /// Acknowledges what was refused.
    pub fn acknowledge(&mut self, ask: &Ask<'_>) {
        let (uri, from, cseq) = (ask.uri, ask.from, self.cseq);
        self.message(&format!(
            "ACK {uri} SIP/2.0\n[last_Via:]\nMax-Forwards: 70\nFrom: <{from}>;tag=[pid]x[call_number]\n\
             [last_To:]\nCall-ID: [call_id]\nCSeq: {cseq} ACK\nContent-Length: 0\n\n"
        ));
    }

    /// Starts it: `times` calls one after the other, whose Call-IDs begin with `name` and a
    /// dash, from `from` to `to`.
    pub fn start(&self, folder: &Path, name: &str, run: &Run<'_>) -> Running {
        let file = folder.join(format!("{name}.xml"));
        let whole = format!("<scenario name=\"{name}\">\n{}</scenario>\n", self.steps);
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
pub struct Run<'a> {
    pub from: &'a str,
    pub port: Option<u16>,
    /// `u1` or `t1`.
    pub transport: &'a str,
    pub to: SocketAddr,
    pub times: u32,
    /// What credentials are made for, without its scheme.
    pub auth_uri: &'a str,
}

/// Waits until it has done what it was to do.
pub fn done(folder: &Path, name: &str, running: &mut Running) {
    let code = running.wait(PATIENCE);
    let log = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
    let told: Vec<&str> = log.lines().rev().take(60).collect();
    let told: Vec<&str> = told.into_iter().rev().collect();
    assert_eq!(code, Some(0), "{name}: {}", told.join("\n"));
}
