//! The servers under test, each pinned to one core with one worker.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::load::DOMAIN;
use super::{Bench, Kind, ports};
use crate::contender::KAMAILIO_SHARED_MB;
use crate::process::Process;
use crate::process::SERVER_CORE;

/// A server that can stand between caller and called side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Server {
    /// A relay that decrypts and encrypts and reads nothing.
    Floor,
    /// Kamailio with its fastest allocator.
    Kamailio,
    /// This project's.
    Signet,
}

impl Server {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Kamailio => "kamailio",
            Self::Signet => "signet",
        }
    }
}

/// What a server is to do.
pub(super) struct Plan {
    /// Where it listens.
    pub(super) listens: Vec<Listen>,
    /// The transport to the called side.
    pub(super) next: &'static str,
}

/// One listener.
pub(super) enum Listen {
    Udp,
    Tcp,
    Tls(Kind),
}

impl Bench<'_> {
    /// Seconds until as much ends in each second as begins: Signet's
    /// transactions live for 64*T1 after a call, Kamailio's for five seconds.
    pub(super) fn warm_s(&self, server: Server) -> u64 {
        match server {
            _ if self.arguments.quick => 2,
            Server::Floor => 2,
            Server::Kamailio => 8,
            Server::Signet => 34,
        }
    }

    /// Starts a server and waits until it listens. `data` of the run before,
    /// its ticket secret among it, is removed unless it is to be kept.
    pub(super) fn start(
        &self,
        server: Server,
        plan: &Plan,
        keeps_data: bool,
    ) -> Result<Process, String> {
        let log = self.folder.join(format!("{}.log", server.name()));
        let process = match server {
            Server::Floor => self.start_floor(&log)?,
            Server::Kamailio => self.start_kamailio(plan, &log)?,
            Server::Signet => self.start_signet(plan, keeps_data, &log)?,
        };
        self.wait_until_it_listens(process, plan, &log)
    }

    fn start_floor(&self, log: &Path) -> Result<Process, String> {
        let this = std::env::current_exe().map_err(|e| e.to_string())?;
        let words = [
            "floor".to_owned(),
            "--mode".to_owned(),
            "tls".to_owned(),
            "--listen".to_owned(),
            format!("127.0.0.1:{}", self.tls_port(Kind::P256)),
            "--to".to_owned(),
            format!("127.0.0.1:{}", self.port(ports::CALLED)),
            "--tls".to_owned(),
            self.certificates.chain(Kind::P256),
            self.certificates.key(Kind::P256),
            self.certificates.root(),
        ];
        Process::start(SERVER_CORE, &this.display().to_string(), &words, log)
    }

    fn start_kamailio(&self, plan: &Plan, log: &Path) -> Result<Process, String> {
        let (mut listens, mut domains) = (String::new(), String::new());
        let mut domain = |name: &str, kind: Kind| {
            let _ = write!(
                domains,
                "[{name}]\nmethod = TLSv1.2+\nverify_certificate = no\nrequire_certificate = no\n\
                 private_key = {}\ncertificate = {}\n\n",
                self.certificates.key(kind),
                self.certificates.chain(kind)
            );
        };
        domain("server:default", Kind::P256);
        domain("client:default", Kind::P256);
        for listen in &plan.listens {
            let (transport, port) = self.place(listen);
            let _ = writeln!(listens, "listen={transport}:127.0.0.1:{port}");
            if let Listen::Tls(kind) = listen {
                domain(&format!("server:127.0.0.1:{port}"), *kind);
            }
        }
        let tls_config = self.folder.join("kamailio-tls-domains.cfg");
        std::fs::write(&tls_config, domains).map_err(|e| e.to_string())?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../bench/peers")
            .join("kamailio-tls.cfg");
        let text =
            std::fs::read_to_string(&source).map_err(|e| format!("{}: {e}", source.display()))?;
        let text = text
            .replace("\nLISTEN\n", &format!("\n{listens}"))
            .replace("=CHILDREN", "=1")
            .replace("\"TLSCONFIG\"", &format!("\"{}\"", tls_config.display()))
            .replace(
                "sip:NEXTHOP;transport=TRANSPORT",
                &format!(
                    "sip:127.0.0.1:{};transport={}",
                    self.port(ports::CALLED),
                    plan.next
                ),
            );
        let config = self.folder.join("kamailio-tls.cfg");
        std::fs::write(&config, text).map_err(|e| e.to_string())?;
        let config = config.display().to_string();
        let words = [
            "-f",
            &config,
            "-DD",
            "-E",
            "-m",
            KAMAILIO_SHARED_MB,
            "-M",
            "16",
            "-x",
            "tlsf",
            "-X",
            "tlsf",
        ];
        Process::start(SERVER_CORE, "kamailio", &words.map(str::to_owned), log)
    }

    fn start_signet(&self, plan: &Plan, keeps_data: bool, log: &Path) -> Result<Process, String> {
        let data = self.folder.join("signet-data");
        if !keeps_data {
            let _ = std::fs::remove_dir_all(&data);
        }
        let mut text = format!(
            "version = 1\ndata = {:?}\nworkers = 1\ndomains = [\"{DOMAIN}\"]\nforward = \"sip:127.0.0.1:{};transport={}\"\n\n",
            data.display().to_string(),
            self.port(ports::CALLED),
            plan.next
        );
        for listen in &plan.listens {
            let (transport, port) = self.place(listen);
            let _ = write!(text, "[[listen]]\non = \"{transport}:127.0.0.1:{port}\"\n");
            if let Listen::Tls(kind) = listen {
                let _ = write!(
                    text,
                    "[listen.security]\ncertificate = {:?}\nkey = {:?}\n",
                    self.certificates.chain(*kind),
                    self.certificates.key(*kind)
                );
            }
        }
        let _ = write!(
            text,
            "\n[authentication]\nrequired = false\n\n[registrar]\ndurable = false\n\n\
             [tls]\ntrust = [{:?}]\n\n[metrics]\nlisten = \"127.0.0.1:{}\"\n",
            self.certificates.root(),
            self.port(ports::METRICS)
        );
        let config = self.folder.join("signet.toml");
        std::fs::write(&config, text).map_err(|e| e.to_string())?;
        let words = ["serve", "--config", &config.display().to_string()].map(str::to_owned);
        let signet = self.arguments.signet.display().to_string();
        Process::start(SERVER_CORE, &signet, &words, log)
    }

    fn place(&self, listen: &Listen) -> (&'static str, u16) {
        match listen {
            Listen::Udp => ("udp", self.port(ports::PLAIN)),
            Listen::Tcp => ("tcp", self.port(ports::PLAIN)),
            Listen::Tls(kind) => ("tls", self.tls_port(*kind)),
        }
    }

    fn wait_until_it_listens(
        &self,
        mut process: Process,
        plan: &Plan,
        log: &Path,
    ) -> Result<Process, String> {
        let until = Instant::now() + Duration::from_secs(20);
        for listen in &plan.listens {
            let (transport, port) = self.place(listen);
            let addr = SocketAddr::from(([127, 0, 0, 1], port));
            while transport != "udp" && TcpStream::connect(addr).is_err() {
                if !process.is_running() || Instant::now() > until {
                    let told = std::fs::read_to_string(log).unwrap_or_default();
                    return Err(format!("it does not listen on {addr}: {}", told.trim_end()));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // A server with several processes is not at rest when the first port is there.
        std::thread::sleep(Duration::from_millis(500));
        Ok(process)
    }
}

/// Asks Signet for its figures.
pub(super) fn metrics(port: u16) -> Result<String, String> {
    use std::io::{Read, Write};
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().map_err(|error| format!("no figures from 127.0.0.1:{port}: {error}"))
}

/// The sum of a metric's samples whose labels contain this.
pub(super) fn metric(text: &str, name: &str, label: &str) -> u64 {
    text.lines()
        .filter(|line| line.starts_with(name) && line.contains(label))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum::<f64>() as u64
}
