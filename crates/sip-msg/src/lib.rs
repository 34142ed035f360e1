//! SIP messages (RFC 3261 section 7): one pass finds the start line and the
//! header boundaries, typed values are read on demand, and forwarding edits
//! gather the bytes that nobody touched as they came.
//!
//! Nothing here does I/O, reads a clock or panics on input. Memory that was
//! needed once is used again: reading, editing and answering a message
//! allocates nothing in the steady state.
//!
//! # How to use it
//! A datagram goes to [`Message::fill`] as it came, a stream first through a
//! [`Framer`]; then [`Message::validate`], and the rest is getters.
//!
//! ```
//! use sip_msg::{Edits, Framed, Framer, HeaderName, Limits, Message, ResponseWriter};
//!
//! let stream = b"OPTIONS sip:bob@example.com SIP/2.0\r\n\
//!     Via: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK1\r\n\
//!     Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\n\
//!     Call-ID: 1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n";
//! let limits = Limits::default();
//! let (mut framer, mut message, mut edits) = (Framer::default(), Message::default(), Edits::default());
//! let (mut unread, mut out) = (&stream[..], Vec::new());
//! loop {
//!     let len = match framer.next(unread, &limits) {
//!         Ok(Framed::More) => break, // read more from the connection
//!         Ok(Framed::Ping { len } | Framed::Skip { len }) => len,
//!         Ok(Framed::Message { len }) => {
//!             let read = message.fill(&unread[..len], &limits).and_then(|()| message.validate());
//!             match read {
//!                 Ok(()) => {
//!                     edits.clear();
//!                     edits.replace(message.request_uri_span(), b"sip:bob@192.0.2.9");
//!                     edits.insert(message.headers_start(), b"Via: SIP/2.0/TCP 192.0.2.2;branch=z9hG4bK2\r\n");
//!                     let max_forwards = message.first(HeaderName::MaxForwards).expect("it is there");
//!                     edits.replace(max_forwards.value_span, b"69");
//!                     edits.apply(&message, &mut out);
//!                 }
//!                 Err(e) if message.is_answerable() => {
//!                     ResponseWriter::begin(&mut out, &message, e.status(), e.reason(), b"tag").finish(b"");
//!                 }
//!                 Err(_) => {} // drop and count
//!             }
//!             len
//!         }
//!         Err(_) => break, // fill `head_len` bytes, answer where possible, close
//!     };
//!     unread = &unread[len..];
//! }
//! assert!(out.starts_with(b"OPTIONS sip:bob@192.0.2.9 SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.2;"));
//! ```
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
