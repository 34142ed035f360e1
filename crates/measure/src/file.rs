//! Files that are written whole or not at all, and read to a bound.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// So many symbolic links may lead to a file, as on Linux.
const LINKS_MAX: usize = 40;

/// Writes a file: to a temporary name beside it first, then renamed, so that nobody reads half
/// of it and what was there before stays where this one cannot be written. A symbolic link stays
/// one: the file that it leads to is written. What is there and no ordinary file, as a pipe or
/// `/dev/stdout`, is written to, and so is a file whose place no other may take. It is on the disk,
/// with its name, when this returns.
///
/// # Errors
/// As the system says; nothing is left beside it then. Where only the folder cannot be brought to
/// the disk, the new file is there all the same.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, true)
}

/// The same without waiting for the disk: for what is told anew several times a second.
///
/// # Errors
/// As [`write`].
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, false)
}

/// Whether [`write`] would find its folder, before work whose result would be lost otherwise.
/// What is there stays as it is, and no pipe is opened.
///
/// # Errors
/// Names the file, and what to do.
pub fn try_write(path: &Path) -> Result<(), String> {
    let tried = replaced(path).and_then(|replaced| match replaced {
        None => Ok(()),
        Some(file) if file.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Some(file) => {
            let temporary = temporary(&file)?;
            match create(&temporary).and_then(|_| fs::remove_file(&temporary)) {
                // It is written in its place then.
                Err(error) if is_forbidden(&error) => {
                    fs::OpenOptions::new().append(true).open(&file).map(drop)
                }
                tried => tried,
            }
        }
    });
    tried.map_err(|error| {
        format!(
            "cannot write {}: {error}: name a file in a folder that this user may write",
            path.display()
        )
    })
}

