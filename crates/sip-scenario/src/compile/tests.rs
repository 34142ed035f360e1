use super::*;

const HEAD: &str = "<?xml version=\"1.0\"?>\n<scenario name=\"t\">\n";
const SEND: &str = "<send><![CDATA[\nOPTIONS sip:a SIP/2.0\nCall-ID: [call_id]\n]]></send>\n";

fn compile(steps: &str, options: CompileOptions<'_>) -> Result<Program, String> {
    let file = format!("{HEAD}{steps}</scenario>\n");
    Program::compile("s.xml", file.as_bytes(), options).map_err(|problem| problem.to_string())
}

fn refuse(steps: &str) -> String {
    compile(steps, CompileOptions::default()).unwrap_err()
}

#[test]
fn mistakes_have_line_and_column() {
    // Line 3 is the first of the steps.
    for (steps, expected) in [
        ("<foo/>", "s.xml:3:1: <foo> is no step"),
        ("<sendCmd/>", "s.xml:3:1: <sendCmd> needs the command"),
        (
            "<CallLengthRepartition value=\"5, x\"/>",
            "s.xml:3:31: write growing",
        ),
        (
            "<nop><action><closecon/></action></nop>",
            "s.xml:3:14: <closecon> is not covered",
        ),
        (
            "<nop><action><exec rtp_stream=\"a\"/></action></nop>",
            "s.xml:3:20: <exec rtp_stream=...> is not covered",
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\nX: [$a,b]\n]]></send>",
            "s.xml:5:6: \"a,b\" is no name of a variable",
        ),
        (
            "<recv response=\"200\" advance_state=\"false\"/>",
            "s.xml:3:22: advance_state",
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\n[authentication aka_K=1]\n]]></send>",
            "s.xml:5:17: aka_K is not covered: AKA challenges",
        ),
        ("<init/>", "s.xml:3:1: <init> is not covered"),
        ("<send/>", "s.xml:3:1: <send> needs the message"),
        (
            "<recv response=\"2xx\"/>",
            "s.xml:3:17: a response is a status code",
        ),
        (
            "<recv response=\"200\" request=\"A\"/>",
            "s.xml:3:22: <recv> has request or",
        ),
        (
            "<recv response=\"200\" optional=\"yes\"/>",
            "s.xml:3:32: optional is",
        ),
        (
            "<recv response=\"200\" next=\"x\"/>",
            "s.xml:3:28: there is no <label id=\"x\"/>",
        ),
        (
            "<recv response=\"200\" timeout=\"1s\"/>",
            "s.xml:3:31: timeout is a whole number",
        ),
        (
            "<recv response=\"200\" response_txn=\"t\"/>",
            "s.xml:3:36: no <send> has start_txn",
        ),
        (
            "<recv response=\"200\" chance=\"2\"/>",
            "s.xml:3:1: chance is from 0 to 1",
        ),
        (
            "<recv request=\"(A\" regexp_match=\"true\"/>",
            "s.xml:3:18: the regular",
        ),
        (
            "<pause milliseconds=\"x\"/>",
            "s.xml:3:22: milliseconds is a number",
        ),
        (
            "<pause distribution=\"foo\"/>",
            "s.xml:3:22: the distribution",
        ),
        (
            "<pause distribution=\"uniform\" min=\"1\"/>",
            "s.xml:3:1: distribution=\"uniform\" needs max",
        ),
        ("<label/>", "s.xml:3:1: <label> needs id"),
        (
            "<label id=\"_unexp.main\"/>",
            "s.xml:3:12: the label _unexp.main is not covered",
        ),
        (
            "<label id=\"a\"/>\n<label id=\"a\"/>",
            "s.xml:4:12: the label a is here twice",
        ),
        (
            "<Global variables=\"a,,b\"/>",
            "s.xml:3:22: a name is missing",
        ),
        (
            "<nop><action><foo/></action></nop>",
            "s.xml:3:14: <foo> is no action",
        ),
        (
            "<nop><action><exec play_pcap_audio=\"a\"/></action></nop>",
            "s.xml:3:20: <exec play_pcap_audio=...> is not covered",
        ),
        (
            "<nop><action><log/></action></nop>",
            "s.xml:3:14: <log> needs message",
        ),
        (
            "<nop><action><log message=\"a [foo]\"/></action></nop>",
            "s.xml:3:31: the keyword [foo] is not known",
        ),
        (
            "<nop><action><ereg regexp=\"a(\" search_in=\"msg\" assign_to=\"a\"/></action></nop>",
            "s.xml:3:30: the regular expression \"a(\"",
        ),
        (
            "<nop><action><ereg regexp=\"a\" search_in=\"hdr\"/></action></nop>",
            "s.xml:3:31: search_in=\"hdr\" needs header",
        ),
        (
            "<nop><action><divide assign_to=\"a\" value=\"0\"/></action></nop>",
            "s.xml:3:14: a division by zero",
        ),
        (
            "<nop><action><lookup assign_to=\"a\" file=\"f\" key=\"k\"/></action></nop>",
            "s.xml:3:42: no injection file \"f\"",
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\n  X: [field0]\n]]></send>",
            "s.xml:5:7: [field0] without an injection file",
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\n  X: [service x=1]\n]]></send>",
            "s.xml:5:7: [service] takes no parameters",
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\n  X: [rtpstream_x]\n]]></send>",
            "s.xml:5:7: [rtpstream_x] is not covered",
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\n[authentication]\n[authentication]\n]]></send>",
            "s.xml:6:16: [authentication] may stand once",
        ),
        (
            "<send start_txn=\"a\"><![CDATA[\nSIP/2.0 200 OK\n]]></send>",
            "s.xml:3:1: a response starts no transaction",
        ),
    ] {
        let error = refuse(&format!("{steps}\n{SEND}"));
        assert!(error.starts_with(expected), "{steps}\n{error}\n{expected}");
    }
}

