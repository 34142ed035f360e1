//! Kamailio, as Debian has it.

use std::net::SocketAddr;

use super::{ConfigFile, Driver, Server, Site, Stage, Unable, version_of};
use crate::database::PASSWORD;
use crate::experiment::{
    Authentication, Connection, Flow, Resumption, Role, Setting, Suite, Transport,
};
use crate::users::DOMAIN;

/// Megabytes of memory that its processes share. Its transactions stay for five seconds and
/// more: 512 run out at 5,000 calls/s, and calls are lost. What is not used is not taken.
const SHARED_MB: &str = "4096";
/// Megabytes that each process has for itself.
const PRIVATE_MB: &str = "16";
/// What it is made of.
const TEMPLATE: &str = include_str!("../../../../bench/peers/kamailio.cfg");
/// Where Debian's packages put it.
const PROGRAM: &str = "kamailio";
const INSTALL: &str =
    "apt-get install --no-install-recommends kamailio kamailio-tls-modules kamailio-mysql-modules";

/// Kamailio of this machine's packages.
#[derive(Clone, Copy, Debug)]
pub struct Kamailio;

impl Driver for Kamailio {
    fn name(&self) -> &'static str {
        "kamailio"
    }

    fn version(&self) -> Result<String, Unable> {
        version_of(PROGRAM, "-v", INSTALL).map(|line| {
            // version: kamailio 5.6.3 (x86_64/linux)
            line.trim_start_matches("version:").trim().to_owned()
        })
    }

    fn configuration(
        &self,
        stage: &Stage<'_>,
        setting: &Setting,
    ) -> Result<Vec<ConfigFile>, Unable> {
        able(setting)?;
        Ok(Peer::of(stage, setting).files(&stage.site(setting, None)))
    }

    fn start(&self, stage: &Stage<'_>, setting: &Setting) -> Result<Server, String> {
        able(setting).map_err(|unable| unable.to_string())?;
        self.serve(&stage.site(setting, None), &Peer::of(stage, setting))
    }

    /// By an identifier it finds a session only while the connection that has made it is there,
    /// also with `openssl s_client` at the other end; tickets outlive their connections.
    fn resumption(&self, wanted: Resumption) -> Resumption {
        match wanted {
            Resumption::Ids => Resumption::Tickets,
            other => other,
        }
    }
}

impl Kamailio {
    /// Starts it as a peer is to be, and waits until it listens.
    ///
    /// # Errors
    /// A file that cannot be written; as [`Site::start`].
    pub fn serve(&self, site: &Site<'_>, peer: &Peer) -> Result<Server, String> {
        for file in peer.files(site) {
            file.write(site.folder)?;
        }
        let config = site.path(CONFIG).display().to_string();
        let mut words = vec!["-f".to_owned(), config];
        words.extend(
            [
                "-DD", "-E", "-m", SHARED_MB, "-M", PRIVATE_MB, "-x", "tlsf", "-X", "tlsf",
            ]
            .map(str::to_owned),
        );
        words.extend(peer.defines());
        let mut server = site.start(self.name(), PROGRAM, &words)?;
        // Its processes are not all there when the first port is.
        std::thread::sleep(std::time::Duration::from_millis(500));
        server.must_run()?;
        Ok(server)
    }

    /// The options of its command line that switch on parts of its configuration.
    pub fn defines(setting: &Setting) -> Vec<String> {
        let is_registrar = setting.role == Role::Registrar;
        defines([
            setting.transport == Transport::Tls,
            setting.authentication == Authentication::Mariadb,
            is_registrar,
            !is_registrar,
        ])
    }
}

/// The same by TLS, authentication, registrar and next hop.
fn defines(is_on: [bool; 4]) -> Vec<String> {
    let parts = ["WITH_TLS", "WITH_AUTH", "WITH_REGISTRAR", "WITH_NEXTHOP"];
    let named = parts.iter().zip(is_on).filter(|(_, is_on)| *is_on);
    named
        .flat_map(|(name, _)| ["-A".to_owned(), format!("{name}=1")])
        .collect()
}

/// What Kamailio is set up for.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Its processes for each listener of datagrams, and for all streams.
    pub children: u32,
    /// Where all calls go, a URI without its scheme; to who registered if left out.
    pub next_hop: Option<String>,
    /// Whether it keeps bindings, in memory.
    pub registers: bool,
    /// MariaDB with its users, where it asks callers who they are.
    pub database: Option<SocketAddr>,
    /// Its TLS, where it has any.
    pub tls: Option<PeerTls>,
}

/// Kamailio's TLS.
#[derive(Clone, Debug)]
pub struct PeerTls {
    /// The file of the module's domains.
    pub domains: String,
    /// Whether it keeps sessions itself; tickets are OpenSSL's own and need none.
    pub keeps_sessions: bool,
}

/// Its configuration, and that of its TLS.
const CONFIG: &str = "kamailio.cfg";
const TLS_CONFIG: &str = "kamailio-tls.cfg";

