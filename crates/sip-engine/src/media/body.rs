//! Where the session description of a message is, and what stands in its place when it is sent
//! on (`docs/decisions/0228-which-bodies-are-changed.md`).

use sip_msg::{Edits, HeaderName, Limits, Message, Span};

use crate::text::write_decimal;

/// The longest boundary of a multipart body (RFC 2046 5.1.1).
const BOUNDARY_MAX: usize = 70;
/// Parts of a body that are looked at.
const PARTS_MAX: usize = 16;

/// What a message has as its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// No session description.
    None,
    /// One, at that place.
    Session(Span),
    /// One, or perhaps one, that must not be changed: it is signed or encrypted, or coded, or
    /// there are several.
    Sealed,
}

/// Looks for the session description of a message.
// RFC 3261 7.4.1: "The Internet media type of the message body MUST be given by the Content-Type
// header field." Without one nothing is guessed.
pub(crate) fn find(message: &Message) -> Body {
    let body = message.body();
    let Some(field) = message.first(HeaderName::ContentType) else {
        return Body::None;
    };
    if body.is_empty() {
        return Body::None;
    }
    let start = message.bytes().len() - body.len();
    let is_coded = message
        .first(HeaderName::ContentEncoding)
        .is_some_and(|field| !field.value.eq_ignore_ascii_case(b"identity"));
    let found = match kind_of(field.value) {
        Kind::Session
            if is_session(
                message
                    .first_named("Content-Disposition")
                    .map(|of| of.value),
            ) =>
        {
            Body::Session(span(0, body.len()))
        }
        Kind::Session | Kind::Other => Body::None,
        Kind::Sealed => Body::Sealed,
        Kind::Mixed => match boundary_of(field.value) {
            Some(boundary) => in_parts(body, boundary),
            None => Body::Sealed,
        },
    };
    match found {
        Body::Session(_) if is_coded => Body::Sealed,
        Body::Session(at) => Body::Session(Span {
            start: at.start + start as u32,
            end: at.end + start as u32,
        }),
        other => other,
    }
}

/// What a Content-Type says, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `application/sdp`.
    Session,
    /// `multipart/mixed`.
    Mixed,
    /// Other bodies of parts, and S/MIME.
    Sealed,
    Other,
}

fn kind_of(value: &[u8]) -> Kind {
    let is = |text: &[u8], known: &[u8]| text.eq_ignore_ascii_case(known);
    let whole = value.split(|byte| *byte == b';').next().unwrap_or(value);
    let mut halves = whole
        .splitn(2, |byte| *byte == b'/')
        .map(<[u8]>::trim_ascii);
    let (Some(kind), Some(sub)) = (halves.next(), halves.next()) else {
        return Kind::Other;
    };
    let is_smime = [&b"pkcs7-mime"[..], b"x-pkcs7-mime"];
    match () {
        () if is(kind, b"application") && is(sub, b"sdp") => Kind::Session,
        () if is(kind, b"multipart") && is(sub, b"mixed") => Kind::Mixed,
        () if is(kind, b"multipart") => Kind::Sealed,
        () if is(kind, b"application") && is_smime.iter().any(|known| is(sub, known)) => {
            Kind::Sealed
        }
        () => Kind::Other,
    }
}

// RFC 3261 20.11: "If the Content-Disposition header field is missing, bodies of Content-Type
// application/sdp imply the disposition "session", while other content types imply "render"."
// Another disposition (RFC 3959) is not the call's own.
fn is_session(disposition: Option<&[u8]>) -> bool {
    let Some(value) = disposition else {
        return true;
    };
    let kind = value.split(|byte| *byte == b';').next().unwrap_or(value);
    kind.trim_ascii().eq_ignore_ascii_case(b"session")
}

/// The parameter `boundary` of a Content-Type.
fn boundary_of(value: &[u8]) -> Option<&[u8]> {
    let mut params = value.split(|byte| *byte == b';').skip(1);
    let boundary = params.find_map(|param| {
        let at = param.iter().position(|byte| *byte == b'=')?;
        let (name, rest) = param.split_at(at);
        let is_it = name.trim_ascii().eq_ignore_ascii_case(b"boundary");
        is_it.then(|| rest.get(1..).unwrap_or_default().trim_ascii())
    })?;
    let boundary = boundary
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
        .unwrap_or(boundary);
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'"';
    let is_one = (1..=BOUNDARY_MAX).contains(&boundary.len()) && boundary.iter().all(is_plain);
    is_one.then_some(boundary)
}

