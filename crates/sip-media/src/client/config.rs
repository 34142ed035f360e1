//! What a client is told of its engines and of its place.

use std::net::SocketAddr;

/// What is asked of whom, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the engines are.
    pub engines: Vec<SocketAddr>,
    /// How long one engine may take.
    pub timeout_ms: u64,
    /// Engines that are asked for one offer, one after the other.
    pub tries_max: usize,
    /// The time from one ping to the next. One that has failed is pinged each second.
    pub ping_interval_ms: u64,
    /// Commands under way; past it an offer or an answer fails at once.
    pub commands_max: usize,
    /// The longest session description that an engine is given, or that is taken from one.
    pub sdp_bytes_max: usize,
    /// Flags that go with each offer and answer.
    pub flags: Vec<Box<str>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            engines: Vec::new(),
            timeout_ms: 1_000,
            tries_max: 2,
            ping_interval_ms: 5_000,
            commands_max: 4_096,
            sdp_bytes_max: 16_384,
            flags: Vec::new(),
        }
    }
}

/// Which of the clients of a process this is: they share the pings.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientNumber {
    /// Its number.
    pub index: usize,
    /// How many there are; 0 and 1 mean that there is no other.
    pub clients: usize,
}
