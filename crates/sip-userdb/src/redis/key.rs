//! How users are named in Redis: `signet:user:REALM:USER`.
//!
//! In the realm `%` is written `%25` and `:` is written `%3A`; the user's name follows as it
//! is, of any bytes. So the first colon after the prefix ends the realm, and no two users
//! have one key.

use percent_encoding::percent_decode;
use sip_auth::Subject;

/// What the keys of users begin with.
pub(super) const PREFIX: &[u8] = b"signet:user:";

/// The key of a user.
pub(super) fn of(subject: &Subject) -> Vec<u8> {
    let mut key = PREFIX.to_vec();
    write(subject, &mut key);
    key
}

/// The key without its prefix, as it is announced.
pub(super) fn name(subject: &Subject) -> Vec<u8> {
    let mut name = Vec::new();
    write(subject, &mut name);
    name
}

fn write(subject: &Subject, out: &mut Vec<u8>) {
    for &byte in subject.realm().as_bytes() {
        match byte {
            b'%' => out.extend_from_slice(b"%25"),
            b':' => out.extend_from_slice(b"%3A"),
            _ => out.push(byte),
        }
    }
    out.push(b':');
    out.extend_from_slice(subject.user());
}

/// Whose key it is; `None` where it is no user's.
pub(super) fn read(key: &[u8]) -> Option<Subject> {
    read_name(key.strip_prefix(PREFIX)?)
}

/// Who is announced.
pub(super) fn read_name(name: &[u8]) -> Option<Subject> {
    let at = name.iter().position(|&byte| byte == b':')?;
    let (realm, user) = (name.get(..at)?, name.get(at + 1..)?);
    let realm = percent_decode(realm).decode_utf8().ok()?;
    let subject = Subject::new(user, realm.as_ref().into());
    // A realm that was written otherwise would be another key for the same user.
    (self::name(&subject) == name).then_some(subject)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_written() {
        for (user, realm, key) in [
            (
                &b"alice"[..],
                "example.org",
                "signet:user:example.org:alice",
            ),
            (b"a:b%3Ac", "[::1]", "signet:user:[%3A%3A1]:a:b%3Ac"),
            (b"", "100%", "signet:user:100%25:"),
            ("ä".as_bytes(), "ö", "signet:user:ö:ä"),
        ] {
            let subject = Subject::new(user, realm.into());
            assert_eq!(of(&subject), key.as_bytes());
            assert_eq!(read(key.as_bytes()), Some(subject));
        }
        let any: Vec<u8> = (0..=u8::MAX).collect();
        let subject = Subject::new(&any, "r".into());
        assert_eq!(read(&of(&subject)), Some(subject));
    }

    #[test]
    fn other_keys_are_nobodys() {
        for key in [
            &b""[..],
            b"signet:user:",
            b"signet:user:realm",
            b"signet:domains",
            b"signet:user:a%3a:b",
            b"signet:user:%41:b",
            b"signet:user:\xff:b",
        ] {
            assert_eq!(read(key), None, "{}", key.escape_ascii());
        }
    }
}
