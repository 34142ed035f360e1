//! What all shards know of trunks: where their members are, how each registration stands, and
//! whose password was refused.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::registration::Failure;

/// How long an address is its member's after DNS gave it last.
pub(crate) const GIVEN_MS: u64 = 900_000;
/// Addresses of one name.
const ADDRESSES_MAX: usize = 64;
/// How long nothing is sent after a password was refused, the first time and at most.
const REFUSED_MS: u64 = 30_000;
const REFUSED_MS_MAX: u64 = 1_800_000;

/// What all shards of a process know of trunks. It outlives a reload.
#[derive(Debug, Default)]
pub struct SharedTrunks {
    /// Grows whenever the addresses of a name have changed.
    version: AtomicU64,
    /// By name.
    addresses: Mutex<BTreeMap<Box<str>, Given>>,
    trunks: Mutex<BTreeMap<Box<str>, Known>>,
    /// Whether the password of any trunk is refused: what each call asks first.
    is_any_refused: AtomicU64,
}

/// The addresses of a name, and when DNS gave each last.
type Given = Vec<(IpAddr, u64)>;

/// What is known of a trunk.
#[derive(Clone, Debug, Default)]
struct Known {
    registration: Registration,
    /// Passwords that were refused in a row, and until when nothing is sent.
    refused_in_a_row: u32,
    refused_until_ms: u64,
    refused_total: u64,
}

/// How a registration stands.
#[derive(Clone, Debug, Default)]
struct Registration {
    state: Option<State>,
    since_ms: u64,
    until_ms: u64,
    member: Option<SocketAddr>,
    last_status: Option<u16>,
    failures_in_a_row: u32,
    registered_total: u64,
    failed_total: u64,
}

/// How a registration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has been asked for.
    Asking,
    /// It is bound.
    Registered,
    /// It was not granted, and is asked for again.
    Failing(Failure),
    /// It was taken back.
    Ended,
}

impl State {
    /// Its name, which programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asking => "asking",
            Self::Registered => "registered",
            Self::Failing(_) => "failing",
            Self::Ended => "ended",
        }
    }
}

/// What is shown of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// How its registration stands; `None` where none was asked for.
    pub state: Option<State>,
    /// For how long it has stood so.
    pub age_ms: u64,
    /// How long the contact is bound or, where it is not, until it is asked for again.
    pub left_ms: u64,
    /// The member that answered last.
    pub member: Option<SocketAddr>,
    /// The status of its last answer.
    pub last_status: Option<u16>,
    /// How often in a row it was not granted.
    pub failures_in_a_row: u32,
    /// How often it was granted, renewals among them.
    pub registered_total: u64,
    /// How often it was not.
    pub failed_total: u64,
    /// How much longer nothing is sent to it because its password was refused.
    pub refused_for_ms: u64,
    /// How often its password was refused.
    pub refused_total: u64,
}

