//! Where servers under test stand: folder, ports, cores, and what is around them.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::certificates::{Certificates, Kind};
use crate::experiment::{Setting, Suite, Transport};
use crate::process::Process;
use crate::system::Network;

/// How long a server may take until it answers.
const READY: Duration = Duration::from_secs(30);
/// How long a server that is up may take to accept a connection.
const PROMPT: Duration = Duration::from_secs(1);
/// How long a server may pause between two parts of a page.
const PATIENCE: Duration = Duration::from_secs(5);

/// The ports of a run on 127.0.0.1, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    base: u16,
}

impl Ports {
    /// How many there are.
    pub const COUNT: u16 = 6;

    /// From this one on; `None` where there are not so many above it.
    pub fn from(base: u16) -> Option<Self> {
        (base > 0 && base.checked_add(Self::COUNT).is_some()).then_some(Self { base })
    }

    /// The server's, for UDP and TCP.
    pub fn plain(self) -> u16 {
        self.base
    }

    /// The server's, for TLS.
    pub fn secure(self) -> u16 {
        self.base + 1
    }

    /// The called side's, over any transport.
    pub fn called(self) -> u16 {
        self.base + 2
    }

    /// The server's figures, where it has them.
    pub fn metrics(self) -> u16 {
        self.base + 3
    }

    /// The distance to the database.
    pub fn relay(self) -> u16 {
        self.base + 4
    }

    /// The database.
    pub fn database(self) -> u16 {
        self.base + 5
    }

    /// Each of them and what it is for.
    pub fn all(self) -> [(u16, &'static str); Self::COUNT as usize] {
        [
            (self.plain(), "the server"),
            (self.secure(), "the server's TLS"),
            (self.called(), "the called side"),
            (self.metrics(), "the server's figures"),
            (self.relay(), "the distance to the database"),
            (self.database(), "the database"),
        ]
    }
}

/// What a driver has at hand.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The program of the load.
    pub signet: &'a Path,
    /// The folder for configurations, data and logs.
    pub folder: &'a Path,
    /// The ports.
    pub ports: Ports,
    /// The server's core.
    pub core: &'a str,
    /// Certificates of all kinds.
    pub certificates: &'a Certificates,
    /// Where server and load are.
    pub network: &'a Network,
    /// Where the server finds MariaDB, at its distance.
    pub database: Option<SocketAddr>,
}

impl Stage<'_> {
    /// Where the server listens for a setting's transport.
    pub fn server(&self, setting: &Setting) -> SocketAddr {
        let port = match setting.transport {
            Transport::Udp | Transport::Tcp => self.ports.plain(),
            Transport::Tls => self.ports.secure(),
        };
        SocketAddr::from((self.network.server, port))
    }

    /// Where it tells its figures, where it has any.
    pub fn metrics(&self) -> SocketAddr {
        SocketAddr::from((self.network.server, self.ports.metrics()))
    }

    /// Where the called side listens.
    pub fn called(&self) -> SocketAddr {
        SocketAddr::from((self.network.load, self.ports.called()))
    }

    /// Where the server finds MariaDB; the place that it would have where there is none.
    pub fn database(&self) -> SocketAddr {
        let own = SocketAddr::from((self.network.load, self.ports.database()));
        self.database.unwrap_or(own)
    }

    /// Where the server of a setting is started, which says at `ready` that it is where it does.
    pub fn site(&self, setting: &Setting, ready: Option<SocketAddr>) -> Site<'_> {
        Site {
            folder: self.folder,
            core: self.core,
            network: self.network,
            listens: vec![(setting.transport, self.server(setting))],
            ready,
        }
    }

    /// The next hop as a URI without its scheme: `127.0.0.1:17062;transport=udp`.
    pub fn next_hop(&self, setting: &Setting) -> String {
        format!("{};transport={}", self.called(), setting.transport.name())
    }

    /// A file of the stage's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Transport {
    /// As it is written in URIs and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}

impl Setting {
    /// The kind of key that its certificates have. The suites of RFC 3261 take RSA alone.
    pub fn key(&self) -> Kind {
        match (self.security.key.as_deref(), self.security.suite) {
            (Some("rsa2048"), _) | (None, Suite::RsaAes | Suite::RsaTripleDes) => Kind::Rsa2048,
            _ => Kind::P256,
        }
    }

    /// Whether it has the suites of RFC 3261 26.2.1, which serve for measurements alone.
    pub fn is_legacy(&self) -> bool {
        self.transport == Transport::Tls
            && matches!(self.security.suite, Suite::RsaAes | Suite::RsaTripleDes)
    }

