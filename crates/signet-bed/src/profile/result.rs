//! A profile as a value: what was found of each process, and what speaks against it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Component;

/// The name in every profile's JSON.
pub const PROFILE_FORMAT: &str = "signet-bed-profile";
/// The form of a profile; within one, fields are only added.
pub const PROFILE_VERSION: u32 = 1;

/// Further from the CPU time that was used than this the samples are doubted.
const SAMPLED_OFF_MAX: f64 = 0.05;
/// And further than this they are of something else.
const SAMPLED_VOID: f64 = 0.2;
/// With fewer samples than this a share is told with its interval.
const SAMPLES_MIN: u64 = 1_000;
/// Less CPU time than this is not held against the samples: each thread's last one is
/// always missing.
const CPU_MIN_NS: u64 = 100_000_000;
/// Above this share, samples of processes that are in no list are told.
const STRAYS_MAX: f64 = 0.01;

/// More of a core than this taken by the machine's host is told.
const STOLEN_MAX: f64 = 0.01;

/// Where a profile comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Samples by `perf`.
    Perf,
    /// The kernel's figures of each thread, by the threads' names.
    Accounting,
}

/// What processes spent their CPU time on, in one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`PROFILE_FORMAT`].
    pub format: String,
    /// [`PROFILE_VERSION`].
    pub version: u32,
    /// Where it comes from.
    pub source: Source,
    /// Why it does not come from `perf`, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_perf: Option<String>,
    /// How long it looked.
    pub window_ns: u64,
    /// Samples a second of CPU time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_hz: Option<u32>,
    /// Calls, or registrations, that ended well in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<f64>,
    /// The processes, in the order in which they were asked for.
    pub processes: Vec<ProcessProfile>,
    /// What speaks against it, in sentences.
    pub doubts: Vec<String>,
}

/// What one process, with its descendants, spent its CPU time on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessProfile {
    /// The name that it was given: `server`, `database`.
    pub name: String,
    /// The program that it runs, by which rules are chosen.
    pub system: String,
    /// CPU time that it used in the window, by the kernel's clock for the process: threads
    /// that ended meanwhile are in it.
    pub cpu_ns: u64,
    /// CPU time that its samples stand for; 0 without samples.
    pub sampled_ns: u64,
    /// How many there are.
    pub samples: u64,
    /// CPU time of each component; their sum is `cpu_ns`.
    pub components: BTreeMap<Component, u64>,
    /// What else a component's time holds, where threads and not functions tell them apart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub holds: BTreeMap<Component, Vec<Component>>,
    /// CPU time of each thread's name; their sum is `cpu_ns`.
    pub threads: BTreeMap<String, u64>,
    /// The share of samples without a symbol of their own, 0 to 1. Rules place them by image,
    /// thread and nearest exported function.
    pub unknown_share: f64,
    /// The same by image, the largest share of the process first.
    pub images: Vec<ImageShare>,
    /// The functions with the most samples, the most first.
    pub symbols: Vec<SymbolShare>,
}

/// The samples in one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageShare {
    /// The file's name.
    pub image: String,
    /// Its share of the process's samples, 0 to 1.
    pub share: f64,
    /// The share of its own samples that have no symbol of their own, 0 to 1.
    pub unknown_share: f64,
}

/// The samples in one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SymbolShare {
    /// The file's name.
    pub image: String,
    /// The function, or `~NAME` for what lies behind that exported function.
    pub symbol: String,
    /// What it counts as.
    pub component: Component,
    /// Its share of the process's samples, 0 to 1.
    pub share: f64,
}

impl Profile {
    /// The process of that name.
    #[must_use]
    pub fn process(&self, name: &str) -> Option<&ProcessProfile> {
        self.processes.iter().find(|process| process.name == name)
    }

    /// Says how many calls ended well in the window.
    #[must_use]
    pub fn with_calls(mut self, calls: f64) -> Self {
        self.calls = Some(calls).filter(|calls| calls.is_finite() && *calls > 0.0);
        self
    }

    /// Says how many calls ended well a second.
    #[must_use]
    pub fn with_calls_per_s(self, calls_per_s: f64) -> Self {
        let calls = calls_per_s * self.window_ns as f64 / 1e9;
        self.with_calls(calls)
    }

