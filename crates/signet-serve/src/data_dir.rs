//! The data folder: what a server keeps between runs. It is made with mode
//! 0700, and every file with a secret in it with mode 0600.
//!
//! | file | what |
//! |---|---|
//! | `ca.pem`, `ca.key` | the private certificate authority |
//! | `server.pem`, `server.key` | the server's certificate, by that authority |
//! | `node.secret` | the secret from which the keys for nonces are derived |
//! | `ticket.secret` | the secret from which the keys of TLS session tickets are derived, where it comes from a file |
//! | `tokens.keys` | the keys under which the tokens of dialogs are signed |
//! | `domain` | the default domain, that of the last start |
//! | `signet.db` | subscribers, bindings, domains, secrets of TLS session tickets |
//! | `records-….spool` | call records that wait for a table |
//! | `listeners.json` | while a server runs: its process and its addresses |
//! | `admin.sock` | where a running server is asked, and told of changes; it stays when that ends |
//! | `lock` | held while a server runs; it stays when that ends |

use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Gid, Uid, User};
use sip_store::{Database, StoreErrorKind};
use zeroize::Zeroizing;

use crate::Error;
use crate::config::Domain;

/// A data folder that exists and can be written.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
}

/// The database's file in the folder.
pub(crate) const DATABASE: &str = "signet.db";

/// How long a command waits for the lock of the server's database, which the server has while it
/// writes: on a slow disk longer than a registration may wait for it.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How long a command waits for another that has the folder, and how often it looks.
const OTHERS_PATIENCE: Duration = Duration::from_secs(2);
const OTHERS_STEP: Duration = Duration::from_millis(20);

/// Held while a server runs on a data folder; two cannot share one.
#[derive(Debug)]
pub struct DataLock {
    _file: Flock<File>,
}

/// Whom a folder belongs to. He may have no name, as in a container.
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// The owner of a folder, where this process is root and he is not.
    fn other(folder: &Path) -> Option<Self> {
        let meta = folder.metadata().ok()?;
        let is_other = nix::unistd::geteuid().is_root() && meta.uid() != 0;
        is_other.then(|| Self {
            uid: meta.uid(),
            gid: meta.gid(),
        })
    }

    fn name(&self) -> Option<String> {
        let user = User::from_uid(Uid::from_raw(self.uid)).ok().flatten()?;
        Some(user.name)
    }

    /// Puts this process into the groups of the server's user: by one of them it may pass the
    /// folders above its certificates.
    fn take_groups(&self, group: Gid) -> nix::Result<()> {
        match self.name().and_then(|name| CString::new(name).ok()) {
            Some(name) => nix::unistd::initgroups(&name, group),
            None => nix::unistd::setgroups(&[group]),
        }
    }

    /// How to give a command as this user.
    fn remedy(&self, command: &str) -> String {
        match self.name() {
            Some(name) => format!("type: runuser -u {name} -- signet {command} ..."),
            None => format!(
                "type: setpriv --reuid={} --regid={} --clear-groups signet {command} ...",
                self.uid, self.gid
            ),
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "the user {name}"),
            None => write!(f, "the user with the number {}", self.uid),
        }
    }
}

/// What root makes in a data folder of somebody else's that server could not open. So a
/// command that root gives goes on as the folder's owner.
pub(crate) fn become_owner(folder: &Path) -> Result<(), Error> {
    let Some(owner) = Owner::other(folder) else {
        return Ok(());
    };
    let group = Gid::from_raw(owner.gid);
    owner
        .take_groups(group)
        .and_then(|()| nix::unistd::setgid(group))
        .and_then(|()| nix::unistd::setuid(Uid::from_raw(owner.uid)))
        .map_err(|error| {
            Error::new(
                format!("cannot go on as {owner}: {error}"),
                owner.remedy("COMMAND"),
            )
        })
}

