//! The operator is told of flows to phones that have ended.

use std::net::SocketAddr;

use sip_engine::registrar::FlowEnd;

/// A line for each; the worker whose shard the user belongs to tells it.
pub(super) fn log(aor: &[u8], contact: &[u8], remote: Option<SocketAddr>, why: FlowEnd) {
    let remote = remote.map(tracing::field::display);
    tracing::info!(
        user = %aor.escape_ascii(),
        contact = %contact.escape_ascii(),
        address = remote,
        why = why.name(),
        "the flow to a phone has ended: {}; its contact is removed until it registers again",
        why.text()
    );
}
