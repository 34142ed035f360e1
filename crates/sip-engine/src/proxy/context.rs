//! Response contexts (RFC 3261 16.6): the request, its targets, a branch for
//! each copy that was forwarded, and the best response so far.

mod candidate;
mod owner;
mod table;

use std::sync::Arc;

use sip_hook::Answer;
use sip_msg::{Flow, HeaderName, Message, Method, Span, Target};
use sip_txn::{ClientId, ServerId};
use smallvec::SmallVec;
use wheel::TimerId;

use super::outcome::Outcome;
use super::retarget::Divert;
use super::route::Routed;
use crate::calls::End;
use crate::media::ContextMedia;
use crate::people::Person;
use crate::records::{AskedTimer, Followed, Fork};
use crate::relay::{ChosenBy, Source};
use crate::sender::Sender;
use crate::token::{self, Led, Sides};
use crate::trunk::legs::Legs;

pub(crate) use candidate::{Candidate, Progress, TargetKind};
pub(crate) use owner::{Key, Owner};
pub(crate) use table::Contexts;

/// A copy that was forwarded, and its client transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    pub(crate) client: ClientId,
    pub(crate) candidate: u16,
    /// Where it was sent, and its responses come from.
    pub(crate) answerer: Source,
    /// Whether its transaction is still there.
    pub(crate) is_live: bool,
    /// Whether a final response, or what stands for one, is still to come.
    pub(crate) is_pending: bool,
    /// Which of its target's next hops it went to.
    pub(crate) hop: u8,
    /// Whether a response came.
    pub(crate) is_heard: bool,
    /// Whether a provisional one was passed to the caller: he hears it ring, or more.
    pub(crate) is_told: bool,
    /// Whether a 2xx to its INVITE came: it may come again.
    pub(crate) is_accepted: bool,
    /// Whether timer C stands for the time that its first response may take, which is shorter.
    pub(crate) is_awaited: bool,
    /// Whether nobody waits for it any more, because its first response did not come in
    /// time: another has its place, and still a 2xx of its would be the caller's.
    pub(crate) is_left: bool,
    pub(crate) timer_c: TimerId,
    /// When timer C is really due: it is set back far more often than it fires.
    pub(crate) timer_c_ms: u64,
}

impl Branch {
    pub(crate) const fn new(client: ClientId, candidate: u16, answerer: Source) -> Self {
        Self {
            client,
            candidate,
            answerer,
            is_live: true,
            is_pending: true,
            hop: 0,
            is_heard: false,
            is_told: false,
            is_accepted: false,
            is_awaited: false,
            is_left: false,
            timer_c: TimerId::NONE,
            timer_c_ms: 0,
        }
    }
}

/// The best final response so far (RFC 3261 16.7 step 6), and the challenges of the others
/// (step 7).
#[derive(Default)]
pub(crate) struct Best {
    /// Lower is better; 0 where there is none.
    pub(crate) rank: u8,
    pub(crate) status: u16,
    /// Why, where the response is this proxy's own.
    pub(crate) outcome: Option<Outcome>,
    /// `None` where the response is this proxy's own.
    pub(crate) response: Option<Box<Message>>,
    /// The challenges of other 401 and 407 responses, as header lines.
    pub(crate) challenges: Vec<u8>,
}

/// The most that is kept of the challenges of other responses.
const CHALLENGES_BYTES_MAX: usize = 16 << 10;
/// The most that a response and the challenges of others may have together: a datagram takes
/// 65,507 bytes, and room is left for what else is added upstream.
const RESPONSE_BYTES_MAX: usize = 60 << 10;

impl Best {
    /// Takes another response, or none, as the best. Returns the one before, and whether the
    /// challenges of others still have room beside it; else they are left out.
    pub(crate) fn choose(
        &mut self,
        response: Option<Box<Message>>,
    ) -> (Option<Box<Message>>, bool) {
        let old = std::mem::replace(&mut self.response, response);
        let has_room = self.challenges.len() <= self.room();
        if !has_room {
            self.challenges = Vec::new();
        }
        (old, has_room)
    }

