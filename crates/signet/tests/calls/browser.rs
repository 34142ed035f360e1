//! Chromium opens a page that registers over wss with a password and answers a
//! call that comes over UDP. Signalling only. The browser checks the server's
//! certificate: the one key that it takes is named by its hash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::browser::{Browser, Site};
use crate::support::command::{Serving, succeed, text};
use crate::support::phone::Phone;
use crate::support::{TestDir, add_user, have};

const DOMAIN: &str = "example.com";

/// The hash of the key in a certificate, as the browser wants it: base64 of
/// SHA-256 of its SubjectPublicKeyInfo. By openssl, so not by us.
fn key_hash(certificate: &Path) -> String {
    let script = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | \
                  openssl dgst -sha256 -binary | openssl enc -base64";
    let output = Command::new("sh")
        .args(["-c", script, text(certificate)])
        .output()
        .unwrap();
    let hash = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!(hash.len(), 44, "{hash}");
    hash
}

/// A server with a UDP and a wss listener, for pages of `origins`. A page is told that it is
/// registered however slow the disk is.
fn start(folder: &Path, origins: &str) -> Serving {
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n\
         [[listen]]\non = \"wss:127.0.0.1:0\"\n[listen.websocket]\norigins = [{origins}]\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n\
         [registrar]\nsave_timeout_ms = 60000\n"
    );
    fs::write(&config, whole).unwrap();
    let data = folder.join("data");
    let server = Serving::start(folder, &data, &["--config", text(&config)]);
    for user in ["alice", "bob"] {
        add_user(&data, user, DOMAIN, &format!("{user}-secret"));
    }
    server
}

#[test]
fn a_page_registers_over_wss_and_takes_a_call() {
    if !have("chromium") {
        return;
    }
    let folder = TestDir::new("browser-call");
    let site = Site::start();
    let server = start(folder.path(), &format!("\"{}\"", site.origin()));
    let key = key_hash(&folder.path().join("data/server.pem"));
    let page = site.page(&format!("wss://{}/", server.at("wss")), DOMAIN);
    let _browser = Browser::open(folder.path(), &key, &page);
    let told = site.told.wait(3);
    assert_eq!(told, ["open sip", "REGISTER 401", "REGISTER 200"]);
    let data = folder.path().join("data");
    let listed = succeed(
        &["bindings", "alice@example.com", "--data", text(&data)],
        "",
    );
    assert!(listed.contains(".invalid;transport=ws"), "{listed}");

    let mut bob = Phone::udp(server.at("udp"), "bob", DOMAIN);
    let mut call = bob.invite("alice");
    let answer = bob.established(&mut call);
    assert!(answer.contains("m=audio 0 RTP/AVP 0"), "{answer}");
    let told = site.told.wait(5);
    assert!(
        told[3].starts_with("INVITE <sip:bob@example.com>;tag="),
        "{told:?}"
    );
    assert_eq!(told[4], "ACK", "{told:?}");
    bob.hang_up(&mut call);
    bob.hung_up(&call);
    let told = site.told.wait(6);
    assert_eq!(told[5..], ["BYE"], "{told:?}");
}

#[test]
fn a_page_of_another_origin_is_refused_and_so_is_another_key() {
    if !have("chromium") {
        return;
    }
    let folder = TestDir::new("browser-refused");
    let site = Site::start();
    let server = start(folder.path(), "\"https://phone.example.net\"");
    let page = site.page(&format!("wss://{}/", server.at("wss")), DOMAIN);
    let certificate = folder.path().join("data/server.pem");
    // The key is right, the page is not; then the key is not.
    let browser = Browser::open(folder.path(), &key_hash(&certificate), &page);
    assert_eq!(site.told.wait(1), ["closed 1006"]);
    drop(browser);
    crate::support::openssl::report_with(folder.path(), "1: 1 full, 0 resumed");
    let wrong = key_hash(&folder.path().join("data/ca.pem"));
    let _browser = Browser::open(folder.path(), &wrong, &page);
    assert_eq!(site.told.wait(2), ["closed 1006", "closed 1006"]);
    let report = crate::support::openssl::report_with(folder.path(), "certificate_refused");
    assert!(report.contains("wss:"), "{report}");
}
