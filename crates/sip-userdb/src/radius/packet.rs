//! Packets of RADIUS (RFC 2865), each with a Message-Authenticator (RFC 3579 3.2).

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use crate::{Error, Secret};

/// RFC 2865 3: "The minimum length is 20 and maximum length is 4096."
pub(super) const PACKET_MAX: usize = 4096;

/// The longest value of an attribute (RFC 2865 5).
pub(super) const VALUE_MAX: usize = 253;

const HEADER_LEN: usize = 20;
const ACCESS_REQUEST: u8 = 1;
const ACCESS_ACCEPT: u8 = 2;
const ACCESS_REJECT: u8 = 3;
const ACCESS_CHALLENGE: u8 = 11;
const USER_NAME: u8 = 1;
const MESSAGE_AUTHENTICATOR: u8 = 80;

/// The secret that client and server share.
pub(super) struct SharedSecret {
    secret: Secret,
    mac: Hmac<Md5>,
}

impl SharedSecret {
    pub(super) fn new(secret: Secret) -> Result<Self, Error> {
        let mac = Hmac::new_from_slice(secret.expose()).map_err(|_| {
            Error::new(
                "the shared secret of the RADIUS server cannot be a key",
                "take 16 to 64 random characters",
            )
        })?;
        Ok(Self { secret, mac })
    }
}

/// Why an answer is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unbelieved {
    /// It is no packet of RADIUS.
    Malformed,
    /// Its Response Authenticator is not made with our secret from our request.
    Authenticator,
    /// It has no Message-Authenticator. Without one, what makes a Reject into an Accept
    /// can be computed from outside (Blast-RADIUS, CVE-2024-3596).
    NoMessageAuthenticator,
    /// It has one, and that is wrong.
    MessageAuthenticator,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The digest is right.
    Accept {
        /// What the server calls the user, where it says so (RFC 2865 5.1).
        user: Option<Vec<u8>>,
    },
    /// It is not, or there is no such user.
    Reject,
    /// The server wants a nonce of its own (RFC 5090 2.1.2).
    Challenge,
    /// No answer to an Access-Request.
    Other(u8),
}

/// An Access-Request under way to its bytes.
pub(super) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// An Access-Request. Its authenticator is 16 random bytes, new for each request
    /// (RFC 2865 3).
    pub(super) fn new(identifier: u8, authenticator: &[u8; 16]) -> Self {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(&[ACCESS_REQUEST, identifier, 0, 0]);
        bytes.extend_from_slice(authenticator);
        // First of all attributes, so that nothing that others choose stands before it
        // in what is hashed.
        bytes.extend_from_slice(&[MESSAGE_AUTHENTICATOR, 18]);
        bytes.extend_from_slice(&[0; 16]);
        Self { bytes }
    }

    /// Adds an attribute; false where its value is empty or longer than [`VALUE_MAX`], or
    /// the packet would become too long.
    #[must_use]
    pub(super) fn attribute(&mut self, kind: u8, value: &[u8]) -> bool {
        let fits = self.bytes.len() + 2 + value.len() <= PACKET_MAX;
        let Ok(len) = u8::try_from(value.len() + 2) else {
            return false;
        };
        if value.is_empty() || !fits {
            return false;
        }
        self.bytes.extend_from_slice(&[kind, len]);
        self.bytes.extend_from_slice(value);
        true
    }

    /// The packet, signed.
    pub(super) fn finish(mut self, secret: &SharedSecret) -> Vec<u8> {
        let len = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX);
        if let Some(place) = self.bytes.get_mut(2..4) {
            place.copy_from_slice(&len.to_be_bytes());
        }
        let mac = secret
            .mac
            .clone()
            .chain_update(&self.bytes)
            .finalize()
            .into_bytes();
        let at = HEADER_LEN + 2;
        if let Some(place) = self.bytes.get_mut(at..at + 16) {
            place.copy_from_slice(&mac);
        }
        self.bytes
    }
}

/// The identifier of an answer, where it has one.
pub(super) fn identifier(bytes: &[u8]) -> Option<u8> {
    bytes.get(1).copied()
}

