//! What is protected comes out again, and nothing else does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;

use common::{ALICE, BOB, KINDS, NOW_UNIX_S, SDP, SDP_TYPE, User, World, forms, open, seal, user};
use smime::make::{Authority, Kind};
use smime::{
    BODY_BYTES_MAX, BodySecurity, Cipher, Culprit, Keyring, OpenError, Protection, SealError,
    Sealed, Trust,
};

#[test]
fn every_form_is_opened_by_whom_it_is_for() {
    for kind in KINDS {
        let world = World::new(kind);
        for (name, sender) in forms(&world) {
            let sealed = seal(&sender);
            let protection = sender.protection.unwrap();
            let opened =
                open(&world.recipient(), &sealed).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(opened.content_type, SDP_TYPE, "{name}");
            assert_eq!(opened.body, SDP, "{name}");
            assert_eq!(opened.was_encrypted, protection.encrypts(), "{name}");
            let signer = opened.signer.map(|signer| signer.speaks_for(ALICE));
            assert_eq!(signer, protection.signs().then_some(true), "{name}");
            let has_clear_text = sealed.body.windows(7).any(|part| part == b"m=audio");
            assert_eq!(has_clear_text, !protection.encrypts(), "{name}");
        }
    }
}

#[test]
fn a_changed_body_is_refused_or_says_the_same() {
    for kind in KINDS {
        let world = World::new(kind);
        for (name, sender) in forms(&world) {
            let sealed = seal(&sender);
            // Who does not ask for a signature takes what is left when one was changed away.
            let recipient = BodySecurity {
                wants_signature: sender.protection.is_some_and(Protection::signs),
                ..world.recipient()
            };
            // CBC alone does not notice: only that nothing breaks can be asked of it.
            let notices =
                sender.protection != Some(Protection::Encrypt) || sender.cipher.is_authenticated();
            let mut refused = 0;
            let mut check = |body: Vec<u8>, what: &str| {
                let changed = Sealed {
                    body,
                    ..sealed.clone()
                };
                match open(&recipient, &changed) {
                    Ok(opened) => assert!(!notices || opened.body == SDP, "{name}: {what}"),
                    Err(_) => refused += 1,
                }
            };
            // Steps that are no multiples of each other hit every bit and every part.
            let step = if kind == Kind::Rsa2048 { 29 } else { 7 };
            for at in (0..sealed.body.len()).step_by(step) {
                let mut body = sealed.body.clone();
                body[at] ^= 1 << (at % 8);
                check(body, &format!("bit of byte {at}"));
            }
            for length in (0..sealed.body.len()).step_by(step) {
                check(sealed.body[..length].to_vec(), &format!("cut to {length}"));
            }
            assert!(refused > sealed.body.len() / step, "{name}: {refused}");
        }
    }
}

#[test]
fn what_is_for_another_key_is_not_for_us() {
    for kind in KINDS {
        let world = World::new(kind);
        let carol = user(&world.authority, kind, "sip:carol@example.org");
        for protection in [Protection::Encrypt, Protection::SignThenEncrypt] {
            let sealed = seal(&world.sender(protection));
            let of = |user: &User| BodySecurity {
                decrypts: vec![Arc::clone(&user.identity)],
                ..world.recipient()
            };
            assert_eq!(open(&of(&carol), &sealed), Err(OpenError::NotForUs));
            assert!(open(&of(&world.bob), &sealed).is_ok());
            let nobody = BodySecurity {
                decrypts: Vec::new(),
                ..world.recipient()
            };
            let told = open(&nobody, &sealed).unwrap_err();
            assert_eq!((told.status(), told.culprit()), (493, Culprit::Recipient));
        }
    }
}

#[test]
fn who_signed_is_the_sender_and_believed() {
    for kind in KINDS {
        let world = World::new(kind);
        let carol = user(&world.authority, kind, "sip:carol@example.org");
        for protection in Protection::ALL.into_iter().filter(|p| p.signs()) {
            let by_carol = BodySecurity {
                identity: Some(Arc::clone(&carol.identity)),
                ..world.sender(protection)
            };
            let told = open(&world.recipient(), &seal(&by_carol)).unwrap_err();
            assert_eq!(told, OpenError::WrongSigner, "{}", protection.name());
            assert_eq!((told.status(), told.culprit()), (403, Culprit::Sender));
            let other = Authority::make().unwrap();
            let elsewhere = BodySecurity {
                trust: Arc::new(Trust::from_pem(other.pem().as_bytes()).unwrap()),
                ..world.recipient()
            };
            let told = open(&elsewhere, &seal(&world.sender(protection)));
            assert_eq!(told, Err(OpenError::Untrusted), "{}", protection.name());
        }
    }
}

