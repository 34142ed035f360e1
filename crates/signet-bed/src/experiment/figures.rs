//! Figures in words.

use crate::record::figure;

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
        // Files are held to the names above before anything of them is told.
        _ => words("figure", "", 1.0),
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
    fn every_figure_has_words() {
        for name in figure::ALL {
            assert_ne!(in_words(name).what, "figure", "{name}");
        }
    }
}
