//! The administrative interface of a running server: JSON over HTTP on a Unix socket in the
//! data folder, whose mode keeps everybody else out. Each verb is a `POST` with a question
//! in JSON; the modules that answer them have the questions and the answers.
//!
//! What is asked of a shard its worker copies between two turns ([`Admin::look`]); so no
//! answer takes more of one than a bounded piece.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
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
use tokio::net::UnixListener;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::address::Address;
use super::ask::Told;
use super::{
    bans, bindings, calls, figures, forget, gateways, hook, level, limits, media, people, top,
    trace, trunks, why,
};
use crate::metrics::Sources;
use crate::people::PeopleAsker;
use crate::seats::Bounded;
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

/// The longest question.
const QUESTION_BYTES_MAX: usize = 1 << 20;
/// How long a worker, or the store behind it, may take.
const WORKER_MAX: Duration = Duration::from_secs(5);

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
                "too many such commands wait, or what is written is slow to read",
                "it will at the next such command or a reload: kill -HUP",
            )
        };
        let ends = || {
            Refused::new(
                "it ends",
                "nothing is to be done: its next start goes by it",
            )
        };
        self.people.try_send(tell).map_err(|error| match error {
            TrySendError::Full(_) => busy(),
            TrySendError::Closed(_) => ends(),
        })?;
        match timeout(WORKER_MAX, told).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err((what, remedy)))) => Err(Refused::new(what, remedy)),
            Ok(Err(_)) => Err(ends()),
            Err(_) => Err(busy()),
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
    let bound = Address::of(&path)
        .and_then(|address| UnixListener::bind(address.path()))
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
    if let Err(error) = axum::serve(Bounded::new(listener), router).await {
        tracing::error!("no administrative interface: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::super::{ask, socket_path};
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn a_folder_whose_path_is_longer_than_an_address_has_a_socket() {
        let temp = TempDir::new("admin-long");
        let folder = temp.path().join("x".repeat(150));
        let path = socket_path(&folder);
        let question = || ask::ask(&path, "/bans", b"{}");
        assert_eq!(question().unwrap(), None, "there is no folder");
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(question().unwrap(), None, "no server runs there");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = {
            let _in_runtime = runtime.enter();
            open(path.clone()).unwrap()
        };
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let answer = std::thread::scope(|scope| {
            let asked = scope.spawn(question);
            let (stream, _) = runtime.block_on(listener.accept()).unwrap();
            let mut stream = stream.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            let mut whole = [0; 512];
            assert!(stream.read(&mut whole).unwrap() > 0);
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nheard").unwrap();
            drop(stream);
            asked.join().unwrap().unwrap()
        });
        assert_eq!(answer, Some((200, b"heard".to_vec())));
    }

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
}
