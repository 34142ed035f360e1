//! What servers tell each other of their load, in the parameters `oc`,
//! `oc-algo`, `oc-validity` and `oc-seq` of Via (RFC 7339; the algorithm `rate`
//! is RFC 7415's).
//!
//! A client that understands it says so in the Via of each request
//! ([`OFFER`]); the server answers in the same Via ([`tell`]) how much less it
//! wants, for how long, and the client sees to it ([`Neighbours`]).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;

/// What a client writes into its Via. RFC 7339 4.2: `loss` must be among them. A
/// second algorithm would stand behind a comma, which Kamailio 5.6 takes for the
/// end of the value in spite of its quotes: it drops such a request. Who answers
/// with `rate` all the same is heeded.
pub const OFFER: &[u8] = b";oc;oc-algo=\"loss\"";
/// How long a value is good where nothing is said (RFC 7339 4.3).
const VALIDITY_MS: u64 = 500;
/// Neighbours that are remembered.
const NEIGHBOURS_MAX: usize = 1_024;
/// Nobody is believed for longer.
const VALIDITY_MS_MAX: u64 = 60_000;

/// How a client is to send less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// So many of a hundred requests less.
    Loss,
    /// No more than so many requests a second.
    Rate,
}

/// What a server has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// By which algorithm the value is meant.
    pub algorithm: Algorithm,
    /// Percent, or requests a second.
    pub value: u32,
    /// For how long; 0 ends it.
    pub validity_ms: u64,
    /// In millionths; a lower one is an older word.
    pub seq: u64,
}

/// The parameters of the first element of a Via: where each stands with its
/// semicolon, its name and its value.
fn params(via: &[u8]) -> impl Iterator<Item = (usize, usize, &[u8], &[u8])> {
    let mut at = end_of(via, 0, b";,");
    std::iter::from_fn(move || {
        if via.get(at) != Some(&b';') {
            return None;
        }
        let start = at;
        at = end_of(via, start + 1, b";,");
        let text = via.get(start + 1..at).unwrap_or_default();
        let (name, value) = match text.iter().position(|byte| *byte == b'=') {
            Some(equals) => {
                let (name, value) = text.split_at(equals);
                (name, value.get(1..).unwrap_or_default())
            }
            None => (text, &[][..]),
        };
        Some((start, at, name.trim_ascii(), value.trim_ascii()))
    })
}

/// Where one of `stops`, or the line, ends what begins at `from`; not in quotes.
fn end_of(text: &[u8], from: usize, stops: &[u8]) -> usize {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate().skip(from) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'\r' | b'\n' => return at,
            _ if !is_quoted && stops.contains(byte) => return at,
            _ => {}
        }
    }
    text.len()
}

