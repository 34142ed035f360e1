//! The administrative interface of a running server: JSON over HTTP on a Unix socket in the
//! data folder, whose mode keeps everybody else out. Each verb is a `POST` with a question
//! in JSON; the modules that answer them have the questions and the answers.
//!
//! What is asked of a shard its worker copies between two turns ([`Admin::look`]); so no
//! answer takes more of one than a bounded piece.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use axum::{Json, Router};
use sip_engine::shard::shard_of_user;
use sip_engine::{Now, Shard};
use sip_lookup::Cache;
use sip_worker::Order;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::ask::Told;
use super::{
    bans, bindings, calls, figures, forget, gateways, hook, level, limits, media, people, top,
    trace, trunks, why,
};
use crate::metrics::Sources;
use crate::people::PeopleAsker;
use crate::trace::Tracer;

/// A verb: its path, and what answers it.
type Verb = (&'static str, fn() -> MethodRouter<Admin>);

/// All verbs.
const VERBS: &[Verb] = &[
    ("/users/forget", || post(forget::forget)),
    ("/users/removed", || post(bindings::user_removed)),
    ("/bindings", || post(bindings::listed)),
    ("/bindings/remove", || post(bindings::removed)),
    ("/calls", || post(calls::listed)),
    ("/gateways", || post(gateways::listed)),
    ("/gateways/drain", || post(gateways::drained)),
    ("/hook/forget", || post(hook::forgotten)),
    ("/bans", || post(bans::listed)),
    ("/bans/lift", || post(bans::lifted)),
    ("/figures", || post(figures::shown)),
    ("/media", || post(media::listed)),
    ("/media/drain", || post(media::drained)),
    ("/limits", || post(limits::listed)),
    ("/people/read", || post(people::read_again)),
    ("/log-level", || post(level::changed)),
    ("/refusals", || post(why::refusals)),
    ("/trace", || post(trace::traced)),
    ("/trunks", || post(trunks::listed)),
    ("/top", || post(top::figures)),
];

/// Connections at a time; the next waits until one has ended.
const CONNECTIONS_MAX: usize = 32;
/// How long the other end of a connection may say nothing at first.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// How long a connection may last after that, whatever its other end does.
const CONNECTION_MAX: Duration = Duration::from_secs(10);
/// The longest question.
const QUESTION_BYTES_MAX: usize = 1 << 20;
/// How long a worker, or the store behind it, may take.
const WORKER_MAX: Duration = Duration::from_secs(5);
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// What of a running server the interface works on.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) sources: Arc<Sources>,
    pub(crate) tracer: Tracer,
    /// Where what is written of people is read again.
    pub(crate) people: PeopleAsker,
    /// What decides whose bindings are which worker's.
    pub(crate) shard_key: [u8; 16],
}

/// Why something was not done.
pub(super) struct Refused(Told);

impl Refused {
    pub(super) fn new(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self(Told {
            error: error.into(),
            remedy: remedy.into(),
        })
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, Json(self.0)).into_response()
    }
}

/// What a verb answers.
pub(super) type Answered<A> = Result<Json<A>, Refused>;

impl Admin {
    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.sources.control.workers()
    }

    /// Has a worker copy something of its shard.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        worker: usize,
        look: impl FnOnce(&Shard, Now) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let (tell, told) = oneshot::channel();
        let order = Order::Look(Box::new(move |shard, now| {
            // Who asked may have gone.
            let _ = tell.send(look(shard, now));
        }));
        self.order(worker, order, told).await
    }

    /// Removes contacts of an address-of-record, all of them or the one with that URI, for
    /// good; how many there were.
    pub(super) async fn remove(
        &self,
        aor: Arc<[u8]>,
        contact: Option<Box<[u8]>>,
    ) -> Result<usize, Refused> {
        let workers = self.workers();
        let worker = shard_of_user(user_of(&aor), workers, &self.shard_key);
        let (tell, told) = oneshot::channel();
        let order = Order::Remove {
            aor,
            contact,
            then: Box::new(move |removed| {
                let _ = tell.send(removed);
            }),
        };
        let removed = self.order(worker, order, told).await?;
        removed.map_err(|()| {
            Refused::new(
                "the contacts are not removed: the database did not store that in time",
                "look at the log and at the disk, and type the command again",
            )
        })
    }

    /// Has what is written of people read again; the workers go by it then.
    pub(super) async fn read_people(&self) -> Result<(), Refused> {
        let (tell, told) = oneshot::channel();
        let busy = || {
            Refused::new(
                "the change is made, and the running server has not taken it over yet",
                "it does at the next such command, or at a reload: kill -HUP",
            )
        };
        self.people.try_send(tell).map_err(|_| busy())?;
        match timeout(WORKER_MAX, told).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err((what, remedy)))) => Err(Refused::new(what, remedy)),
            _ => Err(busy()),
        }
    }

    async fn order<T>(
        &self,
        worker: usize,
        order: Order,
        told: oneshot::Receiver<T>,
    ) -> Result<T, Refused> {
        if self.sources.control.order_of(worker, order)
            && let Ok(Ok(answer)) = timeout(WORKER_MAX, told).await
        {
            return Ok(answer);
        }
        Err(Refused::new(
            format!("worker {worker} did not answer in time, so what was asked may be done or not"),
            "it is overloaded or ends: look at `signet top` and the log, and type the command again",
        ))
    }
}

