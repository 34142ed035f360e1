//! Messages of LDAP (RFC 4511 4): bind, search, StartTLS.

use zeroize::Zeroizing;

use super::ber::{self, ENUMERATED, INTEGER, OCTET_STRING, Reader, SEQUENCE, SET};
use crate::fault::saying;

const BIND_REQUEST: u8 = 0x60;
const SEARCH_REQUEST: u8 = 0x63;
const EXTENDED_REQUEST: u8 = 0x77;
const SIMPLE: u8 = 0x80;
const REQUEST_NAME: u8 = 0x80;
const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const EQUALITY_MATCH: u8 = 0xa3;
const PRESENT: u8 = 0x87;

/// A response to a bind.
pub(super) const BIND_RESPONSE: u8 = 0x61;
/// One entry that a search found.
pub(super) const SEARCH_ENTRY: u8 = 0x64;
/// The end of a search.
pub(super) const SEARCH_DONE: u8 = 0x65;
/// Where else one might search; nobody does.
pub(super) const SEARCH_REFERENCE: u8 = 0x73;
/// A response to StartTLS; with message id 0, a notice (RFC 4511 4.4).
pub(super) const EXTENDED_RESPONSE: u8 = 0x78;

/// StartTLS (RFC 4511 4.14).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// What a search looks for. Values are bytes with their length and need no escaping, so no
/// value can be anything but a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// All of these.
    All(Vec<Filter>),
    /// One of these.
    Any(Vec<Filter>),
    /// The attribute has the value, by the attribute's own rules.
    Equal(String, Vec<u8>),
    /// The attribute is there.
    Present(String),
}

/// A search under a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Search {
    pub(super) base: String,
    pub(super) filter: Filter,
    pub(super) attributes: Vec<String>,
    /// After how long the directory gives up, in seconds.
    pub(super) time_limit_s: u32,
}

/// One entry, its name left out: attributes and their values, which may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Entry(Vec<(String, Vec<Zeroizing<Vec<u8>>>)>);

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl Entry {
    /// The values of an attribute.
    pub(super) fn values(&self, attribute: &str) -> &[Zeroizing<Vec<u8>>] {
        self.0
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(attribute))
            .map_or(&[], |(_, values)| values)
    }
}

/// How an operation ended (RFC 4511 4.1.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: u32,
    /// What the directory says of it.
    pub(super) text: String,
}

/// A message of a directory's.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) id: u32,
    pub(super) operation: u8,
    content: &'a [u8],
}

impl std::fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({}, {:#x}, ***)", self.id, self.operation)
    }
}

pub(super) fn write_bind(id: u32, name: &str, password: &[u8], out: &mut Vec<u8>) {
    write(id, BIND_REQUEST, out, |out| {
        ber::number(INTEGER, 3, out);
        ber::octets(OCTET_STRING, name.as_bytes(), out);
        ber::octets(SIMPLE, password, out);
    });
}

pub(super) fn write_start_tls(id: u32, out: &mut Vec<u8>) {
    write(id, EXTENDED_REQUEST, out, |out| {
        ber::octets(REQUEST_NAME, START_TLS, out);
    });
}

pub(super) fn write_search(id: u32, search: &Search, out: &mut Vec<u8>) {
    write(id, SEARCH_REQUEST, out, |out| {
        ber::octets(OCTET_STRING, search.base.as_bytes(), out);
        // The whole subtree; aliases are not followed; as many entries as the directory
        // gives.
        ber::number(ENUMERATED, 2, out);
        ber::number(ENUMERATED, 0, out);
        ber::number(INTEGER, 0, out);
        ber::number(INTEGER, search.time_limit_s, out);
        ber::boolean(false, out);
        search.filter.write(out);
        ber::wrap(SEQUENCE, out, |out| {
            for attribute in &search.attributes {
                ber::octets(OCTET_STRING, attribute.as_bytes(), out);
            }
        });
    });
}

fn write(id: u32, operation: u8, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    ber::wrap(SEQUENCE, out, |out| {
        ber::number(INTEGER, id, out);
        ber::wrap(operation, out, content);
    });
}

impl Filter {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                let tag = if matches!(self, Self::All(_)) {
                    AND
                } else {
                    OR
                };
                ber::wrap(tag, out, |out| {
                    for part in parts {
                        part.write(out);
                    }
                });
            }
            Self::Equal(attribute, value) => ber::wrap(EQUALITY_MATCH, out, |out| {
                ber::octets(OCTET_STRING, attribute.as_bytes(), out);
                ber::octets(OCTET_STRING, value, out);
            }),
            Self::Present(attribute) => ber::octets(PRESENT, attribute.as_bytes(), out),
        }
    }
}

