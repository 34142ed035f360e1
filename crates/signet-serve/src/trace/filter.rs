//! Which messages are shown.

use std::net::SocketAddr;

use sip_msg::network::is_in;

use crate::admin::names;
use crate::config::Network;

/// Those that fit all that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The user in the Request-URI, From, To or the credentials: `alice` or
    /// `alice@example.com`.
    pub user: Option<String>,
    /// Where the address of the peer is.
    pub address: Option<Network>,
    /// The beginning of the Call-ID.
    pub call: Option<String>,
}

impl Filter {
    /// Whether a message to or from that peer is to be shown. It need not be well-formed.
    pub(crate) fn fits(&self, remote: SocketAddr, message: &[u8]) -> bool {
        if let Some(network) = &self.address
            && !is_in(network.0, remote.ip())
        {
            return false;
        }
        if self.user.is_none() && self.call.is_none() {
            return true;
        }
        let (mut is_user, mut is_call) = (self.user.is_none(), self.call.is_none());
        let mut lines = message.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        if let Some(first) = lines.next() {
            is_user |= self.is_for_user(first);
        }
        for line in lines.take_while(|line| !line.is_empty()) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                continue;
            };
            let (name, value) = line.split_at(colon);
            let name = name.trim_ascii_end();
            let value = value.get(1..).unwrap_or_default().trim_ascii_start();
            let is = |names: [&str; 2]| {
                let mut names = names.iter();
                names.any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
            };
            if is(["Call-ID", "i"]) {
                is_call |= self.is_of_call(value);
            } else if is(["From", "f"]) || is(["To", "t"]) {
                is_user |= self.is_user(&uri_in(value));
            } else if is(["Authorization", "Proxy-Authorization"]) {
                is_user |= self.is_proved(value);
            }
            if is_user && is_call {
                return true;
            }
        }
        is_user && is_call
    }

    /// By a start line.
    fn is_for_user(&self, line: &[u8]) -> bool {
        let mut words = line.split(|byte| *byte == b' ');
        let is_request = words.next().is_some_and(|word| word != b"SIP/2.0");
        is_request && words.next().is_some_and(|uri| self.is_user(&uri_in(uri)))
    }

    fn is_of_call(&self, call: &[u8]) -> bool {
        let wanted = self.call.as_deref();
        wanted.is_some_and(|wanted| call.starts_with(wanted.as_bytes()))
    }

    fn is_user(&self, uri: &str) -> bool {
        self.wanted_user().is_some_and(|wanted| names(uri, wanted))
    }

    fn is_proved(&self, credentials: &[u8]) -> bool {
        let text = String::from_utf8_lossy(credentials);
        let named = text.split_once("username=\"");
        let named = named.and_then(|(_, rest)| rest.split_once('"'));
        let bare = self.wanted_user().filter(|wanted| !wanted.contains('@'));
        bare.is_some_and(|wanted| named.is_some_and(|(name, _)| name == wanted))
    }

    fn wanted_user(&self) -> Option<&str> {
        let wanted = self.user.as_deref()?;
        Some(wanted.strip_prefix("sip:").unwrap_or(wanted))
    }
}

/// The URI in a header's value, without its parameters.
fn uri_in(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let uri = text.rsplit_once('<').map_or(&*text, |(_, uri)| uri);
    let host = uri.find('@').unwrap_or(0);
    let ends = |c: char| matches!(c, ';' | '?' | '>' | ' ' | '\t');
    let end = uri.get(host..).and_then(|rest| rest.find(ends));
    uri.get(..end.map_or(uri.len(), |end| host + end))
        .unwrap_or(uri)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "INVITE sip:bob@198.51.100.9:5062;transport=tcp SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
        f: \"x <sip:eve@evil.example>\" <sip:alice@Example.com:5061;x=y>;tag=1\r\n\
        To: sip:carol@example.net;tag=2\r\n\
        Call-ID : abc@192.0.2.1\r\n\
        Proxy-Authorization: Digest username=\"dora\", response=\"0\"\r\n\r\n\
        From: <sip:mallory@example.com>\r\n";

    fn fits(user: &str, address: &str, call: &str) -> bool {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let filter = Filter {
            user: given(user),
            address: given(address).map(|network| network.parse().unwrap()),
            call: given(call),
        };
        let remote = "[::ffff:192.0.2.1]:5060".parse().unwrap();
        filter.fits(remote, MESSAGE.as_bytes())
    }

    #[test]
    fn a_message_must_fit_all_that_is_given() {
        for (user, address, call, does) in [
            ("", "", "", true),
            ("alice", "", "", true),
            ("sip:alice@example.com", "", "", true),
            ("alice@example.net", "", "", false),
            ("bob", "", "", true),
            ("carol@example.net", "", "", true),
            ("dora", "", "", true),
            ("dora@example.com", "", "", false),
            ("eve", "", "", false),
            ("mallory", "", "", false),
            ("lice", "", "", false),
            ("", "192.0.2.0/24", "", true),
            ("", "192.0.2.1", "", true),
            ("", "198.51.100.0/24", "", false),
            ("", "", "abc", true),
            ("", "", "abc@192.0.2.1", true),
            ("", "", "bc", false),
            ("alice", "192.0.2.0/24", "ab", true),
            ("alice", "192.0.2.0/24", "x", false),
            ("zoe", "192.0.2.0/24", "ab", false),
        ] {
            assert_eq!(
                fits(user, address, call),
                does,
                "{user:?} {address:?} {call:?}"
            );
        }
    }

    #[test]
    fn any_bytes_are_filtered() {
        let filter = Filter {
            user: Some("a".to_owned()),
            call: Some("b".to_owned()),
            address: None,
        };
        let remote = "192.0.2.1:5060".parse().unwrap();
        for byte in 0..=255 {
            for text in ["", "From", "From:", "From: <sip:", "To: sip:@", "i:"] {
                let mut message = text.as_bytes().to_vec();
                message.push(byte);
                assert!(!filter.fits(remote, &message));
            }
        }
    }
}
