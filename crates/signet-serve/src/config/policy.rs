//! What policies come to: suites and groups where the operator wrote down what
//! they must be worth and may cost, and not which they are.

use std::fmt::Write as _;

use protection::{
    Aspect, End, Level, Levels, Listed, Miss, Offer, Policy, Prices, TlsChoice, Unmet, Usage,
    Written, choose_tls, suites, time, tls,
};
use sip_tls::{GROUP_NAMES, TlsEngine, TlsVersion};

use super::{Config, Fault, GroupName, SuiteName, Tls, TlsPeer, VersionName};

/// What a policy leaves, the most preferred first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Versions.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites.
    pub suites: Vec<String>,
    /// Key-exchange groups.
    pub groups: Vec<String>,
}

impl Chosen {
    fn new(choice: &TlsChoice) -> Self {
        let versions = choice.versions.iter();
        Self {
            versions: versions
                .filter_map(|name| TlsVersion::by_name(name).ok())
                .collect(),
            suites: choice.choice.first.clone(),
            groups: choice.choice.second.clone(),
        }
    }
}

/// The requirements that these keys state.
pub(super) fn policy(
    min_confidentiality: Option<Level>,
    min_authentication: Option<Level>,
    max_cost_us: Option<u32>,
) -> Policy {
    Policy {
        min_confidentiality,
        min_authentication,
        min_forward_secrecy: None,
        max_cost_ns: max_cost_us.map(|us| f64::from(us) * 1e3),
    }
}

/// Whose suites and groups are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// The listener with this number.
    Listener(usize),
    /// Peers that have no settings of their own.
    AllPeers,
    /// Those with this number.
    Peer(usize),
}

/// A policy and what it comes to.
struct Settled {
    whose: Whose,
    policy: Policy,
    choice: TlsChoice,
}

/// All policies of a configuration.
pub(crate) struct Policies {
    /// Where the prices are from.
    prices: String,
    settled: Vec<Settled>,
}

/// What a policy chooses from.
struct Asked {
    whose: Whose,
    end: End,
    policy: Policy,
    offer: Offer,
}

impl Config {
    /// Works out every policy, for the accessors of suites and groups; gives
    /// what is wrong.
    pub(super) fn settle(&mut self) -> Vec<Fault> {
        let policies = match self.policies() {
            Ok(policies) => policies,
            Err(faults) => return faults,
        };
        for settled in &policies.settled {
            let chosen = Some(Chosen::new(&settled.choice));
            match settled.whose {
                Whose::Listener(nth) => {
                    if let Some(listen) = self.listen.get_mut(nth) {
                        listen.security.chosen = chosen;
                    }
                }
                Whose::AllPeers => self.tls.chosen = chosen,
                Whose::Peer(nth) => {
                    if let Some(peer) = self.tls.peer.get_mut(nth) {
                        peer.chosen = chosen;
                    }
                }
            }
        }
        Vec::new()
    }

    /// What every policy comes to.
    pub(crate) fn policies(&self) -> Result<Policies, Vec<Fault>> {
        let asked = self.asked();
        let mut faults = self.faults_of_legacy_policies();
        if asked.is_empty() {
            return if faults.is_empty() {
                Ok(Policies {
                    prices: String::new(),
                    settled: Vec::new(),
                })
            } else {
                Err(faults)
            };
        }
        let levels = Levels::shipped();
        let prices = match self.prices() {
            Ok(prices) => prices,
            Err(fault) => {
                faults.push(fault);
                return Err(faults);
            }
        };
        let mut settled = Vec::new();
        for Asked {
            whose,
            end,
            policy,
            offer,
        } in asked
        {
            match choose_tls(&policy, &offer, end, Usage::default(), &levels, &prices) {
                Ok(choice) => settled.push(Settled {
                    whose,
                    policy,
                    choice,
                }),
                Err(unmet) => faults.push(fault_of(whose, &unmet)),
            }
        }
        if faults.is_empty() {
            Ok(Policies {
                prices: prices.to_string(),
                settled,
            })
        } else {
            Err(faults)
        }
    }

