//! What the service manager is told, where one has asked for it: sd_notify(3). Without
//! `NOTIFY_SOCKET` in the environment nothing is said to anybody.

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

/// The server ends once nothing is under way.
pub(crate) fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("draining: new calls are refused"),
    ]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("the service manager cannot be told of the server's state: {error}");
    }
}
