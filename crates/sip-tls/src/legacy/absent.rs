//! What stands in the second engine's place in a build without it: nothing can
//! be made, so nothing can be asked of it.

use std::sync::Arc;

use rustls::Error;
use rustls::pki_types::{CertificateDer, ServerName};

use crate::algorithms::Algorithms;
use crate::error::TlsError;
use crate::resumption::ClientResumption;
use crate::server_sessions::Gate;
use crate::session::SecondSession;
use crate::verify::Trust;

/// A chain and its key, read for an engine that nobody asks.
#[derive(Clone)]
pub(crate) struct Pair;

impl Pair {
    pub(crate) fn from_pem(_: &[u8], _: &[u8]) -> Result<Self, TlsError> {
        Ok(Self)
    }
}

/// What a session would be resumed by.
#[derive(Clone)]
pub(crate) enum Resumable {}

pub(crate) enum LegacyServer {}

impl LegacyServer {
    pub(crate) fn new(
        _: &Algorithms,
        _: &[Pair],
        _: &[CertificateDer<'static>],
        _: Arc<Gate>,
        _by_ticket: bool,
        _by_id: bool,
    ) -> Result<Self, TlsError> {
        Err(missing())
    }

    pub(crate) fn begin(&self) -> Result<Box<dyn SecondSession>, Error> {
        match *self {}
    }
}

#[derive(Clone)]
pub(crate) enum LegacyClient {}

impl LegacyClient {
    pub(crate) fn new(
        _: &Algorithms,
        _: Option<&Trust>,
        _: &[CertificateDer<'static>],
        _: Option<Pair>,
    ) -> Result<Self, TlsError> {
        Err(missing())
    }

    pub(crate) fn with_identity(&self, _: Pair) -> Self {
        match *self {}
    }

    pub(crate) fn begin(
        &self,
        _: &ServerName<'static>,
        _: Option<Resumable>,
        _: ClientResumption,
        _: &mut Vec<u8>,
    ) -> Result<Box<dyn SecondSession>, Error> {
        match *self {}
    }
}

/// Why a build has none, and the remedy.
fn missing() -> TlsError {
    TlsError::new(
        None,
        "this build has no legacy TLS; build it with `cargo build --release -p signet --features legacy-tls`, \
         for measurements only",
    )
}
