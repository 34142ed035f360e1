//! A server without sockets, and what it does with what comes to it.

use std::net::SocketAddr;
use std::sync::Arc;

use sip_auth::{Attempt, AuthConfig, Authenticator, ClientAuth, Ha1, Reply, RequestParts};
use sip_engine::location::{Binding, BindingChange};
use sip_engine::sender::Sender;
use sip_engine::settings::{Listener, Settings};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{Effect, Location, Now, Outputs, Shard, Shared};
use sip_msg::{ConnId, Flow, HeaderName, Limits, ListenerId, Message, Transport};

/// The domain of the server.
pub(crate) const DOMAIN: &str = "example.org";

/// What the server sent.
pub(crate) struct Sent {
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
    pub(crate) message: Message,
}

/// A server with the users alice and bob, and the world as it asks for it.
pub(crate) struct World {
    shard: Shard,
    now: Now,
    out: Outputs,
    location: Arc<Location>,
    /// Names that it asked to be resolved.
    pub(crate) resolved: Vec<String>,
    /// Changes of bindings that it asked to be kept.
    pub(crate) saved: usize,
}

/// Settings for one domain, with a listener for each transport.
pub(crate) fn settings() -> Settings {
    let listener = |transport, port: u16| Listener {
        transport,
        bound: ([192, 0, 2, 1], port).into(),
        advertised_host: None,
        advertised_port: port,
        certificates_authenticate: false,
    };
    Settings {
        domains: vec![DOMAIN.into()],
        listeners: vec![
            listener(Transport::Udp, 5060),
            listener(Transport::Tcp, 5060),
        ],
        ..Settings::default()
    }
}

