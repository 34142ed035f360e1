//! The branch of a request that a client transaction sends (RFC 3261 8.1.1.7):
//! it names the transaction, so that a response finds it without a search, and
//! carries 64 bits that nobody can guess who does not see the request.

use crate::id::ClientId;
use siphasher::sip::SipHasher24;
use slots::Name;
use std::hash::Hasher;

/// The magic cookie, then slot (6 digits), generation (8) and secret (16).
pub(crate) const BRANCH_BYTES: usize = 7 + 30;

/// What may follow in a branch, with more behind it.
const SEPARATOR: u8 = b'.';

/// Makes the secrets, one for each transaction.
#[derive(Debug)]
pub(crate) struct Secrets {
    key: [u8; 16],
    count: u64,
}

impl Secrets {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self { key, count: 0 }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.count = self.count.wrapping_add(1);
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(self.count);
        hasher.finish()
    }
}

pub(crate) fn write(id: ClientId, secret: u64, out: &mut Vec<u8>) {
    // RFC 3261 8.1.1.7: "The branch parameter value MUST be unique across space and time for all
    // requests sent by the UA." and "The branch ID inserted by an element compliant with this
    // specification MUST always begin with the characters "z9hG4bK"."
    // RFC 3261 20.42: "For implementations compliant to this specification, the value of the branch
    // parameter MUST start with the magic cookie "z9hG4bK", as discussed in Section 8.1.1.7."
    out.extend_from_slice(b"z9hG4bK");
    out.extend_from_slice(&hex::<6>(u64::from(id.0.slot)));
    out.extend_from_slice(&hex::<8>(u64::from(id.0.generation)));
    out.extend_from_slice(&hex::<16>(secret));
}

/// Reads a branch that [`write`] wrote; the caller's own part may follow.
/// Digits may be of either case: other elements may have changed it, as
/// parameter values are compared without regard to case.
pub(crate) fn read(branch: &[u8]) -> Option<(ClientId, u64)> {
    let (ours, rest) = branch.split_at_checked(BRANCH_BYTES)?;
    if rest.first().is_some_and(|byte| *byte != SEPARATOR) {
        return None;
    }
    let (cookie, digits) = ours.split_at_checked(7)?;
    if !cookie.eq_ignore_ascii_case(b"z9hG4bK") {
        return None;
    }
    let (slot, digits) = digits.split_at_checked(6)?;
    let (generation, secret) = digits.split_at_checked(8)?;
    let name = Name {
        slot: read_hex(slot)? as u32,
        generation: read_hex(generation)? as u32,
    };
    Some((ClientId(name), read_hex(secret)?))
}

/// The last so many hexadecimal digits of a number.
fn hex<const DIGITS: usize>(mut value: u64) -> [u8; DIGITS] {
    let mut text = [0; DIGITS];
    for digit in text.iter_mut().rev() {
        let nibble = (value & 15) as u8;
        *digit = nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
        value >>= 4;
    }
    text
}

/// What each byte is worth as a hexadecimal digit; past 15, none.
const WORTH: [u8; 256] = {
    let mut worth = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        worth[b"0123456789abcdef"[value] as usize] = value as u8;
        worth[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    worth
};
const NO_DIGIT: u8 = 0x80;

fn read_hex(digits: &[u8]) -> Option<u64> {
    let mut value = 0;
    let mut seen = 0;
    for digit in digits {
        let worth = *WORTH.get(usize::from(*digit))?;
        seen |= worth;
        value = value << 4 | u64::from(worth & 15);
    }
    (seen & NO_DIGIT == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ClientId = ClientId(Name {
        slot: 0xab_cdef,
        generation: 0x0123_4567,
    });

    #[test]
    fn a_branch_is_read_as_it_was_written() {
        let mut branch = Vec::new();
        write(ID, 0xfedc_ba98_7654_3210, &mut branch);
        assert_eq!(branch, b"z9hG4bKabcdef01234567fedcba9876543210");
        assert_eq!(read(&branch), Some((ID, 0xfedc_ba98_7654_3210)));
        assert_eq!(read(&branch.to_ascii_uppercase()), read(&branch));
        branch.extend_from_slice(b".loop-part");
        assert_eq!(read(&branch), Some((ID, 0xfedc_ba98_7654_3210)));
    }

    #[test]
    fn others_branches_are_nobodys() {
        for branch in [
            "",
            "z9hG4bK",
            "z9hG4bKabcdef01234567fedcba987654321",
            "z9hG4bKabcdef01234567fedcba98765432100",
            "z9hG4bKabcdef01234567fedcba987654321g",
            "z9hG4bXabcdef01234567fedcba9876543210",
            "z9hG4bK+bcdef01234567fedcba9876543210",
        ] {
            assert_eq!(read(branch.as_bytes()), None, "{branch}");
        }
    }

    #[test]
    fn secrets_differ_by_key_and_count() {
        let (mut one, mut other) = (Secrets::new([1; 16]), Secrets::new([2; 16]));
        let mut seen: Vec<u64> = (0..100).flat_map(|_| [one.next(), other.next()]).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 200);
    }
}
