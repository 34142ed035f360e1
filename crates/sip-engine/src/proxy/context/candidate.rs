//! The target set (RFC 3261 16.5): what kind each target is, how far it has got, and where to
//! go on.

use std::net::SocketAddr;
use std::sync::Arc;

use invariant::broken;
use sip_limit::concurrent;
use sip_locate::Hop;
use sip_msg::{Flow, Message};
use smallvec::SmallVec;

use crate::effect::ParkId;
use crate::gateways::GatewayAddress;
use crate::location::Binding;
use crate::people::Person;
use crate::proxy::groups::Beside;
use crate::proxy::outcome::Outcome;
use crate::routes::{Care, NextHop};
use crate::trunk::Trunk;

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
        /// The name of the group that the one at hand is of; `None` where it is of none.
        group: Option<Arc<str>>,
        beside: Option<Box<Beside>>,
    },
}

impl TargetKind {
    /// When the next of the operator's next hops is tried, and how they are watched; `None` for
    /// other targets.
    pub(crate) fn care(&self) -> Option<&Care> {
        match self {
            Self::NextHops { care, .. } => Some(care.as_deref().unwrap_or(&Care::USUAL)),
            _ => None,
        }
    }

    /// The name of the group that a next hop is of, by its place among them. A gateway may be in
    /// several groups: it is the one by which it was found.
    pub(crate) fn group_of(&self, hop: u8) -> Option<&str> {
        let Self::NextHops { group, beside, .. } = self else {
            return None;
        };
        let mut left = beside.iter().flat_map(|beside| &beside.left);
        let left = left.find(|(end, _)| hop < *end);
        let name = left.map(|(_, name)| name).or(group.as_ref());
        name.map(|name| &**name)
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
    /// A stream was chosen for the hop that was tried last: its datagram is sent if there is none.
    pub(crate) has_datagram: bool,
    /// Nothing came of its flow: another flow of the same phone may be tried.
    pub(crate) is_flow_failed: bool,
    /// Why one of its addresses was not tried, which says more than that the others failed.
    pub(crate) refused: Option<Outcome>,
    /// What only few have.
    pub(crate) extra: Option<Box<Extra>>,
}

/// What a target has that was retargeted, or whose calls are counted.
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
    pub(crate) group_place: Option<Arc<concurrent::CountedCall>>,
    pub(crate) payer_place: Option<Arc<concurrent::CountedCall>>,
    /// Its places among the calls that whoever pays forwards, and that nobody has answered: of
    /// one caller, and of all.
    pub(crate) forward_places: Option<Arc<[concurrent::CountedCall; 2]>>,
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
            has_datagram: false,
            is_flow_failed: false,
            refused: None,
            extra: None,
        }
    }

    /// What only few have.
    pub(crate) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Whether it is an emergency number.
    pub(crate) fn is_emergency(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.is_emergency)
    }

    /// The Request-URI of its copies, where its kind does not say.
    pub(crate) fn own_uri(&self) -> Option<&[u8]> {
        self.extra.as_ref()?.uri.as_deref()
    }

    /// The places that it has taken, for the call that comes of it.
    pub(crate) fn take_places(&mut self) -> Vec<Arc<concurrent::CountedCall>> {
        let Some(extra) = &mut self.extra else {
            return Vec::new();
        };
        extra.forward_places = None;
        let places = [extra.group_place.take(), extra.payer_place.take()];
        places.into_iter().flatten().collect()
    }

    /// Whether it has taken any.
    pub(crate) fn has_places(&self) -> bool {
        let extra = self.extra.as_ref();
        extra.is_some_and(|extra| extra.group_place.is_some() || extra.payer_place.is_some())
    }

    /// Goes on to the next gateway; `false` where none is left.
    pub(crate) fn next_gateway(&mut self) -> bool {
        let TargetKind::NextHops {
            hops,
            at,
            user,
            care,
            trunk,
            group,
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
            if let Some(name) = group.replace(next.group) {
                beside.left.push((*at, name));
            }
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
    pub(crate) fn has_other_way(
        &self,
        here: GatewayAddress,
        is_out: impl Fn(GatewayAddress) -> bool,
    ) -> bool {
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

    /// The datagram that is sent because there was no stream for a long request.
    pub(crate) fn take_datagram(&mut self) -> Option<Hop> {
        if !std::mem::take(&mut self.has_datagram) {
            return None;
        }
        let hop = self.tried().last();
        hop.cloned()
            .or_else(|| broken!("a stream is chosen for a hop that is tried", None))
    }

    /// Whether such a hop was tried before the one at hand.
    pub(crate) fn has_tried(&self, is_one: impl Fn(&Hop) -> bool) -> bool {
        let before = self.tried().split_last().map(|(_, before)| before);
        before.is_some_and(|before| before.iter().any(is_one))
    }

    /// Leaves such hops out of those that are still to be tried.
    pub(crate) fn leave_out(&mut self, is_one: impl Fn(&Hop) -> bool) {
        let mut tried = usize::from(self.tried);
        self.hops.retain(|hop| {
            let is_tried = tried > 0;
            tried = tried.saturating_sub(1);
            is_tried || !is_one(hop)
        });
    }

    /// The server at that address has answered, and serves nobody at the moment: it is not asked
    /// by another way.
    // RFC 3261 21.5.4: "It SHOULD NOT forward any other requests to that server for the
    // duration specified in the Retry-After header field, if present."
    pub(crate) fn leave_server(&mut self, addr: SocketAddr) {
        self.has_datagram = false;
        self.leave_out(|hop| hop.addr == addr);
    }

    fn tried(&self) -> &[Hop] {
        self.hops.get(..usize::from(self.tried)).unwrap_or_default()
    }
}
