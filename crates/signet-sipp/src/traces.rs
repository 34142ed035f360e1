//! The files that `-trace_*` ask for, besides statistics and screens.

use std::path::PathBuf;

use sip_scenario::{Calls, Moment, Program, StepCounts, StepKind, StepLabel};

use crate::args::Args;
use crate::error::Refusal;
use crate::output::Out;

/// Bytes of the error log; past it nothing more is written there but a line that says so.
const ERROR_LOG_MAX: u64 = 1 << 30;
/// Status codes that are kept for the next line; a line is written early where there are
/// as many.
const CODES_MAX: usize = 100_000;
/// Response times that are kept until they are written, whatever `-rtt_freq` says.
const RTTS_MAX: u64 = 10_000;

pub(crate) struct Traces {
    start_unix_us: u64,
    messages: Option<Out>,
    short_messages: Option<Out>,
    errors: Option<Out>,
    /// Where the errors go once there is one.
    error_path: Option<PathBuf>,
    error_bytes: u64,
    /// Why that file could not be begun.
    failure: Option<String>,
    logs: Option<Out>,
    error_codes: Option<Out>,
    /// Unexpected status codes since the last line, in the order in which they came.
    codes: Vec<u16>,
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
    /// Whether messages may be lost on purpose.
    loses: bool,
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
            errors: None,
            error_path: wanted
                .errors
                .then(|| file_name(args, wanted.error_file.as_ref(), "errors.log")),
            error_bytes: 0,
            failure: None,
            logs: open(wanted.logs, wanted.log_file.as_ref(), "logs.log")?,
            error_codes: open(wanted.error_codes, None, "error_codes.csv")?,
            codes: Vec::new(),
            counts: open(wanted.counts, None, "counts.csv")?,
            rtt: open(wanted.rtt, None, "rtt.csv")?,
            rtds: program.rtd_names().to_vec(),
            rtts: Vec::new(),
            rtt_frequency: args.rtt_frequency.min(RTTS_MAX),
            ended: 0,
            transport: args.transport.via_name(),
            period_ns: args.stat_period_ms.saturating_mul(1_000_000),
            next_ns: 0,
            delimiter: args.stat_delimiter.clone(),
            loses: args.lost > 0.0 || program.loses(),
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

    /// A line in the error log, which begins with the first.
    pub(crate) fn error(&mut self, now_ns: u64, text: &str) {
        if let Some(path) = self.error_path.take() {
            match Out::create(&path) {
                Ok(out) => self.errors = Some(out),
                Err(refusal) => self.failure = Some(refusal.what),
            }
        }
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

    /// Why the error log could not be begun. As SIPp, such a run ends.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    pub(crate) fn error_code(&mut self, now_ns: u64, code: u16) {
        if self.error_codes.is_some() {
            self.codes.push(code);
            if self.codes.len() >= CODES_MAX {
                self.write_codes(now_ns);
            }
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

    /// Lets others see what was written so far.
    pub(crate) fn flush(&mut self) {
        self.outs().for_each(Out::flush);
    }

    /// The last lines; gives what could not be written.
    pub(crate) fn finish(&mut self, calls: &Calls, now_ns: u64) -> Option<String> {
        self.write_lines(calls, now_ns);
        self.write_rtts();
        // Each is written to its end, whatever became of the others.
        let failures: Vec<String> = self.outs().filter_map(Out::finish).collect();
        self.failure.take().or(failures.into_iter().next())
    }

    /// The files that are open.
    fn outs(&mut self) -> impl Iterator<Item = &mut Out> {
        [
            &mut self.messages,
            &mut self.short_messages,
            &mut self.errors,
            &mut self.logs,
            &mut self.error_codes,
            &mut self.counts,
            &mut self.rtt,
        ]
        .into_iter()
        .flatten()
    }

    fn write_rtts(&mut self) {
        for line in std::mem::take(&mut self.rtts) {
            put(&mut self.rtt, &line);
        }
    }

    fn write_lines(&mut self, calls: &Calls, now_ns: u64) {
        if self.counts.is_some() {
            let mut line = self.line_head(now_ns);
            for index in 0..calls.program().step_count() {
                let label = calls.program().step_label(index);
                let counts = calls.stats().steps.get(index);
                let counts = counts.copied().unwrap_or_default();
                for (_, count) in self.columns(&label, &counts) {
                    line.push_str(&format!("{count}{}", self.delimiter));
                }
            }
            line.push('\n');
            put(&mut self.counts, &line);
        }
        if self.error_codes.is_some() {
            self.write_codes(now_ns);
        }
    }

    /// The codes that came since the last line, the last of them first, as SIPp has them.
    fn write_codes(&mut self, now_ns: u64) {
        let mut line = self.line_head(now_ns);
        for code in self.codes.drain(..).rev() {
            line.push_str(&format!("{code},"));
        }
        line.push('\n');
        put(&mut self.error_codes, &line);
    }

    /// The time, and that since the beginning.
    fn line_head(&self, now_ns: u64) -> String {
        let (d, stamp) = (&self.delimiter, self.moment(now_ns).stamp());
        format!("{stamp}{d}{}{d}", elapsed_us(now_ns))
    }

    fn counts_header(&self, program: &Program) -> String {
        let d = &self.delimiter;
        let mut header = format!("CurrentTime{d}ElapsedTime{d}");
        for index in 0..program.step_count() {
            let label = program.step_label(index);
            // SIPp calls everything a pause that neither sends nor expects a message.
            let name = match label.kind {
                StepKind::Send | StepKind::Recv => label.name.as_str(),
                _ => "Pause",
            };
            for (column, _) in self.columns(&label, &StepCounts::default()) {
                header.push_str(&format!("{index}_{name}_{column}{d}"));
            }
        }
        header.push('\n');
        header
    }

    /// What is counted of a step: the columns and their values.
    fn columns(&self, label: &StepLabel<'_>, counts: &StepCounts) -> Vec<(&'static str, u64)> {
        if label.is_hidden {
            return Vec::new();
        }
        let mut columns = match label.kind {
            StepKind::Send if label.retransmits => vec![
                ("Sent", counts.done),
                ("Retrans", counts.retransmitted),
                ("Timeout", counts.timeouts),
            ],
            StepKind::Send => vec![("Sent", counts.done), ("Retrans", counts.retransmitted)],
            StepKind::Recv => vec![
                ("Recv", counts.done),
                ("Retrans", counts.retransmitted),
                ("Timeout", counts.timeouts),
                ("Unexp", counts.unexpected),
            ],
            // SIPp counts the pauses that began, and nothing of the rest.
            StepKind::Pause => vec![("Sessions", counts.done), ("Unexp", counts.unexpected)],
            StepKind::Nop | StepKind::SendCommand | StepKind::ReceiveCommand => {
                vec![("Sessions", 0), ("Unexp", counts.unexpected)]
            }
        };
        if self.loses && matches!(label.kind, StepKind::Send | StepKind::Recv) {
            columns.push(("Lost", counts.lost));
        }
        columns
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