impl SharedTrunks {
    /// What grows when the addresses of a name have changed.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// DNS has given these addresses for a member's name.
    pub(crate) fn given(&self, name: &str, given: &[IpAddr], now_ms: u64) {
        let mut all = lock(&self.addresses);
        let known = all.entry(name.into()).or_default();
        let before: Vec<IpAddr> = known.iter().map(|(ip, _)| *ip).collect();
        known.retain(|(_, at_ms)| now_ms.saturating_sub(*at_ms) < GIVEN_MS);
        for ip in given.iter().map(IpAddr::to_canonical) {
            if let Some((_, at_ms)) = known.iter_mut().find(|(of, _)| *of == ip) {
                *at_ms = now_ms;
            } else if known.len() < ADDRESSES_MAX {
                known.push((ip, now_ms));
            }
        }
        if known.iter().map(|(ip, _)| *ip).ne(before) {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// The addresses of a member's name.
    pub(crate) fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let all = lock(&self.addresses);
        let known = all.get(name);
        known.map_or_else(Vec::new, |known| known.iter().map(|(ip, _)| *ip).collect())
    }

    /// Notes how a registration stands, whether or not that has changed.
    pub(crate) fn stands(
        &self,
        name: &str,
        now_ms: u64,
        state: State,
        until_ms: u64,
        answer: Option<(SocketAddr, u16)>,
    ) {
        let mut trunks = lock(&self.trunks);
        let of = &mut trunks.entry(name.into()).or_default().registration;
        let is_same = matches!(
            (of.state, state),
            (Some(State::Failing(_)), State::Failing(_))
        ) || of.state == Some(state);
        if !is_same {
            of.since_ms = now_ms;
        }
        of.state = Some(state);
        of.until_ms = until_ms;
        if let Some((member, status)) = answer {
            (of.member, of.last_status) = (Some(member), Some(status));
        }
        match state {
            State::Registered => {
                of.registered_total += 1;
                of.failures_in_a_row = 0;
            }
            State::Failing(_) => {
                of.failed_total += 1;
                of.failures_in_a_row = of.failures_in_a_row.saturating_add(1);
            }
            State::Asking | State::Ended => {}
        }
    }

    /// A trunk's password was refused; for how long nothing is sent, where that is news.
    pub(crate) fn refused(&self, name: &str, now_ms: u64) -> Option<u64> {
        let mut trunks = lock(&self.trunks);
        let known = trunks.entry(name.into()).or_default();
        known.refused_total += 1;
        self.is_any_refused.store(1, Ordering::Release);
        // Requests that were under way are one attempt.
        if known.refused_until_ms > now_ms {
            return None;
        }
        let doubled = known.refused_in_a_row.min(16);
        known.refused_in_a_row = known.refused_in_a_row.saturating_add(1);
        let for_ms = (REFUSED_MS << doubled).min(REFUSED_MS_MAX);
        known.refused_until_ms = now_ms + for_ms;
        Some(for_ms)
    }

    /// A request with the trunk's password was taken.
    pub(crate) fn accepted(&self, name: &str) {
        if self.is_any_refused.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut trunks = lock(&self.trunks);
        if let Some(known) = trunks.get_mut(name) {
            (known.refused_in_a_row, known.refused_until_ms) = (0, 0);
        }
        if trunks.values().all(|known| known.refused_in_a_row == 0) {
            self.is_any_refused.store(0, Ordering::Release);
        }
    }

    /// Whether nothing is to be sent because the password was refused lately.
    pub(crate) fn is_refused(&self, name: &str, now_ms: u64) -> bool {
        if self.is_any_refused.load(Ordering::Acquire) == 0 {
            return false;
        }
        let trunks = lock(&self.trunks);
        let known = trunks.get(name);
        known.is_some_and(|known| known.refused_until_ms > now_ms)
    }

    /// Another password may be right.
    pub(crate) fn forget_refusals(&self, name: &str) {
        self.accepted(name);
    }

    /// What is shown of all trunks of which anything is known, in order.
    pub fn all(&self, now_ms: u64) -> Vec<(Box<str>, Shown)> {
        let names: Vec<Box<str>> = lock(&self.trunks).keys().cloned().collect();
        let shown = names.into_iter().map(|name| {
            let shown = self.shown(&name, now_ms);
            (name, shown)
        });
        shown.collect()
    }

    /// What is shown of a trunk.
    pub fn shown(&self, name: &str, now_ms: u64) -> Shown {
        let known = lock(&self.trunks).get(name).cloned().unwrap_or_default();
        let of = &known.registration;
        Shown {
            state: of.state,
            age_ms: now_ms.saturating_sub(of.since_ms),
            left_ms: of.until_ms.saturating_sub(now_ms),
            member: of.member,
            last_status: of.last_status,
            failures_in_a_row: of.failures_in_a_row,
            registered_total: of.registered_total,
            failed_total: of.failed_total,
            refused_for_ms: known.refused_until_ms.saturating_sub(now_ms),
            refused_total: known.refused_total,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A table is whole whenever its lock is free.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn an_address_is_its_members_for_a_time_after_dns_gave_it() {
        let shared = SharedTrunks::default();
        let version = shared.version();
        shared.given("sip.example", &[ip(1), ip(2)], 1_000);
        assert_ne!(shared.version(), version);
        let version = shared.version();
        shared.given("sip.example", &[ip(1), ip(2)], 2_000);
        assert_eq!(shared.version(), version, "nothing has changed");
        // One that DNS does not give any more goes in its time; what is new counts at once.
        shared.given("sip.example", &[ip(1), ip(3)], 3_000);
        assert_eq!(shared.addresses("sip.example"), [ip(1), ip(2), ip(3)]);
        shared.given("sip.example", &[ip(1)], 2_000 + GIVEN_MS);
        assert_eq!(shared.addresses("sip.example"), [ip(1), ip(3)]);
        assert!(shared.addresses("other.example").is_empty());
        let many: Vec<IpAddr> = (0..=255).map(ip).collect();
        shared.given("many.example", &many, 1);
        assert_eq!(shared.addresses("many.example").len(), ADDRESSES_MAX);
    }

    #[test]
    fn a_password_that_is_refused_is_left_alone_for_longer_each_time() {
        let shared = SharedTrunks::default();
        assert!(!shared.is_refused("p", 0));
        let mut now_ms = 1_000;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let for_ms = shared.refused("p", now_ms).unwrap();
            pauses.push(for_ms);
            // Another that was under way makes it no longer.
            assert_eq!(shared.refused("p", now_ms + 1), None);
            now_ms += for_ms;
            assert!(shared.is_refused("p", now_ms - 1) && !shared.is_refused("p", now_ms));
            assert!(!shared.is_refused("other", now_ms - 1));
        }
        let seconds: Vec<u64> = pauses.iter().map(|ms| ms / 1_000).collect();
        assert_eq!(seconds, [30, 60, 120, 240, 480, 960, 1_800, 1_800]);
        assert_eq!(shared.shown("p", now_ms).refused_total, 16);
        shared.accepted("p");
        assert_eq!(shared.refused("p", now_ms), Some(30_000), "it begins anew");
        shared.forget_refusals("p");
        assert!(!shared.is_refused("p", now_ms + 1));
    }

    #[test]
    fn what_is_shown_of_a_registration() {
        let shared = SharedTrunks::default();
        assert_eq!(shared.shown("p", 5).state, None);
        let member = SocketAddr::new(ip(1), 5060);
        shared.stands("p", 1_000, State::Asking, 0, None);
        shared.stands("p", 1_100, State::Registered, 61_100, Some((member, 200)));
        shared.stands("p", 31_100, State::Registered, 91_100, Some((member, 200)));
        let shown = shared.shown("p", 41_100);
        assert_eq!((shown.age_ms, shown.left_ms), (40_000, 50_000));
        assert_eq!((shown.member, shown.last_status), (Some(member), Some(200)));
        assert_eq!(shown.registered_total, 2);
        for at_ms in [50_000, 60_000] {
            let state = State::Failing(Failure::Silent);
            shared.stands("p", at_ms, state, at_ms + 30_000, None);
        }
        let shown = shared.shown("p", 61_000);
        assert_eq!((shown.failures_in_a_row, shown.age_ms), (2, 11_000));
        assert_eq!(shown.state.map(State::name), Some("failing"));
    }
}
