//! A plan for the terminal.

use std::fmt::Write as _;

use signet_page::number::{bytes, count, figure, percent, utc};

use crate::plan::{Decides, Estimate, Plan};
use crate::rates;
use crate::saving::Saving;

/// Parts that are told one by one; the others are added.
const PARTS_TOLD: usize = 8;
/// Changes that are told.
const SAVINGS_TOLD: usize = 6;

/// The plan in some forty lines.
pub fn text(plan: &Plan) -> String {
    let mut told = String::new();
    head(&mut told, plan);
    told.push('\n');
    load(&mut told, plan);
    parts(&mut told, plan);
    minute(&mut told, plan);
    savings(&mut told, plan);
    if !plan.widened.is_empty() {
        told.push_str("\nwhy the intervals are as wide as they are\n");
        for widening in &plan.widened {
            line(
                &mut told,
                format_args!("  {} ({})", widening.why, percent(widening.share)),
            );
        }
    }
    if !plan.unmeasured.is_empty() {
        told.push_str("\nwhat was not measured\n");
        for sentence in &plan.unmeasured {
            line(&mut told, format_args!("  {sentence}"));
        }
    }
    told
}

fn head(told: &mut String, plan: &Plan) {
    let machines = &plan.demand.machines;
    let spare = match machines.may_fail {
        0 => "none of which may fail".to_owned(),
        count => format!("{count} of which may fail"),
    };
    line(
        told,
        format_args!(
            "{} of {}, {spare}; {} each",
            many(plan.machines, "machine"),
            many(machines.cores, "core"),
            span(plan.memory_bytes, bytes)
        ),
    );
    let decided = match plan.decided_by {
        Decides::BusyHour => "the busy hour",
        Decides::Return => "the return of all after a restart",
    };
    line(
        told,
        format_args!(
            "{} at {} of each, as {decided} decides",
            many(plan.cores, "core"),
            percent(machines.load_max)
        ),
    );
    let basis = &plan.from;
    let whose = match basis.is_own {
        true => "measured on this machine",
        false => {
            "NOT YOURS, as far as can be told: measured elsewhere, or on a machine without /etc/machine-id"
        }
    };
    let checked = match basis.checked {
        Some(checked) => format!("; predictions from it were {}", checked.told()),
        None => "; its predictions were not checked: signet plan check".to_owned(),
    };
    line(
        told,
        format_args!(
            "prices of {} ({}, {}), {whose}{checked}",
            basis.profile,
            basis.cpu_model,
            utc(basis.made_unix_s)
        ),
    );
}

fn load(told: &mut String, plan: &Plan) {
    told.push_str("in the busy hour\n");
    let mut row = |name: &str, value: String| line(told, format_args!("  {name:<28}{value}"));
    row("CPU", format!("{} cores", span(plan.busy_cores, figure)));
    let calls = &plan.calls;
    row(
        "calls",
        format!(
            "{} a second, {} at once, at most {}",
            figure(calls.per_s),
            figure(calls.erlangs),
            count(calls.at_once)
        ),
    );
    row("lines to gateways", count(calls.gateway_lines));
    row(
        "registrations",
        format!("{} a second", figure(plan.rates.registrations_per_s())),
    );
    row(
        "TLS handshakes",
        format!("{} a second", figure(plan.rates.handshakes_per_s())),
    );
    row(
        "digests",
        format!("{} a second", figure(rates::verified_per_s(&plan.rates))),
    );
    row(
        "connections",
        format!("{} to each machine", count(plan.connections)),
    );
    row(
        "SIP in and out",
        format!(
            "{} Mbit/s",
            span(plan.sip_bits_per_s, |bits| figure(bits / 1e6))
        ),
    );
    if let Some(database) = &plan.database {
        row(
            "database",
            format!(
                "{} look-ups a second, {} after a restart: {} cores, {} under way{}",
                figure(database.lookups_per_s),
                figure(database.return_lookups_per_s),
                span(database.cores, figure),
                figure(database.under_way),
                database.bits_per_s.map_or_else(String::new, |bits| format!(
                    ", {} Mbit/s",
                    figure(bits / 1e6)
                ))
            ),
        );
    }
}

