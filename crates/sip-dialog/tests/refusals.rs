//! What a user agent does not accept (RFC 3261 8.2, 12.2.2, 14.2).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::{DELAY_MS, Wire};
use sip_dialog::{CallKey, Event};
use sip_msg::{HeaderName, Method, Transport};

fn bob() -> Wire {
    let mut wire = Wire::new(Transport::Udp, 2, |_| {});
    wire.add(1, "bob", 5060);
    wire
}

fn request(method: &str, uri: &str, to_tag: &str, cseq: u32, more: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5099;branch=z9hG4bK{method}{cseq}\r\n\
         From: <sip:c@d>;tag=1\r\nTo: <sip:bob@example.org>{to_tag}\r\nCall-ID: x\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:c@192.0.2.1:5099>\r\nMax-Forwards: 70\r\n{more}"
    )
}

const END: &str = "Content-Length: 0\r\n\r\n";
const BOB: &str = "sip:bob@192.0.2.1:5061";

/// The answer to a request, and the request's own line in it.
fn answer(request: &str) -> String {
    let mut wire = bob();
    wire.inject(1, 5099, request);
    assert!(
        wire.events(1)
            .iter()
            .all(|event| !matches!(event, Event::Incoming { .. }))
    );
    assert_eq!(wire.sent.len(), 1, "{request}");
    let answer = wire.sent[0].2.clone();
    wire.run_for(40_000);
    answer
}

#[test]
fn one_rule_after_the_other() {
    let cases = [
        // RFC 3261 8.2.1: "If the UAS recognizes but does not support the method of a request, it MUST
        // generate a 405 (Method Not Allowed) response."
        (
            request("SUBSCRIBE", BOB, "", 1, END),
            "405",
            // RFC 3261 8.2.1: "The UAS MUST also add an Allow header field to the 405 (Method Not
            // Allowed) response." and "The Allow header field MUST list the set of methods supported by
            // the UAS generating the message."
            // RFC 3261 21.4.6: "The response MUST include an Allow header field containing a list of
            // valid methods for the indicated address."
            "Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, MESSAGE",
        ),
        (
            request("UPDATE", BOB, ";tag=2", 1, END),
            "405",
            "Allow: INVITE",
        ),
        (
            // RFC 3261 8.2.1: "Once a request is authenticated (or authentication is skipped), the UAS
            // MUST inspect the method of the request."
            request("FROBNICATE", BOB, "", 1, END),
            "501",
            "Allow: INVITE",
        ),
        // RFC 3261 12.2.2: "If the UAS wishes to reject the request because it does not wish to recreate
        // the dialog, it MUST respond to the request with a 481 (Call/Transaction Does Not Exist) status
        // code and pass that to the server transaction."
        (request("BYE", BOB, ";tag=2", 1, END), "481", ""),
        (request("INVITE", BOB, ";tag=2", 1, END), "481", ""),
        (
            request("OPTIONS", BOB, ";tag=000000000000000000000000", 1, END),
            "481",
            "",
        ),
        (request("BYE", BOB, "", 1, END), "481", ""),
        // RFC 3261 8.2.2.1: "If the Request-URI does not identify an address that the UAS is willing to
        // accept requests for, it SHOULD reject the request with a 404 (Not Found) response."
        (
            request("INVITE", "sip:carol@192.0.2.1:5061", "", 1, END),
            "404",
            "",
        ),
        (request("INVITE", "tel:+12015550123", "", 1, END), "404", ""),
        (
            request("INVITE", "soap.beep://192.0.2.1:5061", "", 1, END),
            "416",
            "",
        ),
        // RFC 3261 8.2.2.3: "The UAS MUST add an Unsupported header field, and list in it those options it
        // does not understand amongst those in the Require header field of the request."
        (
            request(
                "INVITE",
                BOB,
                "",
                1,
                &format!("Require: 100rel, x\r\n{END}"),
            ),
            "420",
            // RFC 3261 8.2.2.3: "If a UAS does not understand an option-tag listed in a Require header
            // field, it MUST respond by generating a response with status code 420 (Bad Extension)."
            // RFC 3261 20.32: "Although an optional header field, the Require MUST NOT be ignored if it
            // is present." and "Each option tag defines a SIP extension that MUST be understood to
            // process the request."
            "Unsupported: 100rel, x",
        ),
        // RFC 3261 8.2.3: "The response MUST contain an Accept header field listing the types of all bodies
        // it understands, in the event the request contained bodies of types not supported by the UAS."
        (
            request(
                "INVITE",
                BOB,
                "",
                1,
                // RFC 3261 8.2.3: "If there are any bodies whose type (indicated by the Content-Type),
                // language (indicated by the Content-Language) or encoding (indicated by the
                // Content-Encoding) are not understood, and that body part is not optional (as
                // indicated by the Content-Disposition header field), the UAS MUST reject the request
                // with a 415 (Unsupported Media Type) response."
                "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi",
            ),
            "415",
            // RFC 3261 21.4.13: "The server MUST return a list of acceptable formats using the Accept,
            // Accept-Encoding, or Accept-Language header field, depending on the specific problem with
            // the content."
            "Accept: application/sdp",
        ),
        (
            request(
                "INVITE",
                BOB,
                "",
                1,
                "Content-Type: application/sdp\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi",
            ),
            "415",
            // RFC 3261 8.2.3: "If the request contained content encodings not understood by the UAS,
            // the response MUST contain an Accept-Encoding header field listing the encodings
            // understood by the UAS."
            "Accept-Encoding: identity",
        ),
    ];
    for (request, status, line) in cases {
        let answer = answer(&request);
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status} ")),
            "{request}\n{answer}"
        );
        assert!(answer.contains(line), "{request}\n{answer}");
        assert!(answer.contains(";tag="), "{answer}");
    }
}

