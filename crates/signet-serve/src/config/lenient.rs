//! Phones of which less is asked than of all, and what that is worth.

use std::collections::BTreeSet;

use serde::Deserialize;
use sip_auth::Algorithm;
use sip_msg::network::IpNet;

use super::Config;
use super::check::Faults;
use super::values::{DigestAlgorithm, networks};

/// What is asked of the phones of some networks or users.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lenient {
    /// Where they are.
    #[serde(default, deserialize_with = "networks")]
    pub networks: Vec<IpNet>,
    /// Whose they are.
    #[serde(default)]
    pub users: Vec<String>,
    /// The algorithms that they are offered, most preferred first; without any, those of all.
    #[serde(default)]
    pub algorithms: Vec<DigestAlgorithm>,
    /// Whether their digests must have `qop`.
    #[serde(default)]
    pub qop: DigestQop,
    /// What the `uri` of their digests must be.
    #[serde(default)]
    pub uri: DigestUri,
}

/// Whether a digest must have `qop`, and with it a count against replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DigestQop {
    /// It must.
    #[default]
    Required,
    /// It need not (RFC 2069).
    Optional,
}

/// What a digest must cover beside the method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DigestUri {
    /// The Request-URI.
    #[default]
    Exact,
    /// Its host.
    Host,
}

impl Config {
    pub(super) fn check_lenient(&self, faults: &mut Faults) {
        let mut remote = self.users.remote();
        let verifies = remote.any(|url| url.starts_with("radius:"));
        for (nth, entry) in self.authentication.lenient.iter().enumerate() {
            let at = format!("authentication.lenient.{nth}");
            if entry.networks.is_empty() && entry.users.is_empty() {
                faults.add(
                    &at,
                    "it names neither networks nor users",
                    "write networks = [\"10.1.0.0/16\"] or users = [\"alice\"]; what holds for all stands in [authentication]",
                );
            }
            if entry.algorithms.is_empty()
                && entry.qop == DigestQop::Required
                && entry.uri == DigestUri::Exact
            {
                faults.add(
                    &at,
                    "it makes no exception",
                    "write algorithms = [\"MD5\"], qop = \"optional\" or uri = \"host\", or drop it",
                );
            }
            if entry.qop == DigestQop::Optional && verifies {
                faults.add(
                    &format!("{at}.qop"),
                    "the store verifies digests itself, and is asked about none without qop",
                    "drop it, or keep those users in a store that gives digests",
                );
            }
            let names: BTreeSet<&String> = entry.users.iter().collect();
            if names.len() < entry.users.len() || names.iter().any(|name| name.contains('@')) {
                faults.add(
                    &format!("{at}.users"),
                    "a user is written once, by his name without the domain",
                    "write users = [\"alice\", \"bob\"]",
                );
            }
        }
    }

    /// What the phones' digests are worth of which less is asked, a sentence for each thing
    /// that is left out: for `signet check`, and for the log at a start.
    pub fn lenient_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.authentication.required {
            return warnings;
        }
        for (nth, entry) in self.authentication.lenient.iter().enumerate() {
            let at = format!("authentication.lenient.{nth}");
            if let Some(network) = entry.networks.iter().find(|net| net.prefix_len() == 0) {
                warnings.push(format!(
                    "{at}.networks: {network} is every address, so this is asked of all and not of some"
                ));
            }
            if entry.weakens(&self.authentication.algorithms) {
                warnings.push(format!(
                    "{at}.algorithms: MD5 comes first there, or is taken from these phones alone; whoever overhears such a digest tries passwords against it fastest, so give these phones TLS or a network of their own, and generated passwords"
                ));
            }
            if entry.qop == DigestQop::Optional {
                warnings.push(format!(
                    "{at}.qop: a digest without qop is taken once for each nonce, for {} s at most, and nothing in it is of the phone's choice: who poses as this server can have looked up passwords beforehand, so give these phones TLS, or generated passwords",
                    self.authentication.nonce_lifetime_s
                ));
            }
            if entry.uri == DigestUri::Host {
                warnings.push(format!(
                    "{at}.uri: such a digest covers the method and this host, and not whom the request is for: whoever can stop a request on its way can call another number with it, so give these phones TLS or a network of their own"
                ));
            }
        }
        warnings
    }
}

impl Lenient {
    /// Whether MD5 is offered in a better place than all are offered it.
    fn weakens(&self, of_all: &[DigestAlgorithm]) -> bool {
        let place = |algorithms: &[DigestAlgorithm]| {
            let mut places = algorithms.iter();
            places.position(|algorithm| algorithm.0 == Algorithm::Md5)
        };
        match (place(&self.algorithms), place(of_all)) {
            (Some(here), Some(there)) => here < there,
            (here, _) => here.is_some(),
        }
    }
}

impl From<&Lenient> for sip_auth::Lenient {
    fn from(given: &Lenient) -> Self {
        Self {
            networks: given.networks.clone(),
            users: given.users.clone(),
            algorithms: given.algorithms.iter().map(|of| of.0).collect(),
            qop_optional: given.qop == DigestQop::Optional,
            uri_by_host: given.uri == DigestUri::Host,
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
    fn an_entry_says_for_whom_it_is_and_what_it_leaves_out() {
        let head = "[[authentication.lenient]]\n";
        for (entry, told) in [
            ("qop = \"optional\"\n", "names neither networks nor users"),
            ("users = [\"alice\"]\n", "it makes no exception"),
            (
                "users = [\"alice@example.com\"]\nuri = \"host\"\n",
                "by his name without the domain",
            ),
            (
                "users = [\"alice\", \"alice\"]\nuri = \"host\"\n",
                "by his name without the domain",
            ),
            ("networks = [\"ten\"]\n", "is no network"),
            (
                "users = [\"alice\"]\nqop = \"optional\"\n[users]\nstores = [\"radius://r.example\"]\npassword_env = \"P\"\n",
                "is asked about none without qop",
            ),
        ] {
            let error = read(&format!("{head}{entry}")).unwrap_err();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
    }

    #[test]
    fn what_it_is_worth_is_said_of_each_thing_that_is_left_out() {
        for (entry, told) in [
            (
                "algorithms = [\"MD5\", \"SHA-256\"]",
                Some(".algorithms: MD5 comes first"),
            ),
            ("algorithms = [\"SHA-512-256\"]", None),
            ("algorithms = [\"SHA-256\", \"MD5\"]", None),
            ("qop = \"optional\"", Some("for 300 s at most")),
            ("uri = \"host\"", Some("can call another number with it")),
            (
                "networks = [\"0.0.0.0/0\"]\nalgorithms = [\"SHA-256\"]",
                Some("0.0.0.0/0 is every address"),
            ),
        ] {
            let text = format!("[[authentication.lenient]]\nusers = [\"alice\"]\n{entry}\n");
            let config = read(&text).unwrap();
            let warnings = config.warnings();
            assert_eq!(warnings, config.lenient_warnings());
            assert_eq!(warnings.len(), usize::from(told.is_some()), "{warnings:?}");
            if let Some(told) = told {
                assert!(warnings[0].contains(told), "{warnings:?}");
            }
        }
        // By default nobody is asked for less.
        assert!(read("").unwrap().authentication.lenient.is_empty());
        // MD5 that all others may not use is weaker, wherever it stands.
        let text = "[authentication]\nalgorithms = [\"SHA-256\"]\n[[authentication.lenient]]\n\
             networks = [\"10.1.0.0/16\"]\nalgorithms = [\"SHA-256\", \"MD5\"]\n";
        assert_eq!(read(text).unwrap().warnings().len(), 1);
    }
}
