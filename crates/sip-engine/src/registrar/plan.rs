//! From a REGISTER to a list of changes: steps 2 and 4 to 7 of RFC 3261 10.3.
//! (Step 1 is the shard's, step 3 the gate's, step 8 in `answer`.)

use std::sync::Arc;

use sip_msg::header::Contact;
use sip_msg::{HeaderName, Message};

use super::contacts::{Asked, Flows, LONG};
use super::{RegistrarContext, Registration, callable, room};
use crate::BindingChange;
use crate::aor;
use crate::location::Entry;
use crate::nat::datagrams_back;
use crate::refusal::{Reason, StatusLine};
use crate::settings::RegistrarSettings;

/// Option tags that Require may hold.
pub(super) const SUPPORTED: [&str; 2] = ["path", "outbound"];

/// Why a REGISTER is not done, and so how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// 400, with the reason phrase.
    Malformed(&'static str),
    /// 403: not his address-of-record.
    Forbidden,
    /// 403: more contacts than one user may have.
    TooManyContacts,
    /// 403: a contact that cannot be called, or must not be, with the reason phrase.
    BadContact(&'static str),
    /// 404: not an address-of-record of that domain.
    NotFound,
    /// 420: it requires what is not supported.
    BadExtension,
    /// 423: it asks for less time than is granted at least.
    TooBrief,
    /// 439: the first hop cannot keep a flow (RFC 5626 6).
    NoOutbound,
    /// 500: overtaken by a later one.
    OutOfOrder,
    /// 500 with Retry-After: the store did not store it.
    Unsaved,
    /// 503 with Retry-After: too many wait.
    Busy,
    /// 503 with Retry-After: there is no room for another user's contacts.
    TableFull,
}

impl Refused {
    /// How it is answered.
    pub(super) fn line(self) -> StatusLine {
        let of = StatusLine::refused;
        match self {
            Self::Malformed(phrase) => of(400, Reason::RegisterMalformed).saying(phrase),
            Self::Forbidden => of(403, Reason::NotHisContacts),
            Self::TooManyContacts => of(403, Reason::TooManyContacts).saying("Too Many Contacts"),
            Self::BadContact(phrase) => of(403, Reason::BadContact).saying(phrase),
            Self::NotFound => of(404, Reason::NoAddressOfRecord),
            Self::BadExtension => of(420, Reason::ExtensionRequired),
            Self::TooBrief => of(423, Reason::IntervalTooBrief),
            Self::NoOutbound => of(439, Reason::NoOutbound),
            Self::OutOfOrder => of(500, Reason::OutOfOrder).saying("Overtaken By A Later Request"),
            Self::Unsaved => of(500, Reason::NotStored),
            Self::Busy => of(503, Reason::RegistrarBusy),
            Self::TableFull => of(503, Reason::LocationFull),
        }
    }
}

/// Where the plan is written, and what it starts from.
pub(super) struct Planned<'a> {
    pub(super) aor: &'a Arc<[u8]>,
    /// This node's name, for the bindings.
    pub(super) node: &'a Arc<str>,
    /// What is bound, the expired left out.
    pub(super) entries: &'a [Entry],
    pub(super) changes: &'a mut Vec<BindingChange>,
    /// How many of the contacts that are removed make room for those that come.
    pub(super) replaced: &'a mut u64,
}

/// Finds the canonical address-of-record whose contacts the request is about,
/// and that its sender may change them.
pub(super) fn address_of_record(
    cx: &RegistrarContext<'_>,
    registration: &Registration,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    out.clear();
    let request = &registration.request;
    let to = request
        .to()
        .ok()
        .and_then(|to| to.uri())
        .ok_or(Refused::Malformed("To Header Malformed"))?;
    let domain = request
        .uri()
        .map_err(|_| Refused::Malformed("Request-URI Malformed"))?;
    // RFC 3261 10.3: "If the address-of-record is not valid for the domain in the Request-URI, the
    // registrar MUST send a 404 (Not Found) response and skip the remaining steps." A listener's address
    // is valid for every domain, as the Request-URI and in To.
    let asked = cx.own.domain(domain.host_port.host);
    let named = cx.own.domain(to.host_port.host);
    let is_elsewhere = asked.is_some() && named.is_some() && asked != named;
    if is_elsewhere || !aor::write_aor(cx.settings, cx.own, &to, out) {
        return Err(Refused::NotFound);
    }
    // RFC 3261 10.3: "If the authenticated user is not authorized to modify bindings, the registrar MUST
    // return a 403 (Forbidden) and skip the remaining steps."
    if registration.permit.may_bind(out) {
        Ok(())
    } else {
        Err(Refused::Forbidden)
    }
}

