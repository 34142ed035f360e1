//! A build without the feature `legacy-tls` has nothing of the suites of
//! RFC 3261 26.2.1, whatever it is asked for.
#![cfg(not(feature = "legacy-tls"))]
#![allow(clippy::unwrap_used)]

mod common;

use common::openssl::s_client;
use common::{handshake_failed, tls_server};
use sip_tls::testing::{KeyKind, TestCa};
use sip_tls::{
    ClientTlsConfig, HandshakeFailure, LEGACY_SUITE_NAMES, SUITE_NAMES, ServerTlsConfig, TlsEngine,
};

#[test]
fn the_engine_is_refused_with_the_feature_that_it_needs() {
    assert!(!TlsEngine::Legacy.is_here());
    let (chain, key) = TestCa::new().issue_with(&["example.com"], KeyKind::Rsa2048);
    let server = ServerTlsConfig::new()
        .engine(TlsEngine::Legacy)
        .pair_pem(chain.as_bytes(), key.as_bytes())
        .unwrap()
        .build();
    let client = ClientTlsConfig::new().engine(TlsEngine::Legacy).build();
    for error in [server.err().unwrap(), client.err().unwrap()] {
        assert!(
            error.to_string().contains("--features legacy-tls"),
            "{error}"
        );
    }
}

#[test]
fn the_suites_are_unknown_to_the_engine_that_is_here() {
    for name in LEGACY_SUITE_NAMES {
        assert!(!SUITE_NAMES.contains(&name));
        let error = ClientTlsConfig::new()
            .suites(&[name])
            .build()
            .err()
            .unwrap();
        assert!(error.to_string().contains("legacy engine"), "{error}");
    }
}

#[test]
fn a_client_that_knows_only_them_is_sent_away() {
    let (chain, key) = TestCa::new().issue_with(&["example.com"], KeyKind::Rsa2048);
    let tls = ServerTlsConfig::new()
        .pair_pem(chain.as_bytes(), key.as_bytes())
        .unwrap()
        .build()
        .unwrap();
    let mut server = tls_server(tls);
    let output = s_client(
        &mut server,
        &["-tls1_2", "-cipher", "AES128-SHA@SECLEVEL=0"],
    );
    assert!(output.contains("alert handshake failure"), "{output}");
    let error = server.until(handshake_failed);
    assert_eq!(error.failure, HandshakeFailure::Incompatible);
}
