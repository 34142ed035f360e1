//! What is drawn of a run: rates and delays over time, what each process took of the machine,
//! the percentiles, the causes of failure.

use measure::{Latency, ProcessSecond, RunResult, Second, WatchedProcess};
use signet_page::chart::{
    Axis, Chart, Content, Datum, Figure, Group, Line, Lines, Point, Row, Rows,
};
use signet_page::number;

/// Most points of a line; of a longer run each stands for several seconds.
const POINTS_MAX: usize = 300;
/// Most causes that are drawn; the table has all.
const CAUSES_MAX: usize = 12;
/// Percentiles of the curve.
const PERCENTS: [f64; 9] = [50.0, 75.0, 90.0, 99.0, 99.5, 99.9, 99.99, 99.999, 99.9999];

/// Seconds that are one point.
struct Span {
    at_s: f64,
    /// The first and the last of them.
    ends_s: (u64, u64),
    seconds: f64,
    sum: Second,
    /// Sums of what is no count.
    p50_us: f64,
    with_delay: f64,
}

/// The whole seconds of a run, a few together where there are many.
fn spans(result: &RunResult) -> Vec<Span> {
    let is_whole = |second: &&Second| (second.at_s + 1) * 1_000_000_000 <= result.duration_ns;
    let whole: Vec<&Second> = result.series.iter().filter(is_whole).collect();
    whole
        .chunks(whole.len().div_ceil(POINTS_MAX).max(1))
        .filter_map(|seconds| {
            let (first, last) = (seconds.first()?, seconds.last()?);
            Some(span((first.at_s, last.at_s), seconds))
        })
        .collect()
}

fn span(ends_s: (u64, u64), seconds: &[&Second]) -> Span {
    let mut span = Span {
        at_s: ends_s.0 as f64,
        ends_s,
        seconds: seconds.len() as f64,
        sum: Second::default(),
        p50_us: 0.0,
        with_delay: 0.0,
    };
    let add = |to: &mut Option<u64>, more: Option<u64>| {
        if let Some(more) = more {
            *to = Some(to.unwrap_or(0) + more);
        }
    };
    for second in seconds {
        let sum = &mut span.sum;
        sum.due += second.due;
        sum.succeeded += second.succeeded;
        sum.failed += second.failed;
        sum.in_flight = sum.in_flight.max(second.in_flight);
        sum.p99_us = sum.p99_us.max(second.p99_us);
        sum.max_us = sum.max_us.max(second.max_us);
        add(&mut sum.watched_cpu_ns, second.watched_cpu_ns);
        add(&mut sum.own_cpu_ns, second.own_cpu_ns);
        if second.has_delays() {
            span.p50_us += second.p50_us as f64;
            span.with_delay += 1.0;
        }
    }
    span
}

/// All that there are figures for.
pub(super) fn figures(result: &RunResult) -> Vec<Figure> {
    let spans = spans(result);
    let mut figures = Vec::new();
    if spans.len() > 1 {
        figures.push(rates(&spans));
        figures.extend(delays(&spans));
        figures.extend(cores(&result.processes, &spans));
        figures.extend(memory(&result.processes, &spans));
    }
    figures.extend(percentiles(result));
    figures.extend(causes(result));
    figures
}

fn line(name: &str, nth: usize, spans: &[Span], value: impl Fn(&Span) -> Option<f64>) -> Line {
    Line {
        name: name.to_owned(),
        colour: nth,
        nth,
        is_hollow: false,
        points: spans
            .iter()
            .map(|span| Point {
                x: span.at_s,
                y: value(span).map_or_else(|| Datum::Missing(String::new()), Datum::exact),
            })
            .collect(),
    }
}

fn time_axis(spans: &[Span]) -> Axis {
    let each = spans.first().map_or(1.0, |span| span.seconds);
    let each = if each > 1.0 {
        format!("; each point is {each} s")
    } else {
        String::new()
    };
    Axis::linear(format!("seconds from the beginning{each}"))
}

