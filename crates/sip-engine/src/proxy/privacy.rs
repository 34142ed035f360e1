//! Who calls, where he wants that kept (RFC 3323, RFC 3325): headers that name him go to trusted
//! neighbours and to nobody else.

use std::net::IpAddr;

use sip_msg::network::is_in;
use sip_msg::{HeaderName, Message, Span};

use super::context::TargetKind;
use crate::permit::Permit;
use crate::{Settings, Shard};

/// Appends the lines of a request that name its caller, where he has asked that they be kept from
/// whoever is not trusted. Of what his permit lets pass: the others are cut in any case.
// RFC 3325 9.3: `id` in Privacy asks that the asserted identity be kept within the domain of trust.
pub(crate) fn hidden_lines(permit: &Permit, request: &Message, lines: &mut Vec<Span>) {
    lines.clear();
    let asserts = request.has(HeaderName::PAssertedIdentity);
    if !asserts || !permit.may_assert() || !wants_privacy(request) {
        return;
    }
    let asserted = request.fields_of(HeaderName::PAssertedIdentity);
    let before = request.fields_of(HeaderName::Other);
    let before = before.filter(|field| {
        // What came before RFC 3325 says the same.
        field.raw_name.eq_ignore_ascii_case(b"Remote-Party-ID")
    });
    lines.extend(asserted.chain(before).map(|field| field.line_span));
}

/// Whether Privacy has `id`.
fn wants_privacy(request: &Message) -> bool {
    let fields = request.fields_of(HeaderName::Other);
    let mut fields = fields.filter(|field| field.raw_name.eq_ignore_ascii_case(b"Privacy"));
    fields.any(|field| {
        let mut values = field.value.split(|byte| matches!(byte, b';' | b','));
        values.any(|value| value.trim_ascii().eq_ignore_ascii_case(b"id"))
    })
}

impl Shard {
    /// Whether who calls may be told there, though he wants it kept: a next hop of the operator's
    /// own, or a neighbour in the list. A phone is none, nor is any other domain.
    // RFC 3325 7: with `id` a proxy removes P-Asserted-Identity from what it forwards to elements
    // that it does not trust.
    pub(super) fn may_know_the_caller(&self, kind: &TargetKind, addr: IpAddr) -> bool {
        match kind {
            TargetKind::NextHops { .. } => true,
            TargetKind::Contact(_) => false,
            TargetKind::Routed | TargetKind::Uri(_) | TargetKind::Token(_) => {
                is_trusted(&self.settings, addr)
            }
        }
    }

    /// All lines that are not for the place where a copy goes, in order, in `lines`.
    pub(super) fn lines_to_cut(strip: &[Span], hidden: &[Span], lines: &mut Vec<Span>) {
        lines.clear();
        lines.extend_from_slice(strip);
        lines.extend_from_slice(hidden);
        lines.sort_unstable_by_key(|span| span.start);
        lines.dedup();
    }
}

fn is_trusted(settings: &Settings, addr: IpAddr) -> bool {
    let mut networks = settings.trusted.iter().filter_map(|peer| peer.network);
    networks.any(|network| is_in(network, addr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};

    #[test]
    fn privacy_is_read_as_it_is_written() {
        for (lines, wants) in [
            ("", false),
            ("Privacy: none\r\n", false),
            ("Privacy: id\r\n", true),
            ("privacy: header; ID ;critical\r\n", true),
            ("Privacy: user\r\nPrivacy: id\r\n", true),
            ("Privacy: idle\r\n", false),
            ("X-Privacy: id\r\n", false),
        ] {
            let alice = "<sip:a@example.org>;tag=a";
            let bob = "<sip:b@example.org>";
            let text = request("INVITE", "sip:b@example.org", alice, bob, lines);
            assert_eq!(wants_privacy(&parse(text.as_bytes())), wants, "{lines}");
        }
    }
}
