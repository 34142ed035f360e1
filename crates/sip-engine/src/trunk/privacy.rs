//! Who does not want to be named (RFC 3323), and from whom it is kept (RFC 3325).

use sip_msg::{Message, Span};

use crate::permit::identity_lines;

/// Whether the caller asks that his identity be withheld: by `id`, or by `user` or `header`,
/// which ask for more.
pub(crate) fn is_asked_for(request: &Message) -> bool {
    asks_for(request, &[b"id", b"user", b"header"])
}

/// The lines that name a caller who asked for `Privacy: id`, in the order of their names: they
/// go to elements that are trusted, and to no phone and no stranger.
// RFC 3325 7: a proxy that forwards to an element that it does not trust removes every
// P-Asserted-Identity where Privacy has `id`.
pub(crate) fn withheld(request: &Message, spans: &mut Vec<Span>) {
    if asks_for(request, &[b"id"]) {
        identity_lines(request, spans);
    }
}

fn asks_for(request: &Message, wanted: &[&[u8]]) -> bool {
    let Some(field) = request.first_named("Privacy") else {
        return false;
    };
    let values = field.value.split(|byte| matches!(byte, b';' | b','));
    let mut values = values.map(<[u8]>::trim_ascii);
    values.any(|value| wanted.iter().any(|of| of.eq_ignore_ascii_case(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};

    fn with(lines: &str) -> Message {
        let text = request(
            "INVITE",
            "sip:b@example.org",
            "<sip:a@example.org>;tag=1",
            "<sip:b@example.org>",
            lines,
        );
        parse(text.as_bytes())
    }

    #[test]
    fn what_is_asked_for() {
        for (lines, asked, kept) in [
            ("", false, false),
            ("Privacy: none\r\n", false, false),
            ("Privacy: id\r\n", true, true),
            ("privacy: ID;critical\r\n", true, true),
            ("Privacy: user; header\r\n", true, false),
            ("Privacy: history\r\n", false, false),
            ("Privacy: identity\r\n", false, false),
        ] {
            let identity = "P-Asserted-Identity: <tel:+49301>\r\nRemote-Party-ID: <sip:1@a>\r\n";
            let request = with(&format!("{lines}{identity}"));
            assert_eq!(is_asked_for(&request), asked, "{lines}");
            let mut spans = Vec::new();
            withheld(&request, &mut spans);
            assert_eq!(spans.len(), if kept { 2 } else { 0 }, "{lines}");
        }
    }
}