/// The only session description among the parts of a body (RFC 2046 5.1.1).
fn in_parts(body: &[u8], boundary: &[u8]) -> Body {
    let mut found = Body::None;
    let mut parts = 0;
    let mut lines = delimiters(body, boundary);
    let Some(mut from) = lines.next().map(|line| line.after) else {
        return Body::Sealed;
    };
    for line in lines {
        parts += 1;
        if parts > PARTS_MAX {
            return Body::Sealed;
        }
        let part = span(from, line.before.max(from));
        let text = body.get(from..line.before).unwrap_or_default();
        match part_of(text) {
            Body::None => {}
            Body::Session(at) if found == Body::None => {
                found = Body::Session(Span {
                    start: part.start + at.start,
                    end: part.start + at.end,
                });
            }
            Body::Session(_) | Body::Sealed => return Body::Sealed,
        }
        if line.is_last {
            return found;
        }
        from = line.after;
    }
    // The last delimiter is missing: what the parts are nobody knows.
    Body::Sealed
}

/// A line that divides parts.
struct Delimiter {
    /// Where the part before it ends.
    before: usize,
    /// Where the next begins.
    after: usize,
    is_last: bool,
}

/// The lines that divide the parts of a body.
fn delimiters<'b>(body: &'b [u8], boundary: &'b [u8]) -> impl Iterator<Item = Delimiter> + 'b {
    let mut searched = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = body.get(searched..)?;
            let at = searched + memchr::memmem::find(rest, boundary)?;
            searched = at + boundary.len();
            let Some(start) = at.checked_sub(2) else {
                continue;
            };
            let begins_line = start == 0 || body.get(start - 1) == Some(&b'\n');
            if body.get(start..at) != Some(b"--") || !begins_line {
                continue;
            }
            let tail = body.get(searched..)?;
            let is_last = tail.starts_with(b"--");
            let tail = if is_last { tail.get(2..)? } else { tail };
            let end = memchr::memchr(b'\n', tail).map_or(tail.len(), |end| end + 1);
            let (line, _) = tail.split_at_checked(end)?;
            // A longer boundary that begins alike is another.
            if !line.trim_ascii().is_empty() || (!is_last && !line.ends_with(b"\n")) {
                continue;
            }
            let before = match body.get(..start) {
                Some([.., b'\r', b'\n']) => start - 2,
                Some([.., b'\n']) => start - 1,
                _ => start,
            };
            let after = body.len() - tail.len() + end;
            return Some(Delimiter {
                before,
                after,
                is_last,
            });
        }
    })
}

/// The session description in a part: behind its own header lines.
fn part_of(part: &[u8]) -> Body {
    let mut at = 0;
    let (mut kind, mut is_coded) = (Kind::Other, false);
    let mut disposition = None;
    loop {
        let Some(rest) = part.get(at..).filter(|rest| !rest.is_empty()) else {
            // Without an empty line there is nothing behind the headers.
            return match kind {
                Kind::Sealed | Kind::Mixed => Body::Sealed,
                Kind::Session | Kind::Other => Body::None,
            };
        };
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let line = rest.get(..end).unwrap_or(rest).trim_ascii_end();
        at += end;
        if line.is_empty() {
            break;
        }
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let is = |known: &[u8]| name.trim_ascii().eq_ignore_ascii_case(known);
        if is(b"Content-Type") {
            kind = kind_of(value);
        } else if is(b"Content-Disposition") {
            disposition = Some(value);
        } else if is(b"Content-Transfer-Encoding") {
            let plain = [&b"7bit"[..], b"8bit", b"binary"];
            is_coded |= !plain.iter().any(|known| value.eq_ignore_ascii_case(known));
        } else if is(b"Content-Encoding") {
            is_coded |= !value.eq_ignore_ascii_case(b"identity");
        }
    }
    match kind {
        Kind::Session if !is_session(disposition) => Body::None,
        Kind::Session if is_coded => Body::Sealed,
        Kind::Session => Body::Session(span(at, part.len())),
        Kind::Sealed | Kind::Mixed => Body::Sealed,
        Kind::Other => Body::None,
    }
}

