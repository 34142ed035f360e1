//! The administrative interface of a running server: JSON over HTTP on a Unix socket in the
//! data folder, whose mode keeps everybody else out.
//!
//! | request | what it does |
//! |---|---|
//! | `POST /users/forget` | forgets what is remembered of users: `{"users": [{"user", "realm"}]}`, or of all: `{"all": true}` |
//! | `POST /refusals` | what was refused lately: [`super::why`] has the question and the answer |
//! | `POST /figures` | what `/metrics` shows |
//! | `POST /trace` | messages that pass: [`super::trace`] has the question and the answer |

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use sip_auth::Subject;
use sip_lookup::Cache;

use super::{trace, why};
use crate::Error;
use crate::metrics::Sources;
use crate::trace::Tracer;
use crate::worker::Control;

/// Its name in the data folder.
const FILE: &str = "admin.sock";
/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Users in one request.
const USERS_MAX: usize = 1_000;
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What of a running server the interface works on.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) control: Arc<Control>,
    pub(crate) sources: Arc<Sources>,
    pub(crate) tracer: Tracer,
}

/// Whose credentials are to be forgotten.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Forget {
    users: Vec<Named>,
    all: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    user: String,
    realm: String,
}

/// The path of the socket.
pub(crate) fn path(data: &Path) -> PathBuf {
    data.join(FILE)
}

/// Answers on the socket until the server ends.
pub(crate) async fn serve(path: PathBuf, admin: Admin) {
    // The lock of the data folder is held, so it is nobody's.
    let _ = std::fs::remove_file(&path);
    let listener = match tokio::net::UnixListener::bind(&path) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("{}: no administrative interface: {error}", path.display());
            return;
        }
    };
    let router = Router::new()
        .route("/users/forget", post(forget))
        .route("/refusals", post(refusals))
        .route("/figures", post(figures))
        .route("/trace", post(traced))
        .with_state(admin);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(
            "{}: no administrative interface any more: {error}",
            path.display()
        );
    }
}

async fn refusals(
    State(admin): State<Admin>,
    Json(wanted): Json<why::Wanted>,
) -> Json<why::Answer> {
    Json(why::Answer::new(&admin.control.refusals().all(), &wanted))
}

async fn figures(State(admin): State<Admin>) -> String {
    admin.sources.page()
}

async fn traced(
    State(admin): State<Admin>,
    Json(wanted): Json<trace::Wanted>,
) -> Result<Json<trace::Answer>, StatusCode> {
    trace::Answer::new(&admin.tracer, wanted).map(Json)
}

async fn forget(State(admin): State<Admin>, Json(whom): Json<Forget>) -> StatusCode {
    if let Some(cache) = admin.cache {
        if whom.all {
            cache.invalidate_all();
        }
        for Named { user, realm } in whom.users {
            cache.invalidate(&Subject::new(user.as_bytes(), realm.into()));
        }
    }
    StatusCode::NO_CONTENT
}

/// Tells a running server to forget what it remembers of these users. Where none runs,
/// nothing is remembered.
pub(super) fn tell_forget(path: &Path, subjects: &[Subject]) -> Result<(), Error> {
    let forget = if subjects.len() > USERS_MAX {
        Forget {
            users: Vec::new(),
            all: true,
        }
    } else {
        let users = subjects.iter().map(|subject| Named {
            user: String::from_utf8_lossy(subject.user()).into_owned(),
            realm: subject.realm().to_string(),
        });
        Forget {
            users: users.collect(),
            all: false,
        }
    };
    let body = serde_json::to_vec(&forget);
    let body = body.map_err(|error| untold(path, &error.to_string()))?;
    match ask(path, "/users/forget", &body) {
        Ok(None | Some((204, _))) => Ok(()),
        Ok(Some((status, _))) => Err(untold(path, &format!("it answered {status}"))),
        Err(error) => Err(untold(path, &error.to_string())),
    }
}

/// Posts JSON to a running server: the status and the body of its answer, or `None` where
/// no server runs.
pub(super) fn ask(path: &Path, verb: &str, body: &[u8]) -> std::io::Result<Option<(u16, Vec<u8>)>> {
    let mut stream = match UnixStream::connect(path) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        connected => connected?,
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "POST {verb} HTTP/1.0\r\nHost: signet\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let no_http = || std::io::Error::other("it answered no HTTP");
    let status = answer.split(|byte| *byte == b' ').nth(1);
    let status = status.and_then(|status| str::from_utf8(status).ok()?.parse().ok());
    let status = status.ok_or_else(no_http)?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(head.ok_or_else(no_http)? + 4);
    Ok(Some((status, body)))
}

fn untold(path: &Path, why: &str) -> Error {
    Error::new(
        format!(
            "the change is made, and the running server was not told ({}: {why})",
            path.display()
        ),
        "it takes it up when what it remembers of the user expires (users.cache.lifetime_s)",
    )
}
