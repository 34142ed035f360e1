//! Responses to a request that the call has left behind.

use super::*;

/// An answer to the request of a step.
fn answer_to(step: u32, status: u16, cseq: u32, method: &str) -> String {
    let branch = |step| format!("branch=z9hG4bK-0-1-{step}");
    answer(status, 1, cseq, method).replace(&branch(0), &branch(step))
}

/// The ordinary way to log in: INVITE, 407, ACK, INVITE, 200, ACK.
fn login() -> String {
    send("INVITE", "retrans=\"500\"")
        + "<recv response=\"407\"/>"
        + &send("ACK", "")
        + &send("INVITE", "retrans=\"500\"")
        + "<recv response=\"100\" optional=\"true\"/><recv response=\"180\" optional=\"true\"/>\
           <recv response=\"200\"/>"
        + &send("ACK", "")
}

#[test]
fn a_407_that_comes_again_behind_the_next_invite_has_its_ack_sent_again() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let settings = Settings {
            transport,
            ..Settings::default()
        };
        let mut stage = Stage::new(&login(), settings);
        stage.start();
        stage.receive(&answer_to(0, 407, 1, "INVITE"));
        let first = stage.sent();
        assert_eq!(first.len(), 3, "{first:?}");
        // As it was; behind a 100; and not as it was.
        stage.receive(&answer_to(0, 407, 1, "INVITE"));
        stage.receive(&answer_to(3, 100, 2, "INVITE"));
        stage.receive(&answer_to(0, 407, 1, "INVITE"));
        stage.receive(&answer_to(0, 407, 1, "INVITE").replace("tag=t", "tag=u"));
        let again = stage.sent();
        assert_eq!(again.len(), 3, "{again:?}");
        let ack = first[1].replace("CSeq: 1 ACK", "CSeq: 2 ACK");
        assert!(ack.starts_with("ACK ") && ack.contains("branch=z9hG4bK-0-1-2\r\n"));
        assert_eq!(again[..2], [ack.clone(), ack.clone()]);
        assert_eq!(again[2], ack.replace("tag=t", "tag=u"));
        assert_eq!(stage.count(Counter::Retransmissions), 0);
        assert_eq!(stage.calls.stats().steps[2].retransmitted, 3);
        stage.receive(&answer_to(3, 200, 2, "INVITE"));
        let sent = stage.sent();
        assert!(sent[0].contains("branch=z9hG4bK-0-1-7\r\n"), "{sent:?}");
        assert_eq!(stage.count(Counter::Successful), 1);
        assert_eq!(stage.count(Counter::UnexpectedMessage), 0);
    }
}

#[test]
fn a_407_that_comes_again_leaves_the_next_invite_being_sent_again() {
    let mut stage = Stage::new(&login(), Settings::default());
    stage.start();
    stage.receive(&answer_to(0, 407, 1, "INVITE"));
    stage.wait(200);
    stage.sent();
    stage.receive(&answer_to(0, 407, 1, "INVITE"));
    assert_eq!(stage.lines(), ["ACK sip:b SIP/2.0"]);
    assert_eq!(resend_times(&mut stage, 2_000), [300, 1_300]);
    // What is sent again is the INVITE, and never the ACK.
    stage.wait(2_000);
    assert_eq!(stage.lines(), ["INVITE sip:b SIP/2.0"]);
}

#[test]
fn a_response_that_is_behind_the_call_fails_it_where_nothing_acknowledges_it() {
    let message = |expected: u16| send("MESSAGE", "") + &format!("<recv response=\"{expected}\"/>");
    for (steps, method) in [
        (message(202) + &message(200) + &message(200), "MESSAGE"),
        // The step behind sends something else than an ACK.
        (
            send("INVITE", "") + "<recv response=\"202\"/>" + &message(200) + &message(200),
            "INVITE",
        ),
    ] {
        let mut stage = Stage::new(&steps, Settings::default());
        stage.start();
        stage.receive(&answer_to(0, 202, 1, method));
        stage.receive(&answer_to(2, 200, 2, "MESSAGE"));
        stage.receive(&answer_to(0, 202, 1, method));
        assert_eq!(stage.count(Counter::UnexpectedMessage), 1, "{method}");
    }
}

/// The same with names for the transactions, and two MESSAGEs behind.
fn named() -> String {
    let message = |name: &str| {
        send("MESSAGE", &format!("start_txn=\"{name}\""))
            + &format!("<recv response=\"200\" response_txn=\"{name}\"/>")
    };
    send("INVITE", "start_txn=\"a\"")
        + "<recv response=\"180\" optional=\"true\" response_txn=\"a\"/>\
           <recv response=\"200\" response_txn=\"a\"/>"
        + &send("ACK", "ack_txn=\"a\"")
        + &message("b")
        + &message("c")
        + &message("d")
}

