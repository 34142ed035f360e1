//! Headers by which elements of a trust domain tell each other who a caller is
//! or who pays (`docs/decisions/0080-what-users-may-not-say.md`).

use sip_msg::header::elements;
use sip_msg::{HeaderName, Message, Span};

/// Their names, beside P-Asserted-Identity and P-Preferred-Identity (RFC 3325),
/// which have a [`HeaderName`] of their own.
const NAMES: [&str; 8] = [
    // What came before RFC 3325: gateways show it as the caller.
    "Remote-Party-ID",
    // RFC 8496: who pays.
    "P-Charge-Info",
    // RFC 7315 4.5, 4.6: how the call is charged, and by which hosts.
    "P-Charging-Vector",
    "P-Charging-Function-Addresses",
    // RFC 5503: who pays, between proxies of one operator.
    "P-DCS-Billing-Info",
    // RFC 6050: which service the caller may use.
    "P-Asserted-Service",
    // RFC 5502: whom the call is handled for.
    "P-Served-User",
    // RFC 7315 4.4: which network vouches for the roaming caller.
    "P-Visited-Network-ID",
];

const REMOTE_PARTY_ID: &[u8] = b"Remote-Party-ID";

/// The lines of a message that have one of these names.
pub(super) fn lines(message: &Message) -> impl Iterator<Item = Span> {
    message
        .fields_of(HeaderName::Other)
        .filter(|field| is_one(field.raw_name))
        .map(|field| field.line_span)
}

/// Appends the lines that name who calls, by headers that elements of a trust domain believe.
pub(crate) fn identity_lines(message: &Message, spans: &mut Vec<Span>) {
    for name in [
        HeaderName::PAssertedIdentity,
        HeaderName::PPreferredIdentity,
    ] {
        spans.extend(message.fields_of(name).map(|field| field.line_span));
    }
    let others = message.fields_of(HeaderName::Other);
    let named = others.filter(|field| field.raw_name.eq_ignore_ascii_case(REMOTE_PARTY_ID));
    spans.extend(named.map(|field| field.line_span));
}

/// Whether a header of that name is one of these.
pub(crate) fn is_identity(name: &[u8]) -> bool {
    let known = HeaderName::from_token(name);
    matches!(
        known,
        HeaderName::PAssertedIdentity | HeaderName::PPreferredIdentity
    ) || name.eq_ignore_ascii_case(REMOTE_PARTY_ID)
}

/// What stands in those among them that name a caller, or who pays for his call.
pub(super) fn callers(message: &Message) -> impl Iterator<Item = &[u8]> {
    message
        .fields_of(HeaderName::Other)
        .filter(|field| {
            let name = field.raw_name;
            name.eq_ignore_ascii_case(REMOTE_PARTY_ID)
                || name.eq_ignore_ascii_case(b"P-Charge-Info")
        })
        .flat_map(|field| elements(field.value))
        .map(|(value, _)| value)
}

/// Appends the lines that say who has led a call on: Diversion (RFC 5806) and History-Info
/// (RFC 7044).
pub(crate) fn diversion_lines(message: &Message, spans: &mut Vec<Span>) {
    const NAMES: [&[u8]; 2] = [b"Diversion", b"History-Info"];
    let others = message.fields_of(HeaderName::Other);
    let named = others.filter(|field| {
        let mut names = NAMES.iter();
        names.any(|name| field.raw_name.eq_ignore_ascii_case(name))
    });
    spans.extend(named.map(|field| field.line_span));
}

fn is_one(name: &[u8]) -> bool {
    NAMES
        .iter()
        .any(|one| one.as_bytes().eq_ignore_ascii_case(name))
}
