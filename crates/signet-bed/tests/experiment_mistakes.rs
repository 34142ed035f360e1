//! Mistakes in an experiment's file are told with line, column and remedy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use signet_bed::experiment::Experiment;

const SMALL: &str = r#"version = 1
name = "small"
title = "small"
question = "small?"
systems = ["signet"]

[short]
repeats = 1
warm_up_s = 1
measure_s = 1

[long]
repeats = 1
warm_up_s = 1
measure_s = 1

[[axis]]
name = "transport"
title = "transport"

[[axis.value]]
name = "udp"
title = "UDP"
set = { transport = "udp" }

[[axis.value]]
name = "tls"
title = "TLS"
set = { transport = "tls", caller_connection = "per-call", security = { suite = "tls13" } }

[[load]]
rates_per_s = [10]

[[load]]
peak = { failures_max = 0.01, guess_per_s = 10 }

[[drawing]]
title = "CPU time"
kind = "lines"
figure = "server_cpu_us"
x = "rate"
series = "transport"
unit = "us"

[[finding]]
statement = "TLS costs."
place = "here"
figure = "server_cpu_us"
of = { transport = "tls" }
than = { transport = "udp" }
yes_at = 1.1
no_at = 1.0

[[published]]
of = { transport = "udp" }
at = "peak"
figure = "rate_per_s"
value = 10
unit = "calls/s"
place = "here"
"#;

/// The error after a change of the text.
fn error_after(from: &str, to: &str) -> String {
    assert_eq!(SMALL.matches(from).count(), 1, "`{from}` is not there once");
    let text = SMALL.replacen(from, to, 1);
    match Experiment::from_text(Path::new("small.toml"), &text) {
        Ok(_) => panic!("`{to}` was taken"),
        Err(error) => error.to_string(),
    }
}

/// The line, from 1, that has this in it.
fn line_of(what: &str) -> usize {
    1 + SMALL.lines().position(|line| line.contains(what)).unwrap()
}

#[track_caller]
fn told(from: &str, to: &str, line: usize, what: &str, remedy: &str) {
    let error = error_after(from, to);
    assert!(
        error.contains(&format!("small.toml:{line}:")),
        "line {line}: {error}"
    );
    assert!(error.contains(what), "{what}: {error}");
    assert!(error.contains(remedy), "{remedy}: {error}");
}

#[test]
fn without_a_mistake_it_is_taken() {
    Experiment::from_text(Path::new("small.toml"), SMALL).unwrap();
}

#[test]
fn misspelt_keys_and_values() {
    let head = line_of("[short]");
    told(
        "[short]\nrepeats",
        "[short]\nrepaets",
        head + 1,
        "unknown key `repaets`",
        "`repeats`",
    );
    told(
        "set = { transport = \"udp\" }",
        "set = { trnsport = \"udp\" }",
        line_of("set = { transport = \"udp\" }"),
        "unknown key `trnsport`",
        "did you mean `transport`?",
    );
    told(
        "suite = \"tls13\"",
        "suite = \"tls31\"",
        line_of("suite ="),
        "unknown value `tls31`",
        "did you mean",
    );
    told(
        "kind = \"lines\"",
        "kind = \"curves\"",
        line_of("kind = \"lines\""),
        "unknown value `curves`",
        "write one of: bars",
    );
    told(
        "systems = [\"signet\"]",
        "systems = [\"signet\", \"signet\"]",
        line_of("systems"),
        "named twice",
        "once",
    );
    told(
        "systems = [\"signet\"]",
        "systems = [\"kamalio\"]",
        line_of("systems"),
        "unknown system `kamalio`",
        "did you mean `kamailio`?",
    );
    told(
        "series = \"transport\"",
        "series = \"trasport\"",
        line_of("series"),
        "unknown axis `trasport`",
        "did you mean `transport`?",
    );
    told(
        "figure = \"rate_per_s\"",
        "figure = \"rate_pers\"",
        line_of("figure = \"rate_per_s\""),
        "unknown figure `rate_pers`",
        "did you mean `rate_per_s`?",
    );
}

#[test]
fn picks_of_what_there_is_not() {
    told(
        "of = { transport = \"tls\" }",
        "of = { transport = \"tsl\" }",
        line_of("of = { transport = \"tls\" }"),
        "the axis `transport` has no value `tsl`",
        "did you mean `tls`?",
    );
    told(
        "of = { transport = \"tls\" }",
        "of = { mode = \"chain\" }",
        line_of("of = { transport = \"tls\" }"),
        "unknown axis `mode`",
        "write one of: transport",
    );
    told(
        "of = { transport = \"tls\" }",
        "of = { transport = 3 }",
        line_of("of = { transport = \"tls\" }"),
        "integer `3`",
        "in quotes",
    );
    told(
        "at = \"peak\"",
        "at = 11",
        line_of("of = { transport = \"udp\" }"),
        "the long form measures no such case at this load",
        "name a case and a load",
    );
}

