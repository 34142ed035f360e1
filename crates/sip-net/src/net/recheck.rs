//! Connections whose certificates are looked at once more, because whom we
//! trust has changed while they were up.

use std::collections::VecDeque;

use sip_msg::ConnId;
use sip_tls::{CertificateFault, TlsInfo};

use super::Net;
use crate::CloseReason;
use crate::conns::index_of;
use crate::stream::Conn;

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
    /// change of roots, lists or policy, or of the names that servers must bear. It
    /// is done a few at a time, by the calls of [`Net::poll`] that follow.
    pub fn recheck_peers(&mut self) {
        let secured = |conn: &Conn| conn.session.is_some() || conn.stage.is_handshaking();
        let mut all = self.conns.ids_of(secured);
        // Begun where it is by now: else the last would never have their turn while it is asked
        // for again and again.
        if let Some(next) = self.recheck.queue.front() {
            let begin = all.partition_point(|id| index_of(*id) < index_of(*next));
            all.rotate_left(begin);
        }
        self.recheck.queue = all.into();
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
                    tracing::debug!(fault = fault.name(), "a peer is no longer trusted");
                    self.drop_conn(id, CloseReason::Certificate);
                }
            }
        }
    }

    /// What is wrong with a peer's certificate by what is in service; `None`
    /// where none was shown.
    fn fault_now(&self, id: ConnId) -> Option<Result<(), CertificateFault>> {
        let conn = self.conns.get(id)?;
        let session = conn.session.as_ref()?;
        if conn.opened.is_some() {
            let (tls, name) = self.client_tls_of(conn)?;
            return tls.check_peer(session, name.as_deref(), conn.flow.remote.ip());
        }
        let listener = self.listeners.get(usize::from(conn.flow.listener.0))?;
        let tls = listener.tls.as_ref()?;
        tls.check_peer(session, conn.flow.remote.ip())
    }
}
