//! What must hold of every input: the claims that the fuzz targets try to
//! refute, and that a test tries again on every input that was worth keeping.
//!
//! A claim is a function of bytes that panics where it does not hold. It has no
//! state from one input to the next that it could see, so an input that refutes
//! it does so alone.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a claim that does not hold panics: this is how a fuzzer learns of it"
)]
#![forbid(unsafe_code)]

mod bencode;
mod bodies;
mod differential;
mod digest;
mod hook;
mod messages;
mod other;
mod packets;
mod readings;
mod route;
mod scenario;
mod streams;
mod tls;
mod world;

pub use bencode::bencode;
pub use bodies::bodies;
pub use differential::differential;
pub use digest::digest;
pub use hook::hook;
pub use messages::{edit, parse};
pub use other::{Answer, OTHER_PARSER, Other, is_other_here};
pub use packets::packets;
pub use readings::Reading;
pub use route::route;
pub use scenario::scenario;
pub use streams::{frame, websocket};
pub use tls::tls_hello;

/// A claim.
pub type Claim = fn(&[u8]);

/// Every claim, by the name of its fuzz target and of its corpus.
pub const CLAIMS: [(&str, Claim); 13] = [
    ("parse", parse),
    ("frame", frame),
    ("edit", edit),
    ("websocket", websocket),
    ("route", route),
    ("digest", digest),
    ("tls_hello", tls_hello),
    ("scenario", scenario),
    ("differential", differential),
    ("packets", packets),
    ("bodies", bodies),
    ("bencode", bencode),
    ("hook", hook),
];

/// The parts of an input that is several texts, one after the other.
fn parts(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    const LINE: &[u8] = b"\n%%\n";
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let here = rest?;
        let at = here.windows(LINE.len()).position(|four| four == LINE);
        let (part, after) = match at {
            Some(at) => (&here[..at], Some(&here[at + LINE.len()..])),
            None => (here, None),
        };
        rest = after;
        Some(part)
    })
}

/// `text` with every `word` in it replaced.
fn replaced(text: &[u8], word: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(word.len()).position(|here| here == word) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(by);
        rest = &rest[at + word.len()..];
    }
    out.extend_from_slice(rest);
    out
}
