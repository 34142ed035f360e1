use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::config::{ListenAt, TlsPeer};
use crate::testing::{TempDir, logged};

fn tls_listener(security: ListenSecurity) -> [PlannedListener; 1] {
    let at: ListenAt = "tls:127.0.0.1:5061".parse().unwrap();
    [PlannedListener {
        at,
        advertise: None,
        nat: Default::default(),
        media: Default::default(),
        security,
        websocket: Default::default(),
        accept: true,
    }]
}

fn read(data: &DataDir, security: ListenSecurity) -> Result<Material, Error> {
    Material::read(
        &Config::default(),
        data,
        &[],
        &tls_listener(security),
        &Tickets::File,
    )
}

fn pair(certificate: &Path, key: &Path) -> ListenSecurity {
    ListenSecurity {
        certificate: Some(certificate.to_owned()),
        key: Some(key.to_owned()),
        ..ListenSecurity::default()
    }
}

#[test]
fn a_key_that_does_not_fit_is_refused_with_both_names() {
    let temp = TempDir::new("identity-misfit");
    let data = DataDir::open(temp.path()).unwrap();
    let ca = Ca::init(&data).unwrap();
    let issue = |name: &str| ca.issue(&[format!("{name}.example")], &data.file(name));
    let (a, b) = (issue("a").unwrap(), issue("b").unwrap());
    let good = pair(&a.certificate, &a.key);
    let mut held = Identity::new(read(&data, good).unwrap()).unwrap();

    let misfit = pair(&a.certificate, &b.key);
    let error = read(&data, misfit).err().unwrap().to_string();
    assert!(
        error.contains("a.pem") && error.contains("b.key"),
        "{error}"
    );

    let fresh = read(&data, pair(&b.certificate, &b.key)).unwrap();
    held.admits(&fresh).unwrap();
    held.replace(fresh).unwrap();

    std::fs::set_permissions(&a.key, Permissions::from_mode(0o644)).unwrap();
    let error = read(&data, pair(&a.certificate, &a.key)).err().unwrap();
    assert!(error.remedy().contains("chmod 600"), "{error}");
}

/// Puts a certificate of 2001 in the place of a pair.
fn write_old(pair: &CertificatePair) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(&pair.cert, certificate.pem()).unwrap();
    std::fs::write(&pair.key, key.serialize_pem()).unwrap();
}

#[test]
fn a_certificate_for_peers_whose_time_is_over_is_no_better_than_one_for_clients() {
    let temp = TempDir::new("identity-peers-time");
    let data = DataDir::open(temp.path()).unwrap();
    let ca = Ca::init(&data).unwrap();
    let pair = || {
        let issued = ca.issue(&["a.example".to_owned()], &data.file("shown"));
        let Issued { certificate, key } = issued.unwrap();
        CertificatePair {
            cert: certificate,
            key,
        }
    };
    let (mut to_all, mut to_one) = (Config::default(), Config::default());
    to_all.tls.identity = Some(pair());
    to_one.tls.peer = vec![TlsPeer {
        identity: Some(ShownIdentity::Pair(pair())),
        ..TlsPeer::default()
    }];
    for (config, place) in [(to_all, "tls.identity"), (to_one, "tls.peer.0.identity")] {
        let material = || Material::read(&config, &data, &[], &[], &Tickets::File).unwrap();
        let good = pair();
        let held = Identity::new(material()).unwrap();
        assert!(faults_that_a_start_survives(&config).is_empty());
        write_old(&good);
        let refused = held.admits(&material()).unwrap_err();
        assert!(refused.what().contains("it expired on 2002-01-01"));
        let faults = faults_that_a_start_survives(&config);
        assert_eq!(faults[0].at, place);
        // At a start it is told of. In service already, it keeps nothing else back.
        let mut held = None;
        let told = logged(|| held = Some(Identity::new(material()).unwrap()));
        assert!(told.contains("peers will refuse it"), "{told}");
        held.unwrap().admits(&material()).unwrap();
    }
}

#[test]
fn what_a_file_cannot_be_used_for_is_pointed_at() {
    let temp = TempDir::new("identity-faults");
    let file = temp.path().join("none.pem");
    std::fs::write(&file, "nothing").unwrap();
    let text = "version = 1\n[[listen]]\non = \"tls:127.0.0.1:0\"\n[listen.security]\n\
         client_certificates = \"required\"\nclient_roots = [\"none.pem\"]\ncrls = [\"none.pem\"]\n\
         certificates = [{ cert = \"none.pem\", key = \"none.key\" }]\n\
         [tls]\ntrust = [\"none.pem\"]\ncrls = [\"none.pem\"]\nticket_keys = \"file\"\nticket_secret_file = \"none.pem\"\n\
         identity = { cert = \"none.pem\", key = \"none.key\" }\n";
    let config_file = temp.path().join("signet.toml");
    std::fs::write(&config_file, text).unwrap();
    let config = Config::from_file(&config_file).unwrap();
    let faults = faults_of_files(&config);
    let places: Vec<&str> = faults.iter().map(|fault| fault.at.as_str()).collect();
    assert_eq!(
        places,
        [
            "listen.0.security.certificates.0",
            "listen.0.security.client_roots.0",
            "listen.0.security.crls.0",
            "tls.trust.0",
            "tls.crls.0",
            "tls.identity",
            "tls.ticket_secret_file",
        ]
    );
    for fault in faults {
        assert!(
            !fault.what.is_empty() && !fault.remedy.is_empty(),
            "{fault:?}"
        );
    }
}

#[test]
fn a_fault_of_a_key_is_pointed_at_in_its_key() {
    let temp = TempDir::new("identity-key");
    let data = DataDir::open(temp.path()).unwrap();
    let ca = Ca::init(&data).unwrap();
    let issued = ca
        .issue(&["a.example".to_owned()], &data.file("a"))
        .unwrap();
    let place = || {
        let text = "version = 1\n[[listen]]\non = \"tls:127.0.0.1:0\"\n\
             security = { certificate = \"a.pem\", key = \"a.key\" }\n";
        let config_file = data.file("signet.toml");
        std::fs::write(&config_file, text).unwrap();
        let faults = faults_of_files(&Config::from_file(&config_file).unwrap());
        faults.into_iter().map(|fault| fault.at).collect::<Vec<_>>()
    };
    assert!(place().is_empty());
    let good = std::fs::read_to_string(&issued.key).unwrap();
    let sealed = good.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    for spoilt in ["nothing", &*sealed] {
        std::fs::write(&issued.key, spoilt).unwrap();
        assert_eq!(place(), ["listen.0.security.key"], "{spoilt}");
    }
    std::fs::write(&issued.key, &good).unwrap();
    std::fs::set_permissions(&issued.key, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(place(), ["listen.0.security.key"]);
    std::fs::set_permissions(&issued.key, Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&issued.certificate, "nothing").unwrap();
    assert_eq!(place(), ["listen.0.security.certificate"]);
}

#[test]
fn peers_are_asked_anew_only_when_something_changed() {
    let temp = TempDir::new("identity-print");
    let data = DataDir::open(temp.path()).unwrap();
    let first = read(&data, ListenSecurity::default()).unwrap().client_print;
    let again = read(&data, ListenSecurity::default()).unwrap().client_print;
    assert_eq!(first, again);
    let mut config = Config::default();
    config.tls.key_usage = sip_tls::KeyUsagePolicy::Strict;
    let listeners = tls_listener(ListenSecurity::default());
    let other = Material::read(&config, &data, &[], &listeners, &Tickets::File).unwrap();
    assert_ne!(first, other.client_print);
}
