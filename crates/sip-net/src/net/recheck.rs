//! Connections whose certificates are looked at once more, because whom we
//! trust has changed while they were up.

use std::collections::VecDeque;

use rustls::pki_types::UnixTime;
use sip_msg::ConnId;

use super::Net;
use crate::CloseReason;
use crate::stream::{Conn, State};
use crate::tls::{CertificateFault, TlsInfo};

/// Chains verified in one turn: each takes some hundred microseconds.
const CHECKS_MAX: usize = 4;
/// A handshake that began this long before the change may have seen what was
/// before it.
const SLACK_MS: u64 = 1_000;

/// What is to be looked at once more.
#[derive(Default)]
pub(super) struct Recheck {
    queue: VecDeque<ConnId>,
    /// When it was asked for.
    asked_ms: Option<u64>,
}

impl Recheck {
    pub(super) fn is_due(&self) -> bool {
        !self.queue.is_empty()
    }

    /// A handshake is done: it is looked at once more if it may have begun
    /// before the change.
    pub(super) fn secured(&mut self, id: ConnId, info: &TlsInfo, now_ms: u64) {
        let began_ms = now_ms.saturating_sub(info.wall_us / 1_000 + SLACK_MS);
        if self.asked_ms.is_some_and(|asked_ms| began_ms <= asked_ms) {
            self.queue.push_back(id);
        }
    }
}

impl Net {
    /// Verifies the certificates of all peers again, by what is in service now,
    /// and closes the connections of those that fail: to be asked for after a
    /// change of roots, lists or policy. It is done a few at a time, by the
    /// calls of [`Net::poll`] that follow.
    pub fn recheck_peers(&mut self) {
        let secured = |conn: &Conn| conn.session.is_some() || conn.state == State::Handshaking;
        self.recheck.queue = self.conns.ids_of(secured).into();
        self.recheck.asked_ms = Some(self.shared.now_ms);
    }

    pub(super) fn recheck_some(&mut self) {
        let mut left = CHECKS_MAX;
        while left > 0
            && let Some(id) = self.recheck.queue.pop_front()
        {
            match self.fault_now(id) {
                None => {}
                Some(Ok(())) => left -= 1,
                Some(Err(fault)) => {
                    left -= 1;
                    tracing::debug!(fault = fault.name(), "a peer is trusted no longer");
                    self.drop_conn(id, CloseReason::Certificate);
                }
            }
        }
    }

    /// What is wrong with a peer's certificate by what is in service; `None`
    /// where none was shown.
    fn fault_now(&self, id: ConnId) -> Option<Result<(), CertificateFault>> {
        let conn = self.conns.get(id)?;
        let chain = conn.session.as_ref()?.peer_certificates()?;
        if conn.opened {
            let tls = self.client_tls_of(conn)?.0;
            return Some(tls.check_server(chain, UnixTime::now()));
        }
        let listener = self.listeners.get(usize::from(conn.flow.listener.0))?;
        let side = listener.tls.as_ref()?.side(conn.flow.remote.ip());
        // A listener that asks for no certificates any more trusts nobody by one.
        let Some(verifier) = &side.gate.verifier else {
            return Some(Err(CertificateFault::Other));
        };
        Some(verifier.check(chain, UnixTime::now()).map(|_| ()))
    }
}