    fn prices(&self) -> Result<Prices, Fault> {
        let Some(file) = &self.tls.prices else {
            return Ok(Prices::shipped());
        };
        Prices::from_file(file).map_err(|error| {
            let problem = error.problems.into_iter().next();
            let (what, remedy) = problem
                .map(|problem| (problem.what, problem.remedy))
                .unwrap_or_default();
            Fault {
                at: "tls.prices".to_owned(),
                what: format!("{}: {what}", file.display()),
                remedy,
            }
        })
    }

    /// The policies that have something to choose.
    fn asked(&self) -> Vec<Asked> {
        let all = &self.tls;
        let listeners = self.listen.iter().enumerate().map(|(nth, listen)| {
            let security = &listen.security;
            Asked {
                whose: Whose::Listener(nth),
                end: End::Accepts,
                policy: match security.tls_engine() {
                    TlsEngine::Modern => security.policy(),
                    TlsEngine::Legacy => Policy::default(),
                },
                offer: offer(
                    &security.versions,
                    security.suites.as_deref(),
                    security.groups.as_deref(),
                ),
            }
        });
        let of_all = Asked {
            whose: Whose::AllPeers,
            end: End::Connects,
            policy: all.policy(),
            offer: offer(&all.versions, all.suites.as_deref(), all.groups.as_deref()),
        };
        let peers = all.peer.iter().enumerate().map(|(nth, peer)| Asked {
            whose: Whose::Peer(nth),
            end: End::Connects,
            policy: peer.policy(all),
            offer: peer_offer(peer, all),
        });
        let is_open = |listed: &Listed| matches!(listed, Listed::Open(_));
        listeners
            .chain([of_all])
            .chain(peers)
            .filter(|asked| !asked.policy.is_empty())
            .filter(|asked| is_open(&asked.offer.suites) || is_open(&asked.offer.groups))
            .collect()
    }

    fn faults_of_legacy_policies(&self) -> Vec<Fault> {
        let listeners = self.listen.iter().enumerate();
        listeners
            .filter(|(_, listen)| {
                let security = &listen.security;
                security.tls_engine() == TlsEngine::Legacy && !security.policy().is_empty()
            })
            .map(|(nth, _)| Fault {
                at: format!("listen.{nth}.security"),
                what: "no policy chooses the suites of the legacy engine".to_owned(),
                remedy:
                    "drop min_confidentiality, min_authentication and max_cost_us, or the engine"
                        .to_owned(),
            })
            .collect()
    }

    /// Lists that were written down beside a policy that they do not satisfy.
    pub(super) fn warn_of_policies(&self, warnings: &mut Vec<String>) {
        let all = &self.tls;
        let listeners = self.listen.iter().enumerate().map(|(nth, listen)| {
            let security = &listen.security;
            Beside {
                whose: Whose::Listener(nth),
                end: End::Accepts,
                policy: security.policy(),
                suites: written(security.suites.as_deref()),
                groups: written(security.groups.as_deref()),
                in_force: (
                    written(security.suites.as_deref()),
                    written(security.groups.as_deref()),
                ),
            }
        });
        let of_all = Beside {
            whose: Whose::AllPeers,
            end: End::Connects,
            policy: all.policy(),
            suites: written(all.suites.as_deref()),
            groups: written(all.groups.as_deref()),
            in_force: (
                written(all.suites.as_deref()),
                written(all.groups.as_deref()),
            ),
        };
        let peers = all.peer.iter().enumerate().map(|(nth, peer)| {
            let (suites, groups) = lists_of(peer, all);
            Beside {
                whose: Whose::Peer(nth),
                end: End::Connects,
                policy: peer.policy(all),
                suites: written(peer.suites.as_deref()),
                groups: written(peer.groups.as_deref()),
                in_force: (written(suites), written(groups)),
            }
        });
        let beside: Vec<Beside<'_>> = listeners.chain([of_all]).chain(peers).collect();
        let levels = Levels::shipped();
        let is_priced = beside.iter().any(Beside::is_priced);
        let prices = is_priced.then(|| self.prices().ok()).flatten();
        for lists in &beside {
            lists.warn(&levels, prices.as_ref(), warnings);
        }
        let is_asked = |security: &super::ListenSecurity| !security.policy().is_empty();
        let any = self.listen.iter().any(|listen| is_asked(&listen.security))
            || !all.policy().is_empty()
            || all.peer.iter().any(|peer| !peer.own_policy().is_empty());
        if all.prices.is_some() && !any {
            warnings.push(
                "tls.prices: it is not read: nothing says min_confidentiality, min_authentication or max_cost_us"
                    .to_owned(),
            );
        }
    }
}

