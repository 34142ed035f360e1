//! Answers that may be given again, by the fields that the operator named.

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::figures::HookCacheFigures;
use crate::{Answer, Field, Question};

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheConfig {
    /// By what: questions that have the same there have the same answer. Without any nothing is
    /// remembered.
    pub fields: Vec<Field>,
    /// Answers that are held.
    pub entries_max: usize,
}

/// The answers, shared by all threads. Each lives as long as it said itself, and no longer than
/// until [`Cache::clear`].
pub struct Cache {
    config: CacheConfig,
    /// Callers choose what is hashed: without the key they aim at nobody's answer.
    key: [u8; 16],
    held: Mutex<Held>,
}

/// When a question was asked, as far as the cache cares: an answer to one from before
/// [`Cache::clear`] is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// What stands for a question: its fields, hashed to more bits than two of them have in common by
/// chance.
type Key = u128;

#[derive(Default)]
struct Held {
    entries: HashMap<Key, Entry>,
    /// In the order in which they came; what was replaced is here twice, and counts once.
    order: VecDeque<(u64, Key)>,
    came: u64,
    cleared: u64,
    figures: HookCacheFigures,
}

struct Entry {
    answer: Arc<Answer>,
    until_us: u64,
    nth: u64,
}

impl Cache {
    /// An empty one. The key is secret.
    pub fn new(key: [u8; 16], config: CacheConfig) -> Self {
        Self {
            config,
            key,
            held: Mutex::default(),
        }
    }

    /// What was answered to a question like this, where that is still good.
    pub fn get(&self, now_us: u64, question: &Question) -> Option<Arc<Answer>> {
        let key = self.key(question)?;
        let mut held = self.held();
        let found = held.entries.get(&key);
        let found = found.filter(|entry| now_us < entry.until_us);
        let answer = found.map(|entry| Arc::clone(&entry.answer));
        match answer {
            Some(_) => held.figures.hits += 1,
            None => held.figures.misses += 1,
        }
        answer
    }

