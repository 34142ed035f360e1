//! Clients as they are, by each transport that they have: whether they register, call and are
//! called. The table that comes of it is docs/CLIENTS.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "clients/edge.rs"]
mod edge;
#[allow(dead_code)]
#[path = "office/phones.rs"]
mod phones;
#[allow(dead_code)]
#[path = "office/sipp.rs"]
mod sipp;
mod support;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::command::{Serving, succeed, text};
use support::{ADDRESS, TestDir, add_user, have, in_namespace};

use edge::Edge;
use phones::{Event, Habit, Kind, Phone, Site, have_python, installed, script};
use sipp::{End, Sipp};

const DOMAIN: &str = "example.test";
/// How long anything may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the client is, who calls it and is called by it, and the edge.
const CLIENT: &str = "10.77.0.20";
const OTHER: &str = "10.77.0.21";
const EDGE: &str = "10.77.0.50";

/// Where pages come from.
const PAGES: [u16; 2] = [8081, 8082];
const ORIGINS: &str = "origins = [\"http://127.0.0.1:8081\", \"http://127.0.0.1:8082\"]\n";

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Phone(Kind),
    /// Behind a Kamailio that writes itself into Path and Record-Route.
    Behind(Kind),
    Sipp,
    /// A library in a page; and the one that calls it, which has media of the same kind.
    Web(&'static str, &'static str),
}

/// By what each is tried.
const CLIENTS: [(&str, Client, &[&str]); 10] = [
    (
        "baresip 1.0, Debian's",
        Client::Phone(Kind::Baresip),
        &["udp", "tcp", "tls"],
    ),
    (
        "Linphone 5.1, Debian's",
        Client::Phone(Kind::Linphone),
        &["udp", "tcp", "tls"],
    ),
    (
        "pjsip 2.15 (pjsua2), from Python's registry",
        Client::Phone(Kind::Pjsua),
        &["udp", "tcp", "tls"],
    ),
    (
        "sippy 2.5, from Python's registry",
        Client::Phone(Kind::Sippy),
        &["udp"],
    ),
    (
        "JAIN-SIP 1.3, from Maven's registry",
        Client::Phone(Kind::Jain),
        &["udp", "tcp"],
    ),
    (
        "sipgo 1.7, from Go's proxy of modules",
        Client::Phone(Kind::Sipgo),
        &["udp", "tcp"],
    ),
    ("SIPp 3.6, Debian's", Client::Sipp, &["udp"]),
    (
        "JsSIP 3.13 in Chromium",
        Client::Web("jssip", "sipjs"),
        &["wss", "ws"],
    ),
    (
        "SIP.js 0.21 in Chromium",
        Client::Web("sipjs", "jssip"),
        &["wss", "ws"],
    ),
    (
        "pjsip 2.15 behind Kamailio 5.6, Debian's, as an edge",
        Client::Behind(Kind::Pjsua),
        &["udp"],
    ),
];

/// The server, and the other end of all calls.
struct Bed {
    other: Phone,
    _server: Serving,
    folder: TestDir,
}

impl Bed {
    fn start() -> Self {
        let folder = TestDir::new("clients");
        let at = folder.path();
        // Linphone takes a network without a way out for none.
        let lines = format!(
            "ip addr add {CLIENT}/24 dev ve0\nip addr add {OTHER}/24 dev ve0\n\
             ip addr add {EDGE}/24 dev ve0\nip route add default dev ve0\n"
        );
        let made = Command::new("sh").args(["-ec", &lines]).status().unwrap();
        assert!(made.success());
        let data = at.join("data");
        for user in ["alice", "bob", "carol", "sipp"] {
            add_user(&data, user, DOMAIN, &format!("{user}-secret"));
        }
        let config = at.join("signet.toml");
        let whole = format!(
            "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
             [[listen]]\non = \"udp:{ADDRESS}:5060\"\n[[listen]]\non = \"tcp:{ADDRESS}:5060\"\n\
             [[listen]]\non = \"tls:{ADDRESS}:5061\"\n\
             [[listen]]\non = \"ws:{ADDRESS}:8080\"\n[listen.websocket]\n{ORIGINS}\
             [[listen]]\non = \"wss:{ADDRESS}:8443\"\n[listen.websocket]\n{ORIGINS}\
             # SIPp answers the first challenge, whatever it is, and knows MD5.\n\
             [[authentication.lenient]]\nusers = [\"sipp\"]\nalgorithms = [\"MD5\"]\n"
        );
        fs::write(&config, whole).unwrap();
        let server = Serving::start(at, &data, &["--config", text(&config)]);
        let other = start(at, Kind::Pjsua, "alice", OTHER, ADDRESS, "udp");
        let this = Self {
            other,
            _server: server,
            folder,
        };
        this.wait_for_binding("alice");
        this
    }

