//! Every figure, in the text format of Prometheus, by subject: a name, a help
//! text and where the number comes from, for each.

mod connections;
mod cpu;
mod faults;
mod gateways;
mod handshakes;
mod hook;
mod media;
mod records;
mod store;
mod tls;
mod trunks;
mod workers;

use std::fmt::Write as _;

use counters::Counted;
use sip_net::clock;

use super::Sources;
use crate::worker::Phase;

/// The whole page.
pub(super) fn render(sources: &Sources) -> String {
    let snapshots = sources.control.snapshots();
    let mut page = Page::default();
    workers::workers(&mut page, &snapshots);
    gateways::gateways(&mut page, &sources.gateways.health(clock::now_ms()));
    trunks::trunks(&mut page, &sources.gateways.trunks.all(clock::now_ms()));
    media::media(&mut page, &sources.engines.in_use(clock::now_ms()));
    cpu::cpu(&mut page, &snapshots, sources.threads.cpu());
    tls::pool(&mut page, &sources.handshakes.counters());
    let counted = sources.counted(&snapshots);
    let shown = sources.tls();
    let accepts_tls = |place: &str| {
        let mut listeners = shown.listeners.iter().flatten();
        listeners.any(|listener| listener.accepts && listener.place == place)
    };
    let places = &sources.listeners;
    connections::connections(&mut page, places, &accepts_tls, &snapshots, &counted);
    tls::shown(&mut page, &shown);
    store::shared(&mut page, sources);
    faults::faults(&mut page);
    records::records(&mut page, &sources.records);
    hook::hook(&mut page, sources.hook.as_ref());
    page.counter(
        "signet_log_lines_left_out_total",
        "Lines of the log that are lost: whoever reads the standard error does not keep up.",
        crate::log::left_out(),
    );

    page.gauge(
        "signet_memory_held_bytes",
        "Memory held on account of messages: what waits, what is kept, what is spare.",
        sources.budget.bytes_held(),
    );
    page.gauge(
        "signet_memory_max_bytes",
        "The most of it; requests are refused before it is reached.",
        sources.budget.bytes_max(),
    );
    page.head(
        "signet_build_info",
        "Always 1; its labels say which program this is.",
        "gauge",
    );
    page.sample(
        "signet_build_info",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1,
    );
    page.gauge(
        "signet_start_time_seconds",
        "When the process began, in seconds since 1970.",
        sources.started_unix_s,
    );
    page.gauge(
        "signet_ready",
        "1 while new calls are taken and registrations can be stored.",
        u64::from(sources.control.phase() == Phase::Running && sources.stores()),
    );
    if let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF) {
        let cpu = usage.user_time() + usage.system_time();
        page.head(
            "process_cpu_seconds_total",
            "CPU time of the process.",
            "counter",
        );
        let _ = writeln!(
            page.text,
            "process_cpu_seconds_total {}.{:06}",
            cpu.tv_sec(),
            cpu.tv_usec()
        );
    }
    page.text
}

/// The text format of Prometheus.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// A time in microseconds, in seconds.
    fn sample_us(&mut self, name: &str, labels: &[(&str, &str)], value_us: u64) {
        let (seconds, rest) = (value_us / 1_000_000, value_us % 1_000_000);
        self.sample_text(name, labels, &format!("{seconds}.{rest:06}"));
    }

    /// What several counted, summed.
    fn counted<'c, C: Counted>(&mut self, all: impl Iterator<Item = &'c C>) {
        self.counted_by("", &[("", counters::sum(all))]);
    }

    /// The same with a label that tells the rows apart, where there is one. What is counted
    /// in microseconds is shown in seconds, as all times at Prometheus are.
    fn counted_by<C: Counted>(&mut self, label: &str, rows: &[(&str, C)]) {
        for family in C::FAMILIES {
            let name = family.name.replace("_microseconds", "_seconds");
            let sample = match name == family.name {
                true => Self::sample,
                false => Self::sample_us,
            };
            self.head(&name, family.help.trim(), family.kind);
            let values = (family.values)();
            for (row, counted) in rows {
                for (nth, number) in (family.numbers)(counted).iter().enumerate() {
                    let value = values.get(nth).copied().unwrap_or_default();
                    let labels = [(label, *row), (family.label, value)];
                    let labels: Vec<_> = labels.into_iter().filter(|of| !of.0.is_empty()).collect();
                    sample(self, &name, &labels, *number);
                }
            }
        }
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.sample(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "gauge");
        self.sample(name, &[], value);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.sample_text(name, labels, &value.to_string());
    }

    fn sample_text(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.text.push_str(name);
        for (nth, (label, text)) in labels.iter().enumerate() {
            // Prometheus: a backslash, a quote and a line end are escaped.
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(
                self.text,
                "{}{label}=\"{text}\"",
                if nth == 0 { '{' } else { ',' }
            );
        }
        let _ = writeln!(
            self.text,
            "{} {value}",
            if labels.is_empty() { "" } else { "}" }
        );
    }
}

#[cfg(test)]
mod tests;
