//! Loop detection (RFC 3261 16.3 step 4 and 16.6 step 8, as RFC 5393 4 has it).
//!
//! The branch that this proxy writes ends with a keyed hash of everything in
//! the request that decides what becomes of it. A request that comes back with
//! a Via of ours and the same hash would be treated the same again: a loop. One
//! that comes back changed is a spiral. As the hash is keyed, no one else can
//! write such a Via, and the Vias need not be compared with our addresses.

use std::hash::Hasher;

use sip_msg::{HeaderName, Message};
use siphasher::sip::SipHasher13;

use crate::text::hex16;

/// The hash of what decides a request's treatment.
pub(crate) fn hash(key: &[u8; 16], request: &Message) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    let mut part = |bytes: &[u8]| {
        hasher.write_u32(bytes.len() as u32);
        hasher.write(bytes);
    };
    // RFC 3261 16.6: "If a proxy wishes to detect loops, the "branch" parameter it
    // supplies MUST depend on all information affecting processing of a request,
    // including the incoming Request-URI and any header fields affecting the
    // request's admission or routing."
    part(request.request_uri());
    for name in [
        HeaderName::Route,
        HeaderName::ProxyRequire,
        HeaderName::ProxyAuthorization,
        HeaderName::Authorization,
    ] {
        if !request.has(name) {
            continue;
        }
        for field in request.fields_of(name) {
            part(field.value);
        }
        part(&[name as u8]);
    }
    part(request.call_id());
    // RFC 3261 16.6: "The request method MUST NOT be included in the calculation of
    // the branch parameter." Hence the number of CSeq without its method.
    if let Ok(cseq) = request.cseq() {
        part(&cseq.number.to_be_bytes());
    }
    hasher.finish()
}

/// Appends the branch's second part.
pub(crate) fn write(hash: u64, out: &mut Vec<u8>) {
    out.push(b'.');
    out.extend_from_slice(&hex16(hash));
}

/// Whether this request has been here with the same hash.
pub(crate) fn is_loop(request: &Message, hash: u64) -> bool {
    // A request that was here has our Via and one below it.
    let mut fields = request.fields_of(HeaderName::Via);
    let is_first_hop = fields
        .next()
        .is_none_or(|first| memchr::memchr(b',', first.value).is_none())
        && fields.next().is_none();
    if is_first_hop {
        return false;
    }
    // Nobody else can write the hash, so it need not be looked for with care.
    let text = hex16(hash);
    request.fields_of(HeaderName::Via).any(|field| {
        memchr::memchr_iter(b'.', field.value).any(|dot| {
            field
                .value
                .get(dot + 1..)
                .is_some_and(|rest| rest.starts_with(&text))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_msg::Limits;

    fn request(uri: &str, via: &str, extra: &str) -> Message {
        let text = format!(
            "OPTIONS {uri} SIP/2.0\r\nVia: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\n{via}\
             From: <sip:a@a.example>;tag=1\r\nTo: <sip:b@b.example>\r\nCall-ID: c\r\nCSeq: 7 OPTIONS\r\n{extra}\r\n"
        );
        Message::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    fn with_our_via(uri: &str, hash: u64, extra: &str) -> Message {
        let mut branch = b"z9hG4bKours".to_vec();
        write(hash, &mut branch);
        let branch = String::from_utf8(branch).unwrap();
        request(
            uri,
            &format!("Via: SIP/2.0/UDP p.example;branch={branch}\r\n"),
            extra,
        )
    }

    #[test]
    fn the_same_request_again_is_a_loop_and_a_changed_one_a_spiral() {
        let key = [3; 16];
        let first = request("sip:b@b.example", "", "");
        let hash_first = hash(&key, &first);
        assert!(!is_loop(&first, hash_first));
        let again = with_our_via("sip:b@b.example", hash_first, "");
        assert!(is_loop(&again, hash(&key, &again)));
        // RFC 3261 16.6: "If a proxy wishes to detect loops, the "branch" parameter it
        // supplies MUST depend on all information affecting processing of a request,
        // including the incoming Request-URI and any header fields affecting the
        // request's admission or routing."
        for changed in [
            with_our_via("sip:c@b.example", hash_first, ""),
            with_our_via(
                "sip:b@b.example",
                hash_first,
                "Route: <sip:r.example;lr>\r\n",
            ),
            with_our_via("sip:b@b.example", hash_first, "Proxy-Require: x\r\n"),
            with_our_via(
                "sip:b@b.example",
                hash_first,
                "Proxy-Authorization: Digest realm=\"x\"\r\n",
            ),
        ] {
            assert!(!is_loop(&changed, hash(&key, &changed)), "{changed:?}");
        }
        // Another process's Via, or a forged one, is no proof.
        assert!(!is_loop(&again, hash(&[4; 16], &again)));
    }

    #[test]
    fn the_method_does_not_matter() {
        // RFC 3261 16.6: "The request method MUST NOT be included in the calculation of
        // the branch parameter."
        let text = "INVITE sip:b@b.example SIP/2.0\r\nVia: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\n\
            From: <sip:a@a.example>;tag=1\r\nTo: <sip:b@b.example>\r\nCall-ID: c\r\nCSeq: 7 INVITE\r\n\r\n";
        let invite = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
        let cancel = Message::parse(
            text.replace("INVITE", "CANCEL").as_bytes(),
            &Limits::default(),
        )
        .unwrap();
        assert_eq!(hash(&[9; 16], &invite), hash(&[9; 16], &cancel));
    }
}
