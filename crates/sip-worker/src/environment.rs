//! What a worker works with, as traits: in service that is sockets, a database and a
//! resolver, in a test whatever stands for them.

use std::net::SocketAddr;
use std::sync::Arc;

use sip_auth::{Reply, Subject};
use sip_engine::{BindingChange, CallRecord, ParkId};
use sip_hook::{Outcome as HookOutcome, Question};
use sip_limit::Shares;
use sip_locate::{Hop, LocateError, Query};
use sip_lookup::{Outcome, Question as LookUp, Unavailable};
use sip_msg::{ConnId, Flow, Outbox, ParseError, Target, Transport, VerifiedPeer};

/// All that a worker works with.
pub trait Environment {
    /// Its sockets.
    type Sockets: Sockets;
    /// Its end of the store.
    type Store: Store;
    /// Its end of the resolver.
    type Resolver: Resolver;
    /// Its end of the operator's hook.
    type Hook: Hook;
    /// What shows messages to the operator.
    type Trace: Trace;
    /// What takes call records.
    type Records: Records;
    /// What ends a worker's wait.
    type Waker: Wake;
}

/// What became of a message that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailure {
    /// This machine did not send it: a queue or a table is full, no port is left, the kernel
    /// refuses it. That says nothing of who would have got it.
    Here,
    /// There is no way to who would have got it, or nobody is there.
    There,
    /// It was sent, and its connection ended before an answer.
    Lost,
}

/// What the sockets of a worker have to say.
#[derive(Debug)]
pub enum SocketEvent<'a> {
    /// A datagram, or a whole message from a stream.
    Message {
        /// Where it came from.
        flow: Flow,
        /// The message.
        bytes: &'a [u8],
    },
    /// A stream that cannot be framed any further.
    Malformed {
        /// Where it came from.
        flow: Flow,
        /// The head of the message at fault, as far as it was read.
        head: &'a [u8],
        /// What was wrong.
        error: ParseError,
    },
    /// The peer of a TLS connection proved by its certificate who it is.
    Verified {
        /// The connection.
        conn: ConnId,
        /// The proof.
        peer: Arc<VerifiedPeer>,
    },
    /// A connection is gone.
    Closed(ConnId),
    /// A message with a cookie has failed.
    SendFailed {
        /// The cookie given with the message.
        cookie: u64,
        /// What became of it.
        failure: SendFailure,
    },
    /// A datagram with a cookie came back (ICMP).
    Returned {
        /// The cookie given with the datagram.
        cookie: u64,
    },
    /// A datagram of a media engine.
    FromEngine {
        /// The engine.
        from: SocketAddr,
        /// What it says.
        bytes: &'a [u8],
    },
    /// What was sent to a media engine came back: nobody listens there.
    EngineUnreachable(SocketAddr),
    /// A datagram came back (ICMP), and it was not one of this worker's.
    Unreachable {
        /// Where it was sent to.
        remote: SocketAddr,
        /// How it begins.
        quoted: &'a [u8],
    },
}

/// The sockets of one worker. Nothing here blocks.
pub trait Sockets {
    /// What they count.
    type Figures: Clone + Default;

    /// Sends a message; with a cookie that is not 0 its failure comes back as
    /// [`SocketEvent::SendFailed`].
    fn send(&mut self, to: &Target, bytes: &[u8], cookie: u64);
    /// Sends all of an outbox.
    fn send_outbox(&mut self, outbox: &Outbox);
    /// Writes what was gathered.
    fn flush(&mut self);
    /// Sends a datagram to a media engine, from a socket that takes none from anybody else.
    fn send_to_engine(&mut self, _to: SocketAddr, _bytes: &[u8]) {}
    /// Closes the sockets to all other media engines.
    fn keep_engines(&mut self, _engines: &[SocketAddr]) {}
    /// Closes a connection after what is queued on it was written.
    fn close(&mut self, conn: ConnId);
    /// A stranger has sent something wrong on a connection.
    fn count_odd(&mut self, conn: ConnId);
    /// A contact relies on a connection for so long.
    fn keep_for(&mut self, conn: ConnId, for_ms: u64);
    /// Closes the connections that are a call's own.
    fn end_call(&mut self, call: u64);
    /// Closes the listeners of streams.
    fn stop_accepting(&mut self);
    /// Looks for the datagram that came back to another worker.
    fn find_unreachable(&mut self, remote: SocketAddr, quoted: &[u8]);
    /// The peer of a connection wants to be reached by it (RFC 5923).
    fn alias(&mut self, conn: ConnId, host: &str, port: Option<u16>);
    /// Puts into the sends of an outbox the connections by which their receivers want to be
    /// reached; gives how many.
    fn name_aliases(&self, outbox: &mut Outbox, now_unix_s: u64) -> u64;
    /// The settings have changed, and so perhaps who is trusted. Not told of where only what is
    /// written of people has: this looks at every connection.
    fn settings_changed(&mut self);
    /// What waits on connections, in bytes.
    fn held_bytes(&self) -> usize;
    /// Gives back memory that nothing needs.
    fn trim(&mut self);
    /// The addresses of this server and of the peer between which a message goes that was just
    /// sent there; `None` where it had no way to go. Asked while messages are traced.
    fn ends_for(&mut self, to: &Target) -> Option<(SocketAddr, SocketAddr)>;
    /// Whether the last turn left nothing to read.
    fn is_drained(&self) -> bool;
    /// How long what was read last had waited, where that is known of all that have more to read.
    fn waiting_ms(&self) -> Option<u64>;
    /// Whether more may wait than that tells.
    fn may_more_wait(&self) -> bool;
    /// Messages received so far, and keep-alives.
    fn messages_in(&self) -> u64;
    /// Whether it is to be known how long datagrams wait.
    fn time_datagrams(&mut self, is_on: bool);
    /// Lets only these shares of datagrams in; `None` for all.
    fn shed(&mut self, offered: Option<&Shares>);
    /// What they have counted.
    fn figures(&self) -> Self::Figures;
}

