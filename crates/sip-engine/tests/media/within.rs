//! Requests within dialogs: the token says which engine has the call.

use std::sync::Arc;

use sip_engine::records::RecordSettings;
use sip_engine::settings::{AuthSettings, Settings, TrustedPeer};
use sip_engine::token::TokenKeys;
use sip_media::Command;
use sip_msg::Transport;

use super::bed::*;
use crate::common::*;

fn secured(settings: Settings) -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        trusted: vec![TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)],
        ..settings
    }
}

/// An offer within the call, from that side; the copy, with what the engine made of it.
fn offer(bed: &mut Bed, text: &str, is_callers: bool, from: &sip_msg::Flow) -> Sent {
    let tags = if is_callers { ("a", "b") } else { ("b", "a") };
    let sent = bed.receive(from, &with_sdp(text, &sdp("new")));
    assert!(
        sent.iter().all(|of| of.status() == 100),
        "{:?}",
        kinds(&sent)
    );
    let asked = asked(bed);
    assert_eq!((asked.command(), asked.tags()), (Command::Offer, tags));
    assert_eq!(asked.ask.engine, Some(ENGINE));
    // Within a dialog the tags say which it is.
    assert!(asked.ask.branch.is_empty());
    let copy = only(give(bed, asked, &led("new")));
    assert_says(&copy, &led("new"));
    copy
}

/// And the answer to it.
fn answers(bed: &mut Bed, copy: &Sent, is_callers: bool) {
    let tags = if is_callers { ("a", "b") } else { ("b", "a") };
    assert!(respond(bed, copy, 200, &sdp("yes")).is_empty());
    let asked = asked(bed);
    assert_eq!((asked.command(), asked.tags()), (Command::Answer, tags));
    assert_eq!(asked.ask.engine, Some(ENGINE));
    let ok = only(give(bed, asked, &led("yes")));
    assert_says(&ok, &led("yes"));
}

#[test]
fn whatever_changes_a_session_goes_to_the_engine_that_has_it() {
    for is_secured in [false, true] {
        for from in TRANSPORTS {
            for to in TRANSPORTS {
                let settings = match is_secured {
                    true => secured(leading(to)),
                    false => leading(to),
                };
                let mut bed = Bed::new(settings);
                let call = answered_call(&mut bed, from);
                let callee = answering(&call.invite);
                for method in ["INVITE", "UPDATE"] {
                    let text = call.of_caller(method, from).text();
                    let copy = offer(&mut bed, &text, true, &alice(from));
                    answers(&mut bed, &copy, true);
                    let text = call.of_callee(method).text();
                    let copy = offer(&mut bed, &text, false, &callee);
                    answers(&mut bed, &copy, false);
                }
            }
        }
    }
}

#[test]
fn an_engine_hears_of_a_call_by_one_name() {
    let mut bed = Bed::new(leading(UDP));
    bed.receive(&alice(UDP), &invite(UDP));
    let first = asked(&mut bed);
    let name = first.ask.call_id.clone();
    let invite = only(give(&mut bed, first, &led("alice")));
    respond(&mut bed, &invite, 200, &sdp("bob"));
    let of_answer = asked(&mut bed);
    assert_eq!(of_answer.ask.call_id, name);
    let ok = only(give(&mut bed, of_answer, &led("bob")));
    let call = Call { invite, ok };
    let callee = answering(&call.invite);
    for (text, from) in [
        (call.of_caller("INVITE", UDP).text(), alice(UDP)),
        (call.of_callee("UPDATE").text(), callee),
        (call.of_callee("ACK").text(), callee),
    ] {
        bed.receive(&from, &with_sdp(&text, &sdp("new")));
        assert_eq!(asked(&mut bed).ask.call_id, name);
    }
    let bye = only(bed.receive(&callee, &call.of_callee("BYE").text()));
    respond(&mut bed, &bye, 200, "");
    assert_eq!(asked(&mut bed).ask.call_id, name);
}

