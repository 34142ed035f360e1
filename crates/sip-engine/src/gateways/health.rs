//! The health of one address of the operator's next hops, as all workers see it.
//!
//! What each call asks is atomic. What happened is noted under a lock of the address's
//! own, which is taken when something changes, and by probes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::routes::Probing;

/// How long it is remembered what an address did, where there is no room for others.
const KEPT_MS: u64 = 3_600_000;

/// Why an address is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It gave no answer to a request.
    Silent,
    /// A request could not be sent there.
    Unreachable,
    /// It answered 503.
    Busy,
    /// It asked for a pause, by Retry-After.
    RetryAfter,
    /// Too many probes in a row had no good answer.
    Probes,
}

impl Why {
    /// All.
    pub const ALL: [Self; 5] = [
        Self::Silent,
        Self::Unreachable,
        Self::Busy,
        Self::RetryAfter,
        Self::Probes,
    ];

    /// Its name, which programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Unreachable => "unreachable",
            Self::Busy => "busy",
            Self::RetryAfter => "retry_after",
            Self::Probes => "probes",
        }
    }

    /// The reason of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|why| why.name() == name)
    }

    /// What happened.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Silent => "it gave no answer",
            Self::Unreachable => "it cannot be reached",
            Self::Busy => "it answered 503",
            Self::RetryAfter => "it asked for a pause",
            Self::Probes => "its probes fail",
        }
    }

    /// Whether calls that it answers prove nothing against this until its time is over.
    const fn outlasts_answers(self) -> bool {
        matches!(self, Self::RetryAfter | Self::Probes)
    }
}

/// What has become of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is passed over from now on.
    PassedOver(Why),
    /// It is used again as before.
    Returned,
}

/// One address of a next hop.
#[derive(Debug)]
pub struct Health {
    /// The host, as the operator wrote it.
    name: Box<str>,
    /// Until when it is passed over, by the clock that only goes forward.
    out_until_ms: AtomicU64,
    /// Whether anything is held against it.
    is_suspect: AtomicBool,
    /// The status of the last answer, and when that was: see [`packed`].
    last_answer: AtomicU64,
    notes: Mutex<Notes>,
}

/// What happened to an address.
#[derive(Clone, Copy, Debug, Default)]
struct Notes {
    why: Option<Why>,
    /// Since when there is a reason.
    since_ms: u64,
    /// When something happened last.
    touched_ms: u64,
    /// Until when it has asked to be left alone.
    pause_until_ms: u64,
    /// Whether it is passed over only because a call tries it out at the moment.
    is_on_trial: bool,
    fails_in_a_row: u32,
    goods_in_a_row: u32,
    probes_good: u64,
    probes_failed: u64,
    times_passed_over: u64,
}

/// What is shown of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The host, as the operator wrote it.
    pub name: Box<str>,
    /// Why it is, or was lately, passed over; `None` where nothing is held against it.
    pub why: Option<Why>,
    /// For how long it still is; 0 where the next call tries it.
    pub out_for_ms: u64,
    /// For how long there is a reason.
    pub age_ms: u64,
    /// The status of its last answer, and how long ago that was.
    pub last_answer: Option<(u16, u64)>,
    /// Probes that had a good answer.
    pub probes_good: u64,
    /// Probes that had none.
    pub probes_failed: u64,
    /// How often it has been passed over.
    pub times_passed_over: u64,
}

impl Health {
    pub(super) fn new(name: &str, now_ms: u64) -> Self {
        let notes = Notes {
            touched_ms: now_ms,
            ..Notes::default()
        };
        Self {
            name: name.into(),
            out_until_ms: AtomicU64::new(0),
            is_suspect: AtomicBool::new(false),
            last_answer: AtomicU64::new(0),
            notes: Mutex::new(notes),
        }
    }

    /// The host, as the operator wrote it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is passed over.
    pub(crate) fn is_out(&self, now_ms: u64) -> bool {
        self.out_until_ms.load(Ordering::Relaxed) > now_ms
    }

    /// Whether something would be lost with it. To an address that DNS gives no more nothing
    /// happens any more, so it is forgotten in time.
    pub(super) fn is_worth_keeping(&self, now_ms: u64) -> bool {
        let notes = self.lock();
        let is_fresh = now_ms.saturating_sub(notes.touched_ms) < KEPT_MS;
        is_fresh && (notes.why.is_some() || notes.probes_good + notes.probes_failed > 0)
    }