fn parts(told: &mut String, plan: &Plan) {
    told.push_str("\nwhere the busy hour's CPU time goes\n");
    for part in plan.parts.iter().take(PARTS_TOLD) {
        line(
            told,
            format_args!("  {:>6}  {}", percent(part.share), part.name),
        );
    }
    let rest: f64 = plan
        .parts
        .iter()
        .skip(PARTS_TOLD)
        .map(|part| part.share)
        .sum();
    if rest > 0.0 {
        line(told, format_args!("  {:>6}  all else", percent(rest)));
    }
}

fn minute(told: &mut String, plan: &Plan) {
    let minute = &plan.minute;
    told.push_str("\nthe busiest minute after a restart\n");
    line(
        told,
        format_args!(
            "  {} connections, {} handshakes ({} in full), {} registrations, {} look-ups",
            figure(minute.connections),
            figure(minute.handshakes),
            figure(minute.full_handshakes),
            figure(minute.registrations),
            figure(minute.lookups)
        ),
    );
    line(
        told,
        format_args!(
            "  CPU {} cores; with every core in use all are back after {}",
            span(minute.cores, figure),
            back(minute.all_back_s)
        ),
    );
}

pub(crate) fn back(seconds: f64) -> String {
    if seconds >= f64::MAX {
        "no time: the busy hour alone takes all of it".to_owned()
    } else {
        format!("{} s", figure(seconds))
    }
}

fn savings(told: &mut String, plan: &Plan) {
    let (given_up, kept): (Vec<&Saving>, Vec<&Saving>) =
        plan.savings.iter().partition(|saving| saving.gives_up);
    if !kept.is_empty() {
        told.push_str("\nwhat a change would save\n");
        for saving in kept.iter().take(SAVINGS_TOLD) {
            line(told, format_args!("  {}", saving.told()));
        }
    }
    if !given_up.is_empty() {
        told.push_str("\nwhat protection costs: without it\n");
        for saving in given_up {
            line(told, format_args!("  {}", saving.told()));
        }
    }
}

/// A figure and its interval: `4.10 (3.80 to 4.40)`.
pub(crate) fn span(estimate: Estimate, told: impl Fn(f64) -> String) -> String {
    format!(
        "{} ({} to {})",
        told(estimate.value),
        told(estimate.low),
        told(estimate.high)
    )
}

/// A number of things.
fn many(number: impl Into<u64>, thing: &str) -> String {
    match number.into() {
        1 => format!("1 {thing}"),
        number => format!("{} {thing}s", count(number)),
    }
}

fn line(told: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = writeln!(told, "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::{Key, Users};
    use crate::plan;
    use crate::testing::{demand, profile};

    #[test]
    fn a_plan_tells_all_that_it_has() {
        let demand = demand(|demand| {
            demand.authentication.users = Users::Database;
            demand.tls.key = Key::Rsa2048;
        });
        let text = text(&plan(&profile(), &demand, true).unwrap());
        for expected in [
            "machines of 4 cores, 1 of which may fail",
            "measured on this machine",
            "signet plan check",
            "lines to gateways",
            "look-ups a second",
            "where the busy hour's CPU time goes",
            "the busiest minute after a restart",
            "resumption after a restart from 60% to 95%",
            "a P-256 certificate in the place of RSA-2048",
            "no authentication",
            "one worker was measured",
            "what was not measured",
            "with one worker that had just started",
        ] {
            assert!(text.contains(expected), "no '{expected}' in\n{text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() < 170, "{line}");
        }
    }

    #[test]
    fn what_was_checked_says_on_how_many_and_at_what_load() {
        let mut profile = profile();
        profile.checked = Some(crate::profile::Checked {
            cases: 20,
            mean: 0.07,
            root_mean_square: 0.08,
            worst: 0.2,
            cores_min: 0.06,
            cores_max: 0.3,
        });
        let text = text(&plan(&profile, &demand(|_| {}), true).unwrap());
        let expected = "off by 7% on the average of 20 mixtures, at 6% to 30% of a core";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn prices_of_another_machine_say_so() {
        let text = text(&plan(&profile(), &demand(|_| {}), false).unwrap());
        assert!(text.contains("NOT YOURS"), "{text}");
        assert!(
            text.contains("those of another machine (A processor)"),
            "{text}"
        );
    }
}
