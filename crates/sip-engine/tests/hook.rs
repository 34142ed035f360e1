//! The operator's hook: what is asked, when, and what its answers do.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use crate::common::*;
use serde_json::{Value, json};
use sip_engine::hook::{HookSettings, OnFailure};
use sip_engine::records::{EndedBy, RecordSettings, Why};
use sip_engine::refusal::Reason;
use sip_engine::registrar::Removal;
use sip_engine::routes::{Gateway, GatewayGroup};
use sip_engine::settings::{AuthSettings, Inbound, Mode, Settings, TrustedPeer};
use sip_engine::{Effect, ParkId};
use sip_hook::{Answer, Failure, Kind, Outcome, Question};
use sip_msg::{HeaderName, Transport};

const UDP: Transport = Transport::Udp;
const BOB: &str = "sip:bob@example.org";
const GATEWAY: &str = "203.0.113.200:5060";

fn hook() -> HookSettings {
    HookSettings {
        asks: vec![
            Kind::Call,
            Kind::Registration,
            Kind::Message,
            Kind::Subscription,
        ],
        timeout_ms: 1_000,
        waiting_max: 10,
        on_failure: OnFailure::Reject,
        may_relay: false,
        headers: vec!["X-Account".into(), "Identity".into()],
    }
}

/// Everybody may do everything, there is a group of gateways, and a hook.
fn open() -> Settings {
    let mut settings = Settings {
        hook: Some(hook()),
        tells_all_refusals: true,
        records: RecordSettings {
            is_on: true,
            session_expires_s: 0,
        },
        ..settings()
    };
    settings.routes.groups.push(GatewayGroup {
        name: "outside".into(),
        gateways: vec![Gateway {
            next_hop: next_hop(UDP, GATEWAY),
            priority: 1,
            weight: 1,
        }],
        strip: 1,
        prepend: "+49".into(),
        ..GatewayGroup::default()
    });
    settings
}

/// The same with users, a peer at 198.51.100.1 and strangers who may call users.
fn secured(peer_may_relay: bool) -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        inbound: Inbound::Anyone,
        trusted: match peer_may_relay {
            true => vec![TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)],
            false => Vec::new(),
        },
        ..open()
    }
}

fn with_bob(settings: Settings) -> Bed {
    let mut bed = Bed::new(settings);
    bed.register(BOB, "sip:bob@203.0.113.9", None);
    bed
}

/// A request of a call of its own.
fn of(method: &str, uri: &str, transport: Transport) -> Request {
    let mut request = request(method, uri, transport);
    let (_, branch) = request.via.rsplit_once('=').unwrap();
    request.call_id = branch.to_owned();
    request
}

/// What is asked; nothing is sent meanwhile.
#[track_caller]
fn asked(bed: &mut Bed) -> (ParkId, Box<Question>) {
    let Some(Effect::AskHook { park, question, .. }) = bed.effects.pop() else {
        panic!("the hook was not asked: {:?}", bed.effects);
    };
    (park, question)
}

/// An answer as it comes from the program.
fn answer(text: &Value) -> Outcome {
    let body = json!({"version": 1, "answers": [text]}).to_string();
    let (_, answer) = sip_hook::read_answers(body.as_bytes()).unwrap().remove(0);
    let answer: Result<Answer, String> = answer;
    answer.map(Arc::new).map_err(|why| Failure::Bad(why.into()))
}

fn tell(bed: &mut Bed, park: ParkId, outcome: Outcome) -> Vec<Sent> {
    let mut sent = bed.act(|s, now, out| s.handle_hook(now, park, outcome, out));
    sent.retain(|sent| sent.status() != 100);
    sent
}

/// Sends a request, answers the question, and gives what is sent because of that.
#[track_caller]
fn decided(bed: &mut Bed, request: &Request, transport: Transport, text: Value) -> Vec<Sent> {
    let sent = bed.receive(&alice(transport), &request.text());
    assert!(sent.is_empty(), "{:?}", kinds(&sent));
    let (park, _) = asked(bed);
    tell(bed, park, answer(&text))
}

#[test]
fn a_call_waits_for_the_hook_and_goes_on() {
    for transport in TRANSPORTS {
        let mut bed = with_bob(open());
        let mut invite = of("INVITE", BOB, transport);
        invite.from = "\"A\" <sip:alice:secret@example.com;x=y>;tag=a".into();
        let sent = decided(
            &mut bed,
            &invite,
            transport,
            json!({"action": "continue", "headers": {"X-Account": "42"}}),
        );
        let copy = only(sent);
        assert_eq!(
            (copy.method().as_str(), copy.uri()),
            ("INVITE", "sip:bob@203.0.113.9")
        );
        assert!(copy.text.contains("\r\nX-Account: 42\r\n"), "{}", copy.text);
        assert_eq!(bed.shard.counters().hook_asked, 1);
        assert_eq!(bed.shard.counters().calls, 1);
        // It comes again: it was let in, and nobody is asked twice.
        assert!(bed.receive(&alice(transport), &invite.text()).len() <= 1);
        assert!(
            !bed.effects
                .iter()
                .any(|of| matches!(of, Effect::AskHook { .. }))
        );
    }
}

