//! What refusing costs one shard, in nanoseconds and in heap allocations: challenges,
//! strangers who are turned away, numbers without a route, from one source and from a
//! hundred thousand that are made up. Beside it, how many of them were recorded.
//!
//! The clock goes on by a millisecond for each hundred requests, so that a hundred
//! thousand come in a second. Parsing is included; sockets and the log are not.
//!
//! `cargo bench -p sip-engine --bench refusals`

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
use sip_engine::settings::{AuthSettings, Listener, Settings};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{Location, Now, Outputs, Shard, Shared};
use sip_msg::{ConnId, Flow, Limits, ListenerId, Transport};

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

const WARM_UP: u64 = 50_000;
const MEASURED: u64 = 250_000;
const PER_MS: u64 = 100;

fn main() {
    for (name, method, uri, from, has_users) in [
        (
            "challenged",
            "REGISTER",
            "sip:example.org",
            "u@example.org",
            true,
        ),
        (
            "foreign From",
            "INVITE",
            "sip:b@example.org",
            "x@far.example",
            true,
        ),
        ("no route", "INVITE", "tel:+4930", "x@far.example", false),
    ] {
        for (from_where, sources) in [("one source", 1), ("100,000 sources", 100_000)] {
            let mut bench = Bench::new(has_users);
            for number in 0..WARM_UP {
                bench.refuse(number, sources, (method, uri, from));
            }
            let allocations = ALLOCATIONS.load(Ordering::Relaxed);
            bench.recorded = 0;
            let started = Instant::now();
            for number in WARM_UP..WARM_UP + MEASURED {
                bench.refuse(number, sources, (method, uri, from));
            }
            let spent_ns = started.elapsed().as_nanos() as u64 / MEASURED;
            let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
            println!(
                "{name}, {from_where}: {spent_ns} ns and {:.3} allocations a request, {} of {MEASURED} recorded",
                allocations as f64 / MEASURED as f64,
                bench.recorded,
            );
        }
    }
}

struct Bench {
    shard: Shard,
    out: Outputs,
    flow: Flow,
    text: Vec<u8>,
    recorded: usize,
}

impl Bench {
    fn new(has_users: bool) -> Self {
        let bound = ([192, 0, 2, 1], 5060).into();
        let settings = Settings {
            domains: vec!["example.org".into()],
            listeners: vec![Listener {
                transport: Transport::Udp,
                bound,
                advertised_host: None,
                advertised_port: 5060,
                certificates_authenticate: false,
            }],
            authenticate: has_users.then(AuthSettings::default),
            ..Settings::default()
        };
        // Sources are not shut out, so that each request is refused.
        let limits = sip_limit::Limits {
            refusals_per_s: 0,
            ..sip_limit::Limits::default()
        };
        let shared = Arc::new(Shared {
            location: Arc::new(Location::new(1_000, [2; 16])),
            authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[3; 32], 1)),
            guard: Arc::new(sip_limit::Guard::new([9; 16], limits)),
            rates: Arc::new(sip_limit::Rates::new([10; 16])),
            token_keys: Arc::new(TokenKeys::of([4; 32], 1)),
            gateways: Arc::default(),
        });
        Self {
            shard: Shard::new(Arc::new(settings), shared, Seed([5; 32])),
            out: Outputs::default(),
            flow: Flow {
                transport: Transport::Udp,
                listener: ListenerId(0),
                local: bound,
                remote: ([198, 51, 100, 1], 5060).into(),
                conn: ConnId::NONE,
            },
            text: Vec::new(),
            recorded: 0,
        }
    }

    fn refuse(&mut self, number: u64, sources: u64, (method, uri, from): (&str, &str, &str)) {
        self.text.clear();
        write!(
            self.text,
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bK-{number}\r\n\
             From: <sip:{from}>;tag={number}\r\nTo: <sip:b@example.org>\r\nCall-ID: {number}@198.51.100.1\r\n\
             CSeq: 1 {method}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
        )
        .unwrap();
        let source = 0x0a00_0000 + u32::try_from(number % sources).unwrap();
        self.flow.remote = (source.to_be_bytes(), 5060).into();
        let mono_ms = 1_000 + number / PER_MS;
        let now = Now {
            mono_ms,
            unix_ms: 1_700_000_000_000 + mono_ms,
        };
        let mut message = self.shard.spare_message();
        message.fill(&self.text, &Limits::default()).unwrap();
        let sender = Sender::unproved(self.flow);
        self.shard
            .handle_message(now, &sender, message, &mut self.out);
        if number.is_multiple_of(PER_MS) {
            self.shard.handle_timers(now, &mut self.out);
        }
        assert!(!self.out.outbox.sends.is_empty());
        self.recorded += self.out.refused.len();
        self.out.clear();
    }
}
