//! The report for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use time::OffsetDateTime;

use super::figures::{Connections, Handshakes};
use super::{
    Called, Certificate, Clients, Crl, Listener, Outgoing, Peer, Refused, Report, Tickets,
};

impl Report {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            let _ = writeln!(text, "WARNING {warning}");
        }
        if !self.warnings.is_empty() {
            text.push('\n');
        }
        if self.listeners.is_empty() {
            text.push_str("no TLS listener\n\n");
        }
        for listener in &self.listeners {
            listener_lines(&mut text, listener);
        }
        ticket_lines(&mut text, &self.tickets, self.told_unix_s);
        outgoing_lines(&mut text, &self.outgoing);
        for peer in &self.peers {
            peer_lines(&mut text, peer);
        }
        if let Some(refused) = &self.refused {
            refused_lines(&mut text, refused);
        }
        text
    }
}

fn listener_lines(text: &mut String, listener: &Listener) {
    let _ = writeln!(text, "{}", listener.on);
    for certificate in &listener.certificates {
        certificate_lines(text, "certificate", certificate);
    }
    if listener.engine == "legacy" {
        line(text, "engine", "legacy: for measurements only");
    }
    line(text, "versions", &listener.versions.join(", "));
    for (nth, suite) in listener.suites.iter().enumerate() {
        line(text, if nth == 0 { "suites" } else { "" }, suite);
    }
    if !listener.groups.is_empty() {
        line(text, "groups", &listener.groups.join(", "));
    }
    client_lines(text, &listener.clients);
    if let Some(handshakes) = &listener.handshakes {
        handshake_lines(text, handshakes);
    }
    if let Some(connections) = &listener.connections {
        connection_lines(text, connections);
    }
    if let Some(refused) = &listener.refused_connections
        && refused.too_many + refused.too_many_of_source > 0
    {
        let told = format!(
            "{} connections, too many; {} too many of their source",
            refused.too_many, refused.too_many_of_source
        );
        line(text, "refused", &told);
    }
    text.push('\n');
}

fn certificate_lines(text: &mut String, what: &str, certificate: &Certificate) {
    line(text, what, &certificate.file);
    line(text, "  names", &or_none(&certificate.names));
    line(text, "  issuer", &certificate.issuer);
    line(text, "  key", &certificate.key);
    let state = match &certificate.warning {
        Some(warning) => warning.clone(),
        None => format!("{} days left", certificate.days_left),
    };
    let validity = format!(
        "{} to {}, {state}",
        day(certificate.not_before_unix_s),
        day(certificate.not_after_unix_s)
    );
    line(text, "  valid", &validity);
}

fn client_lines(text: &mut String, clients: &Clients) {
    let by = if clients.roots.is_empty() {
        "the data folder's own authority".to_owned()
    } else {
        clients.roots.join(", ")
    };
    let asked = |certificates| {
        let must = match certificates {
            "required" => "must show",
            "optional" => "may show",
            _ => return "not asked for certificates".to_owned(),
        };
        format!(
            "{must} a certificate of {by}; key usage {}, revocation {}",
            clients.key_usage, clients.revocation
        )
    };
    for of in &clients.of {
        let told = format!("of {}: {}", of.network, asked(of.certificates));
        line(text, "clients", &told);
    }
    line(text, "clients", &asked(clients.certificates));
    crl_lines(text, &clients.crls);
}

fn crl_lines(text: &mut String, crls: &[Crl]) {
    for crl in crls {
        let next = match (&crl.warning, crl.next_update_unix_s) {
            (Some(warning), _) => warning.clone(),
            (None, Some(next)) => format!("next due {}", day(next)),
            (None, None) => "does not say when the next is due".to_owned(),
        };
        let told = format!(
            "{}, of {}, {} revoked, {next}",
            crl.file, crl.issuer, crl.revoked
        );
        line(text, "revoked by", &told);
    }
}

fn ticket_lines(text: &mut String, tickets: &Tickets, now_unix_s: u64) {
    let shown = &tickets.shown;
    text.push_str("session tickets\n");
    line(
        text,
        "secret from",
        &format!("{} {}", tickets.from, shown.source),
    );
    for secret in &shown.secrets {
        let until = match secret.not_after_unix_s {
            None => "the newest".to_owned(),
            Some(end) => {
                let rest = span(end.saturating_sub(now_unix_s));
                format!("opens tickets {rest} more")
            }
        };
        let told = match secret.created_unix_s {
            Some(created) => {
                let age = span(now_unix_s.saturating_sub(created));
                format!("{}, {age} old, {until}", secret.id)
            }
            None => secret.id.clone(),
        };
        line(text, "  secret", &told);
    }
    line(text, "good for", &span(shown.lifetime_s));
    if let Some(rotation_s) = shown.secret_rotation_s {
        line(text, "new secret", &format!("every {}", span(rotation_s)));
    }
    text.push('\n');
}

