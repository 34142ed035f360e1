//! Sessions with neighbours resume on every worker, and are a node's own and a
//! run's own; openssl s_server tells, and so do our figures by peer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::TestDir;
use crate::support::command::Serving;
use crate::support::openssl::{PATIENCE, page, report_with, serve, write_pair};
use crate::support::{options, unique};
use sip_tls::testing::TestCa;

/// How a session with the neighbour can resume: what the neighbour is started
/// with, and what we call it.
const MECHANISMS: [(&[&str], &str, &str); 3] = [
    (&["-tls1_2", "-no_ticket"], "1.2", "session_id"),
    (&["-tls1_2"], "1.2", "ticket"),
    (&["-tls1_3"], "1.3", "psk"),
];
/// Connections that fall on two workers by their Call-IDs.
const MANY: usize = 8;

/// A TLS server that we forward to; it ends with this value.
struct Neighbour {
    child: Child,
    port: u16,
    log: PathBuf,
}

/// A server that forwards to the neighbour.
struct Node {
    serving: Serving,
    folder: PathBuf,
    /// Connections that it has opened.
    opened: usize,
}

impl Node {
    /// Waits until its figures know of all its connections, and that they ended:
    /// a request that comes before would be sent on one that is gone.
    fn wait_until_idle(&self) {
        let until = Instant::now() + PATIENCE;
        let listener = "listener=\"opened\"";
        let closed = format!("\nsignet_listener_connections{{{listener}}} 0\n");
        let handshakes = format!("signet_tls_listener_handshakes_total{{{listener}");
        loop {
            let figures = page(&self.folder, "/metrics");
            let done: usize = figures
                .lines()
                .filter(|line| line.starts_with(&handshakes))
                .map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
                .sum();
            if done == self.opened && figures.contains(&closed) {
                return;
            }
            assert!(Instant::now() < until, "{}: {figures}", self.opened);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Neighbour {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let at = |name: &str| folder.join(name).display().to_string();
        let log = folder.join("neighbour.log");
        let out = fs::File::create(&log).unwrap();
        let child = Command::new("openssl")
            .args(["s_server", "-accept", &format!("127.0.0.1:{port}")])
            .args(["-cert", &at("neighbour.pem"), "-key", &at("neighbour.key")])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        let neighbour = Self { child, port, log };
        neighbour.wait_until(|log| log.contains("ACCEPT"));
        neighbour
    }

    fn wait_until(&self, is_so: impl Fn(&str) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so(&self.told()) {
            assert!(Instant::now() < until, "{}", self.told());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn told(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// A request through `server`, on a connection that ends with it: whether
    /// openssl resumed a session for it.
    fn call(&mut self, node: &mut Node) -> bool {
        let before = self.told().len();
        let name = unique();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = socket.local_addr().unwrap().to_string();
        let request =
            options(&local, "UDP", "elsewhere.example").replace("@test", &format!("@{name}"));
        socket
            .send_to(request.as_bytes(), node.serving.at("udp"))
            .unwrap();
        self.wait_until(|log| log.contains(&format!("@{name}")));
        // It serves one connection at a time; this ends that and no more.
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"q\n")
            .unwrap();
        self.wait_until(|log| log[before..].contains("DONE"));
        node.opened += 1;
        node.wait_until_idle();
        self.told()[before..].contains("Reused session-id")
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node with two workers that forwards to the neighbour.
fn node(folder: &TestDir, name: &str, port: u16) -> Node {
    let own = folder.path().join(name);
    fs::create_dir_all(&own).unwrap();
    let config = format!(
        "[authentication]\nrequired = false\n[proxy]\ndead_hop_ms = 0\n\
         [[gateway_group]]\nname = \"g\"\ngateways = [{{ uri = \"sip:127.0.0.1:{port};transport=tls\" }}]\n\
         [[route]]\ndomain = \"elsewhere.example\"\ngroup = \"g\"\n\
         [tls]\ntrust = [\"{}\"]\n",
        folder.path().join("root.pem").display()
    );
    Node {
        serving: serve(&own, "", &config),
        folder: own,
        opened: 0,
    }
}

#[test]
fn sessions_with_a_neighbour_resume_on_every_worker_and_belong_to_a_node_and_its_run() {
    for (arguments, version, by) in MECHANISMS {
        let folder = TestDir::new(&format!("tls-client-{by}"));
        let ca = TestCa::new();
        fs::write(folder.path().join("root.pem"), ca.root_pem()).unwrap();
        write_pair(folder.path(), "neighbour", &ca.issue(&["127.0.0.1"]));
        let mut neighbour = Neighbour::start(folder.path(), arguments);
        let mut one = node(&folder, "one", neighbour.port);
        assert!(!neighbour.call(&mut one), "{by}: a first one");
        for nth in 0..MANY {
            assert!(neighbour.call(&mut one), "{by}, {nth}");
        }

        // Our own figures say the same, of the neighbour by its name.
        let own = folder.path().join("one");
        let total = format!("{}: 1 full, {MANY} resumed", MANY + 1);
        let report = report_with(&own, &total);
        let peer = report.split("peer 127.0.0.1, connections opened by this server");
        let peer = peer.last().unwrap();
        assert!(peer.contains(&total), "{report}");
        assert!(peer.contains(&format!("{MANY} {by}")), "{report}");
        let at = "peer=\"127.0.0.1\",opened_by=\"us\"";
        for line in [
            format!(
                "signet_tls_peer_handshakes_total{{{at},kind=\"resumed\",version=\"{version}\"}} {MANY}\n"
            ),
            format!("signet_tls_peer_resumed_total{{{at},by=\"{by}\"}} {MANY}\n"),
            "signet_tls_client_sessions 1\n".to_owned(),
        ] {
            let figures = page(&own, "/metrics");
            assert!(figures.contains(&line), "{line} is not in\n{figures}");
        }

        // They are kept in memory, and nowhere else.
        one.serving.process.signal("-TERM");
        assert_eq!(one.serving.process.wait(Duration::from_secs(30)), Some(0));
        let mut one = node(&folder, "one", neighbour.port);
        assert!(!neighbour.call(&mut one), "{by}: after a restart");
        assert!(neighbour.call(&mut one), "{by}: and again");
        let mut two = node(&folder, "two", neighbour.port);
        assert!(!neighbour.call(&mut two), "{by}: on another node");
        assert!(neighbour.call(&mut two), "{by}: and again there");
    }
}
