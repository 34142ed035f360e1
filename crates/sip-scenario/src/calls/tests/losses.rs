//! `lost="..."` of what is received.

use super::*;

/// What was lost, step by step.
fn lost(stage: &Stage, steps: usize) -> Vec<u64> {
    let stats = stage.calls.stats();
    stats.steps[..steps].iter().map(|step| step.lost).collect()
}

#[test]
fn the_step_that_a_message_belongs_to_loses_it() {
    let steps = send("INVITE", "")
        + "<recv response=\"180\" optional=\"true\" lost=\"100\"/><recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.receive(&answer(180, 1, 1, "INVITE"));
    assert_eq!(lost(&stage, 3), [0, 1, 0]);
    stage.receive(&answer(200, 1, 1, "INVITE"));
    assert_eq!(lost(&stage, 3), [0, 1, 0]);
    assert_eq!(stage.count(Counter::Successful), 1);
}

#[test]
fn a_step_that_the_call_does_not_stand_at_loses_its_messages_too() {
    let steps = send("INVITE", "")
        + "<recv response=\"180\" optional=\"true\"/><recv response=\"200\" lost=\"100\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.receive(&answer(180, 1, 1, "INVITE"));
    for count in 1..=2 {
        stage.receive(&answer(200, 1, 1, "INVITE"));
        assert_eq!(lost(&stage, 3), [0, 0, count]);
    }
    assert_eq!(stage.calls.stats().steps[1].done, 1);
    assert_eq!(stage.calls.len(), 1);
}

#[test]
fn what_is_lost_changes_nothing() {
    let steps = send("INVITE", "retrans=\"500\"")
        + "<recv response=\"180\" optional=\"true\" lost=\"100\" timeout=\"9000\" ontimeout=\"on\"/>\
           <recv response=\"200\"/><label id=\"on\"/>"
        + &send("MESSAGE", "")
        + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.sent();
    stage.receive(&answer(180, 1, 1, "INVITE"));
    assert_eq!(resend_times(&mut stage, 3_000), [500, 1_500]);
    stage.wait(6_000);
    let sent = stage.sent();
    let last = sent.last().unwrap();
    assert!(
        last.starts_with("MESSAGE ") && last.contains("To: <sip:b>\r\n"),
        "{last}"
    );
}

#[test]
fn what_no_step_expects_is_not_lost() {
    let steps = send("INVITE", "") + "<recv response=\"200\" lost=\"100\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.receive(&answer(486, 1, 1, "INVITE"));
    assert_eq!(lost(&stage, 2), [0, 0]);
    assert_eq!(stage.count(Counter::UnexpectedMessage), 1);
}

#[test]
fn what_comes_again_is_lost_by_the_step_that_took_it() {
    let ok = "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";
    // One message in two is lost: which, the seed says.
    let steps = format!(
        "<recv request=\"MESSAGE\" lost=\"50\"/>{ok}<recv request=\"BYE\" lost=\"100\"/>{ok}"
    );
    let mut stage = Stage::new(&steps, Settings::default());
    let mut came = 0;
    for _ in 0..64 {
        stage.receive(&request("MESSAGE", "c", 1));
        came += stage.sent().len() as u64;
    }
    assert_eq!(lost(&stage, 4), [64 - came, 0, 0, 0]);
    assert!((16..48).contains(&came), "{came}");
    assert_eq!(stage.count(Counter::Retransmissions), came - 1);
    assert_eq!(stage.calls.stats().steps[0].retransmitted, came - 1);
}

#[test]
fn what_comes_again_before_anything_was_sent_is_lost_likewise() {
    let steps = "<recv request=\"MESSAGE\" lost=\"50\"/><recv request=\"BYE\" lost=\"100\"/>";
    let mut stage = Stage::new(steps, Settings::default());
    for _ in 0..64 {
        stage.receive(&request("MESSAGE", "c", 1));
    }
    let step = stage.calls.stats().steps[0];
    assert_eq!(step.lost + step.done + step.retransmitted, 64);
    assert_eq!(step.done, 1);
    assert!((16..48).contains(&step.lost), "{}", step.lost);
    assert_eq!(lost(&stage, 2), [step.lost, 0]);
}
