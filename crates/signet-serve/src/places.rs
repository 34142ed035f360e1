//! Whether the places that a configuration names can be written to, as far as that shows without
//! a server. Nothing is made for it.

use std::io::ErrorKind;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use crate::Error;
use crate::config::{Config, Fault};
use crate::data_dir::{no_folder, refuse_writable_by_others, this_user};
use crate::{records, trace};

/// Why a place cannot be written to: the cause, and what is told of it.
pub(crate) type Unwritable = (Errno, Error);

/// What is wrong with the data folder, and with the files of call records and of messages that
/// a start opens.
pub(crate) fn faults(config: &Config) -> Vec<Fault> {
    let data = can_have_data(&config.data);
    let records = config.records.path.as_deref();
    let traced = config.log.trace_pcap.as_deref();
    let looked_at = [
        ("data", Some(data)),
        (
            "records.path",
            records.map(|file| records::can_be_written(file, &config.data)),
        ),
        (
            "log.trace_pcap",
            traced.map(|file| trace::can_be_written(file, &config.data)),
        ),
    ];
    let faults = looked_at.into_iter().filter_map(|(at, found)| {
        let (_, error) = found?.err()?;
        Some(Fault {
            at: at.to_owned(),
            what: error.what().to_owned(),
            remedy: error.remedy().to_owned(),
        })
    });
    faults.collect()
}

/// Whether a server can have its data in this folder: it may be written to, or made.
fn can_have_data(path: &Path) -> Result<(), Unwritable> {
    match path.metadata() {
        Ok(meta) if meta.is_dir() => {
            refuse_writable_by_others(path, &meta).map_err(|error| (Errno::EPERM, error))?;
            may_write_to(path)
        }
        Ok(_) => {
            let error = Error::new(
                no_folder(path).what(),
                "name a folder, or a path where nothing is yet",
            );
            Err((Errno::ENOTDIR, error))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A start makes what is missing above it, too.
            let there = path.ancestors().skip(1).map(named).find(|of| of.exists());
            there.map_or(Ok(()), may_write_to)
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err((Errno::EACCES, cannot_write_to(path, Errno::EACCES)))
        }
        Err(error) => Err((
            Errno::EIO,
            Error::file("read the data folder", path, &error),
        )),
    }
}

/// Whether a file can be made in its folder, which may be the data folder that a start makes.
pub(crate) fn can_be_made(file: &Path, data: &Path) -> Result<(), Unwritable> {
    let folder = named(file.parent().unwrap_or(Path::new("")));
    match folder.metadata() {
        Ok(meta) if meta.is_dir() => may_write_to(folder),
        Err(error) if error.kind() == ErrorKind::NotFound && data.starts_with(folder) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err((Errno::EACCES, cannot_write_to(folder, Errno::EACCES)))
        }
        _ => {
            let error = Error::new(
                format!("there is no folder for {}", file.display()),
                "make the folder, for the user that the server runs as, or name another file",
            );
            Err((Errno::ENOENT, error))
        }
    }
}

/// Whether files can be made in a folder.
pub(crate) fn may_write_to(folder: &Path) -> Result<(), Unwritable> {
    may(folder, AccessFlags::W_OK | AccessFlags::X_OK)
}

/// Whether a file that is there can be read, and written to.
pub(crate) fn may_append_to(file: &Path) -> Result<(), Unwritable> {
    may(file, AccessFlags::R_OK | AccessFlags::W_OK)
}

fn may(place: &Path, what: AccessFlags) -> Result<(), Unwritable> {
    access(place, what).map_err(|cause| (cause, cannot_write_to(place, cause)))
}

fn cannot_write_to(place: &Path, cause: Errno) -> Error {
    let (user, place) = (this_user(), place.display());
    Error::new(
        format!("the server runs as {user}, who cannot write to {place}: {cause}"),
        format!(
            "type: chown {user} {place}; under systemd it must be in ReadWritePaths= of the unit as well"
        ),
    )
}

/// A folder by a name that the system takes.
fn named(folder: &Path) -> &Path {
    match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn what_a_start_could_not_open_is_found_and_nothing_is_made() {
        let temp = TempDir::new("places");
        let at = |name: &str| temp.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        let places = |data: &str, records: &str, pcap: &str| {
            let mut config = Config {
                data: at(data),
                ..Config::default()
            };
            config.records.path = Some(at(records));
            config.log.trace_pcap = Some(at(pcap));
            let faults = faults(&config);
            let told = faults.into_iter().map(|fault| {
                assert!(!fault.remedy.is_empty(), "{fault:?}");
                (fault.at, fault.what)
            });
            told.collect::<Vec<_>>()
        };
        let is_good = |data, records, pcap| places(data, records, pcap).is_empty();
        assert!(is_good("data", "calls", "trace"));
        // A start makes the data folder before it opens these.
        assert!(is_good("deep/data", "deep/data/calls", "deep/trace"));
        assert!(is_good("data", "file", "file"));
        let found = places("file", "no/calls", "no/trace");
        let is = |nth: usize, at: &str, what: &str| {
            assert_eq!(found[nth].0, at);
            assert!(found[nth].1.contains(what), "{:?}", found[nth]);
        };
        is(0, "data", "is a file, not a folder");
        is(1, "records.path", "there is no folder for ");
        is(2, "log.trace_pcap", "there is no folder for ");
        assert_eq!(found.len(), 3);
        // What is no file of messages is not moved out of the way, nor put an end to.
        for name in ["notes", "trace.1"] {
            std::fs::write(at(name), "mine").unwrap();
            let pcap = name.strip_suffix(".1").unwrap_or(name);
            let found = places("data", "calls", pcap);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].1.ends_with("no file of messages (pcapng)"));
            std::fs::remove_file(at(name)).unwrap();
        }
        let folders = places("data", "", "");
        assert_eq!(folders.len(), 2, "{folders:?}");
        let there = std::fs::read_dir(temp.path()).unwrap();
        assert_eq!(there.count(), 1);
    }
}
