//! What a record says of the machine and of the programs.

use std::collections::BTreeMap;

use measure::Host;

use super::scene::Cores;
use crate::record::Machine;
use crate::system::{Driver, Network, Unable};

/// This machine, with who is where on it.
pub(super) fn machine(cores: &Cores, network: &Network) -> Machine {
    let host = Host::this();
    let pinned = [
        ("server", &cores.server),
        ("relay", &cores.server),
        ("database", &cores.load),
        ("load", &cores.load),
    ];
    Machine {
        cpu_model: host.cpu_model,
        cores: u32::try_from(host.cores).unwrap_or(u32::MAX),
        kernel: host.kernel,
        network: network.name().to_owned(),
        pinned: pinned
            .map(|(who, core)| (who.to_owned(), core.clone()))
            .into(),
    }
}

/// The versions of the systems under test, and of what stands around them.
///
/// # Errors
/// The first system that is not installed.
pub(super) fn versions(
    drivers: &[Box<dyn Driver>],
    has_database: bool,
) -> Result<BTreeMap<String, String>, Unable> {
    let mut versions = BTreeMap::new();
    for driver in drivers {
        let version = driver.version()?;
        if !version.is_empty() {
            versions.insert(driver.name().to_owned(), version);
        }
    }
    if has_database && let Some(version) = first_line("mariadbd", "--version") {
        versions.insert("mariadb".to_owned(), version);
    }
    versions.insert(
        "signet-bed".to_owned(),
        env!("CARGO_PKG_VERSION").to_owned(),
    );
    Ok(versions)
}

fn first_line(program: &str, word: &str) -> Option<String> {
    let output = std::process::Command::new(program)
        .arg(word)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next()?.trim().to_owned())
}
