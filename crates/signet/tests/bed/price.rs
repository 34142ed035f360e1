//! `signet price` from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use crate::support::command::{fail, succeed, text};
use crate::support::{TestDir, signet};

#[test]
fn what_sip_does_is_priced_beside_packets_or_alone() {
    let folder = TestDir::new("price-sip");
    let file = |name: &str| text(&folder.path().join(name)).to_owned();
    let (json, page) = (file("sip.json"), file("sip.html"));
    let told = succeed(
        &[
            "price",
            "crypto",
            "--part",
            "tls-record,digest,handshake-keys",
            "--sizes",
            "300,700,1400",
            "--rounds",
            "5",
            "--json",
            &json,
            "--html",
            &page,
        ],
        "",
    );
    for name in [
        "tls-record/TLS_AES_128_GCM_SHA256",
        "digest/md5",
        "handshake-keys/rsa-2048/x25519",
    ] {
        assert!(told.contains(name), "{name}: {told}");
    }
    assert!(!told.contains("esp/"), "{told}");
    let page = std::fs::read_to_string(&page).unwrap();
    let page = page.replace("&#x2f;", "/");
    assert!(
        page.contains("What SIP does") && page.contains("digest/sha-256"),
        "{page}"
    );
    let written = std::fs::read_to_string(&json).unwrap();
    let record: serde_json::Value = serde_json::from_str(&written).unwrap();
    let items = record["items"].as_array().unwrap();
    let record = items.iter().find(|item| {
        item["name"] == "tls-record/TLS_AES_128_GCM_SHA256" && item["operation"] == "receive"
    });
    assert_eq!(record.unwrap()["points"].as_array().unwrap().len(), 3);
    let told = fail(&["price", "crypto", "--part", "telepathy"], "");
    assert!(
        told.contains("telepathy") && told.contains("packets, handshake") && told.contains("smime"),
        "{told}"
    );
}

#[test]
fn a_few_prices_make_a_record_and_a_page() {
    let folder = TestDir::new("price");
    let file = |name: &str| text(&folder.path().join(name)).to_owned();
    let (json, page) = (file("crypto.json"), file("crypto.html"));
    let told = succeed(
        &[
            "price",
            "crypto",
            "--sizes",
            "64,300,700",
            "--only",
            "aes-128-gcm,hmac-sha1-96",
            "--rounds",
            "5",
            "--json",
            &json,
            "--html",
            &page,
        ],
        "",
    );
    assert!(told.contains("esp/transport/ipv4/aes-128-gcm"), "{told}");
    assert!(told.contains("primitive/hmac-sha1-96"), "{told}");
    assert!(!told.contains("tunnel"), "{told}");
    let written = std::fs::read_to_string(&json).unwrap();
    let record: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        (&record["format"], &record["version"]),
        (&"signet-price".into(), &1.into())
    );
    let items = record["items"].as_array().unwrap();
    for (name, provider, operation) in [
        ("esp/tunnel/ipv6/aes-128-gcm", "aws-lc", "receive"),
        (
            "esp/transport/ipv4/des-cbc/hmac-sha1-96",
            "rustcrypto",
            "send",
        ),
        (
            "esp+ah/transport/ipv4/aes-128-cbc/hmac-sha1-96",
            "rustcrypto",
            "send",
        ),
        ("ah/tunnel/ipv4/hmac-sha1-96", "aws-lc", "receive"),
    ] {
        let found = items.iter().find(|item| {
            item["name"] == name && item["provider"] == provider && item["operation"] == operation
        });
        let item = found.unwrap_or_else(|| panic!("{name} by {provider}, {operation}"));
        let points = item["points"].as_array().unwrap();
        assert_eq!(points.len(), 3);
        assert!(
            points
                .iter()
                .all(|point| point["median_ns"].as_f64().unwrap() > 0.0)
        );
        assert!(item["line"]["a_ns_per_byte"].is_f64());
    }
    let drawn = std::fs::read_to_string(&page).unwrap();
    let names = drawn.replace("&#x2f;", "/");
    assert!(names.contains("Table 12") && names.contains("esp/tunnel/ipv6/aes-128-gcm"));
    let again = file("again.html");
    succeed(&["price", "report", &json, "--out", &again], "");
    assert_eq!(std::fs::read_to_string(&again).unwrap(), drawn);
}

