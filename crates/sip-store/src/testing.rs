//! A folder that goes when the test does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sip_engine::{Binding, BindingChange};

use crate::Database;

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "sip-store-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("signet.db")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn open(&self) -> Database {
        Database::open(&self.file()).expect("opens")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn binding(cseq: u32, expires_unix_ms: u64) -> Binding {
    Binding {
        uri: b"sip:alice@192.0.2.1"[..].into(),
        q: 500,
        expires_unix_ms,
        call_id: b"1j9FpLxk3uxtm8tn"[..].into(),
        cseq,
        instance: None,
        reg_id: None,
        path: Box::default(),
        flow: None,
        user_agent: Box::default(),
        node: "".into(),
        since_unix_ms: 0,
        source: None,
        is_translated: false,
        had_flow: false,
    }
}

pub(crate) fn put(aor: &str, key: &str, binding: Binding) -> BindingChange {
    BindingChange::Put {
        aor: aor.as_bytes().into(),
        key: key.as_bytes().into(),
        binding: Arc::new(binding),
    }
}

pub(crate) fn remove(aor: &str, key: &str) -> BindingChange {
    BindingChange::Remove {
        aor: aor.as_bytes().into(),
        key: key.as_bytes().into(),
    }
}