    /// How many bytes of others' challenges there may be.
    fn room(&self) -> usize {
        let chosen = self.response.as_ref();
        let chosen_bytes = chosen.map_or(0, |response| response.bytes().len());
        let room = RESPONSE_BYTES_MAX.saturating_sub(chosen_bytes);
        room.min(CHALLENGES_BYTES_MAX)
    }

    /// Keeps the challenges of another response, as far as there is room. Returns whether there
    /// was room for all.
    // RFC 3261 22.3: "Each WWW-Authenticate and Proxy-Authenticate value received in responses to
    // the forked request MUST be placed into the single response that is sent by the forking
    // proxy to the UA; the ordering of these header field values is not significant."
    // RFC 3261 22.3: "All 407 (Proxy Authentication Required) responses MUST be forwarded upstream
    // toward the UAC following the procedures for any other response."
    pub(crate) fn collect(&mut self, other: &Message) -> bool {
        let room = self.room();
        let mut are_all_kept = true;
        for name in [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate] {
            for field in other.fields_of(name) {
                let line = other.slice(field.line_span);
                match self.challenges.len() + line.len() <= room {
                    true => self.challenges.extend_from_slice(line),
                    false => are_all_kept = false,
                }
            }
        }
        are_all_kept
    }
}

/// What the responses to a request must have in common with it: a hash of
/// Call-ID, From and To, with To's tag where `has_tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) hash: u64,
    pub(crate) has_tag: bool,
}

impl Identity {
    /// That of a request.
    pub(crate) fn new(key: &[u8; 16], request: &Message, has_tag: bool) -> Option<Self> {
        let hash = token::hash_identity(key, &Sides::of(request)?, has_tag)?;
        Some(Self { hash, has_tag })
    }

    /// Whether a response says of itself what its request said: its branch
    /// alone is not enough, since who answers writes the rest.
    pub(crate) fn is_of(self, key: &[u8; 16], response: &Sides<'_>) -> bool {
        token::hash_identity(key, response, self.has_tag) == Some(self.hash)
    }
}

/// A response context.
pub(crate) struct Context {
    pub(crate) server: Option<ServerId>,
    pub(crate) sender: Sender,
    /// Where responses go when the server transaction is gone.
    pub(crate) back: Option<Target>,
    pub(crate) method: Method,
    /// Given up as soon as the final response was forwarded.
    pub(crate) request: Option<Box<Message>>,
    pub(crate) routed: Routed,
    pub(crate) loop_hash: u64,
    /// Header lines of the request that are not forwarded.
    pub(crate) strip: Vec<Span>,
    /// Who chose its destination.
    pub(crate) chosen_by: ChosenBy,
    /// Whether its sender is known to be where it came from.
    pub(crate) is_known: bool,
    /// What responses must have in common with the request, where that counts.
    pub(crate) identity: Option<Identity>,
    /// Whether the request is one of a dialog whose token it bears.
    pub(crate) is_in_dialog: bool,
    /// Whether it came from a listed peer: who that is, its connection has shown.
    pub(crate) is_listed: bool,
    /// Whether what it says of a dialog counts for that dialog's record.
    pub(crate) speaks_for_dialog: bool,
    /// Max-Breadth that is not given to a branch.
    pub(crate) breadth_left: u32,
    pub(crate) candidates: Vec<Candidate>,
    // Most have one: room for another would lie in every context, cold.
    pub(crate) branches: SmallVec<[Branch; 1]>,
    /// The branch of the first 2xx.
    pub(crate) taken_by: Option<usize>,
    pub(crate) best: Best,
    pub(crate) is_final_sent: bool,
    /// No new branches: cancelled, or a 6xx came.
    pub(crate) is_closed: bool,
    pub(crate) is_cancelled: bool,
    pub(crate) serial_timer: TimerId,
    /// The record of the call that it begins, until that was answered.
    pub(crate) record: Option<Followed>,
    /// What another call is followed by, as long as others may take it after the final response.
    pub(crate) fork: Option<Box<Fork>>,
    /// What is written of the user who calls.
    pub(crate) caller: Option<Arc<Person>>,
    /// The user whose forwards count, where his phones do not take the call.
    pub(crate) divert: Option<Box<Divert>>,
    /// Whether it is a call that counts against limits: an INVITE that is let in by itself, and not
    /// as part of a dialog. A Route of ours proves no dialog.
    pub(crate) is_counted: bool,
    /// Header lines that say who calls, and that only trusted neighbours may see.
    pub(crate) hidden: Vec<Span>,
    /// The session timer that its copies ask for.
    pub(crate) session: Option<AskedTimer>,
    /// The operator's hook, where it has header lines for its copies.
    pub(crate) told: Option<Arc<Answer>>,
    /// What is kept of copies that go by a trunk.
    pub(crate) legs: Option<Box<Legs>>,
    /// Its media, where an engine leads it.
    pub(crate) media: Option<Box<ContextMedia>>,
    /// The memory of `request`, `best` with its challenges, `record`, `fork` and `media`, as it was
    /// when they came.
    messages_bytes: usize,
}

