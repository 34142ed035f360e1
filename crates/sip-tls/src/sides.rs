//! What the handshakes of a listener are made from, by where a client comes from.

use std::net::IpAddr;
use std::sync::Arc;

use sip_msg::network::{IpNet, is_in};

use crate::error::TlsError;
use crate::server::{ClientAuth, ServerSide, ServerTlsConfig};

/// A network whose clients are asked for certificates by rules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientsOf {
    pub(super) network: IpNet,
    pub(super) auth: ClientAuth,
}

/// One side for each way in which clients are asked. All have the same keys of
/// tickets and the same memory of sessions, but no session of one resumes with
/// another.
pub(super) struct Sides {
    usual: Arc<ServerSide>,
    others: Vec<(ClientsOf, Arc<ServerSide>)>,
}

impl Sides {
    pub(super) fn new(settings: &ServerTlsConfig, before: Option<&Self>) -> Result<Self, TlsError> {
        let before = before.map(|before| &*before.usual);
        let usual = Arc::new(ServerSide::new(
            settings,
            settings.side.client_auth,
            before,
        )?);
        let mut made = vec![(settings.side.client_auth, Arc::clone(&usual))];
        let mut others = Vec::new();
        for clients in &settings.side.clients_of {
            let auth = clients.auth;
            let side = match made.iter().find(|(asks, _)| *asks == auth) {
                Some((_, side)) => Arc::clone(side),
                None => {
                    let side = Arc::new(ServerSide::new(settings, auth, Some(&usual))?);
                    made.push((auth, Arc::clone(&side)));
                    side
                }
            };
            others.push((*clients, side));
        }
        Ok(Self { usual, others })
    }

    /// For a client that comes from here: the first network that it is in counts.
    pub(super) fn of(&self, ip: IpAddr) -> &Arc<ServerSide> {
        let mut others = self.others.iter();
        let other = others.find(|(clients, _)| is_in(clients.network, ip));
        other.map_or(&self.usual, |(_, side)| side)
    }
}
