//! The server under demonstration: a child process, always ended.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use sip_msg::Transport;

use crate::ending::Ending;
use crate::phones::Account;

/// How long the server may take to be ready, and to end.
const READY: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(15);

/// A server on free ports of this machine, with the defaults but for one rate. The data
/// folder is beside the file.
fn configuration(domain: &str, rate_per_s: u32) -> String {
    let mut toml = format!("version = 1\ndata = \"data\"\ndomains = [\"{domain}\"]\n");
    for transport in crate::TRANSPORTS {
        let name = transport.uri_name();
        toml += &format!("[[listen]]\non = \"{name}:127.0.0.1:0\"\n");
    }
    toml += "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    toml += "# One user makes all the calls; a user may begin 50 a second unless told otherwise.\n";
    toml + &format!(
        "[rates]\nuser_calls_per_s = {}\n",
        u64::from(rate_per_s) * 2
    )
}

/// What the server says about itself.
#[derive(Deserialize)]
struct Listeners {
    listeners: Vec<Listener>,
    metrics: Option<SocketAddr>,
}

#[derive(Deserialize)]
struct Listener {
    transport: String,
    address: SocketAddr,
}

pub(crate) struct Server {
    child: Child,
    program: PathBuf,
    data: PathBuf,
    domain: String,
    log: PathBuf,
    listeners: Vec<Listener>,
}

impl Server {
    /// Starts it on free ports, with a data folder made anew, and waits until
    /// it is ready.
    pub(crate) fn start(
        program: &Path,
        dir: &Path,
        domain: &str,
        rate_per_s: u32,
        ending: &Ending,
    ) -> Result<Self, String> {
        if !program.is_file() {
            return Err(format!(
                "{} is not there; build it: cargo build --release -p signet",
                program.display()
            ));
        }
        let data = dir.join("data");
        match fs::remove_dir_all(&data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {error}", data.display()));
            }
            _ => {}
        }
        fs::create_dir_all(dir)
            .map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let log = dir.join("signet.log");
        let file = fs::File::create(&log)
            .map_err(|error| format!("cannot make {}: {error}", log.display()))?;
        let copy = file.try_clone().map_err(|error| error.to_string())?;
        let config = dir.join("signet.toml");
        fs::write(&config, configuration(domain, rate_per_s))
            .map_err(|error| format!("cannot write {}: {error}", config.display()))?;
        let child = Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(copy)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut server = Self {
            child,
            program: program.to_owned(),
            data,
            domain: domain.to_owned(),
            log,
            listeners: Vec::new(),
        };
        server.wait_until_ready(ending)?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(crate) fn address(&self, transport: Transport) -> Result<SocketAddr, String> {
        let found = self
            .listeners
            .iter()
            .find(|listener| listener.transport == transport.uri_name());
        found
            .map(|listener| listener.address)
            .ok_or_else(|| format!("the server has no {} listener", transport.uri_name()))
    }

    /// The authority that signed its certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        self.data.join("ca.pem")
    }

    /// Adds a user with a password of our own, through the command line; the
    /// password goes by the standard input, where no process list shows it.
    pub(crate) fn add_user(&self, user: &str) -> Result<Account, String> {
        let mut bytes = [0u8; 12];
        getrandom::fill(&mut bytes).map_err(|error| format!("no randomness: {error}"))?;
        let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut child = Command::new(&self.program)
            .args(["user", "--data"])
            .arg(&self.data)
            .args([
                "add",
                "--password-stdin",
                &format!("{user}@{}", self.domain),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin
                .write_all(format!("{password}\n").as_bytes())
                .map_err(|error| error.to_string())?;
        }
        let output = child
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!(
                "`signet user add {user}`: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        Ok(Account {
            user: user.to_owned(),
            password,
        })
    }

    /// CPU time of all its threads so far.
    pub(crate) fn cpu_ns(&self) -> Result<u64, String> {
        let folder = format!("/proc/{}/task", self.pid());
        let tasks = fs::read_dir(&folder)
            .map_err(|error| format!("the server is gone ({folder}: {error})"))?;
        let times = tasks.flatten().filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Ok(times.sum())
    }

    /// What it calls itself.
    pub(crate) fn version(&self) -> String {
        let output = Command::new(&self.program).arg("--version").output();
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
            .unwrap_or_default()
    }

    /// Ends it as its operator would.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.end();
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(format!(
                "the server ended with {status}; see {}",
                self.log.display()
            )),
            _ => Err(format!(
                "the server did not end; see {}",
                self.log.display()
            )),
        }
    }

    fn wait_until_ready(&mut self, ending: &Ending) -> Result<(), String> {
        let until = Instant::now() + READY;
        loop {
            ending.check()?;
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!(
                    "the server ended with {status}; see {}",
                    self.log.display()
                ));
            }
            let text = fs::read_to_string(self.data.join("listeners.json")).unwrap_or_default();
            if let Ok(said) = serde_json::from_str::<Listeners>(&text)
                && said.metrics.is_some_and(is_ready)
            {
                self.listeners = said.listeners;
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(format!(
                    "the server is not ready after {} s; see {}",
                    READY.as_secs(),
                    self.log.display()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn end(&mut self) {
        let Ok(pid) = i32::try_from(self.child.id()) else {
            return;
        };
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        let until = Instant::now() + END;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether the server says that it is ready.
fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let patience = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = [0u8; 64];
        let length = stream.read(&mut answer)?;
        Ok(String::from_utf8_lossy(answer.get(..length).unwrap_or_default()).into_owned())
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
