//! A digest as attributes of an Access-Request: those of RFC 5090 3, or those of
//! draft-sterman-aaa-sip-00, which came before and are what freeradius reads.

use sip_auth::{DigestRequest, Qop};

use super::packet::{Request, VALUE_MAX};
use crate::names::ABSENT_USER;

const USER_NAME: u8 = 1;
const NAS_IDENTIFIER: u8 = 32;

/// Digest-Attributes of the draft: each holds one part, with a number and length of its own.
const DIGEST_ATTRIBUTES: u8 = 207;

/// How a digest is put into attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    /// An attribute for each part (RFC 5090 3).
    #[default]
    Rfc5090,
    /// Digest-Response, and the other parts within Digest-Attributes (draft-sterman-aaa-sip-00).
    Sterman,
}

/// A part of a digest: its attribute in RFC 5090, and its number in the draft, which is `None`
/// for Digest-Response.
struct Part {
    rfc5090: u8,
    sterman: Option<u8>,
}

const fn part(rfc5090: u8, sterman: u8) -> Part {
    Part {
        rfc5090,
        sterman: Some(sterman),
    }
}

const RESPONSE: Part = Part {
    rfc5090: 103,
    sterman: None,
};
const REALM: Part = part(104, 1);
const NONCE: Part = part(105, 2);
const METHOD: Part = part(108, 3);
const URI: Part = part(109, 4);
const QOP: Part = part(110, 5);
const ALGORITHM: Part = part(111, 6);
const BODY_HASH: Part = part(112, 7);
const CNONCE: Part = part(113, 8);
const NONCE_COUNT: Part = part(114, 9);
const USERNAME: Part = part(115, 10);

impl Format {
    /// The longest part.
    fn part_max(self) -> usize {
        match self {
            Self::Rfc5090 => VALUE_MAX,
            Self::Sterman => VALUE_MAX - 2,
        }
    }

    /// Adds a part; false where it has no place.
    fn put(self, part: &Part, value: &[u8], request: &mut Request) -> bool {
        match (self, part.sterman) {
            (Self::Rfc5090, _) => request.attribute(part.rfc5090, value),
            (Self::Sterman, None) => request.attribute(206, value),
            (Self::Sterman, Some(number)) => {
                let Ok(len) = u8::try_from(value.len() + 2) else {
                    return false;
                };
                let numbered = [&[number, len], value].concat();
                !value.is_empty() && request.attribute(DIGEST_ATTRIBUTES, &numbered)
            }
        }
    }
}

