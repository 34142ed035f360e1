//! A client that sends at its own pace, whatever comes back, and notes when what came.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sip_msg::{Limits, Message};

use super::requests::{ack_of, number_of};

/// Requests that are sent at once: the order of their answers is to be seen.
pub(super) const TOGETHER: usize = 2;
/// How long after the last request an answer may come.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether to wait any longer.
const LOOK: Duration = Duration::from_millis(50);
/// More than any answer has.
const DATAGRAM_MAX: usize = 65_536;

/// The final answer to a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard<N> {
    /// From the sending of the request, in nanoseconds.
    pub(super) took_ns: u64,
    /// Which answer it was, of all that came.
    pub(super) place: usize,
    pub(super) status: u16,
    /// What was noted of it.
    pub(super) note: N,
}

/// What the one who listens takes down of a request's answer.
struct Came<N> {
    at_ns: u64,
    place: usize,
    status: u16,
    note: N,
}

/// A socket, and where it sends to.
pub(super) struct Client {
    socket: UdpSocket,
    port: u16,
    /// The core for its threads, where it is to be one.
    core: Option<usize>,
    patience: Duration,
    /// The number of the next request.
    next: usize,
}

impl Client {
    /// One that speaks to this port of this machine.
    pub(super) fn new(server: u16, core: Option<usize>) -> Result<Self, String> {
        let open = || -> std::io::Result<(UdpSocket, u16)> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, server)))?;
            socket.set_read_timeout(Some(LOOK))?;
            let port = socket.local_addr()?.port();
            Ok((socket, port))
        };
        let (socket, port) = open().map_err(|error| format!("a socket for requests: {error}"))?;
        Ok(Self {
            socket,
            port,
            core,
            patience: PATIENCE,
            next: 0,
        })
    }

    /// Sends so many requests, `per_s` of them in a second, [`TOGETHER`] at once, and waits
    /// for their answers. `make` writes the nth, which has a number and the sender's port to
    /// bear; `note` takes down what is wanted of a final answer.
    pub(super) fn exchange<N: Send>(
        &mut self,
        count: usize,
        per_s: f64,
        mut make: impl FnMut(usize, (usize, u16)) -> Result<Vec<u8>, String> + Send,
        note: impl FnMut(&Message) -> N + Send,
    ) -> Result<Vec<Option<Heard<N>>>, String> {
        let first = self.next;
        self.next += count;
        let begun = Instant::now();
        let is_sent = AtomicBool::new(false);
        let (this, is_sent) = (&*self, &is_sent);
        let (sent_ns, came) = std::thread::scope(|scope| {
            let ear = scope.spawn(move || {
                this.settle_down();
                this.listen((first, count), begun, is_sent, note)
            });
            let mouth = scope.spawn(move || {
                this.settle_down();
                let sent = this.send((first, count), per_s, begun, &mut make);
                is_sent.store(true, Ordering::Relaxed);
                sent
            });
            (mouth.join(), ear.join())
        });
        let gone = |_| "a thread of the client has ended".to_owned();
        let (sent_ns, came) = (sent_ns.map_err(gone)??, came.map_err(gone)??);
        let heard = sent_ns.into_iter().zip(came).map(|(sent_ns, came)| {
            came.map(|came| Heard {
                took_ns: came.at_ns.saturating_sub(sent_ns),
                place: came.place,
                status: came.status,
                note: came.note,
            })
        });
        Ok(heard.collect())
    }

    /// Keeps a thread on its core, where that can be had.
    fn settle_down(&self) {
        if let Some(core) = self.core {
            let _ = sip_net::sys::pin_thread(core);
        }
    }

    /// When each request was sent, in nanoseconds since the beginning.
    fn send(
        &self,
        (first, count): (usize, usize),
        per_s: f64,
        begun: Instant,
        make: &mut impl FnMut(usize, (usize, u16)) -> Result<Vec<u8>, String>,
    ) -> Result<Vec<u64>, String> {
        let mut sent_ns = Vec::with_capacity(count);
        let mut at = 0;
        while at < count {
            let many = TOGETHER.min(count - at);
            let requests = (at..at + many).map(|nth| make(nth, (first + nth, self.port)));
            let requests = requests.collect::<Result<Vec<_>, _>>()?;
            let due = Duration::from_secs_f64(at as f64 / per_s);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
            for request in &requests {
                sent_ns.push(ns(begun));
                self.socket
                    .send(request)
                    .map_err(|error| format!("a request cannot be sent: {error}"))?;
            }
            at += many;
        }
        Ok(sent_ns)
    }

    fn listen<N>(
        &self,
        (first, count): (usize, usize),
        begun: Instant,
        is_sent: &AtomicBool,
        mut note: impl FnMut(&Message) -> N,
    ) -> Result<Vec<Option<Came<N>>>, String> {
        let mut came: Vec<Option<Came<N>>> = (0..count).map(|_| None).collect();
        let mut place = 0;
        let mut last_call: Option<Instant> = None;
        let mut bytes = vec![0; DATAGRAM_MAX];
        while place < count && last_call.is_none_or(|since| since.elapsed() < self.patience) {
            if last_call.is_none() && is_sent.load(Ordering::Relaxed) {
                last_call = Some(Instant::now());
            }
            let length = match self.socket.recv(&mut bytes) {
                Ok(length) => length,
                Err(error) if is_nothing(&error) => continue,
                Err(error) => return Err(format!("no answers can be received: {error}")),
            };
            let at_ns = ns(begun);
            let whole = bytes.get(..length).unwrap_or_default();
            let Ok(answer) = Message::parse(whole, &Limits::default()) else {
                return Err("an answer cannot be read".to_owned());
            };
            let number = number_of(&answer).and_then(|number| number.checked_sub(first));
            let Some(slot) = number.and_then(|nth| came.get_mut(nth)) else {
                continue;
            };
            if answer.status() < 200 {
                continue;
            }
            if let Some(ack) = ack_of(&answer) {
                // One that is lost is sent again when the answer is.
                let _ = self.socket.send(&ack);
            }
            if slot.is_none() {
                *slot = Some(Came {
                    at_ns,
                    place,
                    status: answer.status(),
                    note: note(&answer),
                });
                place += 1;
            }
        }
        Ok(came)
    }
}

