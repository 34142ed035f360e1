//! Masks what would let a reader of the log call in somebody's name, or listen.

use std::ops::Range;

/// Headers with credentials or challenges.
const CREDENTIAL_HEADERS: [&str; 6] = [
    "authorization",
    "proxy-authorization",
    "www-authenticate",
    "proxy-authenticate",
    "authentication-info",
    "proxy-authentication-info",
];

/// Parameters of these that are proofs, or carry one.
const SECRET_PARAMS: [&str; 5] = ["response", "nonce", "nextnonce", "rspauth", "opaque"];

const MASK: &str = "***";

/// A message as text: proofs in credentials, passwords in URIs and media keys
/// masked, control characters escaped.
pub fn masked(message: &[u8]) -> String {
    let mut out = String::with_capacity(message.len());
    let mut done = 0;
    for secret in secrets(message) {
        push_clean(
            message.get(done..secret.start).unwrap_or_default(),
            &mut out,
        );
        out.push_str(MASK);
        done = secret.end;
    }
    push_clean(message.get(done..).unwrap_or_default(), &mut out);
    let whole = out.trim_end_matches('\n').len();
    out.truncate(whole);
    out
}

/// The same message with the same secrets blotted out: of the same length and form, so that
/// programs read it as the one that was on the wire.
pub(crate) fn blotted(message: &[u8]) -> Vec<u8> {
    let mut out = message.to_vec();
    for secret in secrets(message) {
        let Some(secret) = out.get_mut(secret) else {
            continue;
        };
        let last = secret.len().saturating_sub(1);
        for (at, byte) in secret.iter_mut().enumerate() {
            let is_quote = *byte == b'"' && (at == 0 || at == last);
            if !is_quote {
                *byte = b'*';
            }
        }
    }
    out
}

/// What of a message is secret, in order.
fn secrets(message: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut in_body = false;
    let mut header = Header::Plain;
    let mut start = 0;
    for whole in message.split(|byte| *byte == b'\n') {
        let line = whole.strip_suffix(b"\r").unwrap_or(whole);
        let mut tell = |secret: Range<usize>| {
            if !secret.is_empty() {
                found.push(start + secret.start..start + secret.end);
            }
        };
        let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
        let key_at = in_body.then(|| media_key(line)).flatten();
        if let Some(key_at) = key_at {
            tell(key_at..line.len());
        } else if line.is_empty() {
            // A body may hold a message (RFC 3420, RFC 3261 23.4), which is masked alike.
            in_body = true;
            header = Header::Plain;
        } else {
            // A folded line continues the header before it.
            if !is_folded {
                header = Header::of(line);
            }
            match header {
                Header::Plain => uri_passwords(line, &mut tell),
                // Its folds were looked through with its first line.
                Header::Digest if is_folded => {}
                Header::Digest => digest(with_folds(message, start), &mut tell),
                Header::Opaque => {
                    let colon = line.iter().position(|byte| *byte == b':');
                    let value = colon.filter(|_| !is_folded).map_or(0, |colon| colon + 1);
                    tell(after_space(line, value)..line.len());
                }
            }
        }
        start += whole.len() + 1;
    }
    found
}

#[derive(Clone, Copy)]
enum Header {
    Plain,
    /// Parameters are masked by name.
    Digest,
    /// Another scheme, or one that is yet to come: all of it is the secret.
    Opaque,
}

impl Header {
    fn of(line: &[u8]) -> Self {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Self::Plain;
        };
        let (name, value) = line.split_at(colon);
        let name = name.trim_ascii();
        let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
        if !CREDENTIAL_HEADERS.iter().any(is) {
            return Self::Plain;
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii_start();
        let mut words = value.split(u8::is_ascii_whitespace);
        let scheme = words.next().unwrap_or_default();
        let has_no_scheme = is(&"authentication-info") || is(&"proxy-authentication-info");
        if has_no_scheme || scheme.eq_ignore_ascii_case(b"digest") {
            Self::Digest
        } else {
            Self::Opaque
        }
    }
}

