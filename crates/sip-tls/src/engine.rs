//! Which library speaks TLS.

/// Which library speaks TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
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
pub(crate) const OPENSSL_NAMES: [&str; LEGACY_SUITE_NAMES.len()] = ["AES128-SHA", "DES-CBC3-SHA"];

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
        match legacy_index(name) {
            Some(_) => Self::Legacy,
            None => Self::Modern,
        }
    }
}

/// The place of a suite in [`LEGACY_SUITE_NAMES`].
pub(crate) fn legacy_index(name: &str) -> Option<usize> {
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
}
