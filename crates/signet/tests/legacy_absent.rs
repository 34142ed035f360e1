//! A program without the feature `legacy-tls` offers none of the suites of
//! RFC 3261 26.2.1, whoever asks for them, and says what would.
#![cfg(not(feature = "legacy-tls"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;

use support::TestDir;
use support::command::{fail, run, text};
use support::openssl::{refused, serve, write_pair};

use sip_tls::testing::{KeyKind, TestCa};

#[test]
fn a_listener_with_weak_suites_is_refused_with_the_feature_that_it_needs() {
    let folder = TestDir::new("legacy-absent");
    let config = folder.path().join("signet.toml");
    for line in [
        "engine = \"legacy\"",
        "suites = [\"TLS_RSA_WITH_AES_128_CBC_SHA\"]",
    ] {
        let whole = format!(
            "version = 1\n[[listen]]\non = \"tls:127.0.0.1:0\"\nname = \"legacy\"\n[listen.security]\n{line}\n"
        );
        fs::write(&config, whole).unwrap();
        for command in ["check", "serve"] {
            let mut arguments = vec![command];
            if command == "serve" {
                arguments.push("--config");
            }
            arguments.push(text(&config));
            let error = fail(&arguments, "");
            assert!(error.contains("signet.toml:6:"), "{error}");
            assert!(error.contains("--features legacy-tls"), "{error}");
        }
    }
}

#[test]
fn a_load_with_weak_suites_is_refused_with_the_feature_that_it_needs() {
    let straight = ["load", "call", "--self", "--transport", "tls"];
    let answer = ["load", "answer", "--listen", "tls:127.0.0.1:0"];
    let folder = TestDir::new("legacy-absent-load");
    write_pair(
        folder.path(),
        "rsa",
        &TestCa::new().issue_with(&["example.com"], KeyKind::Rsa2048),
    );
    let (cert, key) = (folder.path().join("rsa.pem"), folder.path().join("rsa.key"));
    let pair = ["--cert", text(&cert), "--key", text(&key)];
    for asked in [
        ["--tls", "legacy"],
        ["--suite", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"],
    ] {
        for arguments in [
            [&straight[..], &asked].concat(),
            [&answer[..], &pair, &asked].concat(),
        ] {
            let output = run(&arguments, "");
            assert_eq!(output.status.code(), Some(2));
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains("--features legacy-tls"), "{error}");
        }
    }
}

#[test]
fn a_phone_that_knows_only_them_is_sent_away() {
    let folder = TestDir::new("legacy-absent-phone");
    let pair = TestCa::new().issue_with(&["example.com"], KeyKind::Rsa2048);
    write_pair(folder.path(), "rsa", &pair);
    let server = serve(
        folder.path(),
        "certificate = \"rsa.pem\"\nkey = \"rsa.key\"\n",
        "",
    );
    let told = refused(
        server.at("tls"),
        &["-tls1_2", "-cipher", "AES128-SHA@SECLEVEL=0"],
    );
    assert!(told.contains("handshake failure"), "{told}");
}
