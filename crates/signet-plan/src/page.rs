//! A plan as a page.

use serde_json::{Value, json};
use signet_bed::Error;
use signet_page::Pages;
use signet_page::chart::{Axis, Chart, Content, Datum, Figure, Group, Row, Rows};
use signet_page::number::{bytes, count, figure, percent};

use crate::plan::{Decides, Estimate, Plan};
use crate::rates;
use crate::text::{back, span};

const TEMPLATE: &str = include_str!("page.html");
/// Bars of one picture.
const BARS_MAX: usize = 12;

/// One file that needs no other.
///
/// # Errors
/// A template that is wrong.
pub fn page(plan: &Plan, command: &str) -> Result<String, Error> {
    let failed = |error: signet_page::PageError| {
        Error::new(
            error.to_string(),
            "this is a fault of this program; report it",
        )
    };
    let pages = Pages::new(&[("plan.html", TEMPLATE)]).map_err(failed)?;
    pages
        .render("plan.html", values(plan, command))
        .map_err(failed)
}

fn values(plan: &Plan, command: &str) -> Value {
    let savings: Vec<Value> = plan
        .savings
        .iter()
        .map(|saving| {
            json!({
                "change": saving.change,
                "cores": signed(saving.cores, figure),
                "machines": saving.machines,
                "gives_up": saving.gives_up,
            })
        })
        .collect();
    json!({
        "title": format!("A plan: {} machines", count(plan.machines)),
        "lead": lead(plan),
        "basis": plan.from,
        "checked": plan.from.checked.map(|checked| checked.told()),
        "rows": rows(plan),
        "parts": parts(plan).html(),
        "cores": cores(plan).html(),
        "minute": minute(plan),
        "savings": savings,
        "widened": plan.widened,
        "unmeasured": plan.unmeasured,
        "demand": toml::to_string(&plan.demand).unwrap_or_default(),
        "command": command,
    })
}

fn signed(value: f64, told: impl Fn(f64) -> String) -> String {
    if value < 0.0 {
        format!("\u{2212}{}", told(-value))
    } else {
        told(value)
    }
}

fn lead(plan: &Plan) -> String {
    let machines = &plan.demand.machines;
    let decided = match plan.decided_by {
        Decides::BusyHour => "the busy hour",
        Decides::Return => "the return of all after a restart",
    };
    format!(
        "{} machines of {} cores and {}, of which {} may fail: {} cores, as {decided} decides.",
        count(plan.machines),
        machines.cores,
        bytes(plan.memory_bytes.high),
        machines.may_fail,
        count(plan.cores)
    )
}

/// Name, figure and interval.
fn rows(plan: &Plan) -> Vec<Value> {
    let row = |name: &str, value: String| json!({ "name": name, "value": value });
    let mut rows = vec![
        row("CPU in the busy hour, cores", span(plan.busy_cores, figure)),
        row(
            "CPU while all return, cores",
            span(plan.return_cores, figure),
        ),
        row("memory of one machine", span(plan.memory_bytes, bytes)),
        row("connections to one machine", count(plan.connections)),
        row("calls a second", figure(plan.calls.per_s)),
        row("calls at once, on the average", figure(plan.calls.erlangs)),
        row("calls at once, at most", count(plan.calls.at_once)),
        row("lines to gateways", count(plan.calls.gateway_lines)),
        row(
            "registrations a second",
            figure(plan.rates.registrations_per_s()),
        ),
        row(
            "TLS handshakes a second",
            figure(plan.rates.handshakes_per_s()),
        ),
        row(
            "digests verified a second",
            figure(rates::verified_per_s(&plan.rates)),
        ),
        row(
            "SIP in and out, Mbit/s",
            span(plan.sip_bits_per_s, |bits| figure(bits / 1e6)),
        ),
    ];
    if let Some(database) = &plan.database {
        rows.push(row("look-ups a second", figure(database.lookups_per_s)));
        rows.push(row(
            "look-ups a second while all return",
            figure(database.return_lookups_per_s),
        ));
        rows.push(row("database, cores", span(database.cores, figure)));
        rows.push(row("look-ups under way", figure(database.under_way)));
        if let Some(bits) = database.bits_per_s {
            rows.push(row("database, Mbit/s", figure(bits / 1e6)));
        }
    }
    rows
}

fn minute(plan: &Plan) -> Vec<Value> {
    let minute = &plan.minute;
    let row = |name: &str, value: String| json!({ "name": name, "value": value });
    let lookups = match plan.database {
        Some(_) => "look-ups, the cache being empty",
        None => "look-ups",
    };
    vec![
        row("connections opened", figure(minute.connections)),
        row("TLS handshakes", figure(minute.handshakes)),
        row("of these in full", figure(minute.full_handshakes)),
        row("registrations", figure(minute.registrations)),
        row(lookups, figure(minute.lookups)),
        row("CPU, cores", span(minute.cores, figure)),
        row(
            "all back, with every core in use, after",
            back(minute.all_back_s),
        ),
    ]
}

/// Where the CPU time goes.
fn parts(plan: &Plan) -> Figure {
    let first = plan.parts.first();
    let groups = plan.parts.iter().take(BARS_MAX).map(|part| Group {
        label: part.name.clone(),
        rows: vec![bar(percent(part.share), Datum::exact(part.cores))],
    });
    Figure {
        title: "Where the busy hour's CPU time goes".to_owned(),
        description: first.map_or_else(String::new, |part| {
            format!(
                "Most of it, {}, goes to {}.",
                percent(part.share),
                part.name
            )
        }),
        chart: Chart::Rows(Rows {
            axis: Axis::linear("cores"),
            groups: groups.collect(),
            ..Rows::default()
        }),
    }
}

/// The busy hour beside the return of all.
fn cores(plan: &Plan) -> Figure {
    let datum = |of: Estimate| Datum::between(of.value, of.low, of.high);
    let group = |label: &str, of: Estimate| Group {
        label: label.to_owned(),
        rows: vec![bar(String::new(), datum(of))],
    };
    Figure {
        title: "CPU time, in cores".to_owned(),
        description: format!(
            "The busy hour takes {}, the return of all {}.",
            span(plan.busy_cores, figure),
            span(plan.return_cores, figure)
        ),
        chart: Chart::Rows(Rows {
            axis: Axis::linear("cores"),
            groups: vec![
                group("the busy hour", plan.busy_cores),
                group("while all return", plan.return_cores),
            ],
            interval: "where it is expected 19 times of 20".to_owned(),
            ..Rows::default()
        }),
    }
}

fn bar(name: String, datum: Datum) -> Row {
    Row {
        name,
        colour: 0,
        content: Content::Bar(datum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::Users;
    use crate::plan;
    use crate::testing::{demand, profile};

    #[test]
    fn a_page_is_whole_and_needs_nothing() {
        let demand = demand(|demand| demand.authentication.users = Users::Database);
        let plan = plan(&profile(), &demand, false).unwrap();
        let page = page(&plan, "signet plan <it>").unwrap();
        for expected in [
            "<svg",
            "not yours",
            "busiest minute",
            "look-ups under way",
            "signet plan &lt;it&gt;",
            "gives up protection",
            "What was not measured",
        ] {
            assert!(page.contains(expected), "no '{expected}'");
        }
        // The name of SVG's language is no address.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "<script", "@import", "url("] {
            assert!(!page.contains(outside), "the page needs {outside}");
        }
    }
}
