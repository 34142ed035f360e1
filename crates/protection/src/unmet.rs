//! A policy that nothing satisfies: which requirement to relax, and by how much.

use std::fmt;

use serde::Serialize;

use crate::choice::{Fallen, Miss, Pair};
use crate::level::Aspect;
use crate::policy::Policy;

/// A pair that would be taken if the policy did without what it misses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relaxed {
    /// The pair.
    pub pair: Pair,
    /// What it misses.
    pub misses: Vec<Miss>,
}

/// Nothing satisfies a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unmet {
    /// The policy.
    pub policy: Policy,
    /// For each requirement that would do if it alone were relaxed, the pair for which it
    /// has to be relaxed least. Where none alone would do, the one pair that misses least.
    pub relaxed: Vec<Relaxed>,
    /// Why there is no pair to relax anything for; `None` where there is one.
    pub no_pair: Option<NoPair>,
    /// What is not taken whatever the policy.
    pub fallen: Vec<Fallen>,
}

/// Why nothing goes with anything, whatever the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoPair {
    /// All that both sides have of one kind is below the floor.
    BelowTheFloor,
    /// Of this kind there is none that both sides may use: `cipher suite`.
    NothingOf(&'static str),
    /// Both sides have some of each kind, and none goes with any of the other.
    Apart {
        /// The one kind.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
}

/// Where requirements are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As options: `--max-cost 20us`.
    Options,
    /// As keys: `max_cost_us = 20`.
    Keys,
}

/// The requirements in a fixed order, to find the least relaxation of each.
const REQUIREMENTS: usize = Aspect::ALL.len() + 2;

impl Unmet {
    pub(crate) fn new(
        policy: Policy,
        pairs: Vec<Relaxed>,
        no_pair: Option<NoPair>,
        fallen: Vec<Fallen>,
    ) -> Self {
        let mut alone: [Option<&Relaxed>; REQUIREMENTS] = [None; REQUIREMENTS];
        for pair in &pairs {
            let [miss] = pair.misses.as_slice() else {
                continue;
            };
            if let Some(held) = alone.get_mut(place(miss))
                && held.is_none_or(|held| deficit(pair) < deficit(held))
            {
                *held = Some(pair);
            }
        }
        let mut relaxed: Vec<Relaxed> = alone.into_iter().flatten().cloned().collect();
        if relaxed.is_empty() {
            let nearest = pairs
                .iter()
                .min_by(|a, b| deficit(a).total_cmp(&deficit(b)));
            relaxed.extend(nearest.cloned());
        }
        Self {
            policy,
            relaxed,
            no_pair,
            fallen,
        }
    }

    /// What is wrong, in a sentence without its end.
    pub fn what(&self) -> String {
        match self.no_pair {
            None => format!("nothing satisfies this policy: {}", self.policy),
            Some(NoPair::BelowTheFloor) => {
                "nothing that both sides have is fit to protect anything".to_owned()
            }
            Some(NoPair::NothingOf(what)) => {
                format!("there is no {what} that both sides may use")
            }
            Some(NoPair::Apart { first, second }) => {
                format!("no {first} that both sides may use goes with any {second} of theirs")
            }
        }
    }

    /// What to write instead.
    pub fn remedy(&self, written: Written) -> String {
        let told: Vec<String> = self
            .relaxed
            .iter()
            .map(|relaxed| {
                let misses: Vec<String> = relaxed
                    .misses
                    .iter()
                    .map(|miss| relaxation(miss, written))
                    .collect();
                let name = both(&relaxed.pair);
                format!("{}, and {name} will do", misses.join(" and "))
            })
            .collect();
        if told.is_empty() {
            let remedy = match (written, self.no_pair) {
                (Written::Options, Some(NoPair::Apart { .. })) => {
                    "look for which version each of what the peer offers is, or update it"
                }
                (Written::Options, _) => "look what the peer offers, or update it",
                (Written::Keys, _) => "drop versions, suites or groups, to allow more",
            };
            return remedy.to_owned();
        }
        told.join("; or ")
    }
}

/// A pair's name.
pub(crate) fn both(pair: &Pair) -> String {
    if pair.second.is_empty() {
        pair.first.clone()
    } else {
        format!("{} with {}", pair.first, pair.second)
    }
}

fn place(miss: &Miss) -> usize {
    match miss {
        Miss::Below { aspect, .. } => Aspect::ALL
            .iter()
            .position(|known| known == aspect)
            .unwrap_or(0),
        Miss::TooDear { .. } => Aspect::ALL.len(),
        Miss::NoPrice => Aspect::ALL.len() + 1,
    }
}

/// How far a pair is from the policy: first by how many requirements, then by levels, then
/// by how many times too dear it is.
fn deficit(pair: &Relaxed) -> f64 {
    let of = |miss: &Miss| match miss {
        Miss::Below { level, least, .. } => {
            f64::from(least.number().saturating_sub(level.number()))
        }
        // Of two that miss by as many levels the cheaper is nearer.
        Miss::TooDear { cost_ns, max_ns } => (cost_ns / max_ns.max(1.0)).log2().clamp(0.0, 90.0),
        Miss::NoPrice => 90.0,
    };
    let levels: f64 = pair.misses.iter().map(of).sum();
    let cost = pair.pair.cost_ns.unwrap_or(1e12).clamp(0.0, 1e12) / 1e13;
    pair.misses.len() as f64 * 1_000.0 + levels + cost
}

fn relaxation(miss: &Miss, written: Written) -> String {
    let option = |key: &str| format!("--{}", key.replace('_', "-"));
    match (miss, written) {
        (
            Miss::Below {
                aspect,
                level,
                least,
            },
            Written::Keys,
        ) => {
            format!("lower {} from {least} to {level}", aspect.key())
        }
        (
            Miss::Below {
                aspect,
                level,
                least,
            },
            Written::Options,
        ) => {
            format!("lower {} from {least} to {level}", option(aspect.key()))
        }
        // Rounded up: what is written down must do.
        (Miss::TooDear { cost_ns, max_ns }, Written::Keys) => format!(
            "raise max_cost_us from {:.0} to {:.0}",
            max_ns / 1e3,
            (cost_ns / 1e3).ceil()
        ),
        (Miss::TooDear { cost_ns, max_ns }, Written::Options) => {
            // As it was written, which may be to the nanosecond.
            let digits = if max_ns % 10.0 > 0.0 { 3 } else { 2 };
            format!(
                "raise --max-cost from {:.digits$}us to {:.2}us",
                max_ns / 1e3,
                (cost_ns / 10.0).ceil() / 100.0
            )
        }
        (Miss::NoPrice, Written::Keys) => {
            "name prices of this machine: prices = \"FILE\" of `signet price crypto --json FILE`"
                .to_owned()
        }
        (Miss::NoPrice, Written::Options) => {
            "give prices that have it: --from FILE of `signet price crypto --json FILE`".to_owned()
        }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.what(), self.remedy(Written::Keys))
    }
}
