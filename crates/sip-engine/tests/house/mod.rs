//! A house with users who prove who they are, numbers, and a way out.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_engine::Effect;
use sip_engine::numbers::{NumberRules, Permission};
use sip_engine::people::{AliasTarget, Directory, Forwards, Person};
use sip_engine::refusal::Reason;
use sip_engine::routes::{Gateway, GatewayGroup, Routes};
use sip_engine::settings::{AuthSettings, Inbound, Settings, TrustedPeer};
use sip_limit::concurrent::Owner;
use sip_msg::{Flow, HeaderName, Transport};

use crate::common::*;

pub const UDP: Transport = Transport::Udp;
/// Where numbers go.
pub const GATEWAY: &str = "203.0.113.200:5060";
/// A peer that may call in, and be called.
pub const PEER: &str = "198.51.100.200:5060";
/// A stranger.
pub const STRANGER: &str = "198.51.100.66:5060";

/// The server, with everything refused recorded.
pub struct House {
    pub bed: Bed,
    calls: u32,
}

pub fn gateway(addr: &str) -> Gateway {
    Gateway {
        next_hop: next_hop(UDP, addr),
        priority: 0,
        weight: 1,
    }
}

pub fn group(name: &str, addr: &str) -> GatewayGroup {
    GatewayGroup {
        name: name.into(),
        gateways: vec![gateway(addr)],
        ..GatewayGroup::default()
    }
}

/// German numbers; all that begin with a digit or `+` leave by the gateway as they are.
pub fn settings_of_house() -> Settings {
    let prefixes = ["+", "0", "1", "5", "9"].map(|prefix| (prefix.into(), 0));
    Settings {
        authenticate: Some(AuthSettings::default()),
        inbound: Inbound::Anyone,
        trusted: vec![TrustedPeer::at("198.51.100.200".parse().unwrap(), 32)],
        routes: Routes {
            groups: vec![group("pstn", GATEWAY)],
            prefixes: prefixes.into_iter().collect(),
            ..Routes::default()
        },
        numbers: NumberRules {
            country_code: "49".into(),
            emergency: vec!["110".into(), "112".into()],
            blocked: vec!["+49900".into()],
            premium: vec!["+49137".into()],
            permission: Permission::International,
            ..NumberRules::default()
        },
        tells_all_refusals: true,
        ..settings()
    }
}

/// An empty directory, to be filled.
#[derive(Default)]
pub struct Book(pub Directory, pub NumberRules);

impl Book {
    pub fn alias(mut self, name: &str, targets: &[(&str, u16)]) -> Self {
        let targets = targets.iter().map(|(uri, q)| AliasTarget {
            uri: uri.as_bytes().into(),
            q: *q,
        });
        let aor = format!("sip:{name}@example.org");
        self.0.add_alias(aor.as_bytes(), targets.collect(), &self.1);
        self
    }

    pub fn person(mut self, name: &str, change: impl FnOnce(&mut Person)) -> Self {
        let mut person = Person {
            aor: format!("sip:{name}@example.org").as_bytes().into(),
            name: name.as_bytes().into(),
            realm: "example.org".into(),
            ..Person::default()
        };
        change(&mut person);
        self.0.add_person(person, &self.1);
        self
    }

    pub fn permission(self, name: &str, permission: Permission) -> Self {
        self.person(name, |person| person.permission = Some(permission))
    }

    pub fn forwards(self, name: &str, change: impl FnOnce(&mut Forwards)) -> Self {
        self.person(name, |person| change(&mut person.forwards))
    }
}

pub fn book() -> Book {
    Book(Directory::default(), settings_of_house().numbers)
}

pub fn to(uri: &str) -> Option<Arc<[u8]>> {
    Some(uri.as_bytes().into())
}

impl House {
    pub fn new(book: Book) -> Self {
        Self::with(book, |_| {})
    }

    pub fn with(book: Book, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = settings_of_house();
        settings.people = Arc::new(book.0);
        change(&mut settings);
        Self {
            bed: Bed::new(settings),
            calls: 0,
        }
    }

    /// A phone of a user at 203.0.113.N.
    pub fn phone(&mut self, user: &str, host: u8) {
        let aor = format!("sip:{user}@example.org");
        let contact = format!("sip:{user}@203.0.113.{host}:5060");
        self.bed.register(&aor, &contact, None);
    }

    /// A request of a call of its own.
    pub fn request(
        &mut self,
        method: &str,
        from: &str,
        uri: &str,
        transport: Transport,
    ) -> Request {
        self.calls += 1;
        let mut request = request(method, uri, transport);
        request.call_id = format!("call-{}", self.calls);
        request.from = format!("<{from}>;tag=a");
        request.to = format!("<{uri}>");
        request
    }

    /// Sends a request in the name of a user, with his credentials; what the server sends.
    pub fn signed(&mut self, flow: &Flow, user: &str, request: Request) -> (Request, Vec<Sent>) {
        self.signed_with(flow, user, user, request)
    }

    pub fn signed_with(
        &mut self,
        flow: &Flow,
        user: &str,
        password: &str,
        request: Request,
    ) -> (Request, Vec<Sent>) {
        let asked = self.bed.receive(flow, &request.text());
        let challenge = only(
            asked
                .into_iter()
                .filter(|sent| sent.status() > 100)
                .collect(),
        );
        assert_eq!(challenge.status(), 407, "{}", challenge.text);
        let mut again = request;
        again.via.push('x');
        let line = credentials(&challenge, &again, user, password);
        again.more.push_str(&line);
        let mut sent = self.bed.receive(flow, &again.text());
        sent.extend(self.look_up());
        (again, sent)
    }

