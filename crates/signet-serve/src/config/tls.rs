//! The parts of a configuration that are about TLS.

use std::path::{Path, PathBuf};

use protection::{Level, Policy};
use serde::Deserialize;
use sip_tls::{
    ClientAuth, ClientTlsConfig, KeyUsagePolicy, RevocationPolicy, ServerTlsConfig, TlsEngine,
    TlsError, TlsVersion,
};

use super::peers::TlsPeer;
use super::policy::{Chosen, policy};
use super::values::{Network, some_within, within};

/// What a TLS listener shows, takes and asks for. Without any certificate it
/// shows that of the data folder's own CA.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenSecurity {
    /// PEM file: the chain, the server's own certificate first.
    pub certificate: Option<PathBuf>,
    /// PEM file: its private key.
    pub key: Option<PathBuf>,
    /// Further certificates beside it: of another kind, for another name.
    pub certificates: Vec<CertificatePair>,
    /// Which library speaks: see [`ListenSecurity::tls_engine`].
    pub engine: TlsEngine,
    /// The versions that are taken.
    pub versions: Vec<VersionName>,
    /// The cipher suites that are taken, where they are not left to the policy.
    pub suites: Option<Vec<SuiteName>>,
    /// The key-exchange groups that are taken, most preferred first, where they
    /// are not left to the policy.
    pub groups: Option<Vec<GroupName>>,
    /// The least level of confidentiality.
    pub min_confidentiality: Option<Level>,
    /// The least level of authentication.
    pub min_authentication: Option<Level>,
    /// The CPU time that protecting a message may take.
    #[serde(deserialize_with = "some_within::<_, _, 1, 1_000_000>")]
    pub max_cost_us: Option<u32>,
    /// What the policy comes to, once it is worked out.
    #[serde(skip)]
    pub chosen: Option<Chosen>,
    /// Whether clients show certificates.
    pub client_certificates: ClientAuth,
    /// Networks with rules of their own for client certificates; the first that matches applies.
    pub clients: Vec<ClientsOf>,
    /// Whether a certificate with a user's SIP URI stands for his password.
    pub client_certificates_authenticate: bool,
    /// PEM files with the authorities of clients; without any, the data
    /// folder's own CA.
    pub client_roots: Vec<PathBuf>,
    /// What extendedKeyUsage a client's certificate must have.
    pub client_key_usage: KeyUsagePolicy,
    /// PEM files with revocation lists for clients.
    pub crls: Vec<PathBuf>,
    /// What is asked of these lists.
    pub revocation: RevocationPolicy,
}

impl Default for ListenSecurity {
    fn default() -> Self {
        Self {
            certificate: None,
            key: None,
            certificates: Vec::new(),
            engine: TlsEngine::default(),
            versions: TlsVersion::ALL.map(VersionName).into(),
            suites: None,
            groups: None,
            min_confidentiality: None,
            min_authentication: None,
            max_cost_us: None,
            chosen: None,
            client_certificates: ClientAuth::default(),
            clients: Vec::new(),
            client_certificates_authenticate: false,
            client_roots: Vec::new(),
            client_key_usage: KeyUsagePolicy::default(),
            crls: Vec::new(),
            revocation: RevocationPolicy::default(),
        }
    }
}

impl ListenSecurity {
    /// Every pair that is given whole, with its place in the file.
    pub fn pairs(&self) -> impl Iterator<Item = (String, &Path, &Path)> {
        let first = match (&self.certificate, &self.key) {
            (Some(cert), Some(key)) => Some((String::new(), cert.as_path(), key.as_path())),
            _ => None,
        };
        let others = self.certificates.iter().enumerate().map(|(nth, pair)| {
            let place = format!(".certificates.{nth}");
            (place, pair.cert.as_path(), pair.key.as_path())
        });
        first.into_iter().chain(others)
    }

