//! What somebody in the path can do with bodies that S/MIME protects.

use std::sync::{Arc, OnceLock};

use smime::make::{Authority, Key, Kind};
use smime::{
    BODY_BYTES_MAX, BodySecurity, Certificate, Identity, Keyring, Protection, Sealed, Trust,
};

use crate::parts;

const ALICE: &str = "sip:alice@example.org";
const BOB: &str = "sip:bob@example.org";
const SDP: &[u8] = b"v=0\r\nm=audio 49170 RTP/AVP 0\r\n";
const NOW_UNIX_S: u64 = 1_800_000_000;
/// Changes that are made to a body of Alice's.
const CHANGES_MAX: usize = 8;

/// Bob, who asks for Alice's signature, and what she sent him in every form that has one.
struct World {
    bob: BodySecurity,
    sent: Vec<Sealed>,
}

impl World {
    fn new() -> Self {
        let authority = Authority::make().expect("an authority");
        let user = |address| {
            let key = Key::new(Kind::P256).expect("a key");
            let chain = authority.certify(&key, &[address]).expect("a certificate");
            let identity = Identity::from_pem(chain.as_bytes(), key.pem().as_bytes());
            (Arc::new(identity.expect("its own key")), chain)
        };
        let ((alice, _), (bob, chain)) = (user(ALICE), user(BOB));
        let mut keyring = Keyring::default();
        for certificate in Certificate::from_pem(chain.as_bytes()).expect("PEM of our own") {
            assert!(keyring.add(&Arc::new(certificate)), "a user's certificate");
        }
        let keyring = Arc::new(keyring);
        let sent = Protection::ALL.into_iter().filter(|form| form.signs());
        let sent = sent.map(|protection| {
            let sender = BodySecurity {
                protection: Some(protection),
                identity: Some(Arc::clone(&alice)),
                keyring: Arc::clone(&keyring),
                ..BodySecurity::default()
            };
            let sealed = sender.seal(BOB, b"application/sdp", SDP, NOW_UNIX_S);
            sealed.expect("she has what it takes").expect("a body")
        });
        let trust = Trust::from_pem(authority.pem().as_bytes()).expect("PEM of our own");
        Self {
            sent: sent.collect(),
            bob: BodySecurity {
                decrypts: vec![bob],
                trust: Arc::new(trust),
                wants_signature: true,
                ..BodySecurity::default()
            },
        }
    }
}

/// Nobody without Alice's key is taken for her, and what she signed says what she said or
/// nothing. An input is a value of Content-Type, one of Content-Transfer-Encoding, and a body;
/// the body's bytes are also changes to what Alice sent.
pub fn bodies(data: &[u8]) {
    static WORLD: OnceLock<World> = OnceLock::new();
    let world = WORLD.get_or_init(World::new);
    let mut parts = parts(data);
    let kind = parts.next().unwrap_or_default();
    let encoding = parts.next().filter(|encoding| !encoding.is_empty());
    let body = parts.next().unwrap_or_default();

    let opened = world.bob.open(ALICE, kind, encoding, body, NOW_UNIX_S);
    assert!(opened.is_err(), "a stranger is taken for Alice");
    let trusting = BodySecurity {
        wants_signature: false,
        ..world.bob.clone()
    };
    if let Ok(Some(opened)) = trusting.open(ALICE, kind, encoding, body, NOW_UNIX_S) {
        assert!(opened.signer.is_none(), "a stranger is taken for Alice");
        assert!(opened.body.len() <= BODY_BYTES_MAX, "it grew");
    }
    let _ = Certificate::from_der(body);
    let _ = Certificate::from_pem(body);
    let _ = Trust::from_pem(body);

    for sealed in &world.sent {
        let mut changed = sealed.body.clone();
        for change in body.chunks_exact(3).take(CHANGES_MAX) {
            let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % changed.len();
            changed[at] = change[2];
        }
        let kind = sealed.content_type.as_bytes();
        let encoding = sealed.transfer_encoding.map(str::as_bytes);
        let opened = world.bob.open(ALICE, kind, encoding, &changed, NOW_UNIX_S);
        match opened {
            Ok(opened) => assert_eq!(opened.expect("it is protected").body, SDP),
            Err(_) => assert_ne!(changed, sealed.body, "what Alice sent is refused"),
        }
    }
}
