//! A small world for tests: settings, keys, users and a clock, without a shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use sip_auth::{Attempt, AuthConfig, Authenticator, ClientAuth, Ha1, Reply, RequestParts};
use sip_msg::{ConnId, Flow, Limits, ListenerId, Message, Transport, VerifiedPeer};

use crate::dialogs::Dialogs;
use crate::gateways::Gateways;
use crate::own::Own;
use crate::permit::{Gate, GateContext, Refusal, gate, gate_finish};
use crate::proxy::route::preprocess;
use crate::sender::Sender;
use crate::settings::Listener;
use crate::token::{TokenKeys, Tokens};
use crate::{Location, Now, Settings, Shared};

pub(crate) const NOW: Now = Now {
    mono_ms: 1_000_000,
    unix_ms: 1_800_000_000_000,
};

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) shared: Shared,
    pub(crate) own: Own,
    pub(crate) gateways: Gateways,
    pub(crate) tokens: Tokens,
    pub(crate) dialogs: Dialogs,
    pub(crate) now: Now,
    /// (user, realm) to password.
    pub(crate) users: BTreeMap<(String, String), String>,
    cnonce: u64,
    /// Whom the sender of what is judged proved to be.
    pub(crate) peer: Option<Arc<VerifiedPeer>>,
    /// Who sends where it does not matter.
    somebody: Sender,
}

impl World {
    /// Two domains, `example.org` and `example.net`, with alice, bob and carol
    /// in the first and another alice in the second; digest on, memory only.
    pub(crate) fn new() -> Self {
        let mut settings = Settings {
            domains: vec!["example.org".into(), "example.net".into()],
            listeners: vec![
                listener(Transport::Udp, "192.0.2.1:5060"),
                listener(Transport::Tcp, "192.0.2.1:5060"),
                listener(Transport::Tls, "192.0.2.1:5061"),
            ],
            ..Settings::default()
        };
        settings.registrar.durable = false;
        let users = [
            ("alice", "example.org"),
            ("bob", "example.org"),
            ("carol", "example.org"),
            ("alice", "example.net"),
        ];
        let users = users.map(|(user, realm)| {
            (
                (user.to_owned(), realm.to_owned()),
                format!("{user} of {realm}"),
            )
        });
        let own = Own::new(&settings);
        Self {
            settings,
            shared: Shared {
                location: Arc::new(Location::new(100_000, [5; 16])),
                authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[6; 32], 7)),
                guard: Arc::new(sip_limit::Guard::new([9; 16], sip_limit::Limits::default())),
                rates: Arc::new(sip_limit::Rates::new([10; 16])),
                token_keys: Arc::new(TokenKeys::of([8; 32], 1)),
                gateways: Arc::default(),
            },
            own,
            gateways: Gateways::new(&Settings::default(), Arc::default()),
            tokens: Tokens::new(Arc::new(TokenKeys::of([8; 32], 1))),
            dialogs: Dialogs::new([9; 16], 100),
            now: NOW,
            users: users.into_iter().collect(),
            cnonce: 0,
            peer: None,
            somebody: Sender::unproved(flow(Transport::Udp, "192.0.2.77:5060")),
        }
    }

    /// A world without authentication.
    pub(crate) fn open() -> Self {
        let mut world = Self::new();
        world.settings.authenticate = None;
        world
    }

    pub(crate) fn context(&self) -> GateContext<'_> {
        self.context_of(&self.somebody)
    }

    fn context_of<'a>(&'a self, sender: &'a Sender) -> GateContext<'a> {
        GateContext {
            now: self.now,
            settings: &self.settings,
            shared: &self.shared,
            tokens: &self.tokens,
            dialogs: &self.dialogs,
            own: &self.own,
            sender,
        }
    }

    fn sender(&self, flow: &Flow) -> Sender {
        Sender {
            flow: *flow,
            peer: self.peer.clone(),
        }
    }

    /// Passes a request through the gate.
    pub(crate) fn gate(&self, flow: &Flow, message: &Message) -> Gate {
        match preprocess(message, flow, &self.own, &self.tokens) {
            Ok(routed) => gate(&self.context_of(&self.sender(flow)), message, &routed),
            Err(_) => Gate::Refuse(Refusal::malformed("Malformed Route")),
        }
    }

    /// Passes a request through the gate, and answers its look-up.
    pub(crate) fn judge(&self, flow: &Flow, message: &Message) -> Gate {
        let sender = self.sender(flow);
        let cx = self.context_of(&sender);
        match self.gate(flow, message) {
            Gate::Lookup(pending) => {
                let question = pending.question();
                let subject = &question.subject;
                let user = String::from_utf8_lossy(subject.user()).into_owned();
                let password = self.users.get(&(user, subject.realm().to_string()));
                let ha1 = password.map(|password| {
                    Ha1::compute(
                        question.algorithm,
                        subject.user(),
                        subject.realm().as_bytes(),
                        password.as_bytes(),
                    )
                });
                let reply = ha1.map_or(Reply::Unknown, Reply::Secret);
                // A cache that has nothing comes before the store and changes nothing.
                match gate_finish(&cx, pending, message, Ok(Reply::NotCached)) {
                    Gate::Lookup(pending) => gate_finish(&cx, pending, message, Ok(reply)),
                    other => panic!("a cache that has nothing has said {other:?}"),
                }
            }
            judged => judged,
        }
    }

    pub(crate) fn response(&self, refusal: &Refusal, request: &Message) -> Message {
        let mut bytes = Vec::new();
        refusal.write(&self.context(), request, 0, b"tag", &mut bytes);
        parse(&bytes)
    }

    /// The same request with the credentials of `user` in answer to the
    /// challenge that it meets.
    pub(crate) fn sign(
        &mut self,
        flow: &Flow,
        request: &str,
        user: &str,
        realm: &str,
        password: &str,
    ) -> String {
        let message = parse(request.as_bytes());
        let refusal = match self.judge(flow, &message) {
            Gate::Refuse(refusal) if matches!(refusal.status(), 401 | 407) => refusal,
            other => panic!("not challenged but {other:?}: {request}"),
        };
        let response = self.response(&refusal, &message);
        let mut client = ClientAuth::new();
        client.add(realm, user, password);
        let mut attempt = Attempt::default();
        client
            .handle_challenge(&mut attempt, &response)
            .expect("a challenge for that realm");
        self.cnonce += 1;
        let mut line = Vec::new();
        let parts = RequestParts {
            method: message.method_token(),
            uri: message.request_uri(),
            body: message.body(),
        };
        client.write_credentials(&mut attempt, parts, self.cnonce, &mut line);
        with_lines(request, std::str::from_utf8(&line).unwrap())
    }

    /// Signs with the right password.
    pub(crate) fn sign_as(
        &mut self,
        flow: &Flow,
        request: &str,
        user: &str,
        realm: &str,
    ) -> String {
        let password = self.users[&(user.to_owned(), realm.to_owned())].clone();
        self.sign(flow, request, user, realm, &password)
    }
}

