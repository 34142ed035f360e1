//! Splits a comma-separated header at the commas that separate.

use crate::Span;
use crate::chars::{part, quoted_end, rest, skip_lws, trim};

/// The elements of one field's value, trimmed, each with its place in the
/// value. Commas in quoted strings and between angle brackets separate nothing.
///
/// An empty value has no elements; between two commas there is an empty one,
/// which no typed value accepts (RFC 3261 25.1 has none).
pub fn elements(value: &[u8]) -> Elements<'_> {
    Elements {
        value,
        at: 0,
        is_list: true,
        done: value.is_empty(),
    }
}

/// A value that is no list: the only element, even where it is empty.
pub(crate) fn whole(value: &[u8]) -> Elements<'_> {
    Elements {
        value,
        at: 0,
        is_list: false,
        done: false,
    }
}

/// See [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    value: &'a [u8],
    at: usize,
    is_list: bool,
    done: bool,
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a [u8], Span);

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if !self.is_list {
            self.done = true;
            return Some((self.value, Span::new(0, self.value.len())));
        }
        let comma = element_end(self.value, self.at);
        let raw = part(self.value, self.at, comma);
        let element = trim(raw);
        let start = if element.is_empty() {
            self.at
        } else {
            skip_lws(self.value, self.at)
        };
        self.done = comma >= self.value.len();
        self.at = comma + 1;
        Some((element, Span::new(start, start + element.len())))
    }
}

/// Where the element that begins at `at` ends: at a comma or with the value.
fn element_end(value: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr3(b',', b'"', b'<', rest(value, at)) {
        at += found;
        match value.get(at) {
            Some(b'"') => match quoted_end(value, at) {
                Some(end) => at = end,
                None => return value.len(),
            },
            Some(b'<') => match memchr::memchr(b'>', rest(value, at)) {
                Some(length) => at += length + 1,
                None => return value.len(),
            },
            _ => return at,
        }
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(value: &str) -> Vec<String> {
        elements(value.as_bytes())
            .map(|(element, span)| {
                let placed = value
                    .get(span.start as usize..span.end as usize)
                    .map(str::as_bytes);
                assert_eq!(placed, Some(element), "the span is the element's place");
                String::from_utf8_lossy(element).into_owned()
            })
            .collect()
    }

    #[test]
    fn commas_separate() {
        assert_eq!(split("a,b , c"), ["a", "b", "c"]);
        assert_eq!(split("a"), ["a"]);
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split("a,\r\n b"), ["a", "b"]);
    }

    #[test]
    fn quotes_and_brackets_hide_commas() {
        assert_eq!(
            split(r#""a,\",b" <sip:x,y@h>;p="q,r", <sip:z>"#),
            [r#""a,\",b" <sip:x,y@h>;p="q,r""#, "<sip:z>"]
        );
    }

    #[test]
    fn what_never_closes_is_one_element() {
        assert_eq!(split(r#"a, "b, c"#), ["a", r#""b, c"#]);
        assert_eq!(split("a, <b, c"), ["a", "<b, c"]);
    }

    #[test]
    fn empty_elements_are_seen() {
        assert_eq!(split("a,,b,"), ["a", "", "b", ""]);
        assert_eq!(split(","), ["", ""]);
    }
}
