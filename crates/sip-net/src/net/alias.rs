//! Connections that their peers have opened, as ways to these peers (RFC 5923).

use std::net::SocketAddr;
use std::sync::Arc;

use sip_msg::{ConnId, Transport};
use sip_tls::{Proven, host_address};

use super::Net;
use crate::AliasRefused;

impl Net {
    /// The peer of a connection has asked by `alias` in a Via, whose sent-by
    /// this is, that requests to it come over this connection. The first time
    /// counts; without [`crate::NetConfig::aliases`] nothing is done.
    pub fn alias(&mut self, id: ConnId, host: &str, port: Option<u16>) -> Result<(), AliasRefused> {
        let Some(aliases) = self.shared.config.aliases.as_ref().map(Arc::clone) else {
            return Ok(());
        };
        let Some(conn) = self.conns.get_mut(id) else {
            return Err(AliasRefused::Unfit);
        };
        if std::mem::replace(&mut conn.has_asked_alias, true) {
            return Ok(());
        }
        // RFC 5923 5: "the identity of the peer" is what TLS has shown; plain TCP shows none.
        let is_fit =
            conn.flow.transport == Transport::Tls && conn.opened.is_none() && conn.stage.is_open();
        let remote = conn.flow.remote;
        let granted = match (is_fit, conn.session.as_ref().and_then(Proven::by)) {
            (false, _) => Err(AliasRefused::Unfit),
            (true, None) => Err(AliasRefused::Unproven),
            (true, Some(proven)) => {
                let is_its_own = match host_address(host) {
                    Some(ip) => ip.to_canonical() == remote.ip().to_canonical(),
                    None => proven.bears(host),
                };
                // The port is the Via's, the address is the one that it came from.
                let port = port.unwrap_or(Transport::Tls.default_port());
                let at = SocketAddr::new(remote.ip(), port);
                if !is_its_own {
                    Err(AliasRefused::OtherName)
                } else if !proven.is_somebody_at(remote.ip()) {
                    Err(AliasRefused::Unproven)
                } else {
                    aliases.add(at, id, proven).map(|()| at)
                }
            }
        };
        let counters = &mut self.shared.counters;
        match granted {
            Ok(at) => {
                counters.aliases_granted += 1;
                conn.alias = Some(Box::new(at));
                Ok(())
            }
            Err(refused) => {
                *match refused {
                    AliasRefused::Unfit | AliasRefused::Unproven => &mut counters.aliases_unproven,
                    AliasRefused::OtherName => &mut counters.aliases_other_name,
                    AliasRefused::Full => &mut counters.aliases_full,
                } += 1;
                Err(refused)
            }
        }
    }

    /// Nobody is to find the connection any more.
    pub(super) fn forget(&mut self, id: ConnId) {
        self.conns.forget_peer(id);
        if let Some(conn) = self.conns.get_mut(id)
            && let Some(at) = conn.alias.take()
            && let Some(aliases) = &self.shared.config.aliases
        {
            aliases.remove(*at, id);
        }
    }
}
