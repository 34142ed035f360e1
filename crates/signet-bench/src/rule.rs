//! When a figure is a figure: what must be true of the repeats of a case before
//! any of it is recorded. Pure, so that it is held to cases of its own.

use crate::report::Measurement;

pub(crate) use signet_bed::Summary;

/// Repeats of each server below which nothing is recorded.
pub(crate) const REPEATS_MIN: usize = 5;
/// The largest spread, (max - min) / median, of a recorded figure.
pub(crate) const SPREAD_MAX: f64 = 0.15;
/// The largest change of the machine's speed during a repeat that counts.
pub(crate) const MOVED_MAX: f64 = 0.10;
/// The largest share of calls that may fail: beyond it a cost per call says nothing.
pub(crate) const FAILED_MAX: f64 = 0.01;
/// The smallest share of the rate that must have come about.
pub(crate) const HELD_MIN: f64 = 0.95;

/// Whether the machine kept its speed during this repeat.
pub(crate) fn is_steady(measurement: &Measurement) -> bool {
    measurement.before.moved(measurement.after) <= MOVED_MAX
}

/// The repeats of one server that count: chosen by the machine's speed alone, never by their value.
pub(crate) fn steady<'a>(
    set: &'a [Measurement],
    server: &'a str,
) -> impl Iterator<Item = &'a Measurement> {
    set.iter()
        .filter(move |m| m.server == server && is_steady(m))
}

/// The cost of a call, over the repeats of one server that count.
pub(crate) fn cost(set: &[Measurement], server: &str) -> Option<Summary> {
    Summary::of(steady(set, server).map(|m| m.cpu_us_per_call).collect())
}

/// How far the repeats of one server disagree: in the cost of a call, or, where
/// a search found the rate, in the rate.
pub(crate) fn spread(set: &[Measurement], server: &str) -> Option<f64> {
    let rates = Summary::of(steady(set, server).map(|m| m.rate as f64).collect())?;
    let rate_spread = if rates.median > 0.0 {
        rates.spread()
    } else {
        0.0
    };
    let cost_spread = cost(set, server)?.spread();
    // The larger of the two would hide what is no number.
    Some(if cost_spread < rate_spread {
        rate_spread
    } else {
        cost_spread
    })
}

/// Why a set of repeats is not recorded; empty where it is. The set stands or
/// falls as a whole, with all of its servers.
pub(crate) fn objections(set: &[Measurement], servers: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for &server in servers {
        let all = set.iter().filter(|m| m.server == server).count();
        let counted = steady(set, server).count();
        if counted < REPEATS_MIN {
            let moved = all - counted;
            found.push(if moved > 0 {
                format!("{server}: the machine's speed moved in {moved} of {all} repeats")
            } else {
                format!("{server}: {counted} repeats, {REPEATS_MIN} are needed")
            });
        }
        // The whole run, warm-up included, must have been served.
        let failed = steady(set, server)
            .map(|m| m.failed_share)
            .fold(0.0, f64::max);
        if failed > FAILED_MAX {
            found.push(format!(
                "{server}: {:.1}% of the calls failed",
                failed * 100.0
            ));
        }
        let held = steady(set, server)
            .map(|m| m.held_share)
            .fold(1.0, f64::min);
        if held < HELD_MIN {
            found.push(format!(
                "{server}: {:.0}% of the rate came about",
                held * 100.0
            ));
        }
        match spread(set, server) {
            // A figure that is no number agrees with nothing.
            Some(spread) if spread.is_nan() || spread > SPREAD_MAX => found.push(format!(
                "{server}: repeats disagree by {:.0}%",
                spread * 100.0
            )),
            _ => {}
        }
    }
    found
}