/// The header lines that the operator's hook adds to copies of a request; empty for none.
pub(crate) fn lines_of(told: Option<&Arc<Answer>>) -> &[u8] {
    told.map_or(&[], |answer| answer.headers().lines())
}

impl Context {
    /// Where the responses to a branch come from.
    pub(crate) fn answerer(&self, branch: usize) -> Option<Source> {
        self.branches.get(branch).map(|branch| branch.answerer)
    }

    /// Whether the final answer is that of who is there: who has taken the request or, where
    /// nobody has, all to whom it went.
    pub(crate) fn is_answered_from(&self, end: End) -> bool {
        let mut ends = self.branches.iter().map(|branch| branch.answerer.end());
        match self.taken_by {
            Some(number) => ends.nth(number) == Some(end),
            None => !self.branches.is_empty() && ends.all(|other| other == end),
        }
    }

    /// Whether somebody to whom it went, and who has said nothing final, may take it yet.
    pub(crate) fn may_be_taken(&self) -> bool {
        let mut branches = self.branches.iter();
        branches.any(|branch| branch.is_pending || (branch.is_live && branch.is_left))
    }

    /// Forgets what another call would be followed by, once nobody is left to take it.
    pub(crate) fn forget_fork(&mut self) {
        if self.fork.is_some() && !self.may_be_taken() {
            self.fork = None;
            self.count_messages();
        }
    }

    fn new() -> Self {
        let nowhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        Self {
            server: None,
            sender: Sender::unproved(Flow {
                transport: sip_msg::Transport::Udp,
                listener: sip_msg::ListenerId(0),
                local: nowhere,
                remote: nowhere,
                conn: sip_msg::ConnId::NONE,
            }),
            back: None,
            method: Method::Other,
            request: None,
            routed: Routed::default(),
            loop_hash: 0,
            strip: Vec::new(),
            chosen_by: ChosenBy::User,
            is_known: false,
            identity: None,
            is_in_dialog: false,
            is_listed: false,
            speaks_for_dialog: false,
            breadth_left: 0,
            candidates: Vec::new(),
            branches: SmallVec::new(),
            taken_by: None,
            best: Best::default(),
            is_final_sent: false,
            is_closed: false,
            is_cancelled: false,
            serial_timer: TimerId::NONE,
            record: None,
            fork: None,
            caller: None,
            divert: None,
            is_counted: false,
            hidden: Vec::new(),
            session: None,
            told: None,
            legs: None,
            media: None,
            messages_bytes: 0,
        }
    }

    /// The number that a copy for that target may show as its caller's: that of the user on whose
    /// account it is.
    pub(crate) fn caller_id(&self, at: usize) -> Option<&Arc<str>> {
        let extra = self.candidates.get(at).and_then(|of| of.extra.as_ref());
        let payer = extra.and_then(|extra| extra.payer.as_ref());
        payer.or(self.caller.as_ref())?.caller_id.as_ref()
    }

