//! TLS: who we are, whom we believe, what may be negotiated, what resumes.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::Error;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use zeroize::{Zeroize, Zeroizing};

pub(crate) mod algorithms;
mod certificates;
mod client;
mod client_sessions;
pub(crate) mod context;
mod engine;
pub(crate) mod fault;
pub(crate) mod hello;
mod identity;
mod info;
#[cfg(feature = "legacy-tls")]
pub(crate) mod legacy;
mod peers;
mod server;
pub(crate) mod server_sessions;
mod sides;
mod tickets;
mod verify;

pub use algorithms::{GROUP_NAMES, SUITE_NAMES, TlsVersion};
pub use client::{ClientResumption, ClientTls, ClientTlsConfig};
pub use context::Resumption;
pub use engine::{LEGACY_SUITE_NAMES, LEGACY_WARNING, TlsEngine};
pub use fault::{CertificateFault, HandshakeError, HandshakeFailure, TlsAlert};
pub use identity::PeerIdentity;
pub(crate) use identity::attest;
pub use info::{HandshakeTally, TlsInfo};
pub use peers::{PeerEntry, PeerTls};
pub(crate) use server::ServerSide;
pub use server::{ClientAuth, ServerTls, ServerTlsConfig};
pub use server_sessions::SessionCache;
pub use tickets::{TicketKeys, TicketSecret};
pub use verify::{KeyUsagePolicy, RevocationPolicy};

/// What is wrong with a certificate, a key, a root or a name of an algorithm.
#[derive(Debug)]
pub struct TlsError {
    /// The file, where there is one.
    pub file: Option<PathBuf>,
    /// What is wrong, and the remedy.
    pub reason: String,
}

impl TlsError {
    fn new(file: Option<&Path>, reason: impl Into<String>) -> Self {
        Self {
            file: file.map(Path::to_path_buf),
            reason: reason.into(),
        }
    }

    fn from_rustls(error: Error) -> Self {
        Self::new(None, error.to_string())
    }
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}: {}", file.display(), self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for TlsError {}

/// The name that a peer must prove: the one given, or else its address.
pub(crate) fn server_name(name: Option<&str>, ip: IpAddr) -> Option<ServerName<'static>> {
    let Some(name) = name else {
        return Some(ServerName::IpAddress(ip.into()));
    };
    let name = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_ascii_lowercase()).ok()
}

/// A chain and the key of its first certificate, from PEM.
fn certified_key(
    chain_pem: &[u8],
    key_pem: &[u8],
    chain_file: Option<&Path>,
    key_file: Option<&Path>,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = parse_certificates(chain_pem, chain_file)?;
    let mut der = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| {
        TlsError::new(
            key_file,
            format!("has no private key that can be read, unencrypted and in PEM: {error}"),
        )
    })?;
    let key = any_supported_type(&der);
    der.zeroize();
    let key = key.map_err(|error| TlsError::new(key_file, error.to_string()))?;
    let pair = CertifiedKey::new(chain, key);
    pair.keys_match().map_err(|error| {
        TlsError::new(
            chain_file,
            format!("{error}; give the chain's own key and certificate, leaf first"),
        )
    })?;
    Ok(Arc::new(pair))
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file)
        .map_err(|error| TlsError::new(Some(file), format!("cannot be read: {error}")))
}

fn read_secret(file: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    read(file).map(Zeroizing::new)
}

fn parse_certificates(
    pem: &[u8],
    file: Option<&Path>,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| TlsError::new(file, format!("is no PEM file: {error}")))?;
    if chain.is_empty() {
        return Err(TlsError::new(
            file,
            "has no certificate in it (-----BEGIN CERTIFICATE-----)",
        ));
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_named_by_its_domain_or_by_its_address() {
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let text = |name| server_name(name, ip).map(|name| name.to_str().into_owned());
        assert_eq!(text(None).as_deref(), Some("192.0.2.1"));
        assert_eq!(text(Some("Example.COM.")).as_deref(), Some("example.com"));
        assert_eq!(text(Some("[2001:db8::1]")).as_deref(), Some("2001:db8::1"));
        assert_eq!(text(Some("not a name")), None);
    }
}
