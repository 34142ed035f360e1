//! Whom the peers of this worker's connections proved to be, and the log of
//! those that named somebody else.

use std::collections::HashMap;
use std::sync::Arc;

use sip_msg::{ConnId, Flow, VerifiedPeer};

/// One line is logged in this time, whatever is refused.
const LOG_EVERY_MS: u64 = 10_000;

/// The proofs, each as long as its connection. There are no more than there are
/// connections, and only those whose peers showed a certificate are here.
#[derive(Default)]
pub(super) struct Peers {
    by_conn: HashMap<ConnId, Arc<VerifiedPeer>>,
    logged_ms: Option<u64>,
    unlogged: u64,
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

    /// Tells the operator of a refused request, unless it told of one just now.
    pub(super) fn log_refused(
        &mut self,
        now_ms: u64,
        flow: &Flow,
        proved: Option<&VerifiedPeer>,
        claimed: &str,
    ) {
        if self
            .logged_ms
            .is_some_and(|logged_ms| now_ms < logged_ms.saturating_add(LOG_EVERY_MS))
        {
            self.unlogged += 1;
            return;
        }
        self.logged_ms = Some(now_ms);
        let proves = match proved {
            Some(peer) if !peer.domains().is_empty() => peer.domains().join(", "),
            Some(_) => "no domain".to_owned(),
            None => "its address alone".to_owned(),
        };
        tracing::warn!(
            peer = %flow.remote,
            transport = flow.transport.uri_name(),
            proves,
            claims = claimed,
            more_since_the_last = std::mem::take(&mut self.unlogged),
            "refused a request: its sender does not speak for that domain (403)"
        );
    }
}
