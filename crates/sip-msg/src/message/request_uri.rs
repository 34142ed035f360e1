//! The Request-URI, read once: validation, routing and the gate all ask for it.
//!
//! It stands in the first line, which nothing moves or changes.

use super::{Message, Span};
use crate::uri::Scheme;
use crate::{HostPort, Uri};

/// Where the parts of the Request-URI stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestUri {
    scheme: Scheme,
    user: Option<Span>,
    password: Option<Span>,
    host: Span,
    port: Option<u16>,
    params: Span,
    headers: Span,
}

impl Message {
    pub(super) fn read_uri(&mut self) {
        self.uri = Uri::parse(self.request_uri()).map(|uri| RequestUri {
            scheme: uri.scheme,
            user: uri.user.map(|part| self.place(part)),
            password: uri.password.map(|part| self.place(part)),
            host: self.place(uri.host_port.host),
            port: uri.host_port.port,
            params: self.place(uri.params),
            headers: self.place(uri.headers),
        });
    }

    /// The Request-URI as it was read; `None` where there is none that can be.
    pub(super) fn known_uri(&self) -> Option<Uri<'_>> {
        let known = self.uri.as_ref()?;
        Some(Uri {
            scheme: known.scheme,
            user: known.user.map(|span| self.slice(span)),
            password: known.password.map(|span| self.slice(span)),
            host_port: HostPort {
                host: self.slice(known.host),
                port: known.port,
            },
            params: self.slice(known.params),
            headers: self.slice(known.headers),
            raw: self.request_uri(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn text(uri: &str) -> String {
        format!("OPTIONS {uri} SIP/2.0\r\nVia: SIP/2.0/UDP a.example;rport\r\n\r\n")
    }

    #[test]
    fn what_is_known_is_what_stands_there() {
        let mut message = Message::default();
        for uri in [
            "sip:b@b.example",
            "sips:b:p%20w@[2001:db8::1]:5071;transport=tcp;lr?Subject=x",
            "SIP:b.example;lr",
            "tel:+49-30-1;phone-context=example.org",
            "urn:service:sos",
        ] {
            let _ = message.fill(text(uri).as_bytes(), &Limits::default());
            message.stamp_received(([198, 51, 100, 7], 4711).into());
            let parsed = Uri::parse(uri.as_bytes()).map(|uri| format!("{uri:?}"));
            let known = message.uri().ok().map(|uri| format!("{uri:?}"));
            assert!(parsed.is_some(), "{uri}");
            assert_eq!(known, parsed);
        }
    }

    #[test]
    fn none_is_left_over() {
        let mut message = Message::default();
        for other in [text("sip:"), "SIP/2.0 200 OK\r\n\r\n".into(), String::new()] {
            let _ = message.fill(text("sip:b@b.example").as_bytes(), &Limits::default());
            assert!(message.uri().is_ok());
            let _ = message.fill(other.as_bytes(), &Limits::default());
            assert!(message.uri().is_err(), "{other}");
        }
    }
}
