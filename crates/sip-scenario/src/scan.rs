//! What is read of a message that came: as little as the step needs.

/// The head of a message, as far as every step needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) start: Start<'a>,
    pub(crate) call_id: &'a [u8],
    pub(crate) cseq: u32,
    pub(crate) cseq_method: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start<'a> {
    Request(&'a [u8]),
    Response(u16),
}

impl<'a> Received<'a> {
    /// Reads the start line, Call-ID and CSeq; `None` where one of the first two is missing.
    /// As in SIPp, a message without CSeq is of number 0 and of no method.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let first = bytes.get(..memchr::memchr(b'\n', bytes)?)?;
        let start = if let Some(rest) = first.strip_prefix(b"SIP/2.0 ") {
            let code = rest.get(..3)?;
            let digit = |n: usize| code.get(n).map(|b| u16::from(b.wrapping_sub(b'0')));
            let (a, b, c) = (digit(0)?, digit(1)?, digit(2)?);
            if a > 9 || b > 9 || c > 9 {
                return None;
            }
            Start::Response(a * 100 + b * 10 + c)
        } else {
            Start::Request(first.get(..memchr::memchr(b' ', first)?)?)
        };
        let (mut call_id, mut cseq) = (None, None);
        for line in Lines::new(bytes) {
            // Both begin with the same letter in their long forms.
            match line.first() {
                Some(b'C' | b'c') => {
                    if let Some(value) = value_if(line, b"Call-ID") {
                        call_id = Some(value);
                    } else if let Some(value) = value_if(line, b"CSeq") {
                        cseq = Some(value);
                    }
                }
                Some(b'i' | b'I') => {
                    if let Some(value) = value_if(line, b"i") {
                        call_id = Some(value);
                    }
                }
                _ => {}
            }
            if call_id.is_some() && cseq.is_some() {
                break;
            }
        }
        let (number, method) = split_cseq(cseq.unwrap_or_default());
        Some(Self {
            bytes,
            start,
            call_id: call_id.filter(|id| !id.is_empty())?,
            cseq: number,
            cseq_method: method,
        })
    }

    /// The hash of the whole message, by which a retransmission is known.
    pub(crate) fn hash(&self, state: &impl std::hash::BuildHasher) -> u64 {
        // 0 stands for none.
        state.hash_one(self.bytes) | 1
    }
}

/// The number and the method of a CSeq.
pub(crate) fn split_cseq(value: &[u8]) -> (u32, &[u8]) {
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, method) = value.split_at_checked(digits).unwrap_or((value, b""));
    let number = number.iter().fold(0u32, |n, digit| {
        n.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
    });
    (number, method.trim_ascii())
}

/// The header lines of a message, without their line ends. A line that continues the one
/// before (RFC 3261 7.3.1) is part of it, as it came.
struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    /// Begins behind the start line.
    fn new(bytes: &'a [u8]) -> Self {
        let at = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        Self {
            rest: bytes.get(at..).unwrap_or_default(),
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut len = line_len(self.rest);
        if matches!(self.rest.get(..len)?, b"" | b"\r") {
            return None;
        }
        while let Some(b' ' | b'\t') = self.rest.get(len + 1) {
            len += 1 + line_len(self.rest.get(len + 1..)?);
        }
        let line = self.rest.get(..len)?;
        self.rest = self.rest.get(len + 1..).unwrap_or_default();
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// How long the first line is, its line feed not counted.
fn line_len(bytes: &[u8]) -> usize {
    memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())
}

/// The value of a header line, if it bears this name.
fn value_if<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let head = line.get(..name.len())?;
    if !head.eq_ignore_ascii_case(name) {
        return None;
    }
    let behind = line.get(name.len()..)?.trim_ascii_start();
    Some(behind.strip_prefix(b":")?.trim_ascii())
}

