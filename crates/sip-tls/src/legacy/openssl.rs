//! The second engine: OpenSSL, for the suites of RFC 3261 26.2.1 and nothing
//! else, so that what others measured with them can be measured here.
//!
//! A peer's certificate must satisfy two: OpenSSL, which chooses the alert,
//! and the same verifiers as in every other handshake, which know RFC 5922,
//! revocation lists and what a key may be used for.

use std::cell::Cell;

use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey, Private};
use openssl::ssl::{
    SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslVerifyMode, SslVersion,
};
use openssl::x509::store::{X509Store, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;
use openssl::x509::{X509, X509PurposeId, X509StoreContextRef, X509VerifyResult};
use rustls::Error;
use rustls::pki_types::CertificateDer;

use crate::algorithms::Algorithms;
use crate::algorithms::TlsVersion;
use crate::engine::{LEGACY_SUITE_NAMES, OPENSSL_NAMES, legacy_index};
use crate::error::TlsError;
use crate::fault::CertificateFault;

mod bound;
mod client;
mod server;
mod session;

pub(crate) use bound::Resumable;
pub(crate) use client::LegacyClient;
pub(crate) use server::LegacyServer;

/// A chain and the key of its first certificate, as OpenSSL wants them.
#[derive(Clone)]
pub(crate) struct Pair {
    chain: Vec<X509>,
    key: PKey<Private>,
}

impl Pair {
    /// Reads a pair that the other engine has read already.
    pub(crate) fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = X509::stack_from_pem(chain).map_err(TlsError::from_openssl)?;
        // Without an answer to it the library would ask for a passphrase at
        // the terminal.
        let key =
            PKey::private_key_from_pem_callback(key, |_| Ok(0)).map_err(TlsError::from_openssl)?;
        Ok(Self { chain, key })
    }

    /// Whether its key can be the server's in an exchange by RSA.
    fn is_rsa(&self) -> bool {
        self.key.id() == Id::RSA
    }
}

/// What both sides' contexts have in common.
fn builder(method: SslMethod, algorithms: &Algorithms) -> Result<SslContextBuilder, TlsError> {
    let suites = wanted_suites(algorithms.versions.as_deref(), algorithms.suites.as_deref())?;
    let make = || -> Result<SslContextBuilder, ErrorStack> {
        let mut builder = SslContext::builder(method)?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_max_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_cipher_list(&suites.join(":"))?;
        builder.set_options(
            SslOptions::NO_COMPRESSION
                | SslOptions::NO_RENEGOTIATION
                | SslOptions::CIPHER_SERVER_PREFERENCE,
        );
        // Our chain is what the operator gave, and nothing from the roots.
        builder.set_mode(SslMode::RELEASE_BUFFERS | SslMode::NO_AUTO_CHAIN);
        Ok(builder)
    };
    make().map_err(TlsError::from_openssl)
}

/// The suites of the legacy engine that are wanted, as openssl calls them.
/// Suites, and versions, that are not its own are refused.
fn wanted_suites(
    versions: Option<&[TlsVersion]>,
    suites: Option<&[String]>,
) -> Result<Vec<&'static str>, TlsError> {
    if versions.is_some_and(|versions| !versions.contains(&TlsVersion::V12)) {
        return Err(TlsError::new(
            None,
            "the legacy suites are suites of TLS 1.2; give 1.2 among the versions",
        ));
    }
    let Some(names) = suites else {
        return Ok(OPENSSL_NAMES.to_vec());
    };
    if names.is_empty() {
        return Err(TlsError::new(
            None,
            "no cipher suite is left; give at least one",
        ));
    }
    let known = |name: &String| {
        let place = legacy_index(name).and_then(|place| OPENSSL_NAMES.get(place));
        place.copied().ok_or_else(|| {
            let all = LEGACY_SUITE_NAMES.join(", ");
            TlsError::new(
                None,
                format!("the legacy engine has no cipher suite '{name}'; give one of {all}"),
            )
        })
    };
    names.iter().map(known).collect()
}

/// The roots, for OpenSSL's own verification. Purposes are left to the other
/// verifier, whose policy is the operator's.
fn store(roots: &[CertificateDer<'static>]) -> Result<X509Store, TlsError> {
    let make = || -> Result<X509Store, ErrorStack> {
        let mut store = X509StoreBuilder::new()?;
        for root in roots {
            store.add_cert(X509::from_der(root)?)?;
        }
        store.set_flags(X509VerifyFlags::PARTIAL_CHAIN)?;
        store.set_purpose(X509PurposeId::ANY)?;
        Ok(store.build())
    };
    make().map_err(TlsError::from_openssl)
}

thread_local! {
    /// What became of the peer's certificate in this step of the handshake.
    static VERDICT: Cell<Verdict> = const { Cell::new(Verdict::None) };
}

/// What became of a peer's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was not looked at.
    #[default]
    None,
    /// It satisfied both.
    Good,
    Bad(CertificateFault),
}

