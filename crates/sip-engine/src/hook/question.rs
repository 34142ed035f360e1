//! What the hook is told of a request.
//!
//! It is text from the wire, which callers choose, on its way into a program: each byte that is
//! not printable ASCII is written `%NN`, so that no two encodings are in it, and JSON escapes the
//! rest. In a URI that is the same URI (RFC 3261 19.1.4).

use sip_hook::{Kind, Question};
use sip_msg::header::NameAddr;
use sip_msg::{ParseError, Uri};

use crate::numbers::number_of;
use crate::park::Job;
use crate::permit::Permit;

/// The question about a request; whether a listed peer has sent it.
pub(crate) fn question_about(
    kind: Kind,
    job: &Job,
    permit: &Permit,
    is_listed: bool,
) -> Box<Question> {
    let (request, flow) = (&*job.request, &job.sender.flow);
    let name = |addr: Result<NameAddr<'_>, ParseError>| {
        let uri = addr.ok().and_then(|addr| addr.uri());
        uri.map_or_else(Box::default, |uri| text_of(&uri))
    };
    let request_uri = job.routed.uri(request);
    let route = job.routed.next_route.map(|span| request.slice(span));
    let user = match permit {
        Permit::Authenticated(user) => user_of(user.user(), user.realm()),
        _ => Box::default(),
    };
    Box::new(Question {
        kind,
        from: name(request.from()),
        to: name(request.to()),
        request_uri: (request_uri.as_ref()).map_or_else(Box::default, text_of),
        number: (request_uri.as_ref().and_then(number_of)).map_or_else(Box::default, Into::into),
        route: (route.and_then(Uri::parse)).map_or_else(Box::default, |uri| text_of(&uri)),
        user,
        class: permit.class(is_listed),
        source: flow.remote.ip().to_canonical(),
        source_port: flow.remote.port(),
        transport: flow.transport.uri_name(),
        call_id: escaped(request.call_id(), |_| true).into(),
    })
}

/// A URI without its password.
fn text_of(uri: &Uri<'_>) -> Box<str> {
    let raw = uri.raw;
    let place_of = |wanted: u8| raw.iter().position(|byte| *byte == wanted);
    let text = match (uri.user, uri.password, place_of(b':'), place_of(b'@')) {
        (Some(user), Some(_), Some(colon), Some(at)) => {
            let scheme = raw.get(..=colon).unwrap_or_default();
            let rest = raw.get(at..).unwrap_or_default();
            escaped(&[scheme, user, rest].concat(), |_| true)
        }
        _ => escaped(raw, |_| true),
    };
    text.into()
}

/// `user@realm`, of which the last `@` is the one in between.
fn user_of(user: &[u8], realm: &str) -> Box<str> {
    let is_plain = |byte: u8| !matches!(byte, b'%' | b'@' | b'"' | b'\\' | b'<' | b'>');
    let user = escaped(user, is_plain);
    format!("{user}@{realm}").into()
}

fn escaped(bytes: &[u8], is_plain: impl Fn(u8) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match matches!(byte, 0x21..=0x7e) && is_plain(byte) {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_shown_without_its_password() {
        for (uri, shown) in [
            ("sip:alice@example.org", "sip:alice@example.org"),
            (
                "sips:alice:secret@example.org:5061;user=phone?a=b",
                "sips:alice@example.org:5061;user=phone?a=b",
            ),
            ("sip:example.org;lr", "sip:example.org;lr"),
            ("tel:+49-30;phone-context=x", "tel:+49-30;phone-context=x"),
        ] {
            let parsed = Uri::parse(uri.as_bytes()).unwrap();
            assert_eq!(&*text_of(&parsed), shown);
        }
    }

    #[test]
    fn no_two_users_are_shown_alike() {
        let shown = |user: &[u8]| user_of(user, "example.org");
        assert_eq!(&*shown(b"alice"), "alice@example.org");
        assert_eq!(&*shown(b"a@b"), "a%40b@example.org");
        assert_eq!(&*shown(b"a%01"), "a%2501@example.org");
        assert_eq!(&*shown(b"a\x01"), "a%01@example.org");
        assert_eq!(&*shown(b"\xc3\xa9\"\r\n"), "%C3%A9%22%0D%0A@example.org");
    }
}
