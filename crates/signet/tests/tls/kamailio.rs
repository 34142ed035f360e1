//! Kamailio as a neighbour over mutual TLS, both ways: each shows the other its
//! certificate, and asks for one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::command::Serving;
use crate::support::openssl::{PATIENCE, serve, wait_for_figure, write_pair};
use crate::support::{Running, TestDir, free_port, have, skip, unique};
use sip_net::testing::uninterrupted;
use sip_tls::testing::TestCa;

/// A Kamailio that sends what comes over UDP on to Signet over TLS, and answers
/// what comes over TLS by saying who it was.
struct Kamailio {
    process: Running,
    udp: SocketAddr,
    tls: u16,
}

impl Kamailio {
    /// Starts it with the certificate `NAME.pem`; `to` is the TLS port of
    /// Signet.
    fn start(folder: &Path, name: &str, port: u16, to: u16) -> Self {
        let (udp, tls) = (port, port + 1);
        let at = |file: &str| folder.join(file).display().to_string();
        let side = |side: &str| {
            format!(
                "[{side}:default]\nmethod = TLSv1.2+\nverify_certificate = yes\nrequire_certificate = yes\n\
                 private_key = {}\ncertificate = {}\nca_list = {}\n",
                at(&format!("{name}.key")),
                at(&format!("{name}.pem")),
                at("root.pem")
            )
        };
        fs::write(at("tls.cfg"), side("server") + &side("client")).unwrap();
        let config = format!(
            "#!KAMAILIO\ndebug=1\nlog_stderror=yes\nchildren=1\ntcp_children=1\nenable_tls=yes\nauto_aliases=no\n\
             listen=udp:127.0.0.1:{udp}\nlisten=tls:127.0.0.1:{tls}\n\
             loadmodule \"sl.so\"\nloadmodule \"tm.so\"\nloadmodule \"pv.so\"\nloadmodule \"textops.so\"\n\
             loadmodule \"siputils.so\"\nloadmodule \"tls.so\"\nmodparam(\"tls\", \"config\", \"{}\")\n\
             request_route {{\n\
               if ($proto == \"tls\") {{\n\
                 sl_send_reply(\"200\", \"You are $tls_peer_san_hostname\");\n    exit;\n  }}\n\
               t_relay_to(\"tls:127.0.0.1:{to}\");\n}}\n",
            at("tls.cfg")
        );
        fs::write(at("kamailio.cfg"), config).unwrap();
        let run = folder.join("run");
        fs::create_dir_all(&run).unwrap();
        let process = Running::start(
            "kamailio",
            &[
                "-f",
                &at("kamailio.cfg"),
                "-DD",
                "-E",
                "-m",
                "64",
                "-M",
                "8",
                "-Y",
                &run.display().to_string(),
            ],
            &folder.join("kamailio.log"),
        );
        let this = Self {
            process,
            udp: SocketAddr::from(([127, 0, 0, 1], udp)),
            tls,
        };
        let until = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", tls)).is_err() {
            assert!(
                Instant::now() < until,
                "kamailio does not listen: {}",
                fs::read_to_string(folder.join("kamailio.log")).unwrap()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        this
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // The first process takes its children with it when it is asked to end.
        self.process.signal("-TERM");
        let _ = self.process.wait(Duration::from_secs(10));
    }
}

fn is_there() -> bool {
    let find = "find /usr/lib -path '*kamailio*' -name tls.so | grep -q .";
    let has_tls = || {
        let found = Command::new("sh").args(["-c", find]).status();
        found.is_ok_and(|status| status.success())
    };
    if !have("kamailio") {
        return false;
    }
    if !has_tls() {
        skip("kamailio has no TLS (`make tools` installs kamailio-tls-modules)");
        return false;
    }
    true
}

/// Sends a MESSAGE over UDP, again as RFC 3261 17.1.2 has it, until there is a
/// final answer; the first line of that.
fn ask(to: SocketAddr, uri: &str, from: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap();
    let unique = unique();
    let request = format!(
        "MESSAGE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{unique}\r\nMax-Forwards: 70\r\n\
         From: <{from}>;tag=t{unique}\r\nTo: <{uri}>\r\nCall-ID: {unique}\r\nCSeq: 1 MESSAGE\r\n\
         Content-Length: 0\r\n\r\n"
    );
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let until = Instant::now() + PATIENCE;
    let mut buffer = [0; 65_535];
    loop {
        assert!(Instant::now() < until, "no answer to {request}");
        socket.send_to(request.as_bytes(), to).unwrap();
        while let Ok(length) = uninterrupted(|| socket.recv(&mut buffer)) {
            let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let first = answer.lines().next().unwrap().to_owned();
            if !first.starts_with("SIP/2.0 1") {
                return first;
            }
        }
    }
}

struct World {
    folder: TestDir,
    kamailio: Kamailio,
    server: Serving,
}

impl World {
    /// The two, of which Kamailio shows a certificate for `names`.
    fn new(test: &str, names: &[&str]) -> Self {
        let folder = TestDir::new(test);
        let at = folder.path();
        let ca = TestCa::new();
        fs::write(at.join("root.pem"), ca.root_pem()).unwrap();
        write_pair(at, "signet", &ca.issue(&["example.com"]));
        write_pair(at, "kamailio", &ca.issue(names));
        let port = free_port();
        // Who is not in the list is known by nothing but his certificate.
        let server = serve(
            at,
            "certificate = \"signet.pem\"\nkey = \"signet.key\"\nclient_certificates = \"required\"\nclient_roots = [\"root.pem\"]\n",
            &format!(
                "[[trusted]]\nidentity = \"peer.example\"\n\
                 [[trusted]]\nnetwork = \"127.0.0.1\"\nspeaks_for = [\"test.example\"]\n\
                 [[gateway_group]]\nname = \"k\"\ngateways = [{{ uri = \"sip:127.0.0.1:{};transport=tls\" }}]\n\
                 [[route]]\ndomain = \"peer.example\"\ngroup = \"k\"\n\
                 [tls]\ntrust = [\"root.pem\"]\nidentity = {{ cert = \"signet.pem\", key = \"signet.key\" }}\n\
                 [[tls.peer]]\nnames = [\"127.0.0.1\"]\nexpect = \"peer.example\"\n",
                port + 1
            ),
        );
        let kamailio = Kamailio::start(at, "kamailio", port, server.at("tls").port());
        assert_eq!(kamailio.tls, port + 1);
        Self {
            folder,
            kamailio,
            server,
        }
    }
}

#[test]
fn each_proves_who_it_is_to_the_other() {
    if !is_there() {
        return;
    }
    let world = World::new("tls-kamailio", &["peer.example"]);
    // From here to there: Kamailio says whose certificate it saw.
    let to_it = |from: &str| ask(world.server.at("udp"), "sip:x@peer.example", from);
    assert_eq!(
        to_it("sip:a@test.example"),
        "SIP/2.0 200 You are example.com"
    );
    // From there to here: it speaks for its own domain, and for no other.
    let to_us = |from: &str| ask(world.kamailio.udp, "sip:nobody@example.com", from);
    assert_eq!(to_us("sip:a@peer.example"), "SIP/2.0 404 Not Found");
    for other in ["bank.example", "example.com", "sub.peer.example"] {
        assert_eq!(
            to_us(&format!("sip:a@{other}")),
            "SIP/2.0 403 Forbidden",
            "{other}"
        );
    }
    wait_for_figure(world.folder.path(), "signet_identities_refused_total", 3);
}

#[test]
fn what_kamailio_takes_for_a_name_is_none_here() {
    if !is_there() {
        return;
    }
    // Kamailio verifies chains and leaves names to its script: a wildcard is
    // all the same to it.
    let world = World::new("tls-kamailio-wildcard", &["*.example"]);
    let to_us = |from: &str| ask(world.kamailio.udp, "sip:nobody@example.com", from);
    assert_eq!(to_us("sip:a@peer.example"), "SIP/2.0 403 Forbidden");
    // And it is not called, because it does not prove the name.
    let said = ask(
        world.server.at("udp"),
        "sip:x@peer.example",
        "sip:a@test.example",
    );
    assert!(!said.contains("200"), "{said}");
    wait_for_figure(
        world.folder.path(),
        "signet_tls_listener_certificates_refused_total{listener=\"opened\",fault=\"wrong_name\"}",
        1,
    );
}
