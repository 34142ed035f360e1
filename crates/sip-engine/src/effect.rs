//! What a shard asks of the world, as values.

use std::sync::Arc;

use sip_auth::CredentialKey;
use sip_limit::{Party, What};
use sip_locate::Query;
use sip_msg::{ConnId, Flow, Outbox, VerifiedPeer};

use crate::BindingChange;

/// The time of an input: both clocks, read once per batch by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// A clock that only goes forward; timers run on it.
    pub mono_ms: u64,
    /// Milliseconds since 1970; bindings and nonces live on it.
    pub unix_ms: u64,
}

/// A parked request: given with a question, brought back with its answer.
/// An answer that comes too late, or twice, finds nobody and is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParkId(pub u64);

/// A question or an act that only the shell can do.
#[derive(Debug)]
pub enum Effect {
    /// Look up a stored HA1; answered by [`crate::Shard::handle_credential`].
    FindCredential {
        /// Who waits for it.
        park: ParkId,
        /// Whose, and for which algorithm.
        key: CredentialKey,
    },
    /// Make a change of bindings durable; answered by [`crate::Shard::handle_saved`].
    SaveBindings {
        /// Who waits for it.
        park: ParkId,
        /// The changes, all of one address-of-record, all or none.
        changes: Vec<BindingChange>,
    },
    /// Resolve a host (RFC 3263); answered by [`crate::Shard::handle_resolved`].
    Resolve {
        /// Who waits for it.
        park: ParkId,
        /// What to resolve.
        query: Query,
    },
    /// Close a connection, after what is queued on it was written.
    Close(ConnId),
    /// A stranger has sent a message on this connection that was wrong, though
    /// its framing was sound: close it when there are too many of them.
    Odd(ConnId),
    /// A registered contact relies on this connection for so long: keep it
    /// longer than others, where there are too many.
    KeepFor {
        /// The connection.
        conn: ConnId,
        /// For how long from now.
        for_ms: u64,
    },
    /// A call has ended: close the connections that are its own
    /// ([`sip_msg::Lane::Call`]), after what is queued on them was written.
    EndCall(u64),
    /// Tell the operator that a peer named somebody for whom it does not
    /// speak. The shell bounds how often it does.
    IdentityRefused {
        /// Where the request came from.
        flow: Flow,
        /// What the peer proved; `None` for one that is known by its address.
        proved: Option<Arc<VerifiedPeer>>,
        /// The host that it named, fit to be shown.
        claimed: Box<str>,
    },
    /// Tell the operator whom the guard limits. It comes once a second at most
    /// for each kind.
    Limited {
        /// Where the request came from.
        flow: Flow,
        /// What for.
        what: Limited,
    },
}

/// What somebody is limited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Too many requests that had to be refused: no answers for a while.
    Source,
    /// A wrong password for this user, whose name is fit to be shown.
    Guess(Box<str>),
    /// More than may begin in a second.
    Rate {
        /// By what it is known who asked.
        party: Party,
        /// His name, fit to be shown, where he has one.
        name: Box<str>,
        /// What there was too much of.
        what: What,
    },
}

/// What came out of an input: messages in order, and effects in order.
#[derive(Default, Debug)]
pub struct Outputs {
    /// Messages to send.
    pub outbox: Outbox,
    /// Everything else.
    pub effects: Vec<Effect>,
}

impl Outputs {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.outbox.clear();
        self.effects.clear();
    }
}
