//! The page of a choice: what was chosen, the alternatives, and why the others fell out.

use protection::{Choice, Pair};
use serde_json::{Value, json};
use signet_bed::Error;
use signet_page::Pages;
use signet_page::chart::{Axis, Chart, Content, Datum, Figure, Group, Row, Rows};

/// Pairs that are drawn; the table has them all.
const DRAWN_MAX: usize = 20;

/// One file that needs no other. `asked` says what was asked for, `reckoned_for` what costs are
/// costs of.
///
/// # Errors
/// A template that is wrong: a fault of this program.
pub fn page(choice: &Choice, asked: &str, reckoned_for: &str) -> Result<String, Error> {
    let pairs: Vec<Value> = choice
        .pairs
        .iter()
        .map(|pair| {
            json!({
                "name": name(pair),
                "protection": pair.protection.to_string(),
                "cost": pair.cost_ns.map_or_else(|| "not known".to_owned(), protection::time),
            })
        })
        .collect();
    let values = json!({
        "asked": asked,
        "reckoned_for": reckoned_for,
        "pairs": pairs,
        "fallen": choice.fallen.iter().map(|fallen| json!({
            "what": fallen.what,
            "name": fallen.name,
            "why": fallen.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        })).collect::<Vec<_>>(),
        "chart": drawn(&choice.pairs).map(|figure| figure.html()),
    });
    let templates = [("choose.html", include_str!("choose.html"))];
    Pages::new(&templates)
        .and_then(|pages| pages.render("choose.html", values))
        .map_err(|error| {
            Error::new(
                error.to_string(),
                "this is a fault of this program; report it",
            )
        })
}

fn name(pair: &Pair) -> String {
    if pair.second.is_empty() {
        pair.first.clone()
    } else {
        format!("{} with {}", pair.first, pair.second)
    }
}

fn drawn(pairs: &[Pair]) -> Option<Figure> {
    let rows: Vec<Row> = pairs
        .iter()
        .take(DRAWN_MAX)
        .enumerate()
        .filter_map(|(nth, pair)| {
            Some(Row {
                name: name(pair),
                // The first is the one that was chosen.
                colour: usize::from(nth > 0),
                content: Content::Bar(Datum::exact(pair.cost_ns? / 1e3)),
            })
        })
        .collect();
    (!rows.is_empty()).then(|| Figure {
        title: "What each costs".to_owned(),
        description: format!("The {} cheapest that satisfy the policy.", rows.len()),
        chart: Chart::Rows(Rows {
            axis: Axis::linear("CPU time, µs"),
            groups: vec![Group {
                label: String::new(),
                rows,
            }],
            ..Rows::default()
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protection::{Levels, Policy, Prices, choose_ipsec};

    #[test]
    fn the_page_has_the_choice_and_what_fell_out() {
        let policy = Policy {
            min_confidentiality: "7".parse().ok(),
            min_authentication: "4".parse().ok(),
            ..Policy::default()
        };
        let (levels, prices) = (Levels::shipped(), Prices::shipped());
        let choice = choose_ipsec(&policy, None, 1_400, &levels, &prices).unwrap();
        let page = page(&choice, &policy.to_string(), "a packet").unwrap();
        let told = [
            "confidentiality 7 or more",
            "DES-CBC is never chosen",
            "authentication 2 is less than 4",
            &choice.pairs[0].first,
        ];
        for told in told {
            assert!(page.contains(told), "{told}");
        }
    }
}
