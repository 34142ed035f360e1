//! Chromium, a page that is a phone, and the server that it comes from.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../browser/page.html");
/// A browser takes its time on a machine under load.
const PATIENCE: Duration = Duration::from_secs(90);

/// What pages told, line by line.
#[derive(Default)]
pub struct Told {
    lines: Mutex<Vec<String>>,
    /// How many lines each page has told.
    counts: Mutex<HashMap<String, usize>>,
    more: Condvar,
}

impl Told {
    /// Takes a line of a page, unless it has come before.
    fn take(&self, page: &str, number: usize, line: String) {
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(page.to_owned()).or_default();
        if number == *count {
            *count += 1;
            self.lines.lock().unwrap().push(line);
            self.more.notify_all();
        }
    }

    /// Waits until that line is there.
    pub fn wait_for(&self, line: &str) {
        let mut count = 0;
        while !self.wait(count + 1).iter().any(|told| told == line) {
            count = self.lines.lock().unwrap().len();
        }
    }

    /// Waits until there are `count` lines; all of them.
    pub fn wait(&self, count: usize) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        let mut lines = self.lines.lock().unwrap();
        while lines.len() < count {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{count} lines did not come: {lines:?}");
            (lines, _) = self.more.wait_timeout(lines, left).unwrap();
        }
        lines.clone()
    }
}

/// A server for the page that writes down what the page tells.
pub struct Site {
    at: SocketAddr,
    pub told: Arc<Told>,
}

impl Site {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let told = Arc::new(Told::default());
        let teller = Arc::clone(&told);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let told = Arc::clone(&teller);
                std::thread::spawn(move || serve(stream, &told));
            }
        });
        Self { at, told }
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.at)
    }

    /// The page's address, for a phone at `server`.
    pub fn page(&self, server: &str, domain: &str) -> String {
        format!(
            "{}/?url={server}&user=alice&password=alice-secret&domain={domain}",
            self.origin()
        )
    }
}

/// One request of the browser and its answer.
fn serve(stream: TcpStream, told: &Told) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let mut reader = BufReader::new(stream);
    let (mut request, mut line, mut length) = (String::new(), String::new(), 0);
    while reader.read_line(&mut line).is_ok_and(|len| len > 2) {
        if request.is_empty() {
            request.clone_from(&line);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let place = request.strip_prefix("POST /told/");
    let place = place.and_then(|place| place.split(' ').next()?.split_once('/'));
    let answer = if let Some((page, number)) = place {
        let line = String::from_utf8_lossy(&body).into_owned();
        told.take(page, number.parse().unwrap(), line);
        ""
    } else if request.starts_with("GET /?") {
        PAGE
    } else {
        return;
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    let _ = reader.get_mut().write_all((head + answer).as_bytes());
}

/// A Chromium with a profile of its own; all its processes end with this value.
pub struct Browser {
    child: Child,
}

impl Browser {
    /// Opens `page`. A server whose certificate leads to no authority that the
    /// browser knows is taken only where its key has the hash `key`.
    pub fn open(folder: &Path, key: &str, page: &str) -> Self {
        let key = format!("--ignore-certificate-errors-spki-list={key}");
        Self::open_with(folder, &[&key], "127.0.0.1", page)
    }

    /// Opens `page` with further arguments; the addresses that it may go to.
    pub fn open_with(folder: &Path, more: &[&str], reached: &str, page: &str) -> Self {
        let profile = folder.join("profile");
        let log = fs::File::create(folder.join("chromium.log")).unwrap();
        let child = Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args([
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--no-proxy-server",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args([
                "--disable-sync",
                "--disable-default-apps",
                "--disable-extensions",
            ])
            // Nothing is looked up, so nothing leaves this machine.
            .arg(format!(
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE {reached}"
            ))
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(more)
            .arg(page)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .env("HOME", folder)
            .process_group(0)
            .spawn()
            .unwrap();
        Self { child }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}
