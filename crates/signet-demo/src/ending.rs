//! Ctrl-C, SIGTERM and a closed terminal, so that the child is always ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// Whether the demonstration was asked to end.
pub(crate) struct Ending {
    is_asked: Arc<AtomicBool>,
}

impl Ending {
    /// Catches the signals from now on. They are caught, not blocked: a child
    /// would inherit a mask.
    pub(crate) fn watch() -> Result<Self, String> {
        let failed = |error| format!("cannot watch for Ctrl-C: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(failed)?;
        let is_asked = Arc::new(AtomicBool::new(false));
        for kind in [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ] {
            let is_asked = Arc::clone(&is_asked);
            let _in_runtime = runtime.enter();
            let mut signal = signal(kind).map_err(failed)?;
            runtime.spawn(async move {
                while signal.recv().await.is_some() {
                    is_asked.store(true, Ordering::Relaxed);
                }
            });
        }
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        Ok(Self { is_asked })
    }

    /// An error when it was.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.is_asked.load(Ordering::Relaxed) {
            Err("interrupted".to_owned())
        } else {
            Ok(())
        }
    }
}
