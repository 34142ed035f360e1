//! The highest rate with fewer than one failure in a hundred and no queue that grows, found by
//! a ramp.

use std::collections::BTreeMap;

use measure::{Highest, Ramp, RampConfig, RampStep, Second};
use serde::{Deserialize, Serialize};
use signet_bed::watch::Looks;

use super::load::Callers;
use super::scene::{Scene, Who, bound, taken};
use super::server::figures;
use super::{Bench, ports};
use crate::told::Told;

/// The share of failures that is too many, as in the paper.
const FAILURES_MAX: f64 = 0.01;
/// A second in which fewer ended than were due leaves a queue that grows.
const ENDED_MIN: f64 = 0.9;

/// A peak, and what it took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Peak {
    /// Calls a second that ended well: authentications.
    pub(super) rate_per_s: f64,
    /// Set-up delay in that second, from the time at which each call was due.
    pub(super) setup_p50_ms: f64,
    pub(super) setup_p99_ms: f64,
    /// Payload both ways between server and database.
    pub(super) bytes_each: f64,
    /// With headers, acknowledgements left out.
    pub(super) wire_bytes_each: f64,
    pub(super) packets_each: f64,
    pub(super) round_trips_each: f64,
    /// Cores that server, relay, database and load took.
    pub(super) cores: [f64; 4],
    /// What bounds it.
    pub(super) bound: String,
    /// How late the relay was, one in a hundred.
    pub(super) relay_late_p99_us: f64,
    /// What Signet said of its look-ups at the end of the ramp.
    pub(super) figures: BTreeMap<String, f64>,
    /// Why calls failed, all of the ramp.
    pub(super) causes: BTreeMap<String, u64>,
}

impl Bench<'_> {
    /// Seconds of a ramp.
    const fn ramp_s(&self) -> u64 {
        if self.is_quick() { 6 } else { 12 }
    }

    /// The peak of what is on the stage, which is guessed to be near `guess_per_s`. A search
    /// that finds none is made once more: what calls fail in a moment may be the machine's.
    pub(super) fn peak(
        &self,
        scene: &Scene<'_>,
        guess_per_s: f64,
        callers: Callers<'_>,
    ) -> Result<Peak, String> {
        self.peak_by(scene, guess_per_s, callers, true)
    }

    /// The same in coarse steps, for the many cells of a grid.
    pub(super) fn peak_about(
        &self,
        scene: &Scene<'_>,
        guess_per_s: f64,
        callers: Callers<'_>,
    ) -> Result<Peak, String> {
        self.peak_by(scene, guess_per_s, callers, false)
    }

    fn peak_by(
        &self,
        scene: &Scene<'_>,
        guess_per_s: f64,
        callers: Callers<'_>,
        is_fine: bool,
    ) -> Result<Peak, String> {
        let found = self.search(scene, guess_per_s, callers, is_fine)?;
        let found = match found {
            Some(found) => Some(found),
            None => self.search(scene, guess_per_s, callers, is_fine)?,
        };
        found.ok_or_else(|| "not even the lowest rate is held".to_owned())
    }

    fn search(
        &self,
        scene: &Scene<'_>,
        guess_per_s: f64,
        callers: Callers<'_>,
        is_fine: bool,
    ) -> Result<Option<Peak>, String> {
        let mut ramp = Ramp::new(RampConfig {
            guess_per_s,
            failures_max: FAILURES_MAX,
            ended_min: ENDED_MIN,
            hold_ms: 0,
            is_fine,
        });
        let mut best = None;
        while let RampStep::Try {
            from_per_s,
            to_per_s,
        } = ramp.next()
        {
            let (told, looks) = self.ramp(scene, (from_per_s, to_per_s), callers)?;
            if let Some(found) = ramp.give(&told.result.series) {
                best = Some(self.peak_at(found, &told, &looks));
            }
        }
        Ok(best)
    }

    /// What a ramp told, and what was seen of those on the stage.
    fn ramp(
        &self,
        scene: &Scene<'_>,
        (from, to): (f64, f64),
        callers: Callers<'_>,
    ) -> Result<(Told, Looks<Who>), String> {
        let seconds = self.ramp_s();
        let schedule = format!("ramp {from:.0}..{to:.0}/s over {seconds}s");
        let load = self.call_by_known(&schedule, seconds, callers, from)?;
        let watch = scene.watch(&load);
        let told = load.end();
        let looks = watch.end();
        Ok((told?, looks))
    }

    fn peak_at(&self, found: Highest, told: &Told, looks: &Looks<Who>) -> Peak {
        let (from_s, to_s) = (found.at_s as f64, found.at_s as f64 + 2.3);
        let held = taken(looks, from_s, to_s).unwrap_or_default();
        // What is full shows when a little more is asked for.
        let beyond = taken(looks, from_s + 1.0, to_s + 1.0).unwrap_or(held);
        let rate = found.rate_per_s.max(1.0);
        let of = |pick: fn(&Second) -> u64| {
            let within = told.between(found.at_s, found.at_s + 2).map(pick);
            within.max().unwrap_or(0) as f64 / 1_000.0
        };
        Peak {
            rate_per_s: found.rate_per_s,
            setup_p50_ms: of(|second| second.p50_us),
            setup_p99_ms: of(|second| second.p99_us),
            bytes_each: held.bytes_per_s / rate,
            wire_bytes_each: held.wire_bytes_per_s / rate,
            packets_each: held.packets_per_s / rate,
            round_trips_each: held.round_trips_per_s / rate,
            cores: held.cores,
            bound: bound(&self.arguments.cores, &beyond),
            relay_late_p99_us: held.relay_late_p99_us,
            figures: figures(self.port(ports::METRICS)).unwrap_or_default(),
            causes: told.causes.clone(),
        }
    }
}
