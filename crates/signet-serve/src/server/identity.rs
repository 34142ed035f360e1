//! What TLS shows and believes: the certificates of the listeners, the
//! operator's own or the data folder's authority's; whom clients and peers are
//! certified by; the keys of session tickets.
//!
//! It is read in one step and taken into service in another, so that a reload
//! changes everything or nothing.

mod own;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use sip_net::clock;
use sip_tls::{
    ClientTls, ClientTlsConfig, ServerTls, ServerTlsConfig, TicketKeys, TlsConfig, TlsEngine,
    TlsError,
};

use crate::Error;
use crate::ca::{Ca, Issued, machine_names};
use crate::config::{CertificatePair, Config, Domain, Fault, ListenSecurity, ShownIdentity};
use crate::data_dir::{DataDir, refuse_readable_by_others, unreadable};
use crate::places::{self, Unwritable};
use crate::read_once::{Bytes, ReadOnce};
use crate::setup::PlannedListener;
use crate::tls_report::{ListenerTls, ShownCertificate, ShownCrl, ShownOutgoing};

use super::tickets::{Tickets, shared_secret};

use super::outgoing::{self, ReadPeer};

use own::Own;

/// What handshakes are made from.
pub(super) struct Identity {
    /// One for each listener; none where it has no TLS.
    pub(super) listeners: Vec<Option<Arc<ServerTls>>>,
    own: Own,
    /// For connections that this server opens.
    pub(super) client: Arc<ClientTls>,
    client_print: u64,
    /// The same for names with settings of their own.
    pub(super) peers: outgoing::Peers,
    /// The keys of session tickets.
    pub(super) tickets: TicketKeys,
    shown: Vec<Option<ListenerTls>>,
    outgoing: ShownOutgoing,
}

/// What was read for an [`Identity`], and found good.
pub(super) struct Material {
    listeners: Vec<Option<ServerTlsConfig>>,
    own: Own,
    client: ClientTlsConfig,
    client_print: u64,
    peers: Vec<ReadPeer>,
    tickets: TicketKeys,
    shown: Vec<Option<ListenerTls>>,
    outgoing: ShownOutgoing,
}

impl Material {
    /// Reads every certificate, key, list and secret, each file once, or fails as a whole.
    pub(super) fn read(
        config: &Config,
        data: &DataDir,
        domains: &[Domain],
        planned: &[PlannedListener],
        tickets: &Tickets,
    ) -> Result<Self, Error> {
        let ca = Ca::open_or_init(data)?;
        let own = ca.server_certificate(data, &names(domains, planned))?;
        let ca_pem = data.file("ca.pem");
        let tickets = tickets.keys(config, data)?;
        let files = ReadOnce::default();
        let mut listeners = Vec::new();
        let mut of_own = Vec::new();
        let mut shown = Vec::new();
        for listener in planned {
            if !listener.at.transport.is_secure() {
                listeners.push(None);
                of_own.push(None);
                shown.push(None);
                continue;
            }
            let security = &listener.security;
            let rules = listener_rules(security, &ca_pem, &files)?.tickets(tickets.clone());
            let (tls, of) = match security.pairs().next() {
                Some(_) => (add_pairs(rules, security, &files)?, None),
                None => (own::add(rules.clone(), &own, &files)?, Some(rules)),
            };
            // What cannot be used is to be known before anything is replaced.
            tls.clone().build()?;
            listeners.push(Some(tls));
            of_own.push(of);
            shown.push(Some(ListenerTls {
                place: listener.at.to_string(),
                accepts: listener.accept,
                certificates: shown_certificates(security, &own, &files)?,
                security: security.clone(),
                crls: ShownCrl::read_all(&security.crls, &files)?,
            }));
        }
        let client = outgoing::read_all(config, &ca_pem, &files)?;
        Ok(Self {
            listeners,
            own: Own::read(&ca, &own, of_own, &files)?,
            client: client.tls,
            client_print: client.print,
            peers: outgoing::read_peers(config, &ca_pem, &files)?,
            tickets,
            shown,
            outgoing: ShownOutgoing::read(&config.tls, &files)?,
        })
    }
}

