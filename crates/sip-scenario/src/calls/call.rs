//! One call.

use std::net::SocketAddr;

use sip_msg::Target;
use wheel::TimerId;

use crate::settings::Behaviors;
use crate::stats::Counter;
use crate::value::Value;

use super::credentials::Challenge;

/// A timer: of which call, and which of its timers it was when it was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) slot: u32,
    pub(super) serial: u32,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Waits {
    #[default]
    Nothing,
    Message,
    Pause,
    /// The answer to what is being sent again: nothing else is sent before.
    Answer,
    /// Its next turn: it sent as much at once as a call may.
    Turn,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Waits,
    Succeeded,
    Failed(Counter),
    /// Failed by a BYE or a CANCEL that no step expects.
    HungUp,
    /// Failed because the scenario wants it so: nobody is told.
    Stopped,
    /// Failed because the other instance says so.
    Aborted,
    /// Neither: the run was ended under it.
    Gone,
}

impl Verdict {
    /// Whether late messages of the call are known as its own. As in SIPp, not where
    /// nothing was done to end it: such messages begin a call as those of any other do.
    pub(super) fn is_remembered(self, behaviors: Behaviors) -> bool {
        match self {
            Self::Failed(_) | Self::Aborted => behaviors.bye,
            Self::HungUp | Self::Stopped => false,
            Self::Waits | Self::Succeeded | Self::Gone => true,
        }
    }
}

/// A timer that may be running.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alarm {
    pub(super) id: TimerId,
    /// 0: it does not run.
    pub(super) serial: u32,
}

/// What is sent again until it is answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Resending {
    pub(super) alarm: Alarm,
    pub(super) delay_ms: u64,
    pub(super) count: u32,
    pub(super) is_invite: bool,
    pub(super) step: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Txn {
    /// The branch of its request.
    pub(super) branch: Vec<u8>,
    /// The step of its ACK, once it was sent.
    pub(super) ack_step: Option<u32>,
    /// The hash of its last response; 0 before that.
    pub(super) response_hash: u64,
}

#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) live: bool,
    pub(super) slot: u32,
    pub(super) cookie: u64,
    pub(super) number: u64,
    pub(super) id: Vec<u8>,
    pub(super) id_hash: u64,
    pub(super) target: Target0,
    /// Its own address, where it has one.
    pub(super) local: Option<SocketAddr>,
    /// The place among the calls of its connection.
    pub(super) conn_place: usize,
    pub(super) step: u32,
    pub(super) waits: Waits,
    /// Steps made since it last waited for something else than its turn.
    pub(super) steps_made: usize,
    /// Where it goes on behind its pause, if the pause's actions said so.
    pub(super) jumps_to: Option<u32>,
    /// What an action found wrong: a call that goes through its scenario failed all the same.
    pub(super) failure: Option<Counter>,
    pub(super) alarm: Alarm,
    pub(super) resending: Resending,
    pub(super) cseq: u32,
    /// Whether the last request sent is an INVITE, and no ACK came or went.
    pub(super) is_inviting: bool,
    /// Whether an ACK is owed for a 2xx.
    pub(super) owes_ack: bool,
    /// Whether one was sent that was owed.
    pub(super) is_confirmed: bool,
    /// The message that began it, until a step waits for one.
    pub(super) first_received: Vec<u8>,
    pub(super) last_received: Vec<u8>,
    pub(super) last_sent: Vec<u8>,
    pub(super) last_sent_step: u32,
    /// The hash of the message that the last one sent answers; 0 for none.
    pub(super) answered_hash: u64,
    pub(super) answered_step: u32,
    /// The hash of the last message received, until something is sent.
    pub(super) seen_hash: u64,
    pub(super) seen_step: u32,
    pub(super) peer_tag: Vec<u8>,
    pub(super) routes: Vec<u8>,
    pub(super) next_url: Vec<u8>,
    pub(super) challenge: Option<Box<Challenge>>,
    pub(super) txns: Vec<Txn>,
    pub(super) variables: Vec<Value>,
    pub(super) user: Option<u32>,
    /// The line of each injection file.
    pub(super) lines: Vec<u64>,
    pub(super) started_ns: u64,
    pub(super) rtd_started_ns: Vec<u64>,
    /// Response times that were taken, as bits.
    pub(super) rtd_done: u64,
}

/// A target that has a default.
#[derive(Clone, Debug)]
pub(super) struct Target0(pub(super) Target);

impl Default for Target0 {
    fn default() -> Self {
        Self(Target {
            transport: sip_msg::Transport::Udp,
            listener: sip_msg::ListenerId(0),
            remote: std::net::SocketAddr::from(([0, 0, 0, 0], 0)),
            conn: sip_msg::ConnId::NONE,
            may_open: false,
            tls_name: None,
            lane: sip_msg::Lane::Shared,
            local: None,
        })
    }
}

impl std::ops::Deref for Target0 {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.0
    }
}

impl std::ops::DerefMut for Target0 {
    fn deref_mut(&mut self) -> &mut Target {
        &mut self.0
    }
}

impl Call {
    /// Makes it new, with the memory that it has.
    pub(super) fn reset(&mut self, target: Target) {
        self.live = true;
        self.target = Target0(target);
        self.local = None;
        self.step = 0;
        self.waits = Waits::Nothing;
        self.steps_made = 0;
        self.jumps_to = None;
        self.failure = None;
        self.alarm = Alarm::default();
        self.resending = Resending::default();
        self.is_inviting = false;
        self.owes_ack = false;
        self.is_confirmed = false;
        self.answered_hash = 0;
        self.seen_hash = 0;
        self.challenge = None;
        self.user = None;
        self.rtd_done = 0;
        for memory in [
            &mut self.id,
            &mut self.first_received,
            &mut self.last_received,
            &mut self.last_sent,
            &mut self.peer_tag,
            &mut self.routes,
            &mut self.next_url,
        ] {
            memory.clear();
        }
        for txn in &mut self.txns {
            txn.branch.clear();
            txn.ack_step = None;
            txn.response_hash = 0;
        }
        self.lines.clear();
        self.rtd_started_ns.clear();
    }
}
