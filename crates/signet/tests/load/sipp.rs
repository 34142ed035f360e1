//! SIPp as the other end, each way round: its called side takes our calls, and
//! our called side takes its.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::time::{Duration, Instant};

use crate::support::command::{run, text};
use crate::support::{Running, TestDir, free_port, have, signet};
use measure::RunResult;

const CALLS: u64 = 100;

#[test]
fn sipp_answers_our_calls() {
    if !have("sipp") {
        return;
    }
    for (transport, flag) in [("udp", "u1"), ("tcp", "t1")] {
        let folder = TestDir::new(&format!("load-to-sipp-{transport}"));
        let port = free_port().to_string();
        let log = folder.path().join("uas.log");
        let arguments = [
            "-sn",
            "uas",
            "-i",
            "127.0.0.1",
            "-p",
            &port,
            "-t",
            flag,
            "-nostdin",
        ];
        let _uas = Running::start("sipp", &arguments, &log);
        let json = folder.path().join("r.json");
        let to = format!("sip:service@127.0.0.1:{port}");
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let load = [
                "load",
                "call",
                "--to",
                &to,
                "--transport",
                transport,
                "--rate",
                "100",
                "--count",
                "100",
                "--hold",
                "100ms",
                "--no-check-self",
                "--json",
                text(&json),
            ];
            let output = run(&load, "");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let result = RunResult::read(&json).ok();
            // SIPp may not listen yet.
            let is_early = result
                .as_ref()
                .is_none_or(|r| r.causes.named("unreachable") > 0);
            if is_early && Instant::now() < until {
                let _ = fs::remove_file(&json);
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            let result = result.unwrap_or_else(|| panic!("{said}"));
            assert_eq!(
                result.figures.completed,
                CALLS,
                "{:?}",
                result.causes.ranked()
            );
            break;
        }
    }
}

#[test]
fn sipp_calls_our_called_side() {
    if !have("sipp") {
        return;
    }
    for (transport, flag) in [("udp", "u1"), ("tcp", "t1")] {
        let folder = TestDir::new(&format!("load-from-sipp-{transport}"));
        let (json, log) = (
            folder.path().join("r.json"),
            folder.path().join("answer.log"),
        );
        let listen = format!("{transport}:127.0.0.1:0");
        let answer = ["load", "answer", "--listen", &listen, "--json", text(&json)];
        let mut answering = Running::start(signet(), &answer, &log);
        let until = Instant::now() + Duration::from_secs(30);
        let addr = loop {
            let told = fs::read_to_string(&log).unwrap_or_default();
            let found = told
                .lines()
                .find_map(|line| line.strip_prefix(&format!("answering on {transport}:")))
                .map(str::to_owned);
            if let Some(addr) = found {
                break addr;
            }
            assert!(Instant::now() < until, "{told}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let (port, calls) = (free_port().to_string(), CALLS.to_string());
        let arguments = [
            "-sn",
            "uac",
            "-i",
            "127.0.0.1",
            "-p",
            &port,
            "-t",
            flag,
            "-r",
            "100",
            "-m",
            &calls,
            "-nostdin",
            &addr,
        ];
        let mut uac = Running::start("sipp", &arguments, &folder.path().join("uac.log"));
        assert_eq!(
            uac.wait(Duration::from_secs(60)),
            Some(0),
            "SIPp's verdict over {transport}"
        );
        answering.signal("-INT");
        assert_eq!(answering.wait(Duration::from_secs(30)), Some(0));
        let result = RunResult::read(&json).unwrap();
        let count = |name: &str| result.counters.get(name).copied().unwrap();
        assert_eq!(
            (
                count("called_incoming"),
                count("called_established"),
                count("called_ended"),
                count("called_failed")
            ),
            (CALLS, CALLS, CALLS, 0)
        );
    }
}
