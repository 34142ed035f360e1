//! The registrar (RFC 3261 10.3), with Path (RFC 3327), Service-Route
//! (RFC 3608) and outbound flows (RFC 5626).
//!
//! A REGISTER becomes a list of changes, all or none (see [`plan`]). Where
//! registrations are durable the list goes to the store first, and the 200
//! waits for its word; else it is applied and answered at once. While the
//! store has one, later REGISTERs of the same address-of-record wait in line:
//! RFC 3261 10.3: "REGISTER requests MUST be processed by a registrar in the
//! order that they are received."
//!
//! ```text
//! REGISTER -> plan -> (refusal, or nothing to change) ----------> response
//!                  -> not durable: Location::apply -------------> 200
//!                  -> durable: Effect::SaveBindings, its line grows meanwhile
//!                       handle_saved(Ok)  -> Location::apply ---> 200
//!                       handle_saved(Err) -----------------------> 500, Retry-After
//!                       too late ------------------------------> 500, Retry-After
//! ```
//!
//! An order of the operator ([`Removal`]) is planned and stored as a REGISTER is, and waits
//! its turn in the same line. A contact whose flow has ended is removed so too.
//!
//! An answer of the store that comes too late still counts, however late it comes: what it
//! has stored is applied, or memory and store would differ until the next restart. The
//! phone was told 500 and asks again. Until then later REGISTERs of its user wait in line, and
//! are told the same.

mod answer;
mod callable;
mod contacts;
mod date;
mod ended;
mod plan;
mod removal;
mod room;
mod saves;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use invariant::broken;
use sip_msg::{Flow, Message};
use sip_txn::ServerId;

use crate::gateways::Gateways;
use crate::location::Entry;
use crate::own::Own;
use crate::permit::Permit;
use crate::refusal::StatusLine;
use crate::sender::Sender;
use crate::{Binding, BindingChange, Effect, Location, Now, Outputs, ParkId, Settings};
pub(crate) use ended::EndedFlow;
pub use ended::FlowEnd;
use plan::{Planned, Refused};
pub(crate) use plan::{is_supported, unsupported};
pub use removal::Removal;
use saves::{Cause, Saves, Slot};

/// What the registrar needs beside the request.
#[derive(Clone, Copy)]
pub struct RegistrarContext<'a> {
    /// The time.
    pub now: Now,
    /// The settings.
    pub settings: &'a Settings,
    /// The shared table.
    pub location: &'a Location,
    /// Which names are this server's.
    pub(crate) own: &'a Own,
    /// The addresses of the configured next hops.
    pub(crate) gateways: &'a Gateways,
}

/// A REGISTER for one of our domains that passed the gate.
#[derive(Debug)]
pub struct Registration {
    /// The request, its topmost Via stamped.
    pub request: Box<Message>,
    /// Who sent it.
    pub sender: Sender,
    /// Its transaction; `None` where requests are handled without state.
    pub server: Option<ServerId>,
    /// Why it may pass.
    pub permit: Permit,
}

/// A response: `outputs.outbox.bytes[start..]`, to be given to the transaction
/// at once, before the registrar is called again.
#[derive(Debug)]
pub struct Answered {
    /// The request, done with.
    pub request: Box<Message>,
    /// Who sent it.
    pub sender: Sender,
    /// Its transaction.
    pub server: Option<ServerId>,
    /// The response's status line.
    pub line: StatusLine,
    /// Where the response begins in the outbox.
    pub start: usize,
}

counters::counters! {
    /// What became of REGISTERs since the start.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RegistrarCounters {
        /// REGISTERs taken.
        pub requests: u64 = counter("signet_registers_total"),
        /// REGISTERs answered 200.
        pub ok: u64 = counter("signet_registers_ok_total"),
        /// REGISTERs answered otherwise.
        pub refused: u64 = counter("signet_registers_refused_total"),
        /// REGISTERs that the store could not store.
        pub save_failed: u64 = counter("signet_registers_save_failed_total"),
        /// REGISTERs that the store did not store in time.
        pub save_timeout: u64 = counter("signet_registers_save_timeout_total"),
        /// REGISTERs refused because too many wait for the store.
        pub queue_full: u64 = counter("signet_registers_queue_full_total"),
        /// REGISTERs refused because there are too many users with contacts.
        pub table_full: u64 = counter("signet_registers_table_full_total"),
        /// REGISTERs refused because the user has as many contacts as he may.
        pub contacts_full: u64 = counter("signet_registers_contacts_full_total"),
        /// Contacts that made room for later ones of the same user.
        pub contacts_replaced: u64 = counter("signet_contacts_replaced_total"),
        /// REGISTERs refused because a contact could not be called, or must not be.
        pub contacts_refused: u64 = counter("signet_contacts_refused_total"),
        /// Contacts removed because the flow to their phone has ended.
        pub flows_ended: [u64; FlowEnd::ALL.len()] = counter("signet_nat_flows_ended_total", why: FlowEnd::ALL.map(FlowEnd::name)),
    }
}

