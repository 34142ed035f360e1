//! The matrix of certificates: each row one that is wrong in one way (or in
//! none), shown by a server and by a client, in both versions of TLS; with the
//! reason that is given for it, and no byte of SIP before.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::sync::Arc;

use common::openssl::{Dir, Openssl, s_client};
use common::{
    Bench, Seen, closed, handshake_failed, message, named, opened, request, tls_client, tls_server,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType,
    ExtendedKeyUsagePurpose as Eku, GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose,
    NameConstraints, date_time_ymd,
};
use sip_msg::Target;
use sip_net::testing::{KeyKind, TestCa, params};
use sip_net::{
    CertificateFault, ClientAuth, ClientTls, ClientTlsConfig, HandshakeFailure, KeyUsagePolicy,
    RevocationPolicy, ServerTlsConfig, TlsVersion,
};

/// A chain and its key in PEM, and a revocation list where there is one.
struct Shown {
    chain: String,
    key: String,
    crl: Option<String>,
}

impl From<(String, String)> for Shown {
    fn from((chain, key): (String, String)) -> Self {
        Self {
            chain,
            key,
            crl: None,
        }
    }
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A row: what it is called, how the certificate is made, and what is wrong
/// with it on a server and on a client.
type Row = (
    &'static str,
    fn(&TestCa) -> Shown,
    Option<CertificateFault>,
    Option<CertificateFault>,
);

fn rows() -> Vec<Row> {
    use CertificateFault as F;
    fn both(name: &'static str, make: fn(&TestCa) -> Shown, fault: F) -> Row {
        (name, make, Some(fault), Some(fault))
    }
    vec![
        ("good", |ca| leaf(ca, |_| {}), None, None),
        (
            "a sip URI",
            |ca| ca.issue(&["sip:example.com", "other.com"]).into(),
            None,
            None,
        ),
        (
            "no extendedKeyUsage",
            |ca| leaf(ca, |p| p.extended_key_usages.clear()),
            None,
            None,
        ),
        (
            "serverAuth alone",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![Eku::ServerAuth]),
            None,
            None,
        ),
        (
            "clientAuth alone",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![Eku::ClientAuth]),
            None,
            None,
        ),
        (
            "sipDomain alone",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![sip_domain()]),
            None,
            None,
        ),
        (
            "any use",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![Eku::Any]),
            None,
            None,
        ),
        (
            "an intermediate",
            |ca| under(ca, &[BasicConstraints::Unconstrained]),
            None,
            None,
        ),
        (
            "six intermediates",
            |ca| under(ca, &[BasicConstraints::Unconstrained; 6]),
            None,
            None,
        ),
        both(
            "expired",
            |ca| leaf(ca, |p| p.not_after = date_time_ymd(2021, 1, 1)),
            F::Expired,
        ),
        both(
            "not yet valid",
            |ca| leaf(ca, |p| p.not_before = date_time_ymd(2098, 1, 1)),
            F::NotYetValid,
        ),
        // Names are what a client asks for; a server is told whom a client
        // speaks for, and that is nobody.
        (
            "another name",
            |ca| ca.issue(&["example.org"]).into(),
            Some(F::WrongName),
            None,
        ),
        (
            "a wildcard",
            |ca| ca.issue(&["*.com"]).into(),
            Some(F::WrongName),
            None,
        ),
        (
            "a wildcard in a sip URI",
            |ca| ca.issue(&["sip:*.com"]).into(),
            Some(F::WrongName),
            None,
        ),
        (
            "a user's sip URI",
            |ca| ca.issue(&["sip:bob@example.com"]).into(),
            Some(F::WrongName),
            None,
        ),
        (
            "a sip URI before the name",
            |ca| ca.issue(&["sip:example.org", "example.com"]).into(),
            Some(F::WrongName),
            None,
        ),
        (
            "the common name alone",
            |ca| leaf(ca, common_name),
            Some(F::WrongName),
            None,
        ),
        both("self-signed", |_| self_signed(), F::UnknownIssuer),
        both(
            "of a stranger",
            |_| TestCa::named("Another CA").issue(&["example.com"]).into(),
            F::UnknownIssuer,
        ),
        both(
            "of a stranger under our name",
            |_| TestCa::new().issue(&["example.com"]).into(),
            F::BadSignature,
        ),
        both("a link is missing", without_a_link, F::UnknownIssuer),
        both(
            "an expired authority",
            |ca| beneath(ca, |p| p.not_after = date_time_ymd(2021, 1, 1)),
            F::Expired,
        ),
        both(
            "an issuer that is none",
            |ca| beneath(ca, |p| p.is_ca = IsCa::ExplicitNoCa),
            F::NotAnAuthority,
        ),
        both(
            "an authority itself",
            |ca| leaf(ca, |p| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            F::NotAnAuthority,
        ),
        both(
            "seven intermediates",
            |ca| under(ca, &[BasicConstraints::Unconstrained; 7]),
            F::ChainTooLong,
        ),
        both(
            "a path longer than allowed",
            |ca| {
                under(
                    ca,
                    &[
                        BasicConstraints::Constrained(0),
                        BasicConstraints::Unconstrained,
                    ],
                )
            },
            F::ChainTooLong,
        ),
        both(
            "a name that its issuer must not give",
            |ca| {
                beneath(ca, |p| {
                    p.name_constraints = Some(NameConstraints {
                        permitted_subtrees: vec![GeneralSubtree::DnsName("example.net".into())],
                        excluded_subtrees: Vec::new(),
                    });
                })
            },
            F::NameConstraint,
        ),
        both("revoked", |ca| revoked(ca, 5, &[4, 5, 6]), F::Revoked),
        both("a revoked authority", revoked_above, F::Revoked),
        (
            "another is revoked",
            |ca| revoked(ca, 5, &[4, 6]),
            None,
            None,
        ),
        both(
            "for signing code",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![Eku::CodeSigning]),
            F::WrongUsage,
        ),
        both(
            "a key that must not sign",
            |ca| leaf(ca, |p| p.key_usages = vec![KeyUsagePurpose::KeyAgreement]),
            F::WrongUsage,
        ),
        (
            "a key that may sign",
            |ca| {
                leaf(ca, |p| {
                    p.key_usages = vec![KeyUsagePurpose::DigitalSignature]
                })
            },
            None,
            None,
        ),
        both("a broken signature", broken_signature, F::BadSignature),
    ]
}

