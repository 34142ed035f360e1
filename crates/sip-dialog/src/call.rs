//! A call: an INVITE, the dialog that it makes, and the BYE that ends it.

use crate::agent::NOBODY;
use crate::slots::{Key, Reset};
use crate::tag::Tag;
use crate::texts::Texts;
use sip_auth::Attempt;
use sip_msg::Message;
use sip_txn::{ClientId, ServerId};
use smime::Opened;
use wheel::TimerId;

/// Where a call stands.
///
/// | state     | we called                         | we were called              |
/// |-----------|-----------------------------------|-----------------------------|
/// | Inviting  | INVITE sent, no final response    |                             |
/// | Ringing   |                                   | INVITE came, not answered   |
/// | Answered  |                                   | 2xx sent, no ACK            |
/// | Confirmed | 2xx came, ACK sent                | ACK came                    |
/// | Ending    | BYE sent, no response             | the same                    |
/// | Over      | waits for 2xx of forks            |                             |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Inviting,
    Ringing,
    Answered,
    Confirmed,
    Ending,
    Over,
}

/// A call, or the dialog of a fork that is not wanted.
#[derive(Default)]
pub(crate) struct Call {
    pub(crate) state: State,
    pub(crate) agent: Option<Key>,
    /// The neighbours in the list of the agent's calls.
    pub(crate) next: u32,
    pub(crate) previous: u32,
    pub(crate) tag: Tag,
    // RFC 3261 12.1.1: "This state MUST be maintained for the duration of the dialog."
    // RFC 3261 12.1.2: "This state MUST be maintained for the duration of the dialog."
    pub(crate) texts: Texts,
    /// Our last CSeq number.
    pub(crate) cseq: u32,
    /// The CSeq number of the INVITE that was answered.
    pub(crate) invite_cseq: u32,
    /// The peer's last CSeq number, once there was one.
    pub(crate) remote_cseq: Option<u32>,
    /// Our INVITE's transaction, until it is over.
    pub(crate) invite_client: Option<ClientId>,
    /// Our BYE's transaction, until it is over.
    pub(crate) bye_client: Option<ClientId>,
    /// The transaction of the INVITE that came.
    pub(crate) invite_server: Option<ServerId>,
    /// The INVITE that came, until its final response needs it no more.
    pub(crate) invite: Option<Box<Message>>,
    /// What was in its body, where that was protected.
    pub(crate) opened: Option<Box<Opened>>,
    /// By which a merged INVITE finds this one.
    pub(crate) invite_hash: u64,
    pub(crate) timer: TimerId,
    /// Until the 2xx is sent again, or the provisional response.
    pub(crate) interval_ms: u64,
    /// When this side loses its patience.
    pub(crate) deadline_ms: u64,
    pub(crate) attempt: Attempt,
    /// Whether the request under way was challenged.
    pub(crate) was_challenged: bool,
    /// Whether the session description is the caller's own, kept in the texts.
    pub(crate) has_own_body: bool,
    /// Whether the application wants it to end as soon as that is possible.
    pub(crate) is_unwanted: bool,
    /// Whether the peer hung up too, while our BYE was under way.
    pub(crate) peer_hung_up: bool,
    /// Whether a 180 was sent, to be sent again every minute.
    pub(crate) has_rung: bool,
    /// Why it ends.
    pub(crate) cause: Option<crate::Cause>,
    /// Whether the application never heard of it: the dialog of a fork.
    pub(crate) is_fork: bool,
    /// Forks that were ended: a hash of the remote tag, and the call.
    pub(crate) forks: Vec<(u64, Key)>,
}

impl Call {
    /// The most forks of one INVITE that are acknowledged and ended.
    pub(crate) const FORKS_MAX: usize = 16;
}

impl Reset for Call {
    fn reset(&mut self) {
        let mut texts = std::mem::take(&mut self.texts);
        let mut forks = std::mem::take(&mut self.forks);
        texts.reset();
        forks.clear();
        *self = Self {
            next: NOBODY,
            previous: NOBODY,
            texts,
            forks,
            ..Self::default()
        };
    }
}
