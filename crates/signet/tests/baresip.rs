//! Two baresips register with a password and call each other, over UDP, TCP
//! and TLS, and by their certificates alone. They run in a network namespace of the test's own, because
//! baresip wants an address that is not the loopback's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use sip_net::testing::uninterrupted;
use sip_tls::testing::TestCa;
use support::{ADDRESS, Running, TestDir, add_user, have, in_namespace, signet};

const DOMAIN: &str = "example.test";

#[test]
fn call_over_udp() {
    in_namespace("call_over_udp", || call("udp", 5060));
}

#[test]
fn call_over_tcp() {
    in_namespace("call_over_tcp", || call("tcp", 5060));
}

#[test]
fn call_over_tls() {
    in_namespace("call_over_tls", || call("tls", 5061));
}

fn call(transport: &str, port: u16) {
    if !have("baresip") {
        return;
    }
    let folder = TestDir::new(&format!("baresip-{transport}"));
    let data = folder.path().join("data");
    let data_text = data.display().to_string();
    let log = folder.path().join("signet.log");
    let _server = Running::start(
        signet(),
        &[
            "serve",
            "--data",
            &data_text,
            "--domain",
            DOMAIN,
            "--workers",
            "2",
            "--listen",
            &format!("udp:{ADDRESS}:5060"),
            "--listen",
            &format!("tcp:{ADDRESS}:5060"),
            "--listen",
            &format!("tls:{ADDRESS}:5061"),
        ],
        &log,
    );
    wait_for("the server's TCP port", || {
        TcpStream::connect((ADDRESS, 5060)).is_ok()
    });
    add_user(&data, "alice", DOMAIN, "alice-secret");
    add_user(&data, "bob", DOMAIN, "bob-secret");
    phones_call(folder.path(), &data, (transport, port), "secret", "");
}

/// Without a good certificate nobody connects; with it a phone registers and
/// calls, and needs no password: the one that it has is wrong.
#[test]
fn call_over_tls_with_certificates() {
    in_namespace("call_over_tls_with_certificates", call_with_certificates);
}

fn call_with_certificates() {
    if !have("baresip") {
        return;
    }
    let folder = TestDir::new("baresip-certificates");
    let at = folder.path();
    let data = at.join("data");
    let ca = TestCa::new();
    fs::write(at.join("phones.pem"), ca.root_pem()).unwrap();
    for name in ["alice", "bob"] {
        // baresip wants certificate and key in one file.
        let (chain, key) = ca.issue(&[&format!("sip:{name}@{DOMAIN}")]);
        fs::write(at.join(format!("{name}.pem")), chain + &key).unwrap();
    }
    let config = at.join("signet.toml");
    let text = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"tcp:{ADDRESS}:5060\"\n[[listen]]\non = \"tls:{ADDRESS}:5061\"\n\
         [listen.security]\nclient_certificates = \"required\"\nclient_roots = [\"phones.pem\"]\n\
         client_certificates_authenticate = true\n"
    );
    fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let log = at.join("signet.log");
    let _server = Running::start(signet(), &["serve", "--config", &config], &log);
    wait_for("the server's TCP port", || {
        TcpStream::connect((ADDRESS, 5060)).is_ok()
    });
    add_user(&data, "alice", DOMAIN, "alice-secret");
    add_user(&data, "bob", DOMAIN, "bob-secret");
    let more = format!("sip_certificate {}/NAME.pem\n", at.display());
    phones_call(at, &data, ("tls", 5061), "wrong", &more);
}

