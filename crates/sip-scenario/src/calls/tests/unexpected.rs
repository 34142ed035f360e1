//! Messages that no step expects, and what is kept of those that one does.

use super::*;

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
fn what_is_answered_alone_or_ignored_is_not_unexpected() {
    for (method, ping_reply, answers, unexpected) in [
        ("PING", true, false, false),
        ("PING", false, false, false),
        ("OPTIONS", true, true, false),
        ("OPTIONS", true, false, true),
    ] {
        let settings = Settings {
            behaviors: Behaviors {
                ping_reply,
                ..Behaviors::default()
            },
            answers,
            ..Settings::default()
        };
        let steps = send("INVITE", "") + "<recv response=\"200\"/>";
        let mut stage = Stage::new(&steps, settings);
        stage.start();
        stage.sent();
        stage.receive(&request(method, "1-0@127.0.0.1", 9));
        let is_answered = ping_reply && method == "PING" || answers;
        let answered = stage
            .lines()
            .iter()
            .filter(|line| *line == "SIP/2.0 200 OK")
            .count();
        assert_eq!(answered, usize::from(is_answered), "{method}");
        let count = u64::from(unexpected);
        assert_eq!(stage.calls.stats().steps[1].unexpected, count, "{method}");
        assert_eq!(stage.count(Counter::Failed), count, "{method}");
        assert_eq!(
            stage.count(Counter::AutoAnswered),
            u64::from(is_answered),
            "{method}"
        );
        let told = !is_answered;
        assert_eq!(stage.count(Counter::Warnings), u64::from(told), "{method}");
        stage.receive(&answer(200, 1, 1, "INVITE"));
        assert_eq!(stage.count(Counter::Successful), 1 - count, "{method}");
    }
}

#[test]
fn nobody_expects_a_message_without_to() {
    let without = |message: &str| {
        let lines = message.split_inclusive('\n');
        lines
            .filter(|line| !line.starts_with("To"))
            .collect::<String>()
    };
    let mut stage = Stage::new("<recv request=\"MESSAGE\"/>", Settings::default());
    stage.receive(&without(&request("MESSAGE", "c", 1)));
    assert_eq!(stage.count(Counter::UnexpectedMessage), 1);
    stage.receive(&request("MESSAGE", "d", 1).replace("To:", "t :"));
    assert_eq!(stage.count(Counter::Successful), 1);

    let steps = send("INVITE", "") + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.receive(&without(&answer(200, 1, 1, "INVITE")));
    assert_eq!(stage.count(Counter::UnexpectedMessage), 1);
}

#[test]
fn without_cseq_a_message_goes_where_its_start_line_says() {
    let without = |message: &str| {
        let lines = message.split_inclusive('\n');
        lines
            .filter(|line| !line.starts_with("CSeq"))
            .collect::<String>()
    };
    let mut stage = Stage::new("<recv request=\"MESSAGE\"/>", Settings::default());
    stage.receive(&without(&request("MESSAGE", "c", 1)));
    let steps = send("INVITE", "") + "<recv response=\"200\"/>";
    assert_eq!(stage.count(Counter::Successful), 1);
    assert_eq!(stage.count(Counter::Warnings), 1);
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.receive(&without(&answer(200, 1, 1, "INVITE")));
    assert_eq!(stage.count(Counter::Successful), 1);
}

#[test]
fn what_is_folded_stays_so_in_a_header_and_not_in_another_line() {
    let steps = send("INVITE", "")
        + "<recv response=\"200\" rrs=\"true\"/>"
        + &send("BYE", "")
            .replace("sip:b SIP", "[next_url] SIP")
            .replace("CSeq:", "X: [last_Request_URI]\n[last_Via:]\nCSeq:");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.sent();
    let folded = answer(200, 1, 1, "INVITE")
        .replace("Via: SIP/2.0/UDP h", "Via: SIP/2.0/UDP\n h")
        .replace(
            "To: <sip:b>;tag=t",
            "To: <sip:\n\tb>\n ;tag=t\n u\nContact: x\n <sip:c@d>",
        );
    stage.receive(&folded);
    let bye = stage.sent().pop().unwrap();
    assert!(bye.starts_with("BYE x <sip:c@d> SIP/2.0\r\n"), "{bye}");
    assert!(bye.contains("\r\nTo: <sip:b>;tag=t u\r\n"), "{bye}");
    assert!(bye.contains("\r\nX: sip:\tb\r\n"), "{bye}");
    assert!(bye.contains("\r\nVia: SIP/2.0/UDP\r\n h;branch="), "{bye}");
}

