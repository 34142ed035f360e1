//! The torture messages on the wire, over UDP and TCP: this project's own, and
//! those of RFC 4475 where they are there, against the verdicts in
//! `conformance/*/verdicts.toml`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;
use sip_msg::header::Contact;
use sip_msg::{Limits, Message};
use sip_net::testing::{DnsServer, Record};
use support::{Server, TestDir, in_namespace};

/// How long nothing must come before nothing is taken to come.
const SILENCE: Duration = Duration::from_millis(400);

/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long more may come behind the first thing that came.
const REST: Duration = Duration::from_millis(60);

const SERVER: &str = "127.0.0.1:6060";
const REGISTRAR: &str = "127.0.0.1:6065";
const WITH_AUTHENTICATION: &str = "127.0.0.1:6070";

/// Several of the messages have a Route to this port.
const NEXT_HOP: &str = "127.0.0.1:5080";

#[derive(Deserialize)]
struct Verdicts {
    message: Vec<Verdict>,
}

#[derive(Deserialize)]
struct Verdict {
    file: String,
    kind: String,
    /// Whether a stream cannot tell where the next message begins.
    #[serde(default)]
    loses_framing: bool,
    udp: Treatments,
    tcp: Option<Treatments>,
    #[serde(default = "one")]
    messages: usize,
    #[serde(default)]
    authentication: bool,
    /// Whether a stream is left with octets that are no message.
    #[serde(default)]
    leftover: bool,
    reason: String,
}

impl Verdict {
    fn treatments(&self, stream: bool) -> Vec<&str> {
        match &self.tcp {
            Some(tcp) if stream => tcp.list(),
            _ => self.udp.list(),
        }
    }
}

/// A folder of messages and what is particular to it.
struct Corpus {
    /// The folder of its verdicts, below `conformance`.
    name: &'static str,
    messages: &'static str,
    extension: &'static str,
    /// Whether all that is to be forwarded leads to the next hop; if not, an
    /// answer that nobody is there will do.
    all_arrive: bool,
}

const OWN: Corpus = Corpus {
    name: "torture",
    messages: "conformance/torture",
    extension: "sip",
    all_arrive: true,
};

/// No part of the repository.
const RFC_4475: Corpus = Corpus {
    name: "rfc4475",
    messages: "../shared/conformance/rfc4475",
    extension: "dat",
    all_arrive: false,
};