#[test]
fn options_and_message_are_accepted() {
    // RFC 3261 11: "All UAs MUST support the OPTIONS method."
    let accepted = answer(&request("OPTIONS", BOB, "", 1, END));
    assert!(accepted.starts_with("SIP/2.0 200 "), "{accepted}");
    assert!(
        accepted.contains("Allow: INVITE") && accepted.contains("Accept: application/sdp"),
        "{accepted}"
    );
    let text = "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi";
    let accepted = answer(&request("MESSAGE", "sip:bob@example.org", "", 1, text));
    assert!(accepted.starts_with("SIP/2.0 200 "), "{accepted}");
}

#[test]
fn what_is_not_understood_and_not_required_is_ignored() {
    let mut wire = bob();
    wire.inject(
        1,
        5099,
        &request("INVITE", BOB, "", 1, &format!("X-New: y\r\n{END}")),
    );
    let [Event::Incoming { call, .. }] = wire.take_events(1)[..] else {
        panic!("no call came");
    };
    wire.act(1, |agents, now_ms, out| agents.ring(now_ms, call, out));
    // RFC 3261 8.2.2: "If a UAS does not understand a header field in a request (that is, the header
    // field is not defined in this specification or in any supported extension), the server MUST ignore
    // that header field and continue processing the message."
    let cancel = request(
        "CANCEL",
        BOB,
        "",
        1,
        &format!("Require: x\r\nProxy-Require: y\r\n{END}"),
    );
    wire.inject(1, 5099, &cancel.replace("z9hG4bKCANCEL1", "z9hG4bKINVITE1"));
    // RFC 3261 8.2.2.3: "These header fields MUST be ignored if they are present in these requests."
    assert_eq!(wire.start_lines(), ["180", "200", "487"]);
}

#[test]
fn every_method_that_is_understood_is_allowed() {
    // RFC 3261 20.5: "All methods, including ACK and CANCEL, understood by the UA MUST be included in the
    // list of methods in the Allow header field, when present."
    for is_registrar in [false, true] {
        let mut wire = Wire::new(Transport::Udp, 2, |config| {
            config.is_registrar = is_registrar
        });
        wire.add(1, "bob", 5060);
        wire.inject(1, 5099, &request("OPTIONS", BOB, "", 1, END));
        let answer = &wire.sent[0].2;
        let allow = answer.split("Allow: ").nth(1).unwrap().lines().next();
        // RFC 3261 13.1: "A UA that supports INVITE MUST also support ACK, CANCEL and BYE."
        let methods = "INVITE, ACK, CANCEL, BYE, OPTIONS, MESSAGE";
        let more = if is_registrar { ", REGISTER" } else { "" };
        assert_eq!(allow, Some(&*format!("{methods}{more}")));
    }
}

