#![doc = include_str!("../README.md")]
//!
//! # What is refused, and why
//! What is forwarded must read alike to whoever reads it next, so nothing passes
//! that two parsers could take for two different messages:
//!
//! - a line ends with CRLF; a bare CR or LF in the head is an error, over a
//!   datagram as over a stream;
//! - a control character is an error, but the tab, and but a quoted-pair in a
//!   quoted string;
//! - a header name is a token; only spaces and tabs may stand before its colon;
//! - Content-Length is digits, once, and over a stream not optional;
//! - From, To, Call-ID, CSeq and the other headers that may be there once are
//!   there once; no parameter that is read occurs twice in a Via or an address.
//!
//! # Where it departs from RFC 3261's grammar
//! Narrower: a continuation line of white space alone is refused, as others take
//! it for the end of the headers; a port is not 0; an IPv4 address has no leading
//! zeros; a URI has at most [`Uri::PARTS_MAX`] parameters and as many headers.
//!
//! Wider, where deployed phones and networks are: host names may hold `_`, a
//! user part `#`; an unquoted parameter value may be any visible ASCII but
//! `; , " < >`; a Call-ID any word; an unquoted display name anything but
//! `; , " < > : @ \`, and it needs no space before the `<`.
#![forbid(unsafe_code)]

mod chars;
pub mod edit;
pub mod frame;
pub mod header;
pub mod message;
pub mod method;
pub mod network;
pub mod parse;
pub mod peer;
pub mod pool;
pub mod uri;
pub mod wire;
pub mod write;

pub use edit::Edits;
pub use frame::{FrameError, Framed, Framer};
pub use header::HeaderName;
pub use message::{Field, Message, Span, StartLine};
pub use method::Method;
pub use parse::{Limits, ParseError, ParseErrorKind};
pub use peer::VerifiedPeer;
pub use pool::Pool;
pub use uri::{HostPort, Uri};
pub use wire::{ConnId, Flow, Lane, ListenerId, Outbox, QueuedMessage, Target, Transport};
pub use write::{MessageWriter, ResponseWriter};
