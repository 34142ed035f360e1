//! SIGHUP changes what TLS shows all or nothing, and no connection is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use crate::support::TestDir;
use crate::support::command::{Serving, text};
use crate::support::openssl::{Client, call, report_with, serve, write_config, write_pair};
use sip_tls::testing::TestCa;

const SECURITY: &str = "certificate = \"server.pem\"\nkey = \"server.key\"\n";

/// Whether a new connection is shown a certificate by this authority.
fn shows(server: &Serving, root: &Path) -> bool {
    call(server.at("tls"), &["-CAfile", text(root)]).contains("Verify return code: 0 (ok)")
}

#[test]
fn a_bad_certificate_leaves_the_old_one_in_service_and_says_so() {
    let folder = TestDir::new("tls-reload");
    let (first, second) = (TestCa::named("First"), TestCa::named("Second"));
    let at = |name: &str| folder.path().join(name);
    fs::write(at("first.pem"), first.root_pem()).unwrap();
    fs::write(at("second.pem"), second.root_pem()).unwrap();
    let good = first.issue(&["example.com"]);
    write_pair(folder.path(), "server", &good);
    let server = serve(folder.path(), SECURITY, "");
    let mut standing = Client::connect(server.at("tls"), &[]);
    standing.exchange();

    let new = second.issue(&["example.com"]);
    let old = second.issue_between(&["example.com"], 2001, 2002);
    let early = second.issue_between(&["example.com"], 2090, 2095);
    let misfit = (new.0.clone(), good.1.clone());
    let spoilt = ("nothing".to_owned(), new.1.clone());
    for (pair, reason) in [
        (&misfit, "server.pem"),
        (&spoilt, "has no certificate in it"),
        (&old, "it expired on 2002-01-01"),
        (&early, "it is not valid before 2090-01-01"),
    ] {
        write_pair(folder.path(), "server", pair);
        let before = fs::read_to_string(&server.log).unwrap();
        server.process.signal("-HUP");
        server.wait_for_count(
            "reload refused, everything stays as it was",
            before.matches("reload refused").count() + 1,
        );
        let log = fs::read_to_string(&server.log).unwrap();
        assert!(log[before.len()..].contains(reason), "{reason}:\n{log}");
        assert!(shows(&server, &at("first.pem")), "{reason}");
    }
    assert!(report_with(folder.path(), "issuer").contains("CN=First"));

    write_pair(folder.path(), "server", &new);
    server.process.signal("-HUP");
    server.wait_for_log(" reloaded");
    assert!(shows(&server, &at("second.pem")));
    assert!(report_with(folder.path(), "CN=Second").contains("asked the running server"));

    // The connection of before is the same still.
    standing.exchange();
    assert!(!standing.told().contains("closed"), "{}", standing.told());
}

#[test]
fn one_bad_part_keeps_all_the_others_back() {
    let folder = TestDir::new("tls-whole");
    let (first, second) = (TestCa::named("First"), TestCa::named("Second"));
    let at = |name: &str| folder.path().join(name);
    fs::write(at("first.pem"), first.root_pem()).unwrap();
    fs::write(at("second.pem"), second.root_pem()).unwrap();
    write_pair(folder.path(), "server", &first.issue(&["example.com"]));
    // Where tickets' secrets come from does not change in a run.
    let server = serve(folder.path(), SECURITY, "[tls]\nticket_keys = \"file\"\n");
    assert!(shows(&server, &at("first.pem")));

    let old = second.issue_between(&["example.com"], 2001, 2002);
    write_pair(folder.path(), "old", &old);
    // A good certificate comes with something bad elsewhere.
    write_pair(folder.path(), "server", &second.issue(&["example.com"]));
    for (nth, (security, more)) in [
        ("", "[tls]\ntrust = [\"none.pem\"]\n"),
        ("", "[tls]\ncrls = [\"none.pem\"]\n"),
        (
            "",
            "[tls]\nidentity = { cert = \"none.pem\", key = \"none.key\" }\n",
        ),
        (
            "",
            "[tls]\nidentity = { cert = \"old.pem\", key = \"old.key\" }\n",
        ),
        (
            "",
            "[tls]\nticket_keys = \"file\"\nticket_secret_file = \"none.secret\"\n",
        ),
        (
            "client_certificates = \"required\"\nclient_roots = [\"none.pem\"]\n",
            "",
        ),
        (
            "client_certificates = \"required\"\ncrls = [\"none.pem\"]\n",
            "",
        ),
        (
            "certificates = [{ cert = \"none.pem\", key = \"none.key\" }]\n",
            "",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        write_config(folder.path(), &format!("{SECURITY}{security}"), more);
        server.process.signal("-HUP");
        server.wait_for_count("reload refused", nth + 1);
        assert!(shows(&server, &at("first.pem")), "{security}{more}");
    }

    write_config(folder.path(), SECURITY, "");
    server.process.signal("-HUP");
    server.wait_for_log(" reloaded");
    assert!(shows(&server, &at("second.pem")));
}

#[test]
fn an_expired_certificate_is_told_of_and_keeps_nothing_else_back() {
    let folder = TestDir::new("tls-expired");
    let ca = TestCa::new();
    write_pair(
        folder.path(),
        "server",
        &ca.issue_between(&["example.com"], 2001, 2002),
    );
    let server = serve(folder.path(), SECURITY, "");
    server.wait_for_log("it expired on 2002-01-01; clients will refuse it");
    assert!(server.options().starts_with("SIP/2.0 200"));

    // One that is in service already is no reason to refuse other changes.
    write_config(
        folder.path(),
        &format!("{SECURITY}versions = [\"1.2\"]\n"),
        "",
    );
    server.process.signal("-HUP");
    server.wait_for_log(" reloaded");
    assert!(call(server.at("tls"), &[]).contains("New, TLSv1.2"));
    report_with(folder.path(), "it expired on 2002-01-01");
}