#[test]
fn what_is_asked_is_what_the_server_goes_by() {
    let mut bed = with_bob(secured(true));
    let mut invite = of("INVITE", "sip:0-49.30@example.org;user=phone", UDP);
    invite.from = "\"A\" <sip:alice:secret@example.com;x=y>;tag=a".into();
    invite.call_id = "call\"}\\".into();
    bed.receive(
        &alice(UDP),
        &invite.with("Route: <sip:p.example;lr>\r\n").text(),
    );
    let (_, question) = asked(&mut bed);
    assert_eq!(
        *question,
        Question {
            kind: Kind::Call,
            from: "sip:alice@example.com;x=y".into(),
            to: BOB.into(),
            request_uri: "sip:0-49.30@example.org;user=phone".into(),
            number: "04930".into(),
            route: "sip:p.example;lr".into(),
            user: "".into(),
            class: "peer",
            source: "198.51.100.1".parse().unwrap(),
            source_port: 5060,
            transport: "udp",
            call_id: "call\"}\\".into(),
        }
    );
}

#[test]
fn each_kind_is_asked_about_where_it_is_wanted_and_nothing_else() {
    let kinds = [
        ("INVITE", BOB, Kind::Call),
        ("MESSAGE", BOB, Kind::Message),
        ("SUBSCRIBE", BOB, Kind::Subscription),
        ("REGISTER", "sip:example.org", Kind::Registration),
    ];
    for (method, uri, kind) in kinds {
        let mut bed = with_bob(open());
        let mut request = of(method, uri, UDP);
        request.from = "<sip:bob@example.org>;tag=a".into();
        bed.receive(&alice(UDP), &request.text());
        let (park, question) = asked(&mut bed);
        assert_eq!(question.kind, kind);
        let sent = tell(&mut bed, park, answer(&json!({"action": "continue"})));
        assert_eq!(sent.len() + bed.effects.len(), 1, "{method} goes on");

        let mut settings = open();
        settings.hook = Some(HookSettings {
            asks: kinds
                .map(|of| of.2)
                .into_iter()
                .filter(|of| *of != kind)
                .collect(),
            ..hook()
        });
        let mut bed = with_bob(settings);
        bed.receive(&alice(UDP), &request.text());
        assert!(
            !bed.effects
                .iter()
                .any(|of| matches!(of, Effect::AskHook { .. }))
        );
    }
    let mut bed = with_bob(open());
    for method in [
        "OPTIONS", "INFO", "NOTIFY", "PUBLISH", "REFER", "BYE", "DANCE",
    ] {
        let sent = bed.receive(&alice(UDP), &of(method, BOB, UDP).text());
        assert_eq!(sent.len(), 1, "{method}");
    }
    // A REGISTER for somebody else's registrar is a request like another.
    bed.receive(&alice(UDP), &of("REGISTER", "sip:203.0.113.77", UDP).text());
    let mut ack = of("ACK", BOB, UDP);
    ack.to.push_str(";tag=b");
    bed.receive(&alice(UDP), &ack.text());
    assert!(bed.effects.is_empty(), "{:?}", bed.effects);
    assert_eq!(bed.shard.counters().hook_asked, 0);
}

#[test]
fn a_call_is_rejected_in_the_hooks_own_words() {
    for transport in TRANSPORTS {
        let mut bed = with_bob(open());
        let invite = of("INVITE", BOB, transport);
        let reject = json!({"action": "reject", "status": 403, "reason": "No credit \"left\""});
        let sent = only(decided(&mut bed, &invite, transport, reject));
        assert!(
            sent.text.starts_with("SIP/2.0 403 No credit ?left?\r\n"),
            "{}",
            sent.text
        );
        let record = bed.refused.pop().unwrap();
        assert_eq!((record.reason, record.status), (Reason::Hook, Some(403)));
        assert_eq!(&*record.detail, "the hook says: No credit \\x22left\\x22");
        assert_eq!(bed.shard.refusal_counts().of(Reason::Hook), 1);
        let call = bed.records.pop().unwrap();
        assert_eq!(
            (call.status, call.why),
            (Some(403), Some(Why::Refused(Reason::Hook)))
        );
        assert_eq!(call.ended_by, EndedBy::Server);
        // The transaction keeps its answer, and the ACK ends there.
        let again = bed.receive(&alice(transport), &invite.text());
        assert!(again.iter().all(|sent| sent.status() == 403));
        let mut ack = of("ACK", BOB, transport);
        ack.via.clone_from(&invite.via);
        ack.call_id.clone_from(&invite.call_id);
        ack.to = sent.header(HeaderName::To).unwrap();
        assert!(bed.receive(&alice(transport), &ack.text()).is_empty());
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
        assert_eq!(bed.shard.open_call_records(), 0);
    }
}

