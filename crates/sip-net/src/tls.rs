//! TLS identities: the certificates that we show, and the proof that we ask for.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{
    ClientHello, ParsedCertificate, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache,
    StoresServerSessions,
};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use webpki::EndEntityCert;

/// Sessions of TLS 1.2 remembered for clients without tickets.
const SERVER_SESSIONS: usize = 16_384;
/// Peers whose sessions are remembered.
const CLIENT_SESSIONS: usize = 4_096;

/// The certificates of a listener, chosen by SNI, replaceable while connections run.
pub struct ServerTls {
    config: RwLock<Arc<ServerConfig>>,
    // Sessions outlive a reload: a new certificate is no reason for a thousand
    // full handshakes.
    tickets: Arc<dyn ProducesTickets>,
    sessions: Arc<dyn StoresServerSessions>,
}

impl ServerTls {
    /// Reads pairs of PEM files, certificate chain and private key. The first
    /// pair is shown to clients that name no host or an unknown one.
    pub fn from_pem_files<P: AsRef<Path>>(pairs: &[(P, P)]) -> Result<Self, TlsError> {
        Self::new(read_pairs(pairs)?)
    }

    /// The same from memory.
    pub fn from_pem(pairs: &[(&[u8], &[u8])]) -> Result<Self, TlsError> {
        Self::new(parse_pairs(pairs)?)
    }

    /// Replaces the certificates for handshakes to come; on an error nothing changes.
    pub fn reload_pem_files<P: AsRef<Path>>(&self, pairs: &[(P, P)]) -> Result<(), TlsError> {
        self.replace(read_pairs(pairs)?)
    }

    /// The same from memory.
    pub fn reload_pem(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), TlsError> {
        self.replace(parse_pairs(pairs)?)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn new(certificates: Certificates) -> Result<Self, TlsError> {
        let tickets = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(TlsError::from_rustls)?;
        let sessions: Arc<dyn StoresServerSessions> =
            ServerSessionMemoryCache::new(SERVER_SESSIONS);
        let config = server_config(certificates, &tickets, &sessions)?;
        Ok(Self {
            config: RwLock::new(config),
            tickets,
            sessions,
        })
    }

    fn replace(&self, certificates: Certificates) -> Result<(), TlsError> {
        let config = server_config(certificates, &self.tickets, &self.sessions)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }
}

/// How the peers of connections that we open prove their names (RFC 5922).
pub struct ClientTls {
    config: RwLock<Arc<ClientConfig>>,
}

impl ClientTls {
    /// Trusts the certificates in these PEM files.
    pub fn from_pem_files<P: AsRef<Path>>(roots: &[P]) -> Result<Self, TlsError> {
        let config = client_config(read_roots(roots)?)?;
        Ok(Self {
            config: RwLock::new(config),
        })
    }

    /// The same from memory.
    pub fn from_pem(roots: &[&[u8]]) -> Result<Self, TlsError> {
        let config = client_config(parse_roots(roots)?)?;
        Ok(Self {
            config: RwLock::new(config),
        })
    }

