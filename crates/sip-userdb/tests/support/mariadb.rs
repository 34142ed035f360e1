//! A MariaDB of the test's own.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use sip_auth::Algorithm;
use sip_userdb::{Layout, Options, Secret, Tls};

use super::suite::{ODD, PEOPLE, REALM, UMLAUT, hex, name};
use super::{Authority, Folder, Server, free_port, program, succeed};

const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/libexec"];
pub const PASSWORD: &str = "correct horse";

static TURN: Mutex<()> = Mutex::new(());

/// A server with the suite's users: in `signet_users`, in Kamailio's `subscriber`, and in
/// `odd`, which has no key.
pub struct MariaDb {
    server: Option<Server>,
    /// One at a time: installations side by side were seen to fail.
    _turn: MutexGuard<'static, ()>,
    program: PathBuf,
    port: u16,
    pub authority: Authority,
    pub folder: Folder,
}

impl MariaDb {
    /// Starts and fills one; `None` where there is no such program and that is allowed.
    pub fn start() -> Option<Self> {
        let program = super::program("mariadbd", &FOLDERS)?;
        let install = super::program("mariadb-install-db", &FOLDERS)?;
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Folder::new("signet-mariadb");
        let authority = Authority::new(&folder, "mariadb");
        let mut command = Command::new(install);
        command
            .args(["--no-defaults", "--auth-root-authentication-method=normal"])
            .args(["--skip-test-db", "--skip-name-resolve"])
            .arg(format!("--datadir={}", folder.file("data").display()));
        as_user(&mut command);
        succeed(&mut command, None);
        let mut bed = Self {
            server: None,
            _turn: turn,
            program,
            port: free_port(),
            authority,
            folder,
        };
        bed.resume();
        bed.fill();
        Some(bed)
    }

    /// Kills it.
    pub async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.end().await;
        }
    }

    /// Starts it again, on the same port.
    pub fn resume(&mut self) {
        let log = self.folder.file("mariadb.log");
        let option = |name: &str, file: PathBuf| format!("--{name}={}", file.display());
        let mut command = Command::new(&self.program);
        command
            .args([
                "--no-defaults",
                "--bind-address=127.0.0.1",
                "--skip-log-bin",
            ])
            .args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"])
            .args(["--innodb-buffer-pool-size=64M", "--performance-schema=OFF"])
            .arg(format!("--port={}", self.port))
            .arg(option("datadir", self.folder.file("data")))
            .arg(option("socket", self.folder.file("socket")))
            .arg(option("pid-file", self.folder.file("pid")))
            .arg(option("ssl-cert", self.authority.chain.clone()))
            .arg(option("ssl-key", self.authority.key.clone()));
        as_user(&mut command);
        let mut server = Server::start(&mut command, Signal::SIGKILL, &log);
        server.until_listening(self.port, &log);
        self.server = Some(server);
    }

    /// Runs statements as root.
    pub fn sql(&self, sql: &str) {
        let file = self.folder.file("input.sql");
        fs::write(&file, sql).unwrap();
        let client = program("mariadb", &FOLDERS).unwrap();
        let mut command = Command::new(client);
        command
            .args([
                "--no-defaults",
                "--user=root",
                "--default-character-set=utf8mb4",
            ])
            .arg(format!("--socket={}", self.folder.file("socket").display()));
        succeed(&mut command, Some(&file));
    }

    fn fill(&self) {
        let mut sql = format!(
            "CREATE DATABASE sip CHARACTER SET utf8mb4; \
             CREATE USER signet IDENTIFIED BY '{PASSWORD}'; \
             GRANT ALL ON sip.* TO signet; USE sip;"
        );
        sql.push_str(include_str!("../../../../etc/userdb/mysql.sql"));
        // Kamailio's columns and its key, in the collation that a server has by itself.
        sql.push_str(
            "CREATE TABLE subscriber (
                 id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
                 username VARCHAR(64) DEFAULT '' NOT NULL,
                 domain VARCHAR(64) DEFAULT '' NOT NULL,
                 password VARCHAR(64) DEFAULT '' NOT NULL,
                 ha1 VARCHAR(128) DEFAULT '' NOT NULL,
                 ha1b VARCHAR(128) DEFAULT '' NOT NULL,
                 CONSTRAINT account_idx UNIQUE (username, domain));
             CREATE TABLE odd (id INT, username VARCHAR(64), domain VARCHAR(64),
                 ha1 VARCHAR(64), KEY (username));
             CREATE TABLE narrow (username VARCHAR(64), domain VARCHAR(64), ha1 CHAR(32),
                 PRIMARY KEY (username, domain)) CHARACTER SET latin1;
             CREATE TABLE domain (domain VARCHAR(64));
             INSERT INTO domain VALUES ('example.com'), ('example.org');
             INSERT INTO signet_domains VALUES ('example.com');",
        );
        let everybody: Vec<String> = (0..PEOPLE).map(name).chain([UMLAUT.to_owned()]).collect();
        for some in everybody.chunks(1_000) {
            let (mut own, mut subscriber, mut narrow) =
                (String::new(), String::new(), String::new());
            for (at, user) in some.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let [sha512, sha256, md5] = Algorithm::ALL.map(|of| hex(user, of));
                let both = hex(&format!("{user}@{REALM}"), Algorithm::Md5);
                write!(
                    own,
                    "{comma}('{REALM}','{user}',x'{md5}',x'{sha256}',x'{sha512}')"
                )
                .unwrap();
                write!(subscriber, "{comma}('{user}','{REALM}','{md5}','{both}')").unwrap();
                write!(narrow, "{comma}('{user}','{REALM}','{md5}')").unwrap();
            }
            write!(
                sql,
                "INSERT INTO signet_users VALUES {own};
                 INSERT INTO subscriber (username, domain, ha1, ha1b) VALUES {subscriber};
                 INSERT INTO narrow VALUES {narrow};"
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
                 (0, '{without}', '{REALM}', NULL);",
            other = hex(cut, Algorithm::Md5),
        )
        .unwrap();
        self.sql(&sql);
    }

    /// How it is reached, with `layout`; `query` is what the URL ends with.
    pub fn options(&self, layout: Layout, query: &str) -> Options {
        Options {
            url: format!("mysql://signet@127.0.0.1:{}/sip{query}", self.port),
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

/// It refuses to be root unless it is told so.
fn as_user(command: &mut Command) {
    if nix::unistd::geteuid().is_root() {
        command.arg("--user=root");
    }
}
