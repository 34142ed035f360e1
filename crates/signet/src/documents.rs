//! What is made from the command line's own description: manual pages and completions.

use std::path::Path;

use clap::CommandFactory;
use signet_serve::Error;

use crate::args::Args;

/// Writes what completes a shell's command line to the standard output.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "signet", &mut text);
    measure::stdout::print(text).map_err(|error| Error::new(error, "look at where it goes"))
}

/// Writes `signet.1` and a page for each command below it into a folder.
pub(crate) fn manual(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|e| Error::file("make the folder", folder, &e))?;
    clap_mangen::generate_to(Args::command(), folder)
        .map_err(|e| Error::file("write manual pages into", folder, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let folder = std::env::temp_dir().join(format!("signet-man-{}", std::process::id()));
        manual(&folder).unwrap();
        let mut pages: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        pages.sort();
        std::fs::remove_dir_all(&folder).unwrap();
        for page in ["signet.1", "signet-serve.1", "signet-user-add.1"] {
            assert!(pages.iter().any(|found| found == page), "{pages:?}");
        }
    }
}
