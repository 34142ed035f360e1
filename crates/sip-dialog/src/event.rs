//! Names of agents, calls and requests, and what is told about them.

use crate::slots::Key;
use sip_msg::{ConnId, Method};

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgentKey(pub(crate) Key);

/// A call. Once its last event was polled the name is stale, and a stale name
/// is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallKey(pub(crate) Key);

/// A REGISTER, OPTIONS or MESSAGE under way. Stale once it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey(pub(crate) Key);

impl AgentKey {
    /// A small number, used again after the agent was removed: for tables of
    /// the caller's.
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

impl CallKey {
    /// A small number, used again after the call is over: for tables of the
    /// caller's.
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

impl RequestKey {
    /// A small number, used again after the request is over: for tables of
    /// the caller's.
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

/// How a request or a call came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// By a final response with this status: the peer's, or our own where we
    /// were called.
    Status(u16),
    /// No final response came in time: as good as a 408 (RFC 3261 8.1.3.1).
    Timeout,
    /// A message could not be sent: as good as a 503 (RFC 3261 8.1.3.1).
    Transport,
    /// There was no room for another transaction.
    Full,
    /// The caller cancelled.
    Cancelled,
    /// This side hung up.
    HungUp,
    /// The other side hung up.
    PeerHungUp,
    /// The 2xx was never acknowledged.
    NoAck,
}

/// What happened. A call ends with exactly one [`Event::Failed`] or
/// [`Event::Ended`], a request with exactly one [`Event::Replied`], and a
/// registration with exactly one of its two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The contact is bound; for an `expires_s` of 0 it is bound no more.
    Registered {
        /// Whose.
        agent: AgentKey,
        /// Which request of his.
        request: RequestKey,
        /// For how long the registrar granted it.
        expires_s: u32,
    },
    /// The contact was not bound.
    RegisterFailed {
        /// Whose.
        agent: AgentKey,
        /// Which request of his.
        request: RequestKey,
        /// Why.
        cause: Cause,
    },
    /// An OPTIONS or a MESSAGE was answered, or never will be.
    Replied {
        /// Whose.
        agent: AgentKey,
        /// Which request of his.
        request: RequestKey,
        /// Its final response.
        cause: Cause,
    },
    /// An OPTIONS, a MESSAGE, or a REGISTER where that is taken, came and was
    /// answered 200.
    Received {
        /// For whom.
        agent: AgentKey,
        /// Which method.
        method: Method,
    },
    /// Somebody calls.
    Incoming {
        /// Whom.
        agent: AgentKey,
        /// The call: ring, answer or reject.
        call: CallKey,
    },
    /// A provisional response other than 100 to a call that we make.
    Provisional {
        /// The call.
        call: CallKey,
        /// 101 to 199.
        status: u16,
    },
    /// A call that we make was answered, and the ACK was sent.
    Answered {
        /// The call.
        call: CallKey,
    },
    /// The ACK to our answer came.
    Established {
        /// The call.
        call: CallKey,
    },
    /// A call that was established is over. (Also one that was answered and
    /// never acknowledged.)
    Ended {
        /// The call.
        call: CallKey,
        /// Who ended it.
        cause: Cause,
    },
    /// A call was not established.
    Failed {
        /// The call.
        call: CallKey,
        /// Why.
        cause: Cause,
    },
    /// The agent's connection is gone.
    Disconnected {
        /// Whose.
        agent: AgentKey,
        /// Which connection.
        conn: ConnId,
    },
}
