//! How long a run takes.

use super::case::{Case, Flow, Load};
use super::file::{Experiment, Form};

/// Seconds that a server and the load take to start.
const START_S: f64 = 2.0;
/// Seconds that the last calls have, beyond the time that they are held.
const DRAIN_S: f64 = 3.0;
/// Agents that register a second, before they call.
const REGISTERED_PER_S: f64 = 500.0;
/// Seconds of a ramp, in which a peak is sought.
const RAMP_S: f64 = 10.0;
/// Ramps, and rates held, until a peak is found.
const RAMPS: f64 = 1.4;
const HELD: f64 = 1.6;

impl Experiment {
    /// How long a run of these systems takes, in seconds, as reckoned from its cases. What a
    /// system cannot do takes no time.
    pub fn estimate_s(&self, form: Form, systems: &[String]) -> f64 {
        let cases = self.cases(form);
        let mut sum_s = 0.0;
        for system in systems {
            for case in &cases {
                if self.reason_against(system, case).is_some() {
                    continue;
                }
                for load in &case.loads {
                    let repeats = f64::from(self.repeats(form, load));
                    sum_s += repeats * self.visit_s(form, case, load);
                }
            }
        }
        sum_s
    }

    /// How long it takes to measure a load of a case once, in seconds.
    pub fn visit_s(&self, form: Form, case: &Case, load: &Load) -> f64 {
        let plan = self.plan(form);
        let measured_s = f64::from(plan.warm_up_s) + f64::from(plan.measure_s);
        let agents = case.setting.agents;
        let registered_s = match case.setting.flow {
            Flow::CallsToRegistered => {
                f64::from(agents.callers.saturating_add(agents.called)) / REGISTERED_PER_S
            }
            Flow::Calls | Flow::Registrations => 0.0,
        };
        let hold_s = case.setting.hold_ms as f64 / 1_000.0;
        let around_s = START_S + registered_s + hold_s + DRAIN_S;
        match load {
            Load::Rate { .. } => around_s + measured_s,
            Load::Peak { .. } => RAMPS * (around_s + RAMP_S) + HELD * (around_s + measured_s),
        }
    }
}
