//! How much memory this process may have: the machine's, or what a control
//! group leaves of it.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::config::MemoryMax;

/// Where control groups are mounted: version 2, version 2 beside version 1,
/// and the memory controller of version 1.
const MOUNTS: [(&str, &str); 3] = [
    ("/sys/fs/cgroup", "memory.max"),
    ("/sys/fs/cgroup/unified", "memory.max"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
];

/// The bytes that `max` comes to here, and those that it is a share of.
pub(crate) fn budget_bytes(max: MemoryMax) -> Result<(u64, u64), Error> {
    let machine = read("/proc/meminfo")
        .as_deref()
        .and_then(machine_bytes)
        .ok_or_else(|| {
            Error::new(
                "cannot learn how much memory this machine has: /proc/meminfo does not say",
                "mount /proc",
            )
        })?;
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let limit = MOUNTS
        .iter()
        .filter_map(|(mount, file)| group_limit(Path::new(mount), file, &groups))
        .fold(machine, u64::min);
    Ok((max.bytes_of(limit), limit))
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// `MemTotal:       24737916 kB`
fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// The least that the group of this process or one above it allows. `groups`
/// has a line for each hierarchy, `NUMBER:CONTROLLERS:PATH`: version 2 names no
/// controllers.
fn group_limit(mount: &Path, file: &str, groups: &str) -> Option<u64> {
    let is_v2 = file == "memory.max";
    let path = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = if is_v2 {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|name| name == "memory")
        };
        is_it.then_some(path)
    })?;
    let folder: PathBuf = mount.join(path.trim_start_matches('/'));
    folder
        .ancestors()
        .take_while(|folder| folder.starts_with(mount))
        // Without a limit version 2 says `max`.
        .filter_map(|folder| std::fs::read_to_string(folder.join(file)).ok())
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn the_machine_says_how_much_it_has() {
        assert_eq!(
            machine_bytes("MemTotal:       24737916 kB\nMemFree: 1 kB\n"),
            Some(24_737_916 << 10)
        );
        assert_eq!(machine_bytes("MemFree: 1 kB\n"), None);
        let (bytes, limit) = budget_bytes("50%".parse().unwrap()).unwrap();
        assert!(bytes > 0 && bytes <= limit / 2);
    }

    #[test]
    fn a_control_group_or_one_above_it_allows_less() {
        let temp = TempDir::new("cgroup");
        let inner = temp.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let write = |folder: &Path, file: &str, text: &str| {
            std::fs::write(folder.join(file), text).unwrap();
        };
        write(&inner, "memory.max", "max\n");
        write(&temp.path().join("a"), "memory.max", "2000\n");
        let v2 = |groups: &str| group_limit(temp.path(), "memory.max", groups);
        assert_eq!(v2("1:name=systemd:/x\n0::/a/b\n"), Some(2_000));
        assert_eq!(v2("0::/\n"), None);
        assert_eq!(v2("4:memory:/a/b\n"), None);

        write(&inner, "memory.limit_in_bytes", "1000\n");
        write(
            temp.path(),
            "memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        let v1 = |groups: &str| group_limit(temp.path(), "memory.limit_in_bytes", groups);
        assert_eq!(v1("4:cpu,memory:/a/b\n0::/\n"), Some(1_000));
        // A container sees the path of its host and its own files.
        assert_eq!(
            v1("4:memory:/elsewhere/c\n"),
            Some(9_223_372_036_854_771_712)
        );
    }
}
