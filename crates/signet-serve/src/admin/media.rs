//! `signet media`: the media engines of the configuration, how they are, and which of them are
//! drained.

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_media::{Shown as Health, Why};
use sip_net::clock;

use super::ask::{Nothing, ask_running, tell};
use super::socket::{Admin, Answered, Refused};
use super::{Form, Instance, lasting, say};
use crate::Error;

/// The version of the answers' form.
const VERSION: u32 = 1;
/// What is said where no server runs.
const OTHERWISE: &str = "signet check FILE says what is wrong in a configuration";

/// The media engines of the configuration.
#[derive(Serialize, Deserialize)]
pub(super) struct Listed {
    version: u32,
    engines: Vec<Shown>,
}

/// What is drained, or is not any more.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drain {
    engine: SocketAddr,
    is_drained: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Drained {
    version: u32,
    /// Whether it was otherwise before.
    has_changed: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shown {
    engine: SocketAddr,
    is_in_use: bool,
    /// Whether it gets no calls that begin.
    is_drained: bool,
    /// What is held against it: `silent`, `unreachable`.
    why: Option<String>,
    /// For how long.
    failed_s: Option<u64>,
    /// How long ago it answered a ping.
    heard_s: Option<u64>,
    times_failed: u64,
    pings_good: u64,
    pings_failed: u64,
}

impl Shown {
    fn new(health: &Health) -> Self {
        Self {
            engine: health.address,
            is_in_use: health.why.is_none() && !health.is_drained,
            is_drained: health.is_drained,
            why: health.why.map(|why| why.name().to_owned()),
            failed_s: health.out_ms.map(|out_ms| out_ms / 1_000),
            heard_s: health.heard_ago_ms.map(|ago_ms| ago_ms / 1_000),
            times_failed: health.times_out,
            pings_good: health.pings_good,
            pings_failed: health.pings_failed,
        }
    }

    fn write(&self, text: &mut String) {
        let state = match (self.is_drained, self.is_in_use) {
            (true, _) => "drained",
            (false, true) => "in use",
            (false, false) => "failed",
        };
        let _ = write!(text, "{}: {state}", self.engine);
        if let (Some(why), Some(failed_s)) = (self.why.as_deref(), self.failed_s) {
            let known = [Why::Silent, Why::Unreachable];
            let known = known.iter().find(|of| of.name() == why);
            let means = known.map_or(why, |of| of.text());
            let _ = write!(text, "; {means} (since {})", lasting(failed_s));
        }
        let _ = match self.heard_s {
            Some(heard_s) => write!(text, "; last ping answered {} ago", lasting(heard_s)),
            None => write!(text, "; no ping answered so far"),
        };
        let (good, failed) = (self.pings_good, self.pings_failed);
        let _ = writeln!(text, "; pings: {good} good, {failed} failed");
    }
}

impl Listed {
    fn text(&self) -> String {
        let mut text = String::new();
        self.engines.iter().for_each(|of| of.write(&mut text));
        if text.is_empty() {
            text.push_str("no media engines are configured\n");
        }
        text
    }
}

/// Where the engines of the configuration in force are.
async fn configured(admin: &Admin) -> Result<Vec<SocketAddr>, Refused> {
    let settings = admin.look(0, |shard, _| shard.settings().clone()).await?;
    let media = settings.media.as_ref();
    Ok(media.map_or_else(Vec::new, |media| media.client.engines.clone()))
}

/// Answers `/media`.
pub(super) async fn listed(
    State(admin): State<Admin>,
    Json(Nothing {}): Json<Nothing>,
) -> Answered<Listed> {
    let engines = configured(&admin).await?;
    let shown = admin.sources.engines.shown(&engines, clock::now_ms());
    Ok(Json(Listed {
        version: VERSION,
        engines: shown.iter().map(Shown::new).collect(),
    }))
}

/// Answers `/media/drain`.
pub(super) async fn drained(
    State(admin): State<Admin>,
    Json(drain): Json<Drain>,
) -> Answered<Drained> {
    if !configured(&admin).await?.contains(&drain.engine) {
        return Err(Refused::new(
            format!("{} is no media engine of this server", drain.engine),
            "`signet media` shows them: type an address with its port",
        ));
    }
    let engines = &admin.sources.engines;
    let has_changed = engines.drain(drain.engine, drain.is_drained);
    if has_changed {
        let told = match drain.is_drained {
            true => "gets no new calls",
            false => "gets new calls again",
        };
        tracing::info!("the media engine {} {told}, by the operator", drain.engine);
    }
    Ok(Json(Drained {
        version: VERSION,
        has_changed,
    }))
}

/// Prints the media engines and how they are.
pub fn media(instance: &Instance, form: Form) -> Result<(), Error> {
    let listed: Listed = ask_running(instance, "/media", &Nothing {}, OTHERWISE)?;
    tell(&listed, form, Listed::text)
}

/// Has a media engine get no new calls, or ends that.
pub fn media_drain(instance: &Instance, engine: SocketAddr, is_drained: bool) -> Result<(), Error> {
    let wanted = Drain { engine, is_drained };
    let drained: Drained = ask_running(instance, "/media/drain", &wanted, OTHERWISE)?;
    let told = match (is_drained, drained.has_changed) {
        (true, true) => "is drained: it gets no new calls, and those in progress go on",
        (true, false) => "was drained before",
        (false, true) => "gets new calls again",
        (false, false) => "was not drained",
    };
    say(&format!("{engine} {told}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_told_with_what_is_held_against_it() {
        let told = |health: Health| {
            let mut text = String::new();
            Shown::new(&health).write(&mut text);
            text
        };
        let good = Health {
            address: ([10, 0, 0, 7], 2223).into(),
            why: None,
            out_ms: None,
            is_drained: false,
            heard_ago_ms: None,
            times_out: 0,
            pings_good: 0,
            pings_failed: 0,
        };
        assert_eq!(
            told(good),
            "10.0.0.7:2223: in use; no ping answered so far; pings: 0 good, 0 failed\n"
        );
        let silent = Health {
            why: Some(Why::Silent),
            out_ms: Some(4_200),
            heard_ago_ms: Some(9_999),
            pings_good: 3,
            pings_failed: 2,
            ..good
        };
        assert_eq!(
            told(silent),
            "10.0.0.7:2223: failed; it gave no answer (since 4 s); last ping answered 9 s ago; \
             pings: 3 good, 2 failed\n"
        );
        let drained = Health {
            is_drained: true,
            ..good
        };
        assert!(told(drained).starts_with("10.0.0.7:2223: drained; "));
        assert_eq!(
            Listed {
                version: VERSION,
                engines: Vec::new()
            }
            .text(),
            "no media engines are configured\n"
        );
    }
}
