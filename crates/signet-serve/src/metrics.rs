//! Figures for Prometheus, and whether the server is alive and ready, over
//! HTTP on the admin thread. The workers' reports are summed when asked for.

mod page;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sip_net::{ListenerCounters, PeerCounters, clock};
use sip_tls::{ClientTls, HandshakePool};

use crate::Error;
use crate::lookups;
use crate::records::Tally;
use crate::seats::Bounded;
use crate::server::TicketReporter;
use crate::threads::Threads;
use crate::tls_report::{Counted, Facts, ListenerTls, Report, ShownOutgoing};
use crate::worker::{Control, Phase, Snapshot};

/// For how long a registration that could not be stored keeps the server from being ready.
/// Then it is given another: whoever waits until it is ready sends none.
const UNSTORED_MS: u64 = 30_000;

/// What is asked for figures.
pub(crate) struct Sources {
    pub(crate) control: Arc<Control>,
    pub(crate) handshakes: HandshakePool,
    pub(crate) authenticator: Arc<sip_auth::Authenticator>,
    pub(crate) guard: Arc<sip_limit::Guard>,
    pub(crate) rates: Arc<sip_limit::Rates>,
    pub(crate) gateways: Arc<sip_engine::SharedGateways>,
    /// How the media engines are.
    pub(crate) engines: Arc<sip_media::SharedEngines>,
    pub(crate) location: Arc<sip_engine::Location>,
    pub(crate) store: Arc<sip_store::ServiceCounters>,
    /// What asks stores of users on other machines.
    pub(crate) lookups: Option<lookups::Shown>,
    /// What messages may hold, and do.
    pub(crate) budget: Arc<sip_engine::Budget>,
    pub(crate) started_unix_s: u64,
    /// The listeners' names, by their number.
    pub(crate) listeners: Vec<String>,
    /// What TLS shows and takes.
    pub(crate) tls: Mutex<ShownTls>,
    /// What connections are opened with.
    pub(crate) client_tls: Arc<ClientTls>,
    /// What the threads beside the workers use.
    pub(crate) threads: Threads,
    /// What became of call records.
    pub(crate) records: Arc<Tally>,
    /// What was asked of the operator's hook.
    pub(crate) hook: Option<crate::hook::Shown>,
}

/// What TLS shows and takes, as it is in service.
#[derive(Clone)]
pub(crate) struct ShownTls {
    /// By the listeners' number.
    listeners: Vec<Option<ListenerTls>>,
    outgoing: ShownOutgoing,
    tickets: TicketReporter,
}

impl ShownTls {
    pub(crate) fn new(
        (listeners, outgoing): (Vec<Option<ListenerTls>>, ShownOutgoing),
        tickets: TicketReporter,
    ) -> Self {
        Self {
            listeners,
            outgoing,
            tickets,
        }
    }
}

impl Sources {
    pub(crate) fn set_tls(
        &self,
        shown: (Vec<Option<ListenerTls>>, ShownOutgoing),
        tickets: TicketReporter,
    ) {
        *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = ShownTls::new(shown, tickets);
    }

    /// What `/metrics` shows.
    pub(crate) fn page(&self) -> String {
        page::render(self)
    }

    /// Whether registrations can be stored, as far as that was tried lately.
    fn stores(&self) -> bool {
        !self.store.fails_to_save(clock::unix_ms(), UNSTORED_MS)
    }

    /// What TLS shows and takes, the listeners named by their real addresses.
    fn tls(&self) -> ShownTls {
        let shown = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shown = shown.clone();
        for (listener, place) in shown.listeners.iter_mut().zip(&self.listeners) {
            if let Some(listener) = listener {
                listener.place.clone_from(place);
            }
        }
        shown
    }

    /// What was counted of TLS, summed over the workers.
    fn counted(&self, snapshots: &[Snapshot]) -> Counted {
        let mut counted = Counted {
            handshakes: self.handshakes.counters(),
            sessions: self.client_tls.session_count(),
            ..Counted::default()
        };
        let now_ms = clock::now_ms();
        for snapshot in snapshots {
            // A worker to which nothing happens reports nothing.
            let age_ms = now_ms.saturating_sub(snapshot.at_ms);
            for (nth, listener) in snapshot.sockets.listeners.iter().enumerate() {
                if nth == counted.listeners.len() {
                    counted.listeners.push(ListenerCounters::default());
                }
                if let Some(sum) = counted.listeners.get_mut(nth) {
                    sum.add(listener);
                    sum.connections
                        .grow_older(listener.connections.open, age_ms);
                }
            }
            counted.opened_tls.add(&snapshot.sockets.opened_tls);
            counted.opened.add(&snapshot.sockets.opened);
            counted
                .opened
                .grow_older(snapshot.sockets.opened.open, age_ms);
            for peer in &snapshot.sockets.peers {
                let known = counted.peers.iter().position(|sum| sum.name == peer.name);
                let place = known.unwrap_or_else(|| {
                    counted.peers.push(PeerCounters::new(peer.name.clone()));
                    counted.peers.len() - 1
                });
                if let Some(sum) = counted.peers.get_mut(place) {
                    sum.accepted.add(&peer.accepted);
                    sum.opened.add(&peer.opened);
                    let (accepted, opened) = (&peer.accepted.connections, &peer.opened.connections);
                    sum.accepted.connections.grow_older(accepted.open, age_ms);
                    sum.opened.connections.grow_older(opened.open, age_ms);
                }
            }
        }
        counted
    }

    fn report(&self) -> Report {
        let shown = self.tls();
        Report::new(&Facts {
            listeners: &shown.listeners,
            outgoing: &shown.outgoing,
            tickets: &shown.tickets.shown(),
            counted: Some(&self.counted(&self.control.snapshots())),
            now_unix_s: clock::unix_ms() / 1_000,
        })
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

/// Answers `/metrics`, `/tls`, `/tls.json`, `/health` and `/ready`.
pub(crate) async fn serve(listener: TcpListener, sources: Arc<Sources>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("figures are not served: {error}");
            return;
        }
    };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/tls", get(tls))
        .route("/tls.json", get(tls_json))
        .route("/health", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .layer(map_response(one_question))
        .with_state(sources);
    if let Err(error) = axum::serve(Bounded::new(listener), router).await {
        tracing::error!("figures are not served any more: {error}");
    }
}

/// A connection has one question, so whoever asks again and again meets no end of his time amid
/// an answer, and has no seat between his questions.
async fn one_question(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

async fn metrics(State(sources): State<Arc<Sources>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        sources.page(),
    )
}

/// What an auditor is told: `signet tls` prints it.
async fn tls(State(sources): State<Arc<Sources>>) -> String {
    sources.report().text()
}

/// The same for programs.
async fn tls_json(State(sources): State<Arc<Sources>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        sources.report().json(),
    )
}

async fn ready(State(sources): State<Arc<Sources>>) -> impl IntoResponse {
    match sources.control.phase() {
        Phase::Running if !sources.stores() => (
            StatusCode::SERVICE_UNAVAILABLE,
            "registrations cannot be stored: the log says why\n",
        ),
        Phase::Running => (StatusCode::OK, "ready\n"),
        Phase::Draining | Phase::Stop => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}
