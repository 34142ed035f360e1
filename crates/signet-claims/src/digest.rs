//! Digest authentication: what is read of a header, and who gets in.

use std::sync::Arc;

use md5::Md5;
use sha2::{Sha256, Sha512_256};
use sip_auth::{
    Algorithm, Attempt, AuthConfig, Authenticator, Check, ClientAuth, Ha1, Reply, RequestParts,
    Side, USERNAME_MAX, Verdict,
};
use sip_msg::header::AuthParams;
use sip_msg::{HeaderName, Limits, Message};

use crate::{parts, replaced};

const NOW_UNIX_MS: u64 = 1_800_000_000_000;
const REALM: &str = "example.org";
const USER: &str = "alice";
const PASSWORD: &str = "the right one";
const URI: &str = "sip:example.org";

/// Only the right password passes: a verdict for a user is what another reading
/// of the header and another computation of the digest say too, and it is given
/// once. What a client answers is one header line, from which the server reads
/// the user whose name it was. Parameters written anew read as they did.
///
/// The parts of the input: a value of Authorization, in which `NONCE` stands for
/// a nonce of the server's and `RESPONSE` for the right response to it by the
/// usual client; a challenge; a user's name; a password.
pub fn digest(data: &[u8]) {
    let mut parts = parts(data);
    let mut part = || parts.next().unwrap_or_default();
    let (authorization, challenge, user, password) = (part(), part(), part(), part());
    for value in [authorization, challenge] {
        check_stable(value);
    }
    check_verdict(authorization);
    check_client(challenge);
    check_round(user, password);
}

fn authenticator() -> Authenticator {
    let config = AuthConfig {
        algorithms: Algorithm::ALL.to_vec(),
        offer_auth_int: true,
        authentication_info: true,
        replay_entries_max: 64,
        ..AuthConfig::default()
    };
    Authenticator::new(config, &[7; 32], 1)
}

