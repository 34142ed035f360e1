//! What a server would tell an auditor about its TLS: what it shows, what it
//! takes, and what clients made of that.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sip_net::{
    CertificateFault, GROUP_NAMES, HandshakeFailure, HandshakeTally, Resumption, SUITE_NAMES,
    TlsVersion,
};
use time::OffsetDateTime;
use x509_parser::prelude::X509Certificate;
use x509_parser::public_key::PublicKey;

use crate::Error;
use crate::ca::{first_pem, general_name};
use crate::config::{ClientCertificates, ListenSecurity};

/// A listener's certificates and rules.
#[derive(Clone, Debug)]
pub(crate) struct ListenerTls {
    /// Where it listens.
    pub(crate) place: String,
    /// Whether it accepts; else it is only where connections are opened from.
    pub(crate) accepts: bool,
    pub(crate) certificates: Vec<ShownCertificate>,
    pub(crate) security: ListenSecurity,
}

/// Where the keys of session tickets come from; no secret is in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownTickets {
    /// The file or the database.
    pub(crate) source: String,
    pub(crate) is_store: bool,
    /// How long a ticket is good.
    pub(crate) lifetime_s: u64,
    /// When a secret is so old that another follows it.
    pub(crate) secret_rotation_s: Option<u64>,
    /// The secrets in service, the newest first.
    pub(crate) secrets: Vec<ShownSecret>,
    /// Why the store cannot be read.
    pub(crate) trouble: Option<String>,
    /// Whether the secret is this process's alone, because it never could.
    pub(crate) is_own: bool,
    /// Times that the store was read, and could not be, and secrets made.
    pub(crate) reads: u64,
    pub(crate) failures: u64,
    pub(crate) renewals: u64,
}

/// A secret of session tickets by its name.
#[derive(Clone, Debug)]
pub(crate) struct ShownSecret {
    pub(crate) id: String,
    pub(crate) created_unix_s: u64,
    pub(crate) not_after_unix_s: Option<u64>,
}

/// A certificate that clients are shown.
#[derive(Clone, Debug)]
pub(crate) struct ShownCertificate {
    pub(crate) file: PathBuf,
    pub(crate) names: Vec<String>,
    pub(crate) issuer: String,
    /// The kind of its key.
    pub(crate) key: String,
    pub(crate) not_before_unix_s: u64,
    pub(crate) not_after_unix_s: u64,
    /// The certificate itself.
    pub(crate) der: Vec<u8>,
}

impl ShownCertificate {
    /// Reads the first certificate of a chain.
    pub(crate) fn read(file: &Path) -> Result<Self, Error> {
        let pem = std::fs::read(file).map_err(|error| Error::file("read", file, &error))?;
        let unreadable = || {
            Error::new(
                format!("{} holds no certificate that can be read", file.display()),
                "name a PEM file with the chain, the server's own certificate first",
            )
        };
        let pem = first_pem(&pem).ok_or_else(unreadable)?;
        let leaf = pem.parse_x509().map_err(|_| unreadable())?;
        let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
        let names = match leaf.subject_alternative_name() {
            Ok(Some(names)) => {
                let names = names.value.general_names.iter();
                names.filter_map(general_name).collect()
            }
            _ => Vec::new(),
        };
        let shown = Self {
            file: file.to_owned(),
            names,
            issuer: leaf.issuer().to_string(),
            key: key_kind(&leaf),
            not_before_unix_s: seconds(leaf.validity().not_before.timestamp()),
            not_after_unix_s: seconds(leaf.validity().not_after.timestamp()),
            der: Vec::new(),
        };
        Ok(Self {
            der: pem.contents,
            ..shown
        })
    }

    /// Why its time is not now.
    pub(crate) fn fault_at(&self, now_unix_s: u64) -> Option<String> {
        if now_unix_s > self.not_after_unix_s {
            Some(format!("it expired on {}", day(self.not_after_unix_s)))
        } else if now_unix_s < self.not_before_unix_s {
            Some(format!(
                "it is not valid before {}",
                day(self.not_before_unix_s)
            ))
        } else {
            None
        }
    }
}

