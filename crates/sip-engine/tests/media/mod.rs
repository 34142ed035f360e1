//! Calls whose media an engine leads: which do, what is asked for the INVITE, and what becomes
//! of it where no engine answers.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used
)]

mod bed;
mod bodies;
mod delayed;
mod forks;
mod others;
mod responses;
mod trunk;
mod within;

use std::sync::Arc;

use crate::common::*;
use bed::*;
use sip_engine::refusal::Reason;
use sip_engine::settings::{Listener, MediaSettings, MediaUse, Settings, TrustedPeer, WhenGone};
use sip_media::{Command, Failure, Side};
use sip_msg::{ConnId, Flow, HeaderName, ListenerId, Transport};

/// The lines of a message but for what each copy has of its own, and for its body.
fn common_lines(sent: &Sent) -> Vec<&str> {
    let own = ["Via:", "Record-Route:", "Content-Length:"];
    let (head, _) = sent.text.split_once("\r\n\r\n").unwrap();
    let lines = head.lines();
    lines
        .filter(|line| !own.iter().any(|of| line.starts_with(of)))
        .collect()
}

/// A server like the usual one but for its media.
fn with_media(media: MediaSettings) -> Settings {
    Settings {
        media: Some(Arc::new(media)),
        ..forwarding(UDP, NEXT)
    }
}

#[test]
fn an_offer_is_sent_on_as_the_engine_has_it_and_nothing_else_of_it_changes() {
    for from in TRANSPORTS {
        for to in TRANSPORTS {
            let mut bed = Bed::new(leading(to));
            let text = invite(from);
            let sent = bed.receive(&alice(from), &text);
            assert_eq!(kinds(&sent), ["100"]);
            let asked = asked(&mut bed);
            assert_eq!(asked.command(), Command::Offer);
            assert_eq!(asked.tags(), ("a", ""));
            assert!(asked.ask.call_id.starts_with(b"call-1;"));
            assert_eq!(asked.sdp(), sdp("alice"));
            assert_eq!(asked.ask.engine, None);
            assert!(!asked.ask.branch.is_empty());
            assert_eq!(asked.ask.shape.to, Side::Plain);
            let copy = only(give(&mut bed, asked, &led("alice")));
            assert_says(&copy, &led("alice"));
            assert_eq!(copy.to.remote.to_string(), NEXT);

            let mut plain = Bed::new(forwarding(to, NEXT));
            let sent = plain.receive(&alice(from), &text).remove(1);
            assert_eq!(common_lines(&copy), common_lines(&sent));
            assert_eq!(bed.shard.counters().media_offers, 1);
        }
    }
}

#[test]
fn a_call_that_needs_no_engine_is_byte_for_byte_what_it_was() {
    for settings in [
        with_media(media(MediaUse::Auto)),
        with_media(media(MediaUse::Never)),
    ] {
        for transport in TRANSPORTS {
            let text = invite(transport);
            let mut bed = Bed::new(settings.clone());
            let sent = bed.receive(&alice(transport), &text);
            assert_eq!(kinds(&sent), ["100", "INVITE"]);
            assert!(all_asked(&mut bed).is_empty());
            let mut plain = Bed::new(forwarding(UDP, NEXT));
            let other = plain.receive(&alice(transport), &text);
            assert_eq!(sent[1].text, other[1].text);
            let back = with_sdp(&response(&sent[1], 200, "b", CONTACT), &sdp("bob"));
            let ok = only(bed.receive(&answering(&sent[1]), &back));
            assert_says(&ok, &sdp("bob"));
            assert!(all_asked(&mut bed).is_empty());
        }
    }
}

#[test]
fn only_requests_that_describe_sessions_are_asked_for() {
    for method in ["MESSAGE", "OPTIONS", "SUBSCRIBE", "PUBLISH"] {
        let mut bed = Bed::new(leading(UDP));
        let text = with_sdp(&request(method, URI, UDP).text(), &sdp("alice"));
        let sent = bed.receive(&alice(UDP), &text);
        assert_eq!(kinds(&sent), [method]);
        assert_says(&sent[0], &sdp("alice"));
        assert!(all_asked(&mut bed).is_empty(), "{method}");
    }
}

