//! Two layers linked by a network that loses, repeats and reorders packets:
//! whatever happens, every request ends once, none reaches its core twice, and
//! no state is left.

#![allow(clippy::panic, clippy::unwrap_used)]

use crate::support::{TCP, UDP, flow, parse, request_to, target};
use sip_msg::{Flow, Message, Method, Outbox, ResponseWriter, Transport};
use sip_txn::{
    Cancelled, ClientId, Config, Counters, Event, Incoming, Live, Response, ServerId, Transactions,
};
use std::collections::{BTreeMap, HashMap};

/// How long a packet may take: short enough that no copy of a request comes
/// after its server transaction's end.
const DELAY_MS_MAX: u64 = 400;

const CALLER: usize = 0;
const CALLEE: usize = 1;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What is yet to happen.
enum Later {
    Packet {
        to: usize,
        bytes: Vec<u8>,
    },
    Call,
    Cancel {
        client: ClientId,
    },
    Answer {
        server: ServerId,
        request: String,
        status: u16,
    },
    /// The callee's core repeats a 2xx until its ACK (RFC 3261 13.3.1.4).
    Repeat {
        server: ServerId,
        request: String,
        call: String,
        interval_ms: u64,
        until_ms: u64,
    },
}

#[derive(Default)]
struct Outcome {
    finals: Vec<u16>,
    timeouts: u32,
    ended: u32,
}

