//! Versions, cipher suites and key-exchange groups, by name.

use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};

use crate::engine::{LEGACY_SUITE_NAMES, TlsEngine};
use crate::error::TlsError;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TlsVersion {
    /// RFC 5246.
    V12,
    /// RFC 8446.
    V13,
}

impl TlsVersion {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 2] = [Self::V12, Self::V13];

    /// `1.2` or `1.3`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V12 => "1.2",
            Self::V13 => "1.3",
        }
    }

    /// The version with this name.
    pub fn by_name(name: &str) -> Result<Self, TlsError> {
        Self::ALL
            .into_iter()
            .find(|version| version.name() == name)
            .ok_or_else(|| {
                TlsError::new(
                    None,
                    format!("there is no TLS version '{name}' here; give 1.2 or 1.3"),
                )
            })
    }

    pub(crate) fn of(version: rustls::ProtocolVersion) -> Option<Self> {
        match version {
            rustls::ProtocolVersion::TLSv1_2 => Some(Self::V12),
            rustls::ProtocolVersion::TLSv1_3 => Some(Self::V13),
            _ => None,
        }
    }

    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::V12 => &rustls::version::TLS12,
            Self::V13 => &rustls::version::TLS13,
        }
    }
}

/// Those of the legacy engine in this build.
const LEGACY_SUITES: usize = if TlsEngine::Legacy.is_here() {
    LEGACY_SUITE_NAMES.len()
} else {
    0
};

/// The names of the cipher suites in IANA's registry, in the order in which
/// they are counted and, unless told otherwise, preferred: AES-128 with
/// SHA-256 before AES-256 with SHA-384, since processors hash with SHA-256 in
/// hardware and a handshake hashes more than it encrypts. Those of the legacy
/// engine are the last, in a build that has it.
pub const SUITE_NAMES: [&str; MODERN_SUITES + LEGACY_SUITES] = {
    let mut names = [""; MODERN_SUITES + LEGACY_SUITES];
    let mut place = 0;
    while place < names.len() {
        names[place] = if place < MODERN_SUITES {
            MODERN_SUITE_NAMES[place]
        } else {
            LEGACY_SUITE_NAMES[place - MODERN_SUITES]
        };
        place += 1;
    }
    names
};

macro_rules! suites {
    ($($suite:ident $iana:literal $openssl:literal)*) => {
        const MODERN_SUITE_NAMES: &[&str] = &[$($iana),*];
        const MODERN_SUITES: usize = MODERN_SUITE_NAMES.len();
        /// The suites of the modern engine, and openssl's names for them, in the
        /// order of [`SUITE_NAMES`].
        static SUITES: [(&SupportedCipherSuite, &str); MODERN_SUITES] =
            [$((&cipher_suite::$suite, $openssl)),*];
    };
}

// What the library calls each, its name in IANA's registry, and openssl's.
suites! {
    TLS13_AES_128_GCM_SHA256 "TLS_AES_128_GCM_SHA256" "TLS_AES_128_GCM_SHA256"
    TLS13_AES_256_GCM_SHA384 "TLS_AES_256_GCM_SHA384" "TLS_AES_256_GCM_SHA384"
    TLS13_CHACHA20_POLY1305_SHA256 "TLS_CHACHA20_POLY1305_SHA256" "TLS_CHACHA20_POLY1305_SHA256"
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" "ECDHE-ECDSA-AES128-GCM-SHA256"
    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" "ECDHE-ECDSA-AES256-GCM-SHA384"
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" "ECDHE-ECDSA-CHACHA20-POLY1305"
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" "ECDHE-RSA-AES128-GCM-SHA256"
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" "ECDHE-RSA-AES256-GCM-SHA384"
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" "ECDHE-RSA-CHACHA20-POLY1305"
}

impl TlsEngine {
    /// Its cipher suites, by their names in IANA's registry, the cheapest first
    /// (see [`SUITE_NAMES`]).
    pub const fn suite_names(self) -> &'static [&'static str] {
        match self {
            Self::Modern => MODERN_SUITE_NAMES,
            Self::Legacy => &LEGACY_SUITE_NAMES,
        }
    }
}

