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
                    "'{text}' names a transport that is not known; write udp, tcp or tls"
                ));
            }
        };
        let by_scheme = text
            .get(..5)
            .is_some_and(|s| s.eq_ignore_ascii_case("sips:"))
            .then_some(Transport::Tls);
        let transport = transport.or(in_uri).or(by_scheme).unwrap_or(Transport::Udp);
        if !matches!(transport, Transport::Udp | Transport::Tcp | Transport::Tls) {
            return Err(format!(
                "a load over {} is not possible; write udp, tcp or tls",
                transport.uri_name()
            ));
        }
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

/// A transport's name on the command line.
pub fn transport(text: &str) -> Result<Transport, String> {
    Transport::from_token(text.as_bytes())
        .filter(|t| matches!(t, Transport::Udp | Transport::Tcp | Transport::Tls))
        .ok_or_else(|| format!("there is no transport '{text}' here; write udp, tcp or tls"))
}

/// Reads `udp:ADDR:PORT`, `tcp:ADDR:PORT` or `tls:ADDR:PORT`.
pub fn listen_at(text: &str) -> Result<(Transport, SocketAddr), String> {
    let help = || {
        format!(
            "'{text}' is no place to listen; write udp:127.0.0.1:5070, tcp:ADDR:PORT or tls:ADDR:PORT"
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
            ("sip:127.0.0.1;transport=sctp", "write udp, tcp or tls"),
            ("sip:127.0.0.1;transport=ws", "write udp, tcp or tls"),
        ] {
            let error = Server::parse(bad, None).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(listen_at("tcp:127.0.0.1:0").is_ok() && listen_at("127.0.0.1:0").is_err());
    }
}
