//! Systems under test: one driver for each kind of server.
//!
//! A driver makes a server's configuration from a [`Setting`] and starts it. What a server
//! cannot do is an [`Unable`], which a record keeps as the reason why a case has no figures.

mod address;
mod asterisk;
mod kamailio;
mod namespace;
mod network;
mod opensips;
mod signet;
mod stage;

use std::path::{Path, PathBuf};

pub use address::{Address, Watched};
pub use asterisk::Asterisk;
pub use kamailio::{Kamailio, Peer, PeerTls};
pub(crate) use namespace::remove_stale as remove_stale_namespaces;
pub use namespace::{Namespace, REMEDY as NAMESPACE_REMEDY};
pub use network::Network;
pub use opensips::OpenSips;
pub use signet::{NUMBER, Signet};
pub use stage::{Ports, Server, Site, Stage, page, tail};

use crate::Error;
use crate::experiment::{Resumption, Setting};

/// What a driver cannot do, and what to do about it; each without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unable {
    /// Why.
    pub why: String,
    /// What helps, or what to measure in its place.
    pub remedy: String,
}

impl Unable {
    /// Both.
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}

impl std::fmt::Display for Unable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.why, self.remedy)
    }
}

/// A file of a server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its name in the stage's folder.
    pub name: String,
    /// What is in it.
    pub text: String,
}

impl ConfigFile {
    fn new(name: &str, text: String) -> Self {
        Self {
            name: name.to_owned(),
            text,
        }
    }

    /// Writes it, readable by its owner alone: some hold a password.
    fn write(&self, folder: &Path) -> Result<PathBuf, String> {
        let path = folder.join(&self.name);
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::write(&path, &self.text).map_err(named)?;
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, own).map_err(named)?;
        Ok(path)
    }
}

/// One kind of server.
pub trait Driver: std::fmt::Debug {
    /// What its results are listed under.
    fn name(&self) -> &str;

    /// Its version, as it says itself; empty where it cannot be asked.
    ///
    /// # Errors
    /// That it is not installed, and what to install.
    fn version(&self) -> Result<String, Unable>;

    /// The files of its configuration, the one that it is started with first; none for a
    /// server that the bed does not start.
    ///
    /// # Errors
    /// What of the setting it cannot do.
    fn configuration(
        &self,
        stage: &Stage<'_>,
        setting: &Setting,
    ) -> Result<Vec<ConfigFile>, Unable>;

    /// Starts it, or finds that it is there, and waits until it answers.
    ///
    /// # Errors
    /// Why it does not run, with what it said.
    fn start(&self, stage: &Stage<'_>, setting: &Setting) -> Result<Server, String>;

    /// How callers resume sessions with it where a case would have it so.
    fn resumption(&self, wanted: Resumption) -> Resumption {
        wanted
    }

    /// Whether the bed starts and ends it, and so whether its ports must be free.
    fn is_started(&self) -> bool {
        true
    }

    /// The process of a database that is watched beside it, where the bed starts none.
    fn database(&self) -> Option<u32> {
        None
    }
}

/// The driver of this name.
///
/// # Errors
/// Lists the names that there are.
pub fn driver(name: &str, signet: &Path) -> Result<Box<dyn Driver>, Error> {
    Ok(match name {
        "signet" => Box::new(Signet::new(name, signet)),
        "kamailio" => Box::new(Kamailio),
        "opensips" => Box::new(OpenSips),
        "asterisk" => Box::new(Asterisk),
        _ => {
            return Err(Error::new(
                format!("no system is called `{name}`"),
                "write signet, kamailio, opensips or asterisk; --to ADDRESS:PORT measures any other",
            ));
        }
    })
}

/// The first line of what a program prints of its version.
fn version_of(program: &str, word: &str, remedy: &str) -> Result<String, Unable> {
    let output = std::process::Command::new(program)
        .arg(word)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| Unable::new(format!("{program} does not start ({error})"), remedy))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or("").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_is_unknown_is_told_with_those_that_are_known() {
        let error = driver("kamalio", Path::new("signet"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("`kamalio`"), "{error}");
        assert!(error.contains("kamailio, opensips"), "{error}");
    }
}
