//! Users with certificates, and what they send each other.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::sync::Arc;

use smime::make::{Authority, Key, Kind};
use smime::{
    BodySecurity, Certificate, Cipher, Identity, Keyring, OpenError, Opened, Protection, Sealed,
    Transfer, Trust,
};

pub const ALICE: &str = "sip:alice@example.org";
pub const BOB: &str = "sip:bob@example.org";
pub const SDP_TYPE: &[u8] = b"application/sdp";
pub const SDP: &[u8] = b"v=0\r\no=alice 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\n\
    t=0 0\r\nm=audio 49170 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";
pub const NOW_UNIX_S: u64 = 1_800_000_000;
pub const KINDS: [Kind; 2] = [Kind::P256, Kind::Rsa2048];

/// A user's certificate and key, as texts too.
pub struct User {
    pub chain: String,
    pub key: String,
    pub identity: Arc<Identity>,
}

pub struct World {
    pub authority: Authority,
    pub alice: User,
    pub bob: User,
}

impl World {
    /// Alice and Bob with keys of this kind.
    pub fn new(kind: Kind) -> Self {
        let authority = Authority::make().unwrap();
        let alice = user(&authority, kind, ALICE);
        let bob = user(&authority, kind, BOB);
        Self {
            authority,
            alice,
            bob,
        }
    }

    /// What Alice does with what she sends.
    pub fn sender(&self, protection: Protection) -> BodySecurity {
        let mut keyring = Keyring::default();
        let bob = Certificate::from_pem(self.bob.chain.as_bytes()).unwrap();
        assert!(keyring.add(&Arc::new(bob[0].clone())));
        BodySecurity {
            protection: Some(protection),
            identity: Some(Arc::clone(&self.alice.identity)),
            keyring: Arc::new(keyring),
            ..BodySecurity::default()
        }
    }

    /// What Bob asks of what comes.
    pub fn recipient(&self) -> BodySecurity {
        BodySecurity {
            decrypts: vec![Arc::clone(&self.bob.identity)],
            trust: Arc::new(Trust::from_pem(self.authority.pem().as_bytes()).unwrap()),
            ..BodySecurity::default()
        }
    }
}

pub fn user(authority: &Authority, kind: Kind, address: &str) -> User {
    let key = Key::new(kind).unwrap();
    let chain = authority.certify(&key, &[address]).unwrap();
    let identity = Identity::from_pem(chain.as_bytes(), key.pem().as_bytes()).unwrap();
    User {
        chain,
        key: key.pem(),
        identity: Arc::new(identity),
    }
}

pub fn seal(sender: &BodySecurity) -> Sealed {
    sender
        .seal(BOB, SDP_TYPE, SDP, NOW_UNIX_S)
        .unwrap()
        .expect("it is protected")
}

pub fn open(recipient: &BodySecurity, sealed: &Sealed) -> Result<Opened, OpenError> {
    let opened = recipient.open(
        ALICE,
        sealed.content_type.as_bytes(),
        sealed.transfer_encoding.map(str::as_bytes),
        &sealed.body,
        NOW_UNIX_S,
    );
    opened.map(|opened| opened.expect("it was protected"))
}

/// Every protection with every cipher and every encoding.
pub fn forms(world: &World) -> Vec<(String, BodySecurity)> {
    let mut forms = Vec::new();
    for protection in Protection::ALL {
        for cipher in Cipher::ALL {
            if !protection.encrypts() && cipher != Cipher::default() {
                continue;
            }
            for transfer in [Transfer::Binary, Transfer::Base64] {
                let name = format!("{} {} {transfer:?}", protection.name(), cipher.name());
                let sender = BodySecurity {
                    cipher,
                    transfer,
                    ..world.sender(protection)
                };
                forms.push((name, sender));
            }
        }
    }
    forms
}
