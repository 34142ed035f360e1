//! A worker without a network, a store without a disk, and what they take.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sip_auth::{AuthConfig, Authenticator, Ha1, Reply};
use sip_engine::budget::Share;
use sip_engine::settings::{AuthSettings, Listener, Settings};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{BindingChange, Budget, Location, Now, ParkId, Shard, Shared};
use sip_limit::{Guard, Limits, Rates, Shares};
use sip_locate::{Hop, LocateError, Query};
use sip_lookup::{Question, Why};
use sip_msg::{ConnId, Outbox, Target, Transport};
use sip_worker::{AtOnce, Control, Environment, Mailbox, Parts, Passing, StoreAnswer, Worker};

/// What decides which message is whose.
pub const SHARD_KEY: [u8; 16] = [6; 16];
/// Whom the cache has.
pub const HELD: &str = "alice";

pub enum Played {}

impl Environment for Played {
    type Sockets = Wire;
    type Store = Front;
    type Resolver = Nothing;
    type Hook = Nothing;
    type Trace = Nothing;
    type Records = Nothing;
    type Waker = Nothing;
}

pub struct Nothing;

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
pub struct Front(pub Rc<RefCell<Vec<String>>>, pub Rc<RefCell<usize>>);

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
pub struct Wire {
    pub sent: Vec<Vec<u8>>,
    /// The cookies of what was sent, in the same order.
    pub cookies: Vec<u64>,
    /// How often they were told to take no more connections.
    pub stopped: usize,
    /// What they were told to let through, each time.
    pub shed: Vec<Option<Shares>>,
    /// How often they were told that the settings have changed.
    pub told: usize,
    /// What another does while they are used.
    pub while_it_sends: Option<Box<dyn FnOnce()>>,
}

impl sip_worker::Sockets for Wire {
    type Figures = ();

    fn send(&mut self, _: &Target, bytes: &[u8], cookie: u64) {
        self.sent.push(bytes.to_vec());
        self.cookies.push(cookie);
    }

    fn send_outbox(&mut self, outbox: &Outbox) {
        for send in &outbox.sends {
            let bytes = &outbox.bytes[send.start..send.end];
            self.send(&send.to, bytes, send.cookie);
        }
    }

    fn flush(&mut self) {
        if let Some(act) = self.while_it_sends.take() {
            act();
        }
    }
    fn close(&mut self, _: ConnId) {}
    fn count_odd(&mut self, _: ConnId) {}
    fn keep_for(&mut self, _: ConnId, _: u64) {}
    fn end_call(&mut self, _: u64) {}
    fn stop_accepting(&mut self) {
        self.stopped += 1;
    }
    fn find_unreachable(&mut self, _: SocketAddr, _: &[u8]) {}
    fn alias(&mut self, _: ConnId, _: &str, _: Option<u16>) {}
    fn name_aliases(&self, _: &mut Outbox, _: u64) -> u64 {
        0
    }
    fn settings_changed(&mut self) {
        self.told += 1;
    }
    fn held_bytes(&self) -> usize {
        0
    }
    fn trim(&mut self) {}
    fn ends_for(&mut self, _: &Target) -> Option<(SocketAddr, SocketAddr)> {
        None
    }
    fn is_drained(&self) -> bool {
        true
    }
    fn waiting_ms(&self) -> Option<u64> {
        None
    }
    fn may_more_wait(&self) -> bool {
        false
    }
    fn messages_in(&self) -> u64 {
        0
    }
    fn time_datagrams(&mut self, _: bool) {}
    fn shed(&mut self, shares: Option<&Shares>) {
        self.shed.push(shares.copied());
    }
    fn figures(&self) {}
}

pub const NOW: Now = Now {
    mono_ms: 1_000,
    unix_ms: 1_700_000_000_000,
};

pub fn settings() -> Settings {
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

/// A worker that is alone.
pub fn worker(store: Front) -> Worker<Played> {
    worker_among(0, vec![Mailbox::new(16, Nothing)], store, settings())
}

/// One of several workers, which have these mailboxes.
pub fn worker_among(
    index: usize,
    mailboxes: Vec<Arc<Mailbox<Nothing>>>,
    store: Front,
    settings: Settings,
) -> Worker<Played> {
    Worker::new(parts_among(index, mailboxes, store, settings), NOW)
}

/// What it is made of.
pub fn parts_among(
    index: usize,
    mailboxes: Vec<Arc<Mailbox<Nothing>>>,
    store: Front,
    settings: Settings,
) -> Parts<Played> {
    let workers = mailboxes.len();
    let settings = Arc::new(settings);
    let guard = Arc::new(Guard::new([9; 16], Limits::default()));
    let shared = Arc::new(Shared {
        location: Arc::new(Location::new(1_000, [2; 16])),
        authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[3; 32], 1)),
        guard: Arc::clone(&guard),
        rates: Arc::new(Rates::new([10; 16])),
        token_keys: Arc::new(TokenKeys::of([4; 32], 1)),
        gateways: Arc::default(),
    });
    Parts {
        index,
        shard: Shard::new(Arc::clone(&settings), shared, Seed([5; 32])),
        limits: settings.limits,
        mailboxes,
        shard_key: SHARD_KEY,
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
        control: Arc::new(Control::new(workers)),
        trace: Nothing,
        records: Nothing,
        memory: Share::new(Arc::new(Budget::new(1 << 30))),
        queue_ms_max: 0,
        guard,
        uses_aliases: false,
        severities: (0..workers).map(|_| AtomicU32::new(0)).collect(),
    }
}
