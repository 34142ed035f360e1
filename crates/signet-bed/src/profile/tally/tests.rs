use super::super::sample::Samples;
use super::*;
use proptest::prelude::*;

/// Samples of a server under calls over TLS and of a Kamailio, as `perf script` wrote them.
const RECORDED: &str = include_str!("recorded.txt");

fn target(name: &str, system: &str, pid: u32) -> Target {
    Target {
        name: name.to_owned(),
        system: system.to_owned(),
        pid,
    }
}

fn sample(pid: u32, thread: &str, symbol: &str, period_ns: u64) -> Sample {
    let text = format!("{thread}  {pid}/{pid}  1.0: {period_ns} \n\t 10 {symbol} (/x/signet)\n");
    Samples::new(text.as_bytes()).next().unwrap().unwrap()
}

#[test]
fn samples_go_to_their_process_and_strays_are_told() {
    let rules = Rules::default();
    let targets = [target("a", "signet", 1), target("b", "mariadbd", 2)];
    let owners = HashMap::from([(1, 0), (2, 1), (20, 1)]);
    let mut tally = Tally::new(&rules, &targets, owners);
    tally.add(&sample(1, "worker-0", "sip_engine::f", 10));
    tally.add(&sample(1, "worker-0", UNKNOWN, 30));
    tally.add(&sample(20, "t", "row_search", 5));
    tally.add(&sample(3, "t", "f", 7));
    assert_eq!((tally.strays_ns, tally.sampled_ns()), (7, 45));
    let profiles = tally.profiles(&[Some(400), None]);
    let [a, b] = profiles.as_slice() else {
        panic!("{profiles:?}");
    };
    assert_eq!(a.components, BTreeMap::from([(Component::SipCore, 400)]));
    assert_eq!((a.samples, a.sampled_ns, a.unknown_share), (2, 40, 0.75));
    assert_eq!(a.images[0].unknown_share, 0.75);
    assert_eq!(a.symbols[0].symbol, UNKNOWN);
    assert_eq!((b.cpu_ns, b.component_ns(Component::Database)), (5, 5));
}

#[test]
fn one_process_has_all_samples() {
    let rules = Rules::default();
    let mut tally = Tally::new(&rules, &[target("a", "signet", 1)], HashMap::new());
    tally.add(&sample(99, "worker-0", "f", 10));
    assert_eq!(tally.strays_ns, 0);
    assert_eq!(
        tally.profiles(&[Some(3)])[0].component_ns(Component::SipCore),
        3
    );
}

#[test]
fn time_without_samples_is_other() {
    let rules = Rules::default();
    let tally = Tally::new(&rules, &[target("a", "signet", 1)], HashMap::new());
    let profile = &tally.profiles(&[Some(500)])[0];
    assert_eq!(
        profile.components,
        BTreeMap::from([(Component::Other, 500)])
    );
}

#[test]
fn names_past_the_bound_count_together() {
    let rules = Rules::default();
    let mut tally = Tally::new(&rules, &[target("a", "signet", 1)], HashMap::new());
    for thread in 0..2_000 {
        tally.add(&sample(1, &format!("t{thread}"), "f", 1));
    }
    let profile = &tally.profiles(&[Some(2_000)])[0];
    assert_eq!(profile.threads.len(), THREADS_MAX + 1);
    assert_eq!(profile.threads[REST], 2_000 - THREADS_MAX as u64);
    assert_eq!(profile.threads.values().sum::<u64>(), 2_000);
}

#[test]
fn recorded_samples_are_what_they_were() {
    let rules = Rules::default();
    let targets = [
        target("server", "signet", 100),
        target("peer", "kamailio", 200),
    ];
    let owners = HashMap::from([(100, 0), (200, 1)]);
    let mut tally = Tally::new(&rules, &targets, owners);
    let mut samples = Samples::new(RECORDED.as_bytes());
    while let Some(sample) = samples.next().unwrap() {
        tally.add(&sample);
    }
    assert_eq!((samples.odd_lines, tally.strays_ns), (0, 0));
    let profiles = tally.profiles(&[None, None]);
    let counted = |profile: &ProcessProfile| -> Vec<(Component, u64)> {
        let each_ns = profile.sampled_ns / profile.samples;
        let components = profile.components.iter();
        components
            .map(|(component, ns)| (*component, ns / each_ns))
            .collect()
    };
    let signet = [
        (Component::Kernel, 6),
        (Component::SipCore, 7),
        (Component::TlsProtocol, 3),
        (Component::PublicKey, 5),
        (Component::Symmetric, 7),
        (Component::MemoryAllocation, 1),
        (Component::Libc, 1),
    ];
    assert_eq!(counted(&profiles[0]), signet, "{:#?}", profiles[0].symbols);
    let kamailio = [
        (Component::Kernel, 6),
        (Component::SipCore, 9),
        (Component::TlsProtocol, 4),
        (Component::Symmetric, 4),
        (Component::MemoryAllocation, 5),
        (Component::Libc, 4),
    ];
    assert_eq!(
        counted(&profiles[1]),
        kamailio,
        "{:#?}",
        profiles[1].symbols
    );
    // One sample each of tls.so, libssl, libcrypto and kamailio has no symbol.
    assert!((profiles[1].unknown_share - 4.0 / 32.0).abs() < 1e-9);
    assert!(profiles[0].unknown_share.abs() < 1e-9);
}

proptest! {
    #[test]
    fn components_sum_to_the_time_used(
        used in any::<u64>(),
        samples in prop::collection::vec((0..6_usize, 1..1_u64 << 40), 1..60),
    ) {
        let symbols = ["sip_engine::f", "_rjem_malloc", "rustls::f", "bn_mul", "sqlite3Step", "memcpy"];
        let rules = Rules::default();
        let mut tally = Tally::new(&rules, &[target("a", "signet", 1)], HashMap::new());
        for (symbol, period_ns) in samples {
            tally.add(&sample(1, "worker-0", symbols[symbol], period_ns));
        }
        let profile = &tally.profiles(&[Some(used)])[0];
        prop_assert_eq!(profile.components.values().map(|&ns| u128::from(ns)).sum::<u128>(), u128::from(used));
        prop_assert_eq!(profile.threads.values().map(|&ns| u128::from(ns)).sum::<u128>(), u128::from(used));
        let share: f64 = profile.symbols.iter().map(|symbol| symbol.share).sum();
        prop_assert!((share - 1.0).abs() < 1e-9);
    }
}
