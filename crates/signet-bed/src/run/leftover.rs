//! What runs that were killed have left behind: folders of theirs, namespaces, and
//! control groups.

use std::path::Path;

use crate::profile::FOLDER as PROFILE;
use crate::share::remove_stale as remove_stale_shares;
use crate::system::remove_stale_namespaces;

/// How the name of a folder begins in which a run has its database; the id of the run's process
/// follows.
pub(super) const DATABASE: &str = "signet-bed-";

/// Removes it all.
pub(super) fn remove() {
    // The namespaces first: what runs in them may have files in the folders.
    remove_stale_namespaces();
    let lives = |id: u32| Path::new(&format!("/proc/{id}")).exists();
    remove_folders(&std::env::temp_dir(), lives);
    remove_stale_shares(lives);
}

/// Removes the folders of processes that live no more.
fn remove_folders(within: &Path, lives: impl Fn(u32) -> bool) {
    for entry in std::fs::read_dir(within).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let id = entry.file_name().to_str().and_then(run_of);
        if is_folder && id.is_some_and(|id| !lives(id)) {
            // One that is another user's stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that made a folder of this name; `None` where no run did.
fn run_of(name: &str) -> Option<u32> {
    let database = name.strip_prefix(DATABASE);
    let profile = || name.strip_prefix(PROFILE)?.split('-').next();
    database.or_else(profile)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_runs_that_were_killed_go_and_others_stay() {
        let name = format!("signet-bed-leftover-{}", std::process::id());
        let within = std::env::temp_dir().join(name);
        let folder = |name: &str| within.join(name);
        let all = [
            "signet-bed-17",
            "signet-bed-18",
            "signet-profile-17-3",
            "signet-profile-18-0",
            "signet-bed-tail-17",
            "signet-bed-",
            "other-17",
        ];
        for name in all {
            std::fs::create_dir_all(folder(name).join("data")).unwrap();
        }
        std::fs::write(folder("signet-profile-17-9"), "a file").unwrap();
        remove_folders(&within, |id| id == 18);
        let left = all.map(|name| folder(name).exists());
        assert_eq!(left, [false, true, false, true, true, true, true]);
        assert!(folder("signet-profile-17-9").exists());
        std::fs::remove_dir_all(&within).unwrap();
    }
}
