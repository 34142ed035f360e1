//! The listener's side.

use std::sync::Arc;

use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslSessionCacheMode,
};
use openssl::x509::X509;
use rustls::Error;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;

use super::session::OpensslSession;
use super::{Pair, builder, judge, library_error, store, verify_mode};
use crate::algorithms::Algorithms;
use crate::error::TlsError;
use crate::server_sessions::Gate;
use crate::session::SecondSession;

/// Sessions remembered.
const SESSIONS_MAX: i32 = 16_384;

/// What a handshake of a listener is made from.
pub(crate) struct LegacyServer {
    context: SslContext,
    gate: Arc<Gate>,
}

impl LegacyServer {
    pub(crate) fn new(
        algorithms: &Algorithms,
        pairs: &[Pair],
        roots: &[CertificateDer<'static>],
        gate: Arc<Gate>,
        by_ticket: bool,
        by_id: bool,
    ) -> Result<Self, TlsError> {
        let Some(pair) = pairs.iter().find(|pair| pair.is_rsa()) else {
            return Err(TlsError::new(
                None,
                "the legacy suites need a certificate with an RSA key, because keys are \
                 exchanged by RSA encryption; give one (`openssl req -newkey rsa:2048`)",
            ));
        };
        let mut context = builder(SslMethod::tls_server(), algorithms)?;
        show(&mut context, pair).map_err(TlsError::from_openssl)?;
        context
            .set_session_id_context(&gate.scope)
            .map_err(TlsError::from_openssl)?;
        context.set_session_cache_mode(if by_id {
            SslSessionCacheMode::SERVER
        } else {
            SslSessionCacheMode::OFF
        });
        context.set_session_cache_size(SESSIONS_MAX);
        // A ticket of OpenSSL's has the client's certificate in it, but not
        // those above, without which it cannot be verified again.
        if !by_ticket || gate.verifier.is_some() {
            context.set_options(SslOptions::NO_TICKET);
        }
        if let Some(verifier) = &gate.verifier {
            context.set_cert_store(store(roots)?);
            for root in roots {
                X509::from_der(root)
                    .and_then(|root| context.add_client_ca(&root))
                    .map_err(TlsError::from_openssl)?;
            }
            let mode = verify_mode(true, verifier.client_auth_mandatory());
            let verifier = Arc::clone(verifier);
            context.set_verify_callback(mode, move |ok, context| {
                judge(ok, context, |chain| {
                    let (leaf, above) =
                        chain.split_first().ok_or(Error::NoCertificatesPresented)?;
                    verifier
                        .verify_client_cert(leaf, above, UnixTime::now())
                        .map(|_| ())
                })
            });
        }
        Ok(Self {
            context: context.build(),
            gate,
        })
    }

    /// A session for a client that is yet to say hello.
    pub(crate) fn begin(&self) -> Result<Box<dyn SecondSession>, Error> {
        let mut ssl = Ssl::new(&self.context).map_err(|error| library_error(&error))?;
        ssl.set_accept_state();
        let session = OpensslSession::server(ssl, Arc::clone(&self.gate))?;
        Ok(Box::new(session))
    }
}

fn show(context: &mut SslContextBuilder, pair: &Pair) -> Result<(), openssl::error::ErrorStack> {
    let mut chain = pair.chain.iter();
    if let Some(leaf) = chain.next() {
        context.set_certificate(leaf)?;
    }
    for above in chain {
        context.add_extra_chain_cert(above.clone())?;
    }
    context.set_private_key(&pair.key)?;
    context.check_private_key()
}
