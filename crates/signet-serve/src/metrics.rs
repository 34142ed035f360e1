//! Figures for Prometheus, and whether the server is alive and ready, over
//! HTTP on the admin thread. The workers' reports are summed when asked for.

mod page;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use sip_net::HandshakePool;

use crate::Error;
use crate::worker::{Control, Phase};

/// What is asked for figures.
pub(crate) struct Sources {
    pub(crate) control: Arc<Control>,
    pub(crate) handshakes: HandshakePool,
    pub(crate) authenticator: Arc<sip_auth::Authenticator>,
    pub(crate) location: Arc<sip_engine::Location>,
    pub(crate) store: Arc<sip_store::ServiceCounters>,
    pub(crate) started_unix_s: u64,
}

/// Binds the address; [`serve`] answers on it.
pub(crate) fn bind(addr: SocketAddr) -> Result<TcpListener, Error> {
    let bound = TcpListener::bind(addr)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|error| {
        Error::new(
            format!("cannot serve metrics on {addr}: {error}"),
            "name another address, for example: --metrics 127.0.0.1:9091",
        )
    })
}

/// Answers `/metrics`, `/health` and `/ready`.
pub(crate) async fn serve(listener: TcpListener, sources: Arc<Sources>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "no metrics");
            return;
        }
    };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .with_state(sources);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "metrics ended");
    }
}

async fn metrics(State(sources): State<Arc<Sources>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        page::render(&sources),
    )
}

async fn ready(State(sources): State<Arc<Sources>>) -> impl IntoResponse {
    match sources.control.phase() {
        Phase::Running => (StatusCode::OK, "ready\n"),
        Phase::Draining | Phase::Stop => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}
