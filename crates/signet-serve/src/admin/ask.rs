//! How a command asks the server that runs on its data folder.

use std::io::{Error as IoError, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::{Form, Instance, say};
use crate::Error;

/// The socket's name in the data folder.
const FILE: &str = "admin.sock";
/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(6);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The question of a verb whose name says all that it needs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Why a server did not do as it was told, and the remedy.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) error: String,
    pub(crate) remedy: String,
}

/// A file of the server's that this user may not use, and why.
pub(super) fn no_rights(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::new(
        format!("{}: {why}", path.display()),
        "give the command as the user that the server runs as, or as root",
    )
}

/// A server that did not answer, and why.
pub(super) fn unanswered(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::new(
        format!("{}: the server did not answer: {why}", path.display()),
        "look whether it is alive, and of the same version as this program",
    )
}

/// A server that could not be asked, or not be heard.
pub(super) fn unasked(path: &Path, error: &IoError) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => no_rights(path, error),
        _ => unanswered(path, error),
    }
}

/// The path of the socket.
pub(crate) fn path(data: &Path) -> PathBuf {
    data.join(FILE)
}

/// Asks the server that runs on this folder; `None` where none runs.
pub(super) fn ask_if_running<A: DeserializeOwned>(
    folder: &Path,
    verb: &str,
    wanted: &impl Serialize,
) -> Result<Option<A>, Error> {
    let path = path(folder);
    let unanswered = |why: &dyn std::fmt::Display| unanswered(&path, why);
    let body = serde_json::to_vec(wanted).map_err(|error| unanswered(&error))?;
    let (status, body) = match ask(&path, verb, &body) {
        Ok(Some(answer)) => answer,
        Ok(None) => return Ok(None),
        Err(error) => return Err(unasked(&path, &error)),
    };
    if !(200..300).contains(&status) {
        return Err(match serde_json::from_slice::<Told>(&body) {
            Ok(told) => Error::new(told.error, told.remedy),
            Err(_) => unanswered(&format!("it said {status}")),
        });
    }
    // What has nothing to say says nothing.
    let body = match body.is_empty() {
        true => b"null",
        false => &*body,
    };
    serde_json::from_slice(body)
        .map(Some)
        .map_err(|error| unanswered(&error))
}

/// The same where a server must run; `otherwise` is what may be done where none does.
pub(super) fn ask_running<A: DeserializeOwned>(
    instance: &Instance,
    verb: &str,
    wanted: &impl Serialize,
    otherwise: &str,
) -> Result<A, Error> {
    let folder = instance.folder()?;
    ask_if_running(&folder, verb, wanted)?.ok_or_else(|| {
        Error::new(
            format!("no server runs on {}", folder.display()),
            format!(
                "name the server's folder with --data DIR or its file with --config FILE; {otherwise}"
            ),
        )
    })
}

/// Prints an answer, for people or for programs.
pub(super) fn tell<A: Serialize>(
    answer: &A,
    form: Form,
    text: impl FnOnce(&A) -> String,
) -> Result<(), Error> {
    match form {
        Form::Text => say(&text(answer)),
        Form::Json => {
            let text = serde_json::to_string_pretty(answer).map_err(|error| {
                Error::new(
                    format!("the answer cannot be written: {error}"),
                    "this is a fault of this program; report it",
                )
            })?;
            say(&format!("{text}\n"))
        }
    }
}

/// Posts JSON to a running server: the status and the body of its answer, or `None` where
/// no server runs.
pub(super) fn ask(path: &Path, verb: &str, body: &[u8]) -> std::io::Result<Option<(u16, Vec<u8>)>> {
    let connected = Address::of(path).and_then(|address| UnixStream::connect(address.path()));
    let mut stream = match connected {
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
    // In one piece: a server that answers before it has read all resets the connection, and its
    // answer is lost.
    let mut whole = format!(
        "POST {verb} HTTP/1.0\r\nHost: signet\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    whole.extend_from_slice(body);
    stream.write_all(&whole)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let no_http = || IoError::other("it answered no HTTP");
    let status = answer.split(|byte| *byte == b' ').nth(1);
    let status = status.and_then(|status| str::from_utf8(status).ok()?.parse().ok());
    let status = status.ok_or_else(no_http)?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(head.ok_or_else(no_http)? + 4);
    Ok(Some((status, body)))
}
