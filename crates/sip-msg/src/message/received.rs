//! What a server writes into the topmost Via when a request arrives
//! (RFC 3261 18.2.1, RFC 3581 4).

use super::{Message, Span};
use crate::header::Via;
use crate::uri::host_port::host_ip;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};

impl Message {
    /// Adds or corrects `received` and `rport` in the topmost Via of this copy,
    /// so that whatever is forwarded, answered or kept has them. Nothing
    /// changes where there is nothing to add, or no Via that can be read.
    ///
    /// A `received` that the sender wrote is replaced: only this server knows
    /// where the packet came from.
    pub fn stamp_received(&mut self, source: SocketAddr) {
        let Ok(via) = self.top_via() else {
            return;
        };
        let source_ip = source.ip().to_canonical();
        // RFC 3261 18.2.1: "If the host portion of the "sent-by" parameter contains a domain name, or if it
        // contains an IP address that differs from the packet source address, the server MUST add a
        // "received" parameter to that Via header field value." and RFC 3581 4: "the server MUST insert a
        // "received" parameter containing the source IP address that the request came from, even if it is
        // identical to the value of the "sent-by" component."
        // RFC 3261 18.2.1: "When the server transport receives a request over any transport, it MUST
        // examine the value of the "sent-by" parameter in the top Via header field value."
        let wants_received = via.rport.is_some()
            || via.received.is_some()
            || host_ip(via.sent_by.host) != Some(source_ip);
        let is_right = |via: &Via<'_>| {
            via.received.and_then(host_ip) == Some(source_ip)
                && via.rport.is_none_or(|port| port == Some(source.port()))
        };
        if !wants_received || is_right(&via) {
            return;
        }
        let (end, rport, received) = (via.span.end, via.rport_span, via.received_span);
        let mut text = Text::default();
        // The hindmost first, so that the places before it stay right.
        let mut edits = [
            rport.map(|span| (span, What::Rport)),
            Some(match received {
                Some(span) => (span, What::Received),
                None => (Span { start: end, end }, What::NewReceived),
            }),
        ];
        edits
            .sort_unstable_by_key(|edit| std::cmp::Reverse(edit.map_or(0, |(span, _)| span.start)));
        for (span, what) in edits.into_iter().flatten() {
            text.clear();
            let written = match what {
                What::Rport => write!(text, "rport={}", source.port()),
                // RFC 3261 18.2.1: "This parameter MUST contain the source address from which the
                // packet was received."
                What::Received => write!(text, "received={}", Bare(source_ip)),
                What::NewReceived => write!(text, ";received={}", Bare(source_ip)),
            };
            if written.is_ok() {
                self.splice(span, text.bytes());
            }
        }
        self.read_top_via();
    }

    /// The same, as if the sender had asked for answers at the port that he sends from
    /// (RFC 3581 3): for phones that send from behind a translation and do not ask.
    pub fn stamp_source(&mut self, source: SocketAddr) {
        let end = match self.top_via() {
            Ok(via) if via.rport.is_none() => Some(via.span.end),
            _ => None,
        };
        if let Some(end) = end {
            self.splice(Span { start: end, end }, b";rport");
            self.read_top_via();
        }
        self.stamp_received(source);
    }

    /// Replaces `span` in this copy and moves the index along.
    fn splice(&mut self, span: Span, with: &[u8]) {
        let (start, end) = (span.start as usize, span.end as usize);
        let old_len = self.bytes.len();
        if end > old_len || start > end {
            return;
        }
        let by = with.len() as i64 - (end - start) as i64;
        if let Ok(grown) = usize::try_from(by) {
            self.bytes.resize(old_len + grown, 0);
        }
        self.bytes.copy_within(end..old_len, start + with.len());
        if let Some(place) = self.bytes.get_mut(start..start + with.len()) {
            place.copy_from_slice(with);
        }
        if by < 0 {
            self.bytes.truncate(old_len - (end - start - with.len()));
        }
        // A span's end is where a value and a line may end too: those move, and
        // nothing else in the index stands in or at the beginning of a Via.
        self.shift(span.end.saturating_sub(1), by);
    }
}

#[derive(Clone, Copy)]
enum What {
    Rport,
    Received,
    NewReceived,
}

/// RFC 3261 25.1 writes `received`'s IPv6 address without brackets.
struct Bare(IpAddr);

impl std::fmt::Display for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A parameter's text, on the stack: 64 bytes hold the longest address.
struct Text {
    bytes: [u8; 64],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            bytes: [0; 64],
            len: 0,
        }
    }
}

impl Text {
    fn clear(&mut self) {
        self.len = 0;
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Write for Text {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        let free = self.bytes.get_mut(self.len..).unwrap_or_default();
        let taken = text.len().min(free.len());
        if let (Some(place), Some(text)) = (free.get_mut(..taken), text.get(..taken)) {
            place.copy_from_slice(text);
        }
        self.len += taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
