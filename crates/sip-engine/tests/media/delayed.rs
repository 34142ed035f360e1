//! INVITEs without an offer: the callee offers, and the caller answers in his ACK or PRACK.

use std::sync::Arc;

use sip_engine::settings::{MediaSettings, MediaUse, WhenGone};
use sip_media::{Command, Side};
use sip_msg::Transport;

use super::bed::*;
use crate::common::*;

/// Alice calls without an offer; the copy of the INVITE.
fn invited(bed: &mut Bed, transport: Transport) -> Sent {
    bed.receive(&alice(transport), &request("INVITE", URI, transport).text());
    let choice = asked(bed);
    assert_eq!(choice.command(), Command::Choose);
    let copy = only(give(bed, choice, ""));
    assert_says(&copy, "");
    copy
}

/// Bob offers, and the engine has it; the call.
fn offered(bed: &mut Bed, transport: Transport) -> Call {
    let invite = invited(bed, transport);
    assert!(respond(bed, &invite, 200, &sdp("bob")).is_empty());
    let offer = asked(bed);
    assert_eq!(offer.command(), Command::Offer);
    // RFC 3264 5: who offers is the one that the engine calls the caller.
    assert_eq!(offer.tags(), ("b", "a"));
    assert_eq!(offer.ask.engine, Some(ENGINE));
    assert!(!offer.ask.branch.is_empty());
    let ok = only(give(bed, offer, &led("bob")));
    assert_says(&ok, &led("bob"));
    Call { invite, ok }
}

#[test]
fn an_ack_answers_what_the_callee_has_offered() {
    for from in TRANSPORTS {
        for to in TRANSPORTS {
            let mut bed = Bed::new(leading(to));
            let call = offered(&mut bed, from);
            let mut ack = call.of_caller("ACK", from);
            ack.cseq = 1;
            let ack = with_sdp(&ack.text(), &sdp("alice"));
            assert!(bed.receive(&alice(from), &ack).is_empty());
            let of_ack = asked(&mut bed);
            assert_eq!(of_ack.command(), Command::Answer);
            assert_eq!(of_ack.tags(), ("b", "a"));
            assert_eq!(of_ack.sdp(), sdp("alice"));
            assert_eq!(of_ack.ask.engine, Some(ENGINE));
            assert_eq!(of_ack.ask.shape.from, Side::Plain);
            let ack = only(give(&mut bed, of_ack, &led("alice")));
            assert_eq!(ack.method(), "ACK");
            assert_says(&ack, &led("alice"));
        }
    }
}

#[test]
fn an_ack_without_a_body_waits_for_nobody() {
    let mut bed = Bed::new(leading(UDP));
    let call = answered_call(&mut bed, UDP);
    let mut ack = call.of_caller("ACK", UDP);
    ack.cseq = 1;
    let ack = only(bed.receive(&alice(UDP), &ack.text()));
    assert_eq!(ack.method(), "ACK");
    assert!(all_asked(&mut bed).is_empty());
}

#[test]
fn an_ack_is_passed_on_whatever_the_engine_says() {
    for when_gone in [WhenGone::Refuse, WhenGone::Pass] {
        let mut settings = leading(UDP);
        settings.media = Some(Arc::new(MediaSettings {
            when_gone,
            ..media(MediaUse::Always)
        }));
        let mut bed = Bed::new(settings);
        let call = offered(&mut bed, UDP);
        let mut ack = call.of_caller("ACK", UDP);
        ack.cseq = 1;
        let text = with_sdp(&ack.text(), &sdp("alice"));
        bed.receive(&alice(UDP), &text);
        let of_ack = asked(&mut bed);
        assert_says(&only(fail(&mut bed, of_ack)), &sdp("alice"));
        // Without an answer as well.
        bed.receive(&alice(UDP), &text);
        let late = asked(&mut bed);
        let sent = bed.wait(2_600);
        let ack = sent.iter().find(|of| of.method() == "ACK").unwrap();
        assert_says(ack, &sdp("alice"));
        assert!(give(&mut bed, late, &led("alice")).is_empty());
        assert!(all_asked(&mut bed).is_empty(), "the call goes on");
        bed.wait(100_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_prack_answers_what_a_reliable_response_has_offered_and_another_offers() {
    let mut bed = Bed::new(leading(UDP));
    let invite = invited(&mut bed, UDP);
    respond(&mut bed, &invite, 183, &sdp("bob"));
    let offer = asked(&mut bed);
    assert_eq!(
        (offer.command(), offer.tags()),
        (Command::Offer, ("b", "a"))
    );
    let ok = only(give(&mut bed, offer, &led("bob")));
    let call = Call { invite, ok };
    let prack = with_sdp(&call.of_caller("PRACK", UDP).text(), &sdp("alice"));
    bed.receive(&alice(UDP), &prack);
    let of_prack = asked(&mut bed);
    assert_eq!(of_prack.command(), Command::Answer);
    assert_eq!(of_prack.tags(), ("b", "a"));
    let copy = only(give(&mut bed, of_prack, &led("alice")));
    assert_says(&copy, &led("alice"));
    assert_eq!(only(respond(&mut bed, &copy, 200, "")).status(), 200);

    // RFC 3262 5: "If the UAC receives a reliable provisional response with an answer (this would
    // occur if the UAC supplied an initial offer, or in the PRACK), it MAY generate an additional
    // offer in the PRACK."
    let mut prack = call.of_caller("PRACK", UDP);
    prack.cseq = 3;
    bed.receive(&alice(UDP), &with_sdp(&prack.text(), &sdp("again")));
    let of_prack = asked(&mut bed);
    assert_eq!(
        (of_prack.command(), of_prack.tags()),
        (Command::Offer, ("a", "b"))
    );
    let copy = only(give(&mut bed, of_prack, &led("again")));
    respond(&mut bed, &copy, 200, &sdp("bob again"));
    let of_ok = asked(&mut bed);
    assert_eq!(
        (of_ok.command(), of_ok.tags()),
        (Command::Answer, ("a", "b"))
    );
    assert_says(
        &only(give(&mut bed, of_ok, &led("bob again"))),
        &led("bob again"),
    );
}

#[test]
fn where_no_engine_takes_calls_one_without_an_offer_is_refused_before_it_rings() {
    let mut bed = Bed::new(leading(UDP));
    bed.receive(&alice(UDP), &request("INVITE", URI, UDP).text());
    let choice = asked(&mut bed);
    assert_eq!(only(fail(&mut bed, choice)).status(), 503);
}