/// What is asked of a server about one digest.
pub(super) struct Asked<'a> {
    digest: &'a DigestRequest,
    format: Format,
    /// Whether it is asked as it is. Else a user is asked for who does not exist, so that
    /// the answer comes as late as another, and the digest is wrong whatever it says.
    pub(super) is_whole: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn new(digest: &'a DigestRequest, format: Format) -> Self {
        let fits = |value: &[u8]| (1..=format.part_max()).contains(&value.len());
        // RFC 2865 5.1 wants UTF-8 in User-Name; what is not could be read as another
        // name behind the server, and so could what a NUL ends.
        let is_name = std::str::from_utf8(&digest.user).is_ok() && !digest.user.contains(&0);
        let is_body_there = match digest.qop {
            Qop::Auth => true,
            Qop::AuthInt => digest.body_digest.as_deref().is_some_and(fits),
        };
        let are_parts = [
            &*digest.user,
            digest.realm.as_bytes(),
            &digest.nonce,
            &digest.method,
            &digest.uri,
            &digest.cnonce,
            &digest.nonce_count,
            &digest.response,
        ]
        .into_iter()
        .all(fits);
        Self {
            digest,
            format,
            is_whole: is_name && is_body_there && are_parts,
        }
    }

    /// Adds the attributes. False where one has no place, which cannot be.
    pub(super) fn write(&self, nas_identifier: &str, request: &mut Request) -> bool {
        let digest = self.digest;
        let user = if self.is_whole {
            &digest.user
        } else {
            ABSENT_USER.as_bytes()
        };
        let mut all = request.attribute(USER_NAME, user);
        all &= request.attribute(NAS_IDENTIFIER, nas_identifier.as_bytes());
        let mut put = |part: &Part, value: &[u8]| {
            // Of what is not asked as it is, what has no place is left out.
            all &= self.format.put(part, value, request) || !self.is_whole;
        };
        put(&RESPONSE, &digest.response);
        put(&REALM, digest.realm.as_bytes());
        put(&NONCE, &digest.nonce);
        put(&METHOD, &digest.method);
        put(&URI, &digest.uri);
        put(&QOP, digest.qop.as_str().as_bytes());
        put(&ALGORITHM, digest.algorithm.as_str().as_bytes());
        if let (Qop::AuthInt, Some(body)) = (digest.qop, &digest.body_digest) {
            put(&BODY_HASH, body);
        }
        put(&CNONCE, &digest.cnonce);
        put(&NONCE_COUNT, &digest.nonce_count);
        put(&USERNAME, user);
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::Secret;
    use crate::radius::packet::SharedSecret;
    use sip_auth::Algorithm;

    fn digest() -> DigestRequest {
        DigestRequest {
            user: b"alice".to_vec(),
            realm: "example.org".into(),
            nonce: b"n".to_vec(),
            method: b"REGISTER".to_vec(),
            uri: b"sip:example.org".to_vec(),
            qop: Qop::Auth,
            algorithm: Algorithm::Md5,
            cnonce: b"c".to_vec(),
            nonce_count: b"00000001".to_vec(),
            response: b"0123456789abcdef0123456789abcdef".to_vec(),
            body_digest: None,
        }
    }

    fn attributes(digest: &DigestRequest, format: Format) -> Vec<(u8, Vec<u8>)> {
        let secret = SharedSecret::new(Secret::new(b"secret".to_vec())).unwrap();
        let mut request = Request::new(0, &[0; 16]);
        assert!(Asked::new(digest, format).write("signet", &mut request));
        let bytes = request.finish(&secret);
        let mut found = Vec::new();
        let mut rest = &bytes[38..];
        while let [kind, len, ..] = *rest {
            found.push((kind, rest[2..usize::from(len)].to_vec()));
            rest = &rest[usize::from(len)..];
        }
        found
    }

    #[test]
    fn each_part_of_a_digest_has_its_attribute() {
        let mut asked = digest();
        asked.qop = Qop::AuthInt;
        asked.body_digest = Some(b"d41d8cd98f00b204e9800998ecf8427e".to_vec());
        let is: Vec<(u8, String)> = attributes(&asked, Format::Rfc5090)
            .into_iter()
            .map(|(kind, value)| (kind, String::from_utf8(value).unwrap()))
            .collect();
        let must: Vec<(u8, String)> = [
            (1, "alice"),
            (32, "signet"),
            (103, "0123456789abcdef0123456789abcdef"),
            (104, "example.org"),
            (105, "n"),
            (108, "REGISTER"),
            (109, "sip:example.org"),
            (110, "auth-int"),
            (111, "MD5"),
            (112, "d41d8cd98f00b204e9800998ecf8427e"),
            (113, "c"),
            (114, "00000001"),
            (115, "alice"),
        ]
        .map(|(kind, value)| (kind, value.to_owned()))
        .into();
        assert_eq!(is, must);
    }

    #[test]
    fn the_draft_has_parts_within_an_attribute() {
        let is = attributes(&digest(), Format::Sterman);
        let within = |number: u8, value: &str| {
            let len = u8::try_from(value.len() + 2).unwrap();
            (207, [&[number, len], value.as_bytes()].concat())
        };
        let must = [
            (1, b"alice".to_vec()),
            (32, b"signet".to_vec()),
            (206, b"0123456789abcdef0123456789abcdef".to_vec()),
            within(1, "example.org"),
            within(2, "n"),
            within(3, "REGISTER"),
            within(4, "sip:example.org"),
            within(5, "auth"),
            within(6, "MD5"),
            within(8, "c"),
            within(9, "00000001"),
            within(10, "alice"),
        ];
        assert_eq!(is, must);
    }

    #[test]
    fn what_cannot_be_carried_is_asked_of_a_user_who_is_not_there() {
        let mut hostile = vec![];
        for user in [
            &b""[..],
            b"al\0ice",
            b"\xff\xfe",
            &[b'a'; VALUE_MAX + 1],
            &[b'a'; 8192],
        ] {
            hostile.push(DigestRequest {
                user: user.to_vec(),
                ..digest()
            });
        }
        hostile.push(DigestRequest {
            uri: vec![b'u'; 300],
            ..digest()
        });
        hostile.push(DigestRequest {
            cnonce: vec![],
            ..digest()
        });
        hostile.push(DigestRequest {
            qop: Qop::AuthInt,
            ..digest()
        });
        for digest in hostile {
            assert!(!Asked::new(&digest, Format::Rfc5090).is_whole);
            let found = attributes(&digest, Format::Rfc5090);
            for kind in [USER_NAME, USERNAME.rfc5090] {
                assert!(
                    found.contains(&(kind, ABSENT_USER.as_bytes().to_vec())),
                    "{digest:?}"
                );
            }
        }
        assert!(Asked::new(&digest(), Format::Rfc5090).is_whole);
        let longest = DigestRequest {
            user: vec![b'a'; VALUE_MAX],
            ..digest()
        };
        assert!(Asked::new(&longest, Format::Rfc5090).is_whole);
        assert!(!Asked::new(&longest, Format::Sterman).is_whole);
    }
}
