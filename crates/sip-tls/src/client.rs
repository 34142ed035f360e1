//! The connections that we open: what we offer, whom we believe, who we are.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ClientConfig;
use rustls::client::{Resumption, Tls12Resumption};
use rustls::pki_types::{ServerName, UnixTime};

use crate::client_sessions::{AddressedSessions, ClientSessions, TICKETS_MAX};
use crate::config::TlsConfig;
use crate::engine::TlsEngine;
use crate::error::TlsError;
use crate::fault::CertificateFault;
use crate::identity::server_name;
use crate::key_pair::KeyPair;
use crate::legacy::{LegacyClient, Resumable};
use crate::resumption::ClientResumption;
use crate::session::Session;
use crate::verify::ServerVerifier;

/// Peers whose sessions are remembered, unless told otherwise.
const SESSIONS_MAX: usize = 4_096;
/// Addresses whose configuration is at hand.
const ADDRESSES_MAX: usize = 4;

/// What [`ClientTls`] is made from. Until told otherwise it trusts no server,
/// offers everything and resumes whatever it can.
pub type ClientTlsConfig = TlsConfig<ClientOnly>;

/// What a client alone is told.
#[derive(Clone, Default)]
pub struct ClientOnly {
    trusts_anyone: bool,
    identity: Option<KeyPair>,
    resumption: ClientResumption,
    sessions_max: Option<usize>,
    tickets_max: Option<usize>,
}

impl ClientTlsConfig {
    /// Believes any server whatever its certificate: no chain, no name, no
    /// time is looked at. Whoever is in the path can be the server. Only to
    /// measure foreign servers.
    pub fn trust_anyone_insecurely(mut self) -> Self {
        self.side.trusts_anyone = true;
        self
    }

    /// Shows this certificate chain where a server asks for one, and signs
    /// with this key (PEM files).
    pub fn identity_pem_files<P: AsRef<Path>>(
        mut self,
        chain: P,
        key: P,
    ) -> Result<Self, TlsError> {
        self.side.identity = Some(KeyPair::from_files(chain.as_ref(), key.as_ref())?);
        Ok(self)
    }

    /// The same of files that were read: what is wrong with one is told with its name.
    pub fn identity_pem_of(
        mut self,
        chain: (&Path, &[u8]),
        key: (&Path, &[u8]),
    ) -> Result<Self, TlsError> {
        self.side.identity = Some(KeyPair::of_files(chain, key)?);
        Ok(self)
    }

    /// The same from memory.
    pub fn identity_pem(mut self, chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        self.side.identity = Some(KeyPair::from_pem(chain, key)?);
        Ok(self)
    }

    /// How to resume.
    pub fn resumption(mut self, resumption: ClientResumption) -> Self {
        self.side.resumption = resumption;
        self
    }

    /// For how many peers sessions are remembered, over all identities made
    /// from this; past it the oldest is forgotten.
    pub fn sessions_max(mut self, peers: usize) -> Self {
        self.side.sessions_max = Some(peers);
        self
    }

    /// Keeps so many tickets of TLS 1.3 of one peer. Each serves once, so
    /// connections begun at the same time need one each.
    pub fn tickets_max(mut self, tickets: usize) -> Self {
        self.side.tickets_max = Some(tickets);
        self
    }

    /// Makes it.
    pub fn build(self) -> Result<ClientTls, TlsError> {
        let base = base(&self)?;
        let sessions = ClientSessions::new(
            self.side.sessions_max.unwrap_or(SESSIONS_MAX),
            self.side.tickets_max.unwrap_or(TICKETS_MAX),
        );
        Ok(ClientTls::of(base, Arc::new(self), sessions))
    }
}

/// Who we are on connections that we open, what we offer, and how their peers
/// prove their names (RFC 5922).
pub struct ClientTls {
    state: Mutex<State>,
    sessions: Arc<ClientSessions>,
}

