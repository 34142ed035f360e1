//! Whether a connection to a store is encrypted, and whose certificate it takes.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::url::{Host, Url};
use crate::{Error, Options, Tls};

/// How one store is spoken to under TLS.
#[derive(Clone)]
pub(crate) struct TlsClient {
    pub(crate) config: Arc<ClientConfig>,
    /// The name that its certificate must bear.
    pub(crate) name: ServerName<'static>,
}

/// What a connection to the store is made with; `None` where it is in plain text.
///
/// [`Tls::Auto`] leaves plain text to the machine itself: a socket's path, an address of the
/// loopback, or the name `localhost`. Any other name counts as far away, whatever address it
/// has today.
pub(crate) fn client(url: &Url, options: &Options) -> Result<Option<TlsClient>, Error> {
    let is_wanted = match (options.tls, url.is_tls) {
        (Tls::Never, true) => {
            return Err(Error::new(
                "the URL of a store asks for TLS, and tls = \"never\" forbids it",
                "take away one of the two",
            ));
        }
        (Tls::Never, false) => false,
        (Tls::Always, _) | (Tls::Auto, true) => true,
        (Tls::Auto, false) => !is_here(&url.host),
    };
    if !is_wanted {
        return Ok(None);
    }
    let Host::Name(host) = &url.host else {
        return Err(Error::new(
            "TLS is asked for on a socket of this machine, which has no name to verify",
            "take tls = \"auto\"",
        ));
    };
    let name = ServerName::try_from(host.clone()).map_err(|_| {
        Error::new(
            format!("{host} is not a name that a certificate can bear"),
            "give the store's host name or address",
        )
    })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(format!("TLS cannot be set up ({error})"), "report this"))?
        .with_root_certificates(roots(options.tls_roots.as_deref())?)
        .with_no_client_auth();
    Ok(Some(TlsClient {
        config: Arc::new(config),
        name,
    }))
}

/// Whether what is sent there never leaves this machine, as far as its name tells.
pub(crate) fn is_here(host: &Host) -> bool {
    match host {
        Host::Socket(_) => true,
        Host::Name(name) => {
            name.eq_ignore_ascii_case("localhost")
                || name
                    .parse::<IpAddr>()
                    .is_ok_and(|address| address.to_canonical().is_loopback())
        }
    }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        let (added, _) =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if added == 0 {
            Err(Error::new(
                "this system has no authorities to verify a store by",
                "install the package ca-certificates, or name a file by tls_roots",
            ))
        } else {
            Ok(roots)
        };
    };
    let unreadable = |why: String| {
        Error::new(
            format!("{} cannot be used as tls_roots ({why})", file.display()),
            "give a PEM file with the certificates of authorities",
        )
    };
    let pem = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("it has no certificate in it".to_owned()));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn only_what_is_literally_here_is_here() {
        for name in [
            "localhost",
            "LocalHost",
            "127.0.0.1",
            "127.9.8.7",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_here(&Host::Name(name.to_owned())), "{name}");
        }
        for name in [
            "localhost.example.com",
            "db.localhost",
            "localhost.",
            "128.0.0.1",
            "0.0.0.0",
            "::",
            "10.0.0.1",
            "127.0.0.1.example.com",
        ] {
            assert!(!is_here(&Host::Name(name.to_owned())), "{name}");
        }
        assert!(is_here(&Host::Socket("/run/mysqld/mysqld.sock".into())));
    }

    fn options(url: &str, tls: Tls) -> Options {
        Options {
            url: url.to_owned(),
            password: None,
            tls,
            tls_roots: Some("/nowhere/roots.pem".into()),
            layout: crate::Layout::Signet,
            algorithms: None,
            wanted: None,
            connections_max: 1,
            connect_timeout_ms: 1_000,
        }
    }

    fn outcome(url: &str, tls: Tls) -> Result<bool, String> {
        let options = options(url, tls);
        client(&Url::parse(url).unwrap(), &options)
            .map(|client| client.is_some())
            .map_err(|error| error.what().to_owned())
    }

    #[test]
    fn plain_text_stays_on_this_machine() {
        let plain = |url, tls| assert_eq!(outcome(url, tls), Ok(false), "{url} {tls:?}");
        // The roots are missing: whoever would use TLS says so.
        let encrypted = |url, tls| {
            let error = outcome(url, tls).unwrap_err();
            assert!(error.contains("/nowhere/roots.pem"), "{url}: {error}");
        };
        plain("mysql://signet@127.0.0.1/signet", Tls::Auto);
        plain("mysql://signet@[::1]/signet", Tls::Auto);
        plain("mysql://signet@db.example.com/signet", Tls::Never);
        plain("mysql://signet@localhost/s?socket=/run/s.sock", Tls::Auto);
        encrypted("mysql://signet@db.example.com/signet", Tls::Auto);
        encrypted("mysql://signet@127.0.0.1/signet", Tls::Always);
        encrypted("mysqls://signet@127.0.0.1/signet", Tls::Auto);
        for (url, tls) in [
            ("mysqls://signet@127.0.0.1/signet", Tls::Never),
            ("mysql://signet@localhost/s?socket=/run/s.sock", Tls::Always),
        ] {
            assert!(outcome(url, tls).unwrap_err().contains("TLS"), "{url}");
        }
    }
}
