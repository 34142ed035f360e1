//! `signet hook forget`: what the operator's hook has answered is asked for again.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::ask::{Nothing, ask_running, tell};
use super::socket::{Admin, Answered, Refused};
use super::{Form, Instance};
use crate::Error;

/// The version of the answer's form.
const VERSION: u32 = 1;

/// How many answers were forgotten.
#[derive(Serialize, Deserialize)]
pub(super) struct Forgotten {
    version: u32,
    forgotten: u64,
}

/// Answers `/hook/forget`.
pub(super) async fn forgotten(
    State(admin): State<Admin>,
    Json(Nothing {}): Json<Nothing>,
) -> Answered<Forgotten> {
    let Some(hook) = &admin.sources.hook else {
        return Err(Refused::new(
            "this server has no hook",
            "write url in [hook] of its configuration, and start it again",
        ));
    };
    let forgotten = hook.cache_figures().entries;
    hook.cache().clear();
    Ok(Json(Forgotten {
        version: VERSION,
        forgotten,
    }))
}

/// Has a running server forget what its hook has answered.
pub fn hook_forget(instance: &Instance, form: Form) -> Result<(), Error> {
    let otherwise = "a server that does not run remembers nothing";
    let answer: Forgotten = ask_running(instance, "/hook/forget", &Nothing {}, otherwise)?;
    tell(&answer, form, |answer| {
        format!("forgot {} answers of the hook\n", answer.forgotten)
    })
}