#[test]
fn a_caller_behind_a_translation_is_led() {
    for (via, contact, is_led) in [
        ("10.0.0.7:5060;rport", "sip:alice@10.0.0.7:5060", true),
        ("198.51.100.1:5060;rport", "sip:alice@10.0.0.7:5060", true),
        (
            "198.51.100.1:5060;rport",
            "sip:alice@198.51.100.1:5060",
            false,
        ),
    ] {
        let mut bed = Bed::new(with_media(media(MediaUse::Auto)));
        let text = invite(UDP)
            .replace("sip:alice@198.51.100.1:5060", contact)
            .replace("198.51.100.1:5060;branch", &format!("{via};branch"));
        let sent = bed.receive(&alice(UDP), &text);
        assert_eq!(
            all_asked(&mut bed).len(),
            usize::from(is_led),
            "{via} {contact}"
        );
        assert_eq!(kinds(&sent).len(), 2 - usize::from(is_led));
    }
}

#[test]
fn a_callee_behind_a_translation_is_led() {
    let there = "203.0.113.7:40007";
    for (contact, from, is_led) in [
        ("sip:bob@10.0.0.7:5060", there, true),
        ("sip:bob@203.0.113.7:40007", there, false),
    ] {
        let mut bed = Bed::new(Settings {
            media: Some(Arc::new(media(MediaUse::Auto))),
            ..settings()
        });
        let phone = flow(UDP, from);
        bed.register("sip:bob@example.org", contact, Some(phone));
        let text = invite(UDP).replace(URI, "sip:bob@example.org");
        bed.receive(&alice(UDP), &text);
        assert_eq!(all_asked(&mut bed).len(), usize::from(is_led), "{contact}");
    }
}

/// Behind a translation a phone reads in an answer from where it is seen, and registers that:
/// its Via alone shows what is between.
#[test]
fn a_callee_who_has_learnt_where_he_is_seen_is_led() {
    for (transport, via, is_led) in [
        (UDP, "10.0.0.7:5060", true),
        (UDP, "203.0.113.7:40007", false),
        (Transport::Tcp, "10.0.0.7:5060", true),
        (Transport::Tcp, "203.0.113.7:40007", false),
    ] {
        let mut settings = Settings {
            media: Some(Arc::new(media(MediaUse::Auto))),
            ..settings()
        };
        settings.registrar.durable = false;
        let mut bed = Bed::new(settings);
        let phone = flow(transport, "203.0.113.7:40007");
        let named = transport.via_name();
        let text = format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/{named} {via};rport;branch=z9hG4bKr\r\n\
             From: <sip:bob@example.org>;tag=b\r\nTo: <sip:bob@example.org>\r\nCall-ID: bobs\r\n\
             CSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n\
             Contact: <sip:bob@203.0.113.7:40007;transport={}>\r\nContent-Length: 0\r\n\r\n",
            named.to_lowercase()
        );
        assert_eq!(only(bed.receive(&phone, &text)).status(), 200);
        let text = invite(UDP).replace(URI, "sip:bob@example.org");
        bed.receive(&alice(UDP), &text);
        let asked = all_asked(&mut bed).len();
        assert_eq!(asked, usize::from(is_led), "{transport:?} {via}");
    }
}

/// The usual listeners, and one for browsers.
fn with_browsers(uses: MediaUse) -> Bed {
    let bound: std::net::SocketAddr = "192.0.2.1:8443".parse().unwrap();
    let mut settings = Settings {
        media: Some(Arc::new(media(uses))),
        ..settings()
    };
    settings.listeners.push(Listener {
        transport: Transport::Wss,
        bound,
        advertised_host: None,
        advertised_port: bound.port(),
        certificates_authenticate: false,
    });
    Bed::new(settings)
}

fn browser(n: u8) -> Flow {
    Flow {
        transport: Transport::Wss,
        listener: ListenerId(4),
        local: "192.0.2.1:8443".parse().unwrap(),
        remote: std::net::SocketAddr::from(([198, 51, 100, n], 50_000)),
        conn: ConnId(4_700 + u64::from(n)),
    }
}

