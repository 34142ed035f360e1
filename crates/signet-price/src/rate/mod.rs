//! The page of ratings: the paper's Table 14 beside today's levels, and what each costs drawn.

use protection::{Level, Rating, Ratings};
use serde_json::{Value, json};
use signet_bed::Error;
use signet_page::Pages;
use signet_page::chart::{Axis, Chart, Content, Datum, Figure, Group, Row, Rows};

/// One file that needs no other.
///
/// # Errors
/// A template that is wrong: a fault of this program.
pub fn page(ratings: &Ratings) -> Result<String, Error> {
    let mut tables: Vec<&str> = ratings.ratings.iter().map(|rating| rating.table).collect();
    tables.dedup();
    let of = |table: &str| -> Vec<&Rating> {
        let all = ratings.ratings.iter();
        all.filter(|rating| rating.table == table).collect()
    };
    let parts: Vec<Value> = tables
        .iter()
        .map(|table| {
            let ratings = of(table);
            json!({
                "title": table,
                "has_published": ratings.iter().any(|rating| rating.published.is_some()),
                "rows": ratings.iter().map(|rating| row(rating)).collect::<Vec<_>>(),
                "chart": drawn(table, &ratings).map(|figure| figure.html()),
            })
        })
        .collect();
    let values = json!({
        "prices": ratings.prices,
        "line_mbit_per_s": ratings.line_bits_per_s / 1_000_000,
        "parts": parts,
    });
    let templates = [("rate.html", include_str!("rate.html"))];
    Pages::new(&templates)
        .and_then(|pages| pages.render("rate.html", values))
        .map_err(|error| {
            Error::new(
                error.to_string(),
                "this is a fault of this program; report it",
            )
        })
}

/// A rating in a row of a table.
pub(crate) fn row(rating: &Rating) -> Value {
    let level = |level: Option<Level>| match level {
        Some(level) => level.to_string(),
        None => "–".to_owned(),
    };
    let published = rating.published;
    json!({
        "name": rating.name,
        "is_broken": rating.is_broken,
        "confidentiality": level(rating.protection.confidentiality),
        "authentication": level(rating.protection.authentication),
        "forward_secrecy": level(rating.protection.forward_secrecy),
        "performance": level(rating.performance),
        "cost": rating.cost_ns.map_or_else(|| "not measured".to_owned(), protection::time),
        "published_as": published.map(|published| published.name),
        "published_protection": level(published.map(|published| published.protection)),
        "published_performance": level(published.map(|published| published.performance)),
        "by_rule": level(published.map(|published| published.performance_by_rule)),
    })
}

/// What each costs; nothing where nothing was measured.
fn drawn(table: &str, ratings: &[&Rating]) -> Option<Figure> {
    let rows: Vec<Row> = ratings
        .iter()
        .filter_map(|rating| {
            Some(Row {
                name: rating.name.to_owned(),
                colour: 0,
                content: Content::Bar(Datum::exact(rating.cost_ns? / 1e3)),
            })
        })
        .collect();
    let dearest = rows.len();
    (dearest > 0).then(|| Figure {
        title: format!("What {table} costs"),
        description: format!("CPU time of {dearest} of them, in microseconds."),
        chart: Chart::Rows(Rows {
            axis: Axis::linear("CPU time, µs"),
            groups: vec![Group {
                label: table.to_owned(),
                rows,
            }],
            ..Rows::default()
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protection::{Levels, Prices};

    #[test]
    fn the_page_has_every_rating_and_needs_nothing() {
        let ratings = Ratings::new(&Levels::shipped(), &Prices::shipped(), 10_000_000_000);
        let page = page(&ratings).unwrap();
        for rating in &ratings.ratings {
            assert!(page.contains(rating.name), "{}", rating.name);
        }
        assert!(page.contains("HMAC-SHA-2-256") && page.contains("<svg"));
        // The name of SVG's namespace is no address.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "<script"] {
            assert!(!page.contains(outside), "the page needs {outside}");
        }
    }
}