/// Plays that up to the last MESSAGE.
fn named_stage(transport: Transport) -> Stage {
    let settings = Settings {
        transport,
        ..Settings::default()
    };
    let mut stage = Stage::new(&named(), settings);
    stage.start();
    stage.receive(&answer_to(0, 200, 1, "INVITE"));
    stage.receive(&answer_to(4, 200, 2, "MESSAGE"));
    stage.receive(&answer_to(6, 200, 3, "MESSAGE"));
    assert_eq!(stage.sent().len(), 5);
    stage
}

#[test]
fn what_comes_late_is_known_by_the_name_of_its_transaction() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut stage = named_stage(transport);
        // A late 1xx changes nothing.
        stage.receive(&answer_to(0, 180, 1, "INVITE"));
        assert!(stage.sent().is_empty());
        assert_eq!(stage.calls.stats().steps[1].done, 0);
        // A final one to the INVITE is acknowledged, whether or not it came before.
        stage.receive(&answer_to(0, 200, 1, "INVITE"));
        stage.receive(&answer_to(0, 200, 1, "INVITE").replace("tag=t", "tag=u"));
        let sent = stage.sent();
        assert_eq!(sent.len(), 2, "{sent:?}");
        assert!(sent[0].starts_with("ACK ") && sent[0].contains("branch=z9hG4bK-0-1-3\r\n"));
        assert_eq!(sent[0].replace("tag=t", "tag=u"), sent[1]);
        // One to another request that came before changes nothing.
        stage.receive(&answer_to(4, 200, 2, "MESSAGE"));
        assert!(stage.sent().is_empty());
        stage.receive(&answer_to(8, 200, 4, "MESSAGE"));
        assert_eq!(stage.count(Counter::Successful), 1);
        assert_eq!(stage.count(Counter::UnexpectedMessage), 0);
    }
}

#[test]
fn another_final_response_of_a_named_transaction_fails_the_call() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut stage = named_stage(transport);
        stage.receive(&answer_to(4, 200, 2, "MESSAGE").replace("tag=t", "tag=u"));
        assert_eq!(stage.count(Counter::UnexpectedMessage), 1);
    }
}

#[test]
fn a_request_that_is_behind_the_call_fails_it() {
    let ok = "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";
    let steps = format!("<recv request=\"MESSAGE\"/>{ok}<recv request=\"BYE\"/>{ok}");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.receive(&request("MESSAGE", "c", 1));
    stage.receive(&request("MESSAGE", "c", 2));
    assert_eq!(stage.count(Counter::UnexpectedMessage), 1);
}

#[test]
fn during_a_deaf_pause_nothing_is_heard_of_the_other_side() {
    let steps = send("MESSAGE", "")
        + "<recv response=\"200\"/><pause milliseconds=\"100\"/>"
        + &send("MESSAGE", "")
        + "<recv response=\"200\"/>";
    let settings = Settings {
        pauses_deaf: true,
        ..Settings::default()
    };
    let mut stage = Stage::new(&steps, settings);
    stage.start();
    stage.receive(&answer_to(0, 200, 1, "MESSAGE"));
    stage.receive(&answer_to(0, 180, 1, "MESSAGE").replace("tag=t", "tag=u"));
    stage.sent();
    stage.wait(100);
    assert!(stage.sent()[0].contains("To: <sip:b>;tag=t\r\n"));
}

#[test]
fn a_response_of_a_named_transaction_is_none_to_a_request_without_a_name() {
    let steps = send("INVITE", "start_txn=\"a\"")
        + "<recv response=\"200\" response_txn=\"a\"/>"
        + &send("ACK", "ack_txn=\"a\"")
        + &send("BYE", "")
        + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.receive(&answer_to(0, 200, 1, "INVITE"));
    assert_eq!(stage.sent().len(), 3);
    // Not as it was, so that only its transaction tells what it is.
    stage.receive(&answer_to(0, 200, 1, "INVITE").replace("tag=t", "tag=u"));
    assert_eq!(stage.lines(), ["ACK sip:b SIP/2.0"]);
    assert_eq!(stage.calls.len(), 1);
    stage.receive(&answer_to(3, 200, 2, "BYE"));
    assert_eq!(stage.count(Counter::Successful), 1);
}

#[test]
fn an_ack_that_cannot_be_written_again_spoils_nothing_else() {
    let steps = send("INVITE", "")
        + "<recv response=\"401\" auth=\"true\"/>"
        + &send("ACK", "").replace("CSeq", "[authentication]\nCSeq")
        + &send("INVITE", "")
        + "<recv response=\"407\" optional=\"true\" auth=\"true\"/><recv response=\"200\"/>"
        + &send("ACK", "");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    let challenge = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\nCSeq:";
    let first = answer_to(0, 401, 1, "INVITE").replace("CSeq:", challenge);
    stage.receive(&first);
    assert_eq!(stage.sent().len(), 3);
    // The challenge of this one is none.
    stage.receive(&answer_to(3, 407, 2, "INVITE"));
    stage.receive(&first.replace("tag=t", "tag=u"));
    assert!(stage.sent().is_empty());
    stage.receive(&answer_to(3, 200, 2, "INVITE"));
    assert_eq!(stage.lines(), ["ACK sip:b SIP/2.0"]);
    assert_eq!(stage.count(Counter::Successful), 1);
}
