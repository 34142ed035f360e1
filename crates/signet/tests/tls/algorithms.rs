//! Certificates of several kinds side by side; versions, suites and groups by
//! configuration; openssl tells what was agreed on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use crate::support::TestDir;
use crate::support::command::{fail, run, text};
use crate::support::openssl::{call, refused, report_with, serve, write_config, write_pair};
use sip_tls::testing::{KeyKind, TestCa};

const KINDS: [(&str, KeyKind, &str, &str); 3] = [
    (
        "rsa",
        KeyKind::Rsa2048,
        "rsa_pss_rsae_sha256",
        "Peer signature type: RSA",
    ),
    (
        "ecdsa",
        KeyKind::P256,
        "ecdsa_secp256r1_sha256",
        "Peer signature type: ECDSA",
    ),
    (
        "ed",
        KeyKind::Ed25519,
        "ed25519",
        "Peer signature type: ed25519",
    ),
];

#[test]
fn a_client_is_shown_the_certificate_that_it_can_verify() {
    let folder = TestDir::new("tls-kinds");
    let ca = TestCa::new();
    let root = folder.path().join("root.pem");
    fs::write(&root, ca.root_pem()).unwrap();
    for (name, kind, ..) in KINDS {
        write_pair(folder.path(), name, &ca.issue_with(&["example.com"], kind));
    }
    let security = "certificate = \"rsa.pem\"\nkey = \"rsa.key\"\ncertificates = [\
         { cert = \"ecdsa.pem\", key = \"ecdsa.key\" }, { cert = \"ed.pem\", key = \"ed.key\" }]\n";
    let server = serve(folder.path(), security, "");
    for version in ["-tls1_2", "-tls1_3"] {
        for (name, _, scheme, expected) in KINDS {
            // PSS has the same name in openssl for both versions.
            let told = call(
                server.at("tls"),
                &[
                    version,
                    "-sigalgs",
                    scheme,
                    "-servername",
                    "example.com",
                    "-CAfile",
                    text(&root),
                    "-verify_return_error",
                ],
            );
            assert!(told.contains(expected), "{version} {name}:\n{told}");
            assert!(told.contains("Verify return code: 0 (ok)"), "{told}");
        }
    }
    let report = report_with(folder.path(), "6: 6 full, 0 resumed (0.0 %), 0 failed");
    for kind in ["RSA 2048", "ECDSA P-256", "Ed25519"] {
        assert!(report.contains(kind), "{kind} is not in:\n{report}");
    }
}

#[test]
fn only_what_the_configuration_names_is_agreed_on() {
    let folder = TestDir::new("tls-algorithms");
    let security = "versions = [\"1.3\"]\nsuites = [\"TLS_CHACHA20_POLY1305_SHA256\"]\ngroups = [\"secp384r1\"]\n";
    let server = serve(folder.path(), security, "");
    let told = call(server.at("tls"), &[]);
    assert!(
        told.contains("New, TLSv1.3, Cipher is TLS_CHACHA20_POLY1305_SHA256"),
        "{told}"
    );
    assert!(told.contains("secp384r1"), "{told}");
    for (with, alert) in [
        (["-tls1_2", "-groups", "P-384"], "alert protocol version"),
        (["-tls1_3", "-groups", "X25519"], "alert handshake failure"),
        (
            ["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"],
            "alert handshake failure",
        ),
    ] {
        let told = refused(server.at("tls"), &with);
        assert!(told.contains(alert), "{with:?}:\n{told}");
    }
    let report = report_with(folder.path(), "1: 1 full, 0 resumed (0.0 %), 3 failed");
    for line in [
        "1 1.3",
        "1 TLS_CHACHA20_POLY1305_SHA256",
        "1 P-384",
        "3 incompatible",
    ] {
        assert!(report.contains(line), "{line} is not in:\n{report}");
    }

    // A reload opens the rest.
    write_config(folder.path(), "", "");
    server.process.signal("-HUP");
    server.wait_for_log(" reloaded");
    let told = call(server.at("tls"), &["-tls1_2", "-groups", "X25519:P-256"]);
    assert!(told.contains("TLSv1.2"), "{told}");
}

#[test]
fn a_check_says_what_is_wrong_before_a_server_is_started() {
    let folder = TestDir::new("tls-check");
    for (security, expected) in [
        (
            "suites = [\"RC4-MD5\"]\n",
            "there is no cipher suite 'RC4-MD5' here",
        ),
        ("groups = [\"P-521\"]\n", "give one of X25519"),
        (
            "certificates = [{ cert = \"none.pem\", key = \"none.key\" }]\n",
            "none.pem",
        ),
        (
            "client_certificates = \"required\"\ncrls = [\"signet.toml\"]\n",
            "has no revocation list in it",
        ),
    ] {
        let config = write_config(folder.path(), security, "");
        let error = fail(&["check", text(&config)], "");
        assert!(error.contains(expected), "{expected:?} is not in:\n{error}");
        assert!(error.contains("signet.toml:"), "{error}");
    }
    let config = write_config(folder.path(), "client_certificates = \"required\"\n", "");
    assert!(run(&["check", text(&config)], "").status.success());
    assert!(
        !folder.path().join("data").exists(),
        "a check makes nothing"
    );
}
