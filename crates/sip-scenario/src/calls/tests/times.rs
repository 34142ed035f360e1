//! Response times and counters, and when they are taken.

use super::*;

#[test]
fn a_response_time_is_taken_once_where_it_begins_again() {
    for (repeats, count) in [("", 1), ("repeat_rtd=\"true\"", 2)] {
        let message = send("MESSAGE", "start_rtd=\"1\"")
            + &format!("<recv response=\"200\" rtd=\"1\" {repeats}/>");
        let mut stage = Stage::new(&(message.clone() + &message), Settings::default());
        stage.start();
        stage.wait(10);
        stage.receive(&answer(200, 1, 1, "MESSAGE"));
        stage.wait(30);
        stage.receive(&answer(200, 1, 2, "MESSAGE"));
        assert_eq!(stage.count(Counter::Successful), 1);
        let times = stage.calls.stats().response_times[0];
        assert_eq!(times.count, count, "{repeats}");
        assert_eq!(times.sum_ms, if count == 1 { 10.0 } else { 40.0 });
    }
}

#[test]
fn a_time_that_begins_and_ends_at_one_step_is_nothing() {
    let steps = send("MESSAGE", "") + "<recv response=\"200\" start_rtd=\"1\" rtd=\"1\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.wait(10);
    stage.receive(&answer(200, 1, 1, "MESSAGE"));
    let times = stage.calls.stats().response_times[0];
    assert_eq!((times.count, times.sum_ms), (1, 0.0));
}

#[test]
fn what_a_pause_says_is_done_when_it_begins() {
    let steps = send("MESSAGE", "")
        + "<recv response=\"200\"/>\
           <pause milliseconds=\"500\" rtd=\"1\" counter=\"paused\" next=\"far\" test=\"is_far\">\
           <action><log message=\"pauses\"/><assignstr assign_to=\"is_far\" value=\"x\"/></action></pause>"
        + &send("MESSAGE", "")
        + "<label id=\"far\"/>"
        + &send("BYE", "");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.wait(10);
    stage.receive(&answer(200, 1, 1, "MESSAGE"));
    let is_log = |event: &Event| matches!(event, Event::Log(text) if text == b"pauses");
    assert!(stage.events().iter().any(is_log));
    let stats = stage.calls.stats();
    assert_eq!(stats.own, [1]);
    assert_eq!(stats.response_times[0].mean_ms(), 10.0);
    stage.sent();
    stage.wait(499);
    assert!(stage.sent().is_empty());
    stage.wait(1);
    assert_eq!(stage.lines(), ["BYE sip:b SIP/2.0"]);
    assert!(!stage.events().iter().any(is_log));
    assert_eq!(stage.calls.stats().own, [1]);
}

#[test]
fn a_jump_of_a_pause_comes_behind_it() {
    let steps = "<pause milliseconds=\"500\"><action><jump value=\"2\"/></action></pause>"
        .to_owned()
        + &send("MESSAGE", "")
        + &send("BYE", "");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    assert!(stage.sent().is_empty());
    stage.wait(500);
    assert_eq!(stage.lines(), ["BYE sip:b SIP/2.0"]);
}

#[test]
fn a_step_that_is_left_out_still_says_where_to_go_on() {
    let steps = "<nop condexec=\"unset\" next=\"far\"/>".to_owned()
        + &send("MESSAGE", "")
        + "<label id=\"far\"/>"
        + &send("BYE", "")
        + "<Reference variables=\"unset\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    assert_eq!(stage.lines(), ["BYE sip:b SIP/2.0"]);
}

#[test]
fn the_time_that_runs_is_that_of_the_step_at_which_the_call_stands() {
    let own = "timeout=\"500\"";
    // Times of the 100, the 180 and the 200; of all; what comes; when the call fails.
    for (times, all, comes, at_step, fails_ms) in [
        (["", own, ""], None, None, 1, None),
        (["", own, ""], None, Some(100), 2, Some(500)),
        (["", "", own], None, Some(100), 2, None),
        (["", "", own], None, Some(180), 3, Some(500)),
        ([own, "", ""], None, None, 1, Some(500)),
        ([own, "", ""], None, Some(100), 2, None),
        (["", own, ""], Some(900), None, 1, Some(900)),
        ([own, "", ""], Some(900), Some(100), 2, Some(900)),
    ] {
        let [trying, ringing, ok] = times;
        let steps = send("INVITE", "")
            + &format!(
                "<recv response=\"100\" optional=\"true\" {trying}/>\
                 <recv response=\"180\" optional=\"true\" {ringing}/><recv response=\"200\" {ok}/>"
            );
        let settings = Settings {
            recv_timeout_ms: all,
            ..Settings::default()
        };
        let mut stage = Stage::new(&steps, settings);
        stage.start();
        if let Some(code) = comes {
            stage.receive(&answer(code, 1, 1, "INVITE"));
        }
        stage.wait(fails_ms.map_or(5_000, |ms| ms - 1));
        assert_eq!(
            stage.count(Counter::TimeoutOnRecv),
            0,
            "{times:?} {comes:?}"
        );
        if fails_ms.is_some() {
            stage.wait(1);
            assert_eq!(
                stage.count(Counter::TimeoutOnRecv),
                1,
                "{times:?} {comes:?}"
            );
            assert_eq!(stage.calls.stats().steps[at_step].timeouts, 1);
        }
    }
}
