//! A client transaction's memory.

use crate::id::ClientId;
use crate::machine::{Action, ClientEvent};
use crate::{ClientState, client_invite, client_non_invite};
use sip_msg::Target;
use wheel::TimerId;

/// Which machine, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Reserved,
    Invite(client_invite::State),
    NonInvite(client_non_invite::State),
    /// An INVITE's transaction that is over, while its CANCEL's is not: the
    /// responses to the CANCEL bear the INVITE's branch.
    Over,
}

impl Machine {
    pub(crate) const fn new(invite: bool) -> Self {
        if invite {
            Self::Invite(client_invite::State::Initial)
        } else {
            Self::NonInvite(client_non_invite::State::Initial)
        }
    }

    pub(crate) const fn step(self, event: ClientEvent) -> (Self, &'static [Action]) {
        match self {
            Self::Invite(state) => {
                let (state, actions) = client_invite::step(state, event);
                (Self::Invite(state), actions)
            }
            Self::NonInvite(state) => {
                let (state, actions) = client_non_invite::step(state, event);
                (Self::NonInvite(state), actions)
            }
            Self::Reserved | Self::Over => (self, &[]),
        }
    }

    /// `None` when it is over.
    pub(crate) const fn state(self) -> Option<ClientState> {
        use client_invite::State as Invite;
        use client_non_invite::State as NonInvite;
        match self {
            Self::Reserved
            | Self::Invite(Invite::Initial)
            | Self::NonInvite(NonInvite::Initial) => Some(ClientState::Reserved),
            Self::Invite(Invite::Calling) => Some(ClientState::Calling),
            Self::NonInvite(NonInvite::Trying) => Some(ClientState::Trying),
            Self::Invite(Invite::Proceeding) | Self::NonInvite(NonInvite::Proceeding) => {
                Some(ClientState::Proceeding)
            }
            Self::Invite(Invite::Completed) | Self::NonInvite(NonInvite::Completed) => {
                Some(ClientState::Completed)
            }
            Self::Invite(Invite::Accepted) => Some(ClientState::Accepted),
            Self::Invite(Invite::Terminated)
            | Self::NonInvite(NonInvite::Terminated)
            | Self::Over => None,
        }
    }

    pub(crate) const fn is_invite(self) -> bool {
        matches!(self, Self::Invite(_))
    }
}

/// What a transaction has from its start on.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) target: Target,
    pub(crate) context: u64,
    pub(crate) method_tag: u32,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) machine: Machine,
    /// The part of the branch that nobody can guess.
    pub(crate) secret: u64,
    pub(crate) started: Option<Started>,
    /// The request, where it may have to be repeated, acknowledged or
    /// cancelled; in the state "Completed" the ACK.
    pub(crate) message: Vec<u8>,
    /// Timer A or E.
    pub(crate) repeat: TimerId,
    pub(crate) interval_ms: u64,
    /// The one other timer.
    pub(crate) timer: TimerId,
    /// An INVITE's CANCEL, or a CANCEL's INVITE.
    pub(crate) linked: Option<ClientId>,
    /// Whether this is a CANCEL that the layer made itself: it makes no events.
    pub(crate) internal: bool,
    /// Whether a CANCEL waits for a provisional response.
    pub(crate) cancel_wanted: bool,
    /// The Reason that this CANCEL will have.
    pub(crate) cancel_reason: Option<Box<[u8]>>,
}

impl Client {
    pub(crate) const fn new(secret: u64) -> Self {
        Self {
            machine: Machine::Reserved,
            secret,
            started: None,
            message: Vec::new(),
            repeat: TimerId::NONE,
            interval_ms: 0,
            timer: TimerId::NONE,
            linked: None,
            internal: false,
            cancel_wanted: false,
            cancel_reason: None,
        }
    }
}
