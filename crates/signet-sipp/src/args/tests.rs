use super::*;

fn read(line: &str) -> Result<Args, String> {
    Args::read(line.split_whitespace().map(OsString::from))
}

#[test]
fn a_usual_line_is_read() {
    let args = read(
        "-sf dir/x.xml 127.0.0.1:5070 -m 10 -r 2.5 -rp 2s -t tn -inf a.csv -inf b.csv \
         -infindex a.csv 1 -key k v -set g 1 -default_behaviors all,-bye -timeout 20 -nostdin \
         -trace_stat -fd 1 -stf s.csv -recv_timeout 3s -max_retrans 4",
    )
    .unwrap();
    assert_eq!(args.remote.as_deref(), Some("127.0.0.1:5070"));
    assert_eq!(args.scenario_name(), "x");
    assert_eq!((args.calls_max, args.rate), (Some(10), 2.5));
    assert_eq!(args.rate_period_ms, 2_000);
    assert_eq!(args.transport, sip_msg::Transport::Tcp);
    assert_eq!(args.mode, Mode::PerCall);
    assert_eq!(args.files, ["a.csv", "b.csv"]);
    assert_eq!(args.indexes, [("a.csv".to_owned(), 1)]);
    assert!(!args.behaviors.bye && args.behaviors.abort_unexpected);
    assert_eq!(args.timeout_ms, Some(20_000));
    assert_eq!(args.recv_timeout_ms, Some(3_000));
    assert_eq!(
        (args.retransmissions_max, args.invite_retransmissions_max),
        (9, 5)
    );
    assert_eq!(args.any_retransmissions_max, 4);
    assert!(args.traces.stat && !args.reads_keys);
}

#[test]
fn mistakes_are_named() {
    for (line, what) in [
        ("-foo", "-foo is no option"),
        ("-oocsf x", "-oocsf is not covered"),
        ("-3pcc x -master m", "-3pcc does not go with"),
        ("-master m -slave s", "-master or -slave once"),
        ("-slave s", "-master and -slave need the addresses"),
        ("-slave_cfg x", "-slave_cfg needs the name"),
        ("-t s1", "-t s1 is not covered"),
        ("-t x1", "-t x1 is no transport"),
        ("-r", "-r needs a value"),
        ("-r x", "-r x: a number"),
        ("-r -1", "-r -1: a number"),
        ("-p 70000", "-p 70000: a whole number"),
        ("-t ui", "-t ui needs"),
        ("-infindex a 0", "-infindex a: give the file"),
        ("-timeout_error", "-timeout_error needs -timeout"),
        ("a b", "b: the remote host was given already, as a"),
        ("-default_behaviors foo", "-default_behaviors foo"),
        ("-periodic_rtd", "-periodic_rtd is not covered"),
        ("-users 1000001", "-users 1000001: a number from 0"),
        ("-users 5 -l 9", "-l does not go with -users"),
        (
            "-max_reconnect -2",
            "-max_reconnect -2: a whole number, or -1",
        ),
        ("-cp 8888", "-cp is not covered: there is no control port"),
        (
            "-ci 127.0.0.1",
            "-ci is not covered: there is no control port",
        ),
        ("-reconnect_close no", "-reconnect_close no: true or false"),
        ("-log_overwrite FALSE", "-log_overwrite: only"),
        (
            "-inf a/x.csv -infindex b/x.csv 0",
            "-infindex b/x.csv: give the file",
        ),
        (
            "-default_behaviors -none",
            "-default_behaviors -none: none is expected",
        ),
        (
            "-default_behaviors +none",
            "-default_behaviors +none: none is expected",
        ),
    ] {
        let error = read(line).unwrap_err();
        assert!(error.starts_with(what), "{line}: {error}");
    }
}

#[test]
fn default_behaviors_are_those_that_are_named() {
    for (list, bye, abort_unexpected, ping_reply) in [
        ("all", true, true, true),
        ("none", false, false, false),
        ("bye", true, false, false),
        ("-bye", false, false, false),
        ("all,-bye", false, true, true),
        ("abortunexp,pingreply", false, true, true),
        ("bye,none", false, false, false),
        ("none,bye", true, false, false),
        ("+bye", true, false, false),
        ("all,", true, true, true),
        (",+pingreply,,+abortunexp", false, true, true),
    ] {
        let behaviors = read(&format!("-default_behaviors {list}"))
            .unwrap()
            .behaviors;
        let expected = Behaviors {
            bye,
            abort_unexpected,
            ping_reply,
        };
        assert_eq!(behaviors, expected, "{list}");
    }
    assert_eq!(read("").unwrap().behaviors, Behaviors::default());
}

#[test]
fn as_many_calls_are_open_as_the_pauses_of_three_last() {
    for (line, pauses_ms, rate, max) in [
        ("", 0, 10.0, 30),
        ("", 60_000, 100.0, 18_000),
        ("-d 90000", 60_000, 100.0, 27_000),
        ("-rp 500", 2_000, 10.0, 120),
        ("", 0, 0.1, 1),
        ("", 0, 0.0, 1),
        ("-l 7", 60_000, 100.0, 7),
        ("-l 0", 60_000, 100.0, u64::MAX),
        ("-users 5", 60_000, 100.0, 5),
        ("-l 9 -users 5", 60_000, 100.0, 5),
    ] {
        let args = read(line).unwrap();
        assert_eq!(args.open_calls(pauses_ms, rate), max, "{line} {rate}");
    }
}

#[test]
fn a_transport_has_any_case() {
    for (text, transport, mode) in [
        ("U1", sip_msg::Transport::Udp, Mode::One),
        ("tN", sip_msg::Transport::Tcp, Mode::PerCall),
        ("L1", sip_msg::Transport::Tls, Mode::One),
    ] {
        let args = read(&format!("-t {text}")).unwrap();
        assert_eq!((args.transport, args.mode), (transport, mode), "{text}");
    }
}

#[test]
fn reconnections_are_none_so_many_or_without_bound() {
    for (line, max) in [
        ("", Some(0)),
        ("-max_reconnect 0", Some(0)),
        ("-max_reconnect 7", Some(7)),
        ("-max_reconnect -1", None),
    ] {
        assert_eq!(read(line).unwrap().reconnects_max, max, "{line}");
    }
}

#[test]
fn a_word_that_is_true_or_false_has_any_case() {
    for (word, closes) in [
        ("true", true),
        ("True", true),
        ("TRUE", true),
        ("1", true),
        ("false", false),
        ("FALSE", false),
        ("0", false),
    ] {
        let args = read(&format!("-reconnect_close {word} -log_overwrite True host")).unwrap();
        assert_eq!(args.reconnect_closes, closes, "{word}");
        let args = read(&format!("-sendbuffer_warn {word} host")).unwrap();
        assert_eq!(args.remote.as_deref(), Some("host"), "{word}");
    }
}

#[test]
fn a_file_with_an_index_may_go_by_the_end_of_its_path() {
    for name in ["dir/users.csv", "users.csv"] {
        let args = read(&format!("-inf dir/users.csv -infindex {name} 2")).unwrap();
        assert_eq!(args.indexes, [(name.to_owned(), 2)]);
    }
}
