//! Figures for Prometheus, and whether the server is alive and ready, over
//! HTTP on the admin thread. The workers' reports are summed when asked for.

mod page;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use sip_net::{HandshakePool, HandshakeTally, clock};

use crate::Error;
use crate::server::TicketReporter;
use crate::tls_report::{self, ListenerTls, ShownTickets};
use crate::worker::{Control, Phase};

/// What is asked for figures.
pub(crate) struct Sources {
    pub(crate) control: Arc<Control>,
    pub(crate) handshakes: HandshakePool,
    pub(crate) authenticator: Arc<sip_auth::Authenticator>,
    pub(crate) location: Arc<sip_engine::Location>,
    pub(crate) store: Arc<sip_store::ServiceCounters>,
    pub(crate) started_unix_s: u64,
    /// The listeners' names, by their number.
    pub(crate) listeners: Vec<String>,
    /// What the TLS listeners show, by the listeners' number, and what there
    /// is to say of session tickets.
    pub(crate) tls: Mutex<(Vec<Option<ListenerTls>>, TicketReporter)>,
}

impl Sources {
    pub(crate) fn set_tls(&self, shown: Vec<Option<ListenerTls>>, tickets: TicketReporter) {
        *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = (shown, tickets);
    }

    fn tickets(&self) -> ShownTickets {
        let reporter = {
            let shown = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
            shown.1.clone()
        };
        reporter.shown()
    }

    /// What the TLS listeners show, named by their real addresses.
    fn tls(&self) -> Vec<Option<ListenerTls>> {
        let mut shown = self
            .tls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .clone();
        for (listener, place) in shown.iter_mut().zip(&self.listeners) {
            if let Some(listener) = listener {
                listener.place.clone_from(place);
            }
        }
        shown
    }
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

/// Answers `/metrics`, `/tls`, `/health` and `/ready`.
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
        .route("/tls", get(tls))
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

/// What an auditor is told: `signet tls` prints it.
async fn tls(State(sources): State<Arc<Sources>>) -> String {
    let snapshots = sources.control.snapshots();
    let listeners = page::listener_tallies(&snapshots);
    let mut opened = HandshakeTally::default();
    for snapshot in &snapshots {
        opened.add(&snapshot.opened_tls);
    }
    tls_report::render(
        &sources.tls(),
        Some(&listeners),
        Some(&opened),
        &sources.tickets(),
        clock::unix_ms() / 1_000,
    )
}

async fn ready(State(sources): State<Arc<Sources>>) -> impl IntoResponse {
    match sources.control.phase() {
        Phase::Running => (StatusCode::OK, "ready\n"),
        Phase::Draining | Phase::Stop => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}