impl Identity {
    pub(super) fn new(material: Material) -> Result<Self, Error> {
        warn_of_time(&material.shown, &material.outgoing);
        warn_of_legacy(&material.shown);
        let listeners = material
            .listeners
            .into_iter()
            .map(|tls| tls.map(|tls| tls.build().map(Arc::new)).transpose())
            .collect::<Result<_, TlsError>>()?;
        let client = material.client.build()?;
        let mut peers = outgoing::Peers::default();
        peers.replace(material.peers)?;
        Ok(Self {
            peers,
            listeners,
            own: material.own,
            client: Arc::new(client),
            client_print: material.client_print,
            tickets: material.tickets,
            shown: material.shown,
            outgoing: material.outgoing,
        })
    }

    /// Whether `fresh` may take the place of what is in service. A new
    /// certificate whose time is not now would shut out every client, or have
    /// peers refuse every call; one that is in service already changes nothing.
    pub(super) fn admits(&self, fresh: &Material) -> Result<(), Error> {
        let now_unix_s = clock::unix_ms() / 1_000;
        let held: BTreeSet<&[u8]> = certificates(&self.shown, &self.outgoing)
            .map(|(_, certificate)| certificate.der.as_slice())
            .collect();
        for (to, certificate) in certificates(&fresh.shown, &fresh.outgoing) {
            let file = certificate.file.display();
            if held.contains(certificate.der.as_slice()) {
                warn_of(certificate, to, now_unix_s);
            } else if let Some(fault) = certificate.fault_at(now_unix_s) {
                return Err(Error::new(
                    format!("the new certificate {file} cannot be used: {fault}"),
                    "put one there whose time is now; the one before stays in service",
                ));
            }
        }
        Ok(())
    }

    /// Takes `fresh` into service for the handshakes to come. It was found
    /// good as it was read, and is not read again; connections go on.
    pub(super) fn replace(&mut self, fresh: Material) -> Result<(), Error> {
        for (held, fresh) in self.listeners.iter().zip(fresh.listeners) {
            if let (Some(held), Some(fresh)) = (held, fresh) {
                held.reload(fresh)?;
            }
        }
        // A change here ends the sessions with peers: not for nothing.
        if fresh.client_print != self.client_print {
            self.client.reload(fresh.client)?;
            self.client_print = fresh.client_print;
        }
        self.peers.replace(fresh.peers)?;
        self.tickets = fresh.tickets;
        self.own = fresh.own;
        self.shown = fresh.shown;
        self.outgoing = fresh.outgoing;
        warn_of_legacy(&self.shown);
        Ok(())
    }

    /// Tells the log of certificates in service whose time is over, or soon will be.
    pub(super) fn warn(&self) {
        warn_of_time(&self.shown, &self.outgoing);
    }

    /// What is in service, for who asks.
    pub(super) fn shown(&self) -> (Vec<Option<ListenerTls>>, ShownOutgoing) {
        (self.shown.clone(), self.outgoing.clone())
    }
}