#[test]
fn a_bye_waits_for_nobody_and_its_answer_ends_the_media() {
    for transport in TRANSPORTS {
        for is_callers in [true, false] {
            for status in [200, 202, 481] {
                let mut bed = Bed::new(leading(transport));
                let call = answered_call(&mut bed, transport);
                let (text, from) = match is_callers {
                    true => (call.of_caller("BYE", transport).text(), alice(transport)),
                    false => (call.of_callee("BYE").text(), answering(&call.invite)),
                };
                let copy = only(bed.receive(&from, &text));
                assert!(all_asked(&mut bed).is_empty());
                let sent = respond(&mut bed, &copy, status, "");
                assert_eq!(only(sent).status(), status);
                let delete = asked(&mut bed);
                assert_eq!(delete.command(), Command::Delete);
                assert_eq!((delete.park, delete.ask.engine), (None, Some(ENGINE)));
                let tags = if is_callers { ("a", "b") } else { ("b", "a") };
                assert_eq!(delete.tags(), tags);
                assert!(delete.ask.call_id.starts_with(b"call-1;"));
            }
        }
    }
}

/// Whether the media of a call ends with a BYE that is answered so, and whether its record does.
fn ended_by(transport: Transport, status: u16) -> (bool, bool) {
    let mut bed = Bed::new(Settings {
        records: RecordSettings {
            is_on: true,
            session_expires_s: 0,
        },
        ..leading(transport)
    });
    let call = answered_call(&mut bed, transport);
    let bye = call.of_caller("BYE", transport).text();
    let copy = only(bed.receive(&alice(transport), &bye));
    respond(&mut bed, &copy, status, "");
    let records = |bed: &mut Bed| std::mem::take(&mut bed.records).len();
    let ended = (all_asked(&mut bed).len() == 1, records(&mut bed) == 1);
    // The other side confirms it after all.
    let mut again = call.of_caller("BYE", transport);
    again.cseq = 3;
    let copy = only(bed.receive(&alice(transport), &again.text()));
    respond(&mut bed, &copy, 200, "");
    let has_ended = ended.1 || records(&mut bed) == 1;
    assert!(has_ended, "{status}: the record of a call comes out once");
    assert_eq!(asked(&mut bed).command(), Command::Delete, "{status}");
    ended
}

#[test]
fn a_bye_that_is_refused_ends_neither_the_media_nor_the_record() {
    for transport in TRANSPORTS {
        for (status, media, record) in [
            (200, true, true),
            (481, true, true),
            // Who was not reached has no media, and may be reached again: his record waits.
            (408, true, false),
            (480, true, false),
            (504, true, false),
            // Who refuses it goes on, and so does who was refused, or he would have hung up.
            (400, false, false),
            (403, false, false),
            (420, false, false),
            (483, false, false),
            (500, false, false),
            // RFC 3261 16.7 has it go on as a 500, which says less.
            (503, false, false),
            (603, false, false),
            // It comes again.
            (401, false, false),
            (407, false, false),
        ] {
            assert_eq!(ended_by(transport, status), (media, record), "{status}");
        }
    }
}

#[test]
fn a_bye_that_is_challenged_or_lost_ends_the_media_when_it_is_over() {
    let mut bed = Bed::new(leading(UDP));
    let call = answered_call(&mut bed, UDP);
    let bye = call.of_caller("BYE", UDP);
    let copy = only(bed.receive(&alice(UDP), &bye.text()));
    respond(&mut bed, &copy, 407, "");
    assert!(
        all_asked(&mut bed).is_empty(),
        "it comes again with credentials"
    );
    let mut bye = call.of_caller("BYE", UDP);
    bye.cseq = 3;
    bed.receive(&alice(UDP), &bye.text());
    // Nobody answers it.
    bed.wait(40_000);
    assert_eq!(asked(&mut bed).command(), Command::Delete);
}

#[test]
fn a_callee_who_does_not_know_the_dialog_any_more_ends_the_media() {
    let mut bed = Bed::new(leading(UDP));
    let call = answered_call(&mut bed, UDP);
    let text = call.of_caller("UPDATE", UDP).text();
    let copy = offer(&mut bed, &text, true, &alice(UDP));
    respond(&mut bed, &copy, 481, "");
    assert_eq!(asked(&mut bed).command(), Command::Delete);
}