fn one() -> usize {
    1
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Treatments {
    One(String),
    AnyOf(Vec<String>),
}

impl Treatments {
    fn list(&self) -> Vec<&str> {
        match self {
            Self::One(one) => vec![one],
            Self::AnyOf(list) => list.iter().map(String::as_str).collect(),
        }
    }
}

#[test]
fn our_torture_messages_over_udp() {
    in_namespace("our_torture_messages_over_udp", || run(&OWN, false));
}

#[test]
fn our_torture_messages_over_tcp() {
    in_namespace("our_torture_messages_over_tcp", || run(&OWN, true));
}

#[test]
fn torture_messages_of_rfc_4475_over_udp() {
    in_namespace("torture_messages_of_rfc_4475_over_udp", || {
        run(&RFC_4475, false)
    });
}

#[test]
fn torture_messages_of_rfc_4475_over_tcp() {
    in_namespace("torture_messages_of_rfc_4475_over_tcp", || {
        run(&RFC_4475, true)
    });
}

fn run(corpus: &Corpus, stream: bool) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = root
        .join("conformance")
        .join(corpus.name)
        .join("verdicts.toml");
    let verdicts: Verdicts = toml::from_str(&fs::read_to_string(text).unwrap()).unwrap();
    let messages = root.join(corpus.messages);
    if corpus.name == RFC_4475.name && !messages.is_dir() {
        eprintln!(
            "{} is not there: its subjects are our own messages' too",
            messages.display()
        );
        return;
    }
    let files = fs::read_dir(&messages)
        .unwrap()
        .filter(|entry| {
            let path = entry.as_ref().unwrap().path();
            path.extension().is_some_and(|e| e == corpus.extension)
        })
        .count();
    assert_eq!(files, verdicts.message.len(), "in {}", messages.display());

    let transport = if stream { "tcp" } else { "udp" };
    let folder = TestDir::new(&format!("{}-{transport}", corpus.name));
    let [open, closed, registering] = ["open", "closed", "registering"].map(|name| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    });
    // One of the messages has a Route to this name.
    let next_port = NEXT_HOP.rsplit(':').next().unwrap().parse().unwrap();
    let dns = DnsServer::start(vec![
        (
            "_sip._udp.services.example.com".to_owned(),
            Record::Srv(1, 1, next_port, "next.example.com".to_owned()),
        ),
        (
            "next.example.com".to_owned(),
            Record::Addr([127, 0, 0, 1].into()),
        ),
    ])
    .unwrap();
    let plain = Server::start_with_config(
        &open,
        &config(&open, SERVER, false, dns.addr()),
        SERVER.parse().unwrap(),
    );
    let strict = Server::start_with_config(
        &closed,
        &config(&closed, WITH_AUTHENTICATION, true, dns.addr()),
        WITH_AUTHENTICATION.parse().unwrap(),
    );
    let registrar = Server::start_with_config(
        &registering,
        &config(&registering, REGISTRAR, false, dns.addr()),
        REGISTRAR.parse().unwrap(),
    );
    let next_hop = UdpSocket::bind(NEXT_HOP).unwrap();
    let mut faults = Vec::new();
    for (number, verdict) in verdicts.message.iter().enumerate() {
        let path = messages.join(format!("{}.{}", verdict.file, corpus.extension));
        let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let bytes = with_own_branch(&bytes, number);
        // What the corpus binds leads calls to its users back to this server: the
        // registrations have a server of their own.
        let server = if verdict.authentication {
            &strict
        } else if verdict.udp.list().contains(&"serve") {
            &registrar
        } else {
            &plain
        };
        let treatments = verdict.treatments(stream);
        let is_silent = ["drop", "wait"].iter().any(|t| treatments.contains(t));
        let patience = if is_silent { SILENCE } else { PATIENCE };
        let seen = if stream {
            let ends = verdict.loses_framing || verdict.leftover;
            send_tcp(server.tcp, &bytes, &next_hop, patience, ends)
        } else {
            send_udp(server.udp, &bytes, &next_hop, patience)
        };
        if let Err(fault) = judge(corpus, verdict, stream, &bytes, &seen) {
            faults.push(format!(
                "{}: {fault}\n  ({})\n  answers: {:?}\n  forwarded: {}",
                verdict.file,
                verdict.reason,
                seen.statuses,
                seen.forwarded.len()
            ));
        }
        // A message that hurt the server is found at once, not at the end.
        let begun = Instant::now();
        while !server.answers_options() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no answer to an honest OPTIONS after {}",
                verdict.file
            );
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {files}:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Many of the messages have the same branch and sent-by, which makes the
/// later ones retransmissions of the first: two of its letters become digits.
fn with_own_branch(message: &[u8], number: usize) -> Vec<u8> {
    const SHARED: &[u8] = b"z9hG4bKkdjuw";
    let mut message = message.to_vec();
    if let Some(at) = message.windows(SHARED.len()).position(|w| w == SHARED) {
        let end = at + SHARED.len();
        message[end - 2..end].copy_from_slice(format!("{number:02}").as_bytes());
    }
    message
}

fn config(folder: &Path, on: &str, authentication: bool, dns: SocketAddr) -> String {
    format!(
        "version = 1\ndata = {:?}\ndomains = [\"example.com\"]\nworkers = 1\nforward = \"sip:{NEXT_HOP};transport=udp\"\n\
         [[listen]]\non = \"udp:{on}\"\n[[listen]]\non = \"tcp:{on}\"\n\
         [authentication]\nrequired = {authentication}\n[dns]\nservers = [\"{dns}\"]\n",
        folder.join("data").display().to_string()
    )
}

/// What came of one message.
#[derive(Default)]
struct Seen {
    /// The statuses of the final responses.
    statuses: Vec<u16>,
    /// What was said with a 200.
    served: Vec<u8>,
    forwarded: Vec<Vec<u8>>,
    /// Of a stream: whether the server closed it.
    closed: bool,
}

impl Seen {
    fn has_come(&self) -> bool {
        !self.statuses.is_empty() || !self.forwarded.is_empty()
    }
}

