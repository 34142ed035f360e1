//! What the public-key operations of a full handshake cost the server, bare: a key of its own,
//! the agreement with the client's, and the signature. What a handshake costs beyond them is
//! certificates, messages and hashes.

use aws_lc_rs::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::kem::{self, ML_KEM_768};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PSS_SHA256,
};
use signet_bed::Error;

pub use super::made::KeyKind;
use super::{AWS_LC, fault, item};
use crate::timing::{Job, Work};

/// As long as what a handshake signs.
const SIGNED: [u8; 130] = [0x20; 130];

/// What a client and a server agree on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    X25519,
    P256,
    X25519MlKem768,
}

impl Group {
    const ALL: [Self; 3] = [Self::X25519, Self::P256, Self::X25519MlKem768];

    const fn name(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::P256 => "p-256",
            Self::X25519MlKem768 => "x25519mlkem768",
        }
    }
}

pub(super) fn jobs(jobs: &mut Vec<Job>) -> Result<(), Error> {
    for key in KeyKind::ALL {
        for group in Group::ALL {
            jobs.push(job(key, group)?);
        }
    }
    Ok(())
}

/// The work of one kind of key, with an agreement on X25519.
///
/// # Errors
/// The library refuses a key.
pub fn with_x25519(key: KeyKind) -> Result<Job, Error> {
    job(key, Group::X25519)
}

fn job(key: KeyKind, group: Group) -> Result<Job, Error> {
    let name = format!("handshake-keys/{}/{}", key.name(), group.name());
    let labels = [("key", key.name()), ("group", group.name())];
    let refused = |error: Unspecified| fault("a key", error);
    let work = Operations {
        signer: Signer::new(key).map_err(refused)?,
        agreement: Agreement::new(group).map_err(refused)?,
        random: SystemRandom::new(),
    };
    Ok(Job {
        item: item(name, &[key.name(), group.name()], &labels, AWS_LC, "server"),
        size_bytes: 0,
        work: Box::new(work),
    })
}

struct Operations {
    signer: Signer,
    agreement: Agreement,
    random: SystemRandom,
}

impl Work for Operations {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            self.agreement
                .take(&self.random)
                .and_then(|()| self.signer.sign(&self.random))
                .map_err(|error| fault("a key operation", error))?;
        }
        Ok(())
    }
}

enum Signer {
    Rsa(Box<RsaKeyPair>, Vec<u8>),
    P256(Box<EcdsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

impl Signer {
    fn new(key: KeyKind) -> Result<Self, Unspecified> {
        let rsa = |size| -> Result<Self, Unspecified> {
            let pair = RsaKeyPair::generate(size)?;
            let signature = vec![0; pair.public_modulus_len()];
            Ok(Self::Rsa(Box::new(pair), signature))
        };
        match key {
            KeyKind::Rsa2048 => rsa(KeySize::Rsa2048),
            KeyKind::Rsa3072 => rsa(KeySize::Rsa3072),
            KeyKind::P256 => {
                let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
                Ok(Self::P256(Box::new(pair)))
            }
            KeyKind::Ed25519 => Ok(Self::Ed25519(Box::new(Ed25519KeyPair::generate()?))),
        }
    }

    fn sign(&mut self, random: &SystemRandom) -> Result<(), Unspecified> {
        match self {
            Self::Rsa(pair, signature) => pair.sign(&RSA_PSS_SHA256, random, &SIGNED, signature),
            Self::P256(pair) => pair.sign(random, &SIGNED).map(drop),
            Self::Ed25519(pair) => {
                std::hint::black_box(pair.sign(&SIGNED));
                Ok(())
            }
        }
    }
}

/// The server's half, with what the client sent.
struct Agreement {
    algorithm: &'static agreement::Algorithm,
    client: Vec<u8>,
    /// The client's key for the post-quantum half.
    encapsulated: Option<kem::EncapsulationKey>,
}

impl Agreement {
    fn new(group: Group) -> Result<Self, Unspecified> {
        let algorithm = match group {
            Group::P256 => &agreement::ECDH_P256,
            Group::X25519 | Group::X25519MlKem768 => &agreement::X25519,
        };
        let client = EphemeralPrivateKey::generate(algorithm, &SystemRandom::new())?;
        let encapsulated = match group {
            Group::X25519MlKem768 => {
                let key = kem::DecapsulationKey::generate(&ML_KEM_768)?;
                Some(key.encapsulation_key()?)
            }
            Group::X25519 | Group::P256 => None,
        };
        Ok(Self {
            algorithm,
            client: client.compute_public_key()?.as_ref().to_vec(),
            encapsulated,
        })
    }

    fn take(&self, random: &SystemRandom) -> Result<(), Unspecified> {
        if let Some(client) = &self.encapsulated {
            std::hint::black_box(client.encapsulate()?);
        }
        let key = EphemeralPrivateKey::generate(self.algorithm, random)?;
        std::hint::black_box(key.compute_public_key()?);
        let client = UnparsedPublicKey::new(self.algorithm, &self.client);
        agreement::agree_ephemeral(key, client, Unspecified, |secret| {
            std::hint::black_box(secret.len());
            Ok(())
        })
    }
}
