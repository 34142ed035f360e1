//! Figures in words.

use crate::record::{Repeat, figure};

/// What CPU time is taken apart into, by the names that profiles have.
pub const COMPONENTS: [&str; 10] = [
    "kernel",
    "sip_core",
    "tls_protocol",
    "public_key",
    "symmetric",
    "memory_allocation",
    "libc",
    "database_client",
    "database",
    "other",
];
/// The processes that are taken apart.
const PROCESSES: [&str; 2] = ["server", "database"];

/// Whether a figure is CPU time of components: `server/public_key+symmetric`.
pub fn is_of_profile(name: &str) -> bool {
    name.split_once('/').is_some_and(|(process, components)| {
        PROCESSES.contains(&process) && components.split('+').all(|one| COMPONENTS.contains(&one))
    })
}

/// A figure of a repeat, or CPU time of components in microseconds for each call. A component
/// that a profile does not name took none.
pub fn value(repeat: &Repeat, name: &str) -> Option<f64> {
    let Some((process, components)) = name.split_once('/') else {
        return repeat.figures.get(name).copied();
    };
    let took = |one: &str| repeat.profile.get(&format!("{process}/{one}")).copied();
    let sum = components.split('+').filter_map(took).sum();
    (!repeat.profile.is_empty()).then_some(sum)
}

/// A figure in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Words {
    /// What it is: "CPU time of the server for each".
    pub what: &'static str,
    /// The unit that it is told in.
    pub unit: &'static str,
    /// What the record's value is multiplied by to be in that unit.
    pub scale: f64,
}

const fn words(what: &'static str, unit: &'static str, scale: f64) -> Words {
    Words { what, unit, scale }
}

/// The words for a name of [`figure`].
pub fn in_words(name: &str) -> Words {
    match name {
        figure::RATE_PER_S => words("rate", "/s", 1.0),
        figure::SERVER_CPU_US => words("CPU time of the server for each", "us", 1.0),
        figure::DATABASE_CPU_US => words("CPU time of the database for each", "us", 1.0),
        figure::SERVER_CORES => words("cores of the server", "cores", 1.0),
        figure::DATABASE_CORES => words("cores of the database", "cores", 1.0),
        figure::LOAD_CORES => words("cores of the load", "cores", 1.0),
        figure::SERVER_MEMORY_BYTES => words("memory of the server", "MiB", 1.0 / 1_048_576.0),
        figure::RRD_P50_MS => words("registration request delay, median", "ms", 1.0),
        figure::RRD_MEAN_MS => words("registration request delay, mean", "ms", 1.0),
        figure::RRD_P99_MS => words("registration request delay, 99th percentile", "ms", 1.0),
        figure::SRD_P50_MS => words("session request delay, median", "ms", 1.0),
        figure::SRD_MEAN_MS => words("session request delay, mean", "ms", 1.0),
        figure::SRD_P99_MS => words("session request delay, 99th percentile", "ms", 1.0),
        figure::FAILED_SHARE => words("share that failed", "%", 100.0),
        figure::RETRANSMISSIONS => words("messages sent again for each", "", 1.0),
        figure::CONCURRENT_MAX => words("calls at once", "calls", 1.0),
        figure::DATABASE_BITS_PER_S => words("bits between server and database", "kbit/s", 0.001),
        name if is_of_profile(name) => words("CPU time of components for each", "us", 1.0),
        // Files are held to the names above before anything of them is told.
        _ => words("figure", "", 1.0),
    }
}

/// Differences smaller than this, in the unit of the record, say nothing, however small the
/// figure is.
pub(crate) fn resolution(name: &str) -> f64 {
    match name {
        figure::SERVER_CPU_US | figure::DATABASE_CPU_US => 0.5,
        // A sample more or less, of some thousand calls.
        name if is_of_profile(name) => 2.0,
        figure::SERVER_CORES | figure::DATABASE_CORES | figure::LOAD_CORES => 0.02,
        figure::SERVER_MEMORY_BYTES => 1_048_576.0,
        figure::FAILED_SHARE => 0.005,
        figure::RETRANSMISSIONS => 0.01,
        figure::DATABASE_BITS_PER_S => 10_000.0,
        figure::RATE_PER_S | figure::CONCURRENT_MAX => 1.0,
        // Delays.
        _ => 0.1,
    }
}

/// A number with three digits that count, thousands apart.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        return thousands(value);
    }
    let digits = match size {
        s if s >= 10.0 => 1,
        s if s >= 1.0 || s == 0.0 => 2,
        s if s >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

fn thousands(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut told = String::new();
    for (nth, digit) in plain.chars().enumerate() {
        if nth > 0 && (plain.len() - nth).is_multiple_of(3) {
            told.push(',');
        }
        told.push(digit);
    }
    if value < 0.0 {
        told.insert(0, '-');
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_count() {
        assert_eq!(number(0.0), "0.00");
        assert_eq!(number(0.01234), "0.0123");
        assert_eq!(number(1.234), "1.23");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(999.4), "999");
        assert_eq!(number(12_100.0), "12,100");
        assert_eq!(number(-1_234_567.0), "-1,234,567");
    }

    #[test]
    fn components_are_added_and_one_that_is_not_named_took_none() {
        let mut repeat = Repeat::default();
        assert_eq!(value(&repeat, "server/public_key"), None);
        repeat.profile.insert("server/public_key".to_owned(), 3.0);
        repeat.profile.insert("server/symmetric".to_owned(), 4.0);
        repeat.profile.insert("database/kernel".to_owned(), 5.0);
        assert_eq!(value(&repeat, "server/public_key+symmetric"), Some(7.0));
        assert_eq!(value(&repeat, "server/libc"), Some(0.0));
        repeat.figures.insert(figure::RATE_PER_S.to_owned(), 6.0);
        assert_eq!(value(&repeat, figure::RATE_PER_S), Some(6.0));
        assert!(is_of_profile("database/kernel"));
        assert!(!is_of_profile("server/rsa"));
        assert!(!is_of_profile("load/kernel"));
        assert!(!is_of_profile("server/"));
    }

    #[test]
    fn every_figure_has_words() {
        for name in figure::ALL {
            assert_ne!(in_words(name).what, "figure", "{name}");
        }
    }
}