/// Reads a text of at most so many bytes. What a path names need not be a file: of a pipe or a
/// device nobody can tell before how much will come.
///
/// # Errors
/// As the system says; [`io::ErrorKind::FileTooLarge`] where there is more, and
/// [`io::ErrorKind::InvalidData`] where it is no text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let file = fs::File::open(path)?;
    let bounded = |bytes: u64| {
        if bytes > bytes_max {
            let told = format!("it has more than {bytes_max} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, told));
        }
        Ok(())
    };
    bounded(file.metadata()?.len())?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    bounded(bytes.len() as u64)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn put(path: &Path, bytes: &[u8], is_kept: bool) -> io::Result<()> {
    let keep = |file: &fs::File| if is_kept { file.sync_all() } else { Ok(()) };
    let Some(path) = replaced(path)? else {
        let mut file = fs::OpenOptions::new().append(true).open(path)?;
        return file.write_all(bytes);
    };
    let temporary = temporary(&path)?;
    let written = create(&temporary).and_then(|mut file| {
        if let Ok(before) = fs::metadata(&path) {
            file.set_permissions(before.permissions())?;
        }
        file.write_all(bytes)?;
        keep(&file)?;
        fs::rename(&temporary, &path)?;
        if is_kept {
            keep_name(&path)?;
        }
        Ok(())
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    match written {
        Err(error) if is_forbidden(&error) && path.is_file() => {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(&path)?;
            file.write_all(bytes)?;
            keep(&file)
        }
        written => written,
    }
}

/// Brings the name of a file to the disk: it is in the folder and not in the file. A folder that
/// this user may not read, or whose system cannot do that, is left as it is.
fn keep_name(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, Unsupported};
    let Ok(folder) = fs::File::open(folder_of(path)) else {
        return Ok(());
    };
    match folder.sync_all() {
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
        kept => kept,
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Makes a file; nothing that has its name already is followed.
fn create(path: &Path) -> io::Result<fs::File> {
    let _ = fs::remove_file(path);
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
}

/// Whether no other file may take the place of one: its folder forbids it, or it is mounted there.
fn is_forbidden(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy
    )
}

/// The file that is replaced, where symbolic links lead; `None` where what is there is written to.
fn replaced(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => return Ok(None),
        // A link that may not be followed is told by the system.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(next) = fs::read_link(&path) else {
            return Ok(Some(path));
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        // A file that is open, as /dev/stdout may be: another of its name would not be that one.
        if fs::canonicalize(folder).is_ok_and(|folder| folder.starts_with("/proc")) {
            return Ok(None);
        }
        path = folder.join(next);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Where a file is written before it gets its name.
fn temporary(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::other(
            "no file name; write a path such as result.json",
        ));
    };
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

/// The same of text; an error names the file.
///
/// # Errors
/// As [`write`].
pub fn write_text(path: &Path, text: &str) -> Result<(), String> {
    write(path, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The same of a value as JSON, for people to read too.
///
/// # Errors
/// As [`write`], and what JSON cannot hold.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    write_text(path, &(text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_leaves_what_was_there_and_nothing_beside_it() {
        let folder = std::env::temp_dir().join(format!("measure-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.json");
        write_json(&path, &[1, 2]).unwrap();
        let kept = "[\n  1,\n  2\n]\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), kept);
        // A folder can be neither renamed over nor written to.
        fs::create_dir(folder.join("b.json")).unwrap();
        let error = write_text(&folder.join("b.json"), "x").unwrap_err();
        assert!(error.contains("cannot write") && error.contains("b.json"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        assert!(write(Path::new("/dev/null"), b"x").is_ok());
        let full = Path::new("/dev/full");
        let error = write_text(full, "x").unwrap_err();
        assert!(error.contains("/dev/full"), "{error}");
        assert!(!fs::metadata(full).unwrap().is_file());
        assert!(write(Path::new("/"), b"x").is_err());
    }

    #[test]
    fn a_link_is_followed_and_stays_one() {
        let folder = std::env::temp_dir().join(format!("measure-link-{}", std::process::id()));
        fs::create_dir_all(folder.join("there")).unwrap();
        // A link to a link to what is not there yet, then to what is.
        let (link, next) = (folder.join("a.json"), folder.join("there/b.json"));
        std::os::unix::fs::symlink("there/b.json", &link).unwrap();
        std::os::unix::fs::symlink("c.json", &next).unwrap();
        for text in ["first", "second"] {
            try_write(&link).unwrap();
            write_text(&link, text).unwrap();
            let file = folder.join("there/c.json");
            assert!(link.is_symlink() && next.is_symlink() && !file.is_symlink());
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        // Nor does its mode change.
        let file = folder.join("there/c.json");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        fs::set_permissions(&file, mode).unwrap();
        write_text(&link, "second").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o640);
        let around = folder.join("around.json");
        std::os::unix::fs::symlink("around.json", &around).unwrap();
        assert!(write(&around, b"x").is_err() && around.is_symlink());
        // A file that is open is written to at its end, by whatever name.
        let open = fs::File::options()
            .append(true)
            .open(folder.join("there/c.json"));
        let open = open.unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&open);
        let name = format!("/proc/self/fd/{number}");
        write_text(Path::new(&name), " and third").unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "second and third");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_pipe_is_written_to_and_stays_one() {
        let folder = std::env::temp_dir().join(format!("measure-pipe-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        // Nobody reads: to look may not wait for that.
        try_write(&pipe).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write_text(&pipe, "all of it").unwrap();
        let is_file = fs::metadata(&pipe).unwrap().is_file();
        assert!(!is_file, "it was replaced");
        assert_eq!(reader.join().unwrap(), "all of it");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn no_more_is_read_than_a_bound_whatever_is_there() {
        let folder = std::env::temp_dir().join(format!("measure-read-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.json");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        let too_large = |path: &Path, bytes_max: u64| {
            let error = read_text(path, bytes_max).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
            assert!(error.to_string().contains(&bytes_max.to_string()));
        };
        too_large(&file, 4);
        // Neither a device without an end nor a pipe says how much there is.
        too_large(Path::new("/dev/zero"), 10_000);
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for (bytes_max, is_read) in [(5, true), (4, false)] {
            let writer = std::thread::spawn({
                let pipe = pipe.clone();
                move || fs::write(pipe, "12345")
            });
            assert_eq!(read_text(&pipe, bytes_max).is_ok(), is_read);
            let _ = writer.join().unwrap();
        }
        fs::write(&file, [0xff, 0xfe]).unwrap();
        let error = read_text(&file, 5).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_name_is_kept_in_whatever_folder_it_is() {
        let there = std::env::temp_dir().join("a.json");
        let folders = [
            (there.as_path(), std::env::temp_dir()),
            (Path::new("a.json"), ".".into()),
            (Path::new("/a"), "/".into()),
        ];
        for (path, folder) in folders {
            assert_eq!(folder_of(path), folder);
            keep_name(path).unwrap();
        }
        keep_name(Path::new("/nowhere/a.json")).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_before() {
        let folder = std::env::temp_dir().join(format!("measure-try-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let kept = folder.join("kept.json");
        fs::write(&kept, "of an earlier run").unwrap();
        try_write(&kept).unwrap();
        try_write(&folder.join("new.json")).unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "of an earlier run");
        for wrong in [folder.join("nowhere/a.json"), folder.clone()] {
            let error = try_write(&wrong).unwrap_err();
            assert!(error.contains("name a file in a folder"), "{error}");
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