/// Nanoseconds since then.
fn ns(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Whether nothing has come yet.
fn is_nothing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::super::requests::{Method, request};
    use super::*;

    /// Answers the second of each two first, and the fifth never; until it is asked for
    /// nothing more.
    fn serve(socket: &UdpSocket, count: usize) {
        let mut bytes = vec![0; DATAGRAM_MAX];
        for pair in 0..count / 2 {
            let mut both = Vec::new();
            while both.len() < 2 {
                let (length, from) = socket.recv_from(&mut bytes).unwrap();
                let message = Message::parse(&bytes[..length], &Limits::default()).unwrap();
                if message.method() != sip_msg::Method::Ack {
                    both.push((message, from));
                }
            }
            for (nth, (message, from)) in both.iter().enumerate().rev() {
                if pair == 2 && nth == 0 {
                    continue;
                }
                let text = String::from_utf8_lossy(message.bytes()).into_owned();
                let (_, headers) = text.split_once("\r\n").unwrap();
                for status in ["100 Trying", "407 No"] {
                    let answer = format!("SIP/2.0 {status}\r\n{headers}");
                    socket.send_to(answer.as_bytes(), from).unwrap();
                }
            }
        }
    }

    #[test]
    fn each_answer_finds_its_request_and_what_is_not_answered_is_missed() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let mut client = Client::new(port, None).unwrap();
        client.patience = 4 * LOOK;
        for round in 0..2 {
            let heard = std::thread::scope(|scope| {
                scope.spawn(|| serve(&server, 10));
                let make = |nth: usize, who| {
                    Ok(request(
                        Method::Invite,
                        &format!("user000000{nth}"),
                        who,
                        "",
                    ))
                };
                let note = |answer: &Message| number_of(answer).unwrap();
                client.exchange(10, 1_000.0, make, note).unwrap()
            });
            for (nth, heard) in heard.iter().enumerate() {
                let Some(heard) = heard else {
                    assert_eq!(nth, 4);
                    continue;
                };
                assert_eq!((heard.status, heard.note), (407, 10 * round + nth));
                let before = usize::from(nth > 5);
                assert_eq!(heard.place, (nth ^ 1) - before, "the second of two first");
            }
        }
    }
}
