//! The server that is measured: all its listeners, gateways and users at once.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use signet_bed::certificates::{Certificates, Kind};
use signet_bed::database::PASSWORD;
use signet_bed::experiment::Transport as Waited;
use signet_bed::system::{Server, Site};
use signet_bed::users::{self, DOMAIN};

use super::mixture::{Mixture, PasswordStore};
use crate::demand::Transport;

/// Users in its store, at least as many as any load has.
pub(super) const USERS: u32 = 2_000;
/// Connections to the database.
const CONNECTIONS: u32 = 8;

/// The ports of a run on 127.0.0.1, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    base: u16,
}

impl Ports {
    /// How many there are.
    pub const COUNT: u16 = 9;

    /// From this one on; `None` where there are not so many above it.
    pub fn from(base: u16) -> Option<Self> {
        (base > 0 && base.checked_add(Self::COUNT).is_some()).then_some(Self { base })
    }

    /// The server's, for UDP and TCP.
    pub(super) fn plain(self) -> u16 {
        self.base
    }

    /// Its TLS with a P-256 certificate.
    pub(super) fn p256(self) -> u16 {
        self.base + 1
    }

    /// Its TLS with an RSA certificate.
    pub(super) fn rsa2048(self) -> u16 {
        self.base + 2
    }

    /// Its TLS that asks for certificates.
    pub(super) fn mutual(self) -> u16 {
        self.base + 3
    }

    /// Its figures.
    pub(super) fn metrics(self) -> u16 {
        self.base + 4
    }

    /// The gateways', over UDP and TCP.
    pub(super) fn gateway(self) -> u16 {
        self.base + 5
    }

    /// The gateway's, over TLS.
    pub(super) fn gateway_tls(self) -> u16 {
        self.base + 6
    }

    /// The database.
    pub(super) fn database(self) -> u16 {
        self.base + 7
    }

    /// The distance to it.
    pub(super) fn relay(self) -> u16 {
        self.base + 8
    }
}

/// A port of this machine.
pub(super) fn here(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// What the number of a gateway over this transport begins with.
pub(super) const fn number(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "+1",
        Transport::Tcp => "+2",
        Transport::Tls => "+3",
    }
}

/// Starts a server for a mixture and waits until it answers.
pub(super) fn start(
    signet: &Path,
    folder: &Path,
    core: &str,
    (ports, certificates): (Ports, &Certificates),
    mixture: &Mixture,
) -> Result<Server, String> {
    let data = folder.join("signet-data");
    let _ = std::fs::remove_dir_all(&data);
    let config = folder.join("signet.toml");
    write_own(
        &config,
        &configuration(folder, ports, certificates, mixture),
    )?;
    write_own(&folder.join("password"), PASSWORD)?;
    if mixture.users == PasswordStore::Own {
        import(signet, folder, &config)?;
    }
    let words = ["serve", "--config", &config.display().to_string()].map(str::to_owned);
    let mut site = Site::here(folder, core, &[(Waited::Tcp, ports.plain())]);
    site.ready = Some(here(ports.metrics()));
    site.start("signet", &signet.display().to_string(), &words)
}

/// Writes a file that its owner alone can read: some hold a password.
fn write_own(path: &Path, text: &str) -> Result<(), String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::write(path, text).map_err(named)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).map_err(named)
}