/// The first place from `at` on that is no space.
fn after_space(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or_default();
    at + rest.len() - rest.trim_ascii_start().len()
}

/// The header that begins at `start`, with the lines that continue it.
fn with_folds(message: &[u8], start: usize) -> &[u8] {
    let rest = message.get(start..).unwrap_or_default();
    let is_last = |at: &usize| {
        rest.get(*at) == Some(&b'\n') && !matches!(rest.get(at + 1), Some(b' ' | b'\t'))
    };
    let end = (0..rest.len()).find(is_last).unwrap_or(rest.len());
    let header = rest.get(..end).unwrap_or_default();
    header.strip_suffix(b"\r").unwrap_or(header)
}

/// Tells what is secret in a header of the digest scheme: values of parameters, and passwords in
/// the URIs that it quotes. Line ends and the space after them are no part of a secret.
fn digest(header: &[u8], tell: &mut impl FnMut(Range<usize>)) {
    let mut found: Vec<Range<usize>> = Vec::new();
    params(header, &mut |secret| found.push(secret));
    uri_passwords(header, &mut |secret| found.push(secret));
    found.sort_by_key(|secret| secret.start);
    let mut done = 0;
    for secret in found {
        // One may lie in the other.
        let mut start = secret.start.max(done);
        done = secret.end.max(done);
        let text = header.get(start..secret.end).unwrap_or_default();
        for whole in text.split(|byte| *byte == b'\n') {
            let line = whole.strip_suffix(b"\r").unwrap_or(whole);
            tell(start + after_space(line, 0)..start + line.len());
            start += whole.len() + 1;
        }
    }
}

/// Tells the values of secret parameters.
fn params(line: &[u8], tell: &mut impl FnMut(Range<usize>)) {
    let mut at = 0;
    while let Some(rest) = line.get(at..)
        && let Some(equals) = rest.iter().position(|byte| *byte == b'=')
    {
        let front = rest.get(..equals).unwrap_or_default().trim_ascii_end();
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let before = front.iter().rposition(|byte| !is_of_name(byte));
        let name = front.get(before.map_or(0, |before| before + 1)..);
        let name = name.unwrap_or_default();
        let value = value_at(line, at + equals + 1);
        at = value.end;
        let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
        if SECRET_PARAMS.iter().any(is) {
            tell(value);
        }
    }
}

/// Where a parameter's value is, quoted or not.
fn value_at(line: &[u8], at: usize) -> Range<usize> {
    let start = after_space(line, at);
    let value = line.get(start..).unwrap_or_default();
    let len = if value.starts_with(b"\"") {
        let mut escaped = false;
        let end = value.iter().skip(1).position(|byte| {
            let ends = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            ends
        });
        end.map_or(value.len(), |end| end + 2)
    } else {
        let ends = |byte: &u8| matches!(byte, b',' | b' ' | b'\t' | b'\n');
        let end = value.iter().position(ends).unwrap_or(value.len());
        let value = value.get(..end).unwrap_or_default();
        value.strip_suffix(b"\r").unwrap_or(value).len()
    };
    start..start + len
}

