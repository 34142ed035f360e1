//! Character classes of RFC 3261 25.1, and the small scanners that every
//! value parser is made of.

pub(crate) const TOKEN: u16 = 1;
pub(crate) const HOST: u16 = 1 << 1;
// RFC 3261 19.1.2: "Excluded US-ASCII characters (RFC 2396 [5]), such as space and control characters
// and characters used as URI delimiters, also MUST be escaped." and "URIs MUST NOT contain unescaped
// space and control characters." and "All other characters MUST be escaped." and "Any characters
// occurring in a telephone-subscriber that do not appear in an expansion of the BNF for the user rule
// MUST be escaped." What no class holds, an escape alone may stand for.
pub(crate) const USER: u16 = 1 << 2;
pub(crate) const PASSWORD: u16 = 1 << 3;
pub(crate) const PARAM: u16 = 1 << 4;
// RFC 3261 19.1.2: "Expanding the hname and hvalue tokens in Section 25 show that all URI reserved
// characters in header field names and values MUST be escaped."
pub(crate) const URI_HEADER: u16 = 1 << 5;
/// What an unquoted header parameter's value may hold. Wider than `token /
/// host`: deployed branches and extensions hold `=`, `/` and `@`. Nothing in
/// it separates parameters, elements or lines.
pub(crate) const VALUE: u16 = 1 << 6;
pub(crate) const URI_OTHER: u16 = 1 << 7;
pub(crate) const LWS: u16 = 1 << 8;
pub(crate) const SCHEME: u16 = 1 << 9;
/// RFC 3261 25.1's `reserved`: an escape of one of these is not the same as
/// the character itself (19.1.4).
pub(crate) const RESERVED: u16 = 1 << 10;
pub(crate) const VISIBLE: u16 = 1 << 11;
/// What an unquoted display name may hold. Wider than `*(token LWS)`: phones
/// write parentheses, slashes and UTF-8 there. Nothing in it can begin a URI, a
/// quoted string or another element.
pub(crate) const DISPLAY: u16 = 1 << 12;
/// `%` alone.
const ESCAPE: u16 = 1 << 13;
/// [`USER`] without what begins an escape.
pub(crate) const USER_PLAIN: u16 = 1 << 14;
/// [`PARAM`] without what begins an escape.
pub(crate) const PARAM_PLAIN: u16 = 1 << 15;

static CLASS: [u16; 256] = classes();

const fn mark(mut table: [u16; 256], set: &[u8], class: u16) -> [u16; 256] {
    let mut at = 0;
    while at < set.len() {
        table[set[at] as usize] |= class;
        at += 1;
    }
    table
}

const fn unmark(mut table: [u16; 256], set: &[u8], class: u16) -> [u16; 256] {
    let mut at = 0;
    while at < set.len() {
        table[set[at] as usize] &= !class;
        at += 1;
    }
    table
}

const fn without_escapes(mut table: [u16; 256], class: u16, plain: u16) -> [u16; 256] {
    let mut byte = 0;
    while byte < 256 {
        if table[byte] & class != 0 && table[byte] & ESCAPE == 0 {
            table[byte] |= plain;
        }
        byte += 1;
    }
    table
}

const fn classes() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        if c.is_ascii_alphanumeric() {
            table[byte] = TOKEN | HOST | USER | PASSWORD | PARAM | URI_HEADER | URI_OTHER | SCHEME;
        }
        if c > 0x20 && c < 0x7f {
            table[byte] |= VALUE | VISIBLE | DISPLAY;
        }
        if c >= 0x80 {
            table[byte] |= VISIBLE | DISPLAY;
        }
        byte += 1;
    }
    table = unmark(table, b";,\"<>", VALUE);
    table = unmark(table, b";,\"<>:@\\", DISPLAY);
    table = mark(table, b"-.!%*_+`'~", TOKEN);
    // The underscore is no host character of the grammar, but hosts in private
    // networks bear it.
    table = mark(table, b"-._", HOST);
    table = mark(table, b"+-.", SCHEME);
    let unreserved = b"-_.!~*'()%";
    table = mark(
        table,
        unreserved,
        USER | PASSWORD | PARAM | URI_HEADER | URI_OTHER,
    );
    // '#' is not in the grammar's `user`, but phones dial it unescaped.
    table = mark(table, b"&=+$,;?/#", USER);
    table = mark(table, b"&=+$,", PASSWORD);
    table = mark(table, b"[]/:&+$", PARAM);
    table = mark(table, b"[]/?:+$", URI_HEADER);
    table = mark(table, b";/?:@&=+$,[]#", URI_OTHER);
    table = mark(table, b";/?:@&=+$,", RESERVED);
    table = mark(table, b"%", ESCAPE);
    table = without_escapes(table, USER, USER_PLAIN);
    table = without_escapes(table, PARAM, PARAM_PLAIN);
    mark(table, b" \t\r\n", LWS)
}