    /// Waits until a user is bound; his contacts.
    fn wait_for_binding(&self, user: &str) -> String {
        let config = self.folder.path().join("signet.toml");
        let mut told = String::new();
        wait_for("a registration", || {
            told = succeed(&["bindings", user, "--config", text(&config)], "");
            told.contains(" at sip:")
        });
        told
    }

    fn unbind(&self, user: &str) {
        let config = self.folder.path().join("signet.toml");
        succeed(&["bindings", "remove", user, "--config", text(&config)], "");
    }

    /// What a client does by a transport, in the order of the table.
    fn tried(&mut self, client: Client, transport: &str) -> [bool; 3] {
        match client {
            Client::Phone(kind) => self.phone_tried(kind, ADDRESS, transport),
            Client::Behind(kind) => {
                let _edge = Edge::start(self.folder.path(), EDGE, ADDRESS);
                self.phone_tried(kind, EDGE, transport)
            }
            Client::Sipp => self.sipp_tried(),
            Client::Web(library, other) => self.web_tried(library, other, transport),
        }
    }

    fn phone_tried(&mut self, kind: Kind, server: &str, transport: &str) -> [bool; 3] {
        let at = self.folder.path().to_owned();
        let mut phone = start(&at, kind, "bob", CLIENT, server, transport);
        let registers = is_done(|| {
            let told = self.wait_for_binding("bob");
            assert!(
                server != ADDRESS || told.contains(&format!(" by {transport}")),
                "{told}"
            );
            assert!(server == ADDRESS || told.contains(EDGE), "{told}");
        });
        let calls = is_done(|| completed(&mut phone, "alice", &mut self.other));
        let is_called = is_done(|| completed(&mut self.other, "bob", &mut phone));
        drop(phone);
        self.unbind("bob");
        [registers, calls, is_called]
    }

    fn web_tried(&mut self, library: &str, other: &str, transport: &str) -> [bool; 3] {
        let mut page = self.page(library, "bob", transport, PAGES[0]);
        let mut other = self.page(other, "carol", "wss", PAGES[1]);
        let registers = is_done(|| {
            page.wait_for("REGISTERED");
            let told = self.wait_for_binding("bob");
            assert!(told.contains(&format!(" by {transport},")), "{told}");
        });
        self.wait_for_binding("carol");
        let calls = is_done(|| completed(&mut page, "carol", &mut other));
        let is_called = is_done(|| completed(&mut other, "bob", &mut page));
        drop((page, other));
        self.unbind("bob");
        self.unbind("carol");
        [registers, calls, is_called]
    }

