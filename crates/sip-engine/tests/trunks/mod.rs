//! Trunks: a scripted provider that challenges, over every transport. The phone's requests reach
//! it with numbers that fit, and nobody else is shown the password.

#![allow(clippy::unwrap_used, clippy::panic)]

mod beyond;
mod called;
mod challenges;
mod faces;
mod people;
mod registering;
mod trusted;

use std::sync::Arc;

use crate::common::*;
use sip_auth::Password;
use sip_engine::refusal::Reason;
use sip_engine::routes::{Gateway, GatewayGroup};
use sip_engine::settings::{AuthSettings, Settings, TrustedPeer};
use sip_engine::token::TokenKeys;
use sip_engine::trunk::{
    Credentials, Identity, NumberFormat, NumberPlan, Numbers, Trunk, TrunkEvent, Trust,
};
use sip_engine::{Effect, SharedGateways};
use sip_msg::{HeaderName, Transport};

const UDP: Transport = Transport::Udp;
const PROVIDER: &str = "203.0.113.8:5070";
const SECOND: &str = "203.0.113.9:5070";
const REALM: &str = "provider.example";
const NUMBER: &str = "sip:030123@example.org";
const ALICE: &str = "\"Alice\" <sip:alice@example.org>;tag=a";

fn trunk() -> Trunk {
    Trunk {
        name: "provider".into(),
        domain: "provider.example".into(),
        account: "4930100".into(),
        credentials: Some(Credentials {
            realm: REALM.into(),
            user: "p4930100".into(),
            password: Password::new("swordfish".to_owned()),
            weakest: None,
            asked_by: None,
        }),
        registering: None,
        identity: Identity::AsIs,
        rewrites_to: false,
        numbers: Numbers {
            plan: NumberPlan {
                country_code: "49".into(),
                national_prefix: "0".into(),
                international_prefix: "00".into(),
                format: NumberFormat::E164,
            },
            main: Some("+4930100".into()),
            users: vec![("+4930101".into(), "alice".into())],
            to: None,
        },
        trust: Trust {
            by_address: true,
            ..Trust::default()
        },
    }
}

/// A server whose numbers go by a trunk to these members.
fn with_members(transport: Transport, trunk: Trunk, members: &[&str]) -> Settings {
    let mut settings = settings();
    let gateways = (0..).zip(members).map(|(priority, addr)| Gateway {
        next_hop: next_hop(transport, addr),
        priority,
        weight: 1,
    });
    settings.routes.groups.push(GatewayGroup {
        name: "provider".into(),
        gateways: gateways.collect(),
        trunk: Some(Arc::new(trunk)),
        ..GatewayGroup::default()
    });
    for prefix in ["0", "+"] {
        settings.routes.prefixes.insert(prefix.into(), 0);
    }
    settings
}

fn open(transport: Transport, trunk: Trunk) -> Settings {
    with_members(transport, trunk, &[PROVIDER])
}

/// The same where users must show who they are.
fn secured(transport: Transport, trunk: Trunk) -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        ..open(transport, trunk)
    }
}

/// The same, at which alice needs no password.
fn trusting(transport: Transport, trunk: Trunk) -> Settings {
    Settings {
        trusted: vec![TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)],
        ..secured(transport, trunk)
    }
}

/// Alice calls a number.
fn invite(transport: Transport) -> Request {
    let mut invite = request("INVITE", NUMBER, transport);
    (invite.from, invite.to) = (ALICE.into(), format!("<{NUMBER}>"));
    invite.cseq = 7;
    invite
}

/// What was sent to the provider.
fn out(sent: Vec<Sent>) -> Vec<Sent> {
    let of_it = |of: &Sent| [PROVIDER, SECOND].contains(&of.to.remote.to_string().as_str());
    sent.into_iter().filter(of_it).collect()
}

/// The only request of that method among what was sent to the provider.
#[track_caller]
fn the(sent: Vec<Sent>, method: &str) -> Sent {
    let of_it = out(sent).into_iter();
    only(
        of_it
            .filter(|of| of.status() == 0 && of.method() == method)
            .collect(),
    )
}

/// What alice is sent.
fn to_alice(sent: &[Sent]) -> Vec<&Sent> {
    let alice = alice(UDP).remote;
    sent.iter().filter(|of| of.to.remote == alice).collect()
}

fn statuses(sent: &[Sent]) -> Vec<u16> {
    to_alice(sent).iter().map(|of| of.status()).collect()
}

fn cseq(sent: &Sent) -> String {
    sent.header(HeaderName::CSeq).unwrap()
}

/// The credentials of a request; `None` without.
fn credentials(sent: &Sent) -> Option<String> {
    let names = [HeaderName::ProxyAuthorization, HeaderName::Authorization];
    let mut lines = names.into_iter().flat_map(|name| sent.all(name));
    let first = lines.next();
    assert_eq!(lines.next(), None, "{}", sent.text);
    first
}

