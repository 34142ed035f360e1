//! Overload control between servers, by the parameters `oc`, `oc-algo`,
//! `oc-validity` and `oc-seq` of Via (RFC 7339; the algorithm `rate` is RFC 7415's).
//!
//! A client that supports it says so in the Via of each request ([`OFFER`]). The
//! server puts feedback into the same Via of its responses ([`write_feedback`]): how
//! much less it wants, and for how long. The client obeys ([`Neighbours`]).

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
/// How long a value is valid without `oc-validity` (RFC 7339 4.3).
const VALIDITY_MS: u64 = 500;
/// Neighbours that are remembered.
const NEIGHBOURS_MAX: usize = 1_024;
/// The longest validity that is accepted.
const VALIDITY_MS_MAX: u64 = 60_000;

/// How a client is to send less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The value is the percentage of requests to leave out.
    Loss,
    /// The value is the most requests per second.
    Rate,
}

/// What a server says of its load in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// What the value means.
    pub algorithm: Algorithm,
    /// Percent, or requests per second.
    pub value: u32,
    /// For how long it is valid; 0 ends the restriction.
    pub validity_ms: u64,
    /// `oc-seq` in millionths; a lower one is older.
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

/// Reads the feedback in the first element of a Via.
pub fn read_feedback(via: &[u8]) -> Option<Feedback> {
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
    let mut feedback = Feedback {
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
            feedback.value = number(value)?;
            has_value = true;
        } else if name.eq_ignore_ascii_case(b"oc-algo") {
            feedback.algorithm = match value {
                b"\"loss\"" | b"loss" => Algorithm::Loss,
                b"\"rate\"" | b"rate" => Algorithm::Rate,
                _ => return None,
            };
        } else if name.eq_ignore_ascii_case(b"oc-validity") {
            feedback.validity_ms = u64::from(number(value)?).min(VALIDITY_MS_MAX);
        } else if name.eq_ignore_ascii_case(b"oc-seq") {
            feedback.seq = millionths(value)?;
        }
    }
    has_value.then_some(feedback)
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
pub fn write_feedback(bytes: &mut Vec<u8>, start: usize, loss_percent: u32, unix_ms: u64) -> bool {
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

/// The feedback of each neighbour, and what may still be sent to it.
#[derive(Debug, Default)]
pub struct Neighbours {
    by_addr: BTreeMap<SocketAddr, Neighbour>,
}

#[derive(Debug)]
struct Neighbour {
    feedback: Feedback,
    until_ms: u64,
    /// Hundredths of a request, for `loss`.
    saved: u32,
    /// Requests that may be sent, for `rate`, and when that was reckoned.
    room: f64,
    at_ms: u64,
}

impl Neighbours {
    /// Whether there is no feedback at all.
    pub fn is_empty(&self) -> bool {
        self.by_addr.is_empty()
    }

    /// Takes the feedback of a neighbour.
    pub fn take_feedback(&mut self, now_ms: u64, addr: SocketAddr, feedback: Feedback) {
        if let Some(neighbour) = self.by_addr.get_mut(&addr) {
            // RFC 7339 4.4: what is older than what is known is not heeded. Long after his
            // word has ended he may have begun to count anew.
            let is_over = now_ms >= neighbour.until_ms.saturating_add(VALIDITY_MS_MAX);
            if feedback.seq <= neighbour.feedback.seq && !is_over {
                return;
            }
            neighbour.feedback = feedback;
            neighbour.until_ms = now_ms + feedback.validity_ms;
            return;
        }
        if feedback.validity_ms == 0 {
            return;
        }
        if self.by_addr.len() >= NEIGHBOURS_MAX {
            self.by_addr.retain(|_, known| known.until_ms > now_ms);
            if self.by_addr.len() >= NEIGHBOURS_MAX {
                return;
            }
        }
        let neighbour = Neighbour {
            feedback,
            until_ms: now_ms + feedback.validity_ms,
            saved: 0,
            room: 1.0,
            at_ms: now_ms,
        };
        self.by_addr.insert(addr, neighbour);
    }

    /// Whether a new request, one outside of a dialog, may be sent to a neighbour.
    pub fn may_send(&mut self, now_ms: u64, addr: SocketAddr) -> bool {
        let Some(neighbour) = self.by_addr.get_mut(&addr) else {
            return true;
        };
        if now_ms >= neighbour.until_ms {
            return true;
        }
        match neighbour.feedback.algorithm {
            Algorithm::Loss => {
                neighbour.saved += 100 - neighbour.feedback.value.min(100);
                let may = neighbour.saved >= 100;
                if may {
                    neighbour.saved -= 100;
                }
                may
            }
            Algorithm::Rate => {
                let rate = f64::from(neighbour.feedback.value);
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
