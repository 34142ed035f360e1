//! A hash whose key nobody outside knows.

use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// Strangers choose what is hashed: without the key they cannot aim at a place.
#[derive(Clone, Copy)]
pub(crate) struct Keyed(pub(crate) [u8; 16]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}
