//! The topmost Via, read once: transactions, responses and routing all ask for
//! it, several times for each message.

use super::{Message, Span};
use crate::header::{HeaderName, Via, elements};
use crate::{HostPort, Transport};

/// Where the parts of the topmost Via stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopVia {
    transport: Option<Transport>,
    host: Span,
    port: Option<u16>,
    branch: Span,
    received: Option<Span>,
    rport: Option<Option<u16>>,
    maddr: Option<Span>,
    ttl: Option<u8>,
    span: Span,
    rport_span: Option<Span>,
    received_span: Option<Span>,
}

impl Message {
    /// Reads the topmost Via again: after the message or its Via has changed.
    pub(super) fn read_top_via(&mut self) {
        self.top_via = self.parse_top_via().map(|via| self.places(&via));
    }

    /// The topmost Via as it was read; `None` where there is none that can be.
    pub(super) fn known_top_via(&self) -> Option<Via<'_>> {
        let known = self.top_via.as_ref()?;
        Some(Via {
            transport: known.transport,
            sent_by: HostPort {
                host: self.slice(known.host),
                port: known.port,
            },
            branch: self.slice(known.branch),
            received: known.received.map(|span| self.slice(span)),
            rport: known.rport,
            maddr: known.maddr.map(|span| self.slice(span)),
            ttl: known.ttl,
            span: known.span,
            rport_span: known.rport_span,
            received_span: known.received_span,
        })
    }

    fn parse_top_via(&self) -> Option<Via<'_>> {
        let head = self.first_head(HeaderName::Via)?;
        let (element, span) = elements(self.value(head)).next()?;
        Via::parse(element, span.shifted(head.value_start))
    }

    fn places(&self, via: &Via<'_>) -> TopVia {
        TopVia {
            transport: via.transport,
            host: self.place(via.sent_by.host),
            port: via.sent_by.port,
            branch: self.place(via.branch),
            received: via.received.map(|part| self.place(part)),
            rport: via.rport,
            maddr: via.maddr.map(|part| self.place(part)),
            ttl: via.ttl,
            span: via.span,
            rport_span: via.rport_span,
            received_span: via.received_span,
        }
    }

    /// Where a slice of this message stands in it; empty for any other.
    pub(super) fn place(&self, part: &[u8]) -> Span {
        let base = self.bytes.as_ptr() as usize;
        match (part.as_ptr() as usize).checked_sub(base) {
            Some(start) if start + part.len() <= self.bytes.len() => {
                Span::new(start, start + part.len())
            }
            _ => Span::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn message(via: &str) -> Message {
        let text = format!(
            "OPTIONS sip:b@b.example SIP/2.0\r\n{via}From: <sip:a@a.example>;tag=1\r\n\
             To: <sip:b@b.example>\r\nCall-ID: c\r\nCSeq: 7 OPTIONS\r\n\r\n"
        );
        Message::parse(text.as_bytes(), &Limits::default()).expect("well formed")
    }

    #[test]
    fn what_is_known_is_what_stands_there() {
        for via in [
            "Via: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\n",
            "v: SIP / 2.0 / TLS [2001:db8::1]:5071 ;received=192.0.2.1; branch = z9hG4bK2;rport=7;ttl=3;maddr=b.example, SIP/2.0/UDP c\r\n",
            "Via: SIP/2.0/UDP a.example\r\n\t;rport\r\nVia: SIP/2.0/UDP b.example\r\n",
            "Via: SIP/2.0/SCTP a.example\r\n",
        ] {
            let mut message = message(via);
            message.stamp_received("198.51.100.7:4711".parse().expect("an address"));
            let parsed = format!("{:?}", message.parse_top_via().expect("there"));
            let known = format!("{:?}", message.known_top_via().expect("there"));
            assert_eq!(known, parsed);
        }
    }

    #[test]
    fn a_via_that_cannot_be_read_is_not_known_and_none_is_left_over() {
        let mut message = message("Via: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\n");
        assert!(message.known_top_via().is_some());
        for text in [
            "OPTIONS sip:b SIP/2.0\r\nVia: SIP/2.0/UDP\r\n\r\n",
            "OPTIONS sip:b SIP/2.0\r\n\r\n",
            "",
        ] {
            let _ = message.fill(text.as_bytes(), &Limits::default());
            assert!(message.known_top_via().is_none(), "{text}");
            assert!(message.top_via().is_err(), "{text}");
        }
    }
}
