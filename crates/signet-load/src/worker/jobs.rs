//! The calls and requests under way, by the small numbers of their names.

use invariant::broken;
use sip_dialog::{CallKey, RequestKey};

use crate::mix::Flow;

/// Nobody's seat.
pub(crate) const NO_SEAT: u32 = u32::MAX;

/// A call under way, on either side.
#[derive(Clone, Copy)]
pub(crate) struct CallSlot {
    pub(crate) key: CallKey,
    /// Whether we called.
    pub(crate) is_caller: bool,
    pub(crate) seat: u32,
    /// When it was due.
    pub(crate) intended_ns: u64,
    /// When the INVITE was written.
    pub(crate) sent_ns: u64,
    /// When the first response other than 100 came; 0 for not yet.
    pub(crate) first_status_ns: u64,
    /// When the 2xx came; 0 for not yet.
    pub(crate) answered_ns: u64,
    /// When the hold time was over.
    pub(crate) bye_intended_ns: u64,
    /// When the BYE was written; 0 for not yet.
    pub(crate) bye_sent_ns: u64,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is an arrival.
    Arrival(Flow),
    /// It brings its agent up, before the run.
    SetUp,
    /// It keeps a registration fresh.
    Refresh,
}

/// A request under way.
#[derive(Clone, Copy)]
pub(crate) struct RequestSlot {
    pub(crate) key: RequestKey,
    pub(crate) purpose: Purpose,
    pub(crate) seat: u32,
    pub(crate) intended_ns: u64,
    pub(crate) sent_ns: u64,
}

/// Both tables.
#[derive(Default)]
pub(crate) struct Jobs {
    calls: Vec<Option<CallSlot>>,
    requests: Vec<Option<RequestSlot>>,
    /// Calls and requests that are arrivals and not over.
    pub(crate) in_flight: u64,
}

impl Jobs {
    pub(crate) fn keep_call(&mut self, slot: CallSlot) {
        self.in_flight += u64::from(slot.is_caller);
        put(&mut self.calls, slot.key.index(), slot);
    }

    pub(crate) fn call(&mut self, key: CallKey) -> Option<&mut CallSlot> {
        self.calls
            .get_mut(key.index())?
            .as_mut()
            .filter(|slot| slot.key == key)
    }

    pub(crate) fn take_call(&mut self, key: CallKey) -> Option<CallSlot> {
        let slot = self
            .calls
            .get_mut(key.index())?
            .take_if(|slot| slot.key == key)?;
        self.in_flight -= u64::from(slot.is_caller);
        Some(slot)
    }

    pub(crate) fn keep_request(&mut self, slot: RequestSlot) {
        self.in_flight += u64::from(matches!(slot.purpose, Purpose::Arrival(_)));
        put(&mut self.requests, slot.key.index(), slot);
    }

    pub(crate) fn request(&mut self, key: RequestKey) -> Option<&mut RequestSlot> {
        self.requests
            .get_mut(key.index())?
            .as_mut()
            .filter(|slot| slot.key == key)
    }

    pub(crate) fn take_request(&mut self, key: RequestKey) -> Option<RequestSlot> {
        let slot = self
            .requests
            .get_mut(key.index())?
            .take_if(|slot| slot.key == key)?;
        self.in_flight -= u64::from(matches!(slot.purpose, Purpose::Arrival(_)));
        Some(slot)
    }

    /// The calls under way.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallSlot> {
        self.calls.iter().flatten()
    }

    /// The requests under way.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &RequestSlot> {
        self.requests.iter().flatten()
    }
}

fn put<T>(table: &mut Vec<Option<T>>, index: usize, value: T) {
    if table.len() <= index {
        table.resize_with(index + 1, || None);
    }
    if table
        .get_mut(index)
        .map(|slot| slot.replace(value))
        .is_none_or(|old| old.is_some())
    {
        broken!("a number is given anew only when the end of its last job was handled");
    }
}