impl DataDir {
    /// Opens the folder, and makes it where it is missing.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match DirBuilder::new().mode(0o700).recursive(true).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(no_folder(path));
            }
            Err(error) => return Err(unusable("make", path, &error)),
        }
        let meta = path
            .metadata()
            .map_err(|error| unusable("read", path, &error))?;
        refuse_writable_by_others(path, &meta)?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Takes the folder for this process.
    pub fn lock(&self) -> Result<DataLock, Error> {
        if let Some(owner) = Owner::other(&self.path) {
            return Err(Error::new(
                format!(
                    "the data folder {} belongs to {owner}, and what root makes in it that user cannot open",
                    self.path.display()
                ),
                format!(
                    "start the server as that user, for example: systemctl start signet; or {}",
                    owner.remedy("serve")
                ),
            ));
        }
        let path = self.file("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| Error::file("write", &path, &error))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                let _ = file.set_len(0);
                let _ = writeln!(file, "{}", std::process::id());
                Ok(DataLock { _file: file })
            }
            Err((mut file, _)) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                Err(Error::new(
                    format!(
                        "a server runs already on {} (process {})",
                        self.path.display(),
                        holder.trim()
                    ),
                    "stop it first, or name another folder with --data DIR",
                ))
            }
        }
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path of the database.
    pub fn database(&self) -> PathBuf {
        self.file(DATABASE)
    }

    /// The database, for a command. What an older version wrote is brought up to date only while
    /// no server has the folder: one of that version would go on with a schema that it does not
    /// know.
    pub(crate) fn open_database(&self) -> Result<Database, Error> {
        let file = self.database();
        if !file.exists() {
            return Ok(Database::open(&file)?.with_patience(LOCK_PATIENCE)?);
        }
        let until = Instant::now() + OTHERS_PATIENCE;
        loop {
            match Database::open_as_it_is(&file) {
                Err(error) if error.kind() == StoreErrorKind::Older => {}
                opened => return Ok(opened?.with_patience(LOCK_PATIENCE)?),
            }
            let held = match self.lock() {
                Ok(_no_server) => return Ok(Database::open(&file)?),
                Err(held) => held,
            };
            // Another command may be at it.
            if Instant::now() >= until {
                return Err(Error::new(
                    format!(
                        "{} is of an older version than this program, and {}",
                        file.display(),
                        held.what()
                    ),
                    "if a server runs there, restart it with this version first, for example: systemctl restart signet; then type this again",
                ));
            }
            std::thread::sleep(OTHERS_STEP);
        }
    }

    /// The node's secret, made at the first start.
    pub fn node_secret(&self) -> Result<Zeroizing<[u8; 32]>, Error> {
        self.secret("node.secret", "phones then are challenged anew")
    }

    /// The secret of session tickets, made at the first start.
    pub fn ticket_secret(&self) -> Result<Zeroizing<[u8; 32]>, Error> {
        self.secret("ticket.secret", "sessions then begin with a full handshake")
    }

    fn secret(&self, name: &str, when_lost: &str) -> Result<Zeroizing<[u8; 32]>, Error> {
        let path = self.file(name);
        if path.exists() {
            return read_secret(
                &path,
                &format!("put the file back, or remove it: {when_lost}, and nothing else is lost"),
            );
        }
        let mut secret = Zeroizing::new([0; 32]);
        crate::random_bytes(&mut *secret)?;
        let text = Zeroizing::new(to_hex(&*secret));
        self.write(name, text.as_bytes(), 0o600)?;
        Ok(secret)
    }

    /// The default domain: `wanted` where that is given, else the one that was
    /// kept, else the machine's name.
    pub fn default_domain(&self, wanted: Option<&Domain>) -> Result<Domain, Error> {
        match wanted {
            Some(wanted) => Ok(wanted.clone()),
            None => Ok(self.kept_domain()?.unwrap_or_else(machine_domain)),
        }
    }

    /// Keeps the default domain, because users are stored under it.
    pub fn keep_domain(&self, domain: &Domain) -> Result<(), Error> {
        if self.kept_domain()?.as_ref() == Some(domain) {
            return Ok(());
        }
        self.write("domain", format!("{domain}\n").as_bytes(), 0o644)
    }

    fn kept_domain(&self) -> Result<Option<Domain>, Error> {
        let path = self.file("domain");
        match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map(Some).map_err(|_| {
                Error::new(
                    format!("{} does not hold a domain", path.display()),
                    "write the default domain there, or remove the file",
                )
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file("read", &path, &error)),
        }
    }

    /// Replaces a file by a whole new one or, on an error, not at all.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), Error> {
        write_whole(&self.file(name), bytes, mode)
    }
}