    /// A page with a telephone of a user.
    fn page(&self, library: &str, user: &str, transport: &str, port: u16) -> Phone {
        let home = self.folder.path().join(format!("page-{user}"));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).unwrap();
        let server = match transport {
            "wss" => format!("wss://{ADDRESS}:8443/"),
            _ => format!("ws://{ADDRESS}:8080/"),
        };
        let wants = serde_json::json!({
            "url": server, "user": user, "password": format!("{user}-secret"), "domain": DOMAIN,
            "page": Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/web.html"),
            "library": installed().join(format!("web/{library}.js")),
            "port": port, "profile": home.join("profile"), "log": home.join("chromium.log"),
            "key": key_hash(&self.folder.path().join("data/server.pem")),
        });
        let words = script("clients/web_phone.py", &wants);
        Phone::spoken(user, Kind::Web, &words, &home)
    }

    fn sipp_tried(&mut self) -> [bool; 3] {
        let at = self.folder.path().to_owned();
        let sipp = Sipp {
            folder: &at,
            enter: Vec::new(),
            user: "sipp",
            password: "sipp-secret".to_owned(),
            address: CLIENT,
            server: "10.77.0.1:5060",
        };
        let mut answering = None;
        let registers = is_done(|| answering = Some(sipp.register_and_answer()));
        let calls = is_done(|| {
            self.other.forget();
            sipp.call("alice", false, End::Answered);
            self.other.wait(Event::Established);
            self.other.wait(Event::Closed);
        });
        let is_called = is_done(|| {
            self.other.dial("sipp");
            self.other.wait(Event::Established);
            self.other.hang_up();
            self.other.wait(Event::Closed);
        });
        [registers, calls, is_called]
    }
}

fn start(
    folder: &Path,
    kind: Kind,
    user: &str,
    address: &str,
    server: &str,
    transport: &str,
) -> Phone {
    let place = Site {
        folder,
        enter: Vec::new(),
        address,
        server,
        ports: (5060, 5061),
        ca: &folder.join("data/ca.pem"),
    };
    let password = format!("{user}-secret");
    Phone::start(kind, &place, (user, &password), transport, Habit::Answers)
}

/// The name of the key in a certificate by which a browser is told to take it.
fn key_hash(certificate: &Path) -> String {
    let script = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | \
                  openssl dgst -sha256 -binary | openssl enc -base64";
    let words = ["-c", script, text(certificate)];
    let output = Command::new("sh").args(words).output().unwrap();
    let hash = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!(hash.len(), 44, "{hash}");
    hash
}

/// A call from its first message to the end of both sides.
fn completed(caller: &mut Phone, called: &str, by: &mut Phone) {
    by.forget();
    caller.dial(called);
    by.wait(Event::Established);
    caller.wait(Event::Established);
    caller.hang_up();
    by.wait(Event::Closed);
    caller.wait(Event::Closed);
}

fn is_done(what: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(what)).is_ok()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The document, as it must be for what was found.
fn document(found: &[(&str, &str, [bool; 3])]) -> String {
    let mut text = "# Clients\n\n\
        Each of these is started by `crates/signet/tests/clients.rs` beside a running server with two\n\
        workers, which wants a password from everybody. It calls pjsip, which is registered over UDP,\n\
        and is called by it; pages call each other, because their media is of another kind. The test\n\
        holds this table to what it finds. What phones need that cannot do what is asked of all is in\n\
        [OPERATING](OPERATING.md).\n\n\
        | client | by | registers | calls | is called |\n|---|---|---|---|---|\n"
        .to_owned();
    for (client, transport, [registers, calls, is_called]) in found {
        let said = |is_so: &bool| if *is_so { "yes" } else { "no" };
        text += &format!(
            "| {client} | {} | {} | {} | {} |\n",
            transport.to_uppercase(),
            said(registers),
            said(calls),
            said(is_called)
        );
    }
    text
}

#[test]
fn the_table_of_clients_is_what_they_do() {
    in_namespace("the_table_of_clients_is_what_they_do", || {
        let tools = [
            "baresip",
            "linphone-daemon",
            "sipp",
            "kamailio",
            "chromium",
            "java",
            "openssl",
        ];
        if !(tools.iter().all(|of| have(of)) && have_python()) {
            return;
        }
        let mut bed = Bed::start();
        let mut found = Vec::new();
        for (name, client, transports) in CLIENTS {
            for transport in transports {
                let tried = bed.tried(client, transport);
                eprintln!("{name} by {transport}: {tried:?}");
                found.push((name, *transport, tried));
            }
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CLIENTS.md");
        let (is, expected) = (
            fs::read_to_string(&path).unwrap_or_default(),
            document(&found),
        );
        assert!(is == expected, "docs/CLIENTS.md must be:\n{expected}");
    });
}
