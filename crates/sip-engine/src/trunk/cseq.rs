//! The numbers of requests to a provider that challenges: a function of the phone's
//! (`docs/decisions/0211-cseq-of-an-authenticated-leg.md`).

use sip_msg::{HeaderName, Message, Span};

/// How often one request is sent again because it was challenged.
pub(crate) const TRIES_MAX: u8 = 3;
const TRY_BITS: u32 = 2;
/// What is left of a phone's number: the result stays below 2^31 (RFC 3261 8.1.1.5).
const NUMBER_MASK: u32 = (1 << 29) - 1;

// RFC 3261 22.2: "When a UAC resubmits a request with its credentials after receiving a 401
// (Unauthorized) or 407 (Proxy Authentication Required) response, it MUST increment the CSeq
// header field value as it would normally when sending an updated request." RFC 3261 12.2.2:
// "It is possible for the CSeq sequence number to be higher than the remote sequence number by
// more than one.  This is not an error condition, and a UAS SHOULD be prepared to receive and
// process requests with CSeq values more than one higher than the previous received request."
/// The CSeq number with which a phone's request is sent after `tries` challenges.
pub(crate) const fn sent(number: u32, tries: u8) -> u32 {
    // A number has room for three repetitions.
    (number & NUMBER_MASK) << TRY_BITS | (tries & TRIES_MAX) as u32
}

/// The phone's own CSeq number of a request that was sent with this one.
pub(crate) const fn told(sent: u32) -> u32 {
    sent >> TRY_BITS
}

/// Whether the phone's request with `number` may have been sent with the CSeq number `sent`.
pub(crate) const fn is_of(sent: u32, number: u32) -> bool {
    told(sent) == number & NUMBER_MASK
}

/// Where the number of a CSeq stands.
pub(crate) fn span(message: &Message) -> Option<Span> {
    let field = message.first(HeaderName::CSeq)?;
    digits(field.value, field.value_span.start)
}

/// Where the CSeq number of a RAck stands (RFC 3262 7.2: `response-num LWS CSeq-num LWS
/// Method`), and the number.
pub(crate) fn of_rack(message: &Message) -> Option<(Span, u32)> {
    let field = message.first_named("RAck")?;
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let first = field.value.iter().position(is_space)?;
    let rest = field.value.get(first..)?;
    let skipped = rest.iter().position(|byte| !is_space(byte))?;
    let start = first + skipped;
    let span = digits(
        field.value.get(start..)?,
        field.value_span.start + start as u32,
    )?;
    Some((span, number(message.slice(span))?))
}

/// Where the CSeq number of a REFER stands in the Event of what is sent because of it
/// (RFC 3515 2.4.6: `refer;id=93809824`), and the number.
pub(crate) fn of_refer(message: &Message) -> Option<(Span, u32)> {
    let field = message.first(HeaderName::Event)?;
    let mut parts = field.value.split(|byte| *byte == b';');
    let package = parts.next()?;
    if !package.trim_ascii().eq_ignore_ascii_case(b"refer") {
        return None;
    }
    let mut at = package.len() + 1;
    for part in parts {
        let equals = part.iter().position(|byte| *byte == b'=');
        if let Some(equals) = equals
            && part.get(..equals)?.trim_ascii().eq_ignore_ascii_case(b"id")
        {
            let value = part.get(equals + 1..)?;
            let skipped = value.len() - value.trim_ascii_start().len();
            let start = at + equals + 1 + skipped;
            let span = digits(
                value.trim_ascii_start(),
                field.value_span.start + start as u32,
            )?;
            return Some((span, number(message.slice(span))?));
        }
        at += part.len() + 1;
    }
    None
}

fn digits(text: &[u8], start: u32) -> Option<Span> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(Span {
        start,
        end: start + count as u32,
    })
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    #[test]
    fn numbers_rise_as_the_phones_do_and_none_is_used_twice() {
        // RFC 3261 12.2.1.1: "Requests within a dialog MUST contain strictly monotonically
        // increasing and contiguous CSeq sequence numbers (increasing-by-one) in each direction".
        let mut before = None;
        for number in [0, 1, 2, 7, 1_000, (1 << 29) - 1] {
            for tries in 0..=TRIES_MAX {
                let as_sent = sent(number, tries);
                assert!(before < Some(as_sent), "{number} {tries}");
                assert!(as_sent < 1 << 31);
                assert!(is_of(as_sent, number) && !is_of(as_sent, number + 1));
                assert_eq!(told(as_sent), number);
                before = Some(as_sent);
            }
        }
        // A phone may begin anywhere below 2^31 (RFC 3261 8.1.1.5).
        let begin = 0x7fff_0000;
        assert!(sent(begin, 3) < sent(begin + 1, 0));
        assert!(is_of(sent(begin, 2), begin));
    }

    fn message(lines: &str) -> Message {
        parse(
            format!(
                "PRACK sip:b@b SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@a>;tag=1\r\n\
                 To: <sip:b@b>;tag=2\r\nCall-ID: c\r\nCSeq:   17 PRACK\r\n{lines}Content-Length: 0\r\n\r\n"
            )
            .as_bytes(),
        )
    }

    #[test]
    fn the_places_of_numbers() {
        let cseq = message("");
        assert_eq!(cseq.slice(span(&cseq).unwrap()), b"17");
        for (line, found) in [
            ("RAck: 776656 16 INVITE\r\n", Some("16")),
            ("rack: 1   4294967295\tINVITE\r\n", Some("4294967295")),
            ("RAck: 1\r\n", None),
            ("RAck: 1 x INVITE\r\n", None),
            ("RAck: 1 99999999999 INVITE\r\n", None),
            ("", None),
        ] {
            let message = message(line);
            let rack = of_rack(&message);
            let text = rack.map(|(span, _)| message.slice(span));
            assert_eq!(text, found.map(str::as_bytes), "{line}");
            let number = found.map(|text| text.parse().unwrap());
            assert_eq!(rack.map(|(_, number)| number), number);
        }
        for (line, found) in [
            ("Event: refer;id=93809824\r\n", Some("93809824")),
            ("o: Refer ; x=y; ID = 7\r\n", Some("7")),
            ("Event: refer\r\n", None),
            ("Event: refer;id=a7\r\n", None),
            ("Event: dialog;id=7\r\n", None),
        ] {
            let message = message(line);
            let refer = of_refer(&message);
            let text = refer.map(|(span, _)| message.slice(span));
            assert_eq!(text, found.map(str::as_bytes), "{line}");
        }
    }
}