const fn span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
    }
}

/// Whether a message is one that would be taken, with a text of that length in that place.
pub(crate) fn is_within(limits: &Limits, message: &Message, place: Span, len: usize) -> bool {
    let grown = |whole: usize| (whole + len).saturating_sub(place.len());
    grown(message.body().len()) <= limits.body_bytes
        && grown(message.bytes().len()) <= limits.message_bytes
}

/// A session description that is sent in the place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewBody {
    pub(crate) place: Span,
    pub(crate) text: Box<[u8]>,
}

impl NewBody {
    /// Puts it into a copy of the message that it was made for.
    // RFC 3261 20.14: "The Content-Length header field indicates the size of the message-body, in
    // decimal number of octets, sent to the recipient."
    pub(crate) fn edit(&self, message: &Message, edits: &mut Edits) {
        edits.replace(self.place, &self.text);
        let len = self.body_len(message) as u64;
        for field in message.fields_of(HeaderName::ContentLength) {
            edits.replace_with(field.value_span, |text| write_decimal(len, text));
        }
    }

    /// The length of the whole body with it.
    pub(crate) fn body_len(&self, message: &Message) -> usize {
        (message.body().len() + self.text.len()).saturating_sub(self.place.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};

    const SDP: &str = "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=-\r\n";

    fn message(headers: &str, body: &str) -> Message {
        let alice = "<sip:a@example.org>;tag=a";
        let text = request(
            "INVITE",
            "sip:b@example.org",
            alice,
            "<sip:b@example.org>",
            "",
        );
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        let lines = head.split("\r\n");
        let kept = lines.filter(|line| !line.to_ascii_lowercase().starts_with("content-"));
        let kept: Vec<&str> = kept.collect();
        let text = format!(
            "{}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            kept.join("\r\n"),
            body.len()
        );
        parse(text.as_bytes())
    }

    fn found(headers: &str, body: &str) -> Result<String, Body> {
        let message = message(headers, body);
        match find(&message) {
            Body::Session(at) => Ok(String::from_utf8(message.slice(at).to_vec()).unwrap()),
            other => Err(other),
        }
    }

    #[test]
    fn a_session_description_is_known_by_its_type() {
        for (headers, is) in [
            ("Content-Type: application/sdp\r\n", Ok(())),
            ("c: Application/SDP ; charset=utf-8\r\n", Ok(())),
            (
                "c: application/sdp\r\nContent-Disposition: session;handling=required\r\n",
                Ok(()),
            ),
            ("c: application/sdp\r\ne: identity\r\n", Ok(())),
            ("", Err(Body::None)),
            ("c: text/plain\r\n", Err(Body::None)),
            ("c: application/sdpx\r\n", Err(Body::None)),
            ("c: sdp\r\n", Err(Body::None)),
            (
                "c: application/sdp\r\nContent-Disposition: early-session\r\n",
                Err(Body::None),
            ),
            (
                "c: application/sdp\r\nContent-Encoding: gzip\r\n",
                Err(Body::Sealed),
            ),
            (
                "c: application/pkcs7-mime; smime-type=enveloped-data\r\n",
                Err(Body::Sealed),
            ),
            ("c: multipart/signed;boundary=b\r\n", Err(Body::Sealed)),
            ("c: multipart/alternative;boundary=b\r\n", Err(Body::Sealed)),
            ("c: multipart/mixed\r\n", Err(Body::Sealed)),
        ] {
            let is = is.map(|()| SDP.to_owned());
            assert_eq!(found(headers, SDP), is, "{headers}");
        }
        assert_eq!(found("c: application/sdp\r\n", ""), Err(Body::None));
    }

    fn mixed(parts: &[&str]) -> Result<String, Body> {
        let mut body = "preamble\r\n".to_owned();
        for part in parts {
            body.push_str(&format!("--b-1\r\n{part}\r\n"));
        }
        body.push_str("--b-1--\r\nepilogue");
        found("c: multipart/mixed ; boundary=\"b-1\"\r\n", &body)
    }

    #[test]
    fn the_only_session_description_among_parts_is_found() {
        let sdp = format!("Content-Type: application/sdp\r\n\r\n{SDP}");
        let isup = "Content-Type: application/isup; version=itu-t92+\r\n\
                    Content-Disposition: signal;handling=optional\r\n\r\n\x01\x02--b-1\x03";
        let here = Ok(SDP.to_owned());
        assert_eq!(mixed(&[&sdp]), here);
        assert_eq!(mixed(&[isup, &sdp]), here);
        assert_eq!(mixed(&[&sdp, isup]), here);
        let coded = |coding: &str| format!("Content-Transfer-Encoding: {coding}\r\n{sdp}");
        assert_eq!(mixed(&[&coded("8BIT"), isup]), here);
        for parts in [
            vec![sdp.as_str(), sdp.as_str()],
            vec![&coded("base64")],
            vec![&sdp, "Content-Type: multipart/signed; boundary=x\r\n\r\n"],
            vec![&sdp, "Content-Type: application/pkcs7-mime\r\n\r\nx"],
        ] {
            assert_eq!(mixed(&parts), Err(Body::Sealed), "{parts:?}");
        }
        assert_eq!(mixed(&[isup]), Err(Body::None));
        let early = format!("Content-Disposition: early-session\r\n{sdp}");
        assert_eq!(mixed(&[&early, isup]), Err(Body::None));
        let sixteen: Vec<&str> = std::iter::repeat_n(isup, PARTS_MAX).collect();
        assert_eq!(mixed(&sixteen), Err(Body::None));
        let more: Vec<&str> = std::iter::repeat_n(isup, PARTS_MAX + 1).collect();
        assert_eq!(mixed(&more), Err(Body::Sealed));
    }

    #[test]
    fn parts_that_do_not_end_are_nobodys() {
        let whole = format!("--b\r\nContent-Type: application/sdp\r\n\r\n{SDP}\r\n--b--\r\n");
        let headers = "c: multipart/mixed;boundary=b\r\n";
        assert_eq!(found(headers, &whole), Ok(SDP.to_owned()));
        for end in 0..whole.len() - "--\r\n".len() {
            let cut = found(headers, &whole[..end]);
            assert!(cut.is_err(), "{:?}", &whole[..end]);
        }
        // Another boundary that begins alike.
        let other = whole.replace("--b", "--bb");
        assert_eq!(found(headers, &other), Err(Body::Sealed));
        for boundary in ["", "\"\"", &"x".repeat(71), "a\"b"] {
            let headers = format!("c: multipart/mixed;boundary={boundary}\r\n");
            assert_eq!(found(&headers, &whole), Err(Body::Sealed), "{boundary}");
        }
        // Line ends of other systems.
        let bare = whole.replace("\r\n", "\n");
        assert_eq!(found(headers, &bare), Ok(SDP.replace("\r\n", "\n")));
    }

    #[test]
    fn what_stands_in_its_place_changes_the_length_and_nothing_else() {
        let isup = "Content-Type: application/isup\r\n\r\n\x01";
        let body = format!(
            "--b\r\nContent-Type: application/sdp\r\n\r\n{SDP}\r\n--b\r\n{isup}\r\n--b--\r\n"
        );
        for (headers, body) in [
            ("c: application/sdp\r\nX-Other:  kept \r\n", SDP),
            ("c: multipart/mixed;boundary=b\r\n", &*body),
        ] {
            for text in ["v=0\r\n", "v=", &"v".repeat(2_000)] {
                let message = message(headers, body);
                let Body::Session(place) = find(&message) else {
                    panic!("{body}");
                };
                let new = NewBody {
                    place,
                    text: text.as_bytes().into(),
                };
                let mut edits = Edits::default();
                new.edit(&message, &mut edits);
                let mut out = Vec::new();
                edits.apply(&message, &mut out);
                let changed = parse(&out);
                assert_eq!(changed.body().len(), new.body_len(&message));
                let wanted = body.replace(SDP, text);
                assert_eq!(changed.body(), wanted.as_bytes());
                for (before, after) in message.fields().zip(changed.fields()) {
                    match before.name {
                        HeaderName::ContentLength => {}
                        _ => assert_eq!(
                            message.slice(before.line_span),
                            changed.slice(after.line_span)
                        ),
                    }
                }
            }
        }
    }
}
