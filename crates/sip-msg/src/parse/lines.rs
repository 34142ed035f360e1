//! Finds header lines. The parser and the framer both walk with this and with
//! nothing else, so they cannot disagree about where the headers end.
//!
//! One rule for line ends: a line ends with CRLF. A CR without LF, or an LF
//! without CR, is a fault wherever it stands before the body, because the next
//! element may take it for a line end and read other headers than we did. So
//! is every other control character but the horizontal tab, unless a
//! quoted-pair makes it part of a quoted string (RFC 3261 25.1).

use crate::chars::{is_token, part, rest, skip_lws, trim_end};
use crate::parse::ParseErrorKind;
use crate::parse::scan::{next_control, next_control_or_colon};

/// One header line, folds included. All offsets are into the whole buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) start: usize,
    pub(crate) name_end: usize,
    pub(crate) value_start: usize,
    pub(crate) value_end: usize,
    /// Past the line's CRLF.
    pub(crate) end: usize,
    pub(crate) fault: Option<(ParseErrorKind, usize)>,
}

/// What stands at an offset behind the start line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A header line.
    Line(Line),
    /// The empty line; the body begins here.
    Body(usize),
    /// The bytes end before the empty line.
    Unfinished,
}

/// Reads the line that begins at `start`.
pub(crate) fn step(bytes: &[u8], start: usize) -> Step {
    match rest(bytes, start) {
        [b'\r', b'\n', ..] => return Step::Body(start + 2),
        [] | [b'\r'] => return Step::Unfinished,
        _ => {}
    }
    match usual(bytes, start) {
        Some(line) => Step::Line(line),
        None => any(bytes, start),
    }
}

/// Reads a line as almost everybody writes it: `Name: value`, without folds,
/// faults, or more white space than that. `None` for any other.
#[inline(always)]
pub(crate) fn usual(bytes: &[u8], start: usize) -> Option<Line> {
    let tail = bytes.get(start..)?;
    // The empty line that ends the headers, or one that continues the line before.
    if *tail.first()? <= b' ' {
        return None;
    }
    let colon = next_control_or_colon(tail, 0);
    let value_end = next_control(tail, colon);
    let (name, [b':', value @ ..]) = tail.get(..value_end)?.split_at_checked(colon)? else {
        return None;
    };
    let (space, value) = match value {
        [b' ', value @ ..] => (1, value),
        value => (0, value),
    };
    let is_plain =
        !matches!(value, [] | [b' ', ..] | [.., b' ']) && !matches!(name, [] | [.., b' ']);
    // The line is over where the next one does not begin with white space.
    let [b'\r', b'\n', next, ..] = tail.get(value_end..)? else {
        return None;
    };
    (is_plain && !matches!(*next, b' ' | b'\t')).then_some(Line {
        start,
        name_end: start + colon,
        value_start: start + colon + 1 + space,
        value_end: start + value_end,
        end: start + value_end + 2,
        fault: None,
    })
}

/// Reads any line.
fn any(bytes: &[u8], start: usize) -> Step {
    let mut fault = None;
    if matches!(bytes.get(start), Some(b' ' | b'\t')) {
        // Only the line after the start line can begin so: elsewhere white
        // space continues the line before.
        fault = Some((ParseErrorKind::Fold, start));
    }
    // One scan to the colon, one from there to the line's end: where a control
    // character comes first, the colon may stand behind it yet.
    let first = next_control_or_colon(bytes, start);
    let Some((content_end, end)) = content_end(bytes, start, first, &mut fault) else {
        return Step::Unfinished;
    };
    let line = part(bytes, start, content_end);
    let colon = match bytes.get(first) {
        Some(b':') => Some(first - start),
        _ => memchr::memchr(b':', line),
    };
    let Some(colon) = colon else {
        fault.get_or_insert((ParseErrorKind::HeaderName, start));
        return Step::Line(Line {
            start,
            name_end: start,
            value_start: content_end,
            value_end: content_end,
            end,
            fault,
        });
    };
    if let Some((kind, at)) = &mut fault
        && *kind == ParseErrorKind::ControlCharacter
        && *at < start + colon
    {
        *kind = ParseErrorKind::HeaderName;
    }
    let mut name = part(line, 0, colon);
    // RFC 3261 25.1: "HCOLON  =  *( SP / HTAB ) ":" SWS"
    while let [head @ .., b' ' | b'\t'] = name {
        name = head;
    }
    let value = trim_end(rest(line, colon + 1));
    let leading = skip_lws(value, 0);
    let value_start = start + colon + 1 + leading;
    let value = rest(value, leading);
    Step::Line(Line {
        start,
        name_end: start + name.len(),
        value_start,
        value_end: value_start + value.len(),
        end,
        fault,
    })
}

/// Checks the name of a header line; for names that are not known to be good.
pub(crate) fn name_fault(bytes: &[u8], line: &Line) -> Option<(ParseErrorKind, usize)> {
    (!is_token(part(bytes, line.start, line.name_end)))
        .then_some((ParseErrorKind::HeaderName, line.start))
}

