//! What must hold of every answer.

use sip_auth::{Algorithm, Reply};
use sip_lookup::{Health, Mode, Outcome, Replica};

use super::{Event, MUTE, Open, POISON, TICK_US, World, read};

impl World {
    /// A hit is the user's own secret, was true within its lifetime, and is not older than
    /// what was announced. It counts for longer only while no replica can be asked.
    pub(super) fn judge_hit(&mut self, user: usize, reply: &Reply) {
        let Reply::Cached(secret) = reply else {
            panic!("the cache says {reply:?}");
        };
        let (whose, version) = read(secret);
        assert_eq!(whose, user, "another user's secret");
        let versions = &self.users[user].versions;
        assert!(versions[version as usize].1, "a secret that never was");
        if let Some((replaced_us, _)) = versions.get(version as usize + 1) {
            // It was read before that; a statement takes no longer than its timeout.
            let slack_us = self.timeout_us;
            let age_us = self.now_us - replaced_us;
            let stale_us = match self.is_outage() {
                true => self.stale_us,
                false => 0,
            };
            assert!(
                age_us <= self.lifetime_us + stale_us + slack_us,
                "{age_us} us old"
            );
        }
        assert!(version >= self.told[user], "older than what was announced");
    }

    fn is_outage(&self) -> bool {
        let health = |nth| self.pipeline.health(Replica(nth));
        (0..self.config.replicas).all(|nth| health(nth) != Health::Healthy)
    }

    pub(super) fn judge(&mut self, tag: u64, outcome: Outcome) {
        let open = self
            .open
            .remove(&tag)
            .expect("answered twice, or never asked");
        let user = open.user;
        assert!(
            self.now_us <= open.deadline_us + TICK_US,
            "answered {} us after its deadline",
            self.now_us - open.deadline_us
        );
        let at = self.order[user].iter().position(|&other| other == tag);
        let at = at.expect("it was taken");
        self.order[user].remove(at);
        // A digest is judged by itself, and waits for no other.
        let keeps_order = !self.verifies && !matches!(self.config.mode, Mode::Blocking { .. });
        if outcome.is_ok() && keeps_order {
            assert_eq!(at, 0, "it came before an earlier question of its user");
        }
        let is_secret = matches!(outcome, Ok(Reply::Secret(_)));
        match &outcome {
            Ok(reply) => {
                self.report.answered += 1;
                self.judge_reply(&open, reply);
            }
            Err(why) => {
                self.report.failed += 1;
                assert!(why.retry_after_s.is_none_or(|s| (1..=60).contains(&s)));
            }
        }
        // It takes a moment until the thread hears of it.
        let delay_us = self.random.u64(0..2_000);
        let subject = self.users[user].subject.clone();
        let is_confirmed = is_secret && self.random.bool();
        self.after(delay_us, Event::Heard(user, subject, is_confirmed));
    }

    /// An answer was true at a moment after the question, or for names that are not there,
    /// within the lifetime of that knowledge.
    fn judge_reply(&self, open: &Open, reply: &Reply) {
        let user = open.user;
        match reply {
            Reply::Verified(is_right) => assert_eq!(Some(*is_right), open.verifies),
            Reply::Secret(secret) => {
                let (whose, version) = read(secret);
                assert_eq!(whose, user, "another user's secret");
                assert_eq!(secret.algorithm(), open.algorithm);
                assert!(version >= open.version, "read before it was asked for");
            }
            Reply::Cached(_) | Reply::NotCached => panic!("the cache's answer from the pipeline"),
            Reply::Unknown => {
                // There is none whose algorithm is not there, be he mute until the end.
                let may_be_missing = user < POISON || user == MUTE;
                assert!(may_be_missing, "a failure is no missing user");
                let was_missing = open.algorithm != Algorithm::Md5
                    || self.was_missing(user, open.version, open.asked_us)
                    || self.cache.is_some()
                        && self.was_missing(user, self.told[user], self.known_since_us(open));
                assert!(was_missing, "he was there since {} us", open.asked_us);
            }
        }
    }

    /// Since when what is known of a missing name may be true at the earliest: it was read by a
    /// statement, and counted for its lifetime from the answer on.
    fn known_since_us(&self, open: &Open) -> u64 {
        let before_us = self.negative_lifetime_us + self.timeout_us;
        open.asked_us.saturating_sub(before_us)
    }

    /// Whether there was no such user at a moment from then on, in one of the versions from that
    /// one on.
    fn was_missing(&self, user: usize, version: u32, since_us: u64) -> bool {
        let versions = &self.users[user].versions;
        let ends_us = versions.iter().skip(1).map(|&(began_us, _)| began_us);
        let versions = versions.iter().zip(ends_us.chain([u64::MAX]));
        versions
            .skip(version as usize)
            .any(|(&(_, exists), end_us)| !exists && end_us >= since_us)
    }
}
