//! How fast each source opens connections.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::source::source;

/// Sources that are remembered, at most; those past it are not limited.
const SOURCES_MAX: usize = 65_536;
/// A source may open at once what it may open in this time.
const BURST_S: u64 = 4;
/// While the table is full, it is looked through this often for sources that can
/// be forgotten.
const TIDY_MS: u64 = 1_000;

/// What each source has opened lately. `HashMap` keys its hashes with a secret.
#[derive(Debug, Default)]
pub(super) struct OpenRates {
    sources: HashMap<IpAddr, Source>,
    tidied_ms: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// What it has opened beyond its rate, in thousandths of a connection, as of `at_ms`.
    debt: u64,
    at_ms: u64,
    /// A registered contact relies on a connection from there until then.
    bound_until_ms: u64,
}

impl Source {
    fn debt(&self, now_ms: u64, per_s: u64) -> u64 {
        let paid = now_ms.saturating_sub(self.at_ms).saturating_mul(per_s);
        self.debt.saturating_sub(paid)
    }

    fn can_be_forgotten(&self, now_ms: u64, per_s: u64) -> bool {
        self.bound_until_ms <= now_ms && self.debt(now_ms, per_s) == 0
    }
}

impl OpenRates {
    /// Whether one more connection from there is taken in; `per_s` of 0 is no limit.
    pub(super) fn admit(&mut self, ip: IpAddr, now_ms: u64, per_s: u32) -> bool {
        let per_s = u64::from(per_s);
        if per_s == 0 {
            return true;
        }
        let Some(source) = self.entry(ip, now_ms, per_s) else {
            return true;
        };
        let debt = source.debt(now_ms, per_s) + 1_000;
        let is_admitted = debt <= per_s * BURST_S * 1_000 || source.bound_until_ms > now_ms;
        if is_admitted {
            source.debt = debt.min(per_s * BURST_S * 1_000);
            source.at_ms = now_ms;
        }
        is_admitted
    }

    /// A registered contact relies on a connection from there: others behind the
    /// same address may open theirs until then.
    pub(super) fn keep_for(&mut self, ip: IpAddr, now_ms: u64, until_ms: u64, per_s: u32) {
        if per_s > 0
            && let Some(source) = self.entry(ip, now_ms, u64::from(per_s))
        {
            source.bound_until_ms = source.bound_until_ms.max(until_ms);
        }
    }

    fn entry(&mut self, ip: IpAddr, now_ms: u64, per_s: u64) -> Option<&mut Source> {
        let ip = source(ip);
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(&ip) {
            if now_ms >= self.tidied_ms.saturating_add(TIDY_MS) {
                self.tidied_ms = now_ms;
                self.sources
                    .retain(|_, source| !source.can_be_forgotten(now_ms, per_s));
            }
            if self.sources.len() >= SOURCES_MAX {
                return None;
            }
        }
        Some(self.sources.entry(ip).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + n).to_be_bytes())
    }

    #[test]
    fn a_source_opens_as_many_as_it_may_and_then_as_fast_as_it_may() {
        let mut rates = OpenRates::default();
        let admitted = |rates: &mut OpenRates, now_ms| {
            (0..1_000)
                .filter(|_| rates.admit(ip(1), now_ms, 100))
                .count()
        };
        assert_eq!(admitted(&mut rates, 5_000), 400);
        assert_eq!(admitted(&mut rates, 5_500), 50);
        assert!(rates.admit(ip(2), 5_500, 100), "another source");
        assert_eq!(admitted(&mut rates, 60_000), 400);
        assert!((0..1_000).all(|_| rates.admit(ip(1), 60_000, 0)));
    }

    #[test]
    fn phones_behind_an_address_where_one_is_registered_may_come_as_they_like() {
        let mut rates = OpenRates::default();
        rates.keep_for(ip(1), 1_000, 9_000, 1);
        assert!((0..1_000).all(|_| rates.admit(ip(1), 8_999, 1)));
        assert!(!rates.admit(ip(1), 9_000, 1));
    }

    #[test]
    fn the_table_is_bounded_and_past_it_nobody_is_refused_for_others() {
        let mut rates = OpenRates::default();
        for n in 0..100_000 {
            assert!(rates.admit(ip(n), 1_000, 1));
        }
        assert_eq!(rates.sources.len(), SOURCES_MAX);
        assert!(rates.admit(ip(200_000), 3_000, 1));
        assert_eq!(rates.sources.len(), 1, "who owes nothing is forgotten");
    }
}
