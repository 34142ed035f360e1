//! Waking a thread that waits for its sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mio::{Registry, Token};

/// The worker is awake, and looks at what others gave it before it sleeps.
const AWAKE: u8 = 0;
/// It waits for its sockets, or is about to.
const ASLEEP: u8 = 1;
/// Somebody gave it something since it was last seen to be awake or asleep.
const WOKEN: u8 = 2;

/// Wakes a worker from another thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker(Arc<WakerState>);

#[derive(Debug)]
struct WakerState {
    waker: mio::Waker,
    state: AtomicU8,
}

impl Waker {
    /// Makes the worker's current or next [`crate::Net::poll`] return. The kernel is
    /// asked only where the worker may be asleep: under load it never is.
    pub fn wake(&self) {
        if self.0.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            // It fails only when the worker is gone.
            let _ = self.0.waker.wake();
        }
    }

    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        Ok(Self(Arc::new(WakerState {
            waker: mio::Waker::new(registry, token)?,
            state: AtomicU8::new(AWAKE),
        })))
    }

    /// Whether the worker may go to sleep: not where it was woken while it was awake.
    pub(crate) fn may_sleep(&self) -> bool {
        let state = &self.0.state;
        let before = state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        before != Err(WOKEN)
    }

    /// The worker is awake. Gives whether it was woken since it last was: then it must
    /// look at everything that it can be woken for.
    pub(crate) fn woke_up(&self) -> bool {
        self.0.state.swap(AWAKE, Ordering::AcqRel) == WOKEN
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll};

    use super::*;

    #[test]
    fn the_kernel_is_asked_for_who_sleeps_and_a_flag_is_enough_for_who_is_awake() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(7)).unwrap();
        let mut events = Events::with_capacity(4);
        let mut told = || {
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            events.iter().count()
        };
        waker.wake();
        assert!(!waker.may_sleep(), "what it was given waits");
        assert_eq!(told(), 0);
        assert!(waker.woke_up());
        assert!(
            waker.may_sleep() && !waker.woke_up(),
            "it was given nothing"
        );
        assert!(waker.may_sleep());
        waker.wake();
        waker.wake();
        assert_eq!(told(), 1);
        assert!(waker.woke_up());
    }
}