struct State {
    settings: Arc<ClientTlsConfig>,
    /// Whose the sessions are: another number, other sessions.
    identity: u64,
    base: Arc<ClientConfig>,
    legacy: Option<Arc<LegacyClient>>,
    by_addr: Vec<(SocketAddr, Arc<ClientConfig>)>,
}

impl ClientTls {
    /// Trusts the certificates in these PEM files.
    pub fn from_pem_files<P: AsRef<Path>>(roots: &[P]) -> Result<Self, TlsError> {
        ClientTlsConfig::new().roots_pem_files(roots)?.build()
    }

    /// The same from memory.
    pub fn from_pem(roots: &[&[u8]]) -> Result<Self, TlsError> {
        ClientTlsConfig::new().roots_pem(roots)?.build()
    }

    /// Replaces everything for handshakes to come; on an error nothing
    /// changes. Sessions are forgotten.
    pub fn reload(&self, config: ClientTlsConfig) -> Result<(), TlsError> {
        let base = base(&config)?;
        let mut state = self.state();
        *state = State::new(base, Arc::new(config));
        drop(state);
        self.sessions.clear();
        Ok(())
    }

    /// The same with another certificate (PEM): what one of many agents shows.
    /// Cheap; its sessions are its own, within the same bound.
    pub fn with_identity_pem(&self, chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let pair = KeyPair::from_pem(chain, key)?;
        let (mut base, settings) = self.parts();
        base.legacy = (base.legacy).map(|legacy| legacy.with_identity(pair.legacy.clone()));
        base.modern.client_auth_cert_resolver = Arc::new(pair.resolver());
        let mut settings = (*settings).clone();
        settings.side.identity = Some(pair);
        let sessions = Arc::clone(&self.sessions);
        Ok(Self::of(base, Arc::new(settings), sessions))
    }

    /// The same with sessions of its own: what one of many agents with a
    /// certificate in common remembers. Cheap, within the same bound.
    pub fn with_own_sessions(&self) -> Self {
        let (base, settings) = self.parts();
        Self::of(base, settings, Arc::clone(&self.sessions))
    }

    /// The same for handshakes that are all full ones.
    pub fn without_resumption(&self) -> Self {
        let (mut base, settings) = self.parts();
        base.modern.resumption = Resumption::disabled();
        let mut settings = (*settings).clone();
        settings.side.resumption = ClientResumption::Off;
        Self::of(base, Arc::new(settings), Arc::clone(&self.sessions))
    }

    /// How it resumes.
    pub fn resumption(&self) -> ClientResumption {
        self.state().settings.side.resumption
    }

    /// With how many peers a connection could be resumed, over all identities
    /// that share the bound. Looks at each of them.
    pub fn session_count(&self) -> usize {
        self.sessions.resumable_count()
    }

    /// Forgets the sessions of all identities that share them.
    pub fn forget_sessions(&self) {
        self.sessions.clear();
    }

    /// Forgets all sessions with this peer.
    pub(crate) fn forget(&self, addr: SocketAddr, name: &ServerName<'static>) {
        let identity = self.state().identity;
        self.sessions.forget(&(identity, name.clone(), addr));
    }

    /// Forgets the session of TLS 1.2 with this peer.
    pub(crate) fn forget_tls12(&self, addr: SocketAddr, name: &ServerName<'static>) {
        let identity = self.state().identity;
        self.sessions.forget_tls12(&(identity, name.clone(), addr));
    }

    /// Verifies the certificate of a server again, by what is in service now, and that it bears
    /// this name, or else its address; `None` where it showed none.
    pub fn check_peer(
        &self,
        session: &Session,
        name: Option<&str>,
        ip: IpAddr,
    ) -> Option<Result<(), CertificateFault>> {
        match server_name(name, ip) {
            Some(name) => self.check_peer_as(session, &name),
            None => Some(Err(CertificateFault::WrongName)),
        }
    }