/// The first message of `input` and its length; `None` where it is not whole.
pub(super) fn read(input: &[u8]) -> Result<Option<(Message<'_>, usize)>, &'static str> {
    const GARBAGE: &str = "what is not an LDAP message";
    if input.first().is_some_and(|&tag| tag != SEQUENCE) {
        return Err(GARBAGE);
    }
    let Some(len) = ber::len(input).map_err(|()| GARBAGE)? else {
        return Ok(None);
    };
    if len > input.len() {
        return Ok(None);
    }
    let mut parts = Reader(Reader(input).expect(SEQUENCE).ok_or(GARBAGE)?);
    let id = parts.number(INTEGER).ok_or(GARBAGE)?;
    let (operation, content) = parts.next().ok_or(GARBAGE)?;
    let message = Message {
        id,
        operation,
        content,
    };
    Ok(Some((message, len)))
}

/// The id of the first message of `input`, whole or not.
pub(super) fn id(input: &[u8]) -> Option<u32> {
    if input.first() != Some(&SEQUENCE) {
        return None;
    }
    Reader(ber::begun(input)?).number(INTEGER)
}

impl Message<'_> {
    /// How the operation ended.
    pub(super) fn ended(&self) -> Option<Ended> {
        let mut parts = Reader(self.content);
        let code = parts.number(ENUMERATED)?;
        parts.expect(OCTET_STRING)?;
        let text = parts.expect(OCTET_STRING)?;
        Some(Ended {
            code,
            text: saying(text),
        })
    }

    /// The entry, and how many bytes its values have.
    pub(super) fn entry(&self) -> Option<(Entry, usize)> {
        let mut parts = Reader(self.content);
        parts.expect(OCTET_STRING)?;
        let mut attributes = Reader(parts.expect(SEQUENCE)?);
        let mut entry = Entry::default();
        while !attributes.0.is_empty() {
            let mut attribute = Reader(attributes.expect(SEQUENCE)?);
            let name = String::from_utf8_lossy(attribute.expect(OCTET_STRING)?).into_owned();
            let mut set = Reader(attribute.expect(SET)?);
            let mut values = Vec::new();
            while !set.0.is_empty() {
                values.push(Zeroizing::new(set.expect(OCTET_STRING)?.to_vec()));
            }
            entry.0.push((name, values));
        }
        Some((entry, self.content.len()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_value_is_only_a_value() {
        let hostile = b"*)(uid=*))(|(uid=*";
        let search = Search {
            base: "dc=example".to_owned(),
            filter: Filter::Any(vec![Filter::Equal("uid".to_owned(), hostile.to_vec())]),
            attributes: vec!["uid".to_owned()],
            time_limit_s: 1,
        };
        let mut out = Vec::new();
        write_search(9, &search, &mut out);
        let (message, len) = read(&out).unwrap().unwrap();
        assert_eq!(
            (message.id, message.operation, len),
            (9, SEARCH_REQUEST, out.len())
        );
        let mut parts = Reader(message.content);
        for _ in 0..6 {
            parts.next().unwrap();
        }
        let mut any = Reader(parts.expect(OR).unwrap());
        let mut equal = Reader(any.expect(EQUALITY_MATCH).unwrap());
        assert_eq!(equal.expect(OCTET_STRING), Some(&b"uid"[..]));
        assert_eq!(equal.expect(OCTET_STRING), Some(&hostile[..]));
        assert_eq!((equal.next(), any.next()), (None, None));
    }

    fn entry(attributes: &[(&str, &[&[u8]])]) -> Vec<u8> {
        let mut out = Vec::new();
        write(5, SEARCH_ENTRY, &mut out, |out| {
            ber::octets(OCTET_STRING, b"uid=alice", out);
            ber::wrap(SEQUENCE, out, |out| {
                for (name, values) in attributes {
                    ber::wrap(SEQUENCE, out, |out| {
                        ber::octets(OCTET_STRING, name.as_bytes(), out);
                        ber::wrap(SET, out, |out| {
                            for value in *values {
                                ber::octets(OCTET_STRING, value, out);
                            }
                        });
                    });
                }
            });
        });
        out
    }

    #[test]
    fn entries_are_read_and_nothing_else_is() {
        let bytes = entry(&[("UID", &[b"alice", b"al"]), ("signetRealm", &[])]);
        let (message, len) = read(&bytes).unwrap().unwrap();
        assert_eq!(len, bytes.len());
        let (found, _) = message.entry().unwrap();
        assert_eq!(found.values("uid").len(), 2);
        assert_eq!(found.values("signetRealm").len(), 0);
        assert_eq!(found.values("none").len(), 0);
        assert_eq!(message.ended(), None);
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Ok(None), "{cut} bytes");
            // Six bytes of a header, and three of the id.
            assert_eq!(id(&bytes[..cut]), (cut >= 9).then_some(5), "{cut} bytes");
        }
        for garbage in [&b"HTTP/1.1"[..], &[0x30, 0x80, 0, 0], &[0x30, 2, 4, 0]] {
            assert!(read(garbage).is_err(), "{garbage:?}");
            assert_eq!(id(garbage), None);
        }
    }

    #[test]
    fn what_the_directory_says_is_one_line_of_the_log() {
        let said = [b"no\nsuch\x1b[2J base".as_slice(), &[b'x'; 1_000]].concat();
        let mut out = Vec::new();
        write(7, SEARCH_DONE, &mut out, |out| {
            ber::octets(ENUMERATED, &[32], out);
            ber::octets(OCTET_STRING, b"", out);
            ber::octets(OCTET_STRING, &said, out);
        });
        let (message, _) = read(&out).unwrap().unwrap();
        let Ended { code, text } = message.ended().unwrap();
        assert!(text.starts_with("no such [2J basexxx"), "{text}");
        assert_eq!((code, text.chars().count()), (32, 200));
    }

    #[test]
    fn damage_is_noticed_without_a_panic() {
        let bytes = entry(&[("uid", &[b"alice"])]);
        for at in 0..bytes.len() {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                if let Ok(Some((message, _))) = read(&damaged) {
                    let _ = (message.entry(), message.ended());
                }
            }
        }
    }
}
