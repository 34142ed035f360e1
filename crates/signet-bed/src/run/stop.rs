//! SIGINT and SIGTERM: what was started is ended, and what was measured is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

/// How often a wait looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Whether a run is to end.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// Asked by either signal from now on.
    ///
    /// # Errors
    /// That the system watches for none.
    pub fn by_signals() -> Result<Self, String> {
        let stop = Self::default();
        let failed = |error: std::io::Error| format!("cannot watch for Ctrl-C: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(failed)?;
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let asked = Arc::clone(&stop.asked);
            let _in_runtime = runtime.enter();
            let mut signal = signal(kind).map_err(failed)?;
            runtime.spawn(async move {
                while signal.recv().await.is_some() {
                    asked.store(true, Ordering::Relaxed);
                }
            });
        }
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        Ok(stop)
    }

    /// Whether it was asked for.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Sleeps until then, or until the end is asked for.
    pub fn sleep_until(&self, until: Instant) {
        while !self.is_asked() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}
