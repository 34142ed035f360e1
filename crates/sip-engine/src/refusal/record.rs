//! The record of one refusal: what an operator is told of it. No password, no digest and
//! no body is in it, and every name is written so that it can be logged.

use std::net::SocketAddr;

use sip_limit::Tell;
use sip_msg::header::NameAddr;
use sip_msg::uri::Scheme;
use sip_msg::{Transport, Uri};

use super::Reason;

/// The most bytes of a name in a record, as it is written.
pub(crate) const TEXT_MAX: usize = 128;

/// A request that was refused, or whose next hop has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Where it came from.
    pub source: SocketAddr,
    /// By which transport.
    pub transport: Transport,
    /// Whether its sender is known to receive there. A datagram may bear another's
    /// address, and nobody is to be shut out for that.
    pub is_proven: bool,
    /// The method.
    pub method: Box<str>,
    /// The status that was answered; `None` where a next hop failed, and the request
    /// may go on to another.
    pub status: Option<u16>,
    /// The reason phrase of the answer.
    pub phrase: &'static str,
    /// Why.
    pub reason: Reason,
    /// The next hop that failed.
    pub hop: Option<SocketAddr>,
    /// The URI in From, without a password and without parameters; empty where it cannot be
    /// read.
    pub from: Box<str>,
    /// The same of To.
    pub to: Box<str>,
    /// The user in the credentials; empty without any.
    pub user: Box<str>,
    /// The Call-ID.
    pub call_id: Box<str>,
    /// What else is to be known, for some reasons.
    pub detail: Box<str>,
    /// What the line of log says beside it, where one is due.
    pub tell: Option<Tell>,
}

impl RefusalRecord {
    /// The most bytes that the texts of one record hold.
    pub const TEXTS_BYTES_MAX: usize = 6 * TEXT_MAX;
}

/// A name between quotes, for a line that programs read: whatever it holds, it neither
/// ends its quotes nor looks like another part of the line. It is cut at `max` bytes.
pub(crate) fn escaped(name: &[u8], max: usize) -> Box<str> {
    let mut text = String::with_capacity(name.len().min(max));
    for byte in name {
        let is_plain = matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b'\\');
        if text.len() + if is_plain { 1 } else { 4 } > max {
            break;
        }
        match is_plain {
            true => text.push(char::from(*byte)),
            false => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.into()
}

/// The URI of From or To as it is shown: who, and where. A password in it is left out,
/// and so is what cannot be read.
pub(crate) fn shown_uri(addr: Option<&NameAddr<'_>>) -> Box<str> {
    let uri = addr.and_then(|addr| addr.uri());
    uri.map_or_else(Box::default, |uri| shown(&uri))
}

/// A URI as it is shown.
pub(crate) fn shown(uri: &Uri<'_>) -> Box<str> {
    let mut text = Vec::with_capacity(TEXT_MAX);
    let is_known = uri.scheme != Scheme::Other;
    text.extend_from_slice(match uri.scheme {
        Scheme::Sip => b"sip:",
        Scheme::Sips => b"sips:",
        Scheme::Tel => b"tel:",
        // Of others it is not known where a secret would be.
        Scheme::Other => b"other:",
    });
    if is_known {
        write_user_and_host(uri, &mut text);
    }
    escaped(&text, TEXT_MAX)
}

fn write_user_and_host(uri: &Uri<'_>, text: &mut Vec<u8>) {
    if let Some(user) = uri.user {
        text.extend_from_slice(user);
        if !uri.host_port.host.is_empty() {
            text.push(b'@');
        }
    }
    text.extend_from_slice(uri.host_port.host);
    if let Some(port) = uri.host_port.port {
        text.push(b':');
        crate::text::write_decimal(u64::from(port), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_msg::{Limits, Message};

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        let name = b"a\" in b: x\\\r\n\0\xc3\xa4";
        assert_eq!(
            &*escaped(name, TEXT_MAX),
            "a\\x22\\x20in\\x20b:\\x20x\\x5c\\x0d\\x0a\\x00\\xc3\\xa4"
        );
        assert_eq!(escaped(&[b'a'; 300], 64).len(), 64);
        assert_eq!(escaped(&[0; 300], 63).len(), 60, "no half of an escape");
    }

    #[test]
    fn a_uri_is_shown_without_its_secrets() {
        for (from, shown) in [
            ("<sip:alice@example.org>;tag=1", "sip:alice@example.org"),
            (
                "\"x\\\" <sip:b@c>\" <sips:alice:secret@example.org:5061;x=y?a=b>;tag=1",
                "sips:alice@example.org:5061",
            ),
            ("tel:+49-30;phone-context=x;tag=1", "tel:+49-30"),
            ("<urn:service:sos>;tag=1", "other:"),
            ("<sip:>;tag=1", ""),
        ] {
            let text = format!(
                "OPTIONS sip:b SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: {from}\r\n\
                 To: <sip:b>\r\nCall-ID: c\r\nCSeq: 1 OPTIONS\r\n\r\n"
            );
            let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
            let from = message.from().ok();
            assert_eq!(&*shown_uri(from.as_ref()), shown, "{text}");
        }
    }
}
