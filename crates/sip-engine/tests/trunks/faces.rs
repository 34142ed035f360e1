//! Whom a provider sees, and that the phone sees what it wrote.

use sip_engine::hook::{HookSettings, OnFailure};
use sip_engine::settings::Inbound;

use super::people::{OUTSIDE, house_with};
use super::*;
use crate::house::{book, lines_of, status};

fn with_identity(identity: Identity) -> Trunk {
    Trunk {
        identity,
        ..trunk()
    }
}

#[test]
fn from_is_changed_for_the_provider_and_put_back_for_the_phone() {
    let numbers = "\"Alice\" <sip:+4930101@provider.example>;tag=a";
    let changing = Trunk {
        rewrites_to: true,
        ..with_identity(Identity::From)
    };
    for transport in TRANSPORTS {
        for settings in [open, trusting] {
            let mut bed = Bed::new(settings(transport, changing.clone()));
            let call = Call::new(&mut bed, transport);
            let from = |sent: &Sent| sent.header(HeaderName::From).unwrap();
            let to = |sent: &Sent| sent.header(HeaderName::To).unwrap();
            assert_eq!(from(&call.copy), numbers);
            assert_eq!(to(&call.copy), "<sip:+4930123@provider.example>");
            // Tags and Call-ID name the dialog, and stay.
            assert_eq!(
                call.copy.header(HeaderName::CallId).as_deref(),
                Some("call-1")
            );
            assert_eq!(
                (call.from.as_str(), call.to.as_str()),
                (ALICE, &*format!("<{NUMBER}>;tag=p"))
            );
            if bed.shard.settings().authenticate.is_some() {
                distrust(&mut bed, transport, changing.clone());
            }
            let ack = call.sent(&mut bed, "ACK", 7);
            assert_eq!(
                (from(&ack).as_str(), to(&ack)),
                (numbers, call.providers_to.clone())
            );

            // What the provider sends has its own view, and alice gets hers.
            let info = call.providers("INFO", 1, "");
            let copy = only(bed.receive(&flow(transport, PROVIDER), &info.text()));
            assert_eq!(
                (from(&copy).as_str(), to(&copy).as_str()),
                (&*call.to, ALICE)
            );
            let back = bed.receive(&answering(&copy), &response(&copy, 200, "x", ""));
            let back = only(back);
            assert_eq!(
                (from(&back), to(&back)),
                (info.from.clone(), info.to.clone())
            );

            let bye = call.sent(&mut bed, "BYE", 8);
            assert_eq!(
                (from(&bye).as_str(), to(&bye)),
                (numbers, call.providers_to.clone())
            );
            let sent = answer(&mut bed, &bye, 200);
            let ok = to_alice(&sent)[0];
            assert_eq!((from(ok), to(ok)), (call.from.clone(), call.to.clone()));
        }
    }
}

#[test]
fn without_the_list_of_calls_the_providers_words_pass() {
    let keys = Arc::new(TokenKeys::of([4; 32], 1));
    let trunk = with_identity(Identity::From);
    let mut bed = Bed::with_keys(trusting(UDP, trunk.clone()), Arc::clone(&keys));
    let call = Call::new(&mut bed, UDP);
    let mut bed = Bed::with_seed(secured(UDP, trunk), keys, 77);
    // RFC 3261 12.2.2: "If the request has a tag in the To header field, the UAS core computes the
    // dialog identifier corresponding to the request and compares it with existing dialogs." That
    // is Call-ID and tags.
    let bye = call.providers("BYE", 1, "");
    let copy = only(bed.receive(&flow(UDP, PROVIDER), &bye.text()));
    assert_eq!(copy.header(HeaderName::To).unwrap(), bye.to);
    assert_eq!(copy.to.remote, alice(UDP).remote);
}

