//! The connections that the server opens: it shows its certificate to a
//! neighbour that asks for one, and resumes. The neighbour is openssl s_server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::TestDir;
use crate::support::command::Serving;
use crate::support::openssl::{PATIENCE, report_with, serve, write_config, write_pair};
use crate::support::{options, unique};
use sip_tls::testing::TestCa;

/// A TLS server that wants certificates; it ends with this value.
struct Neighbour {
    child: Child,
    port: u16,
}

impl Neighbour {
    fn start(folder: &Path, version: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let at = |name: &str| folder.join(name).display().to_string();
        let log = fs::File::create(folder.join("neighbour.log")).unwrap();
        let child = Command::new("openssl")
            .args(["s_server", "-accept", &format!("127.0.0.1:{port}"), version])
            .args(["-cert", &at("neighbour.pem"), "-key", &at("neighbour.key")])
            .args([
                "-CAfile",
                &at("root.pem"),
                "-Verify",
                "3",
                "-verify_return_error",
            ])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let until = Instant::now() + PATIENCE;
        while !fs::read_to_string(folder.join("neighbour.log"))
            .unwrap()
            .contains("ACCEPT")
        {
            assert!(Instant::now() < until, "the neighbour does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, port }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request over UDP that the server forwards to the neighbour.
fn send_through(server: &Serving) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap().to_string();
    let request =
        options(&local, "UDP", "elsewhere.example").replace("@test", &format!("@{}", unique()));
    socket
        .send_to(request.as_bytes(), server.at("udp"))
        .unwrap();
}

#[test]
fn the_server_shows_its_certificate_to_a_neighbour_and_resumes() {
    // In TLS 1.3 a client is done before the server has seen its certificate,
    // so the handshake that the neighbour refuses counts as done.
    for (version, total) in [
        ("-tls1_2", "2: 1 full, 1 resumed"),
        ("-tls1_3", "3: 2 full, 1 resumed"),
    ] {
        let folder = TestDir::new(&format!("tls-neighbour{version}"));
        let ca = TestCa::new();
        fs::write(folder.path().join("root.pem"), ca.root_pem()).unwrap();
        write_pair(folder.path(), "neighbour", &ca.issue(&["127.0.0.1"]));
        write_pair(folder.path(), "me", &ca.issue(&["example.com"]));
        let neighbour = Neighbour::start(folder.path(), version);
        let rest = format!(
            "[authentication]\nrequired = false\n[connections]\nidle_timeout_ms = 1000\n[proxy]\ndead_hop_ms = 0\n\
             [[gateway_group]]\nname = \"g\"\ngateways = [{{ uri = \"sip:127.0.0.1:{};transport=tls\" }}]\n\
             [[route]]\ndomain = \"elsewhere.example\"\ngroup = \"g\"\n[tls]\ntrust = [\"root.pem\"]\n",
            neighbour.port
        );
        let log = || fs::read_to_string(folder.path().join("neighbour.log")).unwrap();
        let server = serve(folder.path(), "", &rest);
        send_through(&server);
        wait_until(&log, |log| {
            log.contains("peer did not return a certificate")
        });
        assert!(
            !log().contains("OPTIONS sip:elsewhere.example"),
            "{}",
            log()
        );

        // With a certificate it gets through; it is taken up by a reload.
        let identity = "identity = { cert = \"me.pem\", key = \"me.key\" }\n";
        write_config(folder.path(), "", &format!("{rest}{identity}"));
        server.process.signal("-HUP");
        server.wait_for_log(" reloaded");
        send_until(&server, &log, |log| {
            log.contains("OPTIONS sip:elsewhere.example")
        });
        assert!(log().contains("CN = Test certificate"), "{}", log());

        // The idle connection ends, as the refused one did; the next resumes.
        wait_until(&log, |log| {
            log.matches("DONE").count() + log.matches("ERROR").count() >= 2
        });
        let before = log().matches("OPTIONS sip:elsewhere.example").count();
        send_until(&server, &log, |log| {
            log.matches("OPTIONS sip:elsewhere.example").count() > before
        });
        report_with(folder.path(), total);
    }
}

/// Sends a request until it arrives: what is sent over a connection that is
/// ending is lost, and nobody sends it again over another.
fn send_until(server: &Serving, log: &dyn Fn() -> String, is_so: impl Fn(&str) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so(&log()) {
        assert!(Instant::now() < until, "{}", log());
        send_through(server);
        let again = Instant::now() + Duration::from_secs(3);
        while !is_so(&log()) && Instant::now() < again {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn wait_until(log: &dyn Fn() -> String, is_so: impl Fn(&str) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so(&log()) {
        assert!(Instant::now() < until, "{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}