fn leaf(ca: &TestCa, change: fn(&mut CertificateParams)) -> Shown {
    let mut params = params(&["example.com"], 2020, 2099);
    change(&mut params);
    ca.issue_from(&params, &KeyKind::P256.generate()).into()
}

fn sip_domain() -> Eku {
    Eku::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, 20])
}

fn common_name(params: &mut CertificateParams) {
    params.subject_alt_names.clear();
    params
        .distinguished_name
        .push(DnType::CommonName, "example.com");
}

fn self_signed() -> Shown {
    let key = KeyKind::P256.generate();
    let certificate = params(&["example.com"], 2020, 2099)
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem()).into()
}

fn authority(name: &str, above: &Issuer, change: impl Fn(&mut CertificateParams)) -> Issuer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    change(&mut params);
    CertifiedIssuer::signed_by(params, KeyKind::P256.generate(), above).unwrap()
}

/// A certificate under intermediates, the first of them under the root.
fn under(ca: &TestCa, constraints: &[BasicConstraints]) -> Shown {
    let mut chain: Vec<Issuer> = Vec::new();
    for (number, constraint) in constraints.iter().enumerate() {
        let above = chain.last().unwrap_or(ca.issuer());
        chain.push(authority(&format!("Authority {number}"), above, |params| {
            params.is_ca = IsCa::Ca(*constraint);
        }));
    }
    let key = KeyKind::P256.generate();
    let above = chain.last().unwrap_or(ca.issuer());
    let leaf = params(&["example.com"], 2020, 2099)
        .signed_by(&key, above)
        .unwrap();
    let mut pem = leaf.pem();
    chain
        .iter()
        .rev()
        .for_each(|issuer| pem.push_str(&issuer.pem()));
    (pem, key.serialize_pem()).into()
}

