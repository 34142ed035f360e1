//! What one worker hands to another: bounded, in batches, with one lock and
//! at most one wake-up for a batch.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sip_engine::sender::Sender;
use sip_msg::{ConnId, Message, Method, Target};

use crate::{SendFailure, Sockets, Wake};

/// Something for another worker.
pub enum Handover {
    /// A message that belongs to that worker's shard.
    Message {
        /// Who sent it.
        sender: Sender,
        /// The message.
        message: Box<Message>,
    },
    /// A message to send on a connection that that worker owns.
    Send {
        /// Where to.
        to: Target,
        /// The message.
        bytes: Vec<u8>,
        /// Whose shard asked, to tell it if it fails.
        from: usize,
        /// The cookie that the shard gave.
        cookie: u64,
    },
    /// A message that the shard of that worker had sent through this one did
    /// not arrive, as far as is known.
    SendFailed {
        /// The cookie that the shard gave.
        cookie: u64,
        /// What became of it.
        failure: SendFailure,
    },
    /// A datagram came back (ICMP) that may have been sent by that worker.
    Unreachable {
        /// Where it was sent to.
        remote: SocketAddr,
        /// How it begins.
        quoted: Box<[u8]>,
    },
    /// A connection that brought messages for that worker's shard is gone.
    Closed(ConnId),
    /// Something is to be done to a connection of that worker.
    Connection(ConnId, ConnAct),
}

/// What is under way ends by responses, by messages to send and by what is told of
/// connections. On a stream nobody sends them again: they find room where a request
/// finds none.
pub(crate) const ENDING_MAX: usize = 4_096;

impl Handover {
    /// Whether it is a request that may be refused for want of room.
    fn begins_something(&self) -> bool {
        let Self::Message { message, .. } = self else {
            return false;
        };
        let ends = matches!(message.method(), Method::Ack | Method::Bye | Method::Cancel);
        message.is_request() && !ends
    }

    /// Whether it is a final response that goes by a stream, which nobody sends again: its request
    /// would never be answered.
    pub(crate) fn is_awaited(&self) -> bool {
        match self {
            Self::Message { sender, message } => {
                sender.flow.transport.is_reliable() && message.status() >= 200
            }
            Self::Send { to, bytes, .. } => {
                let is_final = |status: &[u8]| matches!(status.first(), Some(b'2'..=b'6'));
                to.transport.is_reliable() && bytes.strip_prefix(b"SIP/2.0 ").is_some_and(is_final)
            }
            Self::SendFailed { .. }
            | Self::Unreachable { .. }
            | Self::Closed(_)
            | Self::Connection(..) => false,
        }
    }
}

/// What is done to a connection by the worker that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnAct {
    /// It is closed after what is queued on it was written.
    Close,
    /// A stranger has sent something wrong on it.
    CountOdd,
    /// A contact relies on it.
    KeepFor {
        /// For so long.
        for_ms: u64,
    },
}

impl ConnAct {
    pub(crate) fn carry_out(self, conn: ConnId, sockets: &mut impl Sockets) {
        match self {
            Self::Close => sockets.close(conn),
            Self::CountOdd => sockets.count_odd(conn),
            Self::KeepFor { for_ms } => sockets.keep_for(conn, for_ms),
        }
    }
}

/// What waits for a worker.
pub struct Mailbox<W> {
    waiting: Mutex<VecDeque<Handover>>,
    waiting_max: usize,
    waker: W,
}

