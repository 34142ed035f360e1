//! Suites and groups of TLS by a policy.

use serde::Serialize;

use crate::choice::{Choice, Member, Reason, Side, choose};
use crate::policy::Policy;
use crate::price::{Prices, Use};
use crate::suites::{group_by_name, suite_by_name};
use crate::table::Levels;
use crate::unmet::Unmet;

/// What a cost is reckoned for: a message that is received and sent on, with its share of
/// the handshake of the connection that it came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes of a message.
    pub message_bytes: u32,
    /// Messages for which there is one full handshake.
    pub messages_per_handshake: u32,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            message_bytes: 700,
            messages_per_handshake: 100,
        }
    }
}

/// Which end of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It accepts: a listener.
    Accepts,
    /// It connects: to a peer.
    Connects,
}

/// A list of suites or of groups.
#[derive(Clone, Debug, PartialEq)]
pub enum Listed {
    /// Those that may be chosen from.
    Open(Vec<String>),
    /// Those that the operator wrote, as he wrote them.
    Given(Vec<String>),
}

/// What is to be chosen from.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The versions that are allowed: `1.2`, `1.3`.
    pub versions: Vec<&'static str>,
    /// Cipher suites.
    pub suites: Listed,
    /// Key-exchange groups.
    pub groups: Listed,
    /// What the other end has, where that is known: names of suites and groups. Where
    /// it names none of one of the two, all of these will do.
    pub peer: Option<Vec<String>>,
}

/// What comes of a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TlsChoice {
    /// The versions that are left.
    pub versions: Vec<&'static str>,
    /// Suites (`first`) and groups (`second`), the most preferred first.
    #[serde(flatten)]
    pub choice: Choice,
}

/// Versions as bits.
const V12: u8 = 1;
const V13: u8 = 2;

/// Suites and groups by a policy, the cheapest first.
///
/// # Errors
/// Where nothing satisfies it.
pub fn choose_tls(
    policy: &Policy,
    offer: &Offer,
    end: End,
    usage: Usage,
    levels: &Levels,
    prices: &Prices,
) -> Result<TlsChoice, Unmet> {
    let peer = offer.peer.as_deref();
    let suites = side("cipher suite", &offer.suites, |name| {
        suite_member(name, offer, usage, prices)
    });
    let groups = side("key-exchange group", &offer.groups, |name| {
        group_member(name, peer, end, usage, prices)
    });
    let suites = with_offered(suites, peer);
    let choice = choose(policy, levels, &suites, &groups)?;
    let versions = (offer.versions.iter().copied())
        .filter(|version| {
            let mut left = choice.first.iter().filter_map(|name| suite_by_name(name));
            left.any(|suite| suite.version == *version)
        })
        .collect();
    Ok(TlsChoice { versions, choice })
}

fn side(what: &'static str, listed: &Listed, member: impl Fn(&str) -> Member) -> Side {
    let (names, is_given) = match listed {
        Listed::Open(names) => (names, false),
        Listed::Given(names) => (names, true),
    };
    Side {
        what,
        members: names.iter().map(|name| member(name)).collect(),
        is_given,
    }
}

/// The suites that the peer offers and this program does not have, so that they are told of.
fn with_offered(mut side: Side, peer: Option<&[String]>) -> Side {
    for suite in peer
        .into_iter()
        .flatten()
        .filter_map(|name| suite_by_name(name))
    {
        let is_here = |member: &Member| suite_by_name(&member.name) == Some(suite);
        if !side.members.iter().any(is_here) {
            side.members.push(Member {
                name: suite.iana.to_owned(),
                parts: suite.parts.to_vec(),
                cost_ns: None,
                fits: 0,
                excluded: Some(Reason::NotHere),
            });
        }
    }
    side
}

/// What a suite alone costs, by the record of a message; `None` where that is not known.
pub fn suite_cost_ns(name: &str, usage: Usage, prices: &Prices) -> Option<f64> {
    let price = prices.of(Use::Record, suite_by_name(name)?.iana)?;
    price.at(usage.message_bytes)
}

/// What a group alone costs, by a message's share of the handshake; `None` where that is not
/// known.
pub fn group_cost_ns(name: &str, end: End, usage: Usage, prices: &Prices) -> Option<f64> {
    let handshake = match end {
        End::Accepts => Use::Accept,
        End::Connects => Use::Connect,
    };
    let cost_ns = prices.of(handshake, group_by_name(name)?.name)?.at(0)?;
    Some(cost_ns / f64::from(usage.messages_per_handshake.max(1)))
}

fn suite_member(name: &str, offer: &Offer, usage: Usage, prices: &Prices) -> Member {
    let Some(suite) = suite_by_name(name) else {
        return unknown(name);
    };
    let is_offered = offer.peer.as_ref().is_none_or(|names| {
        let mut suites = names
            .iter()
            .filter_map(|name| suite_by_name(name))
            .peekable();
        suites.peek().is_none() || suites.any(|offered| offered == suite)
    });
    let excluded = if !is_offered {
        Some(Reason::NotOffered)
    } else if !offer.versions.contains(&suite.version) {
        Some(Reason::Version {
            version: suite.version,
        })
    } else {
        None
    };
    Member {
        name: name.to_owned(),
        parts: suite.parts.to_vec(),
        cost_ns: suite_cost_ns(name, usage, prices),
        fits: match suite.version {
            _ if !suite.has_group() => 0,
            "1.3" => V13,
            _ => V12,
        },
        excluded,
    }
}

fn group_member(
    name: &str,
    peer: Option<&[String]>,
    end: End,
    usage: Usage,
    prices: &Prices,
) -> Member {
    let Some(group) = group_by_name(name) else {
        return unknown(name);
    };
    let is_offered = peer.is_none_or(|names| {
        let mut groups = names
            .iter()
            .filter_map(|name| group_by_name(name))
            .peekable();
        groups.peek().is_none() || groups.any(|offered| offered == group)
    });
    Member {
        name: name.to_owned(),
        parts: vec![group.name],
        cost_ns: group_cost_ns(name, end, usage, prices),
        fits: if group.is_in_1_2 { V12 | V13 } else { V13 },
        excluded: (!is_offered).then_some(Reason::NotOffered),
    }
}

/// What nobody knows has no level, so it is below the floor.
fn unknown(name: &str) -> Member {
    Member {
        name: name.to_owned(),
        parts: vec!["unknown"],
        cost_ns: None,
        fits: 0,
        excluded: None,
    }
}

/// Reads what a peer offers: suites and groups, with commas between.
///
/// # Errors
/// Names what is neither, and the nearest name that is one.
pub fn peer_offers(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<&str> = text
        .split([',', ':'])
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() {
        return Err(
            "nothing is offered\nwrite names of suites and groups, with commas between".to_owned(),
        );
    }
    names
        .into_iter()
        .map(|name| {
            if suite_by_name(name).is_some() || group_by_name(name).is_some() {
                return Ok(name.to_owned());
            }
            let suites = crate::suites::SUITES.iter();
            let known: Vec<&str> = suites
                .flat_map(|suite| [suite.iana, suite.openssl])
                .chain(crate::suites::GROUPS.iter().map(|group| group.name))
                .collect();
            let remedy = match diagnose::nearest(name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write suites by their names at IANA or in openssl, as TLS_AES_128_GCM_SHA256, and groups, as X25519".to_owned(),
            };
            Err(format!("`{name}` is no suite and no group that is known here\n{remedy}"))
        })
        .collect()
}
