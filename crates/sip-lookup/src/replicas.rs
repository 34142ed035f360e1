//! Which of the stores with the same users is asked, and when one is left alone.
//!
//! # The breaker
//! A replica is *healthy* until [`PipelineConfig::failures_max`] failures come in a row, or the
//! first where another one is healthy: what it failed is asked again but once, and must not go
//! where it failed. Then it is *open*: it is asked nothing that anybody waits for, and tried at intervals
//! with a statement of one row (*probing*). Anything that it says closes the breaker,
//! a refusal of the statement too: whoever refuses is there, but not of use where he refuses a user
//! who was found. A refused log-in closes nothing, and
//! counts as a connection that could not be made: who does not let us in answers no statement,
//! whatever is in it. So does the word of a store that refuses any statement about users
//! ([`crate::BatchFailure::Unusable`]), whoever they are, and so does a statement that is broken
//! off ([`crate::BatchFailure::Cancelled`]) after others that all were.
//!
//! A replica that ends connections over a statement ([`crate::BatchFailure::Ended`]) is there, and
//! that closes no breaker: it may do so over every user. Names that strangers choose may be all that
//! it was asked, so where it has ended several and answered nothing between it is tried, as one is
//! that is left alone, with a user who was found; to end that counts as a failure. Where none was
//! found yet, so does the next one that it ends, if another replica is healthy. The same holds of a
//! replica that has refused several and answered nothing between: it may refuse whoever exists, and
//! answer about nobody.
//!
//! A failure counts only where it is news. One broken connection fails all statements in
//! flight at once: only a statement that was sent after the failure before it counts. A
//! statement that timed out counts where the replica has said nothing since it was sent;
//! else the statement was slow, and the replica is not gone. One about a name for which it was lost
//! before, alone, counts never: the replica is tried then as one that is left alone is, while it
//! goes on being asked, and what counts is whether that is answered.
//!
//! Probes leave at their interval whether or not the one before has failed, so that a
//! replica that swallows statements is found back within an interval and a round trip.
//! Nobody waits for them: they repeat a question that a replica has answered, or ask about nobody
//! where none has yet or where digests are verified, so that no name that a store never answers keeps
//! one from being found back, and while none is healthy in turn with it what was refused.
//!
//! # Failover
//! The first healthy replica in the configured order is asked. What fails with one is asked
//! of the next; the first one has the traffic back with its first answer.
//!
//! There is no hedging: docs/decisions/0118.

use crate::config::PipelineConfig;
use crate::question::Replica;

/// How a replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is asked.
    Healthy,
    /// It is left alone.
    Open,
    /// It is left alone, and a probe is in flight.
    Probing,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    failures: u32,
    /// When the last failure that counted was heard of.
    failed_us: Option<u64>,
    /// When it last said anything.
    heard_us: Option<u64>,
    /// Since when it is open.
    open_since_us: Option<u64>,
    /// It has said nothing to a name that it is taken never to answer, nor since; or it ends all
    /// connections.
    is_doubted: bool,
    next_probe_us: u64,
    probes: u32,
    /// How often it was tried since then.
    tries: u32,
    /// Statements that it has broken off, and none that it has answered between.
    broken_off: u32,
    /// The same of those over which it has ended connections.
    ended: u32,
    /// The same of those that it has refused.
    refused: u32,
}

impl State {
    /// Whether it is asked now and then what nobody waits for, to see whether it is there.
    const fn is_tried(&self) -> bool {
        self.open_since_us.is_some() || self.is_doubted
    }
}

/// Statements that a replica has broken off in a row, after which the next one counts as lost.
const BROKEN_OFF_MAX: u32 = 4;
/// Statements over which a replica has ended connections in a row, after which it is tried.
const ENDED_MAX: u32 = 4;
/// The same of statements that it has refused.
const REFUSED_MAX: u32 = 4;

/// All replicas.
#[derive(Debug)]
pub struct Replicas {
    states: Vec<State>,
    failures_max: u32,
    probe_interval_us: u64,
    breaks: u64,
}

