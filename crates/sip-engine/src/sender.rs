//! Who a message came from.

use std::sync::Arc;

use sip_msg::{Flow, VerifiedPeer};

/// Who a message came from: the flow that it came by, and whom its connection
/// has proved to be at the other end. It goes wherever the request goes, also
/// through a wait, so that whatever is decided later is decided about the same
/// sender.
#[derive(Clone, Debug)]
pub struct Sender {
    /// The flow that it came by.
    pub flow: Flow,
    /// Whom the certificate on its connection names, where one was verified.
    pub peer: Option<Arc<VerifiedPeer>>,
}

impl Sender {
    /// Somebody of whom nothing is known but the flow.
    pub fn unproved(flow: Flow) -> Self {
        Self { flow, peer: None }
    }
}
