//! S/MIME: bodies signed, verified, encrypted and decrypted, whole as user agents do it: MIME,
//! certificates and chain included.

use std::hint::black_box;
use std::sync::Arc;

use signet_bed::Error;
use smime::make::{Authority, Key, Kind};
use smime::{BodySecurity, Cipher, Keyring, Protection, Sealed, Trust};

use super::{AWS_LC, fault, item};
use crate::timing::{Job, Work};

const ALICE: &str = "sip:alice@example.org";
const BOB: &str = "sip:bob@example.org";
const NOW_UNIX_S: u64 = 1_800_000_000;
const SDP: &[u8] = b"application/sdp";

pub(super) fn jobs(sizes_bytes: &[u64], jobs: &mut Vec<Job>) -> Result<(), Error> {
    for (kind, key) in [(Kind::Rsa2048, "rsa-2048"), (Kind::P256, "p-256")] {
        let security = security(kind).map_err(|why| fault("S/MIME", why))?;
        for &size_bytes in sizes_bytes {
            let body = session(size_bytes);
            for (protection, cipher) in [(Protection::Sign, None)].into_iter().chain(
                Cipher::ALL
                    .into_iter()
                    .map(|cipher| (Protection::Encrypt, Some(cipher))),
            ) {
                let name = match cipher {
                    None => format!("smime/{key}"),
                    Some(cipher) => format!("smime/{key}/{}", item_name(cipher)),
                };
                let there = BodySecurity {
                    protection: Some(protection),
                    cipher: cipher.unwrap_or_default(),
                    ..security.clone()
                };
                let algorithms: Vec<&str> =
                    [key].into_iter().chain(cipher.map(item_name)).collect();
                let labels = [("key", key)];
                let operations = match protection {
                    Protection::Sign => ["sign", "verify"],
                    _ => ["encrypt", "decrypt"],
                };
                let sealed = seal(&there, &body)?;
                for (operation, is_opened) in operations.into_iter().zip([false, true]) {
                    let work: Box<dyn Work> = if is_opened {
                        Box::new(Open {
                            security: there.clone(),
                            sealed: sealed.clone(),
                        })
                    } else {
                        Box::new(Seal {
                            security: there.clone(),
                            body: body.clone(),
                        })
                    };
                    jobs.push(Job {
                        item: item(name.clone(), &algorithms, &labels, AWS_LC, operation),
                        size_bytes,
                        work,
                    });
                }
            }
        }
    }
    Ok(())
}

/// As ciphers are named in items.
const fn item_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Cbc => "aes-128-cbc",
        Cipher::Aes128Gcm => "aes-128-gcm",
        Cipher::Aes256Cbc => "aes-256-cbc",
        Cipher::Aes256Gcm => "aes-256-gcm",
    }
}

/// Alice, who writes to Bob, and Bob, in one.
fn security(kind: Kind) -> Result<BodySecurity, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let authority = Authority::make().map_err(|e| text(&e))?;
    let key = Key::new(kind).map_err(|e| text(&e))?;
    let own = authority
        .identity(&key, &[ALICE, BOB])
        .map_err(|e| text(&e))?;
    let own = Arc::new(own);
    let mut keyring = Keyring::default();
    keyring.add(&Arc::new(own.certificate().clone()));
    let trust = Trust::from_pem(authority.pem().as_bytes()).map_err(|e| text(&e))?;
    Ok(BodySecurity {
        identity: Some(Arc::clone(&own)),
        decrypts: vec![own],
        keyring: Arc::new(keyring),
        trust: Arc::new(trust),
        ..BodySecurity::default()
    })
}

/// A session description of so many bytes, as far as lines allow.
fn session(size_bytes: u64) -> Vec<u8> {
    let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
    let mut body = b"v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\n".to_vec();
    while body.len() < size {
        body.extend_from_slice(b"a=rtpmap:0 PCMU/8000\r\n");
    }
    body.truncate(size);
    body
}

fn seal(security: &BodySecurity, body: &[u8]) -> Result<Sealed, Error> {
    security
        .seal(BOB, SDP, body, NOW_UNIX_S)
        .map_err(|error| fault("a body cannot be protected", error))?
        .ok_or_else(|| fault("a body", "it was to be protected"))
}

struct Seal {
    security: BodySecurity,
    body: Vec<u8>,
}

impl Work for Seal {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            black_box(seal(&self.security, black_box(&self.body))?);
        }
        Ok(())
    }
}

struct Open {
    security: BodySecurity,
    sealed: Sealed,
}

impl Work for Open {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            let sealed = black_box(&self.sealed);
            let kind = sealed.content_type.as_bytes();
            let opened = self
                .security
                .open(ALICE, kind, None, &sealed.body, NOW_UNIX_S)
                .map_err(|error| fault("a body cannot be opened", error))?;
            black_box(opened);
        }
        Ok(())
    }
}
