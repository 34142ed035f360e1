//! What must hold of every input, tried on mutated messages: the torture
//! messages, and a few that are made for edits.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;
mod naive;

use common::CORPORA;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use sip_msg::{Edits, Framed, Framer, HeaderName, Limits, Message, ParseErrorKind, Span, Uri};
use std::sync::OnceLock;

const OWN: [&str; 3] = [
    "INVITE sip:bob@example.com;transport=tcp SIP/2.0\r\nVia: SIP/2.0/TCP [2001:db8::1]:5062;branch=z9hG4bK1;rport\r\n\
     Via: SIP/2.0/UDP a, SIP/2.0/UDP b;branch=z9hG4bK2\r\nRoute: <sip:p1;lr>,\r\n <sip:p2;lr>\r\nMax-Forwards: 70\r\n\
     From: \"A, \\\"B\\\"\" <sip:a@b>;tag=1\r\nTo: sip:bob@example.com\r\nCall-ID: x@y\r\nCSeq: 1 INVITE\r\n\
     Contact: <sip:a@b;x=y?h=v>;q=0.5, *\r\nContent-Length: 3\r\n\r\nabc",
    "SIP/2.0 200 OK\r\nv: SIP/2.0/UDP a;branch=z9hG4bK1;received=1.2.3.4\r\nf: <sip:a@b>;tag=1\r\nt: <sip:c@d>;tag=2\r\n\
     i: x\r\nCSeq: 1 BYE\r\nWWW-Authenticate: Digest realm=\"a,b\", nonce=\"c\"\r\nl: 0\r\n\r\n",
    "REGISTER sip:example.com SIP/2.0\r\nVia : SIP/2.0/UDP h\r\nTo: <sip:a@b>\r\nFrom: <sip:a@b>;tag=1\r\nCall-ID: 1\r\n\
     CSeq: 2 REGISTER\r\nContact: *\r\nExpires: 0\r\n\r\n",
];

/// What attackers put in.
const SNIPPETS: [&str; 24] = [
    "\r\n",
    "\n",
    "\r",
    "\0",
    "\x7f",
    "\t",
    "\r\n ",
    "\r\n\r\n",
    "\n\n",
    "\r\n \r\n",
    ":",
    " :",
    "\x01:",
    ",",
    "\"",
    "\\",
    "<",
    ">",
    ";",
    "%00",
    "Content-Length: 5\r\n",
    "l: 0\r\n",
    "\u{e9}",
    "To: <sip:x@y>\r\n",
];

