//! `signet price rate` and `signet price choose`, by the real program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use crate::support::TestDir;
use crate::support::command::{fail, succeed, text};
use serde_json::Value;

#[test]
fn a_rating_has_the_papers_table_beside_todays() {
    let told = succeed(&["price", "rate"], "");
    for line in [
        "Niedermayer 2006, Table 14",
        "not on this machine",
        "AES-128-CBC (AES-128)",
        "Blowfish-192-CBC (Blowfish-192)",
        "DES-CBC (DES) *",
        "HMAC-SHA-256-128 (HMAC-SHA-2-256)",
        "X25519MLKEM768",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
    let json: Value =
        serde_json::from_str(&succeed(&["price", "rate", "--json", "-"], "")).unwrap();
    let ratings = json["ratings"].as_array().unwrap();
    let of = |name: &str| {
        ratings
            .iter()
            .find(|rating| rating["name"] == name)
            .unwrap()
    };
    assert_eq!(of("3DES-CBC")["published"]["protection"], 8);
    assert_eq!(of("3DES-CBC")["protection"]["confidentiality"], 3);
    assert_eq!(of("DES-CBC")["is_broken"], true);
}

#[test]
fn a_choice_tells_the_alternatives_and_why_the_others_fell_out() {
    let told = succeed(
        &[
            "price",
            "choose",
            "--min-confidentiality",
            "9",
            "--min-authentication",
            "5",
            "--peer-offers",
            "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,RC4-SHA,P-384,X25519",
        ],
        "",
    );
    for line in [
        "confidentiality 9 or more, authentication 5 or more, by shipped prices",
        "choose TLS_",
        "with P-384: confidentiality 9, authentication 8",
        "alternatives",
        "not taken",
        "TLS_AES_128_GCM_SHA256: confidentiality 8 is less than 9: AES-128-GCM",
        "TLS_RSA_WITH_RC4_128_SHA: RC4 is never chosen",
        "X25519: confidentiality 8 is less than 9",
        "P-256: the peer does not offer it",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
    let json = succeed(&["price", "choose", "--json", "-"], "");
    // A row for what there is not would be passed over, and the operator none the wiser.
    let levels = TestDir::new("price-levels");
    let levels = levels.path().join("levels.toml");
    let row = r#"
        version = 1
        [[algorithm]]
        name = "AES-128-GMC"
        kind = "cipher"
        confidentiality = 1
        why = "a slip of the pen"
        source = "nobody"
        date = "2026-01"
    "#;
    fs::write(&levels, row).unwrap();
    let error = fail(&["price", "choose", "--levels", text(&levels)], "");
    assert!(error.contains("AES-128-GCM"), "{error}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["first"][0], json["pairs"][0]["first"]);
}

#[test]
fn what_cannot_be_is_told_with_the_remedy() {
    let folder = TestDir::new("price-choose");
    let file = folder.path().join("levels.toml");
    fs::write(&file, "version = 1\n[[algorithm]]\nname = \"RC4\"\n").unwrap();
    for (arguments, told) in [
        (
            &["--min-authentication", "10"][..],
            "lower --min-authentication from 10 to 8",
        ),
        (
            &["--peer-offers", "NULL-SHA"][..],
            "fit to protect anything",
        ),
        (
            &["--peer-offers", "ROT13"][..],
            "`ROT13` is no suite and no group",
        ),
        (
            &["--from", "/nonexistent.json"][..],
            "signet price crypto --json FILE",
        ),
        (&["--from", text(&file)][..], "no record of prices"),
        (
            &["--levels", text(&file)][..],
            "levels.toml:2:1: the key `kind` is missing",
        ),
        (
            &["--levels", "/nonexistent.toml"][..],
            "name a file that is there",
        ),
        (
            &["--for", "ipsec", "--peer-offers", "DES-CBC,NULL"][..],
            "fit to protect anything",
        ),
        (&["--max-cost", "0"][..], "raise --max-cost from 0.00us to"),
        (
            &[
                "--peer-offers",
                "ECDHE-RSA-AES128-GCM-SHA256,X25519MLKEM768",
            ][..],
            "X25519MLKEM768: no cipher suite that both sides may use goes with it",
        ),
        (
            &["--peer-offers", "AES128-SHA,X25519"][..],
            "there is no cipher suite that both sides may use",
        ),
        (
            &["--for", "ipsec", "--end", "client"][..],
            "--end is about handshakes of TLS",
        ),
        (
            &["--for", "ipsec", "--messages-per-handshake", "7"][..],
            "leave it out",
        ),
    ] {
        let error = fail(&[&["price", "choose"], arguments].concat(), "");
        assert!(error.contains(told), "{told:?} is not in:\n{error}");
    }
    // Another opinion counts.
    let opinion = "version = 1\n[[algorithm]]\nname = \"AES-128-GCM\"\nkind = \"cipher\"\nconfidentiality = 5\n\
         authentication = 8\nwhy = \"mine\"\nsource = \"here\"\ndate = \"2026-01\"\n";
    fs::write(&file, opinion).unwrap();
    let arguments = [
        "price",
        "choose",
        "--min-confidentiality",
        "7",
        "--levels",
        text(&file),
    ];
    let told = succeed(&arguments, "");
    assert!(
        told.contains("TLS_AES_128_GCM_SHA256: confidentiality 5 is less than 7"),
        "{told}"
    );
}