/// The report. Without tallies it tells what is allowed, not what was used.
/// `tallies` are the listeners' in their order, `opened` that of connections
/// that this server opened.
pub(crate) fn render(
    listeners: &[Option<ListenerTls>],
    tallies: Option<&[HandshakeTally]>,
    opened: Option<&HandshakeTally>,
    tickets: &ShownTickets,
    now_unix_s: u64,
) -> String {
    let mut text = String::new();
    for (nth, listener) in listeners.iter().enumerate() {
        let Some(listener) = listener.as_ref().filter(|listener| listener.accepts) else {
            continue;
        };
        let _ = writeln!(text, "{}", listener.place);
        for certificate in &listener.certificates {
            certificate_lines(&mut text, certificate, now_unix_s);
        }
        rule_lines(&mut text, &listener.security);
        if let Some(tally) = tallies.and_then(|tallies| tallies.get(nth)) {
            tally_lines(&mut text, tally);
        }
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str("no TLS listener\n\n");
    }
    ticket_lines(&mut text, tickets, now_unix_s);
    if let Some(opened) = opened {
        text.push_str("connections that this server opened\n");
        tally_lines(&mut text, opened);
        text.push('\n');
    }
    text
}

fn certificate_lines(text: &mut String, certificate: &ShownCertificate, now_unix_s: u64) {
    line(text, "certificate", &certificate.file.display().to_string());
    line(text, "  names", &or_none(&certificate.names));
    line(text, "  issuer", &certificate.issuer);
    line(text, "  key", &certificate.key);
    let days_left = certificate.not_after_unix_s.saturating_sub(now_unix_s) / 86_400;
    let state = certificate
        .fault_at(now_unix_s)
        .unwrap_or_else(|| format!("{days_left} days left"));
    let validity = format!(
        "{} to {}, {state}",
        day(certificate.not_before_unix_s),
        day(certificate.not_after_unix_s)
    );
    line(text, "  valid", &validity);
}

