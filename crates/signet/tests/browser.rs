//! Chromium opens a page that registers over wss with a password and answers a
//! call that comes over UDP. Signalling only. The browser checks the server's
//! certificate: the one key that it takes is named by its hash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use support::command::{Serving, succeed, text};
use support::phone::Phone;
use support::{TestDir, add_user, have};

const DOMAIN: &str = "example.com";
const PAGE: &str = include_str!("browser/page.html");
/// A browser takes its time on a machine under load.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the page told, line by line.
#[derive(Default)]
struct Told {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Told {
    /// Waits until there are `count` lines; all of them.
    fn wait(&self, count: usize) -> Vec<String> {
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
struct Site {
    at: SocketAddr,
    told: Arc<Told>,
}

impl Site {
    fn start() -> Self {
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

    fn origin(&self) -> String {
        format!("http://{}", self.at)
    }

    /// The page's address, for a phone at `server`.
    fn page(&self, server: &str) -> String {
        format!(
            "{}/?url={server}&user=alice&password=alice-secret&domain={DOMAIN}",
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
    let answer = if request.starts_with("POST /told ") {
        let mut lines = told.lines.lock().unwrap();
        lines.push(String::from_utf8_lossy(&body).into_owned());
        told.more.notify_all();
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
struct Browser {
    child: Child,
}

impl Browser {
    /// Opens `page`. A server whose certificate leads to no authority that the
    /// browser knows is taken only where its key has the hash `key`.
    fn open(folder: &Path, key: &str, page: &str) -> Self {
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
            .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--ignore-certificate-errors-spki-list={key}"))
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

/// The hash of the key in a certificate, as the browser wants it: base64 of
/// SHA-256 of its SubjectPublicKeyInfo. By openssl, so not by us.
fn key_hash(certificate: &Path) -> String {
    let script = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | \
                  openssl dgst -sha256 -binary | openssl enc -base64";
    let output = Command::new("sh")
        .args(["-c", script, text(certificate)])
        .output()
        .unwrap();
    let hash = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!(hash.len(), 44, "{hash}");
    hash
}

/// A server with a UDP and a wss listener, for pages of `origins`.
fn start(folder: &Path, origins: &str) -> Serving {
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n\
         [[listen]]\non = \"wss:127.0.0.1:0\"\n[listen.websocket]\norigins = [{origins}]\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n"
    );
    fs::write(&config, whole).unwrap();
    let data = folder.join("data");
    let server = Serving::start(folder, &data, &["--config", text(&config)]);
    for user in ["alice", "bob"] {
        add_user(&data, user, DOMAIN, &format!("{user}-secret"));
    }
    server
}

#[test]
fn a_page_registers_over_wss_and_takes_a_call() {
    if !have("chromium") {
        return;
    }
    let folder = TestDir::new("browser-call");
    let site = Site::start();
    let server = start(folder.path(), &format!("\"{}\"", site.origin()));
    let key = key_hash(&folder.path().join("data/server.pem"));
    let page = site.page(&format!("wss://{}/", server.at("wss")));
    let _browser = Browser::open(folder.path(), &key, &page);
    let told = site.told.wait(3);
    assert_eq!(told, ["open sip", "REGISTER 401", "REGISTER 200"]);
    let data = folder.path().join("data");
    let listed = succeed(
        &["bindings", "alice@example.com", "--data", text(&data)],
        "",
    );
    assert!(listed.contains(".invalid;transport=ws"), "{listed}");

    let mut bob = Phone::udp(server.at("udp"), "bob", DOMAIN);
    let mut call = bob.invite("alice");
    let answer = bob.established(&mut call);
    assert!(answer.contains("m=audio 0 RTP/AVP 0"), "{answer}");
    let told = site.told.wait(5);
    assert!(
        told[3].starts_with("INVITE <sip:bob@example.com>;tag="),
        "{told:?}"
    );
    assert_eq!(told[4], "ACK", "{told:?}");
    bob.hang_up(&mut call);
    bob.hung_up(&call);
    let told = site.told.wait(6);
    assert_eq!(told[5..], ["BYE"], "{told:?}");
}

#[test]
fn a_page_of_another_origin_is_refused_and_so_is_another_key() {
    if !have("chromium") {
        return;
    }
    let folder = TestDir::new("browser-refused");
    let site = Site::start();
    let server = start(folder.path(), "\"https://phone.example.net\"");
    let page = site.page(&format!("wss://{}/", server.at("wss")));
    let certificate = folder.path().join("data/server.pem");
    // The key is right, the page is not; then the key is not.
    let browser = Browser::open(folder.path(), &key_hash(&certificate), &page);
    assert_eq!(site.told.wait(1), ["closed 1006"]);
    drop(browser);
    support::openssl::report_with(folder.path(), "1: 1 full, 0 resumed");
    let wrong = key_hash(&folder.path().join("data/ca.pem"));
    let _browser = Browser::open(folder.path(), &wrong, &page);
    assert_eq!(site.told.wait(2), ["closed 1006", "closed 1006"]);
    let report = support::openssl::report_with(folder.path(), "certificate_refused");
    assert!(report.contains("wss:"), "{report}");
}
