//! What an auditor asks of a server's TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use sip_msg::Transport;
use sip_net::clock;

use super::{Place, say};
use crate::Error;
use crate::config::Config;
use crate::plan;
use crate::server::shown_by_files;
use crate::tls_report::{self, ListenerTls};

/// How long the running server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The part of `listeners.json` that is wanted.
#[derive(Deserialize)]
struct Running {
    pid: i32,
    metrics: Option<SocketAddr>,
}

/// Prints certificates, versions, suites, groups and, where the server runs
/// and has an address for figures, what clients made of them. The first line
/// says where it is from.
pub fn tls(place: &Place) -> Result<(), Error> {
    let config = match place {
        Place::Config(path) => Config::from_file(path)?,
        Place::Data(data) => Config {
            data: data.clone(),
            ..Config::default()
        },
    };
    let running = running(&config.data);
    if let Some(addr) = running.as_ref().and_then(|running| running.metrics) {
        let report = ask(addr).map_err(|error| {
            Error::new(
                format!("the running server did not answer on http://{addr}/tls: {error}"),
                "look whether it is alive: its log, and /health at the same address",
            )
        })?;
        return say(&format!(
            "asked the running server, http://{addr}/tls\n\n{report}"
        ));
    }
    let (from, why) = match (place, &running) {
        // What a server was told on its command line is written nowhere.
        (Place::Data(data), _) => {
            return Err(Error::new(
                match &running {
                    Some(running) => format!(
                        "the server (process {}) on {} has no address for figures",
                        running.pid,
                        data.display()
                    ),
                    None => format!("no server runs on {}", data.display()),
                },
                "start it with --metrics 9090, or name its configuration with --config FILE",
            ));
        }
        (Place::Config(path), Some(running)) => (
            path,
            format!(
                "the server (process {}) has no address for figures, so what it counted is not known; give it one: [metrics] listen",
                running.pid
            ),
        ),
        (Place::Config(path), None) => (path, "no server runs by it".to_owned()),
    };
    let mut listeners = Vec::new();
    for listener in plan::listeners(&config) {
        if listener.at.transport == Transport::Tls && listener.accept {
            listeners.push(Some(ListenerTls {
                place: listener.at.to_string(),
                accepts: true,
                certificates: shown_by_files(&listener.security, &config.data)?,
                security: listener.security,
                tickets: tls_report::tickets(&config.tls),
            }));
        }
    }
    let report = tls_report::render(&listeners, None, None, clock::unix_ms() / 1_000);
    say(&format!("read from {}: {why}\n\n{report}", from.display()))
}

/// The server that runs on a data folder.
fn running(data: &Path) -> Option<Running> {
    let text = std::fs::read(data.join("listeners.json")).ok()?;
    let running: Running = serde_json::from_slice(&text).ok()?;
    // A server that was killed leaves its file.
    let is_alive = nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.pid), None);
    matches!(is_alive, Ok(()) | Err(nix::errno::Errno::EPERM)).then_some(running)
}

/// The body of the answer.
fn ask(addr: SocketAddr) -> std::io::Result<String> {
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
    let request = format!("GET /tls HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
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
