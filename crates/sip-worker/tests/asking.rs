//! In which order a worker asks the store, and what a cache before it makes of that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sip_auth::{Attempt, AuthConfig, Authenticator, ClientAuth, Ha1, Reply, RequestParts};
use sip_engine::budget::Share;
use sip_engine::settings::{AuthSettings, Listener, Settings};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{BindingChange, Budget, Location, Now, ParkId, Shard, Shared};
use sip_limit::{Guard, Limits, Rates, Shares};
use sip_locate::{Hop, LocateError, Query};
use sip_lookup::{Question, Why};
use sip_msg::{ConnId, Flow, ListenerId, Message, Outbox, Target, Transport};
use sip_worker::{
    AtOnce, Control, Environment, Mailbox, Parts, Passing, SocketEvent, StoreAnswer, Worker,
};

/// Whom the cache has.
const HELD: &str = "alice";

enum Played {}

impl Environment for Played {
    type Sockets = Wire;
    type Store = Front;
    type Resolver = Nothing;
    type Hook = Nothing;
    type Trace = Nothing;
    type Records = Nothing;
    type Waker = Nothing;
}

struct Nothing;

impl sip_worker::Wake for Nothing {
    fn wake(&self) {}
}

impl sip_worker::Records for Nothing {
    fn give(&mut self, _: Box<sip_engine::CallRecord>) {}
}

impl sip_worker::Trace for Nothing {
    fn is_on(&self) -> bool {
        false
    }

    fn message(&self, _: &Passing<'_>) {}
}

impl sip_worker::Hook for Nothing {
    fn ask(&mut self, _: ParkId, _: Box<sip_hook::Question>, _: u64) -> Option<sip_hook::Outcome> {
        None
    }

    fn take_answers(&mut self, _: &mut Vec<(ParkId, sip_hook::Outcome)>) {}
}

impl sip_worker::Resolver for Nothing {
    fn ask(&mut self, _: ParkId, _: Query) -> bool {
        false
    }

    fn next_answer(&mut self) -> Option<(ParkId, Result<Vec<Hop>, LocateError>)> {
        None
    }
}

/// A cache that has one user, and in what order the store behind it was asked, after how many
/// looks into the cache.
#[derive(Clone, Default)]
struct Front(Rc<RefCell<Vec<String>>>, Rc<RefCell<usize>>);

impl sip_worker::Store for Front {
    fn find_credential(&mut self, _: ParkId, question: Question, _: u64) -> AtOnce {
        let user = String::from_utf8(question.subject.user().to_vec()).unwrap();
        if question.why == Why::Digest {
            *self.1.borrow_mut() += 1;
            let algorithm = question.algorithm;
            let ha1 = || Ha1::compute(algorithm, HELD.as_bytes(), b"example.org", b"right");
            return AtOnce::Known(match user == HELD {
                true => Reply::Cached(ha1()),
                false => Reply::NotCached,
            });
        }
        self.0.borrow_mut().push(user);
        AtOnce::Pending
    }

    fn save_bindings(&mut self, _: ParkId, _: Vec<BindingChange>) -> bool {
        true
    }

    fn take_answers(&mut self, _: &mut Vec<StoreAnswer>) {}
}

/// Sockets that keep what they were to send.
#[derive(Default)]
struct Wire {
    sent: Vec<Vec<u8>>,
}

impl sip_worker::Sockets for Wire {
    type Figures = ();

    fn send(&mut self, _: &Target, bytes: &[u8], _: u64) {
        self.sent.push(bytes.to_vec());
    }

    fn send_outbox(&mut self, outbox: &Outbox) {
        for send in &outbox.sends {
            self.sent.push(outbox.bytes[send.start..send.end].to_vec());
        }
    }

