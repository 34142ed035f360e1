//! The connections that we accept: who we are, what we take, whom we believe.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::digest;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, ProducesTickets};

use sip_msg::network::IpNet;

use crate::certificates::Certificates;
use crate::config::TlsConfig;
use crate::engine::TlsEngine;
use crate::error::TlsError;
use crate::fault::CertificateFault;
use crate::hello::Hello;
use crate::key_pair::KeyPair;
use crate::legacy::{LegacyServer, Pair};
use crate::server_sessions::{Gate, SessionCache, Sessions, Ticketer};
use crate::session::Session;
use crate::sides::{ClientsOf, Sides};
use crate::tickets::TicketKeys;
use crate::verify::ClientVerifier;

/// Sessions of TLS 1.2 remembered for clients without tickets, unless told
/// otherwise.
const SESSIONS_MAX: usize = 16_384;

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum ClientAuth {
    /// They are not asked.
    #[default]
    Off,
    /// They are asked and may have none; one that is shown must be good.
    Optional,
    /// Without a good one there is no connection.
    Required,
}

impl ClientAuth {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// How sessions are resumed.
#[derive(Clone, Default)]
enum Resumes<T> {
    /// With what the [`ServerTls`] has already, or with something new.
    #[default]
    AsBefore,
    With(T),
    Never,
}

impl<T: Clone> Resumes<T> {
    /// What to resume with; `make` where there is nothing yet.
    fn with(
        &self,
        before: Option<&T>,
        make: impl FnOnce() -> Result<T, TlsError>,
    ) -> Result<Option<T>, TlsError> {
        match self {
            Self::Never => Ok(None),
            Self::With(given) => Ok(Some(given.clone())),
            Self::AsBefore => before.cloned().map_or_else(make, Ok).map(Some),
        }
    }
}

/// What [`ServerTls`] is made from. Until told otherwise clients are not asked
/// for certificates, everything is taken, and sessions resume by tickets and
/// by ids.
pub type ServerTlsConfig = TlsConfig<ServerOnly>;

/// What a server alone is told.
#[derive(Clone, Default)]
pub struct ServerOnly {
    certificates: Certificates,
    legacy_pairs: Vec<Pair>,
    pub(super) client_auth: ClientAuth,
    pub(super) clients_of: Vec<ClientsOf>,
    scope: String,
    tickets: Resumes<TicketKeys>,
    cache: Resumes<SessionCache>,
}

impl ServerTlsConfig {
    /// Shows a certificate chain and signs with its key (PEM files). Several
    /// may stand side by side, for other names and with other kinds of keys:
    /// the first that bears the name asked for and has a key that the client
    /// can verify is shown; else the first with such a key.
    pub fn pair_pem_files<P: AsRef<Path>>(self, chain: P, key: P) -> Result<Self, TlsError> {
        let chain = chain.as_ref();
        self.pair(KeyPair::from_files(chain, key.as_ref())?, Some(chain))
    }

    /// The same of files that were read: what is wrong with one is told with its name.
    pub fn pair_pem_of(self, chain: (&Path, &[u8]), key: (&Path, &[u8])) -> Result<Self, TlsError> {
        self.pair(KeyPair::of_files(chain, key)?, Some(chain.0))
    }

    /// The same from memory.
    pub fn pair_pem(self, chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        self.pair(KeyPair::from_pem(chain, key)?, None)
    }

    fn pair(mut self, pair: KeyPair, file: Option<&Path>) -> Result<Self, TlsError> {
        self.side.certificates.add(pair.modern, file)?;
        self.side.legacy_pairs.push(pair.legacy);
        Ok(self)
    }

    /// Whether clients are asked for certificates. If so, there must be roots.
    // RFC 3261 26.3.1: "Proxy servers, redirect servers, and registrars MUST implement TLS, and MUST
    // support both mutual and one-way authentication."
    pub fn client_auth(mut self, auth: ClientAuth) -> Self {
        self.side.client_auth = auth;
        self
    }

    /// Asks clients of a network otherwise. Where a client is in several, the
    /// one that was named first counts.
    pub fn client_auth_of(mut self, network: IpNet, auth: ClientAuth) -> Self {
        self.side.clients_of.push(ClientsOf { network, auth });
        self
    }

