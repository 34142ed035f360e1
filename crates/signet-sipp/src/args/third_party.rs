//! Options of third-party call control.

use std::path::PathBuf;

/// Who the other instances are.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThirdParty {
    /// The address of the only other one, or ours for it (`-3pcc`).
    pub(crate) twin: Option<String>,
    /// The name of this one, and whether it is the master.
    pub(crate) own: Option<(String, bool)>,
    /// The file with names and addresses (`-slave_cfg`).
    pub(crate) peers_file: Option<PathBuf>,
}

impl ThirdParty {
    /// Whether there are other instances.
    pub(crate) fn is_there(&self) -> bool {
        self.twin.is_some() || self.peers_file.is_some()
    }

    pub(super) fn name(&mut self, name: &str, is_master: bool) -> Result<(), String> {
        if self.own.is_some() {
            return Err("-master or -slave once: an instance has one name".to_owned());
        }
        self.own = Some((name.to_owned(), is_master));
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match (&self.twin, &self.own, &self.peers_file) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                Err("-3pcc does not go with -master, -slave or -slave_cfg".to_owned())
            }
            (None, Some(_), None) => Err(
                "-master and -slave need the addresses: give them with -slave_cfg FILE".to_owned(),
            ),
            (None, None, Some(_)) => {
                Err("-slave_cfg needs the name of this instance: -master or -slave".to_owned())
            }
            _ => Ok(()),
        }
    }
}
