//! The program, run to its end or as a server on ports that the kernel chose.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use sip_net::testing::uninterrupted;

use super::{Running, options, signet};

/// Runs the program to its end.
pub fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(signet())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that reads no input may have ended by now.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Runs the program, which must succeed; its standard output.
pub fn succeed(arguments: &[&str], input: &str) -> String {
    let output = run(arguments, input);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "signet {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program, which must fail with 1; its standard error.
pub fn fail(arguments: &[&str], input: &str) -> String {
    let output = run(arguments, input);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "signet {arguments:?}: {error}"
    );
    error
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server on ports that the kernel chose.
pub struct Serving {
    pub process: Running,
    pub listeners: Vec<(String, SocketAddr)>,
    pub log: std::path::PathBuf,
}

impl Serving {
    /// Starts `signet serve` with these arguments and waits for its
    /// `listeners.json` in `data`.
    pub fn start(folder: &Path, data: &Path, arguments: &[&str]) -> Self {
        let log = folder.join("serve.log");
        let process = Running::start(signet(), &[&["serve"], arguments].concat(), &log);
        Self::listening(process, data, log)
    }

    /// Waits for the `listeners.json` of a server that was started.
    pub fn listening(mut process: Running, data: &Path, log: std::path::PathBuf) -> Self {
        let file = data.join("listeners.json");
        let until = Instant::now() + Duration::from_secs(30);
        while !file.exists() {
            let ended = process.child.try_wait().unwrap();
            let told = || fs::read_to_string(&log).unwrap_or_default();
            assert!(
                ended.is_none() && Instant::now() < until,
                "the server does not listen: {}",
                told()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let told = fs::read_to_string(&file).unwrap();
        let field = |line: &str| line.split('"').nth(3).map(str::to_owned);
        let values = |name: &str| -> Vec<String> {
            told.lines()
                .filter(|line| line.contains(name))
                .filter_map(field)
                .collect()
        };
        let addresses = values("\"address\"")
            .into_iter()
            .map(|address| address.parse().unwrap());
        let listeners = values("\"transport\"").into_iter().zip(addresses).collect();
        Self {
            process,
            listeners,
            log,
        }
    }

    pub fn at(&self, transport: &str) -> SocketAddr {
        let found = self.listeners.iter().find(|(of, _)| of == transport);
        found
            .unwrap_or_else(|| panic!("no {transport} in {:?}", self.listeners))
            .1
    }

    /// The first line of the answer to an OPTIONS, over UDP.
    pub fn options(&self) -> String {
        let to = self.at("udp");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let request = options(
            &socket.local_addr().unwrap().to_string(),
            "UDP",
            &to.to_string(),
        );
        socket.send_to(request.as_bytes(), to).unwrap();
        let mut answer = [0; 65_535];
        let length = uninterrupted(|| socket.recv(&mut answer)).unwrap();
        String::from_utf8_lossy(&answer[..length])
            .lines()
            .next()
            .unwrap()
            .to_owned()
    }

    /// Waits until the log has `text`.
    pub fn wait_for_log(&self, text: &str) {
        self.wait_for_count(text, 1);
    }

    /// Waits until the log has `text` this often.
    pub fn wait_for_count(&self, text: &str, count: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let log = fs::read_to_string(&self.log).unwrap();
            if log.matches(text).count() >= count {
                return;
            }
            assert!(Instant::now() < until, "{text:?} is not in the log:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
