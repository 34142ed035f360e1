//! A shard on a virtual clock, and messages as phones and neighbours send them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sip_auth::{AuthConfig, Authenticator, Ha1, Reply};
use sip_engine::location::{Binding, BindingChange};
use sip_engine::routes::NextHop;
use sip_engine::sender::Sender;
use sip_engine::settings::{Listener, ProxySettings, Settings};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{
    CallRecord, Effect, Location, Now, Outputs, RefusalRecord, Shard, Shared, SharedGateways,
};
use sip_lookup::{Question, Unavailable};
use sip_msg::{
    ConnId, Flow, HeaderName, Limits, ListenerId, Message, QueuedMessage, Target, Transport,
    VerifiedPeer,
};

/// The transports that every scenario is run over.
pub const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];

/// Wall time at the start of every test.
const STARTED_UNIX_MS: u64 = 1_700_000_000_000;

/// A store that could not say, and does not know for how long.
pub const NO_ANSWER: Unavailable = Unavailable {
    retry_after_s: None,
};

/// What a store says of a user of `example.org` whose password is his name.
pub fn own_name(question: &Question) -> Reply {
    let user = question.subject.user();
    Reply::Secret(Ha1::compute(question.algorithm, user, b"example.org", user))
}

/// The server under test.
pub struct Bed {
    pub shard: Shard,
    pub location: Arc<Location>,
    pub guard: Arc<sip_limit::Guard>,
    pub rates: Arc<sip_limit::Rates>,
    pub gateways: Arc<SharedGateways>,
    pub now: Now,
    pub effects: Vec<Effect>,
    /// What was refused, as far as it was recorded.
    pub refused: Vec<RefusalRecord>,
    /// The records of calls that are over.
    pub records: Vec<CallRecord>,
    /// Connections that contacts rely on, and for how long.
    pub kept: Vec<(ConnId, u64)>,
    /// Datagrams of line ends alone: where to, and their cookies.
    pub line_ends: Vec<(Target, u64)>,
    out: Outputs,
}

/// A message that the server sent.
#[derive(Debug)]
pub struct Sent {
    pub to: Target,
    pub cookie: u64,
    pub message: Message,
    pub text: String,
}

impl Sent {
    pub fn status(&self) -> u16 {
        self.message.status()
    }

    pub fn method(&self) -> String {
        String::from_utf8_lossy(self.message.method_token()).into_owned()
    }

    pub fn uri(&self) -> &str {
        std::str::from_utf8(self.message.request_uri()).unwrap()
    }

    /// The values of a header, in order.
    pub fn all(&self, name: HeaderName) -> Vec<String> {
        self.message
            .values(name)
            .map(|(value, _)| String::from_utf8_lossy(value).into_owned())
            .collect()
    }

    /// The first value of a header.
    pub fn header(&self, name: HeaderName) -> Option<String> {
        self.all(name).into_iter().next()
    }

    /// The topmost Via's branch.
    pub fn branch(&self) -> String {
        let via = self.message.top_via().unwrap();
        String::from_utf8_lossy(via.branch).into_owned()
    }
}

/// Settings without authentication, for the domain `example.org`, with a
/// listener for each transport at 192.0.2.1. An INVITE that is let in is
/// answered 100 at once: so a test sees that it was.
pub fn settings() -> Settings {
    let listener = |transport, bound: &str| {
        let bound: SocketAddr = bound.parse().unwrap();
        Listener {
            transport,
            bound,
            advertised_host: None,
            advertised_port: bound.port(),
            certificates_authenticate: false,
        }
    };
    Settings {
        domains: vec!["example.org".into()],
        listeners: vec![
            listener(Transport::Udp, "192.0.2.1:5060"),
            listener(Transport::Tcp, "192.0.2.1:5060"),
            listener(Transport::Tls, "192.0.2.1:5061"),
            listener(Transport::Udp, "[2001:db8::1]:5060"),
        ],
        authenticate: None,
        proxy: ProxySettings {
            trying_at_once: true,
            ..ProxySettings::default()
        },
        ..Settings::default()
    }
}