#[test]
fn a_register_that_waits_for_the_hook_binds_nothing_for_who_is_removed() {
    let mut register = of("REGISTER", "sip:example.org", UDP);
    register.from = "<sip:bob@example.org>;tag=a".into();
    let mut bed = Bed::new(open());
    assert!(bed.receive(&alice(UDP), &register.text()).is_empty());
    let (park, _) = asked(&mut bed);
    let removal = Removal {
        order: 1,
        aor: BOB.as_bytes().into(),
        contact: None,
    };
    let sent = bed.act(|shard, now, out| shard.remove_bindings(now, removal, out));
    let refused = only(sent);
    assert_eq!(refused.status(), 500);
    assert!(refused.header(HeaderName::RetryAfter).is_some());
    assert!(matches!(
        bed.effects.pop(),
        Some(Effect::Removed {
            order: 1,
            removed: Ok(0)
        })
    ));
    let sent = tell(&mut bed, park, answer(&json!({"action": "continue"})));
    assert!(
        sent.is_empty() && bed.effects.is_empty(),
        "{:?}",
        kinds(&sent)
    );
    assert_eq!(bed.location.bindings(), 0);
}

#[test]
fn a_registration_is_let_through_or_not_and_goes_nowhere() {
    let register = || {
        let mut register = of("REGISTER", "sip:example.org", UDP);
        register.from = "<sip:bob@example.org>;tag=a".into();
        register
    };
    let mut bed = Bed::new(open());
    let rejected = decided(&mut bed, &register(), UDP, json!({"action": "reject"}));
    assert_eq!(only(rejected).status(), 403);
    for elsewhere in [
        json!({"action": "route", "to": "outside"}),
        json!({"action": "rewrite", "request_uri": BOB}),
    ] {
        let failed = only(decided(&mut bed, &register(), UDP, elsewhere));
        assert_eq!(failed.status(), 500);
        assert_eq!(failed.header(HeaderName::RetryAfter).as_deref(), Some("5"));
        let record = bed.refused.pop().unwrap();
        assert!(
            record.detail.contains("goes nowhere else"),
            "{}",
            record.detail
        );
    }
    decided(&mut bed, &register(), UDP, json!({"action": "continue"}));
    assert!(matches!(
        bed.effects.pop(),
        Some(Effect::SaveBindings { .. })
    ));
}

#[test]
fn a_call_is_routed_to_a_group_as_its_gateways_want_it() {
    for (uri, at_gateway) in [
        // The group's strip and prepend, as by the tables.
        ("sip:030-1@example.org", "sip:+49301@203.0.113.200:5060"),
        ("tel:0301", "sip:+49301@203.0.113.200:5060"),
        // What is no number of ours stays as it is.
        (BOB, BOB),
        ("sip:0301@elsewhere.example", "sip:0301@elsewhere.example"),
    ] {
        let mut bed = with_bob(open());
        let route = json!({"action": "route", "to": "outside", "headers": {"X-Account": "7"}});
        let copy = only(decided(&mut bed, &of("INVITE", uri, UDP), UDP, route));
        assert_eq!(copy.uri(), at_gateway);
        assert_eq!(copy.to.remote.to_string(), GATEWAY);
        assert!(copy.text.contains("X-Account: 7\r\n"));
    }
    let mut bed = with_bob(open());
    let with_uri = json!({"action": "route", "to": "outside", "request_uri": "sip:00@example.org"});
    let copy = only(decided(&mut bed, &of("INVITE", BOB, UDP), UDP, with_uri));
    assert_eq!(copy.uri(), "sip:+490@203.0.113.200:5060");
}

#[test]
fn a_call_is_routed_to_a_user_or_rewritten() {
    for (text, uri, to) in [
        (
            json!({"action": "route", "to": BOB}),
            "sip:bob@203.0.113.9",
            "203.0.113.9:5060",
        ),
        (
            json!({"action": "rewrite", "request_uri": "sip:bob@EXAMPLE.org"}),
            "sip:bob@203.0.113.9",
            "203.0.113.9:5060",
        ),
        (
            json!({"action": "rewrite", "request_uri": "sip:carol@203.0.113.50:5070;a=b"}),
            "sip:carol@203.0.113.50:5070;a=b",
            "203.0.113.50:5070",
        ),
    ] {
        let mut bed = with_bob(open());
        let mut invite = of("INVITE", "sip:nobody@example.org", UDP);
        invite.body = "v=0\r\n".into();
        let copy = only(decided(&mut bed, &invite, UDP, text));
        assert_eq!((copy.uri(), copy.to.remote.to_string().as_str()), (uri, to));
        // Everything else is as it came.
        assert!(copy.text.ends_with("\r\n\r\nv=0\r\n"), "{}", copy.text);
        assert_eq!(
            copy.header(HeaderName::To).as_deref(),
            Some("<sip:bob@example.org>")
        );
        let answered = bed.receive(
            &answering(&copy),
            &response(&copy, 200, "b", "Contact: <sip:b@203.0.113.9>\r\n"),
        );
        assert_eq!(only(answered).status(), 200);
        assert_eq!(bed.shard.open_call_records(), 1);
    }
}

