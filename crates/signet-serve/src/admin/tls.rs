//! What an auditor asks of a server's TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use serde::Deserialize;
use sip_net::clock;
use sip_store::{Database, Renewal, StoreError, StoreErrorKind, TicketSecretStore};

use super::ask::no_rights;
use super::{Instance, say};
use crate::Error;
use crate::config::{Config, TicketKeysFrom};
use crate::data_dir::{DataDir, become_owner};
use crate::read_once::ReadOnce;
use crate::server::{
    fresh_secret, old_good_for_s, settle_s, shown_by_files, ticket_store, tickets_by_config,
};
use crate::setup;
use crate::tls_report::{Facts, ListenerTls, Report, ShownCrl, ShownOutgoing};

/// How long the running server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// For whom a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The part of `listeners.json` that is wanted.
#[derive(Deserialize)]
struct Running {
    pid: i32,
    metrics: Option<SocketAddr>,
}

/// Prints certificates, versions, suites, groups and, where the server runs
/// and has an address for figures, what clients made of them. The first line
/// says where it is from.
pub fn tls(instance: &Instance, form: Form) -> Result<(), Error> {
    let config = config_of(instance)?;
    let running = running(&config.data);
    if let Some(addr) = running.as_ref().and_then(|running| running.metrics) {
        let path = match form {
            Form::Text => "/tls",
            Form::Json => "/tls.json",
        };
        let report = ask(addr, path).map_err(|error| {
            Error::new(
                format!("the running server did not answer on http://{addr}{path}: {error}"),
                "look whether it is alive: its log, and /health at the same address",
            )
        })?;
        return tell(
            &format!("asked the running server, http://{addr}{path}"),
            &report,
            form,
        );
    }
    let (from, why) = match (instance, &running) {
        // What a server was told on its command line is written nowhere.
        (Instance::Data(data), _) => {
            return Err(Error::new(
                match &running {
                    Some(running) => format!(
                        "the server (process {}) on {} has no address for figures",
                        running.pid,
                        data.display()
                    ),
                    None => format!("no server runs on {}", data.display()),
                },
                "start it with --metrics 9060, or name its configuration with --config FILE",
            ));
        }
        (Instance::Config(path), Some(running)) => (
            path,
            format!(
                "the server (process {}) has no address for figures, so what it counted is not known; give it one: [metrics] listen",
                running.pid
            ),
        ),
        (Instance::Config(path), None) => (path, "no server runs by it".to_owned()),
    };
    let files = ReadOnce::default();
    let mut listeners = Vec::new();
    for listener in setup::listeners(&config) {
        if listener.at.transport.is_secure() && listener.accept {
            listeners.push(Some(ListenerTls {
                place: listener.at.to_string(),
                accepts: true,
                certificates: shown_by_files(&listener.security, &config.data, &files)?,
                crls: ShownCrl::read_all(&listener.security.crls, &files)?,
                security: listener.security,
            }));
        }
    }
    let report = Report::new(&Facts {
        listeners: &listeners,
        outgoing: &ShownOutgoing::read(&config.tls, &files)?,
        tickets: &tickets_by_config(&config.tls, &config.data),
        counted: None,
        now_unix_s: clock::unix_ms() / 1_000,
    });
    let report = match form {
        Form::Text => report.text(),
        Form::Json => report.json(),
    };
    tell(
        &format!("read from {}: {why}", from.display()),
        &report,
        form,
    )
}

/// Says a report, and first where it is from.
fn tell(from: &str, report: &str, form: Form) -> Result<(), Error> {
    if form == Form::Text {
        return say(&format!("{from}\n\n{report}"));
    }
    let unreadable = |error: serde_json::Error| {
        Error::new(
            format!("the running server's answer is no report: {error}"),
            "look whether the server is of the same version as this program",
        )
    };
    let mut report: serde_json::Value = serde_json::from_str(report).map_err(unreadable)?;
    if let Some(fields) = report.as_object_mut() {
        fields.insert("from".to_owned(), from.into());
    }
    let text = serde_json::to_string_pretty(&report).map_err(unreadable)?;
    say(&format!("{text}\n"))
}

/// Puts a new secret of session tickets in the first place. The old one still opens its tickets
/// until they expire, or, with `forgets_old`, not at all.
pub fn tls_rotate_secret(instance: &Instance, forgets_old: bool) -> Result<(), Error> {
    let config = config_of(instance)?;
    if config.tls.ticket_keys == TicketKeysFrom::File {
        return Err(Error::new(
            "the secret of session tickets comes from a file, which is yours to replace",
            "write a new one into it, so that it keeps its owner and mode, and send SIGHUP to every node: openssl rand -hex 32 > FILE",
        ));
    }
    become_owner(&config.data)?;
    let file = ticket_store(&config.tls, &config.data);
    if let Err(error @ Errno::EACCES) = access(&file, AccessFlags::R_OK | AccessFlags::W_OK) {
        return Err(no_rights(&file, &error.desc()));
    }
    let is_older = |error: &StoreError| error.kind() == StoreErrorKind::Older;
    let mut database = match Database::open_as_it_is(&file) {
        Err(error) if is_older(&error) && config.tls.ticket_store.is_none() => {
            DataDir::open(&config.data)?.open_database()?
        }
        Err(error) if is_older(&error) => return Err(error.into()),
        opened => opened.map_err(|error| {
            Error::new(
                error.to_string(),
                "name the server's folder with --data DIR or its file with --config FILE",
            )
        })?,
    };
    let fresh = fresh_secret()
        .ok_or_else(|| Error::new("the kernel gives no randomness", "look at the system's log"))?;
    let when = Renewal {
        age_min_s: 0,
        old_good_for_s: if forgets_old {
            0
        } else {
            old_good_for_s(&config.tls)
        },
    };
    database.renew_ticket_secret(&fresh, when)?;
    let poll_s = config.tls.ticket_poll_s;
    let id = &fresh.id;
    say(&if forgets_old {
        format!(
            "secret {id} is the only one in {}: nodes take it up within {poll_s} s, \
             and every phone then makes a full handshake once\n",
            file.display()
        )
    } else {
        format!(
            "secret {id} is in {}: nodes read it within {poll_s} s and seal by it after {} s; \
             tickets of the ones before are good until they end\n",
            file.display(),
            settle_s(&config.tls)
        )
    })
}

fn config_of(instance: &Instance) -> Result<Config, Error> {
    match instance {
        Instance::Config(path) => Ok(Config::from_file(path)?),
        Instance::Data(data) => Ok(Config {
            data: data.clone(),
            ..Config::default()
        }),
    }
}

/// The server that runs on a data folder.
fn running(data: &Path) -> Option<Running> {
    let text = std::fs::read(data.join("listeners.json")).ok()?;
    let running: Running = serde_json::from_slice(&text).ok()?;
    // A server that was killed leaves its file.
    let is_alive = nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.pid), None);
    matches!(is_alive, Ok(()) | Err(nix::errno::Errno::EPERM)).then_some(running)
}

/// The body of the answer of a server at its address for figures.
pub(super) fn ask(addr: SocketAddr, path: &str) -> std::io::Result<String> {
    // Who listens on all addresses is reached on the loopback one.
    let addr = match addr {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            (std::net::Ipv6Addr::LOCALHOST, v6.port()).into()
        }
        given => given,
    };
    let mut stream = TcpStream::connect_timeout(&addr, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let first = head.lines().next().unwrap_or("");
    if first.split(' ').nth(1) != Some("200") {
        return Err(std::io::Error::other(format!("it answered `{first}`")));
    }
    Ok(body.to_owned())
}
