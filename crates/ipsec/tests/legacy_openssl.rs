//! OpenSSL's primitives, where a build has them, do what RustCrypto's do.
#![cfg(feature = "legacy-tls")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{cases, packet_v4};
use ipsec::primitive::Provider;
use ipsec::{Auth, Cipher, SetupError};

#[test]
fn openssl_has_all_but_des_and_blowfish() {
    let lacking: Vec<Cipher> = Cipher::ALL
        .into_iter()
        .filter(|cipher| *cipher != Cipher::Null && !cipher.is_aead())
        .filter(|cipher| {
            let key = vec![5; cipher.key_bytes()];
            matches!(Provider::OpenSsl.cbc(*cipher, &key), Err(SetupError::Unavailable(_)))
        })
        .collect();
    let wanted = [Cipher::DesCbc, Cipher::Blowfish128Cbc, Cipher::Blowfish192Cbc];
    assert_eq!(lacking, wanted);
    for auth in Auth::ALL {
        assert!(Provider::OpenSsl.mac(auth, &vec![5; auth.key_bytes()]).is_ok());
    }
}

#[test]
fn openssl_opens_what_rustcrypto_seals_and_the_reverse() {
    let mut count = 0;
    for ours in cases().filter(|case| case.association.provider == Provider::OpenSsl) {
        let mut theirs = ours.clone();
        theirs.association.provider = Provider::RustCrypto;
        for (from, to) in [(&ours, &theirs), (&theirs, &ours)] {
            let (mut sender, _) = from.pair();
            let (_, mut receiver) = to.pair();
            let mut sealed = Vec::new();
            for bytes in [0, 61, 1_400] {
                let packet = packet_v4(bytes);
                sender.seal(&packet, &mut sealed).unwrap();
                assert_eq!(receiver.open(&mut sealed).unwrap().packet(), packet, "{from:?}");
                count += 1;
            }
        }
    }
    assert!(count > 0);
}
