//! What comes out of a client.

use std::net::SocketAddr;

use crate::{Ask, EngineId, Why};

/// A datagram for an engine.
#[derive(Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where it goes.
    pub to: SocketAddr,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// What an engine gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which it is.
    pub engine: EngineId,
    /// The session description as it is to be sent on.
    pub sdp: Option<Box<[u8]>>,
}

/// Why nothing was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No engine answers, or none takes calls.
    Gone,
    /// Too much is under way, here or at the engines.
    Busy,
    /// The engine does not know the call: it was started anew since.
    Unknown,
    /// The engine refuses, in its words.
    Refused(Box<str>),
}

/// The answer to somebody who waits.
#[derive(Debug)]
pub struct Answered {
    /// Who waits.
    pub waiter: u64,
    /// What was asked.
    pub ask: Box<Ask>,
    /// What came of it.
    pub result: Result<Given, Failure>,
}

/// An engine is gone, or is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where it is.
    pub address: SocketAddr,
    /// Why it is left; none where it is used again.
    pub why: Option<Why>,
}
