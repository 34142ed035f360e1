//! What a paper prints, table by table, so that a page can set its own figures beside.

use std::path::Path;

use diagnose::ConfigError;
use serde::Deserialize;

/// Niedermayer 2006, as `experiments/published/niedermayer-2006.toml` has it.
pub const NIEDERMAYER_2006: &str =
    include_str!("../../../experiments/published/niedermayer-2006.toml");

/// A paper's tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The version of the format: 1.
    pub version: u32,
    /// First author and year.
    pub name: String,
    /// Its authors.
    pub authors: Vec<String>,
    /// Its title.
    pub title: String,
    /// Where it was presented.
    pub venue: String,
    /// When.
    pub year: u32,
    /// Machines and programs.
    pub setting: String,
    /// The clock of its processors, in ticks a second.
    pub clock_hz: f64,
    /// Its tables, in its order.
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
}

/// A table in the paper's layout.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its number.
    pub number: u32,
    /// What stands below it.
    pub caption: String,
    /// What its figures count, where columns do not say it: `cycles`, `us`, `mbit_per_s`,
    /// `level`.
    #[serde(default)]
    pub unit: String,
    /// The heads of the columns with words.
    pub labels: Vec<String>,
    /// The columns with figures.
    pub columns: Vec<Column>,
    /// What all its cells have in common.
    #[serde(default)]
    pub what: What,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A column with figures.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its head.
    pub title: String,
    /// What its figures count.
    #[serde(default)]
    pub unit: String,
    /// What its cells have in common.
    #[serde(default)]
    pub what: What,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its cells with words, one for each of [`Table::labels`].
    pub labels: Vec<String>,
    /// What its cells have in common.
    #[serde(default)]
    pub what: What,
    /// Its figures, one for each column; not a number where the paper has none.
    pub values: Vec<f64>,
}

/// What a cell is about; what is left out is said elsewhere, or is not so.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct What {
    /// How ESP encrypts.
    pub esp: Option<String>,
    /// What authenticates.
    pub hash: Option<String>,
    /// Where: `esp` or `ah`.
    pub hash_in: Option<String>,
    /// `transport` or `tunnel`.
    pub mode: Option<String>,
    /// Bytes of payload.
    pub size_bytes: Option<u64>,
}

impl What {
    /// This, and from `other` what is left out here.
    fn or(&self, other: &Self) -> Self {
        let word = |own: &Option<String>, other: &Option<String>| own.clone().or(other.clone());
        Self {
            esp: word(&self.esp, &other.esp),
            hash: word(&self.hash, &other.hash),
            hash_in: word(&self.hash_in, &other.hash_in),
            mode: word(&self.mode, &other.mode),
            size_bytes: self.size_bytes.or(other.size_bytes),
        }
    }

    /// The name of the item that is the same thing here, over IPv4; `None` where nothing is
    /// protected.
    pub fn item_name(&self) -> Option<String> {
        let mode = self.mode.as_deref()?;
        match (&self.esp, &self.hash, self.hash_in.as_deref()) {
            (Some(esp), None, _) => Some(format!("esp/{mode}/ipv4/{esp}")),
            (Some(esp), Some(hash), Some("esp")) => Some(format!("esp/{mode}/ipv4/{esp}/{hash}")),
            (Some(esp), Some(hash), _) => Some(format!("esp+ah/{mode}/ipv4/{esp}/{hash}")),
            (None, Some(hash), _) => Some(format!("ah/{mode}/ipv4/{hash}")),
            (None, None, _) => None,
        }
    }
}

impl Table {
    /// What a cell is about.
    pub fn what(&self, row: &Row, column: &Column) -> What {
        column.what.or(&row.what).or(&self.what)
    }

    /// What a column's figures count.
    pub fn unit<'a>(&'a self, column: &'a Column) -> &'a str {
        if column.unit.is_empty() {
            &self.unit
        } else {
            &column.unit
        }
    }
}

impl Paper {
    /// Reads one; `path` is only for the errors.
    ///
    /// # Errors
    /// The fault with its line.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text)
            .map_err(|error| ConfigError::unparsable(path, text, &error, "docs/PRICE.md"))
    }

    /// The paper of `signet price crypto`.
    ///
    /// # Errors
    /// None: a test reads the file of this build.
    pub fn niedermayer_2006() -> Result<Self, ConfigError> {
        let path = Path::new("experiments/published/niedermayer-2006.toml");
        Self::from_text(path, NIEDERMAYER_2006)
    }

    /// A table by its number.
    pub fn table(&self, number: u32) -> Option<&Table> {
        self.tables.iter().find(|table| table.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_fills_its_table() {
        let paper = Paper::niedermayer_2006().unwrap();
        assert_eq!(paper.tables.len(), 14);
        for (nth, table) in (1..).zip(&paper.tables) {
            assert_eq!(table.number, nth);
            for row in &table.rows {
                assert_eq!(
                    row.values.len(),
                    table.columns.len(),
                    "table {nth}: {row:?}"
                );
                assert_eq!(row.labels.len(), table.labels.len(), "table {nth}: {row:?}");
            }
            let units = table.columns.iter().map(|column| table.unit(column));
            for unit in units {
                let known = ["cycles", "us", "mbit_per_s", "level"];
                assert!(known.contains(&unit), "table {nth}: {unit}");
            }
        }
    }

    #[test]
    fn a_cell_is_what_column_row_and_table_say() {
        let paper = Paper::niedermayer_2006().unwrap();
        let cell = |table: u32, row: usize, column: usize| {
            let table = paper.table(table).unwrap();
            let what = table.what(&table.rows[row], &table.columns[column]);
            (what.item_name(), what.size_bytes)
        };
        let named = |name: &str, size| (Some(name.to_owned()), Some(size));
        assert_eq!(
            cell(1, 2, 0),
            named("ah/transport/ipv4/hmac-sha1-96", 1_400)
        );
        assert_eq!(cell(4, 0, 1), named("esp/transport/ipv4/aes-128-cbc", 300));
        let both = "esp+ah/tunnel/ipv4/3des-cbc/hmac-sha1-96";
        assert_eq!(cell(3, 1, 0), named(both, 1_400));
        let within = "esp/transport/ipv4/aes-128-cbc/hmac-sha-256-128";
        assert_eq!(cell(12, 1, 0), named(within, 1_400));
        assert_eq!(cell(6, 0, 0), (None, Some(1_400)));
    }
}