fn rates(spans: &[Span]) -> Figure {
    let of =
        |count: fn(&Second) -> u64| move |span: &Span| Some(count(&span.sum) as f64 / span.seconds);
    let failed: u64 = spans.iter().map(|span| span.sum.failed).sum();
    let mut lines = vec![
        line("due", 1, spans, of(|second| second.due)),
        line("ended well", 0, spans, of(|second| second.succeeded)),
    ];
    if failed > 0 {
        lines.push(Line {
            colour: 4,
            ..line("failed", 2, spans, of(|second| second.failed))
        });
    }
    Figure {
        title: "What was asked for, and what became of it".to_owned(),
        description: format!(
            "Arrivals due, ended well and failed in each second of {}; {} failed.",
            spans.len(),
            number::count(failed)
        ),
        chart: Chart::Lines(Lines {
            x: time_axis(spans),
            y: Axis::linear("a second"),
            lines,
        }),
    }
}

fn delays(spans: &[Span]) -> Option<Figure> {
    let ms = |us: f64| (us > 0.0).then_some(us / 1e3);
    let lines = vec![
        line("longest", 2, spans, |span| ms(span.sum.max_us as f64)),
        line("99%", 1, spans, |span| ms(span.sum.p99_us as f64)),
        line("median", 0, spans, |span| {
            ms(span.p50_us / span.with_delay.max(1.0))
        }),
    ];
    let longest = spans.iter().map(|span| span.sum.max_us).max()?;
    (longest > 0).then(|| Figure {
        title: "How long it took".to_owned(),
        description: format!(
            "Median, 99th percentile and longest delay of each second, from the time at which each attempt was due; the longest was {}.",
            number::microseconds(longest as f64)
        ),
        chart: Chart::Lines(Lines {
            x: time_axis(spans),
            y: Axis::log("ms, from the time at which it was due"),
            lines,
        }),
    })
}

/// The seconds of a watched process that are a point.
fn of_span<'a>(
    process: &'a WatchedProcess,
    span: &Span,
) -> impl Iterator<Item = &'a ProcessSecond> + use<'a> {
    let (first_s, last_s) = span.ends_s;
    let from = process
        .seconds
        .partition_point(|second| second.at_s < first_s);
    let rest = process.seconds.iter().skip(from);
    rest.take_while(move |second| second.at_s <= last_s)
}

/// A line for each watched process that was seen.
fn each(
    processes: &[WatchedProcess],
    spans: &[Span],
    value: impl Fn(&WatchedProcess, &Span) -> Option<f64>,
) -> Vec<Line> {
    let seen = processes
        .iter()
        .filter(|process| !process.seconds.is_empty());
    let lines = seen
        .enumerate()
        .map(|(nth, process)| line(&process.name, nth, spans, |span| value(process, span)));
    lines.collect()
}

/// CPU time: of each watched process, of all together where no more is known, of this generator.
fn cores(processes: &[WatchedProcess], spans: &[Span]) -> Option<Figure> {
    let mut lines = each(processes, spans, |process, span| {
        let (mut seconds, mut cpu_ns) = (0u64, 0);
        for second in of_span(process, span) {
            seconds += 1;
            cpu_ns += second.cpu_ns;
        }
        (seconds > 0).then(|| cpu_ns as f64 / 1e9 / seconds as f64)
    });
    let of = |cpu_ns: fn(&Second) -> Option<u64>| {
        move |span: &Span| Some(cpu_ns(&span.sum)? as f64 / 1e9 / span.seconds)
    };
    let has =
        |cpu_ns: fn(&Second) -> Option<u64>| spans.iter().any(|span| cpu_ns(&span.sum).is_some());
    if lines.is_empty() && has(|second| second.watched_cpu_ns) {
        let all = of(|second| second.watched_cpu_ns);
        lines.push(line("watched processes", 0, spans, all));
    }
    if has(|second| second.own_cpu_ns) {
        let own = of(|second| second.own_cpu_ns);
        lines.push(line("this generator", lines.len().max(1), spans, own));
    }
    (!lines.is_empty()).then(|| Figure {
        title: "Who took which part of the machine".to_owned(),
        description: "CPU time in each second, in cores.".to_owned(),
        chart: Chart::Lines(Lines {
            x: time_axis(spans),
            y: Axis::linear("cores"),
            lines,
        }),
    })
}