/// Takes what became of a peer's certificate in the step before.
pub(crate) fn take_verdict() -> Verdict {
    VERDICT.take()
}

/// OpenSSL's question for each certificate of a chain, from the root down:
/// the last is the peer's own, and then the other verifier is asked, with the
/// chain. Gives whether to go on.
fn judge(
    ok: bool,
    context: &mut X509StoreContextRef,
    verify: impl FnOnce(&[CertificateDer<'static>]) -> Result<(), Error>,
) -> bool {
    if !ok {
        VERDICT.set(Verdict::Bad(fault_of(context.error())));
        return false;
    }
    if context.error_depth() > 0 {
        return true;
    }
    let chain: Option<Vec<_>> = context
        .chain()
        .map(|chain| chain.iter().filter_map(|each| der(each)).collect());
    let result = match chain {
        Some(chain) if !chain.is_empty() => verify(&chain),
        _ => Err(CertificateFault::Malformed.into_error()),
    };
    let verdict = match &result {
        Ok(()) => Verdict::Good,
        Err(Error::InvalidCertificate(error)) => Verdict::Bad(CertificateFault::of(error)),
        Err(Error::NoCertificatesPresented) => Verdict::Bad(CertificateFault::Missing),
        Err(_) => Verdict::Bad(CertificateFault::Other),
    };
    VERDICT.set(verdict);
    if result.is_err() {
        context.set_error(X509VerifyResult::APPLICATION_VERIFICATION);
    }
    result.is_ok()
}

pub(crate) fn der(certificate: &openssl::x509::X509Ref) -> Option<CertificateDer<'static>> {
    certificate.to_der().ok().map(CertificateDer::from)
}

/// The fault behind one of OpenSSL's (`X509_V_ERR_…`, x509_vfy.h).
fn fault_of(result: X509VerifyResult) -> CertificateFault {
    match result.as_raw() {
        9 => CertificateFault::NotYetValid,
        10 => CertificateFault::Expired,
        7 => CertificateFault::BadSignature,
        // No issuer: missing, self-signed, a link that does not fit.
        2 | 18 | 19 | 20 | 21 | 29 => CertificateFault::UnknownIssuer,
        22 | 25 => CertificateFault::ChainTooLong,
        23 => CertificateFault::Revoked,
        24 | 32 | 79 => CertificateFault::NotAnAuthority,
        26 => CertificateFault::WrongUsage,
        34 => CertificateFault::CriticalExtension,
        47..=54 => CertificateFault::NameConstraint,
        // A key, or a digest, below the security level.
        66..=68 => CertificateFault::WeakKey,
        4 | 6 | 13..=16 => CertificateFault::Malformed,
        _ => CertificateFault::Other,
    }
}

fn verify_mode(asks: bool, must: bool) -> SslVerifyMode {
    match (asks, must) {
        (false, _) => SslVerifyMode::NONE,
        (true, false) => SslVerifyMode::PEER,
        (true, true) => SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT,
    }
}

impl TlsError {
    fn from_openssl(error: ErrorStack) -> Self {
        Self::new(None, format!("OpenSSL: {error}"))
    }
}

/// An error of OpenSSL where the other engine would have one of its own.
pub(crate) fn library_error(error: &ErrorStack) -> Error {
    Error::General(format!("OpenSSL: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_suites_and_version_are_taken() {
        let named = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(wanted_suites(None, None).unwrap(), OPENSSL_NAMES);
        let one = named(&["tls_rsa_with_3des_ede_cbc_sha"]);
        assert_eq!(
            wanted_suites(Some(&TlsVersion::ALL), Some(&one)).unwrap(),
            ["DES-CBC3-SHA"]
        );
        let refused = |versions: Option<&[TlsVersion]>, suites: &[&str]| {
            wanted_suites(versions, Some(&named(suites)))
                .unwrap_err()
                .to_string()
        };
        assert!(refused(None, &["TLS_AES_128_GCM_SHA256"]).contains(LEGACY_SUITE_NAMES[0]));
        assert!(refused(None, &[]).contains("at least one"));
        assert!(refused(Some(&[TlsVersion::V13]), &["AES128-SHA"]).contains("1.2"));
    }
}
