//! What the operator sees: a live picture, plain lines where there is no
//! terminal, and the table at the end. All are functions from figures to text.

mod called;
mod table;

use crate::health::Health;
use crate::latency::Quantiles;
use crate::series::Second;

pub use called::{LiveCalled, called_line, called_picture};
pub use table::table;

/// Columns of the picture.
pub const COLUMNS: usize = 80;
/// Lines of the picture, with one to spare for the cursor.
pub const LINES: usize = 23;

/// The state of a run, to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// What runs, such as `call to sip:192.0.2.1:5060 over tls`.
    pub title: String,
    /// Time since the start.
    pub elapsed_ns: u64,
    /// Time that the schedule takes; 0 when unknown.
    pub duration_ns: u64,
    /// The rate that the schedule asks for.
    pub target_per_s: f64,
    /// The last seconds, oldest first.
    pub recent: Vec<Second>,
    /// Attempts that ended well.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts under way.
    pub in_flight: u64,
    /// Delay from the intended time, of all that was answered; `None` before the first.
    pub delay: Option<Quantiles>,
    /// Name and count, most frequent first.
    pub causes: Vec<(String, u64)>,
    /// Messages sent again.
    pub retransmissions: u64,
    /// The generator's own health so far.
    pub health: Health,
}

/// Draws one picture over the last.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    lines: usize,
}

impl Screen {
    /// Nothing drawn yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that draws the picture in place of the last one: the cursor goes
    /// up to its first line, each line is cleared before it is written, and what
    /// is left of a longer picture is cleared too. What the terminal, of so many columns and
    /// rows, has no room for is left out: a line that wraps, or a picture that scrolls, would
    /// leave lines behind that nobody clears.
    pub fn draw(&mut self, picture: &str, size: Option<(u16, u16)>) -> String {
        let (columns, rows) = size.map_or((COLUMNS, LINES + 1), |(columns, rows)| {
            (usize::from(columns), usize::from(rows))
        });
        let lines = picture.lines().take(rows.saturating_sub(1));
        let lines: Vec<String> = lines.map(|line| clip(line, columns)).collect();
        let mut text = String::new();
        if self.lines > 0 {
            text.push_str(&format!("\x1b[{}F", self.lines));
        }
        for line in &lines {
            text.push_str("\x1b[2K");
            text.push_str(line);
            text.push('\n');
        }
        text.push_str("\x1b[J");
        self.lines = lines.len();
        text
    }
}

/// Causes of failure that the picture has room for.
const CAUSES: usize = 6;
/// Seconds that the graph shows.
const GRAPH: usize = 60;

/// The picture, at most [`COLUMNS`] by [`LINES`], without control sequences. What is not
/// known yet is a dash.
pub fn picture(live: &Live) -> String {
    let last = live.recent.last();
    let mut lines = vec![live.title.clone(), progress(live), String::new()];
    lines.push(format!(
        "rate        {:>10}/s   asked for {}/s   ended well {}/s",
        known(last, |s| figure(s.started as f64)),
        figure(live.target_per_s),
        known(last, |s| figure(s.succeeded as f64))
    ));
    lines.push(format!(
        "            {}",
        graph(&live.recent, |s| s.succeeded as f64)
    ));
    lines.push(format!(
        "in flight   {:>10}     succeeded {}   failed {}   sent again {}",
        live.in_flight, live.succeeded, live.failed, live.retransmissions
    ));
    lines.push(String::new());
    lines.push(format!(
        "{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "delay", "p50", "p90", "p99", "p99.9", "max"
    ));
    let all = live
        .delay
        .map(|q| [q.p50_us, q.p90_us, q.p99_us, q.p999_us, q.max_us]);
    let cells = all.map_or([None; 5], |delays| delays.map(Some));
    lines.push(format!(
        "  whole run {}",
        cells.map(|us| format!("{:>10}", known(us, delay))).concat()
    ));
    let last = last.filter(|second| second.has_delays());
    lines.push(format!(
        "  last s    {:>10}{:>10}{:>10}{:>10}{:>10}",
        known(last, |s| delay(s.p50_us)),
        "",
        known(last, |s| delay(s.p99_us)),
        "",
        known(last, |s| delay(s.max_us))
    ));
    lines.push(format!(
        "  p99       {}",
        graph(&live.recent, |s| s.p99_us as f64)
    ));
    lines.push(String::new());
    lines.push(if live.causes.is_empty() {
        "failures    none".to_owned()
    } else {
        "failures".to_owned()
    });
    let shown = if live.causes.len() > CAUSES {
        CAUSES - 1
    } else {
        CAUSES
    };
    for (name, count) in live.causes.iter().take(shown) {
        lines.push(format!("  {count:>10}  {name}"));
    }
    if let Some(rest) = live.causes.get(shown..).filter(|rest| !rest.is_empty()) {
        let count: u64 = rest.iter().map(|(_, count)| count).sum();
        lines.push(format!("  {count:>10}  {} other causes", rest.len()));
    }
    lines.push(String::new());
    lines.push(health_line(&live.health));
    let doubts = live.health.doubts();
    if !doubts.is_empty() {
        let names: Vec<&str> = doubts.iter().map(|doubt| doubt.name.as_str()).collect();
        lines.push(format!("IN DOUBT    {}", names.join(", ")));
    }
    lines
        .iter()
        .take(LINES)
        .map(|line| clip(line, COLUMNS) + "\n")
        .collect()
}