/// A certificate under one intermediate that is wrong.
fn beneath(ca: &TestCa, change: fn(&mut CertificateParams)) -> Shown {
    let between = authority("Authority", ca.issuer(), change);
    let key = KeyKind::P256.generate();
    let leaf = params(&["example.com"], 2020, 2099)
        .signed_by(&key, &between)
        .unwrap();
    (leaf.pem() + &between.pem(), key.serialize_pem()).into()
}

fn without_a_link(ca: &TestCa) -> Shown {
    let mut shown = under(ca, &[BasicConstraints::Unconstrained]);
    let end = shown.chain.find("-----END CERTIFICATE-----").unwrap();
    shown
        .chain
        .truncate(end + "-----END CERTIFICATE-----\n".len());
    shown
}

fn revoked(ca: &TestCa, serial: u64, serials: &[u64]) -> Shown {
    let mut params = params(&["example.com"], 2020, 2099);
    params.serial_number = Some(serial.into());
    let shown: Shown = ca.issue_from(&params, &KeyKind::P256.generate()).into();
    Shown {
        crl: Some(ca.revoke(serials)),
        ..shown
    }
}

/// Under an authority that was revoked itself.
fn revoked_above(ca: &TestCa) -> Shown {
    let shown = beneath(ca, |params| params.serial_number = Some(77u64.into()));
    Shown {
        crl: Some(ca.revoke(&[77])),
        ..shown
    }
}

/// One letter of the last bytes, which are the signature's, is another.
fn broken_signature(ca: &TestCa) -> Shown {
    let mut shown = leaf(ca, |_| {});
    let end = shown.chain.find("\n-----END").unwrap();
    let place = end - 12;
    let letter = if shown.chain.as_bytes()[place] == b'A' {
        "B"
    } else {
        "A"
    };
    shown.chain.replace_range(place..=place, letter);
    shown
}

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
fn the_certificate_of_a_server() {
    let rows = rows();
    assert!(rows.len() > 30);
    for version in TlsVersion::ALL {
        for (name, make, fault, _) in &rows {
            let row = format!("TLS {}, {name}", version.name());
            let ca = TestCa::new();
            let shown = make(&ca);
            let mut server = tls_server(
                ServerTlsConfig::new()
                    .pair_pem(shown.chain.as_bytes(), shown.key.as_bytes())
                    .unwrap()
                    .versions(&[version])
                    .build()
                    .unwrap(),
            );
            let mut trust = ClientTlsConfig::new()
                .roots_pem(&[ca.root_pem().as_bytes()])
                .unwrap();
            if let Some(crl) = &shown.crl {
                trust = trust.crl_pem(&[crl.as_bytes()]).unwrap();
            }
            let mut client = tls_client(trust.build().unwrap());
            let arrived = arrives(&mut server, &mut client);
            assert_eq!(arrived, fault.is_none(), "{row}");
            if let Some(fault) = fault {
                let error = client.until_with(&mut [&mut server], handshake_failed);
                assert_eq!(
                    (error.failure, error.fault),
                    (HandshakeFailure::BadCertificate, Some(*fault)),
                    "{row}"
                );
                assert!(error.alert.is_some_and(|alert| !alert.received), "{row}");
                assert!(nothing_was_read(&server), "{row}");
                let error = server.until_with(&mut [&mut client], handshake_failed);
                let sent = error
                    .alert
                    .unwrap_or_else(|| panic!("{row}: no alert came"));
                assert!(sent.received, "{row}");
                assert_eq!(client.net.opened_tls().faults[*fault as usize], 1, "{row}");
            }
        }
    }
}

