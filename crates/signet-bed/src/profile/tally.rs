//! Samples, counted by process and component.

use std::collections::{BTreeMap, HashMap};

use super::flame::Stacks;
use super::nearest::Nearest;
use super::result::{ImageShare, ProcessProfile, SymbolShare, ratio, share_out};
use super::rules::{Origin, Rules};
use super::sample::{Sample, UNKNOWN};
use super::{Component, Target};

const THREADS_MAX: usize = 1_024;
const IMAGES_MAX: usize = 4_096;
const SYMBOLS_MAX: usize = 65_536;
const SYMBOLS_TOLD: usize = 100;
/// What is past a bound counts under this name.
const REST: &str = "(others)";

/// Counts of some processes.
pub(crate) struct Tally<'a> {
    rules: &'a Rules,
    nearest: Nearest,
    /// Which process a pid counts for.
    owners: HashMap<u32, usize>,
    counts: Vec<Counts>,
    /// Samples of a process that nobody knows.
    pub(crate) strays_ns: u64,
    pub(crate) stacks: Option<Stacks>,
    known: HashMap<String, Component>,
}

/// Counts of one process. Weights are the CPU time that samples stand for.
struct Counts {
    name: String,
    system: String,
    samples: u64,
    components: [u64; Component::COUNT],
    threads: BTreeMap<String, u64>,
    images: BTreeMap<String, ImageCounts>,
    symbols: HashMap<(String, String), (Component, u64)>,
}

#[derive(Clone, Copy, Default)]
struct ImageCounts {
    all_ns: u64,
    unknown_ns: u64,
}

impl<'a> Tally<'a> {
    /// For these processes; `owners` says which of them a pid counts for.
    pub(crate) fn new(rules: &'a Rules, targets: &[Target], owners: HashMap<u32, usize>) -> Self {
        let counts = targets.iter().map(|target| Counts {
            name: target.name.clone(),
            system: target.system.clone(),
            samples: 0,
            components: [0; Component::COUNT],
            threads: BTreeMap::new(),
            images: BTreeMap::new(),
            symbols: HashMap::new(),
        });
        Self {
            rules,
            nearest: Nearest::default(),
            owners,
            counts: counts.collect(),
            strays_ns: 0,
            stacks: None,
            known: HashMap::new(),
        }
    }

    /// Counts a sample.
    pub(crate) fn add(&mut self, sample: &Sample) {
        let owner = match (self.owners.get(&sample.pid), self.counts.len()) {
            (Some(&owner), _) => owner,
            // Whom else should it belong to?
            (None, 1) => 0,
            (None, _) => usize::MAX,
        };
        if self.counts.get(owner).is_none() {
            self.strays_ns += sample.period_ns;
            return;
        }
        let (image, symbol, is_unknown) = match sample.leaf() {
            None => (UNKNOWN.to_owned(), UNKNOWN.to_owned(), true),
            Some(leaf) if leaf.symbol == UNKNOWN => {
                let name = self.nearest.name(sample.pid, &leaf.path, leaf.address);
                (leaf.image, name.unwrap_or(leaf.symbol), true)
            }
            Some(leaf) => (leaf.image, leaf.symbol, false),
        };
        let component = self.component(owner, &sample.thread, &image, &symbol);
        if self.stacks.is_some() {
            self.add_stack(owner, sample);
        }
        let Some(counts) = self.counts.get_mut(owner) else {
            return;
        };
        let weight_ns = sample.period_ns;
        counts.samples += 1;
        if let Some(sum) = counts.components.get_mut(component.place()) {
            *sum += weight_ns;
        }
        *bounded(&mut counts.threads, &sample.thread, THREADS_MAX) += weight_ns;
        let of_image = bounded(&mut counts.images, &image, IMAGES_MAX);
        of_image.all_ns += weight_ns;
        of_image.unknown_ns += if is_unknown { weight_ns } else { 0 };
        let key = (image, symbol);
        if counts.symbols.len() < SYMBOLS_MAX || counts.symbols.contains_key(&key) {
            counts.symbols.entry(key).or_insert((component, 0)).1 += weight_ns;
        }
    }

