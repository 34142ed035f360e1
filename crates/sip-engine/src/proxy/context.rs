//! Response contexts (RFC 3261 16.6): the request, its targets, a branch for
//! each copy that was forwarded, and the best response so far.

use std::sync::Arc;

use invariant::broken;
use sip_hook::Answer;
use sip_limit::concurrent;
use sip_locate::Hop;
use sip_media::EngineId;
use sip_msg::{Flow, Message, Method, Span, Target, Transport};
use sip_txn::{ClientId, ServerId};
use slots::Spares;
use smallvec::SmallVec;
use wheel::TimerId;

use super::lead::Divert;
use super::outcome::Outcome;
use super::route::Routed;
use super::ways::Beside;
use crate::effect::ParkId;
use crate::gateways::Place;
use crate::location::Binding;
use crate::media::ContextMedia;
use crate::people::Person;
use crate::records::{AskedTimer, Followed};
use crate::relay::{ChosenBy, Source};
use crate::routes::{Care, NextHop};
use crate::sender::Sender;
use crate::token::{self, Sides};
use crate::trunk::Trunk;
use crate::trunk::legs::Legs;

/// Names a context, and perhaps one of its branches, in a transaction's
/// `context` and in a timer: kind, slot, generation and branch in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

const KIND_CONTEXT: u64 = 1 << 62;
const KIND_PARKED: u64 = 2 << 62;
const KIND_PROBE: u64 = 3 << 62;
const KIND_MASK: u64 = 3 << 62;
/// Beside [`KIND_PROBE`], whose number has 32 bits.
const IS_KEEPALIVE: u64 = 1 << 61;
/// Of the same kind as a probe, but for this.
const IS_REGISTER: u64 = 1 << 32;
const SLOT_BITS: u32 = 24;
const GENERATION_BITS: u32 = 22;
const BRANCH_BITS: u32 = 16;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// To what a transaction belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A response context, and the branch where the transaction is a client's.
    Context(Key, u16),
    /// A request that waits for an answer.
    Parked(ParkId),
    /// A probe of a next hop, by its number.
    Probe(u32),
    /// A question to a phone whether it is there, by its number.
    KeepAlive(u32),
    /// A REGISTER to a provider, by its number.
    Register(u32),
    /// Nobody.
    Nobody,
}

impl Owner {
    pub(crate) fn encode(self) -> u64 {
        match self {
            Self::Context(key, branch) => {
                KIND_CONTEXT
                    | u64::from(key.slot) << (GENERATION_BITS + BRANCH_BITS)
                    | u64::from(key.generation & GENERATION_MASK) << BRANCH_BITS
                    | u64::from(branch)
            }
            Self::Parked(park) => KIND_PARKED | (park.0 & !KIND_MASK),
            Self::Probe(number) => KIND_PROBE | u64::from(number),
            Self::KeepAlive(number) => KIND_PROBE | IS_KEEPALIVE | u64::from(number),
            Self::Register(number) => KIND_PROBE | IS_REGISTER | u64::from(number),
            Self::Nobody => 0,
        }
    }

    pub(crate) fn decode(value: u64) -> Self {
        match value & KIND_MASK {
            KIND_CONTEXT => {
                let slot = (value >> (GENERATION_BITS + BRANCH_BITS)) & ((1 << SLOT_BITS) - 1);
                let generation = (value >> BRANCH_BITS) & u64::from(GENERATION_MASK);
                let branch = value & ((1 << BRANCH_BITS) - 1);
                Self::Context(
                    Key {
                        slot: slot as u32,
                        generation: generation as u32,
                    },
                    branch as u16,
                )
            }
            KIND_PARKED => Self::Parked(ParkId(value & !KIND_MASK)),
            KIND_PROBE if value & IS_KEEPALIVE != 0 => Self::KeepAlive(value as u32),
            KIND_PROBE if value & IS_REGISTER != 0 => Self::Register(value as u32),
            KIND_PROBE => Self::Probe(value as u32),
            _ => Self::Nobody,
        }
    }
}

