//! Messages that no step expects, and what is kept of those that one does.

use super::*;
use crate::Behaviors;

#[test]
fn a_bye_that_nobody_expects_is_answered_only_where_it_ends_the_call() {
    for (bye, abort_unexpected, answers, failed) in [
        (true, true, 1, 1),
        (false, true, 0, 1),
        (true, false, 0, 0),
        (false, false, 0, 0),
    ] {
        for method in ["BYE", "CANCEL"] {
            let settings = Settings {
                behaviors: Behaviors {
                    bye,
                    abort_unexpected,
                    ping_reply: true,
                },
                ..Settings::default()
            };
            let mut stage = Stage::new(
                "<recv request=\"INVITE\"/><recv request=\"ACK\"/>",
                settings,
            );
            stage.receive(&request("INVITE", "c", 1));
            stage.receive(&request(method, "c", 1));
            assert_eq!(stage.sent().len(), answers, "{bye} {abort_unexpected}");
            assert_eq!(stage.count(Counter::UnexpectedMessage), failed);
            stage.receive(&request("ACK", "c", 1));
            assert_eq!(stage.count(Counter::Successful), 1 - failed);
        }
    }
}

#[test]
fn the_first_route_set_of_a_call_stays() {
    let routed = |code: u16, cseq: u32, more: &str| {
        answer(code, 1, cseq, "INVITE").replace("CSeq:", &format!("{more}\nCSeq:"))
    };
    let recv = "<recv response=\"183\" rrs=\"true\" optional=\"true\"/>\
                <recv response=\"200\" rrs=\"true\"/>";
    let steps = send("INVITE", "")
        + recv
        + &send("ACK", "").replace("CSeq:", "X: [next_url]\n[routes]\nCSeq:");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    let other = "Record-Route: <sip:other;lr>\nContact: <sip:second>";
    // Without a Contact there is no dialog to keep routes of.
    stage.receive(&routed(183, 1, "Record-Route: <sip:none;lr>"));
    stage.receive(&routed(
        183,
        1,
        "Record-Route: <sip:kept;lr>\nContact: <sip:first>",
    ));
    stage.receive(&routed(200, 1, other));
    let ack = stage.sent().remove(1);
    assert!(
        ack.contains("X: sip:first\r\nRoute: <sip:kept;lr>\r\n"),
        "{ack}"
    );
}

#[test]
fn a_request_that_leaves_the_call_where_it_stands_raises_cseq() {
    let steps = send("INVITE", "")
        + "<recv request=\"INFO\" optional=\"true\" advance_state=\"false\"/><recv response=\"200\"/>"
        + &send("BYE", "");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.receive(&request("INFO", "1-0@127.0.0.1", 70));
    stage.receive(&answer(200, 1, 1, "INVITE"));
    assert!(stage.sent()[1].contains("CSeq: 71 BYE"));
}

#[test]
fn a_second_invite_that_fails_leaves_a_dialog_to_be_ended() {
    let invite = send("INVITE", "") + "<recv response=\"200\"/>" + &send("ACK", "");
    let mut stage = Stage::new(&(invite.clone() + &invite), Settings::default());
    stage.start();
    stage.receive(&answer(200, 1, 1, "INVITE"));
    stage.sent();
    stage.receive(&answer(486, 1, 2, "INVITE"));
    let sent = stage.sent();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[0].starts_with("ACK ") && sent[0].contains("CSeq: 2 ACK\r\n"));
    assert!(sent[1].starts_with("BYE ") && sent[1].contains("CSeq: 3 BYE\r\n"));
    // The first one leaves none.
    let mut stage = Stage::new(&invite, Settings::default());
    stage.start();
    stage.sent();
    stage.receive(&answer(486, 1, 1, "INVITE"));
    assert_eq!(stage.lines().len(), 1);
}

#[test]
fn the_tag_of_the_other_side_is_that_of_its_responses() {
    for answers in [false, true] {
        let expected = if answers {
            ""
        } else {
            "<recv request=\"INFO\"/>"
        };
        let steps = send("INVITE", "")
            + "<recv response=\"200\"/>"
            + expected
            + &send("BYE", "")
            + "<recv response=\"200\"/>";
        let settings = Settings {
            answers,
            ..Settings::default()
        };
        let mut stage = Stage::new(&steps, settings);
        stage.start();
        // The To of a request bears the tag of this side.
        let info =
            request("INFO", "1-0@127.0.0.1", 70).replace("To: <sip:a>", "To: <sip:a>;tag=own");
        if answers {
            stage.receive(&info);
            stage.receive(&answer(200, 1, 1, "INVITE").replace(";tag=t", ""));
            let bye = stage.sent().pop().unwrap();
            assert!(bye.contains("To: <sip:b>\r\n"), "{bye}");
        } else {
            stage.receive(&answer(200, 1, 1, "INVITE"));
            stage.receive(&info);
            let bye = stage.sent().pop().unwrap();
            assert!(bye.contains("To: <sip:b>;tag=t\r\n"), "{bye}");
        }
    }
}
