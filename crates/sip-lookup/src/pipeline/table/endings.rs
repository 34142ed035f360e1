//! How look-ups end: answered, failed, out of time, or asked again.

use invariant::broken;
use sip_auth::{Algorithm, Subject};
use slots::Name;
use smallvec::SmallVec;

use super::{Again, Answered, Answers, Chain, Expired, Line, Lookup, LookupStage, Table, What};
use crate::question::{Outcome, Unavailable};

/// How many waiters of a look-up were answered in their time, and how many after it.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    in_time: u64,
    late: u64,
}

/// How many were answered by a later row than their own, and how many after their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::pipeline) struct Settled {
    pub(in crate::pipeline) overtaken: u64,
    pub(in crate::pipeline) late: u64,
}

impl<T> Table<T> {
    /// Gives the waiters of one look-up to another, before its own.
    pub(in crate::pipeline) fn merge(&mut self, from: Name, into: Name) {
        let Some(mut lookup) = self.remove(from) else {
            return broken!("what is merged is there");
        };
        lookup
            .waiters
            .retain(|name| match self.waiters.get_mut(*name) {
                Some(waiter) => {
                    waiter.lookup = into;
                    true
                }
                None => false,
            });
        let Some(other) = self.lookups.get_mut(into) else {
            return broken!("what is merged into is there");
        };
        other.since_us = other.since_us.min(lookup.since_us);
        other.waiting += lookup.waiters.len();
        lookup.waiters.append(&mut other.waiters);
        other.waiters = lookup.waiters;
        // Whatever made its batch fail may be in this one now.
        self.move_to(into, lookup.line);
    }

    /// Has a look-up asked again that was sent in vain: by the next one of its subject, which
    /// left or will leave later and so speaks for both, or by itself, where it may.
    pub(in crate::pipeline) fn again(&mut self, name: Name, by_itself: bool) -> Again {
        if let Some(next) = self.next_of(name) {
            self.merge(name, next);
            return Again::Merged;
        }
        if !by_itself {
            return Again::Over;
        }
        self.enqueue(name, true);
        Again::Queued
    }

    fn next_of(&self, name: Name) -> Option<Name> {
        let lookup = self.lookups.get(name)?;
        let What::Secrets(subject) = &lookup.what else {
            return None;
        };
        let chain = self.chains.get(subject)?;
        let at = chain.iter().position(|&other| other == name)?;
        chain.get(at + 1).copied()
    }

    /// Ends a look-up with an answer, and with it all earlier ones of its subject: it left
    /// after them, so it is as good for their waiters, who come first.
    pub(in crate::pipeline) fn settle(
        &mut self,
        now_us: u64,
        name: Name,
        reply: impl Fn(Algorithm) -> Outcome,
        answers: &mut Answers<T>,
    ) -> Settled {
        let mut settled = Settled::default();
        for earlier in self.up_to(name) {
            let ended = self.finish(now_us, earlier, &reply, answers);
            settled.late += ended.late;
            if earlier != name {
                settled.overtaken += ended.in_time;
            }
        }
        settled
    }

    /// Ends a look-up without an answer. How many waited for it.
    pub(in crate::pipeline) fn fail(
        &mut self,
        now_us: u64,
        name: Name,
        why: Unavailable,
        answers: &mut Answers<T>,
    ) -> u64 {
        let ended = self.finish(now_us, name, &|_| Err(why), answers);
        ended.in_time + ended.late
    }

    /// A look-up and the earlier ones of its subject, in their order.
    fn up_to(&self, name: Name) -> Chain {
        let alone: Chain = SmallVec::from_slice(&[name]);
        let Some(lookup) = self.lookups.get(name) else {
            return SmallVec::new();
        };
        let What::Secrets(subject) = &lookup.what else {
            return alone;
        };
        if !lookup.is_chained {
            return alone;
        }
        let chain = self.chains.get(subject).map_or(&[][..], |chain| chain);
        match chain.iter().position(|&other| other == name) {
            Some(at) => chain.iter().take(at + 1).copied().collect(),
            None => broken!("a look-up is in the chain of its subject", alone),
        }
    }

    fn finish(
        &mut self,
        now_us: u64,
        name: Name,
        reply: &impl Fn(Algorithm) -> Outcome,
        answers: &mut Answers<T>,
    ) -> Ended {
        let mut ended = Ended::default();
        let Some(lookup) = self.remove(name) else {
            return ended;
        };
        for name in lookup.waiters {
            let Some(waiter) = self.waiters.remove(name) else {
                continue;
            };
            self.deadlines.cancel(waiter.timer);
            let outcome = match now_us < waiter.deadline_us {
                true => {
                    ended.in_time += 1;
                    reply(waiter.algorithm)
                }
                false => {
                    ended.late += 1;
                    Err(Unavailable {
                        retry_after_s: None,
                    })
                }
            };
            answers.push_back(Answered {
                nth: waiter.nth,
                tag: waiter.tag,
                outcome,
            });
        }
        ended
    }

    /// Answers those whose time is up. What nobody waits for any more is not asked: its
    /// subject, which the cache may have wanted renewed, is given to `dropped`.
    pub(in crate::pipeline) fn expire(
        &mut self,
        now_us: u64,
        answers: &mut Answers<T>,
        mut dropped: impl FnMut(&Subject),
    ) -> Expired {
        let mut due = SmallVec::<[Name; 16]>::new();
        self.deadlines
            .advance(now_us / 1_000, |name| due.push(name));
        let mut expired = Expired::default();
        for name in due {
            let Some(waiter) = self.waiters.remove(name) else {
                broken!("the timer of a waiter who has left is cancelled");
                continue;
            };
            let why = Unavailable {
                retry_after_s: None,
            };
            answers.push_back(Answered {
                nth: waiter.nth,
                tag: waiter.tag,
                outcome: Err(why),
            });
            let Some(lookup) = self.lookups.get_mut(waiter.lookup) else {
                broken!("a waiter waits for a look-up");
                continue;
            };
            lookup.waiting -= 1;
            let is_over = lookup.waiting == 0;
            match lookup.place {
                LookupStage::Queued => {
                    expired.unasked += 1;
                    if is_over
                        && let Some(lookup) = self.remove(waiter.lookup)
                        && let What::Secrets(subject) = &lookup.what
                    {
                        dropped(subject);
                    }
                }
                LookupStage::Sent | LookupStage::Refresh => expired.asked += 1,
            }
        }
        expired
    }

    /// Fails whatever has not been sent. How many waited; the subjects, which the cache may
    /// have wanted renewed, are given to `dropped`.
    pub(in crate::pipeline) fn fail_queued(
        &mut self,
        now_us: u64,
        why: Unavailable,
        answers: &mut Answers<T>,
        mut dropped: impl FnMut(&Subject),
    ) -> u64 {
        let mut failed = 0;
        for line in Line::ALL {
            while let Some(name) = self.pop(line) {
                if let Some(lookup) = self.lookups.get(name)
                    && let What::Secrets(subject) = &lookup.what
                {
                    dropped(subject);
                }
                failed += self.fail(now_us, name, why, answers);
            }
        }
        while let Some(name) = self.pop_refresh() {
            if let Some(Lookup {
                what: What::Secrets(subject),
                ..
            }) = self.remove(name)
            {
                dropped(&subject);
            }
        }
        failed
    }
}
