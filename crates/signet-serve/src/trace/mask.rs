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
mod tests;
