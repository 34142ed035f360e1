//! A flow as text, for the `flow` column.

use std::fmt::Write;
use std::net::SocketAddr;

use sip_msg::{ConnId, Flow, ListenerId, Transport};

/// `udp listener local remote`. The connection is left out: its number means
/// nothing to the next process.
pub(crate) fn write(flow: &Flow, out: &mut String) {
    let Flow {
        transport,
        listener,
        local,
        remote,
        ..
    } = flow;
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "{} {} {local} {remote}",
        transport.uri_name(),
        listener.0
    );
}

/// The flow, where it can still be used: that of a connection ended with the
/// process that held it.
pub(crate) fn read(text: &[u8]) -> Option<Flow> {
    let mut parts = str::from_utf8(text).ok()?.split(' ');
    let transport = Transport::from_token(parts.next()?.as_bytes())?;
    let listener = ListenerId(parts.next()?.parse().ok()?);
    let local = parts.next()?.parse().ok()?;
    let remote = parts.next()?.parse().ok()?;
    let is_whole = parts.next().is_none();
    (is_whole && !transport.is_reliable()).then_some(Flow {
        transport,
        listener,
        local,
        remote,
        conn: ConnId::NONE,
    })
}

/// `udp remote`: where a REGISTER came from.
pub(crate) fn write_source((transport, remote): &(Transport, SocketAddr), out: &mut String) {
    // Writing to a string does not fail.
    let _ = write!(out, "{} {remote}", transport.uri_name());
}

/// Where that was, of a connection too: it is shown, and nothing is sent there.
pub(crate) fn read_source(text: &[u8]) -> Option<(Transport, SocketAddr)> {
    let (transport, remote) = str::from_utf8(text).ok()?.split_once(' ')?;
    let transport = Transport::from_token(transport.as_bytes())?;
    Some((transport, remote.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(transport: Transport, conn: u64) -> Flow {
        Flow {
            transport,
            listener: ListenerId(3),
            local: "192.0.2.1:5060".parse().expect("an address"),
            remote: "[2001:db8::7]:40000".parse().expect("an address"),
            conn: ConnId(conn),
        }
    }

    #[test]
    fn a_datagrams_flow_is_kept_and_a_connections_is_not() {
        let text = |flow| {
            let mut text = String::new();
            write(&flow, &mut text);
            text
        };
        let udp = flow(Transport::Udp, 0);
        assert_eq!(text(udp), "udp 3 192.0.2.1:5060 [2001:db8::7]:40000");
        assert_eq!(read(text(udp).as_bytes()), Some(udp));
        for transport in [
            Transport::Tcp,
            Transport::Tls,
            Transport::Ws,
            Transport::Wss,
        ] {
            assert_eq!(read(text(flow(transport, 77)).as_bytes()), None);
        }
    }

    #[test]
    fn a_source_is_kept_by_whatever_transport() {
        for transport in [Transport::Udp, Transport::Tls, Transport::Wss] {
            let source = (
                transport,
                "[2001:db8::7]:40000".parse().expect("an address"),
            );
            let mut text = String::new();
            write_source(&source, &mut text);
            assert_eq!(read_source(text.as_bytes()), Some(source), "{text}");
        }
        for bad in ["", "udp", "udp host:1", "carrier 192.0.2.1:1"] {
            assert_eq!(read_source(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_flow() {
        for bad in [
            "",
            "udp",
            "udp 3 192.0.2.1:5060",
            "sctp 3 192.0.2.1:1 192.0.2.1:2",
            "udp x 192.0.2.1:1 192.0.2.1:2",
            "udp 3 192.0.2.1:1 192.0.2.1:2 4",
            "udp 3 host:1 192.0.2.1:2",
        ] {
            assert_eq!(read(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(read(b"\xff"), None);
    }
}
