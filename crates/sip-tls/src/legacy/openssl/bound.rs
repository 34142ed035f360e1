//! The one thing that OpenSSL's binding leaves to its caller to get right, and
//! the only place of this crate with `unsafe`.
#![allow(unsafe_code)]

use openssl::error::ErrorStack;
use openssl::ssl::{Ssl, SslContext, SslRef, SslSession};

/// A session of a client together with the context that it was made under.
#[derive(Clone)]
pub(crate) struct Resumable {
    context: SslContext,
    session: SslSession,
}

impl Resumable {
    /// The session of a connection whose handshake is done; `None` if there
    /// is nothing to resume it by.
    pub(crate) fn of(ssl: &SslRef) -> Option<Self> {
        let session = ssl.session()?;
        // A session with a ticket has an id as well, which the library makes.
        (!session.id().is_empty()).then(|| Self {
            context: ssl.ssl_context().to_owned(),
            session: session.to_owned(),
        })
    }

    /// A connection that offers to resume it.
    pub(crate) fn connection(&self) -> Result<Ssl, ErrorStack> {
        let mut ssl = Ssl::new(&self.context)?;
        // SAFETY: "The caller of this method is responsible for ensuring that
        // the session is associated with the same `SslContext` as this `Ssl`."
        // `of` took both from one connection, nothing changes either, and this
        // connection was made from that context.
        unsafe { ssl.set_session(&self.session)? };
        Ok(ssl)
    }
}
