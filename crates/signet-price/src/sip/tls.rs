//! Two ends of TLS in memory: the server's own code, driven as the server drives it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use signet_bed::Error;
use sip_tls::{
    ClientAuth, ClientResumption, ClientTls, ClientTlsConfig, Handshake, HandshakeError, ServerTls,
    ServerTlsConfig, Session, Side, TlsEngine, TlsError, TlsInfo, TlsVersion,
};

use super::fault;
use super::made::{Made, NAME};

/// More steps than any handshake has.
const STEPS_MAX: usize = 16;

/// What is negotiated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer<'a> {
    pub(super) version: TlsVersion,
    pub(super) suite: Option<&'a str>,
    pub(super) group: Option<&'a str>,
    pub(super) is_mutual: bool,
    pub(super) resumes: bool,
}

impl Offer<'_> {
    fn engine(&self) -> TlsEngine {
        self.suite.map_or(TlsEngine::Modern, TlsEngine::of_suite)
    }
}

/// A client and a server that fit each other.
#[derive(Clone)]
pub(super) struct Ends {
    client: Arc<ClientTls>,
    server: Arc<ServerTls>,
}

/// What a handshake took of each side, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub(super) client_ns: u64,
    pub(super) server_ns: u64,
}

/// A session of each side, and what was negotiated.
pub(super) struct Established {
    pub(super) client: Session,
    pub(super) server: Session,
    pub(super) info: TlsInfo,
    pub(super) taken: Taken,
}

impl Ends {
    pub(super) fn new(made: &Made, offer: &Offer<'_>) -> Result<Self, Error> {
        Self::make(made, offer).map_err(|error: TlsError| fault("TLS cannot be set up", error))
    }

    fn make(made: &Made, offer: &Offer<'_>) -> Result<Self, TlsError> {
        let roots = [made.root.as_bytes()];
        let (chain, key) = (made.chain.as_bytes(), made.key.as_bytes());
        let mut client = ClientTlsConfig::new()
            .engine(offer.engine())
            .versions(&[offer.version])
            .roots_pem(&roots)?;
        let mut server = ServerTlsConfig::new()
            .engine(offer.engine())
            .versions(&[offer.version])
            .pair_pem(chain, key)?;
        if let Some(suite) = offer.suite {
            client = client.suites(&[suite]);
            server = server.suites(&[suite]);
        }
        if let Some(group) = offer.group {
            client = client.groups(&[group]);
            server = server.groups(&[group]);
        }
        if offer.is_mutual {
            client = client.identity_pem(chain, key)?;
            server = server.roots_pem(&roots)?.client_auth(ClientAuth::Required);
        }
        if offer.resumes {
            client = client.tickets_max(64);
        } else {
            client = client.resumption(ClientResumption::Off);
            server = server.no_tickets().no_session_ids();
        }
        Ok(Self {
            client: Arc::new(client.build()?),
            server: Arc::new(server.build()?),
        })
    }

    /// A handshake from the first byte to the last, with what the server sends behind it.
    pub(super) fn shake(&self) -> Result<Established, Error> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 5061));
        let side = Side::client(Arc::clone(&self.client), Some(NAME), at.ip());
        let side = side.ok_or_else(|| fault("a handshake", "the server's name cannot be used"))?;
        let mut client = Handshake::new(side, at);
        let mut server = Handshake::new(Side::Server(Arc::clone(&self.server)), at);
        let mut taken = Taken::default();
        let failed = |error: HandshakeError| fault("a handshake", format!("{error:?}"));
        for _ in 0..STEPS_MAX {
            let (result, ns) = client.short_step(None);
            taken.client_ns += ns;
            result.map_err(failed)?;
            server.input.append(&mut client.output);
            if client.established && server.established && server.input.is_empty() {
                break;
            }
            let (result, ns) = server.short_step(None);
            taken.server_ns += ns;
            result.map_err(failed)?;
            client.input.append(&mut server.output);
        }
        let (client, _) = client.finish().map_err(failed)?;
        let (server, info) = server.finish().map_err(failed)?;
        Ok(Established {
            client,
            server,
            info,
            taken,
        })
    }
}
