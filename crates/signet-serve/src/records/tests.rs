use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sip_engine::Now;
use sip_engine::records::{EndedBy, Try, Why};
use sip_engine::refusal::Reason;
use sip_msg::Transport;
use sip_userdb::ColumnKind;
use sip_worker::Records as _;

use super::row::{COLUMNS, csv_names, rfc3339, values_of};
use super::spool::Spool;
use super::*;
use crate::config::Config;
use crate::testing::TempDir;

const STARTED_MS: u64 = 1_767_366_245_678;

fn at(ms: u64) -> Now {
    Now {
        mono_ms: 1_000 + ms,
        unix_ms: STARTED_MS + ms,
    }
}

/// The record of docs/RECORDS.md.
fn record(id: u128) -> CallRecord {
    let gateway = |host: &str| (Transport::Tls, host.parse().unwrap());
    CallRecord {
        id,
        call_id: "a84b4c76e66710@198.51.100.7".into(),
        started: at(0),
        rang: Some(at(1_840)),
        answered: Some(at(6_412)),
        ended: Some(at(98_203)),
        seen: at(98_231),
        caller_user: "alice@example.com".into(),
        caller_class: "user",
        caller_from: "sip:alice@example.com".into(),
        caller_end: (Transport::Udp, "198.51.100.7:5060".parse().unwrap()),
        request_uri: "sip:+4930123456@example.com".into(),
        called_to: "sip:+4930123456@example.com".into(),
        callee_target: "gw2.example.net:5061".into(),
        callee_trunk: "outside".into(),
        callee_end: Some(gateway("203.0.113.2:5061")),
        status: Some(200),
        ended_by: EndedBy::Callee,
        why: None,
        reason: "Q.850;cause=16;text=\"Normal call clearing\"".into(),
        bye_status: Some(200),
        session_expires_s: Some(1_800),
        tries: vec![
            Try {
                to: gateway("203.0.113.1:5061"),
                end: Err(Reason::Unreachable),
            },
            Try {
                to: gateway("203.0.113.2:5061"),
                end: Ok(200),
            },
        ],
        tries_total: 2,
        payer_user: "".into(),
    }
}

const ID: u128 = 0x5f0c_2a9b_11de_4703_0000_0000_0000_002a;

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The names in the first column of the rows of a table, with the second column.
fn rows(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
            let name = cells.next()?.trim_end_matches('`').to_owned();
            Some((name, cells.next()?.to_owned()))
        })
        .collect()
}

fn section<'t>(text: &'t str, title: &str) -> &'t str {
    let (_, rest) = text.split_once(title).expect(title);
    rest.split_once("\n## ")
        .map_or(rest, |(section, _)| section)
}

#[test]
fn the_document_has_every_column_and_every_word() {
    let text = document("docs/RECORDS.md");
    let told = rows(section(&text, "## What is in a record"));
    let kind = |kind| match kind {
        ColumnKind::Text => "text",
        ColumnKind::Number => "number",
        ColumnKind::Time => "time",
    };
    let columns = COLUMNS.iter();
    let columns: Vec<_> = columns
        .map(|of| (of.name.to_owned(), kind(of.kind).to_owned()))
        .collect();
    assert_eq!(told, columns);

    let names = |title| -> Vec<String> {
        let rows = rows(section(&text, title));
        rows.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names("## Who ended it"), EndedBy::ALL.map(EndedBy::name));
    assert_eq!(names("## Why it ended"), Why::OWN.map(Why::name));
}

#[test]
fn the_tables_have_every_column() {
    for (path, types) in [
        ("etc/records/mysql.sql", ["VARCHAR", "INT", "DATETIME(3)"]),
        ("etc/records/postgresql.sql", ["text", "int", "timestamptz"]),
    ] {
        let text = document(path);
        let (_, made) = text.split_once("signet_calls (\n").unwrap();
        let lines: Vec<&str> = made.lines().take(COLUMNS.len()).map(str::trim).collect();
        for (column, line) in COLUMNS.iter().zip(lines) {
            let (name, kind) = line.split_once(' ').unwrap();
            assert_eq!(name, column.name, "{path}");
            let is_kind = |of: &str| kind.starts_with(of) || kind.contains(&format!("{of} "));
            let fits = match column.kind {
                ColumnKind::Text => is_kind(types[0]) || kind.starts_with("CHAR(32)"),
                ColumnKind::Number => kind
                    .to_ascii_lowercase()
                    .split([' ', ','])
                    .next()
                    .unwrap()
                    .contains("int"),
                ColumnKind::Time => is_kind(types[2]),
            };
            assert!(fits, "{path}: {line}");
        }
    }
}

