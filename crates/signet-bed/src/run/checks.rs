//! What must be there before anything is started: tools, ports, room.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;

use crate::Error;
use crate::process::is_there;
use crate::system::Ports;

/// Free space below which a run would end in the middle: logs and a database with users.
const FREE_BYTES_MIN: u64 = 512 << 20;

/// Programs and what has them in Debian.
const TOOLS: [(&str, &str); 3] = [
    ("setpriv", "apt-get install util-linux"),
    ("taskset", "apt-get install util-linux"),
    ("kill", "apt-get install procps"),
];
/// Those that a case with MariaDB takes besides.
const DATABASE_TOOLS: [(&str, &str); 3] = [
    (
        "mariadbd",
        "apt-get install --no-install-recommends mariadb-server",
    ),
    (
        "mariadb",
        "apt-get install --no-install-recommends mariadb-server",
    ),
    (
        "mariadb-install-db",
        "apt-get install --no-install-recommends mariadb-server",
    ),
];

/// Checks that all programs are there that a run starts besides the systems under test.
///
/// # Errors
/// Names the first that is missing, and what has it.
pub(super) fn tools(has_database: bool) -> Result<(), Error> {
    let more = if has_database {
        &DATABASE_TOOLS[..]
    } else {
        &[]
    };
    for (program, remedy) in TOOLS.iter().chain(more) {
        if !is_there(program) {
            return Err(Error::new(
                format!("{program} is not installed"),
                format!("type: {remedy}"),
            ));
        }
    }
    Ok(())
}

/// Checks that the ports of the run are free.
///
/// # Errors
/// Names the first port that is taken.
pub(super) fn ports(ports: Ports, of: impl Fn(u16) -> bool) -> Result<(), Error> {
    for (port, what) in ports.all() {
        if !of(port) {
            continue;
        }
        let at = (Ipv4Addr::LOCALHOST, port);
        let taken = TcpListener::bind(at)
            .map(drop)
            .and_then(|()| UdpSocket::bind(at).map(drop));
        if let Err(error) = taken {
            return Err(Error::new(
                format!("port {port} on 127.0.0.1, for {what}, cannot be used ({error})"),
                format!(
                    "end who has it (ss -lntup), or choose the first of {} free ports by --port",
                    Ports::COUNT
                ),
            ));
        }
    }
    Ok(())
}

/// Makes a folder with room in it.
///
/// # Errors
/// That it cannot be made, or that the disk is nearly full.
pub(super) fn folder(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(|error| {
        Error::new(
            format!("cannot make {}: {error}", path.display()),
            "choose another --out",
        )
    })?;
    let free = nix::sys::statvfs::statvfs(path)
        .map(|stat| stat.blocks_available().saturating_mul(stat.fragment_size()));
    match free {
        Ok(free) if free < FREE_BYTES_MIN => Err(Error::new(
            format!(
                "{} has {} MB of free space, and a run takes up to {}",
                path.display(),
                free >> 20,
                FREE_BYTES_MIN >> 20
            ),
            "make room there",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_somebody_has_is_told_with_its_use() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let Some(all) = Ports::from(port) else {
            return;
        };
        let error = ports(all, |port| port == all.plain()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(&port.to_string()), "{error}");
        assert!(error.contains("for the server"), "{error}");
        assert!(error.contains("--port"), "{error}");
        assert!(ports(all, |_| false).is_ok());
        drop(taken);
        assert!(ports(all, |port| port == all.plain()).is_ok());
    }
}
