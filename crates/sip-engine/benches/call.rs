//! What a call costs one shard, in memory: an INVITE answered 100, 180 and 200,
//! its ACK, and a BYE answered 200, in nanoseconds a call and heap allocations
//! a forwarded message; and the memory that a call holds on to.
//!
//! Parsing is counted, writing the phones' messages and the sockets are not.
//! The shard is in its steady state: 1,000 calls a second for longer than the
//! longest timer.
//!
//! `cargo bench -p sip-engine --bench call`; with `-- 1000 udp` a thousand calls
//! and only those cases (to count instructions: `valgrind --tool=callgrind`); with
//! `-- every=100ms` a call each 100 ms, so that all that is kept lies in the caches.

// Only the allocator that counts needs it.
#![allow(unsafe_code)]
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sip_auth::{AuthConfig, Authenticator};
use sip_engine::location::{Binding, BindingChange};
use sip_engine::routes::NextHop;
use sip_engine::sender::Sender;
use sip_engine::settings::{Listener, Settings};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{Location, Now, Outputs, Shard, Shared};
use sip_msg::{ConnId, Flow, HeaderName, Limits, ListenerId, Message, Transport};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(
            (size as u64).wrapping_sub(layout.size() as u64),
            Ordering::Relaxed,
        );
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls before it counts, and as many again.
const CALLS: u64 = 40_000;
/// INVITE, 180, 200, ACK, BYE, 200.
const FORWARDED: f64 = 6.0;
/// What a shard is given of each call, in this order.
const STEPS: [&str; 8] = [
    "timers",
    "INVITE",
    "100",
    "180",
    "200",
    "ACK",
    "BYE",
    "200 to BYE",
];

#[derive(Clone, Copy, PartialEq)]
enum To {
    NextHop,
    Contact,
}

fn main() {
    let (mut calls, mut every_ms) = (CALLS, 1);
    let mut only = String::new();
    for argument in std::env::args().skip(1).filter(|a| !a.starts_with("--")) {
        let every = argument.strip_prefix("every=");
        if let Some(given) = every.and_then(|given| given.strip_suffix("ms")) {
            every_ms = given.parse().unwrap();
        } else {
            match argument.parse() {
                Ok(given) => calls = given,
                Err(_) => only = argument,
            }
        }
    }
    for (name, transport, to) in [
        ("udp, to a next hop", Transport::Udp, To::NextHop),
        ("udp, to a registered contact", Transport::Udp, To::Contact),
        ("tcp, to a next hop", Transport::Tcp, To::NextHop),
        ("tcp, to a registered contact", Transport::Tcp, To::Contact),
    ] {
        if name.starts_with(&only) {
            run(name, transport, to, (calls, every_ms));
        }
    }
}

fn run(name: &str, transport: Transport, to: To, (calls, every_ms): (u64, u64)) {
    let before_bytes = LIVE_BYTES.load(Ordering::Relaxed);
    let mut bench = Bench::new(transport, to, every_ms);
    for _ in 0..calls {
        bench.call();
    }
    bench.spent = [Duration::ZERO; STEPS.len()];
    bench.allocations = 0;
    for _ in 0..calls {
        bench.call();
    }
    let calls = calls as f64;
    let overhead_ns = clock_overhead_ns();
    let ns_of = |spent: Duration| spent.as_nanos() as f64 / calls - overhead_ns;
    let steps = bench.spent.map(ns_of);
    let ns: f64 = steps.iter().sum();
    let live_bytes = LIVE_BYTES.load(Ordering::Relaxed) - before_bytes;
    println!(
        "{name}: {ns:.0} ns a call, {:.3} allocations a forwarded message; {} contexts live, {} bytes in all",
        bench.allocations as f64 / calls / FORWARDED,
        bench.shard.live_contexts(),
        live_bytes,
    );
    let named = STEPS.iter().zip(steps);
    let named: Vec<_> = named.map(|(step, ns)| format!("{step} {ns:.0}")).collect();
    println!("  of these: {}", named.join(", "));
}

