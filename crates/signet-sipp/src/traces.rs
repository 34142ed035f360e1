//! The files that `-trace_*` ask for, besides statistics and screens.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sip_scenario::{Calls, Moment, Program, StepKind};

use crate::args::Args;
use crate::error::Refusal;
use crate::output::Out;

/// Bytes of the error log; past it nothing more is written there but a line that says so.
const ERROR_LOG_MAX: u64 = 1 << 30;

pub(crate) struct Traces {
    start_unix_us: u64,
    messages: Option<Out>,
    short_messages: Option<Out>,
    errors: Option<Out>,
    error_bytes: u64,
    logs: Option<Out>,
    error_codes: Option<Out>,
    /// Unexpected status codes since the last line.
    codes: BTreeMap<u16, u64>,
    counts: Option<Out>,
    rtt: Option<Out>,
    rtds: Vec<String>,
    rtts: Vec<String>,
    rtt_frequency: u64,
    ended: u64,
    transport: &'static str,
    period_ns: u64,
    next_ns: u64,
    delimiter: String,
}

/// `NAME_PID_kind`, where no other name is given.
pub(crate) fn file_name(args: &Args, given: Option<&PathBuf>, kind: &str) -> PathBuf {
    match given {
        Some(path) => path.clone(),
        None => PathBuf::from(format!(
            "{}_{}_{kind}",
            args.scenario_name(),
            std::process::id()
        )),
    }
}

impl Traces {
    pub(crate) fn open(
        args: &Args,
        program: &Program,
        start_unix_us: u64,
    ) -> Result<Self, Refusal> {
        let wanted = &args.traces;
        let open = |on: bool, given: Option<&PathBuf>, kind: &str| {
            on.then(|| Out::create(&file_name(args, given, kind)))
                .transpose()
        };
        let mut traces = Self {
            start_unix_us,
            messages: open(
                wanted.messages,
                wanted.message_file.as_ref(),
                "messages.log",
            )?,
            short_messages: open(
                wanted.short_messages,
                wanted.short_message_file.as_ref(),
                "shortmessages.log",
            )?,
            errors: open(wanted.errors, wanted.error_file.as_ref(), "errors.log")?,
            error_bytes: 0,
            logs: open(wanted.logs, wanted.log_file.as_ref(), "logs.log")?,
            error_codes: open(wanted.error_codes, None, "error_codes.csv")?,
            codes: BTreeMap::new(),
            counts: open(wanted.counts, None, "counts.csv")?,
            rtt: open(wanted.rtt, None, "rtt.csv")?,
            rtds: program.rtd_names().to_vec(),
            rtts: Vec::new(),
            rtt_frequency: args.rtt_frequency,
            ended: 0,
            transport: args.transport.via_name(),
            period_ns: args.stat_period_ms.saturating_mul(1_000_000),
            next_ns: 0,
            delimiter: args.stat_delimiter.clone(),
        };
        let header = traces.counts_header(program);
        put(&mut traces.counts, &header);
        let d = traces.delimiter.clone();
        put(
            &mut traces.rtt,
            &format!("Date_ms{d}response_time_ms{d}rtd_no\n"),
        );
        Ok(traces)
    }

    pub(crate) fn wants_messages(&self) -> bool {
        self.messages.is_some() || self.short_messages.is_some()
    }

    pub(crate) fn sent(&mut self, now_ns: u64, message: &[u8]) {
        self.message(now_ns, message, true);
    }

    pub(crate) fn received(&mut self, now_ns: u64, message: &[u8]) {
        if self.wants_messages() {
            self.message(now_ns, message, false);
        }
    }

    /// A command to or of another instance.
    pub(crate) fn command(&mut self, now_ns: u64, text: &[u8], is_sent: bool) {
        let moment = self.moment(now_ns);
        if let Some(out) = &mut self.messages {
            let head = if is_sent {
                format!("control message sent ({} bytes):", text.len())
            } else {
                format!("control message received [{}] bytes :", text.len())
            };
            let rule = "-".repeat(47);
            let (date, time) = (moment.date(), moment.time());
            out.put(format!("{rule} {date} {time}\nTCP {head}\n\n").as_bytes());
            out.put(text);
            out.put(b"\n");
        }
    }

    pub(crate) fn log(&mut self, text: &[u8]) {
        if let Some(out) = &mut self.logs {
            out.put(text);
            out.put(b"\n");
        }
    }

    pub(crate) fn error(&mut self, now_ns: u64, text: &str) {
        if self.errors.is_none() || self.error_bytes > ERROR_LOG_MAX {
            return;
        }
        if self.error_bytes == 0 {
            put(&mut self.errors, "The following events occurred:\n");
        }
        let line = format!("{}: {text}\n", self.moment(now_ns).stamp());
        self.error_bytes += line.len() as u64;
        if self.error_bytes > ERROR_LOG_MAX {
            let line = format!("{ERROR_LOG_MAX} bytes are written: the rest is left out\n");
            put(&mut self.errors, &line);
        } else {
            put(&mut self.errors, &line);
        }
    }

    pub(crate) fn error_code(&mut self, code: u16) {
        if self.error_codes.is_some() {
            *self.codes.entry(code).or_default() += 1;
        }
    }

    pub(crate) fn rtt(&mut self, now_ns: u64, rtd: u8, ns: u64) {
        let d = &self.delimiter;
        let name = self.rtds.get(usize::from(rtd)).map_or("", String::as_str);
        self.rtts.push(format!(
            "{:.3}{d}{:.3}{d}{name}\n",
            now_ns as f64 / 1e6,
            ns as f64 / 1e6
        ));
        if self.rtts.len() as u64 >= self.rtt_frequency {
            self.write_rtts();
        }
    }

