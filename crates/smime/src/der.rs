//! Reads BER as far as CMS needs it, and writes DER (X.690).
//!
//! RFC 5652 2: a CMS message may be BER; what is signed is DER. Elements of
//! indefinite length and octet strings in pieces are therefore read, to a
//! bounded depth, and never written.

use std::borrow::Cow;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// The bit of a tag that says that its contents are elements.
const CONSTRUCTED: u8 = 0x20;

/// How deep elements of indefinite length may lie in each other.
const DEPTH_MAX: usize = 12;

/// A context-specific tag whose contents are elements.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// A context-specific tag whose contents are a value.
pub(crate) const fn implicit(number: u8) -> u8 {
    0x80 | number
}

/// The bytes are no BER, or not what was expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// One element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    /// Without tag, length, and the mark of the end.
    pub(crate) contents: &'a [u8],
    /// With all of them.
    pub(crate) whole: &'a [u8],
    /// Whether its length was written before it, as DER has it.
    pub(crate) is_definite: bool,
}

impl<'a> Element<'a> {
    /// A reader of the elements in this one.
    pub(crate) const fn inside(&self) -> Reader<'a> {
        Reader {
            rest: self.contents,
        }
    }

    /// The value of an octet string, in one piece or in several.
    pub(crate) fn octets(&self) -> Result<Cow<'a, [u8]>, Malformed> {
        if self.tag & CONSTRUCTED == 0 {
            return Ok(Cow::Borrowed(self.contents));
        }
        let mut joined = Vec::with_capacity(self.contents.len());
        let mut pieces = self.inside();
        while !pieces.is_empty() {
            joined.extend_from_slice(pieces.expect(OCTET_STRING)?.contents);
        }
        Ok(Cow::Owned(joined))
    }
}

/// Reads elements one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, whatever it is.
    pub(crate) fn any(&mut self) -> Result<Element<'a>, Malformed> {
        let (element, rest) = element(self.rest, DEPTH_MAX)?;
        self.rest = rest;
        Ok(element)
    }

    /// The next element, which has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<Element<'a>, Malformed> {
        self.optional(tag)?.ok_or(Malformed)
    }

    /// The next element if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, Malformed> {
        if self.rest.first() == Some(&tag) {
            self.any().map(Some)
        } else {
            Ok(None)
        }
    }

    /// The value of an octet string that has this tag, in one piece or in several.
    pub(crate) fn octets(&mut self, tag: u8) -> Result<Option<Cow<'a, [u8]>>, Malformed> {
        let found = match self.optional(tag)? {
            Some(found) => Some(found),
            None => self.optional(tag | CONSTRUCTED)?,
        };
        found.map(|found| found.octets()).transpose()
    }

    /// An algorithm: its identifier, and the parameters that follow.
    pub(crate) fn algorithm(&mut self) -> Result<(&'a [u8], Reader<'a>), Malformed> {
        let mut inside = self.expect(SEQUENCE)?.inside();
        let oid = inside.expect(OID)?.contents;
        Ok((oid, inside))
    }

    /// Nothing more follows.
    pub(crate) const fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// The first element and what follows it.
fn element(input: &[u8], depth: usize) -> Result<(Element<'_>, &[u8]), Malformed> {
    let (&tag, after) = input.split_first().ok_or(Malformed)?;
    // CMS has no tag above 30.
    if tag & 0x1f == 0x1f {
        return Err(Malformed);
    }
    let (&first, after) = after.split_first().ok_or(Malformed)?;
    let (length, after) = match first {
        0x00..=0x7f => (usize::from(first), after),
        0x80 => return indefinite(input, tag, after, depth),
        0x81..=0x84 => {
            let (bytes, after) = after
                .split_at_checked(usize::from(first & 0x7f))
                .ok_or(Malformed)?;
            let length = bytes
                .iter()
                .fold(0_usize, |length, &byte| length << 8 | usize::from(byte));
            (length, after)
        }
        _ => return Err(Malformed),
    };
    let (contents, rest) = after.split_at_checked(length).ok_or(Malformed)?;
    let whole = input.get(..input.len() - rest.len()).ok_or(Malformed)?;
    let element = Element {
        tag,
        contents,
        whole,
        is_definite: true,
    };
    Ok((element, rest))
}

