//! What is measured, and in which order: drawn from the seed, and the same whenever it is.

use crate::experiment::{Case, Load};

/// One measurement: a case, a system, a load, and which time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Which time, from 0.
    pub round: u32,
    /// Index of the case.
    pub case: usize,
    /// Index of the system.
    pub system: usize,
    /// Index of the load in the case's.
    pub load: usize,
}

impl Step {
    /// Whether it is still to be made, where its case, system and load were measured so often:
    /// each round measures them once, one after the other.
    pub const fn is_left(self, measured: usize) -> bool {
        measured <= self.round as usize
    }
}

/// How often each kind of load is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// Rates that are held.
    pub rates: u32,
    /// Peaks, and rates that only let one be expected.
    pub peaks: u32,
    /// Those of the rates in which CPU time is taken apart, the first ones.
    pub profiles: u32,
}

impl Repeats {
    /// Of one load.
    pub const fn of(self, load: &Load) -> u32 {
        match load {
            Load::Peak { .. }
            | Load::Rate {
                for_check: true, ..
            } => self.peaks,
            Load::Rate { .. } => self.rates,
        }
    }

    /// Whether CPU time is taken apart in this round of a load.
    pub const fn is_taken_apart(self, load: &Load, round: u32) -> bool {
        matches!(load, Load::Rate { profile: true, .. }) && round < self.profiles
    }
}

/// Every measurement, in the order in which they are made.
///
/// Each round has the cases in an order of its own, so that a change of the machine's speed
/// meets all of them alike; within a case the systems take turns load by load, each time in
/// an order of its own, so that what is held beside each other was measured within a minute.
pub fn steps(cases: &[Case], systems: usize, repeats: Repeats, seed: u64) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = Vec::new();
    for round in 0..repeats.rates.max(repeats.peaks) {
        let mut places: Vec<usize> = (0..cases.len()).collect();
        random.shuffle(&mut places);
        for place in places {
            let loads = cases.get(place).map_or(&[][..], |case| &case.loads);
            for (load, what) in loads.iter().enumerate() {
                // Drawn for every round, so that a load with fewer repeats moves no other.
                let mut turns: Vec<usize> = (0..systems).collect();
                random.shuffle(&mut turns);
                if round < repeats.of(what) {
                    all.extend(turns.into_iter().map(|system| Step {
                        round,
                        case: place,
                        system,
                        load,
                    }));
                }
            }
        }
    }
    all
}

/// Whether a name is of a pattern, in which `*` is any text and `?` any character.
pub fn is_of(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    // Which beginnings of the name the pattern so far is of.
    let name: Vec<char> = name.chars().collect();
    let mut fits = vec![false; name.len() + 1];
    if let Some(first) = fits.first_mut() {
        *first = true;
    }
    for wanted in pattern {
        let mut next = vec![false; name.len() + 1];
        let mut is_any = false;
        for (at, place) in next.iter_mut().enumerate() {
            is_any |= fits.get(at).copied().unwrap_or(false);
            let before = at.checked_sub(1);
            let was = before.and_then(|at| fits.get(at)).copied().unwrap_or(false);
            let letter = before.and_then(|at| name.get(at)).copied();
            *place = match wanted {
                '*' => is_any,
                '?' => was && letter.is_some(),
                _ => was && letter == Some(wanted),
            };
        }
        fits = next;
    }
    fits.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiment::Setting;

    fn case(id: &str) -> Case {
        let rate = |per_s| Load::Rate {
            per_s,
            profile: false,
            for_check: false,
        };
        let peak = Load::Peak {
            failures_max: 0.01,
            guess_per_s: 1_000.0,
        };
        Case {
            id: id.to_owned(),
            labels: BTreeMap::new(),
            setting: Setting::default(),
            loads: vec![peak, rate(100.0), rate(200.0)],
            below: Vec::new(),
        }
    }

    const REPEATS: Repeats = Repeats {
        rates: 3,
        peaks: 2,
        profiles: 1,
    };

    #[test]
    fn each_load_of_each_case_and_system_comes_as_often_as_it_is_to() {
        let cases = ["a", "b", "c", "d"].map(case);
        let mut found = steps(&cases, 2, REPEATS, 7);
        let mut expected = Vec::new();
        for round in 0..3 {
            for case in 0..4 {
                for system in 0..2 {
                    for load in 0..3 {
                        if round < if load == 0 { 2 } else { 3 } {
                            expected.push(Step {
                                round,
                                case,
                                system,
                                load,
                            });
                        }
                    }
                }
            }
        }
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_order_is_of_the_seed_and_rounds_have_their_own() {
        let cases: Vec<Case> = (0..12).map(|n| case(&n.to_string())).collect();
        let order = |seed| steps(&cases, 2, REPEATS, seed);
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let of_round = |round| {
            let mut seen: Vec<usize> = Vec::new();
            for step in order(1).iter().filter(|step| step.round == round) {
                if seen.last() != Some(&step.case) {
                    seen.push(step.case);
                }
            }
            seen
        };
        assert_eq!(of_round(0).len(), 12, "a case stays together");
        assert_ne!(of_round(0), of_round(1));
        assert_ne!(of_round(0), (0..12).collect::<Vec<usize>>());
    }

    #[test]
    fn a_run_that_is_cut_off_anywhere_goes_on_to_the_same_set_in_the_same_order() {
        let cases = ["a", "b", "c"].map(case);
        let all = steps(&cases, 2, REPEATS, 5);
        for cut in 0..=all.len() {
            let (done, rest) = all.split_at(cut);
            let measured = |step: Step| {
                let same = |other: &&Step| {
                    (other.case, other.system, other.load) == (step.case, step.system, step.load)
                };
                done.iter().filter(same).count()
            };
            let left: Vec<Step> = steps(&cases, 2, REPEATS, 5)
                .into_iter()
                .filter(|step| step.is_left(measured(*step)))
                .collect();
            assert_eq!(left, rest, "cut after {cut}");
        }
    }

    #[test]
    fn systems_take_turns_at_each_load() {
        let cases = ["a", "b"].map(case);
        for pair in steps(&cases, 2, REPEATS, 3).chunks(2) {
            let [a, b] = pair else {
                panic!("an odd number")
            };
            assert_eq!((a.case, a.load, a.round), (b.case, b.load, b.round));
            assert_ne!(a.system, b.system);
        }
    }

    #[test]
    fn names_are_of_patterns() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "local.udp"),
            ("local.*", "local.udp"),
            ("*.tls*.auth", "local.tls-aes.auth"),
            ("local.?dp", "local.udp"),
            ("a*b*c", "a-b-b-c"),
        ] {
            assert!(is_of(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("local", "local.udp"),
            ("?", ""),
            ("*.tls", "local.udp"),
            ("a*b*c", "a-c-b"),
        ] {
            assert!(!is_of(pattern, name), "{pattern} {name}");
        }
    }
}
