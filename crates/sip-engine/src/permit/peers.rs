//! Which neighbour a request comes from, and for whom it may speak.

use std::sync::Arc;

use sip_msg::header::NameAddr;
use sip_msg::network::is_in;
use sip_msg::{HeaderName, Message, Uri, VerifiedPeer};

use super::{GateContext, identity, trust};
use crate::Settings;
use crate::own::Own;
use crate::sender::Sender;
use crate::settings::TrustedPeer;

/// What the operator's list and the peer's certificate say of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It comes from nobody in the list.
    Unlisted,
    /// It comes from a peer in the list, which may speak for whom it names.
    Listed {
        /// Whether it may leave for others than our users.
        may_relay: bool,
    },
    /// It comes from a member of a trunk, which may speak for whom it names.
    Trunk,
    /// It comes from a peer in the list and names this host, for which that
    /// peer does not speak.
    SpeaksForOthers(Box<str>),
}

/// Looks a request's sender up in the list. One address may have several
/// entries, and one connection fit several: any that lets the request speak
/// will do.
pub(super) fn standing(cx: &GateContext<'_>, message: &Message) -> Standing {
    let mut claimed = None;
    let mut may_relay = None;
    let mut is_trunks = false;
    for entry in entries(cx.settings, cx.own, cx.sender) {
        match first_claim(cx, entry, message) {
            None => {
                may_relay = Some(may_relay.unwrap_or(false) || entry.may_relay);
                is_trunks |= entry.trunk.is_some();
            }
            Some(host) => claimed = Some(host),
        }
    }
    match (may_relay, claimed) {
        (Some(false), _) if is_trunks => Standing::Trunk,
        (Some(may_relay), _) => Standing::Listed { may_relay },
        (None, Some(host)) => Standing::SpeaksForOthers(host),
        (None, None) => Standing::Unlisted,
    }
}

/// Whether it is a listed peer.
pub(crate) fn is_listed(settings: &Settings, own: &Own, sender: &Sender) -> bool {
    listed(settings, own, sender).is_some()
}

/// The first entry of the list that is about a sender.
pub(crate) fn listed<'c>(
    settings: &'c Settings,
    own: &'c Own,
    sender: &'c Sender,
) -> Option<&'c TrustedPeer> {
    entries(settings, own, sender).next()
}

/// The trunks of which a sender is a member.
pub(crate) fn trunks_of<'c>(
    settings: &'c Settings,
    own: &'c Own,
    sender: &'c Sender,
) -> impl Iterator<Item = &'c Arc<str>> {
    entries(settings, own, sender).filter_map(|entry| entry.trunk.as_ref())
}

/// The first host, among those in whose name a request speaks, that its
/// sender's certificate does not prove; `None` where it proves them all.
pub(super) fn first_unproven(
    cx: &GateContext<'_>,
    peer: &VerifiedPeer,
    message: &Message,
) -> Option<Box<str>> {
    let is_user = |uri: &Uri<'_>| {
        peer.uris()
            .iter()
            .filter_map(|known| Uri::parse(known.as_bytes()))
            .any(|known| is_same_user(&known, uri))
    };
    claims(message).find_map(|claim| match claim {
        Claim::Nobody => None,
        Claim::User(uri) => {
            let host = uri.host_port.host;
            // Our own users are proved by their own credentials alone.
            let proves = !cx.own.is_own_host(host) && (peer.speaks_for(host) || is_user(&uri));
            (!proves).then(|| shown(host))
        }
        Claim::Unreadable(_) => Some("".into()),
    })
}

/// Whether two URIs name one user: the user to the letter, the host whatever
/// its case, no scheme but `sip`.
pub(super) fn is_same_user(known: &Uri<'_>, uri: &Uri<'_>) -> bool {
    let (Some(_), Some(_)) = (known.user, uri.user) else {
        return false;
    };
    let (mut a, mut b) = (Vec::new(), Vec::new());
    known.write_user(&mut a);
    uri.write_user(&mut b);
    let bare = |uri: &Uri<'_>| {
        let host = uri.host_port.host;
        host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase()
    };
    known.is_sip() && uri.is_sip() && a == b && bare(known) == bare(uri)
}

/// The entries that are about the sender. None is about this server: what it
/// sent to itself, because somebody's name led there, would be trusted for having
/// passed here. A neighbour on the same host has another port.
fn entries<'c>(
    settings: &'c Settings,
    own: &'c Own,
    sender: &'c Sender,
) -> impl Iterator<Item = &'c TrustedPeer> {
    settings.trusted.iter().filter(move |entry| {
        let flow = &sender.flow;
        fits(entry, sender) && !own.is_at(flow.transport, &flow.remote)
    })
}