impl Replicas {
    /// All of them healthy.
    pub fn new(config: &PipelineConfig) -> Self {
        let mut replicas = Self {
            states: Vec::new(),
            failures_max: 1,
            probe_interval_us: 1,
            breaks: 0,
        };
        replicas.reload(config);
        replicas
    }

    /// Takes new bounds. What is known of the replicas is kept.
    pub fn reload(&mut self, config: &PipelineConfig) {
        self.states.resize(config.replicas.max(1), State::default());
        self.failures_max = config.failures_max.max(1);
        self.probe_interval_us = config.probe_interval_us.max(1_000);
    }

    /// The replica to ask; `None` where all are away.
    pub fn healthy(&self) -> Option<Replica> {
        let first = self.states.iter().position(|s| s.open_since_us.is_none());
        first.map(Replica)
    }

    /// How one stands.
    pub fn health(&self, replica: Replica) -> Health {
        match self.states.get(replica.0) {
            Some(state) if state.open_since_us.is_some() => match state.probes {
                0 => Health::Open,
                _ => Health::Probing,
            },
            _ => Health::Healthy,
        }
    }

    /// How many stand like that.
    pub fn count(&self, health: Health) -> usize {
        (0..self.states.len())
            .filter(|&nth| self.health(Replica(nth)) == health)
            .count()
    }

    /// How often one was found gone.
    pub fn breaks(&self) -> u64 {
        self.breaks
    }

    /// Since when the one that was left alone last is away; 0 while one is healthy.
    pub fn away_us(&self, now_us: u64) -> u64 {
        let since = self.states.iter().map(|state| state.open_since_us);
        let last = since.reduce(|a, b| Some(a?.max(b?))).flatten();
        last.map_or(0, |since_us| now_us.saturating_sub(since_us))
    }

    /// The replica whose turn it is to be tried.
    pub fn take_probe(&mut self, now_us: u64) -> Option<Replica> {
        let interval_us = self.probe_interval_us;
        let is_due = |s: &State| s.is_tried() && s.next_probe_us <= now_us;
        let nth = self.states.iter().position(is_due)?;
        let state = self.states.get_mut(nth)?;
        state.next_probe_us = now_us + interval_us;
        state.probes += 1;
        state.tries = state.tries.wrapping_add(1);
        Some(Replica(nth))
    }

    /// How often one was tried since it is left alone.
    pub fn tries(&self, replica: Replica) -> u32 {
        self.states.get(replica.0).map_or(0, |state| state.tries)
    }

    /// When the next one is to be tried.
    pub fn next_probe_us(&self) -> Option<u64> {
        let tried = self.states.iter().filter(|s| s.is_tried());
        tried.map(|state| state.next_probe_us).min()
    }

    /// A probe has ended, in whatever way.
    pub fn end_probe(&mut self, replica: Replica) {
        if let Some(state) = self.states.get_mut(replica.0) {
            state.probes = state.probes.saturating_sub(1);
        }
    }

    /// A replica has broken a statement off.
    pub fn broke_off(&mut self, replica: Replica) {
        if let Some(state) = self.states.get_mut(replica.0) {
            state.broken_off = state.broken_off.saturating_add(1);
        }
    }

    /// A replica has answered a statement.
    pub fn answered(&mut self, replica: Replica) {
        if let Some(state) = self.states.get_mut(replica.0) {
            state.broken_off = 0;
            state.ended = 0;
            state.refused = 0;
        }
    }

    /// A replica has ended a connection over a statement, and is there. While it is tried, that says
    /// nothing for it.
    pub fn ended(&mut self, now_us: u64, replica: Replica) {
        if let Some(state) = self.states.get_mut(replica.0) {
            state.ended = state.ended.saturating_add(1);
            state.heard_us = Some(now_us);
            if !state.is_tried() {
                state.failures = 0;
            }
        }
    }

    /// Whether a replica is there and ends the connection over whatever it is asked.
    pub fn ends_all(&self, replica: Replica) -> bool {
        let state = self.states.get(replica.0);
        state.is_some_and(|state| state.ended >= ENDED_MAX)
    }