#[test]
fn a_browser_and_a_phone_speak_by_an_engine_and_two_browsers_do_not() {
    let mut bed = with_browsers(MediaUse::Auto);
    bed.register(
        "sip:bob@example.org",
        "sip:bob@df7jal23ls0d.invalid;transport=ws",
        Some(browser(8)),
    );
    bed.register("sip:carol@example.org", "sip:carol@203.0.113.9:5070", None);
    let to = |user: &str, transport: Transport, call: &str| {
        let mut request = request("INVITE", &format!("sip:{user}@example.org"), transport);
        request.call_id = call.to_owned();
        with_sdp(&request.text(), &sdp("alice"))
    };
    let sent = bed.receive(&alice(UDP), &to("bob", UDP, "to-a-browser"));
    assert_eq!(kinds(&sent), ["100"]);
    let of_phone = asked(&mut bed);
    let shape = &of_phone.ask.shape;
    assert_eq!((shape.from, shape.to), (Side::Plain, Side::Browser));
    let copy = only(give(&mut bed, of_phone, &led("alice")));
    assert_eq!(copy.to.transport, Transport::Wss);
    let ok = with_sdp(&response(&copy, 200, "b", ""), &sdp("bob"));
    assert!(bed.receive(&browser(8), &ok).is_empty());
    let of_answer = asked(&mut bed);
    let shape = &of_answer.ask.shape;
    assert_eq!((shape.from, shape.to), (Side::Browser, Side::Plain));

    let sent = bed.receive(&browser(7), &to("carol", Transport::Wss, "to-a-phone"));
    assert_eq!(kinds(&sent), ["100"]);
    let of_browser = asked(&mut bed);
    let shape = &of_browser.ask.shape;
    assert_eq!((shape.from, shape.to), (Side::Browser, Side::Plain));

    let sent = bed.receive(&browser(7), &to("bob", Transport::Wss, "to-another"));
    assert_eq!(kinds(&sent), ["100", "INVITE"]);
    assert!(all_asked(&mut bed).is_empty());
}

#[test]
fn a_group_of_gateways_decides_alone() {
    use sip_engine::routes::{Care, Gateway, GatewayGroup};
    for (of_group, of_listener, is_led) in [
        (Some(MediaUse::Always), MediaUse::Never, true),
        (Some(MediaUse::Never), MediaUse::Always, false),
        (None, MediaUse::Always, true),
    ] {
        let mut settings = Settings {
            media: Some(Arc::new(media(of_listener))),
            ..settings()
        };
        settings.routes.groups.push(GatewayGroup {
            name: "trunk".into(),
            gateways: vec![Gateway {
                next_hop: next_hop(UDP, NEXT),
                priority: 0,
                weight: 1,
            }],
            care: Some(Arc::new(Care {
                media: of_group,
                ..Care::USUAL
            })),
            ..GatewayGroup::default()
        });
        settings.routes.prefixes.insert("+".into(), 0);
        let mut bed = Bed::new(settings);
        let text = invite(UDP).replace(URI, "sip:+4930@example.org");
        bed.receive(&alice(UDP), &text);
        assert_eq!(
            all_asked(&mut bed).len(),
            usize::from(is_led),
            "{of_group:?}"
        );
    }
}

/// A call for which an engine says that; what is sent because of it.
fn refused(when_gone: WhenGone, failure: Failure) -> (Bed, Vec<Sent>) {
    let mut bed = Bed::new(with_media(MediaSettings {
        when_gone,
        ..media(MediaUse::Always)
    }));
    bed.receive(&alice(UDP), &invite(UDP));
    let asked = asked(&mut bed);
    let sent = answer(&mut bed, asked, Err(failure));
    (bed, sent)
}

