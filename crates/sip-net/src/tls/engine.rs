//! Which library speaks TLS.

use super::TlsError;
use super::algorithms::TlsVersion;

/// Which library speaks TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TlsEngine {
    /// rustls: whatever is worth having.
    #[default]
    Modern,
    /// OpenSSL, for [`LEGACY_SUITE_NAMES`] and nothing else, in TLS 1.2: to
    /// measure with. Only in a build with the cargo feature `legacy-tls`.
    Legacy,
}

/// The cipher suites of the legacy engine, by their names in IANA's registry.
///
/// RFC 3261 26.2.1: "The TLS_RSA_WITH_AES_128_CBC_SHA ciphersuite [6] MUST be
/// supported at a minimum by implementers when TLS is used in a SIP
/// application." And: "proxy servers, redirect servers, and registrars SHOULD
/// support TLS_RSA_WITH_3DES_EDE_CBC_SHA." Neither is supported but here.
pub const LEGACY_SUITE_NAMES: [&str; 2] = [
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
];

/// What openssl calls them.
const OPENSSL_NAMES: [&str; LEGACY_SUITE_NAMES.len()] = ["AES128-SHA", "DES-CBC3-SHA"];

/// What the legacy suites are worth.
pub const LEGACY_WARNING: &str = "the suites of RFC 3261 have no forward secrecy (who gets the \
     private key reads every call that was recorded), exchange keys by RSA encryption \
     (Bleichenbacher, ROBOT), and 3DES has 64-bit blocks (Sweet32): for measurements only, \
     never for calls";

impl TlsEngine {
    /// Whether this build has it.
    pub const fn is_here(self) -> bool {
        matches!(self, Self::Modern) || cfg!(feature = "legacy-tls")
    }

    /// The engine that has this suite, by its name at IANA or in openssl. A
    /// name that nobody knows is left to the modern engine.
    pub fn of_suite(name: &str) -> Self {
        match legacy_place(name) {
            Some(_) => Self::Legacy,
            None => Self::Modern,
        }
    }

    /// Why a build does without it, and the remedy; nothing if it does not.
    pub(crate) fn check(self) -> Result<(), TlsError> {
        if self.is_here() {
            return Ok(());
        }
        Err(TlsError::new(
            None,
            "this build has no legacy TLS; build it with `cargo build --release -p signet --features legacy-tls`, \
             for measurements only",
        ))
    }
}

/// The suites of the legacy engine that are wanted, as openssl calls them.
/// Suites, and versions, that are not its own are refused.
#[cfg_attr(not(feature = "legacy-tls"), allow(dead_code))]
pub(super) fn legacy_suites(
    versions: Option<&[TlsVersion]>,
    suites: Option<&[String]>,
) -> Result<Vec<&'static str>, TlsError> {
    if versions.is_some_and(|versions| !versions.contains(&TlsVersion::V12)) {
        return Err(TlsError::new(
            None,
            "the legacy suites are suites of TLS 1.2; give 1.2 among the versions",
        ));
    }
    let Some(names) = suites else {
        return Ok(OPENSSL_NAMES.to_vec());
    };
    if names.is_empty() {
        return Err(TlsError::new(
            None,
            "no cipher suite is left; give at least one",
        ));
    }
    let known = |name: &String| {
        let place = legacy_place(name).and_then(|place| OPENSSL_NAMES.get(place));
        place.copied().ok_or_else(|| {
            let all = LEGACY_SUITE_NAMES.join(", ");
            TlsError::new(
                None,
                format!("the legacy engine has no cipher suite '{name}'; give one of {all}"),
            )
        })
    };
    names.iter().map(known).collect()
}

/// The place of a suite in [`LEGACY_SUITE_NAMES`].
pub(super) fn legacy_place(name: &str) -> Option<usize> {
    LEGACY_SUITE_NAMES
        .iter()
        .zip(OPENSSL_NAMES)
        .position(|(iana, openssl)| {
            iana.eq_ignore_ascii_case(name) || openssl.eq_ignore_ascii_case(name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_has_one_engine_under_either_of_its_names() {
        for name in LEGACY_SUITE_NAMES.iter().chain(&OPENSSL_NAMES) {
            assert_eq!(TlsEngine::of_suite(name), TlsEngine::Legacy);
        }
        for name in ["TLS_AES_128_GCM_SHA256", "RC4-MD5", ""] {
            assert_eq!(TlsEngine::of_suite(name), TlsEngine::Modern);
        }
    }

    #[test]
    fn only_its_own_suites_and_version_are_taken() {
        let named = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(legacy_suites(None, None).unwrap(), OPENSSL_NAMES);
        let one = named(&["tls_rsa_with_3des_ede_cbc_sha"]);
        assert_eq!(
            legacy_suites(Some(&TlsVersion::ALL), Some(&one)).unwrap(),
            ["DES-CBC3-SHA"]
        );
        let refused = |versions: Option<&[TlsVersion]>, suites: &[&str]| {
            legacy_suites(versions, Some(&named(suites)))
                .unwrap_err()
                .to_string()
        };
        assert!(refused(None, &["TLS_AES_128_GCM_SHA256"]).contains(LEGACY_SUITE_NAMES[0]));
        assert!(refused(None, &[]).contains("at least one"));
        assert!(refused(Some(&[TlsVersion::V13]), &["AES128-SHA"]).contains("1.2"));
    }
}
