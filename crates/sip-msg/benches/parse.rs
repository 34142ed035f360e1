//! What reading a message costs, as a proxy needs it: the median and the best
//! round in nanoseconds, and heap allocations per message in the steady state.
//!
//! `cargo bench -p sip-msg`

// Only the allocator that counts needs it.
#![allow(unsafe_code)]
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use sip_msg::header::NameAddr;
use sip_msg::{Edits, Framed, Framer, HeaderName, Limits, Message, ResponseWriter};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: usize = 51;
const MESSAGES_PER_ROUND: u32 = 20_000;

const INVITE: &[u8] = b"INVITE sip:service@192.0.2.10:5060 SIP/2.0\r\n\
Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK-4711-1-0\r\n\
From: sipp <sip:sipp@192.0.2.1:5060>;tag=4711SIPpTag001\r\n\
To: service <sip:service@192.0.2.10:5060>\r\n\
Call-ID: 1-4711@192.0.2.1\r\n\
CSeq: 1 INVITE\r\n\
Contact: sip:sipp@192.0.2.1:5060\r\n\
Max-Forwards: 70\r\n\
Subject: Performance Test\r\n\
Content-Type: application/sdp\r\n\
Content-Length:   129\r\n\
\r\n\
v=0\r\n\
o=user1 53655765 2353687637 IN IP4 192.0.2.1\r\n\
s=-\r\n\
c=IN IP4 192.0.2.1\r\n\
t=0 0\r\n\
m=audio 6000 RTP/AVP 0\r\n\
a=rtpmap:0 PCMU/8000\r\n";

fn main() {
    let limits = Limits::default();
    let mut message = Message::default();
    message.fill(INVITE, &limits).unwrap();
    message.validate().unwrap();
    println!(
        "{} bytes of INVITE, median of {ROUNDS} rounds",
        INVITE.len()
    );

    measure("fill (start line, header boundaries)", || {
        message.fill(black_box(INVITE), &limits).is_ok()
    });
    measure("fill, validate", || {
        message.fill(black_box(INVITE), &limits).is_ok() && message.validate().is_ok()
    });
    measure("fill, validate, all that a proxy reads", || {
        message.fill(black_box(INVITE), &limits).is_ok()
            && message.validate().is_ok()
            && read(&message)
    });
    let mut framer = Framer::default();
    measure("frame", || {
        matches!(
            framer.next(black_box(INVITE), &limits),
            Ok(Framed::Message { .. })
        )
    });
    let (mut edits, mut out) = (Edits::default(), Vec::new());
    measure("forward (edit and copy)", || {
        forward(&message, &mut edits, &mut out);
        out.len() > INVITE.len()
    });
    measure("respond (100)", || {
        out.clear();
        ResponseWriter::begin(&mut out, black_box(&message), 100, "Trying", b"").finish(b"");
        !out.is_empty()
    });
}

/// What RFC 3261 16.3 to 16.6 asks of a message.
fn read(message: &Message) -> bool {
    let via = message.top_via().unwrap();
    let uri = message.uri().unwrap();
    let routes = message
        .values(HeaderName::Route)
        .filter_map(|(route, _)| NameAddr::parse(route))
        .count();
    let tags = (message.from().unwrap().tag(), message.to().unwrap().tag());
    let numbers = (
        message.max_forwards().unwrap(),
        message.cseq().unwrap().number,
    );
    black_box((
        via.branch,
        uri.host_port,
        routes,
        tags,
        numbers,
        message.call_id(),
    ));
    true
}

fn forward(message: &Message, edits: &mut Edits, out: &mut Vec<u8>) {
    edits.clear();
    out.clear();
    edits.replace(message.request_uri_span(), b"sip:service@192.0.2.20:5060");
    edits.insert(
        message.headers_start(),
        b"Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK0123456789abcdef\r\n",
    );
    edits.insert(
        message.headers_start(),
        b"Record-Route: <sip:192.0.2.10:5060;lr>\r\n",
    );
    if let Some(field) = message.first(HeaderName::MaxForwards) {
        edits.replace(field.value_span, b"69");
    }
    edits.apply(black_box(message), out);
}

fn measure(name: &str, mut work: impl FnMut() -> bool) {
    assert!(work(), "{name} does its work");
    let mut rounds_ns: Vec<f64> = Vec::with_capacity(ROUNDS);
    let mut allocations = 0;
    for _ in 0..ROUNDS {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let start = Instant::now();
        for _ in 0..MESSAGES_PER_ROUND {
            black_box(work());
        }
        rounds_ns.push(start.elapsed().as_nanos() as f64 / f64::from(MESSAGES_PER_ROUND));
        allocations += ALLOCATIONS.load(Ordering::Relaxed) - before;
    }
    rounds_ns.sort_by(f64::total_cmp);
    let median_ns = rounds_ns[ROUNDS / 2];
    let per_message = allocations as f64 / (ROUNDS as f64 * f64::from(MESSAGES_PER_ROUND));
    let best_ns = rounds_ns[0];
    println!(
        "{name:<42} {median_ns:>6.0} ns   best {best_ns:>5.0} ns   {per_message:.3} allocations"
    );
}
