//! Chains and keys, from files in PEM.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::{Zeroize, Zeroizing};

use crate::error::TlsError;

/// A chain and the key of its first certificate, from PEM.
pub(crate) fn certified_key(
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

pub(crate) fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file)
        .map_err(|error| TlsError::new(Some(file), format!("cannot be read: {error}")))
}

pub(crate) fn read_secret(file: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    read(file).map(Zeroizing::new)
}

pub(crate) fn parse_certificates(
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