impl Policies {
    /// What each comes to, for people; empty where there is none.
    pub(crate) fn text(&self, config: &Config) -> String {
        let mut text = String::new();
        if !self.settled.is_empty() {
            let _ = writeln!(text, "policies, by {}", self.prices);
        }
        for settled in &self.settled {
            let whose = match settled.whose {
                Whose::Listener(nth) => match config.listen.get(nth) {
                    Some(listen) => format!("{} {}", key_of(settled.whose), listen.on),
                    None => key_of(settled.whose),
                },
                whose => key_of(whose),
            };
            let choice = &settled.choice.choice;
            let _ = writeln!(text, "{whose}: {}", settled.policy);
            let _ = writeln!(text, "  versions {}", settled.choice.versions.join(", "));
            let _ = writeln!(text, "  suites   {}", choice.first.join(", "));
            let _ = writeln!(text, "  groups   {}", choice.second.join(", "));
            if let Some(best) = choice.pairs.first() {
                let _ = writeln!(text, "  first    {best}");
            }
            for fallen in &choice.fallen {
                let _ = writeln!(text, "  without  {fallen}");
            }
        }
        text
    }
}

fn offer<S: AsRef<str>, G: AsRef<str>>(
    versions: &[VersionName],
    suites: Option<&[S]>,
    groups: Option<&[G]>,
) -> Offer {
    Offer {
        versions: versions.iter().map(|version| version.0.name()).collect(),
        suites: listed(suites, TlsEngine::Modern.suite_names()),
        groups: listed(groups, &GROUP_NAMES),
        peer: None,
    }
}

fn peer_offer(peer: &TlsPeer, all: &Tls) -> Offer {
    let (suites, groups) = lists_of(peer, all);
    let versions = peer.versions.as_ref().unwrap_or(&all.versions);
    offer(versions, suites, groups)
}

/// A peer's own lists; those of all where it has no requirement of its own.
fn lists_of<'c>(
    peer: &'c TlsPeer,
    all: &'c Tls,
) -> (Option<&'c [SuiteName]>, Option<&'c [GroupName]>) {
    let is_own = !peer.own_policy().is_empty();
    let suites = all.suites.as_deref().filter(|_| !is_own);
    let groups = all.groups.as_deref().filter(|_| !is_own);
    (
        peer.suites.as_deref().or(suites),
        peer.groups.as_deref().or(groups),
    )
}

fn listed<N: AsRef<str>>(given: Option<&[N]>, all: &[&str]) -> Listed {
    match given {
        Some(given) => Listed::Given(given.iter().map(|name| name.as_ref().to_owned()).collect()),
        None => Listed::Open(all.iter().map(|name| (*name).to_owned()).collect()),
    }
}

fn fault_of(whose: Whose, unmet: &Unmet) -> Fault {
    let misses = unmet.relaxed.iter().flat_map(|relaxed| &relaxed.misses);
    let key = match misses.into_iter().next() {
        Some(Miss::Below { aspect, .. }) => aspect.key(),
        Some(Miss::TooDear { .. } | Miss::NoPrice) => "max_cost_us",
        None => "versions",
    };
    Fault {
        at: format!("{}.{key}", key_of(whose)),
        what: unmet.what(),
        remedy: unmet.remedy(Written::Keys),
    }
}

