//! S/MIME on the command line.

use std::path::PathBuf;

use clap::Args;
use signet_load::SmimeSettings;
use smime::make::Kind;
use smime::{Cipher, Protection, Transfer};

/// S/MIME.
#[derive(Debug, Args)]
pub(super) struct SmimeOptions {
    /// Protect the bodies of calls, and have the called side here open them: sign, encrypt, both
    /// (encrypted, then signed), sign-then-encrypt
    #[arg(long, value_name = "HOW")]
    smime: Option<Protection>,
    /// The key that is made where no file gives one: p256, rsa2048
    #[arg(long, value_name = "KIND", default_value = "p256", value_parser = key_type)]
    smime_key_type: Kind,
    /// aes128-cbc, aes128-gcm, aes256-cbc, aes256-gcm
    #[arg(long, value_name = "NAME", default_value = "aes256-gcm")]
    smime_cipher: Cipher,
    /// Write bytes in base64, for called sides that know nothing else
    #[arg(long)]
    smime_base64: bool,
    /// Certificate chain with which all agents sign; it names each of them (sip:USER@DOMAIN)
    #[arg(long, value_name = "FILE", requires = "smime_key")]
    smime_cert: Option<PathBuf>,
    /// Its private key, in PKCS#8
    #[arg(long, value_name = "FILE", requires = "smime_cert")]
    smime_key: Option<PathBuf>,
    /// The certificate of a called side elsewhere, to encrypt for
    #[arg(long, value_name = "FILE", requires = "smime")]
    smime_to: Option<PathBuf>,
    /// Who vouches for those who sign, for the called side here
    #[arg(long, value_name = "FILE", requires = "smime")]
    smime_ca: Vec<PathBuf>,
    /// Certificate chain of the called side here
    #[arg(long, value_name = "FILE", requires = "answer_smime_key")]
    answer_smime_cert: Option<PathBuf>,
    /// Its private key, in PKCS#8
    #[arg(long, value_name = "FILE", requires = "answer_smime_cert")]
    answer_smime_key: Option<PathBuf>,
}

impl SmimeOptions {
    /// `None` where bodies are sent as they are.
    pub(super) fn settings(self) -> Option<SmimeSettings> {
        Some(SmimeSettings {
            protection: self.smime?,
            key: self.smime_key_type,
            cipher: self.smime_cipher,
            transfer: if self.smime_base64 {
                Transfer::Base64
            } else {
                Transfer::Binary
            },
            identity: self.smime_cert.zip(self.smime_key),
            recipient: self.smime_to,
            called_identity: self.answer_smime_cert.zip(self.answer_smime_key),
            roots: self.smime_ca,
        })
    }
}

fn key_type(text: &str) -> Result<Kind, String> {
    let found = [Kind::P256, Kind::Rsa2048]
        .into_iter()
        .find(|kind| kind.name() == text);
    found.ok_or_else(|| format!("there is no key '{text}' here; write p256 or rsa2048"))
}
