//! `signet calls`: the calls in progress, as the dialogs that pass show them.

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_engine::calls::{Call, End};
use sip_engine::settings::Mode;
use sip_net::clock;

use super::ask::{ask_running, tell};
use super::socket::{Admin, Answered};
use super::why::written;
use super::{Form, Instance, lasting};
use crate::Error;

/// The version of the answer's form.
const VERSION: u32 = 1;
/// Calls that a worker looks at between two turns: well below the time of a few messages.
const PIECE: usize = 1_000;
/// The most calls in one answer.
const LISTED_MAX: usize = 20_000;

/// Which calls are wanted.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    /// Those of a user, on either side: `alice` or `alice@example.com`.
    user: Option<String>,
}

/// The calls in progress.
#[derive(Serialize, Deserialize)]
pub(super) struct Listed {
    version: u32,
    /// All that are known of, those that are not listed here included.
    in_progress: usize,
    /// Whether this server keeps state of requests: without, it knows of no calls.
    is_stateful: bool,
    /// The oldest first.
    calls: Vec<Shown>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shown {
    call_id: String,
    from: String,
    to: String,
    since: String,
    since_unix_ms: u64,
    lasts_s: u64,
    caller: Side,
    callee: Side,
}

/// How this server reaches one of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Side {
    address: SocketAddr,
    transport: String,
}

impl Side {
    fn new((transport, address): End) -> Self {
        Self {
            address,
            transport: transport.uri_name().to_owned(),
        }
    }
}

impl Shown {
    fn new(call: &Call, unix_ms: u64) -> Self {
        Self {
            call_id: call.call_id().into(),
            from: call.from().into(),
            to: call.to().into(),
            since: written(call.since_unix_ms),
            since_unix_ms: call.since_unix_ms,
            lasts_s: unix_ms.saturating_sub(call.since_unix_ms) / 1_000,
            caller: Side::new(call.caller),
            callee: Side::new(call.callee),
        }
    }

    fn is_of(&self, user: &str) -> bool {
        let user = user.strip_prefix("sip:").unwrap_or(user);
        [&self.from, &self.to]
            .into_iter()
            .any(|uri| super::why::names(uri, user))
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{} to {} for {}, {} {} to {} {}, call {}",
            self.from,
            self.to,
            lasting(self.lasts_s),
            self.caller.transport,
            self.caller.address,
            self.callee.transport,
            self.callee.address,
            self.call_id
        );
    }
}

impl Listed {
    fn text(&self) -> String {
        let mut text = String::new();
        self.calls.iter().for_each(|call| call.write(&mut text));
        let _ = match (self.calls.len(), self.in_progress) {
            _ if !self.is_stateful => writeln!(
                text,
                "this server forwards without state (`mode`), so it knows of no calls"
            ),
            (0, 0) => writeln!(text, "no calls are in progress"),
            (shown, all) => writeln!(text, "{shown} of {all} calls in progress"),
        };
        text
    }
}

/// Answers `/calls`.
pub(super) async fn listed(
    State(admin): State<Admin>,
    Json(wanted): Json<Wanted>,
) -> Answered<Listed> {
    let is_stateful = admin
        .look(0, |shard, _| shard.settings().mode != Mode::Stateless)
        .await?;
    let unix_ms = clock::unix_ms();
    let (mut in_progress, mut calls) = (0, Vec::new());
    for worker in 0..admin.workers() {
        in_progress += admin.look(worker, |shard, _| shard.calls()).await?;
        let mut next = Some(0);
        while let Some(after) = next.filter(|_| calls.len() < LISTED_MAX) {
            let piece = admin.look(worker, move |shard, _| {
                let mut found = Vec::new();
                let next = shard.list_calls(after, PIECE, &mut found);
                (next, found)
            });
            let (further, found) = piece.await?;
            next = further;
            let shown = found.iter().map(|call| Shown::new(call, unix_ms));
            let is_wanted = |shown: &Shown| wanted.user.iter().all(|user| shown.is_of(user));
            calls.extend(shown.filter(is_wanted));
        }
    }
    calls.truncate(LISTED_MAX);
    calls.sort_by_key(|call| call.since_unix_ms);
    Ok(Json(Listed {
        version: VERSION,
        in_progress,
        is_stateful,
        calls,
    }))
}

/// Prints the calls in progress, all or those of one user.
pub fn calls(instance: &Instance, user: Option<&str>, form: Form) -> Result<(), Error> {
    let wanted = Wanted {
        user: user.map(str::to_owned),
    };
    let otherwise = "only a running server knows of calls";
    let listed: Listed = ask_running(instance, "/calls", &wanted, otherwise)?;
    tell(&listed, form, Listed::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_with_both_sides() {
        let side = |transport: &str, address: &str| Side {
            address: address.parse().unwrap(),
            transport: transport.to_owned(),
        };
        let call = Shown {
            call_id: "abc".to_owned(),
            from: "sip:alice@example.com".to_owned(),
            to: "sip:+49301@example.com".to_owned(),
            since: String::new(),
            since_unix_ms: 1,
            lasts_s: 130,
            caller: side("tls", "192.0.2.7:4000"),
            callee: side("udp", "192.0.2.9:5060"),
        };
        assert!(call.is_of("alice") && call.is_of("alice@example.com") && call.is_of("+49301"));
        assert!(!call.is_of("alice@example.net") && !call.is_of("bob"));
        let mut listed = Listed {
            version: VERSION,
            in_progress: 3,
            is_stateful: true,
            calls: vec![call],
        };
        assert_eq!(
            listed.text(),
            "sip:alice@example.com to sip:+49301@example.com for 2 min, tls 192.0.2.7:4000 to \
             udp 192.0.2.9:5060, call abc\n1 of 3 calls in progress\n"
        );
        listed.calls.clear();
        listed.in_progress = 0;
        assert_eq!(listed.text(), "no calls are in progress\n");
        listed.is_stateful = false;
        assert!(listed.text().contains("without state"), "{}", listed.text());
    }
}
