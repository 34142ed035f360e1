//! Policies for TLS and for ESP, with prices that are made up.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use protection::ipsec::{self, CIPHERS, MACS};
use protection::suites::{GROUPS, SUITES};
use protection::{
    End, Levels, Listed, Offer, Policy, Price, Prices, TlsChoice, Unmet, Usage, Use, Written,
    choose_ipsec, choose_tls, tls,
};

/// Those that rustls has stand at the front, with one of CCM among them.
const OURS: usize = 10;

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn flat(ns: f64) -> Price {
    Price::flat(ns)
}

/// AES-128 is cheaper than AES-256, and that than ChaCha20; X25519 than P-256, P-384 dear.
fn prices() -> Prices {
    let mut prices = Prices::shipped();
    for suite in SUITES.iter().take(OURS) {
        let ns = match () {
            () if suite.iana.contains("AES_128") => 1_000.0,
            () if suite.iana.contains("AES_256") => 1_200.0,
            () => 2_000.0,
        };
        prices = prices.with(Use::Record, suite.iana, flat(ns));
    }
    for (group, ns) in [
        ("X25519", 100_000.0),
        ("P-256", 120_000.0),
        ("P-384", 900_000.0),
        ("X25519MLKEM768", 160_000.0),
        ("SecP256r1MLKEM768", 190_000.0),
    ] {
        prices = prices
            .with(Use::Accept, group, flat(ns))
            .with(Use::Connect, group, flat(ns));
    }
    prices
}

fn offer(peer: Option<&str>) -> Offer {
    let suites = SUITES
        .iter()
        .take(OURS)
        .filter(|suite| !suite.iana.contains("CCM"));
    Offer {
        versions: vec!["1.2", "1.3"],
        suites: Listed::Open(suites.map(|suite| suite.iana.to_owned()).collect()),
        groups: Listed::Open(GROUPS.iter().map(|group| group.name.to_owned()).collect()),
        peer: peer.map(|text| tls::peer_offers(text).unwrap()),
    }
}

fn policy(confidentiality: &str, authentication: &str, max_us: Option<f64>) -> Policy {
    Policy {
        min_confidentiality: confidentiality.parse().ok(),
        min_authentication: authentication.parse().ok(),
        max_cost_ns: max_us.map(|us| us * 1e3),
        ..Policy::default()
    }
}

fn chosen(policy: &Policy, offer: &Offer) -> Result<TlsChoice, Unmet> {
    let (levels, prices) = (Levels::shipped(), prices());
    choose_tls(
        policy,
        offer,
        End::Accepts,
        Usage::default(),
        &levels,
        &prices,
    )
}

#[test]
fn the_cheapest_comes_first_and_all_that_is_good_enough_is_left() {
    let choice = chosen(&policy("7", "5", None), &offer(None)).unwrap();
    assert_eq!(choice.versions, ["1.2", "1.3"]);
    assert_eq!(
        choice.choice.second,
        owned(&[
            "X25519",
            "P-256",
            "X25519MLKEM768",
            "SecP256r1MLKEM768",
            "P-384"
        ])
    );
    assert_eq!(choice.choice.first.len(), 9);
    assert_eq!(choice.choice.first[0], "TLS_AES_128_GCM_SHA256");
    assert_eq!(choice.choice.pairs[0].cost_ns, Some(2_000.0));
}