#[test]
fn what_cannot_be_done_is_a_failure_and_not_a_call() {
    for (uri, text, told) in [
        (
            BOB,
            json!({"action": "route", "to": "inside"}),
            "no [[gateway_group]] named inside",
        ),
        (
            BOB,
            json!({"action": "route", "to": "sip:x@elsewhere.example"}),
            "is no user of this server",
        ),
        (
            BOB,
            json!({"action": "route", "to": "sip:example.org"}),
            "is no user of this server",
        ),
        (
            BOB,
            json!({"action": "continue", "headers": {"X-Other": "1"}}),
            "it sets X-Other",
        ),
        (
            BOB,
            json!({"action": "continue", "headers": {"Via": "SIP/2.0/UDP x"}}),
            "may not set the header `Via`",
        ),
        (
            BOB,
            json!({"action": "rewrite", "request_uri": "sip:x@y\r\nVia: z"}),
            "not a URI",
        ),
        (
            "sips:bob@example.org",
            json!({"action": "rewrite", "request_uri": BOB}),
            "a sips URI is called",
        ),
        (
            "sips:bob@example.org",
            json!({"action": "route", "to": "outside", "request_uri": "tel:1"}),
            "a sips URI is called",
        ),
    ] {
        let mut bed = with_bob(open());
        let sent = only(decided(&mut bed, &of("INVITE", uri, UDP), UDP, text));
        assert_eq!(sent.status(), 503);
        assert_eq!(sent.header(HeaderName::RetryAfter).as_deref(), Some("5"));
        let record = bed.refused.pop().unwrap();
        assert_eq!(record.reason, Reason::HookFailed);
        assert!(record.detail.contains(told), "{told}: {}", record.detail);
        assert_eq!(bed.shard.counters().hook_undecided, 1);
    }
}

#[test]
fn a_caller_cannot_say_what_is_the_hooks_to_say() {
    for text in [
        json!({"action": "continue"}),
        json!({"action": "continue", "headers": {"X-Account": "42"}}),
        json!({"action": "route", "to": "outside", "headers": {"x-account": null}}),
    ] {
        let sets = text["headers"]["X-Account"].is_string();
        let mut bed = with_bob(open());
        let forged = of("INVITE", BOB, UDP).with(
            "x-ACCOUNT: 1\r\nX-Other: stays\r\nX-Account: 2\r\ny: forged\r\nIdentity: too\r\n",
        );
        let copy = only(decided(&mut bed, &forged, UDP, text));
        let accounts: Vec<_> = copy
            .message
            .fields_named("X-Account")
            .map(|of| of.value)
            .collect();
        assert_eq!(accounts, if sets { vec![&b"42"[..]] } else { vec![] });
        assert_eq!(copy.message.fields_named("Identity").count(), 0);
        assert!(copy.text.contains("X-Other: stays\r\n"));
    }
    // Nor where the hook fails and calls go on.
    let mut settings = open();
    settings.hook = Some(HookSettings {
        on_failure: OnFailure::Continue,
        ..hook()
    });
    let mut bed = with_bob(settings);
    let forged = of("INVITE", BOB, UDP).with("X-Account: 1\r\n");
    bed.receive(&alice(UDP), &forged.text());
    let (park, _) = asked(&mut bed);
    let copy = only(tell(&mut bed, park, Err(Failure::Unreachable)));
    assert_eq!(copy.message.fields_named("X-Account").count(), 0);
}

#[test]
fn an_identity_of_the_hooks_is_kept_from_phones_where_that_is_wanted() {
    let named = |privacy: Value| {
        json!({"P-Asserted-Identity": "<sip:+4930@example.org>", "Remote-Party-ID": "<tel:+4930>",
               "X-Account": "42", "Privacy": privacy})
    };
    for (lines, privacy, is_kept) in [
        ("", Value::Null, false),
        ("Privacy: none\r\n", Value::Null, false),
        ("Privacy: id\r\n", Value::Null, true),
        ("Privacy: user;id\r\n", Value::Null, true),
        ("", json!("id"), true),
    ] {
        for (text, is_trusted) in [
            (json!({"action": "continue"}), false),
            (
                json!({"action": "rewrite", "request_uri": "sip:c@203.0.113.50"}),
                false,
            ),
            (json!({"action": "route", "to": "outside"}), true),
        ] {
            let mut settings = open();
            let hook = settings.hook.as_mut().unwrap();
            for name in ["P-Asserted-Identity", "Remote-Party-ID"] {
                hook.headers.push(name.into());
            }
            if privacy.is_string() {
                hook.headers.push("Privacy".into());
            }
            let mut bed = with_bob(settings);
            let mut text = text.clone();
            text["headers"] = named(privacy.clone());
            let invite = of("INVITE", BOB, UDP).with(lines);
            let copy = only(decided(&mut bed, &invite, UDP, text));
            let shown = ["P-Asserted-Identity", "Remote-Party-ID", "X-Account"]
                .map(|name| copy.message.fields_named(name).count());
            let names = usize::from(!is_kept || is_trusted);
            assert_eq!(shown, [names, names, 1], "{}", copy.text);
        }
    }
}

