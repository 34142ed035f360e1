//! The server's side of a TLS handshake without a socket.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::handshake::{Handshake, Side};
use crate::{HandshakeError, HandshakeFailure, ServerTls};

/// What a listener does with what a client sends before it has a session, in
/// the order in which a worker does it.
pub struct TlsAccept {
    handshake: Handshake,
    is_begun: bool,
}

impl TlsAccept {
    /// A connection from `remote`.
    pub fn new(server: &Arc<ServerTls>, remote: SocketAddr) -> Self {
        Self {
            handshake: Handshake::new(Side::Server(Arc::clone(server)), remote),
            is_begun: false,
        }
    }

    /// Takes what came.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.handshake.input.extend_from_slice(bytes);
        if !self.is_begun {
            // Until the first record is whole nothing is computed for it.
            if self.handshake.class().is_none() {
                return Ok(());
            }
            self.is_begun = true;
        } else if !self.handshake.has_new_record() {
            return match self.handshake.says_too_much() {
                true => Err(HandshakeError::new(HandshakeFailure::Broken)),
                false => Ok(()),
            };
        }
        self.handshake.step().0
    }

    /// Bytes that came and are kept.
    pub fn kept_bytes(&self) -> usize {
        self.handshake.input.len()
    }

    /// All that is to be sent.
    pub fn sent(&self) -> &[u8] {
        &self.handshake.output
    }

    /// Data that came under the session's keys.
    pub fn data(&self) -> &[u8] {
        &self.handshake.plaintext
    }

    /// Whether the handshake is done.
    pub fn is_established(&self) -> bool {
        self.handshake.established
    }
}
