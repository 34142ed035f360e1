//! openssl s_client as a phone, and a server with a TLS listener for it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::command::{Serving, text};
use super::{options, unique};

/// How long anything may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A connection of `openssl s_client`.
pub struct Client {
    to: SocketAddr,
    child: Child,
    input: Option<ChildStdin>,
    told: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Client {
    /// Connects with further arguments.
    pub fn connect(to: SocketAddr, arguments: &[&str]) -> Self {
        let mut child = Command::new("openssl")
            .args(["s_client", "-connect", &to.to_string()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let told = Arc::new(Mutex::new(String::new()));
        let out: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
        let err: Box<dyn Read + Send> = Box::new(child.stderr.take().unwrap());
        let mut readers = Vec::new();
        for mut stream in [out, err] {
            let told = Arc::clone(&told);
            readers.push(std::thread::spawn(move || {
                let mut buffer = [0; 4_096];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    *told.lock().unwrap() += &String::from_utf8_lossy(&buffer[..n]);
                }
            }));
        }
        let input = child.stdin.take();
        Self {
            to,
            child,
            input,
            told,
            readers,
        }
    }

    /// All that it has said so far.
    pub fn told(&self) -> String {
        self.told.lock().unwrap().clone()
    }

    /// Waits until it has said one of these; which one.
    pub fn wait_for(&self, texts: &[&str]) -> usize {
        let until = Instant::now() + PATIENCE;
        loop {
            let told = self.told();
            if let Some(found) = texts.iter().position(|text| told.contains(text)) {
                return found;
            }
            assert!(Instant::now() < until, "none of {texts:?} in:\n{told}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends an OPTIONS and waits for its own answer.
    pub fn exchange(&mut self) {
        let name = unique();
        let request = options("127.0.0.1:9", "TLS", &self.to.to_string())
            .replace("@test", &format!("@{name}"));
        let input = self.input.as_mut().unwrap();
        input.write_all(request.as_bytes()).unwrap();
        input.flush().unwrap();
        self.wait_for(&[&format!("@{name}")]);
        assert!(self.told().contains("SIP/2.0 200"), "{}", self.told());
    }

    /// Sends a request and waits for its own answer; the status of that.
    pub fn ask(&mut self, request: &str) -> u16 {
        let call_id = field(request, "Call-ID: ").expect("a request has a Call-ID");
        let input = self.input.as_mut().unwrap();
        input.write_all(request.as_bytes()).unwrap();
        input.flush().unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let told = self.told();
            let status = told.split("SIP/2.0 ").skip(1).find_map(|answer| {
                let status: u16 = answer.get(..3)?.parse().ok()?;
                (status >= 200 && field(answer, "Call-ID: ") == Some(call_id)).then_some(status)
            });
            if let Some(status) = status {
                return status;
            }
            assert!(Instant::now() < until, "no answer to {call_id} in:\n{told}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the process has ended, because the connection did.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Ends it; what it said. Waits until the process is gone.
    pub fn end(mut self) -> String {
        drop(self.input.take());
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        self.told()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of a line that begins like this.
fn field<'t>(message: &'t str, name: &str) -> Option<&'t str> {
    message.lines().find_map(|line| line.strip_prefix(name))
}

/// One whole connection with an OPTIONS on it; what openssl said.
pub fn call(to: SocketAddr, arguments: &[&str]) -> String {
    let mut client = Client::connect(to, arguments);
    client.exchange();
    client.end()
}

/// A connection that the server must refuse; what openssl said.
pub fn refused(to: SocketAddr, arguments: &[&str]) -> String {
    let mut client = Client::connect(to, arguments);
    // In TLS 1.3 the client is done before the server has looked: only what
    // comes after that tells.
    let until = Instant::now() + PATIENCE;
    while client.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it goes on:\n{}", client.told());
        std::thread::sleep(Duration::from_millis(10));
    }
    let told = client.end();
    assert!(!told.contains("SIP/2.0"), "{told}");
    told
}

/// Whether openssl resumed a session.
pub fn is_resumed(told: &str) -> bool {
    let (new, reused) = (
        told.contains("\nNew, TLSv"),
        told.contains("\nReused, TLSv"),
    );
    assert!(new != reused, "{told}");
    reused
}

/// Starts a server by a configuration with one UDP and one TLS listener;
/// `security` is what stands in the latter's table, `more` what comes behind.
pub fn serve(folder: &Path, security: &str, more: &str) -> Serving {
    let config = write_config(folder, security, more);
    Serving::start(folder, &folder.join("data"), &["--config", text(&config)])
}

/// Writes the configuration for [`serve`], for a reload.
pub fn write_config(folder: &Path, security: &str, more: &str) -> PathBuf {
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[[listen]]\non = \"tls:127.0.0.1:0\"\n\
         [listen.security]\n{security}\n[metrics]\nlisten = \"127.0.0.1:0\"\n{more}"
    );
    fs::write(&config, whole).unwrap();
    config
}

/// Writes a certificate and its key, 0600, as `NAME.pem` and `NAME.key`.
pub fn write_pair(folder: &Path, name: &str, pair: &(String, String)) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(folder.join(format!("{name}.pem")), &pair.0).unwrap();
    let key = folder.join(format!("{name}.key"));
    fs::write(&key, &pair.1).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
}

/// What `signet tls` prints, once it has `expected` in it: a worker reports
/// its figures now and then.
pub fn report_with(folder: &Path, expected: &str) -> String {
    let config = folder.join("signet.toml");
    let until = Instant::now() + PATIENCE;
    loop {
        let report = super::command::succeed(&["tls", "--config", text(&config)], "");
        if report.contains(expected) {
            return report;
        }
        assert!(Instant::now() < until, "{expected:?} is not in:\n{report}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A page of the server's address for figures.
pub fn page(folder: &Path, path: &str) -> String {
    // The server answers before it is written.
    let until = Instant::now() + PATIENCE;
    let told = loop {
        match fs::read_to_string(folder.join("data/listeners.json")) {
            Ok(told) => break told,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let line = told
        .lines()
        .find(|line| line.contains("\"metrics\""))
        .unwrap();
    let addr: SocketAddr = line.split('"').nth(3).unwrap().parse().unwrap();
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What a counter says at `/metrics`; its name may have labels.
pub fn figure(folder: &Path, name: &str) -> u64 {
    let page = page(folder, "/metrics");
    let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
    page.lines().find_map(value).unwrap_or(0)
}

/// Waits until a counter says this: a worker reports its figures now and then.
pub fn wait_for_figure(folder: &Path, name: &str, expected: u64) {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = figure(folder, name);
        if found == expected {
            return;
        }
        assert!(
            Instant::now() < until,
            "{name} is {found} and not {expected}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