pub(crate) fn listener(transport: Transport, bound: &str) -> Listener {
    let bound: std::net::SocketAddr = bound.parse().unwrap();
    Listener {
        transport,
        bound,
        advertised_host: None,
        advertised_port: bound.port(),
        certificates_authenticate: false,
    }
}

/// A flow from `remote` to the first listener of its transport.
pub(crate) fn flow(transport: Transport, remote: &str) -> Flow {
    let (listener, port) = match transport {
        Transport::Udp => (0, 5060),
        Transport::Tcp => (1, 5060),
        _ => (2, 5061),
    };
    Flow {
        transport,
        listener: ListenerId(listener),
        local: ([192, 0, 2, 1], port).into(),
        remote: remote.parse().unwrap(),
        conn: ConnId(if transport.is_reliable() { 77 } else { 0 }),
    }
}

pub(crate) fn parse(bytes: &[u8]) -> Message {
    Message::parse(bytes, &Limits::default())
        .unwrap_or_else(|error| panic!("{error:?} in {}", String::from_utf8_lossy(bytes)))
}

/// Adds header lines, each with its line end, behind the first line.
pub(crate) fn with_lines(request: &str, lines: &str) -> String {
    let (first, rest) = request.split_once("\r\n").unwrap();
    format!("{first}\r\n{lines}{rest}")
}

/// A request with the headers that every one has. `From` and `To` come without tags' semicolons escaped:
/// they are written as given.
pub(crate) fn request(method: &str, uri: &str, from: &str, to: &str, lines: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
         From: {from}\r\nTo: {to}\r\nCall-ID: call-1\r\nCSeq: 1 {method}\r\n{lines}Content-Length: 0\r\n\r\n"
    )
}