/// The way from `remote` to the server.
pub(crate) fn flow(transport: Transport, remote: SocketAddr) -> Flow {
    let is_udp = transport == Transport::Udp;
    Flow {
        transport,
        listener: ListenerId(u16::from(!is_udp)),
        local: ([192, 0, 2, 1], 5060).into(),
        remote,
        conn: if is_udp {
            ConnId::NONE
        } else {
            ConnId(u64::from(remote.port()) + 1)
        },
    }
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let location = Arc::new(Location::new(100, [2; 16]));
        let shared = Arc::new(Shared {
            location: Arc::clone(&location),
            authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[3; 32], 1)),
            guard: Arc::new(sip_limit::Guard::new([9; 16], sip_limit::Limits::default())),
            rates: Arc::new(sip_limit::Rates::new([10; 16])),
            token_keys: Arc::new(TokenKeys::of([4; 32], 1)),
            gateways: Arc::default(),
        });
        Self {
            shard: Shard::new(Arc::new(settings), shared, Seed([5; 32])),
            now: Now {
                mono_ms: 1_000,
                unix_ms: 1_800_000_000_000,
            },
            out: Outputs::default(),
            location,
            resolved: Vec::new(),
            saved: 0,
        }
    }

    /// Gives the server what came by a flow; what it sends because of it.
    pub(crate) fn receive(&mut self, flow: &Flow, bytes: &[u8]) -> Vec<Sent> {
        let mut message = self.shard.spare_message();
        let (now, out) = (self.now, &mut self.out);
        match message.fill(bytes, &Limits::default()) {
            Ok(()) => self
                .shard
                .handle_message(now, &Sender::unproved(*flow), message, out),
            Err(error) => {
                self.shard
                    .handle_malformed(now, &Sender::unproved(*flow), message, &error, out)
            }
        }
        self.collect()
    }

    /// A second goes by.
    pub(crate) fn wait(&mut self) -> Vec<Sent> {
        self.now.mono_ms += 1_000;
        self.now.unix_ms += 1_000;
        self.shard.handle_timers(self.now, &mut self.out);
        self.collect()
    }

    /// A contact of a user, as if it had registered.
    pub(crate) fn register(&mut self, user: &str, contact: &str, flow: Option<Flow>) {
        let binding = Binding {
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
        let change = BindingChange::Put {
            aor: format!("sip:{user}@{DOMAIN}").into_bytes().into(),
            key: contact.as_bytes().into(),
            binding: Arc::new(binding),
        };
        self.location.apply(&[change]);
    }

    /// Answers the server's questions as the world would, until it has none.
    fn collect(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        for _ in 0..64 {
            let outbox = &self.out.outbox;
            for send in &outbox.sends {
                let bytes = outbox.bytes[send.start..send.end].to_vec();
                let message = Message::parse(&bytes, &Limits::default()).unwrap_or_else(|error| {
                    panic!(
                        "sent what does not parse: {error}: {}",
                        bytes.escape_ascii()
                    )
                });
                sent.push(Sent {
                    to: send.to.remote,
                    bytes,
                    message,
                });
            }
            let effects = std::mem::take(&mut self.out.effects);
            self.out.clear();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.answer(effect);
            }
        }
        sent
    }

    fn answer(&mut self, effect: Effect) {
        let (now, out) = (self.now, &mut self.out);
        match effect {
            Effect::FindCredential { park, question, .. } => {
                let subject = &question.subject;
                let (user, realm) = (subject.user().to_vec(), subject.realm().to_string());
                let is_known = matches!(&user[..], b"alice" | b"bob") && realm == DOMAIN;
                let password = password_of(&user);
                let ha1 = Ha1::compute(
                    question.algorithm,
                    &user,
                    realm.as_bytes(),
                    password.as_bytes(),
                );
                let answer = match is_known {
                    true => Reply::Secret(ha1),
                    false => Reply::Unknown,
                };
                self.shard.handle_credential(now, park, Ok(answer), out);
            }
            Effect::SaveBindings { park, .. } => {
                self.saved += 1;
                self.shard.handle_saved(now, park, Ok(()), out);
            }
            Effect::Resolve { park, query } => {
                self.resolved.push(query.host.to_string());
                self.shard.handle_resolved(now, park, Ok(Vec::new()), out);
            }
            _ => {}
        }
    }

    /// Sends a request of a user's, and once more with the credentials that it
    /// is challenged for.
    pub(crate) fn send_as(&mut self, user: &str, flow: &Flow, request: &str) -> Vec<Sent> {
        let challenged = self.receive(flow, request.as_bytes());
        let Some(challenge) = challenged.iter().find(|sent| sent.message.status() == 407) else {
            return challenged;
        };
        let mut client = ClientAuth::new();
        client.add(DOMAIN, user, &password_of(user.as_bytes()));
        let mut attempt = Attempt::default();
        let taken = client.handle_challenge(&mut attempt, &challenge.message);
        assert_eq!(taken, Ok(()), "a challenge of the server's own");
        let read = Message::parse(request.as_bytes(), &Limits::default()).expect("a request");
        let mut line = Vec::new();
        let parts = RequestParts {
            method: read.method_token(),
            uri: read.request_uri(),
            body: read.body(),
        };
        client.write_credentials(&mut attempt, parts, 7, &mut line);
        let line = String::from_utf8(line).expect("credentials are text");
        let again = request
            .replacen("branch=z9hG4bK", "branch=z9hG4bK2", 1)
            .replacen("CSeq: 1 ", "CSeq: 2 ", 1)
            .replacen("Content-Length", &format!("{line}Content-Length"), 1);
        self.receive(flow, again.as_bytes())
    }
}

fn password_of(user: &[u8]) -> String {
    format!("nobody guesses {}", user.escape_ascii())
}

/// The answer of whoever got a request.
pub(crate) fn answer(request: &Message, status: &str, tag: &str, contact: &str) -> Vec<u8> {
    let mut text = format!("SIP/2.0 {status}\r\n").into_bytes();
    for field in request.fields() {
        let line = request.slice(field.line_span);
        match field.name {
            HeaderName::To if request.to().is_ok_and(|to| to.tag().is_none()) => {
                text.extend_from_slice(line.trim_ascii_end());
                text.extend_from_slice(format!(";tag={tag}\r\n").as_bytes());
            }
            HeaderName::Via
            | HeaderName::From
            | HeaderName::To
            | HeaderName::CallId
            | HeaderName::CSeq
            | HeaderName::RecordRoute => text.extend_from_slice(line),
            _ => {}
        }
    }
    text.extend_from_slice(format!("Contact: <{contact}>\r\nContent-Length: 0\r\n\r\n").as_bytes());
    text
}