#[test]
fn the_examples_of_the_document_are_made_here() {
    let text = document("docs/RECORDS.md");
    let row = Row::new(&record(ID), "edge-1");
    for made in [row.json(), csv_names() + &row.csv()] {
        let made = made.replace("\r\n", "\n");
        assert!(text.contains(&made), "docs/RECORDS.md has to have:\n{made}");
    }
}

#[test]
fn what_a_caller_calls_himself_stays_in_its_field() {
    let mut odd = record(1);
    odd.caller_user = "=cmd|' /C calc'!A0".into();
    odd.caller_from = "sip:a,b;c@example.com".into();
    odd.called_to = "+4930".into();
    odd.request_uri = "@x".into();
    odd.call_id = "-1".into();
    odd.reason = "say \"no\"\r\nno".into();
    let csv = Row::new(&odd, "n").csv();
    for field in [
        ",\"'=cmd|' /C calc'!A0\",",
        ",\"sip:a,b;c@example.com\",",
        ",\"'+4930\",",
        ",\"'@x\",",
        ",\"'-1\",",
        ",\"say \"\"no\"\"\r\nno\",",
    ] {
        assert!(csv.contains(field), "{field} is not in {csv}");
    }
    let json = Row::new(&odd, "n").json();
    assert_eq!(json.matches('\n').count(), 1);
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["caller_user"], "=cmd|' /C calc'!A0");
    assert_eq!(read["reason"], "say \"no\"\r\nno");
    assert_eq!(read["bye_status"], 200);
    assert_eq!(
        read["tries"][0],
        "tls:203.0.113.1:5061 next_hop_unreachable"
    );
}

#[test]
fn a_line_of_json_becomes_the_row_of_a_table() {
    let mut short = record(7);
    (short.rang, short.ended, short.status) = (None, None, None);
    let values = values_of(&Row::new(&short, "edge-1").json()).unwrap();
    assert_eq!(values.len(), COLUMNS.len());
    let of = |name: &str| {
        let at = COLUMNS
            .iter()
            .position(|column| column.name == name)
            .unwrap();
        values[at].as_str()
    };
    assert_eq!(of("id"), format!("{:032x}", 7));
    assert_eq!(of("started"), "2026-01-02T15:04:05.678Z");
    assert_eq!(of("started"), rfc3339(STARTED_MS));
    assert_eq!(
        (of("rang"), of("ended"), of("status"), of("talk_ms")),
        ("", "", "", "")
    );
    assert_eq!(
        of("tries"),
        "tls:203.0.113.1:5061 next_hop_unreachable; tls:203.0.113.2:5061 200"
    );
    for cut in ["", "{", "{}\n", "[]\n", "{\"id\":7}\n"] {
        assert_eq!(values_of(cut), None, "{cut}");
    }
}

fn open(path: &Path, format: RecordFormat, rotate_bytes_max: u64) -> RecordFile {
    RecordFile::open(path.to_owned(), format, rotate_bytes_max, false).unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_file_is_begun_anew_when_it_is_full_and_nothing_is_lost() {
    let temp = TempDir::new("records-file");
    let path = temp.path().join("calls.csv");
    let mut file = open(&path, RecordFormat::Csv, 10);
    for line in ["1\r\n", "2\r\n", "3\r\n"] {
        file.append(line).unwrap();
    }
    file.sync();
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o027, 0o640 & !0o027);
    let mut all: Vec<_> = std::fs::read_dir(temp.path())
        .unwrap()
        .map(|entry| read(&entry.unwrap().path()))
        .collect();
    all.sort();
    let names = csv_names();
    assert_eq!(all, ["1", "2", "3"].map(|n| format!("{names}{n}\r\n")));
    assert_eq!(read(&path), format!("{names}3\r\n"));
}

