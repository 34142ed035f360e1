//! The screens: what SIPp shows, in its order.

use std::fmt::Write;
use std::net::SocketAddr;

use sip_scenario::{Calls, Classes, Counter, Moment, StepKind};

use crate::args::Args;
use crate::pacing::Pacing;
use crate::traces::elapsed_us;

use super::{Period, call_rate, ns_of, since};

/// The moments that a screen names.
pub(super) struct Times {
    pub(super) start: Moment,
    pub(super) reset: Moment,
    pub(super) now: Moment,
    pub(super) now_ns: u64,
}

/// What does not change during a run.
pub(super) struct Frame {
    period_ms: u64,
    pause_ms: u64,
    port: u16,
    remote: Option<SocketAddr>,
    transport: &'static str,
    open_max: u64,
    calls_max: Option<u64>,
    peak: usize,
    peak_ns: u64,
}

impl Frame {
    pub(super) fn new(
        args: &Args,
        locals: &[SocketAddr],
        remote: Option<SocketAddr>,
        open_max: u64,
    ) -> Self {
        Self {
            period_ms: args.rate_period_ms,
            pause_ms: args.pause_ms,
            port: locals.first().map_or(0, |local| local.port()),
            remote,
            transport: args.transport.via_name(),
            open_max,
            calls_max: args.calls_max,
            peak: 0,
            peak_ns: 0,
        }
    }

    pub(super) fn set_open_max(&mut self, open_max: u64) {
        self.open_max = open_max;
    }

    pub(super) fn peak(&mut self, open: usize, now_ns: u64) {
        if open > self.peak {
            (self.peak, self.peak_ns) = (open, now_ns);
        }
    }

    pub(super) fn draw(
        &self,
        calls: &Calls,
        pacing: &Pacing,
        from: &Period,
        times: &Times,
        which: Option<u8>,
    ) -> String {
        let mut text = String::new();
        // Writing to memory cannot fail.
        let _ = match which {
            None => self.end(&mut text, calls, pacing, from, times),
            Some(2) => rule(&mut text, "Statistics Screen")
                .and_then(|()| statistics(&mut text, calls, from, times)),
            Some(3) => repartitions(&mut text, calls, 0).and_then(|()| lengths(&mut text, calls)),
            Some(4) => actions(&mut text, calls),
            // SIPp shows the response times after the first there.
            Some(more @ 6..=9) => repartitions(&mut text, calls, usize::from(more) - 5),
            Some(_) => self.scenario(&mut text, calls, pacing, times.now_ns),
        };
        if which.is_some() {
            text.push_str("  [1-9]: another screen, [q]: ends softly, [p]: pauses\n");
        }
        text
    }

    /// What is told at the end.
    fn end(
        &self,
        text: &mut String,
        calls: &Calls,
        pacing: &Pacing,
        from: &Period,
        times: &Times,
    ) -> std::fmt::Result {
        self.scenario(text, calls, pacing, times.now_ns)?;
        rule(text, "Statistics Screen")?;
        statistics(text, calls, from, times)?;
        for index in 0..calls.program().rtd_names().len() {
            repartitions(text, calls, index)?;
        }
        lengths(text, calls)?;
        rule(text, "Test Terminated")
    }

    fn scenario(
        &self,
        out: &mut String,
        calls: &Calls,
        pacing: &Pacing,
        now_ns: u64,
    ) -> std::fmt::Result {
        let stats = calls.stats();
        rule(out, "Scenario Screen")?;
        writeln!(
            out,
            "  Call rate (length)   Port   Total-time  Total-calls  Remote-host"
        )?;
        let rate = format!(
            "{:.1}({} ms)/{:.3}s{}",
            pacing.rate(),
            self.pause_ms,
            self.period_ms as f64 / 1_000.0,
            if pacing.is_paused() { " paused" } else { "" }
        );
        let remote = self.remote.map_or_else(String::new, |r| r.to_string());
        writeln!(
            out,
            "  {rate:<20} {:<5} {:>9.2} s {:>12}  {remote}({})\n",
            self.port,
            now_ns as f64 / 1e9,
            calls.created(),
            self.transport
        )?;
        if let Some(max) = self.calls_max.filter(|max| calls.created() >= *max) {
            writeln!(out, "  Call limit {max} hit")?;
        }
        writeln!(
            out,
            "  {} calls (limit {})                     Peak was {} calls, after {} s",
            calls.len(),
            match self.open_max {
                u64::MAX => "none".to_owned(),
                max => max.to_string(),
            },
            self.peak,
            self.peak_ns / 1_000_000_000
        )?;
        writeln!(
            out,
            "  {} dead call msg (discarded)             {} out-of-call msg (discarded)\n",
            stats.get(Counter::DeadCallMessages),
            stats.get(Counter::OutOfCallMessages)
        )?;
        steps(out, calls)
    }
}