/// Memory of each watched process.
fn memory(processes: &[WatchedProcess], spans: &[Span]) -> Option<Figure> {
    let lines = each(processes, spans, |process, span| {
        let bytes = of_span(process, span).map(|second| second.memory_bytes);
        Some(bytes.max()? as f64 / f64::from(1 << 20))
    });
    let held = processes.iter().flat_map(|process| &process.seconds);
    let most = held.map(|second| second.memory_bytes).max()?;
    (!lines.is_empty()).then(|| Figure {
        title: "What the watched processes held in memory".to_owned(),
        description: format!(
            "Memory at the end of each second, shared pages in parts; at most {}.",
            number::bytes(most as f64)
        ),
        chart: Chart::Lines(Lines {
            x: time_axis(spans),
            y: Axis::linear("MiB"),
            lines,
        }),
    })
}

/// The percentiles that so many delays tell: of 100 no more than the 99th.
fn told(count: u64) -> Vec<f64> {
    let is_told = |percent: &&f64| count as f64 * (100.0 - **percent) >= 99.999;
    PERCENTS.iter().filter(is_told).copied().collect()
}

fn percentiles(result: &RunResult) -> Option<Figure> {
    let (term, latency) = super::main_delay(result)?;
    let percents = told(latency.count());
    if percents.len() < 2 {
        return None;
    }
    // As far apart as the shares that are slower: each further nine is as wide as the one before.
    let place = |percent: f64| -(1.0 - percent / 100.0).log10();
    let curve = |name: &str, nth: usize, us: fn(&Latency, f64) -> u64| Line {
        name: name.to_owned(),
        colour: nth,
        nth,
        is_hollow: false,
        points: percents
            .iter()
            .map(|percent| Point {
                x: place(*percent),
                y: Datum::exact(us(latency, *percent) as f64 / 1e3),
            })
            .collect(),
    };
    let names = percents
        .iter()
        .map(|percent| (place(*percent), format!("{percent}%")));
    Some(Figure {
        title: format!("{term}: how many were how fast"),
        description: format!(
            "Half took at most {}, 99% at most {}.",
            number::microseconds(latency.intended_us(50.0) as f64),
            number::microseconds(latency.intended_us(99.0) as f64)
        ),
        chart: Chart::Lines(Lines {
            x: Axis {
                title: "this share took no longer".to_owned(),
                names: names.collect(),
                ..Axis::default()
            },
            y: Axis::log("ms"),
            lines: vec![
                curve("from the time at which it was due", 0, Latency::intended_us),
                curve("from its send", 1, Latency::actual_us),
            ],
        }),
    })
}

fn causes(result: &RunResult) -> Option<Figure> {
    let ranked = result.causes.ranked();
    let most = ranked.first()?;
    let total = result.causes.total() as f64;
    Some(Figure {
        title: "Why attempts failed".to_owned(),
        description: format!("Most often {}, {} times.", most.0, number::count(most.1)),
        chart: Chart::Rows(Rows {
            axis: Axis::linear("% of all failures"),
            groups: ranked
                .iter()
                .take(CAUSES_MAX)
                .map(|(name, count)| Group {
                    label: format!("{name}: {}", number::count(*count)),
                    rows: vec![Row {
                        name: String::new(),
                        colour: 4,
                        content: Content::Bar(Datum::exact(*count as f64 * 100.0 / total)),
                    }],
                })
                .collect(),
            ..Rows::default()
        }),
    })
}
