//! What comes out: the results of the calls, the events, the states.

use crate::{ClientId, ServerId};

/// What became of a request that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A new request, any method but ACK and CANCEL: answer it through this
    /// transaction.
    New(ServerId),
    /// A new CANCEL: answer it through `cancel`.
    Cancel {
        /// The transaction of the CANCEL itself.
        cancel: ServerId,
        /// The transaction that it cancels (RFC 3261 9.2); `None`: answer 481.
        /// See [`Transactions::server_method`](crate::Transactions::server_method) and
        /// [`Transactions::server_state`](crate::Transactions::server_state).
        invite: Option<ServerId>,
    },
    /// An ACK for the core: to a 2xx, or to nothing that is known here.
    Ack {
        /// The INVITE's transaction, where the ACK has its branch.
        invite: Option<ServerId>,
    },
    /// A retransmission or an ACK to a non-2xx: nothing is left to do.
    Absorbed,
    /// No room for another transaction: answer 503 without one.
    Full,
    /// No Via to answer by: drop it.
    NoVia,
}

/// What became of a response that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// A response for the core. The transaction may be over by now: its name
    /// is then stale, the context is still right.
    Pass {
        /// The transaction.
        client: ClientId,
        /// Its context, as given to [`Transactions::start_client`](crate::Transactions::start_client).
        context: u64,
    },
    /// A retransmission, a late response or one to a CANCEL: nothing to do.
    Absorbed,
    /// No client transaction has it: drop it (RFC 6026 8.1; RFC 4320 4.2 for late
    /// responses to non-INVITE), unless the request was forwarded without state.
    Unknown,
}

/// What became of a response that the core asked to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Responded {
    /// It was queued for sending.
    Sent,
    /// It was not sent: the transaction had its final response, or RFC 4320
    /// forbids it (408, or 101-199, or an early 100, to a non-INVITE).
    Refused,
    /// There is no such transaction any more.
    Unknown,
}

/// What became of a call of [`Transactions::cancel`](crate::Transactions::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The CANCEL was queued for sending.
    Sent,
    /// It goes out as soon as a provisional response arrives (RFC 3261 9.1).
    Deferred,
    /// There is nothing to cancel: answered already, not an INVITE, or unknown.
    TooLate,
}

/// What timers and the transport did: for the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Timer B or F fired, or a cancelled INVITE stayed without final response
    /// (RFC 3261 9.1): no final response will come. The transaction is over.
    ClientTimeout {
        /// The transaction, over.
        client: ClientId,
        /// Its context.
        context: u64,
    },
    /// The request (or the ACK) could not be sent. The transaction is over.
    ClientFailed {
        /// The transaction, over.
        client: ClientId,
        /// Its context.
        context: u64,
        /// Whether its final response was passed up before.
        answered: bool,
    },
    /// The transaction is over, after a final response.
    ClientTerminated {
        /// The transaction, over.
        client: ClientId,
        /// Its context.
        context: u64,
    },
    /// The core has not answered for 200 ms (INVITE), or until timer E of a
    /// client would have reached T2 (RFC 4320 4.1): time for
    /// [`Transactions::respond_trying`](crate::Transactions::respond_trying).
    TryingDue {
        /// The transaction.
        server: ServerId,
        /// Its context.
        context: u64,
    },
    /// Timer H: the final response was never acknowledged. The transaction is over.
    ServerAckTimeout {
        /// The transaction, over.
        server: ServerId,
        /// Its context.
        context: u64,
    },
    /// A response could not be sent. A non-INVITE transaction is over; an
    /// INVITE's stays and absorbs retransmissions (RFC 6026).
    ServerFailed {
        /// The transaction.
        server: ServerId,
        /// Its context.
        context: u64,
    },
    /// The core never answered a non-INVITE, and its client has given up.
    ServerExpired {
        /// The transaction, over.
        server: ServerId,
        /// Its context.
        context: u64,
    },
    /// The transaction is over in the ordinary way.
    ServerTerminated {
        /// The transaction, over.
        server: ServerId,
        /// Its context.
        context: u64,
    },
}

/// Where a client transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// Reserved, not yet started.
    Reserved,
    /// INVITE: sent, nothing came.
    Calling,
    /// Other methods: sent, nothing came.
    Trying,
    /// A provisional response came.
    Proceeding,
    /// A final response came (INVITE: other than 2xx).
    Completed,
    /// INVITE: a 2xx came (RFC 6026).
    Accepted,
}

/// Where a server transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Other methods than INVITE: nothing was answered.
    Trying,
    /// INVITE: no final response was given; others: a provisional was.
    Proceeding,
    /// A final response was given (INVITE: other than 2xx).
    Completed,
    /// INVITE: the final response was acknowledged.
    Confirmed,
    /// INVITE: a 2xx was given (RFC 6026); more 2xx may follow.
    Accepted,
}
