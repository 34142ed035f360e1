//! Identifiers that nobody else can guess, from a key that is an input.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// A keyed pseudo-random function over a counter.
pub(crate) struct Random {
    hasher: SipHasher24,
    counter: u64,
}

impl Random {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        Self {
            hasher: SipHasher24::new_with_key(key),
            counter: 0,
        }
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(1);
        let mut hasher = self.hasher;
        hasher.write_u64(self.counter);
        hasher.finish()
    }

    /// A number that is always the same for the same parts. Each part's length
    /// counts, so `ab` `c` is not `a` `bc`.
    pub(crate) fn of(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher;
        for part in parts {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        hasher.finish()
    }
}

/// Appends `digits` hexadecimal digits of `number`, the lowest ones.
pub(crate) fn write_hex(out: &mut Vec<u8>, number: u64, digits: u32) {
    for place in (0..digits).rev() {
        let digit = (number >> (place * 4)) as u8 & 0xf;
        out.push(if digit < 10 {
            b'0' + digit
        } else {
            b'a' + digit - 10
        });
    }
}

/// Reads hexadecimal digits, all of them.
pub(crate) fn read_hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |number, &digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_repeat_from_the_same_key() {
        let mut one = Random::new(&[7; 16]);
        let mut two = Random::new(&[7; 16]);
        let mut three = Random::new(&[8; 16]);
        let first: Vec<u64> = (0..100).map(|_| one.next()).collect();
        let again: Vec<u64> = (0..100).map(|_| two.next()).collect();
        let other: Vec<u64> = (0..100).map(|_| three.next()).collect();
        assert_eq!(first, again);
        assert!(first.iter().all(|n| !other.contains(n)));
        assert_ne!(one.of(&[b"ab", b"c"]), one.of(&[b"a", b"bc"]));
    }

    #[test]
    fn hex_there_and_back() {
        let mut text = Vec::new();
        write_hex(&mut text, 0x0123_abcd, 12);
        assert_eq!(text, b"00000123abcd");
        assert_eq!(read_hex(&text), Some(0x0123_abcd));
        for bad in [&b""[..], b"12G4", b"12AB", b"00000000000000000"] {
            assert_eq!(read_hex(bad), None);
        }
    }
}