#[test]
fn a_request_that_is_ignored_is_the_last_message_all_the_same() {
    for method in ["PING", "BYE", "CANCEL"] {
        let behaviors = Behaviors {
            bye: false,
            abort_unexpected: false,
            ping_reply: false,
        };
        let settings = Settings {
            behaviors,
            ..Settings::default()
        };
        let steps = send("INVITE", "")
            + "<pause milliseconds=\"5\"/>"
            + &send("MESSAGE", "").replace("CSeq:", "X: [last_cseq_number]\nCSeq:");
        let mut stage = Stage::new(&steps, settings);
        stage.start();
        stage.receive(&request(method, "1-0@127.0.0.1", 9));
        stage.wait(5);
        let message = stage.sent().pop().unwrap();
        assert!(message.contains("X: 9\r\n"), "{method}: {message}");
    }
}

#[test]
fn during_a_pause_that_ignores_messages_they_are_not_even_known() {
    let ok = "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";
    let steps = format!("<recv request=\"MESSAGE\"/>{ok}<pause milliseconds=\"50\"/>");
    for (pauses_deaf, count) in [(true, 0), (false, 1)] {
        let settings = Settings {
            pauses_deaf,
            ..Settings::default()
        };
        let mut stage = Stage::new(&steps, settings);
        stage.receive(&request("MESSAGE", "c", 1));
        stage.sent();
        stage.receive(&request("MESSAGE", "c", 1));
        assert_eq!(stage.sent().len(), count);
        assert_eq!(stage.calls.stats().steps[0].retransmitted, count as u64);
    }
}

#[test]
fn where_next_is_not_followed_an_optional_message_leaves_the_call_where_it_stands() {
    let steps = |next: &str| {
        format!("<nop/>{}", send("INVITE", ""))
            + &format!(
                "<recv response=\"180\" optional=\"global\" {next}>\
                 <action><log message=\"came\"/></action></recv>\
                 <recv response=\"200\"/><pause milliseconds=\"50\"/><label id=\"end\"/>"
            )
            + &send("BYE", "")
            + "<label id=\"far\"/>"
            + &send("MESSAGE", "")
            + "<Reference variables=\"is_far\"/>"
    };
    // Whether the pause goes on, and what is sent at its end or at once.
    for (next, pauses, then) in [
        ("next=\"far\" test=\"is_far\"", true, "BYE"),
        ("next=\"far\"", false, "MESSAGE"),
    ] {
        let steps = steps(next).replace(
            "<Reference variables=\"is_far\"/>",
            "<Reference variables=\"is_far,is_far\"/>",
        );
        let mut stage = Stage::new(&steps, Settings::default());
        stage.start();
        let answer = |code| answer(code, 1, 1, "INVITE").replace("1-0 ", "1-1 ");
        stage.receive(&answer(200));
        stage.sent();
        stage.wait(20);
        stage.receive(&answer(180));
        assert_eq!(
            stage.calls.stats().steps[4].sessions,
            u64::from(pauses),
            "{next}"
        );
        assert_eq!(stage.sent().is_empty(), pauses, "{next}");
        if pauses {
            stage.wait(29);
            assert!(stage.sent().is_empty(), "{next}");
            stage.wait(1);
            assert!(stage.sent()[0].starts_with(then), "{next}");
        }
        let came = |event: &Event| matches!(event, Event::Log(text) if text == b"came");
        assert!(stage.events().iter().any(came), "{next}");
    }
}

#[test]
fn the_first_step_is_no_place_to_go_on_at_behind_an_optional_message() {
    let steps = "<label id=\"first\"/>".to_owned()
        + &send("INVITE", "")
        + "<recv response=\"180\" optional=\"true\" next=\"first\"/><recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.sent();
    stage.receive(&answer(180, 1, 1, "INVITE"));
    assert!(stage.sent().is_empty());
    stage.receive(&answer(200, 1, 1, "INVITE"));
    assert_eq!(stage.count(Counter::Successful), 1);
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
