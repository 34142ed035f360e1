//! What the token of a dialog opens: every combination of Request-URI, Route
//! list, From, To, tags, method, source, Call-ID and time, against a model of
//! what may be reached.
//!
//! The model knows nothing of tokens' bytes. It says what RFC 3261 16.4 makes
//! of a request, and that one side of a dialog may send to the other, at the
//! contact that it has shown, until the dialog is over; and nothing else.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::common::*;
use sip_engine::Effect;
use sip_engine::routes::{Gateway, GatewayGroup, Routes};
use sip_engine::settings::{AuthSettings, Settings, TrustedPeer};
use sip_msg::{HeaderName, Transport};

const EVES: &str = "sip:eve@203.0.113.66:5066";
const ALICES: &str = "sip:alice@198.51.100.1:5060";
const EVES_ADDRESS: &str = "203.0.113.66:5066";
const GATEWAY: &str = "203.0.113.200:5060";

/// The tokens that somebody may have got hold of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// What eve was given in alice's call to her.
    Eves,
    /// What alice was given in it.
    Alices,
    /// What alice was given in a call to bob.
    OtherCall,
    /// Eve's with a letter changed.
    Forged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Server,
    Elsewhere,
}

/// A Request-URI, or the URI of a Route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UriTarget {
    Token(Token, Host),
    Server,
    EvesContact,
    AlicesContact,
    BobsName,
    BobsContact,
    Number,
    Gateway,
    Victim,
}

const TARGETS: [UriTarget; 13] = [
    UriTarget::EvesContact,
    UriTarget::AlicesContact,
    UriTarget::BobsName,
    UriTarget::BobsContact,
    UriTarget::Number,
    UriTarget::Gateway,
    UriTarget::Victim,
    UriTarget::Server,
    UriTarget::Token(Token::Eves, Host::Server),
    UriTarget::Token(Token::Eves, Host::Elsewhere),
    UriTarget::Token(Token::Alices, Host::Server),
    UriTarget::Token(Token::Alices, Host::Elsewhere),
    UriTarget::Token(Token::OtherCall, Host::Elsewhere),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Alice,
    Eve,
    Ceo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    who: Who,
    tag: &'static str,
}

const fn side(who: Who, tag: &'static str) -> Side {
    Side { who, tag }
}

/// From and To.
const SIDES: [(Side, Side); 11] = [
    (side(Who::Alice, "a"), side(Who::Eve, "e")),
    (side(Who::Eve, "e"), side(Who::Alice, "a")),
    (side(Who::Eve, "x"), side(Who::Alice, "a")),
    (side(Who::Alice, "x"), side(Who::Eve, "e")),
    (side(Who::Alice, "a"), side(Who::Eve, "x")),
    (side(Who::Eve, "e"), side(Who::Alice, "x")),
    (side(Who::Alice, "a"), side(Who::Eve, "")),
    (side(Who::Eve, "e"), side(Who::Alice, "")),
    (side(Who::Ceo, "a"), side(Who::Eve, "e")),
    (side(Who::Ceo, "e"), side(Who::Alice, "a")),
    (side(Who::Alice, "a"), side(Who::Ceo, "e")),
];

const METHODS: [&str; 6] = ["INVITE", "BYE", "ACK", "REFER", "REGISTER", "DANCE"];

#[derive(Clone, Debug)]
struct Case {
    method: &'static str,
    uri: UriTarget,
    routes: Vec<UriTarget>,
    from: Side,
    to: Side,
    call_id: &'static str,
    source: &'static str,
}

/// Every Route list of up to two values, and some of three.
fn route_lists() -> Vec<Vec<UriTarget>> {
    let (server, elsewhere) = (Host::Server, Host::Elsewhere);
    let values = [
        UriTarget::Token(Token::Eves, server),
        UriTarget::Token(Token::Alices, server),
        UriTarget::Token(Token::OtherCall, server),
        UriTarget::Token(Token::Forged, server),
        UriTarget::Token(Token::Eves, elsewhere),
        UriTarget::Token(Token::Alices, elsewhere),
        UriTarget::Server,
        UriTarget::EvesContact,
        UriTarget::AlicesContact,
        UriTarget::BobsName,
        UriTarget::Number,
        UriTarget::Gateway,
        UriTarget::Victim,
    ];
    let mut lists = vec![Vec::new()];
    for first in values {
        lists.push(vec![first]);
        for second in values {
            lists.push(vec![first, second]);
            if matches!(first, UriTarget::Token(..)) {
                lists.push(vec![UriTarget::Server, first, second]);
            }
        }
    }
    lists
}