#[test]
fn a_call_that_no_engine_takes_is_refused_with_the_reason() {
    let words = || Failure::Refused("Failed to parse SDP".into());
    for (failure, status, reason) in [
        (Failure::Gone, 503, Reason::MediaUnavailable),
        (Failure::Busy, 503, Reason::MediaUnavailable),
        (words(), 488, Reason::MediaRefused),
    ] {
        let (mut bed, sent) = refused(WhenGone::Refuse, failure);
        let sent = only(sent);
        assert_eq!(sent.status(), status);
        let retry_after = sent.header(HeaderName::RetryAfter);
        assert_eq!(retry_after.is_some(), status == 503);
        // The engine's words are nobody's business.
        assert!(!sent.text.contains("parse"), "{}", sent.text);
        assert!(is_refused(&bed, status, reason), "{reason:?}");
        assert_eq!(bed.shard.counters().media_refused, 1);
        bed.wait(40_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
    for failure in [Failure::Gone, Failure::Busy] {
        let (bed, sent) = refused(WhenGone::Pass, failure);
        assert_says(&only(sent), &sdp("alice"));
        assert_eq!(bed.shard.counters().media_passed, 1);
    }
    // What an engine cannot read, a phone cannot either.
    let (_, sent) = refused(WhenGone::Pass, words());
    assert_eq!(only(sent).status(), 488);
}

#[test]
fn an_offer_that_an_engine_may_make_too_long_for_a_datagram_goes_over_a_stream() {
    // RFC 3261 18.1.1: "If a request is within 200 bytes of the path MTU, or if it is larger than 1300
    // bytes and the path MTU is unknown, the request MUST be sent using an RFC 2914 [43] congestion
    // controlled transport protocol, such as TCP."
    let text = |more: &str| {
        let invite = request("INVITE", "sip:bob@203.0.113.9", UDP).with(more);
        with_sdp(&invite.text(), &sdp("alice"))
    };
    let short = text("X-Pad: \r\n").len();
    let text = text(&format!("X-Pad: {}\r\n", "x".repeat(900 - short)));
    for (uses, transport) in [(MediaUse::Never, UDP), (MediaUse::Always, Transport::Tcp)] {
        let mut bed = Bed::new(Settings {
            media: Some(Arc::new(media(uses))),
            ..settings()
        });
        let mut sent = bed.receive(&alice(UDP), &text);
        for offer in all_asked(&mut bed) {
            sent.extend(give(&mut bed, offer, &led("alice")));
        }
        let copy = sent.last().unwrap();
        assert_eq!((&*copy.method(), copy.to.transport), ("INVITE", transport));
    }
}

#[test]
fn a_call_for_help_needs_no_engine() {
    let failures = || {
        let words = Failure::Refused("Failed to parse SDP".into());
        [Failure::Gone, Failure::Busy, words]
    };
    let help = with_sdp(&request("INVITE", HELP, UDP).text(), &sdp("alice"));
    for failure in failures() {
        let mut bed = with_help();
        bed.receive(&alice(UDP), &help);
        let offer = asked(&mut bed);
        let copy = only(answer(&mut bed, offer, Err(failure)));
        assert_eq!((copy.uri(), &*copy.to.remote.to_string()), (HELP, NEXT));
        assert_says(&copy, &sdp("alice"));
        assert_says(
            &only(respond(&mut bed, &copy, 200, &sdp("help"))),
            &sdp("help"),
        );
        assert_eq!(bed.shard.counters().media_passed, 1);
    }
    // Nor where one has been asked for the offer.
    for failure in failures() {
        let mut bed = with_help();
        bed.receive(&alice(UDP), &help);
        let offer = asked(&mut bed);
        let copy = only(give(&mut bed, offer, &led("alice")));
        assert!(respond(&mut bed, &copy, 200, &sdp("help")).is_empty());
        let of_answer = asked(&mut bed);
        let ok = only(answer(&mut bed, of_answer, Err(failure)));
        assert_says(&ok, &sdp("help"));
    }
    // Other calls need one.
    let mut bed = with_help();
    bed.receive(&alice(UDP), &help.replace(":112@", ":1120@"));
    let offer = asked(&mut bed);
    assert_eq!(only(fail(&mut bed, offer)).status(), 503);
}

const HELP: &str = "sip:112@example.org";

/// Engines without which no call is passed on, and an emergency number.
fn with_help() -> Bed {
    let mut settings = with_media(media(MediaUse::Always));
    settings.numbers.emergency = vec!["112".into()];
    Bed::new(settings)
}

#[test]
fn a_call_that_was_passed_on_without_an_engine_stays_without_one() {
    let (mut bed, sent) = refused(WhenGone::Pass, Failure::Gone);
    let invite = only(sent);
    let ok = only(respond(&mut bed, &invite, 200, &sdp("bob")));
    assert_says(&ok, &sdp("bob"));
    let call = Call { invite, ok };
    let bye = call.of_caller("BYE", UDP);
    let bye = only(bed.receive(&alice(UDP), &bye.text()));
    respond(&mut bed, &bye, 200, "");
    assert!(all_asked(&mut bed).is_empty());
}

#[test]
fn an_engine_that_never_answers_holds_a_call_until_the_deadline_only() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        bed.receive(&alice(transport), &invite(transport));
        let late = asked(&mut bed);
        let branch = late.ask.branch.clone();
        let sent = bed.wait(2_600);
        let finals: Vec<_> = sent.iter().filter(|of| of.status() >= 200).collect();
        assert_eq!(finals[0].status(), 503);
        assert_eq!(bed.shard.counters().media_expired, 1);
        // It did its work nevertheless: it is told that nobody wants it.
        assert!(give(&mut bed, late, &led("alice")).is_empty());
        let delete = asked(&mut bed);
        assert_eq!(delete.command(), Command::Delete);
        assert_eq!((delete.park, delete.ask.engine), (None, Some(ENGINE)));
        assert_eq!(delete.ask.branch, branch);
        bed.wait(40_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn an_answer_that_comes_twice_is_taken_once() {
    let mut bed = Bed::new(leading(UDP));
    bed.receive(&alice(UDP), &invite(UDP));
    let first = asked(&mut bed);
    let again = Asked {
        park: first.park,
        ask: first.ask.clone(),
    };
    let copy = only(give(&mut bed, first, &led("alice")));
    assert!(give(&mut bed, again, &led("mallory")).is_empty());
    assert_says(&copy, &led("alice"));
}

#[test]
fn a_caller_who_gives_up_before_the_engine_answers_reaches_nobody() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        let text = invite(transport);
        bed.receive(&alice(transport), &text);
        let asked_for = asked(&mut bed);
        let mut cancel = request("CANCEL", URI, transport);
        let via = text.lines().find(|line| line.starts_with("Via:")).unwrap();
        cancel.via = via.trim_start_matches("Via: ").to_owned();
        let sent = bed.receive(&alice(transport), &cancel.text());
        let mut told = kinds(&sent);
        told.sort_unstable();
        assert_eq!(told, ["200", "487"]);
        assert!(give(&mut bed, asked_for, &led("alice")).is_empty());
        assert_eq!(asked(&mut bed).command(), Command::Delete);
        bed.wait(40_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_call_that_is_declined_is_ended_at_the_engine() {
    let mut bed = Bed::new(leading(UDP));
    bed.receive(&alice(UDP), &invite(UDP));
    let offer = asked(&mut bed);
    let branch = offer.ask.branch.clone();
    let copy = only(give(&mut bed, offer, &led("alice")));
    let sent = respond(&mut bed, &copy, 486, "");
    assert_eq!(kinds(&sent), ["ACK", "486"]);
    let delete = asked(&mut bed);
    assert_eq!(delete.command(), Command::Delete);
    assert_eq!((delete.tags(), &delete.ask.branch), (("a", ""), &branch));
    assert_eq!((delete.park, delete.ask.engine), (None, Some(ENGINE)));
}

#[test]
fn without_transactions_no_media_is_led() {
    let mut settings = leading(UDP);
    settings.mode = sip_engine::settings::Mode::Stateless;
    let mut bed = Bed::new(settings);
    let sent = bed.receive(&alice(UDP), &invite(UDP));
    assert_says(&only(sent), &sdp("alice"));
    assert!(all_asked(&mut bed).is_empty());
}

#[test]
fn who_sends_anothers_call_id_and_tag_begins_a_call_of_his_own() {
    let mut bed = Bed::new(leading(UDP));
    let copy = call(&mut bed, UDP);
    respond(&mut bed, &copy, 200, &sdp("bob"));
    let of_answer = asked(&mut bed);
    let own = of_answer.ask.call_id.clone();
    give(&mut bed, of_answer, &led("bob"));
    // Who rang and did not get the call knows all that alice has sent.
    for (from, to) in [
        ("<sip:alice@example.com>;tag=a", "<sip:bob@example.org>"),
        ("<sip:mallory@example.com>;tag=a", "<sip:bob@example.org>"),
        ("<sip:mallory@example.com>;tag=a", "<sip:alice@example.com>"),
        ("<sip:mallory@example.com>;tag=b", "<sip:alice@example.com>"),
    ] {
        let mut invite = request("INVITE", URI, UDP);
        (invite.from, invite.to) = (from.into(), to.into());
        bed.receive(&alice(UDP), &with_sdp(&invite.text(), &sdp("mallory")));
        let offer = asked(&mut bed);
        assert_ne!(offer.ask.call_id, own, "{from} {to}");
    }
}

#[test]
fn an_offer_that_the_engine_leaves_as_it_was_is_not_led_here() {
    // The call comes by here twice, or by another server with the same engine.
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        bed.receive(&alice(transport), &invite(transport));
        let offer = asked(&mut bed);
        let invite = only(give(&mut bed, offer, &sdp("alice")));
        assert_says(&invite, &sdp("alice"));
        let ok = only(respond(&mut bed, &invite, 200, &sdp("bob")));
        assert_says(&ok, &sdp("bob"));
        let call = Call { invite, ok };
        let text = with_sdp(&call.of_caller("INVITE", transport).text(), &sdp("new"));
        let sent = bed.receive(&alice(transport), &text);
        assert_says(sent.last().unwrap(), &sdp("new"));
        assert!(all_asked(&mut bed).is_empty());
    }
}

#[test]
fn an_engines_mark_counts_from_neighbours_alone() {
    // Whoever had a call by an engine knows its mark.
    let marked = |who: &str| sdp(who) + "a=rtpengine:1f2e3d\r\n";
    let own = |asked: &Asked| asked.sdp().contains("a=rtpengine:");
    for is_listed in [false, true] {
        for transport in TRANSPORTS {
            let mut settings = leading(transport);
            if is_listed {
                let alice = "198.51.100.1".parse().unwrap();
                settings.trusted = vec![TrustedPeer::at(alice, 32)];
            }
            let mut bed = Bed::new(settings);
            let text = with_sdp(&request("INVITE", URI, transport).text(), &marked("alice"));
            bed.receive(&alice(transport), &text);
            let offer = asked(&mut bed);
            assert_eq!(own(&offer), is_listed);
            assert_eq!(offer.sdp().len(), marked("alice").len());
            let invite = only(give(&mut bed, offer, &led("alice")));
            // What answers it was by no engine before, whoever says so.
            respond(&mut bed, &invite, 200, &marked("bob"));
            let answer_of = asked(&mut bed);
            assert!(!own(&answer_of), "{}", answer_of.sdp());
            let ok = only(give(&mut bed, answer_of, &led("bob")));
            let call = Call { invite, ok };
            for method in ["INVITE", "UPDATE", "ACK"] {
                let text = with_sdp(&call.of_caller(method, transport).text(), &marked("new"));
                bed.receive(&alice(transport), &text);
                let change = asked(&mut bed);
                assert_eq!(own(&change), is_listed, "{method}");
                give(&mut bed, change, &led("new"));
            }
        }
    }
}

#[test]
fn an_offer_of_a_next_hop_may_have_been_by_an_engine_before() {
    let mut bed = Bed::new(leading(UDP));
    bed.receive(&alice(UDP), &request("INVITE", URI, UDP).text());
    let choice = asked(&mut bed);
    let invite = only(give(&mut bed, choice, ""));
    let marked = sdp("bob") + "a=rtpengine:1f2e3d\r\n";
    respond(&mut bed, &invite, 200, &marked);
    let offer = asked(&mut bed);
    assert_eq!((offer.command(), offer.sdp()), (Command::Offer, &*marked));
    // The engine leaves it as it is.
    assert_says(&only(give(&mut bed, offer, &marked)), &marked);
}
