//! The results: a table for the terminal, a record for programs, a page with
//! a picture for people.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value};
use serde::Serialize;

/// The form of `result.json`; it changes when a reader would have to.
const RESULT_VERSION: u32 = 1;

/// One transport's figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) transport: String,
    pub(crate) calls: u64,
    pub(crate) failures: u64,
    pub(crate) setup_p50_ms: f64,
    pub(crate) setup_p99_ms: f64,
    pub(crate) server_cpu_us_per_call: f64,
    pub(crate) ratio_to_udp: f64,
    pub(crate) rate_per_s: u32,
}

#[derive(Debug, Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    memory_gib: u64,
    kernel: String,
}

/// A run's record.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: u32,
    date: String,
    command: String,
    server: String,
    caller: String,
    machine: Machine,
    results: Vec<Row>,
}

impl Report {
    pub(crate) fn new(results: Vec<Row>, server: String) -> Self {
        Self {
            version: RESULT_VERSION,
            date: date(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            server,
            caller: format!("signet-demo {}", env!("CARGO_PKG_VERSION")),
            machine: machine(),
            results,
        }
    }

    /// Writes `result.json`, `picture.svg` and `report.html`; gives back where
    /// the page is.
    pub(crate) fn write(&self, dir: &Path) -> Result<PathBuf, String> {
        let record = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        write(&dir.join("result.json"), &format!("{record}\n"))?;
        write(&dir.join("picture.svg"), &self.drawn("picture.svg")?)?;
        let page = dir.join("report.html");
        write(&page, &self.drawn("report.html")?)?;
        Ok(page)
    }

    /// The table.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        let _ = writeln!(
            table,
            "{:<10}{:>8}{:>10}{:>14}{:>14}{:>18}{:>8}",
            "transport",
            "calls",
            "failures",
            "set-up p50",
            "set-up p99",
            "server CPU/call",
            "to UDP"
        );
        for row in &self.results {
            let _ = writeln!(
                table,
                "{:<10}{:>8}{:>10}{:>11.2} ms{:>11.2} ms{:>15.1} us{:>8.2}",
                row.transport,
                row.calls,
                row.failures,
                row.setup_p50_ms,
                row.setup_p99_ms,
                row.server_cpu_us_per_call,
                row.ratio_to_udp
            );
        }
        let _ = write!(
            table,
            "A call is INVITE 407 ACK, INVITE 180 200 ACK, BYE 200, with a digest; \
             set-up is from the first INVITE to the 200."
        );
        table
    }

    /// One of the templates, filled in.
    fn drawn(&self, name: &str) -> Result<String, String> {
        let failed = |error: minijinja::Error| format!("the template {name}: {error:#}");
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        for (name, text) in [
            ("picture.svg", include_str!("picture.svg")),
            ("report.html", include_str!("report.html")),
        ] {
            environment.add_template(name, text).map_err(failed)?;
        }
        let most = |pick: fn(&Row) -> f64| {
            self.results
                .iter()
                .map(pick)
                .fold(f64::MIN_POSITIVE, f64::max)
        };
        let scale = serde_json::json!({
            "cpu": most(|row| row.server_cpu_us_per_call),
            "delay": most(|row| row.setup_p99_ms),
        });
        let failures: u64 = self.results.iter().map(|row| row.failures).sum();
        environment
            .get_template(name)
            .and_then(|template| {
                template.render(Value::from(Serde(
                    serde_json::json!({ "report": self, "most": scale, "failures": failures }),
                )))
            })
            .map_err(failed)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn machine() -> Machine {
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_kib = field(&memory, "MemTotal")
        .and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or_default();
    Machine {
        cpu: field(&cpu, "model name").unwrap_or_else(|| "unknown".to_owned()),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gib: memory_kib.div_ceil(1024 * 1024),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_owned(),
    }
}

/// The date and time, in UTC.
fn date() -> String {
    let now = time::OffsetDateTime::now_utc();
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02} UTC",
        now.year(),
        u8::from(now.month()),
        now.day(),
        now.hour(),
        now.minute()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let row = |transport: &str, cpu: f64| Row {
            transport: transport.to_owned(),
            calls: 3_200,
            failures: 0,
            setup_p50_ms: 1.25,
            setup_p99_ms: 4.5,
            server_cpu_us_per_call: cpu,
            ratio_to_udp: cpu / 100.0,
            rate_per_s: 400,
        };
        Report::new(
            vec![row("UDP", 100.0), row("TLS", 150.0)],
            "signet <0>".to_owned(),
        )
    }

    #[test]
    fn the_page_is_whole_and_escapes_what_it_is_given() {
        let page = report().drawn("report.html").unwrap();
        assert!(page.trim_end().ends_with("</html>"));
        assert!(page.contains("signet &lt;0&gt;"), "{page}");
        assert!(page.contains("150.0") && page.contains("1.50"), "{page}");
        assert_eq!(
            page.matches("<rect").count(),
            2 * 3,
            "a CPU bar and two delay bars for each transport"
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
        let picture = report().drawn("picture.svg").unwrap();
        assert!(picture.starts_with("<svg xmlns="), "{picture}");
        assert!(picture.trim_end().ends_with("</svg>"));
        assert!(picture.contains("signet &lt;0&gt;"), "{picture}");
        assert!(picture.contains(&report().command.replace('/', "&#x2f;")));
    }

    #[test]
    fn the_record_has_a_version_and_the_table_a_line_for_each_transport() {
        let report = report();
        let record = serde_json::to_value(&report).unwrap();
        assert_eq!(record["version"], 1);
        assert_eq!(record["results"][1]["server_cpu_us_per_call"], 150.0);
        assert_eq!(report.table().lines().count(), 1 + 2 + 1);
    }

    #[test]
    fn no_figures_make_no_page_fail() {
        let report = Report::new(Vec::new(), String::new());
        assert!(report.drawn("report.html").unwrap().contains("</html>"));
    }
}
