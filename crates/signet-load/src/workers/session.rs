//! Who may say what when. Two tables, one for each side; what is not in them ends the
//! connection.

use super::wire::{PROTOCOL, ToController, ToWorker};

/// Where a worker stands with its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Nothing was said.
    New,
    /// Greeted; there is nothing to do.
    Idle,
    /// A load is being prepared.
    Preparing,
    /// It waits for its time.
    Prepared,
    /// It runs, or its time was told.
    Running,
}

impl Duty {
    /// The state after a message of the controller's.
    ///
    /// # Errors
    /// Where it may not be said now.
    pub(super) fn after(self, message: &ToWorker) -> Result<Self, String> {
        use Duty::{Idle, New, Prepared, Preparing, Running};
        match (self, message) {
            (New, ToWorker::Hello { protocol, .. }) if *protocol == PROTOCOL => Ok(Idle),
            (New, ToWorker::Hello { protocol, .. }) => Err(other_version(*protocol)),
            (Idle | Preparing | Prepared | Running, ToWorker::Ping { .. }) => Ok(self),
            (Idle, ToWorker::Job(_)) => Ok(Preparing),
            (Prepared, ToWorker::Start { .. }) => Ok(Running),
            // It may cross the last word of the run.
            (Idle | Preparing | Prepared | Running, ToWorker::Stop { .. }) => Ok(self),
            _ => Err(format!("{} may not be said now", name(message))),
        }
    }

    /// Whether there is a load.
    pub(super) const fn is_busy(self) -> bool {
        matches!(self, Self::Preparing | Self::Prepared | Self::Running)
    }
}

/// Where a controller stands with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was greeted.
    Greeting,
    /// It greeted back.
    Idle,
    /// It was given its job.
    Asked,
    /// It prepares it.
    Preparing,
    /// It could begin.
    Prepared,
    /// It was told when.
    Running,
    /// Its result is here, or the reason why there is none.
    Over,
}

impl Stage {
    /// The state after a message of the worker's.
    ///
    /// # Errors
    /// Where it may not be said now, or a refusal's reason.
    pub(super) fn after(self, message: &ToController) -> Result<Self, String> {
        use Stage::{Asked, Greeting, Idle, Over, Prepared, Preparing, Running};
        match (self, message) {
            (Greeting, ToController::Hello { protocol, .. }) if *protocol == PROTOCOL => Ok(Idle),
            (Greeting, ToController::Hello { protocol, .. }) => Err(other_version(*protocol)),
            (Greeting | Asked, ToController::Refused { why }) => Err(why.clone()),
            (Idle | Asked | Preparing | Prepared | Running, ToController::Pong { .. }) => Ok(self),
            (Asked, ToController::Accepted) => Ok(Preparing),
            (Preparing | Prepared | Running, ToController::Tick(_)) => Ok(self),
            (Preparing, ToController::Prepared) => Ok(Prepared),
            (Preparing | Prepared | Running, ToController::Second(_)) => Ok(self),
            (Preparing | Prepared | Running, ToController::Done(_)) => Ok(Over),
            (Preparing | Prepared | Running, ToController::Failed { .. }) => Ok(Over),
            _ => Err(format!("a worker may not say that while it is {self:?}")),
        }
    }
}

fn other_version(protocol: u32) -> String {
    format!(
        "the other side speaks version {protocol}, this one {PROTOCOL}: run the same program on all machines"
    )
}

const fn name(message: &ToWorker) -> &'static str {
    match message {
        ToWorker::Hello { .. } => "hello",
        ToWorker::Ping { .. } => "ping",
        ToWorker::Job(_) => "job",
        ToWorker::Start { .. } => "start",
        ToWorker::Stop { .. } => "stop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state after each message in turn; `None` where it ends the connection.
    fn walk<S: Copy, M>(
        state: S,
        after: fn(S, &M) -> Result<S, String>,
        messages: &[M],
    ) -> Vec<Option<S>> {
        messages
            .iter()
            .map(|message| after(state, message).ok())
            .collect()
    }

    #[test]
    fn every_step_of_a_worker() {
        use Duty::*;
        let hello = |protocol| ToWorker::Hello {
            protocol,
            program: String::new(),
        };
        let messages = [
            hello(PROTOCOL),
            hello(PROTOCOL + 1),
            ToWorker::Ping { round: 1 },
            ToWorker::Job(Box::default()),
            ToWorker::Start { at_ns: 1 },
            ToWorker::Stop { at_once: true },
        ];
        let stays = |state| Some(state);
        for (state, expected) in [
            (New, [Some(Idle), None, None, None, None, None]),
            (
                Idle,
                [None, None, stays(Idle), Some(Preparing), None, stays(Idle)],
            ),
            (
                Preparing,
                [None, None, stays(Preparing), None, None, stays(Preparing)],
            ),
            (
                Prepared,
                [
                    None,
                    None,
                    stays(Prepared),
                    None,
                    Some(Running),
                    stays(Prepared),
                ],
            ),
            (
                Running,
                [None, None, stays(Running), None, None, stays(Running)],
            ),
        ] {
            assert_eq!(walk(state, Duty::after, &messages), expected, "{state:?}");
        }
    }

    #[test]
    fn every_step_of_a_controller() {
        use Stage::*;
        let messages = [
            ToController::Hello {
                protocol: PROTOCOL,
                program: String::new(),
                cores: 1,
            },
            ToController::Refused { why: String::new() },
            ToController::Pong {
                round: 1,
                clock_ns: 1,
            },
            ToController::Accepted,
            ToController::Tick(Box::default()),
            ToController::Second(Default::default()),
            ToController::Prepared,
            ToController::Done(Box::default()),
            ToController::Failed { why: String::new() },
        ];
        for (state, expected) in [
            (
                Greeting,
                [Some(Idle), None, None, None, None, None, None, None, None],
            ),
            (
                Idle,
                [None, None, Some(Idle), None, None, None, None, None, None],
            ),
            (
                Asked,
                [
                    None,
                    None,
                    Some(Asked),
                    Some(Preparing),
                    None,
                    None,
                    None,
                    None,
                    None,
                ],
            ),
            (
                Preparing,
                [
                    None,
                    None,
                    Some(Preparing),
                    None,
                    Some(Preparing),
                    Some(Preparing),
                    Some(Prepared),
                    Some(Over),
                    Some(Over),
                ],
            ),
            (
                Prepared,
                [
                    None,
                    None,
                    Some(Prepared),
                    None,
                    Some(Prepared),
                    Some(Prepared),
                    None,
                    Some(Over),
                    Some(Over),
                ],
            ),
            (
                Running,
                [
                    None,
                    None,
                    Some(Running),
                    None,
                    Some(Running),
                    Some(Running),
                    None,
                    Some(Over),
                    Some(Over),
                ],
            ),
            (Over, [None; 9]),
        ] {
            assert_eq!(walk(state, Stage::after, &messages), expected, "{state:?}");
        }
    }

    #[test]
    fn another_version_is_told_with_both_numbers() {
        let hello = ToWorker::Hello {
            protocol: 99,
            program: String::new(),
        };
        let error = Duty::New.after(&hello).unwrap_err();
        assert!(
            error.contains("99") && error.contains("same program"),
            "{error}"
        );
    }
}
