//! What a server would tell an auditor about its TLS: what it shows, what it
//! takes, and what clients and peers made of that. For people as text, for
//! programs as JSON.

mod figures;
mod shown;
mod text;

use serde::Serialize;
use sip_net::{ConnectionFigures, ListenerCounters, PeerCounters, SideCounters};
use sip_tls::{HandshakeCounters, HandshakeTally, TlsEngine, TlsVersion};

pub(crate) use shown::{
    ListenerTls, ShownCalled, ShownCertificate, ShownCrl, ShownOutgoing, ShownSecret, ShownTickets,
};

use figures::{Connections, Handshakes};

/// What there is to tell of.
pub(crate) struct Facts<'f> {
    /// By the listeners' number; none where there is no TLS.
    pub(crate) listeners: &'f [Option<ListenerTls>],
    pub(crate) outgoing: &'f ShownOutgoing,
    pub(crate) tickets: &'f ShownTickets,
    /// What was counted, where a server runs.
    pub(crate) counted: Option<&'f Counted>,
    pub(crate) now_unix_s: u64,
}

/// What was counted, summed over the workers.
#[derive(Default)]
pub(crate) struct Counted {
    /// By the listeners' number.
    pub(crate) listeners: Vec<ListenerCounters>,
    pub(crate) opened_tls: HandshakeTally,
    pub(crate) opened: ConnectionFigures,
    pub(crate) peers: Vec<PeerCounters>,
    pub(crate) handshakes: HandshakeCounters,
    /// Peers with which a connection of ours could resume.
    pub(crate) sessions: usize,
}

/// The report.
#[derive(Serialize)]
pub(crate) struct Report {
    told_unix_s: u64,
    /// What needs somebody's attention.
    warnings: Vec<String>,
    listeners: Vec<Listener>,
    tickets: Tickets,
    outgoing: Outgoing,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<Peer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Refused>,
}

#[derive(Serialize)]
struct Listener {
    on: String,
    engine: &'static str,
    certificates: Vec<Certificate>,
    versions: Vec<&'static str>,
    suites: Vec<String>,
    groups: Vec<String>,
    clients: Clients,
    #[serde(skip_serializing_if = "Option::is_none")]
    handshakes: Option<Handshakes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<Connections>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_connections: Option<RefusedConnections>,
}