/// What is wrong with the certificates, keys, authorities, lists and secrets
/// that a configuration names.
pub(crate) fn faults_of_files(config: &Config) -> Vec<Fault> {
    let mut faults = FileFaults::default();
    for (nth, listen) in config.listen.iter().enumerate() {
        let security = &listen.security;
        let at = format!("listen.{nth}.security");
        for (place, cert, key) in security.pairs() {
            let read = add_pair(ServerTlsConfig::new(), cert, key, &ReadOnce::default());
            let at = match place.is_empty() && read.is_err() {
                true => format!("{at}.{}", key_at_fault(cert, key)),
                false => format!("{at}{place}"),
            };
            faults.note(&at, read);
        }
        faults.note(&at, check_legacy(security));
        faults.roots(&format!("{at}.client_roots"), &security.client_roots);
        faults.crls(&format!("{at}.crls"), &security.crls);
    }
    faults.roots("tls.trust", &config.tls.trust);
    faults.crls("tls.crls", &config.tls.crls);
    faults.identity("tls.identity", config.tls.identity.as_ref());
    for (nth, peer) in config.tls.peer.iter().enumerate() {
        let at = format!("tls.peer.{nth}");
        faults.roots(&format!("{at}.server_roots"), &peer.server_roots);
        faults.crls(&format!("{at}.server_crls"), &peer.server_crls);
        if let Some(ShownIdentity::Pair(pair)) = &peer.identity {
            faults.identity(&format!("{at}.identity"), Some(pair));
        }
    }
    if let Some(file) = &config.tls.ticket_secret_file {
        faults.note("tls.ticket_secret_file", shared_secret(file));
    }
    if let Some(file) = &config.tls.ticket_store
        && let Err((Errno::EACCES, error)) = can_hold_a_database(file)
    {
        faults.note::<()>("tls.ticket_store", Err(error));
    }
    faults.0
}

/// What is wrong with such files and keeps no server from its start: the time of a certificate,
/// since UDP and TCP work, and a clock may be wrong; the folder of the secrets that nodes share,
/// since each has one of its own until then.
pub(crate) fn faults_that_a_start_survives(config: &Config) -> Vec<Fault> {
    let mut faults = FileFaults::default();
    let now_unix_s = clock::unix_ms() / 1_000;
    for (at, cert) in named_certificates(config) {
        if let Ok(certificate) = ShownCertificate::read(cert, &ReadOnce::default())
            && let Some(what) = certificate.fault_at(now_unix_s)
        {
            let what = format!("{}: {what}", cert.display());
            let error = Error::new(what, "name one whose time is now");
            faults.note::<()>(&at, Err(error));
        }
    }
    if let Some(file) = &config.tls.ticket_store
        && let Err((cause, error)) = can_hold_a_database(file)
        && cause != Errno::EACCES
    {
        faults.note::<()>("tls.ticket_store", Err(error));
    }
    faults.0
}

/// The certificates that a configuration names to be shown, each with its place.
fn named_certificates(config: &Config) -> Vec<(String, &Path)> {
    let mut named = Vec::new();
    for (nth, listen) in config.listen.iter().enumerate() {
        for (place, cert, _) in listen.security.pairs() {
            let at = match place.is_empty() {
                true => format!("listen.{nth}.security.certificate"),
                false => format!("listen.{nth}.security{place}"),
            };
            named.push((at, cert));
        }
    }
    if let Some(pair) = &config.tls.identity {
        named.push(("tls.identity".to_owned(), pair.cert.as_path()));
    }
    for (nth, peer) in config.tls.peer.iter().enumerate() {
        if let Some(ShownIdentity::Pair(pair)) = &peer.identity {
            named.push((format!("tls.peer.{nth}.identity"), pair.cert.as_path()));
        }
    }
    named
}

/// Whether the folder of a database that nodes share is there, and may be written to.
fn can_hold_a_database(file: &Path) -> Result<(), Unwritable> {
    let Some(folder) = file.parent().filter(|folder| folder.is_dir()) else {
        let error = Error::new(
            format!("there is no folder for {}", file.display()),
            "make the folder, with mode 0700; the database in it is made by the first node",
        );
        return Err((Errno::ENOENT, error));
    };
    places::may_write_to(folder)
}