    /// Whether any client is asked for a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        let others = self.clients.iter().map(|clients| clients.certificates);
        std::iter::once(self.client_certificates)
            .chain(others)
            .any(|asks| asks != ClientAuth::Off)
    }

    /// Whether versions, suites and groups leave something to agree on.
    pub(crate) fn check_algorithms(&self) -> Result<(), TlsError> {
        let config = ClientTlsConfig::new()
            .engine(self.tls_engine())
            .versions(&self.tls_versions())
            .suites(&self.tls_suites())
            .groups(&self.tls_groups());
        config.build().map(|_| ())
    }

    /// A listener's configuration with what is not a file.
    pub(crate) fn server_tls(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .engine(self.tls_engine())
            .versions(&self.tls_versions())
            .suites(&self.tls_suites())
            .groups(&self.tls_groups())
    }

    /// The engine that is asked for, by its name or by that of a suite.
    pub fn tls_engine(&self) -> TlsEngine {
        let by_suite = (self.suites.iter().flatten())
            .any(|suite| TlsEngine::of_suite(&suite.0) == TlsEngine::Legacy);
        if by_suite || self.engine == TlsEngine::Legacy {
            TlsEngine::Legacy
        } else {
            TlsEngine::Modern
        }
    }

    /// The suites that are taken: those that are written down, or else those
    /// that the policy leaves, or else all that the engine has.
    pub fn tls_suites(&self) -> Vec<&str> {
        match (&self.suites, &self.chosen) {
            (Some(given), _) => given.iter().map(AsRef::as_ref).collect(),
            (None, Some(chosen)) => chosen.suites.iter().map(String::as_str).collect(),
            (None, None) => self.tls_engine().suite_names().to_vec(),
        }
    }

    /// The groups that are taken, in the same way.
    pub fn tls_groups(&self) -> Vec<&str> {
        match (&self.groups, &self.chosen) {
            (Some(given), _) => given.iter().map(AsRef::as_ref).collect(),
            (None, Some(chosen)) => chosen.groups.iter().map(String::as_str).collect(),
            (None, None) => DEFAULT_GROUPS.to_vec(),
        }
    }

    /// The versions that are taken: of those that are written down, the ones
    /// that the policy leaves a suite for.
    pub(crate) fn tls_versions(&self) -> Vec<TlsVersion> {
        match &self.chosen {
            Some(chosen) => chosen.versions.clone(),
            None => self.versions.iter().map(|version| version.0).collect(),
        }
    }

    /// What is asked of suites and groups.
    pub(super) fn policy(&self) -> Policy {
        policy(
            self.min_confidentiality,
            self.min_authentication,
            self.max_cost_us,
        )
    }

    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let pairs = self.certificates.iter_mut();
        (self.certificate.iter_mut())
            .chain(self.key.iter_mut())
            .chain(pairs.flat_map(|pair| [&mut pair.cert, &mut pair.key]))
            .chain(self.client_roots.iter_mut())
            .chain(self.crls.iter_mut())
    }
}

/// A network with its own rules for client certificates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsOf {
    /// Where they come from.
    pub network: Network,
    /// Whether they show certificates.
    pub certificates: ClientAuth,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificatePair {
    /// PEM file: the chain, the certificate that is shown first.
    pub cert: PathBuf,
    /// PEM file: its private key.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct VersionName(pub TlsVersion);

impl TryFrom<String> for VersionName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        TlsVersion::by_name(&text).map(Self).map_err(in_two_lines)
    }
}

/// A cipher suite that is known here, by its name at IANA or in openssl.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SuiteName(pub String);

impl TryFrom<String> for SuiteName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        // Where they may stand is another question, which the listener answers.
        if TlsEngine::of_suite(&text) == TlsEngine::Legacy {
            return Ok(Self(text));
        }
        match ClientTlsConfig::new().suites(&[&text]).build() {
            Ok(_) => Ok(Self(text)),
            Err(error) => Err(in_two_lines(error)),
        }
    }
}

impl AsRef<str> for SuiteName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// A key-exchange group that is known here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct GroupName(pub String);

impl TryFrom<String> for GroupName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match ClientTlsConfig::new().groups(&[&text]).build() {
            Ok(_) => Ok(Self(text)),
            Err(error) => Err(in_two_lines(error)),
        }
    }
}

