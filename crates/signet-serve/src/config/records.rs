//! Call records: where they are written to, and what is asked of calls for them.

use std::path::PathBuf;

use serde::Deserialize;

use super::check::Faults;
use super::users::{StoreTls, StoreUrl};
use super::values::within;
use super::{Config, Mode};

/// Tables that records are added to, at most so many.
const TABLES_MAX: usize = 8;
/// The schemes of databases that have tables.
const SCHEMES: [&str; 3] = ["mysql", "mariadb", "postgres"];

/// Call records.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Records {
    /// The file that they are written to.
    pub path: Option<PathBuf>,
    /// How they are written there.
    pub format: RecordFormat,
    /// How large the file grows before it is kept by another name and begun anew.
    #[serde(deserialize_with = "within::<_, _, 65_536, 1_000_000_000_000>")]
    pub rotate_bytes_max: u64,
    /// Whether each day in UTC has a file of its own.
    pub rotate_daily: bool,
    /// What this server is called in them; without it, the machine's name.
    pub node: Option<String>,
    /// The session timer that is asked for where nobody did; 0 for none.
    #[serde(deserialize_with = "within::<_, _, 0, 86_400>")]
    pub session_expires_s: u32,
    /// Tables that they are added to.
    pub table: Vec<RecordTable>,
}

/// A table that call records are added to.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordTable {
    /// The database.
    pub url: StoreUrl,
    /// The table's name.
    #[serde(default = "signet_calls")]
    pub name: String,
    /// A file with the database's password.
    pub password_file: Option<PathBuf>,
    /// The environment variable with it; the file counts where there is one.
    pub password_env: Option<String>,
    /// When the connection is encrypted.
    #[serde(default)]
    pub tls: StoreTls,
    /// PEM file with the authorities that certify the database; without one, the system's.
    pub tls_roots: Option<PathBuf>,
    /// How large the file grows in which records wait while the database is away.
    #[serde(
        default = "spool_bytes_max",
        deserialize_with = "within::<_, _, 65_536, 1_000_000_000_000>"
    )]
    pub spool_bytes_max: u64,
}

/// The forms of a file of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordFormat {
    /// A JSON object a line.
    #[default]
    Jsonl,
    /// RFC 4180, with a line of names first.
    Csv,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            path: None,
            format: RecordFormat::default(),
            rotate_bytes_max: 1 << 30,
            rotate_daily: false,
            node: None,
            session_expires_s: 0,
            table: Vec::new(),
        }
    }
}

fn signet_calls() -> String {
    "signet_calls".to_owned()
}

const fn spool_bytes_max() -> u64 {
    1 << 30
}

impl Records {
    /// Whether records are made.
    pub fn is_on(&self) -> bool {
        self.path.is_some() || !self.table.is_empty()
    }

    /// What it comes to, in a line; empty where no records are made.
    pub(crate) fn text(&self) -> String {
        let format = match self.format {
            RecordFormat::Jsonl => "JSON",
            RecordFormat::Csv => "CSV",
        };
        let file = self.path.iter();
        let file = file.map(|path| format!("written to {} as {format}", path.display()));
        let tables = self.table.iter();
        let tables = tables.map(|table| format!("added to {} of {}", table.name, table.url.0));
        let places: Vec<String> = file.chain(tables).collect();
        match places.is_empty() {
            true => String::new(),
            false => format!("call records: {}\n", places.join(", ")),
        }
    }

    /// The files that it names.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let tables = self.table.iter_mut();
        let of_tables = tables.flat_map(|table| {
            let password = table.password_file.iter_mut();
            password.chain(table.tls_roots.iter_mut())
        });
        self.path.iter_mut().chain(of_tables)
    }
}