/// The warnings about steps that compile.
fn warnings(steps: &str, options: CompileOptions<'_>) -> Vec<String> {
    let program =
        compile(&format!("{steps}\n{SEND}"), options).unwrap_or_else(|e| panic!("{steps}: {e}"));
    program.warnings().iter().map(ToString::to_string).collect()
}

#[test]
fn what_sipp_passes_over_is_told_with_its_place() {
    for (steps, expected) in [
        ("<recv response=\"200\"/>", None),
        ("<recv/>", Some("s.xml:3:1: <recv> without request")),
        (
            "<recv response=\"200\" foo=\"1\"/>",
            Some("s.xml:3:22: the attribute \"foo\" has no meaning in <recv>"),
        ),
        (
            "<recv response=\"200\" rtd=\"a\" rtd=\"b\"/>",
            Some("s.xml:3:30: the attribute \"rtd\" is here twice"),
        ),
        (
            "<recv response=\"200\">text</recv>",
            Some("s.xml:3:22: text"),
        ),
        (
            "<recv response=\"200\"><nop/></recv>",
            Some("s.xml:3:22: <nop> inside <recv> is passed over"),
        ),
        ("<timewait/>", Some("s.xml:3:1: <timewait> without")),
        (
            "<send timeout=\"5\"><![CDATA[\nA sip:b SIP/2.0\n]]></send>",
            Some("s.xml:3:7: the timeout of a <send> is passed over"),
        ),
        (
            "<recv request=\"A\"><action><jump value=\"0\"/></action></recv>",
            Some("s.xml:3:1: <jump> in a <recv> that is not optional"),
        ),
        (
            "<recv request=\"A\" optional=\"true\"><action><jump value=\"0\"/></action></recv><recv request=\"B\"/>",
            None,
        ),
        (
            "<CallLengthRepartition value=\"5, 3\"/>",
            Some("s.xml:3:31: the numbers do not grow"),
        ),
        (
            "<Global variables=\"a\"/><User variables=\"a\"/>",
            Some("s.xml:3:41: the variable a is declared twice"),
        ),
        (
            "<DefaultMessage id=\"bye\"/>",
            Some("s.xml:3:1: <DefaultMessage> is passed over"),
        ),
        (
            "<nop><action><exec int_cmd=\"a\"/></action></nop>",
            Some("s.xml:3:29: int_cmd is"),
        ),
        (
            "<nop><action><test assign_to=\"a\" variable=\"a\" compare=\"equal\" value=\"\"/></action></nop>",
            Some("s.xml:3:70: value is empty and counts as 0"),
        ),
        (
            "<nop><action><ereg regexp=\"a\" search_in=\"msg\" header=\"X\" assign_to=\"_\"/></action></nop>",
            Some("s.xml:3:47: header has no meaning"),
        ),
        (
            "<nop><action><ereg regexp=\"a\" assign_to=\"_\"/></action></nop>",
            None,
        ),
        (
            "<nop><action><ereg regexp=\"a\" assign_to=\"a,a\"/></action></nop>",
            Some("s.xml:3:42: 2 variables for the match and 0"),
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\n  X: [service+1]\n]]></send>",
            Some("s.xml:5:7: [service] takes no offset"),
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\n  X: [call_id\n]]></send>",
            Some("s.xml:5:6: the bracket is not closed"),
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\n[authentication foo=1]\n]]></send>",
            Some("s.xml:5:17: the parameter \"foo\" of [authentication]"),
        ),
        (
            "<send><![CDATA[\nA sip:b SIP/2.0\nX: [last_From:value]\n]]></send>",
            Some("s.xml:5:5: [last_From:value] is never there"),
        ),
    ] {
        let told = warnings(steps, CompileOptions::default());
        match expected {
            None => assert!(told.is_empty(), "{steps}: {told:?}"),
            Some(expected) => {
                assert_eq!(told.len(), 1, "{steps}: {told:?}");
                assert!(
                    told[0].starts_with(expected),
                    "{steps}\n{}\n{expected}",
                    told[0]
                );
            }
        }
    }
}

