//! By what a request is matched to its server transaction (RFC 3261 17.2.3):
//! a keyed 128-bit hash, so that nobody who does not know the key can choose
//! requests that collide, and no byte of a request is stored to be compared.

use sip_msg::header::Via;
use sip_msg::{Message, Method};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// The matching rules' view of a request, the method aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) hash: u128,
    /// The To tag's hash for a request by the rules of RFC 2543, where it
    /// counts; otherwise 0.
    pub(crate) to_tag: u32,
    /// Whether the rules of RFC 2543 apply.
    pub(crate) legacy: bool,
}

const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

impl Key {
    pub(crate) fn new(secret: &[u8; 16], request: &Message, via: &Via<'_>) -> Self {
        let mut hasher = SipHasher24::new_with_key(secret);
        // A cookie with nothing behind it identifies nothing (RFC 4475 3.2.1).
        let legacy =
            !via.branch.starts_with(MAGIC_COOKIE) || via.branch.len() == MAGIC_COOKIE.len();
        let mut to_tag = 0;
        if legacy {
            // RFC 3261 17.2.3: "The INVITE request matches a transaction if the Request-URI, To tag,
            // From tag, Call-ID, CSeq, and top Via header field match those of the INVITE request which
            // created the transaction."
            hasher.write_u8(1);
            write(&mut hasher, request.request_uri());
            let from_tag = request.from().ok().and_then(|from| from.tag());
            write(&mut hasher, from_tag.unwrap_or_default());
            write(&mut hasher, request.call_id());
            hasher.write_u32(request.cseq().map_or(0, |cseq| cseq.number));
            let span = via.span.start as usize..via.span.end as usize;
            write(&mut hasher, request.bytes().get(span).unwrap_or_default());
            let tag = request.to_tag();
            to_tag = tag_hash(secret, tag.unwrap_or_default());
        } else {
            // RFC 3261 17.2.3: "1. the branch parameter in the request is equal to the one in the top Via
            // header field of the request that created the transaction, and 2. the sent-by value in the
            // top Via of the request is equal to the one in the request that created the transaction"
            hasher.write_u8(0);
            write(&mut hasher, via.branch);
            write_lower_case(&mut hasher, via.sent_by.host);
            hasher.write_u32(via.sent_by.port.map_or(u32::MAX, u32::from));
        }
        Self {
            hash: hasher.finish128().as_u128(),
            to_tag,
            legacy,
        }
    }
}

/// Stands for a method when methods are compared: one number for each that is
/// known, a hash for any other.
pub(crate) fn method_tag(method: Method, token: &[u8]) -> u32 {
    if method != Method::Other {
        return method as u32;
    }
    let hash = token.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    hash | 0x8000_0000
}

/// Stands for a tag when tags are compared.
pub(crate) fn tag_hash(secret: &[u8; 16], tag: &[u8]) -> u32 {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write_u8(2);
    write(&mut hasher, tag);
    hasher.finish() as u32
}

/// Length first, so that no two lists of parts look alike.
fn write(hasher: &mut SipHasher24, part: &[u8]) {
    hasher.write_u32(part.len() as u32);
    hasher.write(part);
}

/// Hosts are compared without regard to case.
fn write_lower_case(hasher: &mut SipHasher24, host: &[u8]) {
    hasher.write_u32(host.len() as u32);
    let mut lower = [0; 64];
    for chunk in host.chunks(lower.len()) {
        for (to, from) in lower.iter_mut().zip(chunk) {
            *to = from.to_ascii_lowercase();
        }
        hasher.write(lower.get(..chunk.len()).unwrap_or_default());
    }
}
