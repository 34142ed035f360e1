//! Certificates of clients at our server: asked for, checked, and checked once
//! more when a session is resumed. The client is openssl.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::openssl::{Dir, s_client};
use crate::common::{Bench, Seen, handshake_failed, tls_server, tls_server_with};
use sip_msg::ListenerId;
use sip_tls::testing::{KeyKind, TestCa, params};
use sip_tls::{CertificateFault, ClientAuth, HandshakeConfig, ServerTlsConfig, TicketKeys};
use time::OffsetDateTime;

struct World {
    ca: TestCa,
    pair: (String, String),
    dir: Dir,
}

impl World {
    fn new() -> Self {
        let ca = TestCa::new();
        let pair = ca.issue(&["example.com"]);
        let dir = Dir::new();
        Self { ca, pair, dir }
    }

    fn config(&self, auth: ClientAuth) -> ServerTlsConfig {
        let (chain, key) = &self.pair;
        ServerTlsConfig::new()
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap()
            .roots_pem(&[self.ca.root_pem().as_bytes()])
            .unwrap()
            .client_auth(auth)
            .tickets(TicketKeys::new([3; 32], Duration::from_secs(3_600)).unwrap())
    }

    /// The files of a client's certificate and key.
    fn client(&self, ca: &TestCa, serial: u64, not_after: Option<OffsetDateTime>) -> [String; 2] {
        let mut params = params(&["sip:phones.example.com", "other.com"], 2020, 2099);
        params.serial_number = Some(serial.into());
        if let Some(end) = not_after {
            params.not_after = end;
        }
        let (chain, key) = ca.issue_from(&params, &KeyKind::P256.generate());
        [
            self.dir.file(&format!("{serial}.pem"), &chain),
            self.dir.file(&format!("{serial}.key"), &key),
        ]
    }
}

fn messages(server: &Bench) -> usize {
    server
        .seen
        .iter()
        .filter(|seen| matches!(seen, Seen::Message(..)))
        .count()
}

#[test]
fn a_certificate_is_asked_for_as_configured() {
    // RFC 3261 26.3.1: "Proxy servers, redirect servers, and registrars MUST implement TLS, and MUST
    // support both mutual and one-way authentication."
    let world = World::new();
    let stranger = TestCa::named("Another CA");
    let [good, good_key] = world.client(&world.ca, 1, None);
    let [bad, bad_key] = world.client(&stranger, 2, None);
    let (none, good, bad): (&[&str], &[&str], &[&str]) = (
        &[],
        &["-cert", &good, "-key", &good_key],
        &["-cert", &bad, "-key", &bad_key],
    );
    use CertificateFault::{Missing, UnknownIssuer};
    for version in ["-tls1_2", "-tls1_3"] {
        for (auth, shown, fault) in [
            (ClientAuth::Off, none, None),
            (ClientAuth::Off, bad, None),
            (ClientAuth::Optional, none, None),
            (ClientAuth::Optional, good, None),
            (ClientAuth::Optional, bad, Some(UnknownIssuer)),
            (ClientAuth::Required, none, Some(Missing)),
            (ClientAuth::Required, good, None),
            (ClientAuth::Required, bad, Some(UnknownIssuer)),
        ] {
            let mut server = tls_server(world.config(auth).build().unwrap());
            let mut args = vec![version];
            args.extend(shown);
            let output = s_client(&mut server, &args);
            let row = format!("{version} {auth:?} {shown:?}");
            match fault {
                None => {
                    assert!(output.contains("SIP/2.0 200 OK"), "{row}: {output}");
                    let identity = server.identities.pop().unwrap();
                    let shown = auth != ClientAuth::Off && !shown.is_empty();
                    assert_eq!(identity.is_some(), shown, "{row}");
                    if let Some(identity) = identity {
                        assert_eq!(*identity.domains, ["phones.example.com".into()]);
                        assert!(!identity.speaks_for("other.com"));
                    }
                }
                Some(fault) => {
                    let error = server.until(handshake_failed);
                    assert_eq!(error.fault, Some(fault), "{row}: {output}");
                    assert_eq!(messages(&server), 0, "{row}");
                    let alert = error.alert.unwrap();
                    // openssl names it in words, with its number behind.
                    let number = format!("SSL alert number {}", alert.code);
                    let read = output.contains(&number) || output.contains("alert");
                    assert!(read && !alert.received, "{row}: {output}");
                    let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
                    assert_eq!(tally.faults[fault as usize], 1, "{row}");
                }
            }
        }
    }
}