/// A line for each step of the scenario.
fn steps(out: &mut String, calls: &Calls) -> std::fmt::Result {
    writeln!(
        out,
        "                                 Messages  Retrans   Timeout   Unexpected-Msg"
    )?;
    for (index, counts) in calls.stats().steps.iter().enumerate() {
        let label = calls.program().step_label(index);
        if label.is_hidden || index >= calls.program().step_count() {
            continue;
        }
        let name = label.display.unwrap_or(&label.name);
        let rtd = match (label.starts_rtd, label.stops_rtd) {
            (_, Some(name)) => format!("E-RTD{name}"),
            (Some(name), None) => format!("B-RTD{name}"),
            (None, None) => String::new(),
        };
        match label.kind {
            StepKind::Send => {
                let timeouts = if label.retransmits {
                    counts.timeouts.to_string()
                } else {
                    String::new()
                };
                writeln!(
                    out,
                    "  {name:>10} ---------->  {rtd:<6} {:<9} {:<9} {timeouts}",
                    counts.done, counts.retransmitted
                )?;
            }
            StepKind::Recv => writeln!(
                out,
                "  {name:>10} <----------  {rtd:<6} {:<9} {:<9} {:<9} {}",
                counts.done, counts.retransmitted, counts.timeouts, counts.unexpected
            )?,
            StepKind::Pause => writeln!(
                out,
                "  {name:>10} [{:>7}]            {:<29} {}",
                counts.sessions, counts.done, counts.unexpected
            )?,
            StepKind::SendCommand | StepKind::ReceiveCommand => {
                let how = if label.kind == StepKind::SendCommand {
                    "Sent"
                } else {
                    "Received"
                };
                let name = format!("[ {how} Command ]");
                writeln!(out, "  {name:>23}        {}", counts.done)?;
            }
            StepKind::Nop => writeln!(out, "  {name:>10}")?,
        }
        if label.crlf {
            writeln!(out)?;
        }
    }
    Ok(())
}

fn statistics(out: &mut String, calls: &Calls, from: &Period, times: &Times) -> std::fmt::Result {
    let stats = calls.stats();
    let line = "-------------------------+---------------------------+--------------------------";
    for (name, moment) in [
        ("Start Time", &times.start),
        ("Last Reset Time", &times.reset),
        ("Current Time", &times.now),
    ] {
        writeln!(out, "  {name:<22} | {}", moment.stamp())?;
    }
    writeln!(out, "{line}")?;
    writeln!(
        out,
        "  Counter Name           | Periodic value            | Cumulative value"
    )?;
    writeln!(out, "{line}")?;
    let mut row = |name: &str, period: &str, whole: &str| {
        writeln!(out, "  {name:<22} | {period:<25} | {whole:<25}")
    };
    let period_ns = times.now_ns.saturating_sub(from.since_ns);
    row(
        "Elapsed Time",
        &elapsed_us(period_ns),
        &elapsed_us(times.now_ns),
    )?;
    row(
        "Call Rate",
        &format!(
            "{:8.3} cps",
            call_rate(stats, Some(&from.before), period_ns)
        ),
        &format!("{:8.3} cps", call_rate(stats, None, times.now_ns)),
    )?;
    let count = |value: u64| format!("{value:>8}");
    let both = |counter: Counter| {
        let now = stats.get(counter);
        (count(now - from.before.get(counter).min(now)), count(now))
    };
    for (name, counter) in [
        ("Incoming calls created", Counter::IncomingCalls),
        ("Outgoing calls created", Counter::OutgoingCalls),
    ] {
        let (period, whole) = both(counter);
        row(name, &period, &whole)?;
    }
    row("Total Calls created", "", &count(calls.created()))?;
    row("Current Calls", &count(calls.len() as u64), "")?;
    for (index, name) in calls.program().counter_names().iter().enumerate() {
        let now = stats.own.get(index).copied().unwrap_or(0);
        let before = from.before.own.get(index).copied().unwrap_or(0);
        row(
            &format!("Counter {name}"),
            &count(now - before.min(now)),
            &count(now),
        )?;
    }
    for (name, counter) in CAUSES {
        let (period, whole) = both(counter);
        let is_total = matches!(counter, Counter::Successful | Counter::Failed);
        if is_total || stats.get(counter) > 0 {
            row(name, &period, &whole)?;
        }
    }
    for (index, name) in calls.program().rtd_names().iter().enumerate() {
        let (period, whole) = since(&stats.response_times, &from.before.response_times, index);
        row(
            &format!("Response Time {name}"),
            &elapsed_us(ns_of(period.mean_ms())),
            &elapsed_us(ns_of(whole.mean_ms())),
        )?;
    }
    let period = stats.call_lengths.since(&from.before.call_lengths);
    row(
        "Call Length",
        &elapsed_us(ns_of(period.mean_ms())),
        &elapsed_us(ns_of(stats.call_lengths.mean_ms())),
    )
}

