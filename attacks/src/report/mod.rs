//! The outcome as a table on the terminal, as JSON and as a page.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::caller::Delays;
use crate::scenario::{Scenario, Tally};

/// The version of the JSON's form.
const FORMAT: u32 = 2;
const PAGE: &str = include_str!("page.html");

/// What came of a run: a row for each scenario and server.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    format: u32,
    command: String,
    when: String,
    machine: String,
    kernel: String,
    versions: BTreeMap<&'static str, String>,
    quick: bool,
    rows: Vec<Row>,
}

/// What came of one scenario at one server.
#[derive(Debug, Serialize)]
pub struct Row {
    scenario: &'static str,
    server: &'static str,
    tries: &'static str,
    through: &'static str,
    verdict: Verdict,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tally: Option<Tally>,
    faults: Vec<String>,
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing got through.
    Holds,
    /// Something did.
    Fails,
    /// It could not be tried: why stands in its faults.
    Error,
    /// The server cannot do the case.
    Skipped,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "FAILS",
            Self::Error => "ERROR",
            Self::Skipped => "skipped",
        }
    }
}

impl Row {
    pub(crate) fn new(
        scenario: &Scenario,
        server: &'static str,
        outcome: Result<Tally, String>,
        seconds: f64,
    ) -> Self {
        let (verdict, tally, faults) = match outcome {
            Ok(tally) => {
                let faults = tally.faults();
                let holds = tally.got_through == 0 && faults.is_empty();
                // An attack of no attempts has shown nothing.
                let verdict = match (holds, tally.tried) {
                    (_, 0) => Verdict::Error,
                    (true, _) => Verdict::Holds,
                    (false, _) => Verdict::Fails,
                };
                (verdict, Some(tally), faults)
            }
            Err(why) => (Verdict::Error, None, vec![why]),
        };
        Self {
            scenario: scenario.name,
            server,
            tries: scenario.tries,
            through: scenario.through,
            verdict,
            seconds,
            tally,
            faults,
        }
    }

    pub(crate) fn skipped(scenario: &Scenario, server: &'static str, why: &str) -> Self {
        let mut row = Self::new(scenario, server, Err(why.to_owned()), 0.0);
        row.verdict = Verdict::Skipped;
        row
    }

    /// The scenario's name.
    pub fn name(&self) -> &'static str {
        self.scenario
    }

    /// How it ended.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether something got through or it could not be tried.
    pub fn is_bad(&self) -> bool {
        matches!(self.verdict, Verdict::Fails | Verdict::Error)
    }

    /// The row in one line, and a line for each thing worth saying.
    pub fn text(&self) -> String {
        let cells = Cells::of(self);
        let mut text = format!(
            "{:<29} {:<9} {:<8} {:>8} {:>8} {:>8} {:>8} {:>18} {:>6.1}s",
            self.scenario,
            self.server,
            self.verdict.word(),
            cells.tried,
            cells.got_through,
            cells.p99_before,
            cells.p99_during,
            cells.memory,
            self.seconds
        );
        for note in self.remarks() {
            text.push_str("\n    ");
            text.push_str(note);
        }
        text
    }

    fn remarks(&self) -> impl Iterator<Item = &String> {
        let notes = self.tally.iter().flat_map(|tally| &tally.notes);
        self.faults.iter().chain(notes)
    }
}

/// The row's figures as they are shown.
#[derive(Serialize)]
struct Cells<'a> {
    scenario: &'a str,
    server: &'a str,
    tries: &'a str,
    through: &'a str,
    verdict: &'static str,
    tried: String,
    got_through: String,
    p99_before: String,
    p99_during: String,
    memory: String,
    remarks: Vec<&'a String>,
}

impl<'a> Cells<'a> {
    fn of(row: &'a Row) -> Self {
        let felt = row.tally.as_ref().and_then(|tally| tally.felt.as_ref());
        let delay = |delays: Option<&Delays>| {
            delays.map_or("-".to_owned(), |d| {
                format!("{:.1}ms", d.p99_us as f64 / 1_000.0)
            })
        };
        let count = |of: fn(&Tally) -> u64| {
            let count = row.tally.as_ref().map(of);
            count.map_or("-".to_owned(), |n| n.to_string())
        };
        let megabytes = |bytes: Option<u64>| {
            bytes.map_or("-".to_owned(), |bytes| format!("{}", bytes / 1_000_000))
        };
        Self {
            scenario: row.scenario,
            server: row.server,
            tries: row.tries,
            through: row.through,
            verdict: row.verdict.word(),
            tried: count(|tally| tally.tried),
            got_through: count(|tally| tally.got_through),
            p99_before: delay(felt.map(|felt| &felt.before)),
            p99_during: delay(felt.map(|felt| &felt.during)),
            memory: felt.map_or("-".to_owned(), |felt| {
                format!(
                    "{}/{}/{} MB",
                    megabytes(felt.memory_before),
                    megabytes(felt.memory_during),
                    megabytes(felt.memory_after)
                )
            }),
            remarks: row.remarks().collect(),
        }
    }
}

impl Report {
    pub(crate) fn new(quick: bool) -> Self {
        let now = time::OffsetDateTime::now_utc();
        Self {
            format: FORMAT,
            command: command(),
            when: format!("{} {:02}:{:02} UTC", now.date(), now.hour(), now.minute()),
            machine: machine(),
            kernel: first_line("uname", &["-r"]),
            versions: BTreeMap::from([
                (
                    "signet",
                    first_line("git", &["describe", "--always", "--dirty"]),
                ),
                ("kamailio", first_line("kamailio", &["-v"])),
            ]),
            quick,
            rows: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// All rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows of a server that do not hold.
    pub fn bad_rows(&self, server: &str) -> Vec<&Row> {
        let rows = self.rows.iter();
        rows.filter(|row| row.server == server && row.is_bad())
            .collect()
    }

    /// The line above the rows.
    pub fn heading() -> String {
        format!(
            "{:<29} {:<9} {:<8} {:>8} {:>8} {:>8} {:>8} {:>18} {:>7}",
            "scenario",
            "server",
            "verdict",
            "tried",
            "through",
            "p99",
            "p99 then",
            "memory b/d/after",
            "took"
        )
    }

    /// Writes `attacks.json` and `attacks.html` into a folder.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let json = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        let mut page = minijinja::Environment::new();
        page.add_template("page.html", PAGE)
            .map_err(|e| e.to_string())?;
        let cells: Vec<Cells<'_>> = self.rows.iter().map(Cells::of).collect();
        let html = page
            .get_template("page.html")
            .and_then(|template| {
                template.render(minijinja::context! {
                    when => self.when.as_str(),
                    quick => self.quick,
                    command => self.command.as_str(),
                    machine => self.machine.as_str(),
                    kernel => self.kernel.as_str(),
                    versions => &self.versions,
                    rows => minijinja::Value::from(minijinja::value::Serde(&cells)),
                })
            })
            .map_err(|e| e.to_string())?;
        for (name, text) in [("attacks.json", json), ("attacks.html", html)] {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }
}

/// How it was called, without the folder of the program.
fn command() -> String {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(program.as_str()).file_name();
        *program = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    }
    words.join(" ")
}

fn machine() -> String {
    let host = measure::Host::this();
    format!("{} cores, {}", host.cores, host.cpu_model)
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let told = Command::new(program).args(arguments).output().ok();
    let line = told.and_then(|told| {
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        text.lines().next().map(|line| line.trim().to_owned())
    });
    line.unwrap_or_else(|| "not there".to_owned())
}