#[test]
fn media_is_passed_over_where_that_is_asked_for() {
    let no_media = CompileOptions {
        no_media: true,
        ..CompileOptions::default()
    };
    for action in [
        "<exec play_pcap_audio=\"a.pcap\"/>",
        "<exec play_pcap_image=\"a.pcap\"/>",
        "<exec play_pcap_video=\"a.pcap\"/>",
        "<exec play_dtmf=\"1\"/>",
        "<exec rtp_stream=\"a.wav\"/>",
        "<rtp_echo value=\"1\"/>",
    ] {
        let steps = format!("<nop><action>{action}</action></nop>");
        let refusal = refuse(&format!("{steps}{SEND}"));
        assert!(refusal.contains("-no_media"), "{action}: {refusal}");
        let told = warnings(&steps, no_media);
        assert_eq!(told.len(), 1, "{action}: {told:?}");
        assert!(
            told[0].contains("is passed over (-no_media)"),
            "{}",
            told[0]
        );
    }
}

#[test]
fn commands_go_by_name_only_where_instances_have_names() {
    let names = CompileOptions {
        names_peers: true,
        ..CompileOptions::default()
    };
    let command =
        |dest: &str| format!("<sendCmd {dest}><![CDATA[\nCall-ID: [call_id]\n]]></sendCmd>");
    let steps = format!(
        "{}{}<recvCmd src=\"m\"/>{SEND}",
        command("dest=\"a\""),
        command("dest=\"b\"")
    );
    let plain = compile(&steps, CompileOptions::default()).unwrap();
    assert!(plain.peers().is_empty());
    assert_eq!(
        (plain.role(), plain.twin()),
        (Role::Client, Some(Twin::Tells))
    );
    assert_eq!(compile(&steps, names).unwrap().peers(), ["a", "b"]);
    let told = format!("<recvCmd src=\"m\"/>{SEND}");
    let program = compile(&told, names).unwrap();
    assert_eq!(
        (program.role(), program.twin()),
        (Role::Commanded, Some(Twin::IsTold))
    );
    assert!(program.sends_first());
    assert!(compile(&format!("<recvCmd/>{SEND}"), names).is_err());
    assert!(compile(&format!("{}{SEND}", command("")), names).is_err());
}

#[test]
fn a_variable_that_is_used_once_is_a_slip() {
    let assign = "<nop><action><assign assign_to=\"a\" value=\"1\"/></action></nop>";
    let error = refuse(&format!("{SEND}{assign}"));
    assert!(
        error.contains(": the variable a is used only once"),
        "{error}"
    );
    let steps = format!("{SEND}{assign}<Reference variables=\"a\"/>");
    assert!(compile(&steps, CompileOptions::default()).is_ok());
}

#[test]
fn optional_messages_need_a_mandatory_one_behind_them() {
    let steps = format!("{SEND}<recv response=\"100\" optional=\"true\"/>\n<nop/>");
    assert!(refuse(&steps).contains("an optional <recv> without a mandatory"));
    // At the end nothing more is to be done.
    let steps = format!("{SEND}<recv response=\"100\" optional=\"true\"/>");
    assert!(compile(&steps, CompileOptions::default()).is_ok());
}

#[test]
fn a_scenario_must_do_something() {
    assert!(refuse("<nop/>").contains("neither sends nor expects"));
    let other = Program::compile("s.xml", b"<foo/>", CompileOptions::default());
    assert_eq!(
        other.unwrap_err().to_string(),
        "s.xml:1:1: <foo> is no scenario; write <scenario name=\"...\">"
    );
}

