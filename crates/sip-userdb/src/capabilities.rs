//! What a store can do.

use sip_auth::Algorithm;

/// What a store can do: what the server may offer, and how it must ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The algorithms whose HA1s it holds, or that it verifies.
    pub algorithms: Vec<Algorithm>,
    /// Whether it verifies digests by itself and gives no secret away (RFC 5090).
    pub verifies: bool,
    /// Whether it tells a user who does not exist from a digest that is wrong.
    pub tells_unknown_users: bool,
    /// Whether users can be added, changed and removed through it.
    pub is_writable: bool,
    /// Whether it says by itself that a user has changed.
    pub announces_changes: bool,
    /// The most users in one statement.
    pub batch_max: usize,
    /// Statements that its connections carry at once, all together. What is asked beyond
    /// that waits in the client, where nobody sees it.
    pub in_flight_max: usize,
}
