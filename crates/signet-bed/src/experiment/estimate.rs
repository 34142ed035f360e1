//! How long a run takes.

use super::case::{Authentication, Case, Flow, Load};
use super::file::{Experiment, Form};

/// Starting a server and load, the loops between measurements, and stopping, in seconds.
pub const VISIT_S: f64 = 1.5;
/// What pointing a server at its users in a database adds.
pub const DATABASE_S: f64 = 0.5;
/// Registrations a second where agents register before they call.
pub const REGISTERED_PER_S: f64 = 400.0;
/// Seeking a peak.
pub const PEAK_S: f64 = 40.0;

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
        let measured_s = match load {
            Load::Peak { .. } => PEAK_S,
            Load::Rate { .. } => f64::from(plan.warm_up_s) + f64::from(plan.measure_s),
        };
        let agents = case.setting.agents;
        let registered_s = match case.setting.flow {
            Flow::CallsToRegistered => {
                f64::from(agents.callers.saturating_add(agents.called)) / REGISTERED_PER_S
            }
            Flow::Calls | Flow::Registrations => 0.0,
        };
        let database_s = match case.setting.authentication {
            Authentication::Mariadb => DATABASE_S,
            Authentication::None | Authentication::Own => 0.0,
        };
        VISIT_S + database_s + registered_s + measured_s
    }
}