/// Which of this server's domains no certificate of a listener bears: clients that call it
/// by its domain will refuse it (RFC 5922 7.1).
pub(crate) fn domains_without_certificate(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for (nth, listen) in config.listen.iter().enumerate() {
        let files = ReadOnce::default();
        let read = |(_, cert, _): (String, &Path, &Path)| ShownCertificate::read(cert, &files).ok();
        let shown: Vec<_> = listen.security.pairs().filter_map(read).collect();
        let names: BTreeSet<String> = shown
            .iter()
            .flat_map(|certificate| &certificate.names)
            .map(|name| name.to_ascii_lowercase())
            .collect();
        let bears = |name: &str| names.contains(name) || names.contains(&format!("sip:{name}"));
        let is_named = listen.advertise.as_ref().is_some_and(|of| bears(&of.host));
        let missing: Vec<_> = (config.domains.iter())
            .filter(|domain| !bears(&domain.0))
            .map(Domain::to_string)
            .collect();
        if !shown.is_empty() && !is_named && !missing.is_empty() {
            warnings.push(format!(
                "listen.{nth}.security: its certificates are for {}, and none for {}: clients that call the server by that name will refuse them",
                names.into_iter().collect::<Vec<_>>().join(", "),
                missing.join(", ")
            ));
        }
    }
    warnings
}

/// What is wrong with files, each at its place in the configuration.
#[derive(Default)]
struct FileFaults(Vec<Fault>);

impl FileFaults {
    /// Notes what is wrong with a file that was read.
    fn note<T>(&mut self, at: &str, read: Result<T, Error>) {
        self.0.extend(read.err().map(|error| Fault {
            at: at.to_owned(),
            what: error.what().to_owned(),
            remedy: error.remedy().to_owned(),
        }));
    }

    fn roots(&mut self, at: &str, files: &[PathBuf]) {
        for (nth, file) in files.iter().enumerate() {
            let read = ClientTlsConfig::new().roots_pem_files(&[file]);
            self.note(
                &format!("{at}.{nth}"),
                read.map_err(|error| roots_error(&error)),
            );
        }
    }

    fn crls(&mut self, at: &str, files: &[PathBuf]) {
        for (nth, file) in files.iter().enumerate() {
            let read = ClientTlsConfig::new().crl_pem_files(&[file]);
            self.note(
                &format!("{at}.{nth}"),
                read.map_err(|error| crl_error(&error)),
            );
        }
    }

    fn identity(&mut self, at: &str, pair: Option<&CertificatePair>) {
        if let Some(pair) = pair {
            let (tls, files) = (ClientTlsConfig::new(), ReadOnce::default());
            self.note(at, add_identity(tls, &pair.cert, &pair.key, &files));
        }
    }
}

/// What a listener would show by this configuration, as far as files tell.
pub(crate) fn shown_by_files(
    security: &ListenSecurity,
    data: &Path,
    files: &ReadOnce,
) -> Result<Vec<ShownCertificate>, Error> {
    let own = Issued {
        certificate: data.join("server.pem"),
        key: data.join("server.key"),
    };
    shown_certificates(security, &own, files)
}

/// What the handshakes of a listener are made from, but for the certificates that it shows.
fn listener_rules(
    security: &ListenSecurity,
    ca_pem: &Path,
    files: &ReadOnce,
) -> Result<ServerTlsConfig, Error> {
    let mut tls = security.server_tls();
    if !security.asks_for_certificates() {
        return Ok(tls);
    }
    for clients in &security.clients {
        let (network, asks) = (clients.network, clients.certificates);
        tls = tls.client_auth_of(network.0, asks);
    }
    let own_root = [ca_pem.to_owned()];
    let roots = if security.client_roots.is_empty() {
        own_root.as_slice()
    } else {
        &security.client_roots
    };
    let tls = tls
        .client_auth(security.client_certificates)
        .key_usage(security.client_key_usage)
        .revocation(security.revocation);
    add_crls(add_roots(tls, roots, files)?, &security.crls, files)
}

/// Authorities.
pub(super) fn add_roots<S>(
    tls: TlsConfig<S>,
    roots: &[PathBuf],
    files: &ReadOnce,
) -> Result<TlsConfig<S>, Error> {
    roots.iter().try_fold(tls, |tls, file| {
        pem_of(file, files)
            .and_then(|pem| tls.roots_pem_of(file, &pem))
            .map_err(|error| roots_error(&error))
    })
}

