//! Telephones that are programs of others', driven by lines.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::support::{Running, skip};
use super::{DOMAIN, PATIENCE};

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Baresip,
    Linphone,
    Pjsua,
    Sippy,
    /// JAIN-SIP's stack.
    Jain,
    /// sipgo's.
    Sipgo,
    /// A page in a browser.
    Web,
}

/// What it does when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Answers,
    Rings,
    IsBusy,
}

/// What befalls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Incoming,
    Established,
    Closed,
}

/// Where it is, and what it is told of the server.
pub(crate) struct Site<'a> {
    pub(crate) folder: &'a Path,
    /// What runs a program there, if it is in a network of its own.
    pub(crate) enter: Vec<String>,
    pub(crate) address: &'a str,
    /// The server's host, and its ports for UDP and TCP, and for TLS.
    pub(crate) server: &'a str,
    pub(crate) ports: (u16, u16),
    pub(crate) ca: &'a Path,
}

/// A telephone that ends with this value.
pub(crate) struct Phone {
    pub(crate) name: String,
    kind: Kind,
    /// The program, where that is not who is spoken to.
    program: Option<Running>,
    child: Child,
    line: ChildStdin,
    heard: Arc<Mutex<String>>,
    /// How much of it was looked at.
    read: usize,
}

impl Phone {
    /// Starts one and lets it register.
    pub(crate) fn start(
        kind: Kind,
        place: &Site<'_>,
        (name, password): (&str, &str),
        transport: &str,
        habit: Habit,
    ) -> Self {
        let home = place.folder.join(format!("phone-{name}"));
        fs::create_dir_all(&home).unwrap();
        let port = if transport == "tls" {
            place.ports.1
        } else {
            place.ports.0
        };
        let server = format!("{}:{port}", place.server);
        let wants = Wants {
            home,
            server,
            name,
            password,
            transport,
            habit,
        };
        let (program, words) = match kind {
            Kind::Baresip => baresip(place, &wants),
            Kind::Linphone => (None, linphone(place, &wants)),
            Kind::Pjsua => (None, python("office/pjsua_phone.py", place, &wants)),
            Kind::Sippy => (None, python("office/sippy_phone.py", place, &wants)),
            Kind::Jain => (None, jain(place, &wants)),
            Kind::Sipgo => (None, sipgo(place, &wants)),
            Kind::Web => panic!("a page is started by who serves it"),
        };
        let words = [place.enter.clone(), words].concat();
        let mut phone = Self::spoken(name, kind, &words, &wants.home);
        phone.program = program;
        phone
    }

