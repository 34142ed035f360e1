//! What a server says about itself: to programs in a file, to people in a few
//! lines.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serde::Serialize;
use sip_msg::Transport;

use crate::ca::machine_addresses;
use crate::data_dir::DataDir;

use super::{Server, Source};

const FILE: &str = "listeners.json";
/// How long who reads the standard output is waited for, so that what follows comes behind it.
const TOLD: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Listeners<'s> {
    pid: u32,
    domains: Vec<&'s str>,
    listeners: Vec<ListenerAddress>,
    metrics: Option<SocketAddr>,
}

#[derive(Serialize)]
struct ListenerAddress {
    transport: &'static str,
    address: SocketAddr,
}

/// Writes `listeners.json`: programs wait for it to learn the real ports. On a full disk there is
/// none, rather than that of a server before, and phones are served all the same.
pub(super) fn listeners(server: &Server, metrics: Option<SocketAddr>) {
    let listeners = Listeners {
        pid: std::process::id(),
        domains: server
            .domains
            .iter()
            .map(|domain| domain.0.as_ref())
            .collect(),
        listeners: accepting(server)
            .map(|(transport, address)| ListenerAddress {
                transport: transport.uri_name(),
                address,
            })
            .collect(),
        metrics,
    };
    let mut text = serde_json::to_string_pretty(&listeners).unwrap_or_default();
    text.push('\n');
    if let Err(error) = server.data.write(FILE, text.as_bytes(), 0o644) {
        gone(&server.data);
        tracing::warn!(
            "where the server listens is not told to programs that wait for it: {error}"
        );
    }
}

/// Removes `listeners.json`: the server is gone.
pub(super) fn gone(data: &DataDir) {
    let _ = std::fs::remove_file(data.file(FILE));
}

/// The same where the disk may hang: it is waited for a little and no longer.
pub(super) fn gone_if_it_can(data: DataDir) {
    let (done, is_done) = sync_channel(1);
    let started = std::thread::Builder::new().spawn(move || {
        gone(&data);
        let _ = done.send(());
    });
    if started.is_ok() {
        let _ = is_done.recv_timeout(TOLD);
    }
}

/// Tells the operator what runs and what to type next. By a thread of its own, because a pipe or
/// terminal that nobody reads would keep the server from being reloaded and ended.
pub(super) fn next_steps(server: &Server, metrics: Option<SocketAddr>) {
    let text = describe(server, metrics);
    let (done, is_done) = sync_channel(1);
    let thread = std::thread::Builder::new().name("announce".to_owned());
    let started = thread.spawn(move || {
        let mut out = io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        let _ = done.send(());
    });
    if started.is_ok() {
        let _ = is_done.recv_timeout(TOLD);
    }
}

fn describe(server: &Server, metrics: Option<SocketAddr>) -> String {
    let config = &server.config;
    let domains: Vec<&str> = server
        .domains
        .iter()
        .map(|domain| domain.0.as_ref())
        .collect();
    let data = server.data.path().display();
    let mut text = format!(
        "Signet {} serves {}\n",
        env!("CARGO_PKG_VERSION"),
        domains.join(", ")
    );
    for (transport, addr) in accepting(server) {
        text += &format!("  listening on {}:{addr}\n", transport.uri_name());
    }
    if let Some(addr) = metrics {
        text += &format!("  figures on http://{addr}/metrics\n");
    }
    text += &format!("  data in {data}\n\n");

    let chosen = match &server.source {
        Source::File { path, .. } => format!(" --config {}", path.display()),
        Source::Options(_) if config.data == std::path::Path::new("signet-data") => String::new(),
        Source::Options(_) => format!(" --data {data}"),
    };
    if config.authentication.required {
        text += &format!(
            "Next, in another terminal:\n  signet user add alice{chosen}\n    adds a user; you choose the password, or one is made and shown once\n"
        );
    } else {
        text += "Authentication is off: whoever reaches these addresses can register and call as anybody.\n";
    }
    let domain = domains.first().copied().unwrap_or_default();
    let address = machine_addresses()
        .first()
        .map_or_else(|| "127.0.0.1".to_owned(), ToString::to_string);
    text += &format!(
        "  On the phone: user alice, domain {domain} or this machine's address, proxy {}\n",
        proxy_for_phones(server, &address)
    );
    // A listener with certificates of its own shows none of this authority's.
    let shows_own = server.planned.iter().any(|planned| {
        let is_secure = planned.accept && planned.at.transport.is_secure();
        is_secure && planned.security.pairs().next().is_none()
    });
    if shows_own {
        text += &format!(
            "    it checks the server by this authority: {}\n",
            server.data.file("ca.pem").display()
        );
    }
    text += &format!(
        "  Ctrl-C ends the server; kill -HUP {} makes it read its files again.\n",
        std::process::id()
    );
    text
}

/// What to write into a phone's "proxy" or "server" field: the safest listener.
fn proxy_for_phones(server: &Server, address: &str) -> String {
    let rank = |transport: Transport| match transport {
        Transport::Tls => 0,
        Transport::Tcp => 1,
        Transport::Udp => 2,
        Transport::Ws | Transport::Wss => 3,
    };
    let best = accepting(server).min_by_key(|(transport, addr)| (rank(*transport), addr.is_ipv6()));
    best.map_or_else(String::new, |(transport, addr)| {
        let host = if addr.ip().is_unspecified() {
            address.to_owned()
        } else {
            addr.ip().to_string()
        };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        format!("{host}:{} over {}", addr.port(), transport.via_name())
    })
}

fn accepting(server: &Server) -> impl Iterator<Item = (Transport, SocketAddr)> {
    let listeners = server.planned.iter().zip(&server.bound);
    listeners
        .filter(|(planned, _)| planned.accept)
        .map(|(planned, bound)| (planned.at.transport, *bound))
}