impl AsRef<str> for GroupName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Where the secret comes from, from which the keys of session tickets are
/// derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TicketKeysFrom {
    /// A database, which makes and renews it, and which nodes may share.
    #[default]
    Store,
    /// A file.
    File,
}

/// A path; the empty one is none.
fn file_or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(from)?;
    Ok((!path.as_os_str().is_empty()).then_some(path))
}

/// TLS, as far as it is not a listener's own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// PEM files with the authorities that peers may be certified by; the
    /// data folder's own CA always counts.
    pub trust: Vec<PathBuf>,
    /// What extendedKeyUsage a peer's certificate must have.
    pub key_usage: KeyUsagePolicy,
    /// PEM files with revocation lists for peers.
    pub crls: Vec<PathBuf>,
    /// What is asked of these lists.
    pub revocation: RevocationPolicy,
    /// The versions that are offered to peers.
    pub versions: Vec<VersionName>,
    /// The cipher suites that are offered to peers, where they are not left to
    /// the policy.
    pub suites: Option<Vec<SuiteName>>,
    /// The key-exchange groups that are offered to peers, most preferred first,
    /// where they are not left to the policy.
    pub groups: Option<Vec<GroupName>>,
    /// The least level of confidentiality.
    pub min_confidentiality: Option<Level>,
    /// The least level of authentication.
    pub min_authentication: Option<Level>,
    /// The CPU time that protecting a message may take.
    #[serde(deserialize_with = "some_within::<_, _, 1, 1_000_000>")]
    pub max_cost_us: Option<u32>,
    /// What the policy comes to, once it is worked out.
    #[serde(skip)]
    pub chosen: Option<Chosen>,
    /// What protections cost on this machine, as `signet price crypto` wrote it;
    /// without it, prices of another machine.
    #[serde(deserialize_with = "file_or_none")]
    pub prices: Option<PathBuf>,
    /// Names to which connections are opened otherwise.
    pub peer: Vec<TlsPeer>,
    /// The certificate that is shown to peers which ask for one.
    pub identity: Option<CertificatePair>,
    /// Where the secret of session tickets comes from.
    pub ticket_keys: TicketKeysFrom,
    /// The database that has it, where nodes share one; without it, the data
    /// folder's own.
    #[serde(deserialize_with = "file_or_none")]
    pub ticket_store: Option<PathBuf>,
    /// How often the database is looked at for a new secret.
    #[serde(deserialize_with = "within::<_, _, 1, 3_600>")]
    pub ticket_poll_s: u64,
    /// When the secret in the database is this old, another follows it.
    #[serde(deserialize_with = "within::<_, _, 3_600, 31_536_000>")]
    pub ticket_secret_rotation_s: u64,
    /// The file with the secret, where it comes from a file; without it, the
    /// data folder's own.
    #[serde(deserialize_with = "file_or_none")]
    pub ticket_secret_file: Option<PathBuf>,
    /// How often the key of session tickets is renewed, which is how long a
    /// ticket is good for.
    #[serde(deserialize_with = "within::<_, _, 60, 604_800>")]
    pub ticket_rotation_s: u64,
    /// Threads that compute for handshakes.
    #[serde(deserialize_with = "within::<_, _, 1, 64>")]
    pub handshake_threads: usize,
    /// Handshakes under way.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub handshakes_max: usize,
    /// Of these, handshakes with clients of one source: an IPv4 address, an
    /// IPv6 /64.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub handshakes_per_source_max: usize,
    /// Clients that resume nothing, waiting for their turn.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub full_waiting_max: usize,
    /// Full handshakes with clients begun in a second; 0 for as many as the
    /// threads can do.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub full_per_s_max: u32,
    /// How long a client may take to say hello.
    #[serde(deserialize_with = "within::<_, _, 100, 60_000>")]
    pub hello_timeout_ms: u64,
    /// How long a handshake may take, the wait for its turn included.
    #[serde(deserialize_with = "within::<_, _, 100, 60_000>")]
    pub handshake_timeout_ms: u64,
}

