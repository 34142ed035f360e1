//! The parameters and headers of a URI (RFC 3261 19.1.1).

use crate::Uri;
use crate::chars::{
    PARAM, PARAM_PLAIN, RESERVED, URI_HEADER, all_or_escaped, hex, is, part, rest, skip,
};

/// One parameter or header of a URI; escapes are still in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value; empty where there is none.
    pub value: &'a [u8],
    /// Whether there is a `=`.
    pub has_value: bool,
}

impl Part<'_> {
    /// Whether that is its name, escapes and case apart (RFC 3261 19.1.4).
    pub fn is_named(&self, name: &str) -> bool {
        is_name(self.name, name.as_bytes())
    }

    /// Writes it as it came.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name);
        if self.has_value {
            out.push(b'=');
            out.extend_from_slice(self.value);
        }
    }
}

/// Reads the parts one after the other.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    left: &'a [u8],
    separator: u8,
    class: u16,
}

impl<'a> Parts<'a> {
    /// `;a=b;c`, from the first `;` on.
    pub(crate) fn params(bytes: &'a [u8]) -> Self {
        Self {
            left: bytes,
            separator: b';',
            class: PARAM,
        }
    }

    /// `a=b&c=d`.
    pub(crate) fn headers(bytes: &'a [u8]) -> Self {
        Self {
            left: bytes,
            separator: b'&',
            class: URI_HEADER,
        }
    }

    /// Whether that is a few well-formed parameters and nothing else, without an escape:
    /// as almost everybody writes them. What is not may be well-formed all the same.
    #[inline]
    pub(crate) fn are_plain_params(bytes: &[u8]) -> bool {
        const FEW: usize = 8;
        let mut at = 0;
        for _ in 0..FEW {
            let [b';', ..] = rest(bytes, at) else {
                break;
            };
            let name_end = skip(bytes, at + 1, PARAM_PLAIN);
            if name_end == at + 1 {
                return false;
            }
            at = name_end;
            if bytes.get(at) == Some(&b'=') {
                at = skip(bytes, name_end + 1, PARAM_PLAIN);
                if at == name_end + 1 {
                    return false;
                }
            }
        }
        at == bytes.len()
    }

    pub(crate) fn are_well_formed(self) -> bool {
        let is_params = self.separator == b';';
        if is_params && !self.left.is_empty() && self.left.first() != Some(&b';') {
            return false;
        }
        if !is_params && self.left.last() == Some(&b'&') {
            return false;
        }
        let class = self.class;
        let mut count = 0;
        for found in self {
            count += 1;
            let value_is_good = match (is_params, found.has_value) {
                (true, true) => !found.value.is_empty(),
                (true, false) => true,
                (false, has_value) => has_value,
            };
            let well_formed = value_is_good
                && !found.name.is_empty()
                && all_or_escaped(found.name, class)
                && all_or_escaped(found.value, class);
            if !well_formed || count > Uri::PARTS_MAX {
                return false;
            }
        }
        true
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if self.left.is_empty() {
            return None;
        }
        let start = usize::from(self.separator == b';');
        let body = rest(self.left, start);
        // They are short: a loop of its own costs less than to begin a search.
        let is_separator = |byte: &u8| *byte == self.separator;
        let end = body.iter().position(is_separator).unwrap_or(body.len());
        let whole = part(body, 0, end);
        // A header's separator is eaten here, a parameter's with the next one.
        self.left = if self.separator == b';' {
            rest(body, end)
        } else {
            rest(body, end + 1)
        };
        Some(match whole.iter().position(|byte| *byte == b'=') {
            None => Part {
                name: whole,
                value: &[],
                has_value: false,
            },
            Some(equals) => Part {
                name: part(whole, 0, equals),
                value: rest(whole, equals + 1),
                has_value: true,
            },
        })
    }
}

/// Whether an escaped name is `name`, without regard to case.
fn is_name(escaped: &[u8], name: &[u8]) -> bool {
    escaped.eq_ignore_ascii_case(name)
        || (memchr::memchr(b'%', escaped).is_some()
            && canonical(escaped)
                .map(fold_case)
                .eq(canonical(name).map(fold_case)))
}

/// The characters as RFC 3261 19.1.4 compares them: an escape of a character
/// that is not reserved is that character; one of a reserved character is
/// something else, and stands above the bytes.
pub(crate) fn canonical(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    unescaped(bytes).map(|(byte, was_escaped)| {
        // RFC 3261 19.1.4: "Characters other than those in the "reserved" set (see RFC 2396 [5]) are
        // equivalent to their ""%" HEX HEX" encoding."
        if was_escaped && is(byte, RESERVED) {
            0x100 | u16::from(byte)
        } else {
            u16::from(byte)
        }
    })
}

/// The characters without their escapes, and whether each was escaped.
pub(crate) fn unescaped(bytes: &[u8]) -> impl Iterator<Item = (u8, bool)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = *bytes.get(at)?;
        if byte == b'%'
            && let Some([high, low]) = bytes.get(at + 1..at + 3)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            at += 3;
            return Some((high << 4 | low, true));
        }
        at += 1;
        Some((byte, false))
    })
}

/// In lower case, where it is a letter.
pub(crate) fn fold_case(character: u16) -> u16 {
    match u8::try_from(character) {
        Ok(byte) => u16::from(byte.to_ascii_lowercase()),
        Err(_) => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_with_its_escapes_and_written_as_it_came() {
        let text = b";M%61ddr=%61;lr;x=";
        let parts: Vec<_> = Parts::params(text).collect();
        assert!(parts[0].is_named("maddr") && !parts[0].is_named("madd"));
        assert!(parts[1].is_named("LR") && !parts[2].is_named("lr"));
        let mut written = Vec::new();
        for part in parts {
            written.push(b';');
            part.write(&mut written);
        }
        assert_eq!(written, text);
    }

    #[test]
    fn what_is_plain_is_well_formed() {
        // Every text of up to six of these: names, separators, an escape, what ends a URI.
        const BYTES: &[u8] = b";=a%?";
        let mut plain = 0;
        for length in 0..=6 {
            for number in 0..BYTES.len().pow(length) {
                let text: Vec<u8> = (0..length)
                    .map(|at| BYTES[number / BYTES.len().pow(at) % BYTES.len()])
                    .collect();
                if Parts::are_plain_params(&text) {
                    plain += 1;
                    assert!(Parts::params(&text).are_well_formed(), "{text:?}");
                } else {
                    // It may be well-formed, but then it has an escape.
                    let is_good = Parts::params(&text).are_well_formed();
                    assert!(!is_good || text.contains(&b'%'), "{text:?}");
                }
            }
        }
        assert!(plain > 10, "{plain}");
        assert!(!Parts::are_plain_params(&b";a".repeat(9)));
    }
}
