//! Ctrl-C: once to end in order, twice to end at once. SIGUSR1: how it stands.

use tokio::signal::unix::{SignalKind, signal};

use crate::crew::Control;

/// Passes SIGINT, SIGTERM and SIGUSR1 on from now on.
pub(crate) fn watch(control: &Control) -> Result<(), String> {
    let failed = |error| format!("cannot watch for Ctrl-C: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed)?;
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let control = control.clone();
        let _in_runtime = runtime.enter();
        let mut signal = signal(kind).map_err(failed)?;
        runtime.spawn(async move {
            while signal.recv().await.is_some() {
                control.interrupt();
            }
        });
    }
    let asked = control.clone();
    {
        let _in_runtime = runtime.enter();
        let mut signal = signal(SignalKind::user_defined1()).map_err(failed)?;
        runtime.spawn(async move {
            while signal.recv().await.is_some() {
                asked.ask();
            }
        });
    }
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    Ok(())
}
