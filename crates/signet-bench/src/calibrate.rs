//! How fast the machine is at this moment, on the core of the servers.

use crate::process::SERVER_CORE;

pub(crate) use signet_bed::calibrate::{Speed, run};

/// Runs the loops on the server's core, in a process of their own.
pub(crate) fn measure() -> Result<Speed, String> {
    signet_bed::calibrate::measure(SERVER_CORE, &["calibrate"])
}
