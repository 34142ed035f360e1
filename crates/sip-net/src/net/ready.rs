//! What the kernel says of which socket.

use std::io;

use ledger::{Component, within};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use sip_msg::ConnId;

/// What other threads wake the worker by.
pub(super) const WAKER: Token = Token(usize::MAX);

/// The token of a connection: its number, so that what the kernel said of one
/// that has ended meanwhile is not taken for another's in the same place.
pub(super) const fn token(id: ConnId) -> Token {
    const { assert!(usize::BITS == 64, "a connection's number is a token") };
    Token(id.0 as usize)
}

/// The connection that a token stands for; listeners have the numbers below.
pub(super) fn conn(token: Token) -> Option<ConnId> {
    let is_listener = token.0 <= u16::MAX as usize;
    (!is_listener && token != WAKER).then_some(ConnId(token.0 as u64))
}

/// What the kernel says of a socket.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) token: Token,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The peer sends no more.
    pub(super) peer_ended: bool,
    pub(super) error: bool,
}

impl Ready {
    pub(super) fn new(event: &Event) -> Self {
        Self {
            token: event.token(),
            readable: event.is_readable(),
            writable: event.is_writable(),
            peer_ended: event.is_read_closed(),
            error: event.is_error(),
        }
    }

    /// There was more to read than one turn allows.
    pub(super) fn more(token: Token) -> Self {
        Self {
            token,
            readable: true,
            writable: false,
            peer_ended: false,
            error: false,
        }
    }
}

/// Has the kernel tell of a connection from now on.
pub(super) fn register(registry: &Registry, socket: &mut TcpStream, id: ConnId) -> io::Result<()> {
    // Both at once and for good: with edge-triggered events that costs no
    // wake-up, and never a call to change it.
    let both = Interest::READABLE | Interest::WRITABLE;
    within(Component::Kernel, || {
        registry.register(socket, token(id), both)
    })
}