#[test]
fn a_csv_file_with_other_names_is_set_aside() {
    let names = csv_names();
    let (fewer, _) = names.rsplit_once(',').unwrap();
    let fewer = format!("{fewer}\r\n1\r\n");
    let temp = TempDir::new("records-names");
    let path = temp.path().join("calls.csv");
    std::fs::write(&path, &fewer).unwrap();
    for line in ["2\r\n", "3\r\n"] {
        let mut file = open(&path, RecordFormat::Csv, 1 << 20);
        file.append(line).unwrap();
    }
    // One with the same names is gone on with.
    let now = format!("{names}2\r\n3\r\n");
    assert_eq!(read(&path), now);
    let entries = std::fs::read_dir(temp.path()).unwrap();
    let mut all: Vec<_> = entries.map(|entry| read(&entry.unwrap().path())).collect();
    all.retain(|text| *text != now);
    assert_eq!(all, [&*fewer]);

    // Nor is one gone on with that somebody has put there meanwhile.
    let mut file = open(&path, RecordFormat::Csv, 1 << 20);
    std::fs::rename(&path, temp.path().join("moved")).unwrap();
    std::fs::write(&path, &fewer).unwrap();
    file.reopen();
    file.append("4\r\n").unwrap();
    assert_eq!(read(&path), format!("{names}4\r\n"));
}

#[test]
fn a_file_that_was_moved_is_made_again() {
    let temp = TempDir::new("records-moved");
    let path = temp.path().join("calls.jsonl");
    let mut file = open(&path, RecordFormat::Jsonl, 1 << 20);
    file.append("{1}\n").unwrap();
    let moved = temp.path().join("calls.jsonl.1");
    std::fs::rename(&path, &moved).unwrap();
    file.append("{2}\n").unwrap();
    file.reopen();
    file.append("{3}\n").unwrap();
    assert_eq!(
        (read(&moved), read(&path)),
        ("{1}\n{2}\n".into(), "{3}\n".into())
    );
    drop(file);

    // A crash has cut a line: what follows has lines of its own.
    std::fs::write(&path, "{3}\n{\"id").unwrap();
    let mut file = open(&path, RecordFormat::Jsonl, 1 << 20);
    file.append("{4}\n").unwrap();
    assert_eq!(read(&path), "{3}\n{\"id\n{4}\n");

    let error = RecordFile::open("/dev/full".into(), RecordFormat::Jsonl, 1 << 20, false);
    assert!(error.is_err_and(|error| error.what().contains("is no file")));
}

#[test]
fn a_file_that_was_removed_is_made_again() {
    let temp = TempDir::new("records-removed");
    let path = temp.path().join("calls.csv");
    let mut file = open(&path, RecordFormat::Csv, 1 << 20);
    file.append("1\r\n").unwrap();
    std::fs::remove_file(&path).unwrap();
    file.append("2\r\n").unwrap();
    assert_eq!(read(&path), csv_names() + "2\r\n");
}

#[test]
fn a_file_that_cannot_have_another_name_grows() {
    let temp = TempDir::new("records-grows");
    // With the time behind it the name is longer than any may be.
    let path = temp.path().join("c".repeat(250));
    let mut file = open(&path, RecordFormat::Jsonl, 10);
    for line in ["{1}\n", "{2}\n", "{3}\n", "{4}\n", "{5}\n"] {
        file.append(line).unwrap();
    }
    assert_eq!(read(&path), "{1}\n{2}\n{3}\n{4}\n{5}\n");
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
}

