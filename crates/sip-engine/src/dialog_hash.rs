//! Dialogs by a keyed hash of their names.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// The hash of a dialog's name (RFC 3261 12), the same from either side: of its Call-ID and of the
/// tags of both, in whatever order.
pub(crate) fn dialog_hash(key: &[u8; 16], call_id: &[u8], one: &[u8], other: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    for part in [call_id, one.min(other), one.max(other)] {
        hasher.write_u32(part.len() as u32);
        hasher.write(part);
    }
    hasher.finish()
}