#[test]
fn what_is_asked_for_must_be_there() {
    let world = World::new(Kind::P256);
    let strict = BodySecurity {
        wants_signature: true,
        wants_encryption: true,
        ..world.recipient()
    };
    let told = |protection| open(&strict, &seal(&world.sender(protection))).map(|_| ());
    assert_eq!(told(Protection::Sign), Err(OpenError::NotEncrypted));
    assert_eq!(told(Protection::Encrypt), Err(OpenError::NotSigned));
    assert_eq!(told(Protection::EncryptThenSign), Ok(()));
    assert_eq!(told(Protection::SignThenEncrypt), Ok(()));
    let plain = |security: &BodySecurity| security.open(ALICE, SDP_TYPE, None, SDP, NOW_UNIX_S);
    assert_eq!(plain(&strict), Err(OpenError::NotSigned));
    assert_eq!(plain(&world.recipient()), Ok(None));
}

#[test]
fn nothing_is_sent_that_cannot_be_protected() {
    let world = World::new(Kind::P256);
    let sender = world.sender(Protection::Encrypt);
    let seal = |security: &BodySecurity, to: &str, body: &[u8]| {
        security
            .seal(to, SDP_TYPE, body, NOW_UNIX_S)
            .map(|sealed| sealed.is_some())
    };
    let carol = "sip:carol@example.org".to_owned();
    assert_eq!(
        seal(&sender, &carol, SDP),
        Err(SealError::NoRecipient(carol.clone()))
    );
    assert_eq!(seal(&sender, BOB, SDP), Ok(true));
    let large = vec![b'a'; BODY_BYTES_MAX + 1];
    assert_eq!(seal(&sender, BOB, &large), Err(SealError::TooLarge));
    assert_eq!(seal(&sender, BOB, &large[2..]), Err(SealError::TooLarge));
    let nobody = BodySecurity {
        identity: None,
        ..world.sender(Protection::Sign)
    };
    assert_eq!(seal(&nobody, BOB, SDP), Err(SealError::NoIdentity));
    assert_eq!(seal(&BodySecurity::default(), BOB, SDP), Ok(false));
    // A certificate for signing alone is none to encrypt with; that of an authority, for one.
    let root = smime::Certificate::from_pem(world.authority.pem().as_bytes()).unwrap();
    let mut keyring = Keyring::default();
    keyring.set_for_anybody(Arc::new(root[0].clone()));
    let sender = BodySecurity {
        keyring: Arc::new(keyring),
        ..sender
    };
    assert_eq!(seal(&sender, BOB, SDP), Err(SealError::Refused));
}

#[test]
fn layers_and_sizes_are_bounded() {
    let world = World::new(Kind::P256);
    let sender = world.sender(Protection::Encrypt);
    let (mut kind, mut body) = (SDP_TYPE.to_vec(), SDP.to_vec());
    for layers in 1..=6 {
        let sealed = sender.seal(BOB, &kind, &body, NOW_UNIX_S).unwrap().unwrap();
        let told = open(&world.recipient(), &sealed).map(|opened| opened.body);
        if layers <= smime::LAYERS_MAX {
            assert_eq!(told.unwrap(), SDP, "{layers}");
        } else {
            assert_eq!(told, Err(OpenError::TooDeep), "{layers}");
        }
        (kind, body) = (sealed.content_type.into_bytes(), sealed.body);
    }
    let large = Sealed {
        body: vec![0; BODY_BYTES_MAX + 1],
        ..seal(&sender)
    };
    assert_eq!(open(&world.recipient(), &large), Err(OpenError::TooLarge));
}

#[test]
fn lines_are_signed_as_they_arrive() {
    let world = World::new(Kind::P256);
    let sender = world.sender(Protection::Sign);
    let sealed = sender.seal(BOB, SDP_TYPE, b"v=0\ns=-\n", NOW_UNIX_S);
    let opened = open(&world.recipient(), &sealed.unwrap().unwrap()).unwrap();
    assert_eq!(opened.body, b"v=0\r\ns=-\r\n");
}

