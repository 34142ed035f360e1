//! What actions find, and what they leave in variables.

use super::*;

const OK: &str =
    "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";

#[test]
fn a_call_in_which_something_is_wrong_goes_on_and_counts_as_failed() {
    let set = "<assign assign_to=\"n\" value=\"1\"/><assignstr assign_to=\"t\" value=\"x\"/>";
    // With how often it is wrong in two calls: the second has another text in its first line.
    for (action, counter, both) in [
        (
            "<ereg regexp=\"absent\" search_in=\"msg\" check_it=\"true\" assign_to=\"n\"/>",
            Counter::RegexpDoesntMatch,
            1,
        ),
        (
            "<ereg regexp=\"BYE\" search_in=\"msg\" check_it_inverse=\"true\" assign_to=\"n\"/>",
            Counter::RegexpShouldntMatch,
            2,
        ),
        (
            "<ereg regexp=\".\" search_in=\"hdr\" header=\"X:\" check_it=\"true\" assign_to=\"n\"/>",
            Counter::RegexpHeaderNotFound,
            2,
        ),
        (
            "<test variable=\"n\" compare=\"equal\" value=\"2\" check_it=\"true\"/>",
            Counter::TestDoesntMatch,
            2,
        ),
        (
            "<test variable=\"n\" compare=\"equal\" value=\"1\" check_it_inverse=\"true\"/>",
            Counter::TestShouldntMatch,
            2,
        ),
        (
            "<ereg regexp=\".*\" search_in=\"hdr\" header=\"X:\" check_it=\"true\" assign_to=\"n\"/>",
            Counter::RegexpHeaderNotFound,
            2,
        ),
        (
            "<strcmp variable=\"t\" value=\"y\" check_it=\"true\"/>",
            Counter::StrcmpDoesntMatch,
            2,
        ),
        (
            "<strcmp variable=\"t\" value=\"x\" check_it_inverse=\"true\"/>",
            Counter::StrcmpShouldntMatch,
            2,
        ),
    ] {
        let steps = format!(
            "<recv request=\"BYE\"><action>{set}{action}<log message=\"left out\"/></action></recv>{OK}\
             <Reference variables=\"n,t\"/>"
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
        assert_eq!(stage.count(counter), both, "{action}");
        assert_eq!(stage.count(Counter::Failed), both, "{action}");
        assert_eq!(stage.count(Counter::Successful), 2 - both, "{action}");
    }
}

#[test]
fn a_header_without_a_value_is_not_there_where_it_is_checked() {
    let steps = "<recv request=\"BYE\"><action><ereg regexp=\".*\" search_in=\"hdr\" \
                 header=\"X:\" check_it=\"true\" assign_to=\"x\"/></action></recv>\
                 <Reference variables=\"x\"/>"
        .to_owned()
        + OK;
    for (value, failed) in [("", 1), ("y", 0)] {
        let mut stage = Stage::new(&steps, Settings::default());
        stage.receive(&request("BYE", "c", 1).replace("CSeq", &format!("X:{value}\nCSeq")));
        assert_eq!(
            stage.count(Counter::RegexpHeaderNotFound),
            failed,
            "{value}"
        );
        assert_eq!(stage.count(Counter::Failed), failed, "{value}");
    }
}

#[test]
fn only_what_was_received_can_fail_a_call() {
    let check = "<action><assign assign_to=\"n\" value=\"1\"/><log message=\"done\"/>\
                 <test variable=\"n\" compare=\"equal\" value=\"2\" check_it=\"true\"/>\
                 <log message=\"left out\"/></action>";
    let (message, command) = (send("MESSAGE", ""), COMMAND);
    let ok = "<recv response=\"200\"/>";
    for (steps, failed) in [
        (
            message.replace("</send>", &format!("{check}</send>")) + ok,
            0,
        ),
        (format!("<nop>{check}</nop>{message}{ok}"), 0),
        (
            format!("{message}{ok}<pause milliseconds=\"5\">{check}</pause>"),
            0,
        ),
        (
            command.replace("</sendCmd>", &format!("{check}</sendCmd>")) + &message + ok,
            0,
        ),
        (format!("{message}<recv response=\"200\">{check}</recv>"), 1),
        (format!("{message}{ok}<recvCmd>{check}</recvCmd>"), 1),
    ] {
        let mut stage = Stage::new(&steps, Settings::default());
        stage.start();
        stage.receive(&answer(200, 1, 1, "MESSAGE"));
        stage.wait(10);
        let command = b"Call-ID: 1-0@127.0.0.1\r\n\r\n";
        if steps.contains("<recvCmd") {
            stage.calls.receive_command(0, command, &mut stage.out);
        }
        let (events, count) = (stage.events(), |counter| stage.count(counter));
        assert_eq!(count(Counter::TestDoesntMatch), failed, "{steps}");
        assert_eq!(count(Counter::Failed), failed, "{steps}");
        assert_eq!(count(Counter::Successful), 1 - failed, "{steps}");
        // What stands before it is done in either case, and what stands behind it is not.
        let logs = events.iter().filter_map(|event| match event {
            Event::Log(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        });
        assert_eq!(logs.collect::<Vec<_>>(), ["done"], "{steps}");
    }
}

#[test]
fn the_actions_of_a_send_look_at_what_was_sent() {
    let find = "<action><ereg regexp=\"z9hG4bK[-0-9]*\" search_in=\"msg\" assign_to=\"msg\"/>\
                <ereg regexp=\"[0-9]+\" search_in=\"hdr\" header=\"CSeq:\" assign_to=\"hdr\"/>\
                <ereg regexp=\"b[0-9]\" search_in=\"body\" assign_to=\"body\"/></action>";
    let first = send("MESSAGE", "lost=\"LOST\"")
        .replace("\n]]>", "\n\nb7\n]]>")
        .replace("</send>", &format!("{find}</send>"));
    for transport in [Transport::Udp, Transport::Tcp] {
        for lost in ["0", "100"] {
            let settings = Settings {
                transport,
                ..Settings::default()
            };
            let steps = first.replace("LOST", lost)
                + &send("MESSAGE", "").replace("CSeq:", "X: [$msg] [$hdr] [$body]\nCSeq:");
            let mut stage = Stage::new(&steps, settings);
            stage.start();
            let sent = stage.sent();
            let last = sent.last().unwrap();
            assert!(last.contains("X: z9hG4bK-0-1-0 1 b7\r\n"), "{lost}: {last}");
        }
    }
}

#[test]
fn a_number_is_no_text_to_compare_or_to_search() {
    let set = "<assign assign_to=\"n\" value=\"1\"/>";
    for (action, left) in [
        (
            "<strcmp assign_to=\"v\" variable=\"n\" value=\"1.000000\"/>",
            "-49.000000",
        ),
        ("<strcmp assign_to=\"v\" variable=\"n\" value=\"\"/>", ""),
        (
            "<ereg regexp=\"1\" search_in=\"var\" variable=\"n\" assign_to=\"v\"/>",
            "",
        ),
        (
            "<test assign_to=\"b\" variable=\"n\" compare=\"equal\" value=\"1\"/>\
             <ereg regexp=\"^.*$\" search_in=\"var\" variable=\"b\" assign_to=\"v\"/>",
            "",
        ),
        (
            "<assign assign_to=\"v\" variable=\"n\"/><trim assign_to=\"v\"/>",
            "",
        ),
    ] {
        let sent = left_in_v(&format!("{set}{action}"), Vec::new(), "X: [$v];");
        assert!(
            sent.contains(&format!("X: {left};\r\n")),
            "{action}: {sent}"
        );
    }
}

#[test]
fn an_outcome_that_is_wrong_is_not_kept() {
    for (set, action, left) in [
        (
            "<assign assign_to=\"n\" value=\"1\"/>",
            "<test assign_to=\"v\" variable=\"n\" compare=\"equal\" value=\"2\" CHECK/>",
            "false",
        ),
        (
            "<assignstr assign_to=\"t\" value=\"a\"/>",
            "<strcmp assign_to=\"v\" variable=\"t\" value=\"b\" CHECK/>",
            "-1.000000",
        ),
    ] {
        let set = format!("{set}<assignstr assign_to=\"v\" value=\"before\"/>");
        for (check, left) in [("", left), ("check_it=\"true\"", "before")] {
            let actions = format!("{set}{}", action.replace("CHECK", check));
            let sent = left_in_v(&actions, Vec::new(), "X: [$v];");
            assert!(
                sent.contains(&format!("X: {left};\r\n")),
                "{actions}: {sent}"
            );
        }
    }
}

#[test]
fn a_number_has_nothing_behind_it() {
    for (text, left) in [(" 5", "5.000000"), ("5 ", "7.000000"), ("5x", "7.000000")] {
        let actions = format!(
            "<assignstr assign_to=\"t\" value=\"{text}\"/><assign assign_to=\"v\" value=\"7\"/>\
             <todouble assign_to=\"v\" variable=\"t\"/>"
        );
        let sent = left_in_v(&actions, Vec::new(), "X: [$v];");
        assert!(sent.contains(&format!("X: {left};\r\n")), "{text}: {sent}");
    }
}

#[test]
fn every_warning_is_counted() {
    let steps = "<recv request=\"BYE\"><action><warning message=\"w\"/>\
                 <assignstr assign_to=\"t\" value=\"x\"/>\
                 <assign assign_to=\"v\" value=\"7\"/><todouble assign_to=\"v\" variable=\"t\"/>\
                 <ereg regexp=\"absent\" search_in=\"msg\" check_it=\"true\" assign_to=\"v\"/>\
                 </action></recv><recv request=\"ACK\"/>";
    let mut stage = Stage::new(steps, Settings::default());
    stage.receive(&request("BYE", "c", 1));
    stage.receive(&request("INFO", "c", 2));
    stage.receive("rubbish\n\n");
    let is_warning = |event: &&Event| matches!(event, Event::Warning(_));
    let told = stage.events().iter().filter(is_warning).count() as u64;
    assert_eq!((told, stage.count(Counter::Warnings)), (5, 5));
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

/// The texts of `<log>` since the last time.
fn logs(stage: &mut Stage) -> Vec<String> {
    let events = stage.events().into_iter();
    let texts = events.filter_map(|event| match event {
        Event::Log(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn a_text_names_the_step_at_which_the_call_stands() {
    let log = "<action><index assign_to=\"i\"/><log message=\"[$i] [branch] [branch-1] [msg_index]\"/>\
               </action>";
    let steps = send("INVITE", "").replace("</send>", &format!("{log}</send>"))
        + &format!(
            "<recv response=\"100\" optional=\"true\">{log}</recv>\
             <recv response=\"180\" optional=\"true\">{log}</recv>\
             <recv response=\"200\">{log}</recv><nop>{log}</nop>\
             <pause milliseconds=\"5\">{log}</pause>"
        );
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    // Past the 100, then at the step itself.
    stage.receive(&answer(180, 1, 1, "INVITE"));
    stage.receive(&answer(200, 1, 1, "INVITE"));
    assert_eq!(
        logs(&mut stage),
        [
            " z9hG4bK-0-1--1 z9hG4bK-0-1--2 -2",
            "1.000000 z9hG4bK-0-1-0 z9hG4bK-0-1--1 -2",
            "3.000000 z9hG4bK-0-1-2 z9hG4bK-0-1-1 -2",
            "4.000000 z9hG4bK-0-1-3 z9hG4bK-0-1-2 -2",
            "5.000000 z9hG4bK-0-1-4 z9hG4bK-0-1-3 -2",
        ]
    );
}

/// Why the run ended, if it did.
fn fatal(stage: &mut Stage) -> Option<String> {
    stage.events().into_iter().find_map(|event| match event {
        Event::Fatal(why) => Some(why),
        _ => None,
    })
}

#[test]
fn a_jump_that_leads_nowhere_ends_the_run() {
    for (jump, why) in [
        ("value=\"1\"", Some("a <jump> at step 1 to itself")),
        ("value=\"1.9\"", Some("a <jump> at step 1 to itself")),
        (
            "value=\"-1\"",
            Some("a <jump> to step -1, which is not from 0 to 3"),
        ),
        (
            "value=\"4\"",
            Some("a <jump> to step 4, which is not from 0 to 3"),
        ),
        // Behind the last one, and to the last one.
        ("value=\"3\"", None),
        ("value=\"2\"", None),
    ] {
        let steps =
            send("MESSAGE", "") + &format!("<nop><action><jump {jump}/></action></nop><nop/>");
        let mut stage = Stage::new(&steps, Settings::default());
        stage.start();
        let (ended, found) = (stage.count(Counter::Successful), fatal(&mut stage));
        assert_eq!(found.is_some(), why.is_some(), "{jump}: {found:?}");
        assert!(
            found
                .unwrap_or_default()
                .starts_with(why.unwrap_or_default()),
            "{jump}"
        );
        assert_eq!(ended, u64::from(why.is_none()), "{jump}");
    }
}

#[test]
fn a_line_that_is_no_number_ends_the_run() {
    let file = InjectionFile::parse("f", b"SEQUENTIAL\nann\nben\n").unwrap();
    for (line, found) in [
        ("1", Some("X: ben;")),
        (" 1", Some("X: ben;")),
        ("-1", Some("X: ;")),
        ("7", Some("X: ;")),
        ("1 ", None),
        ("1x", None),
        ("ben", None),
    ] {
        let set = format!("<action><assignstr assign_to=\"v\" value=\"{line}\"/></action>");
        let field = "X: [field0 line=\"[$v]\"];";
        let message = send("MESSAGE", "").replace("CSeq:", &format!("{field}\nCSeq:"));
        let log = format!(
            "<action><log message=\"{}\"/></action>",
            field.replace('"', "&quot;")
        );
        let command = format!("<sendCmd><![CDATA[\nCall-ID: [call_id]\n{field}\n]]></sendCmd>");
        for (step, is_log, is_command) in [
            (message.clone(), false, false),
            (format!("<nop>{log}</nop>{}", send("BYE", "")), true, false),
            (command + &send("BYE", ""), false, true),
        ] {
            let steps = format!("<nop>{set}</nop>{step}<Reference variables=\"v,v\"/>");
            let mut stage = Stage::with_files(&steps, Settings::default(), vec![file.clone()]);
            stage.start();
            let sent = stage.sent().concat();
            let events = stage.events();
            let is_fatal = |event: &Event| matches!(event, Event::Fatal(why) if why.contains("is no number of a line"));
            assert_eq!(
                events.iter().any(is_fatal),
                found.is_none(),
                "{line}: {events:?}"
            );
            let text = events.iter().find_map(|event| match event {
                Event::Log(text) if is_log => Some(String::from_utf8_lossy(text).into_owned()),
                Event::ToTwin { text, .. } if is_command => {
                    Some(String::from_utf8_lossy(text).into_owned())
                }
                _ => None,
            });
            let text = if is_log || is_command {
                text
            } else {
                Some(sent.clone())
            };
            match found {
                Some(found) => assert!(text.unwrap().contains(found), "{line}: {sent}"),
                None => assert!(sent.is_empty() && !(is_log && text.is_some()), "{line}"),
            }
        }
    }
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
