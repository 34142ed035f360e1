//! The values of a configuration that have a form of their own. Each is read
//! from a string and says, when it cannot, what to write instead: a message,
//! a line end, and the remedy.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use sip_engine::routes::NextHop;
use sip_msg::Transport;
use sip_msg::network::IpNet;

/// Has a value read from its text.
macro_rules! from_text {
    ($($Value:ty)*) => {$(
        impl TryFrom<String> for $Value {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
    )*};
}

from_text! { ListenAt Domain Advertised HopUri Network super::memory::MemoryMax }

/// A place to listen at: `udp:192.0.2.1:5060`, `tls:[::]:5061`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ListenAt {
    /// The transport.
    pub transport: Transport,
    /// The address; port 0 takes any that is free.
    pub addr: SocketAddr,
}

impl std::str::FromStr for ListenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = |what: &str| {
            format!(
                "`{text}` is no place to listen at: {what}\nwrite TRANSPORT:ADDRESS:PORT, for example udp:0.0.0.0:5060, tcp:127.0.0.1:5060, tls:[::]:5061 or wss:0.0.0.0:8443"
            )
        };
        let Some((transport, rest)) = text.split_once(':') else {
            return Err(fault("it names no transport"));
        };
        let transport = match Transport::from_token(transport.as_bytes()) {
            Some(transport) => transport,
            None => {
                let what = format!("`{transport}` is none of udp, tcp, tls, ws, wss");
                return Err(fault(&what));
            }
        };
        if let Ok(addr) = rest.parse::<SocketAddr>() {
            return Ok(Self { transport, addr });
        }
        let bare = rest.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(ip) if ip.is_ipv4() || rest.starts_with('[') => Ok(Self {
                transport,
                addr: SocketAddr::new(ip, transport.default_port()),
            }),
            Ok(_) => Err(fault("an IPv6 address stands in brackets")),
            Err(_) => Err(fault(&format!("`{rest}` is no address and port"))),
        }
    }
}

impl fmt::Display for ListenAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.addr)
    }
}

/// A domain that this server is responsible for, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Domain(pub Arc<str>);

impl std::str::FromStr for Domain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim_end_matches('.').to_ascii_lowercase();
        let is_name = !lower.is_empty()
            && lower.len() <= 253
            && lower.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            });
        let is_reference = lower
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok());
        if is_name || is_reference {
            Ok(Self(lower.into()))
        } else {
            Err(format!(
                "`{text}` is no domain\nwrite a host name or an address alone, for example example.com; no `sip:`, no port, no `@`"
            ))
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host and perhaps a port, to stand in Via and Record-Route.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Advertised {
    /// The host; an IPv6 reference has its brackets.
    pub host: Arc<str>,
    /// The port, where it is not the bound one.
    pub port: Option<u16>,
}

impl std::str::FromStr for Advertised {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') && !port.is_empty() => (
                host,
                Some(port.parse::<u16>().ok().filter(|port| *port != 0)),
            ),
            _ => (text, None),
        };
        let host = host.parse::<Domain>().map(|domain| domain.0);
        match (host, port) {
            (Ok(host), None) => Ok(Self { host, port: None }),
            (Ok(host), Some(Some(port))) => Ok(Self {
                host,
                port: Some(port),
            }),
            _ => Err(format!(
                "`{text}` cannot be advertised\nwrite HOST or HOST:PORT as phones reach this server, for example sip.example.com or 203.0.113.7:5060"
            )),
        }
    }
}

/// A next hop, as a URI: `sip:192.0.2.9:5070;transport=udp`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HopUri(pub NextHop);