/// Content-Length's value (RFC 3261 20.14: 1*DIGIT).
pub(crate) fn content_length(value: &[u8]) -> Result<usize, ParseErrorKind> {
    let length = crate::chars::number(value).ok_or(ParseErrorKind::ContentLengthSyntax)?;
    match u32::try_from(length) {
        Ok(length) => Ok(length as usize),
        Err(_) => Err(ParseErrorKind::ContentLengthOverflow),
    }
}

/// Where the line's content ends and where the next line begins. The first
/// fault on the way goes to `fault`. No control character stands before `from`.
fn content_end(
    bytes: &[u8],
    start: usize,
    from: usize,
    fault: &mut Option<(ParseErrorKind, usize)>,
) -> Option<(usize, usize)> {
    let mut at = from;
    let mut control = None;
    loop {
        at = next_control(bytes, at);
        match *bytes.get(at)? {
            b'\t' => at += 1,
            b'\r' => match rest(bytes, at + 1) {
                [b'\n', b' ' | b'\t', ..] => {
                    at = skip_fold(bytes, at, fault);
                }
                [b'\n', ..] => break,
                [] => return None,
                _ => {
                    fault.get_or_insert((ParseErrorKind::BareLineEnd, at));
                    at += 1;
                }
            },
            b'\n' => {
                fault.get_or_insert((ParseErrorKind::BareLineEnd, at));
                at += 1;
            }
            _ => {
                control.get_or_insert(at);
                at += 1;
            }
        }
    }
    if control.is_some()
        && let Some(offset) = loose_control(part(bytes, start, at))
    {
        fault.get_or_insert((ParseErrorKind::ControlCharacter, start + offset));
    }
    Some((at, at + 2))
}

/// Steps over the CRLF at `at` and the white space behind it.
///
/// A continuation of nothing but white space fits the grammar, but looks to
/// some parsers like the empty line that ends the headers: it is refused.
fn skip_fold(bytes: &[u8], at: usize, fault: &mut Option<(ParseErrorKind, usize)>) -> usize {
    let mut next = at + 2;
    while let Some(b' ' | b'\t') = bytes.get(next) {
        next += 1;
    }
    if matches!(bytes.get(next), Some(b'\r' | b'\n')) {
        fault.get_or_insert((ParseErrorKind::Fold, at));
    }
    next
}

/// The first control character that no quoted-pair covers.
fn loose_control(line: &[u8]) -> Option<usize> {
    let mut quoted = false;
    let mut covered = None;
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' => {
                quoted = !quoted;
                covered = None;
            }
            // RFC 3261 25.1: "quoted-pair  =  "\" (%x00-09 / %x0B-0C / %x0E-7F)"
            b'\\' if quoted && !matches!(line.get(at + 1), Some(b'\r' | b'\n')) => {
                at += 1;
                covered.get_or_insert(at);
            }
            b'\t' | b'\r' | b'\n' => {}
            0..0x20 | 0x7f => return Some(at),
            _ => {}
        }
        at += 1;
    }
    // A string that never closes covers nothing.
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of the usual form and of every form that is close to it.
    #[test]
    fn the_short_way_and_the_long_way_agree() {
        let pieces = [
            "", "a", "Via", " ", "\t", ":", "\r", "\n", "\r\n", "\x01", "\"",
        ];
        let mut usual_lines = 0;
        let mut text = Vec::new();
        for name in pieces {
            for before in pieces {
                for after in pieces {
                    for value in ["", "x", " x", "x ", "x:y", "x\r\n y", "x\ty", "\x7f"] {
                        for end in ["", "\r", "\r\n", "\r\n\r\n", "\r\n x", "\r\n\tx", "\nT:"] {
                            text.clear();
                            for piece in ["\n", name, before, ":", after, value, end] {
                                text.extend_from_slice(piece.as_bytes());
                            }
                            let Some(line) = usual(&text, 1) else {
                                continue;
                            };
                            usual_lines += 1;
                            let Step::Line(other) = any(&text, 1) else {
                                panic!("no line: {:?}", text.escape_ascii());
                            };
                            assert_eq!(
                                format!("{line:?}"),
                                format!("{other:?}"),
                                "{}",
                                text.escape_ascii()
                            );
                        }
                    }
                }
            }
        }
        assert!(usual_lines > 50, "{usual_lines}");
    }

    #[test]
    fn what_most_write_goes_the_short_way() {
        for line in ["Via: x\r\n\r\n", "v:x\r\nTo: y", "Call-ID: a:b\r\nx"] {
            assert!(usual(line.as_bytes(), 0).is_some(), "{line}");
        }
        for line in [
            "Via: x\r\n",
            "Via : x\r\n\r\n",
            "Via: x\r\n y\r\n\r\n",
            "Via:\r\n\r\n",
        ] {
            assert!(usual(line.as_bytes(), 0).is_none(), "{line}");
        }
    }
}
