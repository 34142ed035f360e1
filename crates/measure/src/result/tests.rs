use super::*;
use crate::ProcessSecond;
use crate::sip::{Failure, Setup};
use crate::threshold::Threshold;

const MS: u64 = 1_000_000;

/// A result with every field in use.
fn full() -> RunResult {
    let mut result = RunResult {
        command: "signet load call --rate 10".to_owned(),
        program_version: "0.1.0".to_owned(),
        started_unix_ms: 1_790_000_000_000,
        host: Host {
            cores: 2,
            kernel: "6.1.0".to_owned(),
            cpu_model: "a processor".to_owned(),
        },
        settings: serde_json::json!({"rate": 10, "tls": {"version": "1.3"}}),
        duration_ns: 2_000 * MS,
        ..RunResult::default()
    };
    for i in 1..=20 {
        result.figures.invite_sent();
        let times = Setup {
            intended_ns: 0,
            sent_ns: i * 1_000,
            first_status_ns: Some(i * MS),
            done_ns: 2 * i * MS,
        };
        result
            .figures
            .invite_answered(if i % 5 == 0 { 486 } else { 200 }, &times);
    }
    result.figures.register_sent();
    result.figures.register_ok(0, 0, 3 * MS);
    result.figures.bye_sent();
    result.figures.bye_ok(0, MS, MS, 2 * MS);
    result.figures.request("OPTIONS").delay.record(0, 0, MS);
    result.causes.add(Failure::Status(486));
    result.causes.add(Failure::Other("rubbish"));
    result.handshakes.done(false, 0, 0, 4 * MS);
    result.handshakes.done(true, 0, 0, MS);
    result.retransmissions.late = 2;
    result.health.kernel_drops = 1;
    result.health.self_peak_per_s = Some(30.5);
    result
        .health
        .threads
        .push(crate::health::ThreadUse::default());
    result.watched.push(Watched {
        pid: 7,
        name: "kamailio".to_owned(),
        cpu_ns: 5,
        peak: Sample {
            pss_bytes: Some(3),
            ..Sample::default()
        },
    });
    result.processes.push(WatchedProcess {
        name: "server".to_owned(),
        pid: 7,
        program: "kamailio".to_owned(),
        cpu_ns: 5,
        seconds: vec![ProcessSecond {
            at_s: 0,
            cpu_ns: 4,
            memory_bytes: 3,
        }],
        ..WatchedProcess::default()
    });
    let mut answered = Answered::default();
    answered.add("INVITE", 200, 20);
    result.answered = Some(answered);
    result.counters.insert("calls_refused".to_owned(), 3);
    result.series = vec![Second {
        at_s: 0,
        succeeded: 20,
        redirected: 2,
        mean_us: 1.5,
        p50_us: 1,
        watched_cpu_ns: Some(9),
        ..Second::default()
    }];
    let thresholds = [
        Threshold::parse("srd_p99 > 5ms").unwrap(),
        Threshold::parse("resumed < 90").unwrap(),
    ];
    result.conclude(&thresholds);
    result
}

#[test]
fn json_gives_back_everything() {
    let result = full();
    let text = result.to_json().unwrap();
    let back = RunResult::from_json(&text).unwrap();
    assert_eq!(back, result);
    assert_eq!(back.to_json().unwrap(), text);
}

#[test]
fn json_is_laid_out_for_people() {
    let mut result = full();
    result.series.push(Second::default());
    let text = result.to_json().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        ["{", "  \"format\": \"signet-load\",", "  \"version\": 1,"]
    );
    let line = |start: &str| {
        lines
            .iter()
            .find(|l| l.starts_with(start))
            .copied()
            .unwrap_or("")
    };
    assert_eq!(line("    \"kernel\""), "    \"kernel\": \"6.1.0\",");
    // A second is a line, a histogram is a line.
    assert!(line("    {\"at_s\": 0, ").ends_with("},"), "{text}");
    let histogram = line("      \"intended_buckets\": [[3001,1]]");
    assert_eq!(histogram, "      \"intended_buckets\": [[3001,1]],");
    // Two of the run, and one of the watched process.
    assert_eq!(text.matches("{\"at_s\"").count(), 3);
    // And it means what compact JSON means, empty lists and objects too.
    result.watched.clear();
    result.counters.clear();
    let value: serde_json::Value = serde_json::from_str(&result.to_json().unwrap()).unwrap();
    assert_eq!(value, serde_json::to_value(&result).unwrap());
}

#[test]
fn what_follows_is_worked_out() {
    let mut result = full();
    assert_eq!(result.ratios.ser_percent, Some(80.0));
    assert_eq!(result.doubts.len(), 1);
    let crossed: Vec<bool> = result.thresholds.iter().map(|t| t.crossed).collect();
    assert_eq!(crossed, [true, true]);
    assert!(!result.valid);
    result.health.kernel_drops = 0;
    result.conclude(&[Threshold::parse("srd_p99 > 5s").unwrap()]);
    assert!(result.valid, "{:?}", result.doubts);
    // Crossed, or without a figure: not valid either way.
    result.conclude(&[Threshold::parse("sdd_failed_p50 > 1s").unwrap()]);
    assert!(!result.valid);
    result.interrupted = true;
    result.conclude(&[]);
    assert_eq!(result.doubts[0].name, "interrupted");
}

