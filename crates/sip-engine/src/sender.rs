//! Who a message came from.

use std::sync::Arc;

use sip_msg::{Flow, VerifiedPeer};

/// Who a message came from: its flow, and the verified identity of the peer at the other
/// end of its connection. It stays with the request, also while that is parked, so that
/// every decision is about the same sender.
#[derive(Clone, Debug)]
pub struct Sender {
    /// The flow that it came by.
    pub flow: Flow,
    /// The peer's verified certificate, if it has shown one.
    pub peer: Option<Arc<VerifiedPeer>>,
}

impl Sender {
    /// A sender of whom nothing is known but the flow.
    pub fn unproved(flow: Flow) -> Self {
        Self { flow, peer: None }
    }
}
