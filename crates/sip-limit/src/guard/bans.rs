//! The sources that are left without answers, as the operator is shown them, and how he
//! lifts that. Debts are kept under hashes; so addresses are remembered here.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Guard, Origin};

/// Sources that are remembered; past it the oldest is not shown any more.
const BANS_MAX: usize = 1_024;

/// A source that is left without answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Its address; of IPv6 the network of 64 bits.
    pub source: IpAddr,
    /// Whether that holds for its streams; else for its datagrams, whose source may be forged.
    pub is_stream: bool,
    /// When it began, by the clock of [`Guard::refused`].
    pub since_ms: u64,
    /// For how long it goes on.
    pub left_ms: u64,
}

#[derive(Default)]
pub(super) struct Bans {
    /// The oldest first: source, whether by stream, since when.
    seen: Mutex<VecDeque<(IpAddr, bool, u64)>>,
}

impl Bans {
    pub(super) fn begin(&self, now_ms: u64, origin: &Origin) {
        let source = network(origin.remote.ip());
        let mut seen = self.lock();
        seen.retain(|(other, is_stream, _)| (*other, *is_stream) != (source, origin.is_stream));
        if seen.len() >= BANS_MAX {
            seen.pop_front();
        }
        seen.push_back((source, origin.is_stream, now_ms));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(IpAddr, bool, u64)>> {
        // A list is whole whenever the lock is free.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guard {
    /// The sources that are left without answers, the latest last.
    pub fn bans(&self, now_ms: u64) -> Vec<Ban> {
        let mut seen = self.bans.lock();
        seen.retain(|(source, is_stream, _)| self.left_ms(now_ms, *source, *is_stream) > 0);
        let bans = seen.iter().map(|(source, is_stream, since_ms)| Ban {
            source: *source,
            is_stream: *is_stream,
            since_ms: *since_ms,
            left_ms: self.left_ms(now_ms, *source, *is_stream),
        });
        bans.collect()
    }

    /// Forgets what a source owes, and its wrong passwords for users whose own accounts have
    /// room; whether it was left without answers.
    pub fn lift(&self, now_ms: u64, source: IpAddr) -> bool {
        let mut was_shut = false;
        for is_stream in [false, true] {
            was_shut |= self.left_ms(now_ms, source, is_stream) > 0;
            let origin = origin(source, is_stream);
            for kind in [&b"refusals"[..], b"answers", b"anybody"] {
                self.refusals
                    .forgive(self.source(kind, &origin), now_ms, u64::MAX);
            }
            self.sources
                .forgive(self.source(b"failures", &origin), now_ms, u64::MAX);
        }
        was_shut
    }

    /// How long a source is left without answers; 0 where it is not.
    fn left_ms(&self, now_ms: u64, source: IpAddr, is_stream: bool) -> u64 {
        let hash = self.source(b"refusals", &origin(source, is_stream));
        let over = self
            .refusals
            .debt(hash, now_ms)
            .saturating_sub(self.refusals_max());
        // A debt is in thousandths, and so many of them are taken off a millisecond.
        over.div_ceil(u64::from(self.limits.refusals_per_s.max(1)))
    }
}

fn origin(source: IpAddr, is_stream: bool) -> Origin {
    Origin {
        remote: SocketAddr::new(source, 0),
        is_stream,
    }
}

/// What one source is: an address, or an IPv6 network.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Verdict};
    use super::*;

    const LIMITS: Limits = Limits {
        refusals_per_s: 100,
        refusals_max: 10,
        silence_ms: 30_000,
        failures_max: 5,
        delay_ms_max: 4_000,
    };

    fn shut(guard: &Guard, now_ms: u64, remote: &str, is_stream: bool) {
        let origin = Origin {
            remote: remote.parse().unwrap(),
            is_stream,
        };
        while guard.refused(now_ms, &origin, 100).0 != Verdict::Silence {}
    }

    #[test]
    fn who_gets_no_answers_is_shown_until_that_is_over() {
        let guard = Guard::new([1; 16], LIMITS);
        assert!(guard.bans(1_000).is_empty());
        shut(&guard, 1_000, "[::ffff:192.0.2.1]:5060", false);
        shut(&guard, 2_000, "[2001:db8::7:1:2:3]:5060", true);
        let bans = guard.bans(2_000);
        let shown: Vec<_> = bans
            .iter()
            .map(|ban| (ban.source.to_string(), ban.is_stream, ban.since_ms))
            .collect();
        let (first, second) = ("192.0.2.1".to_owned(), "2001:db8::".to_owned());
        assert_eq!(shown, [(first, false, 1_000), (second, true, 2_000)]);
        assert!(
            bans.iter()
                .all(|ban| ban.left_ms > 0 && ban.left_ms < 40_000)
        );
        let over_ms = 2_000 + bans.iter().map(|ban| ban.left_ms).max().unwrap();
        assert_eq!(guard.bans(over_ms - 1).len(), 1);
        assert!(guard.bans(over_ms).is_empty());
    }

    #[test]
    fn a_ban_that_is_lifted_is_over_at_once_and_others_go_on() {
        let guard = Guard::new([1; 16], LIMITS);
        for remote in ["192.0.2.1:5060", "192.0.2.2:5060"] {
            shut(&guard, 1_000, remote, false);
        }
        assert!(guard.lift(1_000, "192.0.2.1".parse().unwrap()));
        assert!(!guard.lift(1_000, "192.0.2.1".parse().unwrap()));
        let left = guard.bans(1_000);
        assert_eq!(left.len(), 1);
        let origin = |remote: &str| Origin {
            remote: remote.parse().unwrap(),
            is_stream: false,
        };
        assert!(!guard.is_shut(1_000, &origin("192.0.2.1:9")));
        assert!(guard.is_shut(1_000, &origin("192.0.2.2:9")));
        assert_eq!(
            guard.refused(1_000, &origin("192.0.2.1:9"), 100).0,
            Verdict::Served
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let guard = Guard::new([1; 16], LIMITS);
        for n in 0..2 * BANS_MAX as u32 {
            let ip = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n));
            guard.bans.begin(1, &origin(ip, false));
        }
        assert_eq!(guard.bans.lock().len(), BANS_MAX);
    }
}