    /// What a place counts as; the same places come again and again.
    fn component(&mut self, owner: usize, thread: &str, image: &str, symbol: &str) -> Component {
        let Some(counts) = self.counts.get(owner) else {
            return Component::Other;
        };
        let key = format!("{owner}\n{thread}\n{image}\n{symbol}");
        if let Some(&component) = self.known.get(&key) {
            return component;
        }
        let component = self.rules.component(&Origin {
            system: &counts.system,
            thread,
            image,
            symbol,
        });
        if self.known.len() < SYMBOLS_MAX {
            self.known.insert(key, component);
        }
        component
    }

    fn add_stack(&mut self, owner: usize, sample: &Sample) {
        let mut named = sample.clone();
        let mut components = Vec::with_capacity(named.frames.len());
        for frame in &mut named.frames {
            if frame.symbol == UNKNOWN
                && let Some(name) = self.nearest.name(sample.pid, &frame.path, frame.address)
            {
                frame.symbol = name;
            }
            components.push(self.component(owner, &sample.thread, &frame.image, &frame.symbol));
        }
        if let (Some(stacks), Some(counts)) = (&mut self.stacks, self.counts.get(owner)) {
            stacks.add(&counts.name, &named, &components);
        }
    }

    /// CPU time that all samples stand for.
    pub(crate) fn sampled_ns(&self) -> u64 {
        self.counts.iter().map(Counts::sampled_ns).sum()
    }

    /// The profiles, scaled to the CPU time that each process used; where that is not known
    /// it is what the samples stand for.
    pub(crate) fn profiles(&self, used_ns: &[Option<u64>]) -> Vec<ProcessProfile> {
        self.counts
            .iter()
            .enumerate()
            .map(|(place, counts)| {
                let used_ns = used_ns.get(place).copied().flatten();
                counts.profile(used_ns.unwrap_or_else(|| counts.sampled_ns()))
            })
            .collect()
    }
}

impl Counts {
    fn sampled_ns(&self) -> u64 {
        self.components.iter().sum()
    }

    fn profile(&self, cpu_ns: u64) -> ProcessProfile {
        let sampled_ns = self.sampled_ns();
        let mut parts = share_out(cpu_ns, &self.components);
        if sampled_ns == 0
            && let Some(other) = parts.get_mut(Component::Other.place())
        {
            *other = cpu_ns;
        }
        let weights: Vec<u64> = self.threads.values().copied().collect();
        let unknown_ns: u64 = self.images.values().map(|image| image.unknown_ns).sum();
        ProcessProfile {
            name: self.name.clone(),
            system: self.system.clone(),
            cpu_ns,
            sampled_ns,
            samples: self.samples,
            components: Component::ALL
                .into_iter()
                .zip(parts)
                .filter(|(_, part)| *part > 0)
                .collect(),
            holds: BTreeMap::new(),
            threads: self
                .threads
                .keys()
                .cloned()
                .zip(share_out(cpu_ns, &weights))
                .collect(),
            unknown_share: ratio(unknown_ns, sampled_ns),
            images: self.image_shares(sampled_ns),
            symbols: self.symbol_shares(sampled_ns),
        }
    }

    fn image_shares(&self, sampled_ns: u64) -> Vec<ImageShare> {
        let mut shares: Vec<ImageShare> = self
            .images
            .iter()
            .map(|(image, counts)| ImageShare {
                image: image.clone(),
                share: ratio(counts.all_ns, sampled_ns),
                unknown_share: ratio(counts.unknown_ns, counts.all_ns),
            })
            .collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        shares
    }

    fn symbol_shares(&self, sampled_ns: u64) -> Vec<SymbolShare> {
        let mut heaviest: Vec<_> = self.symbols.iter().collect();
        // By name too, so that the same samples give the same list.
        heaviest.sort_unstable_by(|a, b| b.1.1.cmp(&a.1.1).then(a.0.cmp(b.0)));
        heaviest
            .into_iter()
            .take(SYMBOLS_TOLD)
            .map(|((image, symbol), (component, weight_ns))| SymbolShare {
                image: image.clone(),
                symbol: symbol.clone(),
                component: *component,
                share: ratio(*weight_ns, sampled_ns),
            })
            .collect()
    }
}

/// The value of a name, or of [`REST`] where there are too many names.
fn bounded<'m, V: Default>(
    map: &'m mut BTreeMap<String, V>,
    name: &str,
    names_max: usize,
) -> &'m mut V {
    let has_room = map.len() < names_max || map.contains_key(name);
    map.entry(if has_room { name } else { REST }.to_owned())
        .or_default()
}

#[cfg(test)]
mod tests;