/// What measuring itself costs.
fn clock_overhead_ns() -> f64 {
    const TIMES: u32 = 100_000;
    let mut spent = Duration::ZERO;
    for _ in 0..TIMES {
        let started = Instant::now();
        spent += started.elapsed();
    }
    spent.as_nanos() as f64 / f64::from(TIMES)
}

struct Bench {
    shard: Shard,
    out: Outputs,
    now: Now,
    transport: Transport,
    alice: Flow,
    bob: Flow,
    text: Vec<u8>,
    calls: u64,
    every_ms: u64,
    /// The step that comes next, and what each took of all calls.
    step: usize,
    spent: [Duration; STEPS.len()],
    allocations: u64,
}

impl Bench {
    fn new(transport: Transport, to: To, every_ms: u64) -> Self {
        let bound: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let bob_addr: SocketAddr = "203.0.113.9:5070".parse().unwrap();
        let forward = NextHop {
            host: "203.0.113.9".into(),
            port: Some(5070),
            transport: Some(transport),
            connections: sip_engine::routes::Connections::default(),
        };
        let settings = Settings {
            domains: vec!["example.org".into()],
            listeners: vec![Listener {
                transport,
                bound,
                advertised_host: None,
                advertised_port: 5060,
                certificates_authenticate: false,
            }],
            authenticate: None,
            forward: (to == To::NextHop).then_some(forward),
            ..Settings::default()
        };
        let location = Arc::new(Location::new(1_000, [2; 16]));
        let shared = Arc::new(Shared {
            location: Arc::clone(&location),
            authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[3; 32], 1)),
            guard: Arc::new(sip_limit::Guard::new([9; 16], sip_limit::Limits::default())),
            rates: Arc::new(sip_limit::Rates::new([10; 16])),
            token_keys: Arc::new(TokenKeys::of([4; 32], 1)),
            gateways: Arc::default(),
        });
        let flow = |remote: SocketAddr, conn| Flow {
            transport,
            listener: ListenerId(0),
            local: bound,
            remote,
            conn: ConnId(if transport == Transport::Udp { 0 } else { conn }),
        };
        let (alice, bob) = (
            flow("198.51.100.1:5060".parse().unwrap(), 1),
            flow(bob_addr, 2),
        );
        let now = Now {
            mono_ms: 1_000,
            unix_ms: 1_700_000_000_000,
        };
        if to == To::Contact {
            location.apply(&[BindingChange::Put {
                aor: b"sip:bob@example.org".as_slice().into(),
                key: b"k".as_slice().into(),
                binding: Arc::new(Binding {
                    uri: contact(transport).as_bytes().into(),
                    q: 1000,
                    expires_unix_ms: now.unix_ms + 3_600_000,
                    call_id: b"r".as_slice().into(),
                    cseq: 1,
                    instance: None,
                    reg_id: None,
                    path: Box::default(),
                    // Nothing stands between: the registrar keeps no flow of datagrams.
                    flow: Some(bob).filter(|_| transport != Transport::Udp),
                    user_agent: Box::default(),
                    node: "".into(),
                    since_unix_ms: 0,
                    source: None,
                    is_translated: false,
                    had_flow: false,
                }),
            }]);
        }
        Self {
            shard: Shard::new(Arc::new(settings), shared, Seed([5; 32])),
            out: Outputs::default(),
            now,
            transport,
            alice,
            bob,
            text: Vec::new(),
            calls: 0,
            every_ms,
            step: 0,
            spent: [Duration::ZERO; STEPS.len()],
            allocations: 0,
        }
    }

    fn call(&mut self) {
        self.calls += 1;
        self.now.mono_ms += self.every_ms;
        self.now.unix_ms += self.every_ms;
        self.step = 0;
        self.measure(|shard, now, out| shard.handle_timers(now, out));
        self.out.clear();
        let contact = contact(self.transport);
        self.request("INVITE", "sip:bob@example.org", "", "");
        let invite = self.sent();
        for status in ["100 Trying", "180 Ringing", "200 OK"] {
            self.respond(&invite, status);
        }
        let ok = self.sent();
        let mut routes: Vec<_> = ok
            .values(HeaderName::RecordRoute)
            .map(|(value, _)| format!("Route: {}\r\n", String::from_utf8_lossy(value)))
            .collect();
        routes.reverse();
        let routes = routes.concat();
        self.request("ACK", &contact, ";tag=b", &routes);
        self.request("BYE", &contact, ";tag=b", &routes);
        let bye = self.sent();
        self.respond(&bye, "200 OK");
    }

    fn request(&mut self, method: &str, uri: &str, tag: &str, routes: &str) {
        const SDP: &str = "v=0\r\no=user1 53655765 2353687637 IN IP4 198.51.100.1\r\ns=-\r\nc=IN IP4 198.51.100.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";
        let body = if method == "INVITE" { SDP } else { "" };
        let call = self.calls;
        self.text.clear();
        write!(
            self.text,
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{} 198.51.100.1:5060;branch=z9hG4bK-{call}-{method}\r\n{routes}\
             From: alice <sip:alice@example.com:5060>;tag=a{call}\r\nTo: bob <sip:bob@example.org>{tag}\r\n\
             Call-ID: {call}-4711@198.51.100.1\r\nCSeq: {} {method}\r\nContact: <sip:alice@198.51.100.1:5060>\r\n\
             Max-Forwards: 70\r\nSubject: Performance Test\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            self.transport.via_name(),
            if method == "BYE" { 2 } else { 1 },
            body.len()
        )
        .unwrap();
        self.receive(self.alice);
    }

    fn respond(&mut self, request: &Message, status: &str) {
        self.text.clear();
        write!(self.text, "SIP/2.0 {status}\r\n").unwrap();
        for field in request.fields() {
            let line = request.slice(field.line_span);
            match field.name {
                HeaderName::To if !line.ends_with(b";tag=b\r\n") => {
                    self.text.extend_from_slice(line.trim_ascii_end());
                    self.text.extend_from_slice(b";tag=b\r\n");
                }
                HeaderName::Via
                | HeaderName::From
                | HeaderName::To
                | HeaderName::CallId
                | HeaderName::CSeq
                | HeaderName::RecordRoute => self.text.extend_from_slice(line),
                _ => {}
            }
        }
        let contact = contact(self.transport);
        write!(
            self.text,
            "Contact: <{contact}>\r\nContent-Length: 0\r\n\r\n"
        )
        .unwrap();
        self.receive(self.bob);
    }

    fn receive(&mut self, flow: Flow) {
        self.out.clear();
        let text = std::mem::take(&mut self.text);
        self.measure(|shard, now, out| {
            let mut message = shard.spare_message();
            if message.fill(&text, &Limits::default()).is_ok() {
                shard.handle_message(now, &Sender::unproved(flow), message, out);
            }
        });
        self.text = text;
    }

    fn measure(&mut self, act: impl FnOnce(&mut Shard, Now, &mut Outputs)) {
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let started = Instant::now();
        act(&mut self.shard, self.now, &mut self.out);
        self.spent[self.step] += started.elapsed();
        self.step += 1;
        self.allocations += ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    }

    /// The last message that the server sent.
    fn sent(&self) -> Message {
        let Some(send) = self.out.outbox.sends.last() else {
            panic!("nothing was sent");
        };
        let bytes = &self.out.outbox.bytes[send.start..send.end];
        Message::parse(bytes, &Limits::default()).unwrap()
    }
}

fn contact(transport: Transport) -> String {
    format!(
        "sip:bob@203.0.113.9:5070;transport={}",
        transport.uri_name()
    )
}