impl Config {
    pub(super) fn check_records(&self, faults: &mut Faults) {
        let records = &self.records;
        if records.table.len() > TABLES_MAX {
            faults.add("records.table", "there are more than 8 tables", "drop some");
        }
        for (nth, table) in records.table.iter().enumerate() {
            let at = format!("records.table.{nth}");
            if !SCHEMES.iter().any(|scheme| table.url.0.starts_with(scheme)) {
                faults.add(
                    &format!("{at}.url"),
                    "records are added to tables of MariaDB, MySQL and PostgreSQL alone",
                    "write mysql://USER@HOST/DATABASE or postgresql://USER@HOST/DATABASE",
                );
            }
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            if table.name.is_empty() || !table.name.bytes().all(is_plain) {
                faults.add(
                    &format!("{at}.name"),
                    "this is no name of a table",
                    "write letters, digits and underscores, for example \"signet_calls\"",
                );
            }
            let mut before = records.table.iter().take(nth);
            if before.any(|other| (&other.url, &other.name) == (&table.url, &table.name)) {
                faults.add(
                    &at,
                    "this table stands above",
                    "drop one of the two, or give another `name`",
                );
            }
        }
        if let Some(node) = &records.node
            && (node.is_empty()
                || node.len() > 64
                || node.bytes().any(|byte| !byte.is_ascii_graphic()))
        {
            faults.add(
                "records.node",
                "the name of a server is a short word",
                "write up to 64 printable characters without spaces",
            );
        }
        if records.session_expires_s > 0 && !self.proxy.record_route {
            faults.add(
                "records.session_expires_s",
                "without Record-Route no refresh of a session passes this server",
                "write 0, or record_route = true in [proxy]",
            );
        }
    }

    /// What the operator should look at again.
    pub(super) fn warn_of_records(&self, warnings: &mut Vec<String>) {
        let records = &self.records;
        if self.mode != Mode::Stateful && (records.is_on() || records.session_expires_s > 0) {
            warnings.push(
                "records: only a stateful server follows calls, so there will be no records: write mode = \"stateful\""
                    .to_owned(),
            );
        }
        if records.is_on() && !self.proxy.record_route {
            warnings.push(
                "records: without Record-Route no BYE passes this server, so no record of an answered call has its end: write record_route = true in [proxy]"
                    .to_owned(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Result<Config, super::super::ConfigError> {
        Config::from_text(Path::new("test.toml"), &format!("version = 1\n{text}"))
    }

    #[test]
    fn what_cannot_be_recorded_is_pointed_at() {
        let table = "[[records.table]]\nurl = \"mysql://signet@localhost/sip\"\n";
        for (text, told) in [
            (
                "[[records.table]]\nurl = \"redis://localhost/0\"\n".to_owned(),
                "test.toml:3:7: records are added to tables of",
            ),
            (
                "[[records.table]]\nurl = \"mysql://a:b@localhost/sip\"\n".to_owned(),
                "has a password in it",
            ),
            (
                format!("{table}name = \"a b\"\n"),
                "test.toml:4:8: this is no name of a table",
            ),
            (format!("{table}{table}"), "this table stands above"),
            (
                "[records]\nnode = \"a b\"\n".to_owned(),
                "test.toml:3:8: the name of a server",
            ),
            (
                "[records]\nsession_expires_s = 1800\n[proxy]\nrecord_route = false\n".to_owned(),
                "test.toml:3:21: without Record-Route",
            ),
            (
                "[records]\nformat = \"xml\"\n".to_owned(),
                "write one of: jsonl, csv",
            ),
            ("[records]\nrotate = 1\n".to_owned(), "rotate"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
    }

    #[test]
    fn what_it_comes_to_is_said() {
        let text = |text: &str| read(text).unwrap().records.text();
        assert_eq!(text(""), "");
        let both = "[records]\npath = \"a.csv\"\nformat = \"csv\"\n\
            [[records.table]]\nurl = \"mysql://signet@localhost/sip\"\nname = \"calls\"\n";
        assert_eq!(
            text(both),
            "call records: written to a.csv as CSV, added to calls of mysql://signet@localhost/sip\n"
        );
    }

    #[test]
    fn what_makes_no_records_is_said() {
        let told = |text: &str| read(text).unwrap().warnings();
        assert_eq!(told("[records]\npath = \"calls\"\n"), [""; 0]);
        let stateless = told("mode = \"stateless\"\n[records]\npath = \"calls\"\n");
        assert!(
            stateless[0].starts_with("records: only a stateful"),
            "{stateless:?}"
        );
        let off_path = told("[proxy]\nrecord_route = false\n[records]\npath = \"calls\"\n");
        assert!(off_path[0].contains("no BYE passes"), "{off_path:?}");
    }
}