/// Puts the users into the store of its own.
fn import(signet: &Path, folder: &Path, config: &Path) -> Result<(), String> {
    let list: PathBuf = folder.join("users.csv");
    let mut text = "user,password\n".to_owned();
    for (name, password) in users::names(USERS as usize) {
        let _ = writeln!(text, "{name},{password}");
    }
    write_own(&list, &text)?;
    let output = Command::new(signet)
        .args(["user", "--config"])
        .arg(config)
        .arg("import")
        .arg(&list)
        .output()
        .map_err(|error| format!("cannot start {}: {error}", signet.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(format!("the users could not be added: {}", told.trim_end()))
}

/// The whole configuration.
fn configuration(
    folder: &Path,
    ports: Ports,
    certificates: &Certificates,
    mixture: &Mixture,
) -> String {
    let is_asked = mixture.users != PasswordStore::None;
    let mut text = format!(
        "version = 1\ndata = {:?}\nworkers = 1\ndomains = [\"{DOMAIN}\"]\ndrain_timeout_ms = 200\n\n\
         [authentication]\nrequired = {is_asked}\nfailures_max = 0\n",
        folder.join("signet-data").display().to_string(),
    );
    for transport in ["udp", "tcp"] {
        let at = here(ports.plain());
        let _ = write!(text, "\n[[listen]]\non = \"{transport}:{at}\"\n");
    }
    let root = certificates.root();
    for (port, kind, more) in [
        (ports.p256(), Kind::P256, String::new()),
        (ports.rsa2048(), Kind::Rsa2048, String::new()),
        (
            ports.mutual(),
            Kind::P256,
            format!("client_certificates = \"required\"\nclient_roots = [{root:?}]\n"),
        ),
    ] {
        let _ = write!(
            text,
            "\n[[listen]]\non = \"tls:{}\"\n[listen.security]\ncertificate = {:?}\nkey = {:?}\n{more}",
            here(port),
            certificates.chain(kind),
            certificates.key(kind)
        );
    }
    gateways(&mut text, ports);
    if mixture.users.has_database() {
        database(&mut text, folder, ports, mixture);
    }
    // One machine stands for all callers: what it may do is not what is measured.
    let _ = write!(
        text,
        "\n[tls]\ntrust = [{root:?}]\nhandshakes_per_source_max = 16384\nfull_waiting_max = 16384\n\n\
         [registrar]\ndurable = false\n\n[sources]\nrefusals_per_s = 0\n\n\
         [rates]\nuser_calls_per_s = 0\nuser_registrations_per_s = 0\nuser_others_per_s = 0\nuser_bytes_per_s = 0\n\n\
         [connections]\nconnections_per_source_max = 100000\nopened_per_source_per_s = 0\n\n\
         [metrics]\nlisten = \"{}\"\n",
        here(ports.metrics())
    );
    text
}

/// One for each transport, told apart by the number.
fn gateways(text: &mut String, ports: Ports) {
    for transport in [Transport::Udp, Transport::Tcp, Transport::Tls] {
        let name = transport.name();
        let port = match transport {
            Transport::Tls => ports.gateway_tls(),
            Transport::Udp | Transport::Tcp => ports.gateway(),
        };
        let _ = write!(
            text,
            "\n[[gateway_group]]\nname = \"{name}\"\n\
             gateways = [{{ uri = \"sip:{};transport={name}\" }}]\n\n\
             [[route]]\nprefix = \"{}\"\ngroup = \"{name}\"\n",
            here(port),
            number(transport)
        );
    }
}

fn database(text: &mut String, folder: &Path, ports: Ports, mixture: &Mixture) {
    let port = match mixture.rtt_ms {
        0 => ports.database(),
        _ => ports.relay(),
    };
    let url = format!("mysql://signet@{}/signet", here(port));
    let password = folder.join("password").display().to_string();
    let cache = match mixture.users {
        PasswordStore::Cache => "",
        // A cache would answer in the place of the database that is measured.
        PasswordStore::None | PasswordStore::Own | PasswordStore::Database => {
            "\n[users.cache]\nentries_max = 0\n"
        }
    };
    let _ = write!(
        text,
        "\n[users]\nstores = [{url:?}]\npassword_file = {password:?}\n\
         connections_max = {CONNECTIONS}\n{cache}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(users: PasswordStore) -> String {
        let folder = std::env::temp_dir().join(format!(
            "signet-plan-server-{}-{users:?}",
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let certificates = Certificates::make(&folder).unwrap();
        let mixture = Mixture {
            users,
            ..Mixture::default()
        };
        let ports = Ports::from(20_000).unwrap();
        let text = configuration(&folder, ports, &certificates, &mixture);
        std::fs::remove_dir_all(&folder).unwrap();
        text
    }

    #[test]
    fn a_server_has_all_listeners_and_gateways() {
        let text = written(PasswordStore::None);
        let table: toml::Table = toml::from_str(&text).unwrap();
        let count = |name: &str| table[name].as_array().unwrap().len();
        assert_eq!((count("listen"), count("route")), (5, 3));
        assert!(!table.contains_key("users"));
        assert_eq!(table["authentication"]["required"].as_bool(), Some(false));
    }

    #[test]
    fn a_cache_is_there_where_it_is_measured() {
        assert!(written(PasswordStore::Database).contains("entries_max = 0"));
        assert!(!written(PasswordStore::Cache).contains("entries_max"));
        assert!(written(PasswordStore::Cache).contains("mysql://signet@127.0.0.1:20007/signet"));
    }

    #[test]
    fn ports_end_below_the_last() {
        assert_eq!(Ports::from(65_530), None);
        assert_eq!(Ports::from(0), None);
        assert_eq!(Ports::from(65_000).unwrap().relay(), 65_008);
    }
}
