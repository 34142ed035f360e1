//! The address of the administrative socket, however long the path of the data folder is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// The longest path that an address holds (`sun_path`), its NUL included.
const PATH_BYTES_MAX: usize = 108;

/// A path by which a socket can be bound and connected to, as long as this lives.
pub(super) struct Address {
    path: PathBuf,
    _folder: Option<File>,
}

impl Address {
    /// A path that fits is used as it is; else the folder is opened, and the path goes by that.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        let fits = socket.as_os_str().len() < PATH_BYTES_MAX;
        let (Some(folder), Some(name), false) = (socket.parent(), socket.file_name(), fits) else {
            return Ok(Self {
                path: socket.to_owned(),
                _folder: None,
            });
        };
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_PATH | OFlag::O_DIRECTORY).bits())
            .open(folder)?;
        let near = format!("/proc/self/fd/{}", folder.as_raw_fd());
        Ok(Self {
            path: Path::new(&near).join(name),
            _folder: Some(folder),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
