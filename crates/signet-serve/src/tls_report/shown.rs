//! What TLS is made from, as it is told: certificates, lists, secrets by name.

use std::path::{Path, PathBuf};

use serde::Serialize;
use sip_tls::{KeyUsagePolicy, RevocationPolicy, TlsVersion};
use x509_parser::pem::Pem;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

use super::text::day;
use crate::Error;
use crate::ca::{first_pem, general_name};
use crate::config::{ListenSecurity, ShownIdentity, Tls, TlsPeer};
use crate::read_once::ReadOnce;

/// Days before the end of a certificate at which it is worth a warning.
const CERTIFICATE_DAYS_MIN: u64 = 14;

/// A listener's certificates and rules.
#[derive(Clone, Debug)]
pub(crate) struct ListenerTls {
    /// Where it listens.
    pub(crate) place: String,
    /// Whether it accepts; else it is only where connections are opened from.
    pub(crate) accepts: bool,
    pub(crate) certificates: Vec<ShownCertificate>,
    pub(crate) security: ListenSecurity,
    /// The revocation lists for clients.
    pub(crate) crls: Vec<ShownCrl>,
}

/// What connections are made from that this server opens.
#[derive(Clone, Debug)]
pub(crate) struct ShownOutgoing {
    /// The authorities that count besides the data folder's own.
    pub(crate) trust: Vec<PathBuf>,
    pub(crate) key_usage: KeyUsagePolicy,
    pub(crate) revocation: RevocationPolicy,
    pub(crate) crls: Vec<ShownCrl>,
    /// What is shown to peers that ask.
    pub(crate) identity: Option<ShownCertificate>,
    /// The names with settings of their own.
    pub(crate) called: Vec<ShownCalled>,
}

/// Names that are called with settings of their own. What is not said is as
/// for all.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownCalled {
    pub(crate) names: Vec<String>,
    /// The name that the certificate must bear.
    pub(crate) expect: Option<String>,
    /// The only authorities.
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) crls: Vec<ShownCrl>,
    /// What is shown; `Some(None)` for nothing.
    pub(crate) identity: Option<Option<ShownCertificate>>,
    pub(crate) versions: Option<Vec<&'static str>>,
    pub(crate) suites: Option<Vec<String>>,
    pub(crate) groups: Option<Vec<String>>,
}

impl ShownCalled {
    fn read(given: &TlsPeer, files: &ReadOnce) -> Result<Self, Error> {
        let identity = match &given.identity {
            None => None,
            Some(ShownIdentity::None) => Some(None),
            Some(ShownIdentity::Pair(pair)) => {
                Some(Some(ShownCertificate::read(&pair.cert, files)?))
            }
        };
        let own = given.versions.as_ref();
        let own = own.map(|all| all.iter().map(|version| version.0).collect());
        let chosen = given.chosen.as_ref();
        let versions: Option<Vec<TlsVersion>> =
            chosen.map(|chosen| chosen.versions.clone()).or(own);
        let suites = given.suites.as_deref().map(super::owned);
        let groups = given.groups.as_deref().map(super::owned);
        Ok(Self {
            names: given.names.iter().map(ToString::to_string).collect(),
            expect: given.expect.as_ref().map(ToString::to_string),
            roots: given.server_roots.clone(),
            crls: ShownCrl::read_all(&given.server_crls, files)?,
            identity,
            versions: versions.map(|all| all.into_iter().map(TlsVersion::name).collect()),
            suites: suites.or(chosen.map(|chosen| chosen.suites.clone())),
            groups: groups.or(chosen.map(|chosen| chosen.groups.clone())),
        })
    }
}

impl ShownOutgoing {
    pub(crate) fn read(given: &Tls, files: &ReadOnce) -> Result<Self, Error> {
        let identity = given.identity.as_ref();
        Ok(Self {
            trust: given.trust.clone(),
            key_usage: given.key_usage,
            revocation: given.revocation,
            crls: ShownCrl::read_all(&given.crls, files)?,
            identity: identity
                .map(|pair| ShownCertificate::read(&pair.cert, files))
                .transpose()?,
            called: (given.peer.iter())
                .map(|peer| ShownCalled::read(peer, files))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Every certificate that is shown to peers.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = &ShownCertificate> {
        let called = self.called.iter();
        let of_called = called.flat_map(|called| called.identity.iter().flatten());
        self.identity.iter().chain(of_called)
    }
}

/// Where the keys of session tickets come from; no secret is in it.
#[derive(Clone, Debug, Default, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShownSecret {
    pub(crate) id: String,
    /// `None` where the secret is in a file, which does not say it.
    pub(crate) created_unix_s: Option<u64>,
    pub(crate) not_after_unix_s: Option<u64>,
}

/// A revocation list.
#[derive(Clone, Debug)]
pub(crate) struct ShownCrl {
    pub(crate) file: PathBuf,
    pub(crate) issuer: String,
    /// Certificates in it.
    pub(crate) revoked: usize,
    /// When the next one is due; `None` where the list does not say.
    pub(crate) next_update_unix_s: Option<u64>,
}

impl ShownCrl {
    /// Reads every list in these PEM files.
    pub(crate) fn read_all(crls: &[PathBuf], files: &ReadOnce) -> Result<Vec<Self>, Error> {
        let mut found = Vec::new();
        for file in crls {
            let pem = (files.read(file)).map_err(|error| Error::file("read", file, &error))?;
            // What is no list is found out by who uses it.
            for pem in Pem::iter_from_buffer(&pem).filter_map(Result::ok) {
                if let Ok((_, crl)) = CertificateRevocationList::from_der(&pem.contents) {
                    found.push(Self {
                        file: file.clone(),
                        issuer: crl.issuer().to_string(),
                        revoked: crl.iter_revoked_certificates().count(),
                        next_update_unix_s: crl.next_update().map(|at| seconds(at.timestamp())),
                    });
                }
            }
        }
        Ok(found)
    }

    /// Why it counts for little.
    pub(crate) fn fault_at(&self, now_unix_s: u64) -> Option<String> {
        let due = self.next_update_unix_s?;
        (now_unix_s > due).then(|| format!("its next one was due on {}", day(due)))
    }
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
    pub(crate) fn read(file: &Path, files: &ReadOnce) -> Result<Self, Error> {
        let pem = (files.read(file)).map_err(|error| Error::file("read", file, &error))?;
        let unreadable = || {
            Error::new(
                format!("{} holds no certificate that can be read", file.display()),
                "name a PEM file with the chain, the server's own certificate first",
            )
        };
        let pem = first_pem(&pem).ok_or_else(unreadable)?;
        let leaf = pem.parse_x509().map_err(|_| unreadable())?;
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

    /// What is wrong with it, or will be soon.
    pub(crate) fn warning_at(&self, now_unix_s: u64) -> Option<String> {
        self.fault_at(now_unix_s).or_else(|| {
            let days = self.days_left(now_unix_s);
            (days < CERTIFICATE_DAYS_MIN).then(|| format!("it expires in {days} days"))
        })
    }

    /// Whole days until its end.
    pub(crate) fn days_left(&self, now_unix_s: u64) -> u64 {
        self.not_after_unix_s.saturating_sub(now_unix_s) / 86_400
    }
}

fn seconds(at: i64) -> u64 {
    u64::try_from(at).unwrap_or(0)
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
