//! Signet: any build of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{ConfigFile, Driver, Server, Site, Stage, Unable, version_of};
use crate::database::PASSWORD;
use crate::experiment::{Authentication, Connection, Resumption, Role, Setting, Suite, Transport};
use crate::users::{self, DOMAIN};

/// What the called side's number begins with.
pub const NUMBER: &str = "+1";
/// How long a request waits for a look-up at a distance: the queue has to be worked off before
/// a caller sends again, after 500 ms.
const LOOKUP_TIMEOUT_MS: u64 = 500;
/// Connections to a database that is asked by the tuner's way.
const CONNECTIONS: u32 = 8;

/// A build of Signet.
#[derive(Debug)]
pub struct Signet {
    name: String,
    program: PathBuf,
}

impl Signet {
    /// The build `program`, whose results are listed under `name`.
    pub fn new(name: &str, program: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
        }
    }

    fn program(&self) -> String {
        self.program.display().to_string()
    }

    /// Whether this build has the suites of RFC 3261: its own check of a configuration says so.
    fn has_legacy(&self, folder: &Path) -> bool {
        let text = "version = 1\n[[listen]]\non = \"tls:127.0.0.1:0\"\nname = \"legacy\"\n\
                    [listen.security]\nengine = \"legacy\"\n";
        let Ok(path) = ConfigFile::new("legacy.toml", text.to_owned()).write(folder) else {
            return false;
        };
        let output = std::process::Command::new(&self.program)
            .arg("check")
            .arg(&path)
            .output();
        let told = output.map_or_else(
            |error| error.to_string(),
            |output| {
                let told = [output.stdout, output.stderr].concat();
                String::from_utf8_lossy(&told).into_owned()
            },
        );
        // What else may be wrong with it, such as a missing certificate, is another matter.
        !told.contains("legacy-tls")
    }

    fn able(&self, stage: &Stage<'_>, setting: &Setting) -> Result<(), Unable> {
        if setting.is_legacy() {
            if !self.has_legacy(stage.folder) {
                return Err(Unable::new(
                    "this build lacks the suites of RFC 3261",
                    "cargo build --release -p signet --features legacy-tls, and run that build",
                ));
            }
            if setting.called_connection == Connection::PerCall {
                return Err(Unable::new(
                    "Signet has the suites of RFC 3261 towards callers and not towards next hops, so a connection per call there would be another suite's",
                    "measure the suites of RFC 3261 with one connection to the called side",
                ));
            }
        }
        let is_onward_resumed = setting.transport == Transport::Tls
            && setting.called_connection == Connection::PerCall
            && setting.role == Role::Proxy;
        if is_onward_resumed && setting.security.resumption == Resumption::Ids {
            return Err(Unable::new(
                "which way Signet resumes its sessions with a next hop is the next hop's choice",
                "write resumption = \"tickets\"",
            ));
        }
        Ok(())
    }

    /// Puts users with their passwords into the store of its own.
    ///
    /// # Errors
    /// What the program says against it.
    pub fn import(
        &self,
        config: &Path,
        users: impl Iterator<Item = (String, String)>,
    ) -> Result<(), String> {
        let list = config.with_file_name("users.csv");
        let mut text = "user,password\n".to_owned();
        for (user, password) in users {
            let _ = writeln!(text, "{user},{password}");
        }
        std::fs::write(&list, text).map_err(|error| format!("{}: {error}", list.display()))?;
        let output = std::process::Command::new(&self.program)
            .args(["user", "--config"])
            .arg(config)
            .arg("import")
            .arg(&list)
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!(
                "the users could not be added: {}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            ))
        }
    }

    /// Where the data of a server in a folder is.
    pub fn data(folder: &Path) -> PathBuf {
        folder.join("signet-data")
    }

    /// Writes a configuration into the folder of a site, readable by its owner alone; gives
    /// its path.
    ///
    /// # Errors
    /// Names the file that cannot be written.
    pub fn configure(site: &Site<'_>, text: String) -> Result<PathBuf, String> {
        ConfigFile::new("signet.toml", text).write(site.folder)
    }

    /// Starts it with the configuration `config` and waits until it is ready.
    ///
    /// # Errors
    /// As [`Site::start`].
    pub fn serve(&self, site: &Site<'_>, config: &Path) -> Result<Server, String> {
        let words = ["serve", "--config", &config.display().to_string()].map(str::to_owned);
        site.start(&self.name, &self.program(), &words)
    }
}

impl Driver for Signet {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> Result<String, Unable> {
        version_of(
            &self.program(),
            "--version",
            "give the path of a build: --signet target/release/signet",
        )
    }

    fn configuration(
        &self,
        stage: &Stage<'_>,
        setting: &Setting,
    ) -> Result<Vec<ConfigFile>, Unable> {
        self.able(stage, setting)?;
        let mut files = vec![ConfigFile::new(
            "signet.toml",
            configuration(stage, setting),
        )];
        if setting.authentication == Authentication::Mariadb {
            files.push(ConfigFile::new("password", PASSWORD.to_owned()));
        }
        Ok(files)
    }

    fn start(&self, stage: &Stage<'_>, setting: &Setting) -> Result<Server, String> {
        let _ = std::fs::remove_dir_all(Self::data(stage.folder));
        let files = self
            .configuration(stage, setting)
            .map_err(|unable| unable.to_string())?;
        for file in &files {
            file.write(stage.folder)?;
        }
        let config = stage.path("signet.toml");
        if setting.authentication == Authentication::Own {
            self.import(&config, users::names(setting.agents.users as usize))?;
        }
        self.serve(&stage.site(setting, Some(stage.metrics())), &config)
    }
}