#[test]
fn lines_wait_in_the_spool_across_a_restart_and_no_more_than_there_is_room_for() {
    let temp = TempDir::new("records-spool");
    let path = temp.path().join("a.spool");
    let line = |n: u32| format!("{{{n:06}}}\n");
    let mut spool = Spool::open(path.clone(), 900).unwrap();
    let lines: Vec<String> = (0..150).map(line).collect();
    assert_eq!(spool.append(&lines), 50);
    let first = spool.front(60).unwrap();
    assert_eq!(first.lines, lines[..60]);
    spool.advance(&first).unwrap();
    assert_eq!(spool.waiting_bytes(), 40 * 9);
    drop(spool);

    // What was sent is still there: the table knows it by its name.
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut spool = Spool::open(path.clone(), 900).unwrap();
    let mut sent = Vec::new();
    while !spool.is_empty() {
        let front = spool.front(64).unwrap();
        spool.advance(&front).unwrap();
        sent.extend(front.lines);
    }
    assert_eq!(sent, lines[..100]);
    assert_eq!(path.metadata().unwrap().len(), 0);
    assert_eq!(spool.append(&lines[..1]), 0);
    drop(spool);

    // A crash has cut the last line. Its end is written with the next.
    let cut = "{1}\n{\"id";
    std::fs::write(&path, cut).unwrap();
    let mut spool = Spool::open(path.clone(), 900).unwrap();
    assert_eq!(read(&path), cut);
    assert_eq!(spool.front(1).unwrap().lines, ["{1}\n"]);
    assert_eq!(spool.front(9).unwrap().lines, ["{1}\n", "{\"id\n"]);
    assert_eq!(spool.append(&lines[..1]), 0);
    let all = ["{1}\n", "{\"id\n", &lines[0]];
    assert_eq!(spool.front(9).unwrap().lines, all);
    assert_eq!(read(&path), all.concat());
    // Or it is sent before that, and nothing is left of it.
    std::fs::write(&path, cut).unwrap();
    let mut spool = Spool::open(path.clone(), 900).unwrap();
    let front = spool.front(9).unwrap();
    spool.advance(&front).unwrap();
    assert_eq!(spool.append(&lines[..1]), 0);
    assert_eq!(read(&path), lines[0]);
}

#[test]
fn a_spool_that_is_never_quite_empty_has_room_for_what_waits() {
    let temp = TempDir::new("records-spool-room");
    let path = temp.path().join("a.spool");
    let line = |n: u32| format!("{{{n:06}}}\n");
    let mut spool = Spool::open(path.clone(), 900).unwrap();
    // Of a hundred lines that fit, one to three wait at any time.
    assert_eq!(spool.append(&[line(0)]), 0);
    let mut sent = Vec::new();
    for n in (1..2_000).step_by(2) {
        assert_eq!(spool.append(&[line(n), line(n + 1)]), 0, "{n}");
        let front = spool.front(2).unwrap();
        spool.advance(&front).unwrap();
        sent.extend(front.lines);
        assert_eq!(spool.waiting_bytes(), 9);
    }
    assert_eq!(sent, (0..2_000).map(line).collect::<Vec<_>>());
    assert!(path.metadata().unwrap().len() <= 900);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let files = || std::fs::read_dir(temp.path()).unwrap().count();
    assert_eq!(files(), 1);
    // More than half waits: nothing is copied, and what does not fit is counted.
    let many: Vec<String> = (0..150).map(line).collect();
    let lost = spool.append(&many);
    assert_eq!(lost, 51);
    let front = spool.front(40).unwrap();
    spool.advance(&front).unwrap();
    assert_eq!(spool.append(&many), 150);
    drop(spool);

    // A crash amid that leaves the old file and a part of the new one.
    std::fs::write(&path, "{1}\n{2}\n").unwrap();
    std::fs::write(temp.path().join("a.spool.new"), "{2").unwrap();
    let spool = Spool::open(path, 900).unwrap();
    assert_eq!(spool.front(9).unwrap().lines, ["{1}\n", "{2}\n"]);
    assert_eq!(files(), 1);
}

#[test]
fn room_that_cannot_be_made_loses_nothing_that_waits() {
    let temp = TempDir::new("records-spool-no-room");
    let path = temp.path().join("a.spool");
    let line = |n: u32| format!("{{{n:06}}}\n");
    let mut spool = Spool::open(path.clone(), 900).unwrap();
    let lines: Vec<String> = (0..100).map(line).collect();
    assert_eq!(spool.append(&lines), 0);
    let front = spool.front(90).unwrap();
    spool.advance(&front).unwrap();
    // What stands in the way of the new file.
    let new = temp.path().join("a.spool.new");
    std::fs::create_dir(&new).unwrap();
    assert_eq!(spool.append(&[line(100)]), 1);
    assert_eq!(spool.front(64).unwrap().lines, lines[90..]);
    std::fs::remove_dir(&new).unwrap();
    // It is tried again when more was sent.
    assert_eq!(spool.append(&[line(100)]), 1);
    let front = spool.front(7).unwrap();
    spool.advance(&front).unwrap();
    assert_eq!(spool.append(&[line(100)]), 0);
    let left: Vec<String> = (97..101).map(line).collect();
    assert_eq!(spool.front(64).unwrap().lines, left);
    assert_eq!(read(&path), left.concat());
}

