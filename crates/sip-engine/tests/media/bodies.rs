//! Bodies of several parts, and those that nobody may change.

use sip_engine::refusal::Reason;
use sip_media::Command;

use super::bed::*;
use crate::common::*;

/// An INVITE with that body.
fn invite_with(content_type: &str, more: &str, body: &str) -> String {
    let text = request("INVITE", URI, UDP).with(more).text();
    let (head, _) = text.split_once("Content-Length:").unwrap();
    format!(
        "{head}Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn of_several_parts_the_session_description_alone_changes() {
    let body = |sdp: &str| {
        format!(
            "--outer\r\nContent-Type: application/sdp\r\n\r\n{sdp}\r\n--outer\r\n\
             Content-Type: application/isup\r\n\r\n\u{1}\u{2}\r\n--outer--\r\n"
        )
    };
    let mut bed = Bed::new(leading(UDP));
    let content_type = "multipart/mixed;boundary=outer";
    let text = invite_with(content_type, "", &body(&sdp("alice")));
    bed.receive(&alice(UDP), &text);
    let asked = asked(&mut bed);
    assert_eq!(asked.sdp(), sdp("alice"));
    let copy = only(give(&mut bed, asked, &led("alice")));
    assert_says(&copy, &body(&led("alice")));
}

#[test]
fn what_is_signed_encrypted_or_coded_passes_as_it_came() {
    let sdp = sdp("alice");
    let signed = format!(
        "--s\r\nContent-Type: application/sdp\r\n\r\n{sdp}\r\n--s\r\n\
         Content-Type: application/pkcs7-signature\r\n\r\nxyz\r\n--s--\r\n"
    );
    for (content_type, more, text) in [
        (
            "multipart/signed;protocol=\"application/pkcs7-signature\";boundary=s",
            "",
            &signed,
        ),
        (
            "application/pkcs7-mime;smime-type=enveloped-data",
            "",
            &"xyz".to_owned(),
        ),
        ("application/sdp", "Content-Encoding: gzip\r\n", &sdp),
    ] {
        let mut bed = Bed::new(leading(UDP));
        let sent = bed.receive(&alice(UDP), &invite_with(content_type, more, text));
        assert_eq!(kinds(&sent), ["100", "INVITE"], "{content_type}");
        assert_says(&sent[1], text);
        assert!(all_asked(&mut bed).is_empty(), "{content_type}");
        assert_eq!(bed.shard.counters().media_sealed, 1, "{content_type}");
        // What answers it is no answer to an offer of an engine's.
        let ok = only(respond(&mut bed, &sent[1], 200, "v=0\r\n"));
        assert_says(&ok, "v=0\r\n");
        assert!(all_asked(&mut bed).is_empty(), "{content_type}");
    }
}

#[test]
fn what_is_no_session_description_is_not_asked_for() {
    for (content_type, body) in [
        ("text/plain", "v=0\r\n"),
        ("application/sdp", ""),
        (
            "multipart/mixed;boundary=a",
            "--a\r\nContent-Type: text/plain\r\n\r\nhi\r\n--a--\r\n",
        ),
    ] {
        let mut bed = Bed::new(leading(UDP));
        bed.receive(&alice(UDP), &invite_with(content_type, "", body));
        let mut all = all_asked(&mut bed);
        // The callee offers: an engine is chosen, and nothing is sent to it.
        assert_eq!(all.len(), 1, "{content_type}");
        assert_eq!(all[0].command(), Command::Choose);
        let copy = only(give(&mut bed, all.remove(0), ""));
        assert_says(&copy, body);
    }
}

/// What an engine makes of a description, longer than the server takes one.
fn too_long() -> String {
    "v=0\r\n".repeat(400)
}

fn with_short_bodies() -> Bed {
    let mut settings = leading(UDP);
    settings.limits.body_bytes = 1_000;
    Bed::new(settings)
}

#[test]
fn an_engines_offer_that_makes_no_message_is_refused_and_let_go() {
    let mut bed = with_short_bodies();
    bed.receive(&alice(UDP), &invite(UDP));
    let offer = asked(&mut bed);
    let branch = offer.ask.branch.clone();
    let sent = only(give(&mut bed, offer, &too_long()));
    assert_eq!(sent.status(), 488, "{}", sent.text);
    assert!(is_refused(&bed, 488, Reason::MediaRefused));
    let delete = asked(&mut bed);
    assert_eq!(delete.command(), Command::Delete);
    assert_eq!(delete.ask.branch, branch);
}

#[test]
fn an_engines_offer_within_a_call_that_makes_no_message_is_refused() {
    for method in ["INVITE", "UPDATE", "PRACK"] {
        let mut bed = with_short_bodies();
        let call = answered_call(&mut bed, UDP);
        let text = with_sdp(&call.of_caller(method, UDP).text(), &sdp("new"));
        bed.receive(&alice(UDP), &text);
        let change = asked(&mut bed);
        let sent = only(give(&mut bed, change, &too_long()));
        assert_eq!(sent.status(), 488, "{method}: {}", sent.text);
        assert!(all_asked(&mut bed).is_empty(), "the call goes on");
    }
}

#[test]
fn an_ack_of_which_an_engine_makes_no_message_is_passed_on_as_it_came() {
    let mut bed = with_short_bodies();
    let call = answered_call(&mut bed, UDP);
    let mut ack = call.of_caller("ACK", UDP);
    ack.cseq = 1;
    bed.receive(&alice(UDP), &with_sdp(&ack.text(), &sdp("alice")));
    let of_ack = asked(&mut bed);
    let ack = only(give(&mut bed, of_ack, &too_long()));
    assert_says(&ack, &sdp("alice"));
    assert_eq!(bed.shard.counters().media_passed, 1);
}

#[test]
fn an_engines_answer_that_makes_no_message_is_refused() {
    let mut bed = with_short_bodies();
    let copy = call(&mut bed, UDP);
    let sent = respond(&mut bed, &copy, 200, &sdp("bob"));
    assert!(sent.is_empty());
    let of_answer = asked(&mut bed);
    let sent = give(&mut bed, of_answer, &too_long());
    let last = sent.last().unwrap();
    assert_eq!(last.status(), 488, "{}", last.text);
    assert!(is_refused(&bed, 488, Reason::MediaRefused));
}