/// Reads the answer to the request with that authenticator. What it says is told only
/// after both proofs hold.
pub(super) fn read(
    bytes: &[u8],
    request_authenticator: &[u8; 16],
    secret: &SharedSecret,
) -> Result<Verdict, Unbelieved> {
    let bytes = cut(bytes).ok_or(Unbelieved::Malformed)?;
    let (head, attributes) = bytes
        .split_at_checked(HEADER_LEN)
        .ok_or(Unbelieved::Malformed)?;
    let (start, authenticator) = head.split_at_checked(4).ok_or(Unbelieved::Malformed)?;
    // RFC 2865 3: "ResponseAuth = MD5(Code+ID+Length+RequestAuth+Attributes+Secret)".
    let proof = Md5::new()
        .chain_update(start)
        .chain_update(request_authenticator)
        .chain_update(attributes)
        .chain_update(secret.secret.expose())
        .finalize();
    if !bool::from(proof.ct_eq(authenticator)) {
        return Err(Unbelieved::Authenticator);
    }
    let at = message_authenticator(attributes)?;
    let (before, rest) = attributes
        .split_at_checked(at)
        .ok_or(Unbelieved::Malformed)?;
    let (sent, after) = rest.split_at_checked(16).ok_or(Unbelieved::Malformed)?;
    secret
        .mac
        .clone()
        .chain_update(start)
        .chain_update(request_authenticator)
        .chain_update(before)
        .chain_update([0; 16])
        .chain_update(after)
        .verify_slice(sent)
        .map_err(|_| Unbelieved::MessageAuthenticator)?;
    Ok(match start.first() {
        Some(&ACCESS_ACCEPT) => Verdict::Accept {
            user: value_of(USER_NAME, attributes).map(<[u8]>::to_vec),
        },
        Some(&ACCESS_REJECT) => Verdict::Reject,
        Some(&ACCESS_CHALLENGE) => Verdict::Challenge,
        code => Verdict::Other(code.copied().unwrap_or(0)),
    })
}

/// What the packet's own length says is of it. RFC 2865 3: "Octets outside the range of
/// the Length field MUST be treated as padding and ignored on reception. If the packet is
/// shorter than the Length field indicates, it MUST be silently discarded."
fn cut(bytes: &[u8]) -> Option<&[u8]> {
    let len = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
    (HEADER_LEN..=PACKET_MAX)
        .contains(&len)
        .then(|| bytes.get(..len))
        .flatten()
}

/// The value of the first attribute of a kind.
fn value_of(kind: u8, attributes: &[u8]) -> Option<&[u8]> {
    let mut rest = attributes;
    while let [found, len, ..] = *rest {
        let (attribute, after) = rest.split_at_checked(usize::from(len).max(2))?;
        if found == kind {
            return attribute.get(2..);
        }
        rest = after;
    }
    None
}