/// Whether an entry is about whoever is at the other end of a flow.
fn fits(entry: &TrustedPeer, sender: &Sender) -> bool {
    let (flow, peer) = (&sender.flow, sender.peer.as_deref());
    let proves = match &entry.identity {
        Some(identity) => peer.is_some_and(|peer| peer.speaks_for(identity.as_bytes())),
        // An entry that asks for nothing would be everybody's.
        None => entry.network.is_some(),
    };
    let is_at = entry
        .network
        .is_none_or(|network| is_in(network, flow.remote.ip()));
    proves && is_at && (!entry.secure_only || flow.transport.is_secure())
}

/// Whether the peer of an entry speaks for a host.
fn speaks(cx: &GateContext<'_>, entry: &TrustedPeer, host: &[u8]) -> bool {
    let bare = host.strip_suffix(b".").unwrap_or(host);
    match (&entry.speaks_for, &entry.identity) {
        (Some(names), _) => names.iter().any(|name| match &**name {
            // `*` is every domain but ours: a peer that speaks for one of those has it by name.
            "*" => !cx.own.is_own_host(host),
            name => name.as_bytes().eq_ignore_ascii_case(bare),
        }),
        (None, Some(_)) => cx
            .sender
            .peer
            .as_deref()
            .is_some_and(|peer| peer.speaks_for(host)),
        // Trusted by its address alone: its word is taken for anything.
        (None, None) => true,
    }
}

/// Whether the peer of an entry may say what cannot be read here. A provider's may be written
/// loosely, and nobody is served by a call that is refused for it. But who is less strict may read
/// one of our names in it: that is for those whose word is taken for anything.
fn may_say(cx: &GateContext<'_>, entry: &TrustedPeer, written: &[u8]) -> bool {
    match (&entry.speaks_for, &entry.identity) {
        (Some(names), _) => {
            names.iter().any(|name| &**name == "*") && !may_be_read_as_ours(cx, written)
        }
        (None, identity) => identity.is_none(),
    }
}

/// Whether a name or an address of ours stands anywhere in a text. What is escaped, and an address
/// in brackets, may be any.
fn may_be_read_as_ours(cx: &GateContext<'_>, text: &[u8]) -> bool {
    let is_of_host = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let mut words = text.split(|byte| !is_of_host(byte));
    text.iter().any(|byte| matches!(byte, b'%' | b'['))
        || words.any(|word| cx.own.is_own_host(word.strip_suffix(b".").unwrap_or(word)))
}

fn first_claim(cx: &GateContext<'_>, entry: &TrustedPeer, message: &Message) -> Option<Box<str>> {
    claims(message).find_map(|claim| match claim {
        Claim::Nobody => None,
        Claim::User(uri) => {
            let host = uri.host_port.host;
            (!speaks(cx, entry, host)).then(|| shown(host))
        }
        Claim::Unreadable(written) => (!may_say(cx, entry, written)).then(|| "".into()),
    })
}

/// In whose name a request speaks.
enum Claim<'m> {
    /// In nobody's: a number, or whoever hides (RFC 3323).
    Nobody,
    User(Uri<'m>),
    /// What stands there.
    Unreadable(&'m [u8]),
}

/// From, and every header by which gateways know a caller or who pays.
fn claims(message: &Message) -> impl Iterator<Item = Claim<'_>> {
    let from = message.from().ok().and_then(|addr| addr.uri());
    let written = message.first(HeaderName::From);
    let written = written.map_or(&b""[..], |field| field.value);
    let others = [
        HeaderName::PAssertedIdentity,
        HeaderName::PPreferredIdentity,
    ]
    .into_iter()
    .flat_map(|name| message.values(name))
    .map(|(value, _)| value)
    .chain(trust::callers(message))
    .map(|value| (NameAddr::parse(value).and_then(|addr| addr.uri()), value));
    std::iter::once((from, written))
        .chain(others)
        .map(|(uri, written)| match uri {
            None => Claim::Unreadable(written),
            Some(uri) if identity::names_nobody(&uri) => Claim::Nobody,
            Some(uri) if uri.is_sip() => Claim::User(uri),
            Some(uri) if uri.scheme == sip_msg::uri::Scheme::Tel => Claim::Nobody,
            Some(_) => Claim::Unreadable(written),
        })
}

/// A host as it may be logged: short, and nothing but what is printed.
fn shown(host: &[u8]) -> Box<str> {
    host.iter()
        .take(255)
        .map(|byte| match byte {
            0x21..=0x7e => char::from(*byte),
            _ => '?',
        })
        .collect::<String>()
        .into()
}
