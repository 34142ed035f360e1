//! The servers that are measured beside each other, and how each is started.

use std::path::{Path, PathBuf};

use crate::ServeArguments;
use crate::process::{Process, SERVER_CORE};
use crate::sipp::SippTransport;

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
        all.push((name.clone(), kind));
    }
    for also in &arguments.also {
        if !also.path.is_file() {
            return Err(format!(
                "--also {}: there is no file {}",
                also.name,
                also.path.display()
            ));
        }
        all.push((also.name.clone(), Kind::Signet(also.path.clone())));
    }
    let mut contenders: Vec<Contender> = Vec::new();
    for (name, kind) in all {
        if contenders.iter().any(|c| c.name == name) {
            return Err(format!("two servers are called {name:?}"));
        }
        contenders.push(Contender { name, kind });
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

    /// The log of its last start.
    pub(crate) fn log(&self, out: &Path) -> PathBuf {
        out.join(format!("{}.log", self.name))
    }

    /// Starts it as a proxy to the called side.
    pub(crate) fn start_proxy(
        &self,
        transport: SippTransport,
        out: &Path,
    ) -> Result<Process, String> {
        let log = self.log(out);
        let word = if transport == SippTransport::Udp {
            "udp"
        } else {
            "tcp"
        };
        match &self.kind {
            Kind::Floor => start_floor(transport, &log),
            Kind::Kamailio => {
                let next_hop = format!("127.0.0.1:{CALLED_PORT}");
                let values = [("TRANSPORT", word), ("NEXTHOP", next_hop.as_str())];
                start_kamailio(&kamailio_config("kamailio-proxy.cfg", out, &values)?, &log)
            }
            Kind::Signet(path) => {
                let data = fresh_data(out);
                let words = [
                    "serve".to_owned(),
                    "--data".to_owned(),
                    data.display().to_string(),
                    "--listen".to_owned(),
                    format!("udp:127.0.0.1:{SERVER_PORT}"),
                    "--listen".to_owned(),
                    format!("tcp:127.0.0.1:{SERVER_PORT}"),
                    "--workers".to_owned(),
                    "1".to_owned(),
                    "--no-auth".to_owned(),
                    "--forward".to_owned(),
                    format!("sip:127.0.0.1:{CALLED_PORT};transport={word}"),
                ];
                Process::start(SERVER_CORE, &path.display().to_string(), &words, &log)
            }
        }
    }

    /// Starts it as a registrar that keeps bindings in memory; the floor has none.
    pub(crate) fn start_registrar(&self, out: &Path) -> Result<Process, String> {
        let log = self.log(out);
        match &self.kind {
            Kind::Floor => Err("the floor is no registrar".to_owned()),
            Kind::Kamailio => {
                start_kamailio(&kamailio_config("kamailio-register.cfg", out, &[])?, &log)
            }
            Kind::Signet(path) => {
                let data = fresh_data(out);
                let config = out.join("register.toml");
                let text = format!(
                    "version = 1\ndata = {:?}\nworkers = 1\ndomains = [\"127.0.0.1\"]\n\n[[listen]]\non = \"udp:127.0.0.1:{SERVER_PORT}\"\n\n[authentication]\nrequired = false\n\n[registrar]\ndurable = false\n",
                    data.display().to_string()
                );
                std::fs::write(&config, text).map_err(|e| e.to_string())?;
                let words = ["serve", "--config", &config.display().to_string()].map(str::to_owned);
                Process::start(SERVER_CORE, &path.display().to_string(), &words, &log)
            }
        }
    }
}

/// The data folder of a Signet that begins with nothing.
pub(crate) fn fresh_data(out: &Path) -> PathBuf {
    let data = out.join("signet-data");
    let _ = std::fs::remove_dir_all(&data);
    data
}

fn start_floor(transport: SippTransport, log: &Path) -> Result<Process, String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let mode = match transport {
        SippTransport::Udp => "udp",
        SippTransport::TcpOne => "tcp",
        SippTransport::TcpPerCall => "tcp-shared",
    };
    let (listen, to) = (
        format!("127.0.0.1:{SERVER_PORT}"),
        format!("127.0.0.1:{CALLED_PORT}"),
    );
    let words = ["floor", "--mode", mode, "--listen", &listen, "--to", &to];
    let program = this.display().to_string();
    Process::start(SERVER_CORE, &program, &words.map(str::to_owned), log)
}

/// Fills in a configuration of `bench/peers`.
fn kamailio_config(name: &str, out: &Path, values: &[(&str, &str)]) -> Result<String, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../bench/peers")
        .join(name);
    let mut text =
        std::fs::read_to_string(&source).map_err(|e| format!("{}: {e}", source.display()))?;
    text = text
        .replace("CHILDREN", "1")
        .replace("SERVERPORT", &SERVER_PORT.to_string());
    for (from, to) in values {
        text = text.replace(from, to);
    }
    let path = out.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.display().to_string())
}

/// Megabytes of memory that Kamailio's processes share. Its transactions stay for five
/// seconds and more: 512 run out at 5,000 calls/s, and calls are lost. What is not
/// used is not taken.
pub(crate) const KAMAILIO_SHARED_MB: &str = "4096";

/// Starts Kamailio with the allocator with which it is fastest.
fn start_kamailio(config: &str, log: &Path) -> Result<Process, String> {
    let words = [
        "-f",
        config,
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