    /// The key-exchange group by the name that Signet and its load have for it.
    pub fn group(&self) -> Option<&str> {
        self.security.group.as_deref().map(|name| match name {
            "x25519" => "X25519",
            "secp256r1" => "P-256",
            "secp384r1" => "P-384",
            other => other,
        })
    }

    /// Workers, threads or processes that the server has: one where nothing is said.
    pub fn workers(&self) -> u32 {
        self.workers.unwrap_or(1).max(1)
    }
}

/// Where a server is started, and how it is known that it is there.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// The folder for its configuration, data and log.
    pub folder: &'a Path,
    /// Its core.
    pub core: &'a str,
    /// Where it and the load are.
    pub network: &'a Network,
    /// Where it listens.
    pub listens: Vec<(Transport, SocketAddr)>,
    /// Where it says over HTTP that it is ready, where it does.
    pub ready: Option<SocketAddr>,
}

/// Everybody at 127.0.0.1.
static LOOPBACK: Network = Network::loopback();

impl<'a> Site<'a> {
    /// One at ports of 127.0.0.1.
    pub fn here(folder: &'a Path, core: &'a str, listens: &[(Transport, u16)]) -> Self {
        let listens = listens.iter();
        Self {
            folder,
            core,
            network: &LOOPBACK,
            listens: listens
                .map(|(transport, port)| (*transport, SocketAddr::from(([127, 0, 0, 1], *port))))
                .collect(),
            ready: None,
        }
    }

    /// A file of its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a program as the server that is called `name`, and waits until it listens
    /// everywhere and is ready.
    ///
    /// # Errors
    /// As [`Process::start`]; that it ended or does not listen, with the end of its log.
    pub fn start(&self, name: &str, program: &str, words: &[String]) -> Result<Server, String> {
        let log = self.path(&format!("{name}.log"));
        let process = self.network.start(self.core, program, words, &log)?;
        let mut server = Server {
            watched: Some(process.id()),
            process: Some(process),
            log: Some(log),
            address: self.listens.first().map(|(_, address)| *address),
        };
        let until = Instant::now() + READY;
        let id = server.process.as_ref().map(Process::id);
        for (transport, address) in &self.listens {
            server.wait_for(until, &address.to_string(), || match transport {
                // Whoever binds the port to find out may have it when the server wants it.
                Transport::Udp => id.is_some_and(|id| has_datagrams(id, *address)),
                Transport::Tcp | Transport::Tls => {
                    TcpStream::connect_timeout(address, PROMPT).is_ok()
                }
            })?;
        }
        if let Some(ready) = self.ready {
            server.wait_for(until, &format!("{ready}/ready"), || {
                page(ready, "/ready").is_ok_and(|page| page.starts_with("HTTP/1.1 200"))
            })?;
        }
        Ok(server)
    }
}

/// Whether somebody in a process's network listens for datagrams at an address.
fn has_datagrams(id: u32, address: SocketAddr) -> bool {
    ["udp", "udp6"].into_iter().any(|name| {
        let table = std::fs::read_to_string(format!("/proc/{id}/net/{name}"));
        let table = table.unwrap_or_default();
        let mut bound = table.lines().skip(1).filter_map(bound_to);
        bound
            .any(|(ip, port)| port == address.port() && (ip.is_unspecified() || ip == address.ip()))
    })
}

/// The local address of a line of `/proc/net/udp` or `udp6` (proc(5)): words of four bytes as
/// numbers of this machine, in hexadecimal digits.
fn bound_to(line: &str) -> Option<(IpAddr, u16)> {
    let local = line.split_ascii_whitespace().nth(1)?;
    let (ip, port) = local.split_once(':')?;
    let mut bytes = Vec::new();
    for at in (0..ip.len()).step_by(8) {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(bytes) => IpAddr::from(bytes),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?).to_canonical(),
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    /// The server's process, where the bed started it.
    pub process: Option<Process>,
    /// The process whose CPU time and memory count, where it is on this machine.
    pub watched: Option<u32>,
    /// Its log, where the bed has one.
    pub log: Option<PathBuf>,
    /// Where it listens first.
    pub address: Option<SocketAddr>,
}

impl Server {
    /// # Errors
    /// That it is gone, with the end of its log.
    pub fn must_run(&mut self) -> Result<(), String> {
        let is_running = match (&mut self.process, self.watched) {
            (Some(process), _) => process.is_running(),
            (None, Some(id)) => Path::new(&format!("/proc/{id}")).exists(),
            (None, None) => true,
        };
        if is_running {
            return Ok(());
        }
        Err(match &self.log {
            Some(log) => format!("the server has ended: {}", tail(log)),
            None => "the server has ended: start it again".to_owned(),
        })
    }

