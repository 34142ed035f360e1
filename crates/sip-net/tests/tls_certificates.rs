//! Certificates that our own side would not make or load, shown by openssl; and
//! the policies that decide about good ones. Those that are wrong in one way are
//! in `tls_matrix.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use crate::common::openssl::{Dir, Openssl, s_client};
use crate::common::shown::sip_domain;
use crate::common::{
    Bench, Seen, closed, handshake_failed, message, named, opened, request, tls_client, tls_server,
};
use rcgen::{CustomExtension, ExtendedKeyUsagePurpose as Eku};
use sip_msg::Target;
use sip_tls::testing::{KeyKind, TestCa, params};
use sip_tls::{
    CertificateFault, ClientAuth, ClientTls, ClientTlsConfig, KeyUsagePolicy, RevocationPolicy,
    ServerTlsConfig,
};

/// Lets a client send a request to a server; gives whether it arrived.
fn arrives(server: &mut Bench, client: &mut Bench) -> bool {
    let target = named(server.addr(), "example.com");
    client.net.send(&target, &request("secret"), 1);
    let arrived = |seen: &Seen| message(seen).map(|_| true).or(closed(seen).map(|_| false));
    server.until_with(&mut [client], arrived)
}

fn nothing_was_read(server: &Bench) -> bool {
    server.net.counters().tls.messages_in == 0
        && server.net.counters().tls.bytes_in == 0
        && !server.seen.iter().any(|seen| message(seen).is_some())
}

#[test]
fn a_key_that_is_too_short() {
    // Nothing here makes such keys any more, so openssl does and shows them.
    let dir = Dir::new();
    let ca = TestCa::new();
    let root = dir.file("root.pem", &ca.root_pem());
    let root_key = dir.file("root.key", &ca.issuer().key().serialize_pem());
    let (key, csr, chain) = (
        dir.path("weak.key"),
        dir.path("weak.csr"),
        dir.path("weak.pem"),
    );
    let names = dir.file("names", "subjectAltName=DNS:example.com");
    for args in [
        &[
            "req", "-new", "-newkey", "rsa:1024", "-nodes", "-subj", "/CN=weak", "-keyout", &key,
            "-out", &csr,
        ][..],
        &[
            "x509",
            "-req",
            "-in",
            &csr,
            "-CA",
            &root,
            "-CAkey",
            &root_key,
            "-days",
            "30",
            "-extfile",
            &names,
            "-out",
            &chain,
            "-set_serial",
            "7",
        ],
    ] {
        let mut openssl = Openssl::start(args);
        while !openssl.over {
            openssl.read();
            std::thread::yield_now();
        }
    }
    assert!(std::path::Path::new(&chain).exists());
    let weak = [
        "-cert",
        &chain,
        "-key",
        &key,
        "-cipher",
        "DEFAULT@SECLEVEL=0",
    ];
    openssl_shows(&ca, &weak, CertificateFault::WeakKey);
}

#[test]
fn an_unknown_critical_extension() {
    // Our own configuration does not take it, so openssl shows it.
    let (dir, ca) = (Dir::new(), TestCa::new());
    let mut params = params(&["example.com"], 2020, 2099);
    let mut unknown = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![5, 0]);
    unknown.set_criticality(true);
    params.custom_extensions.push(unknown);
    let (chain, key) = ca.issue_from(&params, &KeyKind::P256.generate());
    let own = ServerTlsConfig::new().pair_pem(chain.as_bytes(), key.as_bytes());
    assert!(own.is_err());
    let (chain, key) = (dir.file("chain.pem", &chain), dir.file("key.pem", &key));
    openssl_shows(
        &ca,
        &["-cert", &chain, "-key", &key],
        CertificateFault::CriticalExtension,
    );
}

/// Lets openssl show a certificate, as a server and as a client.
fn openssl_shows(ca: &TestCa, args: &[&str], fault: CertificateFault) {
    let (mut foreign, addr) = Openssl::server(args);
    let mut client = tls_client(ClientTls::from_pem(&[ca.root_pem().as_bytes()]).unwrap());
    client
        .net
        .send(&named(addr, "example.com"), &request("secret"), 1);
    let error = client.until(handshake_failed);
    assert_eq!(error.fault, Some(fault));
    foreign.read();
    assert!(!foreign.output.contains("OPTIONS"));

    let (own, own_key) = ca.issue(&["example.com"]);
    let config = ServerTlsConfig::new()
        .pair_pem(own.as_bytes(), own_key.as_bytes())
        .unwrap()
        .client_auth(ClientAuth::Optional)
        .roots_pem(&[ca.root_pem().as_bytes()])
        .unwrap();
    let mut server = tls_server(config.build().unwrap());
    let output = s_client(&mut server, args);
    assert!(output.contains("alert"), "{output}");
    assert_eq!(server.until(handshake_failed).fault, Some(fault));
    assert!(nothing_was_read(&server));
}

