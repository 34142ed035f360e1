//! MIME entities (RFC 2045) and `multipart/signed` (RFC 1847 2.1), with line ends of CRLF
//! as SIP and S/MIME have them.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use crate::error::OpenError;

/// How bytes are written into a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// As they are: SIP carries any bytes (RFC 3261 7.4.1).
    #[default]
    Binary,
    /// In base64, as mail has it: for readers who know nothing else.
    Base64,
}

impl Transfer {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Base64 => "base64",
        }
    }

    /// What a Content-Transfer-Encoding says; the default is text as it is (RFC 2045 6.1).
    pub(crate) fn read(value: Option<&[u8]>) -> Result<Self, OpenError> {
        let Some(value) = value else {
            return Ok(Self::Binary);
        };
        let value = value.trim_ascii();
        if value.eq_ignore_ascii_case(b"base64") {
            Ok(Self::Base64)
        } else if [&b"binary"[..], b"8bit", b"7bit"]
            .iter()
            .any(|plain| value.eq_ignore_ascii_case(plain))
        {
            Ok(Self::Binary)
        } else {
            Err(OpenError::Unsupported("this transfer encoding"))
        }
    }

    /// Writes bytes, in lines of 76 characters (RFC 2045 6.8).
    pub(crate) fn write(self, out: &mut Vec<u8>, bytes: &[u8]) {
        match self {
            Self::Binary => out.extend_from_slice(bytes),
            Self::Base64 => {
                for line in bytes.chunks(57) {
                    out.extend_from_slice(STANDARD.encode(line).as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
    }

    /// The bytes that were written.
    pub(crate) fn decode(self, text: &[u8]) -> Result<Cow<'_, [u8]>, OpenError> {
        match self {
            Self::Binary => Ok(Cow::Borrowed(text)),
            Self::Base64 => {
                let packed: Vec<u8> = text
                    .iter()
                    .copied()
                    .filter(|byte| !byte.is_ascii_whitespace())
                    .collect();
                let decoded = STANDARD.decode(packed);
                decoded
                    .map(Cow::Owned)
                    .map_err(|_| OpenError::Mime("this is no base64"))
            }
        }
    }
}

/// A media type and its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MediaType<'a> {
    value: &'a [u8],
}

impl<'a> MediaType<'a> {
    pub(crate) const fn new(value: &'a [u8]) -> Self {
        Self { value }
    }

    /// Whether it is this type, whatever its parameters.
    pub(crate) fn is(&self, name: &str) -> bool {
        let end = memchr::memchr(b';', self.value).unwrap_or(self.value.len());
        let own = self.value.get(..end).unwrap_or_default().trim_ascii();
        own.eq_ignore_ascii_case(name.as_bytes())
    }

    /// A parameter's value, without the quotes around it.
    pub(crate) fn param(&self, name: &str) -> Option<&'a [u8]> {
        let start = memchr::memchr(b';', self.value)?;
        let mut rest = self.value.get(start..)?;
        while let Some(after) = rest.strip_prefix(b";") {
            let equals = memchr::memchr(b'=', after)?;
            let (found, after) = after.split_at_checked(equals)?;
            let after = after.get(1..)?.trim_ascii_start();
            let (value, behind) = match after.strip_prefix(b"\"") {
                // No value that is read here has an escaped quote in it.
                Some(quoted) => {
                    let end = memchr::memchr(b'"', quoted)?;
                    (quoted.get(..end)?, quoted.get(end + 1..)?)
                }
                None => {
                    let end = memchr::memchr(b';', after).unwrap_or(after.len());
                    let (value, behind) = after.split_at_checked(end)?;
                    (value.trim_ascii(), behind)
                }
            };
            if found.trim_ascii().eq_ignore_ascii_case(name.as_bytes()) {
                return Some(value);
            }
            rest = behind.trim_ascii_start();
        }
        None
    }
}

/// A part with headers of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entity<'a> {
    content_type: Option<&'a [u8]>,
    transfer: Option<&'a [u8]>,
    pub(crate) body: &'a [u8],
}

