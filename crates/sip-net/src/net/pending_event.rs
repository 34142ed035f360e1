//! Events that wait for the next [`Net::poll`](super::Net::poll) to be told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use sip_msg::{ConnId, Flow, VerifiedPeer};
use sip_tls::HandshakeError;

use crate::{CloseReason, SendError, UpgradeFault};

/// An event that borrows nothing.
pub(super) enum PendingEvent {
    Verified(Flow, Arc<VerifiedPeer>),
    Accepted(Flow),
    Opened(Flow),
    HandshakeFailed(ConnId, HandshakeError),
    UpgradeFailed(ConnId, UpgradeFault),
    Closed(ConnId, CloseReason),
    SendFailed(u64, SendError),
    BesideRefused(SocketAddr),
}

/// A message was not sent; it is told of where the sender left a cookie.
pub(super) fn push_failure(pending: &mut VecDeque<PendingEvent>, cookie: u64, error: SendError) {
    if cookie != 0 {
        pending.push_back(PendingEvent::SendFailed(cookie, error));
    }
}