    /// Issues tickets under these keys, which others may have too: workers,
    /// nodes, the next run.
    pub fn tickets(mut self, keys: TicketKeys) -> Self {
        self.side.tickets = Resumes::With(keys);
        self
    }

    /// Issues no tickets, so that TLS 1.3 does not resume.
    pub fn no_tickets(mut self) -> Self {
        self.side.tickets = Resumes::Never;
        self
    }

    /// Remembers sessions of TLS 1.2 here, where others may look too.
    pub fn session_cache(mut self, cache: SessionCache) -> Self {
        self.side.cache = Resumes::With(cache);
        self
    }

    /// Remembers no sessions: clients without tickets do not resume.
    pub fn no_session_ids(mut self) -> Self {
        self.side.cache = Resumes::Never;
        self
    }

    /// Sessions resume only where the scope is the same, and what is asked of
    /// clients. Listeners that share keys or a cache, but not whom they admit,
    /// must have scopes of their own.
    pub fn scope(mut self, scope: &str) -> Self {
        self.side.scope = scope.to_owned();
        self
    }

    /// Makes it.
    pub fn build(self) -> Result<ServerTls, TlsError> {
        let sides = Sides::new(&self, None)?;
        Ok(ServerTls {
            sides: RwLock::new(Arc::new(sides)),
        })
    }
}

/// What a listener shows, takes and asks for, replaceable while connections run.
pub struct ServerTls {
    sides: RwLock<Arc<Sides>>,
}

impl ServerTls {
    /// Reads pairs of PEM files, certificate chain and private key. The first
    /// pair is shown to clients that name no host or an unknown one.
    pub fn from_pem_files<P: AsRef<Path>>(pairs: &[(P, P)]) -> Result<Self, TlsError> {
        let mut given = pairs.iter();
        let config = given.try_fold(ServerTlsConfig::new(), |config, (chain, key)| {
            config.pair_pem_files(chain, key)
        });
        config?.build()
    }

    /// The same from memory.
    pub fn from_pem(pairs: &[(&[u8], &[u8])]) -> Result<Self, TlsError> {
        let mut given = pairs.iter();
        let config = given.try_fold(ServerTlsConfig::new(), |config, (chain, key)| {
            config.pair_pem(chain, key)
        });
        config?.build()
    }

    /// Replaces everything for handshakes to come; on an error nothing
    /// changes. Sessions go on, checked by the new policy, unless the new
    /// configuration brings other keys or another cache.
    pub fn reload(&self, config: ServerTlsConfig) -> Result<(), TlsError> {
        let sides = Arc::new(Sides::new(&config, Some(&self.sides()))?);
        *self.sides.write().unwrap_or_else(PoisonError::into_inner) = sides;
        Ok(())
    }

    /// What the handshake of a client from here is made from.
    pub(crate) fn side(&self, client: IpAddr) -> Arc<ServerSide> {
        Arc::clone(self.sides().of(client))
    }

    /// Verifies again, by what is in service now, the certificate of a client
    /// from here; `None` where it showed none.
    pub fn check_peer(
        &self,
        session: &Session,
        client: IpAddr,
    ) -> Option<Result<(), CertificateFault>> {
        let chain = session.peer_certificates()?;
        Some(match &self.sides().of(client).gate.verifier {
            Some(verifier) => verifier.check(chain, UnixTime::now()).map(|_| ()),
            // A listener that asks for no certificates any more trusts nobody by one.
            None => Err(CertificateFault::Other),
        })
    }

