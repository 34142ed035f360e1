//! Suites and groups by what they must be worth and may cost: at a listener, with openssl
//! for the phone, and at a peer, with openssl for the neighbour; and what `signet check`
//! says of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::TestDir;
use crate::support::command::{Serving, fail, succeed, text};
use crate::support::openssl::{
    PATIENCE, call, refused, report_with, serve, write_config, write_pair,
};
use crate::support::{options, unique};
use sip_tls::testing::TestCa;

/// Writes a record of prices in which these suites and groups have these, in nanoseconds.
fn write_prices(folder: &Path, suites: &[(&str, u32)], groups: &[(&str, u32)]) {
    let mut items = String::new();
    let mut item = |name: &str, operation: &str, ns: u32| {
        let comma = if items.is_empty() { "" } else { "," };
        let _ = write!(
            items,
            "{comma}{{\"name\":\"{name}\",\"provider\":\"aws-lc\",\"operation\":\"{operation}\",\
             \"points\":[{{\"size_bytes\":0,\"median_ns\":{ns}}}]}}"
        );
    };
    for (suite, ns) in suites {
        for operation in ["send", "receive"] {
            item(&format!("tls-record/{suite}"), operation, *ns);
        }
    }
    for (group, ns) in groups {
        for operation in ["server", "client"] {
            let name = format!("handshake/full/p-256/{}", group.to_lowercase());
            item(&name, operation, *ns);
        }
    }
    let record = format!(
        "{{\"format\":\"signet-price\",\"version\":1,\"machine\":{{\"cpu_model\":\"Made up\"}},\"items\":[{items}]}}"
    );
    fs::write(folder.join("prices.json"), record).unwrap();
}

/// ChaCha20 cheapest and P-384 before X25519: not what anybody's default is.
fn write_odd_prices(folder: &Path) {
    write_prices(
        folder,
        &[
            ("TLS_CHACHA20_POLY1305_SHA256", 500),
            ("TLS_AES_256_GCM_SHA384", 800),
            ("TLS_AES_128_GCM_SHA256", 900),
        ],
        &[("P-384", 100_000), ("X25519", 200_000), ("P-256", 300_000)],
    );
}

#[test]
fn a_listener_takes_what_is_good_enough_and_nothing_below() {
    let folder = TestDir::new("tls-policy-floor");
    let server = serve(folder.path(), "min_confidentiality = 9\n", "");
    let at = server.at("tls");
    let told = call(at, &["-groups", "X25519:P-384"]);
    assert!(told.contains("New, TLSv1.3, Cipher is TLS_"), "{told}");
    assert!(!told.contains("Cipher is TLS_AES_128"), "{told}");
    assert!(told.contains("secp384r1"), "{told}");
    for (with, alert) in [
        (
            &["-tls1_2", "-groups", "P-384"][..],
            "alert protocol version",
        ),
        (
            &["-tls1_3", "-groups", "X25519:P-256"][..],
            "alert handshake failure",
        ),
        (
            &[
                "-tls1_3",
                "-groups",
                "P-384",
                "-ciphersuites",
                "TLS_AES_128_GCM_SHA256",
            ][..],
            "alert handshake failure",
        ),
    ] {
        let told = refused(at, with);
        assert!(told.contains(alert), "{with:?}:\n{told}");
    }
    let report = report_with(folder.path(), "1: 1 full, 0 resumed");
    assert!(report.contains("TLS_CHACHA20_POLY1305_SHA256"), "{report}");
    assert!(!report.contains("X25519,"), "{report}");
}

