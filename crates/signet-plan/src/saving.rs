//! What a change would save.

use serde::{Deserialize, Serialize};

use crate::demand::{Demand, Key, Users};
use crate::plan::{Plan, sized};
use crate::profile::Profile;

/// What one change of the demand comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    /// The change: `resumption from 60% to 95%`.
    pub change: String,
    /// Cores that it saves, as a fraction, at the load that is allowed; below 0 it costs them.
    pub cores: f64,
    /// Machines that it saves.
    pub machines: i64,
    /// Whether it gives up protection: told so that its price is known, and no advice.
    pub gives_up: bool,
}

/// Less than this is not told, in cores.
const TOLD_FROM: f64 = 0.005;
/// A share that is reached where sessions, nonces or a cache work well.
const GOOD: f64 = 0.95;

/// What each change that makes sense would save, the most first.
pub(crate) fn savings(profile: &Profile, demand: &Demand, plan: &Plan) -> Vec<Saving> {
    let is_own = plan.from.is_own;
    let Ok((_, cores)) = sized(profile, demand, is_own) else {
        return Vec::new();
    };
    let tried = changes(demand).into_iter().filter_map(|change| {
        let (name, changed, gives_up) = change;
        // What has no price cannot be told.
        let (other, other_cores) = sized(profile, &changed, is_own).ok()?;
        let machines = i64::try_from(plan.machines).ok()? - i64::try_from(other.machines).ok()?;
        Some(Saving {
            change: name,
            cores: cores - other_cores,
            machines,
            gives_up,
        })
    });
    let mut found: Vec<Saving> = tried
        .filter(|saving| saving.cores.abs() >= TOLD_FROM)
        .collect();
    found.sort_by(|a, b| b.cores.total_cmp(&a.cores));
    found
}

/// A change, the demand with it, and whether it gives up protection.
type Change = (String, Demand, bool);

fn changes(demand: &Demand) -> Vec<Change> {
    let mut tried = Tried {
        demand,
        changes: Vec::new(),
    };
    tried.add_those_that_keep_protection();
    tried.add_those_that_give_it_up();
    tried.changes
}

/// The changes that are tried on a demand.
struct Tried<'a> {
    demand: &'a Demand,
    changes: Vec<Change>,
}

impl Tried<'_> {
    fn add_those_that_keep_protection(&mut self) {
        let demand = self.demand;
        let percent = signet_page::number::percent;
        let has_tls = demand.transports.tls > 0.0;
        if has_tls && demand.tls.resumed < GOOD {
            let from = percent(demand.tls.resumed);
            self.add(
                format!("resumption from {from} to {}", percent(GOOD)),
                false,
                |changed| changed.tls.resumed = GOOD,
            );
        }
        if has_tls && demand.storm.resumed < GOOD {
            let from = percent(demand.storm.resumed);
            self.add(
                format!(
                    "resumption after a restart from {from} to {}",
                    percent(GOOD)
                ),
                false,
                |changed| changed.storm.resumed = GOOD,
            );
        }
        if has_tls && demand.tls.key == Key::Rsa2048 {
            self.add(
                "a P-256 certificate in the place of RSA-2048".to_owned(),
                false,
                |changed| changed.tls.key = Key::P256,
            );
        }
        self.add(
            format!("twice the time to be back, {} s", demand.storm.absorb_s * 2),
            false,
            |changed| changed.storm.absorb_s *= 2,
        );
        self.add(
            format!(
                "connections that live for {} s",
                demand.connections.lifetime_s * 4
            ),
            false,
            |changed| changed.connections.lifetime_s *= 4,
        );
        self.add(
            format!(
                "registrations for {} s",
                demand.registrations.interval_s * 2
            ),
            false,
            |changed| changed.registrations.interval_s *= 2,
        );
        let users = demand.authentication.users;
        if users != Users::None && demand.authentication.challenged > 1.0 - GOOD {
            let from = percent(demand.authentication.challenged);
            self.add(
                format!(
                    "challenges from {from} of requests to {}",
                    percent(1.0 - GOOD)
                ),
                false,
                |changed| changed.authentication.challenged = 1.0 - GOOD,
            );
        }
        if users == Users::Database && demand.authentication.cached < GOOD {
            let from = percent(demand.authentication.cached);
            self.add(
                format!(
                    "look-ups that the cache answers from {from} to {}",
                    percent(GOOD)
                ),
                false,
                |changed| changed.authentication.cached = GOOD,
            );
        }
    }

    fn add_those_that_give_it_up(&mut self) {
        let demand = self.demand;
        let has_tls = demand.transports.tls > 0.0;
        if has_tls && demand.tls.mutual > 0.0 {
            self.add("no certificates of clients".to_owned(), true, |changed| {
                changed.tls.mutual = 0.0;
            });
        }
        if has_tls {
            self.add("UDP in the place of TLS".to_owned(), true, |changed| {
                changed.transports.udp += changed.transports.tls;
                changed.transports.tls = 0.0;
            });
        }
        if demand.authentication.users != Users::None {
            self.add("no authentication".to_owned(), true, |changed| {
                changed.authentication.users = Users::None;
            });
        }
    }

    /// Adds a change, unless the demand is so already.
    fn add(&mut self, name: String, gives_up: bool, set: impl FnOnce(&mut Demand)) {
        let mut changed = self.demand.clone();
        set(&mut changed);
        if changed != *self.demand {
            self.changes.push((name, changed, gives_up));
        }
    }
}

impl Saving {
    /// In a line: `resumption from 60% to 95%: 4.10 cores fewer, 1 machine fewer`.
    pub fn told(&self) -> String {
        let figure = signet_page::number::figure;
        let (cores, word) = if self.cores >= 0.0 {
            (self.cores, "fewer")
        } else {
            (-self.cores, "more")
        };
        let mut told = format!("{}: {} cores {word}", self.change, figure(cores));
        let (count, word) = if self.machines >= 0 {
            (self.machines, "fewer")
        } else {
            (-self.machines, "more")
        };
        if count > 0 {
            let plural = if count == 1 { "" } else { "s" };
            told.push_str(&format!(", {count} machine{plural} {word}"));
        }
        told
    }
}
