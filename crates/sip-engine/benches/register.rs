//! What a REGISTER that refreshes a contact costs one shard, in memory: in
//! nanoseconds and in heap allocations, parsing and transaction included and
//! also shown by itself.
//!
//! The shard is in its steady state: 8,000 a second of 20,000 users, for
//! longer than the longest timer. Sockets are not counted.
//!
//! `cargo bench -p sip-engine --bench register`; with `-- 2000 udp` so many and only
//! those cases (to count instructions: `valgrind --tool=callgrind`).

// Only the allocator that counts needs it.
#![allow(unsafe_code)]
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sip_auth::{AuthConfig, Authenticator};
use sip_engine::sender::Sender;
use sip_engine::settings::{Listener, Settings};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{Effect, Location, Now, Outputs, Shard, Shared};
use sip_msg::{ConnId, Flow, Limits, ListenerId, Message, Transport};

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

const USERS: u64 = 20_000;
const WARM_UP: u64 = 400_000;
/// The median of its batches is shown.
const MEASURED: u64 = 400_000;
const PER_MS: u64 = 8;
/// Messages that are written before they are timed, so that the clock is read seldom.
const BATCH: u64 = 200;

fn main() {
    let (mut warm_up, mut measured) = (WARM_UP, MEASURED);
    let mut only = String::new();
    for argument in std::env::args().skip(1).filter(|a| !a.starts_with("--")) {
        match argument.parse() {
            Ok(given) => (warm_up, measured) = (given, given),
            Err(_) => only = argument,
        }
    }
    println!("parsing alone: {} ns", parsing_ns(measured));
    for (name, transport, durable) in [
        ("udp, in memory", Transport::Udp, false),
        ("tcp, in memory", Transport::Tcp, false),
        (
            "udp, durable, the store answers at once",
            Transport::Udp,
            true,
        ),
    ] {
        if !name.starts_with(&only) {
            continue;
        }
        let mut bench = Bench::new(transport, durable);
        for _ in 0..warm_up / BATCH {
            bench.batch();
        }
        bench.spent_ns.clear();
        bench.allocations = 0;
        for _ in 0..measured / BATCH {
            bench.batch();
        }
        println!(
            "{name}: {} ns and {:.2} allocations a REGISTER, parsing included",
            median(&mut bench.spent_ns),
            bench.allocations as f64 / measured as f64,
        );
    }
}

fn parsing_ns(measured: u64) -> u64 {
    let mut text = Vec::new();
    write_register(&mut text, 1, Transport::Udp);
    let mut message = Message::default();
    let mut spent_ns = Vec::new();
    for _ in 0..measured / BATCH {
        let started = Instant::now();
        for _ in 0..BATCH {
            message.fill(&text, &Limits::default()).unwrap();
            std::hint::black_box(message.validate()).unwrap();
        }
        spent_ns.push(started.elapsed().as_nanos() as u64 / BATCH);
    }
    median(&mut spent_ns)
}

fn median(figures: &mut [u64]) -> u64 {
    figures.sort_unstable();
    figures[figures.len() / 2]
}

fn write_register(out: &mut Vec<u8>, number: u64, transport: Transport) {
    let (user, cseq) = (number % USERS, number / USERS + 1);
    write!(
        out,
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/{} 198.51.100.1:5060;branch=z9hG4bK-{number}-1\r\n\
         From: <sip:user{user}@example.org>;tag={number}\r\nTo: <sip:user{user}@example.org>\r\n\
         Call-ID: {user}-4711@198.51.100.1\r\nCSeq: {cseq} REGISTER\r\nContact: <sip:user{user}@198.51.100.1:5060>\r\n\
         Max-Forwards: 70\r\nExpires: 3600\r\nUser-Agent: bench 1.0\r\nContent-Length: 0\r\n\r\n",
        transport.via_name(),
    )
    .unwrap();
}

struct Bench {
    shard: Shard,
    out: Outputs,
    now: Now,
    flow: Flow,
    number: u64,
    text: Vec<u8>,
    ends: Vec<usize>,
    /// For each REGISTER, a figure for each batch: the median is no other process's.
    spent_ns: Vec<u64>,
    allocations: u64,
}

impl Bench {
    fn new(transport: Transport, durable: bool) -> Self {
        let bound = "192.0.2.1:5060".parse().unwrap();
        let listener = Listener {
            transport,
            bound,
            advertised_host: None,
            advertised_port: 5060,
            certificates_authenticate: false,
        };
        let mut settings = Settings {
            domains: vec!["example.org".into()],
            listeners: vec![listener],
            authenticate: None,
            ..Settings::default()
        };
        settings.registrar.durable = durable;
        let shared = Shared {
            location: Arc::new(Location::new(1_000_000, [2; 16])),
            authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[3; 32], 1)),
            guard: Arc::new(sip_limit::Guard::new([9; 16], sip_limit::Limits::default())),
            rates: Arc::new(sip_limit::Rates::new([10; 16])),
            token_keys: Arc::new(TokenKeys::of([4; 32], 1)),
            gateways: Arc::default(),
        };
        Self {
            shard: Shard::new(Arc::new(settings), Arc::new(shared), Seed([5; 32])),
            out: Outputs::default(),
            now: Now {
                mono_ms: 1_000,
                unix_ms: 1_800_000_000_000,
            },
            flow: Flow {
                transport,
                listener: ListenerId(0),
                local: bound,
                remote: "198.51.100.1:5060".parse().unwrap(),
                conn: ConnId(u64::from(transport.is_reliable())),
            },
            number: 0,
            text: Vec::new(),
            ends: Vec::new(),
            spent_ns: Vec::new(),
            allocations: 0,
        }
    }

    fn batch(&mut self) {
        self.text.clear();
        self.ends.clear();
        for _ in 0..BATCH {
            write_register(&mut self.text, self.number, self.flow.transport);
            self.ends.push(self.text.len());
            self.number += 1;
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let started = Instant::now();
        let mut start = 0;
        let mut answers = 0;
        for (at, &end) in self.ends.iter().enumerate() {
            if (at as u64).is_multiple_of(PER_MS) {
                self.now.mono_ms += 1;
                self.now.unix_ms += 1;
                self.shard.handle_timers(self.now, &mut self.out);
            }
            self.out.clear();
            let mut message = self.shard.spare_message();
            message
                .fill(&self.text[start..end], &Limits::default())
                .unwrap();
            self.shard.handle_message(
                self.now,
                &Sender::unproved(self.flow),
                message,
                &mut self.out,
            );
            while let Some(Effect::SaveBindings { park, .. }) = self.out.effects.pop() {
                self.shard
                    .handle_saved(self.now, park, Ok(()), &mut self.out);
            }
            let ok = self
                .out
                .outbox
                .sends
                .iter()
                .filter(|s| self.out.outbox.bytes[s.start..].starts_with(b"SIP/2.0 200"));
            answers += ok.count();
            start = end;
        }
        let allocated = ALLOCATIONS.load(Ordering::Relaxed);
        self.spent_ns
            .push(started.elapsed().as_nanos() as u64 / BATCH);
        self.allocations += allocated - allocations;
        assert_eq!(answers as u64, BATCH);
    }
}
