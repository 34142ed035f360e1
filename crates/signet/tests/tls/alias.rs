//! RFC 5923 through the whole server: a neighbour behind a firewall is called by
//! the connection that it opened, and nobody is who only says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::command::Serving;
use crate::support::openssl::{PATIENCE, serve, write_pair};
use crate::support::{TestDir, options, unique};
use sip_msg::{ConnId, Lane, ListenerId, Target, Transport};
use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, bind};
use sip_tls::testing::TestCa;
use sip_tls::{ClientTlsConfig, HandshakeConfig, HandshakePool};

/// A neighbour that has opened a connection to the server.
struct Neighbour {
    net: Net,
    target: Target,
}

impl Neighbour {
    fn connect(server: &Serving, ca: &TestCa, names: &[&str]) -> Self {
        let mut tls = ClientTlsConfig::new()
            .roots_pem(&[ca.root_pem().as_bytes()])
            .unwrap();
        if !names.is_empty() {
            let (chain, key) = ca.issue(names);
            tls = tls.identity_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        }
        let config = NetConfig {
            client_tls: Some(Arc::new(tls.build().unwrap())),
            handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
            ..NetConfig::default()
        };
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = ListenerConfig::outbound(Transport::Tls, any);
        let mut sockets = bind(&[listener], 1).unwrap();
        let target = Target {
            transport: Transport::Tls,
            listener: ListenerId(0),
            remote: server.at("tls"),
            conn: ConnId::NONE,
            may_open: true,
            tls_name: Some("example.com".into()),
            lane: Lane::Shared,
            local: None,
        };
        Self {
            net: Net::new(0, config, sockets.remove(0)).unwrap(),
            target,
        }
    }

    /// Asks the server how it is, with this in the Via, and waits for the answer.
    fn say(&mut self, sent_by: &str) {
        let request = options(sent_by, "TLS", "example.com").replace(";branch", ";alias;branch");
        self.net.send(&self.target, request.as_bytes(), 0);
        let until = Instant::now() + PATIENCE;
        while !self.turn().iter().any(|text| text.starts_with("SIP/2.0 ")) {
            assert!(Instant::now() < until, "the server does not answer");
        }
    }

    /// What came; requests are answered.
    fn turn(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        self.net
            .poll(Some(Duration::from_millis(10)), |event| {
                if let NetEvent::Message { flow, bytes } = event {
                    came.push((flow, String::from_utf8_lossy(bytes).into_owned()));
                }
            })
            .unwrap();
        for (flow, text) in &came {
            if !text.starts_with("SIP/2.0") {
                let lines = text.lines().filter(|line| {
                    ["Via:", "From:", "To:", "Call-ID:", "CSeq:"]
                        .iter()
                        .any(|name| line.starts_with(name))
                });
                let head: String = lines.map(|line| format!("{line}\r\n")).collect();
                let answer = format!("SIP/2.0 200 OK\r\n{head}Content-Length: 0\r\n\r\n");
                self.net.send(&Target::back(flow), answer.as_bytes(), 0);
            }
        }
        self.net.flush();
        came.into_iter().map(|(_, text)| text).collect()
    }
}

/// Sends requests for the neighbour's domain, one after the other: the
/// statuses of their answers, and how many of them came to `neighbour`.
fn ask(server: &Serving, neighbour: &mut Neighbour, count: usize) -> (Vec<u16>, usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let timeout = Some(Duration::from_millis(5));
    socket.set_read_timeout(timeout).unwrap();
    let local = socket.local_addr().unwrap().to_string();
    let (mut statuses, mut came) = (Vec::new(), 0);
    let mut buffer = [0; 65_535];
    for _ in 0..count {
        let request =
            options(&local, "UDP", "elsewhere.example").replace("@test", &format!("@{}", unique()));
        socket
            .send_to(request.as_bytes(), server.at("udp"))
            .unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < until, "no answer");
            came += neighbour
                .turn()
                .iter()
                .filter(|text| text.starts_with("OPTIONS sip:elsewhere.example"))
                .count();
            let Ok(len) = socket.recv(&mut buffer) else {
                continue;
            };
            let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
            let status: u16 = text.split(' ').nth(1).unwrap().parse().unwrap();
            if status >= 200 {
                statuses.push(status);
                break;
            }
        }
    }
    (statuses, came)
}

#[test]
fn a_neighbour_is_called_by_its_connection_only_if_it_has_proved_its_name() {
    for (names, is_reached) in [
        (&["127.0.0.1"][..], true),
        // It has its own name alone, or none at all: what it says of itself is
        // all the same.
        (&["evil.example.net"], false),
        (&[], false),
    ] {
        let folder = TestDir::new("alias");
        let ca = TestCa::new();
        fs::write(folder.path().join("root.pem"), ca.root_pem()).unwrap();
        write_pair(folder.path(), "me", &ca.issue(&["example.com"]));
        // Nobody listens where the neighbour is called.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let rest = format!(
            "[authentication]\nrequired = false\n[proxy]\ndead_hop_ms = 0\n\
             [[gateway_group]]\nname = \"g\"\ngateways = [{{ uri = \"sip:127.0.0.1:{port};transport=tls\" }}]\n\
             [[route]]\ndomain = \"elsewhere.example\"\ngroup = \"g\"\n[tls]\ntrust = [\"root.pem\"]\n"
        );
        let security = "certificate = \"me.pem\"\nkey = \"me.key\"\n\
                        client_certificates = \"optional\"\nclient_roots = [\"root.pem\"]";
        let server = serve(folder.path(), security, &rest);
        let mut neighbour = Neighbour::connect(&server, &ca, names);
        neighbour.say(&format!("127.0.0.1:{port}"));
        // Several, so that some belong to the worker that has not the connection.
        let (statuses, came) = ask(&server, &mut neighbour, 8);
        if is_reached {
            assert_eq!((statuses, came), (vec![200; 8], 8));
        } else {
            assert_eq!(came, 0, "{names:?}");
            assert!(statuses.iter().all(|status| *status >= 500), "{statuses:?}");
        }
    }
}
