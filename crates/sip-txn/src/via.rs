//! What the receiver adds to the topmost Via, and where responses go by it
//! (RFC 3261 18.2.1, 18.2.2, RFC 3581).

use sip_msg::header::Via;
use sip_msg::{ConnId, Edits, Flow, Message, Span, Target, Transport};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// What the receiver of a request must change in its topmost Via.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ViaFix {
    /// The value of `received`, where one is due.
    pub received: Option<IpAddr>,
    /// The value of `rport`, where the client asked for it.
    pub rport: Option<u16>,
}

impl ViaFix {
    /// What is due for a request with this Via, received on this flow.
    pub fn new(flow: &Flow, via: &Via<'_>) -> Self {
        let source = flow.remote.ip().to_canonical();
        // RFC 3261 18.2.1: "If the host portion of the "sent-by" parameter contains a domain name, or if
        // it contains an IP address that differs from the packet source address, the server MUST add a
        // "received" parameter to that Via header field value. This parameter MUST contain the source
        // address from which the packet was received."
        let differs = via.sent_by.ip() != Some(source);
        // RFC 3581 4: "When a server compliant to this specification (which can be a proxy or UAS)
        // receives a request, it examines the topmost Via header field value. If this Via header field
        // value contains an "rport" parameter with no value, it MUST set the value of the parameter to
        // the source port of the request."
        // A value that is there already is the sender's claim: it is replaced. So is a "received".
        let asked = via.rport.is_some();
        Self {
            received: (differs || asked || via.received.is_some()).then_some(source),
            rport: asked.then_some(flow.remote.port()),
        }
    }

    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.received.is_none() && self.rport.is_none()
    }

    /// Adds the change to the edits of a request that is forwarded.
    pub fn edit(&self, via: &Via<'_>, edits: &mut Edits) {
        for (span, text) in self.changes(via).into_iter().flatten() {
            if span.start == span.end {
                edits.insert(span.start, text.as_bytes());
            } else {
                edits.replace(span, text.as_bytes());
            }
        }
    }

    /// Writes the topmost Via's value, changed.
    pub fn write(&self, request: &Message, via: &Via<'_>, out: &mut Vec<u8>) {
        let mut at = via.span.start;
        let mut copy_until = |end: u32, out: &mut Vec<u8>| {
            out.extend_from_slice(
                request
                    .bytes()
                    .get(at as usize..end as usize)
                    .unwrap_or_default(),
            );
            at = end;
        };
        for (span, text) in self.changes(via).into_iter().flatten() {
            copy_until(span.start, out);
            copy_until(span.end, &mut Vec::new());
            out.extend_from_slice(text.as_bytes());
        }
        copy_until(via.span.end, out);
    }

    /// Changes the topmost Via of a response, `response[start..]`, in which it
    /// stands as it came in the request.
    pub fn patch(&self, request: &Message, via: &Via<'_>, response: &mut Vec<u8>, start: usize) {
        if self.is_empty() {
            return;
        }
        let old = request
            .bytes()
            .get(via.span.start as usize..via.span.end as usize);
        let Some(old) = old.filter(|old| !old.is_empty()) else {
            return;
        };
        let written = response.get(start..).unwrap_or_default();
        let Some(at) = written.windows(old.len()).position(|window| window == old) else {
            return;
        };
        let place = |offset: u32| start + at + (offset - via.span.start) as usize;
        for (span, text) in self.changes(via).into_iter().flatten().rev() {
            response.splice(
                place(span.start)..place(span.end),
                text.as_bytes().iter().copied(),
            );
        }
    }

    /// The places and what to put there, in the order of the places.
    fn changes(&self, via: &Via<'_>) -> [Option<(Span, Text)>; 2] {
        let end = Span {
            start: via.span.end,
            end: via.span.end,
        };
        let received = self.received.map(|ip| match via.received_span {
            Some(span) => (span, Text::new(format_args!("received={ip}"))),
            None => (end, Text::new(format_args!(";received={ip}"))),
        });
        let rport = self.rport.map(|port| match via.rport_span {
            Some(span) => (span, Text::new(format_args!("rport={port}"))),
            None => (end, Text::new(format_args!(";rport={port}"))),
        });
        match (&received, &rport) {
            (Some((first, _)), Some((second, _))) if second.start < first.start => {
                [rport, received]
            }
            _ => [received, rport],
        }
    }
}

/// Where a response to a request with this topmost Via goes, which came on
/// this flow (RFC 3261 18.2.2): for responses that no transaction sends.
pub fn response_target(flow: &Flow, via: &Via<'_>, honour_maddr: bool) -> Target {
    let source = flow.remote.ip();
    let sent_by_port = via.sent_by.port.unwrap_or(flow.transport.default_port());
    let back = Target {
        transport: flow.transport,
        listener: flow.listener,
        remote: SocketAddr::new(source, sent_by_port),
        conn: flow.conn,
        may_open: false,
        tls_name: None,
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
    // Without a "received" the sent-by is that same address (18.2.1).
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

/// A short text without an allocation.
struct Text {
    bytes: [u8; 64],
    len: usize,
}

impl Text {
    fn new(text: std::fmt::Arguments<'_>) -> Self {
        let mut bytes = [0; 64];
        let mut rest = &mut bytes[..];
        // An address has at most 45 characters.
        let fits = rest.write_fmt(text).is_ok();
        let left = rest.len();
        Self {
            bytes,
            len: if fits { 64 - left } else { 0 },
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "via_tests.rs"]
mod tests;
