//! The servers that are measured beside each other, and how each is started.

use std::path::{Path, PathBuf};

use signet_bed::experiment::Transport;
use signet_bed::system::{Kamailio, Peer, Server, Signet, Site};

use crate::process::{Process, SERVER_CORE};
use crate::sipp::SippTransport;
use crate::{ServeArguments, floor};

pub(crate) const SERVER_PORT: u16 = 5060;
pub(crate) const CALLED_PORT: u16 = 5070;

/// What a contender is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A forwarder that reads nothing.
    Floor,
    /// Kamailio.
    Kamailio,
    /// Signet, of this file.
    Signet(PathBuf),
}

/// A server that takes part, under the name that its figures have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Workers of a Signet, all on the server's core; the others have one.
    pub(crate) workers: u32,
}

/// Another build of Signet: `NAME=PATH`.
#[derive(Clone, Debug)]
pub(crate) struct Also {
    name: String,
    path: PathBuf,
}

impl std::str::FromStr for Also {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text
            .split_once('=')
            .filter(|(name, path)| !name.is_empty() && !path.is_empty())
            .ok_or_else(|| format!("{text:?} is not NAME=PATH, as in before=old/signet"))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !name.chars().all(is_plain) {
            return Err(format!(
                "the name {name:?} stands in the names of files: letters, digits, -, _ and . only"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            path: path.into(),
        })
    }
}

/// Everyone who takes part, in order.
pub(crate) fn contenders(arguments: &ServeArguments) -> Result<Vec<Contender>, String> {
    let mut all = Vec::new();
    for name in &arguments.servers {
        let kind = match name.as_str() {
            "floor" => Kind::Floor,
            "kamailio" => Kind::Kamailio,
            "signet" => Kind::Signet(arguments.signet.clone()),
            _ => {
                return Err(format!(
                    "no server is called {name:?}: floor, kamailio or signet; --also NAME=PATH adds a build of Signet"
                ));
            }
        };
        all.push((name.clone(), kind, 1));
    }
    for also in &arguments.also {
        if !also.path.is_file() {
            return Err(format!(
                "--also {}: there is no file {}",
                also.name,
                also.path.display()
            ));
        }
        all.push((also.name.clone(), Kind::Signet(also.path.clone()), 1));
    }
    if let Some(workers) = arguments.also_workers {
        let name = format!("signet-{workers}-workers");
        all.push((name, Kind::Signet(arguments.signet.clone()), workers));
    }
    let mut contenders: Vec<Contender> = Vec::new();
    for (name, kind, workers) in all {
        if contenders.iter().any(|c| c.name == name) {
            return Err(format!("two servers are called {name:?}"));
        }
        contenders.push(Contender {
            name,
            kind,
            workers,
        });
    }
    if contenders.is_empty() {
        return Err("no server is to be measured: name one with --servers".to_owned());
    }
    Ok(contenders)
}

impl Contender {
    /// Seconds until as much ends in each second as begins. Signet's transactions
    /// live for 64*T1 after a call, Kamailio's for five seconds.
    pub(crate) fn warm_s(&self, is_quick: bool) -> u64 {
        match self.kind {
            _ if is_quick => 1,
            Kind::Floor => 2,
            Kind::Kamailio => 8,
            Kind::Signet(_) => 34,
        }
    }

    pub(crate) fn is_floor(&self) -> bool {
        self.kind == Kind::Floor
    }

    pub(crate) fn signet(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Signet(path) => Some(path),
            Kind::Floor | Kind::Kamailio => None,
        }
    }

    /// Starts it as a proxy to the called side.
    pub(crate) fn start_proxy(
        &self,
        transport: SippTransport,
        out: &Path,
    ) -> Result<Process, String> {
        let onward = transport.plain().name();
        let next_hop = format!("127.0.0.1:{CALLED_PORT};transport={onward}");
        let both = [Transport::Udp, Transport::Tcp].map(|transport| (transport, SERVER_PORT));
        let site = Site::here(out, SERVER_CORE, &both);
        let server = match &self.kind {
            Kind::Floor => start_floor(transport, out)?,
            Kind::Kamailio => Kamailio.serve(
                &site,
                &Peer {
                    next_hop: Some(next_hop),
                    ..Peer::default()
                },
            )?,
            Kind::Signet(path) => {
                let words = [
                    "serve",
                    "--data",
                    &fresh_data(out).display().to_string(),
                    "--listen",
                    &format!("udp:127.0.0.1:{SERVER_PORT}"),
                    "--listen",
                    &format!("tcp:127.0.0.1:{SERVER_PORT}"),
                    "--workers",
                    &self.workers.to_string(),
                    "--no-auth",
                    "--forward",
                    &format!("sip:{next_hop}"),
                ]
                .map(str::to_owned);
                site.start(&self.name, &path.display().to_string(), &words)?
            }
        };
        server.into_process()
    }

    /// Starts it as a registrar that keeps bindings in memory; the floor has none.
    pub(crate) fn start_registrar(&self, out: &Path) -> Result<Process, String> {
        let site = Site::here(out, SERVER_CORE, &[(Transport::Udp, SERVER_PORT)]);
        let server = match &self.kind {
            Kind::Floor => return Err("the floor is no registrar".to_owned()),
            Kind::Kamailio => Kamailio.serve(
                &site,
                &Peer {
                    registers: true,
                    ..Peer::default()
                },
            )?,
            Kind::Signet(path) => {
                let text = format!(
                    "version = 1\ndata = {:?}\nworkers = {}\ndomains = [\"127.0.0.1\"]\n\n[[listen]]\non = \"udp:127.0.0.1:{SERVER_PORT}\"\n\n[authentication]\nrequired = false\n\n[registrar]\ndurable = false\n",
                    fresh_data(out).display().to_string(),
                    self.workers
                );
                let config = Signet::configure(&site, text)?;
                Signet::new(&self.name, path).serve(&site, &config)?
            }
        };
        server.into_process()
    }
}

/// The data folder of a Signet that begins with nothing.
pub(crate) fn fresh_data(out: &Path) -> PathBuf {
    let data = Signet::data(out);
    let _ = std::fs::remove_dir_all(&data);
    data
}

fn start_floor(transport: SippTransport, out: &Path) -> Result<Server, String> {
    let mode = match transport {
        SippTransport::Udp => "udp",
        SippTransport::TcpOne => "tcp",
        SippTransport::TcpPerCall => "tcp-shared",
    };
    let site = Site::here(out, SERVER_CORE, &[(transport.plain(), SERVER_PORT)]);
    floor::start(&site, mode, CALLED_PORT, &[])
}

#[cfg(test)]
mod tests {
    use super::Also;

    #[test]
    fn another_build_has_a_name_and_a_path() {
        let also: Also = "before=old/signet".parse().unwrap();
        assert_eq!(
            (also.name.as_str(), also.path.to_str()),
            ("before", Some("old/signet"))
        );
        for wrong in ["before", "=x", "before=", "a/b=x"] {
            assert!(wrong.parse::<Also>().is_err(), "{wrong}");
        }
    }
}
