//! Who calls, where he wants that kept (RFC 3323, RFC 3325): headers that name him go to trusted
//! neighbours and to nobody else.

use std::borrow::Cow;
use std::net::IpAddr;

use sip_msg::network::is_in;
use sip_msg::{HeaderName, Message, Span};

use super::context::TargetKind;
use crate::Shard;
use crate::permit::{Permit, identity_lines, is_identity};
use crate::trunk::Identity;

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
    fields.any(|field| has_any(field.value, wanted))
}

/// Whether a value of Privacy has one of these.
fn has_any(value: &[u8], wanted: &[&[u8]]) -> bool {
    let values = value.split(|byte| matches!(byte, b';' | b','));
    let mut values = values.map(<[u8]>::trim_ascii);
    values.any(|value| wanted.iter().any(|of| of.eq_ignore_ascii_case(value)))
}

/// Whole header lines, each with its name and its value.
fn fields_of(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
    lines.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        (line, name, value.get(1..).unwrap_or_default())
    })
}

/// Whether a header of that name says what a caller wants kept.
pub(crate) fn is_privacy(name: &[u8]) -> bool {
    HeaderName::from_token(name) == HeaderName::Privacy
}

/// Whether lines that the operator's hook adds ask that the identity be kept.
fn is_kept_by(lines: &[u8]) -> bool {
    fields_of(lines).any(|(_, name, value)| is_privacy(name) && has_any(value, &[b"id"]))
}

/// Whether what such lines say of privacy stands in the place of what the caller says of his: what
/// he has asked to be kept, by `id`, is kept.
pub(crate) fn is_privacy_replaced(request: &Message, lines: &[u8]) -> bool {
    fields_of(lines).any(|(_, name, _)| is_privacy(name))
        && (!keeps_identity(request) || is_kept_by(lines))
}

/// Such lines without those of some names.
fn without<'l>(lines: &'l [u8], is_left_out: impl Fn(&[u8]) -> bool) -> Cow<'l, [u8]> {
    if !fields_of(lines).any(|(_, name, _)| is_left_out(name)) {
        return Cow::Borrowed(lines);
    }
    let kept = fields_of(lines).filter(|(_, name, _)| !is_left_out(name));
    Cow::Owned(kept.flat_map(|(line, ..)| line).copied().collect())
}

impl Shard {
    /// Whether a copy that goes there may name the caller although he asks that this be withheld:
    /// to a next hop of the operator's own, or to a neighbour in the list, and neither to a phone
    /// nor to any other domain.
    // RFC 3325 7: with `id` a proxy removes P-Asserted-Identity from what it forwards to elements
    // that it does not trust.
    pub(super) fn may_know_the_caller(&self, kind: &TargetKind, addr: IpAddr) -> bool {
        match kind {
            TargetKind::NextHops { .. } => true,
            TargetKind::Contact(_) => false,
            TargetKind::Routed | TargetKind::Uri(_) | TargetKind::Token(_) => self.is_trusted(addr),
        }
    }

    /// The lines of the operator's hook for a copy that goes there: what names the caller is left
    /// out where he, or the hook, wants it kept from there, and where a trunk names him; and what
    /// would let it be shown though he wants it kept.
    pub(super) fn told_there<'l>(
        &self,
        lines: &'l [u8],
        request: &Message,
        kind: &TargetKind,
        addr: IpAddr,
    ) -> Cow<'l, [u8]> {
        if lines.is_empty() {
            return Cow::Borrowed(lines);
        }
        let may_name = match kind {
            TargetKind::NextHops {
                trunk: Some(trunk), ..
            } => trunk.identity == Identity::AsIs,
            _ => {
                let is_kept = keeps_identity(request) || is_kept_by(lines);
                !is_kept || self.may_know_the_caller(kind, addr)
            }
        };
        let is_replaced = is_privacy_replaced(request, lines);
        without(lines, |name| {
            (!may_name && is_identity(name)) || (!is_replaced && is_privacy(name))
        })
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

    #[test]
    fn of_the_hooks_lines_those_that_name_who_calls_are_known() {
        let lines =
            b"X-A: id\r\nP-Asserted-Identity: <tel:+4930>\r\nremote-party-id: <tel:+4930>\r\n\
                      Privacy: header;id\r\nX-B: P-Asserted-Identity: x\r\n";
        assert!(is_kept_by(lines));
        let left = without(lines, is_identity);
        let expected = &b"X-A: id\r\nPrivacy: header;id\r\nX-B: P-Asserted-Identity: x\r\n"[..];
        assert_eq!(&*left, expected);
        assert_eq!(&*without(&left, is_identity), expected);
        for lines in [&b""[..], b"Privacy: none\r\n", b"X-Privacy: id\r\n"] {
            assert!(!is_kept_by(lines));
            assert_eq!(&*without(lines, is_identity), lines);
        }
    }
}