/// Lets alice call bob; `more` is for their configurations, with NAME for whose
/// it is.
fn phones_call(folder: &Path, data: &Path, server: (&str, u16), password: &str, more: &str) {
    let ca = data.join("ca.pem");
    assert!(ca.exists(), "{} is not there", ca.display());
    let start = |name: &str, port, answer| {
        let password = format!("{name}-{password}");
        let more = more.replace("NAME", name);
        Phone::start(folder, (name, &password), port, &ca, server, answer, &more)
    };
    let mut bob = start("bob", 5966, "auto");
    let mut alice = start("alice", 5976, "manual");
    for phone in [&mut bob, &mut alice] {
        let name = phone.name.clone();
        wait_for(&format!("{name}'s registration"), || phone.registered());
    }
    alice.command("dial", &format!("sip:bob@{DOMAIN}"));
    alice.wait_event("CALL_ESTABLISHED");
    bob.wait_event("CALL_ESTABLISHED");
    std::thread::sleep(Duration::from_millis(500));
    alice.command("hangup", "");
    bob.wait_event("CALL_CLOSED");
}

/// A baresip and the line to it.
struct Phone {
    name: String,
    process: Running,
    line: TcpStream,
    heard: String,
}

impl Phone {
    fn start(
        folder: &Path,
        (name, password): (&str, &str),
        port: u16,
        ca: &Path,
        (transport, server_port): (&str, u16),
        answer: &str,
        more: &str,
    ) -> Self {
        let home = folder.join(name);
        fs::create_dir_all(&home).unwrap();
        let control = port + 1_000;
        let config = format!(
            "poll_method epoll\nsip_listen {ADDRESS}:{port}\nsip_cafile {}\nsip_verify_server yes\n\
             audio_source aubridge,{name}\naudio_player aubridge,{name}\nrtp_ports {}-{}\n\
             module_path /usr/lib/baresip/modules\nmodule g711.so\nmodule aubridge.so\n\
             module_tmp uuid.so\nmodule_tmp account.so\nmodule_app menu.so\nmodule_app ctrl_tcp.so\n\
             ctrl_tcp_listen 127.0.0.1:{control}\n{more}",
            ca.display(),
            port + 10_000,
            port + 10_008,
        );
        fs::write(home.join("config"), config).unwrap();
        let account = format!(
            "<sip:{name}@{DOMAIN};transport={transport}>;auth_user={name};auth_pass={password};\
             outbound=\"sip:{ADDRESS}:{server_port};transport={transport}\";regint=60;answermode={answer}\n"
        );
        fs::write(home.join("accounts"), account).unwrap();
        fs::write(home.join("contacts"), "").unwrap();
        let process = Running::start(
            "baresip",
            &["-f", &home.display().to_string()],
            &home.join("log"),
        );
        wait_for(&format!("{name}'s control port"), || {
            TcpStream::connect(("127.0.0.1", control)).is_ok()
        });
        let line = TcpStream::connect(("127.0.0.1", control)).unwrap();
        line.set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        Self {
            name: name.to_owned(),
            process,
            line,
            heard: String::new(),
        }
    }

    /// Sends one command as a netstring of JSON.
    fn command(&mut self, command: &str, parameters: &str) {
        let json =
            format!("{{\"command\":\"{command}\",\"params\":\"{parameters}\",\"token\":\"t\"}}");
        self.line
            .write_all(format!("{}:{json},", json.len()).as_bytes())
            .unwrap();
    }

    fn listen(&mut self) {
        let mut buffer = [0; 16_384];
        if let Ok(n) = uninterrupted(|| self.line.read(&mut buffer)) {
            self.heard.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    }

    fn registered(&mut self) -> bool {
        self.command("reginfo", "");
        self.listen();
        self.heard.contains("REGISTER_OK") || self.heard.contains("OK ")
    }

    fn wait_event(&mut self, event: &str) {
        let until = Instant::now() + Duration::from_secs(10);
        while !self.heard.contains(event) {
            assert!(
                Instant::now() < until,
                "{} heard no {event}: {}",
                self.name,
                self.heard
            );
            assert!(
                self.process.child.try_wait().unwrap().is_none(),
                "{}'s baresip ended",
                self.name
            );
            self.listen();
        }
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}
