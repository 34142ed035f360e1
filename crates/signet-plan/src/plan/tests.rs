//! The model, without measuring anything.

use proptest::prelude::*;

use super::*;
use crate::demand::Key;
use crate::profile::Later;
use crate::testing::{demand, profile};

fn made(change: impl FnOnce(&mut Demand)) -> Plan {
    plan(&profile(), &demand(change), true).unwrap()
}

/// The figures that must not fall where more is asked.
fn figures(plan: &Plan) -> [f64; 7] {
    [
        plan.busy_cores.value,
        plan.return_cores.value,
        plan.cores as f64,
        plan.machines as f64,
        plan.calls.at_once as f64,
        plan.calls.gateway_lines as f64,
        plan.sip_bits_per_s.value,
    ]
}

fn must_not_fall(before: &Plan, after: &Plan) {
    for (nth, (less, more)) in figures(before).into_iter().zip(figures(after)).enumerate() {
        assert!(
            more >= less * (1.0 - 1e-9),
            "figure {nth} fell from {less} to {more}"
        );
    }
}

proptest! {
    #[test]
    fn more_of_anything_needs_no_less(
        subscribers in 0_u64..3_000_000, calls in 0_u64..3_000_000,
        resumed in 0.0..1.0_f64, mutual in 0.0..1.0_f64, challenged in 0.0..1.0_f64,
        more in 1.01..4.0_f64, which in 0_usize..11,
    ) {
        let base = demand(|demand| {
            demand.subscribers.count = subscribers;
            demand.calls.busy_hour = calls;
            demand.tls.resumed = resumed;
            demand.tls.mutual = mutual / 4.0;
            demand.authentication.challenged = challenged / 4.0;
        });
        let mut larger = base.clone();
        let times = |count: u64| (count as f64 * more).ceil() as u64;
        let less = |count: u64| ((count as f64 / more) as u64).max(1);
        match which {
            0 => larger.subscribers.count = times(subscribers),
            1 => larger.calls.busy_hour = times(calls),
            2 => larger.registrations.interval_s = less(base.registrations.interval_s),
            3 => larger.connections.lifetime_s = less(base.connections.lifetime_s),
            4 => larger.storm.absorb_s = less(base.storm.absorb_s),
            5 => larger.tls.resumed = resumed / more,
            6 => larger.tls.mutual = base.tls.mutual * more,
            7 => larger.authentication.challenged = base.authentication.challenged * more,
            8 => larger.machines.load_max = 0.7 / more,
            9 => larger.machines.may_fail = 3,
            _ => larger.tls.key = Key::Rsa2048,
        }
        let (before, after) = (
            plan(&profile(), &base, true).unwrap(),
            plan(&profile(), &larger, true).unwrap(),
        );
        // A lower load is closer to what was measured, so that the interval is narrower.
        prop_assert!(which != 8 || after.cores >= before.cores / 2);
        if which != 8 {
            must_not_fall(&before, &after);
        }
    }

    #[test]
    fn intervals_hold_their_figure_and_shares_are_of_one(
        subscribers in 1_u64..1_000_000, calls in 1_u64..1_000_000, cores in 1_u32..128,
    ) {
        let plan = made(|demand| {
            demand.subscribers.count = subscribers;
            demand.calls.busy_hour = calls;
            demand.machines.cores = cores;
            demand.authentication.users = Users::Database;
        });
        for estimate in [
            plan.busy_cores, plan.return_cores, plan.memory_bytes, plan.minute.cores,
            plan.database.unwrap().cores,
        ] {
            prop_assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
            prop_assert!(estimate.low >= 0.0 && estimate.high.is_finite());
        }
        let shares: f64 = plan.parts.iter().map(|part| part.share).sum();
        prop_assert!((shares - 1.0).abs() < 1e-9, "{shares}");
        let parts: f64 = plan.parts.iter().map(|part| part.cores).sum();
        prop_assert!((parts / plan.busy_cores.value - 1.0).abs() < 1e-9);
        prop_assert!(plan.parts.is_sorted_by(|a, b| a.cores >= b.cores));
        // Whoever is left carries all of it at the load that is allowed.
        let left = plan.machines - u64::from(plan.demand.machines.may_fail);
        let room = (left * u64::from(cores)) as f64 * plan.demand.machines.load_max;
        prop_assert!(room >= plan.busy_cores.high.max(plan.return_cores.high) * (1.0 - 1e-9));
    }
}

