//! Where a load goes: `sip:HOST:PORT`, resolved once, before the run.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use sip_msg::{Transport, Uri};

/// The server under test, or the called side itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// How it is spoken to.
    pub transport: Transport,
    /// Where it is.
    pub addr: SocketAddr,
    /// The host as it was written: for the domain, and for the name that a
    /// certificate must bear.
    pub host: String,
    /// The user part, where there was one.
    pub user: Option<String>,
}

impl Server {
    /// Reads `sip:[USER@]HOST[:PORT][;transport=T]`. A transport given beside
    /// the URI wins over the URI's.
    ///
    /// # Errors
    /// Where it is no such URI, the transport is not spoken, or the host has no
    /// address.
    pub fn parse(text: &str, transport: Option<Transport>) -> Result<Self, String> {
        let help = || {
            format!("'{text}' is no SIP URI; write sip:HOST:PORT, for example sip:127.0.0.1:5060")
        };
        let uri = Uri::parse(text.as_bytes())
            .filter(Uri::is_sip)
            .ok_or_else(help)?;
        let in_uri = match uri.transport() {
            None => None,
            Some(Some(known)) => Some(known),
            Some(None) => {
                return Err(format!(
                    "'{text}' names a transport that is not known; write {TRANSPORTS}"
                ));
            }
        };
        let is_sips = text
            .get(..5)
            .is_some_and(|s| s.eq_ignore_ascii_case("sips:"));
        let in_uri = match in_uri {
            // RFC 7118 5.2.2 has this parameter for both.
            Some(Transport::Ws) if is_sips => Some(Transport::Wss),
            None if is_sips => Some(Transport::Tls),
            other => other,
        };
        let transport = transport.or(in_uri).unwrap_or(Transport::Udp);
        let host = String::from_utf8_lossy(uri.host_port.host).into_owned();
        let port = uri.host_port.port.unwrap_or(transport.default_port());
        let addr = match uri.host_port.ip() {
            Some(ip) => SocketAddr::new(ip, port),
            None => (host.as_str(), port)
                .to_socket_addrs()
                .map_err(|error| format!("'{host}' has no address: {error}"))?
                .next()
                .ok_or_else(|| format!("'{host}' has no address; write one in its place"))?,
        };
        Ok(Self {
            transport,
            addr,
            host,
            user: uri
                .user
                .map(|user| String::from_utf8_lossy(user).into_owned()),
        })
    }

    /// What stands in the Host field of a request to it.
    pub(crate) fn authority(&self) -> String {
        let port = self.addr.port();
        if port == self.transport.default_port() {
            self.host.clone()
        } else {
            format!("{}:{port}", self.host)
        }
    }

    /// The name that its certificate must bear: the host, unless that is an address.
    pub(crate) fn tls_name(&self) -> Option<&str> {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_err().then_some(&*self.host)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.addr)
    }
}

/// The transports, for those who wrote another.
const TRANSPORTS: &str = "udp, tcp, tls, ws or wss";

/// A transport's name on the command line.
pub fn transport(text: &str) -> Result<Transport, String> {
    Transport::from_token(text.as_bytes())
        .ok_or_else(|| format!("there is no transport '{text}' here; write {TRANSPORTS}"))
}

/// Reads `udp:ADDR:PORT`, or another transport in the place of `udp`.
pub fn listen_at(text: &str) -> Result<(Transport, SocketAddr), String> {
    let help = || {
        format!(
            "'{text}' is no place to listen; write udp:127.0.0.1:5070; for udp there may stand {TRANSPORTS}"
        )
    };
    let (name, addr) = text.split_once(':').ok_or_else(help)?;
    Ok((
        transport(name).map_err(|_| help())?,
        addr.parse().map_err(|_| help())?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_and_their_transports() {
        for (text, given, transport, port) in [
            ("sip:127.0.0.1:5066", None, Transport::Udp, 5066),
            ("sip:127.0.0.1", None, Transport::Udp, 5060),
            ("sip:127.0.0.1;transport=tls", None, Transport::Tls, 5061),
            (
                "sip:bob@127.0.0.1;transport=tcp",
                Some(Transport::Udp),
                Transport::Udp,
                5060,
            ),
            ("sips:127.0.0.1", None, Transport::Tls, 5061),
            ("sip:127.0.0.1;transport=ws", None, Transport::Ws, 80),
            ("sips:127.0.0.1;transport=ws", None, Transport::Wss, 443),
            ("sip:127.0.0.1", Some(Transport::Wss), Transport::Wss, 443),
        ] {
            let server = Server::parse(text, given).unwrap();
            assert_eq!(
                (server.transport, server.addr.port()),
                (transport, port),
                "{text}"
            );
        }
        let named = Server::parse("sip:bob@localhost:5061;transport=tls", None).unwrap();
        assert_eq!(
            (named.tls_name(), named.user.as_deref()),
            (Some("localhost"), Some("bob"))
        );
        assert_eq!(
            Server::parse("sip:[::1]:5061", None).unwrap().tls_name(),
            None
        );
        for (bad, why) in [
            ("127.0.0.1:5060", "write sip:HOST:PORT"),
            (
                "sip:127.0.0.1;transport=sctp",
                "write udp, tcp, tls, ws or wss",
            ),
        ] {
            let error = Server::parse(bad, None).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let authority = |text| Server::parse(text, None).unwrap().authority();
        assert_eq!(authority("sip:127.0.0.1;transport=ws"), "127.0.0.1");
        assert_eq!(authority("sip:[::1]:8080;transport=ws"), "[::1]:8080");
        assert!(listen_at("wss:127.0.0.1:0").is_ok() && listen_at("127.0.0.1:0").is_err());
    }
}