    pub(crate) fn check_peer_as(
        &self,
        session: &Session,
        name: &ServerName<'_>,
    ) -> Option<Result<(), CertificateFault>> {
        let chain = session.peer_certificates()?;
        let settings = Arc::clone(&self.state().settings);
        Some(if settings.side.trusts_anyone {
            Ok(())
        } else {
            settings.trust.check_server(chain, name, UnixTime::now())
        })
    }

    /// Sessions with this peer are good until its certificate ends.
    pub(crate) fn sessions_end(&self, addr: SocketAddr, name: &ServerName<'static>, unix_s: u64) {
        let state = self.state();
        if state.settings.side.resumption != ClientResumption::Off {
            let identity = state.identity;
            drop(state);
            self.sessions.end_at((identity, name.clone(), addr), unix_s);
        }
    }

    /// What a handshake with a peer at this address is made from.
    pub(crate) fn config_for(&self, addr: SocketAddr) -> Arc<ClientConfig> {
        let mut state = self.state();
        let resumption = state.settings.side.resumption;
        if resumption == ClientResumption::Off {
            return Arc::clone(&state.base);
        }
        if let Some((_, config)) = state.by_addr.iter().find(|(known, _)| *known == addr) {
            return Arc::clone(config);
        }
        let mut config = (*state.base).clone();
        let ids_only = resumption == ClientResumption::SessionIds;
        let sessions = AddressedSessions {
            all: Arc::clone(&self.sessions),
            identity: state.identity,
            addr,
            keeps_tls13: !ids_only,
        };
        config.resumption = Resumption::store(Arc::new(sessions)).tls12_resumption(if ids_only {
            Tls12Resumption::SessionIdOnly
        } else {
            Tls12Resumption::SessionIdOrTickets
        });
        let config = Arc::new(config);
        if state.by_addr.len() >= ADDRESSES_MAX {
            state.by_addr.remove(0);
        }
        state.by_addr.push((addr, Arc::clone(&config)));
        config
    }

    /// Begins a session of the second engine with this peer, where that one is
    /// to be used.
    pub(crate) fn begin_legacy(
        &self,
        addr: SocketAddr,
        name: &ServerName<'static>,
        output: &mut Vec<u8>,
    ) -> Option<Result<Session, rustls::Error>> {
        let state = self.state();
        let legacy = state.legacy.clone()?;
        let (how, identity) = (state.settings.side.resumption, state.identity);
        drop(state);
        let held = (how != ClientResumption::Off)
            .then(|| self.sessions.legacy(&(identity, name.clone(), addr)))
            .flatten();
        Some(legacy.begin(name, held, how, output).map(Session::second))
    }

    /// Keeps a session of the second engine for the next connection.
    pub(crate) fn keep_legacy(
        &self,
        addr: SocketAddr,
        name: &ServerName<'static>,
        session: Resumable,
    ) {
        let state = self.state();
        if state.settings.side.resumption != ClientResumption::Off {
            let identity = state.identity;
            drop(state);
            let key = (identity, name.clone(), addr);
            self.sessions.keep_legacy(key, session);
        }
    }

    fn of(base: Base, settings: Arc<ClientTlsConfig>, sessions: Arc<ClientSessions>) -> Self {
        Self {
            state: Mutex::new(State::new(base, settings)),
            sessions,
        }
    }

    fn parts(&self) -> (Base, Arc<ClientTlsConfig>) {
        let state = self.state();
        let base = Base {
            modern: (*state.base).clone(),
            legacy: state.legacy.as_deref().cloned(),
        };
        (base, Arc::clone(&state.settings))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(base: Base, settings: Arc<ClientTlsConfig>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            settings,
            identity: NEXT.fetch_add(1, Ordering::Relaxed),
            base: Arc::new(base.modern),
            legacy: base.legacy.map(Arc::new),
            by_addr: Vec::new(),
        }
    }
}

/// The part that is the same for all addresses.
struct Base {
    modern: ClientConfig,
    /// Takes the place of the other where it is.
    legacy: Option<LegacyClient>,
}