#[test]
fn spare_machines_are_beside_those_that_are_needed() {
    let plans = [0, 1, 3].map(|count| made(|demand| demand.machines.may_fail = count));
    let [none, one, three] = plans.map(|plan| plan.machines);
    assert_eq!((one - none, three - none), (1, 3));
}

#[test]
fn units_are_those_that_are_said() {
    // 3,600 calls in an hour of 120 s each are one a second and 120 at once; two sides of
    // 15 us, the gateway's at 15 us too.
    let mut profile = profile();
    profile.later = None;
    profile.fit.wake_us = 0.0;
    profile.fit.base_cores = 0.0;
    let demand = demand(|demand| {
        demand.subscribers.count = 0;
        demand.calls.busy_hour = 3_600_000;
        demand.calls.hold_s = 120;
        demand.calls.local = 0.0;
        demand.transports.udp = 1.0;
        demand.transports.tcp = 0.0;
        demand.transports.tls = 0.0;
        demand.authentication.users = Users::None;
    });
    let plan = plan(&profile, &demand, true).unwrap();
    assert!((plan.calls.per_s - 1_000.0).abs() < 1e-9);
    assert!((plan.calls.erlangs - 120_000.0).abs() < 1e-6);
    assert!(
        (plan.busy_cores.value - 0.030).abs() < 1e-12,
        "{:?}",
        plan.busy_cores
    );
    // Two sides, 1,000 bytes each.
    assert!((plan.sip_bits_per_s.value - 16e6).abs() < 1e-3);
    assert_eq!((plan.connections, plan.minute.handshakes), (0, 0.0));
    assert_eq!(plan.decided_by, Decides::BusyHour);
}

#[test]
fn memory_is_what_is_held() {
    let plan = made(|demand| {
        demand.subscribers.count = 100_000;
        demand.subscribers.online = 1.0;
        demand.calls.busy_hour = 0;
        demand.machines.cores = 64;
    });
    // 30,000 bindings, 10,000 TCP, 60,000 TLS, and transactions of registrations over UDP.
    let kept = plan.rates.get(Event::RegisterUdp) * 32.0 * 1_200.0;
    let expected = 40e6 + 30_000.0 * 900.0 + 10_000.0 * 3_000.0 + 60_000.0 * 6_000.0 + kept;
    let seen = plan.memory_bytes.value;
    assert!((seen / expected - 1.0).abs() < 1e-9, "{seen} {expected}");
    assert_eq!(plan.connections, 70_000);
}

#[test]
fn more_cores_may_take_more_memory_than_the_one_worker_that_was_looked_at() {
    let of = |cores: u32| {
        let plan = made(|demand| {
            demand.subscribers.count = 24;
            demand.calls.busy_hour = 24;
            demand.machines.cores = cores;
        });
        let told = format!("for every core ({cores})");
        assert!(plan.unmeasured[0].contains(&told), "{:?}", plan.unmeasured);
        plan.memory_bytes
    };
    let plans = [1, 2, 8, 64].map(of);
    assert!(plans.is_sorted_by(|less, more| less.high < more.high));
    // 40 MB at the start of one worker; 33 and 47 MB of two, at the start and later (0014).
    assert!(plans[1].high > plans[1].low * 1.5, "{:?}", plans[1]);
    // 64 rooms for datagrams of 4 MB, and 64 tables.
    assert!(plans[3].high > 320e6, "{:?}", plans[3]);
    assert!(plans.iter().all(|memory| memory.low >= 40e6));
}

#[test]
fn a_long_run_that_showed_nothing_makes_no_plan_more_certain() {
    let with = |later: Option<Later>| {
        let mut profile = profile();
        profile.later = later;
        plan(&profile, &demand(|_| {}), true).unwrap()
    };
    let none = with(None);
    for (us, error_us) in [(0.0, 0.0), (0.0, 0.1), (0.0, 6.0), (0.4, 0.2), (5.0, 3.0)] {
        let some = with(Some(Later { us, error_us }));
        assert!(
            some.busy_cores.high >= none.busy_cores.high && some.cores >= none.cores,
            "{us} {error_us}: {:?} {:?}",
            some.busy_cores,
            none.busy_cores
        );
        let why = "what transactions cost when they end was not above the noise";
        let told = some.widened.iter().any(|one| one.why.starts_with(why));
        assert!(told, "{:?}", some.widened);
    }
    let seen = with(Some(Later {
        us: 5.0,
        error_us: 1.0,
    }));
    assert_eq!(seen.widened.len() + 1, none.widened.len());
}

