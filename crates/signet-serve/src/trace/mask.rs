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
            uri_passwords(line.get(..key_at).unwrap_or_default(), &mut tell);
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
        if !is_credential(name) {
            return Self::Plain;
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii_start();
        let mut words = value.split(u8::is_ascii_whitespace);
        let scheme = words.next().unwrap_or_default();
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let has_no_scheme = is("authentication-info") || is("proxy-authentication-info");
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

/// Tells the password in each `sip:user:password@host`, the credentials in headers that such a
/// URI asks for (RFC 3261 19.1.1), as in `sip:host?Authorization=Digest...`, and the password in
/// each `https://user:password@host` or the like.
fn uri_passwords(line: &[u8], tell: &mut impl FnMut(Range<usize>)) {
    let mut marks = None;
    let mut end_before = None;
    let (mut at, mut told_to) = (0, 0);
    while let Some(start) = uri_start(line, at) {
        at = start;
        let marks = marks.get_or_insert_with(|| Marks::of(line));
        if begins_authority(line, start) {
            let end = marks.authority_ends.first_from(start);
            // A URI of SIP in it may go on behind it.
            if let Some(secret) = marks.password(start, end.unwrap_or(line.len()))
                && told_to < secret.end
            {
                tell(secret.start.max(told_to)..secret.end);
                told_to = secret.end;
            }
            continue;
        }
        let end = marks.uri_ends.first_from(start).unwrap_or(line.len());
        // A URI that lies in another ends with it, and what is in both was looked at with that
        // one: but here a name may begin.
        let is_within = end_before.replace(end) == Some(end);
        let found: Vec<Range<usize>> = if is_within {
            marks.credential(start, end).into_iter().collect()
        } else {
            marks.secrets(start, end)
        };
        for Range { start, end } in found {
            let start = start.max(at).max(told_to);
            if start < end {
                tell(start..end);
                (at, told_to) = (end, end);
            }
        }
    }
}

/// What stands between a scheme and the host of a URI of the common form (RFC 3986 3.2).
const AUTHORITY_MARK: &str = "://";

/// Whether what begins there is a URI of the common form behind its scheme, and not one of SIP.
fn begins_authority(line: &[u8], start: usize) -> bool {
    let front = line.get(..start).unwrap_or_default();
    front.ends_with(AUTHORITY_MARK.as_bytes())
}

/// Where the first URI begins whose scheme stands at `at` or behind it, without the scheme.
fn uri_start(line: &[u8], at: usize) -> Option<usize> {
    (at..line.len()).find_map(|at| {
        let rest = line.get(at..)?;
        let mut schemes = ["sip:", "sips:", AUTHORITY_MARK].iter();
        let scheme = schemes.find(|scheme| begins(rest, scheme))?;
        Some(at + scheme.len())
    })
}

/// Where in a line that stands by which URIs are taken apart. It is looked for once, however many
/// URIs lie in each other: a line may be as long as a message, and made to take long.
struct Marks<'a> {
    line: &'a [u8],
    /// What no URI goes beyond.
    uri_ends: Places,
    /// What user, password, host and port of a URI of the common form do not go beyond.
    authority_ends: Places,
    colons: Places,
    ats: Places,
    /// What is before and between the headers of a URI.
    separators: Places,
    equals: Places,
    percents: Places,
    /// What the value of a header of a URI does not go beyond, and where the space before that
    /// begins.
    value_ends: Vec<(usize, usize)>,
}

impl<'a> Marks<'a> {
    fn of(line: &'a [u8]) -> Self {
        let mut value_ends = Vec::new();
        let mut space_at = 0;
        for (at, byte) in line.iter().enumerate() {
            if matches!(byte, b'>' | b'&') {
                value_ends.push((at, space_at));
            }
            if !byte.is_ascii_whitespace() {
                space_at = at + 1;
            }
        }
        value_ends.push((line.len(), space_at));
        Self {
            line,
            uri_ends: Places::of(line, b">\" \t"),
            authority_ends: Places::of(line, b"/?#>\" \t"),
            colons: Places::of(line, b":"),
            ats: Places::of(line, b"@"),
            separators: Places::of(line, b"?&"),
            equals: Places::of(line, b"="),
            percents: Places::of(line, b"%"),
            value_ends,
        }
    }

