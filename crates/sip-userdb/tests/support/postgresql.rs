//! A PostgreSQL of the test's own.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use sip_auth::Algorithm;
use sip_userdb::{Layout, Options, Secret, Tls};

use super::suite::{ODD, PEOPLE, REALM, UMLAUT, hex, name};
use super::{Authority, Folder, Server, free_port, succeed};

pub const PASSWORD: &str = "correct horse";

/// The account that the server runs as where the tests are root's, which it refuses.
const ACCOUNT: &str = "postgres";

/// A server with the suite's users: in `signet_users`, in Kamailio's `subscriber`, and in
/// `odd`, which has no key.
pub struct PostgreSql {
    server: Option<Server>,
    programs: PathBuf,
    port: u16,
    pub authority: Authority,
    pub folder: Folder,
}

impl PostgreSql {
    /// Starts and fills one; `None` where there is no such program and that is allowed.
    pub fn start() -> Option<Self> {
        let programs = programs()?;
        let folder = Folder::new("signet-postgresql");
        let authority = Authority::new(&folder, "postgresql");
        own(folder.path());
        own(&authority.key);
        fs::set_permissions(&authority.key, fs::Permissions::from_mode(0o600)).unwrap();
        let password = folder.file("password");
        fs::write(&password, PASSWORD).unwrap();
        let mut command = as_account(&programs.join("initdb"));
        command
            .args(["--username=signet", "--auth-local=trust", "--no-sync"])
            .args(["--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C"])
            .arg(format!("--pwfile={}", password.display()))
            .arg(format!("--pgdata={}", folder.file("data").display()))
            .current_dir(folder.path());
        succeed(&mut command, None);
        let mut bed = Self {
            server: None,
            programs,
            port: free_port(),
            authority,
            folder,
        };
        bed.resume();
        bed.fill();
        Some(bed)
    }