#[test]
fn fields_that_a_later_program_adds_do_no_harm() {
    let text = full().to_json().unwrap();
    let later = text.replacen('{', "{\n  \"added_later\": {\"x\": [1]},", 1);
    assert_eq!(RunResult::from_json(&later).unwrap(), full());
    // Nor do those that an earlier one did not write.
    let early = RunResult::from_json(r#"{"format":"signet-load","version":1}"#).unwrap();
    assert_eq!(early, RunResult::default());
}

#[test]
fn other_files_are_refused_by_what_they_are() {
    for (text, part) in [
        ("", "no result of a load run: EOF"),
        ("[]", "no result of a load run"),
        ("{}", "no \"format\", no \"version\""),
        (
            r#"{"format":"signet-load","version":2}"#,
            "\"format\": \"signet-load\", \"version\": 2",
        ),
        (r#"{"format":"other","version":1}"#, "\"format\": \"other\""),
        (
            r#"{"format":"signet-load","version":1,"duration_ns":"x"}"#,
            "line 1 column",
        ),
    ] {
        let error = RunResult::from_json(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let error = RunResult::from_json("{}").unwrap_err().to_string();
    assert!(error.contains("--json FILE"), "the remedy: {error}");
}

/// A folder for one test, removed at its end.
struct Dir(std::path::PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("measure-result-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_are_written_whole_and_leave_nothing_else() {
    let dir = Dir::new("write");
    let (json, csv) = (dir.0.join("a.json"), dir.0.join("a.csv"));
    let result = full();
    result.write(&json).unwrap();
    result.write(&json).unwrap();
    result.write_csv(&csv).unwrap();
    assert_eq!(dir.files(), ["a.csv", "a.json"]);
    assert_eq!(RunResult::read(&json).unwrap(), result);
    assert_eq!(fs::read_to_string(&csv).unwrap(), result.series_csv());
}

#[test]
fn errors_name_the_file() {
    let dir = Dir::new("errors");
    let missing = dir.0.join("none/a.json");
    for error in [
        full().write(&missing).unwrap_err(),
        full().write_csv(&missing).unwrap_err(),
        RunResult::read(&missing).unwrap_err(),
    ] {
        assert!(
            error
                .to_string()
                .starts_with(&missing.display().to_string()),
            "{error}"
        );
    }
    let broken = dir.0.join("broken.json");
    for text in ["{", r#"{"format":"x"}"#] {
        fs::write(&broken, text).unwrap();
        let error = RunResult::read(&broken).unwrap_err().to_string();
        assert!(error.starts_with(&broken.display().to_string()), "{error}");
    }
    // The target is a folder: nothing temporary stays behind.
    let folder = dir.0.join("folder");
    fs::create_dir(&folder).unwrap();
    assert!(full().write(&folder).is_err());
    assert_eq!(dir.files(), ["broken.json", "folder"]);
    assert!(full().write(Path::new("/")).is_err());
}

#[test]
fn csv_has_a_line_for_every_second() {
    let csv = full().series_csv();
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), 3, "header, one second, end");
    let columns: Vec<&str> = lines[0].split(',').collect();
    let values: Vec<&str> = lines[1].split(',').collect();
    assert_eq!(columns.len(), values.len());
    let of = |name: &str| values[columns.iter().position(|c| *c == name).unwrap()];
    assert_eq!(
        (
            of("succeeded"),
            of("mean_us"),
            of("watched_cpu_ns"),
            of("own_cpu_ns"),
            of("redirected")
        ),
        ("20", "1.5", "9", "", "2")
    );
    assert_eq!((of("server_cpu_ns"), of("server_memory_bytes")), ("4", "3"));
}

#[test]
fn a_second_without_a_delay_has_none_of_0() {
    let mut result = full();
    result.series = vec![Second {
        at_s: 7,
        started: 3,
        ..Second::default()
    }];
    let csv = result.series_csv();
    assert!(csv.ends_with("7,0,3,0,0,0,0,,,,,,,0,,\r\n"), "{csv}");
    let json = result.to_json().unwrap();
    assert!(json.contains("{\"at_s\": 7, \"due\": 0"), "{json}");
    let series = json.split("\"series\"").nth(1).unwrap();
    for name in ["mean_us", "p50_us", "p99_us", "max_us"] {
        assert!(!series.contains(name), "{name} in {series}");
    }
    assert_eq!(RunResult::from_json(&json).unwrap(), result);
}

/// A call that is waited for at the end makes neither the rate nor a share of a core less.
#[test]
fn rates_and_shares_are_of_the_time_in_which_it_sent() {
    let mut result = full();
    result.duration_ns = 42_000 * MS;
    assert_eq!(result.figures.succeeded(), 17);
    assert!((result.rate_per_s() - 17.0 / 42.0).abs() < 1e-9);
    result.health.sending_ns = 2_000 * MS;
    assert!((result.rate_per_s() - 8.5).abs() < 1e-9);
    let second = |at_s, cpu_ms| ProcessSecond {
        at_s,
        cpu_ns: cpu_ms * MS,
        memory_bytes: 1,
    };
    let mut process = result.processes[0].clone();
    process.cpu_ns = 2_100 * MS;
    process.seconds = vec![second(0, 800), second(1, 600), second(2, 100)];
    assert!((result.core_share(&process) - 0.7).abs() < 1e-9);
    process.seconds.clear();
    assert!((result.core_share(&process) - 0.05).abs() < 1e-9);
}

#[test]
fn this_host_has_facts() {
    let host = Host::this();
    assert!(host.cores >= 1 && !host.kernel.is_empty(), "{host:?}");
}
