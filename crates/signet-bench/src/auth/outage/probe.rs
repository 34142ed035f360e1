//! A caller who calls as another user each time, and looks at what a load only counts: whether
//! a refusal says when to try again, and from when on calls are served.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_msg::{HeaderName, Limits, Message};

use crate::auth::DOMAIN;
use crate::auth::server::NUMBER;

/// The time from one call to the next, where that does not take longer.
const PACE: Duration = Duration::from_millis(20);
/// When a request is sent again (T1 of RFC 3261 17.1.1.1), and how often it is sent.
const AGAIN: Duration = Duration::from_millis(500);
const SENDS_MAX: usize = 6;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was answered.
    Served,
    /// 503 with Retry-After.
    Later,
    /// 503 without.
    Bare,
    /// As if the password were wrong, or not enough: 401, 403 or 407.
    Refused,
    /// Any other status.
    Other,
    /// Nobody said anything.
    Silent,
    /// It was let through before there was a password in it.
    Unproved,
}

/// A call; times are seconds since the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) sent_s: f64,
    pub(super) ended_s: f64,
    pub(super) ended: Ended,
}

/// Calls until it is told to stop.
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<Vec<Call>>>>,
}

impl Probe {
    /// Begins to call through the server at that port as each of these users in turn.
    pub(super) fn begin(port: u16, users: Range<usize>, begun: Instant) -> Result<Self, String> {
        let line = Line::open(port).map_err(|error| format!("the probe: {error}"))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || line.call_until(&end, users, begun));
        Ok(Self {
            is_over,
            thread: Some(thread),
        })
    }

    /// Ends it; all its calls in their order.
    pub(super) fn end(mut self) -> Result<Vec<Call>, String> {
        self.is_over.store(true, Ordering::Relaxed);
        let calls = self.thread.take().map(JoinHandle::join);
        match calls {
            Some(Ok(Ok(calls))) => Ok(calls),
            Some(Ok(Err(error))) => Err(format!("the probe: {error}")),
            _ => Err("the probe has panicked".to_owned()),
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A socket, and calls over it one after the other.
struct Line {
    socket: UdpSocket,
    host: String,
    calls: u64,
}

/// What the requests of one call have in common.
struct Dialog {
    user: String,
    id: String,
    host: String,
}

impl Line {
    fn open(port: u16) -> std::io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(("127.0.0.1", port))?;
        let host = socket.local_addr()?.to_string();
        Ok(Self {
            socket,
            host,
            calls: 0,
        })
    }

    fn call_until(
        mut self,
        end: &AtomicBool,
        users: Range<usize>,
        begun: Instant,
    ) -> std::io::Result<Vec<Call>> {
        let mut calls = Vec::new();
        for number in users.cycle() {
            if end.load(Ordering::Relaxed) {
                break;
            }
            let next = Instant::now() + PACE;
            calls.push(self.call(number, begun)?);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(calls)
    }

    /// Calls without credentials, then with them, and hangs up.
    fn call(&mut self, number: usize, begun: Instant) -> std::io::Result<Call> {
        self.calls += 1;
        let dialog = Dialog {
            user: format!("user{number:07}"),
            id: format!("probe{}", self.calls),
            host: self.host.clone(),
        };
        let mut auth = ClientAuth::new();
        auth.add(DOMAIN, &dialog.user, &format!("pw{number:07}"));
        let mut attempt = Attempt::default();
        let mut sent_s = begun.elapsed().as_secs_f64();
        let mut answer = self.ask(&dialog, 1, &dialog.invite(1, &[]))?;
        let ended = match &answer {
            Some(first) if first.status() == 407 => {
                let is_taken = auth.handle_challenge(&mut attempt, first).is_ok();
                let (uri, mut credentials) = (target(), Vec::new());
                let parts = RequestParts {
                    method: b"INVITE",
                    uri: uri.as_bytes(),
                    body: b"",
                };
                auth.write_credentials(&mut attempt, parts, self.calls, &mut credentials);
                sent_s = begun.elapsed().as_secs_f64();
                answer = self.ask(&dialog, 2, &dialog.invite(2, &credentials))?;
                match &answer {
                    _ if !is_taken => Ended::Other,
                    Some(second) => Ended::of(second),
                    None => Ended::Silent,
                }
            }
            Some(first) if first.status() < 300 => Ended::Unproved,
            Some(first) => Ended::of(first),
            None => Ended::Silent,
        };
        let ended_s = begun.elapsed().as_secs_f64();
        if let Some(accepted) = answer.filter(|answer| answer.status() < 300) {
            self.send(&dialog.within("ACK", 2, &accepted))?;
            self.send(&dialog.within("BYE", 3, &accepted))?;
        }
        Ok(Call {
            sent_s,
            ended_s,
            ended,
        })
    }

    /// Sends an INVITE until its final answer is there, and acknowledges one that is no 2xx.
    fn ask(&self, dialog: &Dialog, cseq: u32, invite: &[u8]) -> std::io::Result<Option<Message>> {
        for _ in 0..SENDS_MAX {
            self.send(invite)?;
            let until = Instant::now() + AGAIN;
            if let Some(answer) = self.receive(dialog, cseq, until)? {
                if answer.status() >= 300 {
                    self.send(&dialog.acknowledge(cseq, &answer))?;
                }
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The final answer to an INVITE of this call. What else comes is passed over.
    fn receive(
        &self,
        dialog: &Dialog,
        cseq: u32,
        until: Instant,
    ) -> std::io::Result<Option<Message>> {
        let mut bytes = [0; 65_535];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            let len = match self.socket.recv(&mut bytes) {
                Ok(len) => len,
                Err(error) if is_silence(&error) => continue,
                Err(error) => return Err(error),
            };
            let datagram = bytes.get(..len).unwrap_or_default();
            let Ok(message) = Message::parse(datagram, &Limits::default()) else {
                continue;
            };
            let is_ours = message
                .first(HeaderName::CallId)
                .is_some_and(|field| field.value == dialog.id.as_bytes());
            let is_its = message
                .cseq()
                .is_ok_and(|found| found.number == cseq && found.method == b"INVITE");
            if is_ours && is_its && message.status() >= 200 {
                return Ok(Some(message));
            }
        }
    }

    fn send(&self, message: &[u8]) -> std::io::Result<()> {
        match self.socket.send(message) {
            // What came of an earlier one shows in the answers.
            Err(error) if !is_silence(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Nothing has come, or nobody listens there any more.
fn is_silence(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
    )
}

/// Whom it calls.
fn target() -> String {
    format!("sip:{NUMBER}@{DOMAIN}")
}

impl Ended {
    /// What a final answer to an INVITE with credentials says.
    fn of(answer: &Message) -> Self {
        match answer.status() {
            200..300 => Self::Served,
            503 => {
                // RFC 3261 20.33: a number of seconds, and perhaps more.
                let field = answer.first(HeaderName::RetryAfter);
                let first = field.and_then(|field| field.value.first().copied());
                match first.is_some_and(|byte| byte.is_ascii_digit()) {
                    true => Self::Later,
                    false => Self::Bare,
                }
            }
            401 | 403 | 407 => Self::Refused,
            _ => Self::Other,
        }
    }
}

impl Dialog {
    /// A request up to what is its own.
    fn begin(&self, method: &str, uri: &str, cseq: u32, branch: &str, to: &str) -> String {
        let Self { user, id, host } = self;
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {host};branch=z9hG4bK{id}-{branch}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{user}@{DOMAIN}>;tag=t{id}\r\nTo: {to}\r\n\
             Call-ID: {id}\r\nCSeq: {cseq} {method}\r\n"
        )
    }

    fn invite(&self, cseq: u32, credentials: &[u8]) -> Vec<u8> {
        let (uri, branch) = (target(), format!("invite{cseq}"));
        let mut text = self.begin("INVITE", &uri, cseq, &branch, &format!("<{uri}>"));
        let _ = write!(text, "Contact: <sip:{}@{}>\r\n", self.user, self.host);
        let end: &[u8] = b"Content-Length: 0\r\n\r\n";
        [text.as_bytes(), credentials, end].concat()
    }

    /// RFC 3261 17.1.1.3: the ACK of a refusal is of the INVITE's own transaction, and goes
    /// where it went.
    fn acknowledge(&self, cseq: u32, answer: &Message) -> Vec<u8> {
        let to = text(answer.first(HeaderName::To).map(|field| field.value));
        let branch = format!("invite{cseq}");
        let head = self.begin("ACK", &target(), cseq, &branch, &to);
        (head + "Content-Length: 0\r\n\r\n").into_bytes()
    }

    /// A request within the dialog that an answer has made.
    fn within(&self, method: &str, cseq: u32, accepted: &Message) -> Vec<u8> {
        let contact = accepted.addresses(HeaderName::Contact).find_map(Result::ok);
        let uri = text(contact.map(|(contact, _)| contact.uri));
        let to = text(accepted.first(HeaderName::To).map(|field| field.value));
        let mut head = self.begin(method, &uri, cseq, method, &to);
        // RFC 3261 12.1.2: "The route set MUST be set to the list of URIs in the Record-Route
        // header field from the response, taken in reverse order".
        let routes: Vec<String> = accepted
            .values(HeaderName::RecordRoute)
            .map(|(route, _)| text(Some(route)))
            .collect();
        for route in routes.iter().rev() {
            let _ = write!(head, "Route: {route}\r\n");
        }
        (head + "Content-Length: 0\r\n\r\n").into_bytes()
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialog() -> Dialog {
        Dialog {
            user: "user0000007".to_owned(),
            id: "probe3".to_owned(),
            host: "127.0.0.1:4000".to_owned(),
        }
    }

    fn answer(status: &str, more: &str) -> Message {
        let text = format!(
            "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP 127.0.0.1:4000;branch=z9hG4bKprobe3-invite2\r\n\
             From: <sip:user0000007@bench.test>;tag=tprobe3\r\nTo: <sip:+1@bench.test>;tag=9\r\n\
             Call-ID: probe3\r\nCSeq: 2 INVITE\r\n{more}Content-Length: 0\r\n\r\n"
        );
        Message::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn a_refusal_counts_as_one_for_later_only_with_a_time() {
        let ended = |status, more| Ended::of(&answer(status, more));
        let of_server = "503 Service Unavailable";
        assert_eq!(ended(of_server, "Retry-After: 1\r\n"), Ended::Later);
        assert_eq!(ended(of_server, ""), Ended::Bare);
        assert_eq!(ended(of_server, "Retry-After: soon\r\n"), Ended::Bare);
        assert_eq!(ended("200 OK", ""), Ended::Served);
        for refused in ["401 Unauthorized", "403 Forbidden", "407 Proxy"] {
            assert_eq!(ended(refused, ""), Ended::Refused);
        }
        assert_eq!(ended("480 Nobody", ""), Ended::Other);
    }

    #[test]
    fn what_it_sends_can_be_read() {
        let credentials = b"Proxy-Authorization: Digest username=\"x\"\r\n";
        let invite = dialog().invite(2, credentials);
        let invite = Message::parse(&invite, &Limits::default()).unwrap();
        assert_eq!(invite.request_uri(), b"sip:+1@bench.test");
        assert!(invite.has(HeaderName::ProxyAuthorization));
        let refused = answer("503 Service Unavailable", "");
        let ack = dialog().acknowledge(2, &refused);
        let ack = Message::parse(&ack, &Limits::default()).unwrap();
        let via = |message: &Message| message.first(HeaderName::Via).map(|v| v.value.to_vec());
        assert_eq!(via(&ack), via(&invite), "one transaction");
        assert_eq!(ack.cseq().unwrap().number, 2);
    }

    #[test]
    fn it_hangs_up_by_the_way_that_the_answer_shows() {
        let accepted = answer(
            "200 OK",
            "Contact: <sip:called@127.0.0.1:5>\r\n\
             Record-Route: <sip:a@127.0.0.1;lr>, <sip:b@127.0.0.1;lr>\r\n",
        );
        let bye = dialog().within("BYE", 3, &accepted);
        let bye = Message::parse(&bye, &Limits::default()).unwrap();
        assert_eq!(bye.request_uri(), b"sip:called@127.0.0.1:5");
        let routes: Vec<&[u8]> = bye.values(HeaderName::Route).map(|(r, _)| r).collect();
        let expected: [&[u8]; 2] = [b"<sip:b@127.0.0.1;lr>", b"<sip:a@127.0.0.1;lr>"];
        assert_eq!(routes, expected);
        assert!(text(bye.first(HeaderName::To).map(|f| f.value)).ends_with(";tag=9"));
    }

    #[test]
    fn who_is_let_in_without_a_password_is_told_apart_and_hangs_up() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let served = std::thread::spawn(move || {
            let mut bytes = [0; 65_535];
            let (len, from) = server.recv_from(&mut bytes).unwrap();
            let invite = String::from_utf8_lossy(&bytes[..len]).into_owned();
            let kept = invite.lines().filter(|line| {
                ["Via:", "From:", "To:", "Call-ID:", "CSeq:"]
                    .iter()
                    .any(|name| line.starts_with(name))
            });
            let kept: String = kept.map(|line| format!("{line}\r\n")).collect();
            let answer = format!(
                "SIP/2.0 200 OK\r\n{kept}Contact: <sip:x@127.0.0.1>\r\nContent-Length: 0\r\n\r\n"
            );
            server.send_to(answer.as_bytes(), from).unwrap();
            let mut methods = Vec::new();
            for _ in 0..2 {
                let len = server.recv(&mut bytes).unwrap();
                let line = String::from_utf8_lossy(&bytes[..len]).into_owned();
                methods.extend(line.split(' ').next().map(str::to_owned));
            }
            methods
        });
        let mut line = Line::open(port).unwrap();
        let call = line.call(1, Instant::now()).unwrap();
        assert_eq!(call.ended, Ended::Unproved);
        assert_eq!(served.join().unwrap(), ["ACK", "BYE"]);
    }
}
