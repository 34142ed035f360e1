//! Diversion (RFC 5806): by whom a call was forwarded, with numbers as the provider wants them.

use sip_msg::header::{NameAddr, elements};
use sip_msg::{HeaderName, Message, Span, Uri};

use super::faces::{user_of, write_uri};
use super::{Identity, Trunk};

/// Has each Diversion name a number at the provider's domain, where one is known. What names
/// none stays as it came.
pub(super) fn rewrite(trunk: &Trunk, request: &Message, replaced: &mut Vec<(Span, Vec<u8>)>) {
    if trunk.identity == Identity::AsIs {
        return;
    }
    let others = request.fields_of(HeaderName::Other);
    for field in others.filter(|field| field.raw_name.eq_ignore_ascii_case(b"Diversion")) {
        for (value, span) in elements(field.value) {
            let Some(number) = number_of(trunk, value) else {
                continue;
            };
            let Some(addr) = NameAddr::parse(value) else {
                continue;
            };
            let mut text = Vec::new();
            write_uri(trunk, &number, &mut text);
            text.extend_from_slice(addr.params);
            let start = field.value_span.start;
            let place = Span {
                start: start + span.start,
                end: start + span.end,
            };
            replaced.push((place, text));
        }
    }
}

/// The same as [`rewrite`] of lines that are added here. `known` has the number that is written down for the
/// user of a URI. `None` where they stay as they are.
pub(super) fn rewritten(
    trunk: &Trunk,
    lines: &[u8],
    known: impl Fn(&Uri<'_>) -> Option<String>,
) -> Option<Vec<u8>> {
    if trunk.identity == Identity::AsIs || lines.is_empty() {
        return None;
    }
    let mut text = Vec::with_capacity(lines.len());
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        match read(trunk, line, &known) {
            Some((number, params)) => {
                text.extend_from_slice(b"Diversion: ");
                write_uri(trunk, &number, &mut text);
                text.extend_from_slice(params);
                text.extend_from_slice(b"\r\n");
            }
            None => text.extend_from_slice(line),
        }
    }
    Some(text)
}

/// The number of whoever a line says has forwarded, and the parameters behind it.
fn read<'l>(
    trunk: &Trunk,
    line: &'l [u8],
    known: &impl Fn(&Uri<'_>) -> Option<String>,
) -> Option<(String, &'l [u8])> {
    let value = line.strip_prefix(b"Diversion: ")?.trim_ascii_end();
    let addr = NameAddr::parse(value)?;
    let number = known(&addr.uri()?).or_else(|| number_of(trunk, value))?;
    Some((number, addr.params))
}

/// The number of whoever has forwarded: that of a user of ours, or one that is written.
fn number_of(trunk: &Trunk, value: &[u8]) -> Option<String> {
    let addr = NameAddr::parse(value)?;
    let user = user_of(&addr.uri()?)?;
    let numbers = &trunk.numbers;
    let listed = numbers.users.iter().find(|(_, of)| **of == *user);
    match listed {
        Some((number, _)) => Some(number.to_string()),
        None => numbers.plan.read(&user),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};
    use crate::trunk::of_tests;

    #[test]
    fn who_has_forwarded_is_named_by_his_number() {
        let lines = "Diversion: \"Alice\" <sip:alice@example.org>;reason=no-answer;counter=1, \
                     <tel:0309>;reason=unconditional\r\ndiversion: <sip:lobby@example.org>\r\n";
        let text = request(
            "INVITE",
            "sip:0301@example.org",
            "<sip:alice@example.org>;tag=a",
            "<sip:0301@example.org>",
            lines,
        );
        let message = parse(text.as_bytes());
        let mut replaced = Vec::new();
        rewrite(&of_tests(), &message, &mut replaced);
        assert!(replaced.is_empty(), "as it came");
        let trunk = Trunk {
            identity: Identity::From,
            ..of_tests()
        };
        rewrite(&trunk, &message, &mut replaced);
        let mut edits = sip_msg::Edits::default();
        for (span, text) in &replaced {
            edits.replace(*span, text);
        }
        let mut out = Vec::new();
        edits.apply(&message, &mut out);
        let out = String::from_utf8(out).unwrap();
        for line in [
            "Diversion: <sip:+4930101@provider.example>;reason=no-answer;counter=1, \
             <sip:+49309@provider.example>;reason=unconditional\r\n",
            "diversion: <sip:lobby@example.org>\r\n",
        ] {
            assert!(out.contains(line), "{line} is not in {out}");
        }
    }

    #[test]
    fn so_is_who_forwards_here() {
        let lines = b"Diversion: <sip:alice@example.org>;reason=user-busy;counter=1\r\n\
                      Diversion: <sip:bob@example.org>;reason=no-answer;counter=1\r\n\
                      Diversion: <sip:lobby@example.org>;reason=unconditional;counter=1\r\n";
        let bobs = |uri: &Uri<'_>| (uri.user == Some(&b"bob"[..])).then(|| "+493077".to_owned());
        assert_eq!(rewritten(&of_tests(), lines, bobs), None, "as it came");
        let trunk = Trunk {
            identity: Identity::Asserted,
            ..of_tests()
        };
        assert_eq!(rewritten(&trunk, b"", bobs), None);
        let text = rewritten(&trunk, lines, bobs).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "Diversion: <sip:+4930101@provider.example>;reason=user-busy;counter=1\r\n\
             Diversion: <sip:+493077@provider.example>;reason=no-answer;counter=1\r\n\
             Diversion: <sip:lobby@example.org>;reason=unconditional;counter=1\r\n"
        );
    }
}
