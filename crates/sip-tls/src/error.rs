//! What is wrong with what TLS was given.

use std::path::{Path, PathBuf};

use rustls::Error;

/// What is wrong with a certificate, a key, a root or a name of an algorithm.
#[derive(Debug)]
pub struct TlsError {
    /// The file, where there is one.
    pub file: Option<PathBuf>,
    /// What is wrong, and the remedy.
    pub reason: String,
}

impl TlsError {
    pub(crate) fn new(file: Option<&Path>, reason: impl Into<String>) -> Self {
        Self {
            file: file.map(Path::to_path_buf),
            reason: reason.into(),
        }
    }

    pub(crate) fn from_rustls(error: Error) -> Self {
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
