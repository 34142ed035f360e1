//! The end of a run, behind which nothing is done.

use super::*;

#[test]
fn nothing_is_done_behind_the_end_of_a_run() {
    // Each pauses, so that two of them are due at once.
    for end in ["<exec int_cmd=\"stop_now\"/>", "<error message=\"e\"/>"] {
        let steps = send("MESSAGE", "")
            + &format!("<pause milliseconds=\"5\"/><nop><action>{end}</action></nop>")
            + &send("BYE", "");
        let mut stage = Stage::new(&steps, Settings::default());
        stage.start();
        stage.start();
        stage.sent();
        stage.wait(5);
        let path = path(&stage);
        let started = stage.calls.start(stage.now_ns, path, &mut stage.out);
        assert_eq!(started, Err(NoCall::Over), "{end}");
        stage.receive(&request("OPTIONS", "1-0@127.0.0.1", 1));
        let now_ns = stage.now_ns;
        stage.calls.abandon(now_ns, &mut stage.out);
        assert_eq!(stage.lines(), [""; 0], "{end}");
        let is_end = |event: &&Event| matches!(event, Event::StopNow | Event::Fatal(_));
        assert_eq!(stage.events().iter().filter(is_end).count(), 1, "{end}");
        assert_eq!(
            (stage.calls.len(), stage.count(Counter::Failed)),
            (1, 0),
            "{end}"
        );
    }
}

#[test]
fn what_comes_after_calls_were_abandoned_begins_none() {
    let mut stage = Stage::new("<recv request=\"MESSAGE\"/>", Settings::default());
    stage.calls.abandon(0, &mut stage.out);
    stage.receive(&request("MESSAGE", "c", 1));
    assert_eq!(stage.count(Counter::IncomingCalls), 0);
}