/// A ratio of medians, with the lowest and the highest of single repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// What `server` costs over what `other` costs, each above `floor` where there is one.
pub(crate) fn ratio(
    set: &[Measurement],
    server: &str,
    other: &str,
    floor: Option<&str>,
) -> Option<Ratio> {
    let floor_cost = floor.map(|floor| cost(set, floor));
    // A floor that was asked for and has no figure leaves no ratio.
    let floor_us = match floor_cost {
        Some(cost) => cost?.median,
        None => 0.0,
    };
    let above = |us: f64| us - floor_us;
    let value = above(cost(set, server)?.median) / above(cost(set, other)?.median);
    let pairs = steady(set, server)
        .zip(steady(set, other))
        .map(|(a, b)| above(a.cpu_us_per_call) / above(b.cpu_us_per_call))
        .collect();
    let pairs = Summary::of(pairs)?;
    Some(Ratio {
        value,
        low: pairs.low,
        high: pairs.high,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::Speed;

    const FAST: Speed = Speed {
        compute_us: 100.0,
        kernel_us: 100.0,
    };
    const SLOW: Speed = Speed {
        compute_us: 150.0,
        kernel_us: 100.0,
    };

    fn repeat(server: &str, cpu_us_per_call: f64) -> Measurement {
        Measurement {
            case: "c".to_owned(),
            server: server.to_owned(),
            cpu_us_per_call,
            calls: 1_000,
            failed: 0,
            failed_share: 0.0,
            retransmissions: 0,
            rate: 100,
            held_share: 1.0,
            elapsed_s: 4.0,
            is_doubted: false,
            before: FAST,
            after: FAST,
        }
    }

    fn set(server: &str, values: &[f64]) -> Vec<Measurement> {
        values.iter().map(|value| repeat(server, *value)).collect()
    }

    #[test]
    fn repeats_that_agree_are_recorded() {
        let set = set("signet", &[100.0, 104.0, 96.0, 101.0, 107.0]);
        let found = objections(&set, &["signet"]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn repeats_that_disagree_are_refused() {
        let set = set("signet", &[100.0, 104.0, 96.0, 101.0, 112.0]);
        let found = objections(&set, &["signet"]);
        assert_eq!(found, ["signet: repeats disagree by 16%"]);
    }

    #[test]
    fn one_server_that_disagrees_refuses_the_case() {
        let mut both = set("signet", &[100.0; 5]);
        both.extend(set("kamailio", &[100.0, 100.0, 100.0, 100.0, 140.0]));
        assert_eq!(objections(&both, &["signet", "kamailio"]).len(), 1);
    }

    #[test]
    fn few_repeats_are_no_figure() {
        for count in 0..REPEATS_MIN {
            let few = set("signet", &vec![100.0; count]);
            assert_eq!(objections(&few, &["signet"]).len(), 1, "{count} repeats");
        }
    }

    #[test]
    fn a_figure_that_is_no_number_is_refused() {
        let found = objections(&set("signet", &[f64::NAN; 5]), &["signet"]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_repeat_counts_by_the_speed_of_the_machine_and_not_by_its_value() {
        let mut odd = set("signet", &[100.0, 100.0, 100.0, 100.0, 100.0, 300.0]);
        odd.last_mut().unwrap().after = SLOW;
        assert!(objections(&odd, &["signet"]).is_empty());
        odd.first_mut().unwrap().after = SLOW;
        assert_eq!(
            objections(&odd, &["signet"]),
            ["signet: the machine's speed moved in 2 of 6 repeats"]
        );
    }

    #[test]
    fn a_search_must_find_the_same_rate() {
        let mut found = set("signet", &[100.0; 5]);
        found.last_mut().unwrap().rate = 120;
        assert_eq!(objections(&found, &["signet"]).len(), 1);
    }

    #[test]
    fn calls_that_fail_refuse_the_cost_of_a_call() {
        let mut lossy = set("kamailio", &[100.0; 5]);
        lossy.first_mut().unwrap().failed_share = 0.19;
        let found = objections(&lossy, &["kamailio"]);
        assert_eq!(found, ["kamailio: 19.0% of the calls failed"]);
    }

    #[test]
    fn a_rate_that_did_not_come_about_is_refused() {
        let mut slow = set("floor", &[100.0; 5]);
        slow.first_mut().unwrap().held_share = 0.9;
        let found = objections(&slow, &["floor"]);
        assert_eq!(found, ["floor: 90% of the rate came about"]);
    }

    #[test]
    fn a_ratio_has_its_ends() {
        let mut all = set("floor", &[10.0; 5]);
        all.extend(set("kamailio", &[50.0; 5]));
        all.extend(set("signet", &[30.0, 30.0, 29.0, 31.0, 30.0]));
        let found = ratio(&all, "signet", "kamailio", Some("floor")).unwrap();
        assert_eq!((found.value, found.low, found.high), (0.5, 0.475, 0.525));
        assert_eq!(ratio(&all, "signet", "kamailio", Some("none")), None);
        let whole = ratio(&all, "signet", "kamailio", None).unwrap();
        assert_eq!(whole.value, 0.6);
    }
}
