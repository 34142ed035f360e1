//! A directory of the test's own.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use sip_auth::Algorithm;
use sip_userdb::{Options, UserDb};

use super::suite::{REALM, USERS, hex, user};
use super::{Folder, Program, certificate, free_port, options, secret, wait_for_port};

pub const BASE: &str = "ou=users,dc=example,dc=org";

/// slapd with the schema of etc/userdb/ldap.ldif.
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
        let path = folder.path().display();
        let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/userdb/ldap.ldif");
        let config = format!(
            "dn: cn=config\nobjectClass: olcGlobal\ncn: config\nolcPidFile: {path}/pid\n\
             olcTLSCACertificateFile: {}\nolcTLSCertificateFile: {}\n\
             olcTLSCertificateKeyFile: {}\n\n\
             dn: cn=module,cn=config\nobjectClass: olcModuleList\ncn: module\n\
             olcModulePath: /usr/lib/ldap\nolcModuleLoad: back_mdb\n\n\
             dn: cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: schema\n\n\
             include: file:///etc/ldap/schema/core.ldif\n\
             include: file:///etc/ldap/schema/cosine.ldif\n\
             include: file://{}\n\n\
             dn: olcDatabase=mdb,cn=config\nobjectClass: olcDatabaseConfig\n\
             objectClass: olcMdbConfig\nolcDatabase: mdb\nolcSuffix: dc=example,dc=org\n\
             olcDbDirectory: {path}/db\nolcDbIndex: uid eq\nolcDbIndex: signetRealm eq\n\
             olcAccess: to attrs=userPassword by anonymous auth by * none\n\
             olcAccess: to attrs=signetHA1MD5,signetHA1SHA256,signetHA1SHA512256 \
             by dn.exact=\"cn=signet,dc=example,dc=org\" read by * none\n\
             olcAccess: to * by * read\n",
            ca.display(),
            cert.display(),
            key.display(),
            schema.canonicalize().unwrap().display(),
        );
        folder.write("config.ldif", &config);
        folder.write("data.ldif", &data());
        std::fs::create_dir_all(folder.file("db")).unwrap();
        std::fs::create_dir_all(folder.file("config")).unwrap();
        for (number, file) in [("0", "config.ldif"), ("1", "data.ldif")] {
            let out = Command::new("/usr/sbin/slapadd")
                .args(["-q", "-n", number, "-F"])
                .arg(folder.file("config"))
                .arg("-l")
                .arg(folder.file(file))
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(out.status.success(), "slapadd {file}: {told}");
        }
        let server = Self {
            folder,
            port: free_port(),
            tls_port: free_port(),
            program: RefCell::new(None),
        };
        server.restart();
        server
    }

    pub fn restart(&self) {
        let listen = format!(
            "ldap://127.0.0.1:{} ldaps://127.0.0.1:{}",
            self.port, self.tls_port
        );
        let mut command = Command::new("slapd");
        command.args(["-d", "0", "-h", &listen, "-F"]);
        command.arg(self.folder.file("config"));
        *self.program.borrow_mut() = Some(Program::start(&mut command));
        wait_for_port(self.port);
        wait_for_port(self.tls_port);
    }

    pub fn kill(&self) {
        *self.program.borrow_mut() = None;
    }

    pub fn options(&self) -> Options {
        Options {
            password: secret("secret"),
            ..options(&format!(
                "ldap://cn=signet,dc=example,dc=org@127.0.0.1:{}/{BASE}",
                self.port
            ))
        }
    }

    pub fn open(&self) -> UserDb {
        UserDb::new(self.options()).unwrap()
    }
}

fn data() -> String {
    let mut data = "dn: dc=example,dc=org\nobjectClass: domain\nobjectClass: domainRelatedObject\n\
         dc: example\nassociatedDomain: example.org\nassociatedDomain: a.example.org\n\n\
         dn: cn=signet,dc=example,dc=org\nobjectClass: device\n\
         objectClass: simpleSecurityObject\ncn: signet\nuserPassword: secret\n\n\
         dn: ou=users,dc=example,dc=org\nobjectClass: organizationalUnit\nou: users\n\n"
        .to_owned();
    let mut entry = |rdn: &str, uid: &str, lines: &[String]| {
        let _ = write!(
            data,
            "dn: {rdn},{BASE}\nobjectClass: account\nobjectClass: signetUser\nuid: {uid}\n\
             signetRealm: {REALM}\n{}\n\n",
            lines.join("\n")
        );
    };
    for n in 0..USERS {
        let lines = [
            format!("signetHA1MD5: {}", hex(n, Algorithm::Md5)),
            format!("signetHA1SHA256: {}", hex(n, Algorithm::Sha256)),
            format!("signetHA1SHA512256: {}", hex(n, Algorithm::Sha512_256)),
        ];
        entry(&format!("uid={}", user(n)), &user(n), &lines);
    }
    let md5 = |n| format!("signetHA1MD5: {}", hex(n, Algorithm::Md5));
    entry("uid=damaged", "damaged", &["signetHA1MD5: zzzz".to_owned()]);
    entry("uid=bare", "bare", &["description: no HA1".to_owned()]);
    entry("uid=twice", "twice", &[md5(1)]);
    entry("host=other", "twice", &[md5(2), "host: other".to_owned()]);
    entry("uid=Mixed", "Mixed", &[md5(3)]);
    data
}
