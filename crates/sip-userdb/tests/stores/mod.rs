//! What the tests of stores share: programs, ports, folders, scripted servers.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

pub mod http;
pub mod ldap;
pub mod radius;
pub mod redis;
pub mod script;
pub mod suite;

use std::future::Future;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sip_userdb::{Layout, Options, Secret, Tls, UserDb};

/// How long anything may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a test of a client, which lives in one thread. It fails where it would hang.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    runtime.block_on(local.run_until(async {
        tokio::time::timeout(4 * PATIENCE, test)
            .await
            .expect("the test came to its end")
    }))
}

/// Options with little patience for connections that are dead.
pub fn options(url: &str) -> Options {
    Options {
        url: url.to_owned(),
        password: None,
        tls: Tls::Auto,
        tls_roots: None,
        layout: Layout::Signet,
        algorithms: None,
        wanted: None,
        connections_max: 4,
        connect_timeout_ms: 10_000,
    }
}

pub fn secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text.as_bytes().to_vec()))
}

/// What is wrong with options that must be refused.
pub fn refused(options: Options) -> String {
    match UserDb::new(options) {
        Ok(_) => panic!("it was taken"),
        Err(error) => error.to_string(),
    }
}

/// Whether a program is there; a test that cannot run fails, unless whoever runs it allows
/// it to be skipped.
pub fn have(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("PATH=$PATH:/usr/sbin; command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        let is_allowed = std::env::var_os("SIGNET_MAY_SKIP").is_some_and(|value| value == "1");
        assert!(
            is_allowed,
            "{program} is not installed (make tools does it); SIGNET_MAY_SKIP=1 skips such tests"
        );
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A folder of a test's own, removed with it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("signet-userdb-{}-{next}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file; its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that is killed with its test.
pub struct Program(Child);

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let child = command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port of this machine that nobody listens on.
pub fn free_port() -> u16 {
    sip_net::testing::free_ports(1)
}

/// Waits until something holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a program listens.
pub fn wait_for_port(port: u16) {
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    wait_until(&format!("a listener at {at}"), || {
        TcpStream::connect(at).is_ok()
    });
}

/// A certificate for `localhost` by an authority of its own: the files of the authority, the
/// certificate and the key.
pub fn certificate(folder: &Folder) -> [PathBuf; 3] {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &Issuer::new(authority, authority_key))
        .unwrap();
    [
        folder.write("ca.pem", &authority_certificate.pem()),
        folder.write("cert.pem", &certificate.pem()),
        folder.write("key.pem", &key.serialize_pem()),
    ]
}
