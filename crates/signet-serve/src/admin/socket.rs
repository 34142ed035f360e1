//! The administrative interface of a running server: HTTP on a Unix socket in the data
//! folder, whose mode keeps everybody else out.
//!
//! | request | what it does |
//! |---|---|
//! | `POST /users/forget` | forgets what is remembered of users: `{"users": [{"user", "realm"}]}`, or of all: `{"all": true}` |

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

use crate::Error;

/// Its name in the data folder.
const FILE: &str = "admin.sock";
/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Users in one request.
const USERS_MAX: usize = 1_000;

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
pub(crate) async fn serve(path: PathBuf, cache: Option<Arc<Cache>>) {
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
        .with_state(cache);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(
            "{}: no administrative interface any more: {error}",
            path.display()
        );
    }
}

async fn forget(State(cache): State<Option<Arc<Cache>>>, Json(whom): Json<Forget>) -> StatusCode {
    if let Some(cache) = cache {
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
    let stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(());
        }
        Err(error) => return Err(untold(path, &error.to_string())),
    };
    match call(stream, &forget) {
        Ok(status) if status == StatusCode::NO_CONTENT.as_u16() => Ok(()),
        Ok(status) => Err(untold(path, &format!("it answered {status}"))),
        Err(error) => Err(untold(path, &error.to_string())),
    }
}

/// Sends the request and reads the status of the answer.
fn call(mut stream: UnixStream, forget: &Forget) -> std::io::Result<u16> {
    let body = serde_json::to_vec(forget)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "POST /users/forget HTTP/1.0\r\nHost: signet\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)?;
    let mut answer = Vec::new();
    stream.take(4_096).read_to_end(&mut answer)?;
    let status = answer.split(|byte| *byte == b' ').nth(1);
    let status = status.and_then(|status| str::from_utf8(status).ok()?.parse().ok());
    status.ok_or_else(|| std::io::Error::other("it answered no HTTP"))
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
