//! The Basic Encoding Rules as far as LDAP takes them (RFC 4511 5.1): lengths are definite,
//! tags have one byte.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Appends a value of parts that `content` appends. They are written in place, so that a
/// password among them is nowhere else.
pub(super) fn wrap(tag: u8, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[tag, 0x84, 0, 0, 0, 0]);
    let start = out.len();
    content(out);
    let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start - 4..start) {
        place.copy_from_slice(&len.to_be_bytes());
    }
}

/// Appends bytes.
pub(super) fn octets(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    match u8::try_from(bytes.len()) {
        Ok(len) if len < 0x80 => out.push(len),
        _ => {
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            out.push(0x84);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

/// Appends a number that is not below zero, as INTEGER or ENUMERATED.
pub(super) fn number(tag: u8, number: u32, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let zeros = bytes.iter().take(3).take_while(|&&byte| byte == 0).count();
    let short = bytes.get(zeros..).unwrap_or_default();
    // A first bit would be a sign.
    if short.first().is_some_and(|&byte| byte >= 0x80) {
        octets(tag, &[&[0], short].concat(), out);
    } else {
        octets(tag, short, out);
    }
}

/// Appends a BOOLEAN.
pub(super) fn boolean(value: bool, out: &mut Vec<u8>) {
    octets(BOOLEAN, &[if value { 0xff } else { 0 }], out);
}

/// Values in a row.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next value and its tag; `None` at the end, or where there is no whole value.
    pub(super) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (start, len) = header(self.0).ok()??;
        let tag = *self.0.first()?;
        let content = self.0.get(start..start.checked_add(len)?)?;
        self.0 = self.0.get(start + len..)?;
        Some((tag, content))
    }

    /// The next value, which has that tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .and_then(|(found, content)| (found == tag).then_some(content))
    }

    /// The next value, a number with that tag that is not below zero.
    pub(super) fn number(&mut self, tag: u8) -> Option<u32> {
        let bytes = self.expect(tag)?;
        if bytes.is_empty() || bytes.len() > 5 || *bytes.first()? >= 0x80 {
            return None;
        }
        let number = bytes
            .iter()
            .fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
        u32::try_from(number).ok()
    }
}

/// How long the first value of `input` is, header included; `None` where not even that is
/// whole. An error where it can be no value.
pub(super) fn len(input: &[u8]) -> Result<Option<usize>, ()> {
    Ok(header(input)?.and_then(|(start, len)| start.checked_add(len)))
}

/// What is there of the content of the first value; `None` where not even that has begun.
pub(super) fn begun(input: &[u8]) -> Option<&[u8]> {
    let (start, _) = header(input).ok()??;
    input.get(start..)
}

/// Where the content of the first value begins, and its length.
fn header(input: &[u8]) -> Result<Option<(usize, usize)>, ()> {
    let Some(&first) = input.get(1) else {
        return Ok(None);
    };
    if first < 0x80 {
        return Ok(Some((2, usize::from(first))));
    }
    let count = usize::from(first & 0x7f);
    // RFC 4511 5.1: "Only the definite form of length encoding is used." More than four
    // bytes would be more than anybody may send.
    if !(1..=4).contains(&count) {
        return Err(());
    }
    let Some(bytes) = input.get(2..2 + count) else {
        return Ok(None);
    };
    let len = bytes
        .iter()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    Ok(Some((2 + count, len)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn numbers_have_no_sign_and_are_as_short_as_may_be() {
        for (value, bytes) in [
            (0, &[INTEGER, 1, 0][..]),
            (127, &[INTEGER, 1, 127]),
            (128, &[INTEGER, 2, 0, 128]),
            (0x7fff_ffff, &[INTEGER, 4, 0x7f, 0xff, 0xff, 0xff]),
            (u32::MAX, &[INTEGER, 5, 0, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let mut out = Vec::new();
            number(INTEGER, value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(Reader(&out).number(INTEGER), Some(value));
        }
        for bad in [
            &[INTEGER, 0][..],
            &[INTEGER, 1, 0x80],
            &[INTEGER, 6, 0, 0, 0, 0, 0, 0],
            &[INTEGER, 5, 1, 0, 0, 0, 0],
            &[ENUMERATED, 1, 0],
        ] {
            assert_eq!(Reader(bad).number(INTEGER), None, "{bad:?}");
        }
    }

    #[test]
    fn values_of_any_length_are_read_as_they_were_written() {
        for len in [0, 1, 127, 128, 255, 256, 70_000] {
            let bytes = vec![7; len];
            let mut out = Vec::new();
            wrap(SEQUENCE, &mut out, |out| octets(OCTET_STRING, &bytes, out));
            assert_eq!(super::len(&out), Ok(Some(out.len())));
            let mut inner = Reader(Reader(&out).expect(SEQUENCE).unwrap());
            assert_eq!(inner.expect(OCTET_STRING), Some(bytes.as_slice()));
            assert_eq!(inner.next(), None);
            for cut in 0..out.len().min(300) {
                assert_eq!(Reader(&out[..cut]).next(), None, "{cut} of {len}");
            }
        }
    }

    #[test]
    fn lengths_that_nobody_may_send_are_errors() {
        assert_eq!(len(&[SEQUENCE, 0x80]), Err(()), "indefinite");
        assert_eq!(len(&[SEQUENCE, 0x85, 0, 0, 0, 0, 1]), Err(()));
        assert_eq!(len(&[SEQUENCE, 0xff]), Err(()));
        assert_eq!(len(&[SEQUENCE, 0x84, 0xff]), Ok(None), "not whole");
        assert_eq!(
            len(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]),
            Ok(Some(0xffff_ffff + 6))
        );
    }
}
