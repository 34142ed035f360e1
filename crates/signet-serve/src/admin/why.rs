//! `signet why`: what a running server refused lately, and why.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_engine::RefusalRecord;
use time::OffsetDateTime;

use super::ask::{ask_running, tell};
use super::socket::Admin;
use super::{Form, Instance};
use crate::Error;

/// The version of the answer's form.
const VERSION: u32 = 1;

/// Which refusals are wanted: those that fit all that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wanted {
    /// The user in From, To or the credentials: `alice` or `alice@example.com`.
    pub user: Option<String>,
    /// The beginning of the Call-ID.
    pub call: Option<String>,
    /// The address that it came from.
    pub source: Option<IpAddr>,
    /// The most of them, the latest.
    pub last: Option<usize>,
}

/// What was found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    version: u32,
    /// Records that are kept in all.
    kept: usize,
    /// Those that fit, the oldest first.
    refusals: Vec<Refusal>,
}

/// One of them.
#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    at: String,
    at_unix_ms: u64,
    source: SocketAddr,
    transport: String,
    source_is_proven: bool,
    method: String,
    /// Not there where a next hop failed, and the request may have gone on to another.
    status: Option<u16>,
    phrase: String,
    reason: String,
    means: String,
    hop: Option<SocketAddr>,
    from: String,
    to: String,
    user: String,
    call_id: String,
    detail: String,
}

impl Answer {
    pub(crate) fn new(kept: &[Arc<RefusalRecord>], wanted: &Wanted) -> Self {
        let fits = kept.iter().filter(|record| wanted.fits(record));
        let found: Vec<_> = fits.collect();
        let first = found.len() - wanted.last.unwrap_or(found.len()).min(found.len());
        let shown = found.iter().skip(first);
        Self {
            version: VERSION,
            kept: kept.len(),
            refusals: shown.map(|record| Refusal::from(&***record)).collect(),
        }
    }

    /// For people.
    fn text(&self) -> String {
        let mut text = String::new();
        for refusal in &self.refusals {
            refusal.write(&mut text);
        }
        let _ = match self.refusals.len() {
            0 => writeln!(
                text,
                "no such refusal among the last {} that are kept; signet_refusals_total counts them all\n  \
                 what a called phone or a provider answered is none: the call's record has it, or signet trace",
                self.kept
            ),
            found => writeln!(text, "{found} of the last {} that are kept", self.kept),
        };
        text
    }
}

impl Wanted {
    fn fits(&self, record: &RefusalRecord) -> bool {
        let of_user = |wanted: &String| {
            let wanted = wanted.strip_prefix("sip:").unwrap_or(wanted);
            let local = wanted.split('@').next().unwrap_or(wanted);
            let is_bare = local.len() == wanted.len();
            names(&record.from, wanted)
                || names(&record.to, wanted)
                || (is_bare && *record.user == *wanted)
        };
        // What is kept of it may be cut.
        let of_call = |wanted: &String| {
            let kept = &*record.call_id;
            kept.starts_with(&**wanted) || (kept.len() > 64 && wanted.starts_with(kept))
        };
        let of_source =
            |wanted: &IpAddr| record.source.ip().to_canonical() == wanted.to_canonical();
        self.user.as_ref().is_none_or(of_user)
            && self.call.as_ref().is_none_or(of_call)
            && self.source.as_ref().is_none_or(of_source)
    }
}

/// Whether a URI is that of a user, whose domain may be left out.
pub(crate) fn names(uri: &str, wanted: &str) -> bool {
    let (_, user_and_place) = uri.split_once(':').unwrap_or(("", uri));
    let (user, instance) = user_and_place
        .split_once('@')
        .unwrap_or((user_and_place, ""));
    match wanted.split_once('@') {
        None => user == wanted && (!instance.is_empty() || uri.starts_with("tel:")),
        Some((wanted, domain)) => {
            let host = instance.rsplit_once(':').map_or(instance, |(host, _)| host);
            let is_there = |host: &str| host.eq_ignore_ascii_case(domain);
            user == wanted && (is_there(instance) || is_there(host))
        }
    }
}

impl From<&RefusalRecord> for Refusal {
    fn from(record: &RefusalRecord) -> Self {
        Self {
            at: written(record.at_unix_ms),
            at_unix_ms: record.at_unix_ms,
            source: record.source,
            transport: record.transport.uri_name().to_owned(),
            source_is_proven: record.is_proven,
            method: record.method.to_string(),
            status: record.status,
            phrase: record.phrase.to_owned(),
            reason: record.reason.name().to_owned(),
            means: record.reason.text().to_owned(),
            hop: record.hop,
            from: record.from.to_string(),
            to: record.to.to_string(),
            user: record.user.to_string(),
            call_id: record.call_id.to_string(),
            detail: record.detail.to_string(),
        }
    }
}

