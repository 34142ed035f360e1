//! `signet bans`: the sources that are left without answers, and how one gets them back.

use std::fmt::Write as _;
use std::net::IpAddr;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_limit::Ban;
use sip_net::clock;

use super::ask::{Nothing, ask_running, tell};
use super::socket::{Admin, Answered};
use super::{Form, Instance, lasting, say};
use crate::Error;

/// The version of the answers' form.
const VERSION: u32 = 1;
/// What is said where no server runs.
const OTHERWISE: &str = "bans end with the server";

/// The sources that get no answers.
#[derive(Serialize, Deserialize)]
pub(super) struct Listed {
    version: u32,
    bans: Vec<Shown>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shown {
    /// An address; of IPv6 the first of its network.
    source: IpAddr,
    /// Whether streams from there are meant; else datagrams, whose source may be forged.
    is_stream: bool,
    since_s: u64,
    ends_in_s: u64,
}

/// Whose ban is lifted.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lift {
    source: IpAddr,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Lifted {
    version: u32,
    was_banned: bool,
}

impl Shown {
    fn new(ban: &Ban, now_ms: u64) -> Self {
        Self {
            source: ban.source,
            is_stream: ban.is_stream,
            since_s: now_ms.saturating_sub(ban.since_ms) / 1_000,
            ends_in_s: ban.left_ms.div_ceil(1_000),
        }
    }
}

impl Listed {
    fn text(&self) -> String {
        let mut text = String::new();
        for ban in &self.bans {
            let network = if ban.source.is_ipv6() { "/64" } else { "" };
            let by = match ban.is_stream {
                true => "over streams",
                false => "over UDP, which may be forged",
            };
            let _ = writeln!(
                text,
                "{}{network} {by}: gets no answers since {}, for {} more",
                ban.source,
                lasting(ban.since_s),
                lasting(ban.ends_in_s)
            );
        }
        if text.is_empty() {
            text.push_str("everybody gets answers\n");
        }
        text
    }
}

/// Answers `/bans`.
pub(super) async fn listed(
    State(admin): State<Admin>,
    Json(Nothing {}): Json<Nothing>,
) -> Answered<Listed> {
    let now_ms = clock::now_ms();
    let bans = admin.sources.guard.bans(now_ms);
    Ok(Json(Listed {
        version: VERSION,
        bans: bans.iter().map(|ban| Shown::new(ban, now_ms)).collect(),
    }))
}

/// Answers `/bans/lift`.
pub(super) async fn lifted(
    State(admin): State<Admin>,
    Json(wanted): Json<Lift>,
) -> Answered<Lifted> {
    let was_banned = admin.sources.guard.lift(clock::now_ms(), wanted.source);
    tracing::info!(source = %wanted.source, was_banned, "the operator lifts what a source owes");
    Ok(Json(Lifted {
        version: VERSION,
        was_banned,
    }))
}

/// Prints the sources that get no answers.
pub fn bans(instance: &Instance, form: Form) -> Result<(), Error> {
    let listed: Listed = ask_running(instance, "/bans", &Nothing {}, OTHERWISE)?;
    tell(&listed, form, Listed::text)
}

/// Gives a source its answers back, and forgets its wrong passwords.
pub fn bans_lift(instance: &Instance, source: IpAddr) -> Result<(), Error> {
    let lifted: Lifted = ask_running(instance, "/bans/lift", &Lift { source }, OTHERWISE)?;
    say(&match lifted.was_banned {
        true => format!("{source} gets answers again\n"),
        false => format!("{source} was not banned; what it owed is forgotten\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_says_of_whom_and_for_how_long() {
        let ban = |source: &str, is_stream| {
            let ban = Ban {
                source: source.parse().unwrap(),
                is_stream,
                since_ms: 1_000,
                left_ms: 29_001,
            };
            Shown::new(&ban, 5_000)
        };
        let listed = Listed {
            version: VERSION,
            bans: vec![ban("192.0.2.1", false), ban("2001:db8::", true)],
        };
        assert_eq!(
            listed.text(),
            "192.0.2.1 over UDP, which may be forged: gets no answers since 4 s, for 30 s more\n\
             2001:db8::/64 over streams: gets no answers since 4 s, for 30 s more\n"
        );
        let none = Listed {
            version: VERSION,
            bans: Vec::new(),
        };
        assert_eq!(none.text(), "everybody gets answers\n");
    }
}
