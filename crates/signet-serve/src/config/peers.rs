//! The parts of a configuration that are about neighbours: who is trusted and
//! by what, and how connections to them are opened.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use protection::{Level, Policy};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use sip_tls::{ClientTlsConfig, TlsEngine, TlsVersion};

use super::check::Faults;
use super::policy::{Chosen, policy};
use super::tls::{CertificatePair, DEFAULT_GROUPS, GroupName, SuiteName, VersionName};
use super::values::{Domain, Network, SpokenFor, some_within};
use super::{Config, Inbound};

/// A peer whose requests need no credentials: known by its address, by its
/// certificate, or by both.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trusted {
    /// Its addresses.
    pub network: Option<Network>,
    /// The domain that its certificate proves (RFC 5922).
    pub identity: Option<Domain>,
    /// The domains that it may put into From and P-Asserted-Identity; `*` is
    /// every domain but ours.
    pub speaks_for: Option<Vec<SpokenFor>>,
    /// Whether its requests may leave for others than our users.
    #[serde(default = "yes")]
    pub may_relay: bool,
    /// What the path from and to it must have.
    #[serde(default)]
    pub security: PeerSecurity,
    /// Calls that it may begin in a second; 0 for any number. Without it, what all
    /// peers may.
    #[serde(default, deserialize_with = "some_within::<_, _, 0, 1_000_000>")]
    pub calls_per_s: Option<u32>,
}

/// What the path from or to a peer must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerSecurity {
    /// Whether only TLS will do.
    pub tls: bool,
}

/// Names that are called, gateways' or domains', and how TLS connections to
/// them are opened where that is not as all are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsPeer {
    /// The names that are called.
    pub names: Vec<Domain>,
    /// The name that the certificate must bear; without it, the one that is
    /// called.
    pub expect: Option<Domain>,
    /// The certificate that is shown, or `"none"`.
    pub identity: Option<ShownIdentity>,
    /// PEM files with the only authorities that may certify it; without any,
    /// those that count for all.
    #[serde(default)]
    pub server_roots: Vec<PathBuf>,
    /// PEM files with revocation lists, in the place of those for all.
    #[serde(default)]
    pub server_crls: Vec<PathBuf>,
    /// The versions that are offered.
    pub versions: Option<Vec<VersionName>>,
    /// The cipher suites that are offered.
    pub suites: Option<Vec<SuiteName>>,
    /// The key-exchange groups that are offered.
    pub groups: Option<Vec<GroupName>>,
    /// The least level of confidentiality.
    pub min_confidentiality: Option<Level>,
    /// The least level of authentication.
    pub min_authentication: Option<Level>,
    /// The CPU time that protecting a message may take.
    #[serde(default, deserialize_with = "some_within::<_, _, 1, 1_000_000>")]
    pub max_cost_us: Option<u32>,
    /// What the policy comes to, once it is worked out.
    #[serde(skip)]
    pub chosen: Option<Chosen>,
}

impl TlsPeer {
    /// Versions, suites and groups, each its own or else that of all; a list
    /// that is written down before what a policy leaves.
    pub(crate) fn offering(&self, all: &super::Tls) -> ClientTlsConfig {
        let chosen = self.chosen.as_ref().or(all.chosen.as_ref());
        let written = self.versions.as_ref().unwrap_or(&all.versions);
        let versions: Vec<TlsVersion> = match chosen {
            // They go with the suites that were chosen.
            Some(chosen) if self.chosen.is_some() || self.suites.is_none() => {
                chosen.versions.clone()
            }
            _ => written.iter().map(|version| version.0).collect(),
        };
        ClientTlsConfig::new()
            .versions(&versions)
            .suites(&names(
                self.suites.as_deref(),
                chosen.map(|chosen| chosen.suites.as_slice()),
                all.suites.as_deref(),
                TlsEngine::Modern.suite_names(),
            ))
            .groups(&names(
                self.groups.as_deref(),
                chosen.map(|chosen| chosen.groups.as_slice()),
                all.groups.as_deref(),
                &DEFAULT_GROUPS,
            ))
    }

    /// What is asked of suites and groups: its own requirements, and those of
    /// all that it does not mention.
    pub(super) fn policy(&self, all: &super::Tls) -> Policy {
        self.own_policy().or(all.policy())
    }

    /// Its own requirements.
    pub(super) fn own_policy(&self) -> Policy {
        policy(
            self.min_confidentiality,
            self.min_authentication,
            self.max_cost_us,
        )
    }

    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let pair = match &mut self.identity {
            Some(ShownIdentity::Pair(pair)) => Some(pair),
            _ => None,
        };
        pair.into_iter()
            .flat_map(|pair| [&mut pair.cert, &mut pair.key])
            .chain(self.server_roots.iter_mut())
            .chain(self.server_crls.iter_mut())
    }
}

