//! A record as a row: the columns of files and tables, and how their values are written.

use std::fmt::Write as _;

use sip_engine::CallRecord;
use sip_engine::records::Try;
use sip_msg::Transport;
use sip_userdb::ColumnKind;

/// The version of the rows: another where a column means something else.
const VERSION: u64 = 1;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// Nothing: it does not apply, or is not known.
    Absent,
    Number(u64),
    Text(String),
    /// Milliseconds since 1970.
    Time(u64),
    List(Vec<String>),
}

/// A column.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: ColumnKind,
    value: fn(&CallRecord, &str) -> Value,
}

macro_rules! columns {
    ($($name:ident: $kind:ident = $value:expr;)+) => {
        /// All, in their order. The first tells rows apart.
        pub(super) const COLUMNS: &[Column] = &[$(Column {
            name: stringify!($name),
            kind: ColumnKind::$kind,
            value: $value,
        }),+];
    };
}

columns! {
    id: Text = |record, _| Value::Text(format!("{:032x}", record.id));
    version: Number = |_, _| Value::Number(VERSION);
    node: Text = |_, node| text(node);
    call_id: Text = |record, _| text(&record.call_id);
    started: Time = |record, _| Value::Time(record.started.unix_ms);
    rang: Time = |record, _| time(record.rang);
    answered: Time = |record, _| time(record.answered);
    ended: Time = |record, _| time(record.ended);
    seen: Time = |record, _| Value::Time(record.seen.unix_ms);
    ring_after_ms: Number = |record, _| number(record.ring_after_ms());
    answer_after_ms: Number = |record, _| number(record.answer_after_ms());
    talk_ms: Number = |record, _| number(record.talk_ms());
    caller_user: Text = |record, _| text(&record.caller_user);
    caller_class: Text = |record, _| text(record.caller_class);
    caller_from: Text = |record, _| text(&record.caller_from);
    caller_address: Text = |record, _| Value::Text(record.caller_end.1.to_string());
    caller_transport: Text = |record, _| transport(record.caller_end.0);
    request_uri: Text = |record, _| text(&record.request_uri);
    called_to: Text = |record, _| text(&record.called_to);
    callee_target: Text = |record, _| text(&record.callee_target);
    callee_trunk: Text = |record, _| text(&record.callee_trunk);
    callee_address: Text = |record, _| {
        record.callee_end.map_or(Value::Absent, |(_, addr)| Value::Text(addr.to_string()))
    };
    callee_transport: Text = |record, _| {
        record.callee_end.map_or(Value::Absent, |(by, _)| transport(by))
    };
    status: Number = |record, _| number(record.status.map(u64::from));
    ended_by: Text = |record, _| text(record.ended_by.name());
    why: Text = |record, _| record.why.map_or(Value::Absent, |why| text(why.name()));
    reason: Text = |record, _| text(&record.reason);
    bye_status: Number = |record, _| number(record.bye_status.map(u64::from));
    session_expires_s: Number = |record, _| number(record.session_expires_s.map(u64::from));
    tries: Text = |record, _| Value::List(record.tries.iter().map(tried).collect());
    tries_total: Number = |record, _| Value::Number(u64::from(record.tries_total));
    payer_user: Text = |record, _| text(&record.payer_user);
}

fn text(text: &str) -> Value {
    match text.is_empty() {
        true => Value::Absent,
        false => Value::Text(text.to_owned()),
    }
}

fn number(number: Option<u64>) -> Value {
    number.map_or(Value::Absent, Value::Number)
}

fn time(at: Option<sip_engine::Now>) -> Value {
    at.map_or(Value::Absent, |at| Value::Time(at.unix_ms))
}

fn transport(by: Transport) -> Value {
    text(by.uri_name())
}

/// A copy and its end: `udp:192.0.2.9:5060 503`.
fn tried(tried: &Try) -> String {
    let (by, addr) = tried.to;
    match tried.end {
        Ok(status) => format!("{}:{addr} {status}", by.uri_name()),
        Err(reason) => format!("{}:{addr} {}", by.uri_name(), reason.name()),
    }
}

