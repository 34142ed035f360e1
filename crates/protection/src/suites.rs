//! The cipher suites and groups that a peer may name, and what is in each.

/// A cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Its name in IANA's registry.
    pub iana: &'static str,
    /// openssl's name for it.
    pub openssl: &'static str,
    /// `1.3`, or `1.2` and before.
    pub version: &'static str,
    /// The algorithms in it, but for its key exchange where a group decides that.
    pub parts: &'static [&'static str],
}

impl Suite {
    /// Whether its keys are agreed on by a group that both sides have by name.
    pub fn has_group(&self) -> bool {
        !self
            .parts
            .iter()
            .any(|part| matches!(*part, "RSA key transport" | "DHE"))
    }
}

/// A key-exchange group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name here, and in the table of levels.
    pub name: &'static str,
    /// Its other names.
    pub others: &'static [&'static str],
    /// Whether TLS 1.2 has it too.
    pub is_in_1_2: bool,
}

const fn suite(
    iana: &'static str,
    openssl: &'static str,
    version: &'static str,
    parts: &'static [&'static str],
) -> Suite {
    Suite {
        iana,
        openssl,
        version,
        parts,
    }
}

const fn tls13(iana: &'static str, parts: &'static [&'static str]) -> Suite {
    suite(iana, iana, "1.3", parts)
}

const fn tls12(iana: &'static str, openssl: &'static str, parts: &'static [&'static str]) -> Suite {
    suite(iana, openssl, "1.2", parts)
}