fn ticket_lines(text: &mut String, tickets: &ShownTickets, now_unix_s: u64) {
    text.push_str("session tickets\n");
    let kind = if tickets.is_store { "store" } else { "file" };
    line(text, "secret from", &format!("{kind} {}", tickets.source));
    for secret in &tickets.secrets {
        let until = match secret.not_after_unix_s {
            None => "the newest".to_owned(),
            Some(end) => format!(
                "opens tickets {} more",
                span(end.saturating_sub(now_unix_s))
            ),
        };
        let age = span(now_unix_s.saturating_sub(secret.created_unix_s));
        line(
            text,
            "  secret",
            &format!("{}, {age} old, {until}", secret.id),
        );
    }
    if tickets.is_own {
        line(text, "  warning", "good on this node and in this run alone");
    }
    if let Some(trouble) = &tickets.trouble {
        line(
            text,
            "  warning",
            &format!("the store cannot be read: {trouble}"),
        );
    }
    line(text, "good for", &span(tickets.lifetime_s));
    if let Some(rotation_s) = tickets.secret_rotation_s {
        line(text, "new secret", &format!("every {}", span(rotation_s)));
    }
    text.push('\n');
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

fn rule_lines(text: &mut String, security: &ListenSecurity) {
    let versions: Vec<&str> = (security.versions.iter())
        .map(|version| version.0.name())
        .collect();
    line(text, "versions", &versions.join(", "));
    for (nth, suite) in security.suites.iter().enumerate() {
        line(text, if nth == 0 { "suites" } else { "" }, &suite.0);
    }
    line(text, "groups", &joined(&security.groups));
    let clients = match security.client_certificates {
        ClientCertificates::Off => "not asked for certificates".to_owned(),
        asked => {
            let roots: Vec<String> = (security.client_roots.iter())
                .map(|root| root.display().to_string())
                .collect();
            let by = if roots.is_empty() {
                "the data folder's own authority".to_owned()
            } else {
                roots.join(", ")
            };
            let must = if asked == ClientCertificates::Required {
                "must show"
            } else {
                "may show"
            };
            format!(
                "{must} a certificate of {by}; key usage {:?}, revocation lists {}, {:?}",
                security.client_key_usage,
                security.crls.len(),
                security.revocation
            )
        }
    };
    line(text, "clients", &clients);
}

fn tally_lines(text: &mut String, tally: &HandshakeTally) {
    let (full, resumed) = (tally.full_total(), tally.resumed_total());
    let failed: u64 = tally.failed.iter().sum();
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
    let by_version = TlsVersion::ALL.iter().enumerate().map(|(nth, version)| {
        let count = |counts: &[u64]| counts.get(nth).copied().unwrap_or(0);
        (version.name(), count(&tally.full) + count(&tally.resumed))
    });
    used(text, "  versions", by_version);
    used(text, "  suites", named(&SUITE_NAMES, &tally.suites));
    used(text, "  groups", named(&GROUP_NAMES, &tally.groups));
    let how = Resumption::ALL.map(Resumption::name);
    used(text, "  resumed by", named(&how, &tally.resumed_by));
    let failures = HandshakeFailure::ALL.map(HandshakeFailure::name);
    used(text, "  failed by", named(&failures, &tally.failed));
    let faults = CertificateFault::ALL.map(CertificateFault::name);
    used(text, "  bad for", named(&faults, &tally.faults));
    if tally.resumptions_refused > 0 {
        line(
            text,
            "  not resumed",
            &format!(
                "{}, because the client's certificate is good no longer",
                tally.resumptions_refused
            ),
        );
    }
    let mean = |sum_us: u64, count: u64| sum_us.checked_div(count).unwrap_or(0);
    if total > 0 {
        let cost = format!(
            "full {} us of CPU and {} us on the clock, resumed {} and {}, on average",
            mean(tally.full_cpu_us, full),
            mean(tally.full_wall_us, full),
            mean(tally.resumed_cpu_us, resumed),
            mean(tally.resumed_wall_us, resumed),
        );
        line(text, "  cost", &cost);
    }
}

fn named<'a>(names: &'a [&'a str], counts: &'a [u64]) -> impl Iterator<Item = (&'a str, u64)> {
    names.iter().copied().zip(counts.iter().copied())
}

/// Those that were counted at all.
fn used<'a>(text: &mut String, what: &str, counts: impl Iterator<Item = (&'a str, u64)>) {
    let mut first = what;
    for (name, count) in counts.filter(|(_, count)| *count > 0) {
        line(text, first, &format!("{count} {name}"));
        first = "";
    }
}

fn line(text: &mut String, what: &str, value: &str) {
    let _ = writeln!(text, "  {what:<15}{value}");
}

fn joined<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    names.join(", ")
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() {
        "none: no client will believe it".to_owned()
    } else {
        names.join(", ")
    }
}

fn day(unix_s: u64) -> String {
    let date = i64::try_from(unix_s)
        .ok()
        .and_then(|unix_s| OffsetDateTime::from_unix_timestamp(unix_s).ok());
    date.map_or_else(|| "?".to_owned(), |date| date.date().to_string())
}

fn key_kind(certificate: &X509Certificate<'_>) -> String {
    const ED25519: &str = "1.3.101.112";
    let info = certificate.public_key();
    if info.algorithm.algorithm.to_id_string() == ED25519 {
        return "Ed25519".to_owned();
    }
    match info.parsed() {
        Ok(PublicKey::RSA(key)) => format!("RSA {}", key.key_size()),
        Ok(PublicKey::EC(point)) => format!("ECDSA P-{}", point.key_size()),
        _ => info.algorithm.algorithm.to_id_string(),
    }
}
