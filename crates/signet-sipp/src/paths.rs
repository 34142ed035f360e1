//! Which socket or connection a new call sends on.

use std::net::SocketAddr;
use std::sync::Arc;

use sip_msg::{ConnId, ListenerId, Target, Transport};
use sip_net::{CloseReason, Net, SendError};
use sip_scenario::SendFailure;

use crate::args::Mode;

/// Where calls that begin here send to, and on what.
pub(crate) struct Paths {
    transport: Transport,
    mode: Mode,
    remote: Option<SocketAddr>,
    tls_name: Option<Arc<str>>,
    /// The connection of all calls (`t1`, `l1`).
    shared: ConnId,
    is_up: bool,
    /// How often it was opened.
    opened: u32,
    /// Listeners that no call uses (`un`).
    free: Vec<u16>,
    /// How many there are; the first is for what is not a call's.
    per_call: u16,
    /// The last one given to more than one call.
    last: u16,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPath {
    /// The connection of all calls was opened anew too often.
    Exhausted,
    /// It could not even be begun to be opened.
    Failed(SendError),
}

impl Paths {
    pub(crate) fn new(
        transport: Transport,
        mode: Mode,
        remote: Option<SocketAddr>,
        tls_name: Option<Arc<str>>,
        listeners: usize,
    ) -> Self {
        let per_call = match (transport, mode) {
            (Transport::Udp, Mode::PerCall) => u16::try_from(listeners).unwrap_or(u16::MAX),
            _ => 0,
        };
        Self {
            transport,
            mode,
            remote,
            tls_name: tls_name.filter(|_| transport == Transport::Tls),
            shared: ConnId::NONE,
            is_up: false,
            opened: 0,
            free: (1..per_call).rev().collect(),
            per_call,
            last: 0,
        }
    }

    /// The path of a new call. One whose connection could not even be begun
    /// leads nowhere, so that the call fails with that cause.
    pub(crate) fn take(
        &mut self,
        net: &mut Net,
        reconnects_max: Option<u32>,
    ) -> Result<Target, NoPath> {
        let mut target = self.target();
        match (self.transport, self.mode) {
            (Transport::Udp, Mode::PerCall) => target.listener = ListenerId(self.take_listener()),
            (Transport::Udp, _) => {}
            (_, Mode::PerCall) => target.conn = net.open(&target).unwrap_or(ConnId::NONE),
            _ => {
                self.connect(net, reconnects_max)?;
                target.conn = self.shared;
            }
        }
        Ok(target)
    }

    fn target(&self) -> Target {
        Target {
            transport: self.transport,
            listener: ListenerId(0),
            remote: self.remote.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0))),
            conn: ConnId::NONE,
            may_open: false,
            tls_name: self.tls_name.clone(),
            lane: sip_msg::Lane::Shared,
            local: None,
        }
    }

    /// Whether all calls share one connection.
    pub(crate) fn shares(&self) -> bool {
        self.transport != Transport::Udp && self.mode != Mode::PerCall
    }

    /// Opens the connection that all calls share, where it is not there; gives whether it is
    /// up, as it is where calls share none.
    pub(crate) fn connect(
        &mut self,
        net: &mut Net,
        reconnects_max: Option<u32>,
    ) -> Result<bool, NoPath> {
        if !self.shares() {
            return Ok(true);
        }
        if !self.shared.is_some() {
            if !self.may_connect(reconnects_max) {
                return Err(NoPath::Exhausted);
            }
            self.opened = self.opened.saturating_add(1);
            self.shared = net.open(&self.target()).map_err(NoPath::Failed)?;
        }
        Ok(self.is_up)
    }

    /// Whether the connection that all calls share may be opened once more.
    pub(crate) fn may_connect(&self, reconnects_max: Option<u32>) -> bool {
        reconnects_max.is_none_or(|max| self.opened <= max)
    }

    /// A connection is up.
    pub(crate) fn opened(&mut self, conn: ConnId) {
        self.is_up |= self.shared.is_some() && self.shared == conn;
    }

    /// Whether the connection that all calls share is up.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether it is being opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.shared.is_some() && !self.is_up
    }

    /// A call is over.
    pub(crate) fn give_back(&mut self, target: &Target, net: &mut Net) {
        match (self.transport, self.mode) {
            (Transport::Udp, Mode::PerCall)
                if (1..self.per_call).contains(&target.listener.0)
                    && self.free.len() + 1 < usize::from(self.per_call) =>
            {
                self.free.push(target.listener.0);
            }
            (Transport::Udp, _) => {}
            (_, Mode::PerCall) if target.conn.is_some() && self.remote.is_some() => {
                net.close(target.conn, true);
            }
            _ => {}
        }
    }

    /// A connection is gone; gives whether all calls were on it.
    pub(crate) fn closed(&mut self, conn: ConnId) -> bool {
        let is_shared = self.shared.is_some() && self.shared == conn;
        if is_shared {
            self.shared = ConnId::NONE;
            self.is_up = false;
        }
        is_shared
    }

    /// Whether calls have connections of their own, which must be open first.
    pub(crate) fn opens_first(&self) -> bool {
        self.transport != Transport::Udp && self.mode == Mode::PerCall
    }

    fn take_listener(&mut self) -> u16 {
        if let Some(listener) = self.free.pop() {
            return listener;
        }
        if self.per_call < 2 {
            return 0;
        }
        // All are taken: calls share them, each in its turn.
        self.last = self.last % (self.per_call - 1) + 1;
        self.last
    }
}

/// What a failure means to the call.
pub(crate) fn failure(error: SendError) -> Option<SendFailure> {
    Some(match error {
        SendError::Gone => SendFailure::Connect,
        SendError::Closed(reason) => closed(reason),
        SendError::Full | SendError::NoLocalPort => SendFailure::Full,
        SendError::Lost => SendFailure::Closed,
        SendError::Unsendable | SendError::NoRoute | SendError::NoListener => SendFailure::Refused,
        // A hint that anybody can forge, and SIPp does not hear: the call ends
        // by its timers.
        SendError::Unreachable => return None,
    })
}

/// What the end of a connection means to its calls.
pub(crate) fn closed(reason: CloseReason) -> SendFailure {
    match reason {
        CloseReason::ConnectFailed
        | CloseReason::ConnectTimeout
        | CloseReason::Handshake
        | CloseReason::Refused => SendFailure::Connect,
        CloseReason::SlowReader => SendFailure::Full,
        _ => SendFailure::Closed,
    }
}
