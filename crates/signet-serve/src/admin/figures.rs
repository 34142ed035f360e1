//! What a running server counts, for programs beside it.

use std::net::{SocketAddr, ToSocketAddrs};

use axum::extract::State;

use super::socket::Admin;
use super::{Instance, ask, tls};
use crate::Error;

/// The path of the figures at their address.
const PATH: &str = "/metrics";

/// Where a server is asked.
#[derive(Clone, Debug)]
pub enum FiguresAt {
    /// At the administrative socket in its data folder.
    Instance(Instance),
    /// At its address for figures: `http://HOST:PORT/metrics`, `HOST:PORT`, or a port alone,
    /// which is on the loopback address.
    Address(String),
}

/// What a server counts, in the text format of Prometheus.
#[derive(Clone, Debug)]
pub struct FiguresPage {
    /// Where it is from.
    pub from: String,
    /// The text.
    pub text: String,
}

/// Answers `/figures` with what `/metrics` shows.
pub(super) async fn shown(State(admin): State<Admin>) -> String {
    admin.sources.page()
}

/// Asks a running server what it counts.
///
/// # Errors
/// No server runs there, or it does not answer.
pub fn figures(at: &FiguresAt) -> Result<FiguresPage, Error> {
    match at {
        FiguresAt::Instance(instance) => by_socket(instance),
        FiguresAt::Address(url) => by_address(url),
    }
}

fn by_socket(instance: &Instance) -> Result<FiguresPage, Error> {
    let folder = instance.folder()?;
    let path = ask::path(&folder);
    let unanswered = |why: &dyn std::fmt::Display| ask::unanswered(&path, why);
    let answered = ask::ask(&path, "/figures", b"");
    match answered.map_err(|error| ask::unasked(&path, &error))? {
        Some((200, body)) => Ok(FiguresPage {
            from: path.display().to_string(),
            text: String::from_utf8(body).map_err(|error| unanswered(&error))?,
        }),
        Some((status, _)) => Err(unanswered(&format!("it said {status}"))),
        None => Err(Error::new(
            format!("no server runs on {}", folder.display()),
            "name the server's folder with --data DIR, its file with --config FILE, or its \
             address for figures with --metrics ADDR:PORT",
        )),
    }
}

fn by_address(url: &str) -> Result<FiguresPage, Error> {
    let (addr, path) = read_url(url)?;
    let from = format!("http://{addr}{path}");
    match tls::ask(addr, &path) {
        Ok(text) => Ok(FiguresPage { from, text }),
        Err(error) => Err(Error::new(
            format!("the server did not answer on {from}: {error}"),
            "look whether it runs, and with --metrics at that address: its log and \
             listeners.json in its data folder say so",
        )),
    }
}

/// The address and the path.
fn read_url(url: &str) -> Result<(SocketAddr, String), Error> {
    let unreadable = |why: &str| {
        Error::new(
            format!("{url}: no address for figures: {why}"),
            "write it as the server tells it at its start: http://127.0.0.1:9060/metrics, or 127.0.0.1:9060",
        )
    };
    let bare = match url.split_once("://") {
        None => url,
        Some(("http", bare)) => bare,
        Some((scheme, _)) => {
            return Err(unreadable(&format!("{scheme} is not spoken here")));
        }
    };
    let (host, path) = match bare.find('/') {
        Some(at) => bare.split_at(at),
        None => (bare, ""),
    };
    let path = if path.len() > 1 { path } else { PATH };
    let host = host.strip_prefix(':').unwrap_or(host);
    if let Ok(port) = host.parse::<u16>() {
        return Ok((SocketAddr::from(([127, 0, 0, 1], port)), path.to_owned()));
    }
    let mut found = host
        .to_socket_addrs()
        .map_err(|error| unreadable(&error.to_string()))?;
    let addr = found.next().ok_or_else(|| unreadable("nobody has it"))?;
    Ok((addr, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_written_short() {
        for (url, addr, path) in [
            (
                "http://127.0.0.1:9060/metrics",
                "127.0.0.1:9060",
                "/metrics",
            ),
            ("http://127.0.0.1:9060/", "127.0.0.1:9060", "/metrics"),
            (
                "http://127.0.0.1:9060/sip/metrics",
                "127.0.0.1:9060",
                "/sip/metrics",
            ),
            ("192.0.2.1:9060", "192.0.2.1:9060", "/metrics"),
            ("[::1]:9060", "[::1]:9060", "/metrics"),
            (":9060", "127.0.0.1:9060", "/metrics"),
            ("9060", "127.0.0.1:9060", "/metrics"),
        ] {
            let (found, of) = read_url(url).unwrap();
            assert_eq!(
                (found.to_string().as_str(), of.as_str()),
                (addr, path),
                "{url}"
            );
        }
        for url in [
            "https://127.0.0.1:9060/metrics",
            "",
            "127.0.0.1",
            "http://127.0.0.1:x",
        ] {
            let error = read_url(url).unwrap_err();
            assert!(
                error.what().contains("no address for figures"),
                "{url}: {error}"
            );
            assert!(error.remedy().contains("127.0.0.1:9060"), "{error}");
        }
    }
}
