//! Transforms of ESP by a policy, as the paper has them: a cipher and an authentication.

use crate::choice::{Choice, Member, Reason, Side, choose};
use crate::policy::Policy;
use crate::price::{Prices, Use};
use crate::table::Levels;
use crate::unmet::Unmet;

/// Ciphers that need a separate authentication.
pub const CIPHERS: [&str; 8] = [
    "AES-128-CBC",
    "AES-192-CBC",
    "AES-256-CBC",
    "3DES-CBC",
    "DES-CBC",
    "Blowfish-128-CBC",
    "Blowfish-192-CBC",
    "NULL",
];
/// Ciphers that authenticate.
pub const AEADS: [&str; 3] = ["AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305"];
/// Authentications.
pub const MACS: [&str; 3] = ["HMAC-MD5-96", "HMAC-SHA1-96", "HMAC-SHA-256-128"];

/// Ciphers with a separate authentication, and those without.
const APART: u8 = 1;
const TOGETHER: u8 = 2;

/// Transforms by a policy, the cheapest first, for packets of this size that are sent and
/// received once. `peer` has what the other end offers, where that is known.
///
/// # Errors
/// Where nothing satisfies it.
pub fn choose_ipsec(
    policy: &Policy,
    peer: Option<&[String]>,
    packet_bytes: u32,
    levels: &Levels,
    prices: &Prices,
) -> Result<Choice, Unmet> {
    let is_offered = |name: &str, among: &[&str]| {
        peer.is_none_or(|names| {
            let of_kind = |offered: &&String| is_among(offered, among);
            let mut of_kind = names.iter().filter(of_kind).peekable();
            of_kind.peek().is_none() || of_kind.any(|offered| offered.eq_ignore_ascii_case(name))
        })
    };
    let every: Vec<&str> = CIPHERS.into_iter().chain(AEADS).collect();
    let cost = |what: Use, name: &str| prices.of(what, name)?.at(packet_bytes);
    let cipher = |name: &'static str, fits: u8| Member {
        name: name.to_owned(),
        parts: vec![name],
        cost_ns: cost(Use::Cipher, name),
        fits,
        excluded: (!is_offered(name, &every)).then_some(Reason::NotOffered),
    };
    let ciphers = Side {
        what: "cipher",
        members: (CIPHERS.into_iter().map(|name| cipher(name, APART)))
            .chain(AEADS.into_iter().map(|name| cipher(name, TOGETHER)))
            .collect(),
        is_given: false,
    };
    let mac = |name: &'static str| Member {
        name: name.to_owned(),
        parts: vec![name],
        cost_ns: cost(Use::Mac, name),
        fits: APART,
        excluded: (!is_offered(name, &MACS)).then_some(Reason::NotOffered),
    };
    // Ciphers that authenticate go with nothing.
    let none = Member {
        name: String::new(),
        parts: Vec::new(),
        cost_ns: Some(0.0),
        fits: TOGETHER,
        excluded: None,
    };
    let macs = Side {
        what: "authentication",
        members: MACS.into_iter().map(mac).chain([none]).collect(),
        is_given: false,
    };
    let mut choice = choose(policy, levels, &ciphers, &macs).map_err(|mut unmet| {
        unmet.fallen.retain(|fallen| !fallen.name.is_empty());
        unmet
    })?;
    choice.second.retain(|name| !name.is_empty());
    choice.fallen.retain(|fallen| !fallen.name.is_empty());
    Ok(choice)
}

/// Reads what a peer offers: ciphers and authentications, with commas between.
///
/// # Errors
/// Names what is neither, and the nearest name that is one.
pub fn peer_offers(text: &str) -> Result<Vec<String>, String> {
    let known: Vec<&str> = CIPHERS.into_iter().chain(AEADS).chain(MACS).collect();
    let names = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let offered: Vec<String> = names
        .map(|name| {
            if is_among(name, &known) {
                return Ok(name.to_owned());
            }
            let remedy = match diagnose::nearest(name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write some of: {}", known.join(", ")),
            };
            Err(format!(
                "`{name}` is no transform that is known here\n{remedy}"
            ))
        })
        .collect::<Result<_, String>>()?;
    if offered.is_empty() {
        return Err(format!(
            "nothing is offered\nwrite some of: {}",
            known.join(", ")
        ));
    }
    Ok(offered)
}

fn is_among(name: &str, known: &[&str]) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(name))
}
