//! `signet log-level`: what the running server logs.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::ask::{ask_running, tell};
use super::socket::{Admin, Answered, Refused};
use super::{Form, Instance};
use crate::config::LogLevel;
use crate::{Error, log};

/// The version of the answer's form.
const VERSION: u32 = 1;

/// The level that is wanted; without it, which it is.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    level: Option<LogLevel>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Told {
    version: u32,
    level: LogLevel,
    before: LogLevel,
}

/// Answers `/log-level`.
pub(super) async fn changed(
    State(admin): State<Admin>,
    Json(wanted): Json<Wanted>,
) -> Answered<Told> {
    let unknown = || {
        Refused::new(
            "this server has no log of its own",
            "look at the log of the program that runs it",
        )
    };
    let before = log::level().ok_or_else(unknown)?;
    let level = wanted.level.unwrap_or(before);
    if wanted.level.is_some() {
        log::set_level(level).map_err(|error| {
            Refused::new(
                format!("the level of the log stays as it is: {error}"),
                "set log.level in the configuration, and restart",
            )
        })?;
        // A line for each refusal, or one for each source and reason in ten seconds.
        admin.sources.guard.set_tells_all(level == LogLevel::Debug);
    }
    Ok(Json(Told {
        version: VERSION,
        level,
        before,
    }))
}

/// Has the running server log from another level on, or says from which it does.
pub fn log_level(instance: &Instance, level: Option<LogLevel>, form: Form) -> Result<(), Error> {
    let wanted = Wanted { level };
    let otherwise = "log.level in the configuration is what it starts with";
    let told: Told = ask_running(instance, "/log-level", &wanted, otherwise)?;
    tell(&told, form, |told| match told.level == told.before {
        true => format!("the log has {} and above\n", told.level.name()),
        false => format!(
            "the log has {} and above, {} before; log.level holds again from the next start\n",
            told.level.name(),
            told.before.name()
        ),
    })
}