/// The same, and everything that is not for a user goes to `addr`.
pub fn forwarding(transport: Transport, addr: &str) -> Settings {
    let addr: SocketAddr = addr.parse().unwrap();
    Settings {
        forward: Some(next_hop(transport, &addr.to_string())),
        ..settings()
    }
}

pub fn next_hop(transport: Transport, addr: &str) -> NextHop {
    let addr: SocketAddr = addr.parse().unwrap();
    NextHop {
        host: addr.ip().to_string().into(),
        port: Some(addr.port()),
        transport: Some(transport),
        connections: sip_engine::routes::Connections::default(),
    }
}

/// The way from `remote` to the listener of that transport.
pub fn flow(transport: Transport, remote: &str) -> Flow {
    let remote: SocketAddr = remote.parse().unwrap();
    let (listener, local) = match (transport, remote.is_ipv4()) {
        (Transport::Udp, true) => (0, "192.0.2.1:5060"),
        (Transport::Tcp, _) => (1, "192.0.2.1:5060"),
        (Transport::Udp, false) => (3, "[2001:db8::1]:5060"),
        _ => (2, "192.0.2.1:5061"),
    };
    let conn = match transport {
        Transport::Udp => ConnId::NONE,
        _ => ConnId(u64::from(remote.port()) << 8 | u64::from(listener as u8)),
    };
    Flow {
        transport,
        listener: ListenerId(listener),
        local: local.parse().unwrap(),
        remote,
        conn,
    }
}

impl Bed {
    pub fn new(settings: Settings) -> Self {
        Self::with_keys(settings, Arc::new(TokenKeys::of([4; 32], 1)))
    }

    /// A server whose tokens are signed by these keys.
    pub fn with_keys(settings: Settings, token_keys: Arc<TokenKeys>) -> Self {
        Self::with_seed(settings, token_keys, 5)
    }

    /// A server that is not another with its seed.
    pub fn with_seed(settings: Settings, token_keys: Arc<TokenKeys>, seed: u8) -> Self {
        Self::with_auth(settings, token_keys, seed, AuthConfig::default())
    }

    /// A server that challenges as it is told.
    pub fn with_auth(
        settings: Settings,
        token_keys: Arc<TokenKeys>,
        seed: u8,
        auth: AuthConfig,
    ) -> Self {
        Self::build(settings, token_keys, seed, auth, Arc::default())
    }

    /// A server that knows of gateways what another does, as two workers of one process.
    pub fn with_gateways(settings: Settings, gateways: &Arc<SharedGateways>) -> Self {
        let token_keys = Arc::new(TokenKeys::of([4; 32], 1));
        let auth = AuthConfig::default();
        Self::build(settings, token_keys, 5, auth, Arc::clone(gateways))
    }

    fn build(
        settings: Settings,
        token_keys: Arc<TokenKeys>,
        seed: u8,
        auth: AuthConfig,
        gateways: Arc<SharedGateways>,
    ) -> Self {
        let location = Arc::new(Location::new(1_000, [2; 16]));
        let authenticator = Authenticator::new(auth, &[3; 32], 1);
        let guard = sip_limit::Guard::new([9; 16], sip_limit::Limits::default());
        let guard = Arc::new(guard);
        let rates = Arc::new(sip_limit::Rates::new([10; 16]));
        let shared = Arc::new(Shared {
            location: Arc::clone(&location),
            authenticator: Arc::new(authenticator),
            guard: Arc::clone(&guard),
            rates: Arc::clone(&rates),
            token_keys,
            gateways: Arc::clone(&gateways),
        });
        Self {
            shard: Shard::new(Arc::new(settings), shared, Seed([seed; 32])),
            location,
            guard,
            rates,
            gateways,
            now: Now {
                mono_ms: 1_000,
                unix_ms: STARTED_UNIX_MS,
            },
            effects: Vec::new(),
            refused: Vec::new(),
            records: Vec::new(),
            kept: Vec::new(),
            line_ends: Vec::new(),
            out: Outputs::default(),
        }
    }