/// A data folder that could not be used.
fn unusable(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    let fault = Error::file(&format!("{doing} the data folder"), path, error);
    match error.kind() {
        ErrorKind::PermissionDenied => Error::new(
            fault.what(),
            "run as the user that the folder belongs to, or name another: `data` in the configuration file, --data without one",
        ),
        _ => fault,
    }
}

/// A data folder that is none.
pub(crate) fn no_folder(path: &Path) -> Error {
    Error::new(
        format!("{} is a file, not a folder", path.display()),
        "name another folder with --data DIR, or as `data` in the configuration file",
    )
}

/// Others could put files of theirs into the data folder.
pub(crate) fn refuse_writable_by_others(path: &Path, meta: &Metadata) -> Result<(), Error> {
    if meta.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Error::new(
        format!(
            "the data folder {} can be written by others (mode {:03o})",
            path.display(),
            meta.mode() & 0o777
        ),
        format!("type: chmod 700 {}", path.display()),
    ))
}

/// Replaces a file by a whole new one, with its bytes on disk before its name, and its name before
/// this returns.
pub(crate) fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let fail = |error: std::io::Error| Error::file("write", path, &error);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let in_folder = path.parent().filter(|in_| !in_.as_os_str().is_empty());
    let written = (|| {
        let folder = File::open(in_folder.unwrap_or(Path::new(".")))?;
        // Whatever has that name is not ours to write into, or leads elsewhere.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(mode)
            .open(&new)?;
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        folder.sync_all()
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written.map_err(fail)
}

/// A file that the operator names cannot be read by the user that the server runs as, who is
/// rarely the one that made it.
pub(crate) fn unreadable(doing: &str, file: &Path, error: &std::io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::NotFound => {
            "look whether the path is right: it is taken from the folder of the configuration file"
                .to_owned()
        }
        ErrorKind::PermissionDenied => {
            let user = this_user();
            format!(
                "the server runs as {user}, who must own the file and may have to pass the folders above it; type: chown {user} {}",
                file.display()
            )
        }
        ErrorKind::IsADirectory => "name the file in it".to_owned(),
        _ => "look at the file and the disk that it is on".to_owned(),
    };
    Error::new(
        format!("cannot {doing} {}: {error}", file.display()),
        remedy,
    )
}

