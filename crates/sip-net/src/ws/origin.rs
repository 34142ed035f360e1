//! Which pages may open a connection (RFC 6455 10.2).
//!
//! A browser says in `Origin` which page runs the script, and no page can make
//! it lie. Without the check any page that a user happens to look at could
//! speak SIP from where that user is: from within a network that is trusted by
//! its addresses, for one. What is no browser sends what it likes, and is held
//! by passwords and certificates as on every other transport.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

/// An origin (RFC 6454): scheme, host and port of a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: String,
    /// In lower case; an IPv6 address has its brackets.
    host: String,
    port: u16,
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = |what: &str| {
            Err(format!(
                "`{text}` is no origin: {what}\nwrite the scheme, the host and the port of the page alone, for example https://phone.example.com or http://192.0.2.7:8080"
            ))
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return fault("it has no scheme");
        };
        let scheme = scheme.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return fault("pages come by http or https"),
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                match port.parse::<u16>() {
                    Ok(port) if is_number && port != 0 => (host, port),
                    _ => return fault("its port is no number"),
                }
            }
            _ => (rest, default_port),
        };
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_host = match inner {
            Some(ip) => ip.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                !host.is_empty()
                    && host
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            }
        };
        if !is_host {
            return fault("its host is neither a host name nor an address");
        }
        Ok(Self {
            scheme,
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

/// The pages that may open a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// Those that come from a host of this server's own names or from the very
    /// address that was connected to; over TLS where the connection is.
    #[default]
    Own,
    /// These.
    Listed(Vec<Origin>),
    /// All.
    Any,
}

/// What the upgrade of a connection must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketRules {
    /// The path in the request, without a query.
    pub path: String,
    /// The pages that may open a connection.
    pub origins: Origins,
    /// This server's own names, in lower case, for [`Origins::Own`].
    pub own_hosts: Vec<Arc<str>>,
}

impl Default for WebSocketRules {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            origins: Origins::Own,
            own_hosts: Vec::new(),
        }
    }
}

impl WebSocketRules {
    /// Whether a page of this origin may open a connection to `local`.
    pub(super) fn admits(&self, origin: &[u8], is_secure: bool, local: IpAddr) -> bool {
        if self.origins == Origins::Any {
            return true;
        }
        let origin = std::str::from_utf8(origin)
            .ok()
            .and_then(|origin| origin.parse::<Origin>().ok());
        // `null` among them: a page in a sandbox, a file.
        let Some(origin) = origin else {
            return false;
        };
        match &self.origins {
            Origins::Any => true,
            Origins::Listed(listed) => listed.contains(&origin),
            Origins::Own => {
                let bare = origin.host.trim_start_matches('[').trim_end_matches(']');
                let is_local = bare
                    .parse::<IpAddr>()
                    .is_ok_and(|ip| ip.to_canonical() == local.to_canonical());
                let is_named = self.own_hosts.iter().any(|own| **own == *origin.host);
                (is_named || is_local) && (!is_secure || origin.scheme == "https")
            }
        }
    }
}

/// A listener's rules, replaceable while connections run.
#[derive(Debug, Default)]
pub struct WebSocketListener {
    rules: RwLock<Arc<WebSocketRules>>,
}

impl WebSocketListener {
    /// A listener with these rules.
    pub fn new(rules: WebSocketRules) -> Self {
        Self {
            rules: RwLock::new(Arc::new(rules)),
        }
    }

    /// Replaces the rules for the upgrades to come.
    pub fn replace(&self, rules: WebSocketRules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    pub(crate) fn rules(&self) -> Arc<WebSocketRules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_without_its_default_port() {
        let origin = |text: &str| text.parse::<Origin>();
        assert_eq!(
            origin("HTTPS://Phone.Example.com"),
            origin("https://phone.example.com:443")
        );
        assert_eq!(origin("http://[::1]"), origin("http://[::1]:80"));
        assert_ne!(origin("http://a.example"), origin("https://a.example"));
        assert_ne!(origin("http://a.example"), origin("http://a.example:8080"));
        for bad in [
            "",
            "null",
            "phone.example.com",
            "wss://a.example",
            "https://",
            "https://a.example/",
            "https://a.example:0",
            "https://a.example:+1",
            "https://a.example:70000",
            "https://user@a.example",
            "https://[a.example]",
            "file:///tmp/page.html",
        ] {
            let error = origin(bad).unwrap_err();
            assert!(
                error.contains("\nwrite the scheme, the host and the port"),
                "{bad}"
            );
        }
    }

    #[test]
    fn only_pages_of_its_own_are_admitted_where_nothing_is_listed() {
        let rules = WebSocketRules {
            own_hosts: vec!["example.com".into()],
            ..WebSocketRules::default()
        };
        let local: IpAddr = "192.0.2.7".parse().unwrap();
        for (origin, plain, secure) in [
            ("https://example.com", true, true),
            ("https://EXAMPLE.com:8443", true, true),
            ("http://example.com", true, false),
            ("https://192.0.2.7", true, true),
            ("https://192.0.2.8", false, false),
            ("https://www.example.com", false, false),
            ("https://example.com.evil.net", false, false),
            ("https://evil.net", false, false),
            ("null", false, false),
            ("", false, false),
            ("\u{fffd}", false, false),
        ] {
            let admits = |is_secure| rules.admits(origin.as_bytes(), is_secure, local);
            assert_eq!((admits(false), admits(true)), (plain, secure), "{origin}");
        }
        let mapped: IpAddr = "::ffff:192.0.2.7".parse().unwrap();
        assert!(rules.admits(b"https://192.0.2.7", true, mapped));
    }

    #[test]
    fn a_list_admits_what_is_in_it_and_nothing_else() {
        let rules = WebSocketRules {
            origins: Origins::Listed(vec!["https://phone.example.net".parse().unwrap()]),
            own_hosts: vec!["example.com".into()],
            ..WebSocketRules::default()
        };
        let local: IpAddr = "192.0.2.7".parse().unwrap();
        assert!(rules.admits(b"https://phone.example.net", true, local));
        for other in [
            "http://phone.example.net",
            "https://phone.example.net:444",
            "https://example.com",
            "https://192.0.2.7",
            "null",
        ] {
            assert!(!rules.admits(other.as_bytes(), true, local), "{other}");
        }
        let any = WebSocketRules {
            origins: Origins::Any,
            ..rules
        };
        assert!(any.admits(b"null", true, local));
    }

    #[test]
    fn rules_are_replaced_while_they_are_held() {
        let listener = WebSocketListener::default();
        let before = listener.rules();
        listener.replace(WebSocketRules {
            path: "/sip".to_owned(),
            ..WebSocketRules::default()
        });
        assert_eq!(
            (before.path.as_str(), listener.rules().path.as_str()),
            ("/", "/sip")
        );
    }
}
