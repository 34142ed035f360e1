//! What several tests need.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A folder that goes away with the test.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("signet-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the log says meanwhile.
pub(crate) fn logged(work: impl FnOnce()) -> String {
    let lines = Lines::default();
    let log = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || log.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
