//! What a shard asks the shell to do, as values.

use std::net::SocketAddr;
use std::sync::Arc;

use sip_auth::Subject;
use sip_limit::{Party, Rate};
use sip_locate::Query;
use sip_lookup::Question;
use sip_msg::{ConnId, Flow, Outbox, Transport};

use crate::BindingChange;
use crate::gateways::Change;
use crate::records::CallRecord;
use crate::refusal::RefusalRecord;
use crate::registrar::FlowEnd;
use crate::trunk::TrunkEvent;

/// The time of an input: both clocks, read once per batch by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock, for timers.
    pub mono_ms: u64,
    /// Milliseconds since 1970, for bindings and nonces.
    pub unix_ms: u64,
}

/// Names a parked request: given out with a question, and given back with the answer.
/// An answer that comes too late, or twice, is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParkId(pub u64);

/// A question or an act that only the shell can do.
#[derive(Debug)]
pub enum Effect {
    /// Look up a stored HA1, or have a digest verified; answered by
    /// [`crate::Shard::handle_credential`].
    FindCredential {
        /// Who waits for it.
        park: ParkId,
        /// The user, the realm and the algorithm.
        question: Question,
        /// When nobody waits for it any more, by [`Now::mono_ms`].
        until_ms: u64,
    },
    /// A user has proved who he is
    /// ([`AuthSettings::tells_who_is_proved`](crate::settings::AuthSettings)).
    Proved(Subject),
    /// Ask the operator's hook about a request; answered by [`crate::Shard::handle_hook`].
    AskHook {
        /// Who waits for it.
        park: ParkId,
        /// What is asked.
        question: Box<sip_hook::Question>,
        /// When nobody waits for it any more, by [`Now::mono_ms`].
        until_ms: u64,
    },
    /// Make a change of bindings durable; answered by [`crate::Shard::handle_saved`].
    SaveBindings {
        /// Who waits for it.
        park: ParkId,
        /// The changes, all of one address-of-record, all or none.
        changes: Vec<BindingChange>,
    },
    /// An order of the operator ([`crate::Shard::remove_bindings`]) is carried out, or not.
    Removed {
        /// Its number ([`Removal::order`](crate::registrar::Removal::order)).
        order: u64,
        /// How many contacts are gone for good; `Err` where the store did not say so in time.
        removed: Result<usize, ()>,
    },
    /// Resolve a host (RFC 3263); answered by [`crate::Shard::handle_resolved`].
    Resolve {
        /// Who waits for it.
        park: ParkId,
        /// What to resolve.
        query: Query,
    },
    /// Ask a media engine; who waits has the answer by [`crate::Shard::handle_media`]. For the
    /// end of a call nobody waits.
    Media {
        /// Who waits for it.
        park: Option<ParkId>,
        /// What to ask.
        ask: Box<sip_media::Ask>,
    },
    /// Close a connection, after what is queued on it was written.
    Close(ConnId),
    /// A stranger sent a malformed message with sound framing on this connection: count
    /// it, and close the connection when there are too many.
    Odd(ConnId),
    /// A registered contact relies on this connection: prefer to keep it when connections
    /// have to be closed to make room.
    KeepFor {
        /// The connection.
        conn: ConnId,
        /// For how long from now.
        for_ms: u64,
    },
    /// A call has ended: close the connections that it had to itself
    /// ([`sip_msg::Lane::Call`]), after what is queued on them was written.
    EndCall(u64),
    /// Log that an address of the operator's next hops is passed over from now on, or is used
    /// again. The worker that found it out is told, and no other.
    Gateway {
        /// The transport by which it is reached.
        transport: Transport,
        /// The address.
        addr: SocketAddr,
        /// Its host, as the operator wrote it.
        name: Box<str>,
        /// What has become of it.
        change: Change,
    },
    /// Log that a contact was removed because the flow to its phone has ended.
    FlowEnded {
        /// Whose it was: the address-of-record.
        aor: Arc<[u8]>,
        /// Its URI.
        contact: Box<[u8]>,
        /// Where it was reached.
        remote: Option<SocketAddr>,
        /// Why.
        why: FlowEnd,
    },
    /// Log what befell a trunk. The worker that found it out is told, and no other.
    Trunk {
        /// The name of its group.
        name: Arc<str>,
        /// What it was.
        event: TrunkEvent,
    },
    /// Log whom the guard or the rates limit: at most once a second for each kind.
    Limited {
        /// Where the request came from.
        flow: Flow,
        /// Why.
        what: Limited,
    },
}

/// Why somebody is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Too many refused requests: the source gets no answers for a while.
    Source,
    /// Over a rate limit.
    Rate {
        /// By what the sender is known.
        party: Party,
        /// His name, safe to be logged, if he has one.
        name: Box<str>,
        /// Which rate.
        rate: Rate,
    },
}

/// What came out of an input: messages in order, and effects in order.
#[derive(Default, Debug)]
pub struct Outputs {
    /// Messages to send.
    pub outbox: Outbox,
    /// Everything else.
    pub effects: Vec<Effect>,
    /// Requests that were refused, and next hops that failed, as far as they are recorded:
    /// of each source a few for each reason, and not all of a flood.
    pub refused: Vec<RefusalRecord>,
    /// Calls that are over, where records are made.
    pub records: Vec<Box<CallRecord>>,
}

impl Outputs {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.outbox.clear();
        self.effects.clear();
        self.refused.clear();
        self.records.clear();
    }
}
