//! The table of levels: what each algorithm is worth, by whom, and since when.

use std::collections::BTreeMap;
use std::path::Path;

use diagnose::{ConfigError, Fault};
use invariant::broken;
use serde::{Deserialize, Serialize};

use crate::level::{Aspect, Level, Protection};

/// The version of the table's format.
const VERSION: u32 = 1;
const SHIPPED: &str = include_str!("../levels.toml");

/// What an algorithm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It encrypts.
    Cipher,
    /// It authenticates messages.
    Mac,
    /// How the two are put together.
    Construction,
    /// It agrees on keys.
    KeyExchange,
    /// All of these together.
    Protocol,
    /// What is signed in the place of a message.
    SignatureHash,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Algorithm {
    /// Its name in this table.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// Its level of confidentiality, where it contributes to that.
    pub confidentiality: Option<Level>,
    /// Its level of authentication, where it contributes to that.
    pub authentication: Option<Level>,
    /// Its level of forward secrecy, where it contributes to that.
    pub forward_secrecy: Option<Level>,
    /// Why so much and not more.
    pub why: String,
    /// Why it is never chosen, where it is not.
    pub broken: Option<String>,
    /// Where that can be looked up.
    pub source: String,
    /// When that was published: `2022-11`.
    pub date: String,
}

impl Algorithm {
    /// What it is worth. What is broken is worth nothing.
    pub fn protection(&self) -> Protection {
        let level = |given: Option<Level>| match &self.broken {
            Some(_) => given.map(|_| Level::ZERO),
            None => given,
        };
        Protection {
            confidentiality: level(self.confidentiality),
            authentication: level(self.authentication),
            forward_secrecy: level(self.forward_secrecy),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    algorithm: Vec<Algorithm>,
}

/// What algorithms are worth, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    rows: BTreeMap<String, Algorithm>,
}

impl Levels {
    /// The table that comes with this crate.
    pub fn shipped() -> Self {
        match Self::read(Path::new("levels.toml"), SHIPPED) {
            Ok(levels) => levels,
            // With an empty table nothing is ever chosen.
            Err(_) => broken!("the shipped table of levels is sound", Self::default()),
        }
    }

    /// Reads a table; `path` is for the errors.
    ///
    /// # Errors
    /// Says what is wrong in which line, and what to write instead.
    pub fn read(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| {
            ConfigError::unparsable(path, text, &error, "crates/protection/levels.toml")
        })?;
        let mut faults = Vec::new();
        let mut fault = |at: String, what: String, remedy: &str| {
            faults.push(Fault {
                at,
                what,
                remedy: remedy.to_owned(),
            });
        };
        if file.version != VERSION {
            fault(
                "version".to_owned(),
                "this version of the table is not known".to_owned(),
                "write `version = 1`",
            );
        }
        let mut rows = BTreeMap::new();
        for (nth, row) in file.algorithm.into_iter().enumerate() {
            let at = format!("algorithm.{nth}");
            let levels = [row.confidentiality, row.authentication, row.forward_secrecy];
            if levels.iter().all(Option::is_none) {
                fault(
                    at.clone(),
                    format!("`{}` has no level", row.name),
                    "write confidentiality, authentication or forward_secrecy",
                );
            }
            if row.broken.is_some() && levels.iter().flatten().any(|level| *level > Level::ZERO) {
                fault(
                    format!("{at}.broken"),
                    format!("`{}` is broken and has a level above 0", row.name),
                    "write 0 for its levels, or drop `broken`",
                );
            }
            if !is_date(&row.date) {
                fault(
                    format!("{at}.date"),
                    format!("`{}` is no year and month", row.date),
                    "write when the source was published: date = \"2022-11\"",
                );
            }
            if row.source.trim().is_empty() {
                fault(
                    format!("{at}.source"),
                    "a level without a source is a guess".to_owned(),
                    "write where it can be looked up: source = \"RFC 9325, 4.1\"",
                );
            }
            let name = row.name.clone();
            if rows.insert(name.clone(), row).is_some() {
                fault(
                    format!("{at}.name"),
                    format!("`{name}` stands above"),
                    "drop one of the two",
                );
            }
        }
        if faults.is_empty() {
            Ok(Self { rows })
        } else {
            Err(ConfigError::faulty(path, text, faults))
        }
    }

    /// This table with another's rows in the place of its own. What is broken
    /// here stays so: no opinion mends it.
    pub fn overlaid(mut self, other: Self) -> Self {
        for (name, row) in other.rows {
            let is_broken = self.rows.get(&name).is_some_and(|own| own.broken.is_some());
            if !is_broken {
                self.rows.insert(name, row);
            }
        }
        self
    }

    /// The row of an algorithm.
    pub fn get(&self, name: &str) -> Option<&Algorithm> {
        self.rows.get(name)
    }

    /// All rows, by name.
    pub fn rows(&self) -> impl Iterator<Item = &Algorithm> {
        self.rows.values()
    }

