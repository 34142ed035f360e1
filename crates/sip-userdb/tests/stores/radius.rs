//! A RADIUS server of the test's own.

use std::cell::RefCell;
use std::process::Command;

use sip_auth::Algorithm;
use sip_userdb::{Options, UserDb};

use super::suite::{USERS, hex, password, user};
use super::{Folder, Program, free_port, options, secret, wait_until};

pub const SECRET: &str = "0123456789abcdef-shared";

/// freeradius knows the draft before RFC 5090 only: names for the RFC's attributes, and how its
/// module gets them.
const RFC5090: &str = "\
ATTRIBUTE RFC5090-Response 103 string
ATTRIBUTE RFC5090-Realm 104 string
ATTRIBUTE RFC5090-Nonce 105 string
ATTRIBUTE RFC5090-Method 108 string
ATTRIBUTE RFC5090-URI 109 string
ATTRIBUTE RFC5090-Qop 110 string
ATTRIBUTE RFC5090-Algorithm 111 string
ATTRIBUTE RFC5090-Body-Hash 112 string
ATTRIBUTE RFC5090-CNonce 113 string
ATTRIBUTE RFC5090-Nonce-Count 114 string
ATTRIBUTE RFC5090-Username 115 string
";

const MAP_RFC5090: &str = "\
    if (&RFC5090-Response) {
        update request {
            Digest-Response := &RFC5090-Response
            Digest-Attributes := 0x00
            Digest-Realm := &RFC5090-Realm
            Digest-Nonce := &RFC5090-Nonce
            Digest-Method := &RFC5090-Method
            Digest-URI := &RFC5090-URI
            Digest-QOP := &RFC5090-Qop
            Digest-Algorithm := &RFC5090-Algorithm
            Digest-Body-Digest := &RFC5090-Body-Hash
            Digest-CNonce := &RFC5090-CNonce
            Digest-Nonce-Count := &RFC5090-Nonce-Count
            Digest-User-Name := &RFC5090-Username
        }
        update control {
            Auth-Type := digest
        }
    }";

/// freeradius with its digest module and users of its own: passwords for the even ones, HA1s
/// for the odd.
pub struct Server {
    pub folder: Folder,
    pub port: u16,
    pub program: RefCell<Option<Program>>,
}

impl Server {
    /// Whether it signs its answers is its configuration's matter.
    pub fn start(signs: bool) -> Self {
        let folder = Folder::new();
        let port = free_port();
        let path = folder.path().display();
        let sign = if signs {
            "update reply { Message-Authenticator := 0x00 }"
        } else {
            ""
        };
        let conf = format!(
            "prefix = /usr\nlibdir = /usr/lib/freeradius\nraddbdir = {path}\n\
             logdir = {path}\nrun_dir = {path}\npidfile = {path}/pid\n\
             max_request_time = 30\ncleanup_delay = 5\nmax_requests = 16384\n\
             log {{\n destination = files\n file = {path}/log\n auth = no\n }}\n\
             security {{\n max_attributes = 200\n reject_delay = 0\n status_server = no\n \
             allow_vulnerable_openssl = yes\n }}\n\
             thread pool {{\n start_servers = 2\n max_servers = 4\n min_spare_servers = 1\n \
             max_spare_servers = 4\n max_requests_per_server = 0\n }}\n\
             modules {{\n digest {{\n }}\n files {{\n usersfile = {path}/users\n }}\n }}\n\
             client test {{\n ipaddr = 127.0.0.1\n secret = \"{SECRET}\"\n \
             require_message_authenticator = yes\n }}\n\
             server default {{\n\
             listen {{\n type = auth\n ipaddr = 127.0.0.1\n port = {port}\n }}\n\
             authorize {{\n files\n digest\n {MAP_RFC5090}\n }}\n\
             authenticate {{\n digest\n }}\n\
             post-auth {{\n {sign}\n Post-Auth-Type REJECT {{\n {sign}\n }}\n }}\n }}\n"
        );
        let mut users = String::new();
        for n in 0..USERS {
            users += &if n % 2 == 0 {
                format!("{} Cleartext-Password := \"{}\"\n", user(n), password(n))
            } else {
                format!("{} Digest-HA1 := \"{}\"\n", user(n), hex(n, Algorithm::Md5))
            };
        }
        users += "damaged Digest-HA1 := \"zzzz\"\n";
        folder.write("radiusd.conf", &conf);
        folder.write("users", &users);
        folder.write("dictionary", RFC5090);
        let server = Self {
            folder,
            port,
            program: RefCell::new(None),
        };
        server.restart();
        server
    }

    pub fn restart(&self) {
        let mut command = Command::new("freeradius");
        command.args(["-f", "-d"]).arg(self.folder.path());
        let _ = std::fs::remove_file(self.folder.file("log"));
        let mut program = Program::start(&mut command);
        let log = self.folder.file("log");
        wait_until("freeradius is ready", || {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(!program.has_ended(), "freeradius ended: {log}");
            log.contains("Ready to process requests")
        });
        *self.program.borrow_mut() = Some(program);
    }

    pub fn kill(&self) {
        *self.program.borrow_mut() = None;
    }

    pub fn open(&self) -> UserDb {
        self.open_with("digest=sterman")
    }

    pub fn open_with(&self, query: &str) -> UserDb {
        UserDb::new(Options {
            password: secret(SECRET),
            ..options(&format!("radius://127.0.0.1:{}?{query}", self.port))
        })
        .unwrap()
    }
}
