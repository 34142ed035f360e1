//! What a record says of the machine and of the programs.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use measure::Host;

use super::scene::Cores;
use crate::awake;
use crate::record::Machine;
use crate::system::{Driver, Network, Unable};

/// This machine, with who is where on it; its cores are kept awake from now on.
pub(super) fn machine(cores: &Cores, network: &Network, has_shares: Option<bool>) -> Machine {
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
        idle: awake::keep().to_owned(),
        pinned: pinned
            .map(|(who, core)| (who.to_owned(), core.clone()))
            .into(),
        has_shares,
    }
}

/// The versions of the systems under test, and of what stands around them: `signet` is the
/// program of the load, too.
///
/// # Errors
/// The first system that is not installed.
pub(super) fn versions(
    drivers: &[Box<dyn Driver>],
    has_database: bool,
    signet: &Path,
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
    if let Ok(content) = content(signet) {
        versions.insert("signet-program".to_owned(), content);
    }
    Ok(versions)
}

/// What tells the content of a file from any other that is met by chance: its length, and a
/// product over it.
fn content(path: &Path) -> std::io::Result<String> {
    /// An odd number without a pattern: 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    const PART_BYTES: u64 = 1 << 20;
    let mut file = std::fs::File::open(path)?;
    let (mut length, mut product) = (0, 0_u64);
    let mut part = Vec::new();
    loop {
        part.clear();
        let read = (&mut file).take(PART_BYTES).read_to_end(&mut part)?;
        if read == 0 {
            return Ok(format!("{length} bytes, {product:016x}"));
        }
        length += read;
        for word in part.chunks(8) {
            let mut bytes = [0; 8];
            for (to, from) in bytes.iter_mut().zip(word) {
                *to = *from;
            }
            let word = u64::from_le_bytes(bytes);
            product = (product.rotate_left(5) ^ word).wrapping_mul(FACTOR);
        }
    }
}

fn first_line(program: &str, word: &str) -> Option<String> {
    let output = std::process::Command::new(program)
        .arg(word)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart_by_what_is_in_them() {
        let name = format!("signet-bed-content-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            content(&path).unwrap()
        };
        // More than is read at once, and not a multiple of anything.
        let long = vec![7; (1 << 20) + 13];
        let mut other = long.clone();
        other[1 << 20] = 8;
        assert_eq!(of(&long), of(&long));
        assert_ne!(of(&long), of(&other));
        assert!(of(&long).starts_with("1048589 bytes, "));
        assert_ne!(of(&[0]), of(&[0, 0]));
        assert_eq!(of(&[]), "0 bytes, 0000000000000000");
        std::fs::remove_file(&path).unwrap();
        assert!(content(&path).is_err());
    }
}
