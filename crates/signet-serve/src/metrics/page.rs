//! Every figure, in the text format of Prometheus, by subject: a name, a help
//! text and where the number comes from, for each.

mod connections;
mod engine;
mod faults;
mod handshakes;
mod net;
mod store;
mod tls;
mod websocket;

use std::fmt::Write as _;

use sip_net::CloseReason;

use super::Sources;
use crate::worker::Phase;

/// The whole page.
pub(super) fn render(sources: &Sources) -> String {
    let snapshots = sources.control.snapshots();
    let mut page = Page::default();
    net::net(&mut page, &snapshots);
    websocket::websocket(&mut page, &snapshots);
    engine::workers(&mut page, &snapshots);
    engine::engine(&mut page, &snapshots);
    tls::pool(&mut page, sources);
    let counted = sources.counted(&snapshots);
    connections::connections(&mut page, sources, &snapshots, &counted);
    tls::shown(&mut page, &sources.tls());
    store::shared(&mut page, sources);
    faults::faults(&mut page);

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
    page.gauge(
        "signet_start_time_seconds",
        "When the process began, in seconds since 1970.",
        sources.started_unix_s,
    );
    page.gauge(
        "signet_ready",
        "1 while new calls are taken.",
        u64::from(sources.control.phase() == Phase::Running),
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

/// `SlowReader` as `slow_reader`.
fn label(reason: CloseReason) -> String {
    let mut label = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_ascii_uppercase() && !label.is_empty() {
            label.push('_');
        }
        label.push(letter.to_ascii_lowercase());
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Snapshot;

    #[test]
    fn every_figure_has_its_head_and_is_summed_over_the_workers() {
        let mut snapshots = vec![Snapshot::default(), Snapshot::default()];
        for snapshot in &mut snapshots {
            snapshot.engine.requests = 3;
            snapshot.sockets.net.udp.messages_in = 5;
            snapshot.sockets.net.closed = [1; CloseReason::ALL.len()];
        }
        let mut page = Page::default();
        net::net(&mut page, &snapshots);
        engine::workers(&mut page, &snapshots);
        engine::engine(&mut page, &snapshots);
        let rates = sip_limit::Rates::new([1; 16]);
        let allowance = sip_limit::Allowance {
            calls_per_s: 1,
            ..sip_limit::Allowance::default()
        };
        for _ in 0..3 {
            let who = rates.peer(b"example.net");
            let _ = rates.charge(1, who, &allowance, 1, sip_limit::Kind::Call, 100);
        }
        store::rates(&mut page, &rates);
        for line in [
            "signet_requests_total 6",
            "signet_messages_received_total{transport=\"udp\"} 10",
            "signet_connections_closed_total{reason=\"slow_reader\"} 2",
            "signet_workers 2",
            "signet_rate_limited_total{by=\"user\",what=\"bytes\"} 0",
            "signet_rate_limited_total{by=\"peer\",what=\"calls\"} 2",
        ] {
            assert!(
                page.text.lines().any(|of| of == line),
                "{line} is not in\n{}",
                page.text
            );
        }
        let mut known = "";
        for line in page.text.lines() {
            if let Some(head) = line.strip_prefix("# TYPE ") {
                known = head.split(' ').next().unwrap();
            } else if !line.starts_with('#') {
                assert_eq!(line.split(['{', ' ']).next().unwrap(), known, "{line}");
            }
        }
    }
}
