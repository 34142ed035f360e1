//! What the transactions of a proxied call cost: an INVITE answered 100, 180
//! and 200, its ACK, and a BYE answered 200, each with a server transaction and
//! a client transaction, in nanoseconds and heap allocations; and the memory
//! that a live transaction takes.
//!
//! Reading and writing the messages is not counted. The table is in its steady
//! state: 1,000 calls a second for longer than the longest timer.
//!
//! `cargo bench -p sip-txn`

// Only the allocator that counts needs it.
#![allow(unsafe_code)]
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use sip_msg::{
    ConnId, Flow, Limits, ListenerId, Message, Method, Outbox, ResponseWriter, Target, Transport,
};
use sip_txn::{Config, Incoming, Response, ServerId, Transactions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

const WARM_UP_CALLS: u64 = 40_000;
const CALLS: u64 = 40_000;

fn main() {
    for transport in [Transport::Udp, Transport::Tcp] {
        run(transport);
    }
}

fn run(transport: Transport) {
    let before_bytes = LIVE_BYTES.load(Ordering::Relaxed);
    let mut bench = Bench::new(transport);
    for _ in 0..WARM_UP_CALLS {
        bench.call();
    }
    bench.spent = Duration::ZERO;
    (bench.allocations, bench.sections) = (0, 0);
    for _ in 0..CALLS {
        bench.call();
    }
    let overhead_ns = clock_overhead_ns() * bench.sections as f64;
    let ns = (bench.spent.as_nanos() as f64 - overhead_ns) / CALLS as f64;
    let live = bench.txn.live();
    let count =
        live.client_invite + live.client_non_invite + live.server_invite + live.server_non_invite;
    let bytes = LIVE_BYTES.load(Ordering::Relaxed) - before_bytes;
    println!(
        "{}: {ns:.0} ns and {:.3} allocations a call (INVITE and BYE, both sides); {count} transactions alive, {} bytes each",
        transport.via_name(),
        bench.allocations as f64 / CALLS as f64,
        bytes / count as u64,
    );
}

/// What it costs to read the clock twice.
fn clock_overhead_ns() -> f64 {
    let rounds = 1_000_000;
    let mut sum = Duration::ZERO;
    for _ in 0..rounds {
        let start = Instant::now();
        sum += black_box(start.elapsed());
    }
    sum.as_nanos() as f64 / f64::from(rounds)
}

struct Bench {
    txn: Transactions,
    out: Outbox,
    flow: Flow,
    target: Target,
    now_ms: u64,
    calls: u64,
    request: Message,
    response: Message,
    text: Vec<u8>,
    branch: Vec<u8>,
    spent: Duration,
    allocations: u64,
    sections: u64,
}

impl Bench {
    fn new(transport: Transport) -> Self {
        let conn = ConnId(u64::from(transport.is_reliable()));
        let flow = Flow {
            transport,
            listener: ListenerId(0),
            local: ([127, 0, 0, 1], 5060).into(),
            remote: ([127, 0, 0, 2], 5060).into(),
            conn,
        };
        Self {
            txn: Transactions::new(Config::new([1; 16], [2; 16]), 0),
            out: Outbox::default(),
            target: Target::back(&flow),
            flow,
            now_ms: 0,
            calls: 0,
            request: Message::default(),
            response: Message::default(),
            text: Vec::new(),
            branch: Vec::new(),
            spent: Duration::ZERO,
            allocations: 0,
            sections: 0,
        }
    }

    fn call(&mut self) {
        self.calls += 1;
        self.now_ms += 1;
        self.timed(|bench| bench.txn.handle_timers(bench.now_ms, &mut bench.out));
        self.out.clear();

        let invite = self.transaction("INVITE", Method::Invite, &[180, 200]);
        self.fill_request("ACK", "ack");
        let ack = self.timed(|bench| {
            bench
                .txn
                .handle_request(bench.now_ms, &bench.flow, &bench.request, &mut bench.out)
        });
        assert_eq!(ack, Incoming::Ack { invite: None });
        let bye = self.transaction("BYE", Method::Bye, &[200]);
        assert_ne!(invite, bye);
        self.timed(|bench| while bench.txn.poll_event().is_some() {});
    }

    /// A request through server and client transaction, and its responses back.
    fn transaction(&mut self, token: &str, method: Method, statuses: &[u16]) -> ServerId {
        self.fill_request(token, token);
        let incoming = self.timed(|bench| {
            bench
                .txn
                .handle_request(bench.now_ms, &bench.flow, &bench.request, &mut bench.out)
        });
        let Incoming::New(server) = incoming else {
            panic!("{incoming:?}")
        };
        if method == Method::Invite {
            self.timed(|bench| {
                bench
                    .txn
                    .respond_trying(bench.now_ms, server, &bench.request, &mut bench.out)
            });
            self.out.clear();
        }
        self.branch.clear();
        let client = self.timed(|bench| {
            let client = bench.txn.reserve_client().unwrap();
            bench.txn.write_branch(client, &mut bench.branch);
            client
        });
        let branch = std::mem::take(&mut self.branch);
        write_request(&mut self.out.bytes, token, &branch, self.calls);
        let target = self.target.clone();
        self.timed(|bench| {
            bench
                .txn
                .start_client(bench.now_ms, client, method, target, 0, 0, &mut bench.out)
        });
        self.request
            .fill(&self.out.bytes, &Limits::default())
            .unwrap();
        self.branch = branch;
        self.out.clear();
        for status in statuses {
            self.text.clear();
            ResponseWriter::begin(&mut self.text, &self.request, *status, "OK", b"tag").finish(b"");
            self.response.fill(&self.text, &Limits::default()).unwrap();
            let passed = self.timed(|bench| {
                bench
                    .txn
                    .handle_response(bench.now_ms, &bench.response, &mut bench.out)
            });
            assert!(matches!(passed, Response::Pass { .. }));
            self.out.clear();
            self.out.bytes.extend_from_slice(&self.text);
            self.timed(|bench| {
                bench
                    .txn
                    .respond(bench.now_ms, server, *status, 0, &mut bench.out)
            });
            self.out.clear();
        }
        server
    }

    fn fill_request(&mut self, token: &str, branch: &str) {
        self.text.clear();
        self.branch.clear();
        write!(self.branch, "z9hG4bK-{}-{branch}", self.calls).unwrap();
        write_request(&mut self.text, token, &self.branch, self.calls);
        self.request.fill(&self.text, &Limits::default()).unwrap();
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let start = Instant::now();
        let result = black_box(work(self));
        self.spent += start.elapsed();
        self.allocations += ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        self.sections += 1;
        result
    }
}

fn write_request(out: &mut Vec<u8>, token: &str, branch: &[u8], call: u64) {
    write!(
        out,
        "{token} sip:service@127.0.0.3:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.2:5060;branch="
    )
    .unwrap();
    out.extend_from_slice(branch);
    write!(
        out,
        "\r\nFrom: sipp <sip:sipp@127.0.0.2:5060>;tag={call}SIPpTag001\r\n\
         To: service <sip:service@127.0.0.3:5060>\r\nCall-ID: {call}-4711@127.0.0.2\r\nCSeq: 1 {token}\r\n\
         Contact: sip:sipp@127.0.0.2:5060\r\nMax-Forwards: 70\r\nSubject: Performance Test\r\n\
         Content-Type: application/sdp\r\nContent-Length: 129\r\n\r\n{:129}",
        "v=0"
    )
    .unwrap();
}