fn key_of(whose: Whose) -> String {
    match whose {
        Whose::Listener(nth) => format!("listen.{nth}.security"),
        Whose::AllPeers => "tls".to_owned(),
        Whose::Peer(nth) => format!("tls.peer.{nth}"),
    }
}

/// Lists that were written down, and the policy beside them.
struct Beside<'c> {
    whose: Whose,
    end: End,
    policy: Policy,
    /// Cipher suites; empty where there is no such list.
    suites: Vec<&'c str>,
    /// Key-exchange groups, in the same way.
    groups: Vec<&'c str>,
    /// Suites and groups that go beside these, lists of all peers included.
    in_force: (Vec<&'c str>, Vec<&'c str>),
}

fn written<N: AsRef<str>>(list: Option<&[N]>) -> Vec<&str> {
    let names = list.unwrap_or_default().iter();
    names.map(AsRef::as_ref).collect()
}

impl Beside<'_> {
    /// Whether the policy sets a bound to what these cost.
    fn is_priced(&self) -> bool {
        let is_any = !self.suites.is_empty() || !self.groups.is_empty();
        is_any && self.policy.max_cost_ns.is_some()
    }

    /// Says which of the lists stand although the policy would not have them so.
    fn warn(&self, levels: &Levels, prices: Option<&Prices>, warnings: &mut Vec<String>) {
        let usage = Usage::default();
        let suite_ns = |name: &str| tls::suite_cost_ns(name, usage, prices?);
        let group_ns = |name: &str| tls::group_cost_ns(name, self.end, usage, prices?);
        let (suites_in_force, groups_in_force) = &self.in_force;
        let suite = self.suites.iter().find_map(|&name| {
            let parts = suites::suite_by_name(name)?.parts;
            self.below(levels, parts, name).or_else(|| {
                let group_ns = cheapest(groups_in_force, &GROUP_NAMES, group_ns)?;
                self.too_dear(name, suite_ns(name)? + group_ns)
            })
        });
        let group = self.groups.iter().find_map(|&name| {
            let part = suites::group_by_name(name)?.name;
            self.below(levels, &[part], name).or_else(|| {
                let all = TlsEngine::Modern.suite_names();
                let suite_ns = cheapest(suites_in_force, all, suite_ns)?;
                self.too_dear(name, group_ns(name)? + suite_ns)
            })
        });
        let at = key_of(self.whose);
        for (key, told) in [("suites", suite), ("groups", group)] {
            if let Some(told) = told {
                warnings.push(format!(
                    "{at}.{key}: this list counts and not the policy: {told}"
                ));
            }
        }
    }

    fn below(&self, levels: &Levels, parts: &[&str], name: &str) -> Option<String> {
        let judged = levels.judge(parts).ok()?;
        Aspect::ALL.into_iter().find_map(|aspect| {
            let (least, level) = (self.policy.least(aspect)?, judged.protection.of(aspect)?);
            (level < least).then(|| {
                format!(
                    "{name} has {} {level}, and {} is {least}",
                    aspect.name(),
                    aspect.key()
                )
            })
        })
    }

    /// Also with the cheapest that goes beside it.
    fn too_dear(&self, name: &str, cost_ns: f64) -> Option<String> {
        let max_ns = self.policy.max_cost_ns?;
        (cost_ns > max_ns).then(|| {
            format!(
                "{name} costs {} at least, and max_cost_us is {:.0}",
                time(cost_ns),
                max_ns / 1e3
            )
        })
    }
}