/// What the store said, and to whom.
#[derive(Debug)]
pub enum StoreAnswer {
    /// What it says to a look-up, or that it cannot say.
    Credential(ParkId, Outcome),
    /// Whether a change is durable.
    Saved(ParkId, Result<(), ()>),
}

/// What a store says as soon as it is asked.
#[derive(Debug)]
pub enum AtOnce {
    /// Nothing: it answers by [`Store::take_answers`].
    Pending,
    /// It knows already, as a cache does: nothing else will be answered.
    Known(Reply),
    /// It takes no question now: nothing will be answered.
    Refused(Unavailable),
}

/// One worker's end of the store.
pub trait Store {
    /// Asks for an HA1, or has a digest verified. Nobody waits for the answer after
    /// `until_ms`, by the clock of [`sip_engine::Now::mono_ms`]. A cache answers questions of
    /// [`sip_lookup::Why::Digest`] and no others, each of them: with [`Reply::NotCached`] where
    /// it has nothing.
    fn find_credential(&mut self, park: ParkId, question: LookUp, until_ms: u64) -> AtOnce;
    /// A user has proved himself, by what a look-up gave. Not told of unless
    /// [`sip_engine::settings::AuthSettings::tells_who_is_proved`].
    fn proved(&mut self, _subject: &Subject) {}
    /// Orders a change; false when there are too many already.
    fn save_bindings(&mut self, park: ParkId, changes: Vec<BindingChange>) -> bool;
    /// Takes all that the store has said, by exchange with an empty list.
    fn take_answers(&mut self, into: &mut Vec<StoreAnswer>);
}

/// One worker's end of the resolver.
pub trait Resolver {
    /// Asks for a name; false when there are too many questions already.
    fn ask(&mut self, park: ParkId, query: Query) -> bool;
    /// An answer that has come.
    fn next_answer(&mut self) -> Option<(ParkId, Result<Vec<Hop>, LocateError>)>;
}

/// One worker's end of the operator's hook.
pub trait Hook {
    /// Asks about a request. Nobody waits for the answer after `until_ms`, by the clock of
    /// [`sip_engine::Now::mono_ms`]. What is known at once, or will not be known, is said, and
    /// nothing else will be.
    fn ask(&mut self, park: ParkId, question: Box<Question>, until_ms: u64) -> Option<HookOutcome>;
    /// Takes all that the hook has said, by exchange with an empty list.
    fn take_answers(&mut self, into: &mut Vec<(ParkId, HookOutcome)>);
}

/// Whether a message came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came.
    In,
    /// It goes.
    Out,
}

/// A message that came or goes, for the operator's eyes.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Whether it came or goes.
    pub direction: Direction,
    /// By which transport.
    pub transport: Transport,
    /// The address of this server's end; `None` where the message had no way to go.
    pub local: Option<SocketAddr>,
    /// The address of the peer's end.
    pub remote: SocketAddr,
    /// The message, as it was read or is written under TLS and WebSocket frames.
    pub bytes: &'a [u8],
}

/// What shows messages to the operator.
pub trait Trace {
    /// Whether messages are shown; a worker asks once a turn.
    fn is_on(&self) -> bool;
    /// Shows a message, soon.
    fn message(&self, passing: &Passing<'_>);
}

/// What takes call records.
pub trait Records {
    /// Takes a record, at once: it is counted where there is no room for it.
    fn give(&mut self, record: Box<CallRecord>);
}

/// Ends a worker's wait, from any thread.
pub trait Wake {
    /// Makes the worker look around.
    fn wake(&self);
}
