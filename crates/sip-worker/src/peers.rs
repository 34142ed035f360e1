//! Whom the peers of this worker's connections proved to be.

use std::collections::HashMap;
use std::sync::Arc;

use sip_msg::{ConnId, Flow, VerifiedPeer};

/// The proofs, each as long as its connection. There are no more than there are
/// connections, and only those whose peers showed a certificate are here.
#[derive(Default)]
pub(super) struct Peers {
    by_conn: HashMap<ConnId, Arc<VerifiedPeer>>,
}

impl Peers {
    pub(super) fn verified(&mut self, conn: ConnId, peer: Arc<VerifiedPeer>) {
        self.by_conn.insert(conn, peer);
    }

    pub(super) fn ended(&mut self, conn: ConnId) {
        if !self.by_conn.is_empty() {
            self.by_conn.remove(&conn);
        }
    }

    /// Whom the sender of a message on this flow proved to be.
    pub(super) fn of(&self, flow: &Flow) -> Option<Arc<VerifiedPeer>> {
        if self.by_conn.is_empty() || !flow.transport.is_secure() {
            return None;
        }
        self.by_conn.get(&flow.conn).cloned()
    }
}