impl std::str::FromStr for HopUri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = |what: &str| {
            format!(
                "`{text}` is no next hop: {what}\nwrite sip:HOST:PORT;transport=T with T one of udp, tcp, tls, for example 'sip:192.0.2.9:5070;transport=udp'"
            )
        };
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| fault("it is no SIP URI"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "sip" => false,
            "sips" => true,
            _ => return Err(fault("it is no SIP URI")),
        };
        let (place, params) = rest
            .split_once(';')
            .map_or((rest, None), |(place, params)| (place, Some(params)));
        if place.contains('@') {
            return Err(fault("a next hop has no user"));
        }
        let mut transport = secure.then_some(Transport::Tls);
        for param in params.into_iter().flat_map(|params| params.split(';')) {
            let (name, value) = param.split_once('=').unwrap_or((param, ""));
            match name.to_ascii_lowercase().as_str() {
                "transport" => match Transport::from_token(value.as_bytes()) {
                    Some(found @ (Transport::Udp | Transport::Tcp | Transport::Tls))
                        if !secure || found == Transport::Tls =>
                    {
                        transport = Some(found);
                    }
                    Some(Transport::Udp | Transport::Tcp) => {
                        return Err(fault("`sips:` goes over TLS and nothing else"));
                    }
                    _ => return Err(fault(&format!("`{value}` is none of udp, tcp, tls"))),
                },
                "lr" => {}
                _ => {
                    return Err(fault(&format!(
                        "it has the parameter `{name}`, which means nothing here"
                    )));
                }
            }
        }
        let advertised: Advertised = place
            .parse()
            .map_err(|_| fault(&format!("`{place}` is no host")))?;
        let host = advertised
            .host
            .trim_start_matches('[')
            .trim_end_matches(']');
        Ok(Self(NextHop {
            host: host.into(),
            port: advertised.port,
            transport,
            connections: sip_engine::routes::Connections::default(),
        }))
    }
}

/// A network: `192.0.2.0/24`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(pub IpNet);

impl std::str::FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.replacen(['[', ']'], "", 2);
        let address = || {
            bare.parse::<IpAddr>()
                .map(|ip| IpNet::from(ip.to_canonical()))
        };
        let network = bare.parse::<IpNet>().or_else(|_| address());
        // A prefix of mapped addresses (RFC 4291 2.5.5.2) is written as one of IPv4.
        let network = network
            .ok()
            .filter(|net| net.addr() == net.addr().to_canonical());
        network.map(Self).ok_or_else(|| {
            format!(
                "`{text}` is no network\nwrite an address with or without a prefix length, for example 192.0.2.0/24 or 2001:db8::1"
            )
        })
    }
}

/// Reads a list of networks.
pub(super) fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let given = Vec::<Network>::deserialize(from)?;
    Ok(given.into_iter().map(|network| network.0).collect())
}

/// A domain that a peer speaks for, or `*` for every domain but ours.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SpokenFor(pub Arc<str>);

impl TryFrom<String> for SpokenFor {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self(text.into()));
        }
        if text.starts_with("*.") {
            return Err(format!(
                "`{text}`: SIP has no wildcards in domains (RFC 5922 7.2)\nwrite each domain, or \"*\" for every domain but ours"
            ));
        }
        text.parse().map(|domain: Domain| Self(domain.0))
    }
}

/// The front of a telephone number: digits, with or without `+`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct NumberPrefix(pub Arc<str>);

impl TryFrom<String> for NumberPrefix {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix('+').unwrap_or(&text);
        if !text.is_empty()
            && text.len() <= 32
            && digits
                .bytes()
                .all(|b| b.is_ascii_digit() || b == b'*' || b == b'#')
        {
            Ok(Self(text.as_str().into()))
        } else {
            Err(format!(
                "`{text}` is no number prefix\nwrite digits with or without a +, for example \"+49\" or \"0\""
            ))
        }
    }
}

/// A digest algorithm (RFC 8760).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DigestAlgorithm(pub sip_auth::Algorithm);

impl TryFrom<String> for DigestAlgorithm {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        sip_auth::Algorithm::from_token(text.as_bytes())
            .map(Self)
            .ok_or_else(|| {
                format!(
                    "`{text}` is no digest algorithm\nwrite \"SHA-512-256\", \"SHA-256\" or \"MD5\""
                )
            })
    }
}

/// Reads a whole number and refuses one that is not from `MIN` to `MAX`.
pub(super) fn within<'de, D, T, const MIN: u64, const MAX: u64>(
    deserializer: D,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let given = i64::deserialize(deserializer)?;
    u64::try_from(given)
        .ok()
        .filter(|number| (MIN..=MAX).contains(number))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| {
            D::Error::custom(format!(
                "{given} is out of range\nwrite a number from {MIN} to {MAX}"
            ))
        })
}