    /// Ends it at once, connections and all.
    pub async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.end().await;
        }
    }

    /// Starts it again, on the same port.
    pub fn resume(&mut self) {
        let log = self.folder.file("postgresql.log");
        let mut command = as_account(&self.programs.join("postgres"));
        command
            .arg("-D")
            .arg(self.folder.file("data"))
            .args(["-p", &self.port.to_string()])
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"])
            .args(["-c", "ssl=on", "-c"])
            .arg(format!("ssl_cert_file={}", self.authority.chain.display()))
            .arg("-c")
            .arg(format!("ssl_key_file={}", self.authority.key.display()))
            .arg("-c")
            .arg(format!(
                "unix_socket_directories={}",
                self.folder.path().display()
            ))
            .current_dir(self.folder.path());
        let mut server = Server::start(&mut command, Signal::SIGQUIT, &log);
        server.until_listening(self.port, &log);
        self.server = Some(server);
        self.until_ready();
    }

    /// Starts it again as a hot standby, which reads, and neither writes nor listens.
    pub async fn stand_by(&mut self) {
        if let Some(server) = self.server.take() {
            server.end_by(Signal::SIGINT).await;
        }
        let file = self.folder.file("data").join("standby.signal");
        fs::write(&file, "").unwrap();
        own(&file);
        self.resume();
    }

    /// It listens before it answers.
    fn until_ready(&self) {
        for _ in 0..600 {
            let output = self.psql().args(["-c", "SELECT 1"]).output().unwrap();
            if output.status.success() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("the server does not answer");
    }

    fn psql(&self) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args([
                "-X",
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                "signet",
                "-d",
                "postgres",
            ])
            .arg("-h")
            .arg(self.folder.path())
            .args(["-p", &self.port.to_string()]);
        command
    }

    /// Runs statements.
    pub fn sql(&self, sql: &str) {
        let file = self.folder.file("input.sql");
        fs::write(&file, sql).unwrap();
        succeed(&mut self.psql(), Some(&file));
    }

    fn fill(&self) {
        let mut sql = include_str!("../../../../etc/userdb/postgresql.sql").to_owned();
        sql.push_str(
            "CREATE TABLE subscriber (
                 id SERIAL PRIMARY KEY,
                 username VARCHAR(64) DEFAULT '' NOT NULL,
                 domain VARCHAR(64) DEFAULT '' NOT NULL,
                 password VARCHAR(64) DEFAULT '' NOT NULL,
                 ha1 VARCHAR(128) DEFAULT '' NOT NULL,
                 ha1b VARCHAR(128) DEFAULT '' NOT NULL,
                 CONSTRAINT account_idx UNIQUE (username, domain));
             CREATE TABLE odd (id INT, username VARCHAR(64), domain VARCHAR(64),
                 ha1 VARCHAR(64));
             CREATE TABLE domain (domain VARCHAR(64));
             INSERT INTO domain VALUES ('example.com'), ('example.org');
             INSERT INTO signet_domains VALUES ('example.com');",
        );
        let everybody: Vec<String> = (0..PEOPLE).map(name).chain([UMLAUT.to_owned()]).collect();
        for some in everybody.chunks(1_000) {
            let (mut own, mut subscriber) = (String::new(), String::new());
            for (at, user) in some.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let [sha512, sha256, md5] = Algorithm::ALL.map(|of| hex(user, of));
                let both = hex(&format!("{user}@{REALM}"), Algorithm::Md5);
                write!(
                    own,
                    "{comma}('{REALM}','{user}','\\x{md5}','\\x{sha256}','\\x{sha512}')"
                )
                .unwrap();
                write!(subscriber, "{comma}('{user}','{REALM}','{md5}','{both}')").unwrap();
            }
            write!(
                sql,
                "INSERT INTO signet_users VALUES {own};
                 INSERT INTO subscriber (username, domain, ha1, ha1b) VALUES {subscriber};"
            )
            .unwrap();
        }
        let [twins, cut, scrawled, without] = ODD;
        let md5 = hex(twins, Algorithm::Md5);
        write!(
            sql,
            "INSERT INTO odd SELECT id, username, domain, ha1 FROM subscriber;
             INSERT INTO odd VALUES (0, '{twins}', '{REALM}', '{md5}'),
                 (0, '{twins}', '{REALM}', '{other}'),
                 (0, '{cut}', '{REALM}', '0123456789abcdef'),
                 (0, '{scrawled}', '{REALM}', 'not a hexadecimal number of 16 b'),
                 (0, '{without}', '{REALM}', NULL);
             ANALYZE;",
            other = hex(cut, Algorithm::Md5),
        )
        .unwrap();
        self.sql(&sql);
    }

    /// How it is reached, with `layout`; `query` is what the URL ends with.
    pub fn options(&self, layout: Layout, query: &str) -> Options {
        Options {
            url: format!(
                "postgresql://signet@127.0.0.1:{}/postgres{query}",
                self.port
            ),
            password: Some(Secret::new(PASSWORD.as_bytes().to_vec())),
            tls: Tls::Auto,
            tls_roots: None,
            layout,
            algorithms: None,
            wanted: None,
            connections_max: 3,
            connect_timeout_ms: 10_000,
        }
    }
}

/// Where Debian keeps the programs, the newest version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut folders: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|folder| folder.join("postgres").is_file())
        .collect();
    folders.sort();
    let last = folders.pop();
    if last.is_none() {
        super::program("postgres", &[])?;
    }
    last
}

fn as_account(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid",
            ACCOUNT,
            "--regid",
            ACCOUNT,
            "--clear-groups",
            "--",
        ])
        .arg(program);
    command
}

fn own(path: &Path) {
    if geteuid().is_root() {
        let account = nix::unistd::User::from_name(ACCOUNT).unwrap().unwrap();
        chown(path, Some(account.uid.as_raw()), Some(account.gid.as_raw())).unwrap();
    }
}