#[test]
fn options_are_answered_like_an_invite() {
    // RFC 3261 11.2: "The response code chosen MUST be the same that would have been chosen had the
    // request been an INVITE."
    let cases = [(BOB, 1, "200"), (BOB, 0, "503"), ("sip:x@y", 1, "404")];
    for (uri, calls_max, status) in cases {
        let mut wire = Wire::new(Transport::Udp, 2, |config| config.calls_max = calls_max);
        wire.add(1, "bob", 5060);
        wire.inject(1, 5099, &request("OPTIONS", uri, "", 1, END));
        wire.inject(1, 5099, &request("INVITE", uri, "", 2, END));
        let rings = if status == "200" {
            vec![]
        } else {
            vec![status]
        };
        assert_eq!(wire.start_lines(), [vec![status], rings].concat());
    }
}

#[test]
fn a_malformed_request_is_dropped_and_counted() {
    let mut wire = bob();
    let bad = request("INVITE", BOB, "", 1, END).replace("CSeq: 1 INVITE", "CSeq: 1 BYE");
    wire.inject(1, 5099, &bad);
    assert!(wire.sent.is_empty());
    assert_eq!(wire.ends[1].agents.counters().malformed, 1);
}

#[test]
fn no_room_for_another_transaction() {
    let mut wire = Wire::new(Transport::Udp, 2, |config| {
        config.transactions.server_max = 1
    });
    wire.add(1, "bob", 5060);
    wire.inject(1, 5099, &request("OPTIONS", BOB, "", 1, END));
    wire.inject(1, 5099, &request("OPTIONS", BOB, "", 2, END));
    assert_eq!(wire.start_lines(), ["200", "503"]);
    assert!(wire.sent[1].2.contains("Retry-After: "));
    wire.assert_empty();
}

/// An established call, and our tag in it.
fn established(wire: &mut Wire) -> (CallKey, String) {
    wire.inject(1, 5099, &request("INVITE", BOB, "", 5, END));
    let [Event::Incoming { call, .. }] = wire.take_events(1)[..] else {
        panic!("no call came");
    };
    wire.act(1, |agents, now_ms, out| {
        agents.answer(now_ms, call, None, out)
    });
    let answer = &wire.sent.last().unwrap().2;
    let tag = answer
        .split("To: <sip:bob@example.org>")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    wire.inject(1, 5099, &request("ACK", BOB, &tag, 5, END));
    assert_eq!(wire.take_events(1), [Event::Established { call }]);
    (call, tag)
}

#[test]
fn requests_within_a_dialog_come_in_order() {
    let mut wire = bob();
    let (_, tag) = established(&mut wire);
    // RFC 3261 12.1.1: "The remote sequence number MUST be set to the value of the sequence number in
    // the CSeq header field of the request."
    wire.inject(1, 5099, &request("OPTIONS", BOB, &tag, 4, END));
    assert_eq!(wire.start_lines().last().unwrap(), "500");
    wire.inject(1, 5099, &request("OPTIONS", BOB, &tag, 9, END));
    assert_eq!(wire.start_lines().last().unwrap(), "200");
    // RFC 3261 12.2.2: "If the remote sequence number was not empty, but the sequence number of the
    // request is lower than the remote sequence number, the request is out of order and MUST be rejected
    // with a 500 (Server Internal Error) response."
    wire.inject(1, 5099, &request("OPTIONS", BOB, &tag, 8, END));
    assert_eq!(wire.start_lines().last().unwrap(), "500");
    // A foreign From tag is another dialog.
    wire.inject(
        1,
        5099,
        &request("OPTIONS", BOB, &tag, 10, END).replace(";tag=1\r\n", ";tag=9\r\n"),
    );
    assert_eq!(wire.start_lines().last().unwrap(), "481");
    // RFC 3261 20: "If one is placed in a request by mistake, it MUST be ignored by the UAS receiving
    // the request."
    wire.inject(1, 5099, &request("BYE", BOB, &tag, 11, END));
    assert_eq!(wire.start_lines().last().unwrap(), "200");
    wire.assert_empty();
}

