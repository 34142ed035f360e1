//! What actions find, and what they leave in variables.

use super::*;

const OK: &str =
    "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";

#[test]
fn a_call_in_which_something_is_wrong_goes_on_and_counts_as_failed() {
    let set = "<assign assign_to=\"n\" value=\"1\"/>";
    for (action, counter) in [
        (
            "<ereg regexp=\"absent\" search_in=\"msg\" check_it=\"true\" assign_to=\"n\"/>",
            Counter::RegexpDoesntMatch,
        ),
        (
            "<ereg regexp=\"BYE\" search_in=\"msg\" check_it_inverse=\"true\" assign_to=\"n\"/>",
            Counter::RegexpShouldntMatch,
        ),
        (
            "<ereg regexp=\".\" search_in=\"hdr\" header=\"X:\" check_it=\"true\" assign_to=\"n\"/>",
            Counter::RegexpHeaderNotFound,
        ),
        (
            "<test variable=\"n\" compare=\"equal\" value=\"2\" check_it=\"true\"/>",
            Counter::TestDoesntMatch,
        ),
        (
            "<test variable=\"n\" compare=\"equal\" value=\"1\" check_it_inverse=\"true\"/>",
            Counter::TestShouldntMatch,
        ),
        (
            "<strcmp variable=\"n\" value=\"x\" check_it=\"true\"/>",
            Counter::StrcmpDoesntMatch,
        ),
        (
            "<strcmp variable=\"n\" value=\"1.000000\" check_it_inverse=\"true\"/>",
            Counter::StrcmpShouldntMatch,
        ),
    ] {
        let steps = format!(
            "<recv request=\"BYE\"><action>{set}{action}<log message=\"left out\"/></action></recv>{OK}"
        );
        let mut stage = Stage::new(&steps, Settings::default());
        stage.receive(&request("BYE", "c", 1));
        assert_eq!(stage.lines(), ["SIP/2.0 200 OK"], "{action}");
        assert_eq!(stage.count(counter), 1, "{action}");
        assert_eq!(stage.count(Counter::Failed), 1, "{action}");
        assert_eq!(stage.count(Counter::Successful), 0, "{action}");
        let events = stage.events();
        let is_log = |event: &Event| matches!(event, Event::Log(_));
        assert!(!events.iter().any(is_log), "{action}");
        let ended = events.last();
        assert!(
            matches!(
                ended,
                Some(Event::Ended {
                    is_success: false,
                    ..
                })
            ),
            "{action}"
        );
        // The next call begins without it.
        stage.receive(&request("BYE", "d", 1).replace("sip:a SIP", "sip:absent SIP"));
        assert!(stage.count(counter) <= 2, "{action}");
    }
}

#[test]
fn a_header_that_is_not_there_is_empty() {
    let steps = "<recv request=\"MESSAGE\"><action>\
                 <ereg regexp=\"^$\" search_in=\"hdr\" header=\"X:\" assign_to=\"x\"/></action></recv>\
                 <nop condexec=\"x\" next=\"end\"/>"
        .to_owned()
        + OK
        + "<label id=\"end\"/>"
        + &OK.replace("200 OK", "202 OK");
    let steps = steps.replace("condexec=\"x\"", "test=\"x\"");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.receive(&request("MESSAGE", "c", 1));
    assert_eq!(stage.lines(), ["SIP/2.0 202 OK"]);
}

/// A message with what actions leave in the variable v.
fn left_in_v(actions: &str, files: Vec<InjectionFile>, line: &str) -> String {
    let steps = format!("<nop><action>{actions}</action></nop>")
        + &send("MESSAGE", "").replace("CSeq:", &format!("{line}\nCSeq:"));
    let mut stage = Stage::with_files(&steps, Settings::default(), files);
    stage.start();
    stage.sent().remove(0)
}

#[test]
fn the_first_line_of_an_injection_file_is_one_that_can_be_looked_up() {
    let mut file = InjectionFile::parse("f", b"SEQUENTIAL\nann;1\nben;2\n").unwrap();
    file.set_index(0).unwrap();
    for (key, line) in [("ann", "X: 1;"), ("ben", "X: 2;"), ("nobody", "X: ;")] {
        let actions = format!("<lookup assign_to=\"v\" file=\"f\" key=\"{key}\"/>");
        let field = "X: [field1 line=\"[$v]\"];";
        let sent = left_in_v(&actions, vec![file.clone()], field);
        assert!(sent.contains(line), "{key}: {sent}");
    }
}

#[test]
fn the_outcome_of_a_test_is_no_number() {
    let actions = "<assign assign_to=\"n\" value=\"1\"/>\
                   <test assign_to=\"v\" variable=\"n\" compare=\"equal\" value=\"1\"/>\
                   <add assign_to=\"n\" variable=\"v\"/>";
    let sent = left_in_v(actions, Vec::new(), "X: [$n];[$v]");
    assert!(sent.contains("X: 1.000000;true\r\n"), "{sent}");
}

#[test]
fn an_empty_text_is_the_number_zero() {
    let actions = "<assignstr assign_to=\"t\" value=\"\"/><assign assign_to=\"v\" value=\"7\"/>\
                   <todouble assign_to=\"v\" variable=\"t\"/>";
    let sent = left_in_v(actions, Vec::new(), "X: [$v];");
    assert!(sent.contains("X: ;\r\n"), "{sent}");
}

#[test]
fn a_text_that_is_put_together_from_itself_has_an_end() {
    let longer = "<assignstr assign_to=\"v\" value=\"[$v][$v]x\"/>".repeat(24);
    let sent = left_in_v(&longer, Vec::new(), "X: [$v]");
    assert!(
        (65_535..66_000).contains(&sent.len()),
        "{} bytes",
        sent.len()
    );
    let longer = "<assignstr assign_to=\"v\" value=\"%\"/>".to_owned()
        + &"<urlencode variable=\"v\"/>".repeat(12)
        + &"<assignstr assign_to=\"v\" value=\"[$v][$v]\"/>".repeat(14)
        + &"<urlencode variable=\"v\"/>".repeat(4);
    let sent = left_in_v(&longer, Vec::new(), "X: [$v]");
    assert!(sent.len() < 66_000, "{} bytes", sent.len());
}

#[test]
fn a_dynamic_id_is_another_one_at_each_place() {
    let settings = Settings {
        dynamic_id: (10, 20, 4),
        ..Settings::default()
    };
    let steps = send("MESSAGE", "").replace("CSeq:", "X: [dynamic_id] [dynamic_id]\nCSeq:");
    let mut stage = Stage::new(&steps, settings);
    stage.start();
    stage.start();
    let sent = stage.sent();
    assert!(sent[0].contains("X: 10 14\r\n"), "{sent:?}");
    assert!(sent[1].contains("X: 18 10\r\n"), "{sent:?}");
}