#[test]
fn a_listener_prefers_what_is_cheaper_here_and_a_list_still_wins() {
    let folder = TestDir::new("tls-policy-order");
    write_odd_prices(folder.path());
    let prices = "[tls]\nprices = \"prices.json\"\n";
    let server = serve(folder.path(), "min_confidentiality = 8\n", prices);
    let at = server.at("tls");
    // The suite is the server's to prefer; of the groups that are left TLS here takes the
    // one that the client prefers.
    let told = call(at, &["-groups", "P-384:X25519:P-256"]);
    assert!(
        told.contains("Cipher is TLS_CHACHA20_POLY1305_SHA256"),
        "{told}"
    );
    assert!(told.contains("secp384r1"), "{told}");
    let told = call(at, &["-groups", "X25519:P-384"]);
    assert!(told.contains("X25519"), "{told}");

    // What is broken and what is old, as far as this openssl still has it.
    let below = ["-tls1_2", "-cipher", "NULL-SHA:AES128-SHA:@SECLEVEL=0"];
    let told = refused(at, &below);
    assert!(told.contains("alert handshake failure"), "{told}");

    // A bound on what it may cost, taken up by a reload: 1,000 + 1,000 ns are left.
    write_config(
        folder.path(),
        "min_confidentiality = 8\nmax_cost_us = 2\nversions = [\"1.3\"]\n",
        prices,
    );
    server.process.signal("-HUP");
    server.wait_for_log(" reloaded");
    let told = call(at, &["-groups", "X25519:P-256:P-384"]);
    assert!(
        told.contains("Cipher is TLS_CHACHA20_POLY1305_SHA256"),
        "{told}"
    );
    for with in [
        ["-groups", "X25519"],
        ["-ciphersuites", "TLS_AES_256_GCM_SHA384"],
    ] {
        let told = refused(at, &with);
        assert!(
            told.contains("alert handshake failure"),
            "{with:?}:\n{told}"
        );
    }

    write_config(
        folder.path(),
        "min_confidentiality = 8\nsuites = [\"TLS_AES_128_GCM_SHA256\"]\nversions = [\"1.3\"]\ngroups = [\"P-256\"]\n",
        prices,
    );
    server.process.signal("-HUP");
    server.wait_for_count(" reloaded", 2);
    let told = call(at, &["-groups", "P-384:P-256"]);
    assert!(told.contains("Cipher is TLS_AES_128_GCM_SHA256"), "{told}");
    assert!(told.contains("prime256v1"), "{told}");
}

/// A TLS server; it ends with this value.
struct Neighbour {
    child: Child,
    port: u16,
    log: std::path::PathBuf,
}

impl Neighbour {
    fn start(folder: &Path, name: &str, further: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let at = |name: &str| folder.join(name).display().to_string();
        let log = folder.join(format!("{name}.log"));
        let out = fs::File::create(&log).unwrap();
        let child = Command::new("openssl")
            .args(["s_server", "-accept", &format!("127.0.0.1:{port}")])
            .args(["-cert", &at("neighbour.pem"), "-key", &at("neighbour.key")])
            .args(further)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        let neighbour = Self { child, port, log };
        neighbour.wait_for("ACCEPT");
        neighbour
    }