/// The short form of a header's name (RFC 3261 7.3.3).
fn short_form(name: &[u8]) -> Option<&'static [u8]> {
    const FORMS: [(&[u8], &[u8]); 10] = [
        (b"Call-ID", b"i"),
        (b"Contact", b"m"),
        (b"Content-Encoding", b"e"),
        (b"Content-Length", b"l"),
        (b"Content-Type", b"c"),
        (b"From", b"f"),
        (b"Subject", b"s"),
        (b"Supported", b"k"),
        (b"To", b"t"),
        (b"Via", b"v"),
    ];
    let found = FORMS
        .iter()
        .find(|(long, _)| long.eq_ignore_ascii_case(name));
    found.map(|(_, short)| *short)
}

/// The header lines of a name, each as its name and its value.
pub(crate) fn headers<'a>(
    message: &'a [u8],
    name: &'a [u8],
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let short = short_form(name);
    Lines::new(message).filter_map(move |line| {
        let value = value_if(line, name).or_else(|| value_if(line, short?))?;
        let colon = memchr::memchr(b':', line)?;
        Some((line.get(..colon)?.trim_ascii_end(), value))
    })
}

/// The value of the first header of a name.
pub(crate) fn header<'a>(message: &'a [u8], name: &'a [u8]) -> Option<&'a [u8]> {
    headers(message, name).next().map(|(_, value)| value)
}

/// The value of a header in a command of another instance, whose first line is
/// a header too.
pub(crate) fn command_header<'a>(command: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    Lines { rest: command }.find_map(|line| value_if(line, name))
}

/// What follows the empty line.
pub(crate) fn body(message: &[u8]) -> &[u8] {
    match memchr::memmem::find(message, b"\r\n\r\n") {
        Some(at) => message.get(at + 4..).unwrap_or_default(),
        None => b"",
    }
}

