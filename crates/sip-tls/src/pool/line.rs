//! Steps that wait for a thread, in the order in which they came, and how many of each source.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::queue::Step;

/// Steps in the order of their numbers. All that is done with one takes a time that grows with
/// the logarithm of how many there are.
#[derive(Default)]
pub(super) struct Line {
    steps: BTreeMap<u64, Waiting>,
    /// Source by source, each in the same order.
    by_source: BTreeSet<(IpAddr, u64)>,
    counts: HashMap<IpAddr, usize>,
    /// The source with most steps last.
    shares: BTreeSet<(usize, IpAddr)>,
}

/// One of them, and whether it still waits, as others are told.
pub(super) struct Waiting {
    pub(super) step: Step,
    pub(super) waits: Arc<AtomicBool>,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Puts one behind all others: its number is the greatest.
    pub(super) fn put(&mut self, number: u64, waiting: Waiting) {
        let source = waiting.step.source;
        self.by_source.insert((source, number));
        let before = self.count_of(source);
        self.count(source, before, before + 1);
        self.steps.insert(number, waiting);
    }

    /// The first of all.
    pub(super) fn take_first(&mut self) -> Option<Step> {
        let number = *self.steps.first_key_value()?.0;
        self.take_out(number)
    }

    /// Takes one out, if it is there.
    pub(super) fn take_out(&mut self, number: u64) -> Option<Step> {
        let Waiting { step, waits } = self.steps.remove(&number)?;
        waits.store(false, Ordering::Release);
        let source = step.source;
        self.by_source.remove(&(source, number));
        let before = self.count_of(source);
        self.count(source, before, before.saturating_sub(1));
        Some(step)
    }

    /// The last of the source that has most, where those are more than `few`, and more than
    /// `source` has with one more.
    pub(super) fn give_way(&mut self, source: IpAddr, few: usize) -> Option<Step> {
        let (most, greedy) = *self.shares.last()?;
        if most <= few.max(self.count_of(source) + 1) {
            return None;
        }
        let of_it = (greedy, 0)..=(greedy, u64::MAX);
        let (_, last) = *self.by_source.range(of_it).next_back()?;
        self.take_out(last)
    }

    fn count_of(&self, source: IpAddr) -> usize {
        self.counts.get(&source).copied().unwrap_or(0)
    }

    fn count(&mut self, source: IpAddr, before: usize, now: usize) {
        self.shares.remove(&(before, source));
        if now == 0 {
            self.counts.remove(&source);
        } else {
            self.counts.insert(source, now);
            self.shares.insert((now, source));
        }
    }
}
