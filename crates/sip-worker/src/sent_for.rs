//! Remembers for which shard of another worker a message was sent, so that a
//! failure finds its way back.
//!
//! Nothing tells that a message *was* sent, so the table is a ring: it holds
//! the last so many, and a failure that comes after its place was taken is
//! forgotten. The transaction's own timer then ends it.

/// The sends that are remembered; a power of two.
const REMEMBERED: usize = 1 << 14;

/// Marks the cookies of this table: the top two bits are 01. Those of the
/// transactions have the bits below clear, the engine's own the top bit set.
const MARK: u64 = 1 << 62;
const MARK_BITS: u64 = 3 << 62;

#[derive(Clone, Copy, Default)]
struct Origin {
    sequence: u64,
    worker: usize,
    cookie: u64,
}

/// The ring.
#[derive(Default)]
pub(super) struct SentFor {
    origins: Vec<Origin>,
    sequence: u64,
}

impl SentFor {
    /// A cookie in the place of another worker's; 0 stays 0.
    pub(super) fn cookie(&mut self, worker: usize, cookie: u64) -> u64 {
        if cookie == 0 {
            return 0;
        }
        if self.origins.is_empty() {
            self.origins.resize(REMEMBERED, Origin::default());
        }
        self.sequence = (self.sequence + 1) & !MARK_BITS;
        let sequence = self.sequence;
        if let Some(origin) = self.origins.get_mut(place(sequence)) {
            *origin = Origin {
                sequence,
                worker,
                cookie,
            };
        }
        MARK | sequence
    }

    /// Whether a cookie is one of this table's.
    pub(super) const fn is_one(cookie: u64) -> bool {
        cookie & MARK_BITS == MARK
    }

    /// The worker and the cookie that it gave, while they are remembered.
    pub(super) fn origin(&self, cookie: u64) -> Option<(usize, u64)> {
        let sequence = cookie & !MARK_BITS;
        self.origins
            .get(place(sequence))
            .filter(|origin| origin.sequence == sequence && sequence != 0)
            .map(|origin| (origin.worker, origin.cookie))
    }
}

fn place(sequence: u64) -> usize {
    usize::try_from(sequence).unwrap_or(0) & (REMEMBERED - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_leads_back_until_its_place_is_taken() {
        let mut sends = SentFor::default();
        assert_eq!(sends.cookie(3, 0), 0);
        let first = sends.cookie(3, 77);
        assert!(SentFor::is_one(first));
        assert_eq!(sends.origin(first), Some((3, 77)));
        for n in 0..REMEMBERED as u64 {
            let cookie = sends.cookie(1, n + 1);
            assert_eq!(sends.origin(cookie), Some((1, n + 1)));
        }
        assert_eq!(sends.origin(first), None);
    }

    #[test]
    fn cookies_of_others_are_none_of_the_table() {
        assert!(!SentFor::is_one(1 << 56));
        assert!(!SentFor::is_one(1 << 63));
        assert!(!SentFor::is_one(3 << 62));
        assert_eq!(SentFor::default().origin(MARK), None);
    }
}