impl Refusal {
    fn write(&self, text: &mut String) {
        let status = match self.status {
            Some(status) => format!("{status} {}", self.phrase),
            None => "on to the next".to_owned(),
        };
        let at = self.hop.map(|hop| format!(" at {hop}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{} {}: {status}, {}{at}",
            self.at, self.method, self.reason
        );
        let doubt = match self.source_is_proven {
            true => "",
            false => ", which may be forged",
        };
        let _ = writeln!(
            text,
            "    from {} by {}{doubt}",
            self.source, self.transport
        );
        for (name, value) in [
            ("From", &self.from),
            ("To", &self.to),
            ("user", &self.user),
            ("Call-ID", &self.call_id),
        ] {
            if !value.is_empty() {
                let _ = writeln!(text, "    {name} {value}");
            }
        }
        if !self.detail.is_empty() {
            let _ = writeln!(text, "    {}", self.detail);
        }
        let _ = writeln!(text, "    {}", self.means);
    }
}

/// A time as RFC 3339 has it, in UTC.
pub(crate) fn written(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
    let Ok(at) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return unix_ms.to_string();
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        unix_ms % 1_000
    )
}

/// Answers `/refusals`.
pub(super) async fn refusals(
    State(admin): State<Admin>,
    Json(wanted): Json<Wanted>,
) -> Json<Answer> {
    let kept = admin.sources.control.refusals().all();
    Json(Answer::new(&kept, &wanted))
}

/// Prints what the running server refused lately.
pub fn why(instance: &Instance, wanted: &Wanted, form: Form) -> Result<(), Error> {
    let otherwise = "refusals are kept as long as the server runs, and its log has more of them";
    let answer: Answer = ask_running(instance, "/refusals", wanted, otherwise)?;
    tell(&answer, form, Answer::text)
}

#[cfg(test)]
mod tests {
    use sip_engine::refusal::Reason;
    use sip_msg::Transport;

    use super::*;

    fn record(from: &str, user: &str, call: &str) -> Arc<RefusalRecord> {
        Arc::new(RefusalRecord {
            at_unix_ms: 1_795_219_200_042,
            source: "[::ffff:192.0.2.1]:5060".parse().unwrap(),
            transport: Transport::Tls,
            is_proven: true,
            method: "INVITE".into(),
            status: Some(404),
            phrase: "No Route For That Number",
            reason: Reason::NoRoute,
            hop: None,
            from: from.into(),
            to: "sip:+49@example.com:5061".into(),
            user: user.into(),
            call_id: call.into(),
            detail: "".into(),
            tell: None,
        })
    }

    fn found(wanted: Wanted) -> usize {
        let kept = [
            record("sip:alice@example.com", "", "abc"),
            record("sips:bob@Example.com:5061", "alice", "abd"),
            record("tel:+49301", "", "xyz"),
        ];
        Answer::new(&kept, &wanted).refusals.len()
    }

    #[test]
    fn refusals_are_found_by_user_call_and_source() {
        let by_user = |user: &str| {
            found(Wanted {
                user: Some(user.to_owned()),
                ..Wanted::default()
            })
        };
        let users = [
            ("alice", 2),
            ("alice@example.com", 1),
            ("sip:bob@example.com", 1),
            ("bob@example.net", 0),
            ("+49", 3),
            ("+49301", 1),
            ("lice", 0),
        ];
        for (user, count) in users {
            assert_eq!(by_user(user), count, "{user}");
        }
        let by = |call: Option<&str>, source: Option<&str>| {
            found(Wanted {
                call: call.map(str::to_owned),
                source: source.map(|source| source.parse().unwrap()),
                ..Wanted::default()
            })
        };
        assert_eq!(by(Some("ab"), None), 2);
        assert_eq!(by(Some("xyz"), Some("192.0.2.1")), 1);
        assert_eq!(by(None, Some("192.0.2.2")), 0);
        let last = Wanted {
            last: Some(2),
            ..Wanted::default()
        };
        assert_eq!(found(last), 2);
    }

    #[test]
    fn a_refusal_is_told_with_what_it_means() {
        let kept = [record("sip:alice@example.com", "alice", "abc")];
        let text = Answer::new(&kept, &Wanted::default()).text();
        assert_eq!(
            text,
            "2026-11-21T00:00:00.042Z INVITE: 404 No Route For That Number, no_route_for_number\n    \
             from [::ffff:192.0.2.1]:5060 by tls\n    From sip:alice@example.com\n    \
             To sip:+49@example.com:5061\n    user alice\n    Call-ID abc\n    \
             No `[[route]]` is for that number.\n1 of the last 1 that are kept\n"
        );
        let none = Answer::new(&[], &Wanted::default()).text();
        assert!(
            none.starts_with("no such refusal among the last 0") && none.contains("signet trace"),
            "{none}"
        );
    }
}
