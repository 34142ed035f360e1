//! What the service manager is told, where one has asked for it: sd_notify(3). Without
//! `NOTIFY_SOCKET` in the environment nothing is said to anybody.

use std::time::Duration;

use sd_notify::NotifyState;

/// All listeners are bound and all workers run.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// The configuration is read again; [`ready`] ends it.
pub(crate) fn reloading() {
    // Since systemd 253 it is told from an older reload by the time.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The server ends once nothing is under way, and within this time. The manager waits as long
/// before it kills, whatever it was configured to.
pub(crate) fn stopping(within: Duration) {
    let within_us = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    tell(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(within_us),
        NotifyState::Status("draining: new calls are refused"),
    ]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("the service manager cannot be told of the server's state: {error}");
    }
}
