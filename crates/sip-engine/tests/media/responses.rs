//! Responses that wait for an engine: their order, their repetitions, and what becomes of them
//! where it fails.

use std::sync::Arc;

use sip_engine::refusal::Reason;
use sip_engine::settings::{MediaSettings, MediaUse, WhenGone};
use sip_media::{Command, Failure};
use sip_msg::HeaderName;

use super::bed::*;
use crate::common::*;

#[test]
fn an_answer_is_passed_on_as_the_engine_has_it_and_nothing_else_of_it_changes() {
    for from in TRANSPORTS {
        for to in TRANSPORTS {
            let mut bed = Bed::new(leading(to));
            let copy = call(&mut bed, from);
            let text = with_sdp(&response(&copy, 200, "b", CONTACT), &sdp("bob"));
            let text = text.replace("Content-Type", "X-Unknown: kept\r\nContent-Type");
            assert!(bed.receive(&answering(&copy), &text).is_empty());
            let asked = asked(&mut bed);
            assert_eq!(asked.command(), Command::Answer);
            assert_eq!(asked.tags(), ("a", "b"));
            assert_eq!(asked.sdp(), sdp("bob"));
            assert_eq!(asked.ask.engine, Some(ENGINE));
            assert!(!asked.ask.branch.is_empty());
            let ok = only(give(&mut bed, asked, &led("bob")));
            assert_says(&ok, &led("bob"));
            assert_eq!(ok.to.remote, alice(from).remote);
            assert!(ok.text.contains("X-Unknown: kept\r\n"));
            assert_eq!(ok.all(HeaderName::Via).len(), 1);
            // The call has an engine: nobody is told that it has ended.
            assert!(all_asked(&mut bed).is_empty());
        }
    }
}

#[test]
fn responses_keep_their_order() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        let copy = call(&mut bed, transport);
        assert!(respond(&mut bed, &copy, 183, &sdp("early")).is_empty());
        let early = asked(&mut bed);
        assert!(respond(&mut bed, &copy, 180, "").is_empty());
        assert!(respond(&mut bed, &copy, 200, &sdp("bob")).is_empty());
        let last = asked(&mut bed);
        assert!(give(&mut bed, last, &led("bob")).is_empty());
        let sent = give(&mut bed, early, &led("early"));
        assert_eq!(kinds(&sent), ["183", "180", "200"], "{transport:?}");
        assert_says(&sent[0], &led("early"));
        assert_says(&sent[1], "");
        assert_says(&sent[2], &led("bob"));
        bed.wait(100_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_description_without_a_tag_is_nobodys_and_who_sent_it_is_there_all_the_same() {
    let mut bed = Bed::new(leading(UDP));
    let copy = call(&mut bed, UDP);
    let untagged = with_sdp(&response(&copy, 183, "b", CONTACT), &sdp("bob"));
    let untagged = untagged.replace(";tag=b\r\n", "\r\n");
    assert!(bed.receive(&answering(&copy), &untagged).is_empty());
    assert!(all_asked(&mut bed).is_empty());
    assert_eq!(bed.shard.counters().media_dropped, 1);
    // RFC 3261 16.8: "If the client transaction has received a provisional response, the proxy MUST
    // generate a CANCEL request matching that transaction."
    assert_eq!(kinds(&bed.wait(190_000))[0], "CANCEL");
}

#[test]
fn a_response_without_a_description_waits_for_none_but_those_before_it() {
    let mut bed = Bed::new(leading(UDP));
    let copy = call(&mut bed, UDP);
    let ringing = only(respond(&mut bed, &copy, 180, ""));
    assert_eq!(ringing.status(), 180);
    assert!(all_asked(&mut bed).is_empty());
}

#[test]
fn a_200_that_comes_again_is_asked_for_once_and_then_passed_on_from_what_was_kept() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        let copy = call(&mut bed, transport);
        for _ in 0..3 {
            assert!(respond(&mut bed, &copy, 200, &sdp("bob")).is_empty());
        }
        let asked = asked(&mut bed);
        assert_says(&only(give(&mut bed, asked, &led("bob"))), &led("bob"));
        for _ in 0..3 {
            let again = only(respond(&mut bed, &copy, 200, &sdp("bob")));
            assert_says(&again, &led("bob"));
        }
        assert!(all_asked(&mut bed).is_empty());
    }
}