/// Tells the password in each `sip:user:password@host`, and the credentials in headers that a URI
/// asks for (RFC 3261 19.1.1), as in `sip:host?Authorization=Digest...`.
fn uri_passwords(line: &[u8], tell: &mut impl FnMut(Range<usize>)) {
    let mut at = 0;
    while at < line.len() {
        let begins = |scheme: &[u8]| {
            let front = line.get(at..at + scheme.len());
            front.is_some_and(|front| front.eq_ignore_ascii_case(scheme))
        };
        let start = match (begins(b"sip:"), begins(b"sips:")) {
            (true, _) => at + 4,
            (_, true) => at + 5,
            _ => {
                at += 1;
                continue;
            }
        };
        at = start;
        let rest = line.get(start..).unwrap_or_default();
        let ends = |byte: &u8| matches!(byte, b'>' | b'"' | b' ' | b'\t');
        let uri = rest.get(..rest.iter().position(ends).unwrap_or(rest.len()));
        let uri = uri.unwrap_or_default();
        // A user may have commas, semicolons and question marks (RFC 3261 25.1), and nothing
        // behind him an @.
        let host = uri.iter().rposition(|byte| *byte == b'@');
        let user = uri.iter().position(|byte| *byte == b':');
        let mut found = Vec::new();
        if let (Some(host), Some(user)) = (host, user)
            && user < host
        {
            found.push(start + user + 1..start + host);
        }
        // A URI may be made so that its headers look like a user, and his password like one of them.
        let mut from = start;
        for piece in uri.split(|byte| matches!(byte, b'?' | b'&')) {
            let equals = piece.iter().position(|byte| *byte == b'=');
            let value = from + equals.map_or(piece.len(), |equals| equals + 1);
            if is_credential(piece.get(..equals.unwrap_or(0)).unwrap_or_default()) {
                found.push(value..value + credential(line.get(value..).unwrap_or_default()));
            }
            from += piece.len() + 1;
        }
        found.sort_unstable_by_key(|one| one.start);
        for Range { start, end } in found {
            let start = start.max(at);
            if start < end {
                tell(start..end);
                at = end;
            }
        }
    }
}

/// How long a credential in a URI is: to the next header, or to the end of the URI where brackets
/// show it, whatever stands in it.
fn credential(value: &[u8]) -> usize {
    let ends = |byte: &u8| matches!(byte, b'>' | b'&');
    let end = value.iter().position(ends).unwrap_or(value.len());
    value.get(..end).unwrap_or_default().trim_ascii_end().len()
}

/// Whether a header that a URI asks for carries credentials. In a name that is escaped anything may
/// be written.
fn is_credential(name: &[u8]) -> bool {
    let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
    name.contains(&b'%') || CREDENTIAL_HEADERS.iter().any(is)
}

/// Where the key begins in a line of SDP that carries one: `a=crypto` (RFC 4568), `k=`
/// (RFC 8866), ICE passwords.
fn media_key(line: &[u8]) -> Option<usize> {
    let begins = |name: &str| {
        let front = line.get(..name.len());
        front.is_some_and(|front| front.eq_ignore_ascii_case(name.as_bytes()))
    };
    let colon = || line.iter().position(|byte| *byte == b':');
    if begins("a=crypto:") {
        let is_inline = |seven: &[u8]| seven.eq_ignore_ascii_case(b"inline:");
        let inline = line.windows(7).position(is_inline);
        return Some(inline.map_or("a=crypto:".len(), |at| at + 7));
    }
    if begins("a=ice-pwd:") || begins("a=key-mgmt:") {
        return colon().map(|at| at + 1);
    }
    begins("k=").then(|| colon().map_or(2, |at| at + 1))
}

