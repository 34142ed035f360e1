//! The side that connects.

use std::sync::Arc;

use openssl::error::ErrorStack;
use openssl::ssl::{Ssl, SslContext, SslMethod, SslOptions, SslVerifyMode};
use rustls::Error;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::Resumable;
use super::session::OpensslSession;
use super::{Pair, builder, judge, library_error, store};
use crate::algorithms::Algorithms;
use crate::context::current;
use crate::error::TlsError;
use crate::hello;
use crate::resumption::{ClientResumption, Resumption};
use crate::session::SecondSession;
use crate::verify::{ServerVerifier, Trust};

/// What connections of this engine are made from.
#[derive(Clone)]
pub(crate) struct LegacyClient {
    /// One context that takes tickets and one that does not.
    with_tickets: SslContext,
    without_tickets: SslContext,
    /// `None` if anyone is believed.
    verifier: Option<Arc<ServerVerifier>>,
    identity: Option<Pair>,
}

impl LegacyClient {
    pub(crate) fn new(
        algorithms: &Algorithms,
        trust: Option<&Trust>,
        roots: &[CertificateDer<'static>],
        identity: Option<Pair>,
    ) -> Result<Self, TlsError> {
        let (provider, _) = Algorithms::default().resolve()?;
        let make = |options: SslOptions| -> Result<SslContext, TlsError> {
            let mut context = builder(SslMethod::tls_client(), algorithms)?;
            context.set_options(options);
            if trust.is_some() {
                context.set_cert_store(store(roots)?);
            }
            Ok(context.build())
        };
        Ok(Self {
            with_tickets: make(SslOptions::empty())?,
            without_tickets: make(SslOptions::NO_TICKET)?,
            verifier: trust.map(|trust| ServerVerifier::new(Some(trust.clone()), &provider)),
            identity,
        })
    }

    /// The same with another certificate.
    pub(crate) fn with_identity(&self, identity: Pair) -> Self {
        Self {
            identity: Some(identity),
            ..self.clone()
        }
    }

    /// A session with the server of this name, its ClientHello in `output`.
    /// `held` is what was kept of an earlier one.
    pub(crate) fn begin(
        &self,
        name: &ServerName<'static>,
        held: Option<Resumable>,
        how: ClientResumption,
        output: &mut Vec<u8>,
    ) -> Result<Box<dyn SecondSession>, Error> {
        let session = self.hello(name, held.as_ref(), how, output)?;
        if held.is_none() {
            return Ok(session);
        }
        let has_ticket =
            matches!(hello::read(output), hello::Read::Hello(hello) if !hello.ticket.is_empty());
        if !has_ticket && how == ClientResumption::Tickets {
            output.clear();
            return self.hello(name, None, how, output);
        }
        current(|context| {
            context.found = Some(if has_ticket {
                Resumption::Ticket
            } else {
                Resumption::SessionId
            });
        });
        Ok(session)
    }

    fn hello(
        &self,
        name: &ServerName<'static>,
        held: Option<&Resumable>,
        how: ClientResumption,
        output: &mut Vec<u8>,
    ) -> Result<Box<dyn SecondSession>, Error> {
        let ssl = self
            .connection(name, held, how)
            .map_err(|error| library_error(&error))?;
        let mut session = OpensslSession::client(ssl, self.verifier.is_some())?;
        session.receive(&mut [], output, &mut |_| {})?;
        Ok(Box::new(session))
    }

    fn connection(
        &self,
        name: &ServerName<'static>,
        held: Option<&Resumable>,
        how: ClientResumption,
    ) -> Result<Ssl, ErrorStack> {
        let mut ssl = match (held, how) {
            (Some(held), _) => held.connection()?,
            (None, ClientResumption::Any | ClientResumption::Tickets) => {
                Ssl::new(&self.with_tickets)?
            }
            (None, ClientResumption::Off | ClientResumption::SessionIds) => {
                Ssl::new(&self.without_tickets)?
            }
        };
        ssl.set_connect_state();
        if let ServerName::DnsName(domain) = name {
            ssl.set_hostname(domain.as_ref())?;
        }
        if let Some(pair) = &self.identity {
            let mut chain = pair.chain.iter();
            if let Some(leaf) = chain.next() {
                ssl.set_certificate(leaf)?;
            }
            for above in chain {
                ssl.add_chain_cert(above.clone())?;
            }
            ssl.set_private_key(&pair.key)?;
        }
        match &self.verifier {
            None => ssl.set_verify(SslVerifyMode::NONE),
            Some(verifier) => {
                let (verifier, name) = (Arc::clone(verifier), name.clone());
                ssl.set_verify_callback(SslVerifyMode::PEER, move |ok, context| {
                    judge(ok, context, |chain| {
                        let (leaf, above) =
                            chain.split_first().ok_or(Error::NoCertificatesPresented)?;
                        verifier
                            .verify_server_cert(leaf, above, &name, &[], UnixTime::now())
                            .map(|_| ())
                    })
                });
            }
        }
        Ok(ssl)
    }
}