#[test]
fn a_description_that_comes_twice_in_provisional_responses_is_asked_for_once() {
    let mut bed = Bed::new(leading(UDP));
    let copy = call(&mut bed, UDP);
    respond(&mut bed, &copy, 183, &sdp("bob"));
    let early = asked(&mut bed);
    assert_says(&only(give(&mut bed, early, &led("bob"))), &led("bob"));
    let again = only(respond(&mut bed, &copy, 183, &sdp("bob")));
    assert_says(&again, &led("bob"));
    assert!(all_asked(&mut bed).is_empty());
    // The final one is an answer of its own, though it says the same.
    assert!(respond(&mut bed, &copy, 200, &sdp("bob")).is_empty());
    assert_eq!(asked(&mut bed).command(), Command::Answer);
}

#[test]
fn another_provisional_response_that_says_the_same_is_no_copy() {
    let mut bed = Bed::new(leading(UDP));
    let copy = call(&mut bed, UDP);
    respond(&mut bed, &copy, 183, &sdp("bob"));
    let progress = asked(&mut bed);
    respond(&mut bed, &copy, 183, &sdp("bob"));
    assert!(all_asked(&mut bed).is_empty(), "a copy of it is");
    respond(&mut bed, &copy, 180, &sdp("bob"));
    let ringing = asked(&mut bed);
    let told = only(give(&mut bed, progress, &led("bob")));
    assert_eq!(told.status(), 183);
    assert_says(&told, &led("bob"));
    let told = only(give(&mut bed, ringing, &led("bob")));
    assert_eq!(told.status(), 180);
    assert_says(&told, &led("bob"));
}

#[test]
fn callees_behind_another_proxy_are_told_apart_by_their_tags() {
    let mut bed = Bed::new(leading(UDP));
    let copy = call(&mut bed, UDP);
    respond_as(&mut bed, &copy, 183, "b1", &sdp("one"));
    let one = asked(&mut bed);
    respond_as(&mut bed, &copy, 183, "b2", &sdp("one"));
    let two = asked(&mut bed);
    assert_eq!((one.tags().1, two.tags().1), ("b1", "b2"));
    assert_says(&only(give(&mut bed, one, &led("one"))), &led("one"));
    let two = only(give(&mut bed, two, &led("two")));
    assert_says(&two, &led("two"));
    assert!(two.text.contains(";tag=b2"));
}