struct World {
    random: Random,
    transport: Transport,
    loss_percent: u64,
    copy_percent: u64,
    now_ms: u64,
    sides: [Transactions; 2],
    out: Outbox,
    later: BTreeMap<(u64, u64), Later>,
    count: u64,
    calls: u64,
    /// By the caller's context.
    outcomes: HashMap<u64, Outcome>,
    requests: HashMap<u64, String>,
    cancelled: Vec<u64>,
    /// The requests that reached the callee's core.
    delivered: Vec<String>,
    acknowledged: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let transport = if random.percent(20) { TCP } else { UDP };
        let unreliable = u64::from(transport == UDP);
        let side = |key| Transactions::new(Config::new([key; 16], [key + 1; 16]), 5_000);
        Self {
            loss_percent: random.below(51) * unreliable,
            copy_percent: random.below(51) * unreliable,
            random,
            transport,
            now_ms: 5_000,
            sides: [side(1), side(3)],
            out: Outbox::default(),
            later: BTreeMap::new(),
            count: 0,
            calls: 0,
            outcomes: HashMap::new(),
            requests: HashMap::new(),
            cancelled: Vec::new(),
            delivered: Vec::new(),
            acknowledged: Vec::new(),
        }
    }

    fn at(&mut self, after_ms: u64, later: Later) {
        self.count += 1;
        self.later
            .insert((self.now_ms + after_ms, self.count), later);
    }

    /// Puts what `from` has sent on the network.
    fn flush(&mut self, from: usize) {
        let out = std::mem::take(&mut self.out);
        for send in &out.sends {
            let copies = 1 + u64::from(self.random.percent(self.copy_percent));
            for _ in 0..copies {
                if !self.random.percent(self.loss_percent) {
                    // A stream keeps its order.
                    let delay_ms = if self.transport == UDP {
                        self.random.below(DELAY_MS_MAX)
                    } else {
                        20
                    };
                    let bytes = out.bytes[send.start..send.end].to_vec();
                    self.at(
                        delay_ms,
                        Later::Packet {
                            to: 1 - from,
                            bytes,
                        },
                    );
                }
            }
        }
        self.out = out;
        self.out.clear();
        while let Some(event) = self.sides[from].poll_event() {
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::ClientTimeout { context, .. } => {
                let outcome = self.outcomes.get_mut(&context).unwrap();
                outcome.timeouts += 1;
                outcome.ended += 1;
            }
            Event::ClientTerminated { context, .. } => {
                self.outcomes.get_mut(&context).unwrap().ended += 1;
            }
            Event::TryingDue { .. } | Event::ServerAckTimeout { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn call(&mut self) {
        self.calls += 1;
        let context = self.calls;
        let method = if self.random.percent(60) {
            Method::Invite
        } else {
            Method::Options
        };
        let client = self.sides[CALLER].reserve_client().unwrap();
        let mut branch = Vec::new();
        self.sides[CALLER].write_branch(client, &mut branch);
        let branch = String::from_utf8(branch).unwrap();
        let text = request_to("sip:callee@192.0.2.9", method.token(), &branch, "")
            .replace("Call-ID: call", &format!("Call-ID: {context}"));
        self.requests.insert(context, text.clone());
        self.outcomes.insert(context, Outcome::default());
        self.out.bytes.extend_from_slice(text.as_bytes());
        let to = target(self.transport);
        self.sides[CALLER].start_client(self.now_ms, client, method, to, context, 0, &mut self.out);
        self.flush(CALLER);
        if method == Method::Invite {
            // The core's timer C (RFC 3261 16.8): a final response may be lost for good.
            self.at(180_000, Later::Cancel { client });
        }
        if method == Method::Invite && self.random.percent(30) {
            let after_ms = self.random.below(6_000);
            self.at(after_ms, Later::Cancel { client });
        }
    }

    fn caller_receives(&mut self, message: &Message) {
        assert!(!message.is_request());
        let response = self.sides[CALLER].handle_response(self.now_ms, message, &mut self.out);
        if let Response::Pass { context, .. } = response
            && message.status() >= 200
        {
            self.outcomes
                .get_mut(&context)
                .unwrap()
                .finals
                .push(message.status());
            if message.method() == Method::Invite && message.status() < 300 {
                // The ACK to a 2xx is the core's, with a branch of its own.
                let ack = self.requests[&context]
                    .replace("INVITE", "ACK")
                    .replace("branch=z9hG4bK", "branch=z9hG4bKack");
                self.out
                    .send_copy(ack.as_bytes(), target(self.transport), 0);
            }
        }
        self.flush(CALLER);
    }

    fn callee_receives(&mut self, message: &Message) {
        let flow = Flow {
            remote: "192.0.2.1:5060".parse().unwrap(),
            ..flow(self.transport)
        };
        let text = String::from_utf8(message.bytes().to_vec()).unwrap();
        let call = String::from_utf8(message.call_id().to_vec()).unwrap();
        match self.sides[CALLEE].handle_request(self.now_ms, &flow, message, &mut self.out) {
            Incoming::New(server) => {
                self.flush(CALLEE);
                assert!(!self.delivered.contains(&text), "twice to the core: {text}");
                self.delivered.push(text.clone());
                let invite = message.method() == Method::Invite;
                if invite && self.random.percent(70) {
                    for status in [100, 180] {
                        let after_ms = self.random.below(300);
                        self.at(
                            after_ms,
                            Later::Answer {
                                server,
                                request: text.clone(),
                                status,
                            },
                        );
                    }
                }
                let status = [200, 200, 302, 404, 486, 603][self.random.below(6) as usize];
                let after_ms = self.random.below(if invite { 20_000 } else { 300 });
                self.at(
                    after_ms,
                    Later::Answer {
                        server,
                        request: text,
                        status,
                    },
                );
            }
            Incoming::Cancel { cancel, invite } => {
                self.flush(CALLEE);
                // Without one the INVITE had its final response and its ACK before.
                self.answer(cancel, &text, if invite.is_some() { 200 } else { 481 });
                if let Some(invite) = invite {
                    let request = self.delivered.iter().find(|text| {
                        text.starts_with("INVITE") && text.contains(&format!("Call-ID: {call}\r\n"))
                    });
                    let request = request.unwrap().clone();
                    self.answer(invite, &request, 487);
                }
            }
            Incoming::Ack { .. } => {
                if !self.acknowledged.contains(&call) {
                    self.acknowledged.push(call);
                }
                self.flush(CALLEE);
            }
            Incoming::Absorbed => self.flush(CALLEE),
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, server: ServerId, request: &str, status: u16) {
        let start = self.out.bytes.len();
        ResponseWriter::begin(&mut self.out.bytes, &parse(request), status, "R", b"t").finish(b"");
        let sent = self.sides[CALLEE].respond(self.now_ms, server, status, start, &mut self.out);
        self.flush(CALLEE);
        if status == 200 && request.starts_with("INVITE") && sent == sip_txn::Responded::Sent {
            let call = String::from_utf8(parse(request).call_id().to_vec()).unwrap();
            let until_ms = self.now_ms + 32_000;
            let request = request.to_owned();
            self.at(
                500,
                Later::Repeat {
                    server,
                    request,
                    call,
                    interval_ms: 500,
                    until_ms,
                },
            );
        }
    }

    fn happen(&mut self, later: Later) {
        match later {
            Later::Packet { to, bytes } => {
                let message = parse(std::str::from_utf8(&bytes).unwrap());
                if to == CALLER {
                    self.caller_receives(&message)
                } else {
                    self.callee_receives(&message)
                }
            }
            Later::Call => self.call(),
            Later::Cancel { client } => {
                let context = self.sides[CALLER].client_context(client);
                let cancelled = self.sides[CALLER].cancel(self.now_ms, client, &mut self.out);
                if cancelled != Cancelled::TooLate {
                    self.cancelled.extend(context);
                }
                self.flush(CALLER);
            }
            Later::Answer {
                server,
                request,
                status,
            } => self.answer(server, &request, status),
            Later::Repeat {
                server,
                request,
                call,
                interval_ms,
                until_ms,
            } => {
                if self.acknowledged.contains(&call) || self.now_ms >= until_ms {
                    return;
                }
                let start = self.out.bytes.len();
                ResponseWriter::begin(&mut self.out.bytes, &parse(&request), 200, "R", b"t")
                    .finish(b"");
                self.sides[CALLEE].respond(self.now_ms, server, 200, start, &mut self.out);
                self.flush(CALLEE);
                let interval_ms = (interval_ms * 2).min(4_000);
                self.at(
                    interval_ms,
                    Later::Repeat {
                        server,
                        request,
                        call,
                        interval_ms,
                        until_ms,
                    },
                );
            }
        }
    }

    /// Runs until nothing is left to happen.
    fn run(&mut self) {
        loop {
            let packet_ms = self.later.keys().next().map(|key| key.0);
            let timer_ms = self
                .sides
                .iter()
                .filter_map(Transactions::next_deadline_ms)
                .min();
            let Some(next_ms) = packet_ms.into_iter().chain(timer_ms).min() else {
                return;
            };
            assert!(next_ms < 10_000_000, "it never ends");
            self.now_ms = next_ms;
            for side in [CALLER, CALLEE] {
                self.sides[side].handle_timers(next_ms, &mut self.out);
                self.flush(side);
            }
            while let Some(entry) = self
                .later
                .first_entry()
                .filter(|entry| entry.key().0 <= next_ms)
            {
                let later = entry.remove();
                self.happen(later);
            }
        }
    }

    fn check(&self, seed: u64) -> (usize, usize) {
        for (context, outcome) in &self.outcomes {
            let request = &self.requests[context];
            assert_eq!(outcome.ended, 1, "seed {seed}: {request}");
            let failures = outcome
                .finals
                .iter()
                .filter(|status| **status >= 300)
                .count();
            let successes = outcome.finals.len() - failures;
            assert!(failures <= 1, "seed {seed}: {:?}", outcome.finals);
            assert!(
                failures == 0 || successes == 0,
                "seed {seed}: {:?}",
                outcome.finals
            );
            if !request.starts_with("INVITE") {
                assert!(successes <= 1, "seed {seed}: {:?}", outcome.finals);
            }
            let answered = u32::from(!outcome.finals.is_empty());
            assert_eq!(answered + outcome.timeouts, 1, "seed {seed}: {request}");
            if self.transport == TCP {
                assert_eq!(answered, 1, "seed {seed}: nothing is lost on a stream");
            }
        }
        for side in &self.sides {
            assert_eq!(side.live(), Live::default(), "seed {seed}");
            assert_eq!(side.next_deadline_ms(), None, "seed {seed}");
        }
        let answered = self
            .outcomes
            .values()
            .filter(|outcome| outcome.timeouts == 0)
            .count();
        (self.outcomes.len(), answered)
    }
}

#[test]
fn every_request_ends_once_and_no_state_is_left() {
    let (mut calls, mut answered, mut cancelled) = (0, 0, 0);
    let mut work = Counters::default();
    for seed in 0..1_000 {
        let mut world = World::new(seed);
        for _ in 0..20 {
            let after_ms = world.random.below(10_000);
            world.at(after_ms, Later::Call);
        }
        world.run();
        let (all, with_answer) = world.check(seed);
        calls += all;
        answered += with_answer;
        cancelled += world.cancelled.len();
        for counters in world.sides.iter().map(Transactions::counters) {
            work.request_absorbed += counters.request_absorbed;
            work.response_absorbed += counters.response_absorbed;
            work.request_retransmitted += counters.request_retransmitted;
            work.response_retransmitted += counters.response_retransmitted;
            work.ack_absorbed += counters.ack_absorbed;
        }
    }
    // The network was rough enough to mean something, and not too rough.
    assert_eq!(calls, 20_000);
    assert!(answered > calls * 9 / 10 && answered < calls, "{answered}");
    assert!(cancelled > 500, "{cancelled}");
    let least = [
        work.request_absorbed,
        work.response_absorbed,
        work.request_retransmitted,
        work.response_retransmitted,
        work.ack_absorbed,
    ];
    assert!(least.iter().all(|count| *count > 1_500), "{work:?}");
}
