//! Contacts whose flow has ended (`docs/decisions/0206-when-a-flow-has-ended.md`).

use std::sync::Arc;

use super::saves::Cause;
use super::{Registrar, RegistrarContext};
use crate::location::Binding;
use crate::{BindingChange, Effect, Outputs};

/// Why a flow to a phone has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEnd {
    /// It answered once, and answers no more.
    Unanswered,
    /// What is sent along it comes back (ICMP).
    CameBack,
}

impl FlowEnd {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Unanswered, Self::CameBack];

    /// Its name as the label of a counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unanswered => "unanswered",
            Self::CameBack => "came_back",
        }
    }

    /// The same in words, for a log.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unanswered => "the phone does not answer any more",
            Self::CameBack => "what is sent to it comes back",
        }
    }
}

/// A contact whose flow has ended.
#[derive(Clone, Debug)]
pub(crate) struct EndedFlow {
    pub(crate) aor: Arc<[u8]>,
    /// As it was when that was found out: one that has registered again is another.
    pub(crate) binding: Arc<Binding>,
    pub(crate) why: FlowEnd,
}

impl EndedFlow {
    fn told(&self) -> Effect {
        let source = self.binding.flow.map(|flow| flow.remote);
        Effect::FlowEnded {
            aor: Arc::clone(&self.aor),
            contact: self.binding.uri.clone(),
            remote: source,
            why: self.why,
        }
    }
}

impl Registrar {
    /// Removes a contact whose flow has ended; then [`Registrar::poll`] until `None`. Nothing
    /// is done while the store has a change of the same user: it may be this phone that
    /// registers. Who says that a flow has ended says so again while it is there.
    pub(crate) fn flow_ended(
        &mut self,
        cx: &RegistrarContext<'_>,
        ended: EndedFlow,
        out: &mut Outputs,
    ) {
        if self.saves.slot_of(&ended.aor).is_some() {
            return;
        }
        self.entries.clear();
        self.changes.clear();
        let (location, unix_ms) = (cx.location, cx.now.unix_ms);
        location.entries(&ended.aor, unix_ms, &mut self.entries);
        let its = self.entries.iter();
        let its = its.filter(|entry| Arc::ptr_eq(&entry.binding, &ended.binding));
        self.changes.extend(its.map(|entry| BindingChange::Remove {
            aor: Arc::clone(&ended.aor),
            key: Arc::clone(&entry.key),
        }));
        self.entries.clear();
        if self.changes.is_empty() {
            return;
        }
        if !cx.settings.registrar.durable {
            location.apply(&self.changes);
            self.changes.clear();
            self.ended_flows.push_back(ended);
            return;
        }
        let aor = Arc::clone(&ended.aor);
        // Where the store has no room for it the flow is found to have ended once more.
        let _ = self.save(cx, Cause::Flow(ended), None, &aor, 0, out);
    }

    /// Tells of those that are gone for good.
    pub(super) fn tell_ended_flows(&mut self, out: &mut Outputs) {
        for ended in self.ended_flows.drain(..) {
            if let Some(count) = self.counters.flows_ended.get_mut(ended.why as usize) {
                *count += 1;
            }
            out.effects.push(ended.told());
        }
    }
}