/// What kind of target it is: how copies find their way to it.
#[derive(Clone, Debug)]
pub(crate) enum TargetKind {
    /// Where the request's own Route or Request-URI leads.
    Routed,
    /// The flow that a token in our Route names.
    Token(Flow),
    /// A contact of a user.
    Contact(Arc<Binding>),
    /// A URI of somebody elsewhere, to which an alias or a forward leads.
    Uri(Arc<[u8]>),
    /// Configured next hops, to be tried in order. Where a table rewrote the number,
    /// the Request-URI becomes `user` at the next hop.
    NextHops {
        hops: SmallVec<[NextHop; 1]>,
        at: u8,
        user: Option<Box<[u8]>>,
        care: Option<Arc<Care>>,
        trunk: Option<Arc<Trunk>>,
        beside: Option<Box<Beside>>,
    },
}

impl TargetKind {
    /// How the operator's next hops are cared for; `None` for other targets.
    pub(crate) fn care(&self) -> Option<&Care> {
        match self {
            Self::NextHops { care, .. } => Some(care.as_deref().unwrap_or(&Care::USUAL)),
            _ => None,
        }
    }
}

/// Next hops that one target may have, in all its groups: a `u8` counts them.
const HOPS_MAX: usize = 255;

fn has_next_group(beside: &Option<Box<Beside>>) -> bool {
    beside
        .as_ref()
        .is_some_and(|beside| !beside.next.is_empty())
}

/// How far a target has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Not begun.
    Waiting,
    /// Its addresses are being asked for.
    Resolving(ParkId),
    /// A media engine is being asked for the copy that goes there.
    Asking(ParkId),
    /// A branch is under way.
    Trying,
    /// A branch is under way, and nobody waits for it any more.
    GivenUp,
    /// Over.
    Done,
}

/// A member of the target set (RFC 3261 16.5).
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) kind: TargetKind,
    /// In thousandths; equals are tried in parallel.
    pub(crate) q: u16,
    pub(crate) progress: Progress,
    /// Where to try, in order, and how many of those were tried.
    pub(crate) hops: SmallVec<[Hop; 1]>,
    pub(crate) tried: u8,
    /// The share of Max-Breadth that it holds while it is under way.
    pub(crate) share: u32,
    /// How many gateways were put behind the others because they failed lately.
    pub(crate) passed_over: u8,
    /// Its transport was nobody's explicit wish: a long request may go over a
    /// stream instead.
    pub(crate) may_stream: bool,
    /// Its flow was gone: another flow of the same phone may be tried.
    pub(crate) is_flow_failed: bool,
    /// Why one of its addresses was not tried, which says more than that the others failed.
    pub(crate) refused: Option<Outcome>,
    /// What only few have.
    pub(crate) extra: Option<Box<Extra>>,
}

/// What a target has that was led on, or whose calls are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// The user on whose account it is, where that is not the caller's.
    pub(crate) payer: Option<Arc<Person>>,
    /// Header lines that are added to its copies.
    pub(crate) added: Vec<u8>,
    /// The Request-URI of its copies, where its kind does not say.
    pub(crate) uri: Option<Arc<[u8]>>,
    /// Whether it is an emergency number.
    pub(crate) is_emergency: bool,
    /// The places that it has taken among the calls of its group and of whoever pays.
    pub(crate) group_place: Option<Arc<concurrent::Place>>,
    pub(crate) payer_place: Option<Arc<concurrent::Place>>,
    /// Its place among the calls of one caller that whoever pays forwards, and that nobody has
    /// answered.
    pub(crate) forward_place: Option<Arc<concurrent::Place>>,
}

impl Candidate {
    pub(crate) fn new(kind: TargetKind, q: u16) -> Self {
        Self {
            kind,
            q,
            progress: Progress::Waiting,
            hops: SmallVec::new(),
            tried: 0,
            share: 0,
            passed_over: 0,
            may_stream: false,
            is_flow_failed: false,
            refused: None,
            extra: None,
        }
    }

    /// What only few have.
    pub(crate) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// The Request-URI of its copies, where its kind does not say.
    pub(crate) fn own_uri(&self) -> Option<&[u8]> {
        self.extra.as_ref()?.uri.as_deref()
    }

