//! Contacts that the operator removes, all of a user's or one.

use std::sync::Arc;

use sip_msg::Uri;

use super::saves::{Cause, Slot};
use super::{Registrar, RegistrarContext};
use crate::location::Entry;
use crate::{BindingChange, Effect, Outputs};

/// An order to remove contacts. It comes from the operator, whose socket nobody else can
/// open: that is all the proof there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Given back with what came of it ([`Effect::Removed`]).
    pub order: u64,
    /// Whose contacts: an address-of-record in the registrar's canonical form.
    pub aor: Arc<[u8]>,
    /// The URI of the one contact that is meant; all of them without it.
    pub contact: Option<Box<[u8]>>,
}

impl Removal {
    fn means(&self, entry: &Entry) -> bool {
        let Some(contact) = self.contact.as_deref() else {
            return true;
        };
        let is_equal = || {
            let (asked, bound) = (Uri::parse(contact), Uri::parse(&entry.binding.uri));
            asked
                .zip(bound)
                .is_some_and(|(asked, bound)| asked.equals(&bound))
        };
        *entry.binding.uri == *contact || is_equal()
    }
}

impl Registrar {
    /// Takes an order to remove contacts: what came of it is an [`Effect::Removed`], now or
    /// when the store has answered. Then [`Registrar::poll`] until `None`.
    pub fn remove(&mut self, cx: &RegistrarContext<'_>, removal: Removal, out: &mut Outputs) {
        let Some(slot) = self.saves.slot_of(&removal.aor) else {
            self.carry_out(cx, removal, None, out);
            return;
        };
        let timeout_ms = cx.settings.registrar.save_timeout_ms;
        let deadline_ms = cx.now.mono_ms.saturating_add(timeout_ms);
        let order = removal.order;
        let waits = self.saves.wait(slot, Cause::Order(removal), deadline_ms);
        if waits.is_err() {
            self.carried_out.push_back((order, Err(())));
        }
    }

    /// Carries out an order whose turn it is.
    pub(super) fn carry_out(
        &mut self,
        cx: &RegistrarContext<'_>,
        removal: Removal,
        slot: Option<Slot>,
        out: &mut Outputs,
    ) {
        self.entries.clear();
        self.changes.clear();
        let (location, unix_ms) = (cx.location, cx.now.unix_ms);
        let known = location.entries(&removal.aor, unix_ms, &mut self.entries);
        let aor = known.unwrap_or_else(|| removal.aor.clone());
        let meant = self.entries.iter().filter(|entry| removal.means(entry));
        self.changes
            .extend(meant.map(|entry| BindingChange::Remove {
                aor: aor.clone(),
                key: entry.key.clone(),
            }));
        self.entries.clear();
        let (order, count) = (removal.order, self.changes.len());
        if self.changes.is_empty() || !cx.settings.registrar.durable {
            cx.location.apply(&self.changes);
            self.changes.clear();
            let removed = Ok(count);
            out.effects.push(Effect::Removed { order, removed });
        } else if self
            .save(cx, Cause::Order(removal), slot, &aor, 0, out)
            .is_err()
        {
            self.carried_out.push_back((order, Err(())));
        }
    }
}