/// The user in an address-of-record, as the registrar writes it.
fn user_of(aor: &[u8]) -> &[u8] {
    let bare = aor.strip_prefix(b"sip:").unwrap_or(aor);
    let end = bare.iter().rposition(|byte| *byte == b'@');
    bare.get(..end.unwrap_or(bare.len())).unwrap_or(bare)
}

/// Opens the socket: before anybody is told that the server is there. `None` where that cannot be,
/// which is logged.
pub(crate) fn open(path: PathBuf) -> Option<UnixListener> {
    // The lock of the data folder is held, so it is nobody's.
    let _ = std::fs::remove_file(&path);
    // The folder lets nobody else in; this holds where its mode was changed.
    let owner_alone = std::fs::Permissions::from_mode(0o600);
    let bound = UnixListener::bind(&path)
        .and_then(|listener| std::fs::set_permissions(&path, owner_alone).map(|()| listener));
    bound
        .inspect_err(|error| {
            tracing::error!("{}: no administrative interface: {error}", path.display());
        })
        .ok()
}

/// Answers on the socket until the server ends.
pub(crate) async fn serve(listener: UnixListener, admin: Admin) {
    let routes = VERBS.iter().fold(Router::new(), |router, (path, answer)| {
        router.route(path, answer())
    });
    let router = routes
        .layer(DefaultBodyLimit::max(QUESTION_BYTES_MAX))
        .with_state(admin);
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    if let Err(error) = axum::serve(Bounded { listener, seats }, router).await {
        tracing::error!("no administrative interface: {error}");
    }
}

/// Accepts no more connections than there are seats.
struct Bounded {
    listener: UnixListener,
    seats: Arc<Semaphore>,
}

impl axum::serve::Listener for Bounded {
    type Io = Seated;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let seat = Arc::clone(&self.seats).acquire_owned().await;
            match (seat, self.listener.accept().await) {
                (Ok(seat), Ok((stream, addr))) => {
                    let io = Seated {
                        stream,
                        end: Box::pin(sleep(SILENCE_MAX)),
                        is_silent: true,
                        _seat: seat,
                    };
                    return (io, addr);
                }
                // No descriptor is left, for a while.
                _ => sleep(PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with its seat and its end.
struct Seated {
    stream: UnixStream,
    end: Pin<Box<Sleep>>,
    /// Whether nothing has come yet.
    is_silent: bool,
    _seat: OwnedSemaphorePermit,
}

impl Seated {
    /// An error once its time is up, which ends the connection.
    fn poll_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Seated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() && std::mem::replace(&mut self.is_silent, false) {
            self.end.as_mut().reset(Instant::now() + CONNECTION_MAX);
        }
        read
    }
}

impl AsyncWrite for Seated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_an_address_of_record() {
        for (aor, user) in [
            ("sip:alice@example.com", "alice"),
            ("sip:a@b@example.com", "a@b"),
            ("sip:example.com", "example.com"),
        ] {
            assert_eq!(user_of(aor.as_bytes()), user.as_bytes(), "{aor}");
        }
    }

    #[tokio::test]
    async fn who_hangs_holds_one_seat_and_not_for_long() {
        let folder = std::env::temp_dir().join(format!("signet-seats-{}", std::process::id()));
        let _ = std::fs::remove_file(&folder);
        let listener = UnixListener::bind(&folder).unwrap();
        let seats = Arc::new(Semaphore::new(1));
        let mut bounded = Bounded {
            listener,
            seats: seats.clone(),
        };
        let _silent = UnixStream::connect(&folder).await.unwrap();
        let (mut io, _) = axum::serve::Listener::accept(&mut bounded).await;
        assert_eq!(seats.available_permits(), 0);
        // Its time is up: a read that would wait fails, and the seat is free with it.
        io.end.as_mut().reset(Instant::now());
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let read =
            std::future::poll_fn(|context| Pin::new(&mut io).poll_read(context, &mut buffer)).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(io);
        assert_eq!(seats.available_permits(), 1);
        std::fs::remove_file(&folder).unwrap();
    }
}