    /// Why no component of it counts: `perf` has no samples of a process that did something, or
    /// they stand for other CPU time than it used.
    #[must_use]
    pub fn void(&self) -> Option<String> {
        if self.source != Source::Perf {
            return None;
        }
        self.processes.iter().find_map(ProcessProfile::void)
    }

    /// CPU time for each call in microseconds; none where nobody said how many calls there
    /// were.
    #[must_use]
    pub fn us_per_call(&self, cpu_ns: u64) -> Option<f64> {
        self.calls.map(|calls| cpu_ns as f64 / 1_000.0 / calls)
    }
}

impl ProcessProfile {
    /// CPU time of one component.
    #[must_use]
    pub fn component_ns(&self, component: Component) -> u64 {
        self.components.get(&component).copied().unwrap_or(0)
    }

    /// What part of its CPU time that is, 0 to 1.
    #[must_use]
    pub fn share(&self, component: Component) -> f64 {
        ratio(self.component_ns(component), self.cpu_ns)
    }

    /// CPU time that samples stand for, over that which was used; none without either.
    #[must_use]
    pub fn sampled_ratio(&self) -> Option<f64> {
        (self.cpu_ns > 0 && self.samples > 0).then(|| ratio(self.sampled_ns, self.cpu_ns))
    }

    /// Why its samples are those of nothing.
    fn void(&self) -> Option<String> {
        let name = &self.name;
        if self.cpu_ns < CPU_MIN_NS {
            // Its shares are of little, and so is what they can be off by.
            return None;
        }
        let Some(ratio) = self.sampled_ratio() else {
            return Some(format!("perf has no samples of {name}"));
        };
        ((ratio - 1.0).abs() > SAMPLED_VOID).then(|| {
            format!(
                "samples of {name} stand for {:.1} % of the CPU time that it used",
                ratio * 100.0
            )
        })
    }

    /// What speaks against its samples.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let name = &self.name;
        if self.cpu_ns < CPU_MIN_NS {
            return vec![format!(
                "{name} used {:.1} ms of CPU, which is too little for shares",
                self.cpu_ns as f64 / 1e6
            )];
        }
        let mut doubts = Vec::new();
        match self.sampled_ratio() {
            None => doubts.push(format!("{name} has no samples; all of its time is 'other'")),
            Some(ratio) if (ratio - 1.0).abs() > SAMPLED_OFF_MAX => doubts.push(format!(
                "samples of {name} stand for {:.1} % of the CPU time that it used",
                ratio * 100.0
            )),
            Some(_) => {}
        }
        if (1..SAMPLES_MIN).contains(&self.samples) {
            // Twice the standard error of a half.
            let points = 100.0 / (self.samples as f64).sqrt();
            doubts.push(format!(
                "{name} has {} samples, so that a share may be off by {points:.1} points",
                self.samples
            ));
        }
        doubts
    }
}

/// What of the samples is of processes that are in no list.
pub(crate) fn stray_doubt(strays_ns: u64, sampled_ns: u64) -> Option<String> {
    let share = ratio(strays_ns, strays_ns.saturating_add(sampled_ns));
    (share > STRAYS_MAX).then(|| {
        format!(
            "{:.1} % of the samples are of processes that had ended before anybody knew whose they were",
            share * 100.0
        )
    })
}