/// The same for a number that may be left out.
pub(super) fn some_within<'de, D, T, const MIN: u64, const MAX: u64>(
    deserializer: D,
) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    within::<D, T, MIN, MAX>(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_at() {
        let at: ListenAt = "udp:127.0.0.1:5060".parse().unwrap();
        assert_eq!(at.transport, Transport::Udp);
        assert_eq!(at.addr, "127.0.0.1:5060".parse().unwrap());
        assert_eq!(at.to_string(), "udp:127.0.0.1:5060");
        assert_eq!(
            "tls:[::1]".parse::<ListenAt>().unwrap().addr,
            "[::1]:5061".parse().unwrap()
        );
        assert_eq!(
            "TCP:10.0.0.1".parse::<ListenAt>().unwrap().addr,
            "10.0.0.1:5060".parse().unwrap()
        );
        assert_eq!(
            "wss:10.0.0.1".parse::<ListenAt>().unwrap().addr,
            "10.0.0.1:443".parse().unwrap()
        );
        for bad in [
            "",
            "udp",
            "sctp:1.2.3.4:5060",
            "udp:localhost:5060",
            "udp:::1",
            "udp:1.2.3.4:70000",
            "wsx:1.2.3.4:80",
        ] {
            let error = bad.parse::<ListenAt>().unwrap_err();
            assert!(error.contains("write TRANSPORT:ADDRESS:PORT"), "{error}");
        }
    }

    #[test]
    fn a_domain() {
        assert_eq!(
            "Example.COM.".parse::<Domain>().unwrap().to_string(),
            "example.com"
        );
        assert_eq!(
            "[2001:db8::1]".parse::<Domain>().unwrap().to_string(),
            "[2001:db8::1]"
        );
        for bad in [
            "",
            "sip:example.com",
            "a@b",
            "example.com:5060",
            "-a.b",
            "a..b",
            "[nonsense]",
        ] {
            assert!(bad.parse::<Domain>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_advertised_host() {
        let advertised: Advertised = "[2001:db8::1]:5070".parse().unwrap();
        assert_eq!(
            (advertised.host.as_ref(), advertised.port),
            ("[2001:db8::1]", Some(5070))
        );
        let advertised: Advertised = "[2001:db8::1]".parse().unwrap();
        assert_eq!(
            (advertised.host.as_ref(), advertised.port),
            ("[2001:db8::1]", None)
        );
        let advertised: Advertised = "sip.example.com".parse().unwrap();
        assert_eq!(
            (advertised.host.as_ref(), advertised.port),
            ("sip.example.com", None)
        );
        for bad in ["host:0", "host:port", ":5060", "host:"] {
            assert!(bad.parse::<Advertised>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_next_hop() {
        let hop = "sip:127.0.0.1:5070;transport=udp"
            .parse::<HopUri>()
            .unwrap()
            .0;
        assert_eq!(
            hop,
            NextHop {
                host: "127.0.0.1".into(),
                port: Some(5070),
                transport: Some(Transport::Udp),
                connections: sip_engine::routes::Connections::default(),
            }
        );
        let hop = "sips:gw.example.com".parse::<HopUri>().unwrap().0;
        assert_eq!(
            hop,
            NextHop {
                host: "gw.example.com".into(),
                port: None,
                transport: Some(Transport::Tls),
                connections: sip_engine::routes::Connections::default(),
            }
        );
        let hop = "sip:[::1]:5070".parse::<HopUri>().unwrap().0;
        assert_eq!(
            hop,
            NextHop {
                host: "::1".into(),
                port: Some(5070),
                transport: None,
                connections: sip_engine::routes::Connections::default(),
            }
        );
        for bad in [
            "127.0.0.1:5070",
            "sip:",
            "tel:123",
            "sip:a@b",
            "sip:h;transport=sctp",
            "sips:h;transport=udp",
            "sip:h;x=y",
        ] {
            let error = bad.parse::<HopUri>().unwrap_err();
            assert!(error.contains("write sip:HOST:PORT;transport=T"), "{error}");
        }
    }

    #[test]
    fn a_network() {
        for (text, means) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("[2001:db8::]/32", "2001:db8::/32"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ] {
            let network: Network = text.parse().unwrap();
            assert_eq!(network.0.to_string(), means);
        }
        for bad in [
            "",
            "192.0.2.0/33",
            "example.com",
            "::/129",
            "1.2.3.4/",
            "::ffff:192.0.2.0/120",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
