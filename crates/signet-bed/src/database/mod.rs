//! Databases, each started for a measurement with a folder and a port of its own, and filled.

mod mariadb;
mod postgres;
mod redis;

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::Process;

/// How long one may take to start.
const READY: Duration = Duration::from_secs(60);
/// The password of MariaDB's user `signet`. It listens on a loopback address, and only while
/// something is measured.
pub const PASSWORD: &str = "bench-only";

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MariaDB.
    MariaDb,
    /// PostgreSQL.
    Postgres,
    /// Redis.
    Redis,
}

impl Kind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        }
    }

    /// The URL by which Signet reaches it through the relay at this port.
    pub fn url(self, port: u16) -> String {
        match self {
            Self::MariaDb => format!("mysql://signet@127.0.0.1:{port}/signet"),
            Self::Postgres => format!("postgresql://signet@127.0.0.1:{port}/signet"),
            Self::Redis => format!("redis://127.0.0.1:{port}"),
        }
    }

    /// The settings that are not its defaults, in words.
    pub fn settings(self) -> &'static str {
        match self {
            Self::MariaDb => mariadb::SETTINGS,
            Self::Postgres => postgres::SETTINGS,
            Self::Redis => redis::SETTINGS,
        }
    }
}

/// A database that runs, with users in it.
#[derive(Debug)]
pub struct Database {
    /// Its kind.
    pub kind: Kind,
    /// The server's process.
    pub process: Process,
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    folder: PathBuf,
    core: String,
}

impl Database {
    /// Starts one in `folder` and fills it with so many users.
    ///
    /// # Errors
    /// A program that is missing or does not start, with what it said.
    pub fn start(
        kind: Kind,
        folder: &Path,
        port: u16,
        core: &str,
        users: usize,
    ) -> Result<Self, String> {
        let place = Instance {
            folder: folder.join(kind.name()),
            port,
            core,
        };
        let _ = std::fs::remove_dir_all(&place.folder);
        std::fs::create_dir_all(&place.folder)
            .map_err(|e| format!("{}: {e}", place.folder.display()))?;
        let begun = Instant::now();
        let process = match kind {
            Kind::MariaDb => mariadb::start(&place, users),
            Kind::Postgres => postgres::start(&place, users),
            Kind::Redis => redis::start(&place, users),
        }
        .map_err(|error| format!("{}: {error}", kind.name()))?;
        eprintln!(
            "{} with {users} users on port {port}, after {:.0} s",
            kind.name(),
            begun.elapsed().as_secs_f64()
        );
        Ok(Self {
            kind,
            process,
            port,
            folder: place.folder,
            core: core.to_owned(),
        })
    }

    /// Kills it (SIGKILL), so that its clients are not told.
    pub fn kill(&mut self) -> Result<(), String> {
        self.process.signal("KILL");
        match self.process.wait(Duration::from_secs(10)) {
            Some(_) => Ok(()),
            None => Err(format!("{} cannot be killed", self.kind.name())),
        }
    }

    /// Starts it again with the users that it had, and does not wait until it is ready.
    pub fn start_again(&mut self) -> Result<(), String> {
        let place = Instance {
            folder: self.folder.clone(),
            port: self.port,
            core: &self.core,
        };
        self.process = match self.kind {
            Kind::MariaDb => mariadb::start_again(&place)?,
            Kind::Postgres | Kind::Redis => {
                return Err(format!("{} cannot be started again here", self.kind.name()));
            }
        };
        Ok(())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // PostgreSQL waits for its clients when it is asked to end by SIGTERM, and not by
        // SIGINT; the others end by either.
        self.process.signal(match self.kind {
            Kind::Postgres => "INT",
            Kind::MariaDb | Kind::Redis => "TERM",
        });
        let _ = self.process.wait(Duration::from_secs(20));
    }
}

/// Where a database is to be.
struct Instance<'a> {
    folder: PathBuf,
    port: u16,
    core: &'a str,
}

impl Instance<'_> {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Waits until the port answers.
    fn wait(&self, process: &mut Process) -> Result<(), String> {
        let until = Instant::now() + READY;
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        while TcpStream::connect(address).is_err() {
            if !process.is_running() || Instant::now() > until {
                let told = std::fs::read_to_string(self.log()).unwrap_or_default();
                let tail: Vec<&str> = told.lines().rev().take(5).collect();
                return Err(format!("it does not listen: {}", tail.join(" | ")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Runs a program to its end, with its input from a file or none.
fn run(program: &str, arguments: &[&str], input: Option<&Path>) -> Result<String, String> {
    let stdin = match input {
        Some(path) => std::fs::File::open(path)
            .map_err(|e| format!("{}: {e}", path.display()))?
            .into(),
        None => Stdio::null(),
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(stdin)
        .output()
        .map_err(|e| format!("cannot start {program}: {e}; if it is missing, type: apt-get install mariadb-server postgresql redis-server"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let told = String::from_utf8_lossy(&output.stderr);
        let tail: Vec<&str> = told.lines().rev().take(4).collect();
        Err(format!("{program}: {}", tail.join(" | ")))
    }
}

/// Whether this is root, whom some databases refuse to run for.
fn is_root() -> bool {
    run("id", &["-u"], None).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A missing program fails a test; with SIGNET_MAY_SKIP=1 it skips it.
    fn is_there(program: &str) -> bool {
        let is_there = Path::new("/usr/sbin").join(program).exists()
            || Path::new("/usr/bin").join(program).exists();
        let may_skip = std::env::var_os("SIGNET_MAY_SKIP").is_some_and(|value| value == "1");
        assert!(
            is_there || may_skip,
            "{program} is not installed (`make tools` does it); SIGNET_MAY_SKIP=1 skips such tests"
        );
        is_there
    }

    /// What it was filled with is counted by the database itself.
    fn starts_and_ends(kind: Kind) {
        let folder = std::env::temp_dir().join(format!("signet-{kind:?}-{}", std::process::id()));
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let database = Database::start(kind, &folder, port, "0", 2_345).unwrap();
        assert!(database.process.memory_bytes() > 1_000_000);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        drop(database);
        assert!(
            TcpStream::connect(("127.0.0.1", port)).is_err(),
            "it still runs"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn mariadb_starts_with_users_and_ends() {
        if is_there("mariadbd") {
            starts_and_ends(Kind::MariaDb);
        }
    }

    #[test]
    fn mariadb_comes_back_with_its_users_after_it_was_killed() {
        if !is_there("mariadbd") {
            return;
        }
        let folder = std::env::temp_dir().join(format!("signet-killed-{}", std::process::id()));
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut database = Database::start(Kind::MariaDb, &folder, port, "0", 321).unwrap();
        database.kill().unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        database.start_again().unwrap();
        let place = Instance {
            folder: database.folder.clone(),
            port,
            core: "0",
        };
        place.wait(&mut database.process).unwrap();
        let socket = format!("--socket={}", place.path("socket"));
        let ask = "SELECT COUNT(*) FROM signet.signet_users";
        let words = ["--no-defaults", &socket, "--user=root", "-N", "-e", ask];
        assert_eq!(run("mariadb", &words, None).unwrap().trim(), "321");
        drop(database);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn postgresql_starts_with_users_and_ends() {
        if is_there("psql") {
            starts_and_ends(Kind::Postgres);
        }
    }

    #[test]
    fn redis_starts_with_users_and_ends() {
        if is_there("redis-server") {
            starts_and_ends(Kind::Redis);
        }
    }
}
