//! What the called side of a run answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sip::Causes;

/// What a called side saw and answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answered {
    /// Calls that came.
    pub calls: u64,
    /// Calls that were answered and acknowledged.
    pub established: u64,
    /// Calls that the other side ended.
    pub ended: u64,
    /// Calls that ended otherwise: never acknowledged, cancelled, cut.
    pub failed: u64,
    /// Why they did.
    pub causes: Causes,
    /// Final responses, by method and status; a response that was sent again counts once.
    pub responses: BTreeMap<String, BTreeMap<u16, u64>>,
}

impl Answered {
    /// So many final responses of this status to requests of this method.
    pub fn add(&mut self, method: &str, status: u16, count: u64) {
        let of_method = self.responses.entry(method.to_owned()).or_default();
        *of_method.entry(status).or_default() += count;
    }

    /// Final responses of this status to requests of this method.
    pub fn responses(&self, method: &str, status: u16) -> u64 {
        let of_method = self.responses.get(method);
        of_method
            .and_then(|statuses| statuses.get(&status))
            .copied()
            .unwrap_or(0)
    }

    /// All of it as lines for a terminal.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "called side: {} calls came, {} acknowledged, {} ended by the caller, {} failed",
            self.calls, self.established, self.ended, self.failed
        )];
        for (method, statuses) in &self.responses {
            for (status, count) in statuses {
                lines.push(format!("{count:>12}  {method} answered {status}"));
            }
        }
        for (cause, count) in self.causes.ranked() {
            lines.push(format!("{count:>12}  failed: {cause}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sip::Failure;

    #[test]
    fn answers_are_counted_by_method_and_status() {
        let mut answered = Answered::default();
        for (method, status, count) in [("INVITE", 200, 3), ("BYE", 481, 1), ("INVITE", 200, 2)] {
            answered.add(method, status, count);
        }
        answered.add("INVITE", 486, 1);
        assert_eq!(answered.responses("INVITE", 200), 5);
        assert_eq!(answered.responses("INVITE", 404), 0);
        assert_eq!(answered.responses("MESSAGE", 200), 0);
        (answered.calls, answered.failed) = (6, 1);
        answered.causes.add(Failure::Other("no ack"));
        assert_eq!(
            answered.lines(),
            [
                "called side: 6 calls came, 0 acknowledged, 0 ended by the caller, 1 failed",
                "           1  BYE answered 481",
                "           5  INVITE answered 200",
                "           1  INVITE answered 486",
                "           1  failed: no ack",
            ]
        );
        let json = serde_json::to_string(&answered).unwrap();
        assert!(json.contains(r#""INVITE":{"200":5,"486":1}"#), "{json}");
        assert_eq!(serde_json::from_str::<Answered>(&json).unwrap(), answered);
    }
}