#[test]
fn a_request_that_the_hook_makes_long_goes_over_a_stream() {
    // RFC 3261 18.1.1: "If a request is within 200 bytes of the path MTU, or if it is larger than 1300
    // bytes and the path MTU is unknown, the request MUST be sent using an RFC 2914 [43] congestion
    // controlled transport protocol, such as TCP."
    for (length, transport) in [(10, UDP), (1_000, Transport::Tcp)] {
        let mut settings = open();
        let hook = settings.hook.as_mut().unwrap();
        hook.headers.push("X-More".into());
        let mut bed = with_bob(settings);
        let value = "x".repeat(length);
        let headers = json!({"X-Account": &value, "X-More": &value});
        let text = json!({"action": "continue", "headers": headers});
        let copy = only(decided(&mut bed, &of("INVITE", BOB, UDP), UDP, text));
        assert_eq!(copy.to.transport, transport, "{}", copy.text);
    }
}

#[test]
fn what_a_caller_wants_kept_is_kept_whatever_the_hook_says_of_privacy() {
    for (asked, answered, said) in [
        ("id", Value::Null, "id"),
        ("id", json!("none"), "id"),
        ("user;id", json!("header;id"), "header;id"),
        ("user", Value::Null, "user"),
        ("user", json!("none"), "none"),
    ] {
        let mut settings = open();
        let hook = settings.hook.as_mut().unwrap();
        hook.headers.push("Privacy".into());
        let mut bed = with_bob(settings);
        let headers = json!({"X-Account": "42", "Privacy": answered});
        let text = json!({"action": "route", "to": "outside", "headers": headers});
        let invite = of("INVITE", BOB, UDP).with(&format!("Privacy: {asked}\r\n"));
        let copy = only(decided(&mut bed, &invite, UDP, text));
        let told = copy.message.fields_named("Privacy");
        let told: Vec<_> = told.map(|of| of.value).collect();
        assert_eq!(told, [said.as_bytes()], "{}", copy.text);
        assert!(copy.text.contains("X-Account: 42\r\n"), "{}", copy.text);
    }
}

#[test]
fn a_route_of_the_callers_does_not_lead_past_the_hook() {
    let routed =
        || of("INVITE", BOB, UDP).with("Route: <sip:203.0.113.66;lr>, <sip:203.0.113.67;lr>\r\n");
    let mut bed = with_bob(open());
    let on = only(decided(
        &mut bed,
        &routed(),
        UDP,
        json!({"action": "continue"}),
    ));
    assert_eq!(on.to.remote.to_string(), "203.0.113.66:5060");
    assert_eq!(on.all(HeaderName::Route).len(), 2);
    for (text, to) in [
        (json!({"action": "route", "to": "outside"}), GATEWAY),
        (json!({"action": "route", "to": BOB}), "203.0.113.9:5060"),
        (
            json!({"action": "rewrite", "request_uri": "sip:c@203.0.113.50"}),
            "203.0.113.50:5060",
        ),
    ] {
        let mut bed = with_bob(open());
        let sent = only(decided(&mut bed, &routed(), UDP, text));
        assert_eq!(sent.to.remote.to_string(), to);
        assert!(sent.all(HeaderName::Route).is_empty());
    }
}

#[test]
fn a_tag_is_no_way_past_the_hook() {
    // A peer's word is enough for the gate, so nobody has looked at a token.
    let mut bed = with_bob(secured(true));
    let mut invite = of("INVITE", BOB, UDP);
    invite.to.push_str(";tag=made-up");
    bed.receive(&alice(UDP), &invite.text());
    asked(&mut bed);
    // A stranger's neither.
    let mut bed = with_bob(secured(false));
    bed.receive(&alice(UDP), &invite.text());
    let (_, question) = asked(&mut bed);
    assert_eq!(question.class, "inbound");
}

#[test]
fn a_peer_that_may_call_our_users_alone_is_no_stranger() {
    let peer = TrustedPeer {
        may_relay: false,
        ..TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)
    };
    let mut bed = with_bob(Settings {
        trusted: vec![peer],
        ..secured(false)
    });
    bed.receive(&alice(UDP), &of("INVITE", BOB, UDP).text());
    let (park, question) = asked(&mut bed);
    assert_eq!(question.class, "peer");
    tell(&mut bed, park, answer(&json!({"action": "reject"})));
    assert_eq!(bed.records.pop().unwrap().caller_class, "peer");
}