    /// A replica has refused a statement, and is there. Where it has refused several and answered
    /// none between, that says nothing for it while it is tried.
    pub fn refused(&mut self, now_us: u64, replica: Replica) {
        if let Some(state) = self.states.get_mut(replica.0) {
            state.refused = state.refused.saturating_add(1);
        }
        if !self.refuses_all(replica) {
            return self.heard(now_us, replica);
        }
        if let Some(state) = self.states.get_mut(replica.0) {
            state.heard_us = Some(now_us);
            if !state.is_tried() {
                state.failures = 0;
            }
        }
    }

    /// Whether a replica is there and refuses whatever it is asked about users.
    pub fn refuses_all(&self, replica: Replica) -> bool {
        let state = self.states.get(replica.0);
        state.is_some_and(|state| state.refused >= REFUSED_MAX)
    }

    /// Has a replica tried, to see whether it is of use.
    pub fn suspect(&mut self, replica: Replica) {
        if let Some(state) = self.states.get_mut(replica.0) {
            state.is_doubted = true;
        }
    }

    /// Whether another one is healthy.
    pub fn has_stand_in(&self, replica: Replica) -> bool {
        let mut others = self.states.iter().enumerate();
        others.any(|(nth, state)| nth != replica.0 && state.open_since_us.is_none())
    }

    /// Whether a replica is there and does nothing.
    pub fn breaks_all_off(&self, replica: Replica) -> bool {
        let state = self.states.get(replica.0);
        state.is_some_and(|state| state.broken_off >= BROKEN_OFF_MAX)
    }

    /// It said something.
    pub fn heard(&mut self, now_us: u64, replica: Replica) {
        if let Some(state) = self.states.get_mut(replica.0) {
            state.failures = 0;
            state.heard_us = Some(now_us);
            state.open_since_us = None;
            state.is_doubted = false;
        }
    }

    /// Whether it has said anything since then.
    pub fn has_spoken_since(&self, replica: Replica, sent_us: u64) -> bool {
        let heard_us = self.states.get(replica.0).and_then(|state| state.heard_us);
        heard_us.is_some_and(|heard_us| heard_us >= sent_us)
    }

    /// A statement sent then, about a name that is taken never to be answered, has failed without
    /// a word. That says nothing of the replica; so it is tried, where it has said nothing else.
    pub fn doubt(&mut self, replica: Replica, sent_us: u64) {
        if self.has_spoken_since(replica, sent_us) {
            return;
        }
        if let Some(state) = self.states.get_mut(replica.0) {
            state.is_doubted = true;
        }
    }

