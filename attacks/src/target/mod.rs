//! Servers under test: how each is started, and where it listens.

mod kamailio;
mod signet;

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use crate::digest::Account;
use crate::memory;
use crate::wire::{Draft, Text};

/// Which server a run is about.
#[derive(Clone, Debug)]
pub enum Target {
    /// This project's, from its program file.
    Signet(PathBuf),
    /// Debian's Kamailio, in a configuration as it is common.
    Kamailio,
    /// One that runs already, on a loopback address of this machine.
    Running(Box<RunningServer>),
}

/// A server that somebody else started.
#[derive(Clone, Debug)]
pub struct RunningServer {
    /// Its address for UDP.
    pub udp: SocketAddr,
    /// Its address for TCP, where it has one.
    pub tcp: Option<SocketAddr>,
    /// Its address for TLS, where it has one.
    pub tls: Option<SocketAddr>,
    /// The domain of its users.
    pub domain: String,
    /// Four users and their passwords: caller, called, a third one, and one
    /// whose credentials are misused.
    pub users: Vec<(String, String)>,
    /// Its process, to look at its memory.
    pub pid: Option<u32>,
}

impl RunningServer {
    /// Says what is wrong with it, where something is.
    pub fn check(&self) -> Result<(), String> {
        let places = [Some(self.udp), self.tcp, self.tls];
        if let Some(other) = places.into_iter().flatten().find(|a| !a.ip().is_loopback()) {
            return Err(format!(
                "{other} is not a loopback address: these are attacks, and they are made on this \
                 machine only. Start the server here, on 127.0.0.1"
            ));
        }
        if self.users.len() < 4 {
            return Err("give --user NAME:PASSWORD four times".to_owned());
        }
        Ok(())
    }
}

/// What a scenario wants of a server's configuration.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Signet's keys before the first table.
    pub(crate) keys: String,
    /// Signet's further tables.
    pub(crate) tables: String,
    /// Names that Kamailio's configuration looks at.
    pub(crate) kamailio: Vec<&'static str>,
    /// The address to listen on.
    pub(crate) listen: [u8; 4],
    /// Whether a server that is not configured for it can do the case.
    pub(crate) own_configuration: bool,
    /// Where numbers are routed to.
    pub(crate) gateway: String,
    /// The name server.
    pub(crate) name_server: String,
    /// Signet's further keys about names.
    pub(crate) dns: String,
    /// Whether Signet has a trunk, people with rights and forwards, aliases, a rewriting rule
    /// and a hook.
    pub(crate) has_house: bool,
    /// Further keys of the trunk.
    pub(crate) trunk: String,
    /// Files beside Signet's configuration that are its owner's alone.
    pub(crate) secrets: Vec<(&'static str, String)>,
    /// Commands of Signet's program that write down people and aliases.
    pub(crate) commands: Vec<Vec<String>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            keys: String::new(),
            tables: String::new(),
            kamailio: Vec::new(),
            listen: [127, 0, 0, 1],
            own_configuration: false,
            gateway: String::new(),
            name_server: String::new(),
            dns: String::new(),
            has_house: true,
            trunk: "challenge_status = \"407\"\n".to_owned(),
            secrets: Vec::new(),
            commands: Vec::new(),
        }
    }
}

/// A server that runs, until this value ends.
pub(crate) struct Server {
    pub(crate) udp: SocketAddr,
    pub(crate) tcp: Option<SocketAddr>,
    pub(crate) tls: Option<SocketAddr>,
    child: Option<Child>,
    pid: Option<u32>,
    folder: Option<PathBuf>,
    /// The program and its arguments, where it can be started again.
    program: Option<(PathBuf, Vec<String>)>,
}

impl Target {
    /// Its name in the table.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Signet(_) => "signet",
            Self::Kamailio => "kamailio",
            Self::Running(_) => "server",
        }
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(
        &self,
        setup: &Setup,
        domain: &str,
        users: &[Account],
        folder: &Path,
    ) -> Result<Server, String> {
        let mut server = match self {
            Self::Signet(program) => signet::start(program, setup, domain, users, folder)?,
            Self::Kamailio => kamailio::start(setup, domain, users, folder)?,
            Self::Running(running) => Server {
                udp: running.udp,
                tcp: running.tcp,
                tls: running.tls,
                child: None,
                pid: running.pid,
                folder: None,
                program: None,
            },
        };
        server.wait_ready()?;
        Ok(server)
    }
}

