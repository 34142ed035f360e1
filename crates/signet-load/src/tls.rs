//! TLS: what the calling side asks for, what the called side shows, and an
//! authority made on the spot where both sides are this process.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SanType, SignatureAlgorithm,
};
use sip_tls::{
    ClientResumption, ClientTls, ClientTlsConfig, ServerTls, ServerTlsConfig, TlsEngine, TlsError,
    TlsVersion,
};

use crate::users::Pattern;

/// Sessions kept, each agent's own where they have their own: more than there are agents.
const SESSIONS_MAX: usize = 1 << 20;

/// Tickets of TLS 1.3 kept of one server: each serves once, and a load with a
/// connection per call has many under way.
const TICKETS_MAX: usize = 4_096;

/// The kind of key in a certificate that is made on the spot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// RSA with 2,048 bits.
    Rsa2048,
    /// RSA with 3,072 bits.
    Rsa3072,
    /// Ed25519.
    Ed25519,
}

impl std::str::FromStr for KeyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "p256" | "p-256" => Ok(Self::P256),
            "rsa2048" | "rsa-2048" => Ok(Self::Rsa2048),
            "rsa3072" | "rsa-3072" => Ok(Self::Rsa3072),
            "ed25519" => Ok(Self::Ed25519),
            _ => Err(format!(
                "there is no key '{text}'; write p256, rsa2048, rsa3072 or ed25519"
            )),
        }
    }
}

/// How TLS is spoken.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// PEM files with the roots that are trusted.
    pub roots: Vec<PathBuf>,
    /// Whether anybody is believed who he says he is: for measurements of
    /// servers whose certificates nobody can check.
    pub trust_anyone: bool,
    /// Certificate chain and key of the called side, or of the calling one
    /// where the server asks for a certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Patterns of the files with each agent's own certificate chain and key.
    pub agent_identity: Option<(Pattern, Pattern)>,
    /// The key of a certificate that is made on the spot; where nothing is
    /// said, one that the engine can use.
    pub key: Option<KeyKind>,
    /// Which library speaks; a suite that only the other has asks for that one
    /// as well.
    pub engine: TlsEngine,
    /// Versions offered; all where there is none.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites offered, in this order; all where there is none.
    pub suites: Vec<String>,
    /// Key-exchange groups offered, in this order; all where there is none.
    pub groups: Vec<String>,
    /// The share of connections that are to resume an earlier session.
    pub resume_share: f64,
    /// How they resume.
    pub resume_by: ClientResumption,
    /// Whether the called side gives its clients nothing to resume a session by.
    pub refuses_resumption: bool,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            trust_anyone: false,
            identity: None,
            agent_identity: None,
            key: None,
            engine: TlsEngine::default(),
            versions: Vec::new(),
            suites: Vec::new(),
            groups: Vec::new(),
            resume_share: 0.0,
            resume_by: ClientResumption::Any,
            refuses_resumption: false,
        }
    }
}

impl TlsSettings {
    /// The engine that is asked for, by its name or by that of a suite.
    pub fn engine(&self) -> TlsEngine {
        let by_suite =
            (self.suites.iter()).any(|suite| TlsEngine::of_suite(suite) == TlsEngine::Legacy);
        if by_suite {
            TlsEngine::Legacy
        } else {
            self.engine
        }
    }

    fn key_kind(&self) -> KeyKind {
        self.key.unwrap_or(match self.engine() {
            TlsEngine::Modern => KeyKind::default(),
            TlsEngine::Legacy => KeyKind::Rsa2048,
        })
    }

    /// What the called side takes. The legacy engine alone is told which suites:
    /// what the other takes is what is best.
    fn called_side(&self) -> ServerTlsConfig {
        let mut config = ServerTlsConfig::new().engine(self.engine());
        if self.refuses_resumption {
            config = config.no_tickets().no_session_ids();
        }
        if self.engine() == TlsEngine::Legacy && !self.suites.is_empty() {
            return config.suites(&self.suites);
        }
        config
    }
}

/// The name in the certificate that is made on the spot.
pub(crate) const OWN_NAME: &str = "load.test";

/// What the workers need.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    pub(crate) client: Option<Client>,
    pub(crate) server: Option<Arc<ServerTls>>,
}

/// The calling side's two faces.
#[derive(Clone)]
pub(crate) struct Client {
    /// Whose handshakes are all full ones.
    pub(crate) full: Arc<ClientTls>,
    /// Who resumes where he can.
    pub(crate) resuming: Arc<ClientTls>,
    /// Where each agent's own certificate is.
    agent_identity: Option<(Pattern, Pattern)>,
}

