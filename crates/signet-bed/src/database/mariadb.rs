//! MariaDB: Signet's table and Kamailio's, with the same users.

use std::path::Path;

use sip_auth::Algorithm;

use super::{Instance, PASSWORD, is_root, run};
use crate::process::Process;
use crate::users::{self, DOMAIN};

/// Signet's table.
const SCHEMA: &str = include_str!("../../../../etc/userdb/mysql.sql");
/// What is set otherwise than by default.
pub(super) const SETTINGS: &str = "innodb_buffer_pool_size 1 GiB, max_connections 2000, \
     thread_cache_size 1024, skip_name_resolve, no binary log, innodb_flush_log_at_trx_commit 2";

/// Kamailio's table, by the columns that auth_db reads.
const SUBSCRIBER: &str = "\
CREATE TABLE version (table_name VARCHAR(32) NOT NULL UNIQUE, table_version INT UNSIGNED NOT NULL);
INSERT INTO version VALUES ('subscriber', 7);
CREATE TABLE subscriber (
    id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
    username VARCHAR(64) NOT NULL,
    domain VARCHAR(64) NOT NULL,
    password VARCHAR(64) NOT NULL DEFAULT '',
    ha1 VARCHAR(128) NOT NULL,
    ha1b VARCHAR(128) NOT NULL DEFAULT '',
    UNIQUE KEY account (username, domain)
) CHARACTER SET latin1 ENGINE = InnoDB;
";

pub(super) fn start(instance: &Instance<'_>, count: usize) -> Result<Process, String> {
    let (data, own_tmp) = (data(instance), own_tmp(instance));
    let mut words = vec!["--no-defaults", "--skip-test-db"];
    words.extend([data.as_str(), own_tmp.as_str()]);
    words.push("--auth-root-authentication-method=normal");
    words.extend(as_root());
    run("mariadb-install-db", &words, None)?;
    let mut process = start_again(instance)?;
    instance.wait(&mut process)?;
    fill(instance, &instance.path("socket"), count)?;
    Ok(process)
}

/// Starts it with what it had, and does not wait until it is ready.
pub(super) fn start_again(instance: &Instance<'_>) -> Result<Process, String> {
    let mut words: Vec<String> = [
        "--no-defaults".to_owned(),
        data(instance),
        own_tmp(instance),
        format!("--socket={}", instance.path("socket")),
        format!("--port={}", instance.port),
        format!("--pid-file={}", instance.path("pid")),
    ]
    .into();
    words.extend(
        [
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--innodb-buffer-pool-size=1G",
            "--innodb-flush-log-at-trx-commit=2",
            "--max-connections=2000",
            "--thread-cache-size=1024",
            "--secure-file-priv=",
        ]
        .iter()
        .chain(as_root())
        .map(|word| (*word).to_owned()),
    );
    Process::start(instance.core, "mariadbd", &words, &instance.log())
}

/// A server that starts removes what it takes for temporary tables of a dead one: where two start
/// side by side, those of the other.
fn own_tmp(instance: &Instance<'_>) -> String {
    format!("--tmpdir={}", instance.folder.display())
}

fn data(instance: &Instance<'_>) -> String {
    format!("--datadir={}", instance.path("data"))
}

/// It refuses to be root unless it is told so.
fn as_root() -> &'static [&'static str] {
    if is_root() { &["--user=root"] } else { &[] }
}

fn fill(instance: &Instance<'_>, socket: &str, count: usize) -> Result<(), String> {
    let (own, theirs) = (instance.path("users"), instance.path("subscriber"));
    users::write(Path::new(&own), count, |user| users::tabbed(user, ""))?;
    users::write(Path::new(&theirs), count, |user| {
        format!("{}\t{DOMAIN}\t{}\n", user.name, user.ha1(Algorithm::Md5))
    })?;
    let sql = instance.path("fill.sql");
    let text = format!(
        "CREATE DATABASE signet;\nUSE signet;\n{}\n{SUBSCRIBER}\
         LOAD DATA INFILE '{own}' INTO TABLE signet_users (realm, username, ha1_md5, ha1_sha256, ha1_sha512_256);\n\
         LOAD DATA INFILE '{theirs}' INTO TABLE subscriber (username, domain, ha1);\n\
         ANALYZE TABLE signet_users, subscriber;\n\
         CREATE USER 'signet'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT SELECT ON signet.* TO 'signet'@'127.0.0.1';\n",
        SCHEMA
    );
    std::fs::write(&sql, text).map_err(|e| format!("{sql}: {e}"))?;
    let socket = format!("--socket={socket}");
    let words = ["--no-defaults", &socket, "--user=root"];
    run("mariadb", &words, Some(Path::new(&sql)))?;
    let ask = [
        &words[..],
        &["-N", "-e", "SELECT COUNT(*) FROM signet.signet_users"],
    ]
    .concat();
    match run("mariadb", &ask, None)?.trim() {
        found if found == count.to_string() => Ok(()),
        found => Err(format!("{found} users are there, and not {count}")),
    }
}