impl Server {
    /// Its memory in bytes, where it can be looked at.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        self.pid.map(memory::bytes_of)
    }

    /// Whether the process that was started still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_none_or(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Asks it to end, and starts it again with what it has on disk.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let (Some((program, arguments)), Some(folder), Some(child)) =
            (&self.program, &self.folder, &mut self.child)
        else {
            return Err("it cannot be started again".to_owned());
        };
        // Once its end was seen its id may be another process's.
        if matches!(child.try_wait(), Ok(None)) {
            let _ = Command::new("kill")
                .args(["-TERM", &child.id().to_string()])
                .status();
        }
        let until = Instant::now() + Duration::from_secs(10);
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                return Err("it does not end when it is asked to".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let next = spawn(program, arguments, folder)?;
        self.pid = Some(next.id());
        self.child = Some(next);
        self.wait_ready()
    }

    /// Takes a user from it while it runs.
    pub(crate) fn remove_user(&self, name: &str) -> Result<(), String> {
        let (Some((program, _)), Some(folder)) = (&self.program, &self.folder) else {
            return Err("its users cannot be removed".to_owned());
        };
        signet::remove_user(program, folder, name)
    }

    /// Where it listens, as a URI's host and port.
    pub(crate) fn place(&self) -> String {
        self.udp.to_string()
    }

    /// Whether an OPTIONS to the server itself is answered within `limit`.
    pub(crate) fn answers(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if self.answers_once() {
                return true;
            }
        }
        false
    }

    fn answers_once(&self) -> bool {
        let Ok(socket) = UdpSocket::bind("127.0.2.200:0") else {
            return false;
        };
        let Ok(local) = socket.local_addr() else {
            return false;
        };
        let _ = socket.set_read_timeout(Some(Duration::from_millis(200)));
        let draft = Draft::new(
            "OPTIONS",
            &format!("sip:probe@{local}"),
            &format!("sip:{}", self.udp),
        );
        let mut buffer = vec![0; 65_535];
        let _ = socket.send_to(&draft.render(local, "UDP"), self.udp);
        match socket.recv(&mut buffer) {
            Ok(n) => buffer
                .get(..n)
                .and_then(Text::read)
                .is_some_and(|t| t.status().is_some()),
            Err(_) => {
                std::thread::sleep(Duration::from_millis(20));
                false
            }
        }
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until && self.is_running() {
            if self.answers_once() {
                return Ok(());
            }
        }
        let log = self.folder.as_ref().map(|f| f.join("server.log"));
        let told = log.and_then(|path| fs::read_to_string(path).ok());
        Err(format!(
            "the server does not answer at {}; its log:\n{}",
            self.udp,
            told.unwrap_or_default()
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let family = family_of(child);
        let _ = child.kill();
        let _ = child.wait();
        // A server of several processes leaves them behind.
        for id in family.into_iter().skip(1) {
            let _ = Command::new("kill")
                .args(["-KILL", &id.to_string()])
                .status();
        }
        if let (Some(folder), false) = (&self.folder, std::thread::panicking()) {
            let _ = fs::remove_dir_all(folder.join("data"));
        }
    }
}

/// A server with its descendants; nobody where its end was seen, since its id, and so its children,
/// may be those of a stranger by then.
fn family_of(child: &mut Child) -> Vec<u32> {
    match child.try_wait() {
        Ok(None) => memory::family(child.id()),
        Ok(Some(_)) | Err(_) => Vec::new(),
    }
}

/// Starts a program, its output to `server.log` in the folder.
fn spawn(program: &Path, arguments: &[String], folder: &Path) -> Result<Child, String> {
    let log = folder.join("server.log");
    let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let copy = file.try_clone().map_err(|e| e.to_string())?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))
}

/// A port that is free for UDP and TCP at an address, and so is the next one.
fn free_port(address: [u8; 4]) -> Result<u16, String> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % 4_000).unwrap_or(0);
    for _ in 0..2_000 {
        let step = NEXT.fetch_add(2, Ordering::Relaxed);
        let port = 11_000 + (own * 2 + step) % 9_000;
        let free = |port: u16| {
            let at = SocketAddr::from((address, port));
            UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
        };
        if free(port) && free(port + 1) {
            return Ok(port);
        }
    }
    Err("no free port".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_end_was_seen_has_no_family() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let own = child.id();
        assert_eq!(family_of(&mut child), [own]);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(family_of(&mut child).is_empty());
    }
}
