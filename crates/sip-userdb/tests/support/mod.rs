//! Servers of databases that tests start, and what every store is held to.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each file of tests is a program of its own and uses a part of this"
)]

pub mod mariadb;
pub mod postgresql;
pub mod suite;

use std::fs;
use std::future::Future;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(60);

/// Runs a test on the runtime that a [`sip_userdb::UserDb`] needs.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(test))
}

/// A missing program fails a test; with SIGNET_MAY_SKIP=1 it skips it.
pub fn program(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = std::env::split_paths(&path).chain(folders.iter().map(PathBuf::from));
    for folder in known {
        let file = folder.join(name);
        if file.is_file() {
            return Some(file);
        }
    }
    let is_allowed = std::env::var_os("SIGNET_MAY_SKIP").is_some_and(|value| value == "1");
    assert!(
        is_allowed,
        "{name} is not installed (`make tools` does it); SIGNET_MAY_SKIP=1 skips such tests"
    );
    eprintln!("skipped: {name} is not installed");
    None
}

/// A folder of the test's own, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        // Servers that refuse to be root look into it, too.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port of 127.0.0.1 that nobody listens on.
pub fn free_port() -> u16 {
    sip_net::testing::free_ports(1)
}

/// A server, ended by its number when this is dropped.
pub struct Server {
    child: Child,
    signal: Signal,
}

impl Server {
    /// Starts it; `signal` ends it at once. What it says goes to `log`.
    pub fn start(command: &mut Command, signal: Signal, log: &Path) -> Self {
        let log = fs::File::create(log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, signal }
    }

    /// Waits until it listens on a port of 127.0.0.1.
    pub fn until_listening(&mut self, port: u16, log: &Path) {
        let until = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < until,
                "the server does not listen: {}",
                fs::read_to_string(log).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it. Others of this thread go on meanwhile: a PostgreSQL that is told to end waits
    /// a minute for whoever was about to log in.
    pub async fn end(self) {
        let signal = self.signal;
        self.end_by(signal).await;
    }

    /// The same by another signal.
    pub async fn end_by(mut self, signal: Signal) {
        let _ = kill(self.pid(), signal);
        while self.child.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(self.pid(), self.signal);
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, with `input`; it must succeed.
pub fn succeed(command: &mut Command, input: Option<&Path>) {
    if let Some(input) = input {
        command.stdin(fs::File::open(input).unwrap());
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Certificates of a private authority, in files.
pub struct Authority {
    /// Its own certificate.
    pub roots: PathBuf,
    /// A server's chain and key, for `localhost` and 127.0.0.1.
    pub chain: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new(folder: &Folder, name: &str) -> Self {
        use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let leaf_key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(names).unwrap();
        let leaf = leaf.signed_by(&leaf_key, &issuer).unwrap();
        let write = |kind: &str, text: String| {
            let file = folder.file(&format!("{name}-{kind}.pem"));
            fs::write(&file, text).unwrap();
            file
        };
        Self {
            roots: write("roots", own.pem()),
            chain: write("chain", leaf.pem()),
            key: write("key", leaf_key.serialize_pem()),
        }
    }
}