    fn sides(&self) -> Arc<Sides> {
        Arc::clone(&self.sides.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a handshake of a listener is made from.
pub(crate) struct ServerSide {
    pub(crate) config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) ticketer: Option<Arc<Ticketer>>,
    pub(crate) sessions: Option<Arc<Sessions>>,
    /// Takes the place of `config` where it is.
    legacy: Option<LegacyServer>,
}

impl ServerSide {
    /// For clients that are asked like this, with what `before` has of keys and
    /// sessions where the settings do not say.
    pub(super) fn new(
        settings: &ServerTlsConfig,
        client_auth: ClientAuth,
        before: Option<&Self>,
    ) -> Result<Self, TlsError> {
        if settings.side.certificates.is_empty() {
            return Err(TlsError::new(
                None,
                "a tls listener needs at least one certificate",
            ));
        }
        let (provider, versions) = settings.resolve()?;
        let verifier = verifier(settings, client_auth, &provider)?;
        let gate = Arc::new(Gate {
            scope: scope(&settings.side.scope, client_auth),
            verifier: verifier.clone(),
        });
        let legacy = match settings.engine {
            TlsEngine::Modern => None,
            TlsEngine::Legacy => Some(LegacyServer::new(
                &settings.algorithms,
                &settings.side.legacy_pairs,
                &settings.trust.root_ders,
                Arc::clone(&gate),
                !matches!(settings.side.tickets, Resumes::Never),
                !matches!(settings.side.cache, Resumes::Never),
            )?),
        };
        let had = before.and_then(|before| before.ticketer.as_ref());
        let keys = settings
            .side
            .tickets
            .with(had.map(|had| &had.keys), TicketKeys::random)?;
        let had = before.and_then(|before| before.sessions.as_ref());
        let cache = settings.side.cache.with(had.map(|had| &had.cache), || {
            Ok(SessionCache::new(SESSIONS_MAX))
        })?;
        let ticketer = keys.map(|keys| {
            let gate = Arc::clone(&gate);
            Arc::new(Ticketer { keys, gate })
        });
        let sessions = cache.map(|cache| {
            let gate = Arc::clone(&gate);
            Arc::new(Sessions { cache, gate })
        });

        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(TlsError::from_rustls)?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let certificates = Arc::new(settings.side.certificates.clone());
        let mut config = builder.with_cert_resolver(Arc::<Certificates>::clone(&certificates));
        // The order of the configuration counts, not that of the client.
        config.ignore_client_order = true;
        match &ticketer {
            Some(ticketer) => {
                config.ticketer = Arc::<Ticketer>::clone(ticketer) as Arc<dyn ProducesTickets>;
                // Each serves once, and each resumption brings new ones. An
                // attempt that fails has used one up.
                config.send_tls13_tickets = 2;
            }
            // Without it the library would keep tickets of TLS 1.3 in the cache.
            None => config.send_tls13_tickets = 0,
        }
        config.session_storage = match &sessions {
            Some(sessions) => Arc::<Sessions>::clone(sessions),
            None => Arc::new(NoServerSessionStorage {}),
        };
        Ok(Self {
            config: Arc::new(config),
            certificates,
            gate,
            ticketer,
            sessions,
            legacy,
        })
    }

    /// A session for a client that is yet to say hello.
    pub(crate) fn begin(&self) -> Result<Session, rustls::Error> {
        if let Some(legacy) = &self.legacy {
            return legacy.begin().map(Session::second);
        }
        Session::server(&self.config)
    }

    /// Whether the signature for this client costs little.
    pub(crate) fn signs_quickly(&self, hello: &Hello<'_>) -> bool {
        self.legacy.is_none() && self.certificates.signs_quickly(hello)
    }
}

/// Who verifies the certificates that clients are asked for.
fn verifier(
    settings: &ServerTlsConfig,
    client_auth: ClientAuth,
    provider: &CryptoProvider,
) -> Result<Option<Arc<ClientVerifier>>, TlsError> {
    if client_auth == ClientAuth::Off {
        return Ok(None);
    }
    if settings.trust.roots.is_empty() {
        return Err(TlsError::new(
            None,
            "clients are asked for certificates, but nobody is trusted: \
             give the authorities that issue them",
        ));
    }
    Ok(Some(ClientVerifier::new(
        settings.trust.clone(),
        client_auth == ClientAuth::Required,
        provider,
    )))
}

/// What binds a session to where it was made.
fn scope(name: &str, auth: ClientAuth) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&[auth as u8]);
    context.update(name.as_bytes());
    let mut scope = [0; 32];
    scope.copy_from_slice(context.finish().as_ref());
    scope
}

// Keys are inside: nothing of them is shown.
impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}