#[test]
fn combinations_that_cannot_be() {
    let tls = line_of("suite =");
    let tls_set =
        "transport = \"tls\", caller_connection = \"per-call\", security = { suite = \"tls13\" }";
    for (set, what, remedy) in [
        (
            "transport = \"tls\", caller_connection = \"per-call\", security = { resumption = \"ids\" }",
            "TLS 1.3 has no session identifiers",
            "resumption = \"tickets\"",
        ),
        (
            "transport = \"tls\", security = { resumption = \"tickets\" }",
            "nothing to resume",
            "`caller_connection`",
        ),
        (
            "transport = \"tcp\", security = { mutual = true }",
            "a transport that has none",
            "transport = \"tls\"",
        ),
        (
            "transport = \"tls\", security = { suite = \"rsa-aes\", group = \"x25519\" }",
            "RSA key exchange has no group",
            "leave `group` out",
        ),
        (
            "transport = \"tls\", security = { group = \"x25591\" }",
            "unknown value `x25591`",
            "did you mean `x25519`?",
        ),
        (
            "transport = \"tls\", security = { suite = \"tls12\", group = \"X25519MLKEM768\" }",
            "for TLS 1.3 alone",
            "suite = \"tls13\"",
        ),
        (
            "transport = \"tls\", security = { suite = \"rsa-aes\", key = \"p256\" }",
            "needs an RSA key",
            "key = \"rsa2048\"",
        ),
        (
            "role = \"registrar\"",
            "a registrar without registrations",
            "set flow",
        ),
        (
            "flow = \"registrations\"",
            "has no registrations",
            "role = \"registrar\"",
        ),
        (
            "database_rtt_ms = 30",
            "a database that nobody asks",
            "authentication = \"mariadb\"",
        ),
        (
            "processes = 4, batch = 8",
            "no database to send them to",
            "authentication = \"mariadb\"",
        ),
        (
            "agents = { callers = 20000 }",
            "fewer than the 20000 who take part",
            "write at least 20000",
        ),
        ("processes = 0", "0 is out of bounds", "from 1 to"),
        ("server_share = 1.5", "1.5 is no share", "from 0.05 to 1"),
        ("server_share = nan", "NaN is no share", "from 0.05 to 1"),
        ("hold_ms = 1500", "calls are held for 1500 ms", "warm up"),
    ] {
        let error = error_after(tls_set, set);
        assert!(error.contains(what), "{set}: {error}");
        assert!(error.contains(remedy), "{set}: {error}");
        if !set.starts_with("hold_ms") {
            let is_placed = error.contains(&format!("small.toml:{tls}:"));
            assert!(is_placed, "{set}: {error}");
        }
    }
}

#[test]
fn loads_that_cannot_be() {
    let load = line_of("rates_per_s");
    told(
        "rates_per_s = [10]",
        "rates_per_s = [0]",
        load,
        "out of bounds",
        "above 0",
    );
    told(
        "rates_per_s = [10]",
        "profile = true",
        load - 1,
        "a peak or rates",
        "one of them",
    );
    let twice = error_after("rates_per_s = [10]", "rates_per_s = [10, 10]");
    assert!(twice.contains("twice at one load"), "{twice}");
    told(
        "failures_max = 0.01",
        "failures_max = 4",
        line_of("failures_max"),
        "is no share",
        "0.04 for 4 %",
    );
    let unmeasured = error_after(
        "rates_per_s = [10]",
        "rates_per_s = [10]\nforms = [\"long\"]",
    );
    assert!(
        unmeasured.contains("the short form measures no such case"),
        "{unmeasured}"
    );
}

#[test]
fn findings_that_cannot_be_answered() {
    told(
        "no_at = 1.0",
        "no_at = 1.1",
        line_of("no_at"),
        "the answer is open",
        "two ratios",
    );
    told(
        "than = { transport = \"udp\" }",
        "than = {}",
        line_of("of = { transport = \"tls\" }"),
        "cases of `all cases` to hold",
        "one for each",
    );
    // Each rate that one side alone has is named.
    let by_transport = "where = { transport = \"udp\" }
rates_per_s = [10]

[[load]]
where = { transport = \"tls\" }
rates_per_s = [10, 20, 30]";
    let error = error_after("rates_per_s = [10]", by_transport);
    for rate in ["at 20.0/s", "at 30.0/s"] {
        let what = format!("to hold `transport tls` ({rate}) against");
        assert_eq!(error.matches(&what).count(), 1, "{error}");
    }
}

#[test]
fn components_are_asked_for_by_name_and_of_loads_that_are_profiled() {
    let figure = line_of("place = \"here\"") + 1;
    let from = "figure = \"server_cpu_us\"\nof";
    told(
        from,
        "figure = \"server/public_key\"\nof",
        figure,
        "a case of it is not profiled",
        "profile = true",
    );
    let unknown = error_after(from, "figure = \"server/rsa\"\nof");
    assert!(unknown.contains("unknown figure `server/rsa`"), "{unknown}");
}

#[test]
fn what_is_published_has_two_sides_or_is_no_ratio() {
    told(
        "unit = \"calls/s\"",
        "unit = \"ratio\"",
        line_of("unit = \"calls/s\""),
        "a ratio has two sides",
        "`than`",
    );
}

#[test]
fn too_many_combinations_are_refused_before_they_are_made() {
    let axis = |nth: usize| {
        let values: String = (0..50)
            .map(|v| format!("[[axis.value]]\nname = \"v{v}\"\ntitle = \"v\"\n"))
            .collect();
        format!("[[axis]]\nname = \"a{nth}\"\ntitle = \"a\"\n{values}")
    };
    let axes: String = (0..8).map(axis).collect();
    let text = format!("{SMALL}{axes}");
    let error = Experiment::from_text(Path::new("small.toml"), &text).unwrap_err();
    assert!(error.to_string().contains("combinations"), "{error}");
}

#[test]
fn no_cut_of_a_file_is_a_panic() {
    for end in 0..SMALL.len() {
        let _ = Experiment::from_text(Path::new("small.toml"), &SMALL[..end]);
    }
}