    /// Its process.
    ///
    /// # Errors
    /// That it was not started here.
    pub fn into_process(self) -> Result<Process, String> {
        let process = self.process;
        process.ok_or_else(|| "the server was not started by this program".to_owned())
    }

    fn wait_for(
        &mut self,
        until: Instant,
        place: &str,
        is_there: impl Fn() -> bool,
    ) -> Result<(), String> {
        loop {
            self.must_run()?;
            if is_there() {
                return Ok(());
            }
            if Instant::now() > until {
                let log = self.log.as_deref().map(tail).unwrap_or_default();
                return Err(format!("the server does not listen on {place}: {log}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What a server answers over HTTP at a path, head and body.
///
/// # Errors
/// As the system says.
pub fn page(address: SocketAddr, path: &str) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect_timeout(&address, PROMPT)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: bed\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Lines of a log that are told.
const TAIL_LINES: usize = 5;
/// Bytes of its end that are read.
const TAIL_BYTES: u64 = 4_096;

/// The end of a log in one line.
pub fn tail(log: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    match lines.get(from..) {
        Some([]) | None => format!("{} is empty", log.display()),
        Some(last) => last.join(" | "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_one_use() {
        let ports = Ports::from(17_060).unwrap();
        let mut all: Vec<u16> = ports.all().iter().map(|(port, _)| *port).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), usize::from(Ports::COUNT));
        assert_eq!(Ports::from(65_530), None);
        assert_eq!(Ports::from(0), None);
        assert!(Ports::from(65_529).is_some());
    }

    #[test]
    fn who_listens_for_datagrams_is_seen_without_asking_the_port() {
        use std::net::UdpSocket;
        let own = std::process::id();
        for at in ["127.0.0.1:0", "0.0.0.0:0"] {
            let socket = UdpSocket::bind(at).unwrap();
            let port = socket.local_addr().unwrap().port();
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            assert!(has_datagrams(own, address), "{at}");
            let elsewhere = SocketAddr::from(([127, 0, 0, 9], port));
            assert_eq!(has_datagrams(own, elsewhere), at.starts_with('0'), "{at}");
            drop(socket);
            assert!(!has_datagrams(own, address), "{at}");
        }
    }

    #[test]
    fn lines_of_the_table_of_datagrams_are_read() {
        // The digits are those of a machine whose least byte comes first.
        if cfg!(target_endian = "little") {
            let line = "  123: 0100007F:42A4 00000000:0000 07 00000000:00000000 00:00000000";
            let local = ("127.0.0.1".parse().unwrap(), 0x42a4);
            assert_eq!(bound_to(line), Some(local));
            let mapped = line.replace("0100007F", "0000000000000000FFFF00000100007F");
            assert_eq!(bound_to(&mapped), Some(local));
            let sixth = line.replace("0100007F", "00000000000000000000000001000000");
            assert_eq!(bound_to(&sixth), Some(("::1".parse().unwrap(), 0x42a4)));
        }
        for odd in ["", "1:", "1: 0100007F", "1: 01:42A4", "1: 0100007F:x"] {
            assert_eq!(bound_to(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_end_of_a_log_is_a_line() {
        let path = std::env::temp_dir().join(format!("signet-bed-tail-{}", std::process::id()));
        let text: String = (0..2_000).map(|n| format!("line {n}\n\n")).collect();
        std::fs::write(&path, text).unwrap();
        assert_eq!(
            tail(&path),
            "line 1995 | line 1996 | line 1997 | line 1998 | line 1999"
        );
        std::fs::write(&path, "").unwrap();
        assert!(tail(&path).ends_with("is empty"));
        std::fs::remove_file(&path).unwrap();
        assert!(tail(&path).ends_with("is empty"));
    }

    #[test]
    fn the_suites_of_rfc_3261_have_rsa_keys() {
        let mut setting = Setting {
            transport: Transport::Tls,
            ..Setting::default()
        };
        assert_eq!((setting.key(), setting.is_legacy()), (Kind::P256, false));
        setting.security.suite = Suite::RsaAes;
        assert_eq!((setting.key(), setting.is_legacy()), (Kind::Rsa2048, true));
        setting.transport = Transport::Udp;
        assert!(!setting.is_legacy());
    }
}