#[derive(Serialize)]
struct Certificate {
    file: String,
    names: Vec<String>,
    issuer: String,
    key: String,
    not_before_unix_s: u64,
    not_after_unix_s: u64,
    days_left: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// What is asked of clients.
#[derive(Serialize)]
struct Clients {
    certificates: &'static str,
    /// Networks with their own rules for client certificates.
    of: Vec<ClientsOf>,
    /// Empty for the data folder's own authority.
    roots: Vec<String>,
    key_usage: String,
    revocation: String,
    crls: Vec<Crl>,
}

#[derive(Serialize)]
struct ClientsOf {
    network: String,
    certificates: &'static str,
}

#[derive(Serialize)]
struct Crl {
    file: String,
    issuer: String,
    revoked: usize,
    next_update_unix_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

#[derive(Serialize)]
struct Tickets {
    from: &'static str,
    #[serde(flatten)]
    shown: ShownTickets,
}

#[derive(Serialize)]
struct Outgoing {
    trust: Vec<String>,
    key_usage: String,
    revocation: String,
    crls: Vec<Crl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Certificate>,
    /// The names with settings of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    called: Vec<Called>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handshakes: Option<Handshakes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<Connections>,
    /// Peers with which the next connection could resume.
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<usize>,
}

/// Names that are called otherwise. What is not there is as for all.
#[derive(Serialize)]
struct Called {
    names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expect: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trust: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    crls: Vec<Crl>,
    /// `null` where nothing is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Option<Certificate>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suites: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Peer {
    name: String,
    /// Who opened the connections: `peer` or `us`.
    opened_by: &'static str,
    handshakes: Handshakes,
    connections: Connections,
}

/// Connections closed at once.
#[derive(Serialize)]
struct RefusedConnections {
    too_many: u64,
    too_many_of_source: u64,
}

/// Handshakes that were not begun, over all listeners.
#[derive(Serialize)]
struct Refused {
    handshakes: u64,
    too_many_of_source: u64,
    too_many_full_waiting: u64,
}

impl Report {
    pub(crate) fn new(facts: &Facts<'_>) -> Self {
        let now = facts.now_unix_s;
        let mut warnings = Vec::new();
        let accepting = facts
            .listeners
            .iter()
            .enumerate()
            .filter_map(|(nth, listener)| Some((nth, listener.as_ref()?)))
            .filter(|(_, listener)| listener.accepts);
        let listeners: Vec<Listener> = accepting
            .map(|(nth, shown)| {
                let counted = facts.counted.and_then(|all| all.listeners.get(nth));
                Listener::new(shown, counted, now)
            })
            .collect();
        let outgoing = Outgoing::new(facts.outgoing, facts.counted, now);
        for listener in &listeners {
            let certificates = listener.certificates.iter();
            warnings.extend(certificates.filter_map(Certificate::told));
            warnings.extend(listener.clients.crls.iter().filter_map(Crl::told));
            if listener.engine == "legacy" {
                warnings.push(format!("{}: {}", listener.on, sip_tls::LEGACY_WARNING));
            }
        }
        warnings.extend(outgoing.identity.iter().filter_map(Certificate::told));
        warnings.extend(outgoing.crls.iter().filter_map(Crl::told));
        for called in &outgoing.called {
            let identity = called.identity.iter().flatten();
            warnings.extend(identity.filter_map(Certificate::told));
            warnings.extend(called.crls.iter().filter_map(Crl::told));
        }
        let tickets = facts.tickets;
        if let Some(trouble) = &tickets.trouble {
            warnings.push(format!(
                "the store with the secrets of session tickets cannot be read: {trouble}"
            ));
        }
        if tickets.is_own {
            warnings.push(
                "session tickets are good on this node and in this run alone, until the store can be read"
                    .to_owned(),
            );
        }
        // Several listeners may show the same.
        warnings.sort();
        warnings.dedup();
        Self {
            told_unix_s: now,
            warnings,
            listeners,
            tickets: Tickets {
                from: if tickets.is_store { "store" } else { "file" },
                shown: tickets.clone(),
            },
            outgoing,
            peers: facts.counted.map(peers).unwrap_or_default(),
            refused: facts.counted.map(|all| Refused {
                handshakes: all.handshakes.refused,
                too_many_of_source: all.handshakes.refused_source,
                too_many_full_waiting: all.handshakes.refused_full,
            }),
        }
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Listener {
    fn new(shown: &ListenerTls, counted: Option<&ListenerCounters>, now: u64) -> Self {
        let security = &shown.security;
        let certificates = shown.certificates.iter();
        let is_legacy = security.tls_engine() == TlsEngine::Legacy;
        Self {
            on: shown.place.clone(),
            certificates: certificates
                .map(|certificate| Certificate::new(certificate, now))
                .collect(),
            engine: if is_legacy { "legacy" } else { "modern" },
            versions: if is_legacy {
                vec![TlsVersion::V12.name()]
            } else {
                (security.tls_versions().into_iter())
                    .map(TlsVersion::name)
                    .collect()
            },
            suites: owned(&security.tls_suites()),
            groups: if is_legacy {
                Vec::new()
            } else {
                owned(&security.tls_groups())
            },
            clients: Clients {
                certificates: security.client_certificates.name(),
                of: (security.clients.iter())
                    .map(|clients| ClientsOf {
                        network: clients.network.0.to_string(),
                        certificates: clients.certificates.name(),
                    })
                    .collect(),
                roots: paths(&security.client_roots),
                key_usage: security.client_key_usage.name().to_owned(),
                revocation: security.revocation.name().to_owned(),
                crls: crls(&shown.crls, now),
            },
            handshakes: counted.map(|counted| Handshakes::new(&counted.tls)),
            connections: counted.map(|counted| Connections::new(&counted.connections)),
            refused_connections: counted.map(|counted| RefusedConnections {
                too_many: counted.refused_total,
                too_many_of_source: counted.refused_source,
            }),
        }
    }
}

impl Outgoing {
    fn new(shown: &ShownOutgoing, counted: Option<&Counted>, now: u64) -> Self {
        let identity = shown.identity.as_ref();
        Self {
            trust: paths(&shown.trust),
            key_usage: shown.key_usage.name().to_owned(),
            revocation: shown.revocation.name().to_owned(),
            crls: crls(&shown.crls, now),
            identity: identity.map(|certificate| Certificate::new(certificate, now)),
            called: (shown.called.iter())
                .map(|called| Called::new(called, now))
                .collect(),
            handshakes: counted.map(|counted| Handshakes::new(&counted.opened_tls)),
            connections: counted.map(|counted| Connections::new(&counted.opened)),
            sessions: counted.map(|counted| counted.sessions),
        }
    }
}

impl Called {
    fn new(shown: &ShownCalled, now: u64) -> Self {
        let identity = shown.identity.as_ref();
        Self {
            names: shown.names.clone(),
            expect: shown.expect.clone(),
            trust: paths(&shown.roots),
            crls: crls(&shown.crls, now),
            identity: identity.map(|identity| {
                let certificate = identity.as_ref();
                certificate.map(|certificate| Certificate::new(certificate, now))
            }),
            versions: shown.versions.clone(),
            suites: shown.suites.clone(),
            groups: shown.groups.clone(),
        }
    }
}

impl Certificate {
    fn new(shown: &ShownCertificate, now: u64) -> Self {
        Self {
            file: shown.file.display().to_string(),
            names: shown.names.clone(),
            issuer: shown.issuer.clone(),
            key: shown.key.clone(),
            not_before_unix_s: shown.not_before_unix_s,
            not_after_unix_s: shown.not_after_unix_s,
            days_left: shown.days_left(now),
            warning: shown.warning_at(now),
        }
    }

    fn told(&self) -> Option<String> {
        let warning = self.warning.as_ref()?;
        Some(format!("the certificate {}: {warning}", self.file))
    }
}

impl Crl {
    fn told(&self) -> Option<String> {
        let warning = self.warning.as_ref()?;
        Some(format!("the revocation list {}: {warning}", self.file))
    }
}

/// Each peer by who opened the connections, where there was anything.
fn peers(counted: &Counted) -> Vec<Peer> {
    let unused = SideCounters::default();
    let sides = counted.peers.iter().flat_map(|peer| {
        [("peer", &peer.accepted), ("us", &peer.opened)].map(|(by, side)| (peer, by, side))
    });
    sides
        .filter(|(_, _, side)| **side != unused)
        .map(|(peer, opened_by, side)| Peer {
            name: peer.name.to_string(),
            opened_by,
            handshakes: Handshakes::new(&side.tls),
            connections: Connections::new(&side.connections),
        })
        .collect()
}

fn crls(shown: &[ShownCrl], now: u64) -> Vec<Crl> {
    let told = shown.iter().map(|crl| Crl {
        file: crl.file.display().to_string(),
        issuer: crl.issuer.clone(),
        revoked: crl.revoked,
        next_update_unix_s: crl.next_update_unix_s,
        warning: crl.fault_at(now),
    });
    told.collect()
}

fn paths(files: &[std::path::PathBuf]) -> Vec<String> {
    files
        .iter()
        .map(|file| file.display().to_string())
        .collect()
}

fn owned<T: AsRef<str>>(names: &[T]) -> Vec<String> {
    names.iter().map(|name| name.as_ref().to_owned()).collect()
}
