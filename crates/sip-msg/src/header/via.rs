//! Via (RFC 3261 20.42, 18.2.1; rport RFC 3581).

use crate::chars::{TOKEN, is, part, skip, skip_lws};
use crate::header::params::{Param, Params};
use crate::uri::host_port;
use crate::{HostPort, Span, Transport};

/// A Via (RFC 3261 20.42, 18.2.1; rport RFC 3581).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Via<'a> {
    /// `None` for a transport that this project does not know.
    pub transport: Option<Transport>,
    pub sent_by: HostPort<'a>,
    /// Empty where there is none (RFC 2543).
    pub branch: &'a [u8],
    pub received: Option<&'a [u8]>,
    /// `Some(None)` for a bare `rport`.
    pub rport: Option<Option<u16>>,
    pub maddr: Option<&'a [u8]>,
    pub ttl: Option<u8>,
    /// The element; its end is where to add `;received=`.
    pub span: Span,
    /// Where the `rport` parameter (name and value) stands.
    pub rport_span: Option<Span>,
    /// Where the `received` parameter (name and value) stands.
    pub received_span: Option<Span>,
}

impl<'a> Via<'a> {
    /// Parses one element that stands at `span` in its message.
    pub fn parse(value: &'a [u8], span: Span) -> Option<Self> {
        let transport_start = sent_protocol(value)?;
        let transport_end = skip(value, transport_start, TOKEN);
        let transport = part(value, transport_start, transport_end);
        let host_start = skip_lws(value, transport_end);
        if transport.is_empty() || host_start == transport_end {
            return None;
        }
        let (sent_by, sent_by_end) = sent_by(value, host_start)?;
        let mut via = Self {
            transport: Transport::from_token(transport),
            sent_by,
            branch: &[],
            received: None,
            rport: None,
            maddr: None,
            ttl: None,
            span,
            rport_span: None,
            received_span: None,
        };
        let mut params = Params::new(value, sent_by_end);
        while let Some(param) = params.step().ok()? {
            via.take(&param)?;
        }
        Some(via)
    }

    /// Keeps a parameter; `None` where it makes no sense or comes twice.
    fn take(&mut self, param: &Param<'a>) -> Option<()> {
        // RFC 3261 7.3.1: "Even though an arbitrary number of parameter pairs may be attached to a header
        // field value, any given parameter-name MUST NOT appear more than once."
        let value = param.value.unwrap_or_default();
        let place = Span {
            start: self.span.start + param.start as u32,
            end: self.span.start + param.end as u32,
        };
        if param.name.eq_ignore_ascii_case(b"branch") {
            if !self.branch.is_empty() || value.is_empty() {
                return None;
            }
            self.branch = value;
        } else if param.name.eq_ignore_ascii_case(b"rport") {
            if self.rport.is_some() {
                return None;
            }
            self.rport = Some(match param.value {
                None => None,
                Some(digits) => Some(host_port::port(digits)?),
            });
            self.rport_span = Some(place);
        } else if param.name.eq_ignore_ascii_case(b"received") {
            if self.received.is_some() || value.is_empty() {
                return None;
            }
            self.received = Some(value);
            self.received_span = Some(place);
        } else if param.name.eq_ignore_ascii_case(b"maddr") {
            if self.maddr.is_some() || value.is_empty() {
                return None;
            }
            self.maddr = Some(value);
        } else if param.name.eq_ignore_ascii_case(b"ttl") {
            if self.ttl.is_some() {
                return None;
            }
            let ttl = crate::chars::number(value)?;
            self.ttl = Some(u8::try_from(ttl).ok()?);
        }
        Some(())
    }
}

/// Past `SIP / 2.0 /` and its white space: where the transport begins.
fn sent_protocol(value: &[u8]) -> Option<usize> {
    if value.starts_with(b"SIP/2.0/") && value.get(8).is_some_and(|&b| is(b, TOKEN)) {
        return Some(8);
    }
    let mut at = 0;
    for expected in [&b"SIP"[..], b"2.0"] {
        let end = skip(value, at, TOKEN);
        if !part(value, at, end).eq_ignore_ascii_case(expected) {
            return None;
        }
        let slash = skip_lws(value, end);
        if value.get(slash) != Some(&b'/') {
            return None;
        }
        at = skip_lws(value, slash + 1);
    }
    Some(at)
}

