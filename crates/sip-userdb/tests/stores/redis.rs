//! A Redis of the test's own.

use std::cell::RefCell;
use std::process::Command;

use sip_userdb::{Options, UserDb};

use super::suite::{self, REALM, USERS, ha1s, subject, user};
use super::{Folder, Program, certificate, free_port, options, secret, wait_for_port};

/// A real server with a user `signet` who may do what docs/STORES.md says.
pub struct Server {
    pub folder: Folder,
    pub port: u16,
    pub tls_port: u16,
    pub program: RefCell<Option<Program>>,
}

impl Server {
    pub fn start() -> Self {
        let folder = Folder::new();
        let [ca, cert, key] = certificate(&folder);
        let (port, tls_port) = (free_port(), free_port());
        let path = folder.path().display();
        let conf = format!(
            "bind 127.0.0.1\nport {port}\ntls-port {tls_port}\n\
             tls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients no\n\
             unixsocket {path}/redis.sock\n\
             dir {path}\nsave \"\"\nappendonly yes\nappendfsync always\n\
             notify-keyspace-events Kg$\n\
             user default off\n\
             user admin on >admin ~* &* +@all\n\
             user signet on >secret ~signet:* &signet:users &__keyspace@0__:signet:user:* \
             +auth +select +echo +mget +smembers +scan +set +del +multi +exec +publish \
             +subscribe +psubscribe\n",
            cert.display(),
            key.display(),
            ca.display(),
        );
        folder.write("redis.conf", &conf);
        let server = Self {
            folder,
            port,
            tls_port,
            program: RefCell::new(None),
        };
        server.restart();
        server
    }

    pub fn restart(&self) {
        let mut command = Command::new("redis-server");
        command.arg(self.folder.file("redis.conf"));
        *self.program.borrow_mut() = Some(Program::start(&mut command));
        wait_for_port(self.port);
    }

    pub fn kill(&self) {
        *self.program.borrow_mut() = None;
    }

    pub fn url(&self) -> String {
        format!("redis://signet@127.0.0.1:{}", self.port)
    }

    pub fn options(&self) -> Options {
        Options {
            password: secret("secret"),
            ..options(&self.url())
        }
    }

    pub fn open(&self) -> UserDb {
        UserDb::new(self.options()).unwrap()
    }

    /// What `redis-cli` says, as the administrator.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let out = Command::new("redis-cli")
            .args(["-p", &self.port.to_string(), "--user", "admin"])
            .args(["--pass", "admin", "--no-auth-warning"])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    pub async fn fill(&self, db: &UserDb) {
        for n in 0..USERS {
            db.put(&subject(user(n)), &ha1s(n).into()).await.unwrap();
        }
        let damaged = format!("signet:user:{REALM}:{}", suite::DAMAGED);
        assert_eq!(self.cli(&["SET", &damaged, r#"{"MD5":"zzzz"}"#]), "OK");
    }
}
