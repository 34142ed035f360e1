//! What a cache has of users whose passwords have changed is forgotten.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sip_auth::Subject;

use super::ask;
use super::socket::Admin;
use crate::Error;

/// Users in one request; past it all are forgotten.
const USERS_MAX: usize = 1_000;

/// Whose credentials are to be forgotten.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Forget {
    users: Vec<Named>,
    all: bool,
}

/// A user, as stores know him.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) user: String,
    pub(super) realm: String,
}

/// Answers `/users/forget`.
pub(super) async fn forget(State(admin): State<Admin>, Json(whom): Json<Forget>) -> StatusCode {
    if let Some(cache) = &admin.cache {
        if whom.all {
            cache.invalidate_all();
        }
        for named in &whom.users {
            cache.invalidate(&named.subject());
        }
    }
    StatusCode::NO_CONTENT
}

impl Named {
    pub(super) fn subject(&self) -> Subject {
        Subject::new(self.user.as_bytes(), self.realm.as_str().into())
    }
}

/// Tells a running server to forget what it remembers of these users. Where none runs,
/// nothing is remembered.
pub(super) fn tell_forget(folder: &Path, subjects: &[Subject]) -> Result<(), Error> {
    let all = subjects.len() > USERS_MAX;
    let named = subjects.iter().filter(|_| !all).map(|subject| Named {
        user: String::from_utf8_lossy(subject.user()).into_owned(),
        realm: subject.realm().to_string(),
    });
    let whom = Forget {
        users: named.collect(),
        all,
    };
    let told = ask::ask_if_running::<()>(folder, "/users/forget", &whom);
    told.map(|_| ()).map_err(|error| {
        Error::new(
            format!(
                "the running server was not told to forget what it remembers: {}",
                error.what()
            ),
            "it takes it up when what it remembers of the user expires (users.cache.lifetime_s)",
        )
    })
}