    /// The places that it has taken, for the call that comes of it.
    pub(crate) fn take_places(&mut self) -> Vec<Arc<concurrent::Place>> {
        let Some(extra) = &mut self.extra else {
            return Vec::new();
        };
        extra.forward_place = None;
        let places = [extra.group_place.take(), extra.payer_place.take()];
        places.into_iter().flatten().collect()
    }

    /// Goes on to the next gateway; `false` where none is left.
    pub(crate) fn next_gateway(&mut self) -> bool {
        let TargetKind::NextHops {
            hops,
            at,
            user,
            care,
            trunk,
            beside,
        } = &mut self.kind
        else {
            return false;
        };
        *at = at.saturating_add(1);
        let mut has_more = usize::from(*at) < hops.len();
        if !has_more
            && let Some(beside) = beside
            && let Some(next) = beside.next.pop()
            && hops.len() + next.hops.len() <= HOPS_MAX
        {
            // Those that were tried stay: branches name theirs by its place among them.
            *at = hops.len() as u8;
            hops.extend(next.hops);
            (*user, *care, *trunk) = (next.user, next.care, next.trunk);
            beside.limit = next.limit;
            has_more = true;
            self.passed_over = 0;
            if let Some(extra) = &mut self.extra {
                extra.group_place = None;
            }
        }
        self.hops.clear();
        self.tried = 0;
        has_more
    }

    /// Goes on to the next group of gateways; `false` where none is left.
    pub(crate) fn next_group(&mut self) -> bool {
        let TargetKind::NextHops { hops, at, .. } = &mut self.kind else {
            return false;
        };
        *at = hops.len().min(HOPS_MAX) as u8;
        self.next_gateway()
    }

    /// How long the next hop at hand may take to its first response to an INVITE that begins
    /// a call, before something is held against it: `None` for as long as the transaction
    /// takes, which is so for other targets, and for those of which there is but one.
    pub(crate) fn patience_ms(&self, request: &Message) -> Option<u64> {
        let TargetKind::NextHops { hops, beside, .. } = &self.kind else {
            return None;
        };
        let timeout_ms = self.kind.care()?.timeout_ms;
        let has_others = hops.len() > 1 || self.hops.len() > 1 || has_next_group(beside);
        let counts = timeout_ms > 0 && has_others && request.to_tag().is_none();
        counts.then_some(timeout_ms)
    }

    /// Whether there is another way than the next hop at hand, which is `here`. What is passed
    /// over is none, but for one that would be passed over itself.
    pub(crate) fn has_other_way(&self, here: Place, is_out: impl Fn(Place) -> bool) -> bool {
        let TargetKind::NextHops {
            hops, at, beside, ..
        } = &self.kind
        else {
            return false;
        };
        if has_next_group(beside) {
            return true;
        }
        let left = hops.len().saturating_sub(usize::from(*at) + 1);
        let mut addresses = self.hops.iter().skip(usize::from(self.tried));
        match is_out(here) {
            true => left > 0 || addresses.next().is_some(),
            false => {
                left > usize::from(self.passed_over)
                    || addresses.any(|hop| !is_out((hop.transport, hop.addr)))
            }
        }
    }

    /// Whether the datagram is still to be tried, in the case that the stream
    /// which was chosen for a long request fails.
    pub(crate) fn has_datagram_left(&self) -> bool {
        let next = self.hops.get(usize::from(self.tried));
        self.may_stream && next.is_some_and(|hop| hop.transport == Transport::Udp)
    }
}

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
    /// Whether a provisional response came.
    pub(crate) is_ringing: bool,
    /// Whether one was passed to the caller: he hears it ring, or more.
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
            is_ringing: false,
            is_told: false,
            is_accepted: false,
            is_awaited: false,
            is_left: false,
            timer_c: TimerId::NONE,
            timer_c_ms: 0,
        }
    }
}