/// What is shown of successes and failures, the causes only where there are any.
const CAUSES: [(&str, Counter); 22] = [
    ("Successful call", Counter::Successful),
    ("Failed call", Counter::Failed),
    (" cannot send", Counter::CannotSend),
    (" max UDP retrans", Counter::MaxUdpRetransmissions),
    (" TCP connect", Counter::TcpConnect),
    (" TCP closed", Counter::TcpClosed),
    (" unexpected message", Counter::UnexpectedMessage),
    (" rejected", Counter::Rejected),
    (" regexp no match", Counter::RegexpDoesntMatch),
    (" regexp match", Counter::RegexpShouldntMatch),
    (" no such header", Counter::RegexpHeaderNotFound),
    (" congestion", Counter::OutboundCongestion),
    (" timeout on recv", Counter::TimeoutOnRecv),
    (" timeout on send", Counter::TimeoutOnSend),
    (" test not true", Counter::TestDoesntMatch),
    (" test true", Counter::TestShouldntMatch),
    (" strcmp not equal", Counter::StrcmpDoesntMatch),
    (" strcmp equal", Counter::StrcmpShouldntMatch),
    ("Retransmissions", Counter::Retransmissions),
    ("Auto answered", Counter::AutoAnswered),
    ("Warnings", Counter::Warnings),
    ("Fatal errors", Counter::FatalErrors),
];

/// The classes of one response time, if there is such a one.
fn repartitions(out: &mut String, calls: &Calls, index: usize) -> std::fmt::Result {
    let classes = calls.stats().response_classes.get(index);
    match (calls.program().rtd_names().get(index), classes) {
        (Some(name), Some(classes)) => {
            repartition(out, &format!("Response Time Repartition {name}"), classes)
        }
        _ => Ok(()),
    }
}

fn lengths(out: &mut String, calls: &Calls) -> std::fmt::Result {
    repartition(out, "Call Length Repartition", &calls.stats().call_classes)
}

fn repartition(out: &mut String, name: &str, classes: &Classes) -> std::fmt::Result {
    if classes.below_ms.is_empty() {
        return Ok(());
    }
    rule(out, name)?;
    let mut from = 0;
    for (end, count) in classes.below_ms.iter().zip(&classes.counts) {
        writeln!(out, "  {from:>10} ms <= n < {end:>10} ms : {count:>10}")?;
        from = *end;
    }
    let above = classes.counts.last().copied().unwrap_or(0);
    writeln!(out, "                    n >= {from:>10} ms : {above:>10}")
}

/// What SIPp calls the variable screen: the actions of each step.
fn actions(out: &mut String, calls: &Calls) -> std::fmt::Result {
    rule(out, "Variable Screen")?;
    let program = calls.program();
    for index in 0..program.step_count() {
        let count = program.action_count(index);
        if count > 0 {
            let name = program.step_label(index).name;
            writeln!(
                out,
                "=> Message[{index}] ({name}) - [{count}] action(s) defined"
            )?;
        }
    }
    Ok(())
}

fn rule(out: &mut String, title: &str) -> std::fmt::Result {
    writeln!(
        out,
        "{:-<80}",
        format!("------------------------------ {title} ")
    )
}

#[cfg(test)]
mod tests {
    use sip_scenario::{CompileOptions, Program, Settings};

    use super::*;

    #[test]
    fn each_key_has_its_screen() {
        let file = b"<scenario name=\"t\"><ResponseTimeRepartition value=\"10, 20\"/>
            <CallLengthRepartition value=\"30\"/><recv request=\"A\" start_rtd=\"one\">
            <action><log message=\"x\"/></action></recv><recv request=\"B\" rtd=\"one\" start_rtd=\"two\"/>
            <recv request=\"C\" rtd=\"two\"/></scenario>";
        let program = Program::compile("t", file, CompileOptions::default()).unwrap();
        let calls = Calls::new(program, Settings::default(), Vec::new(), &[]);
        let frame = Frame::new(&Args::default(), &[], None, 30);
        let pacing = Pacing::new(10.0, 1_000, 0);
        let from = Period {
            since_ns: 0,
            before: calls.stats().clone(),
        };
        let moment = || Moment::from_unix_us(0);
        let times = Times {
            start: moment(),
            reset: moment(),
            now: moment(),
            now_ns: 1_000_000_000,
        };
        let draw = |which| frame.draw(&calls, &pacing, &from, &times, which);
        for (key, shown) in [
            (1, "Scenario Screen"),
            (2, "Statistics Screen"),
            (3, "Response Time Repartition one"),
            (3, "Call Length Repartition"),
            (4, "=> Message[0] (A) - [1] action(s) defined"),
            (5, "Scenario Screen"),
            (6, "Response Time Repartition two"),
        ] {
            let text = draw(Some(key));
            assert!(text.contains(shown), "key {key}: {text}");
        }
        assert!(!draw(Some(9)).contains("Repartition"));
        let last = draw(None);
        for shown in [
            "Scenario Screen",
            "Statistics Screen",
            "Repartition two",
            "Test Terminated",
        ] {
            assert!(last.contains(shown), "{last}");
        }
    }
}
