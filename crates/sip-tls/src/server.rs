//! The connections that we accept: who we are, what we take, whom we believe.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::digest;
use rustls::ServerConfig;
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, ProducesTickets};

use crate::algorithms::{Algorithms, TlsVersion};
use crate::certificates::Certificates;
use crate::client::owned;
use crate::engine::TlsEngine;
use crate::error::TlsError;
use crate::fault::CertificateFault;
use crate::hello::Hello;
use crate::legacy::{LegacyServer, Pair};
use crate::pem::{certified_key, read, read_secret};
use crate::server_sessions::{Gate, SessionCache, Sessions, Ticketer};
use crate::session::Session;
use crate::sides::{ClientsOf, Sides};
use crate::tickets::TicketKeys;
use crate::verify::{ClientVerifier, KeyUsagePolicy, RevocationPolicy, Trust};

/// Sessions of TLS 1.2 remembered for clients without tickets, unless told
/// otherwise.
const SESSIONS_MAX: usize = 16_384;

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ClientAuth {
    /// They are not asked.
    #[default]
    Off,
    /// They are asked and may have none; one that is shown must be good.
    Optional,
    /// Without a good one there is no connection.
    Required,
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

/// What [`ServerTls`] is made from.
#[derive(Clone, Default)]
pub struct ServerTlsConfig {
    engine: TlsEngine,
    algorithms: Algorithms,
    certificates: Certificates,
    legacy_pairs: Vec<Pair>,
    client_auth: ClientAuth,
    clients_of: Vec<ClientsOf>,
    trust: Trust,
    scope: String,
    tickets: Resumes<TicketKeys>,
    cache: Resumes<SessionCache>,
}

impl ServerTlsConfig {
    /// No certificate yet; everything may be negotiated; clients are not asked
    /// for certificates; sessions resume by tickets and by ids.
    pub fn new() -> Self {
        Self::default()
    }

    /// Speaks by this engine. The legacy one takes its own suites alone, shows
    /// the first certificate that has an RSA key, keeps sessions and ticket
    /// keys of its own until the next reload, and issues no tickets where
    /// clients are asked for certificates.
    pub fn engine(mut self, engine: TlsEngine) -> Self {
        self.engine = engine;
        self
    }

    /// Shows a certificate chain and signs with its key (PEM files). Several
    /// may stand side by side, for other names and with other kinds of keys:
    /// the first that bears the name asked for and has a key that the client
    /// can verify is shown; else the first with such a key.
    pub fn pair_pem_files<P: AsRef<Path>>(mut self, chain: P, key: P) -> Result<Self, TlsError> {
        let (chain_file, key_file) = (chain.as_ref(), key.as_ref());
        let (chain, key) = (read(chain_file)?, read_secret(key_file)?);
        let pair = certified_key(&chain, &key, Some(chain_file), Some(key_file))?;
        self.certificates.add(pair, Some(chain_file))?;
        self.legacy_pairs.push(Pair::from_pem(&chain, &key)?);
        Ok(self)
    }

    /// The same from memory.
    pub fn pair_pem(mut self, chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        self.certificates
            .add(certified_key(chain, key, None, None)?, None)?;
        self.legacy_pairs.push(Pair::from_pem(chain, key)?);
        Ok(self)
    }

    /// Accepts these versions only.
    pub fn versions(mut self, versions: &[TlsVersion]) -> Self {
        self.algorithms.versions = Some(versions.to_vec());
        self
    }

    /// Accepts these cipher suites only, by their names in IANA's registry or
    /// in openssl.
    pub fn suites<S: AsRef<str>>(mut self, names: &[S]) -> Self {
        self.algorithms.suites = Some(owned(names));
        self
    }

    /// Accepts these key-exchange groups only: see [`crate::GROUP_NAMES`].
    pub fn groups<S: AsRef<str>>(mut self, names: &[S]) -> Self {
        self.algorithms.groups = Some(owned(names));
        self
    }

    /// Whether clients are asked for certificates. If so, there must be roots.
    // RFC 3261 26.3.1: "Proxy servers, redirect servers, and registrars MUST implement TLS, and MUST
    // support both mutual and one-way authentication."
    pub fn client_auth(mut self, auth: ClientAuth) -> Self {
        self.client_auth = auth;
        self
    }

    /// Asks clients of a network otherwise. Where a client is in several, the
    /// one that was named first counts.
    pub fn client_auth_of(mut self, addr: IpAddr, prefix_len: u8, auth: ClientAuth) -> Self {
        self.clients_of.push(ClientsOf {
            addr,
            prefix_len,
            auth,
        });
        self
    }

    pub(super) fn auth(&self) -> ClientAuth {
        self.client_auth
    }

    pub(super) fn clients_of(&self) -> &[ClientsOf] {
        &self.clients_of
    }

    /// Believes clients whose certificates lead to these (PEM files).
    pub fn client_roots_pem_files<P: AsRef<Path>>(mut self, files: &[P]) -> Result<Self, TlsError> {
        for file in files {
            self.trust
                .add_roots(&read(file.as_ref())?, Some(file.as_ref()))?;
        }
        Ok(self)
    }

    /// The same from memory.
    pub fn client_roots_pem(mut self, pems: &[&[u8]]) -> Result<Self, TlsError> {
        for pem in pems {
            self.trust.add_roots(pem, None)?;
        }
        Ok(self)
    }

    /// Refuses clients in these revocation lists (PEM files).
    pub fn crl_pem_files<P: AsRef<Path>>(mut self, files: &[P]) -> Result<Self, TlsError> {
        for file in files {
            self.trust
                .add_crls(&read(file.as_ref())?, Some(file.as_ref()))?;
        }
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

    /// What extendedKeyUsage clients must have.
    pub fn key_usage(mut self, policy: KeyUsagePolicy) -> Self {
        self.trust.usage = policy;
        self
    }

    /// Issues tickets under these keys, which others may have too: workers,
    /// nodes, the next run.
    pub fn tickets(mut self, keys: TicketKeys) -> Self {
        self.tickets = Resumes::With(keys);
        self
    }

    /// Issues no tickets, so that TLS 1.3 does not resume.
    pub fn no_tickets(mut self) -> Self {
        self.tickets = Resumes::Never;
        self
    }

    /// Remembers sessions of TLS 1.2 here, where others may look too.
    pub fn session_cache(mut self, cache: SessionCache) -> Self {
        self.cache = Resumes::With(cache);
        self
    }

    /// Remembers no sessions: clients without tickets do not resume.
    pub fn no_session_ids(mut self) -> Self {
        self.cache = Resumes::Never;
        self
    }

    /// Sessions resume only where the scope is the same, and what is asked of
    /// clients. Listeners that share keys or a cache, but not whom they admit,
    /// must have scopes of their own.
    pub fn scope(mut self, scope: &str) -> Self {
        self.scope = scope.to_owned();
        self
    }

    /// Makes it.
    pub fn build(self) -> Result<ServerTls, TlsError> {
        let sides = Sides::new(&self, None)?;
        Ok(ServerTls {
            state: RwLock::new((Arc::new(self), Arc::new(sides))),
        })
    }
}

/// What a listener shows, takes and asks for, replaceable while connections run.
pub struct ServerTls {
    state: RwLock<(Arc<ServerTlsConfig>, Arc<Sides>)>,
}

impl ServerTls {
    /// Reads pairs of PEM files, certificate chain and private key. The first
    /// pair is shown to clients that name no host or an unknown one.
    pub fn from_pem_files<P: AsRef<Path>>(pairs: &[(P, P)]) -> Result<Self, TlsError> {
        ServerTlsConfig::new().with_files(pairs)?.build()
    }

    /// The same from memory.
    pub fn from_pem(pairs: &[(&[u8], &[u8])]) -> Result<Self, TlsError> {
        ServerTlsConfig::new().with_pems(pairs)?.build()
    }

    /// Replaces the certificates for handshakes to come; on an error nothing changes.
    pub fn reload_pem_files<P: AsRef<Path>>(&self, pairs: &[(P, P)]) -> Result<(), TlsError> {
        self.reload(self.settings().with_files(pairs)?)
    }

    /// The same from memory.
    pub fn reload_pem(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), TlsError> {
        self.reload(self.settings().with_pems(pairs)?)
    }

    /// Replaces everything for handshakes to come; on an error nothing
    /// changes. Sessions go on, checked by the new policy, unless the new
    /// configuration brings other keys or another cache.
    pub fn reload(&self, config: ServerTlsConfig) -> Result<(), TlsError> {
        let sides = Sides::new(&config, Some(&self.sides()))?;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) =
            (Arc::new(config), Arc::new(sides));
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
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&state.1)
    }

    /// The settings without the certificates.
    fn settings(&self) -> ServerTlsConfig {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        ServerTlsConfig {
            certificates: Certificates::default(),
            legacy_pairs: Vec::new(),
            ..(*state.0).clone()
        }
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
        if settings.certificates.is_empty() {
            return Err(TlsError::new(
                None,
                "a tls listener needs at least one certificate",
            ));
        }
        let (provider, versions) = match settings.engine {
            TlsEngine::Modern => settings.algorithms.resolve()?,
            TlsEngine::Legacy => Algorithms::default().resolve()?,
        };
        let verifier = match client_auth {
            ClientAuth::Off => None,
            _ if settings.trust.roots.is_empty() => {
                return Err(TlsError::new(
                    None,
                    "clients are asked for certificates, but nobody is trusted: \
                     give the authorities that issue them",
                ));
            }
            auth => Some(ClientVerifier::new(
                settings.trust.clone(),
                auth == ClientAuth::Required,
                &provider,
            )),
        };
        let gate = Arc::new(Gate {
            scope: scope(&settings.scope, client_auth),
            verifier: verifier.clone(),
        });
        let legacy = match settings.engine {
            TlsEngine::Modern => None,
            TlsEngine::Legacy => Some(LegacyServer::new(
                &settings.algorithms,
                &settings.legacy_pairs,
                &settings.trust.root_ders,
                Arc::clone(&gate),
                !matches!(settings.tickets, Resumes::Never),
                !matches!(settings.cache, Resumes::Never),
            )?),
        };
        let keys = match &settings.tickets {
            Resumes::Never => None,
            Resumes::With(keys) => Some(keys.clone()),
            Resumes::AsBefore => Some(match before.and_then(|before| before.ticketer.as_ref()) {
                Some(ticketer) => ticketer.keys.clone(),
                None => TicketKeys::random()?,
            }),
        };
        let cache = match &settings.cache {
            Resumes::Never => None,
            Resumes::With(cache) => Some(cache.clone()),
            Resumes::AsBefore => Some(match before.and_then(|before| before.sessions.as_ref()) {
                Some(sessions) => sessions.cache.clone(),
                None => SessionCache::new(SESSIONS_MAX),
            }),
        };
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
        let certificates = Arc::new(settings.certificates.clone());
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

/// What binds a session to where it was made.
fn scope(name: &str, auth: ClientAuth) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&[auth as u8]);
    context.update(name.as_bytes());
    let mut scope = [0; 32];
    scope.copy_from_slice(context.finish().as_ref());
    scope
}

impl ServerTlsConfig {
    fn with_files<P: AsRef<Path>>(mut self, pairs: &[(P, P)]) -> Result<Self, TlsError> {
        for (chain, key) in pairs {
            self = self.pair_pem_files(chain.as_ref(), key.as_ref())?;
        }
        Ok(self)
    }

    fn with_pems(mut self, pairs: &[(&[u8], &[u8])]) -> Result<Self, TlsError> {
        for (chain, key) in pairs {
            self = self.pair_pem(chain, key)?;
        }
        Ok(self)
    }
}

// Keys are inside: nothing of them is shown.
impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ServerTlsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTlsConfig")
            .field("engine", &self.engine)
            .field("algorithms", &self.algorithms)
            .field("client_auth", &self.client_auth)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
