//! A relay of streams.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};
use slab::Slab;
use socket2::SockRef;

use super::alarms::Wake;
use super::pair::{Next, Pair};
use super::shared::{CALLED, CALLER, Shared};
use super::{LISTENER, TOKENS_BEFORE};
use crate::Error;

/// Connections at once. Each takes two open files.
const PAIRS_MAX: usize = 8_192;
/// How long accepting rests when the process has no file left.
const REST_NS: u64 = 10_000_000;

/// A relay of streams.
pub(super) struct Streams {
    listener: TcpListener,
    to: SocketAddr,
    pairs: Slab<Pair>,
    /// Those that have more to do at once, and those that wait for room.
    again: Vec<usize>,
    waiting: Vec<usize>,
}

impl Streams {
    pub(super) fn bind(listen: SocketAddr, to: SocketAddr, shared: &Shared) -> Result<Self, Error> {
        let failed = |error: std::io::Error| super::cannot_listen(listen, &error);
        let mut listener = TcpListener::bind(listen).map_err(failed)?;
        shared
            .registry
            .register(&mut listener, LISTENER, Interest::READABLE)
            .map_err(failed)?;
        Ok(Self {
            listener,
            to,
            pairs: Slab::new(),
            again: Vec::new(),
            waiting: Vec::new(),
        })
    }

    pub(super) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub(super) fn open(&self) -> usize {
        self.pairs.len()
    }

    /// Accepts who is there. The kernel has told them already that they are connected: what
    /// they say and are told waits until they could have been.
    pub(super) fn accept(&mut self, shared: &mut Shared) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.take(stream, shared),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Whoever gave up while he waited.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(_) => {
                    shared.alarms.set(shared.now_ns() + REST_NS, Wake::Accept);
                    return;
                }
            }
        }
    }

    fn take(&mut self, mut stream: TcpStream, shared: &mut Shared) {
        if self.pairs.len() >= PAIRS_MAX {
            shared.counts.connections.refused += 1;
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            return;
        }
        let now_ns = shared.now_ns();
        let entry = self.pairs.vacant_entry();
        let key = entry.key();
        let token = token(key, CALLER);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if shared
            .registry
            .register(&mut stream, token, interest)
            .is_err()
        {
            shared.counts.connections.refused += 1;
            return;
        }
        shared.counts.connections.accepted += 1;
        let rtt_ns = shared.directions[CALLER].conditions().rtt_ns;
        entry.insert(Pair::new(key, stream, now_ns, rtt_ns));
        shared.alarms.set(now_ns + rtt_ns / 2, Wake::Connect(key));
        self.serve(key, shared);
    }

    /// The SYN of a connection arrives.
    pub(super) fn connect(&mut self, key: usize, shared: &mut Shared) {
        // A pair that took the place of one that is over has an alarm of its own.
        let now_ns = shared.now_ns();
        let Some(pair) = self
            .pairs
            .get_mut(key)
            .filter(|pair| pair.is_awaited(now_ns))
        else {
            return;
        };
        let connected = TcpStream::connect(self.to).and_then(|mut stream| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = token(key, CALLED);
            shared.registry.register(&mut stream, token, interest)?;
            Ok(stream)
        });
        match connected {
            Ok(stream) => pair.connect(stream),
            Err(_) => pair.refuse(shared),
        }
        self.serve(key, shared);
    }

    /// Something of a line is due.
    pub(super) fn ring(&mut self, key: usize, line: usize, at_ns: u64, shared: &mut Shared) {
        if self
            .pairs
            .get_mut(key)
            .is_some_and(|pair| pair.rings(line, at_ns))
        {
            self.serve(key, shared);
        }
    }

    /// The kernel has something to say of a socket.
    pub(super) fn note(&mut self, event: &mio::event::Event, shared: &mut Shared) {
        let place = event.token().0 - TOKENS_BEFORE;
        let (key, side) = (place / 2, place % 2);
        if let Some(pair) = self.pairs.get_mut(key) {
            pair.note(side, event);
            self.serve(key, shared);
        }
    }

    /// Goes on with those that had more to do; true where some still have.
    pub(super) fn go_on(&mut self, shared: &mut Shared) -> bool {
        if !self.waiting.is_empty() && shared.has_room(0) {
            self.again.append(&mut self.waiting);
        }
        for key in std::mem::take(&mut self.again) {
            self.serve(key, shared);
        }
        !self.again.is_empty()
    }

    fn serve(&mut self, key: usize, shared: &mut Shared) {
        let Some(pair) = self.pairs.get_mut(key) else {
            return;
        };
        match pair.serve(shared) {
            Next::Wait => {}
            Next::Again if self.again.contains(&key) => {}
            Next::Again => self.again.push(key),
            Next::Room if self.waiting.contains(&key) => {}
            Next::Room => self.waiting.push(key),
            Next::Over { by_reset } => {
                let mut pair = self.pairs.remove(key);
                for side in [CALLER, CALLED] {
                    if let Some(stream) = pair.source(side) {
                        let _ = shared.registry.deregister(stream);
                    }
                }
                shared.counts.connections.reset += u64::from(by_reset);
            }
        }
    }
}

/// What the kernel calls a side of a pair.
fn token(key: usize, side: usize) -> Token {
    Token(TOKENS_BEFORE + key * 2 + side)
}