/// The whole configuration.
fn configuration(stage: &Stage<'_>, setting: &Setting) -> String {
    let is_asked = setting.authentication != Authentication::None;
    let mut text = format!(
        "version = 1\ndata = {:?}\nworkers = {}\ndomains = [\"{DOMAIN}\"]\ndrain_timeout_ms = 200\n\n\
         [authentication]\nrequired = {is_asked}\nalgorithms = [\"MD5\"]\nfailures_max = 0\n",
        Signet::data(stage.folder).display().to_string(),
        setting.workers(),
    );
    if setting.database_rtt_ms > 0 {
        let _ = writeln!(text, "lookup_timeout_ms = {LOOKUP_TIMEOUT_MS}");
    }
    listener(&mut text, stage, setting);
    if setting.role == Role::Proxy {
        next_hop(&mut text, stage, setting);
    }
    if setting.authentication == Authentication::Mariadb {
        database(&mut text, stage, setting);
    }
    if setting.transport == Transport::Tls {
        onward(&mut text, stage, setting);
    }
    // One machine stands for all callers: what it may do is not what is measured. Bindings are
    // in memory, as those of the other servers are.
    let _ = write!(
        text,
        "\n[registrar]\ndurable = false\n\n[sources]\nrefusals_per_s = 0\n\n\
         [rates]\nuser_calls_per_s = 0\nuser_registrations_per_s = 0\nuser_others_per_s = 0\nuser_bytes_per_s = 0\n\n\
         [connections]\nconnections_per_source_max = 100000\nopened_per_source_per_s = 0\n\n\
         [metrics]\nlisten = \"{}\"\n",
        stage.metrics()
    );
    text
}

fn listener(text: &mut String, stage: &Stage<'_>, setting: &Setting) {
    let _ = write!(
        text,
        "\n[[listen]]\non = \"{}:{}\"\n",
        setting.transport.name(),
        stage.server(setting)
    );
    if setting.transport != Transport::Tls {
        return;
    }
    if setting.is_legacy() {
        let _ = writeln!(text, "name = \"legacy\"");
    }
    let key = setting.key();
    let _ = write!(
        text,
        "[listen.security]\ncertificate = {:?}\nkey = {:?}\n",
        stage.certificates.chain(key),
        stage.certificates.key(key)
    );
    if setting.security.mutual {
        let _ = write!(
            text,
            "client_certificates = \"required\"\nclient_roots = [{:?}]\n",
            stage.certificates.root()
        );
    }
    match legacy_suite(setting.security.suite) {
        Some(suite) => {
            let _ = write!(text, "engine = \"legacy\"\nsuites = [\"{suite}\"]\n");
        }
        None => algorithms(text, setting),
    }
}

fn legacy_suite(suite: Suite) -> Option<&'static str> {
    match suite {
        Suite::RsaAes => Some("TLS_RSA_WITH_AES_128_CBC_SHA"),
        Suite::RsaTripleDes => Some("TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
        Suite::Tls12 | Suite::Tls13 => None,
    }
}

/// Versions, suites and groups, of a listener or towards the next hop.
fn algorithms(text: &mut String, setting: &Setting) {
    let version = match setting.security.suite {
        Suite::Tls13 => "1.3",
        Suite::Tls12 | Suite::RsaAes | Suite::RsaTripleDes => "1.2",
    };
    let _ = writeln!(text, "versions = [\"{version}\"]");
    if setting.security.suite == Suite::Tls12 {
        let _ = writeln!(
            text,
            "suites = [\"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\", \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"]"
        );
    }
    if let Some(group) = setting.group() {
        let _ = writeln!(text, "groups = [{group:?}]");
    }
}

fn next_hop(text: &mut String, stage: &Stage<'_>, setting: &Setting) {
    let use_of_connection = match setting.called_connection {
        Connection::PerCall if setting.transport != Transport::Udp => "connection = \"per-call\"\n",
        _ => "",
    };
    let _ = write!(
        text,
        "\n[[gateway_group]]\nname = \"called\"\n{use_of_connection}\
         gateways = [{{ uri = \"sip:{}\" }}]\n\n[[route]]\nprefix = \"{NUMBER}\"\ngroup = \"called\"\n",
        stage.next_hop(setting)
    );
}

/// TLS towards the next hop. The suites of RFC 3261 are not spoken there.
fn onward(text: &mut String, stage: &Stage<'_>, setting: &Setting) {
    let key = setting.key();
    let _ = write!(
        text,
        "\n[tls]\ntrust = [{:?}]\nhandshakes_per_source_max = 16384\nfull_waiting_max = 16384\n",
        stage.certificates.root()
    );
    algorithms(text, setting);
    if setting.security.mutual {
        let _ = writeln!(
            text,
            "identity = {{ cert = {:?}, key = {:?} }}",
            stage.certificates.chain(key),
            stage.certificates.key(key)
        );
    }
}

fn database(text: &mut String, stage: &Stage<'_>, setting: &Setting) {
    let url = format!("mysql://signet@{}/signet", stage.database());
    let password = stage.path("password").display().to_string();
    let (connections, lookups) = match setting.lookups {
        Some((processes, batch)) => (
            processes,
            format!("mode = \"blocking\"\nprocesses = {processes}\nbatch_max = {batch}\n"),
        ),
        None => (CONNECTIONS, "mode = \"tuned\"\n".to_owned()),
    };
    // A cache would answer in the place of the database that is measured.
    let _ = write!(
        text,
        "\n[users]\nstores = [{url:?}]\npassword_file = {password:?}\nconnections_max = {connections}\n\n\
         [users.lookups]\n{lookups}\n[users.cache]\nentries_max = 0\n"
    );
}