/// The registrar of a shard: the REGISTERs and orders that wait for the store, and in
/// which order. The bindings themselves are in [`Location`].
pub struct Registrar {
    saves: Saves,
    /// Saves that ended, each with the status of its REGISTER.
    ended: VecDeque<(Registration, Result<(), Refused>)>,
    /// What came of orders: their numbers, and how many contacts were removed.
    carried_out: VecDeque<(u64, Result<usize, ()>)>,
    /// Contacts that are gone for good because their flow has ended.
    ended_flows: VecDeque<EndedFlow>,
    /// Contacts that were bound and are not yet kept alive, where that is done.
    bound: Vec<Bound>,
    tag_key: [u8; 16],
    /// The empty name: this server is alone.
    node: Arc<str>,
    counters: RegistrarCounters,
    // Used again, so that the steady state allocates only what it keeps.
    aor: Vec<u8>,
    entries: Vec<Entry>,
    changes: Vec<BindingChange>,
}

impl Registrar {
    /// A registrar with nothing under way; `seed` is secret and differs between processes.
    pub fn new(seed: [u8; 16]) -> Self {
        Self {
            saves: Saves::new(seed),
            ended: VecDeque::new(),
            carried_out: VecDeque::new(),
            ended_flows: VecDeque::new(),
            bound: Vec::new(),
            tag_key: seed,
            node: "".into(),
            counters: RegistrarCounters::default(),
            aor: Vec::new(),
            entries: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Takes a REGISTER. `None`: it waits, for the store or for its turn.
    pub fn handle_register(
        &mut self,
        cx: &RegistrarContext<'_>,
        registration: Registration,
        out: &mut Outputs,
    ) -> Option<Answered> {
        self.counters.requests += 1;
        if let Err(refused) = plan::address_of_record(cx, &registration, &mut self.aor) {
            return Some(self.answer(cx, registration, Err(refused), out));
        }
        let Some(slot) = self.saves.slot_of(&self.aor) else {
            return self.process(cx, registration, None, out);
        };
        let deadline_ms = cx
            .now
            .mono_ms
            .saturating_add(cx.settings.registrar.save_timeout_ms);
        match self
            .saves
            .wait(slot, Cause::Register(registration), deadline_ms)
        {
            Ok(()) => None,
            Err(cause) => self.give_up(cx, cause, Refused::Busy, out),
        }
    }

    /// Takes the store's answer to a change. Then [`Registrar::poll`] until `None`.
    /// [`ParkId`]s of [`Effect::SaveBindings`] are the registrar's own.
    pub fn handle_saved(
        &mut self,
        cx: &RegistrarContext<'_>,
        park: ParkId,
        answer: Result<(), ()>,
    ) {
        // A store that says it once more says nothing new.
        let Some(save) = self.saves.end(park) else {
            return;
        };
        // RFC 3261 10.3: "The binding updates MUST be committed (that is, made visible to the proxy or
        // redirect server) if and only if all binding updates and additions succeed.  If any one of them
        // fails (for example, because the back-end database commit failed), the request MUST fail with a
        // 500 (Server Error) response and all tentative binding updates MUST be removed."
        if answer.is_ok() {
            self.make(cx, &save.changes, save.replaced);
        }
        match save.cause {
            Some(Cause::Register(registration)) => {
                let outcome = answer.map_err(|()| {
                    self.counters.save_failed += 1;
                    Refused::Unsaved
                });
                self.ended.push_back((registration, outcome));
            }
            Some(Cause::Order(removal)) => {
                let removed = answer.map(|()| save.changes.len());
                self.carried_out.push_back((removal.order, removed));
            }
            Some(Cause::Flow(ended)) => self.ended_flows.extend(answer.is_ok().then_some(ended)),
            None => {}
        }
    }

    /// Ends REGISTERs that have waited too long. Then [`Registrar::poll`] until `None`.
    pub fn handle_timers(&mut self, now: Now) {
        let (ended, counters) = (&mut self.ended, &mut self.counters);
        let carried_out = &mut self.carried_out;
        self.saves.handle_timers(now.mono_ms, |cause| match cause {
            Cause::Register(registration) => {
                counters.save_timeout += 1;
                ended.push_back((registration, Err(Refused::Unsaved)));
            }
            Cause::Order(removal) => carried_out.push_back((removal.order, Err(()))),
            // If the store does it after all, keep-alives end without a word.
            Cause::Flow(_) => {}
        });
    }

    /// The next response, after `handle_saved` and `handle_timers`.
    pub fn poll(&mut self, cx: &RegistrarContext<'_>, out: &mut Outputs) -> Option<Answered> {
        if let Some((registration, outcome)) = self.ended.pop_front() {
            // It had one when it was taken; a reload may have taken its domain away.
            let aor = plan::address_of_record(cx, &registration, &mut self.aor);
            return Some(self.answer(cx, registration, outcome.and(aor), out));
        }
        while let Some((slot, cause)) = self.saves.next_in_line() {
            let registration = match cause {
                Cause::Register(registration) => registration,
                Cause::Order(removal) => {
                    self.carry_out(cx, removal, Some(slot), out);
                    continue;
                }
                Cause::Flow(_) => {
                    broken!("a flow that has ended stands in no line");
                    continue;
                }
            };
            let answered = match plan::address_of_record(cx, &registration, &mut self.aor) {
                Ok(()) => self.process(cx, registration, Some(slot), out),
                Err(refused) => Some(self.answer(cx, registration, Err(refused), out)),
            };
            if answered.is_some() {
                return answered;
            }
        }
        let carried_out = self.carried_out.drain(..);
        out.effects
            .extend(carried_out.map(|(order, removed)| Effect::Removed { order, removed }));
        self.tell_ended_flows(out);
        None
    }

    /// When to call [`Registrar::handle_timers`] next.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.saves.next_deadline_ms()
    }

    /// Takes the contacts that were bound since the last call, where keep-alives are sent.
    pub(crate) fn take_bound(&mut self) -> Vec<Bound> {
        std::mem::take(&mut self.bound)
    }

    /// REGISTERs and orders that wait.
    pub fn waiting(&self) -> usize {
        self.saves.waiting() + self.ended.len() + self.carried_out.len()
    }

    /// The memory of those requests.
    pub(crate) fn held_bytes(&self) -> usize {
        self.saves.held_bytes()
    }

    /// Counts since the start.
    pub fn counters(&self) -> &RegistrarCounters {
        &self.counters
    }

    /// A REGISTER whose turn it is, for `self.aor`; `slot` is that of its
    /// address-of-record where others stood before it.
    fn process(
        &mut self,
        cx: &RegistrarContext<'_>,
        registration: Registration,
        slot: Option<Slot>,
        out: &mut Outputs,
    ) -> Option<Answered> {
        self.entries.clear();
        self.changes.clear();
        let known = cx
            .location
            .entries(&self.aor, cx.now.unix_ms, &mut self.entries);
        let aor = known.unwrap_or_else(|| self.aor.as_slice().into());
        let mut replaced = 0;
        let planned = Planned {
            aor: &aor,
            node: &self.node,
            entries: &self.entries,
            changes: &mut self.changes,
            replaced: &mut replaced,
        };
        if let Err(refused) = plan::plan(cx, &registration, planned) {
            return Some(self.answer(cx, registration, Err(refused), out));
        }
        if self.changes.is_empty() {
            return Some(self.answer(cx, registration, Ok(()), out));
        }
        if !cx.settings.registrar.durable {
            let changes = std::mem::take(&mut self.changes);
            self.make(cx, &changes, replaced);
            self.changes = changes;
            return Some(self.answer(cx, registration, Ok(()), out));
        }
        let cause = Cause::Register(registration);
        match self.save(cx, cause, slot, &aor, replaced, out) {
            Ok(()) => None,
            Err(cause) => self.give_up(cx, cause, Refused::Busy, out),
        }
    }

    /// Makes changes that are durable, or need not be.
    fn make(&mut self, cx: &RegistrarContext<'_>, changes: &[BindingChange], replaced: u64) {
        cx.location.apply(changes);
        self.bound.extend(bound(cx, changes));
        self.counters.contacts_replaced += replaced;
    }

    /// Gives `self.changes` to the store; their cause comes back where there is no room. So many
    /// of the contacts that are removed make room for others.
    #[allow(
        clippy::result_large_err,
        reason = "it is the caller's own value that comes back"
    )]
    fn save(
        &mut self,
        cx: &RegistrarContext<'_>,
        cause: Cause,
        slot: Option<Slot>,
        aor: &Arc<[u8]>,
        replaced: u64,
        out: &mut Outputs,
    ) -> Result<(), Cause> {
        let changes = std::mem::take(&mut self.changes);
        let timeout_ms = cx.settings.registrar.save_timeout_ms;
        let deadline_ms = cx.now.mono_ms.saturating_add(timeout_ms);
        let park = self
            .saves
            .begin(slot, aor, cause, changes.clone(), replaced, deadline_ms)?;
        out.effects.push(Effect::SaveBindings { park, changes });
        Ok(())
    }

    /// Says that a change is not made: to a REGISTER by its answer.
    fn give_up(
        &mut self,
        cx: &RegistrarContext<'_>,
        cause: Cause,
        refused: Refused,
        out: &mut Outputs,
    ) -> Option<Answered> {
        match cause {
            Cause::Register(registration) => Some(self.answer(cx, registration, Err(refused), out)),
            Cause::Order(removal) => {
                self.carried_out.push_back((removal.order, Err(())));
                None
            }
            Cause::Flow(_) => None,
        }
    }

    /// Writes the response; for a 200 `self.aor` is the request's.
    fn answer(
        &mut self,
        cx: &RegistrarContext<'_>,
        registration: Registration,
        outcome: Result<(), Refused>,
        out: &mut Outputs,
    ) -> Answered {
        let start = out.outbox.bytes.len();
        let writer = answer::Answer {
            cx,
            registration: &registration,
            to_tag: answer::to_tag(&self.tag_key, &registration.request),
        };
        let line = match outcome {
            Ok(()) => {
                self.counters.ok += 1;
                // What is bound now, not what this request asked for.
                self.entries.clear();
                cx.location
                    .entries(&self.aor, cx.now.unix_ms, &mut self.entries);
                out.effects
                    .extend(kept_flow(&self.entries, &registration.sender.flow, cx.now));
                writer.write_ok(&self.entries, &mut out.outbox.bytes);
                StatusLine::ok()
            }
            Err(refused) => {
                self.counters.refused += 1;
                match refused {
                    Refused::Busy => self.counters.queue_full += 1,
                    Refused::TableFull => self.counters.table_full += 1,
                    Refused::TooManyContacts => self.counters.contacts_full += 1,
                    Refused::BadContact(_) => self.counters.contacts_refused += 1,
                    _ => {}
                }
                writer.write_refusal(refused, &mut out.outbox.bytes);
                refused.line()
            }
        };
        // What is copied here must not outlive its change.
        self.entries.clear();
        self.changes.clear();
        let Registration {
            request,
            sender,
            server,
            ..
        } = registration;
        Answered {
            request,
            sender,
            server,
            line,
            start,
        }
    }
}

/// An address-of-record and a contact of it.
pub(crate) type Bound = (Arc<[u8]>, Arc<Binding>);

/// What changes bind, where keep-alives are sent to anybody.
fn bound<'c>(
    cx: &RegistrarContext<'_>,
    changes: &'c [BindingChange],
) -> impl Iterator<Item = Bound> + use<'c> {
    let changes = match cx.settings.nat.keeps_any() {
        true => changes,
        false => &[],
    };
    changes.iter().filter_map(|change| match change {
        BindingChange::Put { aor, binding, .. } => Some((Arc::clone(aor), Arc::clone(binding))),
        BindingChange::Remove { .. } => None,
    })
}

/// For how long contacts rely on the connection that a REGISTER came over.
fn kept_flow(entries: &[Entry], flow: &Flow, now: Now) -> Option<Effect> {
    let last_ms = entries
        .iter()
        .map(|entry| &entry.binding)
        .filter(|binding| binding.flow.is_some_and(|kept| kept.conn == flow.conn))
        .map(|binding| binding.expires_unix_ms)
        .max()?;
    flow.conn.is_some().then(|| Effect::KeepFor {
        conn: flow.conn,
        for_ms: last_ms.saturating_sub(now.unix_ms),
    })
}