/// Writes the changes that the request asks for; on `Err` none is to be made.
// RFC 3261 8.2: "If a request is accepted, all state changes associated with it MUST be performed." and
// "If it is rejected, all state changes MUST NOT be performed."
// RFC 3261 10.3: "REGISTER requests MUST also be processed atomically, meaning that a particular
// REGISTER request is either processed completely or not at all.  Each REGISTER message MUST be
// processed independently of any other registration or binding changes."
pub(super) fn plan(
    cx: &RegistrarContext<'_>,
    registration: &Registration,
    planned: Planned<'_>,
) -> Result<(), Refused> {
    let request = &registration.request;
    // RFC 3261 10.3: "To guarantee that the registrar supports any necessary extensions, the registrar
    // MUST process the Require header field values as described for UASs in Section 8.2.2."
    if unsupported(request).next().is_some() {
        return Err(Refused::BadExtension);
    }
    if !request.has(HeaderName::Contact) {
        return Ok(());
    }
    let cseq = request
        .cseq()
        .map_err(|_| Refused::Malformed("CSeq Header Malformed"))?
        .number;
    if request.call_id().len() > LONG {
        return Err(Refused::Malformed("Call-ID Too Long"));
    }
    let sequence = Sequence {
        call_id: request.call_id(),
        cseq,
        may_repeat: registration.server.is_none(),
    };
    if request
        .values(HeaderName::Contact)
        .any(|(value, _)| value == b"*")
    {
        return plan_star(request, &sequence, planned);
    }
    plan_contacts(cx, registration, &sequence, planned)
}

/// The option tags that the request requires and this registrar has not.
pub(crate) fn unsupported(request: &Message) -> impl Iterator<Item = &[u8]> {
    request
        .values(HeaderName::Require)
        .map(|(tag, _)| tag)
        .filter(|tag| !is_supported(tag))
}

/// Whether this server has that extension where it is the recipient.
pub(crate) fn is_supported(tag: &[u8]) -> bool {
    let mut known = SUPPORTED.iter();
    known.any(|known| known.as_bytes().eq_ignore_ascii_case(tag))
}

/// What orders a REGISTER among those of the same phone.
struct Sequence<'m> {
    call_id: &'m [u8],
    cseq: u32,
    /// Without transactions a retransmission comes this far: it changes
    /// nothing and is answered like the first.
    may_repeat: bool,
}

/// Whether a binding may be changed by a request.
#[derive(PartialEq, Eq)]
enum Order {
    Later,
    Repeated,
}

impl Sequence<'_> {
    fn order(&self, entry: &Entry) -> Result<Order, Refused> {
        let binding = &entry.binding;
        // RFC 3261 10.3: "If the Call-ID value in the existing binding differs from the Call-ID value in the
        // request, the binding MUST be removed if the expiration time is zero and updated otherwise.  If
        // they are the same, the registrar compares the CSeq value.  If the value is higher than that of the
        // existing binding, it MUST update or remove the binding as above.  If not, the update MUST be
        // aborted and the request fails."
        if *binding.call_id != *self.call_id || self.cseq > binding.cseq {
            return Ok(Order::Later);
        }
        // How it fails is said further down: "If any one of them fails [...] the request MUST fail with a
        // 500 (Server Error) response".
        if self.may_repeat && self.cseq == binding.cseq {
            Ok(Order::Repeated)
        } else {
            Err(Refused::OutOfOrder)
        }
    }
}

/// RFC 3261 10.3: "the registrar checks if there is one Contact field value that contains the
/// special value "*" and an Expires field.  If the request has additional Contact fields or an
/// expiration time other than zero, the request is invalid, and the server MUST return a 400
/// (Invalid Request) and skip the remaining steps."
fn plan_star(
    request: &Message,
    sequence: &Sequence<'_>,
    planned: Planned<'_>,
) -> Result<(), Refused> {
    if request.values(HeaderName::Contact).count() != 1 {
        return Err(Refused::Malformed("Contact * Must Stand Alone"));
    }
    if request.expires_s() != Some(0) {
        return Err(Refused::Malformed("Contact * Needs Expires 0"));
    }
    for entry in planned.entries {
        // RFC 3261 10.3: "If not, the registrar checks whether the Call-ID agrees with the value stored for
        // each binding.  If not, it MUST remove the binding.  If it does agree, it MUST remove the binding
        // only if the CSeq in the request is higher than the value stored for that binding.  Otherwise, the
        // update MUST be aborted and the request fails."
        if sequence.order(entry)? == Order::Later {
            planned.changes.push(BindingChange::Remove {
                aor: planned.aor.clone(),
                key: entry.key.clone(),
            });
        }
    }
    Ok(())
}