impl<'a> Entity<'a> {
    /// Takes headers and body apart.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, OpenError> {
        let mut this = Self {
            content_type: None,
            transfer: None,
            body: &[],
        };
        let mut rest = bytes;
        loop {
            if let Some(body) = rest.strip_prefix(b"\r\n") {
                this.body = body;
                return Ok(this);
            }
            let (line, after) = header(rest)?;
            let colon =
                memchr::memchr(b':', line).ok_or(OpenError::Mime("a header has no colon"))?;
            let (name, value) = line.split_at(colon);
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            let name = name.trim_ascii_end();
            let place = if name.eq_ignore_ascii_case(b"Content-Type") {
                Some(&mut this.content_type)
            } else if name.eq_ignore_ascii_case(b"Content-Transfer-Encoding") {
                Some(&mut this.transfer)
            } else {
                None
            };
            if let Some(place) = place
                && place.replace(value).is_some()
            {
                return Err(OpenError::Mime("a header is there twice"));
            }
            rest = after;
        }
    }

    /// The type; plain text where nothing is said (RFC 2045 5.2).
    pub(crate) fn content_type(&self) -> &'a [u8] {
        self.content_type.unwrap_or(b"text/plain")
    }

    pub(crate) fn transfer(&self) -> Result<Transfer, OpenError> {
        Transfer::read(self.transfer)
    }
}

/// The first header, which may go on over several lines, and what follows it.
fn header(bytes: &[u8]) -> Result<(&[u8], &[u8]), OpenError> {
    for end in memmem::find_iter(bytes, b"\r\n") {
        let after = bytes.get(end + 2..).unwrap_or_default();
        if !matches!(after.first(), Some(b' ' | b'\t')) {
            return Ok((bytes.get(..end).unwrap_or_default(), after));
        }
    }
    Err(OpenError::Mime("the headers do not end"))
}

/// The two parts of a `multipart/signed`.
pub(crate) struct Parts<'a> {
    /// What is signed, byte for byte.
    pub(crate) signed: &'a [u8],
    /// The signature, an entity.
    pub(crate) signature: &'a [u8],
    /// What follows the last boundary.
    pub(crate) epilogue: &'a [u8],
}

/// Parts a `multipart/signed`.
pub(crate) fn two_parts<'a>(body: &'a [u8], boundary: &[u8]) -> Result<Parts<'a>, OpenError> {
    const WRONG: OpenError = OpenError::Mime("it has not two parts");
    // RFC 2046 5.1.1: a boundary has 1 to 70 characters.
    if boundary.is_empty() || boundary.len() > 70 {
        return Err(OpenError::Mime("the boundary has not 1 to 70 characters"));
    }
    let delimiter = [b"\r\n--", boundary].concat();
    let opening = delimiter.get(2..).unwrap_or_default();
    let first = match body.strip_prefix(opening) {
        Some(after) => after,
        // What stands before the first boundary is for people.
        None => behind(body, &delimiter).ok_or(WRONG)?.1,
    };
    let (signed, after) = behind(line_end(first).ok_or(WRONG)?, &delimiter).ok_or(WRONG)?;
    let (signature, after) = behind(line_end(after).ok_or(WRONG)?, &delimiter).ok_or(WRONG)?;
    let epilogue = after.strip_prefix(b"--").ok_or(WRONG)?;
    Ok(Parts {
        signed,
        signature,
        epilogue,
    })
}

/// What stands before the delimiter, and what behind it.
fn behind<'a>(bytes: &'a [u8], delimiter: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memmem::find(bytes, delimiter)?;
    Some((bytes.get(..at)?, bytes.get(at + delimiter.len()..)?))
}

/// What follows the end of a boundary's line, on which only white space may stand.
fn line_end(bytes: &[u8]) -> Option<&[u8]> {
    let start = bytes.iter().position(|&b| !matches!(b, b' ' | b'\t'))?;
    bytes.get(start..)?.strip_prefix(b"\r\n")
}

