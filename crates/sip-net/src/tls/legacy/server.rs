//! The listener's side.

use std::sync::Arc;

use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslSessionCacheMode,
};
use openssl::x509::X509;
use rustls::Error;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;

use super::{Pair, builder, judge, library_error, store, verify_mode};
use crate::session::Session;
use crate::session::openssl::OpensslSession;
use crate::tls::TlsError;
use crate::tls::algorithms::Algorithms;
use crate::tls::server_sessions::Gate;
use crate::tls::verify::Trust;

/// Sessions remembered.
const SESSIONS_MAX: i32 = 16_384;

/// How a listener of this engine resumes sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LegacyResumption {
    pub(crate) by_ticket: bool,
    pub(crate) by_id: bool,
}

/// What a handshake of a listener is made from.
pub(crate) struct LegacyServer {
    context: SslContext,
    gate: Arc<Gate>,
}

impl LegacyServer {
    pub(crate) fn new(
        algorithms: &Algorithms,
        pairs: &[Pair],
        trust: &Trust,
        gate: Arc<Gate>,
        resumes: LegacyResumption,
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
        context.set_session_cache_mode(if resumes.by_id {
            SslSessionCacheMode::SERVER
        } else {
            SslSessionCacheMode::OFF
        });
        context.set_session_cache_size(SESSIONS_MAX);
        // A ticket of OpenSSL's has the client's certificate in it, but not
        // those above, without which it cannot be verified again.
        if !resumes.by_ticket || gate.verifier.is_some() {
            context.set_options(SslOptions::NO_TICKET);
        }
        if let Some(verifier) = &gate.verifier {
            context.set_cert_store(store(&trust.root_ders)?);
            for root in &trust.root_ders {
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
    pub(crate) fn begin(&self) -> Result<Session, Error> {
        let mut ssl = Ssl::new(&self.context).map_err(|error| library_error(&error))?;
        ssl.set_accept_state();
        let session = OpensslSession::server(ssl, Arc::clone(&self.gate))?;
        Ok(Session::Openssl(Box::new(session)))
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
