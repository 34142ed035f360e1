//! What a running server's CPU time went into, between two looks at its figures, and what
//! that comes to for a call.
//!
//! The server accounts by component and not by request, so calls and registrations that
//! happen beside each other are not told apart: a call's figures then have in them the
//! registrations that came with it, and the notes say how many those are.

mod page;
mod text;

use measure::Figures;
use serde::{Deserialize, Serialize};
use signet_bed::Error;

pub use page::page;
pub use text::told;

/// The name in every file.
pub const FORMAT: &str = "signet-price-live";
/// The version that this crate writes.
pub const VERSION: u32 = 1;

/// CPU time by component, in seconds.
const CPU: &str = "signet_cpu_seconds_total";
/// A shorter window has too much of the half second in it by which figures may be late.
const SECONDS_MIN: f64 = 5.0;

/// Between which looks, and for what price.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The command line.
    pub command: String,
    /// Where the figures are from.
    pub from: String,
    /// When it began, seconds since 1970.
    pub started_unix_s: u64,
    /// The time between the looks.
    pub seconds: f64,
    /// What a core costs for an hour.
    pub core_hour_eur: f64,
}

/// What a window showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveRecord {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The command line.
    pub command: String,
    /// Where the figures are from.
    pub from: String,
    /// The version of the server's program.
    pub server: String,
    /// When the window began, seconds since 1970.
    pub started_unix_s: u64,
    /// How long it was.
    pub seconds: f64,
    /// What a core costs for an hour.
    pub core_hour_eur: f64,
    /// Calls begun: INVITEs outside of dialogs that were let in.
    pub calls: u64,
    /// REGISTERs answered 200.
    pub registrations: u64,
    /// By component, in the server's order.
    pub components: Vec<Spent>,
    /// All of them.
    pub total: Spent,
    /// What must be known to read it, in a sentence each.
    pub notes: Vec<String>,
}

/// What a component took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Its name among the server's figures.
    pub name: String,
    /// CPU time in the window.
    pub cpu_s: f64,
    /// Its part of the whole, from 0 to 1.
    pub share: f64,
    /// CPU time for each call, registrations that came beside in it; `None` without calls.
    pub us_per_call: Option<f64>,
    /// CPU time for each registration; `None` where there were calls, or no registrations.
    pub us_per_registration: Option<f64>,
    /// What a million calls cost.
    pub eur_per_million_calls: Option<f64>,
    /// What a million registrations cost.
    pub eur_per_million_registrations: Option<f64>,
}

/// What lies between two looks.
///
/// # Errors
/// A server that does not account, or was started anew meanwhile.
pub fn reckon(before: &Figures, after: &Figures, window: Window) -> Result<LiveRecord, Error> {
    let began = |figures: &Figures| figures.sum("signet_start_time_seconds");
    let components = passed(before, after);
    if components.is_empty() {
        return Err(Error::new(
            format!(
                "{}: the server does not tell where its CPU time goes",
                window.from
            ),
            "ask one of the same version as this program",
        ));
    }
    if began(before) != began(after) || components.iter().any(|(_, cpu_s)| *cpu_s < 0.0) {
        return Err(Error::new(
            format!(
                "{}: the server was started anew between the two looks",
                window.from
            ),
            "run it again",
        ));
    }
    let counted = |name: &str| (after.sum(name) - before.sum(name)).max(0.0).round() as u64;
    let (calls, registrations) = (
        counted("signet_calls_total"),
        counted("signet_registers_ok_total"),
    );
    let all_s: f64 = components.iter().map(|(_, cpu_s)| cpu_s).sum();
    let spent =
        |name: &str, cpu_s: f64| Spent::new(name, cpu_s, all_s, (calls, registrations), &window);
    let record = LiveRecord {
        format: FORMAT.to_owned(),
        version: VERSION,
        server: version(after),
        calls,
        registrations,
        components: components
            .iter()
            .map(|(name, cpu_s)| spent(name, *cpu_s))
            .collect(),
        total: spent("total", all_s),
        notes: notes(calls, registrations, window.seconds),
        command: window.command,
        from: window.from,
        started_unix_s: window.started_unix_s,
        seconds: window.seconds,
        core_hour_eur: window.core_hour_eur,
    };
    Ok(record)
}

/// The CPU time of each component between the looks, in seconds.
fn passed(before: &Figures, after: &Figures) -> Vec<(String, f64)> {
    let then: Vec<_> = before.by(CPU, "component").collect();
    let mut passed = Vec::new();
    for (name, cpu_s) in after.by(CPU, "component") {
        let first_s = then.iter().find(|(of, _)| *of == name);
        let first_s = first_s.map_or(0.0, |(_, cpu_s)| *cpu_s);
        passed.push((name.to_owned(), cpu_s - first_s));
    }
    passed
}

fn version(figures: &Figures) -> String {
    let mut versions = figures.by("signet_build_info", "version");
    let found = versions.next().map(|(version, _)| version.to_owned());
    found.unwrap_or_default()
}

impl Spent {
    fn new(name: &str, cpu_s: f64, all_s: f64, counts: (u64, u64), window: &Window) -> Self {
        let each = |count: u64, is_told: bool| (is_told && count > 0).then(|| cpu_s / count as f64);
        let (calls, registrations) = counts;
        let call_s = each(calls, true);
        let registration_s = each(registrations, calls == 0);
        let us = |each_s: Option<f64>| each_s.map(|s| s * 1e6);
        let eur = |each_s: Option<f64>| each_s.map(|s| s * 1e6 / 3_600.0 * window.core_hour_eur);
        Self {
            name: name.to_owned(),
            cpu_s,
            share: if all_s > 0.0 { cpu_s / all_s } else { 0.0 },
            us_per_call: us(call_s),
            us_per_registration: us(registration_s),
            eur_per_million_calls: eur(call_s),
            eur_per_million_registrations: eur(registration_s),
        }
    }
}

fn notes(calls: u64, registrations: u64, seconds: f64) -> Vec<String> {
    let mut notes = Vec::new();
    match (calls, registrations) {
        (0, 0) => notes.push(
            "there were no calls and no registrations, so none has a price: look while there are some, or for longer with --seconds"
                .to_owned(),
        ),
        (0, _) => notes.push("there were no calls, so a call has no price".to_owned()),
        (_, 0) => {}
        (calls, registrations) => notes.push(format!(
            "calls and registrations are not told apart: with each call there came {:.2} registrations, and what they cost is in its figures",
            registrations as f64 / calls as f64
        )),
    }
    if seconds < SECONDS_MIN {
        notes.push(format!(
            "the figures of workers are up to half a second late, which weighs in {seconds:.1} s: look for {SECONDS_MIN:.0} s or longer"
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
