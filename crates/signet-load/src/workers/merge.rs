//! One result of many: histograms added, counters summed, each worker's doubts kept
//! with its name.

use measure::{Doubt, Health, Quantiles, RunResult, Second, ThreadUse};
use serde_json::{Value, json};

use super::controller::Part;

/// Counters of which the whole has the greatest, not the sum: times.
const GREATEST: [&str; 3] = [
    "setup_ms",
    "storm_connected_last_ms",
    "storm_registered_last_ms",
];
/// How far apart the workers may have begun. Their seconds are laid over each other, and
/// a rate is read second by second: a twentieth of one is not seen there.
const START_ERROR_MAX_NS: u64 = 50_000_000;

/// The figures of all parts; who ran it and how is yet to be said, and
/// [`RunResult::conclude`] to be called, before [`doubts`] are added.
pub(crate) fn merge(parts: &[Part], series: Vec<Second>) -> RunResult {
    let mut whole = RunResult {
        series,
        ..RunResult::default()
    };
    let results = || {
        parts
            .iter()
            .filter_map(|part| Some((part, part.end.as_ref().ok()?)))
    };
    for (part, result) in results() {
        whole.duration_ns = whole.duration_ns.max(result.duration_ns);
        whole.figures.merge(&result.figures);
        whole.causes.merge(&result.causes);
        whole.handshakes.merge(&result.handshakes);
        whole.retransmissions.merge(&result.retransmissions);
        for (name, count) in &result.counters {
            let sum = whole.counters.entry(name.clone()).or_default();
            *sum = if GREATEST.contains(&name.as_str()) {
                (*sum).max(*count)
            } else {
                sum.saturating_add(*count)
            };
        }
        add_health(&mut whole.health, &part.name, &result.health);
    }
    let peaks: Vec<Option<f64>> = results()
        .map(|(_, result)| result.health.self_peak_per_s)
        .collect();
    whole.health.self_peak_per_s = peaks.into_iter().sum();
    whole
}

/// The health of the whole: what counts is summed, what is late is that of the latest.
fn add_health(whole: &mut Health, name: &str, part: &Health) {
    whole.behind_schedule = later(&whole.behind_schedule, &part.behind_schedule);
    whole.behind_max_ns = whole.behind_max_ns.max(part.behind_max_ns);
    whole.due += part.due;
    whole.unsent += part.unsent;
    whole.sent += part.sent;
    whole.own_cpu_ns += part.own_cpu_ns;
    whole.wall_ns = whole.wall_ns.max(part.wall_ns);
    whole.sending_ns = whole.sending_ns.max(part.sending_ns);
    whole.agents += part.agents;
    whole.agents_missing += part.agents_missing;
    whole.storm_dropped += part.storm_dropped;
    whole.storm_missing += part.storm_missing;
    whole.dialogs_missed += part.dialogs_missed;
    whole.cores += part.cores;
    whole
        .threads
        .extend(part.threads.iter().map(|thread| ThreadUse {
            name: format!("{name} {}", thread.name),
            ..thread.clone()
        }));
    whole.kernel_drops += part.kernel_drops;
    whole.send_queue_drops += part.send_queue_drops;
    whole.rate_per_s += part.rate_per_s;
    whole.interrupted |= part.interrupted;
}

fn later(one: &Quantiles, other: &Quantiles) -> Quantiles {
    Quantiles {
        mean_us: one.mean_us.max(other.mean_us),
        min_us: one.min_us.max(other.min_us),
        p50_us: one.p50_us.max(other.p50_us),
        p90_us: one.p90_us.max(other.p90_us),
        p95_us: one.p95_us.max(other.p95_us),
        p99_us: one.p99_us.max(other.p99_us),
        p999_us: one.p999_us.max(other.p999_us),
        max_us: one.max_us.max(other.max_us),
    }
}

/// Every doubt of a worker's under its name, and what is in doubt because there are many.
pub(crate) fn doubts(parts: &[Part]) -> Vec<Doubt> {
    let mut all = Vec::new();
    for Part {
        name,
        end,
        end_ns,
        start_error_ns,
    } in parts
    {
        let result = match end {
            Ok(result) => result,
            Err(why) => {
                let after_s = *end_ns as f64 / 1e9;
                all.push(Doubt {
                    name: format!("{name}: worker lost"),
                    figure: 1.0,
                    bound: 0.0,
                    sentence: format!(
                        "{name} was lost {after_s:.0} s after the beginning ({why}): the load was lighter from then \
                         on, and what that worker measured is not in the figures. Look there, and run again."
                    ),
                });
                continue;
            }
        };
        all.extend(result.doubts.iter().map(|doubt| Doubt {
            name: format!("{name}: {}", doubt.name),
            sentence: format!("{name}: {}", doubt.sentence),
            ..doubt.clone()
        }));
        if *start_error_ns > START_ERROR_MAX_NS {
            let (error_ms, bound_ms) = (
                *start_error_ns as f64 / 1e6,
                START_ERROR_MAX_NS as f64 / 1e6,
            );
            all.push(Doubt {
                name: format!("{name}: start"),
                figure: error_ms,
                bound: bound_ms,
                sentence: format!(
                    "{name} may have begun {error_ms:.0} ms before or after the others (bound {bound_ms:.0} ms), \
                     because the way to it is that long: use workers that are nearer to each other."
                ),
            });
        }
    }
    all
}

