//! Masks what would let a reader of the log call in somebody's name, or listen.

/// Headers with credentials or challenges.
const CREDENTIAL_HEADERS: [&str; 5] = [
    "authorization",
    "proxy-authorization",
    "www-authenticate",
    "proxy-authenticate",
    "authentication-info",
];

/// Parameters of these that are proofs, or carry one.
const SECRET_PARAMS: [&str; 5] = ["response", "nonce", "nextnonce", "rspauth", "opaque"];

const MASK: &str = "***";

/// A message as text: proofs in credentials, passwords in URIs and media keys
/// masked, control characters escaped.
pub fn masked(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let mut out = String::with_capacity(text.len());
    let mut in_body = false;
    let mut header = Header::Plain;
    for line in text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
    {
        if in_body {
            body_line(line, &mut out);
        } else if line.is_empty() {
            in_body = true;
        } else {
            // A folded line continues the header before it.
            if !line.starts_with([' ', '\t']) {
                header = Header::of(line);
            }
            match header {
                Header::Plain => push_clean(&without_uri_passwords(line), &mut out),
                Header::Digest => push_clean(&without_params(line), &mut out),
                Header::Opaque => {
                    let name = line.split_once(':').map_or("", |(name, _)| name);
                    push_clean(name, &mut out);
                    out.push_str(": ");
                    out.push_str(MASK);
                }
            }
        }
        out.push('\n');
    }
    let whole = out.trim_end_matches('\n').len();
    out.truncate(whole);
    out
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
    fn of(line: &str) -> Self {
        let Some((name, value)) = line.split_once(':') else {
            return Self::Plain;
        };
        let name = name.trim().to_ascii_lowercase();
        if !CREDENTIAL_HEADERS.contains(&name.as_str()) {
            return Self::Plain;
        }
        let scheme = value.split_ascii_whitespace().next().unwrap_or("");
        if name == "authentication-info" || scheme.eq_ignore_ascii_case("digest") {
            Self::Digest
        } else {
            Self::Opaque
        }
    }
}

/// Puts a mask in the place of the values of secret parameters.
fn without_params(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('=') {
        let (front, value) = rest.split_at(at + 1);
        out.push_str(front);
        let name = front.trim_end_matches('=').trim_end();
        let name_start = name
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
            .map_or(0, |at| at + 1);
        let name = name.get(name_start..).unwrap_or("").to_ascii_lowercase();
        let (value, after) = split_value(value);
        if SECRET_PARAMS.contains(&name.as_str()) {
            out.push_str(MASK);
        } else {
            out.push_str(value);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A parameter's value, quoted or not, and what follows.
fn split_value(text: &str) -> (&str, &str) {
    let lead = text.len() - text.trim_start().len();
    let value = text.get(lead..).unwrap_or("");
    let len = if value.starts_with('"') {
        let mut escaped = false;
        value
            .char_indices()
            .skip(1)
            .find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            })
            .map_or(value.len(), |(at, _)| at + 1)
    } else {
        value.find([',', ' ', '\t']).unwrap_or(value.len())
    };
    text.split_at(lead + len)
}

/// Puts a mask in the place of the password in `sip:user:password@host`.
fn without_uri_passwords(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let mut out = String::with_capacity(line.len());
    let mut done = 0;
    for (at, scheme) in lower
        .match_indices("sip:")
        .chain(lower.match_indices("sips:"))
    {
        let start = at + scheme.len();
        let Some(rest) = line.get(start..) else {
            continue;
        };
        let user_info = rest.split(['>', ' ', ';', '?', ',']).next().unwrap_or("");
        let Some((user_info, _)) = user_info.rsplit_once('@') else {
            continue;
        };
        let Some((user, password)) = user_info.split_once(':') else {
            continue;
        };
        let from = start + user.len() + 1;
        if from < done || password.is_empty() {
            continue;
        }
        out.push_str(line.get(done..from).unwrap_or(""));
        out.push_str(MASK);
        done = from + password.len();
    }
    out.push_str(line.get(done..).unwrap_or(""));
    out
}

/// SDP that carries keys: `a=crypto` (RFC 4568), `k=` (RFC 8866), ICE passwords.
fn body_line(line: &str, out: &mut String) {
    let lower = line.to_ascii_lowercase();
    if lower.starts_with("a=crypto:") {
        let key_at = lower
            .find("inline:")
            .map_or("a=crypto:".len(), |at| at + "inline:".len());
        push_clean(line.get(..key_at).unwrap_or(""), out);
        out.push_str(MASK);
    } else if lower.starts_with("k=")
        || lower.starts_with("a=ice-pwd:")
        || lower.starts_with("a=key-mgmt:")
    {
        let key_at = line.find(':').map_or(2, |at| at + 1);
        push_clean(line.get(..key_at).unwrap_or(""), out);
        out.push_str(MASK);
    } else {
        push_clean(line, out);
    }
}

/// What came from outside does not steer the terminal.
fn push_clean(text: &str, out: &mut String) {
    for c in text.chars() {
        if c.is_control() && c != '\t' {
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
            "proxy-AUTHORIZATION : digest Response =***, qop=auth"
        );
        assert_eq!(
            header("WWW-Authenticate: Digest realm=\"r\",nonce=\"n\""),
            "WWW-Authenticate: Digest realm=\"r\",nonce=***"
        );
        assert_eq!(
            header("Authentication-Info: nextnonce=\"n\", rspauth=\"r\", cnonce=\"c\""),
            "Authentication-Info: nextnonce=***, rspauth=***, cnonce=\"c\""
        );
    }

    #[test]
    fn a_folded_header_is_masked_to_its_end() {
        assert_eq!(
            header("Authorization: Digest username=\"alice\",\r\n response=\"0123\""),
            "Authorization: Digest username=\"alice\",\n response=***"
        );
        assert_eq!(
            header("Authorization: Bearer\r\n secret"),
            "Authorization: ***\n: ***"
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
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(header("Subject: \x1b[2J"), "Subject: \\u{1b}[2J");
    }

    #[test]
    fn any_bytes_can_be_masked() {
        for first in 0..=255u8 {
            for second in [b'=', b'"', b':', b'@', b'\\', 0xc3] {
                let _ = masked(&[b'A', first, second, b'\n', first, second]);
                let _ = masked(
                    format!(
                        "Authorization: Digest response={}{}",
                        first as char, second as char
                    )
                    .as_bytes(),
                );
            }
        }
    }
}