    /// A request came to nothing there: it is passed over for `for_ms`.
    pub(crate) fn failed(&self, now_ms: u64, why: Why, for_ms: u64) -> Option<Change> {
        self.hold(&mut self.lock(), now_ms, why, for_ms)
    }

    /// A call is sent there. Where something was held against it until now, this call alone
    /// tries it out: others pass it over for as long as its first response may take.
    pub(crate) fn tried(&self, now_ms: u64, for_ms: u64) {
        if !self.is_suspect.load(Ordering::Acquire) || self.is_out(now_ms) {
            return;
        }
        let mut notes = self.lock();
        // Another worker may have been the first.
        if notes.why.is_some() && !self.is_out(now_ms) {
            notes.is_on_trial = true;
            let until_ms = now_ms.saturating_add(for_ms);
            self.out_until_ms.store(until_ms, Ordering::Relaxed);
        }
    }

    /// It has answered a request. An answer that is no good one says that it is there, and
    /// not that it takes calls; nor does one to a request within a call, or to one that was
    /// not waited for any more.
    pub(crate) fn answered(
        &self,
        now_ms: u64,
        status: u16,
        is_good: bool,
        is_in_time: bool,
    ) -> Option<Change> {
        self.note_answer(now_ms, status);
        if !self.is_suspect.load(Ordering::Acquire) {
            return None;
        }
        let mut notes = self.lock();
        notes.touched_ms = now_ms;
        let is_settled = match notes.why? {
            Why::Unreachable => true,
            Why::Silent => is_in_time,
            Why::Busy => is_in_time && is_good,
            Why::RetryAfter | Why::Probes => is_in_time && is_good && !self.is_held(&notes, now_ms),
        };
        is_settled.then(|| self.restore(&mut notes))
    }

    /// A probe is over: with a good answer, with another, or with none.
    pub(crate) fn probed(
        &self,
        now_ms: u64,
        status: Option<u16>,
        is_good: bool,
        probing: &Probing,
    ) -> Option<Change> {
        if let Some(status) = status {
            self.note_answer(now_ms, status);
        }
        let mut notes = self.lock();
        notes.touched_ms = now_ms;
        if !is_good {
            notes.probes_failed += 1;
            notes.goods_in_a_row = 0;
            notes.fails_in_a_row = notes.fails_in_a_row.saturating_add(1);
            // Should nobody probe it any more, it is tried again.
            let for_ms = probing.interval_ms.saturating_mul(3);
            let is_too_many = notes.fails_in_a_row >= probing.fails_max;
            return match is_too_many {
                true => self.hold(&mut notes, now_ms, Why::Probes, for_ms),
                false => None,
            };
        }
        notes.probes_good += 1;
        notes.fails_in_a_row = 0;
        notes.goods_in_a_row = notes.goods_in_a_row.saturating_add(1);
        let is_settled = match notes.why? {
            Why::Silent | Why::Unreachable | Why::Busy => true,
            Why::RetryAfter => !self.is_held(&notes, now_ms),
            Why::Probes => notes.goods_in_a_row >= probing.goods_min,
        };
        // Its probes have failed within a pause that it had asked for.
        if is_settled && notes.pause_until_ms > now_ms {
            notes.why = Some(Why::RetryAfter);
            self.out_until_ms
                .store(notes.pause_until_ms, Ordering::Relaxed);
            return None;
        }
        is_settled.then(|| self.restore(&mut notes))
    }

    /// What is shown of it.
    pub fn shown(&self, now_ms: u64) -> Shown {
        let notes = *self.lock();
        let last = self.last_answer.load(Ordering::Relaxed);
        let last = (last != 0).then(|| unpacked(last));
        let out_until_ms = self.out_until_ms.load(Ordering::Relaxed);
        Shown {
            name: self.name.clone(),
            why: notes.why,
            out_for_ms: out_until_ms.saturating_sub(now_ms),
            age_ms: match notes.why {
                Some(_) => now_ms.saturating_sub(notes.since_ms),
                None => 0,
            },
            last_answer: last.map(|(at_ms, status)| (status, now_ms.saturating_sub(at_ms))),
            probes_good: notes.probes_good,
            probes_failed: notes.probes_failed,
            times_passed_over: notes.times_passed_over,
        }
    }

