//! Certificates that are wrong in one way, made on the spot.
#![allow(dead_code, unreachable_pub)]

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType,
    ExtendedKeyUsagePurpose as Eku, GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose,
    NameConstraints, PublicKeyData, SignatureAlgorithm, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sip_tls::testing::{KeyKind, TestCa, params};

use super::openssl::{Dir, Openssl};

/// A chain as it is shown, the key of its holder in PEM, and a revocation list
/// where there is one.
pub struct Shown {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: String,
    pub crl: Option<String>,
}

impl From<(String, String)> for Shown {
    fn from((chain, key): (String, String)) -> Self {
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes());
        Self {
            chain: chain.map(Result::unwrap).collect(),
            key,
            crl: None,
        }
    }
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// An ordinary certificate with this change.
pub fn leaf(ca: &TestCa, change: fn(&mut CertificateParams)) -> Shown {
    let mut params = params(&["example.com"], 2020, 2099);
    change(&mut params);
    ca.issue_from(&params, &KeyKind::P256.generate()).into()
}

pub fn sip_domain() -> Eku {
    Eku::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, 20])
}

pub fn common_name(params: &mut CertificateParams) {
    params.subject_alt_names.clear();
    params
        .distinguished_name
        .push(DnType::CommonName, "example.com");
}

pub fn self_signed() -> Shown {
    let key = KeyKind::P256.generate();
    let certificate = params(&["example.com"], 2020, 2099)
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem()).into()
}

pub fn authority(name: &str, above: &Issuer, change: impl Fn(&mut CertificateParams)) -> Issuer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    change(&mut params);
    CertifiedIssuer::signed_by(params, KeyKind::P256.generate(), above).unwrap()
}

/// A certificate under intermediates, the first of them under the root.
pub fn under(ca: &TestCa, constraints: &[BasicConstraints]) -> Shown {
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
pub fn beneath(ca: &TestCa, change: fn(&mut CertificateParams)) -> Shown {
    beneath_as(ca, "example.com", change)
}

/// A certificate for this name, under an authority that may give `domain` alone.
pub fn bound(ca: &TestCa, name: &str, domain: &str) -> Shown {
    beneath_as(ca, name, |params| {
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(domain.into())],
            excluded_subtrees: Vec::new(),
        });
    })
}

fn beneath_as(ca: &TestCa, name: &str, change: impl Fn(&mut CertificateParams)) -> Shown {
    let between = authority("Authority", ca.issuer(), change);
    let key = KeyKind::P256.generate();
    let leaf = params(&[name], 2020, 2099)
        .signed_by(&key, &between)
        .unwrap();
    (leaf.pem() + &between.pem(), key.serialize_pem()).into()
}

pub fn without_a_link(ca: &TestCa) -> Shown {
    let mut shown = under(ca, &[BasicConstraints::Unconstrained]);
    shown.chain.truncate(1);
    shown
}

pub fn revoked(ca: &TestCa, serial: u64, serials: &[u64]) -> Shown {
    let mut params = params(&["example.com"], 2020, 2099);
    params.serial_number = Some(serial.into());
    let shown: Shown = ca.issue_from(&params, &KeyKind::P256.generate()).into();
    Shown {
        crl: Some(ca.revoke(serials)),
        ..shown
    }
}

/// Under an authority that was revoked itself.
pub fn revoked_above(ca: &TestCa) -> Shown {
    let shown = beneath(ca, |params| params.serial_number = Some(77u64.into()));
    Shown {
        crl: Some(ca.revoke(&[77])),
        ..shown
    }
}

/// One bit of the signature is another.
pub fn broken_signature(ca: &TestCa) -> Shown {
    let mut shown = leaf(ca, |_| {});
    let mut der = shown.chain[0].to_vec();
    let place = der.len() - 8;
    der[place] ^= 1;
    shown.chain = vec![der.into()];
    shown
}

/// What is no certificate at all.
pub fn junk(der: &[u8]) -> Shown {
    Shown {
        chain: vec![der.to_vec().into()],
        key: KeyKind::P256.generate().serialize_pem(),
        crl: None,
    }
}

/// No certificate: an empty chain.
pub fn nothing() -> Shown {
    Shown {
        chain: Vec::new(),
        ..junk(b"")
    }
}

/// A certificate for an RSA key of 1,024 bits. Nobody can sign with it: it is
/// judged before that is asked.
pub fn short_key(ca: &TestCa) -> Shown {
    struct Short(Vec<u8>);
    impl PublicKeyData for Short {
        fn der_bytes(&self) -> &[u8] {
            &self.0
        }
        fn algorithm(&self) -> &'static SignatureAlgorithm {
            &rcgen::PKCS_RSA_SHA256
        }
    }
    // RFC 8017 A.1.1: a sequence of the modulus and of the exponent 65537.
    let mut modulus = vec![0x30, 0x81, 0x89, 0x02, 0x81, 0x81, 0x00];
    modulus.extend([0xc5; 128]);
    modulus.extend([0x02, 0x03, 0x01, 0x00, 0x01]);
    let certificate = params(&["example.com"], 2020, 2099)
        .signed_by(&Short(modulus), ca.issuer())
        .unwrap();
    Shown {
        chain: vec![certificate.der().clone()],
        ..junk(b"")
    }
}

/// A certificate whose signature is made with SHA-1, which openssl still does.
pub fn sha1(ca: &TestCa) -> Shown {
    let dir = Dir::new();
    let key = KeyKind::P256.generate();
    let request = params(&["example.com"], 2020, 2099).serialize_request(&key);
    let files = [
        dir.file("csr", &request.unwrap().pem().unwrap()),
        dir.file("root.pem", &ca.root_pem()),
        dir.file("root.key", &ca.issuer().key().serialize_pem()),
        dir.file("names", "subjectAltName=DNS:example.com"),
    ];
    let [csr, root, root_key, names] = &files;
    let out = dir.path("chain.pem");
    let mut openssl = Openssl::start(&[
        "x509",
        "-req",
        "-sha1",
        "-in",
        csr,
        "-CA",
        root,
        "-CAkey",
        root_key,
        "-days",
        "30",
        "-extfile",
        names,
        "-set_serial",
        "7",
        "-out",
        &out,
    ]);
    while !openssl.over {
        openssl.read();
        std::thread::yield_now();
    }
    let chain = std::fs::read_to_string(&out).unwrap();
    (chain, key.serialize_pem()).into()
}

pub fn unknown_extension(ca: &TestCa) -> Shown {
    leaf(ca, |params| {
        let mut unknown =
            CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![5, 0]);
        unknown.set_criticality(true);
        params.custom_extensions.push(unknown);
    })
}