#[test]
fn nothing_tells_how_decryption_failed() {
    for kind in KINDS {
        let world = World::new(kind);
        let sender = BodySecurity {
            cipher: Cipher::Aes128Cbc,
            ..world.sender(Protection::Encrypt)
        };
        let sealed = seal(&sender);
        let length = sealed.body.len();
        // In the last block it is the padding that breaks, before it the text of the entity.
        for at in (length - 120..length).step_by(3) {
            let mut body = sealed.body.clone();
            body[at] ^= 0x80;
            let changed = Sealed {
                body,
                ..sealed.clone()
            };
            if let Err(told) = open(&world.recipient(), &changed) {
                assert_eq!(told, OpenError::Undecipherable, "{at}");
            }
            // Who asks for a signature says the same where all else came out well.
            let told = open(&asking(&world), &changed);
            assert_eq!(told, Err(OpenError::Undecipherable), "{at}");
        }
        let told = open(&asking(&world), &sealed);
        assert_eq!(told, Err(OpenError::Undecipherable));
        // What is authenticated comes out as it was or not at all, and may be told.
        let gcm = seal(&world.sender(Protection::Encrypt));
        assert_eq!(open(&asking(&world), &gcm), Err(OpenError::NotSigned));
    }
}

/// Bob, who asks for a signature.
fn asking(world: &World) -> BodySecurity {
    BodySecurity {
        wants_signature: true,
        ..world.recipient()
    }
}

#[test]
fn no_key_is_used_before_the_signer_is_known_where_that_is_asked_for() {
    for kind in KINDS {
        let world = World::new(kind);
        let strict = BodySecurity {
            wants_signature_first: true,
            ..asking(&world)
        };
        // Without a key it would be for somebody else, if a key were looked for.
        let keyless = BodySecurity {
            decrypts: Vec::new(),
            ..strict.clone()
        };
        for cipher in Cipher::ALL {
            let told = |recipient: &BodySecurity, protection| {
                let sender = BodySecurity {
                    cipher,
                    ..world.sender(protection)
                };
                open(recipient, &seal(&sender)).map(|_| ())
            };
            for recipient in [&strict, &keyless] {
                for outside in [Protection::Encrypt, Protection::SignThenEncrypt] {
                    assert_eq!(told(recipient, outside), Err(OpenError::NotSigned));
                }
                assert_eq!(told(recipient, Protection::Sign), Ok(()));
            }
            let both = Protection::EncryptThenSign;
            assert_eq!(told(&strict, both), Ok(()));
            assert_eq!(told(&keyless, both), Err(OpenError::NotForUs));
        }
    }
}

#[test]
fn nothing_follows_a_signature_in_what_can_be_changed() {
    let world = World::new(Kind::P256);
    let signed = seal(&world.sender(Protection::Sign));
    let told = |cipher, after: &[u8]| {
        let sender = BodySecurity {
            cipher,
            ..world.sender(Protection::Encrypt)
        };
        let body = [signed.body.as_slice(), after].concat();
        let sealed = sender.seal(BOB, signed.content_type.as_bytes(), &body, NOW_UNIX_S);
        open(&asking(&world), &sealed.unwrap().unwrap()).map(|opened| opened.body)
    };
    assert_eq!(told(Cipher::Aes128Cbc, b""), Ok(SDP.to_vec()));
    assert_eq!(told(Cipher::Aes128Cbc, b"\r\n"), Ok(SDP.to_vec()));
    let blocks = b"\r\nblocks from elsewhere";
    assert_eq!(
        told(Cipher::Aes128Cbc, blocks),
        Err(OpenError::Undecipherable)
    );
    assert_eq!(told(Cipher::Aes128Gcm, blocks), Ok(SDP.to_vec()));
}

#[test]
fn a_signer_with_a_key_of_another_kind_is_not_understood() {
    // id-ecPublicKey in the certificate becomes a kind of key that nobody has.
    const EC_PUBLIC_KEY: [u8; 9] = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    let world = World::new(Kind::P256);
    let mut sealed = seal(&world.sender(Protection::Sign));
    let is_key = |part: &[u8]| part == EC_PUBLIC_KEY;
    let at = sealed.body.windows(EC_PUBLIC_KEY.len()).position(is_key);
    sealed.body[at.unwrap() + EC_PUBLIC_KEY.len() - 1] = 0x7f;
    let told = open(&world.recipient(), &sealed).unwrap_err();
    assert_eq!(told, OpenError::Unsupported("the kind of the signer's key"));
    assert_eq!((told.status(), told.culprit()), (415, Culprit::Recipient));
}