    fn hold(&self, notes: &mut Notes, now_ms: u64, why: Why, for_ms: u64) -> Option<Change> {
        if for_ms == 0 {
            return None;
        }
        notes.touched_ms = now_ms;
        let held_until_ms = self.out_until_ms.load(Ordering::Relaxed);
        let is_held = self.is_held(notes, now_ms);
        // What a call meets does not cut short what probes or the gateway itself have said.
        let is_said = is_held && notes.why.is_some_and(Why::outlasts_answers);
        if !is_said || why.outlasts_answers() {
            let until_ms = now_ms.saturating_add(for_ms);
            let until_ms = match is_held {
                true => until_ms.max(held_until_ms),
                false => until_ms,
            };
            self.out_until_ms.store(until_ms, Ordering::Relaxed);
            notes.is_on_trial = false;
            if why == Why::RetryAfter {
                notes.pause_until_ms = until_ms;
            }
            let before = notes.why.replace(why);
            if before.is_none() {
                notes.since_ms = now_ms;
                notes.times_passed_over += 1;
                self.is_suspect.store(true, Ordering::Release);
                return Some(Change::PassedOver(why));
            }
        }
        None
    }

    /// Whether it is passed over for what is held against it, and not for a call that tries
    /// it out.
    fn is_held(&self, notes: &Notes, now_ms: u64) -> bool {
        self.is_out(now_ms) && !notes.is_on_trial
    }

    fn restore(&self, notes: &mut Notes) -> Change {
        notes.why = None;
        notes.is_on_trial = false;
        notes.pause_until_ms = 0;
        self.is_suspect.store(false, Ordering::Release);
        self.out_until_ms.store(0, Ordering::Relaxed);
        Change::Returned
    }

