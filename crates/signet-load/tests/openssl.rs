//! OpenSSL as the server: it confirms from outside that sessions are resumed
//! and that each agent shows its own certificate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{calls_to, drive};
use signet_load::{Leaked, Lifetime, Pattern, Settings, Users};
use sip_msg::Transport;
use sip_tls::testing::TestCa;
use sip_tls::{ClientResumption, TlsVersion};

const CALLS: u64 = 4;

/// `openssl s_server` and its files; it ends with this value.
struct OpenSsl {
    child: Child,
    folder: PathBuf,
    addr: SocketAddr,
}

impl OpenSsl {
    fn start(name: &str, ca: &TestCa, options: &[&str]) -> Self {
        let folder =
            std::env::temp_dir().join(format!("signet-load-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let (chain, key) = ca.issue(&["load.test"]);
        let (chain_file, key_file, ca_file) = (
            folder.join("s.pem"),
            folder.join("s.key"),
            folder.join("ca.pem"),
        );
        fs::write(&chain_file, chain).unwrap();
        fs::write(&key_file, key).unwrap();
        fs::write(&ca_file, ca.root_pem()).unwrap();
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = Command::new("openssl")
            .args(["s_server", "-accept", &free.to_string(), "-quiet", "-msg"])
            .args([
                "-cert",
                text(&chain_file),
                "-key",
                text(&key_file),
                "-CAfile",
                text(&ca_file),
            ])
            .args(options)
            .stdin(Stdio::piped())
            .stderr(log.try_clone().unwrap())
            .stdout(log)
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(free).is_err() {
            assert!(Instant::now() < until, "openssl does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self {
            child,
            folder,
            addr: free,
        }
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("log")).unwrap()).into_owned()
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Calls one after the other: OpenSSL serves one connection at a time, and
/// answers no call.
fn settings(server: &OpenSsl) -> Settings {
    let mut settings = calls_to(server.addr, Transport::Tls, CALLS);
    settings.server.as_mut().unwrap().host = "load.test".to_owned();
    settings.schedule = Some(
        measure::Schedule::parse("1/s for 60s")
            .unwrap()
            .limit(CALLS),
    );
    settings.handshake_timeout = Duration::from_secs(20);
    settings.tls.roots = vec![server.folder.join("ca.pem")];
    settings
}

/// How often the server sent its certificate: once in each full handshake.
fn certificates_sent(log: &str) -> usize {
    log.lines()
        .filter(|line| line.starts_with(">>>") && line.trim_end().ends_with(", Certificate"))
        .count()
}

#[test]
fn resumed_sessions_are_resumed_as_openssl_sees_it() {
    let ca = TestCa::new();
    for (version, option, by) in [
        (TlsVersion::V12, "-tls1_2", ClientResumption::Tickets),
        (TlsVersion::V12, "-tls1_2", ClientResumption::SessionIds),
        (TlsVersion::V13, "-tls1_3", ClientResumption::Any),
    ] {
        for share in [0.0, 1.0] {
            let server = OpenSsl::start(&format!("resume-{option}-{by:?}-{share}"), &ca, &[option]);
            let mut settings = settings(&server);
            settings.tls.versions = vec![version];
            settings.tls.resume_share = share;
            settings.tls.resume_by = by;
            let ran = drive(settings);
            let log = server.log();
            let (full, resumed) = if share > 0.0 {
                (1, CALLS - 1)
            } else {
                (CALLS, 0)
            };
            assert_eq!(
                (
                    ran.handshakes.full,
                    ran.handshakes.resumed,
                    ran.handshakes.failed
                ),
                (full, resumed, 0),
                "{option} {by:?} {share}: {log}"
            );
            assert_eq!(
                certificates_sent(&log) as u64,
                full,
                "{option} {by:?} {share}: {log}"
            );
            assert_eq!(ran.leaked, Leaked::default());
        }
    }
}

#[test]
fn each_agent_shows_its_own_certificate() {
    let ca = TestCa::new();
    let server = OpenSsl::start("mutual", &ca, &["-Verify", "1", "-verify_return_error"]);
    for number in 1..=CALLS {
        let (chain, key) = ca.issue(&[&format!("user{number}.test")]);
        fs::write(server.folder.join(format!("{number}.pem")), chain).unwrap();
        fs::write(server.folder.join(format!("{number}.key")), key).unwrap();
    }
    let pattern = |ending: &str| {
        Pattern::parse(&format!("{}/{{n}}.{ending}", server.folder.display())).unwrap()
    };
    let mut with = settings(&server);
    with.users = Users::from_pattern("user{n}", None, usize::try_from(CALLS).unwrap()).unwrap();
    with.lifetime = Lifetime::Calls(1);
    with.tls.agent_identity = Some((pattern("pem"), pattern("key")));
    let ran = drive(with);
    assert_eq!(
        (ran.handshakes.full, ran.handshakes.failed),
        (CALLS, 0),
        "{}",
        server.log()
    );
    // Without one there is no connection.
    let ran = drive(settings(&server));
    let causes = ran.causes.ranked();
    assert!(
        causes.iter().all(|(why, _)| why != "timeout") && ran.failed == CALLS,
        "{causes:?}: {}",
        server.log()
    );
}