#[test]
fn a_provider_knows_a_caller_by_the_header_that_it_wants() {
    let uri = "<sip:+4930101@provider.example>";
    for (identity, line) in [
        (
            Identity::Asserted,
            format!("P-Asserted-Identity: {uri}\r\n"),
        ),
        (
            Identity::Preferred,
            format!("P-Preferred-Identity: {uri}\r\n"),
        ),
        (
            Identity::RemoteParty,
            format!("Remote-Party-ID: {uri};party=calling;screen=yes;privacy=off\r\n"),
        ),
    ] {
        let mut bed = Bed::new(open(UDP, with_identity(identity)));
        let more = "Diversion: <sip:alice@example.org>;reason=no-answer\r\nRemote-Party-ID: <sip:ceo@example.org>\r\n";
        let request = invite(UDP).with(more);
        let first = the(bed.receive(&alice(UDP), &request.text()), "INVITE");
        for copy in [
            the_same(&first),
            the(challenge(&mut bed, &first, 407, "n1"), "INVITE"),
        ] {
            assert!(copy.text.contains(&line), "{line} is not in {}", copy.text);
            assert_eq!(copy.header(HeaderName::From).as_deref(), Some(ALICE));
            let diversion = format!("Diversion: {uri};reason=no-answer\r\n");
            assert!(copy.text.contains(&diversion), "{}", copy.text);
            assert!(!copy.text.contains("ceo"), "{}", copy.text);
        }
    }
}

#[test]
fn a_port_in_from_makes_nobody_another() {
    // The gate has let alice in by her password.
    let from = "sip:alice@example.org:9999";
    for (identity, caller_id, line) in [
        (
            Identity::Asserted,
            None,
            "P-Asserted-Identity: <sip:+4930101@provider.example>",
        ),
        (
            Identity::From,
            None,
            "From: <sip:+4930101@provider.example>;tag=a",
        ),
        (
            Identity::From,
            Some("+4930333"),
            "From: <sip:+4930333@provider.example>;tag=a",
        ),
    ] {
        let book = book().person("alice", |person| {
            person.caller_id = caller_id.map(Into::into)
        });
        let mut house = house_with(book, with_identity(identity), |_| {});
        let request = house.request("INVITE", from, OUTSIDE, UDP);
        let (_, sent) = house.signed(&alice(UDP), "alice", request);
        let sent = the(sent, "INVITE");
        let line = format!("\r\n{line}\r\n");
        assert!(sent.text.contains(&line), "{}", sent.text);
    }
}

#[test]
fn a_provider_that_has_a_header_for_callers_gets_no_other_of_the_hooks() {
    let hooks = ["P-Asserted-Identity", "Remote-Party-ID"];
    for (identity, expected) in [
        (Identity::AsIs, [1, 1]),
        (Identity::Asserted, [1, 0]),
        (Identity::Preferred, [0, 0]),
        (Identity::RemoteParty, [0, 1]),
        (Identity::From, [0, 0]),
    ] {
        let mut settings = open(UDP, with_identity(identity));
        let headers = hooks.into_iter().chain(["X-Account"]);
        settings.hook = Some(HookSettings {
            asks: vec![sip_hook::Kind::Call],
            timeout_ms: 1_000,
            waiting_max: 10,
            on_failure: OnFailure::Reject,
            may_relay: false,
            headers: headers.map(Into::into).collect(),
        });
        let mut bed = Bed::new(settings);
        assert!(bed.receive(&alice(UDP), &invite(UDP).text()).is_empty());
        let Some(Effect::AskHook { park, .. }) = bed.effects.pop() else {
            panic!("the hook was not asked");
        };
        let body = serde_json::json!({"version": 1, "answers": [{"action": "continue", "headers": {
            "P-Asserted-Identity": "<sip:+49777@example.org>",
            "Remote-Party-ID": "<sip:+49777@example.org>",
            "X-Account": "42"}}]});
        let answers = sip_hook::read_answers(body.to_string().as_bytes());
        let (_, answer) = answers.unwrap().remove(0);
        let answer = Ok(Arc::new(answer.unwrap()));
        let sent = bed.act(|s, now, out| s.handle_hook(now, park, answer, out));
        let first = the(sent, "INVITE");
        for copy in [
            the_same(&first),
            the(challenge(&mut bed, &first, 407, "n1"), "INVITE"),
        ] {
            let shown = hooks.map(|name| copy.message.fields_named(name).count());
            assert_eq!(shown, expected, "{identity:?} {}", copy.text);
            let is_hooks = copy.text.contains("+49777");
            assert_eq!(is_hooks, identity == Identity::AsIs, "{}", copy.text);
            assert!(copy.text.contains("X-Account: 42\r\n"));
        }
    }
}

