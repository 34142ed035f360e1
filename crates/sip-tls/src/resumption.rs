//! How sessions resume: how one did, and how a client may ask for it.

/// How a session was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resumption {
    /// TLS 1.2 with a session id (RFC 5246 7.3).
    SessionId,
    /// TLS 1.2 with a ticket (RFC 5077).
    Ticket,
    /// TLS 1.3 with a ticket, which is a pre-shared key (RFC 8446 2.2).
    Psk,
}

impl Resumption {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 3] = [Self::SessionId, Self::Ticket, Self::Psk];

    /// A short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionId => "session_id",
            Self::Ticket => "ticket",
            Self::Psk => "psk",
        }
    }
}

/// How connections that we open resume earlier sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ClientResumption {
    /// Never: every handshake is a full one.
    Off,
    /// By tickets only (RFC 5077; the pre-shared keys of TLS 1.3).
    Tickets,
    /// By session ids only, so in TLS 1.2 alone.
    SessionIds,
    /// By whatever the server offers.
    #[default]
    Any,
}
