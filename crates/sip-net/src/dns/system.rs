//! The files of the system that say by whom names are resolved, and whether they have changed.

use std::fs::{File, Metadata};
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hickory_resolver::Hosts;

use crate::sys;

/// The port of the name servers that `resolv.conf` names.
const PORT: u16 = 53;
/// Bytes of `resolv.conf` that are read.
const BYTES_MAX: u64 = 64 * 1024;

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemFiles {
    /// The one that names the name servers.
    pub resolv_conf: PathBuf,
    /// Their port, which it does not name.
    pub port: u16,
    /// The one with the hosts that nobody is asked for.
    pub hosts: PathBuf,
}

impl Default for SystemFiles {
    fn default() -> Self {
        Self {
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            port: PORT,
            hosts: PathBuf::from("/etc/hosts"),
        }
    }
}

/// What a file was when it was read: another file, or another content, has another print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Print(Option<[i128; 5]>);

impl Print {
    /// A file that is not there has one too.
    pub(super) fn of(file: &Path) -> Self {
        let of = |meta: Metadata| {
            let changed = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
            let written = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
            let (device, number) = (i128::from(meta.dev()), i128::from(meta.ino()));
            [device, number, changed, written, i128::from(meta.size())]
        };
        Self(file.metadata().ok().map(of))
    }
}

/// The name servers that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Servers {
    pub(super) found: Vec<SocketAddr>,
    /// Whether one is on an interface that the machine does not have, or not yet.
    pub(super) is_any_out_of_reach: bool,
}

/// The name servers of a `resolv.conf`; the local one where it names none (resolv.conf(5)).
pub(super) fn servers(files: &SystemFiles) -> Servers {
    let mut text = Vec::new();
    if let Ok(file) = File::open(&files.resolv_conf) {
        // A part of it is better than nothing.
        let _ = file.take(BYTES_MAX).read_to_end(&mut text);
    }
    let mut servers = read_servers(
        &String::from_utf8_lossy(&text),
        files.port,
        sys::interface_index,
    );
    if servers.found.is_empty() {
        servers
            .found
            .push(SocketAddr::from(([127, 0, 0, 1], files.port)));
    }
    servers
}

fn read_servers(text: &str, port: u16, index_of: impl Fn(&str) -> Option<u32>) -> Servers {
    let mut servers = Servers::default();
    for line in text.lines() {
        let said = line.split([';', '#']).next().unwrap_or("");
        let mut words = said.split_whitespace();
        let (Some("nameserver"), Some(word)) = (words.next(), words.next()) else {
            continue;
        };
        let (address, zone) = match word.split_once('%') {
            Some((address, zone)) => (address, Some(zone)),
            None => (word, None),
        };
        match (address.parse(), zone) {
            (Ok(ip), None) => servers.found.push(SocketAddr::new(ip, port)),
            (Ok(IpAddr::V6(ip)), Some(zone)) => match zone_index(zone, &index_of) {
                Some(index) => servers.found.push(in_zone(ip, port, index)),
                None => servers.is_any_out_of_reach = true,
            },
            (Ok(IpAddr::V4(_)), Some(_)) | (Err(_), _) => {
                tracing::warn!("resolv.conf: `{}` is no address", word.escape_debug());
            }
        }
    }
    servers
}

/// A zone is an interface, by name or number.
fn zone_index(zone: &str, index_of: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    index_of(zone).or_else(|| zone.parse().ok().filter(|index| *index != 0))
}

fn in_zone(ip: Ipv6Addr, port: u16, index: u32) -> SocketAddr {
    SocketAddrV6::new(ip, port, 0, index).into()
}

/// The hosts of a file; a machine without it has none of its own.
pub(super) fn hosts(file: &Path) -> Hosts {
    let mut hosts = Hosts::default();
    if let Ok(file) = File::open(file)
        && let Err(error) = hosts.read_hosts_conf(file)
    {
        tracing::warn!("the hosts of this machine can be read in part alone: {error}");
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, bool) {
        let index_of = |name: &str| (name == "eth0").then_some(7);
        let servers = read_servers(text, 53, index_of);
        let found = servers.found.iter().map(ToString::to_string);
        (found.collect(), servers.is_any_out_of_reach)
    }

    #[test]
    fn name_servers_are_read_as_other_programs_read_them() {
        let text = "# by a lease\nsearch example.com\nnameserver 192.0.2.53 # the first\n\
            nameserver\t2001:db8::53;the second\n  nameserver 192.0.2.1\nnameservers 192.0.2.2\n\
            nameserver fe80::1%eth0\nnameserver fe80::2%3\nnameserver\nnameserver # 192.0.2.4\nnameserver elsewhere\n\
            nameserver 192.0.2.3%eth0\noptions rotate\n";
        let expected = [
            "192.0.2.53:53",
            "[2001:db8::53]:53",
            "192.0.2.1:53",
            "[fe80::1%7]:53",
            "[fe80::2%3]:53",
        ];
        assert_eq!(read(text), (expected.map(str::to_owned).into(), false));
        assert_eq!(
            read("nameserver fe80::1%wlan0\n"),
            (Vec::new(), true),
            "an interface that comes later"
        );
    }

    #[test]
    fn a_file_that_is_not_there_or_says_nothing_stands_for_the_local_server() {
        let files = SystemFiles {
            resolv_conf: "/nonexistent/resolv.conf".into(),
            ..SystemFiles::default()
        };
        assert_eq!(
            servers(&files).found,
            [SocketAddr::from(([127, 0, 0, 1], 53))]
        );
    }
}