#[test]
fn what_cannot_be_measured_is_a_sentence_and_a_remedy() {
    for (options, told) in [
        ("--only aes128-cbc", "did you mean aes-128-cbc?"),
        ("--only aes-256-gcm+hmac-md5-96", "leave hmac-md5-96 out"),
        ("--only null+none", "add hmac-sha-256-128"),
        ("--sizes 64,0", "give sizes from 1 to"),
        ("--sizes 65536", "65535"),
        ("--provider boring", "this build has no provider"),
        (
            "--provider aws-lc --only des-cbc+none",
            "leave --provider out",
        ),
        // What nobody would heed is not taken either.
        (
            "--part tls-record --only aes-128-gcm",
            "--only is about packets, and --part names other parts",
        ),
        (
            "--part digest,handshake --provider aws-lc",
            "add packets to --part",
        ),
        ("--part smime --check-openssl", "--check-openssl is about"),
        ("--part smime --all", "--all is about"),
        (
            "--part digest,handshake --sizes 64",
            "add one of these to --part: packets, tls-record, smime",
        ),
    ] {
        let words: Vec<&str> = ["price", "crypto"]
            .into_iter()
            .chain(options.split(' '))
            .collect();
        let error = fail(&words, "");
        assert!(error.contains(told), "{options}: {error}");
    }
    let error = fail(&["price", "report", "/nowhere/crypto.json"], "");
    assert!(error.contains("signet price crypto --json"), "{error}");
}

#[test]
fn a_record_of_tunnels_has_no_medians_to_keep() {
    let folder = TestDir::new("price-report-tunnel");
    let [tunnel, medians, page] =
        ["tunnel.json", "medians.json", "page.html"].map(|name| folder.path().join(name));
    let record = "{\"format\":\"signet-price-tunnel\",\"version\":1}";
    std::fs::write(&tunnel, record).unwrap();
    let words = ["price", "report", text(&tunnel), "--out", text(&page)];
    let error = fail(&[&words[..], &["--json", text(&medians)]].concat(), "");
    assert!(error.contains("is a record of tunnels"), "{error}");
    assert!(error.contains("leave --json out"), "{error}");
    assert!(!medians.exists() && !page.exists());
    succeed(&words, "");
    assert!(page.exists());
}

#[test]
fn files_are_tried_before_anything_is_measured() {
    let folder = TestDir::new("price-files");
    let (kept, missing) = (
        folder.path().join("kept.json"),
        folder.path().join("nowhere").join("page.html"),
    );
    std::fs::write(&kept, "of an earlier run").unwrap();
    for words in [
        &[
            "price", "crypto", "--only", "null", "--sizes", "64", "--rounds", "5",
        ][..],
        &["price", "tunnel", "--only", "none", "--seconds", "1"],
        &[
            "price",
            "live",
            "--core-hour-eur",
            "1",
            "--metrics",
            "http://127.0.0.1:1/metrics",
        ],
    ] {
        let files = ["--json", text(&kept), "--html", text(&missing)];
        let error = fail(&[words, &files].concat(), "");
        assert!(error.contains("nowhere/page.html"), "{error}");
        assert!(
            error.contains("name a file in a folder that this user may write"),
            "{error}"
        );
        // What a run makes is written there first.
        let found = std::fs::read_to_string(&kept).unwrap();
        assert_eq!(found, "of an earlier run", "{words:?}");
    }
}

#[test]
fn what_is_to_be_compared_with_is_asked_for_and_named() {
    let folder = TestDir::new("price-openssl");
    let json = folder.path().join("crypto.json");
    let words = "price crypto --only aes-128-gcm --sizes 64 --rounds 5 --check-openssl --json";
    let output = Command::new(signet())
        .args(words.split(' '))
        .arg(&json)
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("there is no program openssl"), "{error}");
    assert!(error.contains("leave --check-openssl out"), "{error}");
    assert!(!json.exists());
}

#[test]
fn levels_without_an_end_are_refused() {
    let error = fail(&["price", "rate", "--levels", "/dev/zero"], "");
    assert!(error.contains("it is too large to be one"), "{error}");
}