#[test]
fn what_the_command_line_gives_is_known() {
    let steps =
        "<send><![CDATA[\nA sip:b SIP/2.0\nX: [colour] [$g]\n]]></send><Global variables=\"g\"/>";
    let keys = [("colour".to_owned(), b"blue".to_vec())];
    let set = [("g".to_owned(), b"1".to_vec())];
    let options = CompileOptions {
        keys: &keys,
        set: &set,
        ..CompileOptions::default()
    };
    assert!(compile(steps, options).is_ok());
    let set = [("h".to_owned(), b"1".to_vec())];
    let options = CompileOptions {
        keys: &keys,
        set: &set,
        ..CompileOptions::default()
    };
    assert!(compile(steps, options).unwrap_err().contains("-set h"));
}

#[test]
fn fields_must_be_in_the_file() {
    let files = [InjectionFile::parse("u.csv", b"SEQUENTIAL\na;b\n").unwrap()];
    let options = CompileOptions {
        files: &files,
        ..CompileOptions::default()
    };
    let with = |keyword: &str| {
        let steps = format!("<send><![CDATA[\nA sip:b SIP/2.0\nX: {keyword}\n]]></send>");
        compile(&steps, options)
    };
    assert!(with("[field1] [field0 file=\"u.csv\" line=3]").is_ok());
    let error = with("[field2]").unwrap_err();
    assert!(
        error.starts_with("s.xml:5:5: [field2]: no line of u.csv"),
        "{error}"
    );
    let error = with("[field0 file=v.csv]").unwrap_err();
    assert!(
        error.starts_with("s.xml:5:17: no injection file \"v.csv\""),
        "{error}"
    );
    let program = with("[field0 foo=1]").unwrap();
    let warning = program.warnings()[0].to_string();
    assert!(warning.contains("the parameter \"foo\""), "{warning}");
}