#[test]
fn the_return_of_all_may_decide() {
    let quick = made(|demand| demand.storm.absorb_s = 5);
    assert_eq!(quick.decided_by, Decides::Return);
    assert!(quick.return_cores.value > 2.0 * quick.busy_cores.value);
    // 45,000 online, 70 % of them connected, all within 5 s, and what happens anyway.
    let minute = quick.minute.connections;
    assert!((31_500.0..32_000.0).contains(&minute), "{minute}");
    let slow = made(|demand| demand.storm.absorb_s = 3_600);
    assert!(slow.minute.connections < 1_000.0, "{:?}", slow.minute);
    assert!(slow.cores <= quick.cores);
}

#[test]
fn after_a_restart_every_look_up_is_one() {
    let plan = |cached: f64| {
        made(|demand| {
            demand.authentication.users = Users::Database;
            demand.authentication.cached = cached;
            demand.subscribers.count = 1_000_000;
        })
    };
    let (cached, uncached) = (plan(0.95), plan(0.0));
    let database = cached.database.unwrap();
    // 630,000 within 120 s, and what happens anyway: what the cache held before is gone.
    assert!(database.return_lookups_per_s > 5_250.0, "{database:?}");
    assert_eq!(
        database.return_lookups_per_s,
        uncached.database.unwrap().return_lookups_per_s
    );
    assert_eq!(cached.return_cores, uncached.return_cores);
    assert!(database.lookups_per_s < uncached.database.unwrap().lookups_per_s * 0.06);
    // One page has one figure.
    let of_minute = cached.minute.lookups / 60.0;
    assert!((of_minute / database.return_lookups_per_s - 1.0).abs() < 1e-9);
    // The return decides, and a cache makes it no cheaper.
    assert_eq!(uncached.decided_by, Decides::Return);
    let claims = |saving: &Saving| saving.change.starts_with("look-ups that the cache answers");
    assert!(
        !uncached.savings.iter().any(claims),
        "{:?}",
        uncached.savings
    );
}

#[test]
fn what_the_cache_answers_needs_a_price_though_the_storm_has_none_of_it() {
    let mut without = profile();
    without.fit.prices.remove(&Event::VerifyCached);
    let demand = demand(|demand| {
        demand.authentication.users = Users::Database;
        demand.authentication.cached = 1.0;
    });
    let refusal = plan(&without, &demand, true).unwrap_err().to_string();
    assert!(refusal.contains("look-ups in the cache"), "{refusal}");
}

#[test]
fn every_worker_has_the_error_of_base_and_wake_ups() {
    let high = |base_error_cores: f64, wake_error_us: f64| {
        let mut profile = profile();
        profile.fit.base_error_cores = base_error_cores;
        profile.fit.wake_error_us = wake_error_us;
        let demand = demand(|demand| demand.machines.cores = 64);
        let plan = plan(&profile, &demand, true).unwrap();
        (plan.busy_cores.value, plan.busy_cores.high)
    };
    let (sure, unsure_of_base, unsure_of_wake_ups) =
        (high(0.0, 0.0), high(0.05, 0.0), high(0.0, 300.0));
    assert!(
        unsure_of_base.1 > sure.1 * 1.2,
        "{sure:?} {unsure_of_base:?}"
    );
    assert!(
        unsure_of_wake_ups.1 > sure.1 * 1.2,
        "{sure:?} {unsure_of_wake_ups:?}"
    );
}

#[test]
fn all_are_back_sooner_on_more_cores() {
    let back = |load_max: f64| {
        made(|demand| {
            demand.machines.load_max = load_max;
            demand.storm.absorb_s = 30;
            demand.subscribers.count = 500_000;
        })
        .minute
        .all_back_s
    };
    assert!(back(0.9) < 30.0, "{}", back(0.9));
    assert!(back(0.3) < back(0.9));
}