/// Where among the attributes the 16 bytes of the one Message-Authenticator begin.
fn message_authenticator(attributes: &[u8]) -> Result<usize, Unbelieved> {
    let mut found = None;
    let mut at = 0;
    while let Some(&kind) = attributes.get(at) {
        let len = attributes
            .get(at + 1)
            .map_or(0, |&len| usize::from(len))
            .max(1);
        if len < 2 || at + len > attributes.len() {
            return Err(Unbelieved::Malformed);
        }
        if kind == MESSAGE_AUTHENTICATOR {
            if len != 18 || found.is_some() {
                return Err(Unbelieved::Malformed);
            }
            found = Some(at + 2);
        }
        at += len;
    }
    found.ok_or(Unbelieved::NoMessageAuthenticator)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn secret(text: &str) -> SharedSecret {
        SharedSecret::new(Secret::new(text.as_bytes().to_vec())).unwrap()
    }

    /// An answer as a server with that secret makes it.
    fn answer(
        code: u8,
        request_authenticator: &[u8; 16],
        attributes: &[u8],
        is_signed: bool,
        secret: &SharedSecret,
    ) -> Vec<u8> {
        let mut bytes = vec![code, 7, 0, 0];
        bytes.extend_from_slice(request_authenticator);
        if is_signed {
            bytes.extend_from_slice(&[MESSAGE_AUTHENTICATOR, 18]);
            bytes.extend_from_slice(&[0; 16]);
        }
        bytes.extend_from_slice(attributes);
        let len = u16::try_from(bytes.len()).unwrap();
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        if is_signed {
            let mac = secret.mac.clone().chain_update(&bytes).finalize();
            bytes[22..38].copy_from_slice(&mac.into_bytes());
        }
        let proof = Md5::new()
            .chain_update(&bytes)
            .chain_update(secret.secret.expose())
            .finalize();
        bytes[4..20].copy_from_slice(&proof);
        bytes
    }

    #[test]
    fn what_the_server_proves_is_believed() {
        let key = secret("a secret of sixteen");
        let authenticator = [3; 16];
        for (code, verdict) in [
            (2, Verdict::Accept { user: None }),
            (3, Verdict::Reject),
            (11, Verdict::Challenge),
            (5, Verdict::Other(5)),
        ] {
            let bytes = answer(code, &authenticator, &[18, 4, b'o', b'k'], true, &key);
            assert_eq!(read(&bytes, &authenticator, &key), Ok(verdict.clone()));
            let mut padded = bytes.clone();
            padded.extend_from_slice(&[0; 9]);
            assert_eq!(read(&padded, &authenticator, &key), Ok(verdict));
        }
    }

    #[test]
    fn a_name_that_the_server_returns_is_read() {
        let key = secret("a secret of sixteen");
        let attributes = [18, 4, b'o', b'k', 1, 5, b'b', b'o', b'b', 1, 3, b'x'];
        let bytes = answer(2, &[3; 16], &attributes, true, &key);
        let user = Some(b"bob".to_vec());
        assert_eq!(read(&bytes, &[3; 16], &key), Ok(Verdict::Accept { user }));
    }

    #[test]
    fn every_changed_bit_is_seen() {
        let key = secret("a secret of sixteen");
        let authenticator = [3; 16];
        let bytes = answer(3, &authenticator, &[18, 4, b'n', b'o'], true, &key);
        for at in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            assert!(
                read(&changed, &authenticator, &key).is_err(),
                "bit {at} is not covered"
            );
        }
        for len in 0..bytes.len() {
            assert_eq!(
                read(&bytes[..len], &authenticator, &key),
                Err(Unbelieved::Malformed)
            );
        }
        assert_eq!(
            read(&bytes, &[4; 16], &key),
            Err(Unbelieved::Authenticator),
            "an answer to another request"
        );
        assert_eq!(
            read(&bytes, &authenticator, &secret("another secret")),
            Err(Unbelieved::Authenticator)
        );
    }

    #[test]
    fn an_answer_without_message_authenticator_is_not_believed() {
        let key = secret("a secret of sixteen");
        let bytes = answer(2, &[3; 16], &[18, 4, b'o', b'k'], false, &key);
        assert_eq!(
            read(&bytes, &[3; 16], &key),
            Err(Unbelieved::NoMessageAuthenticator)
        );
    }

    #[test]
    fn a_message_authenticator_stands_once_and_is_right() {
        let key = secret("a secret of sixteen");
        let mut twice = vec![MESSAGE_AUTHENTICATOR, 18];
        twice.extend_from_slice(&[0; 16]);
        let bytes = answer(2, &[3; 16], &twice, true, &key);
        assert_eq!(read(&bytes, &[3; 16], &key), Err(Unbelieved::Malformed));
        let bytes = answer(2, &[3; 16], &twice, false, &key);
        assert_eq!(
            read(&bytes, &[3; 16], &key),
            Err(Unbelieved::MessageAuthenticator)
        );
        for broken in [&[80, 3, 0][..], &[18, 0], &[18, 1], &[18], &[18, 9, 1]] {
            let bytes = answer(2, &[3; 16], broken, true, &key);
            assert_eq!(read(&bytes, &[3; 16], &key), Err(Unbelieved::Malformed));
        }
    }

    /// RFC 2865 5: "Length ... 1-253 octets" of value; more has no place.
    #[test]
    fn values_that_no_attribute_holds_are_refused() {
        let mut request = Request::new(0, &[0; 16]);
        assert!(!request.attribute(1, b""));
        assert!(!request.attribute(1, &[b'a'; VALUE_MAX + 1]));
        for _ in 0..15 {
            assert!(request.attribute(1, &[b'a'; VALUE_MAX]));
        }
        while request.attribute(1, b"a") {}
        let bytes = request.finish(&secret("a secret of sixteen"));
        assert!(bytes.len() <= PACKET_MAX);
        assert_eq!(
            usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
            bytes.len()
        );
    }
}
