//! A quick look at a message before it is parsed.

/// Whether a datagram may be part of a dialog or transaction, or answer a challenge:
/// a response, an ACK, a request with a tag in To, or one with credentials. Parsing
/// finds out later whether that is so.
pub fn may_go_on(bytes: &[u8]) -> bool {
    // RFC 3261 7.5: "Implementations processing SIP messages over stream-oriented transports MUST
    // ignore any CRLF appearing before the start-line"; so does the parser whatever brings them.
    let begins = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let bytes = bytes
        .get(begins.unwrap_or(bytes.len())..)
        .unwrap_or_default();
    if bytes.starts_with(b"SIP/2.0 ") || bytes.starts_with(b"ACK ") {
        return true;
    }
    let mut rest = bytes;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (_, after) = rest.split_at(end);
        let line = after.get(1..).unwrap_or_default();
        match line.first() {
            None | Some(b'\r' | b'\n') => return false,
            Some(b'T' | b't') if has_name(line, &[b"to", b"t"]) => {
                let value = line.get(..field_len(line)).unwrap_or_default();
                // However it is written; the parser will say what it is.
                if value
                    .windows(3)
                    .any(|three| three.eq_ignore_ascii_case(b"tag"))
                {
                    return true;
                }
            }
            Some(b'A' | b'a' | b'P' | b'p')
                if has_name(line, &[b"authorization", b"proxy-authorization"]) =>
            {
                return true;
            }
            _ => {}
        }
        rest = line;
    }
    false
}

/// The length of a header field with the lines that go on with it (RFC 3261 7.3.1).
fn field_len(bytes: &[u8]) -> usize {
    let ends = memchr::memchr_iter(b'\n', bytes);
    let mut ends = ends.filter(|end| !matches!(bytes.get(end + 1), Some(b' ' | b'\t')));
    ends.next().unwrap_or(bytes.len())
}

fn has_name(line: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|name| {
        line.split_at_checked(name.len())
            .is_some_and(|(begin, rest)| {
                begin.eq_ignore_ascii_case(name)
                    && rest
                        .iter()
                        .find(|byte| !matches!(byte, b' ' | b'\t'))
                        .is_some_and(|byte| *byte == b':')
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_seen_at_a_glance() {
        let request = |lines: &str| format!("INVITE sip:b@x SIP/2.0\r\n{lines}\r\n\r\nTo: x;tag=1");
        for (lines, goes_on) in [
            ("Via: a\r\nTo: <sip:b@x>", false),
            ("Via: a\r\nTo: <sip:b@x>;tag=7\r\nCSeq: 1 BYE", true),
            ("t :<sip:b@x>;x=1;tag=7", true),
            ("TO: <sip:b@x> ; Tag=7", true),
            ("Topic: x;tag=7", false),
            ("From: <sip:a@x>;tag=7", false),
            ("To: <sip:b@x>\r\nauthorization : Digest x", true),
            ("To: <sip:b@x>\r\nProxy-Authorization: Digest x", true),
            ("Proxy-Require: x", false),
            ("To: <sip:b@x>\r\n ;tag=7", true),
            ("To:\r\n\t<sip:b@x>\r\n ;\r\n tag=7\r\nCSeq: 1 BYE", true),
            ("To: <sip:b@x>\r\nX: a\r\n ;tag=7", false),
        ] {
            assert_eq!(may_go_on(request(lines).as_bytes()), goes_on, "{lines}");
        }
        assert!(may_go_on(b"SIP/2.0 200 OK\r\n\r\n"));
        assert!(may_go_on(
            b"\r\n\r\nBYE sip:b@x SIP/2.0\r\nTo: x;tag=1\r\n\r\n"
        ));
        assert!(may_go_on(b"ACK sip:b@x SIP/2.0\r\n\r\n"));
        for noise in [&b""[..], b"\n", b"INVITE", b"INVITE\nT", b"x\n\n"] {
            assert!(!may_go_on(noise));
        }
    }
}