    /// Gives the server a message; what it sends because of it.
    pub fn receive(&mut self, flow: &Flow, text: &str) -> Vec<Sent> {
        let mut message = self.shard.spare_message();
        match message.fill(text.as_bytes(), &Limits::default()) {
            Ok(()) => self.shard.handle_message(
                self.now,
                &Sender::unproved(*flow),
                message,
                &mut self.out,
            ),
            Err(error) => {
                self.shard.handle_malformed(
                    self.now,
                    &Sender::unproved(*flow),
                    message,
                    &error,
                    &mut self.out,
                );
            }
        }
        self.collect()
    }

    /// Lets time pass, step by step as a shell would; what the server sends.
    pub fn wait(&mut self, ms: u64) -> Vec<Sent> {
        let end_ms = self.now.mono_ms + ms;
        let mut sent = Vec::new();
        while let Some(due_ms) = self.shard.next_deadline_ms() {
            if due_ms > end_ms {
                break;
            }
            let due_ms = due_ms.max(self.now.mono_ms + 1);
            self.advance_to(due_ms);
            self.shard.handle_timers(self.now, &mut self.out);
            sent.extend(self.collect());
        }
        self.advance_to(end_ms);
        sent
    }

    /// Runs `act` on the shard; what the server sends because of it.
    pub fn act(&mut self, act: impl FnOnce(&mut Shard, Now, &mut Outputs)) -> Vec<Sent> {
        act(&mut self.shard, self.now, &mut self.out);
        self.collect()
    }

    /// A contact of `aor` (`sip:bob@example.org`), as if it had registered.
    pub fn register(&mut self, aor: &str, contact: &str, flow: Option<Flow>) {
        self.register_with(aor, contact, flow, |_| {});
    }

    pub fn register_with(
        &mut self,
        aor: &str,
        contact: &str,
        flow: Option<Flow>,
        change: impl FnOnce(&mut Binding),
    ) {
        let mut binding = Binding {
            uri: contact.as_bytes().into(),
            q: 1000,
            expires_unix_ms: self.now.unix_ms + 3_600_000,
            call_id: b"reg".as_slice().into(),
            cseq: 1,
            instance: None,
            reg_id: None,
            path: Box::default(),
            flow,
            user_agent: Box::default(),
            node: "".into(),
            since_unix_ms: 0,
            source: None,
            is_translated: false,
            had_flow: false,
        };
        change(&mut binding);
        let key = format!("{contact} {:?}", binding.reg_id);
        let change = BindingChange::Put {
            aor: aor.as_bytes().into(),
            key: key.as_bytes().into(),
            binding: Arc::new(binding),
        };
        self.location.apply(&[change]);
    }

    fn advance_to(&mut self, mono_ms: u64) {
        let by = mono_ms - self.now.mono_ms;
        self.now.mono_ms += by;
        self.now.unix_ms += by;
    }

    fn collect(&mut self) -> Vec<Sent> {
        let outbox = &self.out.outbox;
        let is_line_ends =
            |send: &&QueuedMessage| outbox.bytes[send.start..send.end] == *b"\r\n\r\n";
        let (line_ends, messages): (Vec<_>, Vec<_>) = outbox.sends.iter().partition(is_line_ends);
        let line_ends = line_ends.into_iter();
        let line_ends = line_ends.map(|send| (send.to.clone(), send.cookie));
        self.line_ends.extend(line_ends);
        let sent = messages
            .into_iter()
            .map(|send| {
                let bytes = &outbox.bytes[send.start..send.end];
                let text = String::from_utf8_lossy(bytes).into_owned();
                let message = Message::parse(bytes, &Limits::default())
                    .unwrap_or_else(|e| panic!("sent what does not parse: {e}\n{text}"));
                Sent {
                    to: send.to.clone(),
                    cookie: send.cookie,
                    message,
                    text,
                }
            })
            .collect();
        for effect in self.out.effects.drain(..) {
            match effect {
                // No question: nobody answers it.
                Effect::KeepFor { conn, for_ms } => self.kept.push((conn, for_ms)),
                other => self.effects.push(other),
            }
        }
        self.refused.append(&mut self.out.refused);
        let records = self.out.records.drain(..).map(|record| *record);
        self.records.extend(records);
        self.out.clear();
        sent
    }
}