#[inline]
fn class_of(byte: u8) -> u16 {
    CLASS.get(byte as usize).copied().unwrap_or(0)
}

/// Whether `byte` is of that class.
#[inline]
pub(crate) fn is(byte: u8, class: u16) -> bool {
    class_of(byte) & class != 0
}

/// Whether all bytes are of that class; true for none at all.
#[inline]
pub(crate) fn all(bytes: &[u8], class: u16) -> bool {
    bytes.iter().all(|&b| is(b, class))
}

/// Whether `bytes` is one token.
#[inline]
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TOKEN)
}

/// The bytes from `start` to `end`; nothing where there are none.
#[inline]
pub(crate) fn part(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    bytes.get(start..end).unwrap_or_default()
}

/// The bytes from `start` on; nothing where there are none.
#[inline]
pub(crate) fn rest(bytes: &[u8], start: usize) -> &[u8] {
    bytes.get(start..).unwrap_or_default()
}

/// The first offset from `at` on whose byte is not of that class.
#[inline]
pub(crate) fn skip(bytes: &[u8], at: usize, class: u16) -> usize {
    let mut at = at;
    while let Some(&b) = bytes.get(at) {
        if !is(b, class) {
            break;
        }
        at += 1;
    }
    at
}

/// The first offset from `at` on that holds no white space and no fold.
#[inline]
pub(crate) fn skip_lws(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        // Mostly there is none.
        Some(b' ' | b'\t' | b'\r' | b'\n') => skip(bytes, at, LWS),
        _ => at,
    }
}

/// The first offset from `at` on whose byte is no [`VALUE`]: branches and tags are
/// long, so sixteen bytes are judged at once.
#[inline]
pub(crate) fn skip_value(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    let (blocks, _) = rest(bytes, at).as_chunks::<16>();
    for block in blocks {
        // Without a branch, so that a compiler can judge all of them by one instruction.
        let mut is_value = true;
        for &byte in block {
            let is_separator =
                (byte == b';') | (byte == b',') | (byte == b'"') | (byte == b'<') | (byte == b'>');
            is_value &= (byte > 0x20) & (byte < 0x7f) & !is_separator;
        }
        if !is_value {
            break;
        }
        at += 16;
    }
    skip(bytes, at, VALUE)
}

/// The value without white space and folds around it.
#[inline]
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', tail @ ..] = bytes {
        bytes = tail;
    }
    trim_end(bytes)
}

/// The value without white space and folds behind it.
#[inline]
pub(crate) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [head @ .., b' ' | b'\t' | b'\r' | b'\n'] = bytes {
        bytes = head;
    }
    bytes
}

/// Past the closing quote of the quoted string that opens at `at`; `None`
/// where it never closes or escapes what cannot be escaped.
pub(crate) fn quoted_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            // RFC 3261 25.1: "Unlike HTTP/1.1, the characters CR and LF cannot be escaped by this
            // mechanism to avoid conflict with line folding and header separation."
            b'\\' if matches!(bytes.get(at + 1)?, b'\r' | b'\n' | 0x80..) => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether all bytes are of that class, of which `%` is one, and every `%`
/// begins an escape.
pub(crate) fn all_or_escaped(bytes: &[u8], class: u16) -> bool {
    // Without a branch for each byte; a `%` is looked at again.
    let (mut all, mut any) = (class, 0);
    for &byte in bytes {
        let is = class_of(byte);
        all &= is;
        any |= is;
    }
    all == class && (any & ESCAPE == 0 || are_escapes_sound(bytes))
}

/// Whether two hexadecimal digits follow every `%`.
fn are_escapes_sound(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'%', bytes).all(|at| {
        let digits = bytes.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// The value of a hexadecimal digit.
pub(crate) fn hex(digit: u8) -> Option<u8> {
    (digit as char)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

/// A decimal number of one digit or more; past `u64` it saturates.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &d| {
        d.is_ascii_digit()
            .then(|| sum.saturating_mul(10).saturating_add(u64::from(d - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_at_once_end_where_one_after_the_other_do() {
        for byte in 0..=255 {
            for place in 0..40 {
                let mut text = [b'x'; 40];
                text[place] = byte;
                for at in 0..=text.len() + 1 {
                    assert_eq!(skip_value(&text, at), skip(&text, at, VALUE), "{text:?}");
                }
            }
            let text = [byte, b'x'];
            assert_eq!(skip_lws(&text, 0), skip(&text, 0, LWS), "{byte}");
        }
    }

    #[test]
    fn the_plain_are_all_but_the_escapes() {
        for byte in 0..=255 {
            for (class, plain) in [(USER, USER_PLAIN), (PARAM, PARAM_PLAIN)] {
                assert_eq!(is(byte, plain), is(byte, class) && byte != b'%', "{byte}");
            }
        }
    }
}