#[test]
fn what_is_to_last_takes_a_key_exchange_that_lasts_and_tls_1_3() {
    let choice = chosen(&policy("10", "", None), &offer(None)).unwrap();
    assert_eq!(choice.versions, ["1.3"]);
    assert_eq!(
        choice.choice.first,
        owned(&["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
    );
    assert_eq!(
        choice.choice.second,
        owned(&["X25519MLKEM768", "SecP256r1MLKEM768"])
    );
    let told = choice.choice.text();
    for line in [
        "choose TLS_AES_256_GCM_SHA384 with X25519MLKEM768: confidentiality 10, authentication 8, forward secrecy 10; 2.80 us",
        "  X25519: confidentiality 8 is less than 10: X25519",
        "  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: confidentiality 8 is less than 10: TLS 1.2",
        "  TLS_AES_128_GCM_SHA256: confidentiality 8 is less than 10: AES-128-GCM",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
}

#[test]
fn no_pair_of_the_lists_costs_more_than_it_may() {
    // 2 us for the best; ChaCha20 with X25519 is 3, AES-128 with P-384 10.
    let choice = chosen(&policy("7", "5", Some(2.7)), &offer(None)).unwrap();
    assert!(
        choice
            .choice
            .first
            .iter()
            .all(|suite| !suite.contains("CHACHA"))
    );
    assert_eq!(choice.choice.second[0], "X25519");
    assert!(!choice.choice.second.contains(&"P-384".to_owned()));
    let dearest = choice.choice.pairs.iter().filter_map(|pair| pair.cost_ns);
    assert!(dearest.fold(0.0, f64::max) <= 2_700.0);
    let told = choice.choice.text();
    assert!(told.contains("P-384: with "), "{told}");
    assert!(told.contains("more than 2.70 us"), "{told}");
}

#[test]
fn a_peers_offer_bounds_the_choice_and_what_it_should_not_offer_is_told() {
    let peer =
        "ECDHE-RSA-AES256-GCM-SHA384,TLS_AES_256_GCM_SHA384,RC4-MD5,EXP-RC4-MD5,AES128-SHA,P-256";
    let choice = chosen(&Policy::default(), &offer(Some(peer))).unwrap();
    assert_eq!(choice.choice.first[0], "TLS_AES_256_GCM_SHA384");
    assert_eq!(choice.choice.first.len(), 2);
    assert_eq!(choice.choice.second, ["P-256"]);
    let told = choice.choice.text();
    for line in [
        "TLS_RSA_WITH_RC4_128_MD5: RC4 is never chosen",
        "TLS_RSA_EXPORT_WITH_RC4_40_MD5: SSLv3 is never chosen",
        "TLS_RSA_WITH_AES_128_CBC_SHA: this program does not have it",
        "X25519: the peer does not offer it",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
    let error = tls::peer_offers("TLS_AES_128_GCM_SHA265").unwrap_err();
    assert!(
        error.contains("did you mean `TLS_AES_128_GCM_SHA256`?"),
        "{error}"
    );
    assert!(
        tls::peer_offers("ROT13")
            .unwrap_err()
            .contains("names at IANA")
    );
    assert!(
        tls::peer_offers(" , ")
            .unwrap_err()
            .contains("nothing is offered")
    );
}

#[test]
fn a_policy_that_nothing_satisfies_says_what_to_relax_and_by_how_much() {
    let unmet = chosen(&policy("8", "8", Some(1.0)), &offer(None)).unwrap_err();
    assert_eq!(
        unmet.what(),
        "nothing satisfies this policy: confidentiality 8 or more, authentication 8 or more, 1.00 us at most"
    );
    assert_eq!(
        unmet.remedy(Written::Keys),
        "raise max_cost_us from 1 to 2, and TLS_AES_128_GCM_SHA256 with X25519 will do"
    );
    let unmet = chosen(&policy("10", "9", None), &offer(None)).unwrap_err();
    let remedy = unmet.remedy(Written::Options);
    assert!(
        remedy.starts_with("lower --min-authentication from 9 to 8, and TLS_AES_256"),
        "{remedy}"
    );
    // Two requirements, either of which may give way.
    let unmet = chosen(&policy("10", "8", Some(2.5)), &offer(None)).unwrap_err();
    let remedy = unmet.remedy(Written::Options);
    assert!(
        remedy.contains("lower --min-confidentiality from 10 to 8"),
        "{remedy}"
    );
    assert!(
        remedy.contains("; or raise --max-cost from 2.50us to 2.80us"),
        "{remedy}"
    );
    let unmet = chosen(&policy("10", "8", Some(0.001)), &offer(None)).unwrap_err();
    let remedy = unmet.remedy(Written::Options);
    assert!(
        remedy.contains("raise --max-cost from 0.001us to "),
        "{remedy}"
    );
    let unmet = chosen(&Policy::default(), &offer(Some("RC4-MD5"))).unwrap_err();
    assert!(
        unmet.what().contains("fit to protect anything"),
        "{}",
        unmet.what()
    );
}

#[test]
fn what_does_not_go_together_is_told_as_that() {
    // Whatever the policy: the group is of TLS 1.3, and the suite of 1.2.
    let suite = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
    let peer = format!("{suite},X25519MLKEM768");
    let unmet = chosen(&Policy::default(), &offer(Some(&peer))).unwrap_err();
    assert_eq!(
        unmet.what(),
        "no cipher suite that both sides may use goes with any key-exchange group of theirs"
    );
    let told = unmet.text(Written::Options);
    for line in [
        "look for which version",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: no key-exchange group that both sides may use goes with it",
        "X25519MLKEM768: no cipher suite that both sides may use goes with it",
        "X25519: the peer does not offer it",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
    // Beside a suite that it goes with, the other still goes with none.
    let peer = format!("{peer},TLS_AES_128_GCM_SHA256");
    let choice = chosen(&Policy::default(), &offer(Some(&peer))).unwrap();
    assert_eq!(choice.choice.first, ["TLS_AES_128_GCM_SHA256"]);
    let told = choice.choice.text();
    let line = format!("{suite}: no key-exchange group that both sides may use goes with it");
    assert!(told.contains(&line), "{told}");
    // What the policy misses stands before it.
    let choice = chosen(
        &policy("10", "", None),
        &offer(Some(
            "ECDHE-RSA-AES128-GCM-SHA256,TLS_AES_256_GCM_SHA384,X25519MLKEM768",
        )),
    )
    .unwrap();
    let told = choice.choice.text();
    let line =
        format!("{suite}: confidentiality 8 is less than 10: TLS 1.2; no key-exchange group");
    assert!(told.contains(&line), "{told}");
}

#[test]
fn a_suite_whose_key_exchange_has_no_group_goes_with_none() {
    let rsa = "TLS_RSA_WITH_AES_128_GCM_SHA256";
    let mut with_rsa = offer(Some("AES128-GCM-SHA256,X25519"));
    with_rsa.suites = Listed::Open(owned(&["TLS_AES_128_GCM_SHA256", rsa]));
    let unmet = chosen(&Policy::default(), &with_rsa).unwrap_err();
    let told = unmet.text(Written::Options);
    let line = format!("{rsa}: no key-exchange group that both sides may use goes with it");
    assert!(told.contains(&line), "{told}");
    // Where this program does not have it, no suite is left, and none is called unfit.
    let unmet = chosen(&Policy::default(), &offer(Some("AES128-GCM-SHA256,X25519"))).unwrap_err();
    assert_eq!(
        unmet.what(),
        "there is no cipher suite that both sides may use"
    );
    let told = unmet.text(Written::Options);
    let line = format!("{rsa}: this program does not have it");
    assert!(told.contains(&line), "{told}");
}

#[test]
fn without_prices_the_order_is_the_programs_and_a_bound_asks_for_them() {
    let nothing = Prices::parse(
        std::path::Path::new("p.json"),
        "{\"format\":\"signet-price\",\"version\":1,\"items\":[{\"name\":\"ah/transport/ipv4/hmac-md5-96\",\
          \"operation\":\"send\",\"points\":[{\"median_ns\":1.0}]},{\"name\":\"ah/transport/ipv4/hmac-md5-96\",\
          \"operation\":\"receive\",\"points\":[{\"median_ns\":1.0}]}]}",
    )
    .unwrap();
    let choose = |policy: &Policy| {
        let levels = Levels::shipped();
        choose_tls(
            policy,
            &offer(None),
            End::Connects,
            Usage::default(),
            &levels,
            &nothing,
        )
    };
    let choice = choose(&policy("7", "", None)).unwrap();
    let Listed::Open(suites) = offer(None).suites else {
        panic!()
    };
    assert_eq!(choice.choice.first, suites);
    let unmet = choose(&policy("7", "", Some(20.0))).unwrap_err();
    assert!(unmet.remedy(Written::Keys).contains("prices = \"FILE\""));
}

#[test]
fn the_papers_example_chooses_sha_1() {
    // Niedermayer 2006, 7.4: "The HMAC-SHA-1 would be chosen in our example, because its
    // security rating is sufficient and it is faster than HMAC-SHA-2-256."
    let mut prices = Prices::shipped();
    for (nth, name) in MACS.into_iter().enumerate() {
        prices = prices.with(Use::Mac, name, flat(1_000.0 * (nth + 1) as f64));
    }
    for (nth, name) in CIPHERS.into_iter().enumerate() {
        prices = prices.with(Use::Cipher, name, flat(1_000.0 * (nth + 1) as f64));
    }
    let peer = ipsec::peer_offers(
        "aes-128-cbc,3DES-CBC,des-cbc,null,HMAC-MD5-96,HMAC-SHA1-96,HMAC-SHA-256-128",
    );
    let choose = |authentication: &str| {
        let policy = policy("7", authentication, None);
        let peer = peer.clone().unwrap();
        choose_ipsec(&policy, Some(&peer), 1_400, &Levels::shipped(), &prices).unwrap()
    };
    let choice = choose("4");
    assert_eq!(choice.first, ["AES-128-CBC"]);
    assert_eq!(choice.second, ["HMAC-SHA1-96", "HMAC-SHA-256-128"]);
    let told = choice.text();
    for line in [
        "choose AES-128-CBC with HMAC-SHA1-96",
        "HMAC-MD5-96: authentication 2 is less than 4: HMAC-MD5-96",
        "DES-CBC: DES-CBC is never chosen",
        "NULL: NULL is never chosen",
        "3DES-CBC: confidentiality 3 is less than 7: 3DES-CBC",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
    // "If the HMAC-MD5 would possess a better security rating, say 4, it would be selected."
    assert_eq!(choose("2").second[0], "HMAC-MD5-96");
    let error = ipsec::peer_offers("AES-128-CBC,HMAC-SHA1").unwrap_err();
    assert!(error.contains("did you mean `HMAC-SHA1-96`?"), "{error}");
}
