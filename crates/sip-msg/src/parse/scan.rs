//! Looks for the bytes that end or break a header line, many at a time.

use crate::chars::rest;

/// The first control character (below 0x20, or 0x7f) from `at` on; the length
/// of `bytes` where there is none.
pub(crate) fn next_control(bytes: &[u8], at: usize) -> usize {
    find::<false>(bytes, at)
}

/// The same, or the first colon.
pub(crate) fn next_control_or_colon(bytes: &[u8], at: usize) -> usize {
    find::<true>(bytes, at)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Steps over what holds nothing sixteen bytes at a time, and then looks closer.
#[inline(always)]
fn find<const COLON: bool>(bytes: &[u8], mut at: usize) -> usize {
    // A colon is too near for that.
    let (blocks, _) = rest(bytes, at).as_chunks::<16>();
    for block in blocks.iter().take_while(|_| !COLON) {
        if has_control(block) {
            break;
        }
        at += 16;
    }
    let (words, tail) = rest(bytes, at).as_chunks::<8>();
    for word in words {
        let found = hits::<COLON>(u64::from_le_bytes(*word));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let first = tail.iter().position(|byte| is_hit::<COLON>(*byte));
    at + first.unwrap_or(tail.len())
}

/// No byte is judged sooner than another, so that a compiler can judge all of
/// them by one vector instruction.
#[inline(always)]
fn has_control(block: &[u8; 16]) -> bool {
    let mut found = false;
    for byte in block {
        found |= is_hit::<false>(*byte);
    }
    found
}

#[inline(always)]
const fn is_hit<const COLON: bool>(byte: u8) -> bool {
    (byte < 0x20) | (byte == 0x7f) | (COLON & (byte == b':'))
}

/// The top bits of the bytes that are sought. A borrow may set bits above the
/// first of them, never below.
#[inline(always)]
const fn hits<const COLON: bool>(word: u64) -> u64 {
    let mut hits = (word.wrapping_sub(ONES * 0x20) & !word) | equals(word, 0x7f);
    if COLON {
        hits |= equals(word, b':');
    }
    hits & TOPS
}

#[inline(always)]
const fn equals(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * byte as u64);
    difference.wrapping_sub(ONES) & !difference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sought(byte: u8, colon: bool) -> bool {
        byte.is_ascii_control() || (colon && byte == b':')
    }

    #[test]
    fn every_byte_is_judged_at_every_place() {
        for byte in 0..=255 {
            for place in 0..24 {
                // Behind a hit there may be anything.
                for behind in [b'x', 0, 0x1f, 0x20, 0x7f, 0x80, 0xff, b':'] {
                    let mut text = [b'x'; 24];
                    text[place..].fill(behind);
                    text[place] = byte;
                    let first = |colon| {
                        let first = text.iter().position(|b| is_sought(*b, colon));
                        first.unwrap_or(text.len())
                    };
                    assert_eq!(next_control(&text, 0), first(false), "{text:?}");
                    assert_eq!(next_control_or_colon(&text, 0), first(true), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn the_search_starts_anywhere_and_ends_with_the_bytes() {
        let line = b"Subject: a longer one, with a tab\t and an end\r\n";
        for end in 0..=line.len() {
            for at in 0..=end + 1 {
                let found = |colon| {
                    let hit = line[..end]
                        .iter()
                        .skip(at)
                        .position(|b| is_sought(*b, colon));
                    hit.map_or(at.max(end), |hit| at + hit)
                };
                assert_eq!(next_control(&line[..end], at), found(false));
                assert_eq!(next_control_or_colon(&line[..end], at), found(true));
            }
        }
    }
}