impl Default for Tls {
    fn default() -> Self {
        let pool = sip_tls::HandshakeConfig::default();
        Self {
            trust: Vec::new(),
            key_usage: KeyUsagePolicy::default(),
            crls: Vec::new(),
            revocation: RevocationPolicy::default(),
            versions: TlsVersion::ALL.map(VersionName).into(),
            suites: None,
            groups: None,
            min_confidentiality: None,
            min_authentication: None,
            max_cost_us: None,
            chosen: None,
            prices: None,
            peer: Vec::new(),
            identity: None,
            ticket_keys: TicketKeysFrom::default(),
            ticket_store: None,
            ticket_poll_s: 10,
            ticket_secret_rotation_s: 604_800,
            ticket_secret_file: None,
            ticket_rotation_s: 21_600,
            handshake_threads: pool.threads,
            handshakes_max: pool.handshakes_max,
            handshakes_per_source_max: pool.per_source_max,
            full_waiting_max: pool.full_queue_max,
            full_per_s_max: pool.full_per_s_max,
            hello_timeout_ms: pool.hello_timeout_ms,
            handshake_timeout_ms: pool.timeout_ms,
        }
    }
}

impl Tls {
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let identity = self.identity.iter_mut();
        (self.trust.iter_mut())
            .chain(self.crls.iter_mut())
            .chain(identity.flat_map(|pair| [&mut pair.cert, &mut pair.key]))
            .chain(self.ticket_store.iter_mut())
            .chain(self.peer.iter_mut().flat_map(TlsPeer::paths_mut))
            .chain(self.ticket_secret_file.iter_mut())
            .chain(self.prices.iter_mut())
    }

    /// What is asked of suites and groups that are offered to peers.
    pub(super) fn policy(&self) -> Policy {
        policy(
            self.min_confidentiality,
            self.min_authentication,
            self.max_cost_us,
        )
    }
}

/// Groups as the library prefers them; the one that is safe from quantum computers costs a
/// client's first flight a kilobyte more, so who wants it puts it first.
pub(super) const DEFAULT_GROUPS: [&str; 4] = ["X25519", "P-256", "P-384", "X25519MLKEM768"];

/// An error of the network crate with its remedy on a line of its own.
fn in_two_lines(error: TlsError) -> String {
    match error.reason.split_once("; ") {
        Some((what, remedy)) => format!("{what}\n{remedy}"),
        None => error.reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_algorithms_are_known_and_each_once() {
        let given = ListenSecurity::default();
        given.check_algorithms().unwrap();
        for name in DEFAULT_GROUPS {
            assert!(sip_tls::GROUP_NAMES.contains(&name), "{name}");
        }
    }

    #[test]
    fn the_report_calls_things_as_the_configuration_does() {
        let read = |line: &str| toml::from_str::<Tls>(line).unwrap();
        for usage in [
            KeyUsagePolicy::Lenient,
            KeyUsagePolicy::Strict,
            KeyUsagePolicy::SipDomain,
        ] {
            let line = format!("key_usage = \"{}\"", usage.name());
            assert_eq!(read(&line).key_usage, usage);
        }
        for revocation in [RevocationPolicy::Lenient, RevocationPolicy::Strict] {
            let line = format!("revocation = \"{}\"", revocation.name());
            assert_eq!(read(&line).revocation, revocation);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = SuiteName::try_from("RC4-MD5".to_owned()).unwrap_err();
        let (what, remedy) = error.split_once('\n').unwrap();
        assert!(what.contains("'RC4-MD5'"), "{error}");
        assert!(remedy.contains("TLS_AES_128_GCM_SHA256"), "{error}");
        let error = GroupName::try_from("P-521".to_owned()).unwrap_err();
        assert!(error.contains("\ngive one of X25519, P-256"), "{error}");
        assert!(VersionName::try_from("1.1".to_owned()).is_err());
        assert!(SuiteName::try_from("ECDHE-RSA-AES128-GCM-SHA256".to_owned()).is_ok());
    }
}