/// The least that one of a list costs, or one of all where there is no list.
fn cheapest(listed: &[&str], all: &[&str], cost_ns: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let names = if listed.is_empty() { all } else { listed };
    let costs = names.iter().copied().filter_map(cost_ns);
    costs.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::TempDir;

    fn from_file(folder: &Path, text: &str) -> Result<Config, String> {
        let file = folder.join("signet.toml");
        std::fs::write(&file, format!("version = 1\n{text}")).unwrap();
        Config::from_file(&file).map_err(|error| error.to_string())
    }

    const LISTEN: &str = "[[listen]]\non = \"tls:127.0.0.1:5061\"\n[listen.security]\n";

    #[test]
    fn every_suite_and_group_of_the_engine_has_levels() {
        let levels = Levels::shipped();
        for name in TlsEngine::Modern.suite_names() {
            let suite = suites::suite_by_name(name).unwrap();
            assert_eq!(suite.iana, *name);
            assert!(levels.judge(suite.parts).is_ok(), "{name}");
        }
        for name in sip_tls::LEGACY_SUITE_NAMES {
            assert!(suites::suite_by_name(name).is_some(), "{name}");
        }
        for name in GROUP_NAMES {
            assert_eq!(suites::group_by_name(name).unwrap().name, name);
        }
    }

    #[test]
    fn a_policy_fills_what_is_not_written_down() {
        let temp = TempDir::new("policy-fills");
        let config =
            from_file(temp.path(), &format!("{LISTEN}min_confidentiality = 10\n")).unwrap();
        let security = &config.listen[0].security;
        let mut suites = security.tls_suites();
        suites.sort_unstable();
        assert_eq!(
            suites,
            ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
        );
        assert_eq!(security.tls_versions(), [TlsVersion::V13]);
        assert!(
            security
                .tls_groups()
                .iter()
                .all(|group| group.contains("MLKEM"))
        );
        security.check_algorithms().unwrap();
        let told = config.policies().unwrap().text(&config);
        for line in [
            "not on this machine\n",
            "listen.0.security tls:127.0.0.1:5061: confidentiality 10 or more\n  versions 1.3\n",
            "  without  X25519: confidentiality 8 is less than 10",
        ] {
            assert!(told.contains(line), "{line:?} is not in:\n{told}");
        }
    }

    #[test]
    fn a_list_that_is_written_down_wins_and_is_warned_of() {
        let temp = TempDir::new("policy-list");
        let text = format!(
            "{LISTEN}min_confidentiality = 9\nsuites = [\"ECDHE-RSA-AES128-GCM-SHA256\", \"TLS_AES_128_GCM_SHA256\"]\n"
        );
        let config = from_file(temp.path(), &text).unwrap();
        let security = &config.listen[0].security;
        assert_eq!(
            security.tls_suites(),
            ["ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"]
        );
        assert_eq!(security.tls_versions(), TlsVersion::ALL);
        assert!(!security.tls_groups().contains(&"X25519"));
        security.check_algorithms().unwrap();
        let warnings = config.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("ECDHE-RSA-AES128-GCM-SHA256 has confidentiality 8"),
            "{warnings:?}"
        );
        let told = config.policies().unwrap().text(&config);
        let first = told.lines().find(|line| line.starts_with("  first "));
        assert!(first.unwrap().contains(": confidentiality 8,"), "{told}");
        // Both lists leave nothing to choose, and prices nobody asks for are not read.
        let text = "[tls]\nprices = \"none.json\"\n";
        let config = from_file(temp.path(), text).unwrap();
        assert!(config.warnings()[0].starts_with("tls.prices: it is not read"));
    }

    #[test]
    fn a_list_that_costs_more_than_it_may_is_warned_of_and_told_at_its_price() {
        let temp = TempDir::new("policy-dear");
        let dear = "P-384 costs ";
        let text = format!("{LISTEN}max_cost_us = 2\ngroups = [\"P-384\", \"X25519\"]\n");
        let config = from_file(temp.path(), &text).unwrap();
        assert_eq!(config.listen[0].security.tls_groups(), ["P-384", "X25519"]);
        let warnings = config.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("listen.0.security.groups: ")
                && warnings[0].contains(dear)
                && warnings[0].ends_with("max_cost_us is 2"),
            "{warnings:?}"
        );
        // Also where both lists leave nothing to choose.
        let suites = "versions = [\"1.3\"]\nsuites = [\"TLS_CHACHA20_POLY1305_SHA256\"]\n";
        let config = from_file(temp.path(), &format!("{text}{suites}")).unwrap();
        let warnings = config.warnings();
        assert!(
            warnings.iter().any(|told| told.contains(dear)),
            "{warnings:?}"
        );
        let text = text.replace("max_cost_us = 2\n", "max_cost_us = 20\n");
        let config = from_file(temp.path(), &text).unwrap();
        assert_eq!(config.warnings(), [""; 0]);
    }

    #[test]
    fn a_peer_has_its_own_requirements_or_those_of_all() {
        let temp = TempDir::new("policy-peer");
        let text = "[tls]\nmin_confidentiality = 8\ngroups = [\"P-384\", \"X25519\"]\n\
             [[tls.peer]]\nnames = [\"a.example\"]\n\
             [[tls.peer]]\nnames = [\"b.example\"]\nmin_confidentiality = 10\n\
             [[tls.peer]]\nnames = [\"c.example\"]\nversions = [\"1.2\"]\ngroups = [\"P-256\"]\n";
        let config = from_file(temp.path(), text).unwrap();
        let chosen = |nth: usize| config.tls.peer[nth].chosen.clone().unwrap();
        assert_eq!(config.tls.chosen.as_ref(), Some(&chosen(0)));
        assert_eq!(chosen(0).groups, ["P-384", "X25519"]);
        assert!(chosen(1).groups.iter().all(|group| group.contains("MLKEM")));
        assert_eq!(chosen(1).versions, [TlsVersion::V13]);
        assert_eq!(chosen(2).groups, ["P-256"]);
        assert_eq!(chosen(2).versions, [TlsVersion::V12]);
        assert!(
            chosen(2)
                .suites
                .iter()
                .all(|suite| suite.contains("_WITH_"))
        );
        for peer in config.tls.peer.iter().chain([&TlsPeer::default()]) {
            peer.offering(&config.tls).build().unwrap();
        }
    }

    #[test]
    fn a_policy_that_cannot_be_met_is_pointed_at_with_what_to_relax() {
        let temp = TempDir::new("policy-unmet");
        for (text, told) in [
            (
                format!("{LISTEN}min_confidentiality = 8\nmin_authentication = 9\n"),
                "signet.toml:6:22: nothing satisfies this policy: confidentiality 8 or more, authentication 9 or more",
            ),
            (
                format!("{LISTEN}min_authentication = 9\n"),
                "lower min_authentication from 9 to 8, and TLS_",
            ),
            (
                format!("{LISTEN}versions = [\"1.2\"]\nmin_confidentiality = 9\n"),
                "lower min_confidentiality from 9 to 8, and TLS_ECDHE",
            ),
            (
                "[[tls.peer]]\nnames = [\"a.example\"]\nversions = [\"1.2\"]\nmin_confidentiality = 10\n"
                    .to_owned(),
                "signet.toml:5:23: nothing satisfies",
            ),
            (
                format!("{LISTEN}min_confidentiality = 11\n"),
                "signet.toml:5:23: 11 is out of range",
            ),
            (
                format!("{LISTEN}max_cost_us = 0\n"),
                "write a number from 1 to 1000000",
            ),
            (
                "[tls]\nmin_confidentiality = 7\nprices = \"none.json\"\n".to_owned(),
                "make it: signet price crypto --json FILE",
            ),
            (
                "[tls]\nmin_confidentiality = 7\nprices = \"signet.toml\"\n".to_owned(),
                "signet.toml:4:10: ",
            ),
        ] {
            let error = from_file(temp.path(), &text).unwrap_err();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
    }
}