#[test]
fn a_change_that_no_engine_takes_is_refused_and_the_call_goes_on() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        let call = answered_call(&mut bed, transport);
        let text = with_sdp(&call.of_caller("INVITE", transport).text(), &sdp("new"));
        bed.receive(&alice(transport), &text);
        let of_change = asked(&mut bed);
        let sent = only(fail(&mut bed, of_change));
        assert_eq!(sent.status(), 503);
        assert!(all_asked(&mut bed).is_empty());
        let mut update = call.of_caller("UPDATE", transport);
        update.cseq = 3;
        let copy = offer(&mut bed, &update.text(), true, &alice(transport));
        answers(&mut bed, &copy, true);
    }
}

#[test]
fn an_answer_waits_though_its_transaction_has_ended() {
    // RFC 3261 17.1.2.2: over TCP and TLS a client transaction ends with its final response.
    for transport in [Transport::Tcp, Transport::Tls] {
        let mut bed = Bed::new(leading(transport));
        let call = answered_call(&mut bed, transport);
        let text = call.of_caller("UPDATE", transport).text();
        let copy = offer(&mut bed, &text, true, &alice(transport));
        assert!(respond(&mut bed, &copy, 200, &sdp("yes")).is_empty());
        let of_answer = asked(&mut bed);
        let sent = bed.wait(100);
        assert!(sent.is_empty(), "{:?}", kinds(&sent));
        let ok = only(give(&mut bed, of_answer, &led("yes")));
        assert_says(&ok, &led("yes"));
        bed.wait(40_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn an_offer_in_the_answer_to_an_empty_reinvite_is_the_callees() {
    let mut bed = Bed::new(leading(UDP));
    let call = answered_call(&mut bed, UDP);
    let text = call.of_caller("INVITE", UDP).text();
    let sent = bed.receive(&alice(UDP), &text);
    let copy = sent.into_iter().find(|of| of.status() == 0).unwrap();
    assert!(all_asked(&mut bed).is_empty(), "it has no offer");
    respond(&mut bed, &copy, 200, &sdp("bob"));
    let of_answer = asked(&mut bed);
    assert_eq!(of_answer.command(), Command::Offer);
    assert_eq!(of_answer.tags(), ("b", "a"));
}

#[test]
fn a_token_outlives_the_server_and_the_settings() {
    let keys = Arc::new(TokenKeys::of([4; 32], 1));
    let mut bed = Bed::with_keys(leading(UDP), Arc::clone(&keys));
    let call = answered_call(&mut bed, UDP);
    // Another server, or the same after a restart, has the engine's name from the token.
    let mut other = Bed::with_seed(leading(UDP), Arc::clone(&keys), 77);
    let text = call.of_caller("INVITE", UDP).text();
    let copy = offer(&mut other, &text, true, &alice(UDP));
    answers(&mut other, &copy, true);
    // One that leads no media passes it on as it comes.
    let mut plain = Bed::with_seed(forwarding(UDP, NEXT), keys, 78);
    let text = with_sdp(&call.of_caller("INVITE", UDP).text(), &sdp("new"));
    let sent = plain.receive(&alice(UDP), &text);
    let copy = sent.iter().find(|of| of.status() == 0).unwrap();
    assert_says(copy, &sdp("new"));
    assert!(all_asked(&mut plain).is_empty());
}

#[test]
fn a_token_that_was_changed_names_no_engine() {
    let mut bed = Bed::new(secured(leading(UDP)));
    let call = answered_call(&mut bed, UDP);
    let text = call.of_caller("BYE", UDP).text();
    let at = text.find("Route: <sip:").unwrap() + "Route: <sip:".len();
    let mut changed = 0;
    for offset in 0..40 {
        let mut bytes = text.clone().into_bytes();
        let byte = &mut bytes[at + offset];
        if *byte == b'@' {
            break;
        }
        *byte = if *byte == b'A' { b'B' } else { b'A' };
        let text = String::from_utf8(bytes).unwrap();
        let stranger = flow(UDP, "192.0.2.200:5060");
        let sent = bed.receive(&stranger, &text);
        assert!(
            sent.iter().all(|of| of.status() != 0),
            "{offset}: {:?}",
            kinds(&sent)
        );
        assert!(all_asked(&mut bed).is_empty(), "{offset}");
        changed += 1;
    }
    assert!(changed > 20, "there is a token: {text}");
}
