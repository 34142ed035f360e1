//! What both sides of TLS are told alike: what may be negotiated, and whom to
//! believe.

use std::path::Path;
use std::sync::Arc;

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;

use crate::algorithms::{Algorithms, TlsVersion};
use crate::engine::TlsEngine;
use crate::error::TlsError;
use crate::pem::read;
use crate::verify::{KeyUsagePolicy, RevocationPolicy, Trust};

/// What [`crate::ServerTls`] and [`crate::ClientTls`] are made from. `S` is
/// what one side alone is told: see [`crate::ServerTlsConfig`] and
/// [`crate::ClientTlsConfig`].
#[derive(Clone, Default)]
pub struct TlsConfig<S> {
    pub(crate) engine: TlsEngine,
    pub(crate) algorithms: Algorithms,
    pub(crate) trust: Trust,
    pub(crate) side: S,
}

impl<S: Default> TlsConfig<S> {
    /// No certificate is shown, no peer's is believed, and everything may be
    /// negotiated.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<S> TlsConfig<S> {
    /// Speaks by this engine. The legacy one has suites of its own alone. A
    /// server of it shows the first certificate that has an RSA key, keeps
    /// sessions and ticket keys of its own until the next reload, and issues
    /// no tickets where clients are asked for certificates.
    pub fn engine(mut self, engine: TlsEngine) -> Self {
        self.engine = engine;
        self
    }

    /// Negotiates these versions only.
    pub fn versions(mut self, versions: &[TlsVersion]) -> Self {
        self.algorithms.versions = Some(versions.to_vec());
        self
    }

    /// Negotiates these cipher suites only, the most preferred first, by their
    /// names in IANA's registry or in openssl.
    pub fn suites<N: AsRef<str>>(mut self, names: &[N]) -> Self {
        self.algorithms.suites = Some(owned(names));
        self
    }

    /// Negotiates these key-exchange groups only, the most preferred first:
    /// see [`crate::GROUP_NAMES`].
    pub fn groups<N: AsRef<str>>(mut self, names: &[N]) -> Self {
        self.algorithms.groups = Some(owned(names));
        self
    }

    /// Believes peers whose certificates lead to these (PEM files).
    pub fn roots_pem_files<P: AsRef<Path>>(mut self, files: &[P]) -> Result<Self, TlsError> {
        for file in files.iter().map(AsRef::as_ref) {
            self = self.roots_pem_of(file, &read(file)?)?;
        }
        Ok(self)
    }

    /// The same of a file that was read: what is wrong with it is told with its name.
    pub fn roots_pem_of(mut self, file: &Path, pem: &[u8]) -> Result<Self, TlsError> {
        self.trust.add_roots(pem, Some(file))?;
        Ok(self)
    }

    /// The same from memory.
    pub fn roots_pem(mut self, pems: &[&[u8]]) -> Result<Self, TlsError> {
        for pem in pems {
            self.trust.add_roots(pem, None)?;
        }
        Ok(self)
    }

    /// Looks peers up in these revocation lists (PEM files).
    pub fn crl_pem_files<P: AsRef<Path>>(mut self, files: &[P]) -> Result<Self, TlsError> {
        for file in files.iter().map(AsRef::as_ref) {
            self = self.crl_pem_of(file, &read(file)?)?;
        }
        Ok(self)
    }

    /// The same of a file that was read: what is wrong with it is told with its name.
    pub fn crl_pem_of(mut self, file: &Path, pem: &[u8]) -> Result<Self, TlsError> {
        self.trust.add_crls(pem, Some(file))?;
        Ok(self)
    }

    /// The same from memory.
    pub fn crl_pem(mut self, pems: &[&[u8]]) -> Result<Self, TlsError> {
        for pem in pems {
            self.trust.add_crls(pem, None)?;
        }
        Ok(self)
    }

    /// What is asked of the revocation lists.
    pub fn revocation(mut self, policy: RevocationPolicy) -> Self {
        self.trust.revocation = policy;
        self
    }

    /// What extendedKeyUsage peers must have.
    pub fn key_usage(mut self, policy: KeyUsagePolicy) -> Self {
        self.trust.usage = policy;
        self
    }

    /// What the modern engine works with; where the legacy one speaks in its
    /// place, it verifies certificates with it.
    pub(crate) fn resolve(
        &self,
    ) -> Result<(Arc<CryptoProvider>, Vec<&'static SupportedProtocolVersion>), TlsError> {
        match self.engine {
            TlsEngine::Modern => self.algorithms.resolve(),
            TlsEngine::Legacy => Algorithms::default().resolve(),
        }
    }
}

fn owned<N: AsRef<str>>(names: &[N]) -> Vec<String> {
    names.iter().map(|name| name.as_ref().to_owned()).collect()
}

// Keys are inside: nothing of them is shown.
impl<S> std::fmt::Debug for TlsConfig<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsConfig")
            .field("engine", &self.engine)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}
