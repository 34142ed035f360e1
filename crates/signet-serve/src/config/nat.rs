//! Phones behind NAT.

use serde::Deserialize;
use sip_engine::settings::{self, KeepAlive};

use super::Config;
use super::check::Faults;
use super::values::{Network, some_within, within};

/// Where phones are reached that may be behind NAT.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nat {
    /// Networks with a rule of their own, before that of the listener; the first that fits
    /// counts.
    pub networks: Vec<NatNetwork>,
    /// Most seconds granted to a phone that is reached by datagrams to where its own come from;
    /// without it, as for all.
    #[serde(deserialize_with = "some_within::<_, _, 30, 86_400>")]
    pub expires_max_s: Option<u32>,
    /// What is sent to those phones so that their NAT does not forget them.
    pub keepalive: KeepAlive,
    /// The longest time from one to the next.
    #[serde(deserialize_with = "within::<_, _, 2, 600>")]
    pub keepalive_interval_s: u64,
    /// After so many unanswered OPTIONS in a row, the phone's contact is removed.
    #[serde(deserialize_with = "within::<_, _, 1, 100>")]
    pub keepalive_fail: u32,
}

impl Default for Nat {
    fn default() -> Self {
        let usual = settings::NatSettings::default();
        Self {
            networks: Vec::new(),
            expires_max_s: usual.expires_max_s,
            keepalive: usual.keepalive,
            keepalive_interval_s: usual.keepalive_interval_ms / 1_000,
            keepalive_fail: usual.keepalive_fail,
        }
    }
}

/// The rule of a network.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatNetwork {
    /// Where the phones' packets come from.
    pub network: Network,
    /// Where the phones are reached.
    pub nat: settings::Nat,
    /// What is sent to them; without it what all get.
    #[serde(default)]
    pub keepalive: Option<KeepAlive>,
}

impl Nat {
    /// The same for the engine, with the rules of the listeners in their order.
    pub(crate) fn settings(
        &self,
        listeners: impl Iterator<Item = settings::Nat>,
    ) -> settings::NatSettings {
        let rule = |of: &NatNetwork| settings::NatRule {
            network: of.network.0,
            nat: of.nat,
            keepalive: of.keepalive,
        };
        settings::NatSettings {
            networks: self.networks.iter().map(rule).collect(),
            listeners: listeners.collect(),
            expires_max_s: self.expires_max_s,
            keepalive: self.keepalive,
            keepalive_interval_ms: self.keepalive_interval_s * 1_000,
            keepalive_fail: self.keepalive_fail,
        }
    }
}

impl Config {
    pub(super) fn check_nat(&self, faults: &mut Faults) {
        let min_s = self.registrar.expires_min_s;
        if let Some(max_s) = self.nat.expires_max_s
            && max_s < min_s
        {
            faults.add(
                "nat.expires_max_s",
                &format!(
                    "phones that are granted {max_s} s ask for as much again, and are refused with 423 below registrar.expires_min_s ({min_s})"
                ),
                &format!("write {min_s} or more, or a smaller expires_min_s"),
            );
        }
        for (nth, rule) in self.nat.networks.iter().enumerate() {
            let is_kept = !matches!(rule.keepalive, None | Some(KeepAlive::Off));
            if is_kept && rule.nat == settings::Nat::Never {
                faults.add(
                    &format!("nat.networks.{nth}"),
                    "keep-alives go where packets come from, and these phones are never reached there",
                    "write nat = \"auto\" or \"always\", or drop keepalive",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let text = format!("version = 1\n{text}");
        Config::from_text(Path::new("test.toml"), &text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_to_be_had_together_is_refused() {
        for (text, told) in [
            ("[nat]\nexpires_max_s = 45\n", "refused with 423"),
            (
                "[nat]\nexpires_max_s = 120\n[registrar]\nexpires_min_s = 300\n",
                "refused with 423",
            ),
            (
                "[nat]\nnetworks = [{ network = \"10.0.0.0/8\", nat = \"never\", keepalive = \"crlf\" }]\n",
                "never reached there",
            ),
            ("[nat]\nkeepalive = \"ping\"\n", "crlf"),
            ("[nat]\nkeepalive_interval_s = 1\n", "out of range"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
        let text = "[nat]\nexpires_max_s = 45\n[registrar]\nexpires_min_s = 30\n";
        assert_eq!(read(text).unwrap().nat.expires_max_s, Some(45));
    }

    #[test]
    fn nothing_is_sent_by_default_and_a_network_may_say_otherwise() {
        let usual = Nat::default().settings(std::iter::empty());
        assert_eq!(usual, settings::NatSettings::default());
        assert_eq!(usual.keepalive, KeepAlive::Off);
        let text = "[nat]\nkeepalive = \"options\"\nkeepalive_interval_s = 20\n\
             networks = [{ network = \"10.0.0.0/8\", nat = \"auto\", keepalive = \"off\" }]\n";
        let nat = read(text).unwrap().nat.settings(std::iter::empty());
        assert_eq!(
            (nat.keepalive, nat.keepalive_interval_ms),
            (KeepAlive::Options, 20_000)
        );
        assert_eq!(nat.networks[0].keepalive, Some(KeepAlive::Off));
    }
}
