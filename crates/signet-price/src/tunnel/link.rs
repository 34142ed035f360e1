//! Two namespaces with a pair of interfaces between them, and the files of a run.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use signet_bed::Error;
use signet_bed::certificates::Certificates;
use signet_bed::system::{NAMESPACE_REMEDY, Namespace};

/// The ends of the pair of interfaces: where the programs of a tunnel speak to each other.
pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 213, 2, 1);
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(10, 213, 2, 2);
/// The addresses that lead through a tunnel; nothing else leads there.
pub(super) const NEAR_WITHIN: Ipv4Addr = Ipv4Addr::new(10, 214, 2, 1);
pub(super) const FAR_WITHIN: Ipv4Addr = Ipv4Addr::new(10, 214, 2, 2);

/// The name of the interface at either end.
pub(super) const DEVICE: &str = "wire";

/// The names of folders of runs begin so; the id of the process follows.
const PREFIX: &str = "signet-tunnel-";

/// Two namespaces and the pair of interfaces between them; all of it goes with this value.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) near: Namespace,
    pub(super) far: Namespace,
}

impl Link {
    /// # Errors
    /// That this needs root, `ip`, or a kernel with namespaces.
    pub(super) fn make() -> Result<Self, Error> {
        let failed = |why: String| Error::new(why, NAMESPACE_REMEDY);
        let made = Self {
            near: Namespace::make("near").map_err(failed)?,
            far: Namespace::make("far").map_err(failed)?,
        };
        let far = made.far.name();
        let pair = format!("link add {DEVICE} type veth peer name {DEVICE} netns {far}");
        made.near.ip(&pair).map_err(failed)?;
        for (end, address) in [(&made.near, NEAR), (&made.far, FAR)] {
            for line in [
                format!("addr add {address}/24 dev {DEVICE}"),
                format!("link set {DEVICE} up"),
            ] {
                end.ip(&line).map_err(failed)?;
            }
        }
        Ok(made)
    }

    /// Puts the addresses that lead through a tunnel on the loopbacks, for tunnels that make no
    /// device with an address.
    pub(super) fn address_within(&self) -> Result<(), String> {
        for (end, address) in [(&self.near, NEAR_WITHIN), (&self.far, FAR_WITHIN)] {
            end.ip(&format!("addr add {address}/32 dev lo"))?;
        }
        Ok(())
    }

    /// Bytes that a device of the near end has sent and received; `None` where there is none.
    pub(super) fn bytes(&self, device: &str) -> Option<u64> {
        let told = self
            .near
            .ip(&format!("-j -s link show dev {device}"))
            .ok()?;
        counted(&told)
    }
}

/// The sum of both ways in what `ip -j -s link` prints.
fn counted(told: &str) -> Option<u64> {
    let told: serde_json::Value = serde_json::from_str(told).ok()?;
    let counts = told.get(0)?.get("stats64")?;
    let way = |name: &str| counts.get(name)?.get("bytes")?.as_u64();
    Some(way("rx")? + way("tx")?)
}

/// The folder of a run, which goes with this value: it has its keys.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes one that only this user may read. Those of runs that were killed are removed.
    ///
    /// # Errors
    /// That it cannot be made.
    pub(super) fn make() -> Result<Self, Error> {
        let above = std::env::temp_dir();
        remove_stale(&above);
        let path = above.join(format!("{PREFIX}{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| {
            Error::new(
                format!("cannot make {}: {error}", path.display()),
                "make room there, or name another folder in TMPDIR",
            )
        })?;
        Ok(Self { path })
    }

    /// The certificates of a run, for both ends of the pair of interfaces.
    ///
    /// # Errors
    /// As [`Certificates::make_for`].
    pub(super) fn certificates(&self) -> Result<Certificates, Error> {
        Certificates::make_for(&self.path, &[NEAR, FAR])
            .map_err(|error| Error::new(error, "see that openssl is installed"))
    }

    /// The path of a file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that only this user may read; gives its path as text.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn put(&self, name: &str, text: &str) -> Result<String, String> {
        let path = self.path(name);
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        match written {
            Ok(()) => Ok(path.display().to_string()),
            Err(error) => Err(format!("cannot write {}: {error}", path.display())),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders of runs that were killed, with the keys in them.
fn remove_stale(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_stale =
            id.is_some_and(|id| id.parse::<u32>().is_ok() && !Path::new("/proc").join(id).exists());
        if is_stale {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A secret of so many bytes, in hexadecimal digits.
///
/// # Errors
/// That the system gives none.
pub(super) fn secret(bytes: usize) -> Result<String, String> {
    use std::io::Read;
    let mut drawn = vec![0; bytes];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut drawn))
        .map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(drawn.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_counted() {
        let told = r#"[{"ifname":"tun0","stats64":{"rx":{"bytes":40},"tx":{"bytes":2}}}]"#;
        assert_eq!(counted(told), Some(42));
        assert_eq!(counted("[]"), None);
        assert_eq!(counted(""), None);
    }

    #[test]
    fn secrets_differ_and_a_folder_goes() {
        assert_ne!(secret(16).unwrap(), secret(16).unwrap());
        assert_eq!(secret(16).unwrap().len(), 32);
        let folder = Folder::make().unwrap();
        let file = folder.put("a.key", "x").unwrap();
        assert!(Path::new(&file).exists());
        drop(folder);
        assert!(!Path::new(&file).exists());
    }
}
