//! A UDP socket and the requests that wait on it, one for each of 256 identifiers.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::packet::{self, PACKET_MAX, SharedSecret, Unbelieved, Verdict};
use crate::net::Traffic;

/// Requests that may wait on one socket: an identifier is a byte (RFC 2865 3).
pub(super) const IDENTIFIERS: usize = 256;

/// Requests in a row that nothing answered, after which a socket is not used for others:
/// the server may have moved, or a middlebox forgotten the socket.
const UNANSWERED_MAX: u32 = 64;

/// What is counted over all sockets of a client.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) traffic: Traffic,
    /// Datagrams that answered nothing, or did not prove to be from the server.
    pub(super) ignored: Cell<u64>,
    /// Of these, those for a request that waited: why the last was not believed.
    pub(super) unbelieved: Cell<Option<Unbelieved>>,
}

/// The end of a wait: the answer, or why the socket is of no use.
pub(super) type Answer = Result<Verdict, String>;

struct Waiter {
    authenticator: [u8; 16],
    answer: oneshot::Sender<Answer>,
}

/// A connected socket: the kernel passes on only what comes from the server's address and
/// port, to the random port of our own.
pub(super) struct Port {
    socket: UdpSocket,
    waiters: RefCell<Vec<Option<Waiter>>>,
    next: Cell<u8>,
    unanswered: Cell<u32>,
    is_broken: Cell<bool>,
}

/// A port and the task that reads it.
pub(super) struct OpenPort {
    pub(super) port: Rc<Port>,
    /// Where it leads.
    pub(super) server: SocketAddr,
    reader: JoinHandle<()>,
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A place among the waiters, free again when it is dropped.
pub(super) struct Seat {
    open: Rc<OpenPort>,
    pub(super) identifier: u8,
    pub(super) answer: oneshot::Receiver<Answer>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let port = &self.open.port;
        let mut waiters = port.waiters.borrow_mut();
        if let Some(place) = waiters.get_mut(usize::from(self.identifier))
            && place.take().is_some()
        {
            port.unanswered.set(port.unanswered.get().saturating_add(1));
        }
    }
}

impl OpenPort {
    /// Opens a socket to `server`, on a port that the kernel chooses at random.
    pub(super) async fn open(
        server: SocketAddr,
        secret: Rc<SharedSecret>,
        tally: Rc<Tally>,
    ) -> io::Result<Self> {
        let any: SocketAddr = if server.is_ipv4() {
            ([0, 0, 0, 0], 0).into()
        } else {
            ([0_u16; 8], 0).into()
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(server).await?;
        let port = Rc::new(Port {
            socket,
            waiters: RefCell::new((0..IDENTIFIERS).map(|_| None).collect()),
            next: Cell::new(getrandom::u32().map_or(0, |random| random.to_le_bytes()[0])),
            unanswered: Cell::new(0),
            is_broken: Cell::new(false),
        });
        let reader = tokio::task::spawn_local(read(Rc::clone(&port), secret, tally));
        Ok(Self {
            port,
            server,
            reader,
        })
    }

    /// A free identifier; `None` where all wait.
    pub(super) fn seat(open: &Rc<Self>, authenticator: [u8; 16]) -> Option<Seat> {
        let port = &open.port;
        let mut waiters = port.waiters.borrow_mut();
        let first = port.next.get();
        // The longest unused first: a late answer to it is the least likely to come.
        let identifier = (0..=u8::MAX)
            .map(|step| first.wrapping_add(step))
            .find(|&at| matches!(waiters.get(usize::from(at)), Some(None)))?;
        port.next.set(identifier.wrapping_add(1));
        let (answer, receiver) = oneshot::channel();
        *waiters.get_mut(usize::from(identifier))? = Some(Waiter {
            authenticator,
            answer,
        });
        Some(Seat {
            open: Rc::clone(open),
            identifier,
            answer: receiver,
        })
    }

    /// Whether others may be asked over it.
    pub(super) fn is_good(&self) -> bool {
        !self.port.is_broken.get() && self.port.unanswered.get() < UNANSWERED_MAX
    }
}

impl Seat {
    /// Sends the request, or sends it again: the same bytes from the same port, so that
    /// the server knows them for the same (RFC 5080 2.2.2).
    pub(super) async fn send(&self, packet: &[u8], tally: &Tally) -> Result<(), String> {
        let port = &self.open.port;
        match port.socket.send(packet).await {
            Ok(sent) => {
                tally.traffic.add(sent, 0);
                Ok(())
            }
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => {
                port.fail(&error);
                Err(error.to_string())
            }
        }
    }
}

impl Port {
    /// Takes a datagram: its waiter is told, if it proves to be from the server.
    fn take(&self, bytes: &[u8], secret: &SharedSecret, tally: &Tally) {
        let mut waiters = self.waiters.borrow_mut();
        let place = packet::identifier(bytes).and_then(|at| waiters.get_mut(usize::from(at)));
        let verdict = match &place {
            Some(Some(waiter)) => packet::read(bytes, &waiter.authenticator, secret),
            _ => {
                tally.ignored.set(tally.ignored.get() + 1);
                return;
            }
        };
        match (verdict, place.and_then(Option::take)) {
            (Ok(verdict), Some(waiter)) => {
                self.unanswered.set(0);
                // Who asked may have given up meanwhile.
                let _ = waiter.answer.send(Ok(verdict));
            }
            (Ok(_), None) => {}
            // RFC 2865 4: what does not verify is "silently discarded"; the waiter waits on.
            (Err(why), waiter) => {
                if let (Some(waiter), Some(at)) = (waiter, packet::identifier(bytes))
                    && let Some(place) = waiters.get_mut(usize::from(at))
                {
                    *place = Some(waiter);
                }
                tally.ignored.set(tally.ignored.get() + 1);
                tally.unbelieved.set(Some(why));
            }
        }
    }

    /// Ends all waits: there is nobody at the other end.
    fn fail(&self, error: &io::Error) {
        self.is_broken.set(true);
        for place in self.waiters.borrow_mut().iter_mut() {
            if let Some(waiter) = place.take() {
                let _ = waiter.answer.send(Err(error.to_string()));
            }
        }
    }
}

/// Reads a port until its task is ended.
async fn read(port: Rc<Port>, secret: Rc<SharedSecret>, tally: Rc<Tally>) {
    // One byte more than a packet may have, so that a longer datagram is not taken for one.
    let mut buffer = vec![0; PACKET_MAX + 1];
    loop {
        match port.socket.recv(&mut buffer).await {
            Ok(len) => {
                tally.traffic.add(0, len);
                port.take(buffer.get(..len).unwrap_or_default(), &secret, &tally);
            }
            Err(error) if is_passing(&error) => tokio::task::yield_now().await,
            Err(error) => return port.fail(&error),
        }
    }
}

/// Whether an error is of one datagram and not of the way to the server.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory
    )
}