/// What the machine's host took: samples go by the clock on the wall and count it, the
/// kernel's time for a process does not.
pub(crate) fn stolen_doubt(stolen_ns: u64, window_ns: u64) -> Option<String> {
    let share = ratio(stolen_ns, window_ns);
    (share > STOLEN_MAX).then(|| {
        format!(
            "the host of this machine took {:.1} % of a core meanwhile, which samples count and the CPU time does not",
            share * 100.0
        )
    })
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Gives each its part of `total` by weight; the parts are whole and their sum is `total`,
/// unless there is no weight at all: then all parts are 0.
pub(crate) fn share_out(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let mut parts = Vec::with_capacity(weights.len());
    let mut rests = Vec::with_capacity(weights.len());
    let mut given = 0_u64;
    for (place, &weight) in weights.iter().enumerate() {
        let product = u128::from(total) * u128::from(weight);
        // At most `total`, since no weight is above the sum.
        let part = (product / sum) as u64;
        given += part;
        parts.push(part);
        rests.push((product % sum, place));
    }
    // What rounding left goes to those who lost the most by it, one each.
    rests.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let left = (total - given) as usize;
    for (_, place) in rests.into_iter().take(left) {
        if let Some(part) = parts.get_mut(place) {
            *part += 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn process(cpu_ns: u64, sampled_ns: u64, samples: u64) -> ProcessProfile {
        ProcessProfile {
            name: "server".to_owned(),
            system: "signet".to_owned(),
            cpu_ns,
            sampled_ns,
            samples,
            components: BTreeMap::from([(Component::Kernel, cpu_ns)]),
            holds: BTreeMap::new(),
            threads: BTreeMap::new(),
            unknown_share: 0.0,
            images: Vec::new(),
            symbols: Vec::new(),
        }
    }

    #[test]
    fn what_rounding_leaves_goes_to_those_who_lost() {
        assert_eq!(share_out(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(share_out(7, &[0, 0]), [0, 0]);
        assert_eq!(share_out(100, &[1, 0, 999]), [0, 0, 100]);
        assert_eq!(
            share_out(u64::MAX, &[u64::MAX, u64::MAX])
                .iter()
                .sum::<u64>(),
            u64::MAX
        );
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole(
            total in any::<u64>(),
            weights in prop::collection::vec(any::<u64>(), 1..40),
        ) {
            let parts = share_out(total, &weights);
            let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
            let has_weight = weights.iter().any(|&weight| weight > 0);
            prop_assert_eq!(sum, if has_weight { u128::from(total) } else { 0 });
            let whole: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            for (part, weight) in parts.iter().zip(&weights) {
                let floor = u128::from(total) * u128::from(*weight) / whole.max(1);
                prop_assert!((floor..=floor + 1).contains(&u128::from(*part)));
            }
        }
    }

    #[test]
    fn samples_are_held_against_the_time_used() {
        let none: [&str; 0] = [];
        assert_eq!(process(2_000_000_000, 1_950_000_000, 1_950).doubts(), none);
        let doubts = process(2_000_000_000, 1_800_000_000, 1_800).doubts();
        assert_eq!(doubts.len(), 1);
        assert!(doubts[0].contains("90.0 %"), "{doubts:?}");
        let doubts = process(400_000_000, 400_000_000, 400).doubts();
        assert!(doubts[0].contains("5.0 points"), "{doubts:?}");
        assert_eq!(process(1_000, 0, 0).doubts().len(), 1);
        assert_eq!(process(1_000_000_000, 0, 0).doubts().len(), 1);
        // Samples of something else, or none, are no profile.
        assert_eq!(process(2_000_000_000, 1_700_000_000, 1_700).void(), None);
        assert!(
            process(2_000_000_000, 1_500_000_000, 1_500)
                .void()
                .is_some()
        );
        assert!(
            process(2_000_000_000, 2_500_000_000, 2_500)
                .void()
                .is_some()
        );
        assert!(process(1_000_000_000, 0, 0).void().is_some());
        assert_eq!(process(1_000, 0, 0).void(), None);
        assert_eq!(stray_doubt(1, 1_000), None);
        assert!(stray_doubt(20, 980).is_some());
        assert_eq!(stolen_doubt(1, 1_000), None);
        assert!(stolen_doubt(20, 1_000).is_some());
    }

    #[test]
    fn json_comes_back_as_it_went() {
        let profile = Profile {
            format: PROFILE_FORMAT.to_owned(),
            version: PROFILE_VERSION,
            source: Source::Perf,
            why_not_perf: None,
            window_ns: 2_000_000_000,
            frequency_hz: Some(999),
            calls: None,
            processes: vec![process(50_000_000, 49_000_000, 49)],
            doubts: Vec::new(),
        }
        .with_calls_per_s(500.0);
        assert_eq!(profile.us_per_call(50_000_000), Some(50.0));
        let text = serde_json::to_string(&profile).unwrap();
        assert!(
            text.contains("\"components\":{\"kernel\":50000000}"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
    }
}