    fn told(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn wait_for(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.told().contains(text) {
            assert!(Instant::now() < until, "no {text:?} in:\n{}", self.told());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the last line with this beginning says.
    fn line(&self, front: &str) -> String {
        let told = self.told();
        let mut lines = told.lines().filter_map(|line| line.strip_prefix(front));
        lines
            .next_back()
            .unwrap_or_else(|| panic!("no {front:?} in:\n{told}"))
            .trim()
            .to_owned()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request over UDP that the server forwards to the neighbour.
fn send_through(server: &Serving, domain: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap().to_string();
    let request = options(&local, "UDP", domain).replace("@test", &format!("@{}", unique()));
    socket
        .send_to(request.as_bytes(), server.at("udp"))
        .unwrap();
}

#[test]
fn a_peer_is_offered_what_is_good_enough_in_the_order_of_its_price() {
    let folder = TestDir::new("tls-policy-peer");
    let ca = TestCa::new();
    fs::write(folder.path().join("root.pem"), ca.root_pem()).unwrap();
    write_pair(folder.path(), "neighbour", &ca.issue(&["127.0.0.1"]));
    write_odd_prices(folder.path());
    let good = Neighbour::start(folder.path(), "good", &[]);
    let weak = Neighbour::start(folder.path(), "weak", &["-groups", "X25519:P-256"]);
    let gateway = |name: &str, port: u16| {
        format!(
            "[[gateway_group]]\nname = \"{name}\"\ngateways = [{{ uri = \"sip:127.0.0.1:{port};transport=tls\" }}]\n\
             [[route]]\ndomain = \"{name}.example\"\ngroup = \"{name}\"\n"
        )
    };
    let rest = format!(
        "[authentication]\nrequired = false\n[proxy]\ndead_hop_ms = 0\n{}{}\
         [tls]\ntrust = [\"root.pem\"]\nprices = \"prices.json\"\n\
         [[tls.peer]]\nnames = [\"127.0.0.1\"]\nmin_confidentiality = 9\n",
        gateway("good", good.port),
        gateway("weak", weak.port)
    );
    let server = serve(folder.path(), "", &rest);
    send_through(&server, "good.example");
    good.wait_for("OPTIONS sip:good.example");
    assert_eq!(
        good.line("Shared ciphers:"),
        "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"
    );
    let groups = good.line("Supported groups:").to_lowercase();
    assert!(groups.starts_with("secp384r1"), "{groups}");
    assert!(
        !groups.contains("x25519:") && !groups.contains("secp256r1:"),
        "{groups}"
    );

    // A neighbour that has less gets nothing.
    send_through(&server, "weak.example");
    weak.wait_for("ERROR");
    assert!(!weak.told().contains("OPTIONS sip:"), "{}", weak.told());
    let called = report_with(folder.path(), "TLS_CHACHA20_POLY1305_SHA256");
    assert!(called.contains("P-384"), "{called}");
}

#[test]
fn a_check_says_what_policies_come_to_and_what_to_relax() {
    let folder = TestDir::new("tls-policy-check");
    write_odd_prices(folder.path());
    let config = write_config(
        folder.path(),
        "min_confidentiality = 9\nmin_authentication = 8\nmax_cost_us = 100\n",
        "[tls]\nprices = \"prices.json\"\n[[tls.peer]]\nnames = [\"gw.example\"]\nmin_authentication = 8\n",
    );
    let told = succeed(&["check", text(&config)], "");
    for line in [
        "prices.json, of Made up",
        "listen.1.security tls:127.0.0.1:0: confidentiality 9 or more, authentication 8 or more, 100 us at most",
        "  versions 1.3",
        "  suites   TLS_CHACHA20_POLY1305_SHA256, TLS_AES_256_GCM_SHA384",
        "  groups   P-384",
        "  first    TLS_CHACHA20_POLY1305_SHA256 with P-384: confidentiality 9, authentication 8, forward secrecy 9; 2.00 us",
        "  without  X25519: confidentiality 8 is less than 9: X25519",
        "  without  X25519MLKEM768: what it costs is not known",
        "tls.peer.0: authentication 8 or more",
        "signet.toml: good",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
    // Without a file the prices are another machine's, and that is said.
    let config = write_config(folder.path(), "min_confidentiality = 8\n", "");
    let told = succeed(&["check", text(&config)], "");
    assert!(told.contains("not on this machine"), "{told}");
    let config = write_config(
        folder.path(),
        "min_confidentiality = 9\nmax_cost_us = 1\n",
        "[tls]\nprices = \"prices.json\"\n",
    );
    let error = fail(&["check", text(&config)], "");
    assert!(
        error.contains(
            "raise max_cost_us from 1 to 2, and TLS_CHACHA20_POLY1305_SHA256 with P-384 will do"
        ),
        "{error}"
    );
    let started = fail(&["serve", "--config", text(&config)], "");
    assert!(
        started.contains("raise max_cost_us from 1 to 2"),
        "{started}"
    );
}
