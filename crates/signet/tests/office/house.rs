//! The office: its networks, its server, the providers, and what the operator sees and types.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use super::far::Far;
use super::kamailio::Kamailio;
use super::net::{Branch, shell};
use super::phones::{Habit, Kind, Phone, Site, script, wait_for_port};
use super::sipp::Sipp;
use super::support::command::{Serving, succeed, text};
use super::support::{ADDRESS, Running, TestDir, add_user, free_port, wait_for_place};
use super::{DOMAIN, PATIENCE};

/// What the first provider asks for.
const NORTH_REALM: &str = "provider.example";
const NORTH_PASSWORD: &str = "north-4711";
/// The second one, and its gateway that says nothing.
const SOUTH: &str = "10.77.0.102";
const SOUTH_REALM: &str = "south.example";
const SOUTH_PASSWORD: &str = "south-0815";
const SILENT: &str = "10.77.0.103:5060";

/// A telephone: whose, where, by which transport, and what it does when it is called.
type Row = (&'static str, Kind, &'static str, &'static str, Habit);

/// Those that are driven by lines. Addresses in 192.168.1.0/24 and 192.168.2.0/24 are behind
/// two routers.
const PHONES: [Row; 16] = [
    ("anna", Kind::Baresip, "10.77.0.20", "udp", Habit::Answers),
    ("boris", Kind::Baresip, "10.77.0.21", "tcp", Habit::Answers),
    ("clara", Kind::Baresip, "10.77.0.22", "tls", Habit::Answers),
    ("dora", Kind::Baresip, "192.168.1.2", "udp", Habit::Answers),
    ("emil", Kind::Linphone, "10.77.0.23", "udp", Habit::Answers),
    ("fritz", Kind::Linphone, "10.77.0.24", "tcp", Habit::Answers),
    (
        "greta",
        Kind::Linphone,
        "192.168.1.3",
        "tls",
        Habit::Answers,
    ),
    (
        "hanna",
        Kind::Linphone,
        "192.168.2.2",
        "udp",
        Habit::Answers,
    ),
    ("ida", Kind::Pjsua, "10.77.0.25", "udp", Habit::Rings),
    ("jonas", Kind::Pjsua, "10.77.0.26", "tcp", Habit::Answers),
    ("karl", Kind::Pjsua, "10.77.0.27", "tls", Habit::Answers),
    ("lena", Kind::Pjsua, "192.168.2.3", "tcp", Habit::Answers),
    ("mara", Kind::Sippy, "10.77.0.28", "udp", Habit::Answers),
    ("nora", Kind::Sippy, "10.77.0.29", "udp", Habit::IsBusy),
    ("otto", Kind::Sippy, "192.168.1.4", "udp", Habit::Answers),
    ("paula", Kind::Sippy, "192.168.2.4", "udp", Habit::Answers),
];

/// SIPp's: whose, and where.
const SIPP: [(&str, &str); 4] = [
    ("quinn", "10.77.0.30"),
    ("rosa", "10.77.0.31"),
    ("sven", "192.168.1.5"),
    ("tilda", "192.168.2.5"),
];

/// All of it, on one day.
pub(crate) struct Office {
    /// Ended first, so that nobody is called any more.
    pub(crate) phones: Vec<Phone>,
    pub(crate) sipps: Vec<Running>,
    pub(crate) server: Option<Serving>,
    pub(crate) far: Far,
    pub(crate) north: Kamailio,
    pub(crate) south: Phone,
    /// It is there, so that nothing comes back.
    _silent: UdpSocket,
    _engine: Running,
    branches: [Branch; 2],
    /// How many records were looked at.
    seen: usize,
    pub(crate) folder: TestDir,
}

impl Office {
    /// The house before anybody is there.
    pub(crate) fn build() -> Self {
        let folder = TestDir::new("office");
        let at = folder.path();
        let own = PHONES.iter().map(|(_, _, address, ..)| *address);
        let own = own.chain(SIPP.iter().map(|(_, address)| *address));
        let own = own.chain([SOUTH, "10.77.0.103", "10.77.0.40"]);
        let addresses: String = own
            .filter(|address| address.starts_with("10."))
            .map(|address| format!("ip addr add {address}/24 dev ve0\n"))
            .collect();
        shell(&format!(
            "ip link add office type bridge\nip link set office up\nip link set ve1 master office\n{addresses}"
        ));
        let branches = [
            Branch::new(at, 1, "10.77.0.2", "masquerade"),
            // Each destination sees another port, and none that the phone has.
            Branch::new(at, 2, "10.77.0.3", "masquerade fully-random"),
        ];
        // Linphone takes a network without a way out for none. The router knows of none either.
        shell("ip route add default via 10.77.0.2");
        let data = at.join("data");
        for (name, ..) in PHONES {
            add_user(&data, name, DOMAIN, &password(name));
        }
        for (name, _) in SIPP {
            add_user(&data, name, DOMAIN, &password(name));
        }
        for (file, password) in [
            ("north.password", NORTH_PASSWORD),
            ("south.password", SOUTH_PASSWORD),
        ] {
            let file = at.join(file);
            fs::write(&file, format!("{password}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let far = Far::start();
        let north = Kamailio::start(at, free_port(), NORTH_REALM, NORTH_PASSWORD, far.addr);
        let south = south(at);
        let silent = UdpSocket::bind(SILENT).unwrap();
        let this = Self {
            phones: Vec::new(),
            sipps: Vec::new(),
            server: None,
            far,
            north,
            south,
            _silent: silent,
            _engine: engine(at),
            branches,
            seen: 0,
            folder,
        };
        this.configure("");
        this
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("signet.toml")
    }

    /// Writes the configuration; `blocked` are further numbers that nobody may call.
    pub(crate) fn configure(&self, blocked: &str) {
        let north = self.north.addr;
        let config = format!(
            r#"version = 1
data = "data"
domains = ["{DOMAIN}"]
workers = 2

[[listen]]
on = "udp:{ADDRESS}:5060"

[[listen]]
on = "tcp:{ADDRESS}:5060"

[[listen]]
on = "tls:{ADDRESS}:5061"

[metrics]
listen = "127.0.0.1:0"

[records]
path = "calls.jsonl"
node = "office"

# SIPp answers the first challenge, whatever it is, and knows MD5.
[[authentication.lenient]]
networks = ["10.77.0.30/31"]
algorithms = ["MD5", "SHA-256"]

# Others are behind the same routers.
[[authentication.lenient]]
users = ["sven", "tilda"]
algorithms = ["MD5", "SHA-256"]

[media]
engines = ["udp:127.0.0.1:2223"]

[nat]
keepalive = "options"
keepalive_interval_s = 2

[numbers]
country_code = "49"
emergency = ["110", "112"]
blocked = ["0900"{blocked}]

[[user_group]]
name = "apprentices"
permissions = "internal"

[[gateway_group]]
name = "north"
gateways = [{{ uri = "sip:{north};transport=udp" }}]

[[trunk]]
group = "north"
domain = "provider.example"
user = "4930100"
password_file = "north.password"
realm = "{NORTH_REALM}"
register_s = 600
identity = "pai"
number = "+4930100"
numbers = [
  {{ number = "+4930101", user = "anna" }},
  {{ number = "+4930102", user = "boris" }},
]
country_code = "49"
national_prefix = "0"
international_prefix = "00"
format = "e164"

[[gateway_group]]
name = "south"
timeout_ms = 500
gateways = [
  {{ uri = "sip:{SILENT};transport=udp", priority = 0 }},
  {{ uri = "sip:{SOUTH}:5070;transport=udp", priority = 1 }},
]

[[trunk]]
group = "south"
domain = "south.example"
user = "office"
password_file = "south.password"
realm = "{SOUTH_REALM}"
identity = "from"
number = "+4930200"
country_code = "49"
national_prefix = "0"
international_prefix = "00"
format = "e164-no-plus"

[[route]]
prefix = "00"
trunk = "south"

[[route]]
prefix = "0"
trunk = "north"

[[route]]
prefix = "+"
trunk = "north"

[[route]]
prefix = "112"
trunk = "north"
"#
        );
        fs::write(self.config(), config).unwrap();
    }

    /// Starts the server, and waits until it listens.
    pub(crate) fn serve(&mut self) {
        let at = self.folder.path();
        let data = at.join("data");
        let _ = fs::remove_file(data.join("listeners.json"));
        let server = Serving::start(at, &data, &["--config", text(&self.config())]);
        wait_for_port(ADDRESS, 5060);
        self.server = Some(server);
    }

    pub(crate) fn server(&self) -> &Serving {
        self.server.as_ref().unwrap()
    }

    /// What runs a program where that address is.
    fn enter(&self, address: &str) -> Vec<String> {
        match address.strip_prefix("192.168.") {
            Some(rest) if rest.starts_with('1') => self.branches[0].inside.enter(),
            Some(_) => self.branches[1].inside.enter(),
            None => Vec::new(),
        }
    }

    /// Switches all telephones on.
    pub(crate) fn switch_on(&mut self) {
        for (name, kind, address, transport, habit) in PHONES {
            let phone = self.phone(kind, (name, &password(name)), address, transport, habit);
            self.phones.push(phone);
        }
        for (name, _) in SIPP {
            let running = self.sipp(name).register_and_answer();
            self.sipps.push(running);
        }
    }

    /// One that is not in the list.
    pub(crate) fn phone(
        &self,
        kind: Kind,
        who: (&str, &str),
        address: &str,
        transport: &str,
        habit: Habit,
    ) -> Phone {
        let at = self.folder.path();
        let ca = at.join("data/ca.pem");
        let place = Site {
            folder: at,
            enter: self.enter(address),
            address,
            server: ADDRESS,
            ports: (5060, 5061),
            ca: &ca,
        };
        Phone::start(kind, &place, who, transport, habit)
    }

    pub(crate) fn sipp(&self, name: &'static str) -> Sipp<'_> {
        let (_, address) = SIPP.into_iter().find(|(of, _)| *of == name).unwrap();
        Sipp {
            folder: self.folder.path(),
            enter: self.enter(address),
            user: name,
            password: password(name),
            address,
            server: "10.77.0.1:5060",
        }
    }

    pub(crate) fn of(&mut self, name: &str) -> &mut Phone {
        let found = self.phones.iter_mut().find(|phone| phone.name == name);
        found.unwrap_or_else(|| panic!("nobody is called {name}"))
    }

    /// What the program says to a command beside it.
    pub(crate) fn told(&self, words: &[&str]) -> String {
        let config = self.config();
        succeed(&[words, &["--config", text(&config)]].concat(), "")
    }

    /// Gives a user another password.
    pub(crate) fn passwd(&self, name: &str, password: &str) {
        let config = self.config();
        let words = [
            "user",
            "passwd",
            name,
            "--password-stdin",
            "--config",
            text(&config),
        ];
        succeed(&words, &format!("{password}\n"));
    }

    /// Switches all telephones off.
    pub(crate) fn stop_phones(&mut self) {
        self.phones.clear();
        self.sipps.clear();
    }

    /// The latest of a method that `signet why` has of a user, a call or a source for a reason.
    #[track_caller]
    pub(crate) fn why(&self, words: &[&str], method: &str, reason: &str) -> Value {
        let told = self.told(&[&["why", "--json"], words].concat());
        let answer: Value = serde_json::from_str(&told).unwrap();
        let found = answer["refusals"].as_array().unwrap();
        let last = found
            .iter()
            .rfind(|of| of["reason"] == reason && of["method"] == method);
        last.unwrap_or_else(|| panic!("no {reason} of {words:?}: {told}"))
            .clone()
    }

    /// The record of the call that ended last: one more than were looked at, and no more.
    #[track_caller]
    pub(crate) fn record(&mut self) -> Value {
        let [record] = self.records();
        record
    }

    /// The records of the calls that ended since.
    #[track_caller]
    pub(crate) fn records<const N: usize>(&mut self) -> [Value; N] {
        let path = self.folder.path().join("calls.jsonl");
        let until = Instant::now() + PATIENCE;
        let new = loop {
            let whole = fs::read_to_string(&path).unwrap_or_default();
            let lines = whole
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let new: Vec<Value> = lines
                .skip(self.seen)
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            if new.len() >= N {
                break new;
            }
            assert!(
                Instant::now() < until,
                "{N} records are wanted, there are {new:#?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        self.seen += new.len();
        new.try_into()
            .unwrap_or_else(|new| panic!("{N} records are wanted, there are {new:#?}"))
    }

    /// Waits until a telephone is bound. One that has learnt where it is seen takes its contact
    /// back and registers another.
    pub(crate) fn wait_for_user(&self, name: &str) {
        let begin = format!("sip:{name}@");
        let until = Instant::now() + PATIENCE;
        loop {
            let told = self.told(&["bindings"]);
            let is_bound = |line: &str| line.starts_with(&begin) && line.contains(" at sip:");
            if told.lines().any(is_bound) {
                return;
            }
            assert!(Instant::now() < until, "{name} is not bound:\n{told}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// Waits until that many telephones are bound.
    pub(crate) fn wait_for_bindings(&self, count: usize) {
        let mut told = String::new();
        let until = Instant::now() + PATIENCE;
        while told
            .lines()
            .filter(|line| line.contains(" at sip:"))
            .count()
            != count
        {
            assert!(
                Instant::now() < until,
                "{count} contacts are wanted:\n{told}"
            );
            std::thread::sleep(std::time::Duration::from_millis(100));
            told = self.told(&["bindings"]);
        }
    }

    pub(crate) fn reload(&self) {
        let server = self.server();
        let log = fs::read_to_string(&server.log).unwrap();
        server.process.signal("-HUP");
        server.wait_for_count("reloaded", log.matches("reloaded").count() + 1);
    }

    /// Ends the server as an operator does.
    pub(crate) fn stop(&mut self) {
        let mut server = self.server.take().unwrap();
        server.process.signal("-TERM");
        assert_eq!(server.process.wait(PATIENCE), Some(0));
        let at = self.folder.path();
        fs::rename(at.join("serve.log"), at.join("before.log")).unwrap();
    }

    /// What the server printed, before its restart as well.
    pub(crate) fn log(&self) -> String {
        ["before.log", "serve.log"]
            .map(|file| fs::read_to_string(self.folder.path().join(file)).unwrap_or_default())
            .concat()
    }

    /// All passwords of the day.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let phones = self.phones.iter().map(|phone| password(&phone.name));
        let sipp = SIPP.iter().map(|(name, _)| password(name));
        let providers = [NORTH_PASSWORD, SOUTH_PASSWORD].map(str::to_owned);
        phones.chain(sipp).chain(providers).collect()
    }
}

pub(crate) fn password(name: &str) -> String {
    format!("{name}-secret")
}

/// An rtpengine in user space, where phones reach it.
fn engine(folder: &Path) -> Running {
    let words = [
        "--config-file=none",
        "--foreground",
        "--log-stderr",
        "--log-level=6",
        "--table=-1",
        &format!("--interface={ADDRESS}"),
        "--listen-ng=127.0.0.1:2223",
        "--port-min=30000",
        "--port-max=30400",
    ];
    let log = folder.join("rtpengine.log");
    let engine = Running::start("rtpengine", &words, &log);
    wait_for_place("127.0.0.1:2223", &log);
    engine
}

/// A provider of sippy's, who wants a password for each call, and answers it.
fn south(folder: &Path) -> Phone {
    let log = folder.join("south.log");
    let wants = serde_json::json!({
        "address": SOUTH, "port": 5070, "realm": SOUTH_REALM, "user": "office",
        "password": SOUTH_PASSWORD, "domain": SOUTH_REALM, "answer": "auto", "log": log,
    });
    let words = script("office/sippy_phone.py", &wants);
    let phone = Phone::spoken("south", Kind::Sippy, &words, folder);
    wait_for_place(&format!("{SOUTH}:5070"), &log);
    phone
}