    /// The engine that leads the media of the dialog to which the response at hand belongs, where
    /// that is a leg to a provider: of others the offer says it, which is signed for what their
    /// responses say.
    pub(crate) fn led_by(&self) -> Option<Led> {
        let (legs, media) = (self.legs.as_ref()?, self.media.as_ref()?);
        media.led(self.branches.get(legs.answering())?.candidate)
    }

    /// Whether any target is on the account of a user who was called, and who chose it.
    pub(crate) fn is_on_others_account(&self) -> bool {
        let mut extras = self.candidates.iter().filter_map(|of| of.extra.as_ref());
        extras.any(|extra| extra.payer.is_some())
    }

    /// Whether an emergency number is called.
    pub(crate) fn is_emergency(&self) -> bool {
        self.candidates.iter().any(Candidate::is_emergency)
    }

    /// Counts the memory of its messages, and of its record: to be called when one of them has
    /// come.
    pub(crate) fn count_messages(&mut self) {
        let messages = self.request.iter().chain(&self.best.response);
        let messages: usize = messages.map(|message| message.held_bytes()).sum();
        let record = self.record.as_ref().map_or(0, |record| record.held_bytes());
        let fork = self.fork.as_ref().map_or(0, |fork| fork.held_bytes());
        let media = self.media.as_ref().map_or(0, |media| media.held_bytes());
        self.messages_bytes = messages
            + self.best.challenges.capacity()
            + record
            + fork
            + media
            + lines_of(self.told.as_ref()).len();
    }

    /// Forgets everything and keeps the memory; messages are given to `spare`.
    fn reset(&mut self, pool: &mut sip_msg::Pool) {
        self.server = None;
        self.sender.peer = None;
        self.back = None;
        self.strip.clear();
        self.candidates.clear();
        self.branches.clear();
        self.taken_by = None;
        self.fork = None;
        self.forget_messages(pool);
        self.best.rank = 0;
        self.best.status = 0;
        self.best.outcome = None;
        self.is_final_sent = false;
        self.is_closed = false;
        self.is_cancelled = false;
        self.serial_timer = TimerId::NONE;
        self.record = None;
        self.caller = None;
        self.divert = None;
        self.is_counted = false;
        self.hidden.clear();
        self.session = None;
        self.told = None;
        self.legs = None;
        self.media = None;
    }

    /// Gives the big buffers back: after the final response nobody needs them.
    pub(crate) fn forget_messages(&mut self, pool: &mut sip_msg::Pool) {
        for message in [self.request.take(), self.best.response.take()]
            .into_iter()
            .flatten()
        {
            pool.recycle(message);
        }
        self.best.challenges = Vec::new();
        self.told = None;
        self.messages_bytes = self.fork.as_ref().map_or(0, |fork| fork.held_bytes());
        if let Some(media) = &mut self.media {
            media.forget_offers();
            self.messages_bytes += media.held_bytes();
        }
    }

    /// Whether some branch may still bring a final response.
    pub(crate) fn is_waiting(&self) -> bool {
        self.branches.iter().any(|b| b.is_pending)
            || self
                .candidates
                .iter()
                .any(|c| matches!(c.progress, Progress::Resolving(_) | Progress::Asking(_)))
    }

    // RFC 3261 16.7: "The proxy MUST maintain the response context until all of its
    // associated transactions have been terminated, even after forwarding a final
    // response." Maintained is what can still make a difference: once every branch has
    // its final response, that is a 2xx to an INVITE, which may come again, or for the first
    // time from who was left. All else the transactions absorb by themselves.
    /// Whether nothing is left to come.
    pub(crate) fn is_over(&self) -> bool {
        self.is_final_sent
            && !self.is_waiting()
            && !self
                .branches
                .iter()
                .any(|b| b.is_live && (b.is_accepted || b.is_left))
    }
}
