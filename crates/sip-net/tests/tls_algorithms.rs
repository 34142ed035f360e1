//! Versions, suites, groups and kinds of keys at our server, as openssl sees them.
#![allow(clippy::unwrap_used)]

use crate::common::openssl::s_client;
use crate::common::tls_server;
use sip_msg::ListenerId;
use sip_tls::testing::{KeyKind, TestCa};
use sip_tls::{GROUP_NAMES, HandshakeFailure, SUITE_NAMES, ServerTlsConfig, TlsVersion};

/// A server with a certificate of each kind for one name.
fn three_kinds() -> ServerTlsConfig {
    let ca = TestCa::new();
    let mut config = ServerTlsConfig::new();
    for kind in [KeyKind::Rsa2048, KeyKind::P256, KeyKind::Ed25519] {
        let (chain, key) = ca.issue_with(&["example.com"], kind);
        config = config.pair_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    }
    config
}

#[test]
fn the_certificate_is_of_a_kind_that_the_client_can_verify() {
    let mut server = tls_server(three_kinds().build().unwrap());
    for (args, kind) in [
        (&["-tls1_3", "-sigalgs", "ECDSA+SHA256"][..], "ECDSA"),
        (&["-tls1_3", "-sigalgs", "RSA-PSS+SHA256"], "RSA-PSS"),
        (&["-tls1_3", "-sigalgs", "ed25519"], "ed25519"),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            "ECDSA",
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
            "RSA",
        ),
        // Who can verify all is shown the first.
        (&["-tls1_3"], "RSA-PSS"),
    ] {
        let output = s_client(&mut server, args);
        let line = format!("Peer signature type: {kind}");
        assert!(output.contains(&line), "{args:?}: {output}");
        assert!(output.contains("SIP/2.0 200 OK"), "{args:?}");
    }
}

#[test]
fn suites_and_groups_are_those_configured() {
    for (suite, args) in [
        ("TLS_AES_128_GCM_SHA256", &["-tls1_3"][..]),
        ("TLS_AES_256_GCM_SHA384", &["-tls1_3"]),
        ("TLS_CHACHA20_POLY1305_SHA256", &["-tls1_3"]),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", &["-tls1_2"]),
        ("ECDHE-RSA-CHACHA20-POLY1305", &["-tls1_2"]),
    ] {
        for (group, theirs) in [
            ("X25519", "X25519, 253 bits"),
            ("P-256", "ECDH, prime256v1, 256 bits"),
            ("P-384", "ECDH, secp384r1, 384 bits"),
        ] {
            let config = three_kinds().suites(&[suite]).groups(&[group]);
            let mut server = tls_server(config.build().unwrap());
            let output = s_client(&mut server, args);
            assert!(
                output.contains(&format!("Cipher is {suite}")),
                "{suite} {group}: {output}"
            );
            assert!(
                output.contains(&format!("Server Temp Key: {theirs}")),
                "{suite} {group}: {output}"
            );
            let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
            let place = GROUP_NAMES.iter().position(|name| *name == group).unwrap();
            assert_eq!(tally.groups[place], 1);
            assert_eq!(tally.suites.iter().sum::<u64>(), 1);
            if let Some(place) = SUITE_NAMES.iter().position(|name| *name == suite) {
                assert_eq!(tally.suites[place], 1, "{suite}");
            }
        }
    }
}

#[test]
fn a_version_that_is_not_configured_is_refused() {
    for (version, wrong, right) in [
        (TlsVersion::V12, "-tls1_3", "-tls1_2"),
        (TlsVersion::V13, "-tls1_2", "-tls1_3"),
    ] {
        let config = three_kinds().versions(&[version]);
        let mut server = tls_server(config.build().unwrap());
        let output = s_client(&mut server, &[wrong]);
        assert!(output.contains("alert protocol version"), "{output}");
        let error = server.until(crate::common::handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::Incompatible);
        assert_eq!(
            error.alert.map(|alert| (alert.name(), alert.received)),
            Some(("protocol_version", false))
        );
        let output = s_client(&mut server, &[right]);
        assert!(output.contains("SIP/2.0 200 OK"), "{output}");
    }
}

#[test]
fn no_group_and_no_suite_in_common_is_said() {
    let config = three_kinds()
        .groups(&["X25519"])
        .suites(&["TLS_AES_128_GCM_SHA256"]);
    let mut server = tls_server(config.build().unwrap());
    for args in [
        &["-tls1_3", "-groups", "P-521"][..],
        &["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"],
    ] {
        let output = s_client(&mut server, args);
        assert!(
            output.contains("alert handshake failure"),
            "{args:?}: {output}"
        );
        let error = server.until(crate::common::handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::Incompatible, "{args:?}");
    }
    let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
    assert_eq!(tally.failed[HandshakeFailure::Incompatible as usize], 2);
}
