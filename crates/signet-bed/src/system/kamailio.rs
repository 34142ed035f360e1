//! Kamailio, as Debian has it.

use super::{Driver, File, Server, Stage, Unable, version_of};
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
const TEMPLATE: &str = include_str!("../../../../bench/peers/kamailio-bed.cfg");
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

    fn configuration(&self, stage: &Stage<'_>, setting: &Setting) -> Result<Vec<File>, Unable> {
        able(setting)?;
        let mut files = vec![File::new("kamailio.cfg", main(stage, setting))];
        if setting.transport == Transport::Tls {
            files.push(File::new("kamailio-tls.cfg", tls(stage, setting)));
        }
        Ok(files)
    }

    fn start(&self, stage: &Stage<'_>, setting: &Setting) -> Result<Server, String> {
        let files = self
            .configuration(stage, setting)
            .map_err(|unable| unable.to_string())?;
        for file in &files {
            file.write(stage.folder)?;
        }
        let log = stage.path("kamailio.log");
        let config = stage.path("kamailio.cfg").display().to_string();
        let mut words = vec!["-f".to_owned(), config];
        words.extend(
            [
                "-DD", "-E", "-m", SHARED_MB, "-M", PRIVATE_MB, "-x", "tlsf", "-X", "tlsf",
            ]
            .map(str::to_owned),
        );
        words.extend(Self::defines(setting));
        let process = stage.start(PROGRAM, &words, &log)?;
        let server = Server::started(process, log, stage.server(setting));
        let mut server = server.wait(setting.transport, None)?;
        // Its processes are not all there when the first port is.
        std::thread::sleep(std::time::Duration::from_millis(500));
        server.must_run()?;
        Ok(server)
    }
}

impl Kamailio {
    /// The options of its command line that switch on parts of its configuration.
    pub fn defines(setting: &Setting) -> Vec<String> {
        let parts = [
            (setting.transport == Transport::Tls, "WITH_TLS"),
            (
                setting.authentication == Authentication::Mariadb,
                "WITH_AUTH",
            ),
            (setting.role == Role::Registrar, "WITH_REGISTRAR"),
        ];
        let mut words = Vec::new();
        for (_, name) in parts.iter().filter(|(is_on, _)| *is_on) {
            words.extend(["-A".to_owned(), format!("{name}=1")]);
        }
        words
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

fn main(stage: &Stage<'_>, setting: &Setting) -> String {
    // With look-ups that wait, its processes are the paper's.
    let children = setting
        .lookups
        .map_or(setting.workers(), |(processes, _)| processes.max(1));
    // The sessions that it keeps itself; tickets are OpenSSL's own and need none.
    let session_cache = u8::from(setting.security.resumption != Resumption::None);
    TEMPLATE
        .replace("=CHILDREN", &format!("={children}"))
        .replace(
            "\nLISTEN\n",
            &format!(
                "\nlisten={}:{}\n",
                setting.transport.name(),
                stage.server(setting)
            ),
        )
        .replace(
            "\"sip:NEXTHOP;transport=TRANSPORT\"",
            &format!("\"sip:{}\"", stage.next_hop(setting)),
        )
        .replace(
            "\"TLSCONFIG\"",
            &format!("\"{}\"", stage.path("kamailio-tls.cfg").display()),
        )
        .replace("SESSIONCACHE)", &format!("{session_cache})"))
        .replace(
            "\"DATABASEURL\"",
            &format!("\"mysql://signet:{PASSWORD}@{}/signet\"", stage.database()),
        )
        .replace("\"REALM\"", &format!("\"{DOMAIN}\""))
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