/// Revocation lists.
pub(super) fn add_crls<S>(
    tls: TlsConfig<S>,
    crls: &[PathBuf],
    files: &ReadOnce,
) -> Result<TlsConfig<S>, Error> {
    crls.iter().try_fold(tls, |tls, file| {
        pem_of(file, files)
            .and_then(|pem| tls.crl_pem_of(file, &pem))
            .map_err(|error| crl_error(&error))
    })
}

fn pem_of(file: &Path, files: &ReadOnce) -> Result<Bytes, TlsError> {
    files.read(file).map_err(|error| TlsError {
        file: Some(file.to_owned()),
        reason: format!("cannot be read: {error}"),
    })
}

/// Whether a listener of the legacy engine has a certificate that fits, as far
/// as its files can be read.
fn check_legacy(security: &ListenSecurity) -> Result<(), Error> {
    if security.tls_engine() == TlsEngine::Modern {
        return Ok(());
    }
    let mut tls = security.server_tls();
    let files = ReadOnce::default();
    let mut has_pair = false;
    for (_, cert, key) in security.pairs() {
        tls = match add_pair(tls, cert, key, &files) {
            Ok(tls) => tls,
            // That is told in its own place.
            Err(_) => return Ok(()),
        };
        has_pair = true;
    }
    if !has_pair {
        let error = Error::new(
            "the legacy suites need a certificate with an RSA key, and the data folder's own has another",
            "issue one: signet ca issue --key-type rsa2048 NAME; then write certificate = \"NAME.pem\", key = \"NAME.key\"",
        );
        return Err(error);
    }
    tls.build().map(|_| ()).map_err(Error::from)
}

/// Says what weak suites are worth, where they are offered.
fn warn_of_legacy(shown: &[Option<ListenerTls>]) {
    for listener in shown.iter().flatten() {
        if listener.security.tls_engine() == TlsEngine::Legacy {
            tracing::warn!("{}: {}", listener.place, sip_tls::LEGACY_WARNING);
        }
    }
}

/// The operator's pairs.
fn add_pairs(
    tls: ServerTlsConfig,
    security: &ListenSecurity,
    files: &ReadOnce,
) -> Result<ServerTlsConfig, Error> {
    let mut pairs = security.pairs();
    pairs.try_fold(tls, |tls, (_, cert, key)| add_pair(tls, cert, key, files))
}

fn add_pair(
    tls: ServerTlsConfig,
    cert: &Path,
    key: &Path,
    files: &ReadOnce,
) -> Result<ServerTlsConfig, Error> {
    let (chain, secret) = read_pair(cert, key, files)?;
    tls.pair_pem_of((cert, chain.as_slice()), (key, secret.as_slice()))
        .map_err(|error| pair_error(cert, key, &error))
}

pub(super) fn add_identity(
    tls: ClientTlsConfig,
    cert: &Path,
    key: &Path,
    files: &ReadOnce,
) -> Result<ClientTlsConfig, Error> {
    let (chain, secret) = read_pair(cert, key, files)?;
    tls.identity_pem_of((cert, chain.as_slice()), (key, secret.as_slice()))
        .map_err(|error| pair_error(cert, key, &error))
}

/// Reads a certificate and its key; an error where one is not what it should be, or the key is
/// not for its owner alone.
fn read_pair(cert: &Path, key: &Path, files: &ReadOnce) -> Result<(Bytes, Bytes), Error> {
    let read = |file: &Path| (files.read(file)).map_err(|error| unreadable("read", file, &error));
    let (chain, secret) = (read(cert)?, read(key)?);
    let holds = |text: &[u8], what: &str| text.windows(what.len()).any(|of| of == what.as_bytes());
    if holds(&chain, PRIVATE_KEY) && holds(&secret, CERTIFICATE) && !holds(&chain, CERTIFICATE) {
        return Err(Error::new(
            format!(
                "{} holds the key and {} the certificate",
                cert.display(),
                key.display()
            ),
            "name them the other way round",
        ));
    }
    refuse_readable_by_others("the key", key)?;
    Ok((chain, secret))
}