#[test]
fn nobody_is_asked_without_somebody_to_believe() {
    let world = World::new();
    let (chain, key) = &world.pair;
    let config = ServerTlsConfig::new()
        .pair_pem(chain.as_bytes(), key.as_bytes())
        .unwrap()
        .client_auth(ClientAuth::Required);
    let error = config.build().unwrap_err().to_string();
    assert!(error.contains("give the authorities"), "{error}");
    let error = ServerTlsConfig::new().crl_pem(&[b"nothing"]).unwrap_err();
    assert!(error.to_string().contains("X509 CRL"), "{error}");
}

/// Every way to resume.
const WAYS: [&[&str]; 3] = [&["-tls1_2"], &["-tls1_2", "-no_ticket"], &["-tls1_3"]];

#[test]
fn a_session_ends_with_the_certificate_that_was_revoked() {
    let world = World::new();
    let session = world.dir.path("session.pem");
    for way in WAYS {
        for (revoked, fault) in [
            (&[99][..], None),
            (&[99, 5], Some(CertificateFault::Revoked)),
        ] {
            let [cert, key] = world.client(&world.ca, 5, None);
            let tls = Arc::new(world.config(ClientAuth::Required).build().unwrap());
            let mut server = tls_server_with(Arc::clone(&tls), HandshakeConfig::default());
            let mut args = way.to_vec();
            args.extend(["-cert", &cert, "-key", &key]);
            let mut first = args.clone();
            first.extend(["-sess_out", &session]);
            assert!(s_client(&mut server, &first).contains("New, "));
            // The policy of a running server becomes another.
            let crl = world.ca.revoke(revoked);
            let stricter = world
                .config(ClientAuth::Required)
                .crl_pem(&[crl.as_bytes()])
                .unwrap();
            let stricter = match way {
                // Its cache is its own; it keeps it.
                [_, "-no_ticket"] => stricter,
                _ => stricter.no_session_ids(),
            };
            tls.reload(stricter).unwrap();
            args.extend(["-sess_in", &session]);
            let before = messages(&server);
            let output = s_client(&mut server, &args);
            let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
            match fault {
                None => {
                    assert!(output.contains("Reused, "), "{way:?}: {output}");
                    assert!(output.contains("SIP/2.0 200 OK"), "{way:?}: {output}");
                    // Who it is was not forgotten.
                    let identity = server.identities.pop().unwrap().unwrap();
                    assert!(identity.speaks_for("phones.example.com"));
                    assert_eq!(tally.resumptions_refused, 0);
                }
                Some(fault) => {
                    assert!(!output.contains("Reused, "), "{way:?}: {output}");
                    assert!(
                        output.contains("alert certificate revoked"),
                        "{way:?}: {output}"
                    );
                    assert_eq!(server.until(handshake_failed).fault, Some(fault));
                    assert_eq!(messages(&server), before, "{way:?}");
                    assert_eq!(tally.resumptions_refused, 1, "{way:?}");
                }
            }
        }
    }
}

#[test]
fn a_session_ends_with_the_certificate_that_expires() {
    let world = World::new();
    // Long enough for three visits on a machine with much to do.
    let end = OffsetDateTime::now_utc() + Duration::from_secs(12);
    let [cert, key] = world.client(&world.ca, 6, Some(end));
    let mut visited = Vec::new();
    for (number, way) in WAYS.into_iter().enumerate() {
        let mut server = tls_server(world.config(ClientAuth::Required).build().unwrap());
        let mut args: Vec<String> = way.iter().map(|arg| (*arg).to_owned()).collect();
        args.extend(["-cert".into(), cert.clone(), "-key".into(), key.clone()]);
        let session = world.dir.path(&format!("session-{number}.pem"));
        let mut first: Vec<&str> = args.iter().map(String::as_str).collect();
        first.extend(["-sess_out", &session]);
        let output = s_client(&mut server, &first);
        assert!(output.contains("SIP/2.0 200 OK"), "{output}");
        args.extend(["-sess_in".into(), session]);
        visited.push((server, args));
    }
    let patience = Instant::now();
    while OffsetDateTime::now_utc() <= end + Duration::from_secs(1) {
        assert!(patience.elapsed() < Duration::from_secs(60));
        visited.iter_mut().for_each(|(server, _)| server.turn());
    }
    for (mut server, args) in visited {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = s_client(&mut server, &args);
        assert!(
            output.contains("alert certificate expired"),
            "{args:?}: {output}"
        );
        let error = server.until(handshake_failed);
        assert_eq!(error.fault, Some(CertificateFault::Expired));
        assert_eq!(messages(&server), 1);
    }
}
