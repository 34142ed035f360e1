//! SIPp's own caller and called side through a real server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::{Running, Server, TestDir, free_port, have, wait_for_port};

/// 20,000 calls at 2,000 a second, no failure.
const CALLS: u64 = 20_000;
const RATE: u64 = 2_000;

#[test]
fn calls_over_udp() {
    calls("udp", "u1");
}

#[test]
fn calls_over_tcp() {
    calls("tcp", "t1");
}

fn calls(transport: &str, flag: &str) {
    if !have("sipp") {
        return;
    }
    let _alone = alone();
    let folder = TestDir::new(&format!("sipp-{transport}"));
    let called = free_port();
    let forward = format!("sip:127.0.0.1:{called};transport={transport}");
    let server = Server::start(
        folder.path(),
        &["--no-auth", "--workers", "1", "--forward", &forward],
    );
    let port = called.to_string();
    let _called = Running::start(
        "sipp",
        &[
            "-sn",
            "uas",
            "-i",
            "127.0.0.1",
            "-p",
            &port,
            "-t",
            flag,
            "-nostdin",
        ],
        &folder.path().join("uas.log"),
    );
    wait_for_port(called, &folder.path().join("uas.log"));
    let stat = folder.path().join("uac.csv");
    let counted = call(&stat, flag, server.udp, folder.path());
    let of = |name: &str| counted.get(name).copied();
    assert_eq!(
        (of("SuccessfulCall"), of("FailedCall")),
        (Some(CALLS), None),
        "over {transport}: {counted:?}\n{}\n{}",
        last_lines(&folder.path().join("uac.err")),
        last_lines(&server.log)
    );
}

/// What a log ends with, where there is one.
fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let from = text.len().saturating_sub(3_000);
    String::from_utf8_lossy(&text[from..]).into_owned()
}

/// What SIPp counted, where that is not nothing.
fn call(stat: &Path, flag: &str, to: SocketAddr, folder: &Path) -> BTreeMap<String, u64> {
    let (calls, rate) = (CALLS.to_string(), RATE.to_string());
    let (stat_text, to_text, port) = (
        stat.display().to_string(),
        to.to_string(),
        free_port().to_string(),
    );
    let scenario = patient_caller(folder);
    let errors = folder.join("uac.err").display().to_string();
    let mut caller = Running::start(
        "sipp",
        &[
            "-sf",
            &scenario,
            "-i",
            "127.0.0.1",
            "-p",
            &port,
            "-t",
            flag,
            "-r",
            &rate,
            "-m",
            &calls,
            "-l",
            "15000",
            "-nostdin",
            "-trace_stat",
            "-fd",
            "1",
            "-timeout",
            "120",
            "-stf",
            &stat_text,
            "-trace_err",
            "-error_file",
            &errors,
            &to_text,
        ],
        &folder.join("uac.log"),
    );
    let ended = caller.wait(Duration::from_secs(150));
    assert!(ended.is_some(), "the caller did not end");
    let text = fs::read_to_string(stat).unwrap();
    let head: Vec<&str> = text.lines().next().unwrap().split(';').collect();
    let last: Vec<&str> = text.lines().last().unwrap().split(';').collect();
    let counters = head.iter().zip(last).filter_map(|(name, value)| {
        let name = name.strip_suffix("(C)")?.to_owned();
        let count = value.parse().ok().filter(|count| *count > 0)?;
        Some((name, count))
    });
    counters.collect()
}

/// SIPp's own caller, who also takes a 100 to his BYE. Where the machine is slow there is one: RFC 4320
/// 4.1 has it sent once no answer has come for as long as Timer E takes to reach T2. As SIPp ships
/// him he ends such a call as failed.
fn patient_caller(folder: &Path) -> String {
    let output = Command::new("sipp").args(["-sd", "uac"]).output().unwrap();
    let own = String::from_utf8(output.stdout).unwrap();
    let answer = "<recv response=\"200\" crlf=\"true\">";
    assert_eq!(own.matches(answer).count(), 1, "{own}");
    let trying = "<recv response=\"100\" optional=\"true\"></recv>\n  ";
    let path = folder.join("uac.xml");
    fs::write(&path, own.replace(answer, &format!("{trying}{answer}"))).unwrap();
    path.display().to_string()
}

/// One load at a time: two on a small machine would measure each other.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