/// Its own list, or what a policy leaves, or the list of all, or the default.
fn names<'n, N: AsRef<str>>(
    own: Option<&'n [N]>,
    chosen: Option<&'n [String]>,
    of_all: Option<&'n [N]>,
    default: &[&'n str],
) -> Vec<&'n str> {
    match (own, chosen, of_all) {
        (Some(given), _, _) | (None, None, Some(given)) => {
            given.iter().map(AsRef::as_ref).collect()
        }
        (None, Some(chosen), _) => chosen.iter().map(String::as_str).collect(),
        (None, None, None) => default.to_vec(),
    }
}

/// The certificate that is shown to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownIdentity {
    /// This one.
    Pair(CertificatePair),
    /// None at all: `"none"`.
    None,
}

impl<'de> Deserialize<'de> for ShownIdentity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ShownIdentity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{ cert = \"FILE\", key = \"FILE\" } or \"none\"")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<ShownIdentity, E> {
                match word {
                    "none" => Ok(ShownIdentity::None),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ShownIdentity, A::Error> {
                CertificatePair::deserialize(MapAccessDeserializer::new(map))
                    .map(ShownIdentity::Pair)
            }
        }
        from.deserialize_any(Either)
    }
}

impl Config {
    pub(super) fn check_peers(&self, faults: &mut Faults) {
        let asks = |listen: &super::Listen| listen.security.asks_for_certificates();
        for (nth, peer) in self.trusted.iter().enumerate() {
            let at = format!("trusted.{nth}");
            if peer.network.is_none() && peer.identity.is_none() {
                faults.add(
                    &at,
                    "without network or identity it is anybody",
                    "write network = \"ADDRESS\", or identity = \"DOMAIN\" for one with a certificate",
                );
            }
        }
        if self.inbound == Inbound::Proven && !self.listen.iter().any(asks) {
            faults.add(
                "inbound",
                "no listener asks for certificates, so nobody can prove a domain",
                "write client_certificates = \"optional\" in [listen.security] of a tls listener",
            );
        }
        let mut seen = BTreeSet::new();
        for (nth, peer) in self.tls.peer.iter().enumerate() {
            let at = format!("tls.peer.{nth}");
            if peer.names.is_empty() {
                faults.add(
                    &format!("{at}.names"),
                    "without a name it is about nobody",
                    "write names = [\"DOMAIN\"], as it is called",
                );
            }
            for name in &peer.names {
                if !seen.insert(name) {
                    faults.add(
                        &format!("{at}.names"),
                        &format!("`{name}` is already listed above"),
                        "drop one of the two",
                    );
                }
            }
            check_offering(peer, &self.tls, &at, faults);
        }
        check_offering(&TlsPeer::default(), &self.tls, "tls.versions", faults);
    }
}

fn check_offering(peer: &TlsPeer, all: &super::Tls, at: &str, faults: &mut Faults) {
    if let Err(error) = peer.offering(all).build() {
        let (what, remedy) = error.reason.split_once("; ").unwrap_or((&error.reason, ""));
        faults.add(at, what, remedy);
    }
}

const fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::from_text(Path::new("test.toml"), &format!("version = 1\n{text}"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_neighbours_certificate_and_how_it_is_called() {
        let config = parse(
            "[[trusted]]\nidentity = \"Example.NET\"\nspeaks_for = [\"*\", \"example.org\"]\nmay_relay = false\n\
             [[tls.peer]]\nnames = [\"far.example\", \"192.0.2.7\"]\nexpect = \"sip.far.example\"\nidentity = \"none\"\n\
             [[tls.peer]]\nnames = [\"near.example\"]\nidentity = { cert = \"c\", key = \"k\" }\nversions = [\"1.3\"]\n",
        )
        .unwrap();
        let [peer] = config.trusted.as_slice() else {
            panic!()
        };
        assert!(!peer.may_relay && peer.network.is_none());
        let [far, near] = config.tls.peer.as_slice() else {
            panic!()
        };
        assert_eq!(far.identity, Some(ShownIdentity::None));
        assert!(matches!(near.identity, Some(ShownIdentity::Pair(_))));
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_remedy() {
        for (text, told) in [
            (
                "[[trusted]]\nsecurity = { tls = true }\n",
                "without network or identity it is anybody",
            ),
            (
                "[[trusted]]\nidentity = \"a.example\"\nspeaks_for = [\"*.a.example\"]\n",
                "SIP has no wildcards",
            ),
            ("inbound = \"proven\"\n", "nobody can prove a domain"),
            (
                "[[tls.peer]]\nnames = [\"a.example\"]\n[[tls.peer]]\nnames = [\"A.example\"]\n",
                "is already listed above",
            ),
            ("[[tls.peer]]\nnames = []\n", "about nobody"),
            (
                "[[tls.peer]]\nnames = [\"a.example\"]\nversions = []\n",
                "test.toml:2",
            ),
            (
                "[[tls.peer]]\nnames = [\"a.example\"]\nidentity = \"some\"\n",
                "or \"none\"",
            ),
            ("[tls]\nsuites = []\n", "[tls]"),
            (
                "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { client_certificates_authenticate = true }\n",
                "clients are not asked for certificates",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
    }
}
