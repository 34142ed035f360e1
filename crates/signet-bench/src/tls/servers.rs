//! The servers under test, each pinned to one core with one worker.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use signet_bed::experiment::Transport;
use signet_bed::system::{Kamailio, Peer, PeerTls, Signet, Site, page};

use super::load::DOMAIN;
use super::{Bench, Kind, ports};
use crate::floor;
use crate::process::{Process, SERVER_CORE};

/// A server that can stand between caller and called side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Server {
    /// A relay that decrypts and encrypts and reads nothing.
    Floor,
    /// Kamailio with its fastest allocator.
    Kamailio,
    /// This project's.
    Signet,
    /// Another build of it, --before.
    Before,
}

impl Server {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Kamailio => "kamailio",
            Self::Signet => "signet",
            Self::Before => "before",
        }
    }

    /// Whether a run without its figures is a failed one: what a peer or another build
    /// cannot do is no figure of it.
    pub(super) fn must_be_measured(self) -> bool {
        self == Self::Signet
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
            Server::Signet | Server::Before => 34,
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
        let listens: Vec<(Transport, u16)> = plan
            .listens
            .iter()
            .map(|listen| self.place(listen))
            .collect();
        let site = Site::here(&self.folder, SERVER_CORE, &listens);
        let next_hop = format!(
            "127.0.0.1:{};transport={}",
            self.port(ports::CALLED),
            plan.next
        );
        let started = match server {
            Server::Floor => {
                let tls = [
                    self.certificates.chain(Kind::P256),
                    self.certificates.key(Kind::P256),
                    self.certificates.root(),
                ];
                floor::start(&site, "tls", self.port(ports::CALLED), &tls)?
            }
            Server::Kamailio => Kamailio.serve(
                &site,
                &Peer {
                    next_hop: Some(next_hop),
                    registers: true,
                    tls: Some(PeerTls {
                        domains: self.domains(plan),
                        keeps_sessions: true,
                    }),
                    ..Peer::default()
                },
            )?,
            Server::Signet | Server::Before => {
                if !keeps_data {
                    let _ = std::fs::remove_dir_all(Signet::data(&self.folder));
                }
                let config = Signet::configure(&site, self.configuration(plan, &next_hop))?;
                Signet::new(server.name(), self.build(server)?).serve(&site, &config)?
            }
        };
        // A server with several processes is not at rest when the first port is there.
        std::thread::sleep(Duration::from_millis(500));
        started.into_process()
    }

    /// The program of Signet, or of the build before.
    fn build(&self, server: Server) -> Result<&Path, String> {
        if server != Server::Before {
            return Ok(&self.arguments.signet);
        }
        let before = self.arguments.before.as_deref();
        before.ok_or_else(|| "--servers before needs --before PATH".to_owned())
    }

    /// Kamailio's TLS: a certificate for each listener.
    fn domains(&self, plan: &Plan) -> String {
        let mut domains = String::new();
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
            if let Listen::Tls(kind) = listen {
                let (_, port) = self.place(listen);
                domain(&format!("server:127.0.0.1:{port}"), *kind);
            }
        }
        domains
    }

    fn configuration(&self, plan: &Plan, next_hop: &str) -> String {
        let mut text = format!(
            "version = 1\ndata = {:?}\nworkers = 1\ndomains = [\"{DOMAIN}\"]\nforward = \"sip:{next_hop}\"\n\n",
            Signet::data(&self.folder).display().to_string(),
        );
        for listen in &plan.listens {
            let (transport, port) = self.place(listen);
            let transport = transport.name();
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
        text
    }

    fn place(&self, listen: &Listen) -> (Transport, u16) {
        match listen {
            Listen::Udp => (Transport::Udp, self.port(ports::PLAIN)),
            Listen::Tcp => (Transport::Tcp, self.port(ports::PLAIN)),
            Listen::Tls(kind) => (Transport::Tls, self.tls_port(*kind)),
        }
    }
}

/// Asks Signet for its figures.
pub(super) fn metrics(port: u16) -> Result<String, String> {
    page(SocketAddr::from(([127, 0, 0, 1], port)), "/metrics")
        .map_err(|error| format!("no figures from 127.0.0.1:{port}: {error}"))
}

/// The sum of a metric's samples whose labels contain this.
pub(super) fn metric(text: &str, name: &str, label: &str) -> u64 {
    text.lines()
        .filter(|line| line.starts_with(name) && line.contains(label))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum::<f64>() as u64
}