/// The best final response so far (RFC 3261 16.7 step 6).
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
    pub(crate) best: Best,
    pub(crate) is_final_sent: bool,
    /// No new branches: cancelled, or a 6xx came.
    pub(crate) is_closed: bool,
    pub(crate) is_cancelled: bool,
    pub(crate) serial_timer: TimerId,
    /// The record of the call that it begins, until that was answered.
    pub(crate) record: Option<Followed>,
    /// What is written of the user who calls.
    pub(crate) caller: Option<Arc<Person>>,
    /// The user whose forwards count, where his phones do not take the call.
    pub(crate) divert: Option<Box<Divert>>,
    /// Whether the phones that were tried first are given up for good.
    pub(crate) has_diverted: bool,
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
    /// The memory of `request`, `best`, `record` and `media`, as it was when they came.
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
            identity: None,
            is_in_dialog: false,
            is_listed: false,
            speaks_for_dialog: false,
            breadth_left: 0,
            candidates: Vec::new(),
            branches: SmallVec::new(),
            best: Best::default(),
            is_final_sent: false,
            is_closed: false,
            is_cancelled: false,
            serial_timer: TimerId::NONE,
            record: None,
            caller: None,
            divert: None,
            has_diverted: false,
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
    pub(crate) fn led_by(&self) -> Option<EngineId> {
        let (legs, media) = (self.legs.as_ref()?, self.media.as_ref()?);
        media.engine_of(self.branches.get(legs.answering())?.candidate)
    }

    /// Whether any target is on the account of a user who was called, and who chose it.
    pub(crate) fn is_on_others_account(&self) -> bool {
        let mut extras = self.candidates.iter().filter_map(|of| of.extra.as_ref());
        extras.any(|extra| extra.payer.is_some())
    }

    /// Whether an emergency number is called.
    pub(crate) fn is_emergency(&self) -> bool {
        let mut extras = self.candidates.iter().filter_map(|of| of.extra.as_ref());
        extras.any(|extra| extra.is_emergency)
    }

    /// Counts the memory of its messages, and of its record: to be called when one of them has
    /// come.
    pub(crate) fn count_messages(&mut self) {
        let messages = self.request.iter().chain(&self.best.response);
        let messages: usize = messages.map(|message| message.held_bytes()).sum();
        let record = self.record.as_ref().map_or(0, |record| record.held_bytes());
        let media = self.media.as_ref().map_or(0, |media| media.held_bytes());
        self.messages_bytes = messages + record + media + lines_of(self.told.as_ref()).len();
    }

    /// Forgets everything and keeps the memory; messages are given to `spare`.
    fn reset(&mut self, pool: &mut sip_msg::Pool) {
        self.server = None;
        self.sender.peer = None;
        self.back = None;
        self.strip.clear();
        self.candidates.clear();
        self.branches.clear();
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
        self.has_diverted = false;
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
        self.best.challenges.clear();
        self.told = None;
        self.messages_bytes = 0;
        if let Some(media) = &mut self.media {
            media.forget_offers();
            self.messages_bytes = media.held_bytes();
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

/// All contexts of a shard. Contexts and their memory are used again.
#[derive(Default)]
pub(crate) struct Contexts {
    slots: Vec<Slot>,
    free: Vec<u32>,
    // Boxed: a context goes in and out by its pointer.
    spare: Spares<Box<Context>>,
    /// Target sets of contexts that need them no more.
    target_sets: Spares<Vec<Candidate>>,
    live: usize,
    /// The memory of the messages of those in the table.
    messages_bytes: usize,
}

struct Slot {
    generation: u32,
    context: Option<Box<Context>>,
}

impl Contexts {
    /// Those whose final response is still to come. Looks at every slot.
    pub(crate) fn unanswered(&self) -> usize {
        let contexts = self.slots.iter().filter_map(|slot| slot.context.as_ref());
        contexts.filter(|context| !context.is_final_sent).count()
    }

    /// Takes the records of the calls in it. Looks at every slot.
    pub(crate) fn take_records(&mut self) -> impl Iterator<Item = Followed> {
        let contexts = self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.context.as_mut());
        contexts.filter_map(|context| context.record.take())
    }

    /// A context that is not in the table yet; [`Contexts::put`] puts it there.
    /// `None` when `max` are live.
    pub(crate) fn open(&mut self, max: usize) -> Option<(Key, Box<Context>)> {
        if self.live >= max.min(1 << SLOT_BITS) {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                // Below `1 << SLOT_BITS`.
                let slot = self.slots.len() as u32;
                self.slots.push(Slot {
                    generation: 0,
                    context: None,
                });
                slot
            }
        };
        let Some(generation) = self.slots.get(slot as usize).map(|slot| slot.generation) else {
            return broken!("a free slot is one of the table's", None);
        };
        self.live += 1;
        let mut context = self.spare.pop().unwrap_or_else(|| Box::new(Context::new()));
        if context.candidates.capacity() == 0
            && let Some(target_set) = self.target_sets.pop()
        {
            context.candidates = target_set;
        }
        Some((Key { slot, generation }, context))
    }

    /// Takes a context out, to work on it.
    pub(crate) fn take(&mut self, key: Key) -> Option<Box<Context>> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let context = slot.context.take()?;
        self.messages_bytes -= context.messages_bytes;
        Some(context)
    }

    /// Puts a context back, or in.
    pub(crate) fn put(&mut self, key: Key, context: Box<Context>) {
        let Some(slot) = self.slots.get_mut(key.slot as usize) else {
            return broken!("a context that was opened has its slot");
        };
        if slot.context.is_some() {
            broken!("a context was taken out to be put back");
        }
        self.messages_bytes += context.messages_bytes;
        slot.context = Some(context);
    }

    /// Ends a context that was taken out.
    pub(crate) fn close(&mut self, key: Key, mut context: Box<Context>, pool: &mut sip_msg::Pool) {
        context.reset(pool);
        self.spare.push(context);
        let Some(slot) = self.slots.get_mut(key.slot as usize) else {
            return broken!("a context that was opened has its slot");
        };
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(key.slot);
        self.live -= 1;
    }

    /// Takes a target set that is not needed any more: contexts that only wait
    /// for repetitions are many, and should be small.
    pub(crate) fn keep_target_set(&mut self, context: &mut Context) {
        let mut target_set = std::mem::take(&mut context.candidates);
        target_set.clear();
        self.target_sets.push(target_set);
    }

    /// How many are live.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The memory of the contexts, those to be used again among them, and of
    /// the messages that they keep.
    pub(crate) fn held_bytes(&self) -> usize {
        let contexts = self.live + self.spare.len();
        contexts * size_of::<Context>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.target_sets.len() * size_of::<Candidate>()
            + self.messages_bytes
    }

    /// Gives back memory that nothing has needed since the last call.
    pub(crate) fn trim(&mut self) {
        self.spare.trim(|_| {});
        self.target_sets.trim(|_| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_survive_their_coding() {
        for owner in [
            Owner::Nobody,
            Owner::Parked(ParkId(0)),
            Owner::Parked(ParkId((1 << 62) - 1)),
            Owner::Probe(0),
            Owner::Probe(u32::MAX),
            Owner::KeepAlive(0),
            Owner::KeepAlive(u32::MAX),
            Owner::Register(0),
            Owner::Register(u32::MAX),
            Owner::Context(
                Key {
                    slot: (1 << SLOT_BITS) - 1,
                    generation: GENERATION_MASK,
                },
                u16::MAX,
            ),
            Owner::Context(
                Key {
                    slot: 0,
                    generation: 0,
                },
                0,
            ),
        ] {
            assert_eq!(Owner::decode(owner.encode()), owner);
        }
    }

    #[test]
    fn a_stale_key_finds_nobody_and_a_bound_holds() {
        let mut pool = sip_msg::Pool::default();
        let mut contexts = Contexts::default();
        let (first, context) = contexts.open(1).unwrap();
        contexts.put(first, context);
        assert!(contexts.open(1).is_none());
        let context = contexts.take(first).unwrap();
        assert!(contexts.take(first).is_none());
        contexts.close(first, context, &mut pool);
        assert_eq!(contexts.len(), 0);
        let (second, context) = contexts.open(1).unwrap();
        contexts.put(second, context);
        assert_eq!(first.slot, second.slot);
        assert!(contexts.take(first).is_none());
        assert!(contexts.take(second).is_some());
    }
}