    /// Replaces the roots for handshakes to come; on an error nothing changes.
    /// Sessions are forgotten, since they were proved by the old roots.
    pub fn reload_pem_files<P: AsRef<Path>>(&self, roots: &[P]) -> Result<(), TlsError> {
        let config = client_config(read_roots(roots)?)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is wrong with a certificate, a key or a root.
#[derive(Debug)]
pub struct TlsError {
    /// The file, where there is one.
    pub file: Option<PathBuf>,
    /// What is wrong, and the remedy.
    pub reason: String,
}

impl TlsError {
    fn new(file: Option<&Path>, reason: impl Into<String>) -> Self {
        Self {
            file: file.map(Path::to_path_buf),
            reason: reason.into(),
        }
    }

    fn from_rustls(error: Error) -> Self {
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

// Keys are inside: nothing of them is shown.
impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

/// The name that a peer must prove: the one given, or else its address.
pub(crate) fn server_name(name: Option<&str>, ip: IpAddr) -> Option<ServerName<'static>> {
    let Some(name) = name else {
        return Some(ServerName::IpAddress(ip.into()));
    };
    let name = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_ascii_lowercase()).ok()
}

/// Certificates by the names in them.
#[derive(Debug)]
struct Certificates {
    all: Vec<Arc<CertifiedKey>>,
    /// Places in `all`: one name may have certificates of several kinds.
    by_name: HashMap<String, Vec<usize>>,
}

impl Certificates {
    fn add(
        &mut self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        file: Option<&Path>,
    ) -> Result<(), TlsError> {
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| {
            TlsError::new(
                file,
                format!("{error}; give the chain's own key and certificate, leaf first"),
            )
        })?;
        let leaf = key
            .end_entity_cert()
            .map_err(|error| TlsError::new(file, error.to_string()))?;
        let names: Vec<String> = EndEntityCert::try_from(leaf)
            .map_err(|error| {
                TlsError::new(file, format!("no certificate that can be read: {error}"))
            })?
            .valid_dns_names()
            .map(str::to_ascii_lowercase)
            .collect();
        for name in names {
            self.by_name.entry(name).or_default().push(self.all.len());
        }
        self.all.push(Arc::new(key));
        Ok(())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits =
            |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let named = hello
            .server_name()
            .and_then(|name| self.by_name.get(&name.to_ascii_lowercase()));
        let mut named = named
            .into_iter()
            .flatten()
            .filter_map(|place| self.all.get(*place));
        named
            .find(fits)
            .or_else(|| self.all.iter().find(fits))
            .cloned()
    }
}

/// The proof that RFC 5922 asks of a peer: a chain to a root that we trust,
/// and the SIP domain in it.
#[derive(Debug)]
struct SipDomainVerifier {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for SipDomainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        match server_name {
            ServerName::DnsName(domain) => {
                let certificate = EndEntityCert::try_from(end_entity)
                    .map_err(|_| Error::from(CertificateError::BadEncoding))?;
                if !bears_sip_domain(&certificate, domain.as_ref()) {
                    return Err(CertificateError::NotValidForName.into());
                }
            }
            _ => verify_server_name(&parsed, server_name)?,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// RFC 5922 7.1 and 7.2: the identities are the `sip` URIs without a user
/// part; only where there is none of these, the DNS names. They are compared
/// whole and without regard to case; a wildcard matches nothing.
fn bears_sip_domain(certificate: &EndEntityCert<'_>, domain: &str) -> bool {
    let mut has_sip_uri = false;
    for uri in certificate.valid_uri_names() {
        if let Some(host) = sip_uri_domain(uri) {
            has_sip_uri = true;
            if host.eq_ignore_ascii_case(domain) {
                return true;
            }
        }
    }
    !has_sip_uri
        && certificate
            .valid_dns_names()
            .any(|name| name.eq_ignore_ascii_case(domain))
}

/// The domain in a `sip` URI without a user part.
fn sip_uri_domain(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("sip") || rest.contains('@') {
        return None;
    }
    rest.split([':', ';', '?'])
        .next()
        .filter(|host| !host.is_empty())
}

fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

fn server_config(
    certificates: Certificates,
    tickets: &Arc<dyn ProducesTickets>,
    sessions: &Arc<dyn StoresServerSessions>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(TlsError::from_rustls)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificates));
    config.ticketer = Arc::clone(tickets);
    config.session_storage = Arc::clone(sessions);
    // Each resumption brings a new one.
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

fn client_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = provider();
    let verifier = SipDomainVerifier {
        roots,
        algorithms: provider.signature_verification_algorithms,
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(TlsError::from_rustls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = Resumption::in_memory_sessions(CLIENT_SESSIONS);
    Ok(Arc::new(config))
}

fn read_pairs<P: AsRef<Path>>(pairs: &[(P, P)]) -> Result<Certificates, TlsError> {
    let mut certificates = Certificates {
        all: Vec::new(),
        by_name: HashMap::new(),
    };
    for (chain, key) in pairs {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        let (chain_pem, key_pem) = (read(chain)?, read(key)?);
        certificates.add(
            parse_chain(&chain_pem, Some(chain))?,
            parse_key(&key_pem, Some(key))?,
            Some(chain),
        )?;
    }
    not_empty(certificates)
}

fn parse_pairs(pairs: &[(&[u8], &[u8])]) -> Result<Certificates, TlsError> {
    let mut certificates = Certificates {
        all: Vec::new(),
        by_name: HashMap::new(),
    };
    for (chain, key) in pairs {
        certificates.add(parse_chain(chain, None)?, parse_key(key, None)?, None)?;
    }
    not_empty(certificates)
}

fn not_empty(certificates: Certificates) -> Result<Certificates, TlsError> {
    if certificates.all.is_empty() {
        return Err(TlsError::new(
            None,
            "a tls listener needs at least one certificate",
        ));
    }
    Ok(certificates)
}

fn read_roots<P: AsRef<Path>>(files: &[P]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for file in files {
        add_roots(&mut roots, &read(file.as_ref())?, Some(file.as_ref()))?;
    }
    Ok(roots)
}

fn parse_roots(pems: &[&[u8]]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for pem in pems {
        add_roots(&mut roots, pem, None)?;
    }
    Ok(roots)
}

fn add_roots(roots: &mut RootCertStore, pem: &[u8], file: Option<&Path>) -> Result<(), TlsError> {
    for root in parse_chain(pem, file)? {
        roots
            .add(root)
            .map_err(|error| TlsError::new(file, error.to_string()))?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file)
        .map_err(|error| TlsError::new(Some(file), format!("cannot be read: {error}")))
}

fn parse_chain(pem: &[u8], file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
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

fn parse_key(pem: &[u8], file: Option<&Path>) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        TlsError::new(
            file,
            format!("has no private key that can be read, unencrypted and in PEM: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sip_uri_names_a_domain_only_without_a_user() {
        for (uri, domain) in [
            ("sip:example.com", Some("example.com")),
            ("SIP:example.com:5061;transport=tls", Some("example.com")),
            ("sip:alice@example.com", None),
            ("sips:example.com", None),
            ("https://example.com", None),
            ("sip:", None),
            ("example.com", None),
        ] {
            assert_eq!(sip_uri_domain(uri), domain, "{uri}");
        }
    }

    #[test]
    fn a_peer_is_named_by_its_domain_or_by_its_address() {
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let text = |name| server_name(name, ip).map(|name| name.to_str().into_owned());
        assert_eq!(text(None).as_deref(), Some("192.0.2.1"));
        assert_eq!(text(Some("Example.COM.")).as_deref(), Some("example.com"));
        assert_eq!(text(Some("[2001:db8::1]")).as_deref(), Some("2001:db8::1"));
        assert_eq!(text(Some("not a name")), None);
    }
}