/// Sends from the port to which the topmost Via sends the answer. Nobody answers
/// a response.
fn send_udp(to: SocketAddr, bytes: &[u8], next_hop: &UdpSocket, patience: Duration) -> Seen {
    drain(next_hop);
    let is_response = bytes.starts_with(b"SIP/");
    let port = if is_response { 0 } else { via_port(bytes) };
    let answers =
        UdpSocket::bind(("127.0.0.1", port)).unwrap_or_else(|e| panic!("port {port}: {e}"));
    answers.send_to(bytes, to).unwrap();
    let mut seen = Seen::default();
    let mut until = Instant::now() + patience;
    while Instant::now() < until {
        let had = seen.has_come();
        for answer in support::receive_all(&answers, Duration::from_millis(10)) {
            note(&answer, bytes, &mut seen);
        }
        seen.forwarded.extend(forwarded(next_hop, bytes));
        if !had && seen.has_come() {
            until = Instant::now() + REST;
        }
    }
    seen
}

/// Waits for the end where `ends`, besides what else comes.
fn send_tcp(
    to: SocketAddr,
    bytes: &[u8],
    next_hop: &UdpSocket,
    patience: Duration,
    ends: bool,
) -> Seen {
    drain(next_hop);
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(bytes).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    let mut seen = Seen::default();
    let mut all = Vec::new();
    let mut buffer = [0; 65_535];
    let mut until = Instant::now() + patience;
    while Instant::now() < until && !seen.closed {
        let had = seen.has_come();
        match stream.read(&mut buffer) {
            Ok(0) => seen.closed = true,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => seen.closed = true,
            Err(_) => {}
        }
        seen.statuses.clear();
        // An answer never holds the start of another: its headers are ours.
        let text = String::from_utf8_lossy(&all).into_owned();
        for part in text
            .split("SIP/2.0 ")
            .skip(1)
            .filter(|p| p.as_bytes().first().is_some_and(u8::is_ascii_digit))
        {
            note(format!("SIP/2.0 {part}").as_bytes(), bytes, &mut seen);
        }
        seen.forwarded.extend(forwarded(next_hop, bytes));
        if !had && seen.has_come() && !ends {
            until = Instant::now() + REST;
        }
    }
    seen
}

/// Takes in an answer, unless it is a late one to a message before.
fn note(answer: &[u8], sent: &[u8], seen: &mut Seen) {
    let (ours, theirs) = (call_ids(sent), call_ids(answer));
    if !theirs.is_empty() && !theirs.iter().any(|id| ours.contains(id)) {
        return;
    }
    let status = answer
        .get(8..11)
        .and_then(|s| std::str::from_utf8(s).ok())
        .and_then(|s| s.parse().ok())
        .unwrap_or(0);
    if status >= 200 && !seen.statuses.contains(&status) {
        seen.statuses.push(status);
        if status == 200 {
            seen.served = answer.to_vec();
        }
    }
}

/// What came to the next hop of these messages: those before may be sent again
/// meanwhile, as nobody answers them.
fn forwarded(next_hop: &UdpSocket, sent: &[u8]) -> Vec<Vec<u8>> {
    let ids = call_ids(sent);
    let mut all = support::receive_all(next_hop, Duration::from_millis(20));
    all.retain(|message| call_ids(message).iter().any(|id| ids.contains(id)));
    all
}

/// The Call-IDs that stand anywhere in the bytes.
fn call_ids(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes)
        .replace("\r\n ", " ")
        .replace("\r\n\t", " ");
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| ["call-id", "i"].contains(&name.trim().to_ascii_lowercase().as_str()))
        .map(|(_, value)| value.trim().to_owned())
        .collect()
}

fn drain(socket: &UdpSocket) {
    let _ = support::receive_all(socket, Duration::from_millis(1));
}

/// The port in the topmost Via, 5060 where there is none.
fn via_port(bytes: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(bytes)
        .replace("\r\n ", " ")
        .replace("\r\n\t", " ");
    let via = text.lines().find(|l| {
        let name = l
            .split(':')
            .next()
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase();
        name == "via" || name == "v"
    });
    let sent_by = via
        .and_then(|v| v.split_once(':'))
        .map_or("", |(_, v)| v.split(';').next().unwrap_or(""));
    let digits: String = sent_by
        .rsplit_once(':')
        .map_or("", |(_, p)| p)
        .trim()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or(5060)
}