/// The names of the key-exchange groups, in the order in which they are counted.
pub const GROUP_NAMES: [&str; 5] = [
    "X25519",
    "P-256",
    "P-384",
    "X25519MLKEM768",
    "SecP256r1MLKEM768",
];

/// The groups, and other names for them, in the order of [`GROUP_NAMES`].
static GROUPS: [(&dyn SupportedKxGroup, &[&str]); GROUP_NAMES.len()] = [
    (kx_group::X25519, &[]),
    (kx_group::SECP256R1, &["secp256r1", "prime256v1"]),
    (kx_group::SECP384R1, &["secp384r1"]),
    (kx_group::X25519MLKEM768, &[]),
    (kx_group::SECP256R1MLKEM768, &[]),
];

/// The place of a suite in [`SUITE_NAMES`].
pub(crate) fn suite_index(suite: SupportedCipherSuite) -> Option<usize> {
    SUITES
        .iter()
        .position(|(known, _)| known.suite() == suite.suite())
}

/// The engine of the suite in this place of [`SUITE_NAMES`].
pub(super) const fn engine_at(place: usize) -> TlsEngine {
    if place < MODERN_SUITES {
        TlsEngine::Modern
    } else {
        TlsEngine::Legacy
    }
}

/// The place of a group in [`GROUP_NAMES`].
pub(crate) fn group_index(group: NamedGroup) -> Option<usize> {
    GROUPS.iter().position(|(known, _)| known.name() == group)
}

/// What may be negotiated; what is left out is the order of the lists here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Algorithms {
    pub(crate) versions: Option<Vec<TlsVersion>>,
    pub(crate) suites: Option<Vec<String>>,
    pub(crate) groups: Option<Vec<String>>,
}

impl Algorithms {
    /// The provider and the versions.
    pub(crate) fn resolve(
        &self,
    ) -> Result<(Arc<CryptoProvider>, Vec<&'static SupportedProtocolVersion>), TlsError> {
        let provider = if self.suites.is_none() && self.groups.is_none() {
            shared_provider()
        } else {
            let mut provider = CryptoProvider::clone(&shared_provider());
            if let Some(names) = &self.suites {
                provider.cipher_suites = all_by_name(names, "cipher suite", suite_by_name)?;
            }
            if let Some(names) = &self.groups {
                provider.kx_groups = all_by_name(names, "key-exchange group", group_by_name)?;
            }
            Arc::new(provider)
        };
        let has_suite = |version: TlsVersion| {
            provider
                .cipher_suites
                .iter()
                .any(|suite| TlsVersion::of(suite.version().version) == Some(version))
        };
        let versions = match &self.versions {
            // Suites of one version alone ask for that version.
            None => TlsVersion::ALL
                .into_iter()
                .filter(|version| has_suite(*version))
                .collect(),
            Some(versions) if versions.is_empty() => {
                return Err(TlsError::new(
                    None,
                    "no TLS version is left; give 1.2, 1.3 or both",
                ));
            }
            Some(versions) => {
                if let Some(version) = versions.iter().find(|version| !has_suite(**version)) {
                    let reason = format!(
                        "no cipher suite fits TLS {}; add one or leave the version out",
                        version.name()
                    );
                    return Err(TlsError::new(None, reason));
                }
                versions.clone()
            }
        };
        Ok((
            provider,
            versions.into_iter().map(TlsVersion::supported).collect(),
        ))
    }
}

/// The provider with everything, made once.
pub(crate) fn shared_provider() -> Arc<CryptoProvider> {
    static SHARED: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| {
        Arc::new(CryptoProvider {
            cipher_suites: SUITES.iter().map(|(suite, _)| **suite).collect(),
            kx_groups: GROUPS.iter().map(|(group, _)| *group).collect(),
            ..default_provider()
        })
    }))
}

fn all_by_name<T>(
    names: &[String],
    what: &str,
    find: impl Fn(&str) -> Result<T, TlsError>,
) -> Result<Vec<T>, TlsError> {
    if names.is_empty() {
        return Err(TlsError::new(
            None,
            format!("no {what} is left; give at least one"),
        ));
    }
    names.iter().map(|name| find(name)).collect()
}

