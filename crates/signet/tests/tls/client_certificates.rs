//! Whom a listener lets in by certificate, and which alert the others get;
//! openssl is the client.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use crate::support::TestDir;
use crate::support::command::{succeed, text};
use crate::support::openssl::{
    call, is_resumed, refused, report_with, serve, write_config, write_pair,
};
use sip_tls::testing::{KeyKind, TestCa, params};

/// The arguments with which openssl shows a certificate.
fn showing(folder: &Path, name: &str) -> Vec<String> {
    let file = |ending: &str| {
        folder
            .join(format!("{name}.{ending}"))
            .display()
            .to_string()
    };
    vec![
        "-cert".to_owned(),
        file("pem"),
        "-key".to_owned(),
        file("key"),
    ]
}

fn with<'a>(first: &[&'a str], more: &'a [String]) -> Vec<&'a str> {
    first
        .iter()
        .copied()
        .chain(more.iter().map(String::as_str))
        .collect()
}

#[test]
fn required_means_that_only_a_good_certificate_gets_in() {
    let folder = TestDir::new("tls-required");
    let (ours, theirs) = (TestCa::new(), TestCa::named("Another CA"));
    fs::write(folder.path().join("phones.pem"), ours.root_pem()).unwrap();
    write_pair(folder.path(), "good", &ours.issue(&["phone.example.com"]));
    write_pair(
        folder.path(),
        "old",
        &ours.issue_between(&["phone.example.com"], 2001, 2002),
    );
    write_pair(
        folder.path(),
        "early",
        &ours.issue_between(&["phone.example.com"], 2090, 2095),
    );
    write_pair(
        folder.path(),
        "stranger",
        &theirs.issue(&["phone.example.com"]),
    );
    let security = "client_certificates = \"required\"\nclient_roots = [\"phones.pem\"]\n";
    let server = serve(folder.path(), security, "");
    for version in ["-tls1_2", "-tls1_3"] {
        let good = showing(folder.path(), "good");
        let session = folder.path().join(version);
        let told = call(
            server.at("tls"),
            &with(&[version, "-sess_out", text(&session)], &good),
        );
        assert!(!is_resumed(&told));
        let told = call(
            server.at("tls"),
            &with(&[version, "-sess_in", text(&session)], &good),
        );
        assert!(is_resumed(&told), "{told}");

        for (name, alert) in [
            ("old", "alert certificate expired"),
            ("early", "alert certificate expired"),
            ("stranger", "alert unknown ca"),
        ] {
            let shown = showing(folder.path(), name);
            let told = refused(server.at("tls"), &with(&[version], &shown));
            assert!(told.contains(alert), "{version} {name}:\n{told}");
        }
        let told = refused(server.at("tls"), &[version]);
        assert!(
            told.contains("alert certificate required"),
            "{version}:\n{told}"
        );
    }
    let report = report_with(folder.path(), "4: 2 full, 2 resumed (50.0 %), 8 failed");
    for line in [
        "8 bad_certificate",
        "2 expired",
        "2 not_yet_valid",
        "2 unknown_issuer",
        "2 missing",
    ] {
        assert!(report.contains(line), "{line} is not in:\n{report}");
    }
}

#[test]
fn optional_lets_in_who_shows_none_but_nobody_with_a_bad_one() {
    let folder = TestDir::new("tls-optional");
    let (ours, theirs) = (TestCa::new(), TestCa::named("Another CA"));
    fs::write(folder.path().join("phones.pem"), ours.root_pem()).unwrap();
    write_pair(folder.path(), "good", &ours.issue(&["phone.example.com"]));
    write_pair(
        folder.path(),
        "stranger",
        &theirs.issue(&["phone.example.com"]),
    );
    let security = "client_certificates = \"optional\"\nclient_roots = [\"phones.pem\"]\n";
    let server = serve(folder.path(), security, "");
    call(server.at("tls"), &[]);
    call(
        server.at("tls"),
        &with(&[], &showing(folder.path(), "good")),
    );
    let told = refused(
        server.at("tls"),
        &with(&[], &showing(folder.path(), "stranger")),
    );
    assert!(told.contains("alert unknown ca"), "{told}");
}

