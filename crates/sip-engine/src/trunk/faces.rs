//! Whom a request says it is from and for, as a provider wants it
//! (`docs/decisions/0214-from-changed-and-put-back.md`). From and To are functions of what the
//! phone wrote, so requests within a dialog get the same again.

use sip_msg::header::NameAddr;
use sip_msg::{HeaderName, Message, Uri};

use super::{Identity, Trunk};
use crate::permit::identity_lines;
use crate::proxy::privacy;
use crate::text::write_decimal;
use sip_msg::Span;

/// RFC 3323 4.1.1.3 has this for a From that says nothing.
const ANONYMOUS: &[u8] = b"\"Anonymous\" <sip:anonymous@anonymous.invalid>";

/// What a request to a provider says in the place of what the phone wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Faces {
    /// From; `None` where it stays.
    pub(super) from: Option<Vec<u8>>,
    /// To; `None` where it stays.
    pub(super) to: Option<Vec<u8>>,
}

/// Whether the caller of a request that begins something is to be hidden.
pub(super) fn is_anonymous(trunk: &Trunk, request: &Message) -> bool {
    trunk.identity != Identity::AsIs && privacy::is_asked_for(request)
}

/// Who calls, beside what the request itself says of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Caller<'a> {
    pub(super) is_anonymous: bool,
    /// Whether the sender's own assertion counts.
    pub(super) is_believed: bool,
    /// The number that is written down for whoever's account it is on.
    pub(super) caller_id: Option<&'a str>,
    /// The name of the user who was called and forwards the call, where it is on his account;
    /// empty where its sender is somebody elsewhere. Then nothing that the request says of its
    /// sender counts.
    pub(super) payer: Option<&'a str>,
}

/// From and To for a provider. `caller_id` is what is written down for the user in From, and
/// `written` has a number that was dialled as the provider wants it.
pub(super) fn faces(
    trunk: &Trunk,
    request: &Message,
    is_anonymous: bool,
    caller_id: Option<&str>,
    written: impl FnOnce(&str) -> String,
) -> Faces {
    let from = request.from().ok().and_then(|from| match trunk.identity {
        _ if is_anonymous => Some(with_params(ANONYMOUS.to_vec(), &from)),
        Identity::From => {
            let number = match caller_id {
                Some(number) => in_e164(trunk, number),
                None => trunk.numbers.shown_for(&user_of(&from.uri()?)?)?,
            };
            let mut value = from.display.to_vec();
            if !value.is_empty() {
                value.push(b' ');
            }
            write_uri(trunk, &number, &mut value);
            Some(with_params(value, &from))
        }
        _ => None,
    });
    let to = request.to().ok().filter(|_| trunk.rewrites_to);
    let to = to.and_then(|to| {
        let dialled = user_of(&to.uri()?)?;
        let is_number = dialled.bytes().any(|byte| byte.is_ascii_digit());
        is_number.then(|| {
            let mut value = Vec::new();
            write_at(trunk, &written(&dialled), &mut value);
            with_params(value, &to)
        })
    });
    Faces { from, to }
}

/// The lines by which a provider knows the caller of a request that begins something, and
/// those that they take the place of.
pub(super) fn identify(
    trunk: &Trunk,
    request: &Message,
    who: Caller<'_>,
    lines: &mut Vec<u8>,
    cut: &mut Vec<Span>,
) {
    let name: &[u8] = match trunk.identity {
        Identity::AsIs => return,
        Identity::Asserted => b"P-Asserted-Identity: ",
        Identity::Preferred => b"P-Preferred-Identity: ",
        Identity::RemoteParty => b"Remote-Party-ID: ",
        Identity::From => b"",
    };
    let number = caller(trunk, request, who);
    identity_lines(request, cut);
    let Some(number) = number.filter(|_| !name.is_empty()) else {
        return;
    };
    lines.extend_from_slice(name);
    write_uri(trunk, &number, lines);
    if trunk.identity == Identity::RemoteParty {
        lines.extend_from_slice(b";party=calling;screen=yes;privacy=");
        lines.extend_from_slice(if who.is_anonymous { b"full" } else { b"off" });
    }
    lines.extend_from_slice(b"\r\n");
}

