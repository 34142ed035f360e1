//! Calls that are over and only answer what comes again.

use super::*;

const OK: &str =
    "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";

/// A call that was answered on connection 1 and stands at this step.
fn stands_at(step: &str, transport: Transport) -> Stage {
    let settings = Settings {
        transport,
        ..Settings::default()
    };
    let steps = format!("<recv request=\"BYE\"/>{OK}{step}");
    let mut stage = Stage::new(&steps, settings);
    let flow = Flow {
        conn: ConnId(1),
        ..flow()
    };
    let message = request("BYE", "c", 1).replace('\n', "\r\n");
    let Stage { calls, out, .. } = &mut stage;
    calls.receive(0, &flow, message.as_bytes(), out);
    assert_eq!(stage.lines(), ["SIP/2.0 200 OK"]);
    assert_eq!(stage.calls.len(), 1);
    stage
}

#[test]
fn a_closed_connection_does_not_fail_a_call_that_is_over() {
    for (step, failed) in [
        ("<timewait milliseconds=\"4000\"/>", 0),
        ("<timewait/>", 0),
        ("<pause milliseconds=\"4000\"/>", 1),
    ] {
        let mut stage = stands_at(step, Transport::Tcp);
        let Stage { calls, out, .. } = &mut stage;
        calls.path_closed(0, ConnId(1), SendFailure::Closed, out);
        assert_eq!(stage.count(Counter::TcpClosed), failed, "{step}");
        assert_eq!(stage.count(Counter::Failed), failed, "{step}");
        assert_eq!(stage.count(Counter::Successful), 1 - failed, "{step}");
        assert!(stage.calls.is_empty());
        let ended = stage.events().pop();
        assert!(
            matches!(ended, Some(Event::Ended { is_success, .. }) if is_success == (failed == 0)),
            "{step}: {ended:?}"
        );
    }
}

#[test]
fn what_nobody_expects_fails_a_call_that_is_over() {
    let mut stage = stands_at("<timewait milliseconds=\"4000\"/>", Transport::Udp);
    stage.receive(&request("BYE", "c", 1));
    assert_eq!(stage.lines(), ["SIP/2.0 200 OK"]);
    assert_eq!(stage.calls.len(), 1);
    stage.receive(&request("BYE", "c", 2));
    assert_eq!(stage.count(Counter::UnexpectedMessage), 1);
}