impl<W: Wake> Mailbox<W> {
    /// An empty one that holds so many.
    pub fn new(waiting_max: usize, waker: W) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            waiting_max,
            waker,
        })
    }

    /// Puts in what of `batch` there is room for, in order; what is left in it found
    /// none. Wakes the worker if it may be asleep.
    pub fn put(&self, batch: &mut Vec<Handover>) {
        if batch.is_empty() {
            return;
        }
        let was_empty = {
            let mut waiting = self.lock();
            let was_empty = waiting.is_empty();
            if waiting.len() + batch.len() <= self.waiting_max {
                waiting.extend(batch.drain(..));
            } else {
                for handover in std::mem::take(batch) {
                    let more = if handover.begins_something() {
                        0
                    } else {
                        ENDING_MAX
                    };
                    match waiting.len() < self.waiting_max + more {
                        true => waiting.push_back(handover),
                        false => batch.push(handover),
                    }
                }
            }
            was_empty
        };
        // Whoever filled it from empty has woken the worker, and it takes all.
        if was_empty {
            self.waker.wake();
        }
    }

    /// Takes everything, by exchange with an empty queue.
    pub fn take(&self, into: &mut VecDeque<Handover>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut *self.lock(), into);
    }

    /// How much waits.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// Makes the worker look around.
    pub fn wake(&self) {
        self.waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Handover>> {
        // A queue is whole whenever the lock is free.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sip_msg::{Flow, Limits, ListenerId, Transport};

    use super::*;

    #[derive(Default)]
    struct Bell(Cell<u32>);

    impl Wake for Bell {
        fn wake(&self) {
            self.0.set(self.0.get() + 1);
        }
    }

    fn failed(cookies: std::ops::Range<u64>) -> Vec<Handover> {
        cookies
            .map(|cookie| Handover::SendFailed {
                cookie,
                failure: SendFailure::There,
            })
            .collect()
    }

    fn message(start: &str, method: &str) -> Handover {
        let text = format!(
            "{start}\r\nVia: SIP/2.0/TCP 192.0.2.4;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@d>\r\nCall-ID: x\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
        );
        let addr = "192.0.2.4:5060".parse().unwrap();
        let flow = Flow {
            transport: Transport::Tcp,
            listener: ListenerId(0),
            local: addr,
            remote: addr,
            conn: ConnId(1),
        };
        let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
        Handover::Message {
            sender: Sender::unproved(flow),
            message: Box::new(message),
        }
    }

    fn invite() -> Handover {
        message("INVITE sip:c@d SIP/2.0", "INVITE")
    }

    #[test]
    fn a_batch_arrives_in_order_and_wakes_the_worker_once() {
        let mailbox = Mailbox::new(5, Bell::default());
        let (mut first, mut second) = (failed(0..2), failed(2..4));
        mailbox.put(&mut first);
        mailbox.put(&mut second);
        assert!(first.is_empty() && second.is_empty());
        assert_eq!(mailbox.waker.0.get(), 1, "once for what lies there");

        let mut taken = VecDeque::new();
        mailbox.take(&mut taken);
        let cookie = |handover: &Handover| match handover {
            Handover::SendFailed { cookie, .. } => *cookie,
            _ => panic!("another handover"),
        };
        assert_eq!(taken.iter().map(cookie).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn what_begins_something_finds_no_room_past_the_bound_and_what_ends_something_does() {
        let mailbox = Mailbox::new(2, Bell::default());
        let mut batch = vec![invite(), invite(), invite()];
        mailbox.put(&mut batch);
        assert_eq!(batch.len(), 1, "what found no room stays with its sender");
        let mut batch = vec![
            invite(),
            message("SIP/2.0 200 OK", "INVITE"),
            message("ACK sip:c@d SIP/2.0", "ACK"),
            message("BYE sip:c@d SIP/2.0", "BYE"),
            Handover::Closed(ConnId(1)),
        ];
        batch.extend(failed(0..3));
        mailbox.put(&mut batch);
        assert_eq!(batch.len(), 1);
        assert!(batch.iter().all(Handover::begins_something));
        let mut batch = failed(0..ENDING_MAX as u64 + 9);
        mailbox.put(&mut batch);
        let mut taken = VecDeque::new();
        mailbox.take(&mut taken);
        assert_eq!(taken.len(), 2 + ENDING_MAX, "that has a bound too");
    }
}