/// Whom a request reaches, by the model.
fn model(case: &Case, is_over: bool) -> Option<&'static str> {
    // RFC 3261 16.4: a strict router has put our Route into the Request-URI, and the target last.
    let (mut target, mut routes) = (case.uri, case.routes.clone());
    let mut ours = None;
    let is_placed = matches!(
        target,
        UriTarget::Server
            | UriTarget::Token(
                Token::Eves | Token::Alices | Token::OtherCall | Token::Forged,
                Host::Server
            )
    );
    if is_placed && let Some(last) = routes.pop() {
        ours = Some(target);
        target = last;
    }
    // Our own are taken off; the innermost is the one that counts. One that does
    // not name this server is ours if its token is good here.
    let mut left = routes.into_iter().peekable();
    while let Some(route) = left.peek().copied() {
        let is_good_here = matches!(route, UriTarget::Token(token, Host::Elsewhere) if {
            let mut rest = left.clone();
            rest.next();
            fits(token, case, target, rest.next().is_some())
        });
        let is_named = matches!(
            route,
            UriTarget::Server
                | UriTarget::Token(_, Host::Server)
                | UriTarget::BobsName
                | UriTarget::Number
        );
        if !is_named && !is_good_here {
            break;
        }
        ours = Some(route);
        left.next();
    }
    let Some(UriTarget::Token(token, _)) = ours else {
        return None;
    };
    let is_part = fits(token, case, target, left.next().is_some()) && !is_over;
    is_part.then_some(match target {
        UriTarget::EvesContact => "203.0.113.66:5066",
        _ => "198.51.100.1:5060",
    })
}

/// Whether a token is that of this request's sender, in its dialog.
fn fits(token: Token, case: &Case, target: UriTarget, has_next: bool) -> bool {
    if case.call_id != "call-1" || case.method == "REGISTER" || has_next {
        return false;
    }
    match token {
        Token::Alices => {
            (case.from, case.to) == (side(Who::Alice, "a"), side(Who::Eve, "e"))
                && target == UriTarget::EvesContact
        }
        // Her tag was not known when she was given it.
        Token::Eves => {
            (case.from.who, case.to) == (Who::Eve, side(Who::Alice, "a"))
                && target == UriTarget::AlicesContact
        }
        Token::OtherCall | Token::Forged => false,
    }
}

struct World {
    bed: Bed,
    eves: String,
    alices: String,
    other: String,
    sent: u32,
}

fn secured() -> Settings {
    let gateway = Gateway {
        next_hop: next_hop(Transport::Udp, GATEWAY),
        priority: 1,
        weight: 1,
    };
    let group = GatewayGroup {
        gateways: vec![gateway],
        ..GatewayGroup::default()
    };
    let mut settings = settings();
    settings.authenticate = Some(AuthSettings::default());
    settings.routes = Routes {
        groups: vec![group],
        ..Routes::default()
    };
    settings.routes.prefixes.insert("+1900".into(), 0);
    settings
}

/// The user part of the first of a message's Record-Routes.
fn token_of(sent: &Sent) -> String {
    let route = sent.header(HeaderName::RecordRoute).unwrap();
    let user = route.trim_start_matches("<sip:").split('@').next().unwrap();
    user.to_owned()
}