    /// Everybody's password is his name.
    pub fn look_up(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(at) = (self.bed.effects.iter())
            .position(|effect| matches!(effect, Effect::FindCredential { .. }))
        {
            if let Effect::FindCredential { park, question, .. } = self.bed.effects.remove(at) {
                let reply = Ok(own_name(&question));
                let answer = self
                    .bed
                    .act(|s, now, out| s.handle_credential(now, park, reply, out));
                sent.extend(answer);
            }
        }
        sent
    }

    /// A user calls; what the server sends, without 100.
    pub fn call_over(
        &mut self,
        transport: Transport,
        user: &str,
        uri: &str,
    ) -> (Request, Vec<Sent>) {
        let from = format!("sip:{user}@example.org");
        let request = self.request("INVITE", &from, uri, transport);
        let (request, mut sent) = self.signed(&alice(transport), user, request);
        sent.retain(|sent| sent.status() != 100);
        (request, sent)
    }

    pub fn call(&mut self, user: &str, uri: &str) -> Vec<Sent> {
        self.call_over(UDP, user, uri).1
    }

    /// A peer in the list calls.
    pub fn peer_calls(&mut self, uri: &str, more: &str) -> Vec<Sent> {
        let request = self
            .request("INVITE", "sip:+4912@far.example", uri, UDP)
            .with(more);
        let mut sent = self.bed.receive(&flow(UDP, PEER), &request.text());
        sent.retain(|sent| sent.status() != 100);
        sent
    }

    /// A stranger calls.
    pub fn stranger_calls(&mut self, uri: &str, more: &str) -> Vec<Sent> {
        let from = "sip:mallory@far.example";
        let request = self.request("INVITE", from, uri, UDP).with(more);
        let mut sent = self.bed.receive(&flow(UDP, STRANGER), &request.text());
        sent.retain(|sent| sent.status() != 100);
        sent
    }

    /// Whoever got a copy answers.
    pub fn answer(&mut self, sent: &Sent, status: u16) -> Vec<Sent> {
        let contact = match status {
            200..=299 => format!("Contact: <sip:x@{}>\r\n", sent.to.remote),
            _ => String::new(),
        };
        let text = response(sent, status, "b", &contact);
        let mut back = self.bed.receive(&answering(sent), &text);
        // The ACK to a failure is this server's own affair.
        back.retain(|sent| sent.method() != "ACK");
        back
    }

    /// How many calls of a user are counted.
    pub fn counted(&self, user: &str) -> u32 {
        let owner = Owner::User(user.as_bytes(), b"example.org");
        self.bed.rates.calls().taken(owner)
    }

    /// The last refusal was for that reason.
    #[track_caller]
    pub fn saw(&mut self, reason: Reason) {
        let records = std::mem::take(&mut self.bed.refused);
        let told: Vec<_> = records.iter().map(|of| (of.status, of.reason)).collect();
        assert!(
            told.iter().any(|(_, of)| *of == reason),
            "{reason:?} in {told:?}"
        );
    }
}

/// The line of credentials with which a user answers a challenge.
pub fn credentials(challenge: &Sent, request: &Request, user: &str, password: &str) -> String {
    let mut client = ClientAuth::new();
    client.add("example.org", user, password);
    let mut attempt = Attempt::default();
    client
        .handle_challenge(&mut attempt, &challenge.message)
        .unwrap();
    let parts = RequestParts {
        method: request.method.as_bytes(),
        uri: request.uri.as_bytes(),
        body: request.body.as_bytes(),
    };
    let mut line = Vec::new();
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    String::from_utf8(line).unwrap()
}

/// Whether it is a copy of an INVITE.
pub fn is_copy(sent: &Sent) -> bool {
    sent.status() == 0 && sent.method() == "INVITE"
}

/// Where each copy went, and with which Request-URI.
pub fn copies(sent: &[Sent]) -> Vec<(String, String)> {
    let copies = sent.iter().filter(|sent| is_copy(sent));
    copies
        .map(|sent| (sent.to.remote.to_string(), sent.uri().to_owned()))
        .collect()
}

/// The only copy, and its Request-URI.
#[track_caller]
pub fn copy(sent: &[Sent]) -> (String, String) {
    let mut copies = copies(sent);
    let texts: Vec<_> = sent.iter().map(|sent| &sent.text).collect();
    assert_eq!(copies.len(), 1, "{texts:#?}");
    copies.remove(0)
}

/// The status of the only message.
#[track_caller]
pub fn status(sent: Vec<Sent>) -> u16 {
    only(sent).status()
}

/// A call was refused with that status, for that reason.
#[track_caller]
pub fn saw_status(house: &mut House, sent: Vec<Sent>, status: u16, reason: Reason) {
    assert_eq!(self::status(sent), status);
    house.saw(reason);
}

/// The lines of that name in a message.
pub fn lines_of(sent: &Sent, name: &str) -> Vec<String> {
    let lines = sent.text.lines();
    let of_it = lines.filter(|line| {
        let front = line.split(':').next().unwrap_or_default();
        front.eq_ignore_ascii_case(name)
    });
    of_it.map(str::to_owned).collect()
}

/// A request within the call that this 200 answered, of the caller.
pub fn within(method: &str, invite: &Request, ok: &Sent, cseq: u32) -> Request {
    let routes = ok.all(HeaderName::RecordRoute).into_iter().rev();
    let route: String = routes.map(|value| format!("Route: {value}\r\n")).collect();
    let contact = ok.header(HeaderName::Contact).unwrap();
    let target = contact
        .trim_start_matches('<')
        .split('>')
        .next()
        .unwrap()
        .to_owned();
    let mut within = request(method, &target, UDP).with(&route);
    within.call_id.clone_from(&invite.call_id);
    within.from.clone_from(&invite.from);
    within.to = format!("{};tag=b", invite.to);
    within.cseq = cseq;
    within
}