/// A text with each of its lines ended by CRLF, as it is signed (RFC 8551 3.1.1). What is no
/// text stays as it is.
pub(crate) fn canonical<'a>(content_type: MediaType<'_>, body: &'a [u8]) -> Cow<'a, [u8]> {
    let is_text = content_type.is("application/sdp")
        || content_type
            .value
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"text/"));
    let is_bare = |(at, byte): (usize, &u8)| {
        *byte == b'\n' && at.checked_sub(1).and_then(|before| body.get(before)) != Some(&b'\r')
    };
    if !is_text || !body.iter().enumerate().any(is_bare) {
        return Cow::Borrowed(body);
    }
    let mut out = Vec::with_capacity(body.len() + 32);
    for found in body.iter().enumerate() {
        if is_bare(found) {
            out.push(b'\r');
        }
        out.push(*found.1);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_whatever_is_around_them() {
        let value = b"multipart/signed ; Micalg=sha-256;\r\n\tboundary=\"a;b=c\" ;protocol = \"application/pkcs7-signature\"";
        let media = MediaType::new(value);
        assert!(media.is("Multipart/Signed"));
        assert!(!media.is("multipart/mixed"));
        assert_eq!(media.param("boundary"), Some(&b"a;b=c"[..]));
        assert_eq!(media.param("micalg"), Some(&b"sha-256"[..]));
        assert_eq!(
            media.param("PROTOCOL"),
            Some(&b"application/pkcs7-signature"[..])
        );
        assert_eq!(media.param("b"), None);
        for wrong in ["a/b;c", "a/b;c=\"d", "a/b;;=", "", ";", "a/b"] {
            assert_eq!(MediaType::new(wrong.as_bytes()).param("c"), None, "{wrong}");
        }
    }

    #[test]
    fn an_entity_has_headers_and_a_body() {
        let entity = Entity::read(
            b"Content-Type: application/sdp\r\nX: a\r\n b\r\ncontent-transfer-encoding : BASE64\r\n\r\ndj0w\r\n",
        )
        .unwrap();
        assert_eq!(entity.content_type(), b"application/sdp");
        let transfer = entity.transfer().unwrap();
        assert_eq!(&*transfer.decode(entity.body).unwrap(), b"v=0");
        let plain = Entity::read(b"\r\nbody").unwrap();
        assert_eq!(
            (plain.content_type(), plain.body),
            (&b"text/plain"[..], &b"body"[..])
        );
        for wrong in [
            &b""[..],
            b"Content-Type: a/b",
            b"Content-Type: a/b\r\n",
            b"no colon\r\n\r\n",
            b"Content-Type: a/b\r\nContent-Type: c/d\r\n\r\n",
        ] {
            assert!(Entity::read(wrong).is_err(), "{}", wrong.escape_ascii());
        }
        assert!(Transfer::read(Some(b"quoted-printable")).is_err());
    }

    #[test]
    fn a_multipart_has_two_parts_and_an_end() {
        let parts = |body: &str| {
            two_parts(body.as_bytes(), b"b")
                .map(|parts| (parts.signed.to_vec(), parts.signature.to_vec()))
                .ok()
        };
        let good = Some((b"one\r\n".to_vec(), b"two".to_vec()));
        assert_eq!(parts("--b\r\none\r\n\r\n--b\r\ntwo\r\n--b--\r\n"), good);
        assert_eq!(
            parts("for people\r\n--b \t\r\none\r\n\r\n--b\r\ntwo\r\n--b--"),
            good
        );
        let followed = two_parts(b"--b\r\none\r\n--b\r\ntwo\r\n--b--\r\nthree", b"b").unwrap();
        assert_eq!(followed.epilogue, b"\r\nthree");
        for wrong in [
            "",
            "--b",
            "--b\r\n",
            "--b\r\none\r\n--b--",
            "--b\r\none\r\n--b\r\ntwo",
            "--b\r\none\r\n--b\r\ntwo\r\n--b\r\nthree\r\n--b--",
            "--bx\r\none\r\n--b\r\ntwo\r\n--b--",
            "--b\none\n--b\ntwo\n--b--",
        ] {
            assert_eq!(parts(wrong), None, "{}", wrong.escape_debug());
        }
        assert!(two_parts(b"--\r\na\r\n--\r\nb\r\n----", b"").is_err());
    }

    #[test]
    fn lines_of_a_text_end_with_crlf_and_bytes_stay() {
        let sdp = MediaType::new(b"application/sdp");
        assert_eq!(&*canonical(sdp, b"v=0\no=-\r\n\n"), b"v=0\r\no=-\r\n\r\n");
        assert!(matches!(canonical(sdp, b"v=0\r\n"), Cow::Borrowed(_)));
        let bytes = MediaType::new(b"application/octet-stream");
        assert_eq!(&*canonical(bytes, b"a\nb"), b"a\nb");
    }
}