impl Client {
    fn new(config: ClientTlsConfig, settings: &TlsSettings) -> Result<Self, TlsError> {
        let mut config = config
            .engine(settings.engine())
            .resumption(settings.resume_by)
            .sessions_max(SESSIONS_MAX)
            .tickets_max(TICKETS_MAX);
        if !settings.versions.is_empty() {
            config = config.versions(&settings.versions);
        }
        if !settings.suites.is_empty() {
            config = config.suites(&settings.suites);
        }
        if !settings.groups.is_empty() {
            config = config.groups(&settings.groups);
        }
        let resuming = Arc::new(config.build()?);
        Ok(Self {
            full: Arc::new(resuming.without_resumption()),
            resuming,
            agent_identity: settings.agent_identity.clone(),
        })
    }

    /// Whether each agent has a certificate of its own.
    pub(crate) const fn is_per_agent(&self) -> bool {
        self.agent_identity.is_some()
    }

    /// The same for one agent, by its number from 1: with its own sessions, and
    /// its own certificate where they have one each.
    pub(crate) fn of_agent(&self, number: usize) -> Result<Arc<ClientTls>, TlsError> {
        let Some((chain, key)) = &self.agent_identity else {
            return Ok(Arc::new(self.resuming.with_own_sessions()));
        };
        let read = |pattern: &Pattern| {
            let path = PathBuf::from(pattern.of(number));
            std::fs::read(&path).map_err(|error| TlsError {
                reason: error.to_string(),
                file: Some(path),
            })
        };
        let made = self
            .resuming
            .with_identity_pem(&read(chain)?, &read(key)?)?;
        Ok(Arc::new(made))
    }
}

impl Tls {
    /// For a run that speaks TLS as a client, or as a server, or to itself.
    pub(crate) fn new(
        settings: &TlsSettings,
        is_client: bool,
        is_server: bool,
        is_direct: bool,
    ) -> Result<Self, String> {
        let mut tls = Self::default();
        let wrong = |error: TlsError| error.to_string();
        if is_direct {
            let made = Made::new(settings.key_kind())
                .map_err(|error| format!("cannot make a certificate: {error}"))?;
            let roots = [made.root.as_bytes()];
            let config = ClientTlsConfig::new().roots_pem(&roots).map_err(wrong)?;
            let settings = TlsSettings {
                agent_identity: None,
                ..settings.clone()
            };
            tls.client = Some(Client::new(config, &settings).map_err(wrong)?);
            let server = settings
                .called_side()
                .pair_pem(made.chain.as_bytes(), made.key.as_bytes())
                .and_then(ServerTlsConfig::build);
            tls.server = Some(Arc::new(server.map_err(wrong)?));
            return Ok(tls);
        }
        if is_client {
            let mut config = ClientTlsConfig::new();
            if settings.trust_anyone {
                config = config.trust_anyone_insecurely();
            } else if settings.roots.is_empty() {
                return Err("which authority is the server's certificate from? write --ca FILE (for signet serve: signet-data/ca.pem)".to_owned());
            } else {
                config = config.roots_pem_files(&settings.roots).map_err(wrong)?;
            }
            if let Some((chain, key)) = settings.identity.as_ref().filter(|_| !is_server) {
                config = config.identity_pem_files(chain, key).map_err(wrong)?;
            }
            tls.client = Some(Client::new(config, settings).map_err(wrong)?);
        }
        if is_server {
            let Some((chain, key)) = &settings.identity else {
                return Err("a called side with TLS needs a certificate; write --cert FILE --key FILE (signet ca issue NAME makes them)".to_owned());
            };
            let server = settings
                .called_side()
                .pair_pem_files(chain, key)
                .and_then(ServerTlsConfig::build);
            tls.server = Some(Arc::new(server.map_err(wrong)?));
        }
        Ok(tls)
    }
}

/// An authority and one certificate of its.
struct Made {
    root: String,
    chain: String,
    key: String,
}

impl Made {
    fn new(kind: KeyKind) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Signet load");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, key_pair(kind)?)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, OWN_NAME);
        params.subject_alt_names = vec![SanType::DnsName(OWN_NAME.try_into()?)];
        let key = key_pair(kind)?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Self {
            root: issuer.pem(),
            chain: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn key_pair(kind: KeyKind) -> Result<KeyPair, rcgen::Error> {
    let of = |algorithm: &'static SignatureAlgorithm| KeyPair::generate_for(algorithm);
    match kind {
        KeyKind::P256 => of(&rcgen::PKCS_ECDSA_P256_SHA256),
        KeyKind::Ed25519 => of(&rcgen::PKCS_ED25519),
        KeyKind::Rsa2048 => {
            KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
        }
        KeyKind::Rsa3072 => {
            KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_3072)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_key_can_be_made_and_served() {
        for key in [KeyKind::P256, KeyKind::Rsa2048, KeyKind::Ed25519] {
            let settings = TlsSettings {
                key: Some(key),
                ..TlsSettings::default()
            };
            let tls = Tls::new(&settings, true, true, true).unwrap();
            assert!(tls.client.is_some() && tls.server.is_some());
        }
        let missing = Tls::new(&TlsSettings::default(), true, false, false).map(|_| ());
        assert!(missing.unwrap_err().contains("--ca FILE"));
    }
}
