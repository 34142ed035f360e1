//! TLS of a load that is sent: what files say stands in it.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sip_tls::{ClientResumption, TlsEngine, TlsVersion};

use crate::{TlsPems, TlsSettings};

/// TLS of a load, with what its files say.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TlsForm {
    roots: Vec<String>,
    trust_anyone: bool,
    identity: Option<(String, String)>,
    is_legacy: bool,
    versions: Vec<String>,
    suites: Vec<String>,
    groups: Vec<String>,
    resume_share: f64,
    resume_by: String,
}

// A key is inside.
impl fmt::Debug for TlsForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsForm").finish_non_exhaustive()
    }
}

impl TlsForm {
    /// # Errors
    /// What is not sent to workers; a file that cannot be read.
    pub(super) fn of(settings: &TlsSettings) -> Result<Self, String> {
        if settings.agent_identity.is_some() {
            return Err("certificates of the agents' own are not sent to workers; leave out --agent-cert, or load without --workers".to_owned());
        }
        let identity = match &settings.identity {
            Some((chain, key)) => Some((read(chain)?, read(key)?)),
            None => None,
        };
        Ok(Self {
            roots: settings
                .roots
                .iter()
                .map(|path| read(path))
                .collect::<Result<_, _>>()?,
            trust_anyone: settings.trust_anyone,
            identity,
            is_legacy: settings.engine == TlsEngine::Legacy,
            versions: (settings.versions.iter())
                .map(|version| version.name().to_owned())
                .collect(),
            suites: settings.suites.clone(),
            groups: settings.groups.clone(),
            resume_share: settings.resume_share,
            resume_by: match settings.resume_by {
                ClientResumption::Any => "any",
                ClientResumption::Tickets => "tickets",
                ClientResumption::SessionIds => "ids",
                ClientResumption::Off => "none",
            }
            .to_owned(),
        })
    }

    /// # Errors
    /// A version that there is not.
    pub(super) fn settings(self) -> Result<TlsSettings, String> {
        let versions = self.versions.iter().map(|name| TlsVersion::by_name(name));
        let versions: Result<_, _> = versions.collect();
        Ok(TlsSettings {
            in_memory: Some(TlsPems {
                roots: self.roots,
                identity: self.identity,
            }),
            trust_anyone: self.trust_anyone,
            engine: if self.is_legacy {
                TlsEngine::Legacy
            } else {
                TlsEngine::Modern
            },
            versions: versions.map_err(|error| error.to_string())?,
            suites: self.suites,
            groups: self.groups,
            resume_share: self.resume_share,
            resume_by: match self.resume_by.as_str() {
                "tickets" => ClientResumption::Tickets,
                "ids" => ClientResumption::SessionIds,
                "none" => ClientResumption::Off,
                _ => ClientResumption::Any,
            },
            ..TlsSettings::default()
        })
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
