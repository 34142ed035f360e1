//! The server under demonstration, on free ports of this machine.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::process::{Process, SERVER_CORE};

/// How long the server may take to be ready, and to end.
const READY: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(15);

/// A server with the defaults but for what the demonstration needs.
fn configuration(domain: &str, onward_port: u16) -> String {
    let mut toml = format!("version = 1\ndata = \"data\"\ndomains = [\"{domain}\"]\n");
    for transport in ["udp", "tcp", "tls"] {
        toml += &format!("[[listen]]\non = \"{transport}:127.0.0.1:0\"\n");
    }
    for (prefix, transport) in [(1, "udp"), (2, "tcp")] {
        toml += &format!(
            "[[gateway_group]]\nname = \"{transport}\"\n\
             gateways = [{{ uri = \"sip:127.0.0.1:{onward_port};transport={transport}\" }}]\n\
             [[route]]\nprefix = \"+{prefix}\"\ngroup = \"{transport}\"\n"
        );
    }
    toml += &format!(
        "# A neighbour who needs no password.\n\
         [[trusted]]\nnetwork = \"{}\"\nmay_relay = true\n\
         # A user may begin 50 calls a second unless told otherwise.\n\
         [rates]\nuser_calls_per_s = 0\n",
        super::TRUSTED
    );
    toml
}

/// What the server says about itself.
#[derive(Deserialize)]
struct Listeners {
    listeners: Vec<Listener>,
}

#[derive(Deserialize)]
struct Listener {
    transport: String,
    address: SocketAddr,
}

pub(super) struct Server {
    process: Process,
    program: PathBuf,
    data: PathBuf,
    domain: &'static str,
    log: PathBuf,
    onward_port: u16,
    listeners: Vec<Listener>,
}

impl Server {
    /// Starts it with a data folder made anew, and waits until it listens.
    pub(super) fn start(program: &Path, dir: &Path, domain: &'static str) -> Result<Self, String> {
        if !program.is_file() {
            return Err(format!(
                "{} is not there; build it: cargo build --release -p signet",
                program.display()
            ));
        }
        let failed = |what: &str, path: &Path, error: std::io::Error| {
            format!("cannot {what} {}: {error}", path.display())
        };
        let data = dir.join("data");
        match fs::remove_dir_all(&data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("remove", &data, error));
            }
            _ => {}
        }
        fs::create_dir_all(dir).map_err(|error| failed("make", dir, error))?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let onward_port = free
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        let (config, log) = (dir.join("signet.toml"), dir.join("signet.log"));
        fs::write(&config, configuration(domain, onward_port))
            .map_err(|error| failed("write", &config, error))?;
        let words = ["serve", "--config", &config.display().to_string()].map(str::to_owned);
        let process = Process::start(SERVER_CORE, &program.display().to_string(), &words, &log)?;
        let mut server = Self {
            process,
            program: program.to_owned(),
            data,
            domain,
            log,
            onward_port,
            listeners: Vec::new(),
        };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where it listens.
    pub(super) fn address(&self, transport: &str) -> Result<SocketAddr, String> {
        let mut listeners = self.listeners.iter();
        let found = listeners.find(|listener| listener.transport == transport);
        found
            .map(|listener| listener.address)
            .ok_or_else(|| format!("the server has no {transport} listener"))
    }

    /// The port to which its gateways lead.
    pub(super) fn onward_port(&self) -> u16 {
        self.onward_port
    }

    /// The authority that signed its certificate.
    pub(super) fn authority(&self) -> PathBuf {
        self.data.join("ca.pem")
    }

    /// Adds users through the command line.
    pub(super) fn import(&self, users: &Path) -> Result<(), String> {
        let output = Command::new(&self.program)
            .args(["user", "--domain", self.domain, "--data"])
            .arg(&self.data)
            .arg("import")
            .arg(users)
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&output.stderr);
        Err(format!("`signet user import`: {}", told.trim()))
    }

    /// Ends it as its operator would.
    pub(super) fn stop(mut self) -> Result<(), String> {
        self.process.signal("TERM");
        let log = self.log.display();
        match self.process.wait(END) {
            Some(0) => Ok(()),
            Some(code) => Err(format!("the server ended with {code}; see {log}")),
            None => Err(format!("the server did not end; see {log}")),
        }
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let until = Instant::now() + READY;
        loop {
            if !self.process.is_running() || Instant::now() >= until {
                let log = self.log.display();
                return Err(format!("the server does not listen; see {log}"));
            }
            let text = fs::read_to_string(self.data.join("listeners.json")).unwrap_or_default();
            if let Ok(said) = serde_json::from_str::<Listeners>(&text) {
                self.listeners = said.listeners;
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