    /// What of the URI there is secret, in the order in which it begins.
    fn secrets(&self, start: usize, end: usize) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self.password(start, end).into_iter().collect();
        // A URI may be made so that its headers look like a user, and his password like one of them.
        let mut from = start;
        while from < end {
            found.extend(self.credential(from, end));
            let separator = self.separators.first_from(from);
            from = separator.map_or(end, |separator| separator + 1);
        }
        found.sort_by_key(|one| one.start);
        found
    }

    fn password(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let user = self.colons.first_from(start)?;
        // A user may have commas, semicolons and question marks (RFC 3261 25.1), and nothing
        // behind him an @.
        let host = self.ats.last_before(end)?;
        (user < host).then_some(user + 1..host)
    }

    /// The value of the header whose name begins at `start`, if it is secret: to the next header,
    /// or to the end of the URI where brackets show it, whatever stands in it.
    fn credential(&self, start: usize, uri_end: usize) -> Option<Range<usize>> {
        let name_end = self.equals.first_from(start)?;
        let header_end = self
            .separators
            .first_from(start)
            .unwrap_or(uri_end)
            .min(uri_end);
        let name = self.line.get(start..name_end)?;
        // In a name that is escaped anything may be written.
        let is_escaped = self
            .percents
            .first_from(start)
            .is_some_and(|at| at < name_end);
        if name_end >= header_end || !(is_escaped || is_credential(name)) {
            return None;
        }
        let value = name_end + 1;
        let place = self.value_ends.partition_point(|(end, _)| *end < value);
        let (_, space_at) = self.value_ends.get(place)?;
        Some(value..value.max(*space_at))
    }
}

/// Places in a line, in order.
struct Places(Vec<usize>);

impl Places {
    fn of(line: &[u8], bytes: &[u8]) -> Self {
        let places = line.iter().enumerate();
        let places = places.filter(|(_, byte)| bytes.contains(byte));
        Self(places.map(|(at, _)| at).collect())
    }

    /// The first one from there on.
    fn first_from(&self, at: usize) -> Option<usize> {
        let place = self.0.partition_point(|place| *place < at);
        self.0.get(place).copied()
    }

    /// The last one before that.
    fn last_before(&self, end: usize) -> Option<usize> {
        let place = self.0.partition_point(|place| *place < end);
        self.0.get(place.checked_sub(1)?).copied()
    }
}

/// Whether a header of this name carries credentials.
fn is_credential(name: &[u8]) -> bool {
    let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
    CREDENTIAL_HEADERS.iter().any(is)
}

fn begins(text: &[u8], front: &str) -> bool {
    let text = text.get(..front.len());
    text.is_some_and(|text| text.eq_ignore_ascii_case(front.as_bytes()))
}

