//! Room for one contact more than a user may have
//! (`docs/decisions/0081-the-oldest-contact-makes-room.md`).

use super::plan::{Planned, Refused};
use crate::BindingChange;
use crate::location::Entry;
use crate::settings::{ContactsFull, RegistrarSettings};

/// Takes `count` contacts out of what is bound: first other flows of a phone that
/// registers, then contacts without a flow of their own (RFC 5626), the oldest
/// first. A phone that keeps a flow under a name of its own refreshes it; what
/// another phone does is no reason to put it out.
// Where there are too few, such a request will be refused the next time too: 403 and not
// 503, which would send the phone to try elsewhere (RFC 3261 21.4.4, 21.5.4).
pub(super) fn make(
    rules: &RegistrarSettings,
    count: usize,
    planned: &mut Planned<'_>,
) -> Result<(), Refused> {
    if rules.contacts_full == ContactsFull::Refuse {
        return Err(Refused::TooManyContacts);
    }
    let is_spared = |entry: &Entry| is_touched(entry, planned.changes);
    // The latest change stands last in the table.
    let same_phone = planned
        .entries
        .iter()
        .filter(|entry| is_of_a_phone_in(entry, planned.changes));
    let plain = planned.entries.iter().filter(|entry| {
        entry.binding.reg_id.is_none() && !is_of_a_phone_in(entry, planned.changes)
    });
    let leaving: Vec<BindingChange> = same_phone
        .chain(plain)
        .filter(|entry| !is_spared(entry))
        .take(count)
        .map(|entry| BindingChange::Remove {
            aor: planned.aor.clone(),
            key: entry.key.clone(),
        })
        .collect();
    if leaving.len() < count {
        return Err(Refused::TooManyContacts);
    }
    *planned.replaced = count as u64;
    planned.changes.extend(leaving);
    Ok(())
}

/// Whether the request says something about this contact itself.
fn is_touched(entry: &Entry, changes: &[BindingChange]) -> bool {
    changes.iter().any(|change| match change {
        BindingChange::Put { key, .. } | BindingChange::Remove { key, .. } => *key == entry.key,
    })
}

/// Whether a contact is one of a phone that the request binds.
fn is_of_a_phone_in(entry: &Entry, changes: &[BindingChange]) -> bool {
    entry.binding.instance.is_some()
        && changes.iter().any(|change| match change {
            BindingChange::Put { binding, .. } => binding.instance == entry.binding.instance,
            BindingChange::Remove { .. } => false,
        })
}
