//! Where responses go by the topmost Via (RFC 3261 18.2.2, RFC 3581).

use sip_msg::header::Via;
use sip_msg::{ConnId, Flow, Target, Transport};
use std::net::{IpAddr, SocketAddr};

/// Where a response to a request with this topmost Via goes, which came on
/// this flow (RFC 3261 18.2.2): for responses that no transaction sends.
pub fn response_target(flow: &Flow, via: &Via<'_>, honour_maddr: bool) -> Target {
    // RFC 3261 18.2.2: "It MUST follow the following process:"
    let source = flow.remote.ip();
    let sent_by_port = via.sent_by.port.unwrap_or(flow.transport.default_port());
    let back = Target {
        transport: flow.transport,
        listener: flow.listener,
        remote: SocketAddr::new(source, sent_by_port),
        conn: flow.conn,
        may_open: false,
        tls_name: None,
        lane: sip_msg::Lane::Shared,
        // A sender behind a NAT, or one that looks at whence the answer comes, knows
        // no other address than the one that it sent to.
        local: Some(flow.local.ip()),
    };
    if flow.transport.is_reliable() {
        // RFC 3261 18.2.2: "the response MUST be sent using the existing connection to the source of the
        // original request that created the transaction, if that connection is still open."
        // RFC 3261 18.2.2: "If that connection is no longer open, the server SHOULD open a connection to
        // the IP address in the "received" parameter, if present, using the port in the "sent-by" value"
        // Not over TLS: nothing says which name the certificate there would have to bear.
        return Target {
            may_open: flow.transport == Transport::Tcp,
            ..back
        };
    }
    let back = Target {
        conn: ConnId::NONE,
        ..back
    };
    // RFC 3261 18.2.2: "Otherwise, if the Via header field value contains a "maddr" parameter, the response
    // MUST be forwarded to the address listed there, using the port indicated in "sent-by""
    if let Some(address) = maddr(via).filter(|_| honour_maddr) {
        return Target {
            remote: SocketAddr::new(address, sent_by_port),
            ..back
        };
    }
    // RFC 3581 4: "the response MUST be sent to the IP address listed in the "received" parameter, and the
    // port in the "rport" parameter."
    if via.rport.is_some() {
        return Target {
            remote: flow.remote,
            ..back
        };
    }
    // RFC 3261 18.2.2: "the response MUST be sent to the address in the "received" parameter, using the port
    // indicated in the "sent-by" value, or using port 5060 if none is specified explicitly."
    // RFC 3261 18.2.2: "Otherwise, if it is not receiver-tagged, the response MUST be sent to the address
    // indicated by the "sent-by" value, using the procedures in Section 5 of [4]." That is where it came
    // from, or it would be tagged.
    back
}

/// The Via's `maddr`, where it is an address.
pub(crate) fn maddr(via: &Via<'_>) -> Option<IpAddr> {
    let text = std::str::from_utf8(via.maddr?).ok()?;
    text.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

#[cfg(test)]
#[path = "via_tests.rs"]
mod tests;