#[test]
fn who_asks_for_privacy_is_anonymous_for_the_whole_dialog() {
    let anonymous = "\"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=a";
    for identity in [Identity::Asserted, Identity::From] {
        let mut bed = Bed::new(open(UDP, with_identity(identity)));
        let request = invite(UDP).with("Privacy: id\r\n");
        let first = the(bed.receive(&alice(UDP), &request.text()), "INVITE");
        assert_eq!(first.header(HeaderName::From).as_deref(), Some(anonymous));
        assert!(first.text.contains("Privacy: id\r\n"));
        let copy = the(challenge(&mut bed, &first, 407, "n1"), "INVITE");
        let call = Call::answered(&mut bed, copy);
        assert_eq!(call.from, ALICE);
        // Later requests do not say again that they want it.
        let bye = call.sent(&mut bed, "BYE", 8);
        assert_eq!(bye.header(HeaderName::From).as_deref(), Some(anonymous));
        assert!(!bye.text.contains("alice@example.org"), "{}", bye.text);
    }
}

#[test]
fn who_hides_shows_no_provider_a_number_of_his_choice() {
    for identity in [
        Identity::AsIs,
        Identity::Asserted,
        Identity::Preferred,
        Identity::RemoteParty,
        Identity::From,
    ] {
        let mut house = house_with(book(), with_identity(identity), |settings| {
            settings.inbound = Inbound::Trusted;
        });
        let anonymous = "sip:anonymous@anonymous.invalid";
        let hidden = house.request("INVITE", anonymous, OUTSIDE, UDP);
        let challenge = only(house.bed.receive(&alice(UDP), &hidden.text()));
        let from = "sip:+4930999@anonymous.invalid";
        let request = house.request("INVITE", from, OUTSIDE, UDP);
        let line = crate::house::credentials(&challenge, &request, "alice", "alice");
        let mut sent = house.bed.receive(&alice(UDP), &request.with(&line).text());
        sent.extend(house.look_up());
        assert_eq!(status(sent), 403, "{identity:?}");
        // Who says nothing is let out, and nothing is said of him.
        let hidden = house.request("INVITE", anonymous, OUTSIDE, UDP);
        let (_, sent) = house.signed(&alice(UDP), "alice", hidden);
        let shown = lines_of(&the(sent, "INVITE"), "From");
        assert_eq!(shown, [format!("From: <{anonymous}>;tag=a")]);
    }
}

#[test]
fn an_identity_that_is_to_be_withheld_goes_to_no_phone() {
    // RFC 3325 7: it goes to elements of the trust domain alone.
    let lines = "P-Asserted-Identity: <sip:+49301@peer.example>\r\nRemote-Party-ID: <sip:+49301@peer.example>\r\n";
    for (privacy, is_shown) in [
        ("", true),
        ("Privacy: none\r\n", true),
        ("Privacy: id\r\n", false),
    ] {
        let mut bed = Bed::new(trusting(UDP, trunk()));
        bed.register("sip:bob@example.org", "sip:bob@203.0.113.77", None);
        let invite =
            request("INVITE", "sip:bob@example.org", UDP).with(&format!("{privacy}{lines}"));
        let sent = bed.receive(&alice(UDP), &invite.text());
        let copy = sent.iter().find(|of| of.status() == 0).unwrap();
        for line in lines.lines() {
            assert_eq!(
                copy.text.contains(line),
                is_shown,
                "{privacy} {}",
                copy.text
            );
        }
        // A gateway of the operator's is one.
        let mut to_gateway = request("INVITE", NUMBER, UDP).with(&format!("{privacy}{lines}"));
        to_gateway.call_id = "gateway".into();
        let copy = the(bed.receive(&alice(UDP), &to_gateway.text()), "INVITE");
        assert!(copy.text.contains("P-Asserted-Identity"), "{}", copy.text);
    }
}
