//! Masks for the frames that a client sends.

use aws_lc_rs::rand;
use invariant::broken;

/// Random bytes drawn at a time: drawing four for each frame would cost more
/// than the frame.
const DRAWN: usize = 1_024;

/// RFC 6455 5.3: "The masking key needs to be unpredictable; thus, the masking
/// key MUST be derived from a strong source of entropy".
pub(crate) struct Masks {
    drawn: Box<[u8; DRAWN]>,
    used: usize,
}

impl Default for Masks {
    fn default() -> Self {
        Self {
            drawn: Box::new([0; DRAWN]),
            used: DRAWN,
        }
    }
}

impl Masks {
    /// The mask of the next frame.
    pub(crate) fn next(&mut self) -> [u8; 4] {
        self.take()
    }

    /// Random bytes for the key of a request.
    pub(crate) fn key(&mut self) -> [u8; 16] {
        self.take()
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        if self.used + N > DRAWN {
            if rand::fill(&mut *self.drawn).is_err() {
                broken!("the operating system has random numbers");
            }
            self.used = 0;
        }
        let bytes = self.drawn.get(self.used..).and_then(<[u8]>::first_chunk);
        self.used += N;
        match bytes {
            Some(bytes) => *bytes,
            None => broken!("there are as many bytes as were drawn", [0; N]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_mask_comes_twice_by_any_pattern() {
        let mut masks = Masks::default();
        let count = 3 * DRAWN;
        let all: HashSet<[u8; 4]> = (0..count).map(|_| masks.next()).collect();
        // Of 3,072 draws from 2^32 two are the same once in a thousand runs.
        assert!(all.len() + 2 >= count, "{}", all.len());
        assert_ne!(masks.key(), masks.key());
    }
}
