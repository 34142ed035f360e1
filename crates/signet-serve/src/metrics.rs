//! Figures for Prometheus, and whether the server is alive and ready, over
//! HTTP on the admin thread. The workers' reports are summed when asked for.

mod page;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sip_net::{ListenerCounters, PeerCounters, clock};
use sip_store::{CommitNews, ServiceCounters};
use sip_tls::{ClientTls, HandshakePool};

use crate::Error;
use crate::lookups;
use crate::records::Tally;
use crate::seats::Bounded;
use crate::server::TicketReporter;
use crate::threads::Threads;
use crate::tls_report::{Counted, Facts, ListenerTls, Report, ShownOutgoing};
use crate::worker::{Control, Phase, Snapshot};

/// For how long a registration that could not be stored keeps the server from being ready. After
/// that it counts as ready again: a load balancer that waits for that sends no registration by
/// which it could show that it stores them.
const UNSTORED_MS: u64 = 30_000;
/// How long a commit may take in any case: where phones are to wait less, a disk that is busy for a
/// moment is no news.
const COMMIT_MS: u64 = 1_000;

/// Where the figures come from.
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
    pub(crate) store: Arc<ServiceCounters>,
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

    /// Looks whether the database hangs, which keeps the server from being ready, and tells the log.
    /// Registrations wait for it for `save_timeout_ms`.
    pub(crate) fn look_at_store(&self, save_timeout_ms: u64) {
        look_at_store(&self.store, clock::now_ms(), save_timeout_ms);
    }

    /// Whether registrations can be stored, as far as that was tried lately.
    fn stores(&self) -> bool {
        !self.store.fails_to_save(clock::now_ms(), UNSTORED_MS)
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

fn look_at_store(store: &ServiceCounters, now_ms: u64, save_timeout_ms: u64) {
    match store.look_at_commit(now_ms, save_timeout_ms.max(COMMIT_MS)) {
        Some(CommitNews::Hangs { for_ms }) => tracing::error!(
            "the database has not answered for {for_ms} ms, and no registration can be stored: look at the disk of the data folder, and at who has the database locked"
        ),
        Some(CommitNews::Answers) => tracing::info!("the database answers again"),
        None => {}
    }
}

/// Binds the address; [`serve`] answers on it.
pub(crate) fn bind(addr: SocketAddr) -> Result<TcpListener, Error> {
    let bound = TcpListener::bind(addr)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|error| {
        let another = "name another address, for example: --metrics 127.0.0.1:9091";
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => format!(
                "another program has that port. Which one: ss -ltnp 'sport = :{}'; or {another}",
                addr.port()
            ),
            _ => another.to_owned(),
        };
        Error::new(format!("cannot serve metrics on {addr}: {error}"), remedy)
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

/// Each connection carries one question. So one who asks again and again is not cut off in an
/// answer because his connection is old, and holds no seat between two questions.
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

#[cfg(test)]
mod tests {
    use sip_engine::BindingChange;
    use sip_store::{BindingStore, Save, ServiceConfig, StoreError, Swept, queue, serve_saves};

    use super::*;
    use crate::testing::logged;

    /// A store that has this done while it is at a commit.
    struct At<F>(F);

    impl<F: FnMut()> BindingStore for At<F> {
        fn save(&mut self, _: &mut dyn Iterator<Item = &BindingChange>) -> Result<(), StoreError> {
            (self.0)();
            Ok(())
        }

        fn delete_expired(&mut self, _: u64, _: usize) -> Result<Swept, StoreError> {
            Ok(Swept::default())
        }

        fn load(&mut self, _: u64, _: &mut dyn FnMut(BindingChange)) -> Result<u64, StoreError> {
            Ok(0)
        }
    }

    #[test]
    fn a_database_that_hangs_is_told_of_once_and_when_it_answers() {
        let counters = ServiceCounters::default();
        let look =
            |now_ms, save_timeout_ms| logged(|| look_at_store(&counters, now_ms, save_timeout_ms));
        let config = ServiceConfig::default();
        let order = || {
            let (orders, queue) = queue(1);
            let changes = Vec::new();
            orders.try_send(Save { tag: (), changes }).unwrap();
            queue
        };
        let mut at = At(|| {
            // Whatever phones are made to wait, a disk may take a second.
            for (now_ms, save_timeout_ms) in [(6_000, 10), (9_000, 4_000)] {
                assert_eq!(look(now_ms, save_timeout_ms), "");
            }
            let told = look(9_001, 4_000);
            assert!(told.contains("has not answered for 4001 ms"), "{told}");
            assert_eq!(look(10_000, 4_000), "");
        });
        let now_ms = || 5_000;
        serve_saves(&mut at, &order(), &config, &counters, || 0, now_ms, |_| {});
        // It has ended, and late.
        assert_eq!(look(10_000, 4_000), "");
        let mut in_time = At(|| {});
        serve_saves(
            &mut in_time,
            &order(),
            &config,
            &counters,
            || 0,
            || 11_000,
            |_| {},
        );
        assert!(look(11_001, 4_000).contains("the database answers again"));
        assert_eq!(look(11_001, 4_000), "");
    }
}