/// One line a second for logs, without control sequences. What is not known yet is a dash.
pub fn line(live: &Live) -> String {
    let last = live.recent.last();
    let measured = last.filter(|second| second.has_delays());
    let mut text = format!(
        "{:>5} s  {:>8}/s of {:>8}/s  ended well {:>8}/s  in flight {:>6}  failed {:>6}  p50 {:>8}  p99 {:>8}",
        live.elapsed_ns / 1_000_000_000,
        known(last, |s| figure(s.started as f64)),
        figure(live.target_per_s),
        known(last, |s| figure(s.succeeded as f64)),
        live.in_flight,
        live.failed,
        known(measured, |s| delay(s.p50_us)),
        known(measured, |s| delay(s.p99_us)),
    );
    if let Some((name, count)) = live.causes.first() {
        text.push_str(&format!("  ({name}: {count})"));
    }
    let doubts = live.health.doubts();
    if let Some(doubt) = doubts.first() {
        text.push_str(&format!("  in doubt: {}", doubt.name));
    }
    // Names come from outside; a log line stays one line.
    text.replace(|c: char| c.is_control(), " ")
}

fn progress(live: &Live) -> String {
    let elapsed_s = live.elapsed_ns / 1_000_000_000;
    if live.duration_ns == 0 {
        return format!("{elapsed_s} s");
    }
    let share = (live.elapsed_ns as f64 / live.duration_ns as f64).min(1.0);
    let full = (share * 40.0).round() as usize;
    let duration_s = live.duration_ns / 1_000_000_000;
    format!(
        "[{}{}] {elapsed_s} of {duration_s} s",
        "=".repeat(full),
        " ".repeat(40 - full)
    )
}

fn health_line(health: &Health) -> String {
    let cpu = health.busiest_thread();
    let late = lateness(health);
    format!(
        "generator   behind p99 {}, max {}; busiest thread {}; drops {}",
        known(late, |(p99_us, _)| delay(p99_us)),
        known(late, |(_, max_us)| delay(max_us)),
        known(cpu, |(_, share)| format!("{:.0}%", share * 100.0)),
        health.kernel_drops + health.send_queue_drops
    )
}

/// How late messages left, the 99th percentile and the longest; nobody knows before the
/// first has left.
fn lateness(health: &Health) -> Option<(u64, u64)> {
    (health.sent > 0).then_some((health.behind_schedule.p99_us, health.behind_max_ns / 1_000))
}

/// A figure, or a dash where there is none: a 0 would be one.
fn known<T>(figure: Option<T>, show: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), show)
}

/// A bar for each of the last seconds, as high as its share of the largest.
fn graph(seconds: &[Second], of: impl Fn(&Second) -> f64) -> String {
    const BARS: [char; 9] = [
        ' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
        '\u{2588}',
    ];
    let from = seconds.len().saturating_sub(GRAPH);
    let values: Vec<f64> = seconds.iter().skip(from).map(of).collect();
    let max = values.iter().copied().fold(0.0, f64::max);
    values
        .iter()
        .map(|value| {
            let bar = if max > 0.0 {
                (value / max * 8.0).ceil()
            } else {
                0.0
            };
            BARS.get(bar as usize).copied().unwrap_or(' ')
        })
        .collect()
}

/// Microseconds in the unit that suits: at most 8 columns.
pub fn delay(us: u64) -> String {
    match us {
        0..=9_999 => format!("{us} us"),
        10_000..=999_999 => format!("{:.1} ms", us as f64 / 1e3),
        1_000_000..=99_999_999 => format!("{:.2} s", us as f64 / 1e6),
        _ => format!("{:.0} s", us as f64 / 1e6),
    }
}

/// A number in at most 9 columns.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "-".to_owned()
    } else if size == 0.0 || (1_000.0..100_000_000.0).contains(&size) {
        format!("{value:.0}")
    } else if size >= 100_000_000.0 {
        format!("{value:.2e}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Breaks a sentence at spaces into lines of at most `columns`; all but the
/// first begin with `indent`.
pub(crate) fn wrap(sentence: &str, columns: usize, indent: &str) -> String {
    let mut text = String::new();
    let mut line = String::new();
    let clean = sentence.replace(|c: char| c.is_control(), " ");
    for word in clean.split_whitespace() {
        let blank = line.trim().is_empty();
        if !blank && line.chars().count() + 1 + word.chars().count() > columns {
            text.push_str(&line);
            text.push('\n');
            line = indent.to_owned();
        }
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().count() > columns {
            line = clip(&line, columns);
        }
    }
    text.push_str(&line);
    text.push('\n');
    text
}

/// At most `columns` characters, none of them a control character.
pub(crate) fn clip(line: &str, columns: usize) -> String {
    line.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(columns)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests;