#[test]
fn a_line_that_is_longer_than_any_record_is_passed_over_and_counted() {
    const LONG: usize = 700 * 1024;
    let temp = TempDir::new("records-spool-long");
    let path = temp.path().join("a.spool");
    std::fs::write(&path, "x".repeat(LONG) + "\n{1}\n").unwrap();
    let mut spool = Spool::open(path, 1 << 20).unwrap();
    let front = spool.front(9).unwrap();
    assert!(front.lines.is_empty());
    assert_eq!(front.passed_over_bytes, LONG as u64 + 1);
    spool.advance(&front).unwrap();
    let front = spool.front(9).unwrap();
    assert_eq!(front.lines, ["{1}\n"]);
    assert_eq!(front.passed_over_bytes, 0);

    // The same by way of the table, whose spool a first run leaves behind.
    let config = "[[records.table]]\nurl = \"mysql://signet@127.0.0.1:1/sip\"\n";
    assert_eq!(run(&temp, config, 1).1, 1);
    let is_spool = |path: &PathBuf| path.extension().is_some_and(|of| of == "spool");
    let mut files = std::fs::read_dir(temp.path().join("data")).unwrap();
    let spool = files.find_map(|entry| Some(entry.unwrap().path()).filter(is_spool));
    std::fs::write(spool.unwrap(), "x".repeat(LONG)).unwrap();
    let (tally, waiting) = run(&temp, config, 0);
    assert_eq!((tally.lost()[2], waiting), (("table", 1), 0));
}

#[test]
fn a_worker_never_waits_for_who_does_not_read() {
    let (to, from) = sync_channel(2);
    let tally = Arc::new(Tally::default());
    let mut worker = WorkerRecords {
        to: Some(to),
        tally: tally.clone(),
        is_ending: Ending::default(),
        until: None,
    };
    for id in 0..5 {
        worker.give(Box::new(record(id)));
    }
    assert_eq!(tally.lost()[0], ("queue", 3));
    let ids: Vec<u128> = from.try_iter().map(|record| record.id).collect();
    assert_eq!(ids, [0, 1]);
    drop(from);
    worker.give(Box::new(record(9)));
    assert_eq!(tally.lost()[0], ("queue", 4));
}

/// Gives so many records to what a configuration asks for, and ends it.
fn run(temp: &TempDir, config: &str, records: u128) -> (Arc<Tally>, u64) {
    let data = DataDir::open(&temp.path().join("data")).unwrap();
    let config = format!("version = 1\n{config}");
    let config = Config::from_text(Path::new("test.toml"), &config).unwrap();
    let recorder = Recorder::start(&config.records, &data).unwrap();
    let tally = recorder.tally();
    let mut worker = recorder.for_worker();
    for id in 0..records {
        worker.give(Box::new(record(id)));
    }
    drop(worker);
    recorder.end();
    let spools = std::fs::read_dir(data.path()).unwrap().flatten();
    let waiting = spools.map(|entry| read(&entry.path()).lines().count() as u64);
    (tally, waiting.sum())
}

#[test]
fn all_that_is_given_is_written_before_the_end() {
    let temp = TempDir::new("records-all");
    let path = temp.path().join("calls.jsonl");
    let config = format!(
        "[records]\npath = \"{}\"\nnode = \"edge-1\"\n",
        path.display()
    );
    let (tally, _) = run(&temp, &config, 1_000);
    let text = read(&path);
    let ids: std::collections::BTreeSet<_> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string())
        .collect();
    assert_eq!((ids.len(), text.lines().count()), (1_000, 1_000));
    assert_eq!(tally.written.load(Ordering::Relaxed), 1_000);
    assert!(tally.lost().iter().all(|(_, count)| *count == 0));
}