/// The number of a caller, in E.164.
fn caller(trunk: &Trunk, request: &Message, who: Caller<'_>) -> Option<String> {
    let numbers = &trunk.numbers;
    let written_down = who.caller_id.map(|number| in_e164(trunk, number));
    if let Some(payer) = who.payer {
        return written_down.or_else(|| numbers.shown_for(payer));
    }
    let user = request.from().ok().and_then(|from| user_of(&from.uri()?));
    let named = |name: HeaderName| {
        let mut named = request.addresses(name);
        let uri = named.next()?.ok()?.0.uri()?;
        user_of(&uri)
    };
    // RFC 3325 5: what a user prefers counts if it is his.
    let preferred = || {
        let wish = named(HeaderName::PPreferredIdentity)?;
        numbers.preferred_by(user.as_deref()?, &wish)
    };
    let asserted = || {
        let name = (who.is_believed).then_some(HeaderName::PAssertedIdentity)?;
        numbers.accepted(&named(name)?)
    };
    preferred()
        .or_else(asserted)
        .or(written_down)
        .or_else(|| numbers.shown_for(user.as_deref().unwrap_or_default()))
}

/// A number that the operator has written down for a user, in E.164 where it is one of the
/// trunk's plan.
pub(super) fn in_e164(trunk: &Trunk, number: &str) -> String {
    let e164 = trunk.numbers.plan.read(number);
    e164.unwrap_or_else(|| number.to_owned())
}

/// A user's name, unescaped.
pub(crate) fn user_of(uri: &Uri<'_>) -> Option<String> {
    uri.user?;
    let mut user = Vec::new();
    uri.write_user(&mut user);
    // What follows are parameters of a number (RFC 3966).
    let name = user.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8(name.to_vec()).ok()
}

/// Writes the URI of a number in E.164 in the form that the provider wants.
pub(super) fn write_uri(trunk: &Trunk, e164: &str, out: &mut Vec<u8>) {
    write_at(trunk, &trunk.numbers.plan.write(e164), out);
}

/// Writes the URI of a number that is in that form.
fn write_at(trunk: &Trunk, number: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<sip:");
    for byte in number.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'+' | b'-' | b'.' | b'*' => out.push(byte),
            other => write_escaped(other, out),
        }
    }
    out.push(b'@');
    out.extend_from_slice(trunk.domain.as_bytes());
    out.push(b'>');
}

fn write_escaped(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
}

/// A value with the header parameters of another, its tag among them.
fn with_params(mut value: Vec<u8>, of: &NameAddr<'_>) -> Vec<u8> {
    value.extend_from_slice(of.params);
    value
}

