//! PostgreSQL.

use std::path::Path;

use super::{Instance, is_root, run};
use crate::process::Process;
use crate::users;

/// Signet's table.
const SCHEMA: &str = include_str!("../../../../etc/userdb/postgresql.sql");
/// What is set otherwise than by default.
pub(super) const SETTINGS: &str =
    "shared_buffers 512 MB, max_connections 1000, fsync off, no password on loopback";

/// The user that Debian's package makes: root may not run it.
const USER: &str = "postgres";

pub(super) fn start(instance: &Instance<'_>, count: usize) -> Result<Process, String> {
    let (data, programs) = (instance.path("data"), programs()?);
    let user = is_root().then_some(USER);
    if user.is_some() {
        run("chown", &[USER, &instance.path("")], None)?;
    }
    let initdb = format!("{programs}/initdb");
    let words = [
        "-D",
        &data,
        "-U",
        "signet",
        "--auth=trust",
        "-E",
        "UTF8",
        "--no-locale",
        "-N",
    ];
    match user {
        Some(user) => {
            let group = format!("--regid={user}");
            let user = format!("--reuid={user}");
            let all = [&[&user, &group, "--clear-groups", &initdb][..], &words[..]].concat();
            run("setpriv", &all, None)?;
        }
        None => {
            run(&initdb, &words, None)?;
        }
    }
    let words = [
        "-D".to_owned(),
        data,
        "-p".to_owned(),
        instance.port.to_string(),
        "-c".to_owned(),
        "listen_addresses=127.0.0.1".to_owned(),
        "-c".to_owned(),
        format!("unix_socket_directories={}", instance.path("")),
        "-c".to_owned(),
        "shared_buffers=512MB".to_owned(),
        "-c".to_owned(),
        "max_connections=1000".to_owned(),
        "-c".to_owned(),
        "fsync=off".to_owned(),
    ];
    let postgres = format!("{programs}/postgres");
    let mut process = Process::start_as(user, instance.core, &postgres, &words, &instance.log())?;
    instance.wait(&mut process)?;
    fill(instance, &programs, count)?;
    Ok(process)
}

/// Where Debian keeps the programs of the newest version that is there.
fn programs() -> Result<String, String> {
    let missing = || "it is not installed; type: apt-get install postgresql".to_owned();
    let entries = std::fs::read_dir("/usr/lib/postgresql").map_err(|_| missing())?;
    let mut versions: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    versions.sort_unstable();
    let newest = versions.last().ok_or_else(missing)?;
    Ok(format!("/usr/lib/postgresql/{newest}/bin"))
}

fn fill(instance: &Instance<'_>, programs: &str, count: usize) -> Result<(), String> {
    let psql = format!("{programs}/psql");
    let port = instance.port.to_string();
    let psql = |database: &str, more: &[&str], input: Option<&Path>| {
        let words = [
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "signet",
            "-d",
            database,
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
        ];
        run(&psql, &[&words[..], more].concat(), input)
    };
    // The first program that asks may find it still starting.
    let mut made = Err(String::new());
    for _ in 0..100 {
        made = psql("postgres", &["-c", "CREATE DATABASE signet"], None);
        match &made {
            Err(error) if error.contains("starting up") => {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            _ => break,
        }
    }
    made?;
    let rows = instance.path("users");
    // What is a digest there is bytes: \x and hexadecimal digits, the backslash doubled.
    users::write(Path::new(&rows), count, |user| users::tabbed(user, "\\\\x"))?;
    let sql = instance.path("fill.sql");
    let text = format!(
        "{}\nALTER TABLE signet_users DISABLE TRIGGER USER;\n\
         \\copy signet_users (realm, username, ha1_md5, ha1_sha256, ha1_sha512_256) from '{rows}'\n\
         ALTER TABLE signet_users ENABLE TRIGGER USER;\nVACUUM ANALYZE signet_users;\n",
        SCHEMA
    );
    std::fs::write(&sql, text).map_err(|e| format!("{sql}: {e}"))?;
    psql("signet", &["-f", &sql], None)?;
    let found = psql(
        "signet",
        &["-At", "-c", "SELECT COUNT(*) FROM signet_users"],
        None,
    )?;
    match found.trim() {
        found if found == count.to_string() => Ok(()),
        found => Err(format!("{found} users are there, and not {count}")),
    }
}