#[test]
fn the_certificate_of_a_client() {
    let rows = rows();
    assert!(rows.len() > 30);
    for version in TlsVersion::ALL {
        for (name, make, _, fault) in &rows {
            let row = format!("TLS {}, {name}", version.name());
            let ca = TestCa::new();
            let shown = make(&ca);
            let (chain, key) = ca.issue(&["example.com"]);
            let mut config = ServerTlsConfig::new()
                .pair_pem(chain.as_bytes(), key.as_bytes())
                .unwrap()
                .versions(&[version])
                .client_auth(ClientAuth::Required)
                .client_roots_pem(&[ca.root_pem().as_bytes()])
                .unwrap();
            if let Some(crl) = &shown.crl {
                config = config.crl_pem(&[crl.as_bytes()]).unwrap();
            }
            let mut server = tls_server(config.build().unwrap());
            let identity = ClientTls::from_pem(&[ca.root_pem().as_bytes()])
                .unwrap()
                .with_identity_pem(shown.chain.as_bytes(), shown.key.as_bytes())
                .unwrap();
            let mut client = tls_client(identity);
            let arrived = arrives(&mut server, &mut client);
            assert_eq!(arrived, fault.is_none(), "{row}");
            match fault {
                Some(fault) => {
                    let error = server.until_with(&mut [&mut client], handshake_failed);
                    assert_eq!(
                        (error.failure, error.fault),
                        (HandshakeFailure::BadCertificate, Some(*fault)),
                        "{row}"
                    );
                    assert!(error.alert.is_some_and(|alert| !alert.received), "{row}");
                    assert!(nothing_was_read(&server), "{row}");
                    assert_eq!(server.net.connection_count(), 0, "{row}");
                }
                None => {
                    let flow = server.seen.iter().find_map(|seen| match seen {
                        Seen::Accepted(flow) => Some(*flow),
                        _ => None,
                    });
                    let identity = server.net.peer_identity(flow.unwrap().conn).unwrap();
                    assert!(!identity.speaks_for("other.com"), "{row}");
                }
            }
        }
    }
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
        .client_roots_pem(&[ca.root_pem().as_bytes()])
        .unwrap();
    let mut server = tls_server(config.build().unwrap());
    let output = s_client(&mut server, args);
    assert!(output.contains("alert"), "{output}");
    assert_eq!(server.until(handshake_failed).fault, Some(fault));
    assert!(nothing_was_read(&server));
}

#[test]
fn what_is_no_certificate() {
    // Nobody would load it, so a server is made by hand.
    #[derive(Debug)]
    struct Junk(Arc<rustls::sign::CertifiedKey>);
    impl rustls::server::ResolvesServerCert for Junk {
        fn resolve(
            &self,
            _: rustls::server::ClientHello<'_>,
        ) -> Option<Arc<rustls::sign::CertifiedKey>> {
            Some(Arc::clone(&self.0))
        }
    }
    let ca = TestCa::new();
    let key = KeyKind::P256.generate().serialize_der();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key).unwrap();
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    for junk in [&b""[..], b"no certificate", &[0x30, 0x82, 0xff, 0xff, 1]] {
        let shown = rustls::sign::CertifiedKey::new(vec![junk.to_vec().into()], Arc::clone(&key));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Junk(Arc::new(shown))));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut server = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            while server.is_handshaking() {
                server.complete_io(&mut socket)?;
            }
            Ok::<(), std::io::Error>(())
        });
        let mut client = tls_client(ClientTls::from_pem(&[ca.root_pem().as_bytes()]).unwrap());
        client
            .net
            .send(&named(addr, "example.com"), &request("secret"), 1);
        let error = client.until(handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::BadCertificate, "{junk:?}");
        assert_eq!(error.fault, Some(CertificateFault::Malformed), "{junk:?}");
        assert!(thread.join().unwrap().is_err());
    }
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
            .client_roots_pem(&roots)
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