    /// A program that is spoken to by its input and output.
    pub(crate) fn spoken(name: &str, kind: Kind, words: &[String], home: &Path) -> Self {
        let log = fs::File::create(home.join(format!("{name}.err"))).unwrap();
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let line = child.stdin.take().unwrap();
        let heard = Arc::new(Mutex::new(String::new()));
        let (mut output, told) = (child.stdout.take().unwrap(), Arc::clone(&heard));
        let mut kept = fs::File::create(home.join(format!("{name}.told"))).unwrap();
        // It ends with the program, at the end of its output.
        std::thread::spawn(move || {
            let mut buffer = [0; 16_384];
            while let Ok(len @ 1..) = output.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..len]);
                told.lock().unwrap().push_str(&text);
                let _ = kept.write_all(&buffer[..len]);
            }
        });
        Self {
            name: name.to_owned(),
            kind,
            program: None,
            child,
            line,
            heard,
            read: 0,
        }
    }

    /// Calls a user or a number of our domain.
    pub(crate) fn dial(&mut self, called: &str) {
        self.forget();
        let uri = format!("sip:{called}@{DOMAIN}");
        match self.kind {
            Kind::Baresip => self.command("dial", &uri),
            Kind::Linphone => self.say(&format!("call {uri}")),
            Kind::Pjsua | Kind::Jain | Kind::Sipgo | Kind::Web => self.say(&format!("dial {uri}")),
            Kind::Sippy => self.say(&format!("dial {called}")),
        }
    }

    pub(crate) fn hang_up(&mut self) {
        match self.kind {
            Kind::Baresip => self.command("hangup", ""),
            Kind::Linphone => self.say("terminate"),
            _ => self.say("hangup"),
        }
    }

    /// Asks the other end of its call to call somebody else (REFER).
    pub(crate) fn transfer(&mut self, to: &str) {
        let uri = format!("sip:{to}@{DOMAIN}");
        match self.kind {
            Kind::Baresip => self.command("transfer", &uri),
            Kind::Pjsua => self.say(&format!("refer {uri}")),
            _ => panic!("{:?} is not driven to", self.kind),
        }
    }

    /// Registers once more.
    pub(crate) fn again(&mut self) {
        assert!(
            matches!(self.kind, Kind::Pjsua | Kind::Sippy),
            "{:?}",
            self.kind
        );
        self.say("register");
    }

    /// Waits until that has happened since the last that was waited for; what was told by then.
    #[track_caller]
    pub(crate) fn wait(&mut self, event: Event) -> String {
        let text = match (self.kind, event) {
            (Kind::Baresip, Event::Incoming) => "\"CALL_INCOMING\"",
            (Kind::Baresip, Event::Established) => "\"CALL_ESTABLISHED\"",
            (Kind::Baresip, Event::Closed) => "\"CALL_CLOSED\"",
            (Kind::Linphone, Event::Incoming) => "LinphoneCallIncomingReceived",
            (Kind::Linphone, Event::Established) => "LinphoneCallStreamsRunning",
            (Kind::Linphone, Event::Closed) => "LinphoneCallReleased",
            (_, Event::Incoming) => "INCOMING",
            (_, Event::Established) => "ESTABLISHED",
            (_, Event::Closed) => "CLOSED",
        };
        self.wait_for(text)
    }

    /// Waits until it has told a text since the last that was waited for; what was told by then.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let heard = self.heard.lock().unwrap().clone();
            let new = &heard[self.read..];
            if let Some(at) = new.find(text) {
                let line = new[at..].find('\n').unwrap_or(text.len());
                let told = new[..at + line.max(text.len())].to_owned();
                self.read += told.len();
                return told;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < until,
                "{} ({:?}) told no {text} ({ended:?}):\n{new}",
                self.name,
                self.kind
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it has told by now counts no more.
    pub(crate) fn forget(&mut self) {
        self.read = self.heard.lock().unwrap().len();
    }

    fn say(&mut self, line: &str) {
        self.line.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// What baresip takes: a netstring of JSON.
    fn command(&mut self, command: &str, parameters: &str) {
        let json =
            format!("{{\"command\":\"{command}\",\"params\":\"{parameters}\",\"token\":\"t\"}}");
        let line = format!("{}:{json},", json.len());
        self.line.write_all(line.as_bytes()).unwrap();
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        drop(self.program.take());
        if self.kind == Kind::Web && self.line.write_all(b"quit\n").is_ok() {
            // It ends its browser.
            let until = Instant::now() + Duration::from_secs(5);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a telephone is set to.
struct Wants<'a> {
    home: PathBuf,
    server: String,
    name: &'a str,
    password: &'a str,
    transport: &'a str,
    habit: Habit,
}

impl Wants<'_> {
    fn write(&self, file: &str, text: &str) {
        fs::write(self.home.join(file), text).unwrap();
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The program, and what passes lines to it and back: its control port may be in a network
/// that is not reached from here.
fn baresip(place: &Site<'_>, wants: &Wants<'_>) -> (Option<Running>, Vec<String>) {
    let Wants {
        home,
        server,
        name,
        password,
        transport,
        habit,
    } = wants;
    let address = place.address;
    let config = format!(
        "poll_method epoll\nsip_listen {address}:5080\nsip_cafile {}\nsip_verify_server yes\n\
         audio_source aubridge,{name}\naudio_player aubridge,{name}\nrtp_ports 15966-15998\n\
         module_path /usr/lib/baresip/modules\nmodule g711.so\nmodule aubridge.so\n\
         module_tmp uuid.so\nmodule_tmp account.so\nmodule_app menu.so\nmodule_app ctrl_tcp.so\n\
         ctrl_tcp_listen {address}:6080\n",
        place.ca.display()
    );
    wants.write("config", &config);
    let answers = if *habit == Habit::Answers {
        "auto"
    } else {
        "manual"
    };
    let account = format!(
        "<sip:{name}@{DOMAIN};transport={transport}>;auth_user={name};auth_pass={password};\
         outbound=\"sip:{server};transport={transport}\";regint=60;answermode={answers}\n"
    );
    wants.write("accounts", &account);
    wants.write("contacts", "");
    let words = [
        place.enter.clone(),
        owned(&["baresip", "-f", &home.display().to_string()]),
    ]
    .concat();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let program = Running::start(words[0], &words[1..], &home.join("log"));
    let relay = format!(
        "until exec 3<>/dev/tcp/{address}/6080; do sleep 0.1; done 2>/dev/null; cat <&3 & exec cat >&3"
    );
    (Some(program), owned(&["bash", "-c", &relay]))
}

fn linphone(place: &Site<'_>, wants: &Wants<'_>) -> Vec<String> {
    let Wants {
        home,
        server,
        name,
        password,
        transport,
        habit,
    } = wants;
    let port = |of: &str| if of == *transport { -1 } else { 0 };
    let (udp, tcp, tls) = (port("udp"), port("tcp"), port("tls"));
    // It wants the name that it calls in the certificate, and knows the server by its address.
    let config = format!(
        "[sip]\nsip_port={udp}\nsip_tcp_port={tcp}\nsip_tls_port={tls}\nbind_address={}\n\
         root_ca={}\nverify_server_cn=0\nuse_ipv6=0\ndefault_proxy=0\n\
         [rtp]\naudio_rtp_port=-1\n\
         [proxy_0]\nreg_proxy=<sip:{server};transport={transport}>\n\
         reg_route=<sip:{server};transport={transport};lr>\nreg_identity=<sip:{name}@{DOMAIN}>\n\
         reg_expires=300\nreg_sendregister=1\n\
         [auth_info_0]\nusername={name}\npasswd={password}\nrealm={DOMAIN}\ndomain={DOMAIN}\n",
        place.address,
        place.ca.display()
    );
    wants.write("linphonerc", &config);
    fs::create_dir_all(home.join(".local/share/linphone")).unwrap();
    let (config, log) = (home.join("linphonerc"), home.join("log"));
    let mut words = owned(&[
        "linphone-daemon",
        "--config",
        &config.display().to_string(),
        "--log",
        &log.display().to_string(),
        "--disable-stats-events",
    ]);
    if *habit == Habit::Answers {
        words.push("--auto-answer".to_owned());
    }
    words
}

/// The Python that has pjsua2 and sippy; `scripts/phones` makes it.
fn interpreter() -> PathBuf {
    installed().join("bin/python3")
}

pub(crate) fn have_python() -> bool {
    let is_there = interpreter().exists();
    if !is_there {
        skip("pjsua2 and sippy are not installed (`scripts/phones` installs them)");
    }
    is_there
}

/// Where `scripts/phones` puts what it installs.
pub(crate) fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/phones")
}

/// The words that start one of the programs in Python in `tests`.
pub(crate) fn script(name: &str, wants: &serde_json::Value) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name);
    vec![
        interpreter().display().to_string(),
        file.display().to_string(),
        wants.to_string(),
    ]
}

fn python(name: &str, place: &Site<'_>, wants: &Wants<'_>) -> Vec<String> {
    let wants = serde_json::json!({
        "user": wants.name, "password": wants.password, "domain": DOMAIN, "server": wants.server,
        "transport": wants.transport, "address": place.address, "port": 5070, "ca": place.ca,
        "log": wants.home.join("log"),
        "answer": match wants.habit {
            Habit::Answers => "auto",
            Habit::Rings => "ring",
            Habit::IsBusy => "busy",
        },
    });
    script(name, &wants)
}

fn jain(place: &Site<'_>, wants: &Wants<'_>) -> Vec<String> {
    let jars = format!("{}/*", installed().join("java").display());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/JainPhone.java");
    let (host, port) = wants.server.split_once(':').unwrap();
    let (source, words) = (source.display().to_string(), ["java", "-cp", &jars]);
    [
        owned(&words),
        owned(&[&source, place.address, "5070", host, port]),
        owned(&[wants.transport, wants.name, wants.password, DOMAIN]),
    ]
    .concat()
}

fn sipgo(place: &Site<'_>, wants: &Wants<'_>) -> Vec<String> {
    let program = installed().join("sipgo").display().to_string();
    [
        owned(&[&program, place.address, "5070", &wants.server]),
        owned(&[wants.transport, wants.name, wants.password, DOMAIN]),
    ]
    .concat()
}

/// Waits until somebody takes connections there.
pub(crate) fn wait_for_port(host: &str, port: u16) {
    super::wait_for("a port", || TcpStream::connect((host, port)).is_ok());
}