    /// A statement sent then has failed without a word.
    pub fn failed(&mut self, now_us: u64, replica: Replica, sent_us: u64, in_time: bool) {
        let has_stand_in = self.has_stand_in(replica);
        let Some(state) = self.states.get_mut(replica.0) else {
            return;
        };
        let is_news = match in_time {
            true => state.failed_us.is_none_or(|failed_us| sent_us >= failed_us),
            false => state.heard_us.is_none_or(|heard_us| heard_us < sent_us),
        };
        if !is_news {
            return;
        }
        state.failed_us = Some(now_us);
        state.failures = state.failures.saturating_add(1);
        let failures_max = if has_stand_in { 1 } else { self.failures_max };
        if state.failures >= failures_max && state.open_since_us.is_none() {
            state.open_since_us = Some(now_us);
            state.next_probe_us = now_us + self.probe_interval_us;
            state.tries = 0;
            self.breaks += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Replica = Replica(0);
    const SECOND: Replica = Replica(1);

    fn replicas(count: usize) -> Replicas {
        Replicas::new(&PipelineConfig {
            replicas: count,
            failures_max: 3,
            probe_interval_us: 200_000,
            ..PipelineConfig::default()
        })
    }

    fn kill(replicas: &mut Replicas, replica: Replica, at_us: u64) {
        for nth in 0..3 {
            replicas.failed(at_us + nth, replica, at_us + nth, true);
        }
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let mut replicas = replicas(1);
        for now_us in [1_000, 2_000, 3_000, 4_000] {
            replicas.failed(now_us, FIRST, now_us, true);
            replicas.failed(now_us + 1, FIRST, now_us + 1, true);
            replicas.heard(now_us + 2, FIRST);
        }
        assert_eq!(replicas.healthy(), Some(FIRST));
        kill(&mut replicas, FIRST, 9_000);
        assert_eq!(replicas.healthy(), None);
        assert_eq!(replicas.health(FIRST), Health::Open);
        assert_eq!(replicas.breaks(), 1);
        assert_eq!(replicas.away_us(1_009_002), 1_000_000);
    }

    #[test]
    fn one_broken_connection_is_one_failure() {
        let mut replicas = replicas(1);
        for sent_us in 0..60 {
            replicas.failed(1_000, FIRST, sent_us, true);
        }
        assert_eq!(replicas.healthy(), Some(FIRST));
    }

    #[test]
    fn a_slow_statement_is_no_sign_where_others_are_answered() {
        let mut replicas = replicas(1);
        replicas.heard(500, FIRST);
        for nth in 0..10 {
            replicas.failed(1_000_000 + nth, FIRST, nth, false);
        }
        assert_eq!(replicas.healthy(), Some(FIRST));
        for nth in 0..3 {
            replicas.failed(1_002_000 + nth, FIRST, 600 + nth, false);
        }
        assert_eq!(
            replicas.healthy(),
            None,
            "nothing was heard since they were sent"
        );
    }

    #[test]
    fn probes_leave_at_their_interval_until_one_is_answered() {
        let mut replicas = replicas(1);
        kill(&mut replicas, FIRST, 0);
        assert_eq!(replicas.next_probe_us(), Some(200_002));
        assert_eq!(replicas.take_probe(200_001), None);
        assert_eq!(replicas.take_probe(200_002), Some(FIRST));
        assert_eq!(replicas.take_probe(200_002), None);
        assert_eq!(replicas.health(FIRST), Health::Probing);
        assert_eq!(
            replicas.take_probe(400_002),
            Some(FIRST),
            "the first is not waited for"
        );
        replicas.end_probe(FIRST);
        replicas.failed(500_000, FIRST, 200_002, true);
        assert_eq!(replicas.health(FIRST), Health::Probing);
        replicas.end_probe(FIRST);
        replicas.heard(500_001, FIRST);
        assert_eq!(replicas.healthy(), Some(FIRST));
        assert_eq!(replicas.next_probe_us(), None);
    }

    #[test]
    fn one_that_is_doubted_is_tried_and_left_alone_where_it_does_not_answer() {
        let mut replicas = replicas(1);
        replicas.heard(1_000, FIRST);
        replicas.doubt(FIRST, 1_000);
        assert_eq!(replicas.next_probe_us(), None, "it has spoken since");
        replicas.doubt(FIRST, 1_001);
        assert_eq!(replicas.take_probe(2_000), Some(FIRST));
        replicas.end_probe(FIRST);
        replicas.heard(3_000, FIRST);
        assert_eq!(replicas.take_probe(1_000_000), None);
        replicas.doubt(FIRST, 1_000_000);
        for nth in 0..3 {
            assert_eq!(replicas.health(FIRST), Health::Healthy);
            let sent_us = 2_000_000 + nth * 200_000;
            assert_eq!(replicas.take_probe(sent_us), Some(FIRST));
            assert_eq!(replicas.take_probe(sent_us + 199_999), None);
            replicas.end_probe(FIRST);
            replicas.failed(3_000_000 + nth, FIRST, sent_us, false);
        }
        assert_eq!(replicas.health(FIRST), Health::Open);
    }

    #[test]
    fn the_next_one_stands_in_until_the_first_is_back() {
        let mut replicas = replicas(2);
        replicas.failed(0, FIRST, 0, true);
        assert_eq!(replicas.healthy(), Some(SECOND));
        // It is the last, and not given up so soon.
        replicas.failed(1, SECOND, 1, true);
        replicas.failed(2, SECOND, 2, true);
        assert_eq!(replicas.healthy(), Some(SECOND));
        assert_eq!(replicas.away_us(10), 0, "somebody is there");
        replicas.heard(300_000, FIRST);
        assert_eq!(replicas.healthy(), Some(FIRST));
    }
}
