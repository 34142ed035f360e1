//! What a window showed, for people.

use std::fmt::Write as _;

use signet_page::number::{count, figure};

use super::{LiveRecord, Spent};

/// A table.
pub fn told(record: &LiveRecord) -> String {
    let mut text = format!(
        "{}, signet {}, {:.1} s: {} calls, {} registrations, {} cores busy\n\n",
        record.from,
        record.server,
        record.seconds,
        count(record.calls),
        count(record.registrations),
        figure(record.total.cpu_s / record.seconds.max(1e-9)),
    );
    let unit = record.unit();
    let _ = write!(text, "{:<16}{:>10}{:>10}", "component", "CPU s", "share");
    if let Some((one, many)) = unit {
        let (us, eur) = (format!("us/{one}"), format!("EUR/million {many}"));
        let _ = write!(text, "{us:>18}{eur:>28}");
    }
    text.push('\n');
    for spent in record.components.iter().chain([&record.total]) {
        let _ = write!(
            text,
            "{:<16}{:>10.3}{:>8.1} %",
            spent.name,
            spent.cpu_s,
            spent.share * 100.0
        );
        if let Some((us, eur)) = spent.each() {
            let _ = write!(text, "{:>18}{:>28}", figure(us), figure(eur));
        }
        text.push('\n');
    }
    if unit.is_some() {
        let _ = writeln!(text, "\na core costs {} EUR an hour", record.core_hour_eur);
    }
    for note in &record.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

impl LiveRecord {
    /// What its figures are for, one and many of them; `None` where there was nothing.
    pub(super) fn unit(&self) -> Option<(&'static str, &'static str)> {
        match (self.calls, self.registrations) {
            (0, 0) => None,
            (0, _) => Some(("registration", "registrations")),
            _ => Some(("call", "calls")),
        }
    }
}

impl Spent {
    /// Microseconds for each, and euros for a million.
    pub(super) fn each(&self) -> Option<(f64, f64)> {
        let call = self.us_per_call.zip(self.eur_per_million_calls);
        let registration = self.us_per_registration;
        call.or_else(|| registration.zip(self.eur_per_million_registrations))
    }
}
