//! What the public-key operations of a full handshake cost the server, in a
//! loop with the library that the server uses: an X25519 key, the agreement
//! with the client's, and the signature.

use aws_lc_rs::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PSS_SHA256,
};
use serde::{Deserialize, Serialize};

use super::{Bench, Kind};
use crate::process::SERVER_CORE;

#[derive(clap::Args)]
pub(crate) struct RawArguments {
    /// How long each loop runs.
    #[arg(long, default_value_t = 500)]
    milliseconds: u64,
}

/// CPU time of one handshake's operations, in microseconds, by kind of key.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Raw {
    rsa2048_us: f64,
    p256_us: f64,
    ed25519_us: f64,
}

impl Raw {
    pub(super) const fn of(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Rsa2048 => self.rsa2048_us,
            Kind::P256 => self.p256_us,
            Kind::Ed25519 => self.ed25519_us,
        }
    }
}

/// Measures and prints one line of JSON.
pub(crate) fn run_raw(arguments: &RawArguments) -> Result<(), String> {
    use std::io::Write;
    let raw = loops(arguments.milliseconds).map_err(|_| "the library refused an operation")?;
    let text = serde_json::to_string(&raw).map_err(|e| e.to_string())?;
    writeln!(std::io::stdout(), "{text}").map_err(|e| e.to_string())
}

impl Bench<'_> {
    /// Measures on the core on which the servers run.
    pub(super) fn raw(&self) -> Result<Raw, String> {
        let this = std::env::current_exe().map_err(|e| e.to_string())?;
        let milliseconds = self.sized(500, 50).to_string();
        let output = std::process::Command::new("taskset")
            .args(["-c", SERVER_CORE])
            .arg(this)
            .args(["raw-tls", "--milliseconds", &milliseconds])
            .output()
            .map_err(|e| format!("cannot start the raw loop: {e}"))?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let told = String::from_utf8_lossy(&output.stderr);
            format!("the raw loop told nothing: {told}")
        })
    }
}

fn loops(milliseconds: u64) -> Result<Raw, Unspecified> {
    let random = SystemRandom::new();
    // As long as what a handshake signs.
    let message = [0x20; 130];
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048)?;
    let mut signature = vec![0; rsa.public_modulus_len()];
    let rsa2048_us = each_us(milliseconds, || {
        exchange(&random)?;
        rsa.sign(&RSA_PSS_SHA256, &random, &message, &mut signature)
    })?;
    let p256 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
    let p256_us = each_us(milliseconds, || {
        exchange(&random)?;
        p256.sign(&random, &message).map(drop)
    })?;
    let ed25519 = Ed25519KeyPair::generate()?;
    let ed25519_us = each_us(milliseconds, || {
        exchange(&random)?;
        std::hint::black_box(ed25519.sign(&message));
        Ok(())
    })?;
    Ok(Raw {
        rsa2048_us,
        p256_us,
        ed25519_us,
    })
}

/// The server's half of an X25519 exchange.
fn exchange(random: &SystemRandom) -> Result<(), Unspecified> {
    /// RFC 7748 6.1: Bob's public key.
    const CLIENT: [u8; 32] = [
        0xde, 0x9e, 0xdb, 0x7d, 0x7b, 0x7d, 0xc1, 0xb4, 0xd3, 0x5b, 0x61, 0xc2, 0xec, 0xe4, 0x35,
        0x37, 0x3f, 0x83, 0x43, 0xc8, 0x5b, 0x78, 0x67, 0x4d, 0xad, 0xfc, 0x7e, 0x14, 0x6f, 0x88,
        0x2b, 0x4f,
    ];
    let key = EphemeralPrivateKey::generate(&X25519, random)?;
    std::hint::black_box(key.compute_public_key()?);
    let client = UnparsedPublicKey::new(&X25519, CLIENT);
    agreement::agree_ephemeral(key, client, Unspecified, |secret| {
        std::hint::black_box(secret.len());
        Ok(())
    })
}

/// CPU time of this thread for each turn.
fn each_us(
    milliseconds: u64,
    mut turn: impl FnMut() -> Result<(), Unspecified>,
) -> Result<f64, Unspecified> {
    for _ in 0..20 {
        turn()?;
    }
    let begun_ns = thread_cpu_ns();
    let mut turns = 0_u64;
    loop {
        for _ in 0..20 {
            turn()?;
        }
        turns += 20;
        let spent_ns = thread_cpu_ns().saturating_sub(begun_ns);
        if spent_ns >= milliseconds * 1_000_000 {
            return Ok(spent_ns as f64 / 1_000.0 / turns as f64);
        }
    }
}

fn thread_cpu_ns() -> u64 {
    sip_net::sys::thread_cpu_time()
        .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