/// Where the key begins in a line of SDP that carries one: `crypto` (RFC 4568), `key-mgmt`
/// (RFC 4567), ICE passwords, and `k=` (RFC 8866). An attribute may stand in another one, as in
/// `a=acap:1 crypto:1 ...` (RFC 5939).
fn media_key(line: &[u8]) -> Option<usize> {
    let behind = |mark: &str| {
        let is_mark = |part: &[u8]| part.eq_ignore_ascii_case(mark.as_bytes());
        let at = line.windows(mark.len()).position(is_mark)?;
        Some(at + mark.len())
    };
    if begins(line, "k=") {
        return behind(":").or(Some(2));
    }
    if !begins(line, "a=") {
        return None;
    }
    let marks = ["inline:", "key-mgmt:", "ice-pwd:"].into_iter();
    marks.filter_map(behind).min().or_else(|| behind("crypto:"))
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
    fn a_key_in_an_attribute_within_another_is_masked() {
        for (line, expected) in [
            (
                "a=acap:1 crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1j|2^20",
                "a=acap:1 crypto:1 AES_CM_128_HMAC_SHA1_80 inline:***",
            ),
            ("a=acap:2 key-mgmt:mikey AQAFgM0X", "a=acap:2 key-mgmt:***"),
            ("A=ACAP:3 ICE-PWD:secret", "A=ACAP:3 ICE-PWD:***"),
            ("a=acap:4 crypto:1 X other:key", "a=acap:4 crypto:***"),
            ("a=crypto:1 X other:key", "a=crypto:***"),
            ("a=key-mgmt:mikey AQ inline:x", "a=key-mgmt:***"),
            ("a=pcfg:1 t=1 a=1", "a=pcfg:1 t=1 a=1"),
            ("a=x:sip:u:pw@h inline:k", "a=x:sip:u:***@h inline:***"),
            ("i=inline:x", "i=inline:x"),
        ] {
            let text = masked(format!("INVITE sip:a SIP/2.0\r\n\r\n{line}\r\n").as_bytes());
            assert_eq!(text, format!("INVITE sip:a SIP/2.0\n\n{expected}"));
        }
    }

    #[test]
    fn a_password_in_a_uri_of_another_scheme_is_masked() {
        for (line, expected) in [
            (
                "Alert-Info: <https://bob:secret@host/ring.wav>;x=y",
                "Alert-Info: <https://bob:***@host/ring.wav>;x=y",
            ),
            (
                "Call-Info: http://x:sip:a@h?Authorization=Digest%20secret",
                "Call-Info: http://x:***@h?Authorization=***",
            ),
            (
                "Call-Info: <http://:secret@h>, <ftp://a:b:c@d@h/e:f@g>",
                "Call-Info: <http://:***@h>, <ftp://a:***@h/e:f@g>",
            ),
            (
                "Error-Info: <https://host:8443/a?b:c@d>, <http://[::1]:80#x:y@z>",
                "Error-Info: <https://host:8443/a?b:c@d>, <http://[::1]:80#x:y@z>",
            ),
        ] {
            assert_eq!(header(line), expected);
        }
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

    /// The same as `uri_passwords`, each URI on its own: what is told there must be told by this.
    fn one_by_one(line: &[u8]) -> Vec<Range<usize>> {
        let mut told = Vec::new();
        let mut at = 0;
        while let Some(start) = uri_start(line, at) {
            at = start;
            let rest = &line[start..];
            let is_end = |byte: &u8| b">\" \t".contains(byte);
            let uri = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
            let host = uri.iter().rposition(|byte| *byte == b'@').unwrap_or(0);
            let user = uri.iter().position(|byte| *byte == b':');
            let mut found = Vec::new();
            if let Some(user) = user.filter(|user| *user < host) {
                found.push(start + user + 1..start + host);
            }
            let mut from = start;
            for header in uri.split(|byte| matches!(byte, b'?' | b'&')) {
                let equals = header.iter().position(|byte| *byte == b'=').unwrap_or(0);
                let name = &header[..equals];
                if name.contains(&b'%') || is_credential(name) {
                    let value = &line[from + equals + 1..];
                    let is_end = |byte: &u8| matches!(byte, b'>' | b'&');
                    let end = value.iter().position(is_end).unwrap_or(value.len());
                    let len = value[..end].trim_ascii_end().len();
                    found.push(from + equals + 1..from + equals + 1 + len);
                }
                from += header.len() + 1;
            }
            found.sort_by_key(|one| one.start);
            for Range { start, end } in found {
                let start = start.max(at);
                if start < end {
                    told.push(start..end);
                    at = end;
                }
            }
        }
        told
    }

    #[test]
    fn uris_in_each_other_hide_nothing() {
        const WORDS: [&str; 16] = [
            "sip:",
            "SIPS:",
            "a",
            ":",
            "@",
            "?",
            "&",
            "=",
            "%",
            "%=",
            ">",
            "\"",
            " ",
            "\t",
            "\x0c",
            "Authorization=",
        ];
        let mut seed = 1u32;
        let mut any = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        for _ in 0..50_000 {
            let mut line = String::new();
            for _ in 0..any(20) {
                line.push_str(WORDS[any(WORDS.len())]);
            }
            let mut told = Vec::new();
            uri_passwords(line.as_bytes(), &mut |secret| told.push(secret));
            assert_eq!(told, one_by_one(line.as_bytes()), "{line:?}");
        }
    }

    /// Would take minutes if each URI, or each header in one, were looked through to its end.
    #[test]
    fn a_line_of_uris_in_each_other_takes_no_longer_than_another() {
        for part in [
            "sip:",
            "sip:h?%=",
            "sip:a:b@",
            "sip:h?%=? ",
            "sip:x=",
            "?%=",
            ">://a:b@",
        ] {
            let line = format!("To: <sip:{}", part.repeat(64 * 1024 / part.len()));
            for _ in 0..20 {
                let mut secrets = Vec::new();
                uri_passwords(line.as_bytes(), &mut |secret| secrets.push(secret));
                assert_eq!(secrets.is_empty(), !part.contains(['%', '@']), "{part}");
            }
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
