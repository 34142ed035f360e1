//! `signet limits`: what holds now of those who begin much, of memory and of load.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_limit::{Party, Rate};

use super::ask::{Nothing, ask_running, tell};
use super::socket::{Admin, Answered};
use super::{Form, Instance};
use crate::Error;

/// The version of the answer's form.
const VERSION: u32 = 1;

/// The limits in force.
#[derive(Serialize, Deserialize)]
pub(super) struct Listed {
    version: u32,
    /// Of each user, peer and source.
    rates: Vec<OfRate>,
    /// The seconds whose worth may come at once.
    burst_s: u32,
    refusals: OfRefusals,
    memory: OfMemory,
    /// By worker: 0 where it keeps up; each 1,000 more halves what is let in.
    overload_thousandths: Vec<u32>,
    is_draining: bool,
}

#[derive(Serialize, Deserialize)]
struct OfRate {
    by: String,
    what: String,
    /// 0 is no limit.
    per_s: u32,
    refused: u64,
}

#[derive(Serialize, Deserialize)]
struct OfRefusals {
    /// 0 is no limit.
    per_s: u32,
    owed_max: u32,
    silence_ms: u64,
    banned: usize,
}

#[derive(Serialize, Deserialize)]
struct OfMemory {
    held_bytes: u64,
    max_bytes: u64,
}

impl Listed {
    fn text(&self) -> String {
        let mut text = String::new();
        for of in &self.rates {
            let limit = match of.per_s {
                0 => "no limit".to_owned(),
                per_s => format!("{per_s}/s"),
            };
            let _ = writeln!(
                text,
                "each {} may begin {}: {limit}, {} refused",
                of.by, of.what, of.refused
            );
        }
        let refusals = &self.refusals;
        let _ = match refusals.per_s {
            0 => writeln!(text, "sources refused often still get answers"),
            per_s => writeln!(
                text,
                "a source may be refused {per_s}/s, {} at once; past it, no answers for {} s; {} get none",
                refusals.owed_max,
                refusals.silence_ms / 1_000,
                refusals.banned
            ),
        };
        let _ = writeln!(
            text,
            "messages hold {} of {} MiB",
            self.memory.held_bytes >> 20,
            self.memory.max_bytes >> 20
        );
        let worst = self.overload_thousandths.iter().max().copied().unwrap_or(0);
        let _ = match worst {
            0 => writeln!(text, "all workers keep up"),
            worst => writeln!(
                text,
                "the worst worker falls behind: overload {:.2}",
                f64::from(worst) / 1_000.0
            ),
        };
        if self.is_draining {
            text.push_str("new calls are refused: the server drains\n");
        }
        text
    }
}

/// Answers `/limits`.
pub(super) async fn listed(
    State(admin): State<Admin>,
    Json(Nothing {}): Json<Nothing>,
) -> Answered<Listed> {
    let settings = admin.look(0, |shard, _| shard.settings().clone()).await?;
    let sources = &admin.sources;
    let of_party = |party: Party| {
        Rate::ALL.map(|rate| OfRate {
            by: party.name().to_owned(),
            what: rate.name().to_owned(),
            per_s: settings.rates.of(party).per_s(rate),
            refused: sources.rates.limited(party, rate),
        })
    };
    let limits = sources.guard.limits();
    let snapshots = sources.control.snapshots();
    Ok(Json(Listed {
        version: VERSION,
        rates: Party::ALL.into_iter().flat_map(of_party).collect(),
        burst_s: settings.rates.burst_s,
        refusals: OfRefusals {
            per_s: limits.refusals_per_s,
            owed_max: limits.refusals_max,
            silence_ms: limits.silence_ms,
            banned: sources.guard.bans(sip_net::clock::now_ms()).len(),
        },
        memory: OfMemory {
            held_bytes: sources.budget.bytes_held(),
            max_bytes: sources.budget.bytes_max(),
        },
        overload_thousandths: snapshots.iter().map(|of| of.own.severity).collect(),
        is_draining: sources.control.phase() != crate::worker::Phase::Running,
    }))
}

/// Prints the limits in force.
pub fn limits(instance: &Instance, form: Form) -> Result<(), Error> {
    let otherwise = "etc/signet.toml has all limits with their defaults";
    let listed: Listed = ask_running(instance, "/limits", &Nothing {}, otherwise)?;
    tell(&listed, form, Listed::text)
}
