//! Certificates that are wrong, shown to a running server by openssl: each gets
//! its alert, nothing that it says is read, the reason is on the page of
//! figures, and the service goes on. All kinds are in `sip-net`'s `tls_matrix`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use crate::support::TestDir;
use crate::support::openssl::{call, figure, refused, serve, wait_for_figure, write_pair};
use sip_tls::testing::{KeyKind, TestCa, params};

#[test]
fn what_is_wrong_is_refused_told_and_counted_and_the_service_goes_on() {
    let folder = TestDir::new("tls-matrix");
    let at = folder.path();
    let ca = TestCa::new();
    fs::write(at.join("roots.pem"), ca.root_pem()).unwrap();
    fs::write(at.join("list.pem"), ca.revoke(&[7])).unwrap();
    let names = &["phone.example.com"];
    let mut revoked = params(names, 2020, 2099);
    revoked.serial_number = Some(7.into());
    let (mut broken, broken_key) = ca.issue(names);
    // One letter of the last bytes, which are the signature's, is another.
    let place = broken.find("\n-----END").unwrap() - 12;
    let letter = if &broken[place..=place] == "A" {
        "B"
    } else {
        "A"
    };
    broken.replace_range(place..=place, letter);
    // What it is called, what is shown, the alert as openssl reads it, and the
    // reason that is counted.
    let rows: [(&str, (String, String), &str, &str); 7] = [
        (
            "old",
            ca.issue_between(names, 2001, 2002),
            "certificate expired",
            "expired",
        ),
        (
            "early",
            ca.issue_between(names, 2090, 2095),
            "certificate expired",
            "not_yet_valid",
        ),
        (
            "strange",
            TestCa::named("Another CA").issue(names),
            "unknown ca",
            "unknown_issuer",
        ),
        (
            "revoked",
            ca.issue_from(&revoked, &KeyKind::P256.generate()),
            "certificate revoked",
            "revoked",
        ),
        (
            "authority",
            (ca.root_pem(), ca.issuer().key().serialize_pem()),
            "certificate unknown",
            "not_an_authority",
        ),
        (
            "impostor",
            TestCa::new().issue(names),
            "decrypt error",
            "bad_signature",
        ),
        (
            "broken",
            (broken, broken_key),
            "decrypt error",
            "bad_signature",
        ),
    ];
    write_pair(at, "good", &ca.issue(names));
    for (name, pair, ..) in &rows {
        write_pair(at, name, pair);
    }
    let server = serve(
        at,
        "client_certificates = \"required\"\nclient_roots = [\"roots.pem\"]\ncrls = [\"list.pem\"]\n",
        "",
    );
    let listener = format!("listener=\"tls:{}\"", server.at("tls"));
    let showing = |version: &'static str, name: &str| {
        let file = |ending: &str| at.join(format!("{name}.{ending}")).display().to_string();
        [
            version.to_owned(),
            "-cert".into(),
            file("pem"),
            "-key".into(),
            file("key"),
        ]
    };
    let mut refused_count = 0;
    for version in ["-tls1_2", "-tls1_3"] {
        for (name, _, alert, _) in &rows {
            let arguments = showing(version, name);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let told = refused(server.at("tls"), &arguments);
            assert!(
                told.contains(&format!("alert {alert}")),
                "{version} {name}:\n{told}"
            );
            refused_count += 1;
        }
        let told = refused(server.at("tls"), &[version]);
        assert!(told.contains("alert certificate required"), "{told}");
        refused_count += 1;
        // And it goes on.
        let good = showing(version, "good");
        let good: Vec<&str> = good.iter().map(String::as_str).collect();
        call(server.at("tls"), &good);
        assert!(server.options().contains("200"));
    }
    for (fault, count) in [
        ("expired", 2),
        ("not_yet_valid", 2),
        ("unknown_issuer", 2),
        ("revoked", 2),
        ("not_an_authority", 2),
        ("bad_signature", 4),
        ("missing", 2),
    ] {
        let name = format!(
            "signet_tls_listener_certificates_refused_total{{{listener},fault=\"{fault}\"}}"
        );
        wait_for_figure(at, &name, count);
    }
    let failed =
        format!("signet_tls_listener_failed_total{{{listener},reason=\"bad_certificate\"}}");
    wait_for_figure(at, &failed, refused_count);
    // The two good calls, and nothing else, were read. The workers tell their
    // figures one after the other.
    let received = "signet_messages_received_total{transport=\"tls\"}";
    wait_for_figure(at, received, 2);
    wait_for_figure(at, "signet_connections", 0);
    assert_eq!(figure(at, received), 2);
}