#[test]
fn who_declines_is_heard_though_what_rang_before_waits() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        let copy = call(&mut bed, transport);
        respond(&mut bed, &copy, 183, &sdp("early"));
        let early = asked(&mut bed);
        let sent = respond(&mut bed, &copy, 486, "");
        assert_eq!(kinds(&sent), ["ACK", "486"]);
        assert_eq!(asked(&mut bed).command(), Command::Delete);
        // Nobody waits for it any more, and it began nothing.
        assert!(give(&mut bed, early, &led("early")).is_empty());
        assert!(all_asked(&mut bed).is_empty());
        bed.wait(40_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn an_answer_that_no_engine_takes_is_a_call_that_is_refused() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        let copy = call(&mut bed, transport);
        respond(&mut bed, &copy, 200, &sdp("bob"));
        let of_answer = asked(&mut bed);
        let sent = fail(&mut bed, of_answer);
        assert_eq!(sent.last().unwrap().status(), 503);
        assert!(is_refused(&bed, 503, Reason::MediaUnavailable));
        // The engine may have returned, or was but slow.
        assert_eq!(asked(&mut bed).command(), Command::Delete);
        // RFC 3261 13.3.1.4: "If the server retransmits the 2xx response for 64*T1 seconds without
        // receiving an ACK, the dialog is confirmed, but the session SHOULD be terminated."
        let again = respond(&mut bed, &copy, 200, &sdp("bob"));
        assert!(again.is_empty(), "{:?}", kinds(&again));
        assert!(all_asked(&mut bed).is_empty());
        bed.wait(100_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_provisional_response_that_no_engine_takes_is_left_out() {
    let mut bed = Bed::new(leading(UDP));
    let copy = call(&mut bed, UDP);
    respond(&mut bed, &copy, 183, &sdp("early"));
    let early = asked(&mut bed);
    respond(&mut bed, &copy, 180, "");
    let sent = fail(&mut bed, early);
    assert_eq!(kinds(&sent), ["180"]);
    assert_eq!(bed.shard.counters().media_dropped, 1);
    respond(&mut bed, &copy, 200, &sdp("bob"));
    let of_answer = asked(&mut bed);
    assert_eq!(kinds(&give(&mut bed, of_answer, &led("bob"))), ["200"]);
}

#[test]
fn where_calls_pass_without_engines_so_do_answers() {
    let mut settings = leading(UDP);
    settings.media = Some(Arc::new(MediaSettings {
        when_gone: WhenGone::Pass,
        ..media(MediaUse::Always)
    }));
    let mut bed = Bed::new(settings);
    let copy = call(&mut bed, UDP);
    respond(&mut bed, &copy, 200, &sdp("bob"));
    let of_answer = asked(&mut bed);
    assert_says(&only(fail(&mut bed, of_answer)), &sdp("bob"));
}

#[test]
fn an_engine_that_began_anew_is_one_that_is_gone() {
    for when_gone in [WhenGone::Refuse, WhenGone::Pass] {
        let mut settings = leading(UDP);
        settings.media = Some(Arc::new(MediaSettings {
            when_gone,
            ..media(MediaUse::Always)
        }));
        let mut bed = Bed::new(settings);
        let copy = call(&mut bed, UDP);
        respond(&mut bed, &copy, 200, &sdp("bob"));
        let of_answer = asked(&mut bed);
        let sent = answer(&mut bed, of_answer, Err(Failure::Unknown));
        let last = sent.last().unwrap();
        match when_gone {
            WhenGone::Refuse => {
                assert_eq!(last.status(), 503, "{}", last.text);
                assert!(is_refused(&bed, 503, Reason::MediaUnavailable));
            }
            WhenGone::Pass => assert_says(last, &sdp("bob")),
        }
    }
}

#[test]
fn an_engine_that_never_answers_holds_an_answer_until_the_deadline_only() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        let copy = call(&mut bed, transport);
        respond(&mut bed, &copy, 200, &sdp("bob"));
        let late = asked(&mut bed);
        let sent = bed.wait(2_600);
        assert!(
            sent.iter().any(|of| of.status() == 503),
            "{:?}",
            kinds(&sent)
        );
        all_asked(&mut bed);
        assert!(give(&mut bed, late, &led("bob")).is_empty());
        assert!(all_asked(&mut bed).is_empty(), "its call is ended already");
        bed.wait(100_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_caller_who_cancels_while_an_answer_waits_is_called_all_the_same() {
    // RFC 3261 9.1: the callee has answered before he heard of it.
    let mut bed = Bed::new(leading(UDP));
    let text = invite(UDP);
    bed.receive(&alice(UDP), &text);
    let offer = asked(&mut bed);
    let copy = only(give(&mut bed, offer, &led("alice")));
    respond(&mut bed, &copy, 200, &sdp("bob"));
    let of_answer = asked(&mut bed);
    let mut cancel = request("CANCEL", URI, UDP);
    let via = text.lines().find(|line| line.starts_with("Via:")).unwrap();
    cancel.via = via.trim_start_matches("Via: ").to_owned();
    let sent = bed.receive(&alice(UDP), &cancel.text());
    assert!(kinds(&sent).contains(&"200".to_owned()));
    let sent = give(&mut bed, of_answer, &led("bob"));
    assert_says(sent.last().unwrap(), &led("bob"));
}

#[test]
fn an_answer_without_a_tag_is_a_call_that_is_refused() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(leading(transport));
        let copy = call(&mut bed, transport);
        let text = with_sdp(&response(&copy, 200, "b", CONTACT), &sdp("bob"));
        let text = text.replace(";tag=b\r\n", "\r\n");
        let sent = bed.receive(&answering(&copy), &text);
        assert_eq!(sent.last().unwrap().status(), 488, "{:?}", kinds(&sent));
        assert!(is_refused(&bed, 488, Reason::MediaRefused));
        assert_eq!(asked(&mut bed).command(), Command::Delete);
        bed.wait(100_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_worker_that_was_held_up_ends_a_call_by_one_of_its_timers_and_not_by_the_other() {
    let mut bed = Bed::new(leading(UDP));
    let copy = call(&mut bed, UDP);
    assert!(respond(&mut bed, &copy, 200, &sdp("bob")).is_empty());
    // The time for the engine is over, and so is that of the call (RFC 3261 16.8).
    bed.now.mono_ms += 200_000;
    bed.now.unix_ms += 200_000;
    let sent = bed.act(|shard, now, out| shard.handle_timers(now, out));
    let answers: Vec<_> = sent.iter().filter(|sent| sent.status() > 100).collect();
    assert_eq!(answers.len(), 1, "{:?}", kinds(&sent));
    assert_eq!(answers[0].status(), 503);
    assert!(is_refused(&bed, 503, Reason::MediaUnavailable));
    assert_eq!(bed.shard.live_contexts(), 0);
}