#[test]
fn a_session_does_not_change() {
    let mut wire = bob();
    wire.inject(1, 5099, &request("INVITE", BOB, "", 5, END));
    let [Event::Incoming { call, .. }] = wire.take_events(1)[..] else {
        panic!("no call came");
    };
    wire.act(1, |agents, now_ms, out| agents.ring(now_ms, call, out));
    let ringing = wire.sent.last().unwrap().2.clone();
    let tag = ringing
        .split("To: <sip:bob@example.org>")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    // RFC 3261 14.2: "A UAS that receives a second INVITE before it sends the final response to a first
    // INVITE with a lower CSeq sequence number on the same dialog MUST return a 500 (Server Internal
    // Error) response to the second INVITE and MUST include a Retry-After header field with a randomly
    // chosen value of between 0 and 10 seconds."
    wire.inject(1, 5099, &request("INVITE", BOB, &tag, 6, END));
    let refusal = wire.sent.last().unwrap().2.clone();
    assert!(
        refusal.starts_with("SIP/2.0 500 ") && refusal.contains("Retry-After: "),
        "{refusal}"
    );
    wire.act(1, |agents, now_ms, out| {
        agents.answer(now_ms, call, None, out)
    });
    wire.inject(1, 5099, &request("ACK", BOB, &tag, 5, END));
    assert_eq!(wire.take_events(1), [Event::Established { call }]);
    // RFC 3261 14.2: "If the new session description is not acceptable, the UAS can reject it by
    // returning a 488 (Not Acceptable Here) response for the re-INVITE.  This response SHOULD include a
    // Warning header field."
    let elsewhere = request("INVITE", BOB, &tag, 7, END).replace("c@192.0.2.1", "c@192.0.2.2");
    wire.inject(1, 5099, &elsewhere);
    let refusal = wire.sent.last().unwrap().2.clone();
    assert!(
        refusal.starts_with("SIP/2.0 488 ") && refusal.contains("Warning: 399 "),
        "{refusal}"
    );
    wire.inject(
        1,
        5099,
        &request("ACK", BOB, &tag, 7, END).replace("z9hG4bKACK7", "z9hG4bKINVITE7"),
    );
    // The call goes on.
    wire.run_for(DELAY_MS);
    wire.unclaimed.clear();
    wire.act(1, |agents, now_ms, out| agents.hang_up(now_ms, call, out));
    let bye = wire.expect(Method::Bye);
    // RFC 3261 12.2.2: "When a UAS receives a target refresh request, it MUST replace the dialog's
    // remote target URI with the URI from the Contact header field in that request, if present." Only
    // an accepted one does.
    assert_eq!(bye.request_uri(), b"sip:c@192.0.2.1:5099");
    // RFC 3261 12.1.1: "If no Record-Route header field is present in the request, the route set MUST
    // be set to the empty set. This route set, even if empty, overrides any pre-existing route set for
    // future requests in this dialog."
    assert!(!bye.has(HeaderName::Route));
    wire.respond(1, 5099, &bye, 200, "", &[]);
    wire.unclaimed.clear();
    wire.assert_empty();
}

#[test]
fn a_bye_ends_a_ringing_call() {
    let mut wire = bob();
    wire.inject(1, 5099, &request("INVITE", BOB, "", 5, END));
    let [Event::Incoming { call, .. }] = wire.take_events(1)[..] else {
        panic!("no call came");
    };
    wire.act(1, |agents, now_ms, out| agents.ring(now_ms, call, out));
    let ringing = wire.sent.last().unwrap().2.clone();
    let tag = ringing
        .split("To: <sip:bob@example.org>")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    wire.inject(1, 5099, &request("BYE", BOB, &tag, 6, END));
    // RFC 3261 15.1.2: "It is RECOMMENDED that a 487 (Request Terminated) response be generated to those
    // pending requests."
    // RFC 3261 15.1.2: "The UAS MUST still respond to any pending requests received for that dialog."
    assert_eq!(wire.start_lines(), ["180", "200", "487"]);
    wire.run_for(DELAY_MS);
    wire.assert_empty();
}