/// The user that this process runs as, by name or number.
pub(crate) fn this_user() -> String {
    let uid = nix::unistd::geteuid();
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// A key or password that others can read is no secret. `what` it is stands before its name.
pub(crate) fn refuse_readable_by_others(what: &str, path: &Path) -> Result<(), Error> {
    let meta = path
        .metadata()
        .map_err(|error| unreadable("read", path, &error))?;
    if meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    let file = path.display();
    // Who is not its owner could read it no more.
    let owned = match meta.uid() == nix::unistd::geteuid().as_raw() {
        true => String::new(),
        false => format!(", and: chown {} {file}", this_user()),
    };
    Err(Error::new(
        format!(
            "{what} {file} can be read by others (mode {:03o})",
            meta.mode() & 0o777
        ),
        format!("type: chmod 600 {file}{owned}"),
    ))
}

/// Reads a secret of 64 hexadecimal digits; `remedy` is for a file that holds
/// something else.
pub(crate) fn read_secret(path: &Path, remedy: &str) -> Result<Zeroizing<[u8; 32]>, Error> {
    let mut file = File::open(path).map_err(|error| unreadable("read", path, &error))?;
    refuse_readable_by_others("the key", path)?;
    let mut text = Zeroizing::new(String::new());
    let mut secret = Zeroizing::new([0; 32]);
    if file.read_to_string(&mut text).is_ok() && from_hex(text.trim(), &mut *secret) {
        return Ok(secret);
    }
    Err(Error::new(
        format!(
            "{} does not hold a secret of 64 hexadecimal digits",
            path.display()
        ),
        remedy,
    ))
}

/// The machine's own name as a domain.
fn machine_domain() -> Domain {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("localhost"))
        .and_then(|name| name.parse().ok())
        .unwrap_or_else(|| Domain("signet.local".into()))
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

pub(crate) fn from_hex(text: &str, out: &mut [u8]) -> bool {
    text.len() == out.len() * 2
        && out
            .iter_mut()
            .zip(text.as_bytes().chunks_exact(2))
            .all(|(byte, digits)| {
                std::str::from_utf8(digits)
                    .ok()
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                    .map(|value| *byte = value)
                    .is_some()
            })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn the_folder_and_its_secrets_are_for_their_owner_alone() {
        let temp = TempDir::new("data-modes");
        let data = DataDir::open(&temp.path().join("deep/data")).unwrap();
        assert_eq!(mode(data.path()), 0o700);
        let secret = data.node_secret().unwrap();
        assert_eq!(mode(&data.file("node.secret")), 0o600);
        assert_ne!(*secret, [0; 32]);
        assert_eq!(*data.node_secret().unwrap(), *secret);
        let tickets = data.ticket_secret().unwrap();
        assert_eq!(mode(&data.file("ticket.secret")), 0o600);
        assert_ne!(*tickets, *secret);
        assert_eq!(*data.ticket_secret().unwrap(), *tickets);
    }

    #[test]
    fn what_waits_under_the_name_of_the_new_file_is_not_written_into() {
        let temp = TempDir::new("data-link");
        let data = DataDir::open(temp.path()).unwrap();
        let others = data.file("others");
        std::fs::write(&others, "his").unwrap();
        let new = data.file(&format!("key.{}.new", std::process::id()));
        let links: [fn(&Path, &Path) -> std::io::Result<()>; 2] = [
            |of, link| std::os::unix::fs::symlink(of, link),
            |of, link| std::fs::hard_link(of, link),
        ];
        for link in links {
            link(&others, &new).unwrap();
            data.write("key", b"ours", 0o600).unwrap();
            assert_eq!(std::fs::read(&others).unwrap(), b"his");
            let key = data.file("key");
            assert!(key.symlink_metadata().unwrap().is_file());
            assert_eq!(
                (std::fs::read(&key).unwrap(), mode(&key)),
                (b"ours".into(), 0o600)
            );
            assert!(!new.exists());
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused_with_the_remedy() {
        let temp = TempDir::new("data-open-secret");
        let data = DataDir::open(temp.path()).unwrap();
        data.node_secret().unwrap();
        std::fs::set_permissions(
            data.file("node.secret"),
            std::fs::Permissions::from_mode(0o644),
        )
        .unwrap();
        let error = data.node_secret().unwrap_err();
        assert!(error.remedy().starts_with("type: chmod 600 "), "{error}");
    }

    #[test]
    fn a_spoilt_secret_is_refused() {
        let temp = TempDir::new("data-spoilt-secret");
        let data = DataDir::open(temp.path()).unwrap();
        data.write("node.secret", b"0123", 0o600).unwrap();
        assert!(
            data.node_secret()
                .unwrap_err()
                .what()
                .contains("64 hexadecimal digits")
        );
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let temp = TempDir::new("data-open-folder");
        std::fs::set_permissions(temp.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = DataDir::open(temp.path()).unwrap_err();
        assert!(error.remedy().starts_with("type: chmod 700 "), "{error}");
    }

    #[test]
    fn two_servers_cannot_share_a_folder() {
        let temp = TempDir::new("data-lock");
        let data = DataDir::open(temp.path()).unwrap();
        let held = data.lock().unwrap();
        let error = data.lock().unwrap_err();
        assert!(
            error
                .what()
                .contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(held);
        assert!(data.lock().is_ok());
    }

    #[test]
    fn the_default_domain_is_kept() {
        let temp = TempDir::new("data-domain");
        let data = DataDir::open(temp.path()).unwrap();
        let wanted: Domain = "example.com".parse().unwrap();
        assert_eq!(data.default_domain(Some(&wanted)).unwrap(), wanted);
        assert_ne!(data.default_domain(None).unwrap(), wanted);
        data.keep_domain(&wanted).unwrap();
        assert_eq!(data.default_domain(None).unwrap(), wanted);
        data.write("domain", b"a b\n", 0o644).unwrap();
        assert!(data.default_domain(None).is_err());
    }
}