#[test]
fn files_are_read_where_the_scenario_names_them() {
    let read = |name: &str| match name {
        "body.txt" => Ok(b"hello".to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let options = CompileOptions {
        read_file: Some(&read),
        ..CompileOptions::default()
    };
    let with = |name: &str| {
        let steps =
            format!("<send><![CDATA[\nA sip:b SIP/2.0\nX: [file name=\"{name}\"]\n]]></send>");
        compile(&steps, options)
    };
    assert!(with("body.txt").is_ok());
    assert!(with("body\\x2Etxt").is_ok());
    let error = with("[call_id].txt").unwrap_err();
    assert!(
        error.starts_with("s.xml:5:16: the name of a file holds no keyword: files are read once"),
        "{error}"
    );
    let error = with("none.txt").unwrap_err();
    assert!(
        error.starts_with("s.xml:5:16: cannot read none.txt"),
        "{error}"
    );
}

#[test]
fn a_destination_that_cannot_be_is_refused() {
    let with = |host: &str, port: &str, protocol: &str, is_stream: bool| {
        let steps = format!(
            "<nop><action><setdest host=\"{host}\" port=\"{port}\" protocol=\"{protocol}\"/>\
             </action></nop>{SEND}"
        );
        let options = CompileOptions {
            is_stream,
            ..CompileOptions::default()
        };
        compile(&steps, options)
    };
    for (host, port, protocol, is_stream, why) in [
        ("127.0.0.1", "5060", "udp", false, None),
        ("[service]", "[remote_port]", "[transport]", false, None),
        ("::1", "5060", "UDP", false, None),
        (
            "host.example",
            "5060",
            "udp",
            false,
            Some("the host of <setdest> is an IP address"),
        ),
        (
            "127.0.0.1",
            "x",
            "udp",
            false,
            Some("the port of <setdest> is a number"),
        ),
        (
            "127.0.0.1",
            "5060",
            "tcp",
            false,
            Some("the protocol of <setdest>"),
        ),
        (
            "[service]",
            "5060",
            "tcp",
            true,
            Some("<setdest> is not covered over TCP and TLS"),
        ),
    ] {
        let found = with(host, port, protocol, is_stream);
        match (found, why) {
            (Ok(_), None) => {}
            (Err(error), Some(why)) => {
                assert!(error.starts_with(&format!("s.xml:3:14: {why}")), "{error}");
            }
            (found, why) => panic!("{host}: {:?}, {why:?}", found.err()),
        }
    }
}

#[test]
fn a_body_ends_as_it_does_in_the_file() {
    let template = |steps: &str, index: usize| {
        let program = compile(steps, CompileOptions::default()).unwrap();
        match &program.steps[index].what {
            crate::program::What::Send(send) => send.template.literal().unwrap().to_vec(),
            crate::program::What::SendCommand(send) => send.template.literal().unwrap().to_vec(),
            _ => panic!("{steps}"),
        }
    };
    let head = "A sip:b SIP/2.0\n";
    for (text, end, command_end) in [
        (format!("\n{head}\nv=0\n"), "\r\n\r\nv=0\r\n", "\r\n\r\nv=0"),
        (
            format!("\n{head}\nv=0\n  "),
            "\r\n\r\nv=0\r\n",
            "\r\n\r\nv=0",
        ),
        (format!("\n{head}\nv=0"), "\r\n\r\nv=0", "\r\n\r\nv=0"),
        (format!("\n{head}\nv=0  "), "\r\n\r\nv=0", "\r\n\r\nv=0"),
        // Headers end with an empty line in any case.
        (head.to_owned(), "SIP/2.0\r\n\r\n", "SIP/2.0\r\n\r\n"),
        (
            head.trim_end().to_owned(),
            "SIP/2.0\r\n\r\n",
            "SIP/2.0\r\n\r\n",
        ),
    ] {
        let sent = template(&format!("<send><![CDATA[{text}]]></send>"), 0);
        assert!(sent.ends_with(end.as_bytes()), "{text:?}: {sent:?}");
        let steps = format!("<sendCmd><![CDATA[{text}]]></sendCmd>{SEND}");
        let sent = template(&steps, 0);
        assert!(sent.ends_with(command_end.as_bytes()), "{text:?}: {sent:?}");
    }
}

#[test]
fn no_input_makes_it_panic() {
    let good = format!(
        "{HEAD}{SEND}<recv response=\"200\" optional=\"true\"/><recv response=\"2\"><action>\
         <ereg regexp=\"a[b]{{2}}\" search_in=\"hdr\" header=\"X\" assign_to=\"1\"/></action></recv></scenario>"
    );
    let bytes = good.as_bytes();
    for cut in 0..bytes.len() {
        let _ = Program::compile("f", &bytes[..cut], CompileOptions::default());
        for byte in [0, b'<', b'"', b'[', b']', b'>', b'&', 0xff] {
            let mut changed = bytes.to_vec();
            changed[cut] = byte;
            let _ = Program::compile("f", &changed, CompileOptions::default());
        }
    }
}

#[test]
fn a_distribution_has_the_parameters_that_it_is_defined_for() {
    // The place is that of the value; a pause and a sample take the same ones.
    for (distribution, expected) in [
        (
            "gamma\" k=\"-1e17\" theta=\"1",
            "k of distribution=\"gamma\" is above 0, not -100000000000000000",
        ),
        (
            "gamma\" k=\"0\" theta=\"1",
            "k of distribution=\"gamma\" is above 0, not 0",
        ),
        (
            "gamma\" k=\"\" theta=\"1",
            "k of distribution=\"gamma\" is above 0, not 0",
        ),
        ("gamma\" k=\"NaN\" theta=\"1", "k is a number, not \"NaN\""),
        ("gamma\" k=\"inf\" theta=\"1", "k is a number, not \"inf\""),
        (
            "gamma\" k=\"1\" theta=\"-1",
            "theta of distribution=\"gamma\" is 0 or more, not -1",
        ),
        (
            "weibull\" lambda=\"1\" k=\"0",
            "k of distribution=\"weibull\" is above 0, not 0",
        ),
        (
            "weibull\" lambda=\"-1\" k=\"1",
            "lambda of distribution=\"weibull\" is 0 or more, not -1",
        ),
        (
            "pareto\" k=\"-0.5\" x_m=\"1",
            "k of distribution=\"pareto\" is above 0, not -0.5",
        ),
        (
            "pareto\" k=\"1\" x_m=\"-2",
            "x_m of distribution=\"pareto\" is 0 or more, not -2",
        ),
        (
            "gpareto\" shape=\"0\" scale=\"-1\" location=\"0",
            "scale of distribution=\"gpareto\" is 0 or more, not -1",
        ),
        (
            "exponential\" mean=\"-1",
            "mean of distribution=\"exponential\" is 0 or more, not -1",
        ),
        (
            "normal\" mean=\"-1\" stdev=\"-1",
            "stdev of distribution=\"normal\" is 0 or more, not -1",
        ),
        (
            "lognormal\" mean=\"1\" stdev=\"-1",
            "stdev of distribution=\"lognormal\" is 0 or more, not -1",
        ),
        (
            "negbin\" p=\"0\" n=\"1",
            "p of distribution=\"negbin\" is above 0 and at most 1, not 0",
        ),
        (
            "negbin\" p=\"1.5\" n=\"1",
            "p of distribution=\"negbin\" is above 0 and at most 1, not 1.5",
        ),
        (
            "negbin\" p=\"0.5\" n=\"0",
            "n of distribution=\"negbin\" is above 0 and at most 10000, not 0",
        ),
        (
            "negbin\" p=\"0.5\" n=\"10001",
            "n of distribution=\"negbin\" is above 0 and at most 10000, not 10001",
        ),
        (
            "uniform\" min=\"0\" max=\"inf",
            "max is a number, not \"inf\"",
        ),
        ("fixed\" value=\"NaN", "value is a number, not \"NaN\""),
    ] {
        let pause = format!("<pause distribution=\"{distribution}\"/>\n{SEND}");
        let (name, _) = expected.split_once(' ').unwrap();
        let before = format!(" {name}=\"");
        let column = 1 + pause.find(&before).unwrap() + before.len();
        assert_eq!(refuse(&pause), format!("s.xml:3:{column}: {expected}"));
        let sample = format!(
            "<nop><action><sample assign_to=\"1\" distribution=\"{distribution}\"/></action></nop>\n{SEND}"
        );
        assert!(refuse(&sample).ends_with(expected), "{distribution}");
    }
}

#[test]
fn the_ends_of_the_ranges_of_parameters_are_taken() {
    for distribution in [
        "gamma\" k=\"1e-9\" theta=\"0",
        "gamma\" k=\"1e17\" theta=\"1",
        "weibull\" lambda=\"0\" k=\"0.1",
        "pareto\" k=\"0.1\" x_m=\"0",
        "gpareto\" shape=\"-1\" scale=\"0\" location=\"-1",
        "exponential\" mean=\"0",
        "normal\" mean=\"-5\" stdev=\"0",
        "lognormal\" mean=\"-5\" stdev=\"0",
        "negbin\" p=\"1\" n=\"10000",
        "negbin\" p=\"1e-9\" n=\"0.5",
        "uniform\" min=\"5\" max=\"1",
        "fixed\" value=\"-1",
    ] {
        let steps = format!("<pause distribution=\"{distribution}\"/>\n{SEND}");
        compile(&steps, CompileOptions::default())
            .unwrap_or_else(|e| panic!("{distribution}: {e}"));
    }
}

#[test]
fn a_distribution_may_be_named_in_the_older_way() {
    for (pause, pauses_ms) in [
        ("normal=\"1\" mean=\"60\" stdev=\"15\"", 94),
        ("exponential=\"true\" mean=\"100\"", 460),
        ("lognormal=\"1\" mean=\"1\" stdev=\"0\"", 2),
        ("weibull=\"1\" lambda=\"10\" k=\"1\"", 46),
        ("pareto=\"1\" k=\"2\" x_m=\"5\"", 50),
        ("gamma=\"1\" k=\"100\" theta=\"1\"", 124),
        ("min=\"100\" max=\"200\"", 199),
        // The newer way is the one that counts.
        (
            "distribution=\"fixed\" value=\"7\" normal=\"1\" mean=\"60\" stdev=\"15\"",
            7,
        ),
    ] {
        let steps = format!("<pause {pause}/>\n{SEND}");
        let program = compile(&steps, CompileOptions::default()).unwrap();
        assert_eq!(program.pauses_ms(0), pauses_ms, "{pause}");
        if !pause.contains("distribution") {
            assert!(program.warnings().is_empty(), "{:?}", program.warnings());
        }
    }
    let error = refuse(&format!("<pause normal=\"1\" mean=\"60\"/>\n{SEND}"));
    assert_eq!(
        error,
        "s.xml:3:1: distribution=\"normal\" needs stdev=\"...\""
    );
}

#[test]
fn the_pauses_of_a_scenario_add_up() {
    let steps = format!(
        "{SEND}<pause milliseconds=\"60000\"/><pause/><pause variable=\"v\"/>\
         <pause milliseconds=\"-5\"/><timewait milliseconds=\"4000\"/><Reference variables=\"v\"/>"
    );
    let program = compile(&steps, CompileOptions::default()).unwrap();
    assert_eq!(program.pauses_ms(0), 64_000);
    assert_eq!(program.pauses_ms(1_500), 65_500);
}
