//! Whoever is behind a provider: a telephone that answers, and remembers what came.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::support::openssl::PATIENCE;
use super::support::phone::{field, fields};
use super::support::unique;

/// The end of numbers that ring and are not answered.
pub(crate) const RINGS: &str = "999";
/// The end of numbers whose owner asks for a password in the provider's name, and by which nonce.
pub(crate) const ASKS: &str = "401";
pub(crate) const HIS_NONCE: &str = "5b3f0his0own";

/// A telephone that ends with this value.
pub(crate) struct Far {
    pub(crate) addr: SocketAddr,
    socket: UdpSocket,
    heard: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Far {
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.3:0").unwrap();
        let timeout = Some(Duration::from_millis(20));
        socket.set_read_timeout(timeout).unwrap();
        let addr = socket.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (own, mine, over) = (
            socket.try_clone().unwrap(),
            Arc::clone(&heard),
            Arc::clone(&is_over),
        );
        let thread = std::thread::spawn(move || {
            let mut rings = BTreeMap::new();
            let mut buffer = [0; 65_535];
            while !over.load(Ordering::Relaxed) {
                let Ok((len, from)) = own.recv_from(&mut buffer) else {
                    continue;
                };
                let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
                for answer in answers(&text, addr, &mut rings) {
                    own.send_to(answer.as_bytes(), from).unwrap();
                }
                mine.lock().unwrap().push(text);
            }
        });
        Self {
            addr,
            socket,
            heard,
            is_over,
            thread: Some(thread),
        }
    }

    /// All that came and is so, in its order, without repetitions.
    pub(crate) fn heard(&self, is_so: impl Fn(&str) -> bool) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for text in self.heard.lock().unwrap().iter() {
            if is_so(text) && !found.contains(text) {
                found.push(text.clone());
            }
        }
        found
    }

    /// Waits for so many that begin so; the last of them.
    #[track_caller]
    pub(crate) fn wait_for(&self, begins: &str, count: usize) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut found = self.heard(|text| text.starts_with(begins));
            if found.len() >= count {
                return found.swap_remove(count - 1);
            }
            let all = self.heard.lock().unwrap().join("\n");
            assert!(Instant::now() < until, "no {begins} came:\n{all}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Calls a number by a provider; the Call-ID.
    pub(crate) fn call(&self, provider: SocketAddr, number: &str) -> String {
        let (local, call_id) = (self.addr, unique());
        let invite = format!(
            "INVITE sip:{number}@provider.example SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{call_id}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:+49301555@provider.example>;tag=far\r\n\
             To: <sip:{number}@provider.example>\r\nCall-ID: {call_id}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:far@{local}>\r\nContent-Length: 0\r\n\r\n"
        );
        self.socket.send_to(invite.as_bytes(), provider).unwrap();
        call_id
    }

    /// Waits for the final answer to that call, and acknowledges a 200; its status.
    pub(crate) fn answered(&self, provider: SocketAddr, call_id: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let is_final = |text: &str| {
            let is_its = text.contains(&format!("Call-ID: {call_id}\r\n"));
            is_its && text.starts_with("SIP/2.0 ") && !text.starts_with("SIP/2.0 1")
        };
        let answer = loop {
            if let Some(answer) = self.heard(is_final).pop() {
                break answer;
            }
            assert!(Instant::now() < until, "no answer to {call_id}");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut routes = fields(&answer, "Record-Route");
        routes.reverse();
        let is_taken = answer.starts_with("SIP/2.0 200 ");
        let (uri, via) = match is_taken {
            true => {
                let contact = field(&answer, "Contact");
                let uri = contact.trim_start_matches('<').split('>').next().unwrap();
                (uri.to_owned(), unique())
            }
            false => ("sip:x@provider.example".to_owned(), call_id.to_owned()),
        };
        let routes: String = routes
            .iter()
            .map(|route| format!("Route: {route}\r\n"))
            .collect();
        let ack = format!(
            "ACK {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK{via}\r\nMax-Forwards: 70\r\n{}\
             From: {}\r\nTo: {}\r\nCall-ID: {call_id}\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n",
            self.addr,
            if is_taken { &routes } else { "" },
            field(&answer, "From"),
            field(&answer, "To"),
        );
        self.socket.send_to(ack.as_bytes(), provider).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How a request is answered. An INVITE that only rings is kept for its CANCEL.
fn answers(text: &str, own: SocketAddr, rings: &mut BTreeMap<String, String>) -> Vec<String> {
    let (method, _) = text.split_once(' ').unwrap();
    let reply = |of: &str, status: &str, more: &str| {
        let copied: String = of
            .lines()
            .take_while(|line| !line.is_empty())
            .filter(|line| {
                ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"]
                    .iter()
                    .any(|name| line.starts_with(name))
            })
            .map(|line| format!("{line}\r\n"))
            .collect();
        let mut to = field(of, "To");
        if !to.contains(";tag=") {
            to += ";tag=telephone";
        }
        format!(
            "SIP/2.0 {status}\r\n{copied}To: {to}\r\nContact: <sip:far@{own}>\r\n{more}Content-Length: 0\r\n\r\n"
        )
    };
    match method {
        "SIP/2.0" | "ACK" => Vec::new(),
        "INVITE" => {
            let uri = text.split(' ').nth(1).unwrap();
            let is_new = !field(text, "To").contains(";tag=");
            let user = uri.split('@').next().unwrap();
            if is_new && user.ends_with(ASKS) {
                let line = format!(
                    "WWW-Authenticate: Digest realm=\"provider.example\", nonce=\"{HIS_NONCE}\", algorithm=MD5, qop=\"auth\"\r\n"
                );
                return vec![reply(text, "401 Unauthorized", &line)];
            }
            let ringing = reply(text, "180 Ringing", "");
            if is_new && user.ends_with(RINGS) {
                rings.insert(field(text, "Call-ID"), text.to_owned());
                return vec![ringing];
            }
            vec![ringing, reply(text, "200 OK", "")]
        }
        "CANCEL" => {
            let invite = rings.remove(&field(text, "Call-ID"));
            let over = invite.map(|of| reply(&of, "487 Request Terminated", ""));
            std::iter::once(reply(text, "200 OK", ""))
                .chain(over)
                .collect()
        }
        _ => vec![reply(text, "200 OK", "")],
    }
}

/// The number of a request.
pub(crate) fn cseq(text: &str) -> u32 {
    let value = field(text, "CSeq");
    value.split(' ').next().unwrap().parse().unwrap()
}
