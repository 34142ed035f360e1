//! Whether scenarios see what they are there to see: they are made against a small proxy with
//! faults of its own.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::digest::{Account, expected, parameter};
use crate::wire::{Text, uri_of, word};
use crate::*;

const DOMAIN: &str = "example.test";
const USERS: [&str; 8] = [
    "alice", "bob", "ceo", "mallory", "caller0", "caller1", "caller2", "caller3",
];
/// Failures for which a nonce is good.
const FAILURES_MAX: u32 = 3;

/// What is wrong with a proxy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Nothing, but for bounds on guesses, of which it has none beside that of a nonce.
    None,
    /// It refuses everything but registrations.
    Refuses,
    /// It challenges everything but registrations, whatever comes.
    Challenges,
    /// The method is not in the digest that it compares.
    Method,
    /// It does not hold `uri` in credentials against the Request-URI.
    Uri,
    /// It compares five digits.
    Digits,
}

/// A proxy in a thread, as long as this value lives.
struct Toy {
    at: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Toy {
    fn start(fault: Fault) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = Some(Duration::from_millis(50));
        socket.set_read_timeout(patience).unwrap();
        let at = socket.local_addr().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let copy = Arc::clone(&ends);
        let mut proxy = Proxy {
            socket,
            fault,
            failures: HashMap::new(),
            contacts: HashMap::new(),
            callers: HashMap::new(),
        };
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_535];
            while !copy.load(Ordering::Relaxed) {
                if let Ok((n, from)) = proxy.socket.recv_from(&mut buffer) {
                    proxy.take(&buffer[..n], from);
                }
            }
        });
        let thread = Some(thread);
        Self { at, ends, thread }
    }

    fn target(&self) -> Target {
        let user = |name: &str| (name.to_owned(), password(name));
        Target::Running(Box::new(RunningServer {
            udp: self.at,
            tcp: None,
            tls: None,
            domain: DOMAIN.to_owned(),
            users: USERS.map(user).into(),
            pid: None,
        }))
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

fn password(user: &str) -> String {
    format!("secret of {user}")
}

struct Proxy {
    socket: UdpSocket,
    fault: Fault,
    /// By nonce.
    failures: HashMap<String, u32>,
    /// By user.
    contacts: HashMap<String, SocketAddr>,
    /// By the branch of what was sent on.
    callers: HashMap<String, SocketAddr>,
}

impl Proxy {
    fn take(&mut self, bytes: &[u8], from: SocketAddr) {
        let Some(text) = Text::read(bytes) else {
            return;
        };
        if text.status().is_some() {
            return self.send_back(bytes, &text);
        }
        let method = text.method();
        let is_register = method == "REGISTER";
        let answer = match (method, self.fault) {
            ("ACK", _) => return,
            ("OPTIONS", _) if !request_uri(&text).contains('@') => say(&text, "200 OK"),
            (_, Fault::Refuses) if !is_register => say(&text, "403 Forbidden"),
            (_, Fault::Challenges) if !is_register => self.challenge(&text),
            (_, Fault::Refuses) => self.bind(&text, from),
            _ if !self.knows(&text) => self.challenge(&text),
            _ if is_register => self.bind(&text, from),
            _ => return self.send_on(bytes, &text, from),
        };
        let _ = self.socket.send_to(&answer, from);
    }

    fn challenge(&mut self, text: &Text) -> Vec<u8> {
        let nonce = word("toy");
        let value = format!(
            "Digest realm=\"{DOMAIN}\", nonce=\"{nonce}\", qop=\"auth\", algorithm=SHA-256"
        );
        self.failures.insert(nonce, 0);
        let (status, name) = match text.method() {
            "REGISTER" => ("401 Unauthorized", "WWW-Authenticate"),
            _ => ("407 Proxy Authentication Required", "Proxy-Authenticate"),
        };
        text.answer_with(status, Some("toy"), &[(name, &value)])
    }

    /// Whether credentials are right, as far as the fault lets it see.
    fn knows(&mut self, text: &Text) -> bool {
        let given = text
            .header("Authorization")
            .or_else(|| text.header("Proxy-Authorization"));
        let Some(value) = given else {
            return false;
        };
        let get = |name| parameter(value, name).unwrap_or_default();
        let user = get("username");
        let Some(failures) = self.failures.get_mut(&get("nonce")) else {
            return false;
        };
        if *failures >= FAILURES_MAX || from_user(text) != user {
            return false;
        }
        let account = Account::new(&user, &password(&user));
        let is_same = |wanted: String| match self.fault {
            Fault::Digits => get("response").get(..5) == wanted.get(..5),
            _ => get("response") == wanted,
        };
        let methods = match self.fault {
            Fault::Method => vec![text.method(), "INVITE"],
            _ => vec![text.method()],
        };
        let is_right = USERS.contains(&user.as_str())
            && get("qop") == "auth"
            && (self.fault == Fault::Uri || get("uri") == request_uri(text))
            && methods
                .into_iter()
                .any(|method| expected(value, &account, method).is_some_and(is_same));
        *failures += u32::from(!is_right);
        is_right
    }

    fn bind(&mut self, text: &Text, from: SocketAddr) -> Vec<u8> {
        self.contacts.insert(from_user(text), from);
        say(text, "200 OK")
    }

    /// To the user's phone; numbers lead to bob.
    fn send_on(&mut self, bytes: &[u8], text: &Text, from: SocketAddr) {
        let user = user_of(request_uri(text));
        let bob = self.contacts.get("bob");
        let Some(to) = self.contacts.get(&user).or(bob) else {
            return;
        };
        let branch = word("z9hG4bK");
        let (line, rest) = bytes.split_at(text.start.len() + 2);
        let via = format!("Via: SIP/2.0/UDP {from};branch={branch}\r\n");
        let sent = [line, via.as_bytes(), rest].concat();
        let _ = self.socket.send_to(&sent, to);
        self.callers.insert(branch, from);
    }

    fn send_back(&self, bytes: &[u8], text: &Text) {
        let via = text.header("Via").unwrap_or("");
        let branch = via.rsplit_once("branch=").map_or("", |(_, branch)| branch);
        if let Some(to) = self.callers.get(branch) {
            let own = format!("Via: {via}\r\n");
            let rest = String::from_utf8_lossy(bytes).replacen(&own, "", 1);
            let _ = self.socket.send_to(rest.as_bytes(), to);
        }
    }
}

fn say(text: &Text, status: &str) -> Vec<u8> {
    text.answer(status, Some("toy"), None)
}

fn request_uri(text: &Text) -> &str {
    text.start.split(' ').nth(1).unwrap_or("")
}

fn from_user(text: &Text) -> String {
    user_of(uri_of(text.header("From").unwrap_or("")))
}

fn user_of(uri: &str) -> String {
    let rest = uri.split_once(':').map_or("", |(_, rest)| rest);
    rest.split('@').next().unwrap_or("").to_owned()
}

/// A scenario's row at a proxy with a fault.
fn row(name: &str, fault: Fault) -> Row {
    let toy = Toy::start(fault);
    let mut all = scenarios::all().into_iter();
    let scenario = all.find(|scenario| scenario.name == name).unwrap();
    let mut setup = Setup::default();
    (scenario.setup)(&mut setup);
    let scale = Scale { quick: true };
    let folder = std::env::temp_dir();
    let outcome = make(&scenario, &toy.target(), setup, &scale, &folder);
    Row::new(&scenario, "toy", outcome, 0.0)
}

#[test]
fn what_holds_because_nothing_works_is_an_error() {
    for fault in [Fault::Refuses, Fault::Challenges] {
        for name in [
            "impersonation.asserted",
            "tampering.credentials",
            "relay.stateless",
            "flood.bindings",
            "flood.spirals",
            "memory.large-forwards",
            "memory.unanswered",
        ] {
            let row = row(name, fault);
            assert_eq!(row.verdict(), Verdict::Error, "{fault:?}: {}", row.text());
        }
    }
}

#[test]
fn what_a_proxy_does_not_compare_gets_through_altered() {
    let row_of = |fault| row("tampering.credentials", fault);
    let good = row_of(Fault::None);
    assert_eq!(good.verdict(), Verdict::Holds, "{}", good.text());
    for (fault, what) in [
        (Fault::Method, "another method"),
        (Fault::Uri, "another Request-URI"),
        (Fault::Digits, "digit 3 of 4"),
    ] {
        let row = row_of(fault);
        assert_eq!(row.verdict(), Verdict::Fails, "{fault:?}: {}", row.text());
        assert!(row.text().contains(what), "{fault:?}: {}", row.text());
    }
}

#[test]
fn guesses_without_a_bound_get_through_though_nonces_are_spent() {
    let row = row("limit.guessing", Fault::None);
    assert_eq!(row.verdict(), Verdict::Fails, "{}", row.text());
    for told in [
        "the right guess after 60 wrong ones was taken",
        "the right guess after wrong ones from",
        "right guesses after wrong ones for",
    ] {
        assert!(row.text().contains(told), "no '{told}': {}", row.text());
    }
}