/// A call from a peer to bob that was answered; what bob was sent, and the 200 as alice has it.
fn established(bed: &mut Bed) -> (Sent, Sent) {
    let invite = of("INVITE", BOB, UDP);
    let copy = only(decided(bed, &invite, UDP, json!({"action": "continue"})));
    let ok = response(&copy, 200, "b", "Contact: <sip:bob@203.0.113.9>\r\n");
    let answered = only(bed.receive(&answering(&copy), &ok));
    (copy, answered)
}

#[test]
fn nothing_within_a_dialog_is_asked_about() {
    let mut bed = with_bob(secured(true));
    let (_, answered) = established(&mut bed);
    let routes = answered.all(HeaderName::RecordRoute);
    assert!(!routes.is_empty());
    for method in ["ACK", "INVITE", "INFO", "BYE"] {
        let mut within = of(method, "sip:bob@203.0.113.9", UDP);
        within.call_id = String::from_utf8(answered.message.call_id().to_vec()).unwrap();
        within.to = answered.header(HeaderName::To).unwrap();
        within.cseq = 2;
        let lines: String = routes.iter().map(|of| format!("Route: {of}\r\n")).collect();
        let sent = bed.receive(&alice(UDP), &within.with(&lines).text());
        assert!(
            kinds(&sent).contains(&method.to_owned()),
            "{method}: {:?}",
            kinds(&sent)
        );
    }
    assert_eq!(bed.shard.counters().hook_asked, 1);
}

#[test]
fn a_strangers_call_goes_where_the_operator_says_and_no_further() {
    for (text, is_out) in [
        (json!({"action": "continue"}), false),
        (json!({"action": "route", "to": BOB}), false),
        (json!({"action": "route", "to": "outside"}), true),
        (
            json!({"action": "rewrite", "request_uri": "sip:x@203.0.113.50"}),
            true,
        ),
        (
            json!({"action": "rewrite", "request_uri": "tel:0301"}),
            true,
        ),
    ] {
        let mut settings = secured(false);
        settings.routes.prefixes.insert("0".into(), 0);
        let mut bed = with_bob(settings.clone());
        let asserts = "P-Asserted-Identity: <sip:mallory@example.com>\r\n";
        let sent = only(decided(
            &mut bed,
            &of("INVITE", BOB, UDP).with(asserts),
            UDP,
            text.clone(),
        ));
        match is_out {
            true => {
                assert_eq!(sent.status(), 403, "{text}");
                assert_eq!(bed.refused.pop().unwrap().reason, Reason::NotRelayed);
            }
            false => assert_eq!(sent.method(), "INVITE", "{text}"),
        }
        settings.hook = Some(HookSettings {
            may_relay: true,
            ..hook()
        });
        let mut bed = with_bob(settings);
        let sent = only(decided(
            &mut bed,
            &of("INVITE", BOB, UDP).with(asserts),
            UDP,
            text.clone(),
        ));
        assert_eq!(sent.method(), "INVITE", "{text}");
        // He is who he was: nobody vouches for what he says he is.
        assert!(!sent.text.contains("mallory"), "{}", sent.text);
    }
}

#[test]
fn a_stranger_owes_what_the_hook_refuses_him() {
    let mut bed = with_bob(Settings {
        tells_all_refusals: false,
        ..secured(false)
    });
    let mut last = 0;
    // Over a connection, where nothing is sent again.
    let tcp = Transport::Tcp;
    for _ in 0..10_050 {
        let sent = bed.receive(&alice(tcp), &of("INVITE", BOB, tcp).text());
        if !sent.is_empty() {
            last = sent[0].status();
            break;
        }
        let (park, _) = asked(&mut bed);
        let sent = tell(&mut bed, park, answer(&json!({"action": "reject"})));
        match sent.first() {
            Some(sent) => last = sent.status(),
            None => break,
        }
    }
    assert_eq!(last, 503, "answered so a few times, and then not at all");
    assert!(bed.shard.refusal_counts().of(Reason::RefusedTooOften) > 0);
    bed.wait(70_000);
    let counters = bed.shard.counters();
    assert_eq!(counters.call_records_begun, counters.call_records);
}

#[test]
fn where_the_hook_leads_is_judged_like_any_other_place() {
    for (uri, status, reason) in [
        ("sip:x@127.0.0.1", 403, Reason::NetworkDenied),
        ("sip:x@203.0.113.200", 403, Reason::NamesGateway),
        (
            "sip:x@192.0.2.77;maddr=192.0.2.1;transport=tcp",
            482,
            Reason::WouldComeBack,
        ),
        ("sip:192.0.2.1", 404, Reason::NobodyThere),
    ] {
        let mut settings = secured(false);
        settings.hook = Some(HookSettings {
            may_relay: true,
            ..hook()
        });
        let mut bed = with_bob(settings);
        let text = json!({"action": "rewrite", "request_uri": uri});
        let sent = only(decided(&mut bed, &of("INVITE", BOB, UDP), UDP, text));
        let reasons: Vec<_> = bed.refused.iter().map(|of| of.reason).collect();
        assert_eq!(sent.status(), status, "{uri}: {reasons:?}");
        assert!(reasons.contains(&reason), "{uri}: {reasons:?}");
    }
}