    /// Keeps the last answer: at most once a second for one status, so that workers do not wait
    /// for each other's cache lines.
    fn note_answer(&self, now_ms: u64, status: u16) {
        let (at_ms, before) = unpacked(self.last_answer.load(Ordering::Relaxed));
        if before != status || now_ms.saturating_sub(at_ms) >= 1_000 {
            self.last_answer
                .store(packed(now_ms, status), Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        // What is behind it is plain numbers.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const STATUS_BITS: u32 = 10;

const fn packed(at_ms: u64, status: u16) -> u64 {
    at_ms << STATUS_BITS | (status & ((1 << STATUS_BITS) - 1)) as u64
}

const fn unpacked(packed: u64) -> (u64, u16) {
    (
        packed >> STATUS_BITS,
        (packed & ((1 << STATUS_BITS) - 1)) as u16,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBING: Probing = Probing {
        interval_ms: 10_000,
        fails_max: 3,
        goods_min: 2,
    };

    #[test]
    fn who_does_not_answer_is_out_for_its_time_and_any_answer_ends_it() {
        let health = Health::new("gw", 0);
        let out = Some(Change::PassedOver(Why::Silent));
        assert_eq!(health.failed(100, Why::Silent, 1_000), out);
        // Told once, by whichever worker is the first.
        assert_eq!(health.failed(150, Why::Unreachable, 1_000), None);
        assert!(health.is_out(1_149) && !health.is_out(1_150));
        // It is on trial then: what it did before is not forgotten.
        assert_eq!(health.shown(2_000).why, Some(Why::Unreachable));
        assert_eq!(
            health.answered(2_000, 100, false, true),
            Some(Change::Returned)
        );
        assert_eq!(health.answered(2_001, 180, true, true), None);
        let shown = health.shown(3_000);
        assert_eq!((shown.why, shown.times_passed_over), (None, 1));
        assert_eq!(shown.last_answer, Some((180, 999)));
        assert_eq!(
            health.failed(5, Why::Silent, 0),
            None,
            "nobody is out for no time"
        );
        assert!(!health.is_out(5));
    }

    #[test]
    fn a_busy_one_is_not_redeemed_by_a_100() {
        let health = Health::new("gw", 0);
        health.failed(0, Why::Busy, 1_000);
        assert_eq!(health.answered(1, 100, false, true), None);
        assert!(health.is_out(2));
        assert_eq!(health.answered(2, 180, true, true), Some(Change::Returned));
        assert!(!health.is_out(3));
    }

    #[test]
    fn a_pause_that_was_asked_for_is_kept() {
        let health = Health::new("gw", 0);
        health.failed(0, Why::RetryAfter, 60_000);
        // Calls under way before it go on; so may failures, which do not make it shorter.
        assert_eq!(health.answered(10, 200, true, true), None);
        assert_eq!(health.failed(20, Why::Silent, 1_000), None);
        assert_eq!(health.probed(30, Some(200), true, &PROBING), None);
        assert!(health.is_out(59_999) && !health.is_out(60_000));
        assert_eq!(
            health.answered(60_000, 200, true, true),
            Some(Change::Returned)
        );
    }

    #[test]
    fn probes_have_thresholds_both_ways() {
        let health = Health::new("gw", 0);
        let probe = |at_ms, is_good: bool| {
            let status = is_good.then_some(200);
            health.probed(at_ms, status, is_good, &PROBING)
        };
        assert_eq!((probe(0, false), probe(1, false)), (None, None));
        assert_eq!(probe(2, true), None, "the row begins anew");
        assert_eq!((probe(3, false), probe(4, false)), (None, None));
        let out = Some(Change::PassedOver(Why::Probes));
        assert_eq!(probe(5, false), out);
        assert_eq!(probe(6, false), None);
        // Calls that it takes all the same do not bring it back before its time.
        assert_eq!(health.answered(7, 200, true, true), None);
        assert_eq!(probe(8, true), None);
        assert!(health.is_out(9));
        assert_eq!(probe(9, true), Some(Change::Returned));
        let shown = health.shown(10);
        assert_eq!((shown.probes_good, shown.probes_failed), (3, 6));
        // What nobody probes any more is tried again.
        for at_ms in 20..23 {
            probe(at_ms, false);
        }
        assert!(health.is_out(22 + 29_999) && !health.is_out(22 + 30_000));
    }

    #[test]
    fn one_call_at_a_time_tries_out_whom_something_is_held_against() {
        for why in Why::ALL {
            let health = Health::new("gw", 0);
            health.tried(0, 4_000);
            assert!(!health.is_out(0), "nothing is held against it");
            health.failed(0, why, 1_000);
            health.tried(500, 4_000);
            assert!(!health.is_out(1_000), "a call that goes there all the same");
            health.tried(1_000, 4_000);
            assert!(health.is_out(1_001) && !health.is_out(5_000), "{why:?}");
            // It fails again: that is no other time, and it is out for as long as before.
            assert_eq!(health.failed(4_900, Why::Silent, 1_000), None);
            assert!(health.is_out(5_899) && !health.is_out(5_900), "{why:?}");
            assert_eq!(health.shown(5_000).times_passed_over, 1);
            // It answers the next one.
            health.tried(6_000, 4_000);
            let back = health.answered(6_100, 180, true, true);
            assert_eq!(back, Some(Change::Returned), "{why:?}");
            assert!(!health.is_out(6_101));
        }
    }

    #[test]
    fn what_was_not_waited_for_proves_no_more_than_that_it_is_there() {
        for why in Why::ALL {
            let health = Health::new("gw", 0);
            health.failed(0, why, 1_000);
            let back = health.answered(2_000, 200, true, false);
            let is_back = why == Why::Unreachable;
            assert_eq!(back, is_back.then_some(Change::Returned), "{why:?}");
            assert_eq!(health.shown(2_000).last_answer, Some((200, 0)));
        }
    }

    #[test]
    fn probes_that_fail_and_succeed_do_not_cut_a_pause_short() {
        let health = Health::new("gw", 0);
        health.failed(0, Why::RetryAfter, 300_000);
        for at_ms in 1..=3 {
            health.probed(at_ms, None, false, &PROBING);
        }
        assert_eq!(health.shown(4).why, Some(Why::Probes));
        for at_ms in 5..=6 {
            assert_eq!(health.probed(at_ms, Some(200), true, &PROBING), None);
        }
        assert_eq!(health.shown(7).why, Some(Why::RetryAfter));
        assert!(health.is_out(299_999) && !health.is_out(300_000));
        let back = health.probed(300_000, Some(200), true, &PROBING);
        assert_eq!(back, Some(Change::Returned));
        // Nothing of it is left for the next time.
        health.failed(300_001, Why::Busy, 10_000);
        let back = health.probed(300_002, Some(200), true, &PROBING);
        assert_eq!(back, Some(Change::Returned));
    }

    #[test]
    fn an_answer_of_a_probe_brings_back_whom_a_call_has_lost() {
        for why in [Why::Silent, Why::Unreachable, Why::Busy] {
            let health = Health::new("gw", 0);
            health.failed(0, why, 30_000);
            let back = health.probed(1, Some(404), true, &PROBING);
            assert_eq!(back, Some(Change::Returned), "{why:?}");
        }
    }
}