fn is_control(name: &[u8]) -> bool {
    ["oc", "oc-algo", "oc-validity", "oc-seq"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// What the first element of a Via says of its server's load.
pub fn told(via: &[u8]) -> Option<Told> {
    // A glance first: nearly none has it.
    let begins = |at: &usize| {
        let name = via.get(at + 1..at + 3);
        name.is_some_and(|name| name.eq_ignore_ascii_case(b"oc"))
    };
    let at = memchr::memchr_iter(b';', via).find(begins)?;
    let rest = via.get(at..)?;
    // What this server offers comes back as it was from whoever does not know it.
    let is_untouched = rest.strip_prefix(OFFER).is_some_and(|after| {
        !memchr::memchr_iter(b'o', after).any(|at| after.get(at + 1) == Some(&b'c'))
    });
    if is_untouched || !rest.contains(&b'=') {
        return None;
    }
    let mut told = Told {
        algorithm: Algorithm::Loss,
        value: 0,
        validity_ms: VALIDITY_MS,
        seq: 0,
    };
    let mut has_value = false;
    for (_, _, name, value) in params(via) {
        if name.eq_ignore_ascii_case(b"oc") {
            if value.is_empty() {
                return None;
            }
            told.value = number(value)?;
            has_value = true;
        } else if name.eq_ignore_ascii_case(b"oc-algo") {
            told.algorithm = match value {
                b"\"loss\"" | b"loss" => Algorithm::Loss,
                b"\"rate\"" | b"rate" => Algorithm::Rate,
                _ => return None,
            };
        } else if name.eq_ignore_ascii_case(b"oc-validity") {
            told.validity_ms = u64::from(number(value)?).min(VALIDITY_MS_MAX);
        } else if name.eq_ignore_ascii_case(b"oc-seq") {
            told.seq = millionths(value)?;
        }
    }
    has_value.then_some(told)
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn millionths(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = rest.get(..rest.len().min(6))?;
    let scale = 10u64.checked_pow(6 - u32::try_from(digits.len()).ok()?)?;
    let whole: u64 = whole.parse().ok()?;
    let rest: u64 = digits.parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(rest * scale)
}

/// Writes the value into the topmost Via of the response in `bytes[start..]`,
/// if its client offered the algorithm `loss` there: in the place of whatever
/// somebody on the way has written. Whether it did.
pub fn tell(bytes: &mut Vec<u8>, start: usize, loss_percent: u32, unix_ms: u64) -> bool {
    let Some(via_start) = via_of(bytes, start) else {
        return false;
    };
    let Some(via) = bytes.get(via_start..) else {
        return false;
    };
    let found: Vec<(usize, usize)> = params(via)
        .filter(|(_, _, name, _)| is_control(name))
        .map(|(from, to, ..)| (via_start + from, via_start + to))
        .collect();
    // RFC 7339 4.2: a client lists `loss` in any case, and it is what is chosen.
    let offers = params(via).any(|(_, _, name, _)| name.eq_ignore_ascii_case(b"oc"));
    let Some((first, _)) = found.first().copied().filter(|_| offers) else {
        return false;
    };
    for (from, to) in found.into_iter().rev() {
        bytes.drain(from..to);
    }
    let mut text = Vec::with_capacity(64);
    let _ = write!(
        text,
        ";oc={};oc-algo=\"loss\";oc-validity={VALIDITY_MS};oc-seq={}.{:03}",
        loss_percent.min(100),
        unix_ms / 1_000,
        unix_ms % 1_000
    );
    bytes.splice(first..first, text);
    true
}

/// Where the value of the first Via of a message begins.
fn via_of(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += memchr::memchr(b'\n', bytes.get(at..)?)? + 1;
        let line = bytes.get(at..)?;
        let colon = memchr::memchr2(b':', b'\n', line)?;
        let name = line.get(..colon)?.trim_ascii();
        if name.is_empty() {
            return None;
        }
        if line.get(colon) == Some(&b':')
            && (name.eq_ignore_ascii_case(b"via") || name.eq_ignore_ascii_case(b"v"))
        {
            return Some(at + colon + 1);
        }
    }
}

/// What neighbours have told, and what they are still sent.
#[derive(Debug, Default)]
pub struct Neighbours {
    by_addr: BTreeMap<SocketAddr, Neighbour>,
}

#[derive(Debug)]
struct Neighbour {
    told: Told,
    until_ms: u64,
    /// Hundredths of a request, for `loss`.
    saved: u32,
    /// Requests that may be sent, for `rate`, and when that was reckoned.
    room: f64,
    at_ms: u64,
}

impl Neighbours {
    /// Whether none has told anything.
    pub fn is_empty(&self) -> bool {
        self.by_addr.is_empty()
    }

    /// A neighbour has told something.
    pub fn hear(&mut self, now_ms: u64, addr: SocketAddr, told: Told) {
        if let Some(neighbour) = self.by_addr.get_mut(&addr) {
            // RFC 7339 4.4: what is older than what is known is not heeded. Long after his
            // word has ended he may have begun to count anew.
            let is_over = now_ms >= neighbour.until_ms.saturating_add(VALIDITY_MS_MAX);
            if told.seq <= neighbour.told.seq && !is_over {
                return;
            }
            neighbour.told = told;
            neighbour.until_ms = now_ms + told.validity_ms;
            return;
        }
        if told.validity_ms == 0 {
            return;
        }
        if self.by_addr.len() >= NEIGHBOURS_MAX {
            self.by_addr.retain(|_, known| known.until_ms > now_ms);
            if self.by_addr.len() >= NEIGHBOURS_MAX {
                return;
            }
        }
        let neighbour = Neighbour {
            told,
            until_ms: now_ms + told.validity_ms,
            saved: 0,
            room: 1.0,
            at_ms: now_ms,
        };
        self.by_addr.insert(addr, neighbour);
    }

    /// Whether a request that begins something may be sent to a neighbour.
    pub fn may_send(&mut self, now_ms: u64, addr: SocketAddr) -> bool {
        let Some(neighbour) = self.by_addr.get_mut(&addr) else {
            return true;
        };
        if now_ms >= neighbour.until_ms {
            return true;
        }
        match neighbour.told.algorithm {
            Algorithm::Loss => {
                neighbour.saved += 100 - neighbour.told.value.min(100);
                let may = neighbour.saved >= 100;
                if may {
                    neighbour.saved -= 100;
                }
                may
            }
            Algorithm::Rate => {
                let rate = f64::from(neighbour.told.value);
                let passed_ms = now_ms.saturating_sub(neighbour.at_ms) as f64;
                neighbour.at_ms = now_ms;
                // What was not sent is not made up for, but for a tenth of a second.
                let most = if rate > 0.0 {
                    (rate / 10.0).max(1.0)
                } else {
                    0.0
                };
                neighbour.room = (neighbour.room + passed_ms * rate / 1_000.0).min(most);
                let may = neighbour.room >= 1.0;
                if may {
                    neighbour.room -= 1.0;
                }
                may
            }
        }
    }
}
