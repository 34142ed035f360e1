//! Waking a thread that waits for its sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::{Registry, Token};

/// Wakes a worker from another thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker(Arc<WakerState>);

#[derive(Debug)]
struct WakerState {
    waker: mio::Waker,
    /// Whether it was woken since it last woke up: then once is enough.
    woken: AtomicBool,
}

impl Waker {
    /// Makes the worker's current or next [`crate::Net::poll`] return.
    pub fn wake(&self) {
        if !self.0.woken.swap(true, Ordering::AcqRel) {
            // It fails only when the worker is gone.
            let _ = self.0.waker.wake();
        }
    }

    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let waker = mio::Waker::new(registry, token)?;
        Ok(Self(Arc::new(WakerState {
            waker,
            woken: AtomicBool::new(false),
        })))
    }

    /// The worker is awake and looks at everything that it was woken for.
    pub(crate) fn woken(&self) {
        if self.0.woken.load(Ordering::Relaxed) {
            self.0.woken.swap(false, Ordering::AcqRel);
        }
    }
}
