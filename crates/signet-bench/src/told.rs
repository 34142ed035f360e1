//! What a run of `signet load` told of itself.

use std::collections::BTreeMap;

use measure::{RunResult, Second};
use serde::Serialize;

/// What a run told of itself.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Told {
    /// Calls that ran to their end.
    pub(crate) completed: u64,
    /// Calls that did not.
    pub(crate) failed: u64,
    /// Why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) causes: BTreeMap<String, u64>,
    /// Messages sent again.
    pub(crate) retransmissions: u64,
    /// Why the generator itself could have made the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) doubts: Vec<String>,
    /// Full handshakes of the callers.
    pub(crate) handshakes_full: u64,
    /// Resumed ones.
    pub(crate) handshakes_resumed: u64,
    /// Failed ones.
    pub(crate) handshakes_failed: u64,
    /// The set-up delay of 99% of the calls, from the intended time.
    pub(crate) setup_p99_us: u64,
    /// The longest.
    pub(crate) setup_max_us: u64,
    /// Everything.
    #[serde(skip)]
    pub(crate) result: RunResult,
}

impl Told {
    pub(crate) fn new(result: RunResult) -> Self {
        let causes = serde_json::to_value(&result.causes).unwrap_or_default();
        let causes = causes.as_object().into_iter().flatten();
        // A run that has served is asked to end.
        let doubts = result
            .doubts
            .iter()
            .filter(|doubt| doubt.name != "interrupted");
        let setup = result.figures.setup.summary().intended;
        Self {
            completed: result.figures.completed,
            failed: result.causes.total(),
            causes: causes
                .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)))
                .collect(),
            retransmissions: result.retransmissions.sent(),
            doubts: doubts
                .map(|doubt| {
                    let (figure, bound) = (doubt.figure, doubt.bound);
                    format!("{}: {figure:.3}, bound {bound:.3}", doubt.name)
                })
                .collect(),
            handshakes_full: result.handshakes.full,
            handshakes_resumed: result.handshakes.resumed,
            handshakes_failed: result.handshakes.failed,
            setup_p99_us: setup.p99_us,
            setup_max_us: setup.max_us,
            result,
        }
    }

    /// Of the calls that ended, the share that ended well.
    pub(crate) fn share_ok(&self) -> f64 {
        self.completed as f64 / (self.completed + self.failed).max(1) as f64
    }

    /// Of the calls that were due, the share that ended well: those to which the generator did not
    /// come while its schedule lasted were none that a server could serve.
    pub(crate) fn share_of_due(&self) -> f64 {
        let health = &self.result.health;
        let begun = health.due.saturating_sub(health.unsent);
        begun as f64 / health.due.max(1) as f64 * self.share_ok()
    }

    /// A counter of the result.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.result.counters.get(name).copied().unwrap_or(0)
    }

    /// The seconds from `from_s` to before `to_s`.
    pub(crate) fn between(&self, from_s: u64, to_s: u64) -> impl Iterator<Item = &Second> {
        let seconds = self.result.series.iter();
        seconds.filter(move |second| second.at_s >= from_s && second.at_s < to_s)
    }

    /// Why a figure that rests on this run is to be doubted.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.doubts.clone();
        if self.failed > 0 {
            remarks.push(format!("{} calls failed: {:?}", self.failed, self.causes));
        }
        if self.retransmissions > 0 {
            remarks.push(format!("{} messages sent again", self.retransmissions));
        }
        if self.handshakes_failed > 0 {
            remarks.push(format!("{} handshakes failed", self.handshakes_failed));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use measure::{Health, SipFigures};

    use super::*;

    fn told(due: u64, unsent: u64, completed: u64) -> Told {
        Told::new(RunResult {
            health: Health {
                due,
                unsent,
                ..Health::default()
            },
            figures: SipFigures {
                completed,
                ..SipFigures::default()
            },
            ..RunResult::default()
        })
    }

    #[test]
    fn calls_that_did_not_begin_are_none_that_a_server_served() {
        let behind = told(1_000, 100, 900);
        assert_eq!((behind.share_ok(), behind.share_of_due()), (1.0, 0.9));
        assert_eq!(told(1_000, 0, 1_000).share_of_due(), 1.0);
        assert_eq!(told(0, 0, 0).share_of_due(), 0.0);
    }
}