    pub(crate) fn call_ended(&mut self) {
        self.ended += 1;
    }

    /// Writes the lines of a period when it is over.
    pub(crate) fn tick(&mut self, calls: &Calls, now_ns: u64) {
        if now_ns >= self.next_ns {
            self.next_ns = now_ns.saturating_add(self.period_ns);
            self.write_lines(calls, now_ns);
        }
    }

    /// The last lines; gives what could not be written.
    pub(crate) fn finish(&mut self, calls: &Calls, now_ns: u64) -> Option<String> {
        self.write_lines(calls, now_ns);
        self.write_rtts();
        let outs = [
            &mut self.messages,
            &mut self.short_messages,
            &mut self.errors,
            &mut self.logs,
            &mut self.error_codes,
            &mut self.counts,
            &mut self.rtt,
        ]
        .into_iter()
        .flatten();
        // Each is written to its end, whatever became of the others.
        let failures: Vec<String> = outs.filter_map(Out::finish).collect();
        failures.into_iter().next()
    }

    fn write_rtts(&mut self) {
        for line in std::mem::take(&mut self.rtts) {
            put(&mut self.rtt, &line);
        }
    }

    fn write_lines(&mut self, calls: &Calls, now_ns: u64) {
        let d = self.delimiter.clone();
        let head = format!(
            "{}{d}{}{d}",
            self.moment(now_ns).stamp(),
            elapsed_us(now_ns)
        );
        if self.counts.is_some() {
            let mut line = head.clone();
            for (index, counts) in calls.stats().steps.iter().enumerate() {
                let label = calls.program().step_label(index);
                let values: &[u64] = match label.kind {
                    StepKind::Send if label.retransmits => {
                        &[counts.done, counts.retransmitted, counts.timeouts]
                    }
                    StepKind::Send => &[counts.done, counts.retransmitted],
                    StepKind::Recv => &[
                        counts.done,
                        counts.retransmitted,
                        counts.timeouts,
                        counts.unexpected,
                    ],
                    StepKind::SendCommand | StepKind::ReceiveCommand => &[counts.done],
                    StepKind::Pause => &[counts.done, counts.unexpected],
                    StepKind::Nop => &[],
                };
                for value in values {
                    line.push_str(&format!("{value}{d}"));
                }
            }
            line.push('\n');
            put(&mut self.counts, &line);
        }
        if self.error_codes.is_some() {
            let mut line = head;
            for (code, count) in std::mem::take(&mut self.codes) {
                line.push_str(&format!("{code}{d}{count}{d}"));
            }
            line.push('\n');
            put(&mut self.error_codes, &line);
        }
    }

    fn counts_header(&self, program: &Program) -> String {
        let d = &self.delimiter;
        let mut header = format!("CurrentTime{d}ElapsedTime{d}");
        for index in 0..program.step_count() {
            let label = program.step_label(index);
            let columns: &[&str] = match label.kind {
                StepKind::Send if label.retransmits => &["Sent", "Retrans", "Timeout"],
                StepKind::Send => &["Sent", "Retrans"],
                StepKind::Recv => &["Recv", "Retrans", "Timeout", "Unexp"],
                StepKind::Pause => &["Sessions", "Unexp"],
                StepKind::SendCommand | StepKind::ReceiveCommand | StepKind::Nop => &[],
            };
            for column in columns {
                header.push_str(&format!("{index}_{}_{column}{d}", label.name));
            }
            match label.kind {
                StepKind::SendCommand => header.push_str(&format!("{index}_SendCmd{d}")),
                StepKind::ReceiveCommand => header.push_str(&format!("{index}_RecvCmd{d}")),
                _ => {}
            }
        }
        header.push('\n');
        header
    }

    fn message(&mut self, now_ns: u64, message: &[u8], is_sent: bool) {
        let moment = self.moment(now_ns);
        if let Some(out) = &mut self.messages {
            let head = if is_sent {
                format!("message sent ({} bytes):", message.len())
            } else {
                format!("message received [{}] bytes :", message.len())
            };
            let rule = "-".repeat(47);
            let (date, time) = (moment.date(), moment.time());
            let transport = self.transport;
            out.put(format!("{rule} {date} {time}\n{transport} {head}\n\n").as_bytes());
            out.put(message);
            out.put(b"\n");
        }
        if let Some(out) = &mut self.short_messages {
            let text = String::from_utf8_lossy(message);
            let find = |names: [&str; 2]| {
                text.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    let name = name.trim_end();
                    let is_it = names.iter().any(|n| n.eq_ignore_ascii_case(name));
                    is_it.then(|| value.trim())
                })
            };
            let line = format!(
                "{}\t{}\t{}\tCSeq:{}\t{}\n",
                moment.stamp(),
                if is_sent { 'S' } else { 'R' },
                find(["Call-ID", "i"]).unwrap_or_default(),
                find(["CSeq", "CSeq"]).unwrap_or_default(),
                text.lines().next().unwrap_or_default()
            );
            out.put(line.as_bytes());
        }
    }

    fn moment(&self, now_ns: u64) -> Moment {
        Moment::from_unix_us(self.start_unix_us.saturating_add(now_ns / 1_000))
    }
}

fn put(out: &mut Option<Out>, text: &str) {
    if let Some(out) = out {
        out.put(text.as_bytes());
    }
}

/// `00:00:01:004000`, as SIPp prints times.
pub(crate) fn elapsed_us(ns: u64) -> String {
    format!("{}:{:06}", elapsed(ns), ns / 1_000 % 1_000_000)
}

/// `00:00:01`.
pub(crate) fn elapsed(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}