    fn flush(&mut self) {}
    fn close(&mut self, _: ConnId) {}
    fn count_odd(&mut self, _: ConnId) {}
    fn keep_for(&mut self, _: ConnId, _: u64) {}
    fn end_call(&mut self, _: u64) {}
    fn stop_accepting(&mut self) {}
    fn find_unreachable(&mut self, _: SocketAddr, _: &[u8]) {}
    fn alias(&mut self, _: ConnId, _: &str, _: Option<u16>) {}
    fn name_aliases(&self, _: &mut Outbox, _: u64) -> u64 {
        0
    }
    fn settings_changed(&mut self) {}
    fn held_bytes(&self) -> usize {
        0
    }
    fn trim(&mut self) {}
    fn local_for(&mut self, _: &Target) -> Option<SocketAddr> {
        None
    }
    fn is_drained(&self) -> bool {
        true
    }
    fn waiting_ms(&self) -> Option<u64> {
        None
    }
    fn messages_in(&self) -> u64 {
        0
    }
    fn time_datagrams(&mut self, _: bool) {}
    fn shed(&mut self, _: Option<&Shares>) {}
    fn figures(&self) {}
}

const NOW: Now = Now {
    mono_ms: 1_000,
    unix_ms: 1_700_000_000_000,
};

fn settings() -> Settings {
    Settings {
        domains: vec!["example.org".into()],
        listeners: vec![Listener {
            transport: Transport::Udp,
            bound: "192.0.2.1:5060".parse().unwrap(),
            advertised_host: None,
            advertised_port: 5060,
            certificates_authenticate: false,
        }],
        authenticate: Some(AuthSettings::default()),
        ..Settings::default()
    }
}

fn worker(store: Front) -> Worker<Played> {
    let settings = Arc::new(settings());
    let guard = Arc::new(Guard::new([9; 16], Limits::default()));
    let shared = Arc::new(Shared {
        location: Arc::new(Location::new(1_000, [2; 16])),
        authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[3; 32], 1)),
        guard: Arc::clone(&guard),
        rates: Arc::new(Rates::new([10; 16])),
        token_keys: Arc::new(TokenKeys::of([4; 32], 1)),
        gateways: Arc::default(),
    });
    let mailboxes = vec![Mailbox::new(16, Nothing)];
    let parts = Parts {
        index: 0,
        shard: Shard::new(Arc::clone(&settings), shared, Seed([5; 32])),
        limits: settings.limits,
        mailboxes,
        shard_key: [6; 16],
        store,
        resolver: Nothing,
        hook: Nothing,
        media: sip_media::Client::new(
            0,
            [5; 16],
            sip_media::ClientNumber::default(),
            Arc::default(),
            sip_media::Config::default(),
        ),
        control: Arc::new(Control::new(1)),
        trace: Nothing,
        records: Nothing,
        retry_after_s: 5,
        memory: Share::new(Arc::new(Budget::new(1 << 30))),
        queue_ms_max: 0,
        guard,
        uses_aliases: false,
        severities: Arc::from([AtomicU32::new(0)]),
    };
    Worker::new(parts, NOW)
}

/// One turn, in which these come; what is sent because of them.
fn turn(worker: &mut Worker<Played>, requests: &[String]) -> Vec<Message> {
    let mut wire = Wire::default();
    assert!(worker.begin_turn(&mut wire));
    worker.wake_up(|| NOW);
    for request in requests {
        worker.handle_event(SocketEvent::Message {
            flow: Flow {
                transport: Transport::Udp,
                listener: ListenerId(0),
                local: "192.0.2.1:5060".parse().unwrap(),
                remote: "198.51.100.66:6666".parse().unwrap(),
                conn: ConnId::NONE,
            },
            bytes: request.as_bytes(),
        });
    }
    worker.end_turn(&mut wire);
    let read = |bytes: &Vec<u8>| Message::parse(bytes, &settings().limits).unwrap();
    wire.sent.iter().map(read).collect()
}

fn register(user: &str, branch: &str, more: &str) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP 198.51.100.66:6666;branch=z9hG4bK{branch}\r\n\
         From: <sip:{user}@example.org>;tag=a\r\nTo: <sip:{user}@example.org>\r\n\
         Call-ID: {branch}\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n{more}\
         Content-Length: 0\r\n\r\n"
    )
}

/// A REGISTER with a wrong password, in answer to a challenge.
fn guess(worker: &mut Worker<Played>, user: &str, nth: usize) -> String {
    let challenge = turn(worker, &[register(user, &format!("first{nth}"), "")]);
    let mut client = ClientAuth::new();
    client.add("example.org", user, "wrong");
    let mut attempt = Attempt::default();
    client
        .handle_challenge(&mut attempt, &challenge[0])
        .unwrap();
    let parts = RequestParts {
        method: b"REGISTER",
        uri: b"sip:example.org",
        body: b"",
    };
    let mut line = Vec::new();
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    let line = String::from_utf8(line).unwrap();
    register(user, &format!("second{nth}"), &line)
}

#[test]
fn requests_of_one_turn_are_asked_for_in_their_order_whoever_is_in_the_cache() {
    for names in [
        ["alice", "ghost", "bob", "carol"],
        ["ghost", "alice", "bob", "carol"],
        ["ghost", "bob", "carol", "alice"],
    ] {
        let store = Front::default();
        let mut worker = worker(store.clone());
        let guesses = names.iter().enumerate();
        let guesses = guesses.map(|(nth, name)| guess(&mut worker, name, nth));
        let guesses: Vec<String> = guesses.collect();
        assert!(store.0.borrow().is_empty());
        let sent = turn(&mut worker, &guesses);
        assert!(sent.is_empty(), "nobody is answered by a cache");
        assert_eq!(*store.0.borrow(), names);
        assert_eq!(*store.1.borrow(), names.len(), "each was looked for first");
    }
}