impl World {
    /// Alice, whose address is trusted for the time of the calls, has called
    /// eve and then bob.
    fn new() -> Self {
        let mut trusting = secured();
        trusting.trusted = vec![TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)];
        let mut bed = Bed::new(trusting);
        bed.register("sip:bob@example.org", "sip:bob@203.0.113.20:5060", None);
        let mut call = |call_id: &str, uri: &str, to: &str, tag: &str, contact: &str| {
            let mut invite = request("INVITE", uri, Transport::Udp);
            invite.from = "<sip:alice@example.org>;tag=a".into();
            (invite.to, invite.call_id) = (to.into(), call_id.into());
            let copy = bed
                .receive(&alice(Transport::Udp), &invite.text())
                .remove(1);
            let contact = format!("Contact: <{contact}>\r\n");
            let ok = response(&copy, 200, tag, &contact);
            let ok = only(bed.receive(&answering(&copy), &ok));
            (token_of(&copy), token_of(&ok))
        };
        let (eves, alices) = call("call-1", EVES, "<sip:eve@elsewhere.example>", "e", EVES);
        let (_, other) = call(
            "call-2",
            "sip:bob@example.org",
            "<sip:bob@example.org>",
            "b",
            "sip:bob@203.0.113.20:5060",
        );
        bed.act(|shard, _, _| shard.reload(Arc::new(secured())));
        Self {
            bed,
            eves,
            alices,
            other,
            sent: 0,
        }
    }

    fn uri(&self, place: UriTarget) -> String {
        match place {
            UriTarget::Token(token, host) => {
                let forged;
                let user = match token {
                    Token::Eves => &self.eves,
                    Token::Alices => &self.alices,
                    Token::OtherCall => &self.other,
                    Token::Forged => {
                        let (head, tail) = self.eves.split_at(12);
                        let (letter, tail) = tail.split_at(1);
                        let other = if letter == "A" { "B" } else { "A" };
                        forged = format!("{head}{other}{tail}");
                        &forged
                    }
                };
                let host = match host {
                    Host::Server => "192.0.2.1:5060",
                    Host::Elsewhere => "x.invalid",
                };
                format!("sip:{user}@{host};lr")
            }
            UriTarget::Server => "sip:192.0.2.1:5060;lr".into(),
            UriTarget::EvesContact => EVES.into(),
            UriTarget::AlicesContact => ALICES.into(),
            UriTarget::BobsName => "sip:bob@example.org".into(),
            UriTarget::BobsContact => "sip:bob@203.0.113.20:5060".into(),
            UriTarget::Number => "sip:+1900555@example.org".into(),
            UriTarget::Gateway => format!("sip:+1900555@{GATEWAY}"),
            UriTarget::Victim => "sip:victim@203.0.113.77;lr".into(),
        }
    }

    /// An address of its own for each request, in one of two networks: a source
    /// that is refused too often is left without answers.
    fn source(&self, case: &Case) -> String {
        let network = if case.source == EVES_ADDRESS { 60 } else { 100 };
        let host = Ipv4Addr::from((network << 24) + self.sent);
        format!("{host}:5060")
    }

    fn text(&mut self, case: &Case) -> String {
        self.sent += 1;
        let address = |side: &Side| {
            let uri = match side.who {
                Who::Alice => "sip:alice@example.org",
                Who::Eve => "sip:eve@elsewhere.example",
                Who::Ceo => "sip:ceo@example.org",
            };
            match side.tag {
                "" => format!("<{uri}>"),
                tag => format!("<{uri}>;tag={tag}"),
            }
        };
        let contact = if case.from.who == Who::Eve {
            EVES
        } else {
            ALICES
        };
        let routes: String = case
            .routes
            .iter()
            .map(|place| format!("Route: <{}>\r\n", self.uri(*place)))
            .collect();
        format!(
            "{method} {} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKcase{}\r\nMax-Forwards: 70\r\n\
             {routes}From: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 7 {method}\r\nContact: <{contact}>\r\n\
             Content-Length: 0\r\n\r\n",
            self.uri(case.uri),
            self.source(case),
            self.sent,
            address(&case.from),
            address(&case.to),
            case.call_id,
            method = case.method,
        )
    }

    /// Whom a request reaches.
    fn reached(&mut self, case: &Case) -> Vec<String> {
        let text = self.text(case);
        let from = flow(Transport::Udp, &self.source(case));
        let sent = self.bed.receive(&from, &text);
        let is_question = |effect: &Effect| {
            matches!(
                effect,
                Effect::FindCredential { .. }
                    | Effect::SaveBindings { .. }
                    | Effect::Resolve { .. }
            )
        };
        let is_asked = self
            .bed
            .effects
            .drain(..)
            .any(|effect| is_question(&effect));
        assert!(!is_asked, "nobody is asked for anything: {case:?}");
        let requests = sent.iter().filter(|sent| sent.status() == 0);
        requests.map(|sent| sent.to.remote.to_string()).collect()
    }

    fn check(&mut self, case: &Case, is_over: bool) -> bool {
        let expected = model(case, is_over);
        let reached = self.reached(case);
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(reached, expected, "{case:?} over: {is_over}");
        !expected.is_empty()
    }
}