fn base(settings: &ClientTlsConfig) -> Result<Base, TlsError> {
    if settings.side.trusts_anyone && !settings.trust.roots.is_empty() {
        return Err(TlsError::new(
            None,
            "give roots, or trust anyone: both together would look safer than they are",
        ));
    }
    let (provider, versions) = settings.resolve()?;
    let trust = (!settings.side.trusts_anyone).then(|| settings.trust.clone());
    let verifier = ServerVerifier::new(trust, &provider);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(TlsError::from_rustls)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &settings.side.identity {
        None => builder.with_no_client_auth(),
        Some(pair) => builder.with_client_cert_resolver(Arc::new(pair.resolver())),
    };
    config.resumption = Resumption::disabled();
    Ok(Base {
        modern: config,
        legacy: match settings.engine {
            TlsEngine::Modern => None,
            TlsEngine::Legacy => Some(LegacyClient::new(
                &settings.algorithms,
                (!settings.side.trusts_anyone).then_some(&settings.trust),
                &settings.trust.root_ders,
                settings
                    .side
                    .identity
                    .as_ref()
                    .map(|pair| pair.legacy.clone()),
            )?),
        },
    })
}

// Keys are inside: nothing of them is shown.
impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::fault::HandshakeError;
    use crate::handshake::{Handshake, Side};
    use crate::resumption;
    use crate::server::{ServerTls, ServerTlsConfig};
    use crate::testing::TestCa;
    use crate::{RevocationPolicy, TlsVersion};

    /// One handshake in memory; how it resumed.
    fn shake(
        client: &Arc<ClientTls>,
        server: &Arc<ServerTls>,
    ) -> Result<Option<resumption::Resumption>, HandshakeError> {
        let addr = SocketAddr::from(([127, 0, 0, 1], 5061));
        let side = Side::client(Arc::clone(client), Some("example.com"), addr.ip()).unwrap();
        let mut ours = Handshake::new(side, addr);
        let mut theirs = Handshake::new(Side::Server(Arc::clone(server)), addr);
        ours.step().0?;
        while !ours.output.is_empty() || !theirs.output.is_empty() {
            theirs.input.append(&mut ours.output);
            theirs.step().0.unwrap();
            ours.input.append(&mut theirs.output);
            ours.step().0?;
        }
        Ok(ours.finish()?.1.resumed)
    }

    #[test]
    fn a_server_that_is_resumed_is_verified_again() {
        let ca = TestCa::new();
        let (chain, key) = ca.issue(&["example.com"]);
        for version in TlsVersion::ALL {
            let server = ServerTlsConfig::new()
                .pair_pem(chain.as_bytes(), key.as_bytes())
                .unwrap();
            let server = Arc::new(server.versions(&[version]).build().unwrap());
            // A list that is good for these years, and has none of these certificates.
            let by_list = |years: Range<i32>| {
                let list = ca.revoke_in(&[99], 1, years);
                ClientTlsConfig::new()
                    .versions(&[version])
                    .roots_pem(&[ca.root_pem().as_bytes()])
                    .unwrap()
                    .crl_pem(&[list.as_bytes()])
                    .unwrap()
                    .revocation(RevocationPolicy::Strict)
            };
            let client = Arc::new(by_list(2024..2099).build().unwrap());
            assert_eq!(shake(&client, &server), Ok(None));
            assert!(shake(&client, &server).unwrap().is_some());
            // What time does, and no reload.
            client.state().settings = Arc::new(by_list(2020..2021));
            let error = shake(&client, &server).unwrap_err();
            assert_eq!(error.fault, Some(CertificateFault::RevocationUnknown));
            // The next one shows its certificate, which may be another by then.
            assert_eq!(client.session_count(), 0);
            client.state().settings = Arc::new(by_list(2024..2099));
            assert_eq!(shake(&client, &server), Ok(None));
        }
    }
}
