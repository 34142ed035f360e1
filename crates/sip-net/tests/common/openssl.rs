//! The `openssl` command as the other end; `scripts/tools` installs it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use sip_msg::Target;

use super::{Bench, Seen, request};

/// A directory for the files of one test, removed at its end.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sip-net-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}

/// A running `openssl`, with all that it prints.
pub struct Openssl {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    pub output: String,
    /// Whether it has closed its output.
    pub over: bool,
}

impl Openssl {
    pub fn start(args: &[&str]) -> Self {
        let mut child = Command::new("openssl")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let mut line = Vec::new();
                while reader.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                    let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                    line.clear();
                }
            });
        }
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            output: String::new(),
            over: false,
        }
    }

    /// `s_server` on a port of its own; gives where it listens.
    pub fn server(args: &[&str]) -> (Self, SocketAddr) {
        let mut all = vec!["s_server", "-accept", "127.0.0.1:0"];
        all.extend(args);
        let mut server = Self::start(&all);
        let patience = Instant::now();
        loop {
            server.read();
            if let Some(line) = server
                .output
                .lines()
                .find_map(|line| line.strip_prefix("ACCEPT "))
            {
                let addr = line.trim().parse().unwrap();
                return (server, addr);
            }
            assert!(
                !server.over && patience.elapsed() < PATIENCE,
                "{}",
                server.output
            );
            std::thread::yield_now();
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes);
            let _ = stdin.flush();
        }
    }

    /// Tells it that there is no more input.
    pub fn finish(&mut self) {
        self.stdin = None;
    }

    /// Takes in what it printed meanwhile.
    pub fn read(&mut self) {
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.output.push_str(&line),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.over = true;
                    return;
                }
            }
        }
    }

    /// How often it printed this.
    pub fn count(&self, what: &str) -> usize {
        self.output.matches(what).count()
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

/// Lets `openssl s_client` connect to the first listener, send a request and
/// wait for its answer; gives what it printed. It may also fail.
pub fn s_client(server: &mut Bench, args: &[&str]) -> String {
    let addr = server.addr().to_string();
    let mut all = vec!["s_client", "-connect", &addr, "-servername", "example.com"];
    all.extend(args);
    let mut client = Openssl::start(&all);
    client.write(&request("from openssl"));
    let patience = Instant::now();
    while !client.over {
        assert!(patience.elapsed() < PATIENCE, "{}", client.output);
        server.turn();
        let flows: Vec<_> = server
            .seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Message(flow, _) => Some(*flow),
                _ => None,
            })
            .collect();
        // Answered once for each message: what is seen stays to be looked at.
        for flow in flows.into_iter().skip(server.answered) {
            server.answered += 1;
            let identity = server.net.peer_identity(flow.conn);
            server.identities.push(identity);
            server.net.send(
                &Target::back(&flow),
                b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
                0,
            );
            server.net.flush();
        }
        client.read();
        if client.output.contains("SIP/2.0 200 OK") {
            client.finish();
        }
    }
    // Its end is seen, too.
    let patience = Instant::now();
    while server.net.connection_count() > 0 && patience.elapsed() < PATIENCE {
        server.turn();
    }
    client.output.clone()
}