/// The values of a record, in the order of [`COLUMNS`].
pub(super) struct Row(Vec<Value>);

impl Row {
    pub(super) fn new(record: &CallRecord, node: &str) -> Self {
        let values = COLUMNS.iter().map(|column| (column.value)(record, node));
        Self(values.collect())
    }

    /// A JSON object with every column, and a line end.
    pub(super) fn json(&self) -> String {
        let mut line = String::with_capacity(1_024);
        for (column, value) in COLUMNS.iter().zip(&self.0) {
            line.push(if line.is_empty() { '{' } else { ',' });
            let _ = write!(line, "\"{}\":", column.name);
            match value {
                Value::Absent => line.push_str("null"),
                Value::Number(number) => _ = write!(line, "{number}"),
                Value::Text(text) => push_json(text, &mut line),
                Value::Time(at_ms) => push_json(&rfc3339(*at_ms), &mut line),
                Value::List(texts) => {
                    line.push('[');
                    for (nth, text) in texts.iter().enumerate() {
                        line.push_str(if nth == 0 { "" } else { "," });
                        push_json(text, &mut line);
                    }
                    line.push(']');
                }
            }
        }
        line.push_str("}\n");
        line
    }

    /// A line as RFC 4180 has it.
    pub(super) fn csv(&self) -> String {
        let mut line = String::with_capacity(512);
        for (nth, value) in self.0.iter().enumerate() {
            line.push_str(if nth == 0 { "" } else { "," });
            match value {
                Value::Absent => {}
                Value::Number(number) => _ = write!(line, "{number}"),
                Value::Text(text) => push_csv(text, &mut line),
                Value::Time(at_ms) => line.push_str(&rfc3339(*at_ms)),
                Value::List(texts) => push_csv(&texts.join("; "), &mut line),
            }
        }
        line.push_str("\r\n");
        line
    }
}

/// The first line of a file of CSV.
pub(super) fn csv_names() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    names.join(",") + "\r\n"
}

/// The values of a line of [`Row::json`] as a table takes them; `None` of a line that is none.
pub(super) fn values_of(line: &str) -> Option<Vec<String>> {
    let object: serde_json::Value = serde_json::from_str(line).ok()?;
    let object = object.as_object()?;
    // Whatever else is missing: without a name of its own it would be there twice.
    object.get("id")?.as_str()?;
    let value = |column: &Column| match object.get(column.name) {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(serde_json::Value::Array(texts)) => {
            let texts: Vec<&str> = texts.iter().filter_map(serde_json::Value::as_str).collect();
            texts.join("; ")
        }
        Some(other) => other.to_string(),
    };
    Some(COLUMNS.iter().map(value).collect())
}

fn push_json(text: &str, line: &mut String) {
    let quoted = serde_json::Value::from(text);
    let _ = write!(line, "{quoted}");
}

/// RFC 4180 2: a field with a comma, a quote or a line end stands between quotes, and a quote
/// in it is doubled. A spreadsheet takes what begins with one of `=+-@` for a formula of its
/// own, and whoever calls chooses his name: an apostrophe before it makes it text.
fn push_csv(text: &str, line: &mut String) {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let is_quoted = is_formula || text.contains([',', '"', '\r', '\n', ';', '\'']);
    if !is_quoted {
        line.push_str(text);
        return;
    }
    line.push('"');
    if is_formula {
        line.push('\'');
    }
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

/// A time in UTC, as RFC 3339 has it.
pub(super) fn rfc3339(at_unix_ms: u64) -> String {
    let seconds = i64::try_from(at_unix_ms / 1_000).unwrap_or(i64::MAX);
    let at = time::OffsetDateTime::from_unix_timestamp(seconds);
    let at = at.unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at_unix_ms % 1_000
    )
}