fn each_case(mut act: impl FnMut(Case)) {
    for uri in TARGETS {
        for routes in route_lists() {
            for (from, to) in SIDES {
                for (nth, method) in METHODS.into_iter().enumerate() {
                    // The others are of the wrong call or from another place by turns.
                    for (call_id, source) in [
                        ("call-1", EVES_ADDRESS),
                        match nth % 2 {
                            0 => ("call-1", "198.51.100.99:5060"),
                            _ => ("call-2", EVES_ADDRESS),
                        },
                    ] {
                        act(Case {
                            method,
                            uri,
                            routes: routes.clone(),
                            from,
                            to,
                            call_id,
                            source,
                        });
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_is_reached_but_the_other_side_of_the_dialog() {
    let mut world = World::new();
    let (mut cases, mut passed) = (0, BTreeMap::<&str, u32>::new());
    each_case(|case| {
        cases += 1;
        if world.check(&case, false) {
            *passed.entry(case.method).or_default() += 1;
        }
    });
    assert!(cases > 400_000, "{cases}");
    // The model lets dialogs live.
    let methods: Vec<_> = passed.keys().copied().collect();
    assert_eq!(methods, ["ACK", "BYE", "DANCE", "INVITE", "REFER"]);
    assert!(passed.values().all(|passed| *passed >= 20), "{passed:?}");
}

#[test]
fn nothing_is_reached_when_the_dialog_is_over() {
    let lists = || each_case_of_its_own();
    // For five minutes after the BYE there is room for what winds the dialog up.
    let mut world = World::new();
    let bye = lists().remove(0);
    let text = world.text(&bye);
    let copy = only(world.bed.receive(&flow(Transport::Udp, bye.source), &text));
    world
        .bed
        .receive(&answering(&copy), &response(&copy, 200, "e", ""));
    for (after_ms, is_over) in [(1_000, false), (298_000, false), (2_000, true)] {
        world.bed.wait(after_ms);
        for case in lists() {
            let winds_up = matches!(case.method, "ACK" | "BYE");
            world.check(&case, is_over || !winds_up);
        }
    }
    // A day later without a sign of life.
    let mut world = World::new();
    for (after_ms, is_over) in [(1_000, false), (24 * 3_600_000 + 2_048_000, true)] {
        world.bed.wait(after_ms);
        for case in lists().into_iter().filter(|case| case.method != "REFER") {
            world.check(&case, is_over);
        }
    }
}

/// Both sides' good requests.
fn each_case_of_its_own() -> Vec<Case> {
    let mut cases = Vec::new();
    for method in METHODS.into_iter().filter(|method| *method != "REGISTER") {
        for (token, uri, (from, to)) in [
            (Token::Alices, UriTarget::EvesContact, SIDES[0]),
            (Token::Eves, UriTarget::AlicesContact, SIDES[1]),
        ] {
            cases.push(Case {
                method,
                uri,
                routes: vec![UriTarget::Token(token, Host::Server)],
                from,
                to,
                call_id: "call-1",
                source: "198.51.100.99:5060",
            });
        }
    }
    cases.sort_by_key(|case| case.method != "BYE");
    cases
}

#[test]
fn the_token_of_a_dialog_opens_no_gateway_and_reaches_no_user() {
    let mut world = World::new();
    for host in [Host::Elsewhere, Host::Server] {
        for goal in [UriTarget::Number, UriTarget::BobsName, UriTarget::Gateway] {
            for token in [Token::Eves, Token::Alices] {
                let case = Case {
                    method: "INVITE",
                    uri: UriTarget::Token(token, host),
                    routes: vec![UriTarget::Token(token, Host::Server), goal],
                    from: side(Who::Ceo, "e"),
                    to: side(Who::Alice, "a"),
                    call_id: "call-1",
                    source: EVES_ADDRESS,
                };
                assert!(world.reached(&case).is_empty(), "{case:?}");
            }
        }
    }
}
