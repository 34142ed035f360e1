//! Phones behind address translations.

use serde::Deserialize;
use sip_engine::settings;

use super::values::{Network, some_within};

/// Where phones are reached that may be behind address translations.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nat {
    /// Networks with a rule of their own, before that of the listener; the first that fits
    /// counts.
    pub networks: Vec<NatNetwork>,
    /// Seconds granted at most to a phone that is reached by datagrams to where its own come
    /// from; without it what all get.
    #[serde(deserialize_with = "some_within::<_, _, 30, 86_400>")]
    pub expires_max_s: Option<u32>,
}

/// The rule of a network.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatNetwork {
    /// Where the phones' packets come from.
    pub network: Network,
    /// Where the phones are reached.
    pub nat: settings::Nat,
}

impl Nat {
    /// The same for the engine, with the rules of the listeners in their order.
    pub(crate) fn settings(
        &self,
        listeners: impl Iterator<Item = settings::Nat>,
    ) -> settings::NatSettings {
        let rule = |of: &NatNetwork| (of.network.0, of.nat);
        settings::NatSettings {
            networks: self.networks.iter().map(rule).collect(),
            listeners: listeners.collect(),
            expires_max_s: self.expires_max_s,
        }
    }
}