/// An element that ends with two zeros: they are found by walking what is in it.
fn indefinite<'a>(
    input: &'a [u8],
    tag: u8,
    after: &'a [u8],
    depth: usize,
) -> Result<(Element<'a>, &'a [u8]), Malformed> {
    if tag & CONSTRUCTED == 0 || depth == 0 {
        return Err(Malformed);
    }
    let mut rest = after;
    loop {
        if let Some(behind) = rest.strip_prefix(&[0, 0]) {
            let contents = after.get(..after.len() - rest.len()).ok_or(Malformed)?;
            let whole = input.get(..input.len() - behind.len()).ok_or(Malformed)?;
            let element = Element {
                tag,
                contents,
                whole,
                is_definite: false,
            };
            return Ok((element, behind));
        }
        (_, rest) = element(rest, depth - 1)?;
    }
}

/// Writes an element whose contents `write` writes.
pub(crate) fn write(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    // Nothing here is near 16 MiB.
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    match length {
        0..=0x7f => drop(out.splice(start..start, [low])),
        0x80..=0xff => drop(out.splice(start..start, [0x81, low])),
        0x100..=0xffff => drop(out.splice(start..start, [0x82, middle, low])),
        _ => drop(out.splice(start..start, [0x83, high, middle, low])),
    }
}

/// Writes an element with these contents.
pub(crate) fn value(out: &mut Vec<u8>, tag: u8, contents: &[u8]) {
    write(out, tag, |out| out.extend_from_slice(contents));
}

/// Writes an object identifier.
pub(crate) fn oid(out: &mut Vec<u8>, oid: &[u8]) {
    value(out, OID, oid);
}

/// Writes an algorithm without parameters.
pub(crate) fn algorithm(out: &mut Vec<u8>, of: &[u8]) {
    write(out, SEQUENCE, |out| oid(out, of));
}

/// Writes an algorithm whose parameters are NULL.
pub(crate) fn algorithm_null(out: &mut Vec<u8>, of: &[u8]) {
    write(out, SEQUENCE, |out| {
        oid(out, of);
        out.extend_from_slice(&[0x05, 0x00]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_form_are_written_and_read() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, 0x1_2345] {
            let contents = vec![7; length];
            let mut bytes = Vec::new();
            value(&mut bytes, OCTET_STRING, &contents);
            let mut reader = Reader::new(&bytes);
            let read = reader.expect(OCTET_STRING).unwrap();
            assert_eq!(read.contents, contents, "{length}");
            assert_eq!(read.whole, bytes);
            assert!(read.is_definite);
            reader.end().unwrap();
            for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
                assert!(Reader::new(&bytes[..cut]).any().is_err(), "{length} {cut}");
            }
        }
    }

    #[test]
    fn an_octet_string_in_pieces_is_joined() {
        // [0] of indefinite length with two pieces, and something behind it.
        let bytes = b"\xa0\x80\x04\x02ab\x04\x01c\x00\x00\x02\x01\x05";
        let mut reader = Reader::new(bytes);
        let joined = reader.octets(implicit(0)).unwrap().unwrap();
        assert_eq!(&*joined, b"abc");
        assert_eq!(reader.expect(INTEGER).unwrap().contents, [5]);
        // Pieces are octet strings, and the end is marked.
        for wrong in [
            &b"\xa0\x80\x02\x01\x05\x00\x00"[..],
            b"\xa0\x80\x04\x01c",
            b"\x80\x80\x04\x01c\x00\x00",
        ] {
            let found = Reader::new(wrong).octets(implicit(0));
            assert_eq!(found, Err(Malformed), "{wrong:02x?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| {
            let mut bytes = b"\x30\x80".repeat(depth);
            bytes.extend(b"\x00\x00".repeat(depth));
            Reader::new(&bytes).any().is_ok()
        };
        assert!(nested(DEPTH_MAX));
        assert!(!nested(DEPTH_MAX + 1));
        assert!(!nested(10_000));
    }

    #[test]
    fn a_length_past_the_end_is_refused() {
        for wrong in [
            &b""[..],
            b"\x30",
            b"\x30\x05\x01",
            b"\x30\x84\xff\xff\xff\xff\x00",
            b"\x30\x85\x00\x00\x00\x00\x01\x00",
            b"\x1f\x01\x00",
        ] {
            assert!(Reader::new(wrong).any().is_err(), "{wrong:02x?}");
        }
    }
}