fn bases() -> &'static [Vec<u8>] {
    static BASES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    BASES.get_or_init(|| {
        let torture = CORPORA
            .iter()
            .flat_map(common::Corpus::messages)
            .map(|(_, bytes)| bytes);
        OWN.iter()
            .map(|own| own.as_bytes().to_vec())
            .chain(torture)
            .collect()
    })
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Insert(Index, &'static str),
    Cut(Index, usize),
    Repeat(Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<Index>(), proptest::sample::select(&SNIPPETS[..]))
            .prop_map(|(at, text)| Mutation::Insert(at, text)),
        (any::<Index>(), 1..40usize).prop_map(|(at, len)| Mutation::Cut(at, len)),
        (any::<Index>(), 1..80usize).prop_map(|(at, len)| Mutation::Repeat(at, len)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let place = |index: &Index| index.index(bytes.len() + 1);
    match mutation {
        Mutation::Set(at, byte) => {
            let at = place(at);
            if let Some(place) = bytes.get_mut(at) {
                *place = *byte;
            }
        }
        Mutation::Insert(at, text) => {
            let at = place(at);
            bytes.splice(at..at, text.bytes());
        }
        Mutation::Cut(at, len) => {
            let at = place(at);
            let end = (at + len).min(bytes.len());
            bytes.drain(at..end);
        }
        Mutation::Repeat(at, len) => {
            let at = place(at);
            let end = (at + len).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
    }
}

/// Bytes that a failure prints as text.
#[derive(Clone)]
struct Bytes(Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A message, broken a little or not at all.
fn message_bytes() -> impl Strategy<Value = Bytes> {
    (any::<Index>(), vec(mutation(), 0..4)).prop_map(|(base, mutations)| {
        let mut bytes = base.get(bases()).clone();
        for mutation in &mutations {
            mutate(&mut bytes, mutation);
        }
        Bytes(bytes)
    })
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.max(2_000),
        failure_persistence: None,
        ..default
    }
}

/// What a framer finds in a stream that comes in pieces: where each message
/// stands, how many pings there were, the fault at the end, the bytes left.
#[derive(Debug, PartialEq)]
struct Found {
    messages: Vec<(usize, usize)>,
    pings: usize,
    fault: Option<ParseErrorKind>,
    read: usize,
}

fn run_framer(stream: &[u8], cuts: &[usize], limits: &Limits) -> (Found, usize) {
    let mut framer = Framer::default();
    let mut found = Found {
        messages: Vec::new(),
        pings: 0,
        fault: None,
        read: 0,
    };
    for &end in cuts.iter().chain([&stream.len()]) {
        while found.read <= end {
            match framer.next(&stream[found.read..end], limits) {
                Ok(Framed::More) => break,
                Ok(Framed::Message { len }) => {
                    found.messages.push((found.read, len));
                    found.read += len;
                }
                Ok(Framed::Ping { len }) => {
                    found.pings += 1;
                    found.read += len;
                }
                Ok(Framed::Skip { len }) => found.read += len,
                Err(error) => {
                    found.fault = Some(error.error.kind);
                    return (found, error.head_len);
                }
            }
        }
    }
    (found, 0)
}

/// Calls everything that reads a message.
fn read_all(message: &Message) -> usize {
    let mut seen = message
        .fields()
        .map(|field| field.value.len())
        .sum::<usize>();
    for name in [
        HeaderName::Via,
        HeaderName::Route,
        HeaderName::Contact,
        HeaderName::Supported,
        HeaderName::From,
    ] {
        for (element, span) in message.values(name) {
            assert_eq!(
                message.slice(span),
                element,
                "a span is its element's place"
            );
            seen += 1;
        }
    }
    seen += message
        .vias()
        .flatten()
        .filter(|via| via.sent_by.ip().is_some())
        .count();
    seen += message.contacts().filter(Result::is_ok).count();
    seen += message
        .addresses(HeaderName::Route)
        .flatten()
        .filter(|(addr, _)| addr.uri().is_some())
        .count();
    seen += usize::from(message.uri().is_ok()) + usize::from(message.max_forwards().is_ok());
    seen + message.call_id().len() + message.method_token().len() + message.body().len()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_panics_and_what_passes_reads_alike_elsewhere(Bytes(bytes) in message_bytes()) {
        let mut message = Message::default();
        let filled = message.fill(&bytes, &Limits::default());
        let valid = message.validate();
        read_all(&message);
        if filled.is_ok() && valid.is_ok() {
            let ours: Vec<_> = message.fields().map(|f| (f.raw_name.to_vec(), naive::unfold(f.value))).collect();
            let (theirs, body) = naive::read(message.bytes());
            prop_assert_eq!(ours, theirs);
            prop_assert_eq!(body, message.body());
        }
    }

    #[test]
    fn framer_and_parser_agree(parts in vec(message_bytes(), 1..3), cuts in vec(any::<Index>(), 0..4)) {
        let limits = Limits::default();
        let stream: Vec<u8> = parts.into_iter().flat_map(|part| part.0).collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let (whole, head_len) = run_framer(&stream, &[], &limits);
        let (split, _) = run_framer(&stream, &cuts, &limits);
        prop_assert_eq!(&whole, &split);

        let mut message = Message::default();
        for &(start, len) in &whole.messages {
            // Whatever follows in the stream, the parser ends where the framer does,
            // unless it goes no further because of a limit.
            let filled = message.fill(&stream[start..], &limits).map_err(|e| e.kind);
            prop_assert!(message.bytes().len() == len || filled == Err(ParseErrorKind::TooManyHeaders));
            let alone = message.fill(&stream[start..start + len], &limits);
            prop_assert_eq!(message.bytes().len(), len);
            prop_assert!(!matches!(alone.map_err(|e| e.kind), Err(ParseErrorKind::BodyTruncated)));
        }
        if whole.fault.is_some() {
            let head = &stream[whole.read..whole.read + head_len];
            let parsed = message.fill(head, &limits).map_err(|e| e.kind);
            // A datagram alone may do without a Content-Length.
            prop_assert!(parsed.is_err() || whole.fault == Some(ParseErrorKind::ContentLengthMissing), "{:?}", whole);
        }
    }

    #[test]
    fn what_the_parser_takes_the_framer_cuts(Bytes(bytes) in message_bytes()) {
        let Ok(message) = Message::parse(&bytes, &Limits::default()) else {
            return Ok(());
        };
        if message.has(HeaderName::ContentLength) {
            let framed = Framer::default().next(message.bytes(), &Limits::default());
            prop_assert_eq!(framed, Ok(Framed::Message { len: message.bytes().len() }));
        }
    }

    #[test]
    fn tight_limits_are_kept(Bytes(bytes) in message_bytes(), limit in 1..600usize) {
        let mut message = Message::default();
        let limits = Limits { message_bytes: limit, header_count: limit / 16, header_bytes: limit / 2, uri_bytes: limit / 8, body_bytes: limit };
        if message.fill(&bytes, &limits).is_ok() {
            prop_assert!(message.bytes().len() <= limit);
            prop_assert!(message.fields().count() <= limit / 16);
            prop_assert!(message.request_uri().len() <= limit / 8);
        }
        read_all(&message);
        let (found, _) = run_framer(&bytes, &[bytes.len() / 2], &limits);
        prop_assert!(found.messages.iter().all(|&(_, len)| len <= limit));
    }

    #[test]
    fn edits_are_those_of_a_naive_model(
        Bytes(bytes) in message_bytes(),
        wanted in vec((any::<Index>(), 0..30usize, "[a-z]{0,12}"), 0..12),
    ) {
        // Cuts one behind the other, with insertions anywhere between.
        let mut edits = Edits::default();
        let mut model: Vec<(usize, usize, String)> = Vec::new();
        for (at, len, text) in wanted {
            let start = at.index(bytes.len() + 1);
            let end = (start + len).min(bytes.len());
            let overlaps = |(s, e, _): &(usize, usize, String)| end > *s && *e > start;
            if model.iter().any(|edit| overlaps(edit) || (edit.0 == start)) {
                continue;
            }
            edits.replace(Span { start: start as u32, end: end as u32 }, text.as_bytes());
            model.push((start, end, text));
        }
        model.sort();
        let mut expected = bytes.clone();
        for (start, end, text) in model.iter().rev() {
            expected.splice(start..end, text.bytes());
        }
        let mut out = Vec::new();
        edits.apply_to(&bytes, &mut out);
        prop_assert_eq!(out, expected);
    }

    #[test]
    fn a_forwarding_changes_nothing_else(Bytes(bytes) in message_bytes()) {
        let Ok(message) = Message::parse(&bytes, &Limits::default()) else {
            return Ok(());
        };
        let mut out = Vec::new();
        Edits::default().apply(&message, &mut out);
        prop_assert_eq!(&out[..], message.bytes());

        // With the first Via cut, all other values are as they were.
        let mut edits = Edits::default();
        edits.remove_first_value(&message, HeaderName::Via);
        out.clear();
        edits.apply(&message, &mut out);
        let Ok(after) = Message::parse(&out, &Limits::default()) else {
            return Err(TestCaseError::fail("what is left is a message"));
        };
        let values = |m: &Message, name| {
            let all = m.values(name).map(|(value, _)| value.to_vec());
            all.collect::<Vec<_>>()
        };
        // A value that is left with nothing but an empty element has none.
        let is_sound = |m: &Message| m.values(HeaderName::Via).all(|(via, _)| !via.is_empty());
        if !is_sound(&message) {
            return Ok(());
        }
        let had = values(&message, HeaderName::Via);
        prop_assert_eq!(values(&after, HeaderName::Via), had.get(1..).unwrap_or_default());
        for name in [HeaderName::Route, HeaderName::Contact, HeaderName::To, HeaderName::CallId, HeaderName::Other] {
            prop_assert_eq!(values(&after, name), values(&message, name));
        }
        prop_assert_eq!(after.body(), message.body());
    }

    #[test]
    fn stamping_moves_the_index_along(Bytes(bytes) in message_bytes(), port in 1..=u16::MAX, v6 in any::<bool>()) {
        let Ok(mut message) = Message::parse(&bytes, &Limits::default()) else {
            return Ok(());
        };
        let ip = if v6 { "2001:db8::7".parse() } else { "192.0.2.7".parse() };
        let source = std::net::SocketAddr::new(ip.expect("an address"), port);
        message.stamp_received(source);
        let again = Message::parse(message.bytes(), &Limits::default()).expect("still a message");
        let index = |m: &Message| m.fields().map(|f| (f.name, f.value_span, f.line_span)).collect::<Vec<_>>();
        prop_assert_eq!(index(&message), index(&again));
        prop_assert_eq!(message.body(), again.body());
        if let Ok(via) = message.top_via() {
            if let Some(received) = via.received {
                prop_assert_eq!(received.to_vec(), source.ip().to_string().into_bytes());
            }
            prop_assert!(via.rport.is_none_or(|rport| rport == Some(port)));
        }
    }

    #[test]
    fn uris_equal_themselves_and_each_other_both_ways(
        left in "(sip|sips|SIP|tel):[a-z0-9%@:;?&=.\\[\\]]{0,24}",
        right in "(sip|sips|tel):[a-z0-9%@:;?&=.\\[\\]]{0,24}",
    ) {
        let (left, right) = (Uri::parse(left.as_bytes()), Uri::parse(right.as_bytes()));
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(());
        };
        let has_twins = |uri: &Uri<'_>| {
            let names: Vec<_> = uri.params().map(|p| p.name.to_ascii_lowercase()).collect();
            names.iter().enumerate().any(|(at, name)| names[..at].contains(name))
        };
        prop_assert!(left.equals(&left) || has_twins(&left));
        prop_assert_eq!(left.equals(&right), right.equals(&left));
        left.write_aor(&mut Vec::new());
    }
}