/// `host [COLON port]`, where white space may stand around the colon, and the
/// offset behind it.
fn sent_by(value: &[u8], start: usize) -> Option<(HostPort<'_>, usize)> {
    let host_end = host_port::host_end(value, start)?;
    let host = part(value, start, host_end);
    let colon = skip_lws(value, host_end);
    if value.get(colon) != Some(&b':') {
        return Some((HostPort { host, port: None }, host_end));
    }
    let port_start = skip_lws(value, colon + 1);
    let port_end = host_port::skip_digits(value, port_start);
    let port = host_port::port(part(value, port_start, port_end))?;
    Some((
        HostPort {
            host,
            port: Some(port),
        },
        port_end,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Option<Via<'_>> {
        Via::parse(value.as_bytes(), Span::new(100, 100 + value.len()))
    }

    #[test]
    fn plain() {
        let via = parse("SIP/2.0/UDP 192.0.2.1:5070;branch=z9hG4bKa;rport").expect("well formed");
        assert_eq!(via.transport, Some(Transport::Udp));
        assert_eq!(
            via.sent_by,
            HostPort {
                host: b"192.0.2.1",
                port: Some(5070)
            }
        );
        assert_eq!(via.branch, b"z9hG4bKa");
        assert_eq!(via.rport, Some(None));
        assert_eq!(
            via.rport_span,
            Some(Span {
                start: 143,
                end: 148
            })
        );
        assert_eq!(via.received, None);
    }

    #[test]
    fn white_space_wherever_the_grammar_has_it() {
        let via = parse(
            "SIP  /   2.0\r\n /UDP\r\n    [2001:db8::1] : 5062 ;\r\n branch  =   z9hG4bK9ikj8",
        )
        .expect("well formed");
        assert_eq!(
            via.sent_by,
            HostPort {
                host: b"[2001:db8::1]",
                port: Some(5062)
            }
        );
        assert_eq!(via.branch, b"z9hG4bK9ikj8");
    }

    #[test]
    fn parameters() {
        let via = parse("SIP/2.0/TLS h;received=192.0.2.9;rport=99;maddr=239.0.0.1;ttl=16;x=\"y\"")
            .expect("well formed");
        assert_eq!(via.received, Some(&b"192.0.2.9"[..]));
        assert_eq!(
            via.received_span,
            Some(Span {
                start: 114,
                end: 132
            })
        );
        assert_eq!(via.rport, Some(Some(99)));
        assert_eq!(via.maddr, Some(&b"239.0.0.1"[..]));
        assert_eq!(via.ttl, Some(16));
        assert_eq!(via.branch, b"");
    }

    #[test]
    fn unknown_transports_are_no_fault() {
        assert_eq!(
            parse("SIP/2.0/SCTP t2.example.com;branch=z9hG4bKk")
                .expect("well formed")
                .transport,
            None
        );
    }

    #[test]
    fn refused() {
        for bad in [
            "",
            "SIP/2.0/UDP",
            "SIP/2.0/UDP ",
            "SIP/2.0 UDP h",
            "SIP/7.0/UDP h",
            "SIP/2.0/UDP 192.0.2.15;;",
            "SIP/2.0/UDP h:",
            "SIP/2.0/UDP h:65536",
            "SIP/2.0/UDP h:0",
            "SIP/2.0/UDP h;rport=x",
            "SIP/2.0/UDP h;ttl=256",
            "SIP/2.0/UDP [::g]",
            "SIP/2.0/UDP [::1",
            "SIP/2.0/UDP h;branch=",
            "SIP/2.0/UDP h x",
            "SIP/2.0/UDP a@b",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn no_parameter_twice() {
        // RFC 3261 7.3.1: "Even though an arbitrary number of parameter pairs may be attached to a header
        // field value, any given parameter-name MUST NOT appear more than once."
        for bad in [
            "branch=a;branch=b",
            "rport;rport",
            "received=1.2.3.4;Received=1.2.3.5",
            "maddr=a;maddr=b",
            "ttl=1;ttl=1",
        ] {
            assert!(parse(&format!("SIP/2.0/UDP h;{bad}")).is_none(), "{bad}");
        }
    }
}