#[test]
fn some_networks_are_asked_otherwise() {
    let folder = TestDir::new("tls-by-network");
    let ca = TestCa::new();
    fs::write(folder.path().join("phones.pem"), ca.root_pem()).unwrap();
    write_pair(folder.path(), "trunk", &ca.issue(&["trunk.example.com"]));
    let security = "client_roots = [\"phones.pem\"]\n\
         clients = [{ network = \"127.0.0.2\", certificates = \"required\" }, \
         { network = \"127.0.0.0/24\", certificates = \"off\" }]\n";
    let server = serve(folder.path(), security, "");
    let trunk = showing(folder.path(), "trunk");
    let from_trunk = ["-bind", "127.0.0.2:0"];
    for version in ["-tls1_2", "-tls1_3"] {
        let session = folder.path().join(version);
        call(server.at("tls"), &[version, "-sess_out", text(&session)]);
        let told = refused(
            server.at("tls"),
            &with(&[version], &from_trunk.map(str::to_owned)),
        );
        assert!(
            told.contains("alert certificate required"),
            "{version}:\n{told}"
        );
        // A session made without a certificate is none where one is asked for.
        let stolen = [version, "-sess_in", text(&session), "-bind", "127.0.0.2:0"];
        let told = refused(server.at("tls"), &stolen);
        assert!(!is_resumed(&told), "{version}:\n{told}");
        let told = call(server.at("tls"), &[version, "-sess_in", text(&session)]);
        assert!(is_resumed(&told), "{version}:\n{told}");
        let good = [version, "-bind", "127.0.0.2:0"];
        call(server.at("tls"), &with(&good, &trunk));
    }
    let report = report_with(folder.path(), "4 missing");
    for line in [
        "of 127.0.0.2/32: must show a certificate of",
        "of 127.0.0.0/24: not asked for certificates",
        "clients        not asked for certificates",
    ] {
        assert!(report.contains(line), "{line} is not in:\n{report}");
    }
}

#[test]
fn without_roots_the_folders_own_authority_certifies_clients() {
    let folder = TestDir::new("tls-own-authority");
    let server = serve(folder.path(), "client_certificates = \"required\"\n", "");
    let data = folder.path().join("data");
    let out = folder.path().join("phone");
    succeed(
        &[
            "ca",
            "issue",
            "phone.example.com",
            "--out",
            text(&out),
            "--data",
            text(&data),
        ],
        "",
    );
    call(
        server.at("tls"),
        &with(&[], &showing(folder.path(), "phone")),
    );
    let told = refused(server.at("tls"), &[]);
    assert!(told.contains("alert certificate required"), "{told}");
}

#[test]
fn a_revoked_client_neither_connects_nor_resumes() {
    let folder = TestDir::new("tls-revoked");
    let ca = TestCa::new();
    fs::write(folder.path().join("phones.pem"), ca.root_pem()).unwrap();
    fs::write(folder.path().join("list.pem"), ca.revoke(&[])).unwrap();
    let mut fields = params(&["phone.example.com"], 2020, 2099);
    fields.serial_number = Some(7.into());
    let phone = ca.issue_from(&fields, &KeyKind::P256.generate());
    write_pair(folder.path(), "phone", &phone);
    let security = "client_certificates = \"required\"\nclient_roots = [\"phones.pem\"]\ncrls = [\"list.pem\"]\nrevocation = \"strict\"\n";
    let server = serve(folder.path(), security, "");
    let shown = showing(folder.path(), "phone");
    let session = |version: &str| folder.path().join(version);
    for version in ["-tls1_2", "-tls1_3"] {
        let session = session(version);
        call(
            server.at("tls"),
            &with(&[version, "-sess_out", text(&session)], &shown),
        );
        let told = call(
            server.at("tls"),
            &with(&[version, "-sess_in", text(&session)], &shown),
        );
        assert!(is_resumed(&told));
    }

    // A list that cannot be read changes nothing.
    fs::write(folder.path().join("list.pem"), "nothing").unwrap();
    server.process.signal("-HUP");
    server.wait_for_log("has no revocation list in it");
    call(server.at("tls"), &with(&[], &shown));

    fs::write(folder.path().join("list.pem"), ca.revoke(&[7])).unwrap();
    server.process.signal("-HUP");
    server.wait_for_log(" reloaded");
    for version in ["-tls1_2", "-tls1_3"] {
        for also in [
            vec![],
            vec!["-sess_in".to_owned(), text(&session(version)).to_owned()],
        ] {
            let all = [shown.clone(), also].concat();
            let told = refused(server.at("tls"), &with(&[version], &all));
            assert!(
                told.contains("alert certificate revoked"),
                "{version}:\n{told}"
            );
        }
    }
    let report = report_with(folder.path(), "4 revoked");
    assert!(report.contains("not resumed  2, because"), "{report}");

    // Off again: nobody is asked, and no session of before counts.
    write_config(folder.path(), "", "");
    server.process.signal("-HUP");
    server.wait_for_count(" reloaded", 2);
    let told = call(
        server.at("tls"),
        &["-tls1_3", "-sess_in", text(&session("-tls1_3"))],
    );
    assert!(!is_resumed(&told), "{told}");
}