#[test]
fn a_rewrite_in_a_circle_ends() {
    // Each name sends to the other: within this server the hook is asked once.
    let mut bed = with_bob(open());
    let invite = of("INVITE", "sip:a@203.0.113.50", UDP);
    let copy = only(decided(
        &mut bed,
        &invite,
        UDP,
        json!({"action": "rewrite", "request_uri": "sip:b@203.0.113.50"}),
    ));
    assert_eq!(bed.shard.counters().hook_asked, 1);
    // By way of somebody else it comes back as it was at first, which is a loop.
    let hop = "Via: SIP/2.0/UDP 203.0.113.50;branch=z9hG4bKhop\r\nVia: ";
    let back =
        copy.text
            .replacen("Via: ", hop, 1)
            .replacen("sip:b@203.0.113.50", "sip:a@203.0.113.50", 1);
    let sent = only(bed.receive(&flow(UDP, "203.0.113.50:5060"), &back));
    assert_eq!(sent.status(), 482);
    assert!(bed.effects.is_empty());
}

#[test]
fn a_call_is_cancelled_while_it_waits() {
    for transport in TRANSPORTS {
        let mut bed = with_bob(open());
        let invite = of("INVITE", BOB, transport);
        bed.receive(&alice(transport), &invite.text());
        let (park, _) = asked(&mut bed);
        // 100 after 200 ms, so that the client stops asking.
        assert_eq!(kinds(&bed.wait(300)), ["100"]);
        let mut cancel = of("CANCEL", BOB, transport);
        cancel.via.clone_from(&invite.via);
        cancel.call_id.clone_from(&invite.call_id);
        let sent = bed.receive(&alice(transport), &cancel.text());
        assert_eq!(kinds(&sent), ["200", "487"]);
        assert_eq!(bed.records.pop().unwrap().ended_by, EndedBy::Caller);
        // What the hook says then finds nobody.
        assert!(tell(&mut bed, park, answer(&json!({"action": "continue"}))).is_empty());
        assert_eq!(bed.shard.counters().answers_late, 1);
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_hook_that_is_silent_is_waited_for_so_long_and_told_so() {
    for transport in TRANSPORTS {
        for on_failure in [OnFailure::Reject, OnFailure::Continue] {
            let mut settings = open();
            settings.hook = Some(HookSettings {
                on_failure,
                ..hook()
            });
            let mut bed = with_bob(settings);
            bed.receive(&alice(transport), &of("INVITE", BOB, transport).text());
            let (park, _) = asked(&mut bed);
            let sent = bed.wait(1_100);
            let mut told = kinds(&sent);
            told.retain(|kind| kind != "100");
            match on_failure {
                OnFailure::Reject => {
                    assert_eq!(told, ["503"]);
                    let record = bed.refused.pop().unwrap();
                    assert_eq!(record.reason, Reason::HookFailed);
                    assert_eq!(&*record.detail, "the hook: it did not answer in time");
                }
                OnFailure::Continue => assert_eq!(told[0], "INVITE"),
            }
            assert_eq!(bed.shard.counters().hook_undecided, 1);
            // It answers after all, twice.
            for _ in 0..2 {
                assert!(tell(&mut bed, park, answer(&json!({"action": "reject"}))).is_empty());
            }
            assert_eq!(bed.shard.counters().answers_late, 2);
        }
    }
}

#[test]
fn no_more_wait_than_may() {
    let mut bed = with_bob(open());
    for nth in 0..25 {
        let sent = bed.receive(&alice(UDP), &of("INVITE", BOB, UDP).text());
        assert_eq!(kinds(&sent), if nth < 10 { vec![] } else { vec!["503"] });
    }
    let full = bed
        .refused
        .iter()
        .filter(|of| of.detail.contains("too many questions"));
    assert_eq!(full.count(), 15);
    // Others are not held up by it.
    assert_eq!(
        kinds(&bed.receive(&alice(UDP), &of("OPTIONS", BOB, UDP).text())),
        ["OPTIONS"]
    );
    bed.wait(1_100);
    let sent = bed.receive(&alice(UDP), &of("INVITE", BOB, UDP).text());
    assert!(sent.is_empty(), "there is room again");
}

#[test]
fn a_call_for_help_goes_on_where_the_hook_fails_and_nothing_else_does() {
    let settings = |peer_may_relay| {
        let mut settings = secured(peer_may_relay);
        settings.numbers.emergency = vec!["112".into()];
        let group = &mut settings.routes.groups[0];
        (group.strip, group.prepend) = (0, "".into());
        settings.routes.prefixes.insert("1".into(), 0);
        settings
    };
    let wait = |bed: &mut Bed, method: &str, uri: &str| {
        bed.receive(&alice(UDP), &of(method, uri, UDP).text());
        asked(bed).0
    };
    let nowhere = json!({"action": "route", "to": "inside"});
    for uri in ["sip:112@example.org", "tel:112", "sip:1-1-2@example.org"] {
        for failure in [Failure::Away, Failure::Unreachable, Failure::Full] {
            let mut bed = with_bob(settings(true));
            let park = wait(&mut bed, "INVITE", uri);
            let copy = only(tell(&mut bed, park, Err(failure)));
            assert_eq!(copy.to.remote.to_string(), GATEWAY, "{uri}");
            assert_eq!(copy.uri(), format!("sip:112@{GATEWAY}"));
            assert_eq!(bed.shard.counters().hook_undecided, 1);
        }
        let mut bed = with_bob(settings(true));
        let park = wait(&mut bed, "INVITE", uri);
        let copy = only(tell(&mut bed, park, answer(&nowhere)));
        assert_eq!(copy.to.remote.to_string(), GATEWAY);
        // What it does say is the operator's word.
        let mut bed = with_bob(settings(true));
        let park = wait(&mut bed, "INVITE", uri);
        let rejected = tell(&mut bed, park, answer(&json!({"action": "reject"})));
        assert_eq!(only(rejected).status(), 403);
    }
    for (is_peer, method, uri, status) in [
        (true, "INVITE", "sip:1120@example.org", 503),
        (true, "INVITE", "sip:112@203.0.113.77", 503),
        (true, "REGISTER", "sip:112@example.org", 500),
        // A stranger has a provider of his own.
        (false, "INVITE", "sip:112@example.org", 503),
    ] {
        let mut settings = settings(is_peer);
        if method == "REGISTER" {
            settings.authenticate = None;
        }
        let mut bed = with_bob(settings);
        let park = wait(&mut bed, method, uri);
        let sent = tell(&mut bed, park, Err(Failure::Away));
        assert_eq!(only(sent).status(), status, "{method} {uri}");
    }
}

#[test]
fn a_reload_takes_the_hook_away_from_whoever_waits() {
    let mut bed = with_bob(open());
    bed.receive(&alice(UDP), &of("INVITE", BOB, UDP).text());
    let (park, _) = asked(&mut bed);
    let without = Settings {
        hook: None,
        ..open()
    };
    bed.act(|shard, _, _| shard.reload(Arc::new(without)));
    let sent = tell(&mut bed, park, answer(&json!({"action": "reject"})));
    assert_eq!(only(sent).method(), "INVITE");
    bed.receive(&alice(UDP), &of("INVITE", BOB, UDP).text());
    assert!(bed.effects.is_empty());
}

#[test]
fn where_calls_are_redirected_the_hook_says_whereto() {
    for (text, contact) in [
        (json!({"action": "continue"}), "<sip:bob@203.0.113.9>;q=1"),
        (
            json!({"action": "route", "to": "outside"}),
            "<sip:bob@203.0.113.200:5060;transport=udp>;q=1",
        ),
        (
            json!({"action": "rewrite", "request_uri": "sip:c@far.example"}),
            "<sip:c@far.example>;q=1",
        ),
    ] {
        let mut bed = with_bob(Settings {
            mode: Mode::Redirect,
            ..open()
        });
        let sent = only(decided(
            &mut bed,
            &of("INVITE", BOB, UDP),
            UDP,
            text.clone(),
        ));
        assert_eq!(sent.status(), 302, "{text}");
        assert_eq!(sent.header(HeaderName::Contact).as_deref(), Some(contact));
        assert_eq!(bed.shard.counters().call_records_begun, 0);
    }
    let mut bed = with_bob(Settings {
        mode: Mode::Redirect,
        ..open()
    });
    let same = json!({"action": "rewrite", "request_uri": "sip:x@FAR.example"});
    let sent = only(decided(
        &mut bed,
        &of("INVITE", "sip:x@far.example", UDP),
        UDP,
        same,
    ));
    assert_eq!(sent.status(), 404, "not to what was asked for");
}

#[test]
fn what_waits_is_counted_and_goes_with_the_process() {
    let mut bed = with_bob(open());
    let before = bed.shard.held_bytes();
    bed.receive(&alice(UDP), &of("INVITE", BOB, UDP).text());
    assert!(bed.shard.held_bytes() > before);
    assert_eq!(bed.shard.unanswered(bed.now), 1);
    bed.act(|shard, now, out| shard.stop_records(now, out));
    let record = bed.records.pop().unwrap();
    assert_eq!(record.why, Some(Why::ServerStopped));
}
