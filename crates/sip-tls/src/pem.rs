//! Certificates, from files in PEM.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::TlsError;

pub(crate) fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file)
        .map_err(|error| TlsError::new(Some(file), format!("cannot be read: {error}")))
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
