//! Where experiments come from: those that this program brings, and files.

use std::path::Path;

use diagnose::ConfigError;

use super::file::Experiment;
use super::prices::SHIPPED_PRICES;

/// The experiments that this program brings, by name, as their files' texts.
pub const SHIPPED: [(&str, &str); 4] = [
    (
        "shen-2010",
        include_str!("../../../../experiments/shen-2010.toml"),
    ),
    (
        "kulin-2012",
        include_str!("../../../../experiments/kulin-2012.toml"),
    ),
    (
        "maguluri-2012",
        include_str!("../../../../experiments/maguluri-2012.toml"),
    ),
    (
        "dacosta-2009",
        include_str!("../../../../experiments/dacosta-2009.toml"),
    ),
];

/// Where all keys are shown.
pub(super) const EXAMPLE: &str = "docs/EXPERIMENTS.md";

impl Experiment {
    /// The experiment of this name that the program brings, or else in this file, and its text.
    ///
    /// # Errors
    /// Where there is none, or its file cannot be used: each fault with its line and remedy.
    pub fn open(name: &str) -> Result<(Self, String), ConfigError> {
        let shipped = SHIPPED.iter().find(|(known, _)| *known == name);
        let (path, text) = match shipped {
            Some((known, text)) => (format!("experiments/{known}.toml"), (*text).to_owned()),
            None => (name.to_owned(), read(Path::new(name))?),
        };
        Self::from_text(Path::new(&path), &text).map(|experiment| (experiment, text))
    }

    /// Reads and checks a text; `path` is only for the errors.
    ///
    /// # Errors
    /// Each fault with its line and remedy.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let experiment: Self = toml::from_str(text)
            .map_err(|error| ConfigError::unparsable(path, text, &error, EXAMPLE))?;
        let faults = experiment.faults();
        if faults.is_empty() {
            Ok(experiment)
        } else {
            Err(ConfigError::faulty(path, text, faults))
        }
    }
}

pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| {
        let names = SHIPPED.iter().chain(&SHIPPED_PRICES);
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        let names = names.join(", ");
        let if_missing = format!("name a file that is there, or one of: {names}");
        ConfigError::unreadable(path, &error, &if_missing)
    })
}
