//! The results: a table for the terminal, a record for programs, a page with
//! a picture for people.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use measure::Host;
use measure::file::{write_json, write_text};
use serde::Serialize;
use signet_page::chart::{Axis, Chart, Content, Datum, Figure, Group, Row as Bar, Rows};
use signet_page::{Pages, number};

/// The form of `result.json`; it changes when a reader would have to.
const RESULT_VERSION: u32 = 2;

/// One case's figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) is_authenticated: bool,
    pub(super) calls: u64,
    pub(super) failures: u64,
    pub(super) setup_p50_ms: f64,
    pub(super) setup_p99_ms: f64,
    pub(super) server_cpu_us_per_call: f64,
    pub(super) rate_per_s: u32,
    pub(super) handshakes_full: u64,
    pub(super) handshakes_resumed: u64,
}

impl Row {
    pub(super) fn authentication(&self) -> &'static str {
        if self.is_authenticated {
            "with a digest"
        } else {
            "trusted"
        }
    }
}

/// A run's record.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: u32,
    date: String,
    command: String,
    server: String,
    machine: Host,
    results: Vec<Row>,
}

impl Report {
    pub(super) fn new(results: Vec<Row>, server: String) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            version: RESULT_VERSION,
            date: number::utc(now.map_or(0, |since| since.as_secs())),
            command: measure::command_line().join(" "),
            server,
            machine: Host::this(),
            results,
        }
    }

    /// Writes `result.json`, `picture.svg` and `report.html`; gives back where
    /// the page is.
    pub(super) fn write(&self, dir: &Path) -> Result<PathBuf, String> {
        write_json(&dir.join("result.json"), self)?;
        write_text(&dir.join("picture.svg"), &self.picture()?)?;
        let page = dir.join("report.html");
        write_text(&page, &self.page()?)?;
        Ok(page)
    }

    /// The table.
    pub(super) fn table(&self) -> String {
        let mut table = format!(
            "{:<44}{:<14}{:>7}{:>8}{:>12}{:>12}{:>14}\n",
            "from the caller",
            "authenticated",
            "calls",
            "failed",
            "set-up p50",
            "set-up p99",
            "CPU per call"
        );
        for row in &self.results {
            let _ = writeln!(
                table,
                "{:<44}{:<14}{:>7}{:>8}{:>9.2} ms{:>9.2} ms{:>11.0} us",
                row.case,
                row.authentication(),
                row.calls,
                row.failures,
                row.setup_p50_ms,
                row.setup_p99_ms,
                row.server_cpu_us_per_call,
            );
        }
        table
            + "A call is INVITE 180 200 ACK, BYE 200, with a digest INVITE 407 ACK before it; \
               set-up is from the\ntime at which the first INVITE was due to the 200."
    }

    /// The page, for wide screens and for phones.
    fn page(&self) -> Result<String, String> {
        let values = serde_json::json!({ "report": self, "chart": self.costs().html() });
        filled("report.html", include_str!("report.html"), &values)
    }

    /// A bar for each row, those of a case together.
    fn costs(&self) -> Figure {
        let mut groups: Vec<Group> = Vec::new();
        for row in &self.results {
            let bar = Bar {
                name: row.authentication().to_owned(),
                colour: usize::from(row.is_authenticated),
                content: Content::Bar(Datum::exact(row.server_cpu_us_per_call)),
            };
            match groups.last_mut().filter(|group| group.label == row.case) {
                Some(group) => group.rows.push(bar),
                None => groups.push(Group {
                    label: row.case.clone(),
                    rows: vec![bar],
                }),
            }
        }
        Figure {
            title: "What a call costs the server".to_owned(),
            description:
                "Server CPU for a call over each transport, with and without authentication."
                    .to_owned(),
            chart: Chart::Rows(Rows {
                axis: Axis::linear("CPU for a call, µs"),
                groups,
                ..Rows::default()
            }),
        }
    }

    /// The picture, filled in.
    fn picture(&self) -> Result<String, String> {
        let costs = self.results.iter().map(|row| row.server_cpu_us_per_call);
        let most = costs.fold(f64::MIN_POSITIVE, f64::max);
        let failures: u64 = self.results.iter().map(|row| row.failures).sum();
        let values = serde_json::json!({ "report": self, "most": most, "failures": failures });
        filled("picture.svg", include_str!("picture.svg"), &values)
    }
}

/// Fills a template in.
fn filled(
    name: &'static str,
    template: &'static str,
    values: &serde_json::Value,
) -> Result<String, String> {
    Pages::new(&[(name, template)])
        .and_then(|pages| pages.render(name, values))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn report() -> Report {
        let row = |case: &str, is_authenticated: bool, cpu: f64| Row {
            case: case.to_owned(),
            is_authenticated,
            calls: 3_200,
            failures: 0,
            setup_p50_ms: 1.25,
            setup_p99_ms: 4.5,
            server_cpu_us_per_call: cpu,
            rate_per_s: 1_000,
            handshakes_full: 0,
            handshakes_resumed: 0,
        };
        let rows = [("UDP", 100.0), ("TLS", 150.0)]
            .map(|(case, cpu)| [row(case, false, cpu), row(case, true, cpu + 20.0)]);
        Report::new(rows.concat(), "signet <0>".to_owned())
    }

    #[test]
    fn the_page_is_whole_and_escapes_what_it_is_given() {
        let page = report().page().unwrap();
        assert!(page.trim_end().ends_with("</html>"));
        assert!(page.contains("signet &lt;0&gt;"), "{page}");
        assert!(page.contains("170") && page.contains("4.50"), "{page}");
        assert_eq!(
            page.matches("<rect").count(),
            4 + 4,
            "a bar a row, for wide and for narrow pages"
        );
        for outside in ["http://", "https://", "src="] {
            assert!(
                !page
                    .replace("http://www.w3.org/2000/svg", "")
                    .contains(outside),
                "the page needs {outside}"
            );
        }
    }

    #[test]
    fn the_picture_stands_alone_and_says_where_it_is_from() {
        let picture = report().picture().unwrap();
        assert!(picture.starts_with("<svg xmlns="), "{picture}");
        assert!(picture.trim_end().ends_with("</svg>"));
        assert!(picture.contains("signet &lt;0&gt;"), "{picture}");
        assert!(picture.contains(&report().command.replace('/', "&#x2f;")));
    }

    #[test]
    fn the_record_has_a_version_and_the_table_a_line_for_each_case() {
        let report = report();
        let record = serde_json::to_value(&report).unwrap();
        assert_eq!(record["version"], 2);
        assert_eq!(record["results"][2]["server_cpu_us_per_call"], 150.0);
        assert_eq!(report.table().lines().count(), 1 + 4 + 2);
    }

    #[test]
    fn no_figures_make_no_page_fail() {
        let report = Report::new(Vec::new(), String::new());
        assert!(report.page().unwrap().contains("</html>"));
    }
}