#[test]
fn the_policy_of_extended_key_usage() {
    use KeyUsagePolicy::{Lenient, SipDomain, Strict};
    // The policy, the uses in the certificate, and whether a server and a
    // client may show it.
    let rows: [(KeyUsagePolicy, Vec<Eku>, bool, bool); 15] = [
        (Lenient, vec![], true, true),
        (Lenient, vec![Eku::ServerAuth], true, true),
        (Lenient, vec![Eku::ClientAuth], true, true),
        (Lenient, vec![sip_domain()], true, true),
        (Lenient, vec![Eku::EmailProtection], false, false),
        (Strict, vec![], true, true),
        (Strict, vec![Eku::ServerAuth], true, false),
        (Strict, vec![Eku::ClientAuth], false, true),
        (Strict, vec![Eku::EmailProtection, sip_domain()], true, true),
        (Strict, vec![Eku::Any], true, true),
        (SipDomain, vec![], false, false),
        (
            SipDomain,
            vec![Eku::ServerAuth, Eku::ClientAuth],
            false,
            false,
        ),
        (SipDomain, vec![Eku::Any], false, false),
        (SipDomain, vec![sip_domain()], true, true),
        (SipDomain, vec![Eku::ServerAuth, sip_domain()], true, true),
    ];
    for (policy, uses, server_may, client_may) in rows {
        let row = format!("{policy:?} {uses:?}");
        let ca = TestCa::new();
        let mut with = params(&["example.com"], 2020, 2099);
        with.extended_key_usages = uses;
        let (chain, key) = ca.issue_from(&with, &KeyKind::P256.generate());
        let (fine, fine_key) = ca.issue(&["example.com"]);
        let root = ca.root_pem();
        let roots = [root.as_bytes()];

        let pair = ServerTlsConfig::new()
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap();
        let mut server = tls_server(pair.build().unwrap());
        let trust = ClientTlsConfig::new()
            .roots_pem(&roots)
            .unwrap()
            .key_usage(policy);
        let mut client = tls_client(trust.build().unwrap());
        assert_eq!(arrives(&mut server, &mut client), server_may, "{row}");

        let pair = ServerTlsConfig::new()
            .pair_pem(fine.as_bytes(), fine_key.as_bytes())
            .unwrap();
        let asks = pair
            .client_auth(ClientAuth::Required)
            .roots_pem(&roots)
            .unwrap();
        let mut server = tls_server(asks.key_usage(policy).build().unwrap());
        let own = ClientTlsConfig::new().roots_pem(&roots).unwrap();
        let own = own.identity_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let mut client = tls_client(own.build().unwrap());
        assert_eq!(arrives(&mut server, &mut client), client_may, "{row}");
    }
}

#[test]
fn what_no_list_covers_is_refused_on_demand() {
    let ca = TestCa::new();
    let stranger = TestCa::named("Another CA").revoke(&[1]);
    let own = ca.revoke(&[1]);
    for (crls, policy, fault) in [
        (vec![], RevocationPolicy::Lenient, None),
        (vec![&stranger], RevocationPolicy::Lenient, None),
        (vec![&own], RevocationPolicy::Strict, None),
        (
            vec![&stranger],
            RevocationPolicy::Strict,
            Some(CertificateFault::RevocationUnknown),
        ),
        (
            vec![],
            RevocationPolicy::Strict,
            Some(CertificateFault::RevocationUnknown),
        ),
    ] {
        let (chain, key) = ca.issue(&["example.com"]);
        let pair = ServerTlsConfig::new()
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap();
        let mut server = tls_server(pair.build().unwrap());
        let crls: Vec<&[u8]> = crls.iter().map(|crl| crl.as_bytes()).collect();
        let trust = ClientTlsConfig::new()
            .roots_pem(&[ca.root_pem().as_bytes()])
            .unwrap();
        let trust = trust.crl_pem(&crls).unwrap().revocation(policy);
        let mut client = tls_client(trust.build().unwrap());
        assert_eq!(
            arrives(&mut server, &mut client),
            fault.is_none(),
            "{policy:?}"
        );
        if fault.is_some() {
            let error = client.until_with(&mut [&mut server], handshake_failed);
            assert_eq!(error.fault, fault);
        }
    }
}

#[test]
fn one_address_with_several_domains_is_never_confused() {
    let ca = TestCa::new();
    let mut config = ServerTlsConfig::new();
    for domain in ["a.example", "b.example"] {
        let (chain, key) = ca.issue(&[domain]);
        config = config.pair_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    }
    let mut server = tls_server(config.build().unwrap());
    let tls = Arc::new(ClientTls::from_pem(&[ca.root_pem().as_bytes()]).unwrap());
    let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
    for (round, resumed) in [(1, false), (2, true)] {
        for domain in ["a.example", "b.example"] {
            let target = named(server.addr(), domain);
            let conn = client.net.open_as(&target, &tls).unwrap();
            client.until_with(&mut [&mut server], opened);
            let identity = client.net.peer_identity(conn).unwrap();
            assert_eq!(*identity.domains, [domain.into()], "{round}");
            assert_eq!(
                client.net.tls_info(conn).unwrap().resumed.is_some(),
                resumed,
                "{round} {domain}"
            );
            client
                .net
                .send(&Target { conn, ..target }, &request(domain), 0);
            let (flow, _) = server.until_with(&mut [&mut client], message);
            server.net.send(&Target::back(&flow), &request("back"), 0);
            client.until_with(&mut [&mut server], message);
        }
    }
}