/// What came from outside does not steer the terminal.
fn push_clean(bytes: &[u8], out: &mut String) {
    let mut chars = String::from_utf8_lossy(bytes);
    if chars.contains("\r\n") {
        chars = chars.replace("\r\n", "\n").into();
    }
    for c in chars.chars() {
        if c.is_control() && !matches!(c, '\t' | '\n') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(line: &str) -> String {
        masked(format!("OPTIONS sip:a SIP/2.0\r\n{line}\r\n\r\n").as_bytes())
            .split_once('\n')
            .unwrap()
            .1
            .to_owned()
    }

    #[test]
    fn proofs_in_credentials_are_masked_and_the_rest_stays() {
        assert_eq!(
            header(
                "Authorization: Digest username=\"alice\", nonce=\"abc,=\\\"def\", response=\"0123\", uri=\"sip:x\", nc=00000001"
            ),
            "Authorization: Digest username=\"alice\", nonce=***, response=***, uri=\"sip:x\", nc=00000001"
        );
        assert_eq!(
            header("proxy-AUTHORIZATION : digest Response = 0123, qop=auth"),
            "proxy-AUTHORIZATION : digest Response = ***, qop=auth"
        );
        assert_eq!(
            header("WWW-Authenticate: Digest realm=\"r\",nonce=\"n\""),
            "WWW-Authenticate: Digest realm=\"r\",nonce=***"
        );
        assert_eq!(
            header("Authentication-Info: nextnonce=\"n\", rspauth=\"r\", cnonce=\"c\""),
            "Authentication-Info: nextnonce=***, rspauth=***, cnonce=\"c\""
        );
        assert_eq!(
            header("Proxy-Authentication-Info: rspauth=\"r\", qop=auth"),
            "Proxy-Authentication-Info: rspauth=***, qop=auth"
        );
    }

    #[test]
    fn credentials_that_a_uri_asks_for_are_masked() {
        for (text, expected) in [
            (
                "Refer-To: <sip:a:secret@h?Subject=x&authorization=Digest%20response%3D1&To=y>",
                "Refer-To: <sip:a:***@h?Subject=x&authorization=***&To=y>",
            ),
            (
                "Refer-To: sip:h;method=REGISTER?Proxy-Authorization=key",
                "Refer-To: sip:h;method=REGISTER?Proxy-Authorization=***",
            ),
            (
                "Refer-To: <sips:a?b@h?%41uthorization=key>;x=y",
                "Refer-To: <sips:a?b@h?%41uthorization=***>;x=y",
            ),
            (
                "Contact: <sip:h?Authorization=>, <sip:h?Subject&=&&>",
                "Contact: <sip:h?Authorization=>, <sip:h?Subject&=&&>",
            ),
            (
                "Refer-To: <sip:b@h?Replaces=1@10.0.0.1&Authorization=Digest%20response%3D1>",
                "Refer-To: <sip:b@h?Replaces=1@10.0.0.1&Authorization=***>",
            ),
            (
                "Refer-To: <sip:h?Authorization=Digest username=\"a\", response=\"1\">;x=y",
                "Refer-To: <sip:h?Authorization=***>;x=y",
            ),
            (
                "Refer-To: <sip:h?Authorization=key&X=a:b@c>",
                "Refer-To: <sip:h?Authorization=***&X=a:***@c>",
            ),
            (
                "Refer-To: <sip:a:b@h?Authorization=k:e@y&Proxy-Authorization=z>",
                "Refer-To: <sip:a:******&Proxy-Authorization=***>",
            ),
        ] {
            assert_eq!(header(text), expected);
        }
        let line_ends =
            b"REFER sip:h SIP/2.0\r\nRefer-To: sip:h?authorization=key\r\nTo: x\r\n\r\n";
        let blotted = String::from_utf8(blotted(line_ends)).unwrap();
        assert!(blotted.contains("?authorization=***\r\nTo: x"), "{blotted}");
    }

    #[test]
    fn a_folded_header_is_masked_to_its_end() {
        assert_eq!(
            header("Authorization: Digest username=\"alice\",\r\n response=\"0123\""),
            "Authorization: Digest username=\"alice\",\n response=***"
        );
        assert_eq!(
            header("Authorization: Bearer\r\n secret"),
            "Authorization: ***\n ***"
        );
    }

    #[test]
    fn another_scheme_is_masked_whole() {
        assert_eq!(
            header("Authorization: Basic YWxpY2U6c2VjcmV0"),
            "Authorization: ***"
        );
    }

    #[test]
    fn a_password_in_a_uri_is_masked() {
        assert_eq!(
            header("To: <sip:alice:secret@example.com:5060>;tag=1"),
            "To: <sip:alice:***@example.com:5060>;tag=1"
        );
        assert_eq!(
            header("To: <sip:alice@example.com:5060>"),
            "To: <sip:alice@example.com:5060>"
        );
        assert!(!masked(b"INVITE sips:a:secret@h SIP/2.0\r\n\r\n").contains("secret"));
        assert_eq!(
            header("Contact: <sips:a:first@h>, \"sip:x\" <sip:b,c;d:second@h:5060;x=y>"),
            "Contact: <sips:a:***@h>, \"sip:x\" <sip:b,c;d:***@h:5060;x=y>"
        );
    }

    #[test]
    fn media_keys_are_masked() {
        let text = masked(b"INVITE sip:a SIP/2.0\r\n\r\nv=0\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1j|2^20\r\nk=base64:c2VjcmV0\r\na=ice-pwd:secret\r\n");
        assert_eq!(
            text,
            "INVITE sip:a SIP/2.0\n\nv=0\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:***\nk=base64:***\na=ice-pwd:***"
        );
    }

    #[test]
    fn a_message_in_a_body_is_masked_too() {
        let text = masked(
            b"NOTIFY sip:a SIP/2.0\r\n\r\nSIP/2.0 200 OK\r\nAuthorization: Digest response=\"0123\"\r\n\r\n",
        );
        assert!(
            text.ends_with("Authorization: Digest response=***"),
            "{text}"
        );
    }

    #[test]
    fn what_is_blotted_out_keeps_its_length_and_form() {
        for (message, expected) in [
            (
                "REGISTER sip:a:secret@h SIP/2.0\r\nAuthorization: Digest username=\"a\", nonce=\"n\\\"1\", response=\"0123\", nc=1\r\n\r\n",
                "REGISTER sip:a:******@h SIP/2.0\r\nAuthorization: Digest username=\"a\", nonce=\"****\", response=\"****\", nc=1\r\n\r\n",
            ),
            (
                "REGISTER sip:a:secret@h SIP/2.0\r\nAuthorization: Digest uri=\"sip:a:secret@h\", opaque=\"sip:a:b@c\", realm=r\r\nTo: <sip:a:secret@h>\r\n\r\n",
                "REGISTER sip:a:******@h SIP/2.0\r\nAuthorization: Digest uri=\"sip:a:******@h\", opaque=\"*********\", realm=r\r\nTo: <sip:a:******@h>\r\n\r\n",
            ),
            (
                "A b SIP/2.0\r\nAuthorization: Digest response=\r\n \"0123\", nonce\r\n\t= n1,opaque=\"o1\r\n o2\"\r\nTo: x\r\n\r\n",
                "A b SIP/2.0\r\nAuthorization: Digest response=\r\n \"****\", nonce\r\n\t= **,opaque=\"**\r\n **\"\r\nTo: x\r\n\r\n",
            ),
            (
                "A b SIP/2.0\nAuthorization: Digest response=0123\n ,nonce=n1\r\n",
                "A b SIP/2.0\nAuthorization: Digest response=****\n ,nonce=**\r\n",
            ),
            (
                "A b SIP/2.0\r\nAuthorization: Bearer\r\n key\r\nTo: x\r\n\r\nk=base64:c2V\r\na=x\r\n",
                "A b SIP/2.0\r\nAuthorization: ******\r\n ***\r\nTo: x\r\n\r\nk=base64:***\r\na=x\r\n",
            ),
        ] {
            let blotted = blotted(message.as_bytes());
            assert_eq!(String::from_utf8(blotted).unwrap(), expected);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(header("Subject: \x1b[2J"), "Subject: \\u{1b}[2J");
    }

    #[test]
    fn any_bytes_can_be_masked() {
        for first in 0..=255u8 {
            for second in [b'=', b'"', b':', b'@', b'\\', 0xc3] {
                let short = vec![b'A', first, second, b'\n', first, second];
                let proof = format!(
                    "Authorization: Digest response={}{}",
                    first as char, second as char
                );
                for message in [short, proof.into_bytes()] {
                    let _ = masked(&message);
                    assert_eq!(blotted(&message).len(), message.len());
                }
            }
        }
    }
}
