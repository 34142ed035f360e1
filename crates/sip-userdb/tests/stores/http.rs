//! An endpoint of the test's own.

use std::cell::RefCell;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use sip_auth::Algorithm;
use sip_userdb::{Options, UserDb};
use tokio::sync::oneshot;

use super::suite::{self, REALM, USERS, hex, user};
use super::{free_port, options, secret};

/// What a row of the endpoint has for a user; nothing for who is not there.
fn row(name: &str, realm: &str) -> Option<String> {
    let ha1 = match name.strip_prefix('u').and_then(|n| n.parse().ok()) {
        Some(n) if n < USERS && user(n) == name => {
            let of = |algorithm| format!("\"{algorithm}\":\"{}\"", hex(n, by(algorithm)));
            format!("{{{},{},{}}}", of("MD5"), of("SHA-256"), of("SHA-512-256"))
        }
        _ if name == suite::DAMAGED => "{\"MD5\":\"zzzz\"}".to_owned(),
        _ => return None,
    };
    (realm == REALM).then(|| format!(r#"{{"user":"{name}","realm":"{realm}","ha1":{ha1}}}"#))
}

fn by(algorithm: &str) -> Algorithm {
    Algorithm::from_token(algorithm.as_bytes()).unwrap()
}

/// The answer to a body, as docs/STORES.md has it.
pub fn answer(body: &[u8]) -> String {
    let asked: serde_json::Value = serde_json::from_slice(body).unwrap();
    assert_eq!(asked["version"], 1);
    let rows: Vec<_> = asked["users"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .filter_map(|user| row(user["user"].as_str()?, user["realm"].as_str()?))
        .collect();
    format!("{{\"users\":[{}]}}", rows.join(","))
}

/// A server of axum's in a thread of its own.
pub struct Server {
    pub port: u16,
    pub requests: Arc<AtomicUsize>,
    pub running: RefCell<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Server {
    pub fn start() -> Self {
        let server = Self {
            port: free_port(),
            requests: Arc::default(),
            running: RefCell::new(None),
        };
        server.restart();
        server
    }

    pub fn restart(&self) {
        let requests = Arc::clone(&self.requests);
        let lookup = move |headers: HeaderMap, body: Bytes| {
            requests.fetch_add(1, Ordering::Relaxed);
            async move { respond(&headers, &body) }
        };
        let router = Router::new().route("/v1/users", post(lookup));
        let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = axum::serve(listener, router) => served.unwrap(),
                    _ = stopped => {}
                }
            });
            // Its connections end with the runtime.
        });
        *self.running.borrow_mut() = Some((stop, thread));
    }

    pub fn kill(&self) {
        let (stop, thread) = self.running.borrow_mut().take().unwrap();
        drop(stop);
        thread.join().unwrap();
    }

    pub fn open(&self) -> UserDb {
        UserDb::new(Options {
            password: secret("a token"),
            ..options(&format!("http://127.0.0.1:{}/v1/users?a=b%20c", self.port))
        })
        .unwrap()
    }
}

fn respond(headers: &HeaderMap, body: &[u8]) -> Response {
    if headers.get(header::AUTHORIZATION).unwrap() != "Bearer a token" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let json = (header::CONTENT_TYPE, "application/json; charset=utf-8");
    ([json], answer(body)).into_response()
}
