//! Two baresips register with a password and call each other, over UDP, TCP
//! and TLS. They run in a network namespace of the test's own, because
//! baresip wants an address that is not the loopback's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

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
    let ca = data.join("ca.pem");
    assert!(ca.exists(), "{} is not there", ca.display());

    let mut bob = Phone::start(folder.path(), "bob", 5966, &ca, (transport, port), "auto");
    let mut alice = Phone::start(
        folder.path(),
        "alice",
        5976,
        &ca,
        (transport, port),
        "manual",
    );
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
        name: &str,
        port: u16,
        ca: &Path,
        (transport, server_port): (&str, u16),
        answer: &str,
    ) -> Self {
        let home = folder.join(name);
        fs::create_dir_all(&home).unwrap();
        let control = port + 1_000;
        let config = format!(
            "poll_method epoll\nsip_listen {ADDRESS}:{port}\nsip_cafile {}\nsip_verify_server yes\n\
             audio_source aubridge,{name}\naudio_player aubridge,{name}\nrtp_ports {}-{}\n\
             module_path /usr/lib/baresip/modules\nmodule g711.so\nmodule aubridge.so\n\
             module_tmp uuid.so\nmodule_tmp account.so\nmodule_app menu.so\nmodule_app ctrl_tcp.so\n\
             ctrl_tcp_listen 127.0.0.1:{control}\n",
            ca.display(),
            port + 10_000,
            port + 10_008,
        );
        fs::write(home.join("config"), config).unwrap();
        let account = format!(
            "<sip:{name}@{DOMAIN};transport={transport}>;auth_user={name};auth_pass={name}-secret;\
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
        if let Ok(n) = self.line.read(&mut buffer) {
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