    /// What these are worth together, and which is the weakest of each aspect.
    ///
    /// # Errors
    /// Where one is broken or not in the table: the floor, below which there is
    /// no policy.
    pub fn judge(&self, parts: &[&str]) -> Result<Judged<'_>, BelowTheFloor> {
        let mut judged = Judged {
            protection: Protection::default(),
            weakest: [None; Aspect::ALL.len()],
        };
        for part in parts {
            let Some(row) = self.get(part) else {
                return Err(BelowTheFloor {
                    part: (*part).to_owned(),
                    why: "the table of levels does not have it".to_owned(),
                    source: String::new(),
                });
            };
            if let Some(why) = &row.broken {
                return Err(BelowTheFloor {
                    part: row.name.clone(),
                    why: why.clone(),
                    source: format!("{}, {}", row.source, row.date),
                });
            }
            let protection = row.protection();
            for (aspect, weakest) in Aspect::ALL.into_iter().zip(&mut judged.weakest) {
                let lowers = match (protection.of(aspect), judged.protection.of(aspect)) {
                    (Some(level), Some(before)) => level < before,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                if lowers {
                    *weakest = Some(row);
                }
            }
            judged.protection = judged.protection.with(protection);
        }
        Ok(judged)
    }
}

/// What several algorithms are worth together.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'t> {
    /// Of each aspect the lowest level among them.
    pub protection: Protection,
    weakest: [Option<&'t Algorithm>; Aspect::ALL.len()],
}

impl<'t> Judged<'t> {
    /// The one that decides an aspect.
    pub fn weakest(&self, aspect: Aspect) -> Option<&'t Algorithm> {
        let place = Aspect::ALL.iter().position(|known| *known == aspect)?;
        self.weakest.get(place).copied().flatten()
    }
}

/// Why something is never chosen, whatever the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BelowTheFloor {
    /// The algorithm in it.
    pub part: String,
    /// What is wrong with that.
    pub why: String,
    /// Where this can be looked up; empty where it is not in the table.
    pub source: String,
}

/// `2022-11`, or with a day.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let year = parts
        .next()
        .is_some_and(|year| year.len() == 4 && year.parse::<u16>().is_ok_and(|year| year >= 1970));
    let month = parts.next().is_some_and(|month| {
        month.len() == 2
            && month
                .parse::<u8>()
                .is_ok_and(|month| (1..=12).contains(&month))
    });
    let day = parts.next().is_none_or(|day| {
        day.len() == 2 && day.parse::<u8>().is_ok_and(|day| (1..=31).contains(&day))
    });
    year && month && day
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no table may mend: the list.
    const NEVER: [&str; 9] = [
        "DES-CBC",
        "NULL",
        "RC4",
        "export cipher",
        "SSLv2",
        "SSLv3",
        "TLS 1.0",
        "TLS 1.1",
        "MD5 signature",
    ];

    fn read(text: &str) -> Result<Levels, String> {
        let text = format!("version = 1\n{text}");
        Levels::read(Path::new("l.toml"), &text).map_err(|error| error.to_string())
    }

    fn row(name: &str, rest: &str) -> String {
        format!(
            "[[algorithm]]\nname = \"{name}\"\nkind = \"cipher\"\nwhy = \"w\"\nsource = \"s\"\ndate = \"2022-11\"\n{rest}\n"
        )
    }

    #[test]
    fn the_shipped_table_has_a_source_and_a_date_for_each_and_a_floor() {
        let levels = Levels::shipped();
        assert!(levels.rows().count() > 30);
        for name in NEVER {
            let fault = levels.judge(&["TLS 1.3", name]).unwrap_err();
            assert_eq!(fault.part, name);
            assert!(!fault.source.is_empty());
        }
        let judged = levels.judge(&["TLS 1.2", "AES-256-GCM"]).unwrap();
        assert_eq!(judged.protection.confidentiality, Level::new(8));
        let weakest = judged.weakest(Aspect::Confidentiality).unwrap();
        assert_eq!(weakest.name, "TLS 1.2");
        assert!(levels.judge(&["ROT13"]).is_err());
    }

    #[test]
    fn another_opinion_counts_but_mends_nothing_that_is_broken() {
        let theirs = read(
            &(row("DES-CBC", "confidentiality = 10") + &row("AES-128-GCM", "confidentiality = 4")),
        )
        .unwrap();
        let levels = Levels::shipped().overlaid(theirs);
        assert!(levels.judge(&["DES-CBC"]).is_err());
        let aes = levels.judge(&["AES-128-GCM"]).unwrap().protection;
        assert_eq!(aes.confidentiality, Level::new(4));
        assert_eq!(aes.authentication, None);
        // Theirs may break what is whole here.
        let theirs = read(&row("X25519", "confidentiality = 0\nbroken = \"so\"")).unwrap();
        assert!(
            Levels::shipped()
                .overlaid(theirs)
                .judge(&["X25519"])
                .is_err()
        );
    }

    #[test]
    fn a_bad_table_is_told_with_its_line_and_the_remedy() {
        for (text, told) in [
            (
                row("a", "confidentiality = 11"),
                "l.toml:8:19: 11 is out of range",
            ),
            (
                row("a", "confidentiality = -1"),
                "write a number from 0 to 10",
            ),
            (row("a", ""), "`a` has no level"),
            (
                row("a", "confidentiality = 3\nbroken = \"so\""),
                "`a` is broken and has a level above 0",
            ),
            (
                row("a", "confidentiality = 3") + &row("a", "confidentiality = 3"),
                "`a` stands above",
            ),
            (
                row("a", "confidentiality = 3").replace("2022-11", "lately"),
                "`lately` is no year and month",
            ),
            (
                row("a", "confidentiality = 3").replace("source = \"s\"", "source = \" \""),
                "without a source is a guess",
            ),
            (row("a", "secrecy = 3"), "unknown key `secrecy`"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
        let error = Levels::read(Path::new("l.toml"), "version = 2\n").unwrap_err();
        assert!(error.to_string().contains("write `version = 1`"));
    }
}
