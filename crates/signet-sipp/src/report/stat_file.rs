//! The statistics file (`-trace_stat`): SIPp's columns.

use sip_scenario::{Calls, Classes, Counter, Program};

use crate::traces::{elapsed, elapsed_us};

use super::{Period, call_rate, ns_of, since};

/// Columns with a value for the period and one for the whole run, in order.
const FIRST: [(&str, Counter); 2] = [
    ("IncomingCall", Counter::IncomingCalls),
    ("OutgoingCall", Counter::OutgoingCalls),
];
const REST: [(&str, Counter); 27] = [
    ("SuccessfulCall", Counter::Successful),
    ("FailedCall", Counter::Failed),
    ("FailedCannotSendMessage", Counter::CannotSend),
    ("FailedMaxUDPRetrans", Counter::MaxUdpRetransmissions),
    ("FailedTcpConnect", Counter::TcpConnect),
    ("FailedTcpClosed", Counter::TcpClosed),
    ("FailedUnexpectedMessage", Counter::UnexpectedMessage),
    ("FailedCallRejected", Counter::Rejected),
    ("FailedCmdNotSent", Counter::CommandNotSent),
    ("FailedRegexpDoesntMatch", Counter::RegexpDoesntMatch),
    ("FailedRegexpShouldntMatch", Counter::RegexpShouldntMatch),
    ("FailedRegexpHdrNotFound", Counter::RegexpHeaderNotFound),
    ("FailedOutboundCongestion", Counter::OutboundCongestion),
    ("FailedTimeoutOnRecv", Counter::TimeoutOnRecv),
    ("FailedTimeoutOnSend", Counter::TimeoutOnSend),
    ("FailedTestDoesntMatch", Counter::TestDoesntMatch),
    ("FailedTestShouldntMatch", Counter::TestShouldntMatch),
    ("FailedStrcmpDoesntMatch", Counter::StrcmpDoesntMatch),
    ("FailedStrcmpShouldntMatch", Counter::StrcmpShouldntMatch),
    ("OutOfCallMsgs", Counter::OutOfCallMessages),
    ("DeadCallMsgs", Counter::DeadCallMessages),
    ("Retransmissions", Counter::Retransmissions),
    ("AutoAnswered", Counter::AutoAnswered),
    ("Warnings", Counter::Warnings),
    ("FatalErrors", Counter::FatalErrors),
    ("WatchdogMajor", Counter::WatchdogMajor),
    ("WatchdogMinor", Counter::WatchdogMinor),
];

/// The first line.
pub(super) fn header(program: &Program, d: &str) -> String {
    let mut columns: Vec<String> = [
        "StartTime",
        "LastResetTime",
        "CurrentTime",
        "ElapsedTime(P)",
        "ElapsedTime(C)",
        "TargetRate",
        "CallRate(P)",
        "CallRate(C)",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut both = |name: &str| {
        columns.push(format!("{name}(P)"));
        columns.push(format!("{name}(C)"));
    };
    for (name, _) in FIRST {
        both(name);
    }
    columns.extend(["TotalCallCreated".to_owned(), "CurrentCall".to_owned()]);
    let mut both = |name: &str| {
        columns.push(format!("{name}(P)"));
        columns.push(format!("{name}(C)"));
    };
    for (name, _) in REST {
        both(name);
    }
    for rtd in program.rtd_names() {
        both(&format!("ResponseTime{rtd}"));
        both(&format!("ResponseTime{rtd}StDev"));
    }
    both("CallLength");
    both("CallLengthStDev");
    for counter in program.counter_names() {
        both(counter);
    }
    for rtd in program.rtd_names() {
        let name = format!("ResponseTimeRepartition{rtd}");
        class_columns(&name, program.response_time_classes_ms(), &mut columns);
    }
    class_columns(
        "CallLengthRepartition",
        program.call_length_classes_ms(),
        &mut columns,
    );
    let mut line = columns.join(d);
    line.push_str(d);
    line.push('\n');
    line
}

fn class_columns(name: &str, ends_ms: &[u32], columns: &mut Vec<String>) {
    let Some(last) = ends_ms.last() else {
        return;
    };
    columns.push(name.to_owned());
    for end in ends_ms {
        columns.push(format!("{name}_<{end}"));
    }
    columns.push(format!("{name}_>={last}"));
}

/// A line: what came since the last one (P), and since the beginning (C).
pub(super) fn line(
    calls: &Calls,
    target_rate: f64,
    from: &Period,
    stamps: &[String; 3],
    now_ns: u64,
    d: &str,
) -> String {
    let stats = calls.stats();
    let period_ns = now_ns.saturating_sub(from.since_ns);
    let mut values: Vec<String> = stamps.to_vec();
    values.push(elapsed(period_ns));
    values.push(elapsed(now_ns));
    values.push(target_rate.to_string());
    values.push(rounded(call_rate(stats, Some(&from.before), period_ns)));
    values.push(rounded(call_rate(stats, None, now_ns)));
    let both = |values: &mut Vec<String>, counter: Counter| {
        let now = stats.get(counter);
        values.push((now - from.before.get(counter).min(now)).to_string());
        values.push(now.to_string());
    };
    for (_, counter) in FIRST {
        both(&mut values, counter);
    }
    values.push(calls.created().to_string());
    values.push(calls.len().to_string());
    for (_, counter) in REST {
        both(&mut values, counter);
    }
    for index in 0..stats.response_times.len() {
        let (period, whole) = since(&stats.response_times, &from.before.response_times, index);
        for ms in [
            period.mean_ms(),
            whole.mean_ms(),
            period.deviation_ms(),
            whole.deviation_ms(),
        ] {
            values.push(elapsed_us(ns_of(ms)));
        }
    }
    let period = stats.call_lengths.since(&from.before.call_lengths);
    for ms in [
        period.mean_ms(),
        stats.call_lengths.mean_ms(),
        period.deviation_ms(),
        stats.call_lengths.deviation_ms(),
    ] {
        values.push(elapsed_us(ns_of(ms)));
    }
    for (index, now) in stats.own.iter().enumerate() {
        let before = from.before.own.get(index).copied().unwrap_or(0);
        values.push((now - before.min(*now)).to_string());
        values.push(now.to_string());
    }
    for classes in &stats.response_classes {
        class_values(classes, &mut values);
    }
    class_values(&stats.call_classes, &mut values);
    let mut line = values.join(d);
    line.push_str(d);
    line.push('\n');
    line
}

fn class_values(classes: &Classes, values: &mut Vec<String>) {
    if !classes.below_ms.is_empty() {
        values.push(String::new());
        values.extend(classes.counts.iter().map(u64::to_string));
    }
}

fn rounded(rate: f64) -> String {
    // Six digits that count, as C's %g prints them.
    let digits = if rate >= 1.0 {
        5usize.saturating_sub(rate.log10() as usize)
    } else {
        6
    };
    let text = format!("{rate:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