    /// To be taken before a question is asked.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.held().cleared)
    }

    /// Keeps an answer, if it says that it may be kept.
    pub fn put(&self, now_us: u64, question: &Question, ticket: Ticket, answer: &Arc<Answer>) {
        let Some(key) = self.key(question).filter(|_| answer.cache_s() > 0) else {
            return;
        };
        let mut held = self.held();
        if Ticket(held.cleared) != ticket {
            return;
        }
        held.came += 1;
        let nth = held.came;
        let until_us = now_us.saturating_add(answer.cache_s().saturating_mul(1_000_000));
        let answer = Arc::clone(answer);
        held.entries.insert(
            key,
            Entry {
                answer,
                until_us,
                nth,
            },
        );
        held.order.push_back((nth, key));
        held.keep_to(self.config.entries_max);
    }

    /// Forgets everything: what is under way as well.
    pub fn clear(&self) {
        let mut held = self.held();
        let gone = (
            std::mem::take(&mut held.entries),
            std::mem::take(&mut held.order),
        );
        held.cleared += 1;
        held.figures.cleared += 1;
        // To drop many takes long, and workers ask meanwhile.
        drop(held);
        drop(gone);
    }

    /// What it did, and what it holds.
    pub fn figures(&self) -> HookCacheFigures {
        let held = self.held();
        HookCacheFigures {
            entries: held.entries.len() as u64,
            ..held.figures
        }
    }

    fn key(&self, question: &Question) -> Option<Key> {
        if self.config.fields.is_empty() || self.config.entries_max == 0 {
            return None;
        }
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u8(question.kind as u8);
        for field in &self.config.fields {
            field.write(question, &mut hasher);
        }
        Some(hasher.finish128().as_u128())
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Each change is whole by itself.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The oldest make room. The order has no more places than twice the entries: what was
    /// replaced is swept out then.
    fn keep_to(&mut self, entries_max: usize) {
        while self.entries.len() > entries_max
            && let Some((nth, key)) = self.order.pop_front()
        {
            if self.entries.get(&key).is_some_and(|entry| entry.nth == nth) {
                self.entries.remove(&key);
            }
        }
        if self.order.len() > 2 * entries_max {
            let entries = &self.entries;
            let is_live = |(nth, key): &(u64, Key)| {
                let entry = entries.get(key);
                entry.is_some_and(|entry| entry.nth == *nth)
            };
            self.order.retain(is_live);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::question::a_call;
    use serde_json::json;

    fn answer(cache_s: u64) -> Arc<Answer> {
        let given = json!({"action": "continue", "cache_s": cache_s});
        Arc::new(Answer::read(&given).unwrap())
    }

    fn by(fields: &[Field], entries_max: usize) -> Cache {
        let config = CacheConfig {
            fields: fields.to_vec(),
            entries_max,
        };
        Cache::new([3; 16], config)
    }

    #[test]
    fn an_answer_is_given_again_for_the_same_and_for_its_time() {
        let cache = by(&[Field::User, Field::RequestUri], 10);
        let (alice, bob) = (a_call("alice", "sip:1@x"), a_call("bob", "sip:1@x"));
        cache.put(0, &alice, cache.ticket(), &answer(2));
        assert!(cache.get(1_999_999, &alice).is_some());
        assert!(cache.get(2_000_000, &alice).is_none());
        assert!(cache.get(1, &bob).is_none());
        assert!(cache.get(1, &a_call("alice", "sip:2@x")).is_none());
        let mut from_elsewhere = alice.clone();
        from_elsewhere.source_port = 7;
        from_elsewhere.call_id = "another".into();
        assert!(cache.get(1, &from_elsewhere).is_some());
        // One field does not run into the next, and a message is no call.
        assert!(cache.get(1, &a_call("alices", "ip:1@x")).is_none());
        let mut message = alice.clone();
        message.kind = crate::Kind::Message;
        assert!(cache.get(1, &message).is_none());
        let figures = cache.figures();
        assert_eq!((figures.hits, figures.misses, figures.entries), (2, 5, 1));
    }

    #[test]
    fn nothing_is_kept_that_does_not_say_so_or_by_no_field() {
        let alice = a_call("alice", "sip:1@x");
        let cache = by(&[Field::User], 10);
        cache.put(0, &alice, cache.ticket(), &answer(0));
        assert!(cache.get(0, &alice).is_none());
        for cache in [by(&[], 10), by(&[Field::User], 0)] {
            cache.put(0, &alice, cache.ticket(), &answer(60));
            assert!(cache.get(0, &alice).is_none());
        }
    }

    #[test]
    fn what_was_asked_before_it_was_cleared_does_not_come_back() {
        let cache = by(&[Field::User], 10);
        let alice = a_call("alice", "sip:1@x");
        cache.put(0, &alice, cache.ticket(), &answer(60));
        let before = cache.ticket();
        cache.clear();
        assert!(cache.get(0, &alice).is_none());
        cache.put(0, &alice, before, &answer(60));
        assert!(cache.get(0, &alice).is_none());
        cache.put(0, &alice, cache.ticket(), &answer(60));
        assert!(cache.get(0, &alice).is_some());
    }

    #[test]
    fn the_oldest_make_room_and_nothing_grows() {
        let cache = by(&[Field::User], 8);
        for round in 0..100 {
            let user = format!("user{}", round % 16);
            cache.put(0, &a_call(&user, "x"), cache.ticket(), &answer(60));
            // One that is asked for all the time is replaced each time.
            cache.put(0, &a_call("often", "x"), cache.ticket(), &answer(60));
        }
        let held = cache.held();
        assert_eq!(held.entries.len(), 8);
        assert!(held.order.len() <= 16, "{}", held.order.len());
        drop(held);
        assert!(cache.get(0, &a_call("often", "x")).is_some());
        assert!(cache.get(0, &a_call("user4", "x")).is_none());
    }
}