/// A number as it stands in a header.
pub(super) fn decimal(number: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(10);
    write_decimal(u64::from(number), &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};
    use crate::trunk::of_tests;

    const ALICE: &str = "\"Alice\" <sip:alice@example.org>;tag=a";

    fn message(from: &str, lines: &str) -> Message {
        let text = request(
            "INVITE",
            "sip:0301@example.org",
            from,
            "<sip:0301@example.org>",
            lines,
        );
        parse(text.as_bytes())
    }

    fn trunk(identity: Identity) -> Trunk {
        Trunk {
            identity,
            ..of_tests()
        }
    }

    fn written(dialled: &str) -> String {
        of_tests().numbers.plan.outbound(dialled)
    }

    fn text(value: Option<Vec<u8>>) -> String {
        value.map_or_else(String::new, |value| String::from_utf8(value).unwrap())
    }

    /// What identifies the caller, how many lines are cut for it, and From.
    fn told(identity: Identity, from: &str, lines: &str) -> (String, usize, String) {
        let (trunk, request) = (trunk(identity), message(from, lines));
        let is_anonymous = is_anonymous(&trunk, &request);
        let (mut own, mut cut) = (Vec::new(), Vec::new());
        let who = Caller {
            is_anonymous,
            is_believed: lines.contains("<tel:"),
            ..Caller::default()
        };
        identify(&trunk, &request, who, &mut own, &mut cut);
        let faces = faces(&trunk, &request, is_anonymous, None, written);
        (text(Some(own)), cut.len(), text(faces.from))
    }

    #[test]
    fn a_provider_knows_a_caller_as_it_wants_to() {
        let uri = "<sip:+4930101@provider.example>";
        for (identity, line, from) in [
            (Identity::AsIs, String::new(), String::new()),
            (
                Identity::Asserted,
                format!("P-Asserted-Identity: {uri}\r\n"),
                String::new(),
            ),
            (
                Identity::Preferred,
                format!("P-Preferred-Identity: {uri}\r\n"),
                String::new(),
            ),
            (
                Identity::RemoteParty,
                format!("Remote-Party-ID: {uri};party=calling;screen=yes;privacy=off\r\n"),
                String::new(),
            ),
            (
                Identity::From,
                String::new(),
                format!("\"Alice\" {uri};tag=a"),
            ),
        ] {
            assert_eq!(told(identity, ALICE, ""), (line, 0, from), "{identity:?}");
        }
    }

    #[test]
    fn who_asks_for_privacy_is_not_named_in_from() {
        let anonymous = "\"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=a";
        for identity in [
            Identity::Asserted,
            Identity::Preferred,
            Identity::RemoteParty,
            Identity::From,
        ] {
            let (line, _, from) = told(identity, ALICE, "Privacy: id\r\n");
            assert_eq!(from, anonymous, "{identity:?}");
            // Who pays is known to the provider alone.
            assert_eq!(line.is_empty(), identity == Identity::From);
            assert!(!line.contains("privacy=off"), "{line}");
        }
        assert_eq!(told(Identity::AsIs, ALICE, "Privacy: id\r\n").2, "");
    }

    #[test]
    fn nobody_shows_a_number_that_is_not_his() {
        let mallory = "<sip:mallory@example.org>;tag=m";
        let main = "P-Asserted-Identity: <sip:+4930100@provider.example>\r\n";
        let (line, ..) = told(Identity::Asserted, mallory, "");
        assert_eq!(line, main, "who has none shows that of all");
        let wish = "P-Preferred-Identity: <sip:+4930101@example.org>\r\n";
        let (line, cut, _) = told(Identity::Asserted, mallory, wish);
        assert_eq!((line.as_str(), cut), (main, 1), "that is alice's");
        let (line, ..) = told(Identity::Asserted, "<sip:+49309@example.org>;tag=m", "");
        assert_eq!(line, main, "a name like a number is none that is listed");
        let (line, ..) = told(Identity::Asserted, "<sip:+4930101@example.org>;tag=m", "");
        assert_eq!(line, main, "or one that is listed for another");
        let asserted = "P-Asserted-Identity: <sip:+4930101@example.org>\r\n";
        let (line, cut, _) = told(Identity::Asserted, mallory, asserted);
        assert_eq!((line.as_str(), cut), (main, 1), "nor is his word taken");
        // A peer's is, for numbers of this trunk.
        let asserted = "P-Asserted-Identity: <tel:+4930101>\r\n";
        let (line, cut, _) = told(Identity::Asserted, mallory, asserted);
        assert!(line.contains("<sip:+4930101@"), "{line}");
        assert_eq!(cut, 1);
    }

    #[test]
    fn what_is_written_down_for_a_user_comes_before_the_list_and_the_payers_before_all() {
        let (trunk, request) = (trunk(Identity::Asserted), message(ALICE, ""));
        let wish = message(
            ALICE,
            "P-Preferred-Identity: <sip:+4930101@example.org>\r\n",
        );
        let shown = |request: &Message, caller_id, payer| {
            let who = Caller {
                is_believed: true,
                caller_id,
                payer,
                ..Caller::default()
            };
            caller(&trunk, request, who).unwrap()
        };
        assert_eq!(shown(&request, Some("03077"), None), "+493077");
        assert_eq!(shown(&wish, Some("03077"), None), "+4930101", "it is his");
        // Of a call that is forwarded the payer is known, whatever its sender says.
        assert_eq!(shown(&wish, None, Some("bob")), "+4930100");
        assert_eq!(shown(&request, None, Some("alice")), "+4930101");
        assert_eq!(shown(&wish, Some("+493088"), Some("bob")), "+493088");
        let from = faces(&trunk, &request, false, Some("03077"), written).from;
        assert_eq!(from, None, "by P-Asserted-Identity");
        let trunk = Trunk {
            identity: Identity::From,
            ..of_tests()
        };
        let from = faces(&trunk, &request, false, Some("03077"), written).from;
        assert_eq!(text(from), "\"Alice\" <sip:+493077@provider.example>;tag=a");
    }

    #[test]
    fn to_is_the_number_that_is_called_where_that_is_wanted() {
        let request = message(ALICE, "");
        let mut trunk = trunk(Identity::AsIs);
        assert_eq!(
            faces(&trunk, &request, false, None, written),
            Faces::default()
        );
        trunk.rewrites_to = true;
        let to = faces(&trunk, &request, false, None, written).to;
        assert_eq!(text(to), "<sip:+49301@provider.example>");
        // The same again within the dialog, with the tag.
        let within = request_within();
        let to = faces(&trunk, &within, false, None, written).to;
        assert_eq!(text(to), "<sip:+49301@provider.example>;tag=b");
    }

    fn request_within() -> Message {
        let text = request(
            "BYE",
            "sip:x@203.0.113.9",
            ALICE,
            "<sip:0301@example.org>;tag=b",
            "",
        );
        parse(text.as_bytes())
    }

    #[test]
    fn what_is_strange_in_a_number_is_escaped() {
        let mut out = Vec::new();
        write_at(&of_tests(), "*21#>\r\n", &mut out);
        assert_eq!(out, b"<sip:*21%23%3E%0D%0A@provider.example>");
    }
}
