//! What agents cost, in memory: the bytes that an idle, registered one holds,
//! and a call between two of them (INVITE 180 200 ACK BYE 200), both sides, in
//! nanoseconds and heap allocations.
//!
//! Parsing is counted, sockets are not. The calls are in their steady state:
//! 1,000 a second for longer than the longest timer.
//!
//! `cargo bench -p sip-dialog`

// Only the allocator that counts needs it.
#![allow(unsafe_code)]
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sip_dialog::{AgentConfig, AgentKey, Config, Credentials, Event, UserAgents};
use sip_msg::write::reason_phrase;
use sip_msg::{
    ConnId, Flow, Limits, ListenerId, Message, Outbox, ResponseWriter, Target, Transport,
};

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

const AGENTS: usize = 100_000;
/// Calls a second of the clock, and for how long before and while it is measured.
const RATE: u64 = 1_000;
const WARM_UP_S: u64 = 70;
const MEASURED_S: u64 = 20;

fn main() {
    idle();
    for linger in [true, false] {
        calls(linger);
    }
}

fn addr(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 5060))
}

fn agent(user: &str, from: SocketAddr, proxy: SocketAddr) -> AgentConfig {
    AgentConfig {
        aor: format!("sip:{user}@example.org"),
        contact: format!("sip:{user}@{from}"),
        contact_params: String::new(),
        sent_by: from.to_string(),
        registrar: "sip:example.org".to_owned(),
        credentials: Some(Credentials {
            realm: "example.org".to_owned(),
            user: user.to_owned(),
            password: "a password of 24 letters".to_owned(),
        }),
        proxy: Target {
            transport: Transport::Udp,
            listener: ListenerId(0),
            remote: proxy,
            conn: ConnId::NONE,
            may_open: false,
            tls_name: None,
            lane: sip_msg::Lane::Shared,
            local: None,
        },
    }
}

fn flow(from: SocketAddr, to: SocketAddr) -> Flow {
    Flow {
        transport: Transport::Udp,
        listener: ListenerId(0),
        local: to,
        remote: from,
        conn: ConnId::NONE,
    }
}

/// Registers many agents, each with a challenge, and counts what they hold
/// when their transactions are over.
fn idle() {
    let mut agents = UserAgents::new(Config::new([1; 16], [2; 16], [3; 16]), 0);
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let (ours, registrar) = (addr(1), addr(2));
    let keys: Vec<AgentKey> = (0..AGENTS)
        .map(|n| {
            agents
                .add_agent(&agent(&format!("user{n:06}"), ours, registrar))
                .unwrap()
        })
        .collect();
    let mut out = Outbox::default();
    let mut now_ms = 0;
    for (number, key) in keys.iter().enumerate() {
        now_ms = number as u64;
        agents.register(now_ms, *key, 3_600, &mut out).unwrap();
        for status in [401, 200] {
            let sent: Vec<u8> = out.bytes.split_off(out.sends.pop().unwrap().start);
            let request = Message::parse(&sent, &Limits::default()).unwrap();
            let mut bytes = Vec::new();
            let mut writer =
                ResponseWriter::begin(&mut bytes, &request, status, reason_phrase(status), b"r");
            if status == 401 {
                let challenge = b"Digest realm=\"example.org\", algorithm=SHA-256, qop=\"auth\", \
                    nonce=\"AaMYXF6SAAAAAAABAAAAAAAAAAzSOqALQ_DOk9digV4Wg4e6\"";
                writer.header("WWW-Authenticate", challenge);
            }
            writer.finish(b"");
            let mut message = agents.spare_message();
            message.fill(&bytes, &Limits::default()).unwrap();
            agents.handle_message(now_ms, &flow(registrar, ours), message, &mut out);
        }
        agents.handle_timers(now_ms, &mut out);
        out.clear();
        while let Some(event) = agents.poll_event() {
            assert!(matches!(event, Event::Registered { .. }), "{event:?}");
        }
    }
    agents.handle_timers(now_ms + 60_000, &mut out);
    let live = agents.live();
    assert_eq!(
        (live.agents, live.transactions, live.requests),
        (AGENTS, 0, 0)
    );
    let held = LIVE_BYTES.load(Ordering::Relaxed) - before;
    println!(
        "{:6} bytes an idle, registered agent over UDP ({AGENTS} of them)",
        held / AGENTS as u64
    );
}

