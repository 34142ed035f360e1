//! Which shard a message belongs to.

use std::hash::Hasher;

use sip_msg::{Message, Method};
use siphasher::sip::SipHasher13;

/// Which shard a message belongs to: a REGISTER to that of the user in its To,
/// everything else to that of its Call-ID.
///
/// The user's name alone decides, not the whole address: a listener's address
/// and `sips:` name the same address-of-record as the domain does.
pub fn shard_of(message: &Message, shards: usize, hash_key: &[u8; 16]) -> usize {
    if shards <= 1 {
        return 0;
    }
    let address = match message.method() {
        Method::Register => message.to().ok().and_then(|to| to.uri()),
        _ => None,
    };
    match address {
        Some(uri) => {
            let mut user = Vec::with_capacity(uri.raw.len());
            uri.write_user(&mut user);
            shard_of_user(&user, shards, hash_key)
        }
        None => shard_at(message.call_id(), shards, hash_key),
    }
}

/// Which shard the bindings of a user belong to, by his unescaped name.
pub fn shard_of_user(user: &[u8], shards: usize, hash_key: &[u8; 16]) -> usize {
    shard_at(user, shards, hash_key)
}

/// The same by that name.
pub(super) fn shard_at(name: &[u8], shards: usize, hash_key: &[u8; 16]) -> usize {
    let mut hasher = SipHasher13::new_with_key(hash_key);
    hasher.write(name);
    ((u128::from(hasher.finish()) * shards as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_msg::Limits;

    fn message(method: &str, to: &str, call_id: &str) -> Message {
        let text = format!(
            "{method} sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\n\
             From: <sip:a@a.example>;tag=1\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: 1 {method}\r\n\r\n"
        );
        Message::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn registrations_of_one_user_meet_and_calls_spread() {
        let key = [1; 16];
        let register =
            |to: &str, call_id: &str| shard_of(&message("REGISTER", to, call_id), 64, &key);
        assert_eq!(
            register("<sip:bob@Example.org>", "a"),
            register("\"B\" <sip:bob@example.org>;x=y", "b")
        );
        assert_eq!(
            register("<sip:bob@example.org>", "a"),
            shard_of_user(b"bob", 64, &key)
        );
        assert_eq!(
            register("<sip:b%6fb@example.org>", "a"),
            register("<sips:bob@[::1]:5061>", "b")
        );
        let calls: std::collections::HashSet<_> = (0..1_000)
            .map(|n| {
                shard_of(
                    &message("INVITE", "<sip:bob@example.org>", &n.to_string()),
                    64,
                    &key,
                )
            })
            .collect();
        assert!(calls.len() > 50);
        assert!(calls.iter().all(|shard| *shard < 64));
        let bye = message("BYE", "<sip:bob@example.org>;tag=1", "7");
        let invite = message("INVITE", "<sip:bob@example.org>", "7");
        assert_eq!(shard_of(&bye, 64, &key), shard_of(&invite, 64, &key));
    }
}
