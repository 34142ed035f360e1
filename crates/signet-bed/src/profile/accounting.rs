//! A profile without samples: the kernel's figures of each thread, by the threads' names.
//!
//! The kernel tells how long each thread ran, to the nanosecond, and how much of that it was
//! in the kernel, by its own samples. Where the rest went is told by the thread's name alone:
//! a worker reads SIP and encrypts on one thread, so that its time is one component, which
//! says what else it holds.

use std::collections::BTreeMap;

use super::cpu::Family;
use super::result::{ProcessProfile, share_out};
use super::rules::Rules;
use super::{Component, Target};

/// The thread's name for what ended before anybody could ask.
const ENDED: &str = "(ended)";

/// What a process spent its time on between two readings; `None` where it has ended.
pub(crate) fn profile(
    rules: &Rules,
    target: &Target,
    before: &Family,
    after: &Family,
) -> Option<ProcessProfile> {
    let cpu_ns = after.used_ns(before)?;
    let mut components = [0_u64; Component::COUNT];
    let mut threads: BTreeMap<String, u64> = BTreeMap::new();
    let mut holds: BTreeMap<Component, Vec<Component>> = BTreeMap::new();
    let mut add = |component: Component, thread: &str, ns: u64| {
        if let Some(sum) = components.get_mut(component.place()) {
            *sum += ns;
        }
        *threads.entry(thread.to_owned()).or_default() += ns;
    };
    let mut seen_ns = 0_u64;
    for (id, now) in &after.threads {
        let then = before.threads.get(id).cloned().unwrap_or_default();
        // A number that is used anew begins at nothing.
        let since = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        let run_ns = since(now.run_ns, then.run_ns);
        let kernel_ticks = since(now.kernel_ticks, then.kernel_ticks);
        let user_ticks = since(now.user_ticks, then.user_ticks);
        if run_ns == 0 {
            continue;
        }
        // Too short for a tick: as it was over the thread's life.
        let (kernel, user) = if kernel_ticks + user_ticks > 0 {
            (kernel_ticks, user_ticks)
        } else {
            (now.kernel_ticks, now.user_ticks.max(1))
        };
        let parts = share_out(run_ns, &[kernel, user]);
        let [kernel_ns, user_ns] = parts.as_slice() else {
            continue;
        };
        let account = rules.account(&target.system, &now.name);
        add(Component::Kernel, &now.name, *kernel_ns);
        add(account.component, &now.name, *user_ns);
        seen_ns += run_ns;
        let held = holds.entry(account.component).or_default();
        held.extend(account.holds);
        held.sort_unstable();
        held.dedup();
    }
    let ended_ns = cpu_ns.saturating_sub(seen_ns);
    if ended_ns > 0 {
        add(Component::Other, ENDED, ended_ns);
    }
    holds.retain(|_, held| !held.is_empty());
    let thread_weights: Vec<u64> = threads.values().copied().collect();
    Some(ProcessProfile {
        name: target.name.clone(),
        system: target.system.clone(),
        cpu_ns,
        sampled_ns: 0,
        samples: 0,
        components: Component::ALL
            .into_iter()
            .zip(share_out(cpu_ns, &components))
            .filter(|(_, part)| *part > 0)
            .collect(),
        holds,
        threads: threads
            .into_keys()
            .zip(share_out(cpu_ns, &thread_weights))
            .filter(|(_, part)| *part > 0)
            .collect(),
        unknown_share: 0.0,
        images: Vec::new(),
        symbols: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::cpu::{Member, Thread};
    use super::*;
    use proptest::prelude::*;

    fn family(cpu_ns: u64, threads: &[(u32, &str, u64, u64, u64)]) -> Family {
        let member = Member {
            begun_ticks: 1,
            cpu_ns,
            waited_ns: 0,
        };
        Family {
            root: 7,
            members: BTreeMap::from([(7, member)]),
            threads: threads
                .iter()
                .map(|&(tid, name, run_ns, user_ticks, kernel_ticks)| {
                    let thread = Thread {
                        name: name.to_owned(),
                        run_ns,
                        user_ticks,
                        kernel_ticks,
                    };
                    ((7, tid), thread)
                })
                .collect(),
        }
    }

    fn target() -> Target {
        Target {
            name: "server".to_owned(),
            system: "signet".to_owned(),
            pid: 7,
        }
    }

    #[test]
    fn threads_are_components() {
        let before = family(1_000, &[(1, "worker-0", 1_000, 5, 5)]);
        let after = family(
            11_000,
            &[
                (1, "worker-0", 5_000, 8, 6),
                (2, "handshake-0", 3_000, 9, 1),
                (3, "store-read", 2_000, 1, 0),
                (4, "idle", 0, 0, 0),
            ],
        );
        let profile = profile(&Rules::default(), &target(), &before, &after).unwrap();
        assert_eq!(profile.cpu_ns, 10_000);
        let expected = BTreeMap::from([
            (Component::Kernel, 1_000 + 300),
            (Component::SipCore, 3_000),
            (Component::PublicKey, 2_700),
            (Component::DatabaseClient, 2_000),
            (Component::Other, 1_000),
        ]);
        assert_eq!(profile.components, expected);
        assert_eq!(profile.threads["worker-0"], 4_000);
        assert_eq!(profile.threads[ENDED], 1_000);
        assert!(!profile.threads.contains_key("idle"));
        assert!(profile.holds[&Component::SipCore].contains(&Component::TlsProtocol));
        assert!(!profile.holds.contains_key(&Component::Other));
    }

    #[test]
    fn a_process_that_ended_has_no_figures() {
        let before = family(1_000, &[]);
        let after = Family {
            root: 7,
            ..Family::default()
        };
        assert_eq!(profile(&Rules::default(), &target(), &before, &after), None);
    }

    proptest! {
        #[test]
        fn components_sum_to_the_time_used(
            cpu_ns in 0..1_u64 << 50,
            threads in prop::collection::vec(
                (0..1_u64 << 40, 0..1_u64 << 20, 0..1_u64 << 20, 0..4_usize),
                0..20,
            ),
        ) {
            let names = ["worker-0", "handshake-1", "dns", "\u{e4} b"];
            let rows: Vec<_> = threads
                .iter()
                .enumerate()
                .map(|(id, &(run, user, kernel, name))| (id as u32, names[name], run, user, kernel))
                .collect();
            let after = family(cpu_ns, &rows);
            let profile = profile(&Rules::default(), &target(), &family(0, &[]), &after).unwrap();
            prop_assert_eq!(profile.components.values().sum::<u64>(), cpu_ns);
            prop_assert_eq!(profile.threads.values().sum::<u64>(), cpu_ns);
        }
    }
}
