//! A log that nobody reads: SIP goes on, and so do start and end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::command::{Serving, text};
use crate::support::openssl::{PATIENCE, figure};
use crate::support::{Running, TestDir, signet, unique};
use nix::fcntl::{FcntlArg, fcntl};
use sip_net::testing::uninterrupted;

/// Sources that have a line each, of each table, in ten seconds; more of them have none.
const SOURCES: u16 = 1_024;
const LEFT_OUT: &str = "lines of the log were left out here";

/// Starts the server with all that it says going into a pipe.
fn start(config: &Path, to: &PipeWriter) -> Running {
    let child = Command::new(signet())
        .args(["serve", "--config", text(config)])
        .stdin(Stdio::null())
        .stdout(to.try_clone().unwrap())
        .stderr(to.try_clone().unwrap())
        .spawn()
        .unwrap();
    Running { child }
}

fn configured(folder: &Path) -> PathBuf {
    let config = folder.join("signet.toml");
    let whole = "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
         [log]\nlevel = \"debug\"\n";
    fs::write(&config, whole).unwrap();
    config
}

/// A request that is refused, and its answer, of a source.
fn refused(to: SocketAddr, source: u16, method: &str, uri: &str, from: &str) {
    let [high, low] = source.to_be_bytes();
    let socket = UdpSocket::bind((format!("127.3.{high}.{low}"), 0)).unwrap();
    socket.connect(to).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let (local, unique) = (socket.local_addr().unwrap(), unique());
    let long = "x".repeat(120);
    let request = format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{unique};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:{long}@{from}>;tag=1\r\nTo: <sip:{long}@example.com>\r\n\
         Call-ID: {unique}{long}\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
    );
    socket.send(request.as_bytes()).unwrap();
    let mut answer = [0; 65_535];
    let len = uninterrupted(|| socket.recv(&mut answer)).unwrap();
    let answer = String::from_utf8_lossy(&answer[..len]);
    assert!(answer.starts_with("SIP/2.0 4"), "{answer}");
}

/// Reads to the end of a pipe, in a thread of its own.
fn read(mut from: PipeReader) -> Arc<Mutex<Vec<u8>>> {
    let read = Arc::<Mutex<Vec<u8>>>::default();
    let into = read.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            into.lock().unwrap().extend_from_slice(&buffer[..len]);
        }
    });
    read
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_call_and_says_what_is_missing() {
    let folder = TestDir::new("log-unread");
    let config = configured(folder.path());
    let (from, to) = pipe().unwrap();
    let process = start(&config, &to);
    drop(to);
    let data = folder.path().join("data");
    let mut server = Serving::listening(process, &data, folder.path().join("serve.log"));
    let at = server.at("udp");
    let is_left_out = || figure(folder.path(), "signet_log_lines_left_out_total") > 0;
    let until = Instant::now() + 2 * PATIENCE;
    while !is_left_out() {
        assert!(Instant::now() < until, "there was room for all lines");
        for source in 0..SOURCES {
            refused(at, source, "REGISTER", "sip:example.com", "example.com");
            refused(
                at,
                source,
                "OPTIONS",
                "sip:alice@example.com",
                "far.example",
            );
        }
    }
    assert_eq!(server.options(), "SIP/2.0 200 OK");

    let read = read(from);
    let told = || String::from_utf8_lossy(&read.lock().unwrap()).into_owned();
    let wait_for = |what: &str| {
        let until = Instant::now() + PATIENCE;
        while !told().contains(what) {
            assert!(Instant::now() < until, "{what:?} is not in:\n{}", told());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for(LEFT_OUT);
    // Each line is whole, and the last is there.
    server.process.signal("-TERM");
    assert_eq!(server.process.wait(PATIENCE), Some(0));
    wait_for(" ended ");
    let told = told();
    let refused = told.lines().filter(|line| line.contains(": challenged 4"));
    let (count, is_whole) = refused.fold((0, true), |(count, is_whole), line| {
        (count + 1, is_whole && line.contains(" call \""))
    });
    assert!(count > 100 && is_whole, "{told}");
}

#[test]
fn a_server_whose_output_nobody_reads_starts_and_ends() {
    let folder = TestDir::new("log-full-pipe");
    let config = configured(folder.path());
    let (_from, mut to) = pipe().unwrap();
    let size = fcntl(&to, FcntlArg::F_GETPIPE_SZ).unwrap();
    to.write_all(&vec![b'.'; usize::try_from(size).unwrap()])
        .unwrap();
    let data = folder.path().join("data");
    let process = start(&config, &to);
    let mut server = Serving::listening(process, &data, folder.path().join("serve.log"));
    assert_eq!(server.options(), "SIP/2.0 200 OK");
    // Another finds the folder taken, and its last words no reader.
    assert_eq!(start(&config, &to).wait(PATIENCE), Some(1));
    server.process.signal("-TERM");
    assert_eq!(server.process.wait(PATIENCE), Some(0));
}