/// The value of a parameter such as `tag` or `branch`.
pub(crate) fn parameter<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    value.split(|b| *b == b';').skip(1).find_map(|part| {
        let part = part.trim_ascii();
        let head = part.get(..name.len())?;
        let behind = part.get(name.len()..)?.trim_ascii_start();
        let value = behind.strip_prefix(b"=")?.trim_ascii();
        head.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The branch of a message's first Via, behind which others may stand on the same line.
/// Empty where there is none.
pub(crate) fn branch(message: &[u8]) -> &[u8] {
    let via = header(message, b"Via").unwrap_or_default();
    let branch = parameter(via, b"branch").unwrap_or_default();
    let ends = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
    branch.split(ends).next().unwrap_or_default()
}

/// Appends a part of a header without the line ends that are in it: what is put into
/// another line stays within that.
pub(crate) fn write_unfolded(value: &[u8], out: &mut Vec<u8>) {
    out.extend(value.iter().filter(|byte| !matches!(byte, b'\r' | b'\n')));
}

/// What stands between `<` and `>`.
pub(crate) fn in_brackets(value: &[u8]) -> Option<&[u8]> {
    let open = memchr::memchr(b'<', value)?;
    let rest = value.get(open + 1..)?;
    rest.get(..memchr::memchr(b'>', rest)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] =
        b"INVITE sip:a@b SIP/2.0\r\nv: one\r\nVia : two\r\nt: <sip:x@y>;tag=7 \r\n\
        i: abc \r\nCSeq: 12 INVITE\r\n\r\nbody\r\nVia: no\r\n";

    #[test]
    fn the_head_is_read() {
        let received = Received::read(MESSAGE).unwrap();
        assert_eq!(received.start, Start::Request(b"INVITE"));
        assert_eq!((received.call_id, received.cseq), (&b"abc"[..], 12));
        assert_eq!(received.cseq_method, b"INVITE");
        let response = b"SIP/2.0 486 Busy\r\nCall-ID: x\r\nCSeq: 1 BYE\r\n\r\n";
        assert_eq!(
            Received::read(response).unwrap().start,
            Start::Response(486)
        );
        let without = Received::read(b"SIP/2.0 200 OK\r\nCall-ID: x\r\n\r\nCSeq: 1 A").unwrap();
        assert_eq!((without.cseq, without.cseq_method), (0, &b""[..]));
        for bad in [
            &b""[..],
            b"\r\n",
            b"INVITE\r\nCall-ID: x\r\nCSeq: 1 A\r\n\r\n",
            b"SIP/2.0 4x6 Busy\r\nCall-ID: x\r\nCSeq: 1 BYE\r\n\r\n",
            b"SIP/2.0 200 OK\r\nCall-ID:\r\nCSeq: 1 BYE\r\n\r\n",
            b"SIP/2.0 200 OK\r\nCSeq: 1 BYE\r\n\r\nCall-ID: x",
        ] {
            assert!(Received::read(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn headers_are_found_by_either_name_and_not_in_the_body() {
        let values: Vec<&[u8]> = headers(MESSAGE, b"Via").map(|(_, value)| value).collect();
        assert_eq!(values, [&b"one"[..], b"two"]);
        let to = header(MESSAGE, b"To").unwrap();
        assert_eq!(parameter(to, b"tag"), Some(&b"7"[..]));
        assert_eq!(in_brackets(to), Some(&b"sip:x@y"[..]));
        assert_eq!(header(MESSAGE, b"Contact"), None);
        assert_eq!(body(MESSAGE), b"body\r\nVia: no\r\n");
    }

    #[test]
    fn a_line_that_begins_with_white_space_continues_the_one_before() {
        let message = b"SIP/2.0 401 X\r\nTo: <sip:x>\r\n\t;tag=folded\r\nCall-ID:\r\n abc\r\n\
            WWW-Authenticate: Digest\r\n realm=\"r\",\r\n\t nonce=\"n\"\r\n \r\n\
            CSeq: 7\r\n\tREGISTER\r\n\r\n To: body\r\n";
        let received = Received::read(message).unwrap();
        assert_eq!((received.call_id, received.cseq), (&b"abc"[..], 7));
        assert_eq!(received.cseq_method, b"REGISTER");
        let to = header(message, b"To").unwrap();
        assert_eq!(to, b"<sip:x>\r\n\t;tag=folded");
        assert_eq!(parameter(to, b"tag"), Some(&b"folded"[..]));
        let challenge = header(message, b"WWW-Authenticate").unwrap();
        assert_eq!(challenge, b"Digest\r\n realm=\"r\",\r\n\t nonce=\"n\"");
        assert_eq!(headers(message, b"To").count(), 1);
        // Whatever the line ends are, and where the headers just end.
        let headless = b"X\nTo: a\n b\n  c\nVia: d\n ";
        assert_eq!(header(headless, b"To"), Some(&b"a\n b\n  c"[..]));
        assert_eq!(header(headless, b"Via"), Some(&b"d"[..]));
        assert_eq!(
            command_header(b"To: a\r\n b\r\n", b"To"),
            Some(&b"a\r\n b"[..])
        );
    }

    #[test]
    fn a_branch_ends_where_the_next_via_begins() {
        for (via, branch) in [
            ("SIP/2.0/UDP h1;branch=z1", "z1"),
            ("SIP/2.0/UDP h1;branch=z1, SIP/2.0/UDP h2;branch=z2", "z1"),
            ("SIP/2.0/UDP h1;branch=z1,SIP/2.0/UDP h2", "z1"),
            ("SIP/2.0/UDP h1;branch=z1 ,SIP/2.0/UDP h2", "z1"),
            ("SIP/2.0/UDP h1;branch = z1;rport", "z1"),
            ("SIP/2.0/UDP h1;branch=z1\r\n ;rport", "z1"),
            ("SIP/2.0/UDP h1;branch=", ""),
            ("SIP/2.0/UDP h1", ""),
        ] {
            let message = format!("BYE a SIP/2.0\r\nv: {via}\r\nVia: b;branch=z3\r\n\r\n");
            assert_eq!(
                super::branch(message.as_bytes()),
                branch.as_bytes(),
                "{via}"
            );
        }
        assert_eq!(branch(b"BYE a SIP/2.0\r\n\r\n"), b"");
    }
}