fn challenge_line(status: u16, realm: &str, nonce: &str, more: &str) -> String {
    let name = match status {
        401 => "WWW-Authenticate",
        _ => "Proxy-Authenticate",
    };
    format!(
        "{name}: Digest realm=\"{realm}\", nonce=\"{nonce}\", qop=\"auth\", algorithm=SHA-256{more}\r\n"
    )
}

/// The provider challenges a request; what follows.
fn challenge(bed: &mut Bed, sent: &Sent, status: u16, nonce: &str) -> Vec<Sent> {
    let line = challenge_line(status, REALM, nonce, "");
    bed.receive(&answering(sent), &response(sent, status, "c", &line))
}

fn contact(transport: Transport) -> String {
    format!(
        "Contact: <sip:gw@{PROVIDER};transport={}>\r\n",
        transport.uri_param()
    )
}

/// The provider answers.
fn answer(bed: &mut Bed, sent: &Sent, status: u16) -> Vec<Sent> {
    let more = contact(sent.to.transport);
    bed.receive(&answering(sent), &response(sent, status, "p", &more))
}

/// A call that was answered, as alice sees it.
struct Call {
    transport: Transport,
    from: String,
    to: String,
    routes: Vec<String>,
    /// As the provider sees it.
    copy: Sent,
    providers_to: String,
}

impl Call {
    /// Alice calls, the provider challenges and then answers.
    fn new(bed: &mut Bed, transport: Transport) -> Self {
        let first = the(
            bed.receive(&alice(transport), &invite(transport).text()),
            "INVITE",
        );
        let copy = the(challenge(bed, &first, 407, "n1"), "INVITE");
        Self::answered(bed, copy)
    }

    fn answered(bed: &mut Bed, copy: Sent) -> Self {
        let sent = answer(bed, &copy, 200);
        let ok = to_alice(&sent)[0];
        assert_eq!(ok.status(), 200);
        let mut routes = ok.all(HeaderName::RecordRoute);
        routes.reverse();
        Self {
            transport: copy.to.transport,
            from: ok.header(HeaderName::From).unwrap(),
            to: ok.header(HeaderName::To).unwrap(),
            routes,
            providers_to: format!("{};tag=p", copy.header(HeaderName::To).unwrap()),
            copy,
        }
    }

    /// A request of alice within the dialog.
    fn request(&self, method: &str, cseq: u32) -> Request {
        let transport = self.transport;
        let uri = format!("sip:gw@{PROVIDER};transport={}", transport.uri_param());
        let mut request = request(method, &uri, transport);
        (request.from, request.to) = (self.from.clone(), self.to.clone());
        request.call_id = self.copy.header(HeaderName::CallId).unwrap();
        request.cseq = cseq;
        for route in &self.routes {
            request = request.with(&format!("Route: {route}\r\n"));
        }
        request
    }

    fn send(&self, bed: &mut Bed, request: &Request) -> Vec<Sent> {
        bed.receive(&alice(self.transport), &request.text())
    }

    /// A request of alice's as the provider gets it.
    #[track_caller]
    fn sent(&self, bed: &mut Bed, method: &str, cseq: u32) -> Sent {
        let request = self.request(method, cseq);
        the(self.send(bed, &request), method)
    }

    /// A request of the provider within the dialog, as it comes.
    fn providers(&self, method: &str, cseq: u32, more: &str) -> Request {
        let uri = "sip:alice@198.51.100.1:5060";
        let mut request = request(method, uri, self.transport);
        request.via = request.via.replace("198.51.100.1:5060", PROVIDER);
        request.from = self.providers_to.clone();
        request.to = self.copy.header(HeaderName::From).unwrap();
        request.call_id = self.copy.header(HeaderName::CallId).unwrap();
        request.cseq = cseq;
        for route in self.copy.all(HeaderName::RecordRoute) {
            request = request.with(&format!("Route: {route}\r\n"));
        }
        request.with(more)
    }
}

/// From now on alice is trusted no more: what she sends within a dialog passes by its token.
fn distrust(bed: &mut Bed, transport: Transport, trunk: Trunk) {
    let settings = Arc::new(secured(transport, trunk));
    bed.act(|shard, _, _| shard.reload(settings));
}

/// The same message once more.
fn the_same(sent: &Sent) -> Sent {
    Sent {
        to: sent.to.clone(),
        cookie: sent.cookie,
        message: sip_msg::Message::parse(sent.text.as_bytes(), &Default::default()).unwrap(),
        text: sent.text.clone(),
    }
}

/// What befell the trunk since the last time.
fn events(bed: &mut Bed) -> Vec<TrunkEvent> {
    let told = bed.effects.drain(..).filter_map(|effect| match effect {
        Effect::Trunk { event, .. } => Some(event),
        _ => None,
    });
    told.collect()
}
