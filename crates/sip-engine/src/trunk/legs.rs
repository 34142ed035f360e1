//! What a response context keeps of copies that go by a trunk: what the phone wrote, and how
//! each copy differs from it. Contexts without a trunk have none of it.

use std::sync::Arc;

use sip_auth::Attempt;
use sip_msg::{Edits, HeaderName, Message, Span};

use super::Trunk;
use crate::proxy::egress::Egress;
use crate::token::{Marks, Sides};

/// The legs of a context.
pub(crate) struct Legs {
    /// CSeq's number, From and To as they came.
    pub(super) cseq: u32,
    pub(super) from: Box<[u8]>,
    pub(super) to: Box<[u8]>,
    /// The trunk whose member has sent the request, where it begins something.
    pub(super) came_from: Option<Arc<Trunk>>,
    /// In the order of their branches.
    legs: Vec<Leg>,
    /// What the next copy goes on with, where it is sent because of a challenge.
    pub(super) again: Option<Again>,
    /// The branch whose response is at hand.
    pub(super) answering: usize,
}

/// A copy that was challenged, and goes out again.
pub(super) struct Again {
    pub(super) tries: u8,
    pub(super) attempt: Attempt,
}

/// One copy.
pub(super) struct Leg {
    pub(super) branch: usize,
    /// The trunk that it went to or, within a dialog, whose dialog it is; `None` where that is
    /// configured no more.
    pub(super) trunk: Option<Arc<Trunk>>,
    /// How it left, where it may have to leave again.
    pub(super) egress: Option<Egress>,
    pub(super) attempt: Attempt,
    /// How often it was challenged.
    pub(super) tries: u8,
    /// Whether its CSeq, From and To are others than the phone's.
    pub(super) counts: bool,
    pub(super) has_from: bool,
    pub(super) has_to: bool,
    /// Whether its challenges may be answered.
    pub(super) is_answered_for: bool,
    /// Whether it bore credentials, and before it was challenged.
    pub(super) bears: bool,
    pub(super) is_ahead: bool,
    /// Whether somebody beyond the provider has the request by now: whose tag a provisional
    /// response had.
    pub(super) is_beyond: bool,
    /// What the caller's token says.
    pub(super) marks: Option<Marks>,
}

/// How a copy that goes by a trunk differs from what came.
#[derive(Default)]
pub(crate) struct LegCopy {
    /// From and To, where they are others.
    pub(super) from: Option<Vec<u8>>,
    pub(super) to: Option<Vec<u8>>,
    /// What stands in the place of parts of the request.
    pub(super) replaced: Vec<(Span, Vec<u8>)>,
    /// Lines that are left out, and lines that are added.
    pub(super) cut: Vec<Span>,
    pub(super) lines: Vec<u8>,
    /// What stands in the place of lines that are added because of how its target was found.
    pub(super) added: Option<Vec<u8>>,
    /// What the token of whoever gets it says.
    pub(super) marks: Option<Marks>,
}

impl Legs {
    /// None yet of that request.
    pub(super) fn new(request: &Message) -> Self {
        let value = |name| {
            let field = request.first(name);
            field.map_or_else(Box::default, |field| field.value.into())
        };
        Self {
            cseq: request.cseq().map_or(0, |cseq| cseq.number),
            from: value(HeaderName::From),
            to: value(HeaderName::To),
            came_from: None,
            legs: Vec::new(),
            again: None,
            answering: 0,
        }
    }

    /// The trunk whose member has sent the request, where it begins something.
    pub(crate) fn came_from(&self) -> Option<&Trunk> {
        self.came_from.as_deref()
    }

    /// The leg of a branch.
    pub(super) fn leg(&self, branch: usize) -> Option<&Leg> {
        self.legs.iter().rfind(|leg| leg.branch == branch)
    }

    pub(super) fn leg_mut(&mut self, branch: usize) -> Option<&mut Leg> {
        self.legs.iter_mut().rfind(|leg| leg.branch == branch)
    }

    pub(super) fn push(&mut self, leg: Leg) {
        self.legs.push(leg);
    }

    /// A response of that branch is at hand.
    pub(crate) fn answered_by(&mut self, branch: usize) {
        self.answering = branch;
    }

    /// The branch whose response is at hand.
    pub(crate) fn answering(&self) -> usize {
        self.answering
    }

    /// What the caller's token says, by the response at hand.
    pub(crate) fn caller_marks(&self) -> Option<Marks> {
        self.leg(self.answering)?.marks
    }
}

impl Leg {
    /// Whether its responses must be restored.
    pub(super) const fn differs(&self) -> bool {
        self.counts || self.has_from || self.has_to
    }
}

impl LegCopy {
    /// Adds what differs to the edits of a copy, of which these lines are cut in any case.
    pub(crate) fn edit(&self, request: &Message, strip: &[Span], edits: &mut Edits) {
        for span in &self.cut {
            edits.remove(*span);
        }
        // Nothing is put in the place of what stands in a line that is cut.
        let is_cut = |part: &Span| {
            let mut lines = strip.iter().chain(&self.cut);
            lines.any(|line| line.start <= part.start && part.end <= line.end)
        };
        for (span, text) in self.replaced.iter().filter(|(span, _)| !is_cut(span)) {
            edits.replace(*span, text);
        }
        for (name, value) in [(HeaderName::From, &self.from), (HeaderName::To, &self.to)] {
            if let (Some(value), Some(field)) = (value, request.first(name)) {
                edits.replace(field.value_span, value);
            }
        }
    }

    /// The lines that are added.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// What stands in the place of lines that are added because of how its target was found.
    pub(crate) fn added(&self) -> Option<&[u8]> {
        self.added.as_deref()
    }

    /// What the token of whoever gets it says.
    pub(crate) fn marks(&self) -> Option<Marks> {
        self.marks
    }

    /// The sides of the dialog as whoever gets the copy sees them.
    pub(crate) fn sides<'m>(&'m self, request: &'m Message) -> Option<Sides<'m>> {
        Sides::seen_with(request, self.from.as_deref(), self.to.as_deref())
    }
}