fn outgoing_lines(text: &mut String, outgoing: &Outgoing) {
    text.push_str("connections that this server opened\n");
    let trust = if outgoing.trust.is_empty() {
        String::new()
    } else {
        format!(" and {}", outgoing.trust.join(", "))
    };
    let rules = format!(
        "the data folder's own authority{trust}; key usage {}, revocation {}",
        outgoing.key_usage, outgoing.revocation
    );
    line(text, "trusts", &rules);
    crl_lines(text, &outgoing.crls);
    match &outgoing.identity {
        Some(identity) => certificate_lines(text, "shows", identity),
        None => line(text, "shows", "no certificate"),
    }
    for called in &outgoing.called {
        called_lines(text, called);
    }
    if let Some(handshakes) = &outgoing.handshakes {
        handshake_lines(text, handshakes);
    }
    if let Some(connections) = &outgoing.connections {
        connection_lines(text, connections);
    }
    if let Some(sessions) = outgoing.sessions {
        line(text, "could resume", &format!("with {sessions} peers"));
    }
    text.push('\n');
}

fn called_lines(text: &mut String, called: &Called) {
    let mut names = called.names.join(", ");
    if let Some(expect) = &called.expect {
        let _ = write!(names, "; must prove {expect}");
    }
    line(text, "called", &names);
    if !called.trust.is_empty() {
        line(text, "  trusts", &called.trust.join(", "));
    }
    crl_lines(text, &called.crls);
    match &called.identity {
        None => {}
        Some(None) => line(text, "  shows", "no certificate"),
        Some(Some(identity)) => certificate_lines(text, "  shows", identity),
    }
    let versions = called.versions.as_deref().map(|names| names.join(", "));
    let suites = called.suites.as_deref().map(|names| names.join(", "));
    let groups = called.groups.as_deref().map(|names| names.join(", "));
    for (what, names) in [
        ("  versions", versions),
        ("  suites", suites),
        ("  groups", groups),
    ] {
        if let Some(names) = names {
            line(text, what, &names);
        }
    }
}

fn peer_lines(text: &mut String, peer: &Peer) {
    let by = match peer.opened_by {
        "us" => "opened by this server",
        _ => "opened by the peer",
    };
    let _ = writeln!(text, "peer {}, connections {by}", peer.name);
    handshake_lines(text, &peer.handshakes);
    connection_lines(text, &peer.connections);
    text.push('\n');
}

fn refused_lines(text: &mut String, refused: &Refused) {
    if refused.handshakes == 0 {
        return;
    }
    let told = format!(
        "{}: {} too many of their source, {} too many full ones waiting",
        refused.handshakes, refused.too_many_of_source, refused.too_many_full_waiting
    );
    text.push_str("handshakes not begun\n");
    line(text, "refused", &told);
    text.push('\n');
}

fn handshake_lines(text: &mut String, of: &Handshakes) {
    let (full, resumed, failed) = (of.full, of.resumed, of.failed);
    let total = full + resumed;
    let summary = match (resumed * 1_000).checked_div(total) {
        None => format!("none yet, {failed} failed"),
        Some(per_mille) => format!(
            "{total}: {full} full, {resumed} resumed ({}.{} %), {failed} failed",
            per_mille / 10,
            per_mille % 10
        ),
    };
    line(text, "handshakes", &summary);
    used(text, "  versions", &of.versions);
    used(text, "  suites", &of.suites);
    used(text, "  groups", &of.groups);
    used(text, "  resumed by", &of.resumed_by);
    used(text, "  failed by", &of.failed_by);
    used(text, "  bad for", &of.certificates_refused);
    if of.resumptions_refused > 0 {
        let told = format!(
            "{}, because the client's certificate is no longer good",
            of.resumptions_refused
        );
        line(text, "  not resumed", &told);
    }
    if total > 0 {
        let mean = |sum_us: u64, count: u64| sum_us.checked_div(count).unwrap_or(0);
        let cost = format!(
            "full {} us of CPU and {} us on the clock, resumed {} and {}, on average",
            mean(of.full_cpu_us, full),
            mean(of.full_wall_us, full),
            mean(of.resumed_cpu_us, resumed),
            mean(of.resumed_wall_us, resumed),
        );
        line(text, "  cost", &cost);
    }
}

fn connection_lines(text: &mut String, of: &Connections) {
    let told = if of.open == 0 {
        "none open".to_owned()
    } else {
        format!(
            "{} open, {} bytes each, {} old on average, the oldest {}",
            of.open,
            of.bytes / of.open,
            span(of.mean_age_s),
            span(of.oldest_s)
        )
    };
    line(text, "connections", &told);
}

/// Those that were counted at all, the most frequent first.
fn used(text: &mut String, what: &str, counts: &BTreeMap<&'static str, u64>) {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut first = what;
    for (name, count) in counts {
        line(text, first, &format!("{count} {name}"));
        first = "";
    }
}

fn line(text: &mut String, what: &str, value: &str) {
    let _ = writeln!(text, "  {what:<15}{value}");
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() {
        "none: no client will believe it".to_owned()
    } else {
        names.join(", ")
    }
}

/// A time in the largest unit of which it has two.
fn span(seconds: u64) -> String {
    let units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    for (length, unit) in units {
        if seconds >= 2 * length {
            return format!("{} {unit}", seconds / length);
        }
    }
    format!("{seconds} s")
}

/// The day of a time.
pub(super) fn day(unix_s: u64) -> String {
    let date = i64::try_from(unix_s)
        .ok()
        .and_then(|unix_s| OffsetDateTime::from_unix_timestamp(unix_s).ok());
    date.map_or_else(|| "?".to_owned(), |date| date.date().to_string())
}