impl Peer {
    /// What a setting asks for.
    fn of(stage: &Stage<'_>, setting: &Setting) -> Self {
        // With look-ups that wait, its processes are the paper's.
        let lookups = setting.lookups.map(|(processes, _)| processes.max(1));
        let is_asked = setting.authentication == Authentication::Mariadb;
        let is_registrar = setting.role == Role::Registrar;
        Self {
            children: lookups.unwrap_or(setting.workers()),
            next_hop: (!is_registrar).then(|| stage.next_hop(setting)),
            registers: is_registrar,
            database: is_asked.then(|| stage.database()),
            tls: (setting.transport == Transport::Tls).then(|| PeerTls {
                domains: tls(stage, setting),
                keeps_sessions: setting.security.resumption != Resumption::None,
            }),
        }
    }

    fn defines(&self) -> Vec<String> {
        defines([
            self.tls.is_some(),
            self.database.is_some(),
            self.registers,
            self.next_hop.is_some(),
        ])
    }

    fn files(&self, site: &Site<'_>) -> Vec<ConfigFile> {
        let tls = self.tls.as_ref();
        let domains = tls.map(|tls| ConfigFile::new(TLS_CONFIG, tls.domains.clone()));
        let main = ConfigFile::new(CONFIG, self.main(site));
        [main].into_iter().chain(domains).collect()
    }

    /// What is not switched on is filled in with what there could be.
    fn main(&self, site: &Site<'_>) -> String {
        let listens = site.listens.iter();
        let listens: String = listens
            .map(|(transport, address)| format!("listen={}:{address}\n", transport.name()))
            .collect();
        let next_hop = self.next_hop.as_deref().unwrap_or("127.0.0.1");
        let database = self.database.map_or_else(String::new, |at| at.to_string());
        let keeps_sessions = self.tls.as_ref().is_some_and(|tls| tls.keeps_sessions);
        TEMPLATE
            .replace("=CHILDREN", &format!("={}", self.children.max(1)))
            .replace("\nLISTEN\n", &format!("\n{listens}"))
            .replace(
                "\"sip:NEXTHOP;transport=TRANSPORT\"",
                &format!("\"sip:{next_hop}\""),
            )
            .replace(
                "\"TLSCONFIG\"",
                &format!("\"{}\"", site.path(TLS_CONFIG).display()),
            )
            .replace("SESSIONCACHE)", &format!("{})", u8::from(keeps_sessions)))
            .replace(
                "\"DATABASEURL\"",
                &format!("\"mysql://signet:{PASSWORD}@{database}/signet\""),
            )
            .replace("\"REALM\"", &format!("\"{DOMAIN}\""))
    }
}

fn able(setting: &Setting) -> Result<(), Unable> {
    if setting.authentication == Authentication::Own {
        return Err(Unable::new(
            "Kamailio has no users of its own",
            "write authentication = \"mariadb\"",
        ));
    }
    if let Some((_, batch)) = setting.lookups.filter(|(_, batch)| *batch > 1) {
        return Err(Unable::new(
            format!("Kamailio asks for one user at a time, and not for {batch}"),
            "batches are for signet alone; processes are for both with batch = 1",
        ));
    }
    let is_stream = setting.transport != Transport::Udp;
    if is_stream
        && setting.role == Role::Proxy
        && setting.flow == Flow::Calls
        && setting.called_connection == Connection::PerCall
    {
        return Err(Unable::new(
            "Kamailio has one connection to a next hop for all calls",
            "measure it with called_connection = \"one\"",
        ));
    }
    if setting.transport != Transport::Tls {
        return Ok(());
    }
    let security = &setting.security;
    if security.suite == Suite::RsaTripleDes {
        return Err(Unable::new(
            "the OpenSSL that Debian builds Kamailio with has no 3DES",
            "measure TLS_RSA_WITH_AES_128_CBC_SHA",
        ));
    }
    if security
        .group
        .as_deref()
        .is_some_and(|group| group.contains("MLKEM"))
    {
        return Err(Unable::new(
            "OpenSSL has ML-KEM from version 3.5 on, and Debian 12 an older one",
            "measure X25519 or P-256",
        ));
    }
    Ok(())
}

/// Its TLS, towards callers and towards the called side.
fn tls(stage: &Stage<'_>, setting: &Setting) -> String {
    let key = setting.key();
    let security = &setting.security;
    let files = format!(
        "private_key = {}\ncertificate = {}\nca_list = {}\n",
        stage.certificates.key(key),
        stage.certificates.chain(key),
        stage.certificates.root()
    );
    let modern = match security.suite {
        // It has no word for 1.3 alone; both ends offer it, and the load nothing else.
        Suite::Tls13 => "TLSv1.2+",
        Suite::Tls12 | Suite::RsaAes | Suite::RsaTripleDes => "TLSv1.2",
    };
    let (asks, suites) = (
        if security.mutual { "yes" } else { "no" },
        match security.suite {
            Suite::Tls12 => {
                "cipher_list = ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256\n"
            }
            Suite::RsaAes => "cipher_list = AES128-SHA\n",
            Suite::Tls13 | Suite::RsaTripleDes => "",
        },
    );
    let onward = match security.suite {
        // The called side has no suite of RFC 3261.
        Suite::RsaAes => "",
        _ => suites,
    };
    format!(
        "[server:default]\nmethod = {modern}\nverify_certificate = {asks}\nrequire_certificate = {asks}\n{suites}{files}\n\
         [client:default]\nmethod = {modern}\nverify_certificate = yes\nrequire_certificate = yes\n{onward}{files}"
    )
}