fn plan_contacts(
    cx: &RegistrarContext<'_>,
    registration: &Registration,
    sequence: &Sequence<'_>,
    mut planned: Planned<'_>,
) -> Result<(), Refused> {
    let rules = &cx.settings.registrar;
    let flows = Flows::of(cx.settings, registration, planned.node)?;
    let mut asked_count = 0;
    for contact in registration.request.contacts() {
        asked_count += 1;
        // What a request may make this server compare is bounded too.
        if asked_count > rules.contacts_max.saturating_mul(2) {
            return Err(Refused::TooManyContacts);
        }
        let Ok(Contact::Addr(contact)) = contact else {
            return Err(Refused::Malformed("Contact Header Malformed"));
        };
        let asked = Asked::new(&contact, &flows)?;
        let requested_s = requested_s(rules, &registration.request, contact.expires_s)?;
        let existing = planned
            .entries
            .iter()
            .find(|entry| asked.is(&entry.key, &entry.binding));
        if let Some(entry) = existing
            && sequence.order(entry)? == Order::Repeated
        {
            continue;
        }
        // The same contact twice in one request: the last one counts.
        planned.changes.retain(|change| {
            let is_of_it = |key: &Arc<[u8]>| existing.is_some_and(|entry| entry.key == *key);
            !match change {
                BindingChange::Put { key, binding, .. } => asked.is(key, binding) || is_of_it(key),
                BindingChange::Remove { key, .. } => is_of_it(key),
            }
        });
        let key = existing.map_or_else(|| asked.key(), |entry| entry.key.clone());
        let aor = planned.aor.clone();
        if requested_s == 0 {
            if existing.is_some() {
                planned.changes.push(BindingChange::Remove { aor, key });
            }
            continue;
        }
        // RFC 3261 10.3: "The registrar MAY choose an expiration less than the requested expiration interval."
        let granted_ms = u64::from(requested_s.min(rules.expires_max_s)).saturating_mul(1_000);
        let expires_unix_ms = cx.now.unix_ms.saturating_add(granted_ms);
        // RFC 3261 10.3: "Each binding record records the Call-ID and CSeq values from the request."
        let since_unix_ms = existing.map_or(cx.now.unix_ms, |entry| entry.binding.since_unix_ms);
        let (call_id, cseq) = (sequence.call_id, sequence.cseq);
        let mut binding = flows.binding(&asked, call_id, cseq, since_unix_ms, expires_unix_ms);
        callable::check(cx, registration, &mut binding)?;
        if let Some(max_s) = cx.settings.nat.expires_max_s
            && datagrams_back(&cx.settings.nat, &binding).is_some()
        {
            let latest = cx.now.unix_ms.saturating_add(u64::from(max_s) * 1_000);
            binding.expires_unix_ms = binding.expires_unix_ms.min(latest);
        }
        planned.changes.push(BindingChange::Put {
            aor,
            key,
            binding: Arc::new(binding),
        });
    }
    let alive_count = alive_after(planned.entries, planned.changes);
    if alive_count > rules.contacts_max && alive_count > planned.entries.len() {
        room::make(rules, alive_count - rules.contacts_max, &mut planned)?;
    }
    let adds = planned
        .changes
        .iter()
        .any(|change| matches!(change, BindingChange::Put { .. }));
    if planned.entries.is_empty() && adds && !makes_room(cx, planned.aor) {
        return Err(Refused::TableFull);
    }
    Ok(())
}

/// How many contacts there are once these changes are made. It is counted by what was planned and
/// not along the way: equality of URIs is not transitive (RFC 3261 19.1.4: an unknown parameter
/// counts where both have it), so a contact may be in the place of several, and of none.
fn alive_after(entries: &[Entry], changes: &[BindingChange]) -> usize {
    let is_there = |of: &Arc<[u8]>| entries.iter().any(|entry| entry.key == *of);
    let mut count = entries.len();
    for change in changes {
        match change {
            BindingChange::Put { key, .. } => count += usize::from(!is_there(key)),
            // What is removed is there, once.
            BindingChange::Remove { .. } => count -= 1,
        }
    }
    count
}

/// Whether there is room for an address-of-record. In a full table those whose
/// time is over make place at once, not when somebody comes to sweep.
fn makes_room(cx: &RegistrarContext<'_>, aor: &[u8]) -> bool {
    const SWEPT_MAX: usize = 512;
    cx.location.has_room(aor) || {
        cx.location.sweep(cx.now.unix_ms, SWEPT_MAX);
        cx.location.has_room(aor)
    }
}

/// The interval that is asked for, unless it is too brief.
fn requested_s(
    rules: &RegistrarSettings,
    request: &Message,
    contact_s: Option<u32>,
) -> Result<u32, Refused> {
    // RFC 3261 10.3: "If the field value has an "expires" parameter, that value MUST be taken as the
    // requested expiration."
    // RFC 3261 10.3: "If there is no such parameter, but the request has an Expires header field, that
    // value MUST be taken as the requested expiration."
    // RFC 3261 10.3: "If there is neither, a locally-configured default value MUST be taken as the
    // requested expiration."
    let requested_s = contact_s
        .or_else(|| request.expires_s())
        .unwrap_or(rules.expires_default_s);
    // RFC 3261 10.3: "If and only if the requested expiration interval is greater than zero AND smaller
    // than one hour AND less than a registrar-configured minimum, the registrar MAY reject the
    // registration with a response of 423 (Interval Too Brief)."
    if requested_s > 0 && requested_s < 3_600 && requested_s < rules.expires_min_s {
        return Err(Refused::TooBrief);
    }
    Ok(requested_s)
}
