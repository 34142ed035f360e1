//! Whether credentials answer for a password that is known in the clear.

use subtle::ConstantTimeEq;

use sip_msg::header::AuthParams;

use crate::credentials::Credentials;
use crate::hash::{self, unhex};
use crate::server::{ha2, hex};
use crate::{Algorithm, Ha1, Qop};

/// Whether the value of an Authorization header bears the digest of this user's
/// password over this method and body, for whatever realm, nonce and URI stand in
/// it (RFC 7616 3.4.1). For instruments: a server wants a nonce of its own and the
/// Request-URI, and has an `Authenticator`.
pub fn is_answered(
    credentials: &[u8],
    user: &[u8],
    password: &[u8],
    method: &[u8],
    body: &[u8],
) -> bool {
    let read = AuthParams::parse(credentials)
        .filter(|params| params.is_scheme("Digest"))
        .and_then(|params| Credentials::read(&params).ok());
    let Some(read) = read else {
        return false;
    };
    let bytes = |value: Option<sip_msg::header::AuthValue<'_>>| -> Vec<u8> {
        value
            .map(|value| value.bytes().collect())
            .unwrap_or_default()
    };
    let algorithm = match read.algorithm {
        None => Some(Algorithm::Md5),
        Some(token) => Algorithm::from_token(&bytes(Some(token))),
    };
    let Some(algorithm) = algorithm else {
        return false;
    };
    let qop = match read.qop {
        None => None,
        Some(token) => match Qop::from_token(&bytes(Some(token))) {
            Some(qop) => Some(qop),
            None => return false,
        },
    };
    let ha1 = Ha1::compute(algorithm, user, &bytes(read.realm), password);
    let uri = bytes(read.uri);
    let ha2 = ha2(algorithm, qop.unwrap_or(Qop::Auth), method, &uri, body);
    let (ha1, ha2) = (ha1.hex(), hex(algorithm, &ha2));
    let nonce = bytes(read.nonce);
    let expected = match qop {
        None => hash::joined(algorithm, &[ha1.as_bytes(), &nonce, ha2.as_bytes()]),
        Some(qop) => {
            let (nc, cnonce) = (bytes(read.nc), bytes(read.cnonce));
            let qop = qop.as_str().as_bytes();
            hash::joined(
                algorithm,
                &[ha1.as_bytes(), &nonce, &nc, &cnonce, qop, ha2.as_bytes()],
            )
        }
    };
    unhex(&bytes(read.response), algorithm.digest_len())
        .is_some_and(|given| bool::from(expected.ct_eq(&given)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2617 3.5, the example.
    const MUFASA: &str = "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
        nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", qop=auth, \
        nc=00000001, cnonce=\"0a4f113b\", response=\"6629fae49393a05397450978507c4ef1\"";

    fn answers(credentials: &str, user: &str, password: &str, method: &str) -> bool {
        is_answered(
            credentials.as_bytes(),
            user.as_bytes(),
            password.as_bytes(),
            method.as_bytes(),
            b"",
        )
    }

    #[test]
    fn the_right_password_answers_and_no_other() {
        let password = "Circle Of Life";
        assert!(answers(MUFASA, "Mufasa", password, "GET"));
        assert!(!answers(MUFASA, "Mufasa", "circle of life", "GET"));
        assert!(!answers(MUFASA, "Scar", password, "GET"));
        assert!(!answers(MUFASA, "Mufasa", password, "PUT"));
        for wrong in [
            MUFASA.replace("Digest", "Basic"),
            MUFASA.replace("qop=auth", "qop=other"),
            MUFASA.replace("response=\"66", "response=\"67"),
            MUFASA.replace("nc=00000001", "nc=00000002"),
            format!("{MUFASA}, algorithm=FOO"),
            String::new(),
        ] {
            assert!(!answers(&wrong, "Mufasa", password, "GET"), "{wrong}");
        }
    }
}
