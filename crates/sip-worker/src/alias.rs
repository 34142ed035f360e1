//! Neighbours that want to be reached by the connections that they opened
//! (RFC 5923).

use sip_msg::{ConnId, Flow, HeaderName, HostPort, Message, Transport};

use crate::Sockets;

/// A neighbour's wish.
pub(super) struct Claim {
    conn: ConnId,
    host: Box<str>,
    port: Option<u16>,
}

impl Claim {
    /// What a request that came over `flow` says in its topmost Via.
    pub(super) fn read(flow: &Flow, message: &Message) -> Option<Self> {
        if flow.transport != Transport::Tls || !message.is_request() {
            return None;
        }
        // A glance first: nearly none has it.
        let (text, _) = message.values(HeaderName::Via).next()?;
        let is_asked = text
            .split(|&byte| byte == b';')
            .skip(1)
            .any(|param| param.trim_ascii().eq_ignore_ascii_case(b"alias"));
        if !is_asked {
            return None;
        }
        let HostPort { host, port } = message.top_via().ok()?.sent_by;
        Some(Self {
            conn: flow.conn,
            host: std::str::from_utf8(host).ok()?.into(),
            port,
        })
    }

    /// Notes the connection, if its peer has proved who it is.
    pub(super) fn settle(&self, sockets: &mut impl Sockets) {
        sockets.alias(self.conn, &self.host, self.port);
    }
}

#[cfg(test)]
mod tests {
    use sip_msg::{Limits, ListenerId};

    use super::*;

    fn claim(transport: Transport, via: &str) -> Option<(String, Option<u16>)> {
        let addr = "192.0.2.1:5061".parse().unwrap();
        let flow = Flow {
            transport,
            listener: ListenerId(0),
            local: addr,
            remote: addr,
            conn: ConnId(9),
        };
        let text = format!(
            "OPTIONS sip:x SIP/2.0\r\nVia: {via}\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:x>\r\n\
             Call-ID: 1\r\nCSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\n\r\n"
        );
        let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
        Claim::read(&flow, &message).map(|claim| (claim.host.to_string(), claim.port))
    }

    #[test]
    fn only_the_first_via_of_a_request_over_tls_counts() {
        let gw = Some(("gw.example.net".to_owned(), Some(5071)));
        for (via, expected) in [
            (
                "SIP/2.0/TLS gw.example.net:5071;branch=z9hG4bK1;alias",
                gw.clone(),
            ),
            (
                "SIP/2.0/TLS gw.example.net:5071 ; ALIAS ;branch=z9hG4bK1",
                gw,
            ),
            (
                "SIP/2.0/TLS gw.example.net;alias;branch=z9hG4bK1",
                Some(("gw.example.net".to_owned(), None)),
            ),
            ("SIP/2.0/TLS gw.example.net:5071;branch=z9hG4bKalias", None),
            (
                "SIP/2.0/TLS gw.example.net:5071;branch=z9hG4bK1;aliased",
                None,
            ),
            (
                "SIP/2.0/TLS a:1;branch=z9hG4bK1, SIP/2.0/TLS gw:5071;branch=z9hG4bK2;alias",
                None,
            ),
        ] {
            assert_eq!(claim(Transport::Tls, via), expected, "{via}");
            assert_eq!(claim(Transport::Tcp, via), None);
        }
    }
}