/// How PEM files say what they hold.
const CERTIFICATE: &str = "BEGIN CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Which of the two a fault of a pair is to be shown at.
fn key_at_fault(cert: &Path, key: &Path) -> &'static str {
    match ServerTlsConfig::new().pair_pem_files(cert, key) {
        // What is in them is good: others may read the key.
        Ok(_) => "key",
        Err(error) if error.file.as_deref() == Some(key) => "key",
        Err(_) => "certificate",
    }
}

fn shown_certificates(
    security: &ListenSecurity,
    own: &Issued,
    files: &ReadOnce,
) -> Result<Vec<ShownCertificate>, Error> {
    let given: Vec<_> = security
        .pairs()
        .map(|(_, cert, _)| ShownCertificate::read(cert, files))
        .collect::<Result<_, _>>()?;
    if given.is_empty() {
        return Ok(vec![ShownCertificate::read(&own.certificate, files)?]);
    }
    Ok(given)
}

/// Tells the log of certificates whose time is not now, or soon over.
fn warn_of_time(shown: &[Option<ListenerTls>], outgoing: &ShownOutgoing) {
    let now_unix_s = clock::unix_ms() / 1_000;
    for (to, certificate) in certificates(shown, outgoing) {
        warn_of(certificate, to, now_unix_s);
    }
}

/// The same of one; `to` are those whom it is shown.
fn warn_of(certificate: &ShownCertificate, to: &str, now_unix_s: u64) {
    let file = certificate.file.display();
    if let Some(fault) = certificate.fault_at(now_unix_s) {
        tracing::warn!("{file}: {fault}; {to} will refuse it");
    } else if let Some(warning) = certificate.warning_at(now_unix_s) {
        tracing::warn!("{file}: {warning}");
    }
}

/// All that are shown, each with those whom it is shown.
fn certificates<'s>(
    shown: &'s [Option<ListenerTls>],
    outgoing: &'s ShownOutgoing,
) -> impl Iterator<Item = (&'static str, &'s ShownCertificate)> {
    let accepting = (shown.iter().flatten()).filter(|listener| listener.accepts);
    let to_clients = accepting.flat_map(|listener| &listener.certificates);
    let to_clients = to_clients.map(|certificate| ("clients", certificate));
    to_clients.chain(outgoing.certificates().map(|shown| ("peers", shown)))
}

fn pair_error(cert: &Path, key: &Path, error: &TlsError) -> Error {
    Error::new(
        format!(
            "the certificate {} with the key {} cannot be used: {error}",
            cert.display(),
            key.display()
        ),
        "both are PEM files; the certificate is the chain, the server's own first, and the key is its key",
    )
}

fn roots_error(error: &TlsError) -> Error {
    Error::new(
        error.to_string(),
        "name a PEM file with the certificates of authorities",
    )
}

fn crl_error(error: &TlsError) -> Error {
    Error::new(
        error.to_string(),
        "name a PEM file with revocation lists; of one in DER: openssl crl -inform DER -in FILE -out FILE.pem",
    )
}

/// Every name under which a phone may reach this server.
// RFC 3261 26.3.2.1: "the site identified by the certificate MUST correspond with the domain in which
// the UA intends to register"
fn names(domains: &[Domain], planned: &[PlannedListener]) -> Vec<String> {
    let advertised = planned
        .iter()
        .filter_map(|listener| listener.advertise.as_ref());
    let bound = planned.iter().map(|listener| listener.at.addr.ip());
    let mut names: Vec<String> = domains.iter().map(Domain::to_string).collect();
    names.extend(advertised.map(|advertise| advertise.host.to_string()));
    names.extend(
        bound
            .filter(|ip| !ip.is_unspecified())
            .map(|ip| ip.to_string()),
    );
    names.extend(machine_names());
    names
}

#[cfg(test)]
mod tests;