fn suite_by_name(name: &str) -> Result<SupportedCipherSuite, TlsError> {
    SUITE_NAMES
        .iter()
        .zip(&SUITES)
        .find(|(iana, (_, openssl))| {
            iana.eq_ignore_ascii_case(name) || openssl.eq_ignore_ascii_case(name)
        })
        .map(|(_, (suite, _))| **suite)
        .ok_or_else(|| {
            if TlsEngine::of_suite(name) == TlsEngine::Legacy {
                let reason = format!(
                    "the cipher suite '{name}' is of the legacy engine alone; \
                     leave it out, or choose that engine, for measurements only"
                );
                return TlsError::new(None, reason);
            }
            unknown("cipher suite", name, MODERN_SUITE_NAMES)
        })
}

fn group_by_name(name: &str) -> Result<&'static dyn SupportedKxGroup, TlsError> {
    GROUP_NAMES
        .iter()
        .zip(&GROUPS)
        .find(|(known, (_, others))| {
            known.eq_ignore_ascii_case(name)
                || others.iter().any(|other| other.eq_ignore_ascii_case(name))
        })
        .map(|(_, (group, _))| *group)
        .ok_or_else(|| unknown("key-exchange group", name, &GROUP_NAMES))
}

fn unknown(what: &str, name: &str, known: &[&str]) -> TlsError {
    let known = known.join(", ");
    TlsError::new(
        None,
        format!("there is no {what} '{name}' here; give one of {known}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn every_name_stands_for_its_own_suite_and_group() {
        for (place, name) in SUITE_NAMES.into_iter().take(MODERN_SUITES).enumerate() {
            assert_eq!(engine_at(place), TlsEngine::Modern);
            let suite = suite_by_name(name).unwrap();
            assert_eq!(suite_index(suite), Some(place));
            let ours = name.replacen("TLS_", "", 1);
            let theirs = format!("{:?}", suite.suite());
            assert!(theirs.ends_with(&ours), "{name} is {theirs}");
            assert_eq!(
                suite_index(suite_by_name(SUITES[place].1).unwrap()),
                Some(place)
            );
        }
        for (place, name) in GROUP_NAMES.into_iter().enumerate() {
            assert_eq!(
                group_index(group_by_name(name).unwrap().name()),
                Some(place)
            );
        }
        assert_eq!(
            group_by_name("secp384r1").unwrap().name(),
            NamedGroup::secp384r1
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let refused = |algorithms: Algorithms| algorithms.resolve().unwrap_err().to_string();
        let wrong = Algorithms {
            suites: named(&["RC4-MD5"]),
            ..Algorithms::default()
        };
        assert!(refused(wrong).contains("TLS_AES_128_GCM_SHA256"));
        let wrong = Algorithms {
            suites: named(&["AES128-SHA"]),
            ..Algorithms::default()
        };
        assert!(refused(wrong).contains("legacy engine"));
        let wrong = Algorithms {
            groups: named(&["P-521"]),
            ..Algorithms::default()
        };
        assert!(refused(wrong).contains("X25519MLKEM768"));
        let wrong = Algorithms {
            groups: named(&[]),
            ..Algorithms::default()
        };
        assert!(refused(wrong).contains("at least one"));
        let wrong = Algorithms {
            versions: Some(vec![TlsVersion::V13]),
            suites: named(&["ECDHE-RSA-AES128-GCM-SHA256"]),
            ..Algorithms::default()
        };
        assert!(refused(wrong).contains("1.3"));
        assert!(
            TlsVersion::by_name("1.1")
                .unwrap_err()
                .to_string()
                .contains("1.2 or 1.3")
        );
    }

    #[test]
    fn suites_of_one_version_ask_for_that_version() {
        let only = Algorithms {
            suites: named(&["TLS_AES_256_GCM_SHA384"]),
            ..Algorithms::default()
        };
        let (_, versions) = only.resolve().unwrap();
        assert_eq!(versions.len(), 1);
        assert_eq!(TlsVersion::of(versions[0].version), Some(TlsVersion::V13));
    }
}
