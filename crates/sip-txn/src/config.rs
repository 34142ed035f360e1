//! Timer values, bounds and keys.

/// The timer values of RFC 3261 17 (table 4 in its annex A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// T1: the estimate of the round-trip time.
    pub t1_ms: u64,
    /// T2: the longest interval between retransmissions of a non-INVITE
    /// request or of a final response to an INVITE.
    pub t2_ms: u64,
    /// T4: how long the network may hold a message.
    pub t4_ms: u64,
    /// Timer D over unreliable transports: at least 32 seconds.
    pub d_ms: u64,
    /// After how long without a response to an INVITE its core is reminded to
    /// send a 100 (RFC 3261 17.2.1).
    pub trying_ms: u64,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            t1_ms: 500,
            t2_ms: 4_000,
            t4_ms: 5_000,
            d_ms: 32_000,
            trying_ms: 200,
        }
    }
}

/// How a [`Transactions`](crate::Transactions) is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Timer values.
    pub timers: Timers,
    /// The most client transactions; past it `reserve_client` gives `None`.
    pub client_max: usize,
    /// The most server transactions; past it requests are answered
    /// [`Incoming::Full`](crate::Incoming::Full).
    pub server_max: usize,
    /// Secret key of the hash by which requests are matched: random per process.
    pub hash_key: [u8; 16],
    /// Secret seed of the branches: random per process and per shard.
    pub branch_key: [u8; 16],
    /// Whether responses over UDP go to a Via's `maddr` (RFC 3261 18.2.2). Off
    /// by default: it lets a sender direct responses at a third party.
    pub honour_maddr: bool,
}

impl Config {
    /// The defaults, with these keys.
    pub fn new(hash_key: [u8; 16], branch_key: [u8; 16]) -> Self {
        Self {
            timers: Timers::default(),
            client_max: 1 << 20,
            server_max: 1 << 20,
            hash_key,
            branch_key,
            honour_maddr: false,
        }
    }
}
