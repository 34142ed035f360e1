//! Where a plan leaves what was measured, and by how much its interval grows there.
//!
//! The shares added here are judgements and not measurements: what is beyond the calibration
//! cannot be measured by it. They stand in the plan with their reasons.

use serde::{Deserialize, Serialize};

use crate::demand::{Demand, Users};
use crate::fit::{SPARE_MIN, UNSEEN};
use crate::profile::Profile;
use crate::rates;

/// A reason to trust a plan less, and by what share of the figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Widening {
    /// The reason.
    pub why: String,
    /// The standard error that it adds, as a share.
    pub share: f64,
}

/// For each doubling of a machine's cores: messages that workers hand over to each other were
/// not measured, as calibration has one worker.
const PER_DOUBLING: f64 = 0.03;
/// A machine that is not this one.
const ELSEWHERE: f64 = 0.15;
/// A calibration in a hurry.
const IN_A_HURRY: f64 = 0.25;
/// A server that is busier than any that was measured, for each multiple of that.
const BUSIER: f64 = 0.02;
/// More connections than were held, for each doubling.
const MORE_HELD: f64 = 0.01;
/// A database further away than any that was measured.
const FURTHER: f64 = 0.05;
/// Transactions that end later were not measured, or did not show above the noise.
const NO_LATER: f64 = 0.10;

/// What of a demand is beyond a profile.
pub(crate) fn widenings(profile: &Profile, demand: &Demand, is_own: bool) -> Vec<Widening> {
    let mut found = Vec::new();
    let mut add = |why: String, share: f64| {
        if share > 0.0 {
            found.push(Widening { why, share });
        }
    };
    if !is_own {
        let model = &profile.machine.cpu_model;
        add(
            format!(
                "the prices are those of another machine ({model}), or which it is cannot be told"
            ),
            ELSEWHERE,
        );
    }
    if profile.is_quick {
        add("the calibration was made in a hurry".to_owned(), IN_A_HURRY);
    }
    if profile.spare_runs() < SPARE_MIN {
        add(
            "hardly more runs count than there are prices: how far these are off does not show"
                .to_owned(),
            UNSEEN,
        );
    }
    let unseen = match profile.later {
        None => Some("was not measured"),
        Some(later) if !later.is_seen() => Some("was not above the noise of the long run"),
        Some(_) => None,
    };
    if let Some(why) = unseen {
        add(
            format!("what transactions cost when they end {why}"),
            NO_LATER,
        );
    }
    let cores = demand.machines.cores;
    if cores > 1 {
        add(
            format!(
                "one worker was measured, and a machine has {cores}: what they hand over to each other is not in the prices"
            ),
            PER_DOUBLING * f64::from(cores).log2(),
        );
    }
    let busiest = profile.fit.cores_max.max(0.01);
    if demand.machines.load_max > busiest {
        add(
            format!(
                "a core may be used to {:.0}%, and was used to {:.0}% at most",
                demand.machines.load_max * 100.0,
                busiest * 100.0
            ),
            BUSIER * (demand.machines.load_max / busiest - 1.0),
        );
    }
    let connected = rates::connected(demand);
    let held = (profile.connections_max as f64).max(1.0);
    if connected > held {
        add(
            format!("{connected:.0} connections, and {held:.0} were held at most"),
            MORE_HELD * (connected / held).log2(),
        );
    }
    let measured_ms = profile.database.map_or(0.0, |price| price.rtt_ms_max);
    let rtt_ms = demand.authentication.rtt_ms;
    if demand.authentication.users == Users::Database && rtt_ms > measured_ms {
        add(
            format!("the database is {rtt_ms} ms away, and was {measured_ms} ms at most"),
            FURTHER,
        );
    }
    found
}

/// The standard error of all figures from the fit and from what is beyond it, as a share. What
/// predictions were off by, where they were checked, takes the fit's place where that is more.
pub(crate) fn share(profile: &Profile, widened: &[Widening]) -> f64 {
    let checked = profile
        .checked
        .map_or(0.0, |checked| checked.root_mean_square);
    let fit = profile.fit.residual.max(checked);
    let squares: f64 = widened.iter().map(|one| one.share * one.share).sum();
    (fit * fit + squares).sqrt()
}