/// Parameters that read well read alike once they are written anew.
fn check_stable(value: &[u8]) {
    let Some(read) = AuthParams::parse(value) else {
        return;
    };
    let mut text = Vec::new();
    let mut before = Vec::new();
    text.extend_from_slice(read.scheme);
    for (number, param) in read.iter().enumerate() {
        let mut bytes = Vec::new();
        param.value.write_to(&mut bytes);
        text.extend_from_slice(if number == 0 { b" " } else { b", " });
        text.extend_from_slice(param.name);
        text.extend_from_slice(b"=\"");
        for byte in &bytes {
            if matches!(byte, b'"' | b'\\') {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.push(b'"');
        before.push((param.name.to_vec(), bytes));
    }
    let again = AuthParams::parse(&text).expect("what was written is a list of parameters");
    let after: Vec<_> = again
        .iter()
        .map(|param| (param.name.to_vec(), param.value.bytes().collect::<Vec<_>>()))
        .collect();
    assert_eq!(before, after);
    assert_eq!(read.scheme, again.scheme);
}

fn register(lines: &[u8]) -> Option<Message> {
    let mut text = format!(
        "REGISTER {URI} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=1\r\nTo: <sip:alice@example.org>\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n"
    )
    .into_bytes();
    text.extend_from_slice(lines);
    text.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    let message = Message::parse(&text, &Limits::default()).ok()?;
    message.validate().ok()?;
    Some(message)
}

fn check_verdict(authorization: &[u8]) {
    let (server, realm) = (authenticator(), Arc::<str>::from(REALM));
    let mut offer = Vec::new();
    server.write_challenge(NOW_UNIX_MS, Side::Registrar, REALM, false, &mut offer);
    let nonce = quoted(&offer, b"nonce");
    let answer = keyed::<Md5>(
        PASSWORD,
        &[&nonce, b"00000001", b"c", b"auth"],
        b"REGISTER",
        URI.as_bytes(),
        None,
    );
    let value = replaced(authorization, b"NONCE", &nonce);
    let value = replaced(&value, b"RESPONSE", answer.as_bytes());
    let line = [b"Authorization: ", &value[..], b"\r\n"].concat();
    let Some(message) = register(&line) else {
        return;
    };
    let finish = || match server.check(NOW_UNIX_MS, &message, Side::Registrar, &realm) {
        Check::Lookup(pending) => {
            let key = pending.key().clone();
            let is_known = key.user() == USER.as_bytes() && &**key.realm() == REALM;
            let ha1 = is_known.then(|| {
                Ha1::compute(
                    key.algorithm(),
                    key.user(),
                    REALM.as_bytes(),
                    PASSWORD.as_bytes(),
                )
            });
            let reply = ha1.map_or(Reply::Unknown, Reply::Secret);
            Some(server.finish(NOW_UNIX_MS, pending, &reply))
        }
        Check::Challenge(_) | Check::Malformed(_) => None,
    };
    if let Some(Verdict::Ok(proof)) = finish() {
        assert_eq!((proof.user(), &**proof.realm()), (USER.as_bytes(), REALM));
        let is_right = message
            .fields_of(HeaderName::Authorization)
            .any(|field| is_right(field.value, &nonce));
        assert!(is_right, "let in without the digest of the password");
        assert!(
            !matches!(finish(), Some(Verdict::Ok(_))),
            "a digest is good once"
        );
    }
}

/// Whether a value holds the digest of the right password for the request, by
/// a reading and a computation that are not the server's.
fn is_right(value: &[u8], nonce: &[u8]) -> bool {
    let get = |name: &[u8]| quoted(value, name);
    if get(b"username") != USER.as_bytes()
        || get(b"realm") != REALM.as_bytes()
        || get(b"nonce") != nonce
    {
        return false;
    }
    // Another spelling of the same URI is hashed as it stands in the header.
    let (nc, cnonce, qop, uri) = (
        get(b"nc"),
        raw(value, b"cnonce"),
        get(b"qop"),
        raw(value, b"uri"),
    );
    let covered = (qop == b"auth-int").then_some(&b""[..]);
    let between = [nonce, &nc, &cnonce, &qop];
    let algorithm = get(b"algorithm").to_ascii_uppercase();
    let expected = match &algorithm[..] {
        b"" | b"MD5" => keyed::<Md5>(PASSWORD, &between, b"REGISTER", &uri, covered),
        b"SHA-256" => keyed::<Sha256>(PASSWORD, &between, b"REGISTER", &uri, covered),
        b"SHA-512-256" => keyed::<Sha512_256>(PASSWORD, &between, b"REGISTER", &uri, covered),
        _ => return false,
    };
    get(b"response").eq_ignore_ascii_case(expected.as_bytes())
}

/// RFC 7616 3.4.1, with the user and the realm of this file.
fn keyed<D: md5::Digest>(
    password: &str,
    between: &[&[u8]; 4],
    method: &[u8],
    uri: &[u8],
    body: Option<&[u8]>,
) -> String {
    let ha1 = hash::<D>(&[USER.as_bytes(), REALM.as_bytes(), password.as_bytes()]);
    let ha2 = match body {
        None => hash::<D>(&[method, uri]),
        Some(body) => hash::<D>(&[method, uri, hash::<D>(&[body]).as_bytes()]),
    };
    let [nonce, nc, cnonce, qop] = between;
    hash::<D>(&[ha1.as_bytes(), nonce, nc, cnonce, qop, ha2.as_bytes()])
}

fn hash<D: md5::Digest>(parts: &[&[u8]]) -> String {
    let digest = D::digest(parts.join(&b':'));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value of a parameter without quotes and escapes; empty where there is
/// none. Reads from left to right and knows nothing but quotes and commas.
fn quoted(list: &[u8], name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut escaped = false;
    for &byte in &raw_with_quotes(list, name) {
        match byte {
            _ if escaped => {
                out.push(byte);
                escaped = false;
            }
            b'\\' => escaped = true,
            b'"' => {}
            _ => out.push(byte),
        }
    }
    out
}

/// The same with its escapes.
fn raw(list: &[u8], name: &[u8]) -> Vec<u8> {
    let value = raw_with_quotes(list, name);
    match value
        .strip_prefix(b"\"")
        .and_then(|v| v.strip_suffix(b"\""))
    {
        Some(inside) => inside.to_vec(),
        None => value,
    }
}

fn raw_with_quotes(list: &[u8], name: &[u8]) -> Vec<u8> {
    let text = list.trim_ascii();
    // Past the scheme, or past a header's name and the scheme.
    let start = text.iter().position(|byte| b" \t\r\n".contains(byte));
    let mut text = &text[start.map_or(0, |at| at + 1)..];
    if text.starts_with(b"Digest ") {
        text = &text[7..];
    }
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let (mut inside, mut escaped) = (false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b',' if !inside => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(byte);
    }
    parts.push(part);
    for part in parts {
        let Some(equals) = part.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        if part[..equals].trim_ascii().eq_ignore_ascii_case(name) {
            return part[equals + 1..].trim_ascii().to_vec();
        }
    }
    Vec::new()
}

/// What a client answers to any challenge is whole lines of one header.
fn check_client(challenge: &[u8]) {
    let mut text = b"SIP/2.0 401 Unauthorized\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\n\
        From: <sip:alice@example.org>;tag=1\r\nTo: <sip:alice@example.org>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n\
        WWW-Authenticate: "
        .to_vec();
    text.extend_from_slice(challenge);
    text.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
    let Ok(response) = Message::parse(&text, &Limits::default()) else {
        return;
    };
    let mut client = ClientAuth::new();
    client.add(REALM, USER, PASSWORD);
    let mut attempt = Attempt::default();
    if client.handle_challenge(&mut attempt, &response).is_err() {
        return;
    }
    let lines = written(&mut client, &mut attempt);
    let message = register(&lines).expect("credentials are header lines");
    let fields: Vec<_> = message.fields_of(HeaderName::Authorization).collect();
    let without = register(b"").map_or(0, |message| message.fields().count());
    let others = message.fields().count() - fields.len();
    assert_eq!(others, without, "no header but Authorization is added");
    for field in fields {
        let params = AuthParams::parse(field.value).expect("credentials are a list of parameters");
        assert!(params.is_scheme("Digest"));
        assert!(
            params
                .get("username")
                .is_some_and(|user| user.is(USER.as_bytes()))
        );
        assert!(
            params
                .get("realm")
                .is_some_and(|realm| realm.is(REALM.as_bytes()))
        );
    }
}

fn written(client: &mut ClientAuth, attempt: &mut Attempt) -> Vec<u8> {
    let mut lines = Vec::new();
    let parts = RequestParts {
        method: b"REGISTER",
        uri: URI.as_bytes(),
        body: b"",
    };
    client.write_credentials(attempt, parts, 7, &mut lines);
    lines
}

/// A user gets in with his password and with no other.
fn check_round(user: &[u8], password: &[u8]) {
    let (Ok(user), Ok(password)) = (std::str::from_utf8(user), std::str::from_utf8(password))
    else {
        return;
    };
    // Neither can stand in a quoted string.
    let is_plain = user.bytes().all(|byte| !byte.is_ascii_control());
    if user.is_empty() || user.len() > USERNAME_MAX || !is_plain {
        return;
    }
    let (server, realm) = (authenticator(), Arc::<str>::from(REALM));
    let mut lines = Vec::new();
    server.write_challenge(NOW_UNIX_MS, Side::Registrar, REALM, false, &mut lines);
    let text = [
        b"SIP/2.0 401 Unauthorized\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
          To: <sip:a@b>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n",
        &lines[..],
        b"Content-Length: 0\r\n\r\n",
    ]
    .concat();
    let response = Message::parse(&text, &Limits::default()).expect("a challenge is a message");
    let mut client = ClientAuth::new();
    client.add(REALM, user, password);
    let mut attempt = Attempt::default();
    let taken = client.handle_challenge(&mut attempt, &response);
    assert_eq!(taken, Ok(()), "a client takes up our challenge");
    let message = register(&written(&mut client, &mut attempt)).expect("a request");
    let verdict = |password: &str| {
        let Check::Lookup(pending) = server.check(NOW_UNIX_MS, &message, Side::Registrar, &realm)
        else {
            panic!("the credentials of our own client cannot be read");
        };
        let key = pending.key().clone();
        assert_eq!(key.user(), user.as_bytes());
        let ha1 = Ha1::compute(
            key.algorithm(),
            key.user(),
            REALM.as_bytes(),
            password.as_bytes(),
        );
        server.finish(NOW_UNIX_MS, pending, &Reply::Secret(ha1))
    };
    let other = format!("{password}x");
    assert!(
        !matches!(verdict(&other), Verdict::Ok(_)),
        "another password"
    );
    assert!(matches!(verdict(password), Verdict::Ok(_)), "the password");
    assert!(!matches!(verdict(password), Verdict::Ok(_)), "once more");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_client_gets_in() {
        let value = b"Digest username=\"alice\", realm=\"example.org\", nonce=\"n\", uri=\"sip:example.org\", \
            qop=auth, nc=00000001, cnonce=\"c\", response=\"RESPONSE\"";
        let answer = keyed::<Md5>(
            PASSWORD,
            &[b"n", b"00000001", b"c", b"auth"],
            b"REGISTER",
            URI.as_bytes(),
            None,
        );
        let value = replaced(value, b"RESPONSE", answer.as_bytes());
        assert!(is_right(&value, b"n"));
        assert!(!is_right(&value, b"m"));
        assert!(!is_right(&replaced(&value, b"alice", b"bob"), b"n"));
        assert!(!is_right(&replaced(&value, b"00000001", b"00000002"), b"n"));
    }
}