/// What each worker did, for the record.
pub(crate) fn describe(parts: &[Part]) -> Value {
    let of = |part: &Part| {
        let count = |name: &str| {
            let result = part.end.as_ref().ok()?;
            result.counters.get(name).copied()
        };
        json!({
            "name": part.name,
            "started": count("started"),
            "ended": count("ended"),
            "agents_ready": count("agents_ready"),
            "start_error_us": part.start_error_ns / 1_000,
            "lost": part.end.as_ref().err(),
        })
    };
    parts.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use measure::{Failure, Latency, Setup};

    use super::*;

    fn part(name: &str, delays_ms: &[u64]) -> Part {
        let mut result = RunResult::default();
        for delay_ms in delays_ms {
            result.figures.invite_sent();
            result.figures.invite_answered(200, &setup(*delay_ms));
        }
        result.causes.add(Failure::Timeout);
        result
            .counters
            .insert("started".to_owned(), delays_ms.len() as u64);
        result
            .counters
            .insert("setup_ms".to_owned(), delays_ms.len() as u64);
        result.duration_ns = delays_ms.len() as u64;
        result.health.due = delays_ms.len() as u64;
        result.health.sent = delays_ms.len() as u64;
        result.health.wall_ns = 1;
        result.health.sending_ns = delays_ms.len() as u64;
        result.health.agents = 2_000;
        result.health.agents_missing = 1;
        result.health.behind_schedule.p99_us = delays_ms.len() as u64;
        result.health.threads = vec![ThreadUse {
            name: "load-0".to_owned(),
            ..ThreadUse::default()
        }];
        Part {
            name: name.to_owned(),
            end: Ok(Box::new(result)),
            end_ns: 0,
            start_error_ns: 100,
        }
    }

    fn setup(delay_ms: u64) -> Setup {
        Setup {
            intended_ns: 0,
            sent_ns: 0,
            first_status_ns: Some(delay_ms * 1_000_000),
            done_ns: delay_ms * 1_000_000,
        }
    }

    /// Through JSON, as it comes from a worker.
    fn sent(part: Part) -> Part {
        let result = part.end.unwrap();
        let json = serde_json::to_string(&result).unwrap();
        Part {
            end: Ok(Box::new(RunResult::from_json(&json).unwrap())),
            ..part
        }
    }

    #[test]
    fn percentiles_of_the_merge_are_those_of_the_union() {
        let one: Vec<u64> = (1..=900).collect();
        let other: Vec<u64> = (5_000..=5_099).collect();
        let parts = [sent(part("a", &one)), sent(part("b", &other))];
        let whole = merge(&parts, Vec::new());
        let mut union = Latency::new();
        for delay_ms in one.iter().chain(&other) {
            union.record(0, 0, delay_ms * 1_000_000);
        }
        assert_eq!(whole.figures.srd, union);
        assert_eq!(whole.figures.srd.summary(), union.summary());
        // No mean of the two 99th percentiles, 891 and 5,099 ms, would be that.
        assert!(whole.figures.srd.intended_us(99.0) > 5_000_000);
        assert_eq!(whole.figures.invites_ok, 1_000);
        assert_eq!(whole.causes.total(), 2);
    }

    #[test]
    fn counts_are_summed_and_times_are_the_greatest() {
        let whole = merge(&[part("a", &[1; 3]), part("b", &[1; 5])], Vec::new());
        assert_eq!(whole.counters.get("started"), Some(&8));
        assert_eq!(whole.counters.get("setup_ms"), Some(&5));
        assert_eq!((whole.health.due, whole.health.sent), (8, 8));
        let health = &whole.health;
        assert_eq!(
            (health.sending_ns, health.agents, health.agents_missing),
            (5, 4_000, 2)
        );
        assert_eq!(
            (whole.duration_ns, whole.health.behind_schedule.p99_us),
            (5, 5)
        );
        let names: Vec<&str> = whole
            .health
            .threads
            .iter()
            .map(|t| t.name.as_str())
            .collect();
        assert_eq!(names, ["a load-0", "b load-0"]);
        assert_eq!(whole.health.self_peak_per_s, None);
        let peak = |mut part: Part, peak| {
            part.end.as_mut().unwrap().health.self_peak_per_s = peak;
            part
        };
        let both = [
            peak(part("a", &[1]), Some(100.0)),
            peak(part("b", &[1]), Some(50.0)),
        ];
        assert_eq!(merge(&both, Vec::new()).health.self_peak_per_s, Some(150.0));
        // Of half of them nothing follows for the whole.
        let half = [peak(part("a", &[1]), Some(100.0)), part("b", &[1])];
        assert_eq!(merge(&half, Vec::new()).health.self_peak_per_s, None);
    }

    #[test]
    fn doubts_keep_the_names_of_their_workers() {
        let mut doubtful = part("b:7000", &[1]);
        let result = doubtful.end.as_mut().unwrap();
        result.health.kernel_drops = 3;
        result.conclude(&[]);
        let lost = Part {
            name: "c:7000".to_owned(),
            end: Err("it closed the connection".to_owned()),
            end_ns: 12_000_000_000,
            start_error_ns: 0,
        };
        let far = Part {
            start_error_ns: 80_000_000,
            ..part("d:7000", &[1])
        };
        let parts = [part("a:7000", &[1]), doubtful, lost, far];
        let all = doubts(&parts);
        let names: Vec<&str> = all.iter().map(|doubt| doubt.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "b:7000: kernel drops",
                "c:7000: worker lost",
                "d:7000: start"
            ]
        );
        assert!(
            all[1].sentence.contains("12 s after the beginning"),
            "{:?}",
            all[1]
        );
        let described = describe(&parts);
        assert_eq!(described[2]["lost"], "it closed the connection");
        assert_eq!(described[0]["started"], 1);
        assert_eq!(merge(&parts, Vec::new()).figures.invites_ok, 3);
    }
}
