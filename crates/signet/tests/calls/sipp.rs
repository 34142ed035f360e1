//! SIPp's own caller and called side through a real server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::{Running, Server, TestDir, free_port, have};

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
    let udp = SocketAddr::from(([127, 0, 0, 1], free_port()));
    // No overload control: each call counts here, also where the machine stands still for a moment.
    let config = format!(
        "version = 1\ndata = {:?}\nworkers = 1\ndomains = [\"127.0.0.1\"]\nforward = \"{forward}\"\n\n\
         [[listen]]\non = \"udp:{udp}\"\n\n[[listen]]\non = \"tcp:{udp}\"\n\n\
         [authentication]\nrequired = false\n\n[bounds]\nqueue_ms_max = 0\n",
        folder.path().join("data")
    );
    let server = Server::start_with_config(folder.path(), &config, udp);
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
    std::thread::sleep(Duration::from_millis(500));
    let stat = folder.path().join("uac.csv");
    let counted = call(&stat, flag, server.udp, folder.path());
    assert_eq!(
        counted.successful, CALLS,
        "successful calls over {transport}"
    );
    assert_eq!(counted.failed, 0, "failed calls over {transport}");
}

struct Counted {
    successful: u64,
    failed: u64,
}

fn call(stat: &Path, flag: &str, to: SocketAddr, folder: &Path) -> Counted {
    let (calls, rate) = (CALLS.to_string(), RATE.to_string());
    let (stat_text, to_text, port) = (
        stat.display().to_string(),
        to.to_string(),
        free_port().to_string(),
    );
    let scenario = patient_caller(folder);
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
            &to_text,
        ],
        &folder.join("uac.log"),
    );
    let ended = caller.wait(Duration::from_secs(150));
    assert!(ended.is_some(), "the caller did not end");
    let text = fs::read_to_string(stat).unwrap();
    let head: Vec<&str> = text.lines().next().unwrap().split(';').collect();
    let last: Vec<&str> = text.lines().last().unwrap().split(';').collect();
    let column = |name: &str| -> u64 {
        last[head.iter().position(|h| *h == name).unwrap()]
            .parse()
            .unwrap()
    };
    Counted {
        successful: column("SuccessfulCall(C)"),
        failed: column("FailedCall(C)"),
    }
}

/// SIPp's own caller, who also takes a 100 to his BYE. Where the machine is slow there is one: RFC 4320
/// 4.1 has it sent once no answer has come for as long as Timer E takes to reach T2. As it comes he
/// ends such a call as failed.
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