/// A request, as a text that can be changed.
pub struct Request {
    pub method: String,
    pub uri: String,
    pub via: String,
    pub from: String,
    pub to: String,
    pub call_id: String,
    pub cseq: u32,
    pub more: String,
    pub body: String,
}

/// A request from alice at 198.51.100.1:5060 to bob.
/// Each has a branch of its own.
pub fn request(method: &str, uri: &str, transport: Transport) -> Request {
    static BRANCHES: AtomicU32 = AtomicU32::new(0);
    let number = BRANCHES.fetch_add(1, Ordering::Relaxed);
    Request {
        method: method.into(),
        uri: uri.into(),
        via: format!(
            "SIP/2.0/{} 198.51.100.1:5060;branch=z9hG4bKalice{number}",
            transport.via_name()
        ),
        from: "<sip:alice@example.com>;tag=a".into(),
        to: "<sip:bob@example.org>".into(),
        call_id: "call-1".into(),
        cseq: 1,
        more: "Max-Forwards: 70\r\n".into(),
        body: String::new(),
    }
}

impl Request {
    pub fn with(mut self, more: &str) -> Self {
        self.more.push_str(more);
        self
    }

    pub fn text(&self) -> String {
        format!(
            "{} {} SIP/2.0\r\nVia: {}\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {} {}\r\n{}\
             Contact: <sip:alice@198.51.100.1:5060>\r\nContent-Length: {}\r\n\r\n{}",
            self.method,
            self.uri,
            self.via,
            self.from,
            self.to,
            self.call_id,
            self.cseq,
            self.method,
            self.more,
            self.body.len(),
            self.body
        )
    }
}

/// The alice of [`request`].
pub fn alice(transport: Transport) -> Flow {
    flow(transport, "198.51.100.1:5060")
}

/// A response to a request that the server sent, with this To tag.
pub fn response(sent: &Sent, status: u16, tag: &str, more: &str) -> String {
    let mut text = format!("SIP/2.0 {status} Whatever\r\n");
    for field in sent.message.fields() {
        let line = sent.message.slice(field.line_span);
        let line = String::from_utf8_lossy(line);
        match field.name {
            HeaderName::To if !line.contains(";tag=") && status > 100 => {
                text.push_str(line.trim_end());
                text.push_str(&format!(";tag={tag}\r\n"));
            }
            HeaderName::Via
            | HeaderName::From
            | HeaderName::To
            | HeaderName::CallId
            | HeaderName::CSeq
            | HeaderName::RecordRoute => text.push_str(&line),
            _ => {}
        }
    }
    text.push_str(more);
    text.push_str("Content-Length: 0\r\n\r\n");
    text
}

/// The flow on which whoever got a message answers it.
pub fn answering(sent: &Sent) -> Flow {
    let mut back = flow(sent.to.transport, &sent.to.remote.to_string());
    if sent.to.conn.is_some() {
        back.conn = sent.to.conn;
    }
    back
}

/// The only message in `sent`.
#[track_caller]
pub fn only(mut sent: Vec<Sent>) -> Sent {
    assert_eq!(
        sent.len(),
        1,
        "{:#?}",
        sent.iter().map(|s| &s.text).collect::<Vec<_>>()
    );
    sent.remove(0)
}

/// What begins each message in `sent`: a method or a status.
pub fn kinds(sent: &[Sent]) -> Vec<String> {
    sent.iter()
        .map(|s| match s.status() {
            0 => s.method(),
            status => status.to_string(),
        })
        .collect()
}

/// The proof that a neighbour's certificate bears that name.
pub fn proof_of(name: &str) -> Arc<VerifiedPeer> {
    #[allow(clippy::disallowed_methods, reason = "the tests make their own proofs")]
    let proof = VerifiedPeer::attest([Box::from(name)].into(), [].into(), u64::MAX, true);
    Arc::new(proof)
}