fn judge(
    corpus: &Corpus,
    verdict: &Verdict,
    stream: bool,
    sent: &[u8],
    seen: &Seen,
) -> Result<(), String> {
    let list = verdict.treatments(stream);
    if stream && verdict.messages > 1 {
        return list
            .iter()
            .try_for_each(|t| treated(t, corpus, verdict, stream, sent, seen));
    }
    let mut why = Vec::new();
    for treatment in &list {
        match treated(treatment, corpus, verdict, stream, sent, seen) {
            Ok(()) => return Ok(()),
            Err(e) => why.push(e),
        }
    }
    Err(why.join("; "))
}

fn treated(
    treatment: &str,
    corpus: &Corpus,
    verdict: &Verdict,
    stream: bool,
    sent: &[u8],
    seen: &Seen,
) -> Result<(), String> {
    let held = match treatment {
        "forward" => {
            if let Some(forwarded) = seen.forwarded.first() {
                return if verdict.messages > 1 {
                    Ok(())
                } else {
                    untouched(sent, forwarded)
                };
            }
            !corpus.all_arrive && [404, 480].iter().any(|s| seen.statuses.contains(s))
        }
        // The end of a connection may overtake an answer that waits for the disk.
        "serve" if verdict.messages > 1 && seen.closed => true,
        "serve" => seen.statuses.contains(&200) && are_bound(sent, &seen.served)?,
        "drop" => seen.statuses.is_empty() && seen.forwarded.is_empty(),
        "wait" => seen.statuses.is_empty() && seen.forwarded.is_empty() && !seen.closed,
        status => {
            let status: u16 = status
                .parse()
                .map_err(|_| format!("no such treatment: {status}"))?;
            // A stream goes on where the next message is known to begin.
            let ends = stream && status == 400 && verdict.kind == "request";
            let is_as_said = !ends || seen.closed == verdict.loses_framing;
            seen.statuses == [status] && seen.forwarded.is_empty() && is_as_said
        }
    };
    if held {
        Ok(())
    } else {
        Err(format!(
            "not treated as \"{treatment}\" (closed: {})",
            seen.closed
        ))
    }
}

/// Whether the bindings in the answer are the request's contacts, as they came.
fn are_bound(sent: &[u8], answer: &[u8]) -> Result<bool, String> {
    let uris = |bytes: &[u8]| -> Result<Vec<Vec<u8>>, String> {
        let message = Message::parse(bytes, &Limits::default()).map_err(|e| e.to_string())?;
        let contacts = message.contacts().filter_map(Result::ok);
        let uris = contacts.filter_map(|contact| match contact {
            Contact::Addr(contact) => Some(contact.addr.uri.to_vec()),
            Contact::Star => None,
        });
        Ok(uris.collect())
    };
    let (mut asked, mut bound) = (uris(sent)?, uris(answer)?);
    asked.sort();
    bound.sort();
    Ok(asked == bound)
}

/// Every header line that is no business of a proxy's is in what was
/// forwarded, byte for byte, and so is the body.
fn untouched(sent: &[u8], forwarded: &[u8]) -> Result<(), String> {
    let business = [
        "via",
        "v",
        "max-forwards",
        "route",
        "record-route",
        "content-length",
        "l",
        "proxy-authorization",
    ];
    let mut sent = sent;
    while let Some(behind) = sent.strip_prefix(b"\r\n") {
        sent = behind;
    }
    let end = sent
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .ok_or("no end of headers")?;
    let (head, body) = (&sent[..end + 2], &sent[end + 4..]);
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in head.split_inclusive(|&b| b == b'\n').skip(1) {
        if line.first().is_some_and(|b| *b == b' ' || *b == b'\t') {
            if let Some(last) = lines.last_mut() {
                last.extend_from_slice(line);
            }
        } else {
            lines.push(line.to_vec());
        }
    }
    for line in lines {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).trim().to_ascii_lowercase();
        if business.contains(&name.as_str()) {
            continue;
        }
        if !forwarded.windows(line.len()).any(|w| w == line) {
            return Err(format!(
                "changed on its way: {}",
                String::from_utf8_lossy(&line)
            ));
        }
    }
    let arrived = forwarded
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map(|end| &forwarded[end + 4..])
        .ok_or("no end of the forwarded headers")?;
    // Line ends behind a body are no part of it.
    match body.strip_prefix(arrived) {
        Some(behind) if behind.iter().all(|b| b"\r\n".contains(b)) => Ok(()),
        _ => Err("the body changed on its way".to_owned()),
    }
}
