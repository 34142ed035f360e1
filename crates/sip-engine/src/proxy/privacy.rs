//! Who calls, where he wants that kept (RFC 3323, RFC 3325): headers that name him go to trusted
//! neighbours and to nobody else.

use std::net::IpAddr;

use sip_msg::network::is_in;
use sip_msg::{HeaderName, Message, Span};

use super::context::TargetKind;
use crate::Shard;
use crate::permit::{Permit, identity_lines};

/// Whether the caller asks that his identity be withheld: by `id`, or by `user` or `header`,
/// which ask for more.
pub(crate) fn is_asked_for(request: &Message) -> bool {
    asks_for(request, &[b"id", b"user", b"header"])
}

/// The lines of a request that name its caller, where he has asked by `Privacy: id` that they be
/// kept from whoever is not trusted. Of what his permit lets pass: the others are cut in any case.
// RFC 3325 9.3: `id` in Privacy asks that the asserted identity be kept within the domain of trust.
// What came before RFC 3325 says the same.
pub(crate) fn hidden_lines(permit: &Permit, request: &Message, lines: &mut Vec<Span>) {
    lines.clear();
    if permit.may_assert() && keeps_identity(request) {
        identity_lines(request, lines);
    }
}

/// Whether a message asks that the identity which it asserts be kept (RFC 3325 9.3).
pub(crate) fn keeps_identity(message: &Message) -> bool {
    asks_for(message, &[b"id"])
}

fn asks_for(request: &Message, wanted: &[&[u8]]) -> bool {
    let mut fields = request.fields_of(HeaderName::Privacy);
    fields.any(|field| {
        let values = field.value.split(|byte| matches!(byte, b';' | b','));
        let mut values = values.map(<[u8]>::trim_ascii);
        values.any(|value| wanted.iter().any(|of| of.eq_ignore_ascii_case(value)))
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
            TargetKind::Routed | TargetKind::Uri(_) | TargetKind::Token(_) => self.is_trusted(addr),
        }
    }

    /// Whether a neighbour in the list is at that address.
    pub(super) fn is_trusted(&self, addr: IpAddr) -> bool {
        let mut networks = self.settings.trusted.iter().filter_map(|peer| peer.network);
        networks.any(|network| is_in(network, addr))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};

    #[test]
    fn privacy_is_read_as_it_is_written() {
        for (lines, asked, kept) in [
            ("", false, false),
            ("Privacy: none\r\n", false, false),
            ("Privacy: id\r\n", true, true),
            ("privacy: header; ID ;critical\r\n", true, true),
            ("Privacy: user; header\r\n", true, false),
            ("Privacy: user\r\nPrivacy: id\r\n", true, true),
            ("Privacy: history\r\n", false, false),
            ("Privacy: idle\r\n", false, false),
            ("X-Privacy: id\r\n", false, false),
        ] {
            let alice = "<sip:a@example.org>;tag=a";
            let bob = "<sip:b@example.org>";
            let text = request("INVITE", "sip:b@example.org", alice, bob, lines);
            let request = parse(text.as_bytes());
            assert_eq!(is_asked_for(&request), asked, "{lines}");
            assert_eq!(keeps_identity(&request), kept, "{lines}");
        }
    }
}
