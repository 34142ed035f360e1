//! A profile for people.

use std::fmt::Write;

use super::Component;
use super::result::{ProcessProfile, Profile, Source};

/// How wide the names of components are.
const NAME_LETTERS: usize = 28;
const COLUMN_LETTERS: usize = 26;
/// Images with less of a process than this are not told.
const IMAGE_SHARE_MIN: f64 = 0.005;

/// A table: each component's CPU time for each call and its share, by process, with the check
/// that the sum is the CPU time used, and what the samples could not tell.
#[must_use]
pub fn table(profile: &Profile) -> String {
    let mut text = head(profile);
    let columns = |text: &mut String, name: &str, cells: &[String]| {
        let mut line = format!("{name:<NAME_LETTERS$}");
        for cell in cells {
            let _ = write!(line, "{cell:>COLUMN_LETTERS$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let processes = &profile.processes;
    let each = |cell: &dyn Fn(&ProcessProfile) -> String| -> Vec<String> {
        processes.iter().map(cell).collect()
    };
    let unit = unit(profile);
    columns(
        &mut text,
        "",
        &each(&|p| format!("{} ({})", p.name, p.system)),
    );
    columns(
        &mut text,
        "component",
        &each(&|_| format!("{unit:>12}{:>12}", "share")),
    );
    for component in Component::ALL {
        if processes.iter().all(|p| p.component_ns(component) == 0) {
            continue;
        }
        columns(
            &mut text,
            component.name(),
            &each(&|p| cell(profile, p.component_ns(component), p.share(component))),
        );
    }
    columns(
        &mut text,
        "sum",
        &each(&|p| {
            let sum: u64 = p.components.values().sum();
            cell(profile, sum, super::result::ratio(sum, p.cpu_ns))
        }),
    );
    columns(
        &mut text,
        "CPU time used",
        &each(&|p| format!("{}{:>12}", figure(profile, p.cpu_ns), "")),
    );
    if profile.source == Source::Perf {
        let percent = |share: f64| format!("{:>22.1} %", share * 100.0);
        columns(
            &mut text,
            "of it in samples",
            &each(&|p| p.sampled_ratio().map_or(String::from("-"), percent)),
        );
        columns(
            &mut text,
            "samples without a symbol",
            &each(&|p| percent(p.unknown_share)),
        );
    }
    foot(&mut text, profile);
    text
}

fn head(profile: &Profile) -> String {
    let seconds = profile.window_ns as f64 / 1e9;
    let mut text = match (profile.source, profile.frequency_hz) {
        (Source::Perf, Some(hz)) => {
            format!("{seconds:.1} s by perf, {hz} samples for each second of CPU time")
        }
        (Source::Perf, None) => format!("{seconds:.1} s by perf"),
        (Source::Accounting, _) => format!("{seconds:.1} s by the names of threads"),
    };
    match profile.calls {
        Some(calls) => {
            let _ = writeln!(
                text,
                ", {calls:.0} calls ({:.1} a second)\n",
                calls / seconds
            );
        }
        None => text.push_str("\n\n"),
    }
    text
}

fn foot(text: &mut String, profile: &Profile) {
    for process in &profile.processes {
        for (component, held) in &process.holds {
            let names: Vec<&str> = held.iter().map(|held| held.name()).collect();
            let _ = writeln!(
                text,
                "{}: a thread is the smallest part; '{component}' holds {} too",
                process.name,
                names.join(", ")
            );
        }
        for image in &process.images {
            if image.share >= IMAGE_SHARE_MIN && image.unknown_share >= IMAGE_SHARE_MIN {
                let _ = writeln!(
                    text,
                    "{}: {:.1} % of the samples are in {}, and {:.1} % of these have no symbol of their own",
                    process.name,
                    image.share * 100.0,
                    image.image,
                    image.unknown_share * 100.0
                );
            }
        }
    }
    if let Some(why) = &profile.why_not_perf {
        let _ = writeln!(text, "without perf: {why}");
    }
    for doubt in &profile.doubts {
        let _ = writeln!(text, "doubt: {doubt}");
    }
}

/// The functions with the most samples of each process, so many at most.
#[must_use]
pub fn symbols(profile: &Profile, count: usize) -> String {
    let mut text = String::new();
    for process in &profile.processes {
        let _ = writeln!(text, "\n{} ({})", process.name, process.system);
        for symbol in process.symbols.iter().take(count) {
            let _ = writeln!(
                text,
                "{:>6.2} %  {:<NAME_LETTERS$} {} ({})",
                symbol.share * 100.0,
                symbol.component,
                symbol.symbol,
                symbol.image
            );
        }
    }
    text
}

fn cell(profile: &Profile, ns: u64, share: f64) -> String {
    format!("{}{:>10.1} %", figure(profile, ns), share * 100.0)
}

fn unit(profile: &Profile) -> &'static str {
    if profile.calls.is_some() {
        "us/call"
    } else {
        "ms/s"
    }
}

/// Microseconds a call or, where nobody said how many calls there were, milliseconds of CPU a
/// second.
fn figure(profile: &Profile, ns: u64) -> String {
    let per_second = ns as f64 * 1_000.0 / profile.window_ns.max(1) as f64;
    format!("{:>12.2}", profile.us_per_call(ns).unwrap_or(per_second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{ImageShare, PROFILE_FORMAT, PROFILE_VERSION, SymbolShare};
    use std::collections::BTreeMap;

    fn profile() -> Profile {
        let process = ProcessProfile {
            name: "server".to_owned(),
            system: "kamailio".to_owned(),
            cpu_ns: 1_000_000_000,
            sampled_ns: 990_000_000,
            samples: 989,
            components: BTreeMap::from([
                (Component::Kernel, 600_000_000),
                (Component::SipCore, 400_000_000),
            ]),
            holds: BTreeMap::new(),
            threads: BTreeMap::new(),
            unknown_share: 0.25,
            images: vec![ImageShare {
                image: "libcrypto.so.3".to_owned(),
                share: 0.3,
                unknown_share: 0.8,
            }],
            symbols: vec![SymbolShare {
                image: "kamailio".to_owned(),
                symbol: "parse_msg".to_owned(),
                component: Component::SipCore,
                share: 0.1,
            }],
        };
        Profile {
            format: PROFILE_FORMAT.to_owned(),
            version: PROFILE_VERSION,
            source: Source::Perf,
            why_not_perf: None,
            window_ns: 10_000_000_000,
            frequency_hz: Some(999),
            calls: None,
            processes: vec![
                process.clone(),
                ProcessProfile {
                    name: "database".to_owned(),
                    system: "mariadbd".to_owned(),
                    components: BTreeMap::from([(Component::Database, 1_000_000_000)]),
                    images: Vec::new(),
                    ..process
                },
            ],
            doubts: vec!["it rained".to_owned()],
        }
    }

    #[test]
    fn every_component_that_has_time_is_a_line_and_the_sum_is_shown() {
        let text = table(&profile().with_calls(10_000.0));
        let expected = "\
10.0 s by perf, 999 samples for each second of CPU time, 10000 calls (1000.0 a second)

                                     server (kamailio)       database (mariadbd)
component                          us/call       share       us/call       share
kernel                               60.00      60.0 %          0.00       0.0 %
SIP core                             40.00      40.0 %          0.00       0.0 %
database                              0.00       0.0 %        100.00     100.0 %
sum                                 100.00     100.0 %        100.00     100.0 %
CPU time used                       100.00                    100.00
of it in samples                                99.0 %                    99.0 %
samples without a symbol                        25.0 %                    25.0 %
server: 30.0 % of the samples are in libcrypto.so.3, and 80.0 % of these have no symbol of their own
doubt: it rained
";
        assert_eq!(text, expected);
    }

    #[test]
    fn without_calls_it_is_time_a_second() {
        let text = table(&profile());
        assert!(text.contains("        ms/s       share"), "{text}");
        assert!(
            text.contains("sum                                 100.00"),
            "{text}"
        );
    }

    #[test]
    fn threads_say_what_they_hold_and_why() {
        let mut profile = profile();
        profile.source = Source::Accounting;
        profile.why_not_perf = Some("perf is not installed: install it".to_owned());
        profile.processes[0].holds =
            BTreeMap::from([(Component::SipCore, vec![Component::TlsProtocol])]);
        let text = table(&profile);
        assert!(
            text.contains(
                "server: a thread is the smallest part; 'SIP core' holds TLS protocol too"
            )
        );
        assert!(text.contains("without perf: perf is not installed"));
        assert!(!text.contains("in samples"));
    }

    #[test]
    fn symbols_are_told_with_what_they_count_as() {
        let text = symbols(&profile(), 1);
        assert!(
            text.contains(" 10.00 %  SIP core                     parse_msg (kamailio)"),
            "{text}"
        );
    }
}