#[test]
fn all_calls_that_go_on_are_written_when_the_process_ends() {
    // More of them than the queues hold: they come at once.
    const CALLS: u128 = 3 * QUEUE_MAX as u128;
    let temp = TempDir::new("records-flood");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = closed.local_addr().unwrap();
    let data = DataDir::open(&temp.path().join("data")).unwrap();
    let path = temp.path().join("calls.jsonl");
    let config = format!(
        "version = 1\n[records]\npath = \"{}\"\n\
         [[records.table]]\nurl = \"mysql://signet@{closed}/sip\"\n",
        path.display()
    );
    let config = Config::from_text(Path::new("test.toml"), &config).unwrap();
    let recorder = Recorder::start(&config.records, &data).unwrap();
    let tally = recorder.tally();
    recorder.begin_end();
    let workers = [0, 1].map(|nth| {
        let mut worker = recorder.for_worker();
        std::thread::spawn(move || {
            for id in (nth..CALLS).step_by(2) {
                worker.give(Box::new(record(id)));
            }
        })
    });
    for worker in workers {
        worker.join().unwrap();
    }
    recorder.end();
    assert_eq!(tally.lost().map(|(_, count)| count), [0; 3]);
    assert_eq!(read(&path).lines().count() as u128, CALLS);
    let spool = spools(&data).remove(0);
    assert_eq!(read(&spool).lines().count() as u128, CALLS);
}

/// Files in which records wait.
fn spools(data: &DataDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.path()).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|of| of == "spool"))
        .collect()
}

#[test]
fn a_worker_that_ends_does_not_wait_for_ever() {
    let (to, _from) = sync_channel(1);
    let tally = Arc::new(Tally::default());
    let is_ending = Ending::default();
    is_ending.begin();
    let mut worker = WorkerRecords {
        to: Some(to),
        tally: tally.clone(),
        is_ending,
        // The time is up.
        until: Some(Instant::now()),
    };
    for id in 0..1_000 {
        worker.give(Box::new(record(id)));
    }
    assert_eq!(tally.lost()[0], ("queue", 999));
}

#[test]
fn what_waits_for_a_table_that_is_gone_is_found() {
    let temp = TempDir::new("records-gone");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = closed.local_addr().unwrap();
    let of = |name: &str| {
        format!("[[records.table]]\nurl = \"mysql://signet@{closed}/sip\"\nname = \"{name}\"\n")
    };
    let (_, waiting) = run(&temp, &of("before"), 3);
    assert_eq!(waiting, 3);
    let data = DataDir::open(&temp.path().join("data")).unwrap();
    let gone = |text: &str| {
        let config = Config::from_text(Path::new("t.toml"), &format!("version = 1\n{text}"));
        table::of_no_table(&config.unwrap().records, &data)
    };
    assert!(gone(&of("before")).is_empty());
    for other in [of("after"), String::new()] {
        let found = gone(&other);
        let [(path, bytes)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(path, &spools(&data)[0]);
        assert_eq!(*bytes, path.metadata().unwrap().len());
    }
}

#[test]
fn what_a_database_does_not_take_waits_in_the_data_folder() {
    // One that is not there, and one that takes the connection and says nothing.
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (name, addr) in [("closed", closed), ("silent", silent.local_addr().unwrap())] {
        for scheme in ["mysql", "postgresql"] {
            let temp = TempDir::new(&format!("records-{name}-{scheme}"));
            let path = temp.path().join("calls.csv");
            let config = format!(
                "[records]\npath = \"{}\"\nformat = \"csv\"\n\
                 [[records.table]]\nurl = \"{scheme}://signet@{addr}/sip\"\n",
                path.display()
            );
            let (tally, waiting) = run(&temp, &config, 200);
            assert_eq!(waiting, 200, "{name} {scheme}");
            assert_eq!(tally.added.load(Ordering::Relaxed), 0);
            // The file has them all the same.
            assert_eq!(tally.written.load(Ordering::Relaxed), 200);
            assert!(tally.lost().iter().all(|(_, count)| *count == 0));
        }
    }
}

#[test]
fn a_spool_that_is_full_loses_and_counts() {
    let temp = TempDir::new("records-full-spool");
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config = format!(
        "[[records.table]]\nurl = \"mysql://signet@{closed}/sip\"\nspool_bytes_max = 65536\n"
    );
    let (tally, waiting) = run(&temp, &config, 300);
    let lost = tally.lost()[2];
    assert_eq!(lost.0, "table");
    assert!(waiting > 10 && lost.1 > 10, "{waiting} {lost:?}");
    assert_eq!(waiting + lost.1, 300);
}