/// Suites by name: those that are in use, and those that are looked for to be refused.
#[rustfmt::skip]
pub const SUITES: &[Suite] = &[
    tls13("TLS_AES_128_GCM_SHA256", &["TLS 1.3", "AES-128-GCM"]),
    tls13("TLS_AES_256_GCM_SHA384", &["TLS 1.3", "AES-256-GCM"]),
    tls13("TLS_CHACHA20_POLY1305_SHA256", &["TLS 1.3", "ChaCha20-Poly1305"]),
    tls13("TLS_AES_128_CCM_SHA256", &["TLS 1.3", "AES-128-CCM"]),
    tls12("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", &["TLS 1.2", "AES-128-GCM"]),
    tls12("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", &["TLS 1.2", "AES-256-GCM"]),
    tls12("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", &["TLS 1.2", "ChaCha20-Poly1305"]),
    tls12("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", &["TLS 1.2", "AES-128-GCM"]),
    tls12("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", &["TLS 1.2", "AES-256-GCM"]),
    tls12("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", &["TLS 1.2", "ChaCha20-Poly1305"]),
    tls12("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA", &["TLS 1.2", "AES-128-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA", &["TLS 1.2", "AES-256-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256", &["TLS 1.2", "AES-128-CBC", "HMAC-SHA-256", "MAC-then-encrypt"]),
    tls12("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384", &["TLS 1.2", "AES-256-CBC", "HMAC-SHA-384", "MAC-then-encrypt"]),
    tls12("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA", &["TLS 1.2", "AES-128-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA", &["TLS 1.2", "AES-256-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256", &["TLS 1.2", "AES-128-CBC", "HMAC-SHA-256", "MAC-then-encrypt"]),
    tls12("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384", &["TLS 1.2", "AES-256-CBC", "HMAC-SHA-384", "MAC-then-encrypt"]),
    tls12("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256", &["TLS 1.2", "DHE", "AES-128-GCM"]),
    tls12("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384", &["TLS 1.2", "DHE", "AES-256-GCM"]),
    tls12("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305", &["TLS 1.2", "DHE", "ChaCha20-Poly1305"]),
    tls12("TLS_DHE_RSA_WITH_AES_128_CBC_SHA", "DHE-RSA-AES128-SHA", &["TLS 1.2", "DHE", "AES-128-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA", &["TLS 1.2", "DHE", "AES-256-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256", &["TLS 1.2", "RSA key transport", "AES-128-GCM"]),
    tls12("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384", &["TLS 1.2", "RSA key transport", "AES-256-GCM"]),
    tls12("TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256", &["TLS 1.2", "RSA key transport", "AES-128-CBC", "HMAC-SHA-256", "MAC-then-encrypt"]),
    tls12("TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256", &["TLS 1.2", "RSA key transport", "AES-256-CBC", "HMAC-SHA-256", "MAC-then-encrypt"]),
    tls12("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA", &["TLS 1.2", "RSA key transport", "AES-128-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA", &["TLS 1.2", "RSA key transport", "AES-256-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA", &["TLS 1.2", "RSA key transport", "3DES-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_RSA_WITH_DES_CBC_SHA", "DES-CBC-SHA", &["TLS 1.2", "RSA key transport", "DES-CBC", "HMAC-SHA1", "MAC-then-encrypt"]),
    tls12("TLS_RSA_WITH_RC4_128_SHA", "RC4-SHA", &["TLS 1.2", "RSA key transport", "RC4", "HMAC-SHA1"]),
    tls12("TLS_RSA_WITH_RC4_128_MD5", "RC4-MD5", &["TLS 1.2", "RSA key transport", "RC4", "HMAC-MD5"]),
    tls12("TLS_RSA_WITH_NULL_SHA256", "NULL-SHA256", &["TLS 1.2", "RSA key transport", "NULL", "HMAC-SHA-256"]),
    tls12("TLS_RSA_WITH_NULL_SHA", "NULL-SHA", &["TLS 1.2", "RSA key transport", "NULL", "HMAC-SHA1"]),
    tls12("TLS_RSA_WITH_NULL_MD5", "NULL-MD5", &["TLS 1.2", "RSA key transport", "NULL", "HMAC-MD5"]),
    tls12("TLS_ECDHE_RSA_WITH_RC4_128_SHA", "ECDHE-RSA-RC4-SHA", &["TLS 1.2", "RC4", "HMAC-SHA1"]),
    tls12("TLS_ECDHE_RSA_WITH_NULL_SHA", "ECDHE-RSA-NULL-SHA", &["TLS 1.2", "NULL", "HMAC-SHA1"]),
    tls12("TLS_RSA_EXPORT_WITH_RC4_40_MD5", "EXP-RC4-MD5", &["SSLv3", "RSA key transport", "export cipher", "HMAC-MD5"]),
    tls12("TLS_RSA_EXPORT_WITH_DES40_CBC_SHA", "EXP-DES-CBC-SHA", &["SSLv3", "RSA key transport", "export cipher", "HMAC-SHA1"]),
];

/// Groups by name.
pub const GROUPS: &[Group] = &[
    Group {
        name: "X25519",
        others: &["x25519"],
        is_in_1_2: true,
    },
    Group {
        name: "P-256",
        others: &["secp256r1", "prime256v1"],
        is_in_1_2: true,
    },
    Group {
        name: "P-384",
        others: &["secp384r1"],
        is_in_1_2: true,
    },
    Group {
        name: "X25519MLKEM768",
        others: &[],
        is_in_1_2: false,
    },
    Group {
        name: "SecP256r1MLKEM768",
        others: &[],
        is_in_1_2: false,
    },
];

/// The suite with this name, at IANA or in openssl.
pub fn suite_by_name(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| {
        suite.iana.eq_ignore_ascii_case(name) || suite.openssl.eq_ignore_ascii_case(name)
    })
}

/// The group with this name.
pub fn group_by_name(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| {
        group.name.eq_ignore_ascii_case(name)
            || group
                .others
                .iter()
                .any(|other| other.eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Levels;

    #[test]
    fn every_part_has_a_level_and_every_name_is_one_suites() {
        let levels = Levels::shipped();
        for suite in SUITES {
            for part in suite.parts {
                assert!(levels.get(part).is_some(), "{part} of {}", suite.iana);
            }
            assert_eq!(suite_by_name(suite.openssl), Some(suite));
            assert_eq!(suite_by_name(&suite.iana.to_lowercase()), Some(suite));
        }
        for group in GROUPS {
            assert!(levels.get(group.name).is_some(), "{}", group.name);
            for name in group.others {
                assert_eq!(group_by_name(name), Some(group));
            }
        }
        assert_eq!(suite_by_name("ROT13"), None);
        let has_group = |name: &str| suite_by_name(name).unwrap().has_group();
        assert!(has_group("TLS_AES_128_GCM_SHA256") && has_group("ECDHE-RSA-AES128-SHA"));
        assert!(!has_group("AES128-SHA") && !has_group("DHE-RSA-AES128-SHA"));
    }

    #[test]
    fn what_is_broken_is_broken_in_every_suite_that_has_it() {
        let levels = Levels::shipped();
        for word in ["_RC4_", "_NULL_", "EXPORT", "_DES_CBC_"] {
            let found: Vec<&Suite> = SUITES.iter().filter(|s| s.iana.contains(word)).collect();
            assert!(!found.is_empty(), "{word}");
            for suite in found {
                assert!(levels.judge(suite.parts).is_err(), "{}", suite.iana);
            }
        }
    }
}