/// Two ends that call each other, the messages handed over in memory.
struct Ends {
    ends: [(UserAgents, SocketAddr); 2],
    outboxes: [Outbox; 2],
    done: u64,
}

fn calls(linger: bool) {
    let mut config = Config::new([1; 16], [2; 16], [3; 16]);
    config.linger = linger;
    let mut caller = UserAgents::new(config.clone(), 0);
    let mut called = UserAgents::new(config, 0);
    let alice = caller.add_agent(&agent("alice", addr(1), addr(2))).unwrap();
    called.add_agent(&agent("bob", addr(2), addr(1))).unwrap();
    let mut ends = Ends {
        ends: [(caller, addr(1)), (called, addr(2))],
        outboxes: [Outbox::default(), Outbox::default()],
        done: 0,
    };
    for now_ms in 0..WARM_UP_S * 1_000 {
        ends.step(now_ms, alice);
    }
    let (allocations, done) = (ALLOCATIONS.load(Ordering::Relaxed), ends.done);
    let started = Instant::now();
    for now_ms in WARM_UP_S * 1_000..(WARM_UP_S + MEASURED_S) * 1_000 {
        ends.step(now_ms, alice);
    }
    let elapsed: Duration = started.elapsed();
    let calls = ends.done - done;
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    println!(
        "{:6} ns a call, both sides; {:.3} allocations a call; linger: {linger}, {} calls held",
        elapsed.as_nanos() as u64 / calls,
        allocations as f64 / calls as f64,
        ends.ends[0].0.live().calls,
    );
}

impl Ends {
    /// One millisecond, and one call.
    fn step(&mut self, now_ms: u64, alice: AgentKey) {
        debug_assert_eq!(RATE, 1_000);
        for end in 0..2 {
            self.ends[end]
                .0
                .handle_timers(now_ms, &mut self.outboxes[end]);
        }
        self.ends[0]
            .0
            .invite(
                now_ms,
                alice,
                "sip:bob@192.0.2.2:5060",
                None,
                &mut self.outboxes[0],
            )
            .unwrap();
        while self.outboxes.iter().any(|outbox| !outbox.sends.is_empty()) {
            for from in 0..2 {
                self.hand_over(now_ms, from);
            }
        }
    }

    fn hand_over(&mut self, now_ms: u64, from: usize) {
        let to = 1 - from;
        let mut outbox = std::mem::take(&mut self.outboxes[from]);
        let flow = flow(self.ends[from].1, self.ends[to].1);
        let agents = &mut self.ends[to].0;
        for send in &outbox.sends {
            let mut message = agents.spare_message();
            message
                .fill(&outbox.bytes[send.start..send.end], &Limits::default())
                .unwrap();
            agents.handle_message(now_ms, &flow, message, &mut self.outboxes[to]);
        }
        outbox.clear();
        self.outboxes[from] = outbox;
        while let Some(event) = agents.poll_event() {
            match event {
                Event::Incoming { call, .. } => {
                    agents.ring(now_ms, call, &mut self.outboxes[to]);
                    agents.answer(now_ms, call, None, &mut self.outboxes[to]);
                }
                Event::Answered { call } => {
                    agents.hang_up(now_ms, call, &mut self.outboxes[to]);
                }
                Event::Ended { .. } if to == 0 => self.done += 1,
                Event::Failed { .. } => panic!("{event:?}"),
                _ => {}
            }
        }
    }
}
