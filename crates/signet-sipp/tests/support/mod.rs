//! Starts the program, alone or beside SIPp, and waits for it.
// Not every test needs all of it, and what goes wrong here ends a test.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take, however busy the machine is.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// An INVITE of nobody in particular.
pub(crate) const INVITE: &[u8] = b"INVITE sip:a@b SIP/2.0\r\n\
    Via: SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK1\r\n\
    From: <sip:c@d>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: an-invite\r\nCSeq: 1 INVITE\r\n\
    Contact: <sip:c@127.0.0.1:9>\r\nContent-Length: 0\r\n\r\n";

/// A program that is running; it does not outlive the test.
pub(crate) struct Running {
    child: Child,
    folder: PathBuf,
    name: String,
}

/// What a program left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Whether it ended already.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn wait(mut self) -> Ended {
        await_that("the program ends", || self.has_ended());
        let status = self.child.wait().unwrap();
        let read = |kind: &str| {
            let path = self.folder.join(format!("{}.{kind}", self.name));
            String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
        };
        Ended {
            code: status.code().unwrap_or(-1),
            stdout: read("stdout"),
            stderr: read("stderr"),
        }
    }
}

pub(crate) fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder that is gone with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let path = std::env::temp_dir().join(format!(
            "signet-sipp-run-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.0.join(name);
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The name of the one file that ends so.
    pub(crate) fn find(&self, end: &str) -> String {
        let names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(end))
            .collect();
        assert_eq!(names.len(), 1, "{end}: {names:?}");
        names.into_iter().next().unwrap()
    }

    /// Starts our program with a line of arguments.
    pub(crate) fn ours(&self, name: &str, line: &str) -> Running {
        self.program(env!("CARGO_BIN_EXE_signet-sipp"), name, line)
    }

    /// Starts SIPp with a line of arguments.
    pub(crate) fn sipp(&self, name: &str, line: &str) -> Running {
        self.program("sipp", name, line)
    }

    fn program(&self, program: &str, name: &str, line: &str) -> Running {
        let file =
            |kind: &str| std::fs::File::create(self.0.join(format!("{name}.{kind}"))).unwrap();
        let child = Command::new(program)
            .args(line.split_whitespace())
            .arg("-nostdin")
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; scripts/tools installs sipp"));
        Running {
            child,
            folder: self.0.clone(),
            name: name.to_owned(),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that nobody has.
pub(crate) fn free_port() -> u16 {
    free_ports(1)
}

/// The first of so many ports in a row that nobody has.
pub(crate) fn free_ports(count: u16) -> u16 {
    sip_net::testing::free_ports(count)
}

/// Whether somebody receives datagrams at the port, or listens there. A connection that somebody
/// before had there stays in the table for a minute (TIME-WAIT) and is nobody.
pub(crate) fn is_taken(port: u16) -> bool {
    // Read and not tried: who tries to bind takes the port from whom he awaits.
    let place = format!(":{port:04X}");
    // The states of proc(5): of UDP all count, of TCP that which listens.
    [("/proc/net/udp", ""), ("/proc/net/tcp", "0A")]
        .iter()
        .any(|(table, state)| {
            let table = std::fs::read_to_string(table).unwrap();
            table.lines().any(|line| {
                let mut columns = line.split_whitespace();
                let local = columns.nth(1).unwrap_or_default();
                let of_line = columns.nth(1).unwrap_or_default();
                local.ends_with(&place) && of_line.ends_with(state)
            })
        })
}

/// Waits until somebody listens.
pub(crate) fn await_port(port: u16, running: &mut Running) {
    await_that("somebody listens", || {
        assert!(!running.has_ended(), "it ended before it listened");
        is_taken(port)
    });
}

/// A file of the repository's root.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}