#[test]
fn what_was_never_measured_is_refused() {
    let mut without = profile();
    without.fit.prices.remove(&Event::VerifyRemote);
    without.missing.push("mariadbd is not installed".to_owned());
    let database = demand(|demand| demand.authentication.users = Users::Database);
    let refusal = plan(&without, &database, true).unwrap_err().to_string();
    assert!(
        refusal.contains("digests and look-ups in the database"),
        "{refusal}"
    );
    assert!(refusal.contains("mariadbd is not installed"), "{refusal}");
    let own = demand(|_| {});
    assert!(plan(&without, &own, true).is_ok());
    let absurd = demand(|demand| {
        demand.calls.busy_hour = 10_000_000_000;
        demand.machines.load_max = 0.05;
        demand.authentication.challenged = 1.0;
        demand.tls.key = Key::Rsa2048;
        demand.connections.lifetime_s = 1;
        demand.subscribers.count = 1_000_000_000;
        demand.storm.absorb_s = 1;
    });
    let refusal = plan(&profile(), &absurd, true).unwrap_err().to_string();
    assert!(refusal.contains("more than 1000000 cores"), "{refusal}");
}

#[test]
fn beyond_the_calibration_intervals_are_wider_and_say_why() {
    let relative = |plan: &Plan| plan.busy_cores.high / plan.busy_cores.value;
    let near = made(|demand| {
        demand.machines.cores = 1;
        demand.machines.load_max = 0.4;
        demand.subscribers.count = 4_000;
    });
    assert!(near.widened.is_empty(), "{:?}", near.widened);
    let far = plan(
        &profile(),
        &demand(|demand| {
            demand.machines.cores = 32;
            demand.subscribers.count = 4_000_000;
            demand.authentication.users = Users::Database;
            demand.authentication.rtt_ms = 80.0;
        }),
        false,
    )
    .unwrap();
    assert_eq!(far.widened.len(), 5, "{:?}", far.widened);
    assert!(relative(&far) > relative(&near) + 0.2);
    let mut hasty = profile();
    hasty.is_quick = true;
    hasty.later = None;
    let hasty = plan(&hasty, &near.demand, true).unwrap();
    assert_eq!(hasty.widened.len(), 2, "{:?}", hasty.widened);
    assert!(relative(&hasty) > relative(&near));
}

#[test]
fn prices_of_hardly_more_runs_than_they_are_widen_what_they_make() {
    let mut few = profile();
    few.runs.truncate(20);
    let demand = demand(|_| {});
    let [sure, unsure] = [profile(), few].map(|profile| plan(&profile, &demand, true).unwrap());
    assert!(unsure.busy_cores.high > sure.busy_cores.high);
    let why = "hardly more runs count than there are prices";
    assert!(unsure.widened.iter().any(|one| one.why.starts_with(why)));
    assert!(!sure.widened.iter().any(|one| one.why.starts_with(why)));
}

#[test]
fn what_predictions_were_off_by_is_in_the_interval() {
    let mut checked = profile();
    checked.checked = Some(crate::profile::Checked {
        cases: 20,
        mean: 0.2,
        root_mean_square: 0.25,
        worst: 0.5,
        cores_min: 0.06,
        cores_max: 0.3,
    });
    let after = plan(&checked, &demand(|_| {}), true).unwrap();
    let before = made(|_| {});
    assert!(after.busy_cores.high > before.busy_cores.high * 1.2);
    assert_eq!(after.from.checked, checked.checked);
}

#[test]
fn a_change_saves_what_the_plan_with_it_has_less() {
    let plan = made(|demand| {
        demand.tls.key = Key::Rsa2048;
        demand.subscribers.count = 2_000_000;
    });
    let saving = |name: &str| {
        let found = plan.savings.iter().find(|one| one.change.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name} in {:#?}", plan.savings))
    };
    let resumption = saving("resumption after a restart from 60% to 95%");
    assert!(resumption.cores > 0.0 && !resumption.gives_up);
    assert!(
        resumption.told().contains("cores fewer"),
        "{}",
        resumption.told()
    );
    assert!(saving("UDP in the place of TLS").gives_up);
    assert!(saving("no authentication").cores > 0.0);
    let changed = made(|demand| {
        demand.tls.key = Key::P256;
        demand.subscribers.count = 2_000_000;
    });
    let machines = i64::try_from(plan.machines - changed.machines).unwrap();
    assert_eq!(saving("a P-256 certificate").machines, machines);
    assert!(plan.savings.is_sorted_by(|a, b| a.cores >= b.cores));
}

#[test]
fn a_plan_is_written_and_read() {
    let plan = made(|demand| demand.authentication.users = Users::Database);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    assert_eq!((plan.format.as_str(), plan.version), (FORMAT, VERSION));
}
